package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/store"
)

// listener stands where a Redis should be and notes what it is told: first a
// TLS handshake if there is one, then the commands.
type listener struct {
	addr string
	mu   sync.Mutex
	told string
	tls  *tls.Config
}

// listen starts a listener, and puts its certificate in ca.pem, and one for
// clients in cert.pem and cert.key.
func listen(t *testing.T, h *home) *listener {
	t.Helper()
	cert := selfSigned(t, h)
	s, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l := &listener{addr: s.Addr().String(), tls: &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}}
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go l.note(t.Context(), c)
		}
	}()
	return l
}

// selfSigned makes a certificate of redis.example and 127.0.0.1 that vouches for itself.
func selfSigned(t *testing.T, h *home) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"redis.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretKey})
	h.write("ca.pem", string(certPEM))
	h.write("cert.pem", string(certPEM))
	h.write("cert.key", string(keyPEM))
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (l *listener) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told += fmt.Sprintf(format+"\n", args...)
}

func (l *listener) note(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	first := make([]byte, 1)
	if n, _ := c.Read(first); n == 0 {
		return
	}
	var conn net.Conn = &behind{c, first}
	if first[0] == 0x16 { // a handshake
		safe := tls.Server(conn, l.tls)
		if err := safe.HandshakeContext(ctx); err != nil {
			return
		}
		state := safe.ConnectionState()
		l.say("tls name=%q certificates=%d", state.ServerName, len(state.PeerCertificates))
		conn = safe
	}
	in := bufio.NewReader(conn)
	for {
		words, err := command(in)
		if err != nil {
			return
		}
		l.say("%s", strings.Join(words, " "))
		answer := "+OK\r\n"
		if words[0] == "hello" {
			answer = "-ERR unknown command\r\n"
		}
		if _, err := conn.Write([]byte(answer)); err != nil {
			return
		}
	}
}

// command reads one command: "*2", then for each word "$4" and the word.
func command(in *bufio.Reader) ([]string, error) {
	line := func() (string, error) {
		text, err := in.ReadString('\n')
		return strings.TrimSpace(text), err
	}
	n, err := line()
	if err != nil {
		return nil, err
	}
	count, err := strconv.Atoi(strings.TrimPrefix(n, "*"))
	if err != nil || count < 1 {
		return nil, fmt.Errorf("no command: %q", n)
	}
	words := make([]string, count)
	for i := range words {
		if _, err := line(); err != nil {
			return nil, err
		}
		if words[i], err = line(); err != nil {
			return nil, err
		}
	}
	return words, nil
}

// behind is a connection with some bytes put back.
type behind struct {
	net.Conn
	back []byte
}

