package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// serveFlags choose what the config file does not, or otherwise.
type serveFlags struct{ file, store, listen string }

func newServe(p process) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use: "serve", Short: "run the server",
		Long: `Runs the server until it is interrupted; then parked callers are answered, and
what is under way gets 10 seconds to finish.

The policy is read again when the config file changes and on SIGHUP. A broken one,
or one that would turn the gate off, is refused and the old one stays in force.
Everything else in the file takes a restart.

With --store embedded it runs a redis-server or valkey-server of the PATH beside
itself, with its data in approvalbot-data beside the config file: approvals survive
restarts and power failures. That is for one machine and one process.`,
		Example: "  approvalbot serve --config approvalbot.yaml\n  approvalbot serve --config approvalbot.yaml --store embedded\n  approvalbot serve --config approvalbot.yaml --store memory --listen 127.0.0.1:0",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), p, f) },
	}
	configFlag(c, &f.file)
	c.Flags().StringVar(&f.store, "store", "", "embedded: in a Redis that this process runs; memory: in this process alone; whatever the config file says")
	c.Flags().StringVar(&f.listen, "listen", "", "host:port, instead of the config file's")
	return c
}

func serve(ctx context.Context, p process, f serveFlags) error {
	seen, _ := os.Stat(f.file)
	cfg, err := loadConfig(p, f.file)
	if err != nil {
		return err
	}
	log := newLog(p)
	st, err := openStore(ctx, cfg, f.store, log)
	if err != nil {
		return err
	}
	defer closing(log, st)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(f.listen, cfg.Listen))
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	replica := replicaName(host)
	svc, err := assemble(ctx, cfg, st, replica, nil, log)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	fresh := &refresher{file: f.file, env: p.env, was: cfg.Config, gate: svc.gate, live: cfg, then: svc.reloaded, note: svc.note, log: log}
	svc.parts = append(svc.parts, part{"reload", reloader{f.file, seen, hangup, fresh.reload}.run})
	sayStart(log, cfg, st, listener.Addr(), replica)
	return (&server{log: log, listener: listener, handler: svc.handler, drain: svc.drain, drained: svc.drained, parts: svc.parts}).run(ctx)
}

func closing(log *slog.Logger, st opened) {
	if err := st.Close(); err != nil {
		log.Warn("store not closed", "err", err)
	}
}

// newLog writes for people on a terminal, else for machines.
func newLog(p process) *slog.Logger {
	if p.errTTY {
		return slog.New(slog.NewTextHandler(p.err, nil))
	}
	return slog.New(slog.NewJSONHandler(p.err, nil))
}

// sayStart says in one line what runs. That nothing is held is a line of its own.
func sayStart(log *slog.Logger, cfg *config.Loaded, st opened, addr net.Addr, replica string) {
	log.Info("serving", "listen", addr.String(), "store", st.name, "durability", string(st.Durability()),
		"policy", shortVersion(cfg.Policy), "rules", len(cfg.Policy.Rules()), "gate", gateState(cfg.Policy), "replica", replica)
	if gateState(cfg.Policy) != "on" {
		log.Warn("NO CALL IS HELD: the gate is disabled or off", "gate", gateState(cfg.Policy))
	}
	if st.name == "memory" {
		log.Warn("the store is in memory: nothing survives this process")
	}
}

func gateState(p *gate.Policy) string {
	switch {
	case p.Disabled():
		return "disabled"
	case p.Off():
		return "off"
	}
	return "on"
}
