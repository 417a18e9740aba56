package main

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/approvalbot/approvalbot/channels/slack"
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
	chat *slack.Slack // takes over renewed tokens; nil without one
	note func(string) // for /readyz
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
	if r.chat != nil && cfg.Slack != nil {
		r.chat.Adopt(cfg.Slack)
		r.was.Channels.Slack.BotToken = cfg.Channels.Slack.BotToken
	}
	r.note("")
	if keys := needRestart(r.was, cfg.Config); len(keys) > 0 {
		r.log.WarnContext(ctx, "only a restart puts these changes in force", "keys", keys)
	}
	r.log.InfoContext(ctx, "reloaded", "policy", shortVersion(cfg.Policy), "rules", len(cfg.Policy.Rules()))
}

// renewable refuses a new token that does not work. A chat that does not answer
// refuses nothing.
func (r *refresher) renewable(ctx context.Context, cfg *config.Loaded) error {
	if r.chat == nil || cfg.Slack == nil || cfg.Channels.Slack.BotToken.Reveal() == r.was.Channels.Slack.BotToken.Reveal() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	if _, err := cfg.Slack.Connect(ctx); err != nil && gate.KindOf(err) != gate.Unavailable {
		return err
	}
	return nil
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
	return c
}
