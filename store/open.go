package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// schema is the version of what lies in Redis. A process refuses any other.
const schema = "1"

// Open connects to Redis and refuses one on which the store could not keep its
// promises. The error says what to change.
func Open(ctx context.Context, c Config) (*Redis, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Redis) open(ctx context.Context) error {
	server, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := server.usable(); err != nil {
		return err
	}
	if err := s.chooseDurability(ctx, server); err != nil {
		return err
	}
	if err := server.waits(s.config.WaitReplicas); err != nil && gate.KindOf(err) != gate.Unavailable {
		return err
	}
	return s.probe(ctx)
}

// Recheck looks again at what Open found, for conditions that change under a
// running process: somebody attaches a replica or edits the configuration. A
// replica that is down breaks no promise, it only stops what waits for it.
// Whoever runs the service calls it every minute and stops serving on an error,
// unless it is of kind Unavailable: then nobody knows. A store in memory stays
// as it is.
func (s *Redis) Recheck(ctx context.Context) error {
	if s.memory {
		return nil
	}
	server, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := server.usable(); err != nil {
		return err
	}
	if s.config.Durability == Standard {
		return server.standard()
	}
	return server.waits(s.config.WaitReplicas)
}

// Durability returns the level in force.
func (s *Redis) Durability() Durability { return s.config.Durability }

// chooseDurability settles the level if the configuration does not: as it is
// stored, else Standard where that is sure to hold.
func (s *Redis) chooseDurability(ctx context.Context, server facts) error {
	if s.config.Durability == "" {
		stored, err := s.db.HGet(ctx, s.space.key("meta"), "level").Result()
		switch {
		case err == nil:
			s.config.Durability = Durability(stored)
		case server.standard() == nil && s.config.WaitReplicas == 0:
			s.config.Durability = Standard
		default:
			s.config.Durability = Strict
		}
	}
	if s.config.Durability != Standard {
		return nil
	}
	s.incarnation = anyIncarnation
	return server.standard()
}

// probe runs the first script. It checks that what lies in Redis is of this
// schema, level and server key, and stores them where nothing lies yet.
func (s *Redis) probe(ctx context.Context) error {
	args := []any{schema, string(s.config.Durability)}
	for _, f := range s.config.Fingerprints {
		args = append(args, short(f))
	}
	var res []any
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		all := append([]any{s.incarnation}, args...)
		res, err = s.scripts.run(ctx, probeScript, s.declared, all)
		return err
	})
	if lost(err) || elsewhere(err) {
		return unavailable("store.Open", err)
	}
	if err != nil {
		return fmt.Errorf("store: scripts cannot read TIME and INFO replication; %s: %w", rights, err)
	}
	r := reply(res)
	switch r.str(0) {
	case "OK":
		return nil
	case "SCHEMA":
		return fmt.Errorf("store: space %q is of schema %s, this program needs %s; run the release that wrote it", s.space, r.str(1), schema)
	case "LEVEL":
		return fmt.Errorf("store: space %q was set up with durability %s, the configuration says %s; all replicas must agree: correct the configuration, or change what is stored", s.space, r.str(1), s.config.Durability)
	case "KEY":
		return fmt.Errorf("store: space %q belongs to another server key (fingerprint %s); use that key_file, or list it in verify_key_files", s.space, r.str(1))
	}
	return fmt.Errorf("store: probe answered %q", r.str(0))
}

// SetDurability changes the level that processes must start with. What is open
// becomes void and is asked again, so stop them all first. Call it on a store
// made by New, because Open refuses one of another level.
func (s *Redis) SetDurability(ctx context.Context, level Durability, by string) error {
	const op = "store.SetDurability"
	if level != Strict && level != Standard {
		return invalid(op, "durability: want strict or standard")
	}
	_, err := s.run(ctx, op, setDurabilityScript, string(level), by)
	return err
}

// facts is what a server says of itself. What it does not say is empty.
type facts struct {
	version, role, eviction string
	appendonly, save, fsync string
	replicas                int  // in whatever state
	online                  int  // of those, which are in step
	cluster                 bool // it is a node of one
	config                  Server
}

