package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(p process) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Example: "  approvalbot version\n  approvalbot version -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			if asJSON(cmd) {
				return printJSON(p.out, v)
			}
			return newScreen(p).line("approvalbot %s (%s, %s)", v.Version, v.Commit, v.Go)
		},
	}
}

// version is what the binary knows of its own making.
type version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func buildVersion() version {
	v := version{Version: "(devel)", Commit: "unknown commit", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

func newCompletion(p process) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "print a completion script for your shell",
		Example:   "  source <(approvalbot completion bash)\n  approvalbot completion fish > ~/.config/fish/completions/approvalbot.fish",
		ValidArgs: shells, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.out, true)
			case "zsh":
				return root.GenZshCompletion(p.out)
			case "fish":
				return root.GenFishCompletion(p.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(p.out)
			}
		},
	}
}
