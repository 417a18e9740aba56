package console_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/gate"
)

// broken is an inbox of which a test replaces single answers.
type broken struct {
	console.Inbox
	list   func(gate.Query) gate.Query
	get    func(gate.View) gate.View
	decide func(gate.Decision) error
	settle func(id gate.ID, v gate.Voter, s gate.State, note string) error
}

func (b *broken) List(ctx context.Context, p gate.Principal, q gate.Query) (gate.Page, error) {
	if b.list != nil {
		q = b.list(q)
	}
	return b.Inbox.List(ctx, p, q)
}

func (b *broken) Get(ctx context.Context, p gate.Principal, id gate.ID) (gate.View, error) {
	v, err := b.Inbox.Get(ctx, p, id)
	if b.get != nil {
		v = b.get(v)
	}
	return v, err
}

func (b *broken) Decide(ctx context.Context, d gate.Decision) (gate.Tally, error) {
	if b.decide != nil {
		return gate.Tally{}, b.decide(d)
	}
	return b.Inbox.Decide(ctx, d)
}

func (b *broken) Settle(ctx context.Context, id gate.ID, v gate.Voter, s gate.State, note string) error {
	if b.settle != nil {
		return b.settle(id, v, s, note)
	}
	return b.Inbox.Settle(ctx, id, v, s, note)
}

// breaks makes a house whose inbox is b.
func breaks(t *testing.T, b *broken) *house {
	t.Helper()
	return newHouse(t, func(c *console.Config) { b.Inbox, c.Inbox = c.Inbox, b })
}

