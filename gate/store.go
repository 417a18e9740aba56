package gate

import (
	"context"
	"time"
)

// Store keeps everything that must survive a process. Package store implements
// it on Redis; storetest states its contract as tests, so change both together.
//
// Every method is one atomic move: it happens entirely or not at all, whatever
// other replicas do meanwhile, and its log entry is written with it. The clock
// is the store's. What time has already settled (an expired question, a lease
// that ran out) every method settles first, so that no caller depends on a
// sweeper. A method that cannot reach the store, or does not know whether its
// move happened, returns an error of kind Unavailable and reason
// store_unavailable. Repeating a method with the same nonce, attempt or id
// changes nothing and gives the first answer again.
type Store interface {
	Approvals
	Moves
	Leases
	Standing
	Replicas
	Cards
	Presses
	Deliveries
	Log
}

// Approvals opens and reads approvals.
type Approvals interface {
	// Open stores an approval as Pending, or returns the one that o.Key or o.Join
	// already names. It is a Conflict (digest_mismatch) if that one is of
	// another digest, and TooMany if the requester has o.Cap pending already.
	// With o.Replaces it also ends that approval, whose one successor the new
	// one becomes; if it has one already, that successor is returned, and if
	// it is not Open any more the move is a Conflict.
	Open(ctx context.Context, o Opening) (Opened, error)

	// Find returns the approval that an API key's idempotency key names, or an
	// error of kind NotFound.
	Find(ctx context.Context, apiKey, key string) (ID, error)

	// Get returns an approval with all its parts, and the store's time.
	Get(ctx context.Context, id ID) (Snapshot, error)

	// List returns approvals without arguments, votes and questions, newest
	// first.
	List(ctx context.Context, q Query) (Page, error)
}

// Opening is what Open needs to know.
type Opening struct {
	ID ID
	Subject
	Mode       Mode
	ExpiresIn  time.Duration // of the question; of a deferred one also after an inline time-out
	InlineFor  time.Duration // how long an inline one is waited for
	InlineDeny bool          // then it expires, instead of being deferred
	Key        string        // idempotency key of this API key; may be empty
	Join       bool          // without Key: an open or approved one of the same requester, session and digest will do
	Cap        int           // most pending approvals of one requester; 0 means no limit
	Replaces   ID
	ReplacedBy Event  // EventVoided or EventRevoked, with Replaces; or EventRerun, which does not end it
	ReplaceWhy Reason // ReasonVoid or ReasonPolicyChanged
	ReplaceRev int64  // the state of the replaced one that was looked at
	By         string // with EventRerun: who asks for it
}

// Opened is the answer of Open.
type Opened struct {
	ID      ID
	Created bool // false: it was there already
}

// Snapshot is an approval at one moment of the store.
type Snapshot struct {
	Approval
	Now         time.Time // the store's clock
	Incarnation string    // the store's present one
	Doubtful    bool      // the clock is behind what was already seen
}

// Stale reports whether the approval belongs to another life of the store and
// so cannot be decided or dispatched any more.
func (s *Snapshot) Stale() bool {
	return s.State.Open() && s.Ended.IsZero() && s.Approval.Incarnation != s.Incarnation
}

// Query selects approvals; zero fields select everything.
type Query struct {
	State     State // Pending, or a state that has ended or been approved
	Rule      string
	Tool      string
	Requester string // name of an API key
	Cursor    string // of the page before
	Limit     int    // rows; 0 means 50
}

// Page is one page of approvals; short pages are not the last unless Next is empty.
type Page struct {
	Rows    []Approval
	Next    string
	Pending int // in all
	Now     time.Time
}

// Moves changes approvals.
type Moves interface {
	// Vote records b.Vote. If the approval is no longer at revision b.Rev it
	// returns ErrMoved and nothing changed: read it again and decide again.
	// It refuses late votes, another digest, a stale incarnation and a
	// doubtful clock.
	Vote(ctx context.Context, id ID, b Ballot) (VoteResult, error)

	// Ask records an approver's question, Answer the agent's reply to it.
	// Both refuse an approval that is not Pending; nonce as for Vote.
	Ask(ctx context.Context, id ID, rev int64, q Question) error
	Answer(ctx context.Context, id ID, rev int64, text string) error

	// Consume spends an approval for one attempt. The same attempt of the same
	// principal and digest gets the same yes again for ReplayWindow while it
	// is Executing; every other one is a Conflict that says why.
	Consume(ctx context.Context, id ID, c Consumption) (Consumed, error)

	// Report records how a dispatch ended.
	Report(ctx context.Context, id ID, r Report) error

	// Withdraw cancels or revokes an approval that was not dispatched.
	Withdraw(ctx context.Context, id ID, w Withdrawal) error

	// Defer stops an inline approval being waited for, before its time.
	Defer(ctx context.Context, id ID) error

	// Sweep settles up to n approvals whose time has come, and forgets what
	// was kept long enough. It returns how many and when the next one is due
	// (zero: none is waiting).
	Sweep(ctx context.Context, n int) (done int, next time.Duration, err error)

	// Stale lists open approvals of other incarnations than the present
	// one; they are void and need a successor.
	Stale(ctx context.Context, n int) ([]ID, error)
}

