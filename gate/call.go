package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// Limits of a call.
const (
	MaxArgs    = 256 << 10 // bytes of arguments
	MaxDepth   = 64        // nesting of arguments
	MaxMembers = 10_000    // of all objects in the arguments together
	MaxName    = 256       // bytes of a server, tool or target
)

// Call is what an agent wants to do.
type Call struct {
	Server string          // where the tool lives; may be empty
	Tool   string          // never empty
	Target string          // what it acts on, if that is known; may be empty
	Args   json.RawMessage // one JSON object as it came, byte for byte; nil means {}
}

// RawArgs returns the argument bytes, which are the only thing ever executed.
func (c Call) RawArgs() json.RawMessage {
	if len(c.Args) == 0 {
		return json.RawMessage("{}")
	}
	return c.Args
}

// Digest is the fingerprint of a call. The zero value is no digest and equals
// that of no call.
type Digest [sha256.Size]byte

// Hex returns the digest as 64 hex digits, the form in which it is stored.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// String returns the digest as people see it, "sha256:…".
func (d Digest) String() string { return "sha256:" + d.Hex() }

// Short returns enough of the digest to compare two cards by eye.
func (d Digest) Short() string { return d.Hex()[:12] }

// ParseDigest reads "sha256:…" or bare hex.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil || len(b) != len(d) {
		return d, &Error{Kind: Invalid, Reason: ReasonDigestMismatch, Op: "gate.ParseDigest", Public: "digest: want sha256: and 64 hex digits"}
	}
	copy(d[:], b)
	return d, nil
}

// Validate checks the names of a call: valid text without control characters,
// at most MaxName bytes each, and a tool. Policies look only at calls that pass.
func (c Call) Validate() error {
	if c.Tool == "" {
		return badArgs("call: no tool", nil)
	}
	for _, name := range [...]string{c.Server, c.Tool, c.Target} {
		if len(name) > MaxName {
			return badArgs("call: a server, tool or target of more than 256 bytes", nil)
		}
		if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return badArgs("call: a server, tool or target with control characters or broken text", nil)
		}
	}
	return nil
}

// Digest returns the SHA-256 of the call in canonical JSON (RFC 8785). Key
// order and white space do not matter; what canonical JSON would change or
// read in two ways is refused, because two different calls would share one
// digest. docs/digest-vectors.json has examples for other implementations.
func (c Call) Digest() (Digest, error) {
	if err := c.Validate(); err != nil {
		return Digest{}, err
	}
	if _, err := parseArgs(c.RawArgs(), true); err != nil {
		return Digest{}, err
	}
	doc, err := json.Marshal(struct {
		V      int             `json:"v"`
		Server string          `json:"server"`
		Tool   string          `json:"tool"`
		Target string          `json:"target"`
		Args   json.RawMessage `json:"args"`
	}{1, c.Server, c.Tool, c.Target, c.RawArgs()})
	if err != nil {
		return Digest{}, badArgs("arguments: not valid JSON", err)
	}
	canon, err := jcs.Transform(doc)
	if err != nil {
		return Digest{}, badArgs("arguments: no canonical form", err)
	}
	return sha256.Sum256(canon), nil
}
