package mattermost_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// TestTroubles: what each answer of Mattermost, or of what stands before it, means for
// a card.
func TestTroubles(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	refused := mattermosttest.Refused
	for name, tt := range map[string]struct {
		op    string
		fault mattermosttest.Fault
		want  channels.Trouble
		after time.Duration
	}{
		"too many requests":                  {"post", mattermosttest.TooMany(minute), channels.Busy, minute},
		"too many, and a proxy says so":      {"post", mattermosttest.TooManyBare, channels.Busy, 5 * time.Second},
		"the same post is being made":        {"post", mattermosttest.Pending, channels.Busy, time.Second},
		"a gateway's page":                   {"post", mattermosttest.HTMLPage(502), channels.Unknown, 0},
		"a login page":                       {"post", mattermosttest.HTMLPage(200), channels.Unknown, 0},
		"an answer that is cut":              {"post", mattermosttest.Garbled(`{"id":"`), channels.Unknown, 0},
		"an answer without a post":           {"post", mattermosttest.Garbled(`{}`), channels.Unknown, 0},
		"a failure of Mattermost":            {"post", refused(500, "app.post.save.app_error"), channels.Unknown, 0},
		"a redirect to a login":              {"post", mattermosttest.HTMLPage(302), channels.Unknown, 0},
		"the token is none":                  {"post", refused(401, "api.context.session_expired.app_error"), channels.Out, 0},
		"the token is none, in other words":  {"post", refused(401, "some.new.id"), channels.Out, 0},
		"the bot is not in the channel":      {"post", refused(403, "api.context.permissions.app_error"), channels.Nowhere, 0},
		"the channel is archived":            {"post", refused(400, "api.post.create_post.can_not_post_to_deleted.error"), channels.Nowhere, 0},
		"direct messages are restricted":     {"post", refused(400, "api.channel.create_channel.restricted_dm.app_error"), channels.Nowhere, 0},
		"the thread is gone":                 {"post", refused(400, "api.post.create_post.root_id.app_error"), channels.Nowhere, 0},
		"a feature that is off":              {"post", refused(501, "api.something.disabled"), channels.Broken, 0},
		"a mistake that nobody knows":        {"post", refused(400, "some.new.id"), channels.Broken, 0},
		"an update after too long":           {"update", refused(400, "api.post.update_post.permissions_time_limit.app_error"), channels.Frozen, 0},
		"an update of what was deleted":      {"update", refused(400, "api.post.update_post.permissions_details.app_error"), channels.Frozen, 0},
		"an update in an archived channel":   {"update", refused(400, "api.post.patch_post.can_not_update_post_in_deleted.error"), channels.Frozen, 0},
		"an update where the bot is no more": {"update", refused(403, "api.context.permissions.app_error"), channels.Frozen, 0},
		"an update of what nobody knows":     {"update", refused(404, "app.post.get.app_error"), channels.Frozen, 0},
		"an update that is too much":         {"update", mattermosttest.TooMany(3 * time.Second), channels.Busy, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, mattermosttest.Config{})
			m := channel(t, s)
			to := gate.Conversation{Place: "mattermost:" + ops}
			ref, err := m.Post(t.Context(), to, channeltest.Waiting())
			if err != nil {
				t.Fatal(err)
			}
			again := channeltest.Waiting()
			again.Rev = 7
			if tt.op == "post" {
				s.FailNext("create_post", tt.fault)
				_, err = m.Post(t.Context(), to, again)
			} else {
				s.FailNext("patch_post", tt.fault)
				err = m.Update(t.Context(), ref, again)
			}
			got, after := channels.TroubleOf(err)
			if err == nil || got != tt.want || after != tt.after {
				t.Errorf("%v is trouble %d after %v, want %d after %v", err, got, after, tt.want, tt.after)
			}
			if strings.Contains(err.Error(), "<") || len(err.Error()) > 300 {
				t.Errorf("the log has no use for %q", err)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	m := mattermost.New(mattermost.Config{URL: "http://mm.invalid", Token: secret.New(token), HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		},
	}}})
	m.Keys = keys(t)
	_, err := m.Post(t.Context(), gate.Conversation{Place: "mattermost:" + ops}, channeltest.Waiting())
	if trouble, _ := channels.TroubleOf(err); trouble != channels.Busy || strings.Contains(err.Error(), token) {
		t.Errorf("%v is trouble %d: it was never sent", err, trouble)
	}
}

