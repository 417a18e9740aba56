package bot

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// KeyConfig is one entry of `keys:`, an API key. Only the hash of the key is
// kept; `approvalbot keys new` makes both.
type KeyConfig struct {
	Name          string   `yaml:"name"`
	Roles         []string `yaml:"roles"`         // agent, approver, worker, auditor, admin
	Person        string   `yaml:"person"`        // whom it belongs to
	Asserts       []string `yaml:"asserts"`       // of agents: person, origin
	Conversations []string `yaml:"conversations"` // of agents that assert origins: globs such as slack:C0*
	Queues        []string `yaml:"queues"`        // of workers: the executors whose calls they may run
	HashFile      string   `yaml:"hash_file"`     // holds the SHA-256 of the key in hex
	Hash          string   `yaml:"-"`             // instead of HashFile, where there is no file

	Callbacks *CallbackConfig `yaml:"callbacks"` // of agents; nil: it may name none
}

// Claims that an agent's key may be allowed to make.
const (
	claimPerson = "person"
	claimOrigin = "origin"
)

// Key is an API key that was presented and is known.
type Key struct {
	gate.Principal

	person, origin bool // may say on whose behalf, may say where the call came from
	places         []gate.Glob
	queues         []string
	prefixes       []callback // of addresses that are called back
	callbacks      CallbackConfig
}

// Keys are the known API keys. They never change while the process runs.
type Keys struct {
	byHash     map[[sha256.Size]byte]*Key
	principals []gate.Principal
}

// keyPrefix lets people and secret scanners recognise a key.
const keyPrefix = "ab_"

// NewKey makes a key and the hash to configure: 256 random bits, so that a plain
// SHA-256 is as good as a slow hash, and far too fast to be worth an attack.
func NewKey() (key secret.String, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	bearer := keyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(bearer))
	return secret.New(bearer), hex.EncodeToString(sum[:])
}

// keyName is how keys are named. Names are parts of the store's keys and of log
// lines, so nothing in them may read as a separator.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NewKeys checks the configured keys and reports everything that is wrong with
// them at once.
func NewKeys(configs []KeyConfig) (*Keys, []gate.Problem) {
	k := &Keys{byHash: map[[sha256.Size]byte]*Key{}}
	var problems []gate.Problem
	for i, c := range configs {
		path := fmt.Sprintf("keys[%d]", i)
		problems = append(problems, k.add(path, c)...)
	}
	return k, problems
}

func (k *Keys) add(path string, c KeyConfig) (problems []gate.Problem) {
	bad := func(field, text string) {
		problems = append(problems, gate.Problem{Path: path + "." + field, Text: text})
	}
	key := &Key{Principal: gate.Principal{Key: c.Name, Person: c.Person}}
	if !keyName.MatchString(c.Name) {
		bad("name", "want at most 64 letters, digits, dots, dashes and underscores")
	}
	if slices.ContainsFunc(k.principals, func(p gate.Principal) bool { return p.Key == c.Name }) {
		bad("name", "another key has this name already")
	}
	key.readRoles(c, bad)
	key.readClaims(c, bad)
	key.readQueues(c, bad)
	key.readCallbacks(c.Callbacks, bad)
	hash, err := c.hash()
	switch other := k.byHash[hash]; {
	case err != nil:
		bad("hash_file", err.Error())
	case other != nil:
		bad("hash_file", "the same key as "+other.Key)
	default:
		k.byHash[hash] = key
	}
	k.principals = append(k.principals, key.Principal)
	return problems
}

var roles = []gate.Role{gate.RoleAgent, gate.RoleApprover, gate.RoleWorker, gate.RoleAuditor, gate.RoleAdmin}

