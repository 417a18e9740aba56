package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// CommandNote is what people must know of commands in Slack.
const CommandNote = "In a thread of Slack no command works: press the buttons of the card there, or type the command in the channel."

// Commands receives what people type behind the app's slash command, and presses
// of the buttons in its answers. Slack wants to be answered within three seconds,
// so what they ask for is done behind that, and shown to them alone.
type Commands struct {
	Slack         *Slack
	Run           channels.CommandFunc
	Home          bool // people find what waits for them on the app's Home tab
	SigningSecret secret.String
	Log           *slog.Logger

	work sync.WaitGroup
}

// typed is the little of a command that is needed. The names of its user and its
// conversation are none of it: people can choose them.
type typed struct {
	App     string `json:"api_app_id"`
	User    string `json:"user_id"`
	Channel string `json:"channel_id"`
	Text    string `json:"text"`
	Reply   string `json:"response_url"`
}

// ServeHTTP is the request URL of the command in an app that does not use Socket
// Mode. Whoever typed something wrong is told so in the answer: another status
// than 200 only says that something failed.
func (c *Commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := signed(w, r, c.SigningSecret)
	if err != nil {
		c.Log.WarnContext(r.Context(), "a request that Slack did not sign", "err", err)
		http.Error(w, "not signed by Slack", http.StatusUnauthorized)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err == nil && form.Get("ssl_check") == "1" {
		return // it only looks at our certificate
	}
	in, ok := fromForm(form)
	if err != nil || !ok {
		http.Error(w, "want one of each field", http.StatusBadRequest)
		return
	}
	if err := c.take(r.Context(), in); err != nil {
		c.Log.WarnContext(r.Context(), "a command that is not for this app", "err", err)
		http.Error(w, "not for this app", http.StatusForbidden)
	}
}

// fromForm reads a command; ok is false if a field is there twice.
func fromForm(form url.Values) (in typed, ok bool) {
	for name, field := range map[string]*string{
		"api_app_id": &in.App, "user_id": &in.User, "channel_id": &in.Channel, "text": &in.Text, "response_url": &in.Reply,
	} {
		if len(form[name]) > 1 {
			return typed{}, false
		}
		*field = form.Get(name)
	}
	return in, true
}

// Receive takes one command from a socket. It returns soon; an error is about a
// payload that is none of ours.
func (c *Commands) Receive(ctx context.Context, payload []byte) error {
	var in typed
	if err := json.Unmarshal(payload, &in); err != nil {
		return errors.New("payload: not JSON as Slack writes it")
	}
	return c.take(ctx, in)
}

func (c *Commands) take(ctx context.Context, in typed) error {
	if !c.Slack.ours(in.User, in.App) {
		return errNotOurs
	}
	at := spot{user: in.User, reply: in.Reply, channel: in.Channel}
	c.behind(ctx, in.App, at, func(ctx context.Context, v gate.Voter) channels.Answer {
		return c.Run(ctx, channels.Command{Voter: v, Text: unescape(in.Text), Place: name + ":" + in.Channel})
	})
	return nil
}

// pressed runs the command of a button in an answer, which takes the answer's
// place.
func (c *Commands) pressed(ctx context.Context, in *interaction, text string) {
	c.behind(ctx, in.App, in.at, func(ctx context.Context, v gate.Voter) channels.Answer {
		return c.Run(ctx, channels.Command{Voter: v, Text: text, Place: name + ":" + in.at.channel})
	})
}

// behind runs a command when Slack has its answer, and shows what comes of it. At
// the address of a command there is nothing that it could take the place of.
func (c *Commands) behind(ctx context.Context, app string, at spot, run func(context.Context, gate.Voter) channels.Answer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decideWithin)
	c.work.Go(func() {
		defer cancel()
		answer := channels.Answer{Lines: []string{"Could not look up who you are. Nothing was done; try again."}, Beside: true}
		voter, err := c.Slack.known(ctx, at.user, app)
		if err != nil {
			c.Log.WarnContext(ctx, "who typed a command could not be looked up", "user", at.user, "err", err)
		} else {
			answer = run(ctx, voter)
		}
		if err := c.Slack.show(ctx, at, answer, !answer.Beside); err != nil {
			c.Log.WarnContext(ctx, "who typed a command could not be told", "user", at.user, "err", err)
		}
	})
}

// Wait returns when all that was typed has been answered.
func (c *Commands) Wait() { c.work.Wait() }

// What Slack makes of a command's text where should_escape is on: <@U1|ann>,
// <#C1|ops>, <!here>, <https://example.com|example.com>; the three characters
// that make them are escaped.
var (
	mention = regexp.MustCompile(`<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>`)
	plainly = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// unescape returns what somebody typed.
func unescape(text string) string {
	text = mention.ReplaceAllStringFunc(text, func(all string) string {
		m := mention.FindStringSubmatch(all)
		kind, id, label := m[1], m[2], m[3]
		switch {
		case kind == "" && strings.HasSuffix(id, label): // example.com of https://example.com
			if label != "" {
				return label
			}
			return id
		case kind == "":
			return id
		case label == "":
			label = id
		}
		if kind == "!" {
			kind = "@"
		}
		return kind + strings.TrimPrefix(label, kind)
	})
	return plainly.Replace(text)
}
