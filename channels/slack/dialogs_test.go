package slack

import (
	"testing"

	"github.com/approvalbot/approvalbot/channels"
)

func TestModals(t *testing.T) {
	t.Parallel()
	w := where{Approval: card().Approval, Ref: channels.Ref{Place: "slack:C0AAAAAA1", Message: "1700000000.000100"}}
	required := w
	required.Required = true
	for name, tt := range map[string]struct {
		action string
		card   *channels.Card
		where  where
	}{
		"modal-deny":          {actDeny, full(), w},
		"modal-deny-required": {actDeny, card(), required},
		"modal-deny-unread":   {actDeny, nil, w},
		"modal-ask":           {actAsk, long(), w},
		"modal-answer":        {actAnswer, edit(), w},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := modal(tt.action, tt.card, tt.where)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, m)
		})
	}
}