func (b *behind) Read(p []byte) (int, error) {
	if len(b.back) > 0 {
		n := copy(p, b.back)
		b.back = b.back[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}

// told opens the store as serve does, and tells what the listener heard.
func told(l *lab) string {
	if l.cfg == nil {
		return l.problems
	}
	st, err := openStore(l.t.Context(), l.cfg, "", slog.New(slog.DiscardHandler))
	if err == nil {
		l.t.Fatalf("opened %s, which is no Redis", st.name)
	}
	l.redis.mu.Lock()
	defer l.redis.mu.Unlock()
	return l.redis.told + "; " + err.Error()
}

func opens(l *lab) string {
	st, err := openStore(l.t.Context(), l.cfg, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = st.Close() }()
	return "opened " + st.name
}

// opensEmbedded tells the folder that the server's files came to be in.
func opensEmbedded(l *lab) string {
	redisServer(l.t)
	st, err := openStore(l.t.Context(), l.cfg, "", slog.New(slog.DiscardHandler))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if _, err := os.Stat(filepath.Join(st.server.Dir(), "appendonlydir")); err != nil {
		l.t.Error(err)
	}
	return st.server.Dir()
}

func durability(l *lab) string {
	s, err := store.New(l.cfg.Store.Config)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return string(s.Durability())
}

// confirms takes a grant away, and tells what the listener heard.
func confirms(l *lab) string {
	s, err := store.New(l.cfg.Store.Config)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.RevokeGrant(l.t.Context(), "grt_1", "ann"); err == nil {
		l.t.Fatal("what is no Redis takes a grant away")
	}
	l.redis.mu.Lock()
	defer l.redis.mu.Unlock()
	return l.redis.told
}

func redis(fields string) string {
	return "@people\nstore: {redis: {addrs: [\"{redis}\"]" + fields + "}}"
}

func redisTLS(fields string) string {
	return redis(", tls: {ca_file: ca.pem" + fields + "}")
}

// waiting is a store that replicas confirm.
func waiting(fields string) string {
	return strings.Replace(redis(""), "store: {", "store: {"+fields+", ", 1)
}

func sentinel(fields string) string { return redis(", sentinel: {master: main" + fields + "}") }

func sentinelTLS(fields string) string { return sentinel(", tls: {ca_file: ca.pem" + fields + "}") }

var storeRows = []keyRow{
	{"store.wait_replicas", waiting("wait_replicas: 1"), waiting("wait_replicas: 2"), confirms, [2]string{"wait 1 500", "wait 2 500"}},
	{"store.wait_timeout", waiting("wait_replicas: 1"), waiting("wait_replicas: 1, wait_timeout: 100ms"), confirms, [2]string{"wait 1 500", "wait 1 100"}},
	{"store.redis.cluster", redis(""), redis(", cluster: true"), told, [2]string{"info", "cluster slots"}},
	{"store.redis.sentinel.master", redis(", sentinel: {master: one}"), redis(", sentinel: {master: other}"), told, [2]string{"get-master-addr-by-name one", "get-master-addr-by-name other"}},
	{"store.redis.sentinel.username", sentinel(", username: us, password_file: password"), sentinel(", username: them, password_file: password"), told, [2]string{"auth us hunter2", "auth them hunter2"}},
	{"store.redis.sentinel.password_file", sentinel(", password_file: password"), sentinel(", password_file: other.key"), told, [2]string{"auth hunter2", "auth 00000000"}},
	{"store.redis.sentinel.tls.ca_file", sentinel(", tls: {server_name: redis.example}"), sentinelTLS(", server_name: redis.example"), told, [2]string{"unknown authority", "tls name="}},
	{"store.redis.sentinel.tls.cert_file", sentinelTLS(", key_file: cert.key"), sentinelTLS(", cert_file: cert.pem, key_file: cert.key"), told, [2]string{"tls.cert_file", "certificates=1"}},
	{"store.redis.sentinel.tls.key_file", sentinelTLS(", cert_file: cert.pem"), sentinelTLS(", cert_file: cert.pem, key_file: cert.key"), told, [2]string{"key_file", "certificates=1"}},
	{"store.redis.sentinel.tls.server_name", sentinelTLS(""), sentinelTLS(", server_name: redis.example"), told, [2]string{`name=""`, `name="redis.example"`}},
	{"store", "@people", "@people\nstore: memory", opens, [2]string{"no store is chosen", "opened memory"}},
	{"store.embedded.dir", "@people\nstore: embedded", "@people\nstore: {embedded: {dir: kept/here}}", opensEmbedded, [2]string{"approvalbot-data", "kept/here"}},
	{"store.durability", strings.Replace(redis(""), "{redis: {a", "{durability: strict, redis: {a", 1), strings.Replace(redis(""), "{redis: {a", "{durability: standard, redis: {a", 1), durability, [2]string{"strict", "standard"}},
	{"store.redis.addrs", redis(""), "@people # {redis}\nstore: {redis: {addrs: [\"127.0.0.1:1\"]}}", told, [2]string{"info", "127.0.0.1:1"}},
	{"store.redis.db", redis(", db: 3"), redis(", db: 4"), told, [2]string{"select 3", "select 4"}},
	{"store.redis.username", redis(", username: us, password_file: password"), redis(", username: them, password_file: password"), told, [2]string{"auth us hunter2", "auth them hunter2"}},
	{"store.redis.password_file", redis(", password_file: password"), redis(", password_file: other.key"), told, [2]string{"auth hunter2", "auth 00000000"}},
	{"store.redis.tls.ca_file", redis(", tls: {server_name: redis.example}"), redisTLS(", server_name: redis.example"), told, [2]string{"unknown authority", "tls name="}},
	{"store.redis.tls.cert_file", redisTLS(", key_file: cert.key"), redisTLS(", cert_file: cert.pem, key_file: cert.key"), told, [2]string{"tls.cert_file", "certificates=1"}},
	{"store.redis.tls.key_file", redisTLS(", cert_file: cert.pem"), redisTLS(", cert_file: cert.pem, key_file: cert.key"), told, [2]string{"key_file", "certificates=1"}},
	{"store.redis.tls.server_name", redisTLS(""), redisTLS(", server_name: redis.example"), told, [2]string{`name=""`, `name="redis.example"`}},
}
