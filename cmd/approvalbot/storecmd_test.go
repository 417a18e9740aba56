package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/store"
)

func TestStoredDurabilityIsChangedByACommand(t *testing.T) {
	t.Parallel()
	socket := startRedis(t)
	at := func(level string) *home {
		return newHome(t, oneRule, "store: {redis: {addrs: ["+socket+"]}, durability: "+level+"}")
	}
	strict, standard := at("strict"), at("standard")
	key := newServerKey()
	strict.write("server.key", key)
	standard.write("server.key", key)
	starts := func(h *home) error {
		cfg, err := loadConfig(process{env: func(string) string { return "" }, err: h.t.Output()}, h.path("approvalbot.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := openStore(t.Context(), cfg, "", slog.New(slog.DiscardHandler))
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := starts(strict); err != nil {
		t.Fatal(err)
	}
	if err := starts(standard); err == nil {
		t.Error("a server of another level starts")
	}
	r := shell{}.run(t, "store", "durability", string(store.Standard), "--config", standard.path("approvalbot.yaml"))
	wantCode(t, r, exitOK)
	if err := starts(standard); err != nil {
		t.Errorf("after the command: %v", err)
	}
	if err := starts(strict); err == nil {
		t.Error("after the command a server of the old level starts")
	}
	wantCode(t, shell{}.run(t, "store", "reset-clock", "--config", standard.path("approvalbot.yaml")), exitOK)

	r = shell{}.run(t, "store", "durability", "loose", "--config", standard.path("approvalbot.yaml"))
	wantCode(t, r, exitBlock)
	if !strings.Contains(r.err, "strict or standard") {
		t.Errorf("it says %q", r.err)
	}
}
