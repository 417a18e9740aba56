package main

import (
	"context"
	"log/slog"

	"github.com/approvalbot/approvalbot/bot/deliver"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// newOutbox is what tells hooks and callbacks. It runs without any too: what was
// before there were some is told to nobody.
func newOutbox(ctx context.Context, cfg *config.Loaded, st opened, g *gate.Gate, log *slog.Logger) (*deliver.Outbox, error) {
	return deliver.Open(ctx, deliver.Config{
		Store: st, Gate: g, Hooks: cfg.Receivers, Log: log,
		Callbacks: func(key, address string) (webhook.Config, error) {
			c, err := cfg.APIKeys.Callbacks(key, address)
			return config.CallbackTo(c, address), err
		},
	})
}
