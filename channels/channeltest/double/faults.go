package double

import (
	"maps"
	"net"
	"net/http"
)

// Fault is something that goes wrong with one call. The zero Fault is none.
type Fault struct {
	Status int         // answered instead of doing anything; zero: what is asked is done
	Header http.Header // without a content type the body is JSON
	Body   string

	Break bool            // the connection breaks before anything is done
	Lose  bool            // it is done, and the connection breaks
	Hold  <-chan struct{} // it is done, and the answer waits for this
	Stall <-chan struct{} // it waits for this before it is done
}

// Instead answers in place of what was asked and reports whether it did.
func (f Fault) Instead(w http.ResponseWriter) bool {
	switch {
	case f.Break:
		cut(w)
	case f.Status != 0:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		maps.Copy(w.Header(), f.Header)
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
	default:
		return false
	}
	return true
}

// Afterwards reports whether nobody is to be answered any more. It waits no longer
// than somebody listens and the double is there.
func (f Fault) Afterwards(w http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
	if f.Lose {
		cut(w)
		return true
	}
	Wait(f.Hold, r, over)
	return false
}

// Wait waits for until, if there is one, or for the end of the request or of the
// double.
func Wait(until <-chan struct{}, r *http.Request, over <-chan struct{}) {
	if until == nil {
		return
	}
	select {
	case <-until:
	case <-r.Context().Done():
	case <-over:
	}
}

// cut breaks a connection as a network does: with a reset and not an end.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Script says which calls have faults, by their name and number. Whoever has it
// locks it.
type Script map[string]map[int]Fault

// Set scripts the n-th call of that name, counted from 1; zero means every call
// that has nothing of its own.
func (s Script) Set(name string, n int, f Fault) {
	if s[name] == nil {
		s[name] = map[int]Fault{}
	}
	s[name][n] = f
}

// For returns what is scripted for a call.
func (s Script) For(name string, n int) Fault {
	if f, ok := s[name][n]; ok {
		return f
	}
	return s[name][0]
}