func (key *Key) readRoles(c KeyConfig, bad func(field, text string)) {
	for _, r := range c.Roles {
		if !slices.Contains(roles, gate.Role(r)) {
			bad("roles", "want of agent, approver, worker, auditor, admin")
			continue
		}
		key.Roles = append(key.Roles, gate.Role(r))
	}
	switch {
	case len(c.Roles) == 0:
		bad("roles", "a key without a role may do nothing; give it one of agent, approver, worker, auditor, admin")
	case key.Has(gate.RoleAgent) && slices.ContainsFunc(key.Roles, aboveAgents):
		bad("roles", "whoever asks must not decide, read others' calls, or set a bypass: use a key of its own for that")
	case key.Has(gate.RoleApprover) && c.Person == "":
		bad("person", "an approver's key belongs to a person; name them")
	}
}

func aboveAgents(r gate.Role) bool { return r != gate.RoleAgent && r != gate.RoleWorker }

func (key *Key) readClaims(c KeyConfig, bad func(field, text string)) {
	for _, a := range c.Asserts {
		switch a {
		case claimPerson:
			key.person = true
		case claimOrigin:
			key.origin = true
		default:
			bad("asserts", "want of person, origin")
		}
	}
	for i, text := range c.Conversations {
		g, err := gate.NewGlob(text)
		if err != nil {
			bad(fmt.Sprintf("conversations[%d]", i), err.Error())
			continue
		}
		key.places = append(key.places, g)
	}
	agent := key.Has(gate.RoleAgent)
	switch {
	case !agent && len(c.Asserts) > 0:
		bad("asserts", "only an agent's key asserts anything")
	case key.origin != (len(c.Conversations) > 0):
		bad("conversations", "asserts: [origin] and conversations go together: say which it may name")
	}
}

func (key *Key) readQueues(c KeyConfig, bad func(field, text string)) {
	key.queues = c.Queues
	switch {
	case key.Has(gate.RoleWorker) && len(c.Queues) == 0:
		bad("queues", "a worker's key runs what is named here; name at least one executor")
	case !key.Has(gate.RoleWorker) && len(c.Queues) > 0:
		bad("queues", "only a worker's key runs anything")
	}
}

// MayRun reports whether the key may claim calls of an executor.
func (key *Key) MayRun(executor string) bool { return slices.Contains(key.queues, executor) }

// hash reads the configured hash.
func (c KeyConfig) hash() (sum [sha256.Size]byte, err error) {
	text := c.Hash
	if text == "" {
		b, err := os.ReadFile(c.HashFile)
		if err != nil {
			return sum, fmt.Errorf("not readable; `approvalbot keys new` makes one: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(sum) {
		return sum, fmt.Errorf("want the SHA-256 of the key as 64 hex digits, as `approvalbot keys new` prints it")
	}
	return [sha256.Size]byte(b), nil
}

// Principals returns all keys, for the policy to check its groups against.
func (k *Keys) Principals() []gate.Principal { return slices.Clone(k.principals) }

// Authenticate returns the key that a bearer text is. The look-up is by the
// SHA-256 of what was presented: how long it takes depends on bits of a hash
// that nobody can steer without knowing the key, so it tells nothing of a key.
func (k *Keys) Authenticate(bearer string) (*Key, bool) {
	key, known := k.byHash[sha256.Sum256([]byte(bearer))]
	return key, known
}

// Claim returns the requester and origin that a call of this key counts as. What
// it says of itself beyond what it may assert is refused, never dropped: a
// caller that believes it was heard would act on it.
func (key *Key) Claim(r gate.Requester, origin gate.Conversation) (gate.Requester, error) {
	r.Key = key.Principal.Key
	if r.Person == "" {
		r.Person = key.Person
	}
	if r.Person != key.Person && !key.person {
		return r, unlisted("requester.person: this API key may not say on whose behalf it acts; list person in its asserts")
	}
	if origin == (gate.Conversation{}) {
		return r, nil
	}
	if !key.origin {
		return r, unlisted("origin: this API key may not say where a call came from; list origin in its asserts")
	}
	if !slices.ContainsFunc(key.places, func(g gate.Glob) bool { return g.Match(origin.Place) }) {
		return r, unlisted("origin.place: this API key may not name this conversation; list it in its conversations")
	}
	return r, nil
}

func unlisted(public string) error {
	return &gate.Error{Kind: gate.Invalid, Op: "bot.Claim", Public: public}
}
