package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
)

func newKeys(p process) *cobra.Command {
	c := group("keys", "make and list keys", newKeysNew(p), newKeysServer(p), newKeysList(p))
	c.Example = "  approvalbot keys new --name hermes --role agent\n  approvalbot keys server --out server.key"
	return c
}

func newKeysNew(p process) *cobra.Command {
	var k bot.KeyConfig
	c := &cobra.Command{
		Use: "new", Short: "make an API key",
		Long: `Makes an API key and prints it on standard output, once: nobody can show it again.
What the server needs, its hash and an entry for the config file, is printed on
standard error; with --hash-file the hash is written there as well.

Roles: agent asks and runs; approver decides; worker runs for others; auditor
reads everything; admin sets bypasses and confirms grants. An agent's key has no
other role, an approver's belongs to a person, and a worker's names its queues.`,
		Example: "  approvalbot keys new --name hermes --role agent\n  approvalbot keys new --name ann-cli --role approver --person ann --hash-file keys/ann-cli.sha256\n  approvalbot keys new --name builder --role worker --queue batch",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return makeKey(p, k, asJSON(cmd)) },
	}
	f := c.Flags()
	f.StringVar(&k.Name, "name", "", "name of the key, for config and audit log (required)")
	f.StringSliceVar(&k.Roles, "role", nil, "agent, approver, worker, auditor or admin; may be repeated (required)")
	f.StringVar(&k.Person, "person", "", "whom the key belongs to; approvers need one")
	f.StringSliceVar(&k.Queues, "queue", nil, "executor whose calls the key may run; workers need one, may be repeated")
	f.StringVar(&k.HashFile, "hash-file", "", "write the hash to this new file")
	_ = c.MarkFlagRequired("name")
	_ = c.MarkFlagRequired("role")
	return c
}

// madeKey is what `keys new -o json` prints.
type madeKey struct {
	Name   string `json:"name"`
	Key    string `json:"key"`
	Hash   string `json:"hash"`
	Config string `json:"config"`
}

func makeKey(p process, k bot.KeyConfig, jsonOut bool) error {
	key, hash := bot.NewKey()
	k.Hash = hash
	if _, problems := bot.NewKeys([]bot.KeyConfig{k}); len(problems) > 0 {
		return keyProblems(problems)
	}
	file := k.HashFile
	if file == "" {
		file = path.Join("keys", path.Base(k.Name)+".sha256")
	} else if err := writeNew(file, hash, 0o644); err != nil {
		return err
	}
	made := madeKey{Name: k.Name, Key: key.Reveal(), Hash: hash, Config: keyEntry(k, file)}
	if jsonOut {
		return printJSON(p.out, made)
	}
	if _, err := fmt.Fprintln(p.out, made.Key); err != nil {
		return err
	}
	return explainKey(p.err, made, file, k.HashFile != "")
}

func keyProblems(problems []gate.Problem) error {
	var errs []error
	for _, b := range problems {
		_, field, _ := strings.Cut(b.Path, ".")
		errs = append(errs, fmt.Errorf("%s: %s", field, b.Text))
	}
	return errors.Join(errs...)
}

func keyEntry(k bot.KeyConfig, file string) string {
	more := ""
	if k.Person != "" {
		more = fmt.Sprintf("person: %q, ", k.Person)
	}
	if len(k.Queues) > 0 {
		more += fmt.Sprintf("queues: [%s], ", strings.Join(k.Queues, ", "))
	}
	return fmt.Sprintf("- {name: %q, roles: [%s], %shash_file: %q}", k.Name, strings.Join(k.Roles, ", "), more, file)
}

func explainKey(w io.Writer, k madeKey, file string, written bool) error {
	where := "Its hash is in " + file + "."
	if !written {
		where = fmt.Sprintf("Put its hash in a file: printf %s > '%s'", k.Hash, file)
	}
	_, err := fmt.Fprintf(w, "That is the key of %s. It is shown this once; its holder sets it as APPROVALBOT_TOKEN.\n%s\nList it in the config file and restart the server:\n\nkeys:\n  %s\n", k.Name, where, k.Config)
	return err
}

func newKeysServer(p process) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "server", Short: "make a server key",
		Long: `Makes the key with which the server signs tokens, votes and grants. All replicas
use the same one (key_file in the config). It is never printed where --out is
given: the file is created for its owner only, and never overwritten.`,
		Example: "  approvalbot keys server --out server.key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key := newServerKey()
			switch {
			case out != "":
				return writeNew(out, key, 0o600)
			case asJSON(cmd):
				return printJSON(p.out, map[string]string{"server_key": key})
			}
			return newScreen(p).line("%s", key)
		},
	}
	c.Flags().StringVar(&out, "out", "", "write it to this new file instead of printing it")
	return c
}

// newServerKey returns 256 random bits as text.
func newServerKey() string {
	var b [gate.MinServerKey]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// writeNew creates a file; one that exists may be in use, and stays as it is.
func writeNew(name, text string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // the file that the caller names
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

func newKeysList(p process) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "list", Short: "list the keys of a config file", Example: "  approvalbot keys list --config approvalbot.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(p, file)
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				return printJSON(p.out, listedKeys(cfg.Keys))
			}
			var rows [][]cell
			for _, k := range cfg.Keys {
				rows = append(rows, []cell{{k.Name, bold}, {strings.Join(k.Roles, ", "), plain}, {k.Person, plain}, {strings.Join(k.Asserts, ", "), plain}, {k.HashFile, dim}})
			}
			return newScreen(p).table([]string{"NAME", "ROLES", "PERSON", "ASSERTS", "HASH FILE"}, rows)
		},
	}
	configFlag(c, &file)
	return c
}

// listedKey is one row of `keys list -o json`.
type listedKey struct {
	Name     string   `json:"name"`
	Roles    []string `json:"roles"`
	Person   string   `json:"person,omitempty"`
	Asserts  []string `json:"asserts,omitempty"`
	HashFile string   `json:"hash_file,omitempty"`
}

func listedKeys(keys []bot.KeyConfig) []listedKey {
	out := []listedKey{}
	for _, k := range keys {
		out = append(out, listedKey{k.Name, k.Roles, k.Person, k.Asserts, k.HashFile})
	}
	return out
}
