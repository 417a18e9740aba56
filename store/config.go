package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/approvalbot/approvalbot/gate"
)

// Durability is what the store promises about power failures and fail-overs.
type Durability string

// The levels of durability. Both promise that an approval is dispatched at most
// once; they differ in what they need for it.
const (
	// Strict binds every approval to the incarnation of the Redis primary. After
	// a restart or fail-over what was not dispatched is void and people are
	// asked again. It needs nothing of the server.
	Strict Durability = "strict"
	// Standard lets approvals survive a restart. It needs one primary without
	// replicas that has each write on its disk before it answers.
	Standard Durability = "standard"
)

// Config says where the store is. The zero value of each field is a safe
// default but for Redis.Addrs.
type Config struct {
	Redis      Server     `yaml:"redis"`
	Durability Durability `yaml:"durability"` // empty: as stored, else Strict unless Standard is sure to hold

	Space        string        `yaml:"-"` // of one tenant; empty: "default"
	Fingerprints []string      `yaml:"-"` // of the server keys, the one that signs first
	Retention    time.Duration `yaml:"-"` // of what has ended; 0: 7 days, which is also the least
}

// Server is a Redis or Valkey of version 7.0 or later.
type Server struct {
	Addrs        []string `yaml:"addrs"` // one: "host:port", or the path of a unix socket
	DB           int      `yaml:"db"`
	Username     string   `yaml:"username"`
	PasswordFile string   `yaml:"password_file"`
	TLS          *TLS     `yaml:"tls"` // nil: none
}

// TLS says how to talk TLS; the zero value trusts the system's roots.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// minRetention is how long a replay must be recognised as one.
const minRetention = 7 * 24 * time.Hour

// Redis is the store. It is safe for concurrent use.
type Redis struct {
	db          redis.UniversalClient // moves
	scripts     *batcher
	reader      redis.UniversalClient // blocking reads of the log
	space       space
	declared    []string // KEYS of every script
	config      Config
	incarnation string // "" lets each script ask the server
	retention   time.Duration
	memory      bool
	stop        func() // what runs only for this store
}

var _ gate.Store = (*Redis)(nil)

// standing in for an incarnation under Standard: all are the same.
const anyIncarnation = "-"

// New makes a store without talking to Redis; Open is for processes that serve.
func New(c Config) (*Redis, error) {
	opt, err := c.Redis.options()
	if err != nil {
		return nil, err
	}
	return newRedis(c, opt)
}

func newRedis(c Config, opt *redis.Options) (*Redis, error) {
	if c.Space == "" {
		c.Space = "default"
	}
	sp, err := newSpace(c.Space)
	if err != nil {
		return nil, err
	}
	s := &Redis{space: sp, declared: sp.declared(), config: c, retention: max(c.Retention, minRetention), stop: func() {}}
	switch c.Durability {
	case "", Strict:
	case Standard:
		s.incarnation = anyIncarnation
	default:
		return nil, fmt.Errorf("store: durability %q: want %s or %s", c.Durability, Strict, Standard)
	}
	opt.PoolSize = 32
	s.db = redis.NewClient(tame(*opt))
	s.scripts = newBatcher(s.db)
	opt.PoolSize = 16 // one for each tail: hub, sealer, followers
	s.reader = redis.NewClient(tame(*opt))
	return s, nil
}

// tame takes out of the client what would act behind our back. By itself it
// resends a script whose reply was lost and reports the success of the first
// as the refusal of the second; persist does that knowingly.
func tame(opt redis.Options) *redis.Options {
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second, time.Second
	opt.Protocol = 2 // scripts read WITHSCORES as flat lists
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &opt
}

// Close lets go of all connections.
func (s *Redis) Close() error {
	err := errors.Join(s.reader.Close(), s.db.Close())
	s.stop()
	return err
}

func (c *Server) options() (*redis.Options, error) {
	if len(c.Addrs) != 1 || c.Addrs[0] == "" {
		return nil, errors.New(`store: redis.addrs: want one address, like ["localhost:6379"]`)
	}
	opt := &redis.Options{Network: "tcp", Addr: c.Addrs[0], DB: c.DB, Username: c.Username}
	if strings.HasPrefix(opt.Addr, "/") {
		opt.Network = "unix"
	}
	if c.PasswordFile != "" {
		b, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("store: redis.password_file: %w", err)
		}
		if opt.Password = strings.TrimSpace(string(b)); opt.Password == "" {
			return nil, fmt.Errorf("store: redis.password_file: %s is empty", c.PasswordFile)
		}
	}
	var err error
	opt.TLSConfig, err = c.TLS.config()
	return opt, err
}

func (c *TLS) config() (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("store: redis.tls.ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("store: redis.tls.ca_file: no certificate in %s", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("store: redis.tls.cert_file, key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}
