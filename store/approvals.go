package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/approvalbot/approvalbot/gate"
)

// head is the part of a Subject that lies in its own key and never changes. The
// arguments lie beside it, byte for byte.
type head struct {
	Server        string            `json:"server,omitempty"`
	Tool          string            `json:"tool"`
	Target        string            `json:"target,omitempty"`
	Rule          string            `json:"rule,omitempty"`
	Version       gate.Version      `json:"version,omitempty"`
	Requester     gate.Requester    `json:"requester"`
	Origin        gate.Conversation `json:"origin,omitzero"`
	Intent        string            `json:"intent,omitempty"`
	Executor      string            `json:"executor"`
	Discretionary bool              `json:"discretionary,omitempty"`
	Callback      string            `json:"callback,omitempty"`
}

// maxHead bounds what one approval takes up besides its arguments.
const maxHead = 16 << 10

func encodeHead(op string, s *gate.Subject) ([]byte, error) {
	b, err := json.Marshal(head{
		Server: s.Call.Server, Tool: s.Call.Tool, Target: s.Call.Target, Rule: s.Rule, Version: s.Version,
		Requester: s.Requester, Origin: s.Origin, Intent: s.Intent, Executor: s.Executor, Discretionary: s.Discretionary,
		Callback: s.Callback,
	})
	if err != nil {
		return nil, &gate.Error{Op: op, Err: err}
	}
	if len(b) > maxHead {
		return nil, invalid(op, "the call's names, requester, intent and callback are larger than 16 KiB together")
	}
	return b, nil
}

// checkOpening refuses what would make an approval that nothing can move on.
func checkOpening(op string, o *gate.Opening) error {
	switch {
	case o.ID == "" || len(o.ID) > maxValue:
		return invalid(op, "id: want 1 to 64 bytes")
	case o.Digest == gate.Digest{} || o.Call.Tool == "" || o.Executor == "":
		return invalid(op, "an approval needs a tool, a digest and an executor")
	case len(o.Call.Args) > gate.MaxArgs:
		return invalid(op, "arguments: larger than 256 KiB")
	case o.ExpiresIn < time.Millisecond:
		return invalid(op, "an approval needs a time by which it expires")
	case o.Mode != gate.Deferred && (o.Mode != gate.Inline || o.InlineFor < time.Millisecond):
		return invalid(op, "mode: want deferred, or inline and for how long")
	}
	return nil
}

// Open implements gate.Approvals. With o.Replaces, o.Key and o.Join do not
// matter: the successor takes over the key of the one it replaces.
func (s *Redis) Open(ctx context.Context, o gate.Opening) (gate.Opened, error) {
	const op = "store.Open"
	if err := checkOpening(op, &o); err != nil {
		return gate.Opened{}, err
	}
	head, err := encodeHead(op, &o.Subject)
	if err != nil {
		return gate.Opened{}, err
	}
	key, how := joinHash(&o.Subject), "new"
	switch {
	case o.Key != "":
		key, how = idempotencyHash(o.Requester.Key, o.Key), "key"
	case o.Join:
		how = "join"
	}
	r, err := s.run(ctx, op, openScript,
		string(o.ID), o.Digest.Hex(), string(o.Mode), ms(o.ExpiresIn), ms(o.InlineFor), flag(o.InlineDeny),
		o.Cap, short(o.Executor), flag(o.Discretionary), requesterHash(o.Requester),
		sessionHash(o.Requester.Key, o.Requester.Session), key, how,
		short(o.Requester.Key), short(o.Rule), short(o.Call.Tool), head, []byte(o.Call.RawArgs()),
		string(o.Replaces), string(o.ReplacedBy), string(endOf(o.ReplacedBy)), string(o.ReplaceWhy), o.ReplaceRev, o.By)
	if err != nil {
		return gate.Opened{}, err
	}
	return gate.Opened{ID: gate.ID(r.str(0)), Created: r.int(1) == 1}, nil
}

