package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/approvalbot/approvalbot/bot/client"
	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// Where commands find the server and their key.
const (
	envURL       = "APPROVALBOT_URL"
	envToken     = "APPROVALBOT_TOKEN"
	envTokenFile = "APPROVALBOT_TOKEN_FILE"
	defaultURL   = "http://127.0.0.1:8080"
)

// notSetUp is an environment that describes no server, or no key for it.
type notSetUp struct{ error }

// connect makes the client that the environment describes; it calls nobody yet.
func connect(p process) (*client.Client, error) {
	key, err := bearer(p.env)
	if err != nil {
		return nil, notSetUp{err}
	}
	c, err := client.New(cmp.Or(p.env(envURL), defaultURL), key)
	if err != nil {
		return nil, notSetUp{fmt.Errorf("%s: %w", envURL, err)}
	}
	return c, nil
}

func bearer(env func(string) string) (secret.String, error) {
	text, file := env(envToken), env(envTokenFile)
	switch {
	case text != "" && file != "":
		return secret.String{}, fmt.Errorf("%s and %s are both set; unset one", envToken, envTokenFile)
	case file != "":
		b, err := os.ReadFile(file) //nolint:gosec // the file that the caller names
		if err != nil {
			return secret.String{}, fmt.Errorf("%s: %w", envTokenFile, err)
		}
		text = string(b)
	}
	if text = strings.TrimSpace(text); text == "" {
		return secret.String{}, fmt.Errorf("no key; set %s or %s to one of `approvalbot keys new`", envToken, envTokenFile)
	}
	return secret.New(text), nil
}

// explainRefusal turns what went wrong with a request into a text for people:
// who does not answer, or what the API says of its refusal.
func explainRefusal(err error) error {
	if silent, ok := errors.AsType[*url.Error](err); ok {
		at, _ := url.Parse(silent.URL)
		return fmt.Errorf("no answer from %s://%s (%s says where approvalbot is): %w", at.Scheme, at.Host, envURL, silent.Err)
	}
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	texts := []string{gate.Clean(cmp.Or(refused.Detail, refused.Title))}
	for _, f := range refused.Fields {
		texts = append(texts, gate.Clean(f.Field)+": "+gate.Clean(f.Text))
	}
	return fmt.Errorf("%s (%s)", strings.Join(texts, "; "), gate.Clean(refused.Code))
}

// lister is what looking up a short id needs.
type lister interface {
	List(ctx context.Context, q client.Query) (wire.ListAnswer, error)
}

// resolve turns what a person typed into an id: a whole one, or a part that
// names exactly one approval in one of the states.
func resolve(ctx context.Context, c lister, short string, states []gate.State) (string, error) {
	if id, err := gate.ParseID(short); err == nil {
		return string(id), nil
	}
	if len(strings.TrimPrefix(strings.ToLower(short), "apr_")) < gate.LeastID {
		return "", fmt.Errorf("%q is no id; want at least %d characters of its end or beginning", gate.Clean(short), gate.LeastID)
	}
	found := map[string]wire.Approval{}
	for _, state := range states {
		if err := collect(ctx, c, short, state, found); err != nil {
			return "", err
		}
	}
	return pick(short, found)
}

// collect reads every approval of one state: whether a short form is ambiguous
// cannot be told from a part of them.
func collect(ctx context.Context, c lister, short string, state gate.State, found map[string]wire.Approval) error {
	for q := (client.Query{State: string(state), Limit: 200}); ; {
		page, err := c.List(ctx, q)
		if errors.Is(err, gate.Forbidden) {
			return fmt.Errorf("your key may not list approvals, so give the whole id: %w", explainRefusal(err))
		}
		if err != nil {
			return explainRefusal(err)
		}
		for _, a := range page.Approvals {
			if gate.Names(short, a.ID) {
				found[a.ID] = a
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}
