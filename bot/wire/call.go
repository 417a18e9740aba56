// Package wire is the JSON of the HTTP API as Go types. It has no logic: package
// api makes and reads these, package client and other programs likewise.
package wire

import "encoding/json"

// Call is what an agent wants to do. Its arguments are given as an object or,
// where every byte matters to the one who executes them, in base64; not both.
type Call struct {
	Server  string          `json:"server,omitempty" maxLength:"256" doc:"Where the tool lives."`
	Tool    string          `json:"tool" minLength:"1" maxLength:"256" doc:"Name of the tool."`
	Target  string          `json:"target,omitempty" maxLength:"256" doc:"What it acts on, if that is known."`
	Args    json.RawMessage `json:"args,omitempty" doc:"Arguments: one object, at most 256 KiB, kept byte for byte. Absent means {}."`
	ArgsB64 []byte          `json:"args_b64,omitempty" doc:"The bytes of the arguments in base64, instead of args."`
}

// Requester is who asks. What the API key may not assert is refused.
type Requester struct {
	Agent    string `json:"agent,omitempty" maxLength:"256" doc:"Name of the agent."`
	Run      string `json:"run,omitempty" maxLength:"256" doc:"Its run, for people to find."`
	Session  string `json:"session,omitempty" maxLength:"256" doc:"Its session: what grants and bypasses may be bound to."`
	Attended *bool  `json:"attended,omitempty" doc:"Whether somebody waits for the answer. If not said: whether an origin is given."`
	Person   string `json:"person,omitempty" maxLength:"256" doc:"On whose behalf it acts, from the people that approvalbot knows."`
}

// Place is where a call came from: a conversation, and a thread in it.
type Place struct {
	Place  string `json:"place" maxLength:"256" doc:"The conversation, such as slack:C0PROD or mattermost:acme/ops."`
	Thread string `json:"thread,omitempty" maxLength:"256" doc:"A thread in it."`
}

// CheckRequest asks whether a call may run.
type CheckRequest struct {
	Call           Call      `json:"call"`
	Requester      Requester `json:"requester"`
	Origin         *Place    `json:"origin,omitempty" doc:"Where people wait for the answer."`
	Intent         string    `json:"intent,omitempty" maxLength:"4000" doc:"Why, in the agent's own words."`
	Mode           string    `json:"mode,omitempty" enum:"deferred" doc:"A caller may only ask not to wait."`
	IdempotencyKey string    `json:"idempotency_key,omitempty" maxLength:"256" doc:"The same key and call get the same approval. Kept until 7 days after it is final."`
	Join           bool      `json:"join,omitempty" doc:"Without a key: an open or approved approval of the same requester, session and call will do."`
	Callback       string    `json:"callback,omitempty" maxLength:"2000" doc:"Address under a prefix of the API key, which is told what becomes of an approval that this opens."`
	Token          string    `json:"token,omitempty" maxLength:"512" doc:"Spends the approval it belongs to; then no later rung is tried."`
	AttemptID      string    `json:"attempt_id,omitempty" maxLength:"32" doc:"With a token: 32 lower-case hex digits, fresh for each dispatch."`
	WillReport     *bool     `json:"will_report,omitempty" doc:"With a token: whether the outcome will be reported; true if not said."`
}

// ProposeRequest asks people by the agent's own judgement.
type ProposeRequest struct {
	Call           Call      `json:"call"`
	Requester      Requester `json:"requester"`
	Origin         *Place    `json:"origin,omitempty"`
	Intent         string    `json:"intent,omitempty" maxLength:"4000" doc:"What the agent wants to know, in its own words."`
	Mode           string    `json:"mode,omitempty" enum:"deferred"`
	IdempotencyKey string    `json:"idempotency_key,omitempty" maxLength:"256"`
	Join           bool      `json:"join,omitempty"`
	Callback       string    `json:"callback,omitempty" maxLength:"2000" doc:"As of a check."`
}

// ConsumeRequest spends a token.
type ConsumeRequest struct {
	Token      string `json:"token" maxLength:"512"`
	AttemptID  string `json:"attempt_id" maxLength:"32" doc:"32 lower-case hex digits, fresh for each dispatch; repeat it if the answer was lost."`
	Call       Call   `json:"call" doc:"The call that is about to be dispatched."`
	WillReport *bool  `json:"will_report,omitempty" doc:"Whether the outcome will be reported; true if not said."`
}

// OutcomeRequest says how a dispatch ended: its caller's with the token, or a
// person's word on one whose outcome is unknown, without.
type OutcomeRequest struct {
	Outcome   string `json:"outcome" enum:"executed,failed,outcome_unknown" doc:"outcome_unknown only of the one who dispatched: then a person settles it."`
	Token     string `json:"token,omitempty" maxLength:"512"`
	AttemptID string `json:"attempt_id,omitempty" maxLength:"32" doc:"May be lost in a crash."`
	Note      string `json:"note,omitempty" maxLength:"4000" doc:"First line of what the tool said, or a person's words."`
	Result    string `json:"result,omitempty" maxLength:"65536" doc:"What the tool said. 4,000 characters are kept, without what the rule redacts."`
}

// CancelRequest withdraws an approval that was not dispatched.
type CancelRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"4000"`
}

// ContextRequest answers an approver's question.
type ContextRequest struct {
	Text string `json:"text" minLength:"1" maxLength:"16000"`
}

// DecideRequest is a person's decision about the call of that digest.
type DecideRequest struct {
	Decision string `json:"decision" enum:"approve,allow,deny,needs_more_context" doc:"allow means approve."`
	Reason   string `json:"reason,omitempty" maxLength:"4000" doc:"Reaches the agent word for word; the question, with needs_more_context."`
	Scope    string `json:"scope,omitempty" enum:"once,session,always" doc:"With approve; once if not said."`
	Digest   string `json:"digest" maxLength:"71" doc:"Of the call that was looked at, sha256:…"`
	Nonce    string `json:"nonce,omitempty" maxLength:"64" doc:"Of this decision: the same sent twice counts once."`
}

// RevokeRequest takes an approval back before it runs.
type RevokeRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"4000"`
}

// BypassRequest lets the calls of one session pass for a while.
type BypassRequest struct {
	Key string `json:"key" minLength:"1" maxLength:"64" doc:"Name of the agent's API key that the session belongs to."`
	For string `json:"for" maxLength:"16" doc:"How long, at most 8h."`
}

// ExplainRequest asks what would become of a call, without asking anybody.
type ExplainRequest struct {
	Call      Call      `json:"call"`
	Requester Requester `json:"requester"`
	Origin    *Place    `json:"origin,omitempty"`
	Mode      string    `json:"mode,omitempty" enum:"deferred"`
}
