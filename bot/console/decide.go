package console

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// form is what a person pressed and typed.
type form struct {
	Do      string // approve, deny, ask, revoke, ran, failed or again
	Digest  string // of the call that was on the page
	Nonce   string // of this press
	Scope   string
	Text    string // reason or question
	Confirm bool
}

// maxNonce bounds what a vote stores of a press.
const maxNonce = 64

func formOf(r *http.Request) form {
	f := form{
		Do: r.PostFormValue("do"), Digest: r.PostFormValue("digest"), Nonce: r.PostFormValue("nonce"),
		Scope: r.PostFormValue("scope"), Text: r.PostFormValue("text"), Confirm: r.PostFormValue("confirm") != "",
	}
	f.Nonce = f.Nonce[:min(len(f.Nonce), maxNonce)]
	return f
}

// decide does what was pressed on an approval's page and says what came of it.
// Nothing is ever silent, and a refused press keeps what was typed.
func (c *Console) decide(w http.ResponseWriter, r *http.Request, s *session) {
	id, err := gate.ParseID(chi.URLParam(r, "id"))
	if err != nil {
		c.fail(w, s, http.StatusNotFound, "There is no such approval.")
		return
	}
	f := formOf(r)
	said, err := c.act(r.Context(), s, id, f)
	switch {
	case err == nil:
		c.flash(w, r, s, address(id), said)
		http.Redirect(w, r, address(id), http.StatusSeeOther) //nolint:gosec // an id that was parsed
	case gate.KindOf(err) == gate.Unavailable || gate.KindOf(err) == gate.Internal:
		c.Log.WarnContext(r.Context(), "console press failed", "approval", string(id), "do", f.Do, "err", err)
		c.retry(w, s, address(id), f, err)
	default:
		c.showApproval(w, r, s, id, f, err)
	}
}

// address is the page of an approval.
func address(id gate.ID) string { return "/console/approvals/" + string(id) }

func (c *Console) act(ctx context.Context, s *session, id gate.ID, f form) (string, error) {
	switch f.Do {
	case "approve", "deny", "ask":
		return c.vote(ctx, s, id, f)
	case "revoke":
		t, err := c.Inbox.Revoke(ctx, id, s.voter(), f.Text)
		return "Recorded. " + line(&t), err
	case "ran":
		return "Recorded: it ran.", c.Inbox.Settle(ctx, id, s.voter(), gate.Executed, f.Text)
	case "failed":
		return "Recorded: it did not run.", c.Inbox.Settle(ctx, id, s.voter(), gate.Failed, f.Text)
	}
	if f.Do == "again" {
		again, err := c.Inbox.Rerun(ctx, id, s.voter())
		return "People are asked whether to run it again, as " + string(again) + ".", err
	}
	return "", invalid("Nothing was pressed. Nothing was decided; press a button.")
}

var votes = map[string]gate.Choice{"approve": gate.Approve, "deny": gate.Deny, "ask": gate.NeedContext}

func (c *Console) vote(ctx context.Context, s *session, id gate.ID, f form) (string, error) {
	digest, err := gate.ParseDigest(f.Digest)
	if err != nil {
		return "", err
	}
	d := gate.Decision{ID: id, Voter: s.voter(), Choice: votes[f.Do], Digest: digest, Nonce: f.Nonce}
	if d.Choice == gate.Approve {
		if err := c.confirmed(ctx, s, id, f); err != nil {
			return "", err
		}
		d.Scope = gate.Scope(f.Scope)
	} else {
		d.Reason = f.Text
	}
	t, err := c.Inbox.Decide(ctx, d)
	if err != nil {
		return "", err
	}
	return recorded(&t, d), nil
}

// confirmed refuses an approval that needs a confirmation and came without.
func (c *Console) confirmed(ctx context.Context, s *session, id gate.ID, f form) error {
	if f.Confirm {
		return nil
	}
	v, err := c.Inbox.Get(ctx, s.who, id)
	if err != nil {
		return err
	}
	if text := channels.Confirmation(&v.Approval, v.Rule, v.Snapshot.Now); text != "" && v.State == gate.Pending {
		return invalid("Nothing was decided. Confirm first: " + text)
	}
	return nil
}

// recorded tells the presser what their press did.
func recorded(t *gate.Tally, d gate.Decision) string {
	if d.Choice == gate.NeedContext {
		return "Asked. The call stays held; the answer appears here."
	}
	if p := t.Progress; p.Need > 0 {
		return fmt.Sprintf("Recorded (%d of %d).", p.Have, p.Need)
	}
	text := "Recorded. " + line(t)
	switch {
	case d.Choice != gate.Approve || d.Scope == "" || d.Scope == t.Scope:
		return text
	case t.SessionEnded:
		return text + " The session is over, so this counts for once only."
	}
	return text + " It counts for " + string(t.Scope) + ": others allowed no more."
}

func line(t *gate.Tally) string {
	return gate.StateLine(&t.Approval.Approval, gate.Progress{}, gate.Clock{Now: t.Approval.Now}) + "."
}

func invalid(public string) error {
	return &gate.Error{Kind: gate.Invalid, Op: "console.decide", Public: public}
}

type retryPage struct {
	chrome
	Path string
	Text string
	Form form
}

// retry offers the same press again when nobody knows whether it was recorded:
// it carries the same nonce, so that it counts once either way.
func (c *Console) retry(w http.ResponseWriter, s *session, path string, f form, err error) {
	text := gate.PublicText(err)
	if gate.ReasonOf(err) == gate.ReasonStoreUnavailable {
		text = gate.PressStoreDown
	}
	c.render(w, statusOf(err), "retry.html", retryPage{chrome: c.chrome(s, "Not recorded", ""), Path: path, Text: text, Form: f})
}
