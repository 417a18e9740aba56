package main

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// refresher puts the policy of a changed config file in force, or says loudly
// why not. It is for one goroutine.
type refresher struct {
	file string
	env  func(string) string
	was  config.Config // as started: what takes a restart is compared with it
	gate *gate.Gate
	live *config.Loaded        // its chats take over renewed tokens
	then func(context.Context) // what another policy takes
	note func(string)          // for /readyz
	log  *slog.Logger
}

func (r *refresher) reload(ctx context.Context) {
	cfg, problems := config.Load(r.file, r.env)
	for _, b := range problems {
		if b.Warning {
			r.log.WarnContext(ctx, "config", "problem", b.String())
		} else {
			r.log.ErrorContext(ctx, "config", "problem", b.String())
		}
	}
	if cfg == nil {
		r.refused(ctx, "mistakes in the file")
		return
	}
	if err := r.renewable(ctx, cfg); err != nil {
		r.refused(ctx, gate.PublicText(err))
		return
	}
	if err := r.gate.SetPolicy(ctx, cfg.Policy, "reload of "+r.file); err != nil {
		r.refused(ctx, gate.PublicText(err))
		return
	}
	r.renew(cfg)
	r.then(ctx)
	r.note("")
	if keys := needRestart(r.was, cfg.Config); len(keys) > 0 {
		r.log.WarnContext(ctx, "only a restart puts these changes in force", "keys", keys)
	}
	r.log.InfoContext(ctx, "reloaded", "policy", shortVersion(cfg.Policy), "rules", len(cfg.Policy.Rules()))
}

// renewable refuses a new token that does not work. A chat that does not answer
// refuses nothing.
func (r *refresher) renewable(ctx context.Context, cfg *config.Loaded) error {
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	if r.slack(cfg) && cfg.Channels.Slack.BotToken.Reveal() != r.was.Channels.Slack.BotToken.Reveal() {
		if _, err := cfg.Slack.Connect(ctx); err != nil && gate.KindOf(err) != gate.Unavailable {
			return err
		}
	}
	if r.mattermost(cfg) && cfg.Channels.Mattermost.Token.Reveal() != r.was.Channels.Mattermost.Token.Reveal() {
		if _, err := cfg.Mattermost.Connect(ctx); err != nil && gate.KindOf(err) != gate.Unavailable {
			return err
		}
	}
	return nil
}

// renew lets the chats take over their tokens.
func (r *refresher) renew(cfg *config.Loaded) {
	if r.slack(cfg) {
		r.live.Slack.Adopt(cfg.Slack)
		r.was.Channels.Slack.BotToken = cfg.Channels.Slack.BotToken
	}
	if r.mattermost(cfg) {
		r.live.Mattermost.Adopt(cfg.Mattermost)
		r.was.Channels.Mattermost.Token = cfg.Channels.Mattermost.Token
	}
}

// slack reports whether the file has the Slack that runs.
func (r *refresher) slack(cfg *config.Loaded) bool { return r.live.Slack != nil && cfg.Slack != nil }

// mattermost reports whether the file has the Mattermost that runs: another one would
// take a restart.
func (r *refresher) mattermost(cfg *config.Loaded) bool {
	return r.live.Mattermost != nil && cfg.Mattermost != nil && cfg.Channels.Mattermost.URL == r.was.Channels.Mattermost.URL
}

func (r *refresher) refused(ctx context.Context, why string) {
	r.note("the changed config file was refused, the old policy stays in force: " + why)
	r.log.ErrorContext(ctx, "RELOAD REFUSED: the old policy stays in force", "why", why, "file", r.file, "policy", shortVersion(r.gate.Policy()))
}

// reloadable are the sections that make the policy.
var reloadable = map[string]bool{"approvals": true, "approvers": true, "people": true}

// needRestart names the sections that differ and are read at start only.
func needRestart(was, now config.Config) (keys []string) {
	a, b := reflect.ValueOf(withoutTokens(was)), reflect.ValueOf(withoutTokens(now))
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("yaml")
		if !reloadable[key] && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// withoutTokens is a config without what a chat takes over by itself.
func withoutTokens(c config.Config) config.Config {
	if c.Channels.Slack != nil {
		s := *c.Channels.Slack
		s.BotToken, s.AppToken = secret.String{}, secret.String{}
		c.Channels.Slack = &s
	}
	if c.Channels.Mattermost != nil {
		m := *c.Channels.Mattermost
		m.Token = secret.String{}
		c.Channels.Mattermost = &m
	}
	return c
}
