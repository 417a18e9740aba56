package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

func newDoctorAll(p process) *cobra.Command {
	var file, flag string
	c := &cobra.Command{
		Use: "all", Short: "the store and every chat of a config file, one after the other",
		Long: `Runs the doctors of the store and of each chat that the config file has. Nothing is
posted: whether Mattermost can call back shows only with doctor mattermost --press.

It fails (exit 2) if anything must be mended; warnings and notes alone do not.`,
		Example: "  approvalbot doctor all --config approvalbot.yaml\n  approvalbot doctor all -o json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return examination(cmd, p, file, func(ctx context.Context, f *findings, cfg *config.Loaded) {
				f.begin("store")
				(&storeDoctor{findings: f, cfg: cfg, flag: flag}).examine(ctx)
				if cfg.Slack != nil {
					f.begin(gate.Slack)
					newSlackDoctor(f, cfg).examine(ctx)
				}
				if cfg.Mattermost != nil {
					f.begin(gate.Mattermost)
					newMattermostDoctor(f, cfg).examine(ctx)
				}
			})
		},
	}
	configFlag(c, &file)
	storeFlag(c, &flag)
	return c
}

// begin says what the next findings are about, where there are several such things.
func (f *findings) begin(of string) {
	f.of = of
	if !f.json && f.written == nil {
		f.written = f.screen.line("%s", f.screen.styled(bold, of))
	}
}
