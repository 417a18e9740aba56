package main

import (
	"strings"
	"testing"
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
