package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// changed is a text with old, new, … replaced, each of which must be there.
func changed(t *testing.T, text string, changes ...string) string {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("no %q in the config file", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return text
}

// wantSameInJSON holds that programs are told the same, that a fix goes with whatever
// is not well, and that no secret is told.
func wantSameInJSON(t *testing.T, r result, verdict string, code int, secrets ...string) {
	t.Helper()
	wantCode(t, r, code)
	got := fromJSON[examined](t, r.out)
	text := "All is well"
	if !got.OK {
		text = plural(got.Failures, "thing") + " to mend"
	}
	if got.Warnings > 0 {
		text += ", " + plural(got.Warnings, "warning")
	}
	if text+"." != verdict {
		t.Errorf("JSON says %q, want %q", text, verdict)
	}
	for _, c := range got.Checks {
		if c.Level != fine && c.Fix == "" || c.Check == "" || c.Text == "" {
			t.Errorf("not a whole finding: %+v", c)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("a secret is told: %s", r.out+r.err)
		}
	}
}

// inEightyColumns is how the findings of a doctor read on a narrow terminal, of which
// no line is wider than that.
func inEightyColumns(t *testing.T, printed string) string {
	t.Helper()
	var out strings.Builder
	s := screen{out: &out, width: 80}
	for _, f := range fromJSON[examined](t, printed).Checks {
		if err := s.finding(f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	return out.String()
}

// saysAtOnce runs a doctor whose chat does not answer about conversations: what is
// known is said, and the rest when the answer comes.
func saysAtOnce(t *testing.T, h *home, chat, known string, answer chan<- struct{}) {
	t.Helper()
	var out lockedBuffer
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), process{args: []string{"doctor", chat, "-c", h.path("approvalbot.yaml")}, env: func(string) string { return "" }, out: &out, err: io.Discard})
	}()
	soon(t, "what is known", func() bool { return strings.Contains(out.String(), known) })
	if strings.Contains(out.String(), "conversation") {
		t.Error("what is not known yet is said")
	}
	close(answer)
	if code := <-done; code != exitOK {
		t.Errorf("exit %d:\n%s", code, out.String())
	}
}
