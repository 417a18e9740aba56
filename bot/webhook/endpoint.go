package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Config is a `webhook:` section. Paths of files are as they are from here.
type Config struct {
	URL                string   `yaml:"url"`
	SecretFile         string   `yaml:"secret_file"`          // holds whsec_…
	PreviousSecretFile string   `yaml:"previous_secret_file"` // while secrets are rotated: both sign
	AllowCIDRs         []string `yaml:"allow_cidrs"`          // networks that are called although they are not public
	CAFile             string   `yaml:"ca_file"`              // roots to trust instead of the system's
	Timeout            string   `yaml:"timeout"`              // of one request; empty is 30s
}

// DefaultTimeout bounds one request, from its first byte to the answer's last.
const DefaultTimeout = 30 * time.Second

// Endpoint is a receiver. It is safe for concurrent use.
type Endpoint struct {
	peer    *Peer
	keys    []Key // the present one first
	timeout time.Duration
	idle    idle
}

// New checks a configuration and reports all that is wrong, each with its key. It
// calls nobody.
func New(c Config) (*Endpoint, error) {
	peer, errPeer := NewPeer(PeerConfig{URL: c.URL, AllowCIDRs: c.AllowCIDRs, CAFile: c.CAFile})
	keys, errKeys := readKeys(c)
	timeout, errTime := parseTimeout(c.Timeout)
	if err := errors.Join(errPeer, errKeys, errTime); err != nil {
		return nil, err
	}
	return &Endpoint{peer: peer, keys: keys, timeout: timeout}, nil
}

func readKeys(c Config) ([]Key, error) {
	now, err := readKey("secret_file", c.SecretFile)
	if err != nil || c.PreviousSecretFile == "" {
		return []Key{now}, err
	}
	before, err := readKey("previous_secret_file", c.PreviousSecretFile)
	return []Key{now, before}, err
}

func readKey(name, file string) (Key, error) {
	if file == "" {
		return Key{}, fmt.Errorf(`%s: nothing is sent unsigned; make a secret with: echo "whsec_$(openssl rand -base64 32)"`, name)
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", name, err)
	}
	key, err := ParseKey(string(text))
	if err != nil {
		return Key{}, fmt.Errorf("%s: %s: %w", name, file, err)
	}
	return key, nil
}

func parseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return DefaultTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("timeout: %q: want a time, like 30s", text)
	}
	return d, nil
}

// Connect returns a connection that is ready to send: one that was used a moment
// ago, or a new one. An error means that nothing was sent. The caller ends it with
// Send or Close.
func (e *Endpoint) Connect(ctx context.Context) (*Conn, error) {
	if c := e.idle.take(); c != nil {
		return &Conn{end: e, http: c}, nil
	}
	c, err := e.peer.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("webhook: connect: %w", err)
	}
	return &Conn{end: e, http: c}, nil
}
