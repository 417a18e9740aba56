package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// roundTrip is whether, where and for how long a press is waited for.
type roundTrip struct {
	press bool
	where string // empty: where cards go
	wait  time.Duration
}

func (r *roundTrip) args(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("want one conversation, as team/channel; got %d", len(args))
	case len(args) == 1 && !r.press:
		return fmt.Errorf("%q: a conversation goes with --press; see %s --help", gate.Clean(args[0]), cmd.CommandPath())
	case r.wait <= 0:
		return fmt.Errorf("--wait: %s is no time to press a button in; want something like 2m", r.wait)
	case len(args) == 1:
		r.where = args[0]
		return (*mattermost.Mattermost)(nil).Check(gate.KindConversation, r.where)
	}
	return nil
}

const checkPress = "round trip"

// roundTrip has somebody press a button, and says what became of that.
func (d *mattermostDoctor) roundTrip(ctx context.Context) {
	if !d.try.press {
		d.note(checkPress, "run this with --press, and press the button that it posts", "not tried; whether Mattermost can call shows only when somebody presses")
		return
	}
	where := cmp.Or(d.try.where, d.cfg.Review[d.chat])
	if where == "" {
		d.fail(checkPress, "name a conversation that the bot is in: --press team/channel", "not tried: there is no review.mattermost to post a button in")
		return
	}
	answers, stop := d.answer(ctx)
	defer stop()
	if answers == "" {
		return
	}
	t, err := d.who.Try(ctx, where, d.try.wait)
	if err != nil {
		f := refusal(err)
		fix := laterFix
		if f.Refused() {
			fix = "invite the bot, and let it post there; or name another conversation: --press team/channel"
		}
		d.fail(checkPress, fix, "no button could be posted in %s: %s", where, f.Why)
		return
	}
	fmt.Fprintf(d.prompt, "\nPress the button in %s, within %s:\n%s\nMattermost then calls %s,\nwhich %s.\n\n",
		where, gate.Span(d.try.wait), t.Link(), d.trialURL(), answers)
	d.await(ctx, t)
}

// answer sees to it that presses are answered: by the server that runs here, or else
// by this process. It returns who that is, empty for nobody, and how to end it.
func (d *mattermostDoctor) answer(ctx context.Context) (who string, stop func()) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.cfg.Listen)
	m := d.cfg.Mattermost
	if m.Keys = d.cfg.Keyring; m.Keys == nil && err == nil {
		m.Keys, err = gate.NewKeyring(secret.New(newServerKey()))
	}
	switch {
	case m.Keys == nil:
		d.fail(checkPress, "make one with `approvalbot keys server --out server.key`, and set key_file", "not tried: without a server key, the server that runs would not know the button")
		return "", func() {}
	case errors.Is(err, syscall.EADDRINUSE):
		return "the server on " + d.cfg.Listen + " answers", func() {}
	case err != nil:
		d.warn(checkPress, "free it, or start the server there", "this machine cannot listen on %s (%v); a server elsewhere must answer", d.cfg.Listen, err)
		return "a server elsewhere must answer", func() {}
	}
	mux := http.NewServeMux()
	log := slog.New(slog.DiscardHandler)
	mux.Handle(mattermost.TrialPath, mattermost.Echo{Mattermost: m, Log: log})
	web := newHTTPServer(mux, log)
	go func() { _ = web.Serve(listener) }() // it ends when it is closed
	return "this process answers, on " + listener.Addr().String(), func() { _ = web.Close() }
}

const (
	seenEvery = time.Second // the post is looked at
	tidyFor   = 10 * time.Second
)

// trialURL is where Mattermost calls for the button.
func (d *mattermostDoctor) trialURL() string {
	return strings.TrimRight(d.section.CallbackURL, "/") + mattermost.TrialPath
}

// await waits for the press, and takes the button away if none comes.
func (d *mattermostDoctor) await(ctx context.Context, t *mattermost.Trial) {
	waiting, cancel := context.WithTimeout(ctx, d.try.wait)
	defer cancel()
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	for {
		select {
		case <-waiting.Done():
			tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyFor)
			defer cancel()
			_ = t.End(tidy) // the finding is what counts
			d.nothingArrived()
			return
		case <-tick.C:
		}
		a, err := t.Seen(waiting)
		switch f := refusal(err); {
		case a != nil:
			d.hasArrived(a)
			return
		case err != nil && f.Refused():
			d.fail(checkPress, "run this again, and leave the post until it says that it works", "the post with the button is gone: %s", f.Why)
			return
		}
	}
}

// hasArrived says what is to be known of a press that came.
func (d *mattermostDoctor) hasArrived(a *mattermost.Arrival) {
	from := finding{Check: checkPress, Level: fails, Lines: []string{"callback_allow: [" + a.From + "]"}}
	age := gate.Span(a.Age)
	if a.Age < 0 {
		age = "-" + gate.Span(-a.Age)
	}
	sure := "signed by Mattermost"
	if a.Signed == mattermost.SignedSkip {
		sure = "and nobody has looked whose it is"
	}
	switch {
	case a.Signed == mattermost.SignedNot:
		d.fail(checkPress, "correct channels.mattermost.url: it must be the server in which the button was pressed", "the press arrived from %s, and is not signed with the key of this Mattermost: every press is refused", a.From)
	case a.Signed == mattermost.SignedLate:
		d.fail(checkPress, clockFix, "the press arrived from %s, and is %s old by the clock there: every press is refused", a.From, age)
	case a.Signed == mattermost.SignedAsk:
		d.fail(checkPress, "let the server reach Mattermost as this machine does", "the press arrived from %s, and whose it is could not be checked: who answered did not get Mattermost's key", a.From)
	case !d.cfg.Mattermost.Allows(a.From):
		from.Text = "the press arrived from " + a.From + ", which is not in callback_allow: every press is refused"
		from.Fix = "add it to channels.mattermost.callback_allow, if that is Mattermost; if it is a proxy, it must keep others out:"
		d.add(from)
	case a.Age.Abs() > triggerOff:
		d.warn(checkPress, clockFix, "the press arrived from %s, and is %s old by the clock there; from 30 s on, every press is refused", a.From, age)
	case len(d.section.CallbackAllow) == 0:
		from.Level, from.Text = fine, "the press arrived from "+a.From+" after "+age+", "+sure
		from.Fix = "with this in channels.mattermost, Approve needs no second question. If it is the address of a proxy, that must keep others out:"
		d.add(from)
	default:
		d.ok(checkPress, "the press arrived from %s after %s, %s", a.From, age, sure)
	}
}

// nothingArrived says what to look at when no press came.
func (d *mattermostDoctor) nothingArrived() {
	host, to := "", d.trialURL()
	if u, err := url.Parse(to); err == nil {
		host = u.Hostname()
	}
	d.add(finding{
		Check: checkPress, Level: fails, Text: "no press has arrived within " + gate.Span(d.try.wait),
		Fix: "if you did press, Mattermost could not call " + to + ". Its log says why (System Console > Reporting > Server Logs), which has one of these words:",
		Lines: []string{
			"address forbidden   System Console > Environment > Developer > Allow",
			"                    untrusted internal connections to: after a space, add",
			"                    " + host,
			"no such host        Mattermost's machine must know the name: callback_url",
			"refused, timeout    a firewall, or nothing listens: listen, callback_url",
			"x509, certificate   Mattermost's machine must trust its certificate",
			"status=             what answers is not approvalbot with this config file;",
			"                    or a proxy does not let /mattermost/ through",
			"nothing at all      System Console > Environment > Web Server > Site URL",
		},
	})
}
