package console

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		fail := func(remote string, n int) {
			for range n {
				l.failed(remote)
			}
		}
		fail("192.0.2.1:1000", failures)
		fail("[2001:db8::1]:1000", failures)
		for remote, want := range map[string]bool{
			"192.0.2.1:2000":         false, // another port is the same guesser
			"[::ffff:192.0.2.1]:1":   false,
			"192.0.2.2:1000":         true,
			"[2001:db8::2]:1000":     false, // so is another address of the same network
			"[2001:db8:0:1::1]:1000": true,
			"[2001:db8::1%eth0]:1":   false,
		} {
			if got := l.bears(remote); got != want {
				t.Errorf("bears(%s) = %t, want %t", remote, got, want)
			}
		}
		<-time.After(every)
		if !l.bears("192.0.2.1:1000") {
			t.Error("after a while one more attempt is fine")
		}
	})
}

func TestLimiterForgets(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		for i := range maxKept {
			l.failed(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256))
		}
		<-time.After(failures * every) // they are quiet now
		for range failures {
			l.failed("192.0.2.1:1")
		}
		if len(l.from) != 1 || l.bears("192.0.2.1:1") {
			t.Errorf("%d are remembered, want only the one that is not quiet", len(l.from))
		}
		for i := range 2 * maxKept {
			l.failed(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256))
		}
		if len(l.from) > maxKept {
			t.Errorf("%d are remembered, at most %d may be", len(l.from), maxKept)
		}
	})
}

func TestEndedForgets(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		e, start := newEnded(), time.Now()
		for i := range maxKept {
			e.add(fmt.Sprint(i), start.Add(time.Duration(i+1)*time.Second))
		}
		e.add("one more", start.Add(time.Hour))
		if len(e.until) != maxKept || e.has("0") || !e.has("1") || !e.has("one more") {
			t.Errorf("%d are kept; want the one that is over first to have gone", len(e.until))
		}
		<-time.After(3 * time.Second)
		e.add("and another", start.Add(time.Hour))
		if e.has("1") || e.has("2") || !e.has("3") {
			t.Error("want those that are over to have gone")
		}
	})
}
