package mattermost

import "github.com/approvalbot/approvalbot/channels"

// Drawn draws an answer.
func Drawn(a channels.Answer) commandAnswer { return answer(&a) }
