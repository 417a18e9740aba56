package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Desk is what commands ask of the gate.
type Desk interface {
	Get(ctx context.Context, p gate.Principal, id gate.ID) (gate.View, error)
	List(ctx context.Context, p gate.Principal, q gate.Query) (gate.Page, error)
	Shown(s *gate.Snapshot) (args json.RawMessage, covered bool)
	Policy() *gate.Policy
	AnswerAs(ctx context.Context, v gate.Voter, id gate.ID, text string) error
	Revoke(ctx context.Context, id gate.ID, v gate.Voter, why string) (gate.Tally, error)
	Grants(ctx context.Context, p gate.Principal) ([]gate.Grant, error)
	MayRevokeGrant(ctx context.Context, v gate.Voter, g *gate.Grant) error
	RevokeGrantAs(ctx context.Context, v gate.Voter, id string) error
	Refused(p gate.Principal, what string)
}

// Commands answers what people type in chats. What a person sees in an answer is
// what they may see; what they press in it is judged as every press.
type Commands struct {
	Gate   Desk
	Clicks *Clicks           // for presses on private cards, which Clicks.Private draws
	Notes  map[string]string // what help says of a chat, by the surface of its voters
	Log    *slog.Logger

	// By surface too, where there is one. Stored is of chats in which nothing can be
	// pressed that one person alone is shown: it shows them a card of their own that
	// can be, and says where. Links says where a card is, if it is anywhere.
	Stored map[string]func(ctx context.Context, id gate.ID, who gate.Voter) (link string, err error)
	Links  map[string]func(ctx context.Context, id gate.ID) (link string)
}

// commandName is what people type; every chat has it under this name.
const commandName = "/approvals"

// Bounds of one command.
const (
	commandTimeout = 10 * time.Second
	maxCommand     = gate.MaxAnswer + 200 // characters
	maxEcho        = 40                   // characters of what was typed that are repeated
)

// inquiry is one command of one person.
type inquiry struct {
	*Commands
	voter gate.Voter
	look  *gate.Onlooker
}

// verb is a subcommand.
type verb struct {
	name, usage, does string
	also              []string // what people type for it
	run               func(q *inquiry, ctx context.Context, rest string) channels.Answer
}

func verbs() []verb {
	return []verb{
		{"pending", "pending [mine] [tool=glob] [rule=name] [key=name] [page N]", "what waits for people, yours first", []string{"list", "ls", "inbox", "queue"}, (*inquiry).pending},
		{"show", "show ID", "one call in full, with its buttons", []string{"get", "view", "open"}, seeing("")},
		{"approve", "approve ID", "the same; nothing is decided before you press", []string{"yes", "ok", "accept", "allow"}, seeing(gate.Approve)},
		{"deny", "deny ID", "the same; nothing is decided before you press", []string{"no", "reject", "refuse"}, seeing(gate.Deny)},
		{"answer", "answer ID text", "answer a question about a call of yours", []string{"reply"}, (*inquiry).answer},
		{"history", "history [tool=glob] [rule=name] [key=name] [page N]", "what has ended, the newest first", []string{"log", "done"}, (*inquiry).history},
		{"grants", "grants [page N]", "standing permissions", []string{"permissions"}, (*inquiry).grants},
		{"revoke", "revoke ID [why]", "take back an approval that has not run, or a grant", []string{"cancel", "undo", "remove"}, (*inquiry).revoke},
		{"help", "help", "this", []string{"?", "h"}, (*inquiry).help},
	}
}

// Run answers a command. It decides nothing that was not seen: approve and deny
// show the call with its buttons.
func (c *Commands) Run(ctx context.Context, cmd channels.Command) channels.Answer {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	q := &inquiry{Commands: c, voter: cmd.Voter, look: c.Gate.Policy().Onlooker(cmd.Voter)}
	name, rest := word(cmd.Text)
	name = strings.ToLower(name)
	if err := q.look.Welcome(ctx); err != nil {
		c.Gate.Refused(gate.Principal{Key: cmd.Voter.ID}, "command: not for this account")
		return says(gate.PublicText(err))
	}
	if utf8.RuneCountInString(cmd.Text) > maxCommand {
		return says(fmt.Sprintf("That is too long: want at most %d characters.", maxCommand))
	}
	if name == "" || strings.Contains(name, "=") || name == "mine" || name == "page" {
		name, rest = "pending", cmd.Text // filters alone
	}
	for _, v := range verbs() {
		if v.name == name {
			c.Log.InfoContext(ctx, "command", "command", v.name, "by", cmd.Voter.ID, "place", cmd.Place)
			return v.run(q, ctx, rest)
		}
	}
	return unknown(name)
}

// word takes the first word off a text.
func word(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	if i := strings.IndexFunc(text, isSpace); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\r\n\u00a0", r) }

func says(lines ...string) channels.Answer { return channels.Answer{Lines: lines} }

// echo is what somebody typed, as it is repeated to them.
func echo(text string) string {
	text, _ = gate.Cut(gate.Visible(text), maxEcho)
	return `"` + text + `"`
}

func unknown(name string) channels.Answer {
	near, text := suggestions(name), fmt.Sprintf("There is no command %s.", echo(name))
	a := channels.Answer{Buttons: []channels.Button{{Label: "Help", Command: "help"}}}
	if len(near) > 0 {
		text += fmt.Sprintf(" Did you mean %s?", strings.Join(near, " or "))
		if near[0] == "pending" || near[0] == "history" || near[0] == "grants" {
			a.Buttons = append([]channels.Button{{Label: strings.ToUpper(near[0][:1]) + near[0][1:], Command: near[0]}}, a.Buttons...)
		}
	}
	a.Lines = []string{text}
	return a
}

// suggestions are the commands that a mistyped one is near to, by the rule of the
// command line.
func suggestions(typed string) []string {
	root := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, v := range verbs() {
		root.AddCommand(&cobra.Command{Use: v.name, SuggestFor: v.also, Run: func(*cobra.Command, []string) {}})
	}
	return root.SuggestionsFor(typed)
}

func (q *inquiry) help(context.Context, string) channels.Answer {
	lines := []string{"What you can type:"}
	for _, v := range verbs() {
		lines = append(lines, fmt.Sprintf("%s %s: %s", commandName, v.usage, v.does))
	}
	lines = append(
		lines,
		"An ID may be cut to its end or beginning. Answers are for you alone. Nothing you type approves or denies a call: you press a button below it.",
		"Ordinary messages are never read.",
	)
	if note := q.Notes[q.voter.Surface]; note != "" {
		lines = append(lines, note)
	}
	return channels.Answer{Lines: lines, Buttons: []channels.Button{{Label: "Pending", Command: "pending"}}}
}

// unread says that something could not be looked up.
func (q *inquiry) unread(ctx context.Context, err error) channels.Answer {
	return q.failed(ctx, err, "Could not reach the store. Try again in a moment.")
}

// undone says why something was not done. The store may not know whether it was.
func (q *inquiry) undone(ctx context.Context, err error) channels.Answer {
	return q.failed(ctx, err, "Could not reach the store. Look whether it was done before you try again.")
}

func (q *inquiry) failed(ctx context.Context, err error, away string) channels.Answer {
	q.Log.InfoContext(ctx, "command refused", "by", q.voter.ID, "reason", string(gate.ReasonOf(err)), "err", err)
	switch kind := gate.KindOf(err); {
	case kind == gate.Unavailable && gate.ReasonOf(err) == gate.ReasonStoreUnavailable:
		return says(away)
	case kind == gate.Internal:
		return says("That went wrong. Try again in a moment.")
	}
	return says(gate.PublicText(err))
}
