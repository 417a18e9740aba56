package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
)

// event is one server-sent event.
type event struct {
	id, name string
	data     wire.Event
}

// follow opens a stream of events. It ends with the test, or when leave is called.
func (r *replica) follow(t *testing.T, key, last string) (events <-chan event, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearers()[key].Reveal())
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // below, where the stream is read
	if err != nil {
		t.Fatal(err)
	}
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%s %s; want a stream", resp.Status, kind)
	}
	out := make(chan event, 1000)
	go func() {
		defer func() { _ = resp.Body.Close() }()
		defer close(out)
		var e event
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				if err := json.Unmarshal([]byte(value), &e.data); err != nil {
					t.Error(err)
				}
			case "":
				out <- e
				e = event{}
			}
		}
	}()
	t.Cleanup(cancel)
	return out, cancel
}

// life runs a whole life of a call and returns its id.
func (r *replica) life(t *testing.T, key string) string {
	t.Helper()
	a := r.open(t, key, "two")
	r.vote(t, "ann-cli", a.Approval, "approve")
	r.vote(t, "bo-cli", a.Approval, "approve")
	mine, err := r.as(t, key).Get(t.Context(), a.Approval.ID)
	if err != nil {
		t.Fatal(err)
	}
	attempt := client.NewAttempt()
	if _, err := r.as(t, key).Consume(t.Context(), mine.ID, wire.ConsumeRequest{Token: mine.Token, AttemptID: attempt, Call: ask("two").Call}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.as(t, key).Report(t.Context(), mine.ID, wire.OutcomeRequest{Outcome: "executed", Token: mine.Token, AttemptID: attempt}); err != nil {
		t.Fatal(err)
	}
	return mine.ID
}

var wholeLife = []string{
	"approval_requested pending", "approval_pending pending", "approval_completed approved", "execution_started executing", "execution_completed executed",
}

// until reads events up to the last one of an approval.
func until(t *testing.T, events <-chan event, id string) (all []event) {
	t.Helper()
	for e := range events {
		all = append(all, e)
		if e.data.ID == id && e.name == "execution_completed" {
			return all
		}
	}
	t.Fatal("the stream ended early")
	return nil
}

func names(events []event, id string) (out []string) {
	for _, e := range events {
		if e.data.ID == id {
			out = append(out, e.name+" "+e.data.State)
		}
	}
	return out
}

func TestEventsOfAWholeLife(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	everything, _ := r.follow(t, "books", "")
	own, _ := r.follow(t, "plain", "")
	foreign := r.life(t, "hermes")
	mine := r.life(t, "plain")

	all := until(t, everything, mine)
	if !slices.Equal(names(all, foreign), wholeLife) || !slices.Equal(names(all, mine), wholeLife) {
		t.Errorf("an auditor saw %v and %v; want %v twice", names(all, foreign), names(all, mine), wholeLife)
	}
	for _, e := range all {
		if strings.HasSuffix(e.name, "completed") != (e.data.Outcome != "") || e.data.At == "" || !strings.HasPrefix(e.data.Digest, "sha256:") {
			t.Errorf("event %+v; want time, digest and, at the end, the outcome", e)
		}
	}
	if seen := until(t, own, mine); len(names(seen, foreign)) > 0 || !slices.Equal(names(seen, mine), wholeLife) {
		t.Errorf("an agent saw %v; want its own approval alone", seen)
	}
}

func TestAStreamGoesOnAtAnotherReplicaAndMissesNothing(t *testing.T) {
	t.Parallel()
	s := memory(t)
	first, second := start(t, s, rules()), start(t, s, rules())
	events, leave := first.follow(t, "books", "")
	a := first.life(t, "hermes")
	var seen []event
	for e := range events { // cut in the middle of it
		if seen = append(seen, e); e.name == "approval_completed" {
			break
		}
	}
	leave()
	b := first.life(t, "hermes") // while nobody follows
	events, _ = second.follow(t, "books", seen[len(seen)-1].id)
	c := second.life(t, "hermes")
	seen = append(seen, until(t, events, c)...)
	for _, id := range []string{a, b, c} {
		if !slices.Equal(names(seen, id), wholeLife) {
			t.Errorf("%s: saw %v; want each event once: %v", id, names(seen, id), wholeLife)
		}
	}
}

func TestAStreamFromNowhereIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	got := r.send(t, "books", http.MethodGet, "/v1/events", "", "Last-Event-ID", "$ hunter2")
	if p := got.answer(t); got.status != http.StatusBadRequest || p.Verdict != "block" || strings.Contains(string(got.body), "hunter2") {
		t.Errorf("%d %s; want a problem", got.status, got.body)
	}
}

func TestAStreamFromBeyondTheLogBeginsAnew(t *testing.T) {
	t.Parallel()
	r := start(t, memory(t), rules())
	r.life(t, "hermes")
	events, _ := r.follow(t, "books", "99999999999999-0.999999")
	if e := <-events; e.name != "reset" {
		t.Errorf("first event %+v; want reset: the client reads the list again", e)
	}
	id := r.life(t, "hermes")
	if seen := until(t, events, id); !slices.Equal(names(seen, id), wholeLife) {
		t.Errorf("after the reset: %v; want %v", names(seen, id), wholeLife)
	}
}
