package mattermosttest

import (
	"net/http"
	"strings"
)

// token lets its owner in.
type token struct {
	id, user, description string
	session               bool // of a browser or app, not a personal access token
	disabled              bool
	created               int64
}

// authorise finds out who asks.
func (s *Server) authorise(c *call, to route) error {
	if to.open {
		return nil
	}
	if c.query("access_token") != "" {
		return refuse(http.StatusUnauthorized, "api.context.token_provided.app_error", "Session is not OAuth but token was provided in the query string.")
	}
	t := s.tokens[secretOf(c.Request)]
	if t == nil || t.disabled {
		return noSession()
	}
	u := s.users[t.user]
	if u == nil || u.deletedAt != 0 {
		return noSession()
	}
	c.user = u
	return nil
}

// secretOf takes the token from the header or, when the request cannot be made by
// another site, from the cookie.
func secretOf(r *http.Request) string {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Token") {
		return secret
	}
	cookie, err := r.Cookie("MMAUTHTOKEN")
	if err != nil || r.Method != http.MethodGet && r.Header.Get("X-Requested-With") != "XMLHttpRequest" && r.Header.Get("X-CSRF-Token") == "" {
		return ""
	}
	return cookie.Value
}

// Session returns the token with which this user's browser makes its calls.
func (s *Server) Session(user string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session(user)
}

func (s *Server) session(user string) string {
	for secret, t := range s.tokens {
		if t.user == user && t.session {
			return secret
		}
	}
	secret := NewID()
	s.tokens[secret] = &token{id: NewID(), user: user, session: true, created: s.millis()}
	return secret
}

// Revoke takes the tokens of the bot away, which gets 401 from now on.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for secret, t := range s.tokens {
		if t.user == BotUser {
			delete(s.tokens, secret)
		}
	}
}

// Renew gives the bot this token and no other.
func (s *Server) Renew(secret string) {
	s.Revoke()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[secret] = &token{id: NewID(), user: BotUser, description: "approvalbot", created: s.millis()}
}

// DisableBot does what happens when the owner of the bot leaves: its tokens are
// none any more, and its account looks deactivated.
func (s *Server) DisableBot() { s.Change(BotUser, func(u *User) { u.Deactivated = true }) }

// EnableBot takes that back.
func (s *Server) EnableBot() { s.Change(BotUser, func(u *User) { u.Deactivated = false }) }
