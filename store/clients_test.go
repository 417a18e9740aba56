package store

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// TestOpenIsTheSameWhereverTheSpaceIs: TLS, a restricted user, and errors that
// say what to change.
func TestOpenIsTheSameWhereverTheSpaceIs(t *testing.T) {
	t.Parallel()
	certs := redistest.NewCerts(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := redistest.Setup{Replicas: 1}
	secure := redistest.Setup{Replicas: 1, TLS: certs}
	group, secureGroup := redistest.StartSentinel(t, plain), redistest.StartSentinel(t, secure)
	cluster, secureCluster := redistest.StartCluster(t, redistest.Setup{}), redistest.StartCluster(t, redistest.Setup{TLS: certs})
	for _, n := range slices.Concat(group.Nodes, cluster.Nodes) {
		n.Do("ACL", "SETUSER", "bot", "on", ">geheim", "~approvalbot:*", "+@all", "-@admin", "-@dangerous", "+info", "+config|get")
		n.Do("ACL", "SETUSER", "blind", "on", ">geheim", "~approvalbot:*", "+@all", "-@admin", "-@dangerous")
	}
	for _, n := range group.Sentinels {
		n.Do("ACL", "SETUSER", "asker", "on", ">geheim", "+@all")
		n.Do("ACL", "SETUSER", "default", "off")
	}
	as := func(c Server, user string) Server { c.Username, c.PasswordFile = user, password; return c }
	asked := func(c Server, user string) Server {
		c.Sentinel = &Sentinel{Master: redistest.Master, Username: user, PasswordFile: password}
		return c
	}
	with := func(c Server, t *TLS) Server { c.TLS = t; return c }
	trusts := &TLS{CAFile: certs.CA, CertFile: certs.Cert, KeyFile: certs.Key}
	misnamed := asked(sentinels(group), "asker")
	misnamed.Sentinel.Master = "nobody"
	alone := redistest.StartTCP(t, redistest.Setup{TLS: certs})
	for name, tt := range map[string]struct {
		c    Server
		fail string // part of the error; empty: it opens
	}{
		"one server with TLS":                      {with(Server{Addrs: []string{alone.Addr}}, trusts), ""},
		"one server with TLS, not trusted":         {with(Server{Addrs: []string{alone.Addr}}, &TLS{}), "unknown authority"},
		"a restricted user of a Cluster":           {as(nodes(cluster), "bot"), ""},
		"one who may not INFO, of a Cluster":       {as(nodes(cluster), "blind"), "+info"},
		"an unknown user of a Cluster":             {as(nodes(cluster), "nobody"), "WRONGPASS"},
		"a restricted user behind Sentinels":       {as(asked(sentinels(group), "asker"), "bot"), ""},
		"one who may not INFO, behind Sentinels":   {as(asked(sentinels(group), "asker"), "blind"), "+info"},
		"one whom the Sentinels do not know":       {asked(sentinels(group), "nobody"), "WRONGPASS"},
		"Sentinels that know no such primary":      {misnamed, "correct store.redis.sentinel.master"},
		"Sentinels with TLS":                       {with(sentinels(secureGroup), trusts), ""},
		"Sentinels with TLS, not trusted":          {with(sentinels(secureGroup), &TLS{}), "unknown authority"},
		"a Cluster with TLS":                       {with(nodes(secureCluster), trusts), ""},
		"a Cluster with TLS, not trusted":          {with(nodes(secureCluster), &TLS{}), "unknown authority"},
		"a node of a Cluster, taken for one alone": {Server{Addrs: cluster.Addrs()[:1]}, "set store.redis.cluster: true"},
		"one alone, taken for a Cluster":           {with(Server{Addrs: []string{alone.Addr}, Cluster: true}, trusts), "no node of a Cluster"},
		"a Cluster of which one node is known":     {Server{Addrs: cluster.Addrs()[2:3], Cluster: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), Config{Redis: tt.c, Space: strings.ToLower(rand.Text())})
			if err == nil {
				defer shut(t, s)
			}
			if (err == nil) != (tt.fail == "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
				t.Fatalf("Open = %v, want %q", err, tt.fail)
			}
			if err != nil {
				if strings.Contains(err.Error(), "geheim") {
					t.Error("the error tells the password")
				}
				return
			}
			if a := approvedNow(t, s); consumeNow(t, s, a, "x") != nil {
				t.Error("it does not work")
			}
			if _, err := s.Read(t.Context(), "", 10, time.Millisecond); err != nil {
				t.Errorf("Read = %v", err)
			}
		})
	}
}

// TestAFailOverIsAnOutage and no broken promise: a process must not end for it.
func TestAFailOverIsAnOutage(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]facts{
		"Sentinel": {config: Server{Sentinel: &Sentinel{}}},
		"Cluster":  {config: Server{Cluster: true}, cluster: true},
	} {
		f.version, f.role, f.eviction, f.appendonly, f.fsync = "7.0.15", "slave", "noeviction", "1", "always"
		if err := f.usable(); !errors.Is(err, gate.Unavailable) {
			t.Errorf("%s: usable = %v, want Unavailable", name, err)
		}
		f.role = "master"
		if err := f.usable(); err != nil {
			t.Errorf("%s: usable = %v", name, err)
		}
		if err := f.standard(); err == nil {
			t.Errorf("%s carries standard", name)
		}
	}
}

// TestTheLibraryIsTold pins what no test can see from outside: that nothing is
// read from replicas, and that no client of ours resends a script by itself.
func TestTheLibraryIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Server{
		"one":      {Addrs: []string{"127.0.0.1:1"}},
		"Sentinel": {Addrs: []string{"127.0.0.1:1"}, Sentinel: &Sentinel{Master: "m"}},
		"Cluster":  {Addrs: []string{"127.0.0.1:1"}, Cluster: true},
	} {
		s, err := New(Config{Redis: c})
		if err != nil {
			t.Fatal(err)
		}
		defer shut(t, s)
		switch db := s.db.(type) {
		case *redis.Client:
			if o := db.Options(); o.MaxRetries != 0 || o.Protocol != 2 || !o.ContextTimeoutEnabled {
				t.Errorf("%s: %+v", name, o)
			}
		case *redis.ClusterClient:
			if o := db.Options(); o.MaxRetries != -1 || o.Protocol != 2 || !o.ContextTimeoutEnabled || o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
}
