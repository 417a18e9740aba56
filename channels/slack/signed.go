package slack

import (
	"context"
	"errors"
	"io"
	"net/http"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// signed returns the body of a request that Slack has signed: its bytes as they
// came, and not long ago. Nothing of them is looked at before.
func signed(w http.ResponseWriter, r *http.Request, key secret.String) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, errors.New("not a POST")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, err
	}
	v, err := api.NewSecretsVerifier(r.Header, key.Reveal())
	if err != nil {
		return nil, err
	}
	if _, err := v.Write(body); err != nil {
		return nil, err
	}
	return body, v.Ensure()
}

// ours reports whether a payload may be for this app, from somebody. Until Slack
// has said which app this is every one may be.
func (s *Slack) ours(user, app string) bool {
	own := s.appID()
	return user != "" && (own == "" || app == own)
}

// known is who did something in this app. The error is that nobody knows, or that
// it was another app.
func (s *Slack) known(ctx context.Context, user, app string) (gate.Voter, error) {
	v, err := s.voter(ctx, user)
	if err == nil && app != s.appID() { // which was not known when it came
		err = errNotOurs
	}
	return v, err
}
