package bot

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// Decider is what presses ask of the gate.
type Decider interface {
	Decide(ctx context.Context, d gate.Decision) (gate.Tally, error)
	AnswerAs(ctx context.Context, v gate.Voter, id gate.ID, text string) error
	Settle(ctx context.Context, id gate.ID, v gate.Voter, outcome gate.State, note string) error
	Rerun(ctx context.Context, id gate.ID, v gate.Voter) (gate.ID, error)
}

// Clicks turns presses on cards into decisions. What a press answers for is the
// call that was shown on that very card, as it was written down when the card was
// drawn: nothing that travels through the platform is believed about it.
type Clicks struct {
	Gate    Decider
	Cards   gate.Cards
	Private *PrivateCards // nil: no press proves itself
	Log     *slog.Logger
}

// pressTimeout bounds a decision: the person looks at a spinning button.
const pressTimeout = 10 * time.Second

// Press decides, and returns what only the presser sees. It is never empty.
func (c *Clicks) Press(ctx context.Context, k channels.Click) string {
	text, _ := c.Try(ctx, k)
	return text
}

// Try is Press that also says why the press did not count.
func (c *Clicks) Try(ctx context.Context, k channels.Click) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pressTimeout)
	defer cancel()
	text := ""
	digest, err := c.shown(ctx, &k)
	if err == nil {
		text, err = c.act(ctx, &k, digest)
	}
	if err != nil {
		c.Log.InfoContext(ctx, "press refused", "approval", string(k.Approval), "by", k.Voter.ID, "reason", string(gate.ReasonOf(err)), "err", err)
		return refusal(err), err
	}
	return text, nil
}

// act does what a button is for, and says what came of it.
func (c *Clicks) act(ctx context.Context, k *channels.Click, d gate.Digest) (string, error) {
	switch k.Choice {
	case channels.Reply:
		return "Answered. The approvers see it on the card.", c.Gate.AnswerAs(ctx, k.Voter, k.Approval, k.Reason)
	case channels.Ran:
		return "Recorded: it ran.", c.Gate.Settle(ctx, k.Approval, k.Voter, gate.Executed, k.Reason)
	case channels.NotRun:
		return "Recorded: it did not run.", c.Gate.Settle(ctx, k.Approval, k.Voter, gate.Failed, k.Reason)
	case channels.RunAgain:
		id, err := c.Gate.Rerun(ctx, k.Approval, k.Voter)
		return fmt.Sprintf("People are asked whether to run it again, as %s. This one stays open until somebody says whether it ran.", id), err
	default: // a vote, which the gate looks at
	}
	t, err := c.Gate.Decide(ctx, gate.Decision{
		ID: k.Approval, Voter: k.Voter, Choice: k.Choice, Scope: k.Scope, Reason: k.Reason, Digest: d, Nonce: k.Nonce,
	})
	return recorded(k, &t), err
}

// shown returns the digest of the call on the card that was pressed, and refuses a
// button that was drawn for another one.
func (c *Clicks) shown(ctx context.Context, k *channels.Click) (gate.Digest, error) {
	var d gate.Digest
	var err error
	if k.Proof != "" {
		d, err = c.Private.shown(ctx, k)
	} else {
		d, err = c.stored(ctx, k)
	}
	if err == nil && k.Digest != (gate.Digest{}) && k.Digest != d {
		err = &gate.Error{Kind: gate.Conflict, Reason: gate.ReasonDigestMismatch, Op: "bot.Press", Public: "This is not the call you were shown. Look again, then decide."}
	}
	return d, err
}

// stored returns the digest of the call on a card as it was written down. A
// platform may show a card before it answers the post, or may never answer: then
// only that it was about to be posted there is written down, or that another one
// was. If nobody else can have posted it, it is one of the approval's cards from
// now on; else anybody could who copies a button into the same conversation.
func (c *Clicks) stored(ctx context.Context, k *channels.Click) (gate.Digest, error) {
	posted, err := c.Cards.Posted(ctx, k.Approval)
	if err != nil {
		return gate.Digest{}, err
	}
	here := slices.DeleteFunc(posted, func(p gate.Posted) bool { return p.Place != k.Ref.Place })
	if i := slices.IndexFunc(here, func(p gate.Posted) bool { return p.Message == k.Ref.Message }); i >= 0 {
		return gate.ParseDigest(here[i].Digest)
	}
	if k.Ours && len(here) > 0 {
		c.adopt(ctx, k, here[0])
		return gate.ParseDigest(here[0].Digest)
	}
	public := "This is not a card of an approval here. Nothing was decided."
	if k.Ours { // this bot has posted it, and this installation knows nothing of it
		public += " If the card is new, another approvalbot uses the same app: each needs one of its own."
	}
	return gate.Digest{}, &gate.Error{Kind: gate.NotFound, Reason: gate.ReasonNotFound, Op: "bot.Press", Public: public}
}

// adopt writes down a card that is known only by having been pressed, so that it
// is redrawn with the others. It is drawn at no revision yet.
func (c *Clicks) adopt(ctx context.Context, k *channels.Click, like gate.Posted) {
	err := c.Cards.PutPosted(ctx, k.Approval, gate.Posted{
		Place: k.Ref.Place, Message: k.Ref.Message, Thread: k.Ref.Thread, Rev: -1, Digest: like.Digest, Beside: like.Beside,
	})
	if err != nil {
		c.Log.WarnContext(ctx, "a card is not written down", "approval", string(k.Approval), "err", err)
	}
}

// refusal says why a press did not count. What is broken on our side is told as
// that, and that nothing was decided.
func refusal(err error) string {
	if gate.KindOf(err) == gate.Unavailable || gate.KindOf(err) == gate.Internal {
		return gate.PressText(gate.Press{Reason: gate.ReasonOf(err)})
	}
	return gate.PublicText(err)
}

func recorded(k *channels.Click, t *gate.Tally) string {
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
