package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/api"
	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/embedded"
)

// quietLibraries keeps the Redis client from writing lines of its own between
// those of the log. It returns every error that it writes.
func quietLibraries() { logging.Disable() }

// opened is a store, and what to say about it.
type opened struct {
	*store.Redis
	name   string
	server *embedded.Server // that holds the store; nil: it is not this process's
}

// Close lets go of the store, and then ends its server.
func (o opened) Close() error {
	err := o.Redis.Close()
	if o.server != nil {
		err = errors.Join(err, o.server.Close())
	}
	return err
}

var errNoStore = errors.New(`no store is chosen. There are three:
  for one machine, a Redis that this program runs by itself:  --store embedded  (or store: embedded)
  a Redis 7 or later, in the config file:  store: {redis: {addrs: ["localhost:6379"]}}
  this process's memory, where nothing survives it:  --store memory  (or store: memory)`)

// openStore opens the store that flag, which wins, or config chooses. Without a
// choice it refuses: where approvals are kept is nothing to guess.
func openStore(ctx context.Context, cfg *config.Loaded, flag string, log *slog.Logger) (opened, error) {
	chosen, err := chosenStore(cfg, flag)
	if err != nil {
		return opened{}, err
	}
	if err := ensureKey(cfg, chosen.Memory); err != nil {
		return opened{}, err
	}
	c := chosen.Config
	c.Fingerprints = cfg.Keyring.Fingerprints()
	switch {
	case chosen.Memory:
		s, err := store.OpenMemory(ctx, c)
		return opened{Redis: s, name: "memory"}, err
	case chosen.Embedded != nil:
		return openEmbedded(ctx, c, chosen.Embedded.Dir, log)
	}
	name := "redis " + c.Redis.String()
	s, err := store.Open(ctx, c)
	if err != nil {
		return opened{}, fmt.Errorf("%s: %w", name, err)
	}
	return opened{Redis: s, name: name}, nil
}

// chosenStore is the store that a flag or else the config file chooses.
func chosenStore(cfg *config.Loaded, flag string) (config.Store, error) {
	switch {
	case flag == "memory":
		return config.Store{Memory: true}, nil
	case flag == "embedded" && (cfg.Store == nil || cfg.Store.Embedded == nil):
		return config.Store{Embedded: &config.Embedded{Dir: cfg.DataDir}}, nil
	case flag != "" && flag != "embedded":
		return config.Store{}, fmt.Errorf("--store: %q is unknown; want embedded or memory (a Redis belongs in the config file, under store)", flag)
	case cfg.Store == nil:
		return config.Store{}, errNoStore
	}
	return *cfg.Store, nil
}

// ensureKey makes a server key for a store that does not outlive the process.
func ensureKey(cfg *config.Loaded, memory bool) (err error) {
	if cfg.Keyring != nil {
		return nil
	}
	if !memory {
		return errors.New("no server key; make one with `approvalbot keys server --out server.key` and name it in the config file: key_file: server.key")
	}
	cfg.Keyring, err = gate.NewKeyring(secret.New(newServerKey()))
	return err
}

// service is the parts of a running approvalbot, put together.
type service struct {
	gate    *gate.Gate
	handler http.Handler
	drain   func()
	drained func()       // when the last request is answered
	note    func(string) // for /readyz

	reloaded func(context.Context) // does what another policy takes
	parts    []part
}