// inspect asks the server that has the space now.
func (s *Redis) inspect(ctx context.Context) (facts, error) {
	var text string
	settings := map[string]string{}
	err := s.persist(ctx, func(ctx context.Context) error {
		node, err := s.node(ctx)
		if err != nil {
			return err
		}
		if text, err = node.Info(ctx).Result(); err != nil {
			return err
		}
		for _, name := range []string{"save", "appendfsync"} { // many hosted servers forbid CONFIG
			if m, err := node.ConfigGet(ctx, name).Result(); err == nil {
				maps.Copy(settings, m)
			}
		}
		return nil
	})
	switch {
	case err == nil:
		return s.facts(text, settings), nil
	case s.config.Redis.Cluster && strings.Contains(err.Error(), "cluster support disabled"):
		return facts{}, errors.New("store.redis.cluster is true, but this is no node of a Cluster; take it out")
	case s.config.Redis.Sentinel != nil && errors.Is(err, redis.Nil):
		return facts{}, fmt.Errorf("store: the Sentinels know no primary of the name %q; correct store.redis.sentinel.master", s.config.Redis.Sentinel.Master)
	}
	if redis.HasErrorPrefix(err, "NOPERM") {
		err = fmt.Errorf("%s: %w", rights, err)
	}
	return facts{}, unavailable("store.inspect", err)
}

// rights are what the store does with a server, wherever that is.
const rights = "a restricted user needs ~approvalbot:* +@all -@admin -@dangerous +info +config|get"

func (s *Redis) facts(text string, settings map[string]string) facts {
	info := parseInfo(text)
	f := facts{
		version: info["redis_version"], role: info["role"], eviction: info["maxmemory_policy"],
		appendonly: info["aof_enabled"], fsync: settings["appendfsync"], save: "unknown",
		cluster: info["cluster_enabled"] == "1", config: s.config.Redis,
	}
	if v, ok := settings["save"]; ok {
		f.save = v
	}
	f.replicas, _ = strconv.Atoi(info["connected_slaves"])
	f.online = strings.Count(text, ",state=online,")
	return f
}

// usable says what is wrong with a server at any level of durability.
func (f facts) usable() error {
	major, _, _ := strings.Cut(f.version, ".")
	n, _ := strconv.Atoi(major)
	switch {
	case n < 7:
		return fmt.Errorf("store: Redis %q is too old; it must be 7.0 or later", f.version)
	case f.role != "master" && (f.config.Cluster || f.config.Sentinel != nil): // a fail-over goes on
		return unavailable("store.inspect", errors.New("the primary is a replica now, and no other is known yet"))
	case f.role != "master":
		return fmt.Errorf("store: Redis has role %q; connect to the primary", f.role)
	case f.eviction != "noeviction":
		return fmt.Errorf("store: maxmemory-policy is %q, so Redis may drop approvals; set it to noeviction", f.eviction)
	case f.appendonly != "1" && f.save == "":
		return errors.New("store: Redis keeps nothing on disk; set appendonly yes (or save)")
	case f.cluster && !f.config.Cluster:
		return errors.New("store: Redis is a node of a Cluster; set store.redis.cluster: true")
	}
	return nil
}

// standard says why the server does not carry Standard.
func (f facts) standard() error {
	var lacks []string
	need := func(is bool, what string) {
		if !is {
			lacks = append(lacks, what)
		}
	}
	need(f.appendonly == "1", "appendonly must be yes")
	need(f.fsync == "always", "appendfsync must be always, and CONFIG readable")
	need(f.replicas == 0 && !f.cluster && f.config.Sentinel == nil, "there must be no replica that could take over")
	if lacks == nil {
		return nil
	}
	return fmt.Errorf("store: durability standard does not hold: %s; or use durability strict", strings.Join(lacks, "; "))
}

func parseInfo(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[k] = v
		}
	}
	return out
}
