package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
)

// What the doctors of all chats have in common.

const laterFix = "run this again in a minute"

// examination runs a doctor on a config file.
func examination(cmd *cobra.Command, p process, file string, examine func(context.Context, *findings, *config.Loaded)) error {
	f := &findings{screen: newScreen(p), json: asJSON(cmd)}
	cfg, problems := config.Load(file, p.env)
	f.config(problems)
	if cfg != nil {
		examine(cmd.Context(), f, cfg)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	return f.finish(p.out)
}

// chatDoctor examines one chat.
type chatDoctor struct {
	*findings
	cfg         *config.Loaded
	chat, title string // "slack", "Slack"
	lists       string // the keys of a group that list people there

	able   map[string]bool // groups in which somebody there can decide
	unsure map[string]bool // groups of which nobody knows
}

func newChatDoctor(f *findings, cfg *config.Loaded, chat, title, lists string) chatDoctor {
	return chatDoctor{findings: f, cfg: cfg, chat: chat, title: title, lists: lists, able: map[string]bool{}, unsure: map[string]bool{}}
}

// groups are the names of the groups of approvers, sorted.
func (d *chatDoctor) groups() []string { return slices.Sorted(maps.Keys(d.cfg.Approvers.Groups)) }

const clockFix = "set this machine's clock, and keep it right: NTP, chrony, or `timedatectl set-ntp true`"

// apart says how far this machine's clock is off, and to which side.
func apart(ahead time.Duration) (off time.Duration, side string) {
	if ahead < 0 {
		return -ahead, "behind"
	}
	return ahead, "ahead of"
}

// room is a conversation, and what it is used for.
type room struct {
	id   string
	uses []string
}

const forOperators = "operators"

// onlyOperators reports whether no card goes there.
func (r room) onlyOperators() bool { return slices.Equal(r.uses, []string{forOperators}) }

func (r room) what() string { return strings.Join(r.uses, ", ") }

// rooms are the conversations that cards or words go to, each once.
func (d *chatDoctor) rooms() (all []room) {
	use := func(id, what string) {
		i := slices.IndexFunc(all, func(r room) bool { return r.id == id })
		switch {
		case id == "":
		case i < 0:
			all = append(all, room{id, []string{what}})
		default:
			all[i].uses = append(all[i].uses, what)
		}
	}
	use(d.cfg.Review[d.chat], "review")
	use(d.cfg.Operators[d.chat], forOperators)
	for _, r := range d.cfg.Policy.Rules() {
		use(d.placeOf(r), "rule "+r.Name)
	}
	return all
}

// placeOf is the conversation in this chat that a rule names.
func (d *chatDoctor) placeOf(r *gate.Rule) string {
	for _, c := range r.Conversations {
		if id, ok := strings.CutPrefix(c.Place, d.chat+":"); ok {
			return id
		}
	}
	return ""
}

// members are those of a group or conversation, as far as they could be looked at.
type members struct {
	able    int
	unable  map[gate.Account]int
	unknown int
	failed  error // why; nil if it is only that enough were
}

// invisible is the account of whom the bot cannot see, and so nobody recognises.
const invisible gate.Account = "invisible"

// words for one and for several.
var accountWords = map[gate.Account][2]string{
	gate.Guest: {"a guest", "guests"}, gate.Outsider: {"an outsider", "outsiders"}, gate.Bot: {"a bot", "bots"},
	gate.Deactivated: {"a deactivated account", "deactivated accounts"}, invisible: {"somebody the bot cannot see", "people the bot cannot see"},
}

// crowd counts those who cannot decide by what they are.
func (m members) crowd() string {
	var parts []string
	for _, a := range slices.Sorted(maps.Keys(m.unable)) {
		if n := m.unable[a]; n == 1 {
			parts = append(parts, accountWords[a][0])
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", n, accountWords[a][1]))
		}
	}
	return strings.Join(parts, ", ")
}

// others are how many cannot decide.
func (m members) others() (n int) {
	for _, some := range m.unable {
		n += some
	}
	return n
}

func (m members) losers() string {
	n := m.others()
	if n == 1 {
		return fmt.Sprintf("1 of them %s who cannot decide", m.crowd())
	}
	return fmt.Sprintf("%d of them (%s) cannot decide", n, m.crowd())
}

func (m members) rest(who string) string {
	if m.unknown == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of them not looked at, because %s limits how often", m.unknown, who)
}

// rules looks for cards on which nobody who sees them in the chat could decide.
func (d *chatDoctor) rules() {
	const check = "rules"
	var good int
	var all []string // groups, in the order of rules
	lost := map[string][]string{}
	for _, r := range d.cfg.Policy.Rules() {
		if r.Action != gate.ActionAsk || cmp.Or(d.placeOf(r), d.cfg.Review[d.chat]) == "" {
			continue
		}
		switch {
		case r.AdmitsRequester || d.anyOf(r.Groups, d.able):
			good++
		case d.anyOf(r.Groups, d.unsure) || slices.ContainsFunc(r.Groups, d.byEmail):
		default:
			groups := strings.Join(approversOf(r), ", ")
			if lost[groups] == nil {
				all = append(all, groups)
			}
			lost[groups] = append(lost[groups], r.Name)
		}
	}
	for _, groups := range all {
		d.warn(check, "list people on "+d.title+" in the group ("+d.lists+"), or send the cards elsewhere",
			"%s: cards go to %s, and nobody of %s can decide there; at the console only", strings.Join(lost[groups], ", "), d.title, groups)
	}
	if good > 0 {
		d.ok(check, "somebody on %s can decide on the cards of %s", d.title, plural(good, "rule"))
	}
}

func (*chatDoctor) anyOf(groups []*gate.Group, such map[string]bool) bool {
	return slices.ContainsFunc(groups, func(g *gate.Group) bool { return such[g.Name] })
}

// byEmail reports whether a group lists addresses: nobody knows whose, before they
// press.
func (d *chatDoctor) byEmail(g *gate.Group) bool {
	return len(d.cfg.Approvers.Groups[g.Name].Emails) > 0
}
