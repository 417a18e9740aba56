package bot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// sent is a chat in which nothing private can be pressed: who was sent which card.
type sent struct {
	cards []string
	err   error
}

// storing makes the chat of a counter one.
func (c *counter) storing() *sent {
	s := &sent{}
	c.commands.Stored = map[string]func(context.Context, gate.ID, gate.Voter) (string, error){
		"slack": func(_ context.Context, id gate.ID, who gate.Voter) (string, error) {
			if s.err != nil {
				return "", s.err
			}
			s.cards = append(s.cards, who.Name+" "+c.named(string(id)))
			return "https://chat.example/pl/" + who.Name + "-" + string(id), nil
		},
	}
	c.commands.Links = map[string]func(context.Context, gate.ID) string{
		"slack": func(_ context.Context, id gate.ID) string {
			if c.named(string(id)) == "apr_DB_DROP" {
				return ""
			}
			return "https://chat.example/pl/" + string(id)
		},
	}
	return s
}

// TestStoredCommandTexts keeps what a person reads where an answer has no buttons.
func TestStoredCommandTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		chat := c.storing()
		var b strings.Builder
		types := func(v gate.Voter, text string) {
			a := c.types(v, text)
			if k := a.Card; k != nil && (k.Live() || k.Proof != "" || len(k.Scopes) > 0) {
				t.Errorf("%s: there is something to press, with the proof %q", c.named(text), k.Proof)
			}
			fmt.Fprintf(&b, "%s> /approvals %s\n%s\n", v.Name, c.named(text), c.told(a))
		}
		two, db := c.asks("two_a", nil), c.asks("db_drop", nil)
		staged := c.asks("kubectl_apply", nil)
		types(ada, "pending")
		types(ada, "show "+string(two.ID))
		types(ada, "approve "+string(two.ID))
		types(ada, "deny "+string(two.ID))
		types(zoe, "show "+string(two.ID)) // the person behind the call
		types(ada, "show "+string(db.ID))  // an approver by default, of another group
		types(eve, "show "+string(two.ID)) // in no group
		c.decides(two, ada, gate.NeedContext, "", "why now?")
		types(zoe, "show "+string(two.ID))
		c.decides(two, ada, gate.Approve, "", "")
		types(ada, "approve "+string(two.ID))
		c.decides(staged, ada, gate.Approve, "", "")
		types(bob, "show "+string(staged.ID)) // to take back
		c.decides(db, dora, gate.Deny, "", "no")
		types(dora, "show "+string(db.ID))

		passes(time.Minute)
		chat.err = &channels.Error{Op: "chat.direct", Trouble: channels.Nowhere, Err: errors.New("secret-7")}
		types(bob, "approve "+string(two.ID))
		chat.err = &channels.Error{Op: "chat.direct", Trouble: channels.Out, Err: errors.New("secret-7")}
		types(bob, "show "+string(two.ID))
		chat.err = errors.New("secret-7")
		types(bob, "show "+string(two.ID))
		chat.err = &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonStoreUnavailable, Err: errors.New("secret-7")}
		types(bob, "show "+string(two.ID))
		chat.err = &gate.Error{Kind: gate.Conflict, Public: "There is nothing to press any more: Denied by zoe."}
		types(bob, "show "+string(two.ID))

		want := []string{"ada apr_TWO_A", "ada apr_TWO_A", "ada apr_TWO_A", "ada apr_TWO_A", "bob apr_KUBECTL_APPLY"}
		if !slices.Equal(chat.cards, want) {
			t.Errorf("cards were sent to %q, want %q", chat.cards, want)
		}
		if strings.Contains(b.String(), "secret-7") {
			t.Error("causes are told")
		}
		golden(t, "stored.golden", b.String())
	})
}

// TestWhoMayDecideIsNotKnown: where it cannot be looked up nobody is sent a card.
func TestWhoMayDecideIsNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t)
		defer func() { _ = c.store.Close() }()
		chat := c.storing()
		s := c.asks("away_x", nil)
		a := c.types(ada, "show "+string(s.ID)) // may see it, and the group that decides does not answer
		if len(chat.cards) != 0 || a.Card == nil || a.Card.Live() || len(a.Lines) == 0 || !strings.HasPrefix(a.Lines[0], "Could not check whether you may decide.") {
			t.Errorf("sent %q, told %q", chat.cards, a.Lines)
		}
	})
}
