package gate

import "time"

// Grant is standing permission: it lets later calls of the same requester pass
// without asking, if they are what the approver saw printed.
type Grant struct {
	ID        string    `json:"id"` // "grt_" and a ULID
	Approval  ID        `json:"approval"`
	Scope     Scope     `json:"scope"` // Session or Always
	Requester Requester `json:"requester"`
	Rule      string    `json:"rule"`
	Version   Version   `json:"version"`
	// Covers: with a target, every call of this tool on this target under the
	// same rule; without one, exactly this call.
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool"`
	Target string `json:"target,omitempty"`
	Digest Digest `json:"digest"`

	By          string    `json:"by"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires"`
	MaxUses     int       `json:"max_uses,omitempty"` // 0: no limit
	Incarnation string    `json:"incarnation"`
	MAC         []byte    `json:"mac"`

	Uses int `json:"-"` // counted by the store, not signed
}

// Version is the fingerprint of a rule or of a whole policy, bare hex. The zero
// value equals no policy.
type Version string
