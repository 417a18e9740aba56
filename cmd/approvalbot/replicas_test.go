package main

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/store/redistest"
)

// asProgram makes this test binary the program itself.
const asProgram = "APPROVALBOT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if os.Getenv(asMCP) != "" {
		serveMCP()
		return
	}
	m.Run()
}

// redisServer is the path of one; without it the test is skipped.
func redisServer(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no redis-server; apt-get install redis-server")
		}
		t.Skip("no redis-server; apt-get install redis-server, or what your system calls it")
	}
	return program
}

// startRedis runs a Redis of its own, and returns its socket.
func startRedis(t *testing.T) string {
	t.Helper()
	return redistest.Start(t, "--appendfsync", "always").Addr
}

// replica is a server in a process of its own.
type replica struct {
	url string
	cmd *exec.Cmd
	log *logbook
}

func (h *home) spawn() *replica {
	h.t.Helper()
	cmd := exec.Command(os.Args[0], "serve", "--config", h.path("approvalbot.yaml"), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	r := &replica{cmd: cmd, log: newLogbook()}
	cmd.Stderr = r.log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r.url = "http://" + r.log.await(h.t, "serving")["listen"].(string)
	return r
}

func (h *home) spawnAll(n int) (all []*replica, urls []string) {
	for range n {
		r := h.spawn()
		all, urls = append(all, r), append(urls, r.url)
	}
	return all, urls
}

// TestOneOfFiftyConsumersOverThreeReplicas: the promise of the whole product,
// between processes.
func TestOneOfFiftyConsumersOverThreeReplicas(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule, "store: {redis: {addrs: ["+startRedis(t)+"]}}")
	all, _ := h.spawnAll(3)
	s := &testServer{home: h, url: all[0].url}
	a := s.hold(call("held"))
	wantCode(t, (&testServer{home: h, url: all[1].url}).as("ann").run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
	approved, err := s.client("hermes").Get(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}

	const consumers = 50
	var (
		start sync.WaitGroup
		done  sync.WaitGroup
		mu    sync.Mutex
		won   []wire.ConsumeRequest
		codes = map[string]int{}
	)
	start.Add(1)
	for i := range consumers {
		c := newTestClient(t, all[i%len(all)].url, h.keys["hermes"])
		spend := wire.ConsumeRequest{Token: approved.Token, AttemptID: client.NewAttempt(), Call: call("held")}
		done.Go(func() {
			start.Wait()
			yes, err := c.Consume(t.Context(), a.ID, spend)
			mu.Lock()
			defer mu.Unlock()
			if refused, ok := errors.AsType[*client.Error](err); ok {
				codes[refused.Code]++
			} else if err != nil {
				t.Error(err)
			} else if yes.Verdict == "allow" {
				won = append(won, spend)
			}
		})
	}
	start.Done()
	done.Wait()
	if len(won) != 1 || codes[string(gate.ReasonSpent)] != consumers-1 {
		t.Fatalf("%d may run it, the others are told %v; want 1 and %d spent", len(won), codes, consumers-1)
	}
	for _, r := range all {
		yes, err := newTestClient(t, r.url, h.keys["hermes"]).Consume(t.Context(), a.ID, won[0])
		if err != nil || yes.Verdict != "allow" {
			t.Errorf("the same attempt again is told %+v, %v", yes.Answer, err)
		}
	}
}

// TestAKilledReplicaLosesNoWaiter: whoever was parked on it asks another one,
// and gets the decision.
func TestAKilledReplicaLosesNoWaiter(t *testing.T) {
	t.Parallel()
	h := newHome(t, oneRule, "store: {redis: {addrs: ["+startRedis(t)+"]}}")
	all, urls := h.spawnAll(2)
	s := &testServer{home: h, url: urls[1]}
	a := s.hold(call("held"))

	agent, err := client.New(urls[0], h.keys["hermes"], client.Replicas(urls[1]))
	if err != nil {
		t.Fatal(err)
	}
	type ended struct {
		wire.ApprovalAnswer
		err error
	}
	waited := make(chan ended, 1)
	go func() {
		got, err := agent.Wait(t.Context(), a.ID)
		waited <- ended{got, err}
	}()
	if _, err := newTestClient(t, urls[0], h.keys["hermes"]).Get(t.Context(), a.ID); err != nil { // it serves
		t.Fatal(err)
	}
	if err := all[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.as("ann").run(t, "approve", a.ID, "--digest", a.Digest), exitOK)
	if got := <-waited; got.err != nil || got.State != "approved" || got.Token == "" {
		t.Errorf("got %s, %v", got.State, got.err)
	}
}
