package wire

import "encoding/json"

// Answer is in every answer of the API, problems included. A caller that knows
// nothing else is safe: run the call if, and only if, Verdict is "allow".
type Answer struct {
	Verdict   string `json:"verdict" enum:"allow,block,ask" doc:"Run the call only if this is allow."`
	Reason    string `json:"reason_code,omitempty" doc:"Why; with allow and ask the rung that ruled."`
	Next      string `json:"next" enum:"run,consume,wait,answer,stop" doc:"What the caller does now."`
	AgentText string `json:"agent_text" doc:"The sentence for the model. Empty where there is nothing to tell it."`
}

// CheckAnswer is the answer to a call.
type CheckAnswer struct {
	Answer
	Approval *Approval `json:"approval,omitempty"`
	Token    string    `json:"token,omitempty" doc:"With next consume: spends the approval, once. No model should see it."`
}

// ApprovalAnswer is one approval.
type ApprovalAnswer struct {
	Answer
	Token string `json:"token,omitempty" doc:"With next consume, only for the opener."`
	Approval
}

// Approval is one held call and what has become of it.
type Approval struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Mode    string `json:"mode" enum:"inline,deferred"`
	Version int64  `json:"version" doc:"Rises with every change; also the ETag."`

	Call      ShownCall   `json:"call"`
	Digest    string      `json:"digest" doc:"SHA-256 over the canonical JSON of the call, sha256:…"`
	Rule      string      `json:"rule"`
	Requester RequesterOf `json:"requester"`
	Origin    *Place      `json:"origin,omitempty"`
	Intent    string      `json:"intent,omitempty" doc:"The agent's own words; untrusted."`
	Executor  string      `json:"executor" doc:"Who runs it once approved."`

	Created     string `json:"created" format:"date-time"`
	Expires     string `json:"expires" format:"date-time"`
	InlineUntil string `json:"inline_until,omitempty" format:"date-time" doc:"When an inline one stops being waited for."`
	RunBy       string `json:"run_by,omitempty" format:"date-time"`
	Decided     string `json:"decided,omitempty" format:"date-time"`
	Started     string `json:"started,omitempty" format:"date-time"`
	Ended       string `json:"ended,omitempty" format:"date-time"`

	Votes     []Vote     `json:"votes,omitempty"`
	Questions []Question `json:"questions,omitempty"`
	Waiting   string     `json:"waiting,omitempty" doc:"Who is still wanted, such as 1 of 2 (sre)."`

	By         string `json:"by,omitempty" doc:"Who settled it."`
	Note       string `json:"note,omitempty" doc:"Their words, or the tool's first line."`
	Outcome    string `json:"outcome,omitempty" doc:"How a dispatch is known to have ended."`
	Result     string `json:"result,omitempty" doc:"What the tool said, or why nobody knows: cut, and without what the rule redacts."`
	SettledBy  string `json:"settled_by,omitempty" doc:"Who said what became of an unknown outcome."`
	FailedOver string `json:"failed_over,omitempty" format:"date-time" doc:"The store had just failed over then: this may already have run."`

	Successor   string `json:"successor,omitempty" doc:"Asks in its place."`
	Predecessor string `json:"predecessor,omitempty" doc:"It asks in place of."`
	Rerun       bool   `json:"rerun,omitempty" doc:"The predecessor was started, and nobody knows how that ended: this may already have run."`
	Refused     string `json:"refused_before,omitempty" doc:"For approvers: the same call was denied as this one, within the week before."`

	Callback *Callback `json:"callback,omitempty" doc:"Whether the callback has heard what became of it; of one approval alone."`
}

// Callback is how far the messages to an approval's callback are: of the worst of
// them.
type Callback struct {
	State string `json:"state" enum:"delivered,waiting,dead" doc:"waiting for the next try; dead: given up."`
	Tries int    `json:"tries"`
}

// ShownCall is a call as the viewer may see it.
type ShownCall struct {
	Server   string          `json:"server,omitempty"`
	Tool     string          `json:"tool"`
	Target   string          `json:"target,omitempty"`
	Args     json.RawMessage `json:"args,omitempty" doc:"For display; what the rule redacts is covered, but for the opener."`
	ArgsB64  []byte          `json:"args_b64,omitempty" doc:"The exact bytes that run; absent where something is covered."`
	Redacted bool            `json:"redacted,omitempty" doc:"Something is covered."`
}

// RequesterOf is who asked.
type RequesterOf struct {
	Key      string `json:"key" doc:"Name of the API key: the only part that is proven."`
	Agent    string `json:"agent,omitempty"`
	Run      string `json:"run,omitempty"`
	Session  string `json:"session,omitempty"`
	Person   string `json:"person,omitempty"`
	Attended bool   `json:"attended"`
}

