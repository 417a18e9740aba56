package mattermosttest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// replay makes the calls of one situation again.
type replay struct {
	*testing.T
	s     *mattermosttest.Server
	k     *cast
	c     *capture
	clock *mattermosttest.Clock
	began time.Time

	mu        sync.Mutex
	cmp       comparison
	tokens    map[string]string
	calls     []*exchange // still to be made
	callbacks []*exchange // still to come
	group     *group
	shown     map[string]*[2]int // to whom how much, before this situation and in it
	missing   map[string]int
}

// group is of calls that were under way at the same time.
type group struct {
	callbacks []*exchange // by when they were answered
	arrived   int
	turns     []chan struct{}
	next      int
}

func newReplay(t *testing.T, k *cast, c *capture) *replay {
	t.Helper()
	clock := mattermosttest.NewClock()
	r := &replay{T: t, k: k, c: c, clock: clock, began: clock.Now(), cmp: comparison{names: map[string]string{}}}
	server := httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	r.cmp.names[":9999"] = port
	self := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(self.Close)
	r.cmp.names["https://127.0.0.1:9998"] = self.URL
	r.s = k.stage(t, c, clock, port)
	r.logIn()
	return r
}

// logIn makes the tokens that stand in the captures by their names.
func (r *replay) logIn() {
	_, secret := r.s.TokenOf(r.k.id(theBot))
	_, secret2 := r.s.TokenOf(r.k.id(otherBot))
	bot2, secretB := r.s.TokenOf(r.k.id(otherBot))
	r.tokens = map[string]string{"<BOT_TOKEN>": secret, "<BOT2_TOKEN>": secret2, "<BOT2_TOKEN_B>": secretB}
	for name, u := range r.k.users {
		r.tokens["<SESSION_TOKEN_"+name+">"] = r.s.Session(u.ID)
	}
	for _, e := range r.c.Exchanges {
		if e.isCall() && strings.Contains(e.Request.Path, "/users/tokens/") {
			objects(e.Request.Body, func(o map[string]any) { r.cmp.names[text(o, "token_id")] = bot2 })
		}
	}
}

// run makes all calls of a situation in their order, or at once where they were.
func (r *replay) run(c *capture) {
	for _, seed := range r.k.seeds(c) {
		if _, there := r.s.Post(r.cmp.translate(seed.ID)); there {
			continue
		}
		raw, _ := json.Marshal(seed)
		_ = json.Unmarshal([]byte(r.cmp.translate(string(raw))), seed)
		r.s.Sow(*seed)
	}
	r.began, r.shown, r.missing = r.clock.Now(), map[string]*[2]int{}, map[string]int{}
	for name, u := range r.k.users {
		r.shown[name] = &[2]int{len(r.s.Ephemerals(u.ID)), 0}
	}
	for _, e := range c.Exchanges {
		switch {
		case e.isCall() && !strings.HasSuffix(e.Request.Path, "/posts/search") && !strings.HasPrefix(e.Response.Body, "<!doctype"):
			// the double can neither search nor serve the web app
			r.calls = append(r.calls, e)
		case e.isCallback():
			r.callbacks = append(r.callbacks, e)
		}
	}
	for {
		together := r.pop()
		switch len(together) {
		case 0:
			r.ends(c)
			return
		case 1:
			r.call(together[0])
		default:
			r.atOnce(together)
		}
		r.look(c)
	}
}

// ends compares what is to be seen in the end.
func (r *replay) ends(c *capture) {
	for _, e := range r.callbacks {
		r.cmp.say("there was no callback to %s", e.Request.Path)
	}
	r.callbacks = nil
	for name, u := range r.k.users {
		if n := r.missing[name]; n > 0 {
			r.cmp.say("%s was not shown %d texts", name, n)
		}
		r.dialogs(c, name, r.s.Dialogs(u.ID))
	}
}

// look compares what people were shown since it was last called.
func (r *replay) look(c *capture) {
	for name, u := range r.k.users {
		var want []*exchange
		for _, e := range c.Exchanges {
			if e.To == name && e.Event.Event == "ephemeral_message" {
				want = append(want, e)
			}
		}
		got := r.s.Ephemerals(u.ID)[r.shown[name][0]:]
		for i := r.shown[name][1]; i < len(want) && i < len(got); i++ {
			r.shown[name][1]++
			p, g := want[i].Decoded.Post, got[i]
			if p == nil {
				continue // it was too long for the capture
			}
			r.cmp.value("ephemeral", map[string]any{"id": p["id"], "message": p["message"], "root_id": p["root_id"], "channel_id": p["channel_id"]},
				map[string]any{"id": g.ID, "message": g.Text, "root_id": g.Root, "channel_id": g.Channel})
			r.cmp.value("ephemeral.props", p["props"], any(g.Props))
		}
		r.missing[name] = len(want) - r.shown[name][1]
	}
}

func (r *replay) dialogs(c *capture, name string, got []mattermosttest.Dialog) {
	i := 0
	for _, e := range c.Exchanges {
		if e.To != name || e.Event.Event != "open_dialog" {
			continue
		}
		if i >= len(got) {
			r.cmp.say("a dialog did not open for %s", name)
			return
		}
		d := e.Decoded.Dialog.Dialog
		if d == nil { // it was too long for the capture
			i++
			continue
		}
		elements, _ := d["elements"].([]any)
		if text(d, "title") != got[i].Title || text(d, "state") != got[i].State || len(elements) != len(got[i].Elements) {
			r.cmp.say("dialog %d of %s: want %v, got %+v", i, name, d, got[i])
		}
		i++
	}
}