// Ballot is a vote and what it does.
type Ballot struct {
	Rev        int64 // of the approval that was counted
	Digest     Digest
	Vote       Vote
	Settles    State         // "", Approved, Denied or Revoked
	RunFor     time.Duration // with Approved: how long it may wait to be dispatched
	Grant      *Grant        // with Approved and a scope beyond once
	EndsGrants bool          // with Revoked: grants that came of this approval end too
}

// ErrMoved says that the approval changed since it was read: read it again.
// ErrGap says that log entries may have been missed: read everything again.
var (
	ErrMoved = &Error{Kind: Conflict, Reason: ReasonAlreadyDecided, Op: "gate.Store", Public: "this approval has just changed; look again"}
	ErrGap   = &Error{Kind: Conflict, Op: "gate.Store", Public: "events may have been missed; read the state again"}
)

// VoteResult says what a vote did.
type VoteResult struct {
	SessionEnded bool // the session is over: the grant was not made, the approval is for once
}

// Consumption is one attempt to dispatch.
type Consumption struct {
	Rev        int64 // of the approval whose votes were counted
	Digest     Digest
	Principal  string // opener's key, or the lease's owner
	Attempt    string // 32 hex digits, fresh per dispatch
	Fence      int64  // of the lease; 0 for the requester
	Policy     Version
	WillReport bool
	ReportIn   time.Duration // until the outcome is unknown
}

// ReplayWindow is how long a lost yes may be asked for again.
const ReplayWindow = 30 * time.Second

// Consumed is the yes.
type Consumed struct {
	Started  time.Time
	Replayed bool
}

// Report is how a dispatch ended.
type Report struct {
	Principal string
	Attempt   string // empty after a crash: kept as reported_without_attempt
	Person    string // not empty: a person settles an OutcomeUnknown; Principal and Attempt do not matter
	Outcome   State  // Executed or Failed; of the one who dispatched also OutcomeUnknown
	Note      string // first line of what the tool said, cleaned, ≤ 500 characters
	Result    string // more of it, see Approval.Result
}

// Withdrawal ends an approval before it is dispatched.
type Withdrawal struct {
	Event  Event  // EventCancel, EventRevoked, or EventVoided where nothing asks again
	Reason Reason // cancelled, undeliverable, revoked, policy_changed, void
	By     string
	Note   string
}

// Leases are an executor's hold on an approved call. A fence only grows; a
// method called with an old one is a Conflict (fenced).
type Leases interface {
	// Lease takes the oldest approved call of that executor; ok is false when
	// there is none. The same nonce gets the same lease again.
	Lease(ctx context.Context, executor, owner, nonce string, d time.Duration) (id ID, fence int64, ok bool, err error)
	// Renew makes a lease last for d from now, and of a call that its holder has
	// dispatched the time until its outcome is unknown: for most after the
	// dispatch at the longest. It returns until when.
	Renew(ctx context.Context, id ID, owner string, fence int64, d, most time.Duration) (until time.Time, err error)
	Release(ctx context.Context, id ID, owner string, fence int64) error
}

// Standing keeps what holds beyond one approval: grants and sessions.
type Standing interface {
	// Standing returns what the store holds for a requester, in one read.
	Standing(ctx context.Context, r Requester) (Holdings, error)

	// UseGrant counts one use. It refuses (Conflict, revoked) a grant that is
	// gone, used up, expired or of an ended session, (void) one of another
	// incarnation, and (policy_unavailable) while replicas disagree.
	UseGrant(ctx context.Context, g Grant, policy Version, d Digest) error
	Grants(ctx context.Context) ([]Grant, error)
	// PutGrant replaces a grant by one re-signed in the present incarnation.
	PutGrant(ctx context.Context, g Grant, by string) error
	RevokeGrant(ctx context.Context, id, by string) error

	// EndSession leaves a tombstone, cancels the session's pending inline
	// approvals, revokes its approved undispatched inline ones, and ends its
	// grants and bypass.
	EndSession(ctx context.Context, key, session, by string) error
	PutBypass(ctx context.Context, b Bypass) error
}

