package console

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// beat is how often a quiet stream says that it lives, and looks whether its
// reader may still listen.
const beat = 20 * time.Second

// events streams which approvals change and how, and nothing of what is in them:
// pages read themselves again. Nothing is resumed, because a page that has
// (re)connected reads itself again too.
func (c *Console) events(w http.ResponseWriter, r *http.Request, s *session) {
	changes, stop := c.Wake.Subscribe() // before the page's first look
	defer stop()
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // a stream has none; not every server sets one
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	tick := time.NewTicker(beat)
	defer tick.Stop()
	say := func(format string, args ...any) bool {
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && out.Flush() == nil
	}
	for ok := say("retry: 2000\nevent: ready\ndata: {}\n\n"); ok; {
		select {
		case e, open := <-changes:
			ok = open && say("event: change\ndata: {\"id\":%q,\"kind\":%q}\n\n", e.ID, e.Event)
		case <-tick.C:
			_, known := c.session(r)
			ok = known && say(": still here\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

// revision changes whenever rows do.
func revision(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		_, _ = fmt.Fprint(io.Writer(&b), r.ID, ".", r.Approval.Rev, r.Mine, " ")
	}
	return b.String()
}
