package mattermost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// A trial is a post with one button, which somebody presses to see whether presses
// arrive. Whoever answers them there (an Echo, in a server or in a doctor) writes what
// it saw into the answer, with which Mattermost changes the post; who made the trial
// reads the post. So only a press that Mattermost has sent itself counts for anything.

// TrialPath is where Mattermost calls for the button of a trial.
const TrialPath = "/mattermost/doctor"

const (
	actTrial = "doctor"
	keyUntil = "until" // unix seconds, after which nobody answers

	arrived    = "approvalbot_doctor" // the prop that tells what was seen
	seenFrom   = "from"
	seenAge    = "age_ms"
	seenSigned = "signed"
)

// Signed is what became of looking whose press it was.
type Signed string

// What can become of it.
const (
	SignedWell Signed = "yes"
	SignedLate Signed = "late"      // it is too old, or too new, by this machine's clock
	SignedNot  Signed = "no"        // another server's key signed it, or none
	SignedSkip Signed = "unchecked" // verify_triggers is off
	SignedAsk  Signed = "unknown"   // the key could not be had
)

// Arrival is what was seen of a press.
type Arrival struct {
	From   string        // the address that called: Mattermost's, or a proxy's
	Age    time.Duration // by the clock of who was called; negative is of later
	Signed Signed
}

// Allows reports whether callback_allow lets an address press.
func (m *Mattermost) Allows(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && (len(m.allow) == 0 || slices.ContainsFunc(m.allow, func(p netip.Prefix) bool { return p.Contains(a) }))
}

// Echo answers the button of a trial. It decides nothing and remembers nothing, so
// that it answers from wherever it is called: from where that was is the question.
type Echo struct {
	Mattermost *Mattermost
	Log        *slog.Logger
}

// ServeHTTP takes a press of a button that we made for this conversation.
func (e Echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in pressed
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &in) != nil || !e.ours(&in) {
		http.Error(w, "not the button of a trial", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookWithin)
	defer cancel()
	a := e.arrival(ctx, r, &in)
	e.Log.InfoContext(ctx, "the button of a trial was pressed", "from", a.From, "signed", string(a.Signed))
	text := "It works: the press has arrived. It was a test, and nothing was decided."
	if a.Signed != SignedWell && a.Signed != SignedSkip {
		text = "The press has arrived, and would not count: the doctor says why. It was a test, and nothing was decided."
	}
	answer := model.PostActionIntegrationResponse{EphemeralText: text, SkipSlackParsing: true, Update: &model.Post{Message: text}}
	answer.Update.SetProps(model.StringInterface{"attachments": []any{}, arrived: map[string]string{
		seenFrom: a.From, seenAge: strconv.FormatInt(a.Age.Milliseconds(), 10), seenSigned: string(a.Signed),
	}})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who has hung up is shown an error anyway
}

// ours reports whether it is the button of a trial in this conversation that is not
// over.
func (e Echo) ours(in *pressed) bool {
	field := func(key string) string { s, _ := in.Context[key].(string); return s }
	until, err := strconv.ParseInt(field(keyUntil), 10, 64)
	return err == nil && time.Now().Unix() < until && id.MatchString(in.Channel) &&
		e.Mattermost.Keys.Signed(gate.Buttons, field(keySeal), actTrial, field(keyUntil), in.Channel)
}

func (e Echo) arrival(ctx context.Context, r *http.Request, in *pressed) Arrival {
	a := Arrival{From: r.RemoteAddr, Signed: SignedWell}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		a.From = from.Addr().Unmap().WithZone("").String()
	}
	if at, ok := made(in.Trigger); ok {
		a.Age = time.Since(at)
	}
	switch _, err := e.Mattermost.verify(ctx, in.Trigger, in.User); {
	case !e.Mattermost.verifies:
		a.Signed = SignedSkip
	case errors.Is(err, errLate):
		a.Signed = SignedLate
	case errors.Is(err, errForged):
		a.Signed = SignedNot
	case err != nil:
		a.Signed = SignedAsk
	}
	return a
}

// Trial is a post whose button somebody is to press.
type Trial struct {
	Channel, Post string
	account       *Account
}

// clocksApart is how far the clock of who answers may be off.
const clocksApart = 5 * time.Minute

// Try posts a trial in a conversation, whose button is answered for so long.
func (a *Account) Try(ctx context.Context, called string, within time.Duration) (*Trial, error) {
	m := a.mattermost
	c, err := a.Conversation(ctx, called)
	if err != nil {
		return nil, err
	}
	until := strconv.FormatInt(time.Now().Add(within+clocksApart).Unix(), 10)
	p := &model.Post{ChannelId: c.ID, Message: "This is a test of approvalbot. Whoever set it up presses the button."}
	p.SetProps(model.StringInterface{"attachments": []*model.SlackAttachment{{
		Fallback: p.Message, Color: waiting, Actions: []*model.PostAction{{
			Id: actTrial, Type: model.PostActionTypeButton, Name: "Press me", Style: "primary",
			Integration: &model.PostActionIntegration{URL: m.callback + TrialPath, Context: map[string]any{
				keyAction: actTrial, keyUntil: until, keySeal: m.Keys.Sign(gate.Buttons, actTrial, until, c.ID),
			}},
		}},
	}}})
	posted, err := look(ctx, func(ctx context.Context) (*model.Post, *model.Response, error) {
		return one(m.api().CreatePost(ctx, p))
	})
	if err != nil {
		return nil, err
	}
	return &Trial{c.ID, posted.Id, a}, nil
}

// Link is where people find it.
func (t *Trial) Link() string {
	return t.account.mattermost.Link(channels.Ref{Place: name + ":" + t.Channel, Message: t.Post})
}

// Seen returns what was seen of the press, nil as long as nothing was.
func (t *Trial) Seen(ctx context.Context) (*Arrival, error) {
	p, err := look(ctx, func(ctx context.Context) (*model.Post, *model.Response, error) {
		return one(t.account.mattermost.api().GetPost(ctx, t.Post, ""))
	})
	if err != nil {
		return nil, err
	}
	prop, ok := p.GetProp(arrived).(map[string]any)
	if !ok {
		return nil, nil //nolint:nilnil // the doc says so
	}
	text := func(key string) string { s, _ := prop[key].(string); return s }
	ms, _ := strconv.ParseInt(text(seenAge), 10, 64)
	return &Arrival{From: text(seenFrom), Age: time.Duration(ms) * time.Millisecond, Signed: Signed(text(seenSigned))}, nil
}

// End takes the button away.
func (t *Trial) End(ctx context.Context) error {
	text, props := "This was a test of approvalbot. No press of its button has arrived.", model.StringInterface{"attachments": []any{}}
	_, err := look(ctx, func(ctx context.Context) (*model.Post, *model.Response, error) {
		return t.account.mattermost.api().PatchPost(ctx, t.Post, &model.PostPatch{Message: &text, Props: &props})
	})
	return err
}
