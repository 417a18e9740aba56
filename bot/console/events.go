package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

const (
	beat = 20 * time.Second       // a quiet stream says that it lives, and looks whether its reader may still listen
	pace = 500 * time.Millisecond // between two events of one stream
)

// events streams that something has changed, with ?id= on that approval, and
// nothing of what: pages read themselves again. There is nothing to resume,
// because a page that has (re)connected reads itself again too.
func (c *Console) events(w http.ResponseWriter, r *http.Request, s *session) {
	changed, stop := c.watch(r) // before the page looks, so that no change falls between
	defer stop()
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // a server that sets none refuses, and is right
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	say := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	tick, rest := time.NewTicker(beat), time.NewTimer(0)
	defer tick.Stop()
	defer rest.Stop()
	<-rest.C
	heard := changed
	for ok := say("retry: 2000\nevent: ready\ndata: {}\n\n"); ok; {
		select {
		case <-heard:
			heard = nil // what comes while it rests is one event after it
			rest.Reset(pace)
			ok = say("event: change\ndata: {}\n\n")
		case <-rest.C:
			heard = changed
		case <-tick.C:
			_, known := c.session(r)
			ok = known && say(": still here\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

func (c *Console) watch(r *http.Request) (changed <-chan struct{}, stop func()) {
	if id, err := gate.ParseID(r.URL.Query().Get("id")); err == nil {
		return c.Wake.Watch(id)
	}
	return c.Wake.Any()
}

// revision makes a short name of all that a page shows and that may change.
func revision(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%v\x00", p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// unchanged answers a page that reads itself again and has this revision already.
func unchanged(w http.ResponseWriter, r *http.Request, rev string) bool {
	if r.Header.Get("X-Console-Refresh") != rev {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
