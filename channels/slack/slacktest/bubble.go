package slacktest

import "github.com/approvalbot/approvalbot/channels/channeltest/double"

// Pipes is a network without a machine.
type Pipes = double.Pipes

// NewPipes makes a network for [Config.Listener].
func NewPipes() *Pipes { return double.NewPipes() }

// Clock stands still until it is told to go on.
type Clock = double.Clock

// NewClock makes a clock for [Config.Now].
func NewClock() *Clock { return double.NewClock() }
