package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// connector makes clients of the same servers, with so many connections each.
type connector func(pool int) redis.UniversalClient

// connector reads what it takes to connect. Which kind of client it is the
// configuration says, never the number of addresses.
func (c *Server) connector(wait time.Duration) (connector, error) {
	opt, err := c.options()
	if err != nil {
		return nil, err
	}
	tame(opt)
	opt.ReadTimeout += wait
	switch {
	case c.Sentinel != nil:
		return c.failover(*opt)
	case c.Cluster:
		return c.cluster(*opt), nil
	}
	return alone(*opt), nil
}

func alone(opt redis.Options) connector {
	return func(pool int) redis.UniversalClient {
		opt := opt
		opt.PoolSize = pool
		return redis.NewClient(&opt)
	}
}

// tame takes out of the client what would act behind our back. By itself it
// resends a script whose reply was lost and reports the success of the first
// as the refusal of the second; persist does that knowingly.
func tame(opt *redis.Options) {
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second, time.Second
	opt.Protocol = 2 // scripts read WITHSCORES as flat lists
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// failover makes clients that ask Sentinels for the primary whenever they connect,
// and leave it when another is promoted.
func (c *Server) failover(opt redis.Options) (connector, error) {
	password, err := readPassword("sentinel.password_file", c.Sentinel.PasswordFile)
	if err != nil {
		return nil, err
	}
	secure := opt.TLSConfig
	if c.Sentinel.TLS != nil {
		if secure, err = c.Sentinel.TLS.config("sentinel.tls"); err != nil {
			return nil, err
		}
	}
	return func(pool int) redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: c.Sentinel.Master, SentinelAddrs: c.Addrs, SentinelUsername: c.Sentinel.Username, SentinelPassword: password,
			DB: opt.DB, Username: opt.Username, Password: opt.Password, Dialer: c.dialer(opt.TLSConfig, secure), PoolSize: pool,
			MaxRetries: opt.MaxRetries, DialerRetries: opt.DialerRetries, ContextTimeoutEnabled: opt.ContextTimeoutEnabled,
			DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
			Protocol: opt.Protocol, DisableIdentity: opt.DisableIdentity,
		})
	}, nil
}

// dialer connects to servers and to Sentinels, each with its own TLS. Sentinels
// that others tell of are taken for servers: name all that have a TLS of their own.
func (c *Server) dialer(servers, sentinels *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, d := servers, &net.Dialer{Timeout: time.Second}
		if slices.Contains(c.Addrs, addr) {
			config = sentinels
		}
		if config == nil {
			return d.DialContext(ctx, network, addr)
		}
		return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, addr)
	}
}

// cluster makes clients that know which node has which slot. Scripts go to that
// node past them, see node. What they do themselves may run twice, so they may
// follow a slot that has moved and ask again when a connection broke.
func (c *Server) cluster(opt redis.Options) connector {
	return func(pool int) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addrs, Username: opt.Username, Password: opt.Password, TLSConfig: opt.TLSConfig, PoolSize: pool,
			MaxRetries: opt.MaxRetries, MaxRedirects: 3, DialerRetries: opt.DialerRetries, ContextTimeoutEnabled: opt.ContextTimeoutEnabled,
			DialTimeout: opt.DialTimeout, ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
			Protocol: opt.Protocol, DisableIdentity: opt.DisableIdentity, MaintNotificationsConfig: opt.MaintNotificationsConfig,
			DisableRoutingPolicies: true, ClusterStateReloadInterval: 5 * time.Second, // a node that died tells nobody where its slots went
		})
	}
}

// node returns the client of the primary that has the space. It resends nothing:
// the client of a whole Cluster would, and it sends WAIT to any node.
func (s *Redis) node(ctx context.Context) (*redis.Client, error) {
	switch db := s.db.(type) {
	case *redis.Client:
		return db, nil
	case *redis.ClusterClient:
		return db.MasterForKey(ctx, s.declared[0])
	default:
		return nil, fmt.Errorf("store: no node of a %T", db)
	}
}

// look has a Cluster's client find out where the slots are now.
func (s *Redis) look(ctx context.Context) {
	if db, ok := s.db.(*redis.ClusterClient); ok {
		db.ReloadState(ctx)
	}
}

func (c *Server) options() (*redis.Options, error) {
	opt := &redis.Options{Network: "tcp", Addr: c.Addrs[0], DB: c.DB, Username: c.Username}
	if isPath(opt.Addr) {
		opt.Network = "unix"
	}
	var err error
	if opt.Password, err = readPassword("password_file", c.PasswordFile); err != nil {
		return nil, err
	}
	opt.TLSConfig, err = c.TLS.config("tls")
	return opt, err
}

// readPassword reads what a key of the configuration names.
func readPassword(key, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("store.redis.%s: %w", key, err)
	}
	password := strings.TrimSpace(string(b))
	if password == "" {
		return "", fmt.Errorf("store.redis.%s: %s is empty", key, file)
	}
	return password, nil
}

func (c *TLS) config(key string) (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("store.redis.%s.ca_file: %w", key, err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("store.redis.%s.ca_file: no certificate in %s", key, c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("store.redis.%s.cert_file, key_file: %w", key, err)
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}
