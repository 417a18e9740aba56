package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/channels/slack/slacktest"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// lab is a config file that was read, and what was made of it. In its text a
// line "@people" stands for the keys of newHome, and {redis} for the address of
// a server that only listens.
type lab struct {
	*home
	cfg      *config.Loaded // nil: refused
	problems string

	redis *listener
	slack *slacktest.Slack
	svc   *service
	web   http.Handler

	mattermost *mattermosttest.Server
	front      string // where Mattermost reaches the server

	hook *mailroom
}

func newLab(t *testing.T, text string) *lab {
	t.Helper()
	l := &lab{home: newHome(t)}
	if strings.Contains(text, "{redis}") {
		l.redis = listen(t, l.home)
		text = strings.ReplaceAll(text, "{redis}", l.redis.addr)
	}
	if strings.Contains(text, "{slack}") || strings.Contains(text, "slack: {") {
		l.slack = newWorkspace(t, slacktest.Config{})
		text = strings.ReplaceAll(text, "{slack}", l.slack.URL())
	}
	if strings.Contains(text, "{mattermost}") {
		l.mattermost = newMattermost(t, mattermosttest.Config{Licensed: true, RequireEmailVerification: true})
		l.mattermost.AddChannel(mattermosttest.Channel{ID: mattermosttest.NewID(), Name: "empty", Members: []string{mattermosttest.BotUser}})
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.web.ServeHTTP(w, r) }))
		t.Cleanup(front.Close)
		l.front = front.URL
		text = strings.NewReplacer("{mattermost}", l.mattermost.URL(), "{callback}", front.URL).Replace(text)
	}
	if strings.Contains(text, "executors: ") {
		text = l.receivers(text)
	}
	if strings.Contains(text, "mcp: {") {
		text = l.mcpServers(text)
	}
	if strings.Contains(text, "{hook}") {
		l.hook = newMailroom(t)
		text = strings.ReplaceAll(text, "{hook}", l.hook.URL)
	}
	secrets := map[string]string{
		"MM": mattermosttest.BotToken, "OTHERMM": "k1other0000000000000000000", "MMCOMMAND": mmCommand,
		"BOT": slacktest.BotToken, "APP": slacktest.AppToken, "SIGNING": slacktest.SigningSecret, "OTHERBOT": "xoxb-other",
	}
	for file, name := range map[string]string{
		"mm-token": "MM", "mm-other": "OTHERMM", "mm-command": "MMCOMMAND",
		"bot-token": "BOT", "app-token": "APP", "signing": "SIGNING", "other-token": "OTHERBOT",
	} {
		l.write(file, secrets[name])
	}
	l.write("other.key", strings.Repeat("0", gate.MinServerKey))
	l.write("password", "hunter2")
	l.write("whsec-a", whsec("a"))
	l.write("whsec-b", whsec("b"))
	l.write("approvalbot.yaml", strings.ReplaceAll(text, "@people", people))
	cfg, problems := config.Load(l.path("approvalbot.yaml"), func(name string) string {
		return cmp.Or(secrets[name], "a secret from the environment: "+name)
	})
	l.cfg = cfg
	for _, p := range problems {
		l.problems += p.String() + "\n"
	}
	return l
}

// gate is the gate of the config file, on memory.
func (l *lab) gate() *gate.Gate {
	l.t.Helper()
	if l.cfg == nil {
		l.t.Fatal(l.problems)
	}
	svc, err := l.try()
	if err != nil {
		l.t.Fatal(err)
	}
	return svc.gate
}

// try puts the parts of the config file together, unless something forbids it.
func (l *lab) try() (*service, error) {
	l.t.Helper()
	if l.svc != nil {
		return l.svc, nil
	}
	log := slog.New(slog.DiscardHandler)
	st, err := openStore(l.t.Context(), l.cfg, "memory", log)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { closing(log, st) })
	svc, err := assemble(l.t.Context(), l.cfg, st, "lab", nil, log)
	if err != nil {
		return nil, err
	}
	svc.gate.Beat(l.t.Context(), "lab")
	l.svc, l.web = svc, svc.handler
	return svc, nil
}

// runs runs the parts beside the gate until the test ends; Slack sends to it.
func (l *lab) runs() {
	l.t.Helper()
	l.gate()
	ctx, cancel := context.WithCancel(l.t.Context())
	var parts sync.WaitGroup
	for _, p := range l.svc.parts {
		parts.Go(func() { _ = p.run(ctx) })
	}
	l.t.Cleanup(func() { cancel(); parts.Wait(); l.svc.drained() })
	if l.cfg.Slack != nil && l.cfg.Channels.Slack.SigningSecret.Set() {
		web := httptest.NewServer(l.web)
		l.t.Cleanup(web.Close)
		l.slack.SendTo(slacktest.URLs{Interactions: web.URL + "/slack/interactions", Commands: web.URL + "/slack/commands", Events: web.URL + "/slack/events"})
	}
}

// principal is the holder of a key.
func (l *lab) principal(name string) gate.Principal {
	l.t.Helper()
	k, ok := l.cfg.APIKeys.Authenticate(l.keys[name].Reveal())
	if !ok {
		l.t.Fatalf("key of %s is not known", name)
	}
	return k.Principal
}

// ask has the agent ask about a call while somebody waits.
func (l *lab) ask(tool string) gate.Ruling {
	l.t.Helper()
	return l.askAs(gate.Requester{Key: "hermes", Session: "s1", Attended: true}, tool)
}

func (l *lab) askAs(who gate.Requester, tool string) gate.Ruling {
	l.t.Helper()
	r, err := l.gate().Check(l.t.Context(), gate.Request{
		Call:      gate.Call{Server: "here", Tool: tool, Args: json.RawMessage(`{"env":"prod","token":"abc"}`)},
		Requester: who,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// vote has somebody decide on an approval, and tells the state or the refusal.
func (l *lab) vote(a *gate.Snapshot, name string, choice gate.Choice, scope gate.Scope) string {
	l.t.Helper()
	t, err := l.gate().Decide(l.t.Context(), gate.Decision{ID: a.ID, Voter: l.principal(name).Voter("api"), Choice: choice, Scope: scope, Digest: a.Digest})
	if err != nil {
		return string(gate.ReasonOf(err))
	}
	return string(t.Approval.State)
}

// asked is an approval of the call "x".
func (l *lab) asked() *gate.Snapshot {
	l.t.Helper()
	r := l.ask("x")
	if r.Approval == nil {
		l.t.Fatalf("not asked: %+v", r)
	}
	return r.Approval
}

// What rows look at.

func ruling(tool string) func(*lab) string {
	return func(l *lab) string {
		r := l.ask(tool)
		if r.Approval == nil {
			return fmt.Sprintf("%s %s", r.Verdict, r.Reason)
		}
		return fmt.Sprintf("%s %s by %s", r.Verdict, r.Approval.Approval.Mode, r.Approval.Rule)
	}
}

func loaded(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	return "taken"
}

func approvedBy(names ...string) func(*lab) string {
	return func(l *lab) string {
		a := l.asked()
		got := ""
		for _, name := range names {
			got = l.vote(a, name, gate.Approve, gate.Once)
		}
		return got
	}
}

// cookie is what the console sets for who logs in.
func cookie(l *lab) string {
	l.gate()
	form := url.Values{"key": {l.keys["ann"].Reveal()}}
	req := httptest.NewRequestWithContext(l.t.Context(), http.MethodPost, "/console/login", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	l.web.ServeHTTP(w, req)
	return w.Header().Get("Set-Cookie")
}
