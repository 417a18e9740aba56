package gate

import (
	"crypto/rand"
	"strings"

	"github.com/oklog/ulid/v2"
)

const idPrefix = "apr_"

// NewID returns a fresh id of an approval.
func NewID() ID { return ID(newID(idPrefix)) }

// newID returns prefix and a ULID. Its time is the local clock's, which orders
// ids for people; nothing is decided by it.
func newID(prefix string) string {
	return prefix + ulid.MustNew(ulid.Now(), rand.Reader).String()
}

// ParseID reads an id in any case, as people type it.
func ParseID(s string) (ID, error) {
	bad := &Error{Kind: Invalid, Reason: ReasonNotFound, Op: "gate.ParseID", Public: "no approval id: want apr_ and 26 letters and digits"}
	if len(s) < len(idPrefix) || !strings.EqualFold(s[:len(idPrefix)], idPrefix) {
		return "", bad
	}
	u, err := ulid.ParseStrict(s[len(idPrefix):])
	if err != nil {
		return "", bad
	}
	return ID(idPrefix + u.String()), nil
}

// Short forms of an id: its end or its beginning, without apr_, in any case.
const (
	ShownID = 6 // characters of the end that lists show
	LeastID = 4 // fewer name too many
)

// ShortID is how lists show an id, also one of a grant. Ends differ where
// beginnings, which are times, do not.
func ShortID(id string) string { return Clean(id[max(len(id)-ShownID, 0):]) }

// Names reports whether a short form names an id. What is shorter than LeastID
// names none.
func Names(short, id string) bool {
	kind, ulid, _ := strings.Cut(id, "_")
	if at := len(kind) + 1; len(short) >= at && strings.EqualFold(short[:at], kind+"_") {
		short = short[at:]
	}
	short = strings.ToUpper(short)
	return len(short) >= LeastID && (strings.HasPrefix(ulid, short) || strings.HasSuffix(ulid, short))
}
