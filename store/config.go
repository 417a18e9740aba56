package store

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
	Redis        Server     `yaml:"redis"`
	Durability   Durability `yaml:"durability"`    // empty: as stored, else Strict unless Standard is sure to hold
	WaitReplicas int        `yaml:"wait_replicas"` // that confirm each decision and dispatch: all there are; 0: none is asked
	WaitTimeout  string     `yaml:"wait_timeout"`  // for that, at most 1s; empty: 500ms

	Space        string        `yaml:"-"` // of one tenant; empty: "default"
	Fingerprints []string      `yaml:"-"` // of the server keys, the one that signs first
	Retention    time.Duration `yaml:"-"` // of what has ended; 0: 7 days, which is also the least
}

// Server is a Redis or Valkey of version 7.0 or later: one primary, unless
// Sentinel or Cluster says more.
type Server struct {
	Addrs        []string  `yaml:"addrs"`    // "host:port", or one path of a unix socket
	Sentinel     *Sentinel `yaml:"sentinel"` // then Addrs are those of Sentinels; nil: none
	Cluster      bool      `yaml:"cluster"`  // then Addrs are some nodes, which know the others
	DB           int       `yaml:"db"`
	Username     string    `yaml:"username"`
	PasswordFile string    `yaml:"password_file"`
	TLS          *TLS      `yaml:"tls"` // nil: none
}

// String says where it is, for logs and errors.
func (c *Server) String() string {
	all := strings.Join(c.Addrs, ", ")
	switch {
	case c.Sentinel != nil:
		return c.Sentinel.Master + " of the Sentinels " + all
	case c.Cluster:
		return "Cluster " + all
	}
	return all
}

// Sentinel says how to ask Sentinels for the primary.
type Sentinel struct {
	Master       string `yaml:"master"` // their name for it
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
	TLS          *TLS   `yaml:"tls"` // nil: as of the servers
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
	sure        *batcher              // of what all replicas confirm
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
	if all := c.Problems(); len(all) > 0 {
		return nil, errors.New(all[0].String())
	}
	connect, err := c.Redis.connector(c.wait().timeout)
	if err != nil {
		return nil, err
	}
	return newRedis(c, connect)
}

func newRedis(c Config, connect connector) (*Redis, error) {
	if c.Space == "" {
		c.Space = "default"
	}
	sp, err := newSpace(c.Space)
	if err != nil {
		return nil, err
	}
	s := &Redis{space: sp, declared: sp.declared(), config: c, retention: max(c.Retention, minRetention), stop: func() {}}
	if c.Durability == Standard {
		s.incarnation = anyIncarnation
	}
	s.db = connect(32)
	s.reader = connect(16) // one for each tail: hub, sealer, followers
	s.scripts = newBatcher(s.node, confirmation{})
	s.sure = s.scripts
	if w := c.wait(); w.replicas > 0 {
		w.key = sp.key("confirmed")
		s.sure = newBatcher(s.node, w)
	}
	return s, nil
}

// Close lets go of all connections.
func (s *Redis) Close() error {
	err := errors.Join(s.reader.Close(), s.db.Close())
	s.stop()
	return err
}
