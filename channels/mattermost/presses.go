package mattermost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/mattermost/mattermost/server/public/model"
	"golang.org/x/sync/errgroup"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Where Mattermost calls us.
const (
	ActionsPath  = "/mattermost/actions"
	DialogsPath  = "/mattermost/dialogs"
	CommandsPath = "/mattermost/commands"
)

// Presses receives presses of the buttons on cards, and what people type into their
// dialogs. Mattermost waits for as long as a decision takes, and shows the presser
// what it is answered.
type Presses struct {
	Mattermost *Mattermost
	Press      channels.TryFunc
	Kept       gate.Presses // remembers what was used
	Log        *slog.Logger
	// Card reads an approval as it is now, for dialogs and the full view.
	Card func(context.Context, gate.ID) (*channels.Card, error)
}

// Limits of one request.
const (
	maxBody      = 1 << 20
	decideWithin = 10 * time.Second
	lookWithin   = 3 * time.Second // for who pressed, and on what; Mattermost may wait for no more than that
)

// pressed is the little of a press that is needed. Names are none of it: people can
// choose them.
type pressed struct {
	User    string         `json:"user_id"`
	Channel string         `json:"channel_id"`
	Post    string         `json:"post_id"`
	Trigger string         `json:"trigger_id"`
	Context map[string]any `json:"context"`

	post *model.Post // as the server has it now; nil if it did not say
}

// What people are told. Nothing in it helps somebody who forges.
const (
	notValid   = "This button is not valid here. Nothing was decided."
	notYours   = "Could not check that it was you who pressed. Nothing was decided; press again."
	notNow     = "That press took too long to arrive, or the clocks of Mattermost and approvalbot differ. Nothing was decided; press again."
	usedBefore = "That press has arrived before. Nothing more was done."
	unread     = "The call could not be read just now. Nothing was decided; press again."
)

// ServeHTTP takes a press. A person is always answered with 200: of anything else
// Mattermost shows them nothing. Who is not sent by Mattermost gets no such answer.
func (p *Presses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in pressed
	if !p.Mattermost.read(w, r, &in) {
		return
	}
	if !id.MatchString(in.User) || !id.MatchString(in.Post) || !id.MatchString(in.Channel) || in.Context == nil {
		http.Error(w, "want a press of a button", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), decideWithin)
	defer cancel()
	t, err := p.Mattermost.verify(ctx, in.Trigger, in.User)
	switch {
	case errors.Is(err, errForged):
		p.Log.WarnContext(ctx, "a press that Mattermost did not sign", "user", in.User, "from", r.RemoteAddr)
		http.Error(w, "not a press of this person", http.StatusForbidden)
		return
	case errors.Is(err, errLate):
		p.Log.WarnContext(ctx, "a press that is not of now", "user", in.User)
		say(w, notNow)
		return
	case err != nil:
		p.Log.WarnContext(ctx, "a press could not be checked", "user", in.User, "err", err)
		say(w, notYours)
		return
	}
	say(w, p.take(ctx, &in, t))
}

// read reads the JSON of a request from where Mattermost may be, or answers it.
func (m *Mattermost) read(w http.ResponseWriter, r *http.Request, into any) (ok bool) {
	if !m.admits(r) {
		m.Log.WarnContext(r.Context(), "a request from an address that is not in callback_allow", "from", r.RemoteAddr)
		http.Error(w, "not from here", http.StatusForbidden)
		return false
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodPost || err != nil || kind != "application/json" {
		http.Error(w, "want a POST of JSON", http.StatusBadRequest)
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, "want JSON as Mattermost writes it", http.StatusBadRequest)
		return false
	}
	return true
}

