package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"

	"github.com/approvalbot/approvalbot/gate"
)

// space names every key of one tenant. All share the hash tag {space}: in
// Redis Cluster they lie in one slot, which is what lets one script change
// several of them. The prelude derives the same names from the first key.
//
// Of one space:
//
//	meta       hash    see below
//	log        stream  one entry per move: audit trail, wake-up and outbox
//	pending    zset    pending approvals by creation
//	live       zset    approved, leased, executing, outcome_unknown by decision
//	done       zset    what has ended, by its end
//	due        zset    whatever time will move, by when: one timer per approval
//	n          hash    requester -> how many are pending
//	ready:<executor>   zset, approved calls that wait for a worker, by decision
//	grants     zset    grants by expiry
//	once       set     what is noted only once
//	replicas   hash    replica -> "<ms> <policy>"
//	followers  hash    replica -> when it last followed the log for cards
//	confirmed  string  written for WAIT alone, see confirm.go
//	told       string  position up to which the log was read for deliveries
//	owed       zset    deliveries by when their next try is due
//	dead       zset    deliveries that were given up, by when
//
// Of one approval:
//
//	a:<id>     hash    the row; every value at most 64 bytes, so that it stays
//	                   a listpack (half the memory)
//	h:<id>     string  the head: what never changes but the arguments, JSON
//	x:<id>     string  the argument bytes, as they came
//	v:<id>     hash    voter's identity -> "<press>,<earlier press>… <vote JSON>"
//	q:<id>     list    questions "q<ms> <JSON>" and answers "a<text>", in order
//	w:<id>     hash    by, nt: who settled it and what was said; re: what the tool
//	                   said; sb: who settled an unknown outcome
//	c:<id>     hash    "<place> <message>" of a card -> JSON of it
//	cw:<id>    string  who draws its cards, expires
//	cb:<id>    hash    delivery to its callback -> "<state> <tries>", expires
//
// Of others, named by a hash (see fingerprint):
//
//	k:<hash>   string  idempotency or join key -> id
//	l:<hash>   string  nonce of a lease -> id
//	rf:<digest> string the last denial of that call -> id, expires
//	s:<hash>   hash    session: en ended, bj bypass JSON, bu until
//	sa:<hash>  set     what ends with the session: inline approvals, grants
//	g:<id>     hash    grant: js JSON, mc its MAC, xp expires, us uses,
//	                   nc nonce of the last use, rq requester, ss session
//	gr:<hash>  set     grants of a requester
//	t:<hash>   string  when the turns taken in a conversation are over, expires
//	tp:<hash>  string  nobody has a turn there, expires
//	pr:<chat>  zset    presses that are not decided yet, by when somebody took
//	                   them, expires
//	o:<hash>   string  what must not happen twice -> the call that was the first,
//	                   expires
//	d:<id>     hash    delivery: js what it is, st state, tr tries, of approval if
//	                   it goes to its callback; expires when it is over
//
// Fields of a row; times are ms of the clock of Redis, flags 1 or absent:
//
//	st state      rv revision    dg digest      md mode       cr created
//	iu inline until              dn then denied               xi expires in
//	xp expires    rb run by      dt decided     sr started    ru report until
//	en ended      rs reason      ep incarnation fo failed over
//	op opener     rl rule        tl tool        ex executor   di discretionary
//	rq requester  ss session     ik key         su successor  pd predecessor
//	rf refused before            rr its predecessor was dispatched
//	fn fence      ow lease owner ln its nonce   lu until
//	at attempt    cp consumer    wr will report oc outcome    lr late report
//	gi its grant  se grant not made, session over
//
// Fields of meta: seq last log number, hi highest time seen, ep last
// incarnation seen, ea since when (0: the first), ph policy all replicas run,
// schema, level of durability, key fingerprint of the server key.
type space string

var spaceForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// newSpace refuses names that could break out of the hash tag.
func newSpace(name string) (space, error) {
	if !spaceForm.MatchString(name) {
		return "", fmt.Errorf("store: space %q: want 1 to 63 of a-z 0-9 _ . -, beginning with a letter or digit", name)
	}
	return space(name), nil
}

func (s space) key(name string) string { return "approvalbot:{" + string(s) + "}:" + name }

// declared are the KEYS of every script, in the order in which the prelude
// names them.
func (s space) declared() []string {
	var keys []string
	for _, name := range []string{"meta", "log", "pending", "live", "done", "due", "n"} {
		keys = append(keys, s.key(name))
	}
	return keys
}

// fingerprint names a tuple of foreign texts: 22 characters, 128 bits. Lengths go in,
// so that no two tuples read alike.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// maxValue is the longest value that leaves a row a listpack.
const maxValue = 64

// short is a text as it stands in a row: only ever compared, so a long one may
// be its fingerprint.
func short(s string) string {
	if len(s) <= maxValue {
		return s
	}
	return "#" + fingerprint(s)
}

func requesterHash(r gate.Requester) string {
	return fingerprint("requester", r.Key, r.Agent, r.Person)
}

// sessionHash is empty for no session.
func sessionHash(key, session string) string {
	if session == "" {
		return ""
	}
	return fingerprint("session", key, session)
}

func idempotencyHash(apiKey, key string) string { return fingerprint("key", apiKey, key) }

func joinHash(s *gate.Subject) string {
	return fingerprint("join", requesterHash(s.Requester), s.Requester.Session, s.Digest.Hex(), flag(s.Discretionary))
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}