// endOf is the state in which an event leaves an approval that another one replaces.
func endOf(e gate.Event) gate.State {
	switch e {
	case gate.EventCancel:
		return gate.Cancelled
	case gate.EventRevoked:
		return gate.Revoked
	case gate.EventVoided:
		return gate.Void
	case gate.EventRerun:
		return gate.OutcomeUnknown
	default:
		return ""
	}
}

// ms is a duration as scripts take it; a fraction counts as a whole one, so
// that no duration turns into none.
func ms(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// Find implements gate.Approvals.
func (s *Redis) Find(ctx context.Context, apiKey, key string) (gate.ID, error) {
	const op = "store.Find"
	var id string
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		id, err = s.db.Get(ctx, s.space.key("k:"+idempotencyHash(apiKey, key))).Result()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return "", refused(op, "MISSING", nil)
	}
	if err != nil {
		return "", unavailable(op, err)
	}
	return gate.ID(id), nil
}

// Get implements gate.Approvals. It refuses an approval whose arguments are not
// those of its digest: what a person is shown must be what runs.
func (s *Redis) Get(ctx context.Context, id gate.ID) (gate.Snapshot, error) {
	const op = "store.Get"
	r, err := s.run(ctx, op, getScript, string(id))
	if err != nil {
		return gate.Snapshot{}, err
	}
	a, err := approval(id, r.list(3).fields(), r.str(4), r.list(8))
	if err != nil {
		return gate.Snapshot{}, damaged(op, err)
	}
	a.Call.Args = json.RawMessage(r.str(5))
	if d, err := a.Call.Digest(); err != nil || d != a.Digest {
		return gate.Snapshot{}, damaged(op, fmt.Errorf("%s: the stored call is not that of its digest", id))
	}
	if a.Votes, err = votes(r.list(6)); err != nil {
		return gate.Snapshot{}, damaged(op, err)
	}
	if a.Questions, err = questions(r.list(7)); err != nil {
		return gate.Snapshot{}, damaged(op, err)
	}
	return gate.Snapshot{Approval: a, Now: r.time(0), Incarnation: r.str(1), Doubtful: r.int(2) == 1}, nil
}

// damaged reports a record that somebody else than a script has written.
func damaged(op string, err error) error {
	return &gate.Error{Op: op, Public: "this approval's record is damaged", Err: err}
}

// approval reads a row, its head, and who settled it with what words.
func approval(id gate.ID, f row, headJSON string, words reply) (gate.Approval, error) {
	var h head
	if err := json.Unmarshal([]byte(headJSON), &h); err != nil {
		return gate.Approval{}, fmt.Errorf("head of %s: %w", id, err)
	}
	digest, err := gate.ParseDigest(f["dg"])
	if err != nil {
		return gate.Approval{}, fmt.Errorf("digest of %s: %w", id, err)
	}
	return gate.Approval{
		ID: id,
		Subject: gate.Subject{
			Call:   gate.Call{Server: h.Server, Tool: h.Tool, Target: h.Target},
			Digest: digest, Rule: h.Rule, Version: h.Version, Requester: h.Requester, Origin: h.Origin,
			Intent: h.Intent, Executor: h.Executor, Discretionary: h.Discretionary, Callback: h.Callback,
		},
		Mode: gate.Mode(f["md"]), State: gate.State(f["st"]), Rev: f.int("rv"),
		Created: f.time("cr"), InlineUntil: f.time("iu"), Expires: f.time("xp"), RunBy: f.time("rb"),
		Decided: f.time("dt"), Started: f.time("sr"), Ended: f.time("en"),
		Reason: gate.Reason(f["rs"]), By: words.str(0), Note: words.str(1),
		Incarnation: f["ep"], FailedOver: f.time("fo"), Fence: f.int("fn"),
		Lease:   gate.Lease{Owner: f["ow"], Until: f.time("lu")},
		Attempt: f["at"], Outcome: f["oc"], SettledBy: words.str(2), Result: words.str(3),
		Successor: gate.ID(f["su"]), Predecessor: gate.ID(f["pd"]), Rerun: f["rr"] == "1", Refused: gate.ID(f["rf"]),
	}, nil
}

