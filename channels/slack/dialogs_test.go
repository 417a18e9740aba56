package slack

import (
	"encoding/json"
	"testing"

	"github.com/approvalbot/approvalbot/channels"
)

func TestModals(t *testing.T) {
	t.Parallel()
	metadata, err := json.Marshal(where{Approval: card().Approval, Ref: channels.Ref{Place: "slack:C0AAAAAA1", Message: "1700000000.000100"}})
	if err != nil {
		t.Fatal(err)
	}
	for action, d := range dialogs {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			golden(t, "modal-"+action, modal(action, d, string(metadata)))
		})
	}
}
