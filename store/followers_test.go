package store

import (
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// TestAReplicaThatIsLongGoneIsForgotten: its consumer is taken out of the group.
func TestAReplicaThatIsLongGoneIsForgotten(t *testing.T) {
	t.Parallel()
	s, db := openServer(t)
	follow := func(replica string, idle time.Duration) []gate.Entry {
		t.Helper()
		all, err := s.Follow(t.Context(), replica, 10, 0, idle)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	consumers := func() (n int) {
		t.Helper()
		all, err := db.XInfoConsumers(t.Context(), s.space.key("log"), cardGroup).Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if err := s.Note(t.Context(), gate.Entry{Event: gate.EventRefused, By: "x"}); err != nil {
		t.Fatal(err)
	}
	follow("b", time.Hour)
	if err := db.XGroupCreateConsumer(t.Context(), s.space.key("log"), cardGroup, "old").Err(); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-forgetAfter - time.Hour).UnixMilli()
	if err := db.HSet(t.Context(), s.space.key("followers"), "old", long).Err(); err != nil {
		t.Fatal(err)
	}
	follow("b", time.Hour)
	if n := consumers(); n != 1 {
		t.Errorf("%d consumers, want b alone", n)
	}
	if db.HExists(t.Context(), s.space.key("followers"), "old").Val() {
		t.Error("it is still among those that follow")
	}
}
