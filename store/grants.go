package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/approvalbot/approvalbot/gate"
)

// Standing implements gate.Standing. Grants of the requester's other sessions
// are among them; which one covers a call is the gate's to say.
func (s *Redis) Standing(ctx context.Context, r gate.Requester) (gate.Holdings, error) {
	const op = "store.Standing"
	res, err := s.run(ctx, op, standingScript, requesterHash(r), sessionHash(r.Key, r.Session))
	if err != nil {
		return gate.Holdings{}, err
	}
	h := gate.Holdings{Now: res.time(0), Incarnation: res.str(1)}
	if text := res.str(2); text != "" {
		h.Bypass = new(gate.Bypass)
		if err := json.Unmarshal([]byte(text), h.Bypass); err != nil {
			return gate.Holdings{}, damaged(op, fmt.Errorf("bypass: %w", err))
		}
	}
	if h.Grants, err = decodeGrants(res[3:]); err != nil {
		return gate.Holdings{}, damaged(op, err)
	}
	return h, nil
}

// decodeGrants reads grants: JSON and uses of each.
func decodeGrants(r reply) ([]gate.Grant, error) {
	var out []gate.Grant
	for i := 0; i+1 < len(r); i += 2 {
		var g gate.Grant
		if err := json.Unmarshal([]byte(r.str(i)), &g); err != nil {
			return nil, fmt.Errorf("grant: %w", err)
		}
		g.Uses = int(r.int(i + 1))
		out = append(out, g)
	}
	return out, nil
}

// UseGrant implements gate.Standing. Whether g is genuine the caller has
// checked; the limits of this very g are what counts.
func (s *Redis) UseGrant(ctx context.Context, g gate.Grant, policy gate.Version, d gate.Digest) error {
	const op = "store.UseGrant"
	e, err := encodeGrant(op, &g)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, op, useGrantScript, e.id, e.mac, e.expires, g.MaxUses, g.Incarnation, e.session,
		string(policy), rand.Text(), g.Requester.Key, d.Hex(), string(g.Approval))
	return err
}

// Grants implements gate.Standing.
func (s *Redis) Grants(ctx context.Context) ([]gate.Grant, error) {
	const op, page = "store.Grants", 500
	var out []gate.Grant
	for skip := 0; ; skip += page {
		r, err := s.run(ctx, op, grantsScript, skip, page)
		if err != nil {
			return nil, err
		}
		grants, err := decodeGrants(r)
		if err != nil {
			return nil, damaged(op, err)
		}
		if out = append(out, grants...); len(grants) < page {
			return out, nil
		}
	}
}

// PutGrant implements gate.Standing.
func (s *Redis) PutGrant(ctx context.Context, g gate.Grant, by string) error {
	const op = "store.PutGrant"
	e, err := encodeGrant(op, &g)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, op, putGrantScript, e.id, e.json, e.mac, e.expires, e.requester, e.session, by, string(g.Approval))
	return err
}

// RevokeGrant implements gate.Standing.
func (s *Redis) RevokeGrant(ctx context.Context, id, by string) error {
	_, err := s.run(ctx, "store.RevokeGrant", revokeGrantScript, id, by)
	return err
}

// storedGrant is a grant as scripts take it; the zero value is none.
type storedGrant struct {
	id, json, mac, requester, session string
	expires                           int64
}

func encodeGrant(op string, g *gate.Grant) (storedGrant, error) {
	if g == nil {
		return storedGrant{}, nil
	}
	b, err := json.Marshal(g)
	if err != nil {
		return storedGrant{}, &gate.Error{Op: op, Err: err}
	}
	out := storedGrant{
		id: g.ID, json: string(b), mac: hex.EncodeToString(g.MAC),
		requester: requesterHash(g.Requester), expires: g.Expires.UnixMilli(),
	}
	if g.Scope != gate.Always { // ends with the session it was given in
		out.session = sessionHash(g.Requester.Key, g.Requester.Session)
	}
	return out, nil
}
