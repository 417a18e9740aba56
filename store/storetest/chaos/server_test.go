//go:build linux

package chaos

import (
	"context"
	"fmt"
	"sync"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// serve is what a server runs: it says which policy it has, settles what is due,
// draws cards and runs staged calls.
func (p *process) serve(ctx context.Context) {
	replica := fmt.Sprintf("%s-%d", p.Name, p.Life)
	reaper := &bot.Reaper{Store: p.store, Refresh: p.Refresh, Log: p.log}
	cards := &bot.Dispatcher{
		Cards: p.store, Gate: p.Gate, Channels: map[string]channels.Channel{chat: remote{p.world}}, Replica: replica, Log: p.log,
		Route: func(v *gate.View) []gate.Conversation { // one for each: no card waits for its turn behind another
			return []gate.Conversation{{Place: fmt.Sprint(chat, ":", v.Call.Tool)}}
		},
		Card: func(v *gate.View) *channels.Card {
			args, covered := p.Shown(&v.Snapshot)
			return channels.NewCard(v, channels.Context{Args: args, Redacted: covered})
		},
	}
	var wg sync.WaitGroup
	for _, part := range []func(context.Context){
		reaper.Run, cards.Run, p.work, func(ctx context.Context) { p.Run(ctx, replica) },
	} {
		wg.Go(func() { part(ctx) })
	}
	wg.Wait()
}
