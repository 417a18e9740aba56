package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/console"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

//go:embed demo.yaml
var demoPolicy []byte

type demoFlags struct {
	auto   bool
	listen string
}

func newDemo(p process) *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use: "demo", Short: "try it: a demo agent asks, you approve in the browser",
		Long: `Runs a server with its state in memory and a policy of its own, and an agent that
makes four calls: one that nobody gates, one that waits for you, one that is staged
and run after you approve it, and one that policy never allows. Nothing has to be
installed, and nothing survives.

With --auto it approves by itself, prints every outcome, and exits.`,
		Example: "  approvalbot demo\n  approvalbot demo --auto\n  approvalbot demo --listen 127.0.0.1:9000",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), p, f) },
	}
	c.Flags().BoolVar(&f.auto, "auto", false, "approve by itself and exit; for machines")
	c.Flags().StringVar(&f.listen, "listen", "", "host:port; 127.0.0.1:8080 or, if that is taken, any free port")
	return c
}

// Names of the demo's two keys.
const (
	demoAgent    = "demo-agent"
	demoApprover = "you"
)

func demo(ctx context.Context, p process, f demoFlags) error {
	decider := "you"
	if f.auto {
		decider = "the demo"
	}
	cfg, keys, err := demoConfig(decider)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelError}))
	st, err := openStore(ctx, cfg, "memory", log)
	if err != nil {
		return err
	}
	defer closing(log, st)
	listener, err := demoListener(ctx, f.listen)
	if err != nil {
		return err
	}
	var link *console.DemoLink
	if !f.auto {
		link = console.NewDemoLink(demoApprover)
	}
	svc, err := assemble(ctx, cfg, st, replicaName("demo"), link, log)
	if err != nil {
		return err
	}
	play, err := newPlay(p, "http://"+listener.Addr().String(), keys, link)
	if err != nil {
		return err
	}
	srv := &server{log: log, listener: listener, handler: svc.handler, drain: svc.drain, drained: svc.drained, parts: svc.parts}
	err = alongside(ctx, srv.run, play.run)
	if ctx.Err() != nil { // Ctrl-C is how a demo ends
		return play.line("\nStopped. Nothing is left of it.")
	}
	return err
}

// alongside runs a server for as long as main takes. A server that fails ends
// both.
func alongside(ctx context.Context, serve, main func(context.Context) error) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return serve(serving) })
	group.Go(func() error {
		defer stop()
		return main(serving)
	})
	return group.Wait()
}

// demoConfig makes a configuration with fresh keys, and the keys by name. The
// decider is the person who approves.
func demoConfig(decider string) (*config.Loaded, map[string]secret.String, error) {
	cfg := &config.Loaded{}
	if err := yaml.UnmarshalWithOptions(demoPolicy, &cfg.Config, yaml.DisallowUnknownField()); err != nil {
		return nil, nil, fmt.Errorf("demo.yaml: %w", err)
	}
	agent, agentHash := bot.NewKey()
	you, yourHash := bot.NewKey()
	cfg.Keys = []bot.KeyConfig{
		{Name: demoAgent, Roles: []string{"agent"}, Hash: agentHash},
		{Name: demoApprover, Roles: []string{"approver"}, Person: decider, Hash: yourHash},
	}
	var problems []gate.Problem
	cfg.APIKeys, problems = bot.NewKeys(cfg.Keys)
	policy, more := gate.NewPolicy(cfg.Approvals, cfg.Approvers, cfg.People, cfg.APIKeys.Principals(), nil)
	cfg.Policy = policy
	for _, b := range append(problems, more...) {
		return nil, nil, errors.New(b.String())
	}
	return cfg, map[string]secret.String{demoAgent: agent, demoApprover: you}, nil
}

func demoListener(ctx context.Context, listen string) (net.Listener, error) {
	var lc net.ListenConfig
	if listen != "" {
		return lc.Listen(ctx, "tcp", listen)
	}
	if l, err := lc.Listen(ctx, "tcp", "127.0.0.1:8080"); err == nil {
		return l, nil
	}
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}