// votes reads "<presses> <JSON>" lines.
func votes(lines reply) ([]gate.Vote, error) {
	var out []gate.Vote
	for i := range lines {
		_, text, _ := strings.Cut(lines.str(i), " ")
		var v gate.Vote
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("vote: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}

// questions reads questions and answers in their order. An answer is to all
// that was asked since the one before.
func questions(lines reply) ([]gate.Question, error) {
	var out []gate.Question
	answered := 0
	for i := range lines {
		line := lines.str(i)
		if text, ok := strings.CutPrefix(line, "a"); ok {
			for ; answered < len(out); answered++ {
				out[answered].Answer = text
			}
			continue
		}
		at, text, _ := strings.Cut(strings.TrimPrefix(line, "q"), " ")
		var q gate.Question
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			return nil, fmt.Errorf("question: %w", err)
		}
		asked, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("question: %w", err)
		}
		q.At = fromMS(asked)
		out = append(out, q)
	}
	return out, nil
}

// The indexes that list approvals, in the order in which List reads them.
const (
	indexPending = 1 + iota
	indexLive
	indexDone
)

// pageLimit is how many rows a page has if nobody says, and at most.
const (
	pageLimit    = 50
	pageLimitMax = 500
)

// List implements gate.Approvals. Without a state it lists what is pending,
// then what is at work, then what has ended.
func (s *Redis) List(ctx context.Context, q gate.Query) (gate.Page, error) {
	const op = "store.List"
	first, last := indexes(q.State)
	score, after := "", ""
	if q.Cursor != "" {
		var err error
		if first, score, after, err = parseCursor(q.Cursor, first, last); err != nil {
			return gate.Page{}, err
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = pageLimit
	}
	r, err := s.run(ctx, op, listScript, first, last, score, after, min(limit, pageLimitMax),
		string(q.State), short(q.Rule), short(q.Tool), short(q.Requester))
	if err != nil {
		return gate.Page{}, err
	}
	p := gate.Page{Now: r.time(0), Pending: int(r.int(1))}
	if r.int(2) > 0 {
		p.Next = strings.Join([]string{r.str(2), r.str(3), r.str(4)}, ".")
	}
	for i := range r[5:] {
		line := r.list(5 + i)
		a, err := approval(gate.ID(line.str(0)), line.list(1).fields(), line.str(2), line.list(3))
		if err != nil {
			return gate.Page{}, damaged(op, err)
		}
		p.Rows = append(p.Rows, a)
	}
	return p, nil
}

func indexes(s gate.State) (first, last int) {
	switch s {
	case "":
		return indexPending, indexDone
	case gate.Pending:
		return indexPending, indexPending
	case gate.Approved: // at work, unless it is discretionary: then it ended so
		return indexLive, indexDone
	case gate.Leased, gate.Executing, gate.OutcomeUnknown:
		return indexLive, indexLive
	default:
		return indexDone, indexDone
	}
}

// parseCursor reads "<index>.<score>.<id>"; score and id are empty where an
// index begins.
func parseCursor(c string, first, last int) (index int, score, after string, err error) {
	part := strings.SplitN(c, ".", 3)
	index, _ = strconv.Atoi(part[0])
	if len(part) != 3 || index < first || index > last {
		return 0, "", "", invalid("store.List", "cursor: not one of this list")
	}
	if _, err := strconv.ParseUint(part[1], 10, 64); err != nil && part[1]+part[2] != "" {
		return 0, "", "", invalid("store.List", "cursor: not one of this list")
	}
	return index, part[1], part[2], nil
}