// pop returns the next call, and those that were made before it was answered.
func (r *replay) pop() (together []*exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := 0.0
	for len(r.calls) > 0 {
		e := r.calls[0]
		if len(together) > 0 && (e.At >= end-1 || r.inside(e)) {
			break
		}
		end = max(end, e.At+e.Took)
		together, r.calls = append(together, e), r.calls[1:]
	}
	return together
}

// inside reports whether the integration made a call before it answered.
func (r *replay) inside(e *exchange) bool {
	return slices.ContainsFunc(r.callbacks, func(c *exchange) bool {
		return c.Answer.After > 0 && c.At <= e.At && e.At <= c.At+c.Answer.After+1
	})
}

// atOnce makes calls that overlapped. Their callbacks are answered in the order of
// the capture, each when the call before has come to its end.
func (r *replay) atOnce(together []*exchange) {
	if strings.HasSuffix(together[0].Request.Path, "/posts") {
		r.race(together)
		return
	}
	end := 0.0
	for _, e := range together {
		end = max(end, e.At+e.Took)
	}
	g := &group{}
	for _, c := range r.callbacks {
		if c.At >= together[0].At && c.At <= end {
			g.callbacks = append(g.callbacks, c)
			g.turns = append(g.turns, make(chan struct{}))
		}
	}
	slices.SortStableFunc(g.callbacks, func(a, b *exchange) int { return int((a.At + a.Answer.After) - (b.At + b.Answer.After)) })
	r.group = g
	var calls sync.WaitGroup
	for _, e := range together {
		calls.Go(func() {
			r.call(e)
			r.mu.Lock()
			defer r.mu.Unlock()
			if g.next++; g.next < len(g.turns) {
				close(g.turns[g.next])
			}
		})
	}
	calls.Wait()
	r.group = nil
}

// race creates the same post several times while the first one is under way.
func (r *replay) race(together []*exchange) {
	until := make(chan struct{})
	r.s.FailNext("create_post", mattermosttest.Stalled(until))
	var first sync.WaitGroup
	first.Go(func() { r.call(together[0]) })
	for tick := time.NewTicker(time.Millisecond); r.s.InFlight() == 0; <-tick.C {
		continue
	}
	for _, e := range together[1:] {
		r.call(e)
	}
	close(until)
	first.Wait()
}

// call makes a call and compares what it gets.
func (r *replay) call(e *exchange) {
	if wait := time.Duration(e.At*1e6) - r.clock.Now().Sub(r.began); wait > 0 {
		r.clock.Advance(wait)
	}
	status, body := r.send(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	where := e.By + " " + e.Request.Method + " " + e.Request.Path
	if e.Response.Status != status {
		r.cmp.say("%s: want %d, got %d %.300s", where, e.Response.Status, status, body)
		return
	}
	switch {
	case leftOut.MatchString(e.Response.Body):
	case strings.Contains(e.Request.Path, "/config/client"):
		r.subset(where, e.Response.Body, body)
	case strings.HasSuffix(e.Request.Path, "/channels"), strings.HasSuffix(e.Request.Path, "/members?page=0&per_page=60"), strings.Contains(e.Request.Path, "in_channel"):
		r.firstOf(where, e.Response.Body, body)
	default:
		r.cmp.body(where, e.Response.Body, body)
	}
}

// subset compares the settings that the double knows.
func (r *replay) subset(where, want, got string) {
	var w, g map[string]string
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil {
		return // the capture was cut
	}
	_, cut := w["..."]
	for k, v := range g {
		if old, has := w[k]; has && old != v && k != "AsymmetricSigningPublicKey" {
			r.cmp.say("%s: %s: want %q, got %q", where, k, old, v)
		} else if !has && !cut {
			r.cmp.say("%s: %s is too much", where, k)
		}
	}
}

// firstOf compares the first elements of lists, whose length depends on the world.
func (r *replay) firstOf(where, want, got string) {
	var w, g []any
	if json.Unmarshal([]byte(want), &w) != nil || json.Unmarshal([]byte(got), &g) != nil || len(w) == 0 || len(g) == 0 {
		r.cmp.say("%s: want %.100s, got %.100s", where, want, got)
		return
	}
	r.cmp.shape(where, w[0], g[0])
}

func (r *replay) send(e *exchange) (status int, body string) {
	r.mu.Lock()
	path := r.cmp.translate(e.Request.Path)
	sent := r.triggers(r.cmp.translate(e.Request.Body))
	r.mu.Unlock()
	req, err := http.NewRequestWithContext(r.Context(), e.Request.Method, r.s.URL()+path, strings.NewReader(sent))
	if err != nil {
		r.Fatal(err)
	}
	for _, h := range e.Request.Headers {
		name, value, _ := strings.Cut(h, ": ")
		for from, to := range r.tokens {
			value = strings.ReplaceAll(value, from, to)
		}
		if name != "Host" && name != "Content-Length" && name != "Accept-Encoding" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Errorf("%s %s: %v", e.Request.Method, path, err)
		return 0, ""
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

// takeUp lets the first call press a button of what somebody was shown last, which
// in the capture was another post of the same kind.
func (r *replay) takeUp(name, action string) {
	shown := r.s.Ephemerals(r.k.id(name))
	last := shown[len(shown)-1]
	first := r.c.Exchanges[0].Request
	r.cmp.names[postInPath.FindStringSubmatch(first.Path)[1]] = last.ID
	objects(first.Body, func(o map[string]any) { r.cmp.names[text(o, "cookie")] = last.Cookie(action) })
}
