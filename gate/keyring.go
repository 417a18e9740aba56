package gate

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// MinServerKey is the least length of a server key in bytes.
const MinServerKey = 32

// purpose separates the uses of the server key: each derives a key of its own.
type purpose string

const (
	forTokens      purpose = "approvalbot token v1"
	forVotes       purpose = "approvalbot vote v1"
	forGrants      purpose = "approvalbot grant v1"
	forBypasses    purpose = "approvalbot bypass v1"
	forFingerprint purpose = "approvalbot fingerprint v1"
	forPrivate     purpose = "approvalbot private card v1"
)

// Use is what a part outside of this package signs for itself: a signature for one
// use holds for no other, and for nothing that the gate signs. The zero value signs
// nothing.
type Use uint8

// The uses.
const (
	Pages   Use = iota + 1 // cookies and forms of the console
	Buttons                // what comes back with a press on a card
	Dialogs                // what comes back with a dialog
)

var labels = map[Use]purpose{
	Pages:   "approvalbot console v1",
	Buttons: "approvalbot buttons v1",
	Dialogs: "approvalbot dialogs v1",
}

// Keyring signs with the server's key, and verifies with it and with those it is
// being rotated from or to.
type Keyring struct {
	keys []derived // the first one signs
}

type derived map[purpose][]byte

// NewKeyring derives all keys. Every key must have at least MinServerKey bytes.
func NewKeyring(current secret.String, others ...secret.String) (*Keyring, error) {
	k := &Keyring{}
	for _, s := range append([]secret.String{current}, others...) {
		if len(s.Reveal()) < MinServerKey {
			return nil, &Error{Kind: Invalid, Op: "gate.NewKeyring", Public: "server key: want at least 32 random bytes; make one with `approvalbot keys server`"}
		}
		d := derived{}
		for _, p := range append(slices.Collect(maps.Values(labels)), forTokens, forVotes, forGrants, forBypasses, forFingerprint, forPrivate) {
			sub, err := hkdf.Key(sha256.New, []byte(s.Reveal()), nil, string(p), sha256.Size)
			if err != nil {
				return nil, &Error{Kind: Internal, Op: "gate.NewKeyring", Err: err}
			}
			d[p] = sub
		}
		k.keys = append(k.keys, d)
	}
	return k, nil
}

// Fingerprints names the keys without telling anything of them, the signing one
// first. The store remembers it, so that replicas with another key do not start.
func (k *Keyring) Fingerprints() []string {
	var out []string
	for _, d := range k.keys {
		out = append(out, hex.EncodeToString(d[forFingerprint][:8]))
	}
	return out
}

// Sign signs fields for a use, as 43 characters that are safe in URLs. Where they
// begin and end counts: "a", "bc" is not "ab", "c".
func (k *Keyring) Sign(u Use, fields ...string) string {
	if labels[u] == "" {
		return ""
	}
	return signature(k.sign(labels[u], fields...))
}

// Signed reports whether mac is, to the letter, what Sign gives or gave for the
// fields under a known key. Texts are compared, not what they decode to: decoders
// of base64 pass over line breaks. It takes the same time whatever is wrong.
func (k *Keyring) Signed(u Use, mac string, fields ...string) bool {
	p := labels[u]
	return p != "" && slices.ContainsFunc(k.keys, func(d derived) bool {
		return hmac.Equal([]byte(mac), []byte(signature(d.mac(p, fields))))
	})
}

func signature(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }

func (k *Keyring) sign(p purpose, fields ...string) []byte { return k.keys[0].mac(p, fields) }

// verify compares in constant time.
func (k *Keyring) verify(p purpose, mac []byte, fields ...string) bool {
	for _, d := range k.keys {
		if hmac.Equal(mac, d.mac(p, fields)) {
			return true
		}
	}
	return false
}

// mac writes each field behind its length, so that no two lists of fields are
// the same bytes.
func (d derived) mac(p purpose, fields []string) []byte {
	h := hmac.New(sha256.New, d[p])
	for _, f := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f))))
		h.Write([]byte(f))
	}
	return h.Sum(nil)
}

