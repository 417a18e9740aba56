package embedded

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// voice takes what a server writes to its log, keeps the last that could say why it
// ended, and passes on what is a warning.
type voice struct {
	warn func(line string)

	mu   sync.Mutex
	rest []byte
	last []string
}

const (
	keptLines   = 3
	longestLine = 4 << 10 // bytes; what is longer is taken in parts
)

// said is a line of the log: "<pid>:M <date> # text", with * instead of # for what is no
// warning, and C instead of M before the server knows how it is configured.
var said = regexp.MustCompile(`^\d+:([A-Z]) \d+ \w+ \d+ [\d:.]+ ([.\-*#]) (.*)$`)

func (v *voice) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rest = append(v.rest, b...)
	for {
		line, rest, ok := bytes.Cut(v.rest, []byte("\n"))
		if !ok {
			if len(v.rest) > longestLine {
				v.line(v.rest)
				v.rest = nil
			}
			return len(b), nil
		}
		v.rest = rest
		v.line(line)
	}
}

func (v *voice) line(raw []byte) {
	text := strings.TrimSpace(string(raw))
	m := said.FindStringSubmatch(text)
	if m != nil {
		text = m[3]
	}
	warning := m != nil && m[1] == "M" && m[2] == "#" && text != "Server initialized"
	if text == "" || m != nil && !warning {
		return
	}
	v.last = append(v.last, text)
	v.last = v.last[max(0, len(v.last)-keptLines):]
	if warning {
		v.warn(text)
	}
}

// forget drops what was said: whatever it is, the server runs.
func (v *voice) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last = nil
}

// String is the last lines, after a colon; empty if there are none.
func (v *voice) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.last) == 0 {
		return ""
	}
	return ": " + strings.Join(v.last, " / ")
}
