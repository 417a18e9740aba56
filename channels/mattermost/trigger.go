package mattermost

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/gate"
)

// A trigger id says that the server saw somebody do something, with its signature:
// base64 of "<26 letters>:<user id>:<unix ms>:<base64 of an ECDSA signature>". It does
// not say what they did, and other integrations get such ids too.
const (
	triggerLife = 30 * time.Second // how old one may be, and how far ahead of our clock
	onceFor     = 2 * triggerLife  // for how long one that was used is remembered: as long as it could be taken
	keyEvery    = time.Minute      // between two looks for another key
)

// Why a trigger id is not taken.
var (
	errForged = errors.New("trigger id: not signed by this server for this person")
	errLate   = errors.New("trigger id: not of now")
)

// trigger is a press or command that the server vouches for.
type trigger struct{ user, nonce string }

// verify returns what a trigger id stands for, if the server has signed it for a
// person just now.
func (m *Mattermost) verify(ctx context.Context, text, user string) (trigger, error) {
	if !m.verifies {
		return trigger{user, text}, nil
	}
	key, err := m.key.get(ctx, m)
	if err != nil {
		return trigger{}, err
	}
	t, err := check(text, key)
	if errors.Is(err, errForged) {
		if key, renewed := m.key.renew(ctx, m); renewed {
			t, err = check(text, key)
		}
	}
	if err == nil && t.user != user {
		err = errForged
	}
	return t, err
}

// check reads a trigger id: first whether it is signed, and then of when it is. The
// library asks the other way round, and does not mind one of tomorrow.
func check(text string, key *ecdsa.PublicKey) (trigger, error) {
	const longest = 1000
	if len(text) > longest {
		return trigger{}, errForged
	}
	nonce, user, refused := model.DecodeAndVerifyTriggerId(text, &ecdsa.PrivateKey{PublicKey: *key}, math.MaxInt64)
	if refused != nil || nonce == "" || !id.MatchString(user) {
		return trigger{}, errForged
	}
	if at, ok := made(text); !ok || time.Until(at).Abs() > triggerLife {
		return trigger{}, errLate
	}
	return trigger{user, nonce}, nil
}

// made is when a trigger id says that it was.
func made(text string) (at time.Time, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return at, false
	}
	parts := strings.Split(string(raw), ":")
	if len(parts) != 4 {
		return at, false
	}
	ms, err := strconv.ParseInt(parts[2], 10, 64)
	return time.UnixMilli(ms), err == nil
}

// triggerKey is the public half of what the server signs with. All nodes of a server
// have the same, and it hardly ever changes.
type triggerKey struct {
	mu     sync.Mutex
	key    *ecdsa.PublicKey
	looked time.Time
}

func (k *triggerKey) get(ctx context.Context, m *Mattermost) (*ecdsa.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	return k.look(ctx, m)
}

// renew looks whether the server has another key now, once in a while: signatures
// that fail are also what an attacker makes.
func (k *triggerKey) renew(ctx context.Context, m *Mattermost) (key *ecdsa.PublicKey, renewed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < keyEvery {
		return nil, false
	}
	was := k.key
	key, err := k.look(ctx, m)
	return key, err == nil && !key.Equal(was)
}

func (k *triggerKey) look(ctx context.Context, m *Mattermost) (*ecdsa.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	k.looked = time.Now()
	settings, resp, err := m.api().GetOldClientConfig(ctx, "")
	if err != nil {
		return nil, notKnown("mattermost.key", resp, err)
	}
	key, err := publicKey(settings["AsymmetricSigningPublicKey"])
	if err != nil {
		return nil, unusable("the server shows no key with which whose press it is could be checked (%v); with verify_triggers: false and callback_allow it is not checked", err)
	}
	k.key = key
	return key, nil
}

func publicKey(text string) (*ecdsa.PublicKey, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil || text == "" {
		return nil, errors.New("none is published")
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	ec, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return nil, errors.New("it is of another kind")
	}
	return ec, nil
}

// fresh reports whether something was not used before, on any replica. An error means
// that nobody knows.
func fresh(ctx context.Context, kept gate.Presses, what string, within time.Duration) (bool, error) {
	return kept.Once(ctx, name+" "+what, within)
}
