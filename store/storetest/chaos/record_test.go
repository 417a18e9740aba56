//go:build linux

package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/approvalbot/approvalbot/gate"
)

// call is what a process is about to do to an approval. What else is set depends
// on Do.
type call struct {
	Do      string
	ID      gate.ID     `json:",omitempty"`
	Digest  string      `json:",omitempty"`
	Person  string      `json:",omitempty"`
	Choice  gate.Choice `json:",omitempty"`
	Nonce   string      `json:",omitempty"`
	Attempt string      `json:",omitempty"`
	Owner   string      `json:",omitempty"`
	Fence   int64       `json:",omitempty"`
	Outcome gate.State  `json:",omitempty"`
	Silent  bool        `json:",omitempty"` // nothing will be reported
}

// What processes do.
const (
	doCheck   = "check"
	doDecide  = "decide"
	doConsume = "consume"
	doForge   = "forge" // a consume past the gate, with something wrong: no store may take it
	doReport  = "report"
	doSettle  = "settle"
	doCancel  = "cancel"
	doRerun   = "rerun"
)

// answer is what a process was told. One without Yes and without Unknown is a
// refusal, and nothing has changed.
type answer struct {
	Yes     bool        `json:",omitempty"`
	Unknown bool        `json:",omitempty"` // nobody knows what became of it
	Kind    gate.Kind   `json:",omitempty"`
	Reason  gate.Reason `json:",omitempty"`
	Names   gate.ID     `json:",omitempty"` // the approval it speaks of
	State   gate.State  `json:",omitempty"`
}

// told says what an error means.
func told(err error) answer {
	if err == nil {
		return answer{Yes: true}
	}
	a := answer{Kind: gate.KindOf(err), Reason: gate.ReasonOf(err)}
	_, ours := errors.AsType[*gate.Error](err)
	a.Unknown = !ours || a.Kind == gate.Unavailable && a.Reason == gate.ReasonStoreUnavailable
	return a
}

// line is one line of a process's history: it begins something, or has its answer.
type line struct {
	Op     int64   // of that process
	At     int64   // monotonic
	Call   *call   `json:",omitempty"`
	Answer *answer `json:",omitempty"`
}

// monotonic is a clock that all processes of one machine share, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// recorder writes down what a process does. It is safe for concurrent use.
type recorder struct {
	w io.Writer
	n atomic.Int64
}

// do does something, and writes it down before and after.
func (r *recorder) do(c call, f func() answer) answer {
	op := r.n.Add(1)
	r.write(line{Op: op, At: monotonic(), Call: &c})
	a := f()
	r.write(line{Op: op, At: monotonic(), Answer: &a})
	return a
}

func (r *recorder) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.w.Write(append(b, '\n')) // one write: who is killed leaves no half lines but the last
	}
	if err != nil {
		panic(err)
	}
}

// op is a call with its answer.
type op struct {
	call
	answer
	who      string // process
	client   int
	from, to int64
}

// forever is when a call without an answer has returned.
const forever = 1<<63 - 1

func (o *op) String() string {
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	if o.to == forever {
		return fmt.Sprintf("%s: %s -> silence", o.who, text(o.call))
	}
	return fmt.Sprintf("%s: %s -> %s (%d us)", o.who, text(o.call), text(o.answer), (o.to-o.from)/1000)
}

// readAll returns all that the processes of a history have written, in order of
// their beginnings.
func readAll(dir string) ([]*op, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []*op
	for i, file := range files {
		ops, err := readFile(file, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, ops...)
	}
	slices.SortStableFunc(all, func(a, b *op) int { return cmp.Compare(a.from, b.from) })
	return all, nil
}

func readFile(file string, client int) (all []*op, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls := map[int64]*op{}
	for in := bufio.NewReader(f); ; {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what follows the last end of line was being written
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		if l.Call != nil {
			who := strings.TrimSuffix(filepath.Base(file), ".jsonl")
			calls[l.Op] = &op{call: *l.Call, answer: answer{Unknown: true}, who: who, client: client, from: l.At, to: forever}
			all = append(all, calls[l.Op])
		} else if o := calls[l.Op]; o != nil {
			o.answer, o.to = *l.Answer, l.At
		}
	}
}