// token is what lets an opener or leaseholder consume one approval, once. It is
// an HMAC over what it names, so it can be made again when a reply was lost,
// and nothing that lies in the store can be spent.
type token struct {
	id          ID
	fence       int64
	decided     time.Time
	incarnation string
	mac         []byte
}

const tokenPrefix = "abt1"

// mint makes the token of an approved or leased approval.
func (k *Keyring) mint(a *Approval) secret.String {
	t := token{id: a.ID, fence: a.Fence, decided: a.Decided, incarnation: a.Incarnation}
	t.mac = k.sign(forTokens, t.fields(a.Digest)...)
	return secret.New(strings.Join([]string{
		tokenPrefix, string(t.id), strconv.FormatInt(t.fence, 36), strconv.FormatInt(t.decided.UnixMilli(), 36),
		t.incarnation, base64.RawURLEncoding.EncodeToString(t.mac),
	}, "."))
}

func (t token) fields(d Digest) []string {
	return []string{string(t.id), d.Hex(), strconv.FormatInt(t.fence, 10), t.incarnation, strconv.FormatInt(t.decided.UnixMilli(), 10)}
}

// genuine reports whether this server minted t for an approval of that digest.
func (k *Keyring) genuine(t token, d Digest) bool {
	return k.verify(forTokens, t.mac, t.fields(d)...)
}

// parseToken reads a token without judging it.
func parseToken(s secret.String) (token, error) {
	bad := &Error{Kind: Invalid, Reason: ReasonNotFound, Op: "gate.parseToken", Public: "token: not a token of approvalbot"}
	p := strings.Split(s.Reveal(), ".")
	if len(p) != 6 || p[0] != tokenPrefix {
		return token{}, bad
	}
	fence, err1 := strconv.ParseInt(p[2], 36, 64)
	decided, err2 := strconv.ParseInt(p[3], 36, 64)
	mac, err3 := base64.RawURLEncoding.DecodeString(p[5])
	if err1 != nil || err2 != nil || err3 != nil {
		return token{}, bad
	}
	return token{id: ID(p[1]), fence: fence, decided: time.UnixMilli(decided), incarnation: p[4], mac: mac}, nil
}

// voteFields is what a vote's signature covers: the approval and all that it
// binds, so that neither a vote nor the approval under it can be altered.
func voteFields(id ID, s *Subject, v *Vote) []string {
	return []string{
		string(id), s.Digest.Hex(), s.Rule, string(s.Version), s.Executor,
		s.Requester.Key, s.Requester.Agent, s.Requester.Session, s.Requester.Person,
		v.Voter.ID, v.Voter.Person, v.Voter.Surface, v.Voter.Login, strings.Join(v.Groups, "\x00"),
		string(v.Choice), string(v.Scope), v.Reason, v.Nonce,
	}
}

func (k *Keyring) signVote(id ID, s *Subject, v *Vote) {
	v.MAC = k.sign(forVotes, voteFields(id, s, v)...)
}

func (k *Keyring) voteGenuine(id ID, s *Subject, v *Vote) bool {
	return k.verify(forVotes, v.MAC, voteFields(id, s, v)...)
}

func grantFields(g *Grant) []string {
	r := g.Requester
	return []string{
		g.ID, string(g.Approval), string(g.Scope), r.Key, r.Agent, r.Session, r.Person,
		g.Rule, string(g.Version), g.Server, g.Tool, g.Target, g.Digest.Hex(), g.By,
		millis(g.Created), millis(g.Expires), strconv.Itoa(g.MaxUses), g.Incarnation,
	}
}

func (k *Keyring) signGrant(g *Grant) { g.MAC = k.sign(forGrants, grantFields(g)...) }

func (k *Keyring) grantGenuine(g *Grant) bool { return k.verify(forGrants, g.MAC, grantFields(g)...) }

func bypassFields(b *Bypass) []string {
	return []string{b.Key, b.Session, b.By, millis(b.Until), b.Incarnation}
}

func (k *Keyring) signBypass(b *Bypass) { b.MAC = k.sign(forBypasses, bypassFields(b)...) }

func (k *Keyring) bypassGenuine(b *Bypass) bool {
	return k.verify(forBypasses, b.MAC, bypassFields(b)...)
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
