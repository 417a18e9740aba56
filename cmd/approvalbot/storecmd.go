package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/store"
)

// byCommandLine is who the audit log names for what is done with the config file
// in hand, past the API and its keys.
const byCommandLine = "command line"

func newStore(p process) *cobra.Command {
	c := group("store", "change how the store is kept", newDurability(p), newResetClock(p))
	c.Example = "  approvalbot store durability standard --config approvalbot.yaml\n  approvalbot store reset-clock --config approvalbot.yaml"
	return c
}

func newDurability(p process) *cobra.Command {
	var file, flag string
	c := &cobra.Command{
		Use: "durability strict|standard", Short: "change the level that servers must start with",
		Long: `Changes the durability that is stored in Redis; a server whose config says another
one does not start. Stop all servers first, and set store.durability in their config
files afterwards. Approvals that are open become void, and people are asked again.`,
		Example: "  approvalbot store durability standard --config approvalbot.yaml", Args: cobra.ExactArgs(1),
		ValidArgs: []string{string(store.Strict), string(store.Standard)},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := withStore(cmd.Context(), p, file, flag, alone, func(s *store.Redis) error {
				return s.SetDurability(cmd.Context(), store.Durability(args[0]), byCommandLine)
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.out, "The stored durability is %s. Set store.durability in every config file, then start the servers.\n", args[0])
			return err
		},
	}
	configFlag(c, &file)
	storeFlag(c, &flag)
	return c
}

func newResetClock(p process) *cobra.Command {
	var file, flag string
	c := &cobra.Command{
		Use: "reset-clock", Short: "believe Redis's clock again after it stepped back",
		Long: `Redis's clock stepped back, and so nothing can be decided or dispatched
(clock_doubtful) until it has caught up. Find out why first; then this takes the clock
for true as it is now. Deadlines that were set before the step come later.`,
		Example: "  approvalbot store reset-clock --config approvalbot.yaml", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := withStore(cmd.Context(), p, file, flag, beside, func(s *store.Redis) error { return s.ResetClock(cmd.Context(), byCommandLine) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(p.out, "The clock is taken for true again.")
			return err
		},
	}
	configFlag(c, &file)
	storeFlag(c, &flag)
	return c
}

// withStore does something to the store of a config file, entered so if it is embedded.
func withStore(ctx context.Context, p process, file, flag string, enter entrance, do func(*store.Redis) error) (err error) {
	cfg, err := loadConfig(p, file)
	if err != nil {
		return err
	}
	s, err := storeAsItIs(ctx, cfg, flag, enter)
	if err != nil {
		return err
	}
	defer func() {
		if failed := s.Close(); err == nil {
			err = failed
		}
	}()
	return do(s.Redis)
}
