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
