package bot

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Decider is what presses ask of the gate.
type Decider interface {
	Decide(ctx context.Context, d gate.Decision) (gate.Tally, error)
}

// Clicks turns presses on cards into decisions. What a press answers for is the
// call that was shown on that very card, as it was written down when the card was
// drawn: nothing that travels through the platform is believed about it.
type Clicks struct {
	Gate  Decider
	Cards gate.Cards
	Log   *slog.Logger
}

// pressTimeout bounds a decision: the person looks at a spinning button.
const pressTimeout = 10 * time.Second

// Press decides, and returns what only the presser sees. It is never empty.
func (c *Clicks) Press(ctx context.Context, k channels.Click) string {
	ctx, cancel := context.WithTimeout(ctx, pressTimeout)
	defer cancel()
	var t gate.Tally
	digest, err := c.shown(ctx, &k)
	if err == nil {
		t, err = c.Gate.Decide(ctx, gate.Decision{
			ID: k.Approval, Voter: k.Voter, Choice: k.Choice, Scope: k.Scope, Reason: k.Reason, Digest: digest, Nonce: k.Nonce,
		})
	}
	if err != nil {
		c.Log.InfoContext(ctx, "press refused", "approval", string(k.Approval), "by", k.Voter.ID, "reason", string(gate.ReasonOf(err)), "err", err)
		return refusal(err)
	}
	return recorded(k, &t)
}

// shown returns the digest of the call on the card that was pressed. A platform
// may show a card before it answers the post: then only that it was about to be
// posted there is written down.
func (c *Clicks) shown(ctx context.Context, k *channels.Click) (gate.Digest, error) {
	posted, err := c.Cards.Posted(ctx, k.Approval)
	if err != nil {
		return gate.Digest{}, err
	}
	for _, message := range []string{k.Ref.Message, ""} {
		for _, p := range posted {
			if p.Place == k.Ref.Place && p.Message == message {
				return gate.ParseDigest(p.Digest)
			}
		}
	}
	return gate.Digest{}, &gate.Error{Kind: gate.NotFound, Reason: gate.ReasonNotFound, Op: "bot.Press", Public: "This is not a card of an approval here. Nothing was decided."}
}

// refusal says why a press did not count. What is broken on our side is told as
// that, and that nothing was decided.
func refusal(err error) string {
	if gate.KindOf(err) == gate.Unavailable || gate.KindOf(err) == gate.Internal {
		return gate.PressText(gate.Press{Reason: gate.ReasonOf(err)})
	}
	return gate.PublicText(err)
}

func recorded(k channels.Click, t *gate.Tally) string {
	a := &t.Approval
	switch {
	case k.Choice == gate.NeedContext:
		return "Asked. The call waits for the agent's answer."
	case !t.Settled:
		return gate.PressText(gate.Press{Progress: t.Progress})
	case t.SessionEnded:
		return "Recorded. The session is over, so this is for once only."
	}
	return fmt.Sprintf("Recorded. %s.", gate.StateLine(&a.Approval, gate.Progress{}, gate.Clock{Now: a.Now}))
}
