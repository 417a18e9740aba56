package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// callFlags are the flags that describe a call, and who asks.
type callFlags struct {
	server, tool, target, args string
	agent, session, person     string
	attended, deferred         bool
}

func (f *callFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "where the tool lives")
	flags.StringVar(&f.tool, "tool", "", "name of the tool (required)")
	flags.StringVar(&f.target, "target", "", "what the call acts on")
	flags.StringVar(&f.args, "args", "", "arguments: one JSON object, @file, or - for standard input")
	flags.StringVar(&f.agent, "agent", "", "name of who asks, for display")
	flags.StringVar(&f.session, "session", "", "session of the caller; grants and bypasses go by it")
	flags.StringVar(&f.person, "person", "", "on whose behalf, if your key may assert it")
	flags.BoolVar(&f.deferred, "deferred", false, "stage the call instead of waiting for it")
	_ = cmd.MarkFlagRequired("tool")
}

// call reads the call; its arguments stay byte for byte as they came.
func (f *callFlags) call(in io.Reader) (gate.Call, error) {
	args, err := readArgs(f.args, in)
	if err != nil {
		return gate.Call{}, err
	}
	c := gate.Call{Server: f.server, Tool: f.tool, Target: f.target, Args: args}
	if _, err := c.Digest(); err != nil {
		return gate.Call{}, errors.New(gate.PublicText(err))
	}
	return c, nil
}

// wired is a call as JSON for the API.
func wired(c gate.Call) wire.Call {
	return wire.Call{Server: c.Server, Tool: c.Tool, Target: c.Target, Args: c.Args}
}

func (f *callFlags) mode() gate.Mode {
	if f.deferred {
		return gate.Deferred
	}
	return ""
}

func readArgs(text string, in io.Reader) (json.RawMessage, error) {
	name, isFile := strings.CutPrefix(text, "@")
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		return readLimited(in, "standard input")
	case isFile:
		f, err := os.Open(name) //nolint:gosec // the file that the caller names
		if err != nil {
			return nil, fmt.Errorf("--args: %w", err)
		}
		defer func() { _ = f.Close() }()
		return readLimited(f, name)
	}
	return json.RawMessage(text), nil
}

func readLimited(r io.Reader, name string) (json.RawMessage, error) {
	b, err := io.ReadAll(io.LimitReader(r, gate.MaxArgs+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--args: %s: %w", name, err)
	case len(b) > gate.MaxArgs:
		return nil, fmt.Errorf("--args: %s holds more than %d bytes", name, gate.MaxArgs)
	}
	return b, nil
}
