// Package config reads the config file: every mistake in it at once, each with
// its line and what to do about it. The types of its sections belong to the
// parts that they configure; this package puts them together.
//
//	file ─▶ decoder (decode.go) ─▶ Config ─▶ check (check.go) ─▶ Loaded
package config

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/deliver"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/slack"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// Example is a config file with every key there is, and what each does.
//
//go:embed example.yaml
var Example string

// Config is the config file.
type Config struct {
	Listen         string               `yaml:"listen"`           // host:port
	PublicURL      string               `yaml:"public_url"`       // where people reach the server
	KeyFile        string               `yaml:"key_file"`         // the server key; the same on all replicas
	Key            secret.String        `yaml:"key"`              // instead of KeyFile, as ${NAME}
	VerifyKeyFiles []string             `yaml:"verify_key_files"` // server keys that only verify, while they are rotated
	Store          *Store               `yaml:"store"`            // nil: none was chosen
	Channels       Channels             `yaml:"channels"`
	Review         map[string]string    `yaml:"review"`    // by channel: where cards go that have no other place
	Operators      map[string]string    `yaml:"operators"` // by channel: who is told when something is wrong
	Approvers      gate.ApproversConfig `yaml:"approvers"`
	People         []gate.PersonConfig  `yaml:"people"`
	Keys           []bot.KeyConfig      `yaml:"keys"`
	Executors      map[string]Executor  `yaml:"executors"` // by name: who runs staged calls
	Hooks          []deliver.HookConfig `yaml:"hooks"`     // who outside is told what happens
	Approvals      *gate.PolicyConfig   `yaml:"approvals"` // nil: nothing is gated
}

// Channels are the chats that cards go to.
type Channels struct {
	Slack      *slack.Config      `yaml:"slack"`
	Mattermost *mattermost.Config `yaml:"mattermost"`
}

// defaults hold before the file is read: loopback only.
var defaults = Config{Listen: "127.0.0.1:8080"}

// Store says where state is kept: `memory`, `embedded`, or a Redis.
type Store struct {
	store.Config
	Embedded *Embedded `yaml:"embedded"` // nil: the Redis is somebody else's
	Memory   bool      `yaml:"-"`
}

// Embedded is a Redis that serve runs by itself.
type Embedded struct {
	Dir string `yaml:"dir"` // for its data; empty: DataDir beside the config file
}

// DataDir is the name of the data folder of an embedded store, unless it is given.
const DataDir = "approvalbot-data"

// UnmarshalText reads the word that stands for a whole store.
func (s *Store) UnmarshalText(b []byte) error {
	switch string(b) {
	case "memory":
		s.Memory = true
	case "embedded":
		s.Embedded = &Embedded{}
	default:
		return fmt.Errorf("store %q: want embedded, memory, or {redis: {addrs: [\"host:port\"]}}", b)
	}
	return nil
}

// Loaded is a config file in which nothing is wrong, and what was made of it.
type Loaded struct {
	Config
	Policy  *gate.Policy
	APIKeys *bot.Keys
	Keyring *gate.Keyring // nil without a server key
	Runners map[string]Runner
	DataDir string // of an embedded store, also if the file chooses none

	Receivers *deliver.Hooks // of Hooks

	Slack      *slack.Slack           // nil without one
	Mattermost *mattermost.Mattermost // nil without one
}

// Problem is a mistake in a config file, or with Warning a doubt about it.
type Problem struct {
	File      string
	Line, Col int    // from 1
	Path      string // "approvals.tool_gate.rules[2].match.tool"; empty for the file itself
	Text      string // what is wrong, and the fix
	Warning   bool
}

func (p Problem) String() string {
	text := p.Text
	if p.Warning {
		text = "warning: " + text
	}
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, text)
}

// maxFile is the size of a config file that nobody wrote.
const maxFile = 1 << 20

// Load reads a config file and the secrets that it names. With anything but
// warnings among the problems, the result is nil.
func Load(file string, env func(string) string) (*Loaded, []Problem) {
	src, err := os.ReadFile(file) //nolint:gosec // the operator names it
	switch {
	case err != nil:
		return nil, []Problem{{File: file, Line: 1, Col: 1, Text: err.Error()}}
	case len(src) > maxFile:
		return nil, []Problem{{File: file, Line: 1, Col: 1, Text: "larger than 1 MiB; is this the right file?"}}
	}
	return load(file, src, env)
}

func load(file string, src []byte, env func(string) string) (*Loaded, []Problem) {
	c := &checker{file: file, dir: filepath.Dir(file), env: env, loaded: &Loaded{Config: defaults}}
	c.text, c.secret = c.readText, c.readSecret
	c.document(src, &c.loaded.Config)
	c.check()
	return c.result()
}
