package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/approvalbot/approvalbot/gate"
)

type grantsPage struct {
	chrome
	Grants []standing
	Rev    string
}

// standing is a grant as the page shows it.
type standing struct {
	gate.Grant
	Covers  string
	Dormant bool // made before the store failed over: counts again once confirmed
}

func (c *Console) grants(w http.ResponseWriter, r *http.Request, s *session) {
	ctx := r.Context()
	all, err := c.Grants.Grants(ctx, s.who)
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	p := grantsPage{chrome: c.chrome(s, "Grants", "grants")}
	p.Pending = c.pending(ctx, s)
	life := c.incarnation(ctx, s)
	for _, g := range all {
		of := gate.Subject{Call: gate.Call{Tool: g.Tool, Target: g.Target}}
		st := standing{Grant: g, Covers: of.Covers(), Dormant: life != "" && g.Incarnation != life}
		p.Grants = append(p.Grants, st)
	}
	p.Rev = revision(all)
	if unchanged(w, r, p.Rev) {
		return
	}
	p.Flash = c.takeFlash(w, r, s)
	slices.SortStableFunc(p.Grants, func(a, b standing) int { return cmp.Compare(b.ID, a.ID) })
	c.render(w, http.StatusOK, "grants.html", p)
}

// incarnation is the store's present one as any approval tells it, empty if
// there is none to ask.
func (c *Console) incarnation(ctx context.Context, s *session) string {
	page, err := c.Inbox.List(ctx, s.who, gate.Query{Limit: 1})
	if err != nil || len(page.Rows) == 0 {
		return ""
	}
	v, err := c.Inbox.Get(ctx, s.who, page.Rows[0].ID)
	if err != nil {
		return ""
	}
	return v.Snapshot.Incarnation
}

// grant does what was pressed on a grant.
func (c *Console) grant(w http.ResponseWriter, r *http.Request, s *session) {
	id, said := chi.URLParam(r, "id"), ""
	var err error
	switch r.PostFormValue("do") {
	case "revoke":
		said, err = "Revoked. Calls that it let pass are asked about again.", c.Grants.RevokeGrant(r.Context(), s.who, id)
	case "confirm":
		said, err = "Confirmed. It counts again.", c.Grants.ConfirmGrant(r.Context(), s.who, id)
	default:
		err = invalid("Nothing was pressed. Nothing changed; press a button.")
	}
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	c.flash(w, r, s, "/console/grants", said)
	http.Redirect(w, r, "/console/grants", http.StatusSeeOther)
}
