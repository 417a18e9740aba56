package bot

import (
	"context"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// PrivateCards are cards that one person sees in an answer. They are written down
// nowhere: a press on one proves by itself who was shown what.
type PrivateCards struct {
	Gate interface {
		Get(ctx context.Context, p gate.Principal, id gate.ID) (gate.View, error)
	}
	Keys *gate.Keyring
	Card func(*gate.View) *channels.Card
}

// Draw draws a card for one person.
func (p *PrivateCards) Draw(v *gate.View, who gate.Voter) *channels.Card {
	c := p.Card(v)
	c.Proof = p.Keys.ProveCard(v.ID, v.Digest, who.ID, v.Now.Add(gate.ProofLife))
	return c
}

// shown returns the digest of the call on the card that was pressed. It is the
// stored one, and only if the presser was shown that.
func (p *PrivateCards) shown(ctx context.Context, k *channels.Click) (gate.Digest, error) {
	if p == nil {
		return gate.Digest{}, &gate.Error{Kind: gate.NotFound, Reason: gate.ReasonNotFound, Op: "bot.Press", Public: "This is not a card of an approval here. Nothing was decided."}
	}
	v, err := p.Gate.Get(ctx, drawer, k.Approval)
	if err != nil {
		return gate.Digest{}, err
	}
	if err := p.Keys.CheckCard(k.Proof, v.ID, v.Digest, k.Voter.ID, v.Now); err != nil {
		return gate.Digest{}, err
	}
	return v.Digest, nil
}
