package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/approvalbot/approvalbot/gate"
)

func TestSpacesNeverSeeEachOther(t *testing.T) {
	t.Parallel()

	server := miniredis.RunT(t)
	in := func(name string) *Redis {
		s, err := New(Config{Redis: Server{Addrs: []string{server.Addr()}}, Durability: Standard, Space: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	one, other := in("one"), in("other")
	o := gate.Opening{ID: gate.NewID(), Mode: gate.Deferred, ExpiresIn: time.Hour, Key: "k"}
	o.Call, o.Requester, o.Executor = gate.Call{Tool: "t"}, gate.Requester{Key: "hermes"}, gate.RequesterRuns
	o.Digest, _ = o.Call.Digest()
	if _, err := one.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), o.ID); !errors.Is(err, gate.NotFound) {
		t.Errorf("Get in the other space = %v, want not found", err)
	}
	if _, err := other.Find(t.Context(), "hermes", "k"); !errors.Is(err, gate.NotFound) {
		t.Errorf("Find in the other space = %v, want not found", err)
	}
	if page, err := other.List(t.Context(), gate.Query{}); err != nil || len(page.Rows) > 0 || page.Pending > 0 {
		t.Errorf("List in the other space = %+v, %v; want nothing", page, err)
	}
	for _, key := range server.Keys() { // one hash tag, and so one slot of a Cluster
		if !strings.HasPrefix(key, "approvalbot:{one}:") && !strings.HasPrefix(key, "approvalbot:{other}:") {
			t.Errorf("key %q is outside its space", key)
		}
	}
}
