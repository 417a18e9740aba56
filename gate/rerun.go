package gate

import "context"

// Rerun asks people whether to run a call again whose outcome nobody knows: a new
// approval of the same call, under the rule of today, with a token of its own. The
// old one stays as it is until somebody settles it. It may be asked for by whoever
// may settle it, and only once: a second time gives the same approval.
func (g *Gate) Rerun(ctx context.Context, id ID, v Voter) (ID, error) {
	s, err := g.current(ctx, id)
	switch {
	case err != nil:
		return "", err
	case s.State != OutcomeUnknown:
		return "", conflict(ReasonAlreadyDecided, StateLine(&s.Approval, Progress{}, Clock{Now: s.Now})+". Nothing is unknown about it.")
	}
	if err := g.maySettle(ctx, s, v); err != nil {
		return "", err
	}
	o, asks := g.reopening(s)
	if !asks {
		return "", conflict(ReasonPolicyChanged, "Policy does not ask about this call any more, so it cannot be asked again here.")
	}
	o.Mode = Deferred // whoever asked has long been told that nobody knows
	o.Replaces, o.ReplacedBy, o.ReplaceRev, o.By = s.ID, EventRerun, s.Rev, v.Name
	opened, err := g.store.Open(ctx, o)
	return opened.ID, err
}
