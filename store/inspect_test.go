package store

import (
	"errors"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

func TestInspectChangesNothingAndTellsWhatLiesThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendfsync", "always")
	db := server.Client()
	defer db.Close()
	c := Config{Redis: Server{Addrs: []string{server.Addr}}, Fingerprints: []string{"k1"}}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	r, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema != "" || r.Level != "" || r.Key != "" || r.Pending != 0 || r.Behind != 0 {
		t.Errorf("of an empty one it tells %+v", r)
	}
	if n := db.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it wrote %d keys", n)
	}
	if r.Unusable != nil || r.Lacks != nil || r.Scripts != nil || !r.Primary || r.Disk != (Disk{AppendOnly: true, Fsync: "always", Saves: r.Disk.Saves}) {
		t.Errorf("of a good one it tells %+v", r)
	}

	opened, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, opened)
	o := gate.Opening{ID: "apr_1", Mode: gate.Deferred, ExpiresIn: time.Hour, Subject: gate.Subject{Call: gate.Call{Tool: "t"}, Requester: gate.Requester{Key: "hermes"}, Executor: gate.RequesterRuns}}
	o.Digest, _ = o.Call.Digest()
	if _, err := opened.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	db.HSet(t.Context(), "approvalbot:{default}:meta", "hi", time.Now().Add(time.Hour).UnixMilli())
	r, err = s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema != Schema() || r.Level != Standard || r.Key != ShortKey("k1") || r.Pending != 1 || r.Waits < 0 || r.Behind < 50*time.Minute {
		t.Errorf("it tells %+v", r)
	}
	gone, err := New(Config{Redis: Server{Addrs: []string{"127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, gone)
	if _, err := gone.Inspect(t.Context()); !errors.Is(err, gate.Unavailable) {
		t.Errorf("Inspect of what is not there = %v, want Unavailable", err)
	}
}