// assemble names every concrete part, and is the only place that does.
func assemble(ctx context.Context, cfg *config.Loaded, st opened, replica string, demo *console.DemoLink, log *slog.Logger) (*service, error) {
	hub := bot.NewHub(st, log)
	g := gate.New(st, cfg.Keyring, hub, cfg.Policy, log)
	reaper := &bot.Reaper{Store: st, Refresh: g.Refresh, Log: log}
	chats, err := newChats(ctx, cfg, st, g, replica, log)
	if err != nil {
		return nil, err
	}
	outbox, err := newOutbox(ctx, cfg, st, g, log)
	if err != nil {
		return nil, err
	}
	runners, queues := executors(cfg, g, hub, replica, log)
	web := api.New(api.Config{Gate: g, Keys: cfg.APIKeys, Log: st, Hub: hub, Out: log, Notices: chats.notices, Queues: queues, Callbacks: st.Callbacks})
	pages, err := console.New(console.Config{
		Inbox: g, Grants: g, Wake: hub, Seal: cfg.Keyring, PublicURL: cfg.PublicURL, Notices: chats.notices, Demo: demo, Log: log,
		Login: login(cfg.APIKeys), Holder: holder(cfg.APIKeys),
	})
	if err != nil {
		return nil, err
	}
	drained, end := context.WithCancel(context.WithoutCancel(ctx))
	return &service{
		gate: g, handler: routes(drained, web, pages, chats.routes),
		drain: func() { web.Drain(); end() }, drained: chats.settle, note: web.Note, reloaded: chats.policy,
		parts: append([]part{
			{"hub", forever(hub.Run)},
			{"gate", forever(func(ctx context.Context) { g.Run(ctx, replica) })},
			{"reaper", forever(reaper.Run)},
			{"outbox", forever(outbox.Run)},
			{"durability", func(ctx context.Context) error { return recheck(ctx, st, log) }},
		}, append(runners, chats.parts...)...),
	}, nil
}

// executors are what runs staged calls here, and the queues of workers elsewhere with
// how long a call of each may take.
func executors(cfg *config.Loaded, g *gate.Gate, hub *bot.Hub, replica string, log *slog.Logger) (parts []part, queues map[string]time.Duration) {
	queues = map[string]time.Duration{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Runners)) {
		r := cfg.Runners[name]
		if r.Executor == nil {
			queues[name] = r.Timeout
			continue
		}
		parts = append(parts, part{"executor " + name, forever(func(ctx context.Context) {
			ready, stop := hub.Ready()
			defer stop()
			(&execute.Runner{
				Name: name, Owner: runnerName(replica), Executor: r.Executor, Gate: g, Timeout: r.Timeout, AtOnce: r.AtOnce, Ready: ready, Log: log,
			}).Run(ctx)
		})})
	}
	return parts, queues
}

// runnerName is a replica as the owner of leases. No API key can have such a name.
func runnerName(replica string) string { return "server:" + replica[max(0, len(replica)-56):] }

func forever(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error { run(ctx); return nil }
}

func login(keys *bot.Keys) func(string) (gate.Principal, bool) {
	return func(bearer string) (gate.Principal, bool) {
		k, ok := keys.Authenticate(bearer)
		if !ok {
			return gate.Principal{}, false
		}
		return k.Principal, true
	}
}

func holder(keys *bot.Keys) func(string) (gate.Principal, bool) {
	all := keys.Principals()
	return func(name string) (gate.Principal, bool) {
		i := slices.IndexFunc(all, func(p gate.Principal) bool { return p.Key == name })
		if i < 0 {
			return gate.Principal{}, false
		}
		return all[i], true
	}
}

// routes puts API, console and what chats call behind one listener. Open pages are followed by
// streams that never end by themselves: they end when the server drains.
func routes(drained context.Context, web, pages http.Handler, chats map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", web)
	for path, h := range chats {
		mux.Handle(path, h)
	}
	mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusSeeOther))
	mux.Handle("/console", pages)
	mux.Handle("/console/", pages)
	mux.HandleFunc("/console/events", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(drained, cancel)()
		pages.ServeHTTP(w, r.WithContext(ctx)) //nolint:contextcheck // it is the request's
	})
	return mux
}

const recheckEvery = time.Minute

// rechecker is what can say whether the store still keeps its promises.
type rechecker interface{ Recheck(context.Context) error }

// recheck ends, and with it the process, when the store can no longer keep its
// promises: an edited configuration, a replica that was attached. One that does
// not answer, or that lacks a replica which must confirm, is an outage, which every
// call notices by itself.
func recheck(ctx context.Context, st rechecker, log *slog.Logger) error {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		err := st.Recheck(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case gate.KindOf(err) == gate.Unavailable:
			log.WarnContext(ctx, "store cannot decide anything for now", "err", err)
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// replicaName tells this process from its siblings, and from its own last life.
func replicaName(host string) string { return host + "-" + rand.Text()[:8] }
