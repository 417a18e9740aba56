package slack

import (
	"context"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// The kinds of views.
const (
	viewHome  = string(api.VTHomeTab)
	viewModal = string(api.VTModal)
)

// OpenedHome is for somebody who opened the app's Home tab: they find what waits
// for them there.
func (c *Commands) OpenedHome(ctx context.Context, app, user string) {
	if c.Home {
		c.publish(ctx, app, user)
	}
}

// publish shows somebody what waits, on their Home tab.
func (c *Commands) publish(ctx context.Context, app, user string) {
	c.behind(ctx, app, spot{user: user, home: true}, func(ctx context.Context, v gate.Voter) channels.Answer {
		return c.Run(ctx, channels.Command{Voter: v, Text: "pending", Place: name + ":home"})
	})
}

// showInView shows an answer in a view: a modal takes it in, on the Home tab a
// card opens one. A trigger lives for three seconds; who was too slow for it finds
// the card on the tab.
func (s *Slack) showInView(ctx context.Context, at spot, blocks []api.Block, card bool) error {
	modal := api.ModalViewRequest{Type: api.VTModal, Title: plain("Approval", maxOption), Close: plain("Close", maxOption), Blocks: api.Blocks{BlockSet: blocks}}
	if at.view != "" {
		if _, err := s.client().UpdateViewContext(ctx, modal, "", "", at.view); err != nil {
			return failed("slack.show", err)
		}
		return nil
	}
	if card && at.trigger != "" {
		if _, err := s.client().OpenViewContext(ctx, at.trigger, modal); err == nil {
			return nil
		}
	}
	_, err := s.client().PublishViewContext(ctx, api.PublishViewContextRequest{
		UserID: at.user, View: api.HomeTabViewRequest{Type: api.VTHomeTab, Blocks: api.Blocks{BlockSet: blocks}},
	})
	if err != nil {
		return failed("slack.show", err)
	}
	return nil
}
