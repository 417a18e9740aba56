package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

// A receiver believes nothing that is not signed.
func ExampleVerify() {
	receive := func(w http.ResponseWriter, r *http.Request) error {
		key, err := webhook.ParseKey(os.Getenv("WEBHOOK_SECRET"))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return err
		}
		return webhook.Verify(r.Header, time.Now(), body, key)
	}
	http.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		if err := receive(w, r); err != nil {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, "done")
	})
}
