package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/api"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store"
)

// asServer in the environment makes the test binary one replica, on the Redis
// at that address or, for "memory", on a store of its own. Some things can only
// be shown by a process: what it weighs, and what its death does to others.
const asServer = "APPROVALBOT_TEST_SERVER"

func TestMain(m *testing.M) {
	if addr := os.Getenv(asServer); addr != "" {
		if err := serveChild(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:forbidigo // this is a main
		}
		return
	}
	os.Exit(m.Run()) //nolint:forbidigo // this is a main
}

// serveChild serves until its standard input ends; it says its address first,
// and what it weighs for every line it reads.
func serveChild(addr string) error {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // of a process
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	keyring, err := gate.NewKeyring(serverKey)
	if err != nil {
		return err
	}
	s, err := childStore(ctx, addr, keyring)
	if err != nil {
		return err
	}
	configs := keyConfigs()
	for i := range configs {
		configs[i].Hash = sha256Hex(bearers()[configs[i].Name].Reveal())
	}
	keys, _ := bot.NewKeys(configs)
	policy, _ := gate.NewPolicy(rules(), gate.ApproversConfig{}, nil, keys.Principals(), nil, gate.Executor{Name: "batch"})
	hub := bot.NewHub(s, quiet)
	g := gate.New(s, keyring, hub, policy, quiet)
	g.Beat(ctx, addr+strconv.Itoa(os.Getpid()))
	go hub.Run(ctx)
	go g.Run(ctx, strconv.Itoa(os.Getpid()))
	handler := api.New(api.Config{Gate: g, Keys: keys, Log: s, Hub: hub, Out: quiet, PerKey: 1e6, Burst: 1e6})
	return serveAndWeigh(handler, hub)
}

func childStore(ctx context.Context, addr string, keyring *gate.Keyring) (*store.Redis, error) {
	c := store.Config{Fingerprints: keyring.Fingerprints()}
	if addr == "memory" {
		return store.OpenMemory(ctx, c)
	}
	c.Redis.Addrs = []string{addr}
	return store.Open(ctx, c)
}

func serveAndWeigh(handler http.Handler, hub *bot.Hub) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0") //nolint:forbidigo // of a process
	if err != nil {
		return err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: handler, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 20},
	}
	go func() { _ = server.Serve(listener) }()
	fmt.Println("http://" + listener.Addr().String())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "weigh" {
			settle()
		}
		fmt.Println(hub.Waiting(), resident())
	}
	return nil
}

// settle waits until nothing more is given back: callers that were counted are
// still being read, and each collection halves the stacks that are too large.
func settle() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for before, now := -1, 0; before != now; before, now = now, inUse() {
		<-tick.C
		debug.FreeOSMemory()
	}
}

func inUse() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int((m.HeapInuse + m.StackInuse) >> 18)
}

// resident is what this process has in memory, in bytes.
func resident() int {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(value)[0])
			return kib << 10
		}
	}
	return 0
}

// child is a replica in a process of its own.
type child struct {
	url string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startChild starts a replica on a Redis, or on "memory".
func startChild(t testing.TB, addr string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := &child{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if !c.out.Scan() {
		t.Fatal("the replica did not start")
	}
	c.url = c.out.Text()
	return c
}

// replica is what tests call a replica through.
func (c *child) replica() *replica { return &replica{url: c.url} }

// ask returns how many wait there and what the process has in memory; after
// "weigh" without garbage.
func (c *child) ask(t testing.TB, what string) (waiting, rss int) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, what); err != nil || !c.out.Scan() {
		t.Fatal("the replica is gone", err)
	}
	if _, err := fmt.Sscan(c.out.Text(), &waiting, &rss); err != nil {
		t.Fatal(err)
	}
	return waiting, rss
}