func TestPress(t *testing.T) {
	t.Parallel()

	type world struct {
		tool, who string
		before    func(*house, gate.ID)
		press     []string
		status    int
		want      string
		state     gate.State
	}
	const ok = http.StatusOK
	for name, tt := range map[string]world{
		"an approval is recorded":                         {tool: "send_email", press: []string{"do", "approve"}, status: ok, want: "Recorded. Approved by ann, waiting to run until", state: gate.Approved},
		"the first of two approvals waits for the second": {tool: "kubectl_delete", press: []string{"do", "approve"}, status: ok, want: "Recorded (1 of 2).", state: gate.Pending},
		"a denial is recorded with its reason":            {tool: "send_email", press: []string{"do", "deny", "text", "not today"}, status: ok, want: `Recorded. Denied by ann`, state: gate.Denied},
		"a denial that lacks a required reason says so":   {tool: "db_drop", press: []string{"do", "deny"}, status: 422, want: "this rule wants a reason", state: gate.Pending},
		"a question keeps the call held":                  {tool: "send_email", press: []string{"do", "ask", "text", "why?"}, status: ok, want: "Asked. The call stays held", state: gate.Pending},
		"an empty question is refused":                    {tool: "send_email", press: []string{"do", "ask"}, status: 422, want: "Write the question", state: gate.Pending},
		"high risk without its confirmation is refused":   {tool: "db_drop", press: []string{"do", "approve"}, status: 422, want: "Confirm first: I have read the arguments", state: gate.Pending},
		"high risk with its confirmation counts":          {tool: "db_drop", press: []string{"do", "approve", "confirm", "yes"}, status: ok, want: "Recorded. Approved", state: gate.Approved},
		"a scope that the rule does not allow is refused": {tool: "send_email", press: []string{"do", "approve", "scope", "always"}, status: 403, want: "does not allow", state: gate.Pending},
		"the digest of another call is refused":           {tool: "send_email", press: []string{"do", "approve", "digest", strings.Repeat("ab", 32)}, status: 409, want: "not the call you were shown", state: gate.Pending},
		"a refused press keeps the reason that was typed": {tool: "send_email", press: []string{"do", "deny", "text", "wrong cluster", "digest", strings.Repeat("ab", 32)}, status: 409, want: "not the call you were shown", state: gate.Pending},
		"also where there is no form for it any more":     {tool: "send_email", before: voted("bo", gate.Deny), press: []string{"do", "deny", "text", "wrong cluster"}, status: 409, want: "bo already denied this at", state: gate.Denied},
		"no digest is refused":                            {tool: "send_email", press: []string{"do", "approve", "digest", ""}, status: 422, want: "digest", state: gate.Pending},
		"no button is refused":                            {tool: "send_email", press: nil, status: 422, want: "press a button", state: gate.Pending},
		"an unknown button is refused":                    {tool: "send_email", press: []string{"do", "execute"}, status: 422, want: "press a button", state: gate.Pending},
		"somebody outside the group is refused":           {tool: "rotate_key", press: []string{"do", "approve"}, status: 403, want: "You are not in owners", state: gate.Pending},
		"whoever asked cannot approve":                    {tool: "send_email", who: "dora", press: []string{"do", "approve"}, status: 403, want: "You asked for this call", state: gate.Pending},
		"who comes second is told who was first":          {tool: "send_email", before: voted("bo", gate.Approve), press: []string{"do", "approve"}, status: 409, want: "bo already approved this at", state: gate.Approved},
		"who approves after a denial is told":             {tool: "send_email", before: voted("bo", gate.Deny), press: []string{"do", "approve"}, status: 409, want: "bo already denied this at", state: gate.Denied},
		"a second approval by the same person is told so": {tool: "kubectl_x", before: voted("ann", gate.Approve), press: []string{"do", "approve"}, status: 409, want: "You already approved this; others must too.", state: gate.Pending},
		"an approval that has not run is taken back":      {tool: "send_email", before: voted("bo", gate.Approve), press: []string{"do", "revoke", "text", "oops"}, status: ok, want: "Recorded. Taken back by ann", state: gate.Revoked},
		"what is not approved cannot be taken back":       {tool: "send_email", press: []string{"do", "revoke"}, status: 409, want: "deny it instead", state: gate.Pending},
		"what has not run cannot be settled":              {tool: "send_email", press: []string{"do", "ran"}, status: 409, want: "not decided yet", state: gate.Pending},
		"a reason is cleaned and reaches the agent":       {tool: "send_email", press: []string{"do", "deny", "text", "no\u202e\x00 <b>way</b>"}, status: ok, want: `Denied by ann`, state: gate.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h := newHouse(t)
			r := request(tt.tool, "target", `{}`)
			if tt.who == "dora" {
				r.Requester.Person = "ann"
			}
			id := h.ask(r).Approval.ID
			ann := h.as("ann-cli")
			opened := ann.get(page(id)) // before the others
			if tt.before != nil {
				tt.before(h, id)
			}
			form := opened.form()
			if tt.who == "dora" || tt.tool == "rotate_key" { // no form is offered; somebody sends one anyway
				form.Set("digest", h.view(id).Digest.String())
			}
			for i := 0; i < len(tt.press); i += 2 {
				form.Set(tt.press[i], tt.press[i+1])
			}
			got := ann.post(page(id), form)
			if got.status != tt.status || !strings.Contains(got.text, tt.want) || got.path != page(id) {
				t.Errorf("%d at %s, want %d and %q in:\n%s", got.status, got.path, tt.status, tt.want, got.text)
			}
			v := h.view(id)
			if v.State != tt.state {
				t.Errorf("state %s, want %s", v.State, tt.state)
			}
			if typed := form.Get("text"); got.status != ok && typed != "" && !strings.Contains(got.text+got.body, typed) {
				t.Errorf("what was typed is lost: %s", got.text)
			}
			if again := ann.get(page(id)); got.status == ok && strings.Contains(again.text, tt.want+" ") && strings.Contains(again.body, `note done`) {
				t.Error("the line shows twice")
			}
		})
	}
}

func voted(who string, c gate.Choice) func(*house, gate.ID) {
	return func(h *house, id gate.ID) { h.vote(who, id, c, "") }
}

func TestTheSamePressCountsOnce(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("kubectl_delete", "pod", `{}`)
	ann := h.as("ann-cli")
	form := ann.get(page(id)).form("do", "approve")
	for range 2 {
		if got := ann.post(page(id), form); !strings.Contains(got.text, "Recorded (1 of 2).") {
			t.Errorf("%d %s", got.status, got.text)
		}
	}
	if got := h.view(id); len(got.Votes) != 1 {
		t.Errorf("%d votes", len(got.Votes))
	}
	if a, b := ann.get(page(id)).form().Get("nonce"), ann.get(page(id)).form().Get("nonce"); a == b || a == form.Get("nonce") {
		t.Error("two pages carry the same nonce")
	}
}

func TestAVoteSaysWhereItCameFrom(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("send_email", "", `{}`)
	h.as("ann-cli").press(id, "do", "approve")
	got := h.view(id).Votes[0].Voter
	if want := (gate.Voter{ID: "key:ann-cli", Name: "ann", Person: "ann", Surface: "console", Login: "key"}); got != want {
		t.Errorf("voter %+v, want %+v", got, want)
	}
}

