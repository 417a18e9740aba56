package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const rootHelp = `approvalbot holds tool calls of AI agents until the right people agree, and lets
each run at most once, exactly as shown.

Commands that talk to a server read its address and your key from the
environment, never from flags:

  APPROVALBOT_URL          http://127.0.0.1:8080 if not set
  APPROVALBOT_TOKEN        a bearer of "approvalbot keys new"
  APPROVALBOT_TOKEN_FILE   a file that holds it, instead
  NO_COLOR                 no colours

Exit codes: 0 it worked; 2 any failure, a mistyped command included, so that no
agent host takes one for "go on". "wait" and "request --wait" say more: 75 nobody
decided in time, 77 denied, 69 service unreachable, 78 no address or key, or one
the service does not take, 70 internal error.`

const rootExample = `  approvalbot demo
  approvalbot serve --config approvalbot.yaml
  approvalbot pending
  approvalbot approve 4F9K2M`

// The groups of the help text, in the order of a first week.
const (
	groupServer = "server"
	groupPeople = "people"
	groupAgents = "agents"
	groupSetup  = "setup"
)

// newRoot builds the whole command tree for one process.
func newRoot(p process) *cobra.Command {
	root := group("approvalbot", "hold tool calls of AI agents until people agree")
	root.Long, root.Example = rootHelp, rootExample
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringP("output", "o", "text", "text or json")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if o := cmd.Flag("output").Value.String(); o != "text" && o != "json" {
			return fmt.Errorf("--output: %q is unknown; want text or json", o)
		}
		return nil
	}
	for _, g := range [][2]string{
		{groupServer, "Run it:"}, {groupPeople, "Decide:"}, {groupAgents, "Ask and run, from a shell or a pipeline:"}, {groupSetup, "Set it up:"},
	} {
		root.AddGroup(&cobra.Group{ID: g[0], Title: g[1]})
	}
	add(root, groupServer, newDemo(p), newServe(p))
	add(root, groupPeople, newPending(p), newShow(p), newApprove(p), newDeny(p), newGrants(p))
	add(root, groupAgents, newRequest(p), newWait(p), newAnswer(p), newWorker(p))
	add(root, groupSetup, newKeys(p), newPolicy(p), newConfig(p), newDoctor(p), newStore(p), newVersion(p), newCompletion(p))
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID(groupSetup)
	root.SetArgs(p.args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return root
}

func add(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
		root.AddCommand(c)
	}
}

// group is a command that only has others. Cobra would answer a mistyped one
// below it with the help text and exit 0.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, SuggestionsMinimumDistance: 2}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return &exitError{exitBlock, fmt.Errorf("want a command")}
	}
	c.AddCommand(commands...)
	return c
}

func unknown(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q; see %s --help", name, cmd.CommandPath())
}

// newHelp is cobra's help command, with a failure for what does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "show the help of a command", Example: "  approvalbot help policy check",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknown(cmp.Or(found, cmd.Root()), args[len(args)-max(len(rest), 1)])
			}
			return found.Help()
		},
	}
}

// asJSON reports whether the caller wants JSON.
func asJSON(cmd *cobra.Command) bool { return cmd.Flag("output").Value.String() == "json" }
