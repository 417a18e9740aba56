package gate

// Explanation is what would become of a call, and why, without asking anybody.
type Explanation struct {
	Rung    Reason
	Verdict Verdict
	Reason  Reason // of a block
	Rule    *Rule  // nil if none matches
	Mode    Mode   // of a question
}

// Explain runs the rungs that need no store. What a token, a bypass or a grant
// would change is not looked at.
func (g *Gate) Explain(r Request) (Explanation, error) {
	p := g.policy.Load()
	f := Facts{Call: &r.Call, Requester: &r.Requester, Now: g.now()}
	if p.Disabled() {
		return Explanation{Rung: RungDisabled, Verdict: Allow}, nil
	}
	if p.Floor(&f) {
		return Explanation{Rung: RungFloor, Verdict: Block, Reason: ReasonFloorDenied}, nil
	}
	e := Explanation{Rung: RungUndesignated, Rule: p.Rule(&f)}
	switch {
	case e.Rule == nil || e.Rule.Action == ActionAllow:
		e.Verdict = Allow
		return e, nil
	case e.Rule.Action == ActionDeny:
		e.Verdict, e.Reason = Block, ReasonRuleDenied
		return e, nil
	}
	if _, err := r.Call.Digest(); err != nil {
		return Explanation{Verdict: Block, Reason: ReasonOf(err)}, err
	}
	if p.Off() {
		e.Rung, e.Verdict = RungOff, Allow
		return e, nil
	}
	mode, denied := p.ModeOf(e.Rule, r.Call.Tool, r.Requester.Attended, r.Mode == Deferred)
	if denied {
		e.Rung, e.Verdict, e.Reason = RungMode, Block, ReasonUnattended
		return e, nil
	}
	e.Rung, e.Verdict, e.Mode = RungAsk, Ask, mode
	return e, nil
}
