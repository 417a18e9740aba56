package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// TestASecretIsNeverPrinted, wherever it lies and whatever prints it.
func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	s := secret.New(text)
	hidden := struct {
		Open   secret.String
		closed secret.String
		list   []secret.String
	}{s, s, []secret.String{s}}
	_ = hidden.closed
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "secret", s, "in", hidden, "at", &hidden)
	encoded, err := json.Marshal(hidden)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"%v": fmt.Sprintf("%v", s), "String": s.String(), "%+v": fmt.Sprintf("%+v", s), "%#v": fmt.Sprintf("%#v", s), "%q": fmt.Sprintf("%q", s),
		"a struct, %v": fmt.Sprintf("%v", hidden), "a struct, %+v": fmt.Sprintf("%+v", hidden), "a struct, %#v": fmt.Sprintf("%#v", hidden),
		"a pointer, %+v": fmt.Sprintf("%+v", &hidden), "JSON": string(encoded), "a log": logged.String(),
	} {
		if strings.Contains(got, text) {
			t.Errorf("%s shows %q", name, got)
		}
	}
	if s.Reveal() != text || !s.Set() || (secret.String{}).Set() || secret.New("").Set() {
		t.Error("it is not what was put in")
	}
}
