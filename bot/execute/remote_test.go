package execute_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	gatesecret "github.com/approvalbot/approvalbot/gate/secret"
)

// TestAWorkerRunsOnlyWhatTheDigestSays: whatever lies between it and the server.
func TestAWorkerRunsOnlyWhatTheDigestSays(t *testing.T) {
	t.Parallel()
	call := gate.Call{Tool: "restart", Args: []byte(`{"n":1}`)}
	digest, err := call.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args string
		runs bool
	}{"the call that was approved": {`{"n":1}`, true}, "other arguments": {`{"n":2}`, false}, "no arguments at all": {`x`, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(wire.ClaimAnswer{Work: &wire.Work{
					ID: "apr_1", Token: "t", Digest: digest.String(), Call: wire.Call{Tool: "restart", ArgsB64: []byte(tt.args)},
				}})
			}))
			t.Cleanup(s.Close)
			c, err := client.New(s.URL, gatesecret.New("ab_x"))
			if err != nil {
				t.Fatal(err)
			}
			w, err := (&execute.Remote{Client: c}).Claim(t.Context(), "ops", "w", "n", time.Minute)
			if (err == nil) != tt.runs || (w != nil) != tt.runs {
				t.Errorf("Claim = %+v, %v", w, err)
			}
		})
	}
}
