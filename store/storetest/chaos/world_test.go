//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// chat is the name of the channel whose cards the parent keeps.
const chat = "chat"

// ran is a call that was really run.
type ran struct {
	ID      gate.ID
	Attempt string
	Digest  string // of what was run
	Tool    string
	By      string
	At      int64 // monotonic, when it arrived
}

// drawn is a card as it stands in the chat.
type drawn struct {
	Ref      channels.Ref
	Approval gate.ID
	Rev      int64
	Digest   gate.Digest
	Approve  bool
	Live     bool
	Line     string
}

// outside is what no fault touches: the downstream that calls are run on, and the
// chat with its cards. It lives in the parent.
type outside struct {
	url string

	mu       sync.Mutex
	ran      []ran
	cards    []*drawn
	requests int
}

func startOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	mux := http.NewServeMux()
	handle(mux, "/run", o.run)
	handle(mux, "/post", o.post)
	handle(mux, "/update", o.update)
	handle(mux, "/find", o.find)
	handle(mux, "/cards", o.live)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	o.url = s.URL
	return o
}

// handle serves f, which takes and returns JSON. Some answers are lost.
func handle[In, Out any](mux *http.ServeMux, path string, f func(In) (Out, error)) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		var in In
		err := json.NewDecoder(r.Body).Decode(&in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := f(in)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

type nothing struct{}

// run notes each call, and lets some fail.
func (o *outside) run(r ran) (nothing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.At = monotonic()
	o.ran = append(o.ran, r)
	if len(o.ran)%7 == 0 {
		return nothing{}, errors.New("the tool failed")
	}
	return nothing{}, nil
}

// hiccup loses the answer of every 40th delivery to the chat.
func (o *outside) hiccup() error {
	if o.requests++; o.requests%40 == 0 {
		return errors.New("it may have arrived")
	}
	return nil
}

func (o *outside) post(c drawn) (channels.Ref, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.Ref.Message = strconv.Itoa(len(o.cards) + 1)
	o.cards = append(o.cards, &c)
	return c.Ref, o.hiccup()
}

func (o *outside) update(c drawn) (nothing, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.cards, func(d *drawn) bool { return d.Ref == c.Ref })
	if i < 0 {
		return nothing{}, fmt.Errorf("no card %v", c.Ref)
	}
	*o.cards[i] = c
	return nothing{}, o.hiccup()
}

func (o *outside) find(c drawn) (*channels.Ref, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.cards {
		if d.Ref.Place == c.Ref.Place && d.Approval == c.Approval {
			return &d.Ref, nil
		}
	}
	return nil, nil
}

// live are the cards with something to press, and the last others.
func (o *outside) live(nothing) ([]drawn, error) {
	out := []drawn{}
	all := o.all()
	for i := range all {
		if all[i].Live || i > len(all)-5 {
			out = append(out, all[i])
		}
	}
	return out, nil
}

func (o *outside) all() (out []drawn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.cards {
		out = append(out, *d)
	}
	return out
}

func (o *outside) calls() []ran {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.ran)
}

// world is what is outside, as a process has it.
type world struct{ url string }

func (w *world) run(ctx context.Context, r ran) error { return w.do(ctx, "/run", r, &nothing{}) }

func (w *world) cards(ctx context.Context) (all []drawn, err error) {
	err = w.do(ctx, "/cards", nothing{}, &all)
	return all, err
}

func (w *world) do(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// remote is the chat as servers have it.
type remote struct{ *world }

// Name implements channels.Channel.
func (remote) Name() string { return chat }

// Post implements channels.Channel.
func (r remote) Post(ctx context.Context, to gate.Conversation, c *channels.Card) (ref channels.Ref, err error) {
	err = r.deliver(ctx, "/post", channels.Ref{Place: to.Place, Thread: to.Thread}, c, &ref)
	return ref, err
}

// Update implements channels.Channel.
func (r remote) Update(ctx context.Context, ref channels.Ref, c *channels.Card) error {
	return r.deliver(ctx, "/update", ref, c, &nothing{})
}

// Say implements channels.Channel.
func (remote) Say(context.Context, gate.Conversation, string) error { return nil }

// Find implements channels.Finder.
func (r remote) Find(ctx context.Context, in gate.Conversation, id gate.ID) (channels.Ref, bool, error) {
	var ref *channels.Ref
	if err := r.do(ctx, "/find", drawn{Ref: channels.Ref{Place: in.Place}, Approval: id}, &ref); err != nil || ref == nil {
		return channels.Ref{}, false, err
	}
	return *ref, true, nil
}

func (r remote) deliver(ctx context.Context, path string, at channels.Ref, c *channels.Card, out any) error {
	d := drawn{Ref: at, Approval: c.Approval, Rev: c.Rev, Digest: c.Digest, Approve: c.Approve, Live: c.Live(), Line: c.Line}
	if err := r.do(ctx, path, d, out); err != nil {
		return &channels.Error{Op: "chat" + path, Trouble: channels.Unknown, Err: err}
	}
	return nil
}