// Vote is one person's choice.
type Vote struct {
	Name   string `json:"name"`
	Choice string `json:"choice" enum:"approve,deny"`
	Scope  string `json:"scope,omitempty" enum:"once,session,always"`
	Reason string `json:"reason,omitempty"`
	At     string `json:"at" format:"date-time"`
}

// Question is what an approver asked, and the agent's answer.
type Question struct {
	By     string `json:"by"`
	Text   string `json:"text"`
	At     string `json:"at" format:"date-time"`
	Answer string `json:"answer,omitempty"`
}

// DecideAnswer says what a decision did.
type DecideAnswer struct {
	ApprovalAnswer
	Settled      bool   `json:"settled" doc:"Nobody else is needed."`
	Granted      string `json:"granted,omitempty" enum:"once,session,always" doc:"The scope that the approvals add up to."`
	SessionEnded bool   `json:"session_ended,omitempty" doc:"The session is over: granted for once only."`
}

// ListAnswer is one page of approvals, without arguments, votes and questions.
type ListAnswer struct {
	Answer
	Approvals []Approval `json:"approvals"`
	Pending   int        `json:"pending" doc:"How many are pending in all."`
	Notices   []string   `json:"notices,omitempty" doc:"What people should know who decide here: a chat that is out."`
	Cursor    string     `json:"cursor,omitempty" doc:"For the next page. Pages may be short: the last one is the one without a cursor."`
}

// Grant is a standing permission.
type Grant struct {
	ID        string      `json:"id"`
	Approval  string      `json:"approval"`
	Scope     string      `json:"scope" enum:"session,always"`
	Requester RequesterOf `json:"requester"`
	Rule      string      `json:"rule"`
	Server    string      `json:"server,omitempty"`
	Tool      string      `json:"tool"`
	Target    string      `json:"target,omitempty"`
	Digest    string      `json:"digest" doc:"Without a target: the one call it covers."`
	By        string      `json:"by"`
	Created   string      `json:"created" format:"date-time"`
	Expires   string      `json:"expires" format:"date-time"`
	Uses      int         `json:"uses"`
	MaxUses   int         `json:"max_uses,omitempty"`
}

// GrantsAnswer lists grants.
type GrantsAnswer struct {
	Answer
	Grants []Grant `json:"grants"`
}

// ExplainAnswer is a dry run. Its own verdict is block: it permits nothing.
type ExplainAnswer struct {
	Answer
	Would Would `json:"would"`
}

// Would is what would become of a call.
type Would struct {
	Verdict   string   `json:"verdict" enum:"allow,block,ask"`
	Rung      string   `json:"rung"`
	Reason    string   `json:"reason_code,omitempty"`
	Rule      string   `json:"rule,omitempty"`
	Mode      string   `json:"mode,omitempty" enum:"inline,deferred"`
	Approvers []string `json:"approvers,omitempty" doc:"Groups that may decide."`
	Quorum    int      `json:"quorum,omitempty" doc:"How many approvals it takes."`
}

// Problem is an error, RFC 9457.
type Problem struct {
	Type   string       `json:"type" doc:"about:blank"`
	Title  string       `json:"title" doc:"The HTTP status in words."`
	Status int          `json:"status"`
	Code   string       `json:"code" doc:"Stable: a reason code, or the kind of error."`
	Detail string       `json:"detail,omitempty" doc:"What is wrong, for people. It never repeats what was sent."`
	Fields []FieldIssue `json:"errors,omitempty"`
	Answer
	Approval *Approval `json:"approval,omitempty" doc:"Where it stands, if that is why."`
}

// FieldIssue is what is wrong with one field.
type FieldIssue struct {
	Field string `json:"field" doc:"Path such as body.call.tool."`
	Text  string `json:"text"`
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string   `json:"status" enum:"ok,degraded,draining" doc:"degraded still serves: calls that nobody gates pass, others are blocked."`
	Notes  []string `json:"notes,omitempty" doc:"What is wrong, or turned off."`
}

// Event is the data of one server-sent event.
type Event struct {
	ID         string `json:"id"`
	Event      string `json:"event" doc:"The move as the log names it."`
	State      string `json:"state"`
	By         string `json:"by,omitempty"`
	At         string `json:"at" format:"date-time"`
	Digest     string `json:"digest,omitempty"`
	Outcome    string `json:"outcome,omitempty" doc:"Of a completed one: the state it ended in."`
	DurationMS int64  `json:"duration_ms,omitempty" doc:"Of a completed one: since it was asked."`
}
