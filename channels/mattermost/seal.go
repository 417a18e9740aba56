package mattermost

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// What a button carries. Everybody in the conversation can read it, and write it into
// a post of their own: the seal says that we wrote it, and nothing about who sends it.
const (
	keyVersion  = "v"
	keyApproval = "approval"
	keyAction   = "action"
	keyDigest   = "digest"
	keySeal     = "seal"
	keyChosen   = "selected_option" // put there by Mattermost

	buttonVersion = "1"
)

// sealed is what a button of a card in a conversation carries. All of it is text:
// Mattermost rounds numbers.
func sealed(keys *gate.Keyring, c *channels.Card, action, channel string) map[string]any {
	digest := c.Digest.Hex()
	return map[string]any{
		keyVersion: buttonVersion, keyApproval: string(c.Approval), keyAction: action, keyDigest: digest,
		keySeal: keys.Sign(gate.Buttons, buttonVersion, string(c.Approval), digest, action, channel),
	}
}

// button is what was read from one that we made.
type button struct {
	approval gate.ID
	digest   gate.Digest
	action   string
	chosen   string // from a menu, by whoever pressed
}

var errNotOurs = errors.New("a button that this server did not make for this conversation")

// unseal reads what came back with a press.
func unseal(keys *gate.Keyring, from map[string]any, channel string) (b button, err error) {
	field := func(key string) string { s, _ := from[key].(string); return s }
	approval, digest, action := field(keyApproval), field(keyDigest), field(keyAction)
	if field(keyVersion) != buttonVersion || !keys.Signed(gate.Buttons, field(keySeal), buttonVersion, approval, digest, action, channel) {
		return b, errNotOurs
	}
	b.action, b.chosen = action, field(keyChosen)
	if b.approval, err = gate.ParseID(approval); err != nil {
		return b, errNotOurs
	}
	if b.digest, err = gate.ParseDigest(digest); err != nil {
		return b, errNotOurs
	}
	return b, nil
}

// pass is what travels with a dialog, and comes back from whoever sends it: that we
// have asked one person about one card. It can be read by them and not be changed.
type pass struct {
	Approval gate.ID `json:"a"`
	Digest   string  `json:"d"`
	Action   string  `json:"x"`
	Scope    string  `json:"s,omitempty"`
	User     string  `json:"u"`
	Channel  string  `json:"c"`
	Post     string  `json:"p"`
	Thread   string  `json:"t,omitempty"`
	Ours     bool    `json:"o,omitempty"` // the post was looked up, and is the bot's
	Required bool    `json:"r,omitempty"` // a reason; the gate wants it too
	Nonce    string  `json:"n"`
	Until    int64   `json:"e"` // unix seconds
}

// passLife is how long a dialog may be open.
const passLife = 30 * time.Minute

func (p pass) seal(keys *gate.Keyring) (string, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text + "." + keys.Sign(gate.Dialogs, text), nil
}

var (
	errNoPass = errors.New("a dialog that this server did not open for this person")
	errOld    = errors.New("a dialog that was open for too long")
)

// admit reads the pass of a dialog that somebody sends.
func admit(keys *gate.Keyring, state, user string, now time.Time) (p pass, err error) {
	text, seal, _ := strings.Cut(state, ".")
	if !keys.Signed(gate.Dialogs, seal, text) {
		return p, errNoPass
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &p) != nil || p.User != user {
		return pass{}, errNoPass
	}
	if now.Unix() >= p.Until {
		return p, errOld
	}
	return p, nil
}
