package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/store"
	"github.com/approvalbot/approvalbot/store/embedded"
)

// openEmbedded starts the server of a data folder, and opens the store in it.
func openEmbedded(ctx context.Context, c store.Config, dir string, log *slog.Logger) (opened, error) {
	server, err := embedded.Start(ctx, dir, log)
	if err != nil {
		return opened{}, err
	}
	s, err := store.Open(ctx, reachedAt(c, server))
	if err != nil {
		return opened{}, fmt.Errorf("embedded store in %s: %w", server.Dir(), errors.Join(err, server.Close()))
	}
	return opened{Redis: s, name: "embedded in " + server.Dir(), server: server}, nil
}

// reachedAt is a store in a server of a data folder.
func reachedAt(c store.Config, server *embedded.Server) store.Config {
	c.Redis = store.Server{Addrs: []string{server.Socket()}, PasswordFile: server.PasswordFile()}
	return c
}

// storeAsItIs is the Redis of a config file for a command: not probed, and so also one
// that no server would start with.
func storeAsItIs(ctx context.Context, cfg *config.Loaded, flag string, enter entrance) (opened, error) {
	chosen, err := chosenStore(cfg, flag)
	switch {
	case err != nil:
		return opened{}, err
	case chosen.Memory:
		return opened{}, errors.New("the store is in the memory of another process; nothing can be done to it from here")
	case chosen.Embedded == nil:
		s, err := store.New(chosen.Config)
		return opened{Redis: s}, err
	}
	server, err := enter(ctx, chosen.Embedded.Dir)
	if err != nil {
		return opened{}, err
	}
	s, err := store.New(reachedAt(chosen.Config, server))
	if err != nil {
		return opened{}, errors.Join(err, server.Close())
	}
	return opened{Redis: s, server: server}, nil
}

// storeFlag chooses the store as serve's does.
func storeFlag(c *cobra.Command, flag *string) {
	c.Flags().StringVar(flag, "store", "", "embedded, if serve runs with that; else the config file's")
}

// entrance is a way to the server of a data folder.
type entrance func(ctx context.Context, dir string) (*embedded.Server, error)

// alone runs the server for as long as a command needs it, and so refuses while another
// process does.
func alone(ctx context.Context, dir string) (*embedded.Server, error) {
	return embedded.Start(ctx, dir, slog.New(slog.DiscardHandler))
}

// beside goes to the server that another process runs, or else runs it.
func beside(ctx context.Context, dir string) (*embedded.Server, error) {
	s, err := embedded.Attach(ctx, dir)
	if errors.Is(err, embedded.ErrNotRunning) {
		return alone(ctx, dir)
	}
	return s, err
}