// TestMinimal: a card with which Mattermost finds fault is sent as a minimal one, and
// can be denied, and be approved beside the full view.
func TestMinimal(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, known)
	d.s.FailNext("create_post", mattermosttest.Refused(400, "model.post.is_valid.props.app_error"))
	ref := d.post()
	p, _ := d.s.Post(ref.Message)
	if text := p.Read(); !strings.Contains(text, "cannot be drawn here; Show all has it") || !strings.Contains(text, "claude wants to run deploy") || !strings.Contains(text, "[Show all] [Approve] [Deny]") {
		t.Errorf("it reads:\n%s", text)
	}
	if !d.log.holds("mattermost refuses a card") || d.log.holds(`"seal"`) {
		t.Error("the log does not say why, or says too much")
	}
	d.presses(ann, ref.Message, "approve") // which says little: it is asked for once more
	d.nothing()
	d.submits(d.dialog(), nil)
	d.one(ann, gate.Approve)
	d.s.FailNext("patch_post", mattermosttest.Refused(400, "model.post.is_valid.props.app_error"), mattermosttest.Refused(400, "model.post.is_valid.props.app_error"))
	if err := d.m.Update(t.Context(), ref, d.card); err == nil || !strings.Contains(err.Error(), "and before, a whole card") {
		t.Errorf("both are refused: %v", err)
	}
}

// TestTheSamePostTwice: a post whose answer was lost is made once, if it is asked for
// again soon.
func TestTheSamePostTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, nil)
	d.s.FailNext("create_post", mattermosttest.LostAnswer)
	to := gate.Conversation{Place: "mattermost:acme/ops"}
	if _, err := d.m.Post(t.Context(), to, d.card); err == nil {
		t.Fatal("the answer was not lost")
	}
	first, found, err := d.m.Find(t.Context(), to, d.card.Approval)
	if err != nil || !found {
		t.Fatal(first, found, err)
	}
	if again := d.post(); again != first {
		t.Errorf("it is at %v and %v", first, again)
	}
	if n := len(d.s.Posts(ops)); n != 1 {
		t.Errorf("%d posts are there", n)
	}
	d.card.Rev++
	if other := d.post(); other == first {
		t.Error("another card is the same post")
	}
}

// TestFind: only a card of the bot's own is found, and the one of that approval.
func TestFind(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, nil)
	to := gate.Conversation{Place: "mattermost:" + ops}
	d.s.Plant(mallory, ops, map[string]any{"approvalbot_card": string(d.card.Approval)})
	if _, found, err := d.m.Find(t.Context(), to, d.card.Approval); found || err != nil {
		t.Errorf("a planted one is found: %v", err)
	}
	ref := d.post()
	if got, found, err := d.m.Find(t.Context(), to, d.card.Approval); got != ref || !found || err != nil {
		t.Errorf("Find = %v, %v, %v", got, found, err)
	}
	if _, found, err := d.m.Find(t.Context(), to, "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D3"); found || err != nil {
		t.Errorf("another one is found: %v", err)
	}
	d.s.Remove(ref.Message)
	if _, found, err := d.m.Find(t.Context(), to, d.card.Approval); found || err != nil {
		t.Errorf("a deleted one is found: %v", err)
	}
	to.Thread = d.s.Say(ann, ops, "", "x")
	in, err := d.m.Post(t.Context(), to, d.card)
	if err != nil {
		t.Fatal(err)
	}
	if got, found, err := d.m.Find(t.Context(), to, d.card.Approval); got != in || !found || err != nil {
		t.Errorf("in a thread: %v, %v, %v", got, found, err)
	}
	d.s.FailNext("thread", mattermosttest.HTMLPage(502))
	if _, found, err := d.m.Find(t.Context(), to, d.card.Approval); found || err == nil {
		t.Errorf("nobody knows: %v, %v", found, err)
	}
}

// TestSay: where a thread is gone it is said in the conversation.
func TestSay(t *testing.T) {
	t.Parallel()
	d := newDesk(t, mattermosttest.Config{}, nil)
	ref := d.post()
	d.s.Remove(ref.Message)
	if err := d.m.Say(t.Context(), ref.Below(), "Denied by Ann: \"@all\""); err != nil {
		t.Fatal(err)
	}
	all := d.s.Posts(ops)
	if last := all[len(all)-1]; last.Root != "" || last.Message != "`Denied by Ann: \"@all\"`" {
		t.Errorf("%+v", last)
	}
}