// Holdings is what the store holds for a requester.
type Holdings struct {
	Now         time.Time
	Incarnation string
	Bypass      *Bypass
	Grants      []Grant
}

// Bypass lets one session's calls pass without asking, for a while.
type Bypass struct {
	Key, Session string
	By           string
	Until        time.Time
	Incarnation  string
	MAC          []byte
}

// Cards keeps what the cards of approvals in chats need: which entries of the
// log still have to be shown, where the cards are, and whose turn it is.
type Cards interface {
	// Follow returns up to n entries of the log that no other replica has: new
	// ones, waiting up to block for the first, and those that were left unsettled
	// by a replica that has not followed for idle.
	Follow(ctx context.Context, replica string, n int, block, idle time.Duration) ([]Entry, error)
	// Settle says that entries have been shown, or need not be.
	Settle(ctx context.Context, entries ...Entry) error

	// Draw makes a writer the only one of an approval's cards for d; ok is false
	// while another is. Drawn lets them go.
	Draw(ctx context.Context, id ID, writer string, d time.Duration) (ok bool, err error)
	Drawn(ctx context.Context, id ID, writer string) error

	// Posted returns where the cards of an approval are. PutPosted adds one, or
	// replaces what is known of it; with a zero Rev it takes it away.
	Posted(ctx context.Context, id ID) ([]Posted, error)
	PutPosted(ctx context.Context, id ID, p Posted) error

	// Turn takes the next turn in a conversation, which has one every so often
	// and up to burst at once; if none is free it returns how long to wait, and
	// takes nothing. Pause makes all wait.
	Turn(ctx context.Context, place string, every time.Duration, burst int) (wait time.Duration, err error)
	Pause(ctx context.Context, place string, d time.Duration) error
}

// Posted is a card that people have before them. A card with a Message of ""
// is one that was about to be posted: nobody knows yet whether it is there.
type Posted struct {
	Place   string `json:"place"`
	Message string `json:"message,omitempty"`
	Rev     int64  `json:"rev"`              // of the approval, as it was drawn
	Digest  string `json:"digest"`           // of the call that was shown, bare hex
	Thread  string `json:"thread,omitempty"` // that the message is in
	Frozen  bool   `json:"frozen,omitempty"`
	Beside  bool   `json:"beside,omitempty"` // one person asked for it: it takes no other card's place
	Told    bool   `json:"told,omitempty"`   // below it is what the tool said
}

// Presses keeps what people press in chats from when it arrives until it is
// decided and they are told, so that no replica takes one with it when it dies.
type Presses interface {
	Press(ctx context.Context, channel string, press []byte) error
	// LeftPresses takes up to n presses that somebody else took and has not
	// forgotten for idle.
	LeftPresses(ctx context.Context, channel string, n int, idle time.Duration) ([][]byte, error)
	ForgetPress(ctx context.Context, channel string, press []byte) error

	// Once reports whether nobody has called it for the same thing within that
	// time, on any replica: of all who do, one is the first. An error means that
	// nobody knows; the call may have counted. A fail-over that loses the last
	// writes can make a first time of a second one.
	Once(ctx context.Context, what string, within time.Duration) (first bool, err error)
}

// Replicas lets the processes of one space agree.
type Replicas interface {
	// Heartbeat says which policy this replica runs. While live replicas run
	// others, Consume and UseGrant refuse.
	Heartbeat(ctx context.Context, replica string, policy Version) (Pulse, error)
}

// Pulse is the answer to a heartbeat.
type Pulse struct {
	Others int       // how many other policies live replicas run
	Now    time.Time // the store's clock
}

// Log is the one stream that every move writes: the audit trail, the wake-up of
// waiters, the outbox of cards and that of deliveries are its readers.
type Log interface {
	// Note appends an entry that moves nothing, such as a refusal.
	Note(ctx context.Context, e Entry) error

	// Tail returns the position of the last entry.
	Tail(ctx context.Context) (pos string, err error)

	// Read returns up to n entries after pos, waiting up to block for the
	// first. It returns ErrGap when what follows pos is not the next entry: it
	// was trimmed, or a fail-over lost the end of the log. The empty pos is
	// before the first entry there is.
	Read(ctx context.Context, pos string, n int, block time.Duration) ([]Entry, error)
}

// Entry is one line of the log.
type Entry struct {
	Pos    string // position in the log, for Read
	N      int64  // gapless number
	ID     ID
	Event  Event
	From   State
	To     State
	By     string
	At     time.Time
	Digest string // bare hex, may be empty
	Note   string // further facts, one line; never arguments or secrets
	Once   string // with Log.Note: no second entry of this name is written
}