// admits reports whether a request comes from where Mattermost is. A proxy in between
// is what is listed then, and must keep others out.
func (m *Mattermost) admits(r *http.Request) bool {
	if len(m.allow) == 0 {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(m.allow, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

// say answers a press with a text that only the presser sees.
func say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	answer := model.PostActionIntegrationResponse{EphemeralText: text, SkipSlackParsing: true}
	_ = json.NewEncoder(w).Encode(answer) // who has hung up is shown an error anyway
}

// take does what was pressed and returns what only the presser sees; nothing where a
// dialog says it.
func (p *Presses) take(ctx context.Context, in *pressed, t trigger) string {
	b, err := unseal(p.Mattermost.Keys, in.Context, in.Channel)
	if err != nil {
		p.Log.WarnContext(ctx, "a press of a button that is not ours", "user", in.User, "post", in.Post, "channel", in.Channel)
		return notValid
	}
	looked, err := p.look(ctx, in)
	if errors.Is(err, errPlanted) {
		p.Log.WarnContext(ctx, "a press on a copy of a card", "user", in.User, "post", in.Post, "channel", in.Channel, "approval", string(b.approval))
		return notValid
	}
	if err != nil {
		p.Log.WarnContext(ctx, "a presser could not be looked up", "user", in.User, "err", err)
		return gate.PressText(gate.Press{Reason: gate.ReasonIdentityUnavailable})
	}
	first, err := fresh(ctx, p.Kept, "trigger "+t.nonce, onceFor)
	if err != nil {
		p.Log.WarnContext(ctx, "whether a press was used before is not known", "user", in.User, "err", err)
		return gate.PressText(gate.Press{Reason: gate.ReasonOf(err)})
	}
	if !first {
		p.Log.WarnContext(ctx, "a press that was used before", "user", in.User, "post", in.Post)
		return usedBefore
	}
	k := channels.Click{
		Approval: b.approval, Digest: b.digest, Ours: looked.ours, Voter: looked.voter, Scope: gate.Scope(b.chosen), Nonce: name + " " + t.nonce,
		Ref: channels.Ref{Place: name + ":" + in.Channel, Message: in.Post, Thread: looked.thread},
	}
	return p.act(ctx, in, b, k)
}

// act does what a button is for.
func (p *Presses) act(ctx context.Context, in *pressed, b button, k channels.Click) string {
	switch b.action {
	case actTakeBack:
		k.Choice, k.Scope = gate.Deny, ""
		return p.decide(ctx, k)
	case actRan, actNotRun, actAgain: // none of them runs anything
		k.Choice, k.Scope = unsettled[b.action], ""
		return p.decide(ctx, k)
	case actFull:
		return p.full(ctx, k)
	case actApprove, actScope, actDeny, actAsk, actAnswer:
		return p.ask(ctx, in, b, k)
	}
	return notValid
}

var unsettled = map[string]gate.Choice{actRan: channels.Ran, actNotRun: channels.NotRun, actAgain: channels.RunAgain}

// decide makes a decision and returns what the presser is told, in which names and
// reasons are other people's.
func (p *Presses) decide(ctx context.Context, k channels.Click) string {
	text, _ := p.Press(ctx, k)
	return lines(text, maxSaid)
}

var errPlanted = errors.New("the post is not the bot's")

// looked is what the server says of a press.
type looked struct {
	voter  gate.Voter
	ours   bool // it has shown the post, and that is the bot's
	thread string
}

// look asks who pressed, and on what. That a post cannot be read just now leaves it
// open whose it is; then it counts only if it was written down.
func (p *Presses) look(ctx context.Context, in *pressed) (l looked, err error) {
	m := p.Mattermost
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		l.voter, err = m.voter(ctx, in.User)
		return err
	})
	both.Go(func() error {
		self, err := m.self(ctx)
		if err != nil {
			return err
		}
		post, resp, err := m.api().GetPost(ctx, in.Post, "")
		if missing(resp, err) {
			return errPlanted // or deleted meanwhile
		}
		if err != nil || post == nil {
			p.Log.WarnContext(ctx, "the post of a press could not be read", "post", in.Post, "err", failed("mattermost.post", resp, err))
			return nil
		}
		if post.UserId != self.Id || post.ChannelId != in.Channel {
			return errPlanted
		}
		l.ours, l.thread, in.post = true, post.RootId, post
		return nil
	})
	return l, both.Wait()
}