func TestForeignPresses(t *testing.T) {
	t.Parallel()

	h := newHouse(t)
	id := h.open("send_email", "", `{}`)
	ann, bo := h.as("ann-cli"), h.as("bo-cli")
	form := ann.get(page(id)).form("do", "approve")
	for name, change := range map[string]func(*http.Request, url.Values){
		"another site presses":                   func(r *http.Request, _ url.Values) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a sibling site presses":                 func(r *http.Request, _ url.Values) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an old browser presses on another site": func(r *http.Request, _ url.Values) { r.Header.Set("Origin", "https://evil.example") },
		"a sandboxed frame presses":              func(r *http.Request, _ url.Values) { r.Header.Set("Origin", "null") },
		"the form has no token":                  func(_ *http.Request, f url.Values) { f.Del("token") },
		"the token is forged":                    func(_ *http.Request, f url.Values) { f.Set("token", strings.Repeat("A", 43)) },
		"the token is another session's":         func(_ *http.Request, f url.Values) { f.Set("token", bo.get("/console/").form().Get("token")) },
	} {
		t.Run(name, func(t *testing.T) {
			f := maps.Clone(form)
			change(&http.Request{Header: http.Header{}}, f)
			r := ann.request(http.MethodPost, page(id), f)
			change(r, f)
			got := ann.do(r)
			if got.status != http.StatusForbidden || !strings.Contains(got.text, "Nothing was decided") {
				t.Errorf("%d %s", got.status, got.text)
			}
			if v := h.view(id); v.State != gate.Pending {
				t.Errorf("state %s", v.State)
			}
		})
	}
}

func TestAPressThatCouldNotBeRecordedIsOfferedAgain(t *testing.T) {
	t.Parallel()

	down := true
	b := &broken{}
	b.decide = func(d gate.Decision) error {
		if down {
			return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Op: "x", Public: "secret plumbing"}
		}
		_, err := b.Inbox.Decide(t.Context(), d)
		return err
	}
	h := breaks(t, b)
	id := h.open("send_email", "", `{}`)
	ann := h.as("ann-cli")
	form := ann.get(page(id)).form("do", "deny", "text", "wrong <cluster>")
	got := ann.post(page(id), form)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.text, gate.PressStoreDown) || !strings.Contains(got.text, "wrong <cluster>") {
		t.Fatalf("%d %s", got.status, got.text)
	}
	retry := got.form("do", "deny", "text", "wrong <cluster>")
	if retry.Get("nonce") != form.Get("nonce") || retry.Get("digest") != form.Get("digest") {
		t.Error("it is not the same press")
	}
	down = false
	ann.post(page(id), retry)
	if v := h.view(id); v.State != gate.Denied || v.Note != "wrong <cluster>" {
		t.Errorf("state %s, note %q", v.State, v.Note)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		press string
		want  gate.State
	}{
		"it ran":         {"ran", gate.Executed},
		"it did not run": {"failed", gate.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got gate.State
			var note string
			h := breaks(t, &broken{
				get: func(v gate.View) gate.View {
					v.State, v.Started = gate.OutcomeUnknown, v.Created
					return v
				},
				settle: func(_ gate.ID, _ gate.Voter, s gate.State, n string) error { got, note = s, n; return nil },
			})
			id := h.open("send_email", "", `{}`)
			ann := h.as("ann-cli")
			if p := ann.get(page(id)); !strings.Contains(p.text, "It ran") || !strings.Contains(p.text, "result unknown: did it run?") || strings.Contains(p.body, `value="approve"`) {
				t.Errorf("the page: %s", p.text)
			}
			if p := ann.press(id, "do", tt.press, "text", "saw it"); !strings.Contains(p.text, "Recorded: "+name) {
				t.Errorf("the answer: %s", p.text)
			}
			if got != tt.want || note != "saw it" {
				t.Errorf("settled as %s, %q", got, note)
			}
		})
	}
}

func TestAfterAFailOverAnApprovalIsConfirmed(t *testing.T) {
	t.Parallel()

	h := breaks(t, &broken{get: func(v gate.View) gate.View {
		v.FailedOver = v.Snapshot.Now.Add(-time.Minute)
		return v
	}})
	id := h.open("send_email", "", `{}`)
	ann := h.as("ann-cli")
	if got := ann.press(id, "do", "approve"); got.status != 422 || !strings.Contains(got.text, "this may already have run. Confirm?") {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := ann.press(id, "do", "approve", "confirm", "yes"); !strings.Contains(got.text, "Recorded. Approved") {
		t.Errorf("%d %s", got.status, got.text)
	}
}
