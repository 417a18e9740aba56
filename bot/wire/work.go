package wire

// ClaimRequest asks for an approved call to run.
type ClaimRequest struct {
	Queues   []string `json:"queues" minItems:"1" maxItems:"32" doc:"Executors whose calls are wanted, the most urgent first."`
	WorkerID string   `json:"worker_id,omitempty" maxLength:"32" pattern:"^[A-Za-z0-9._-]*$" doc:"Tells the workers of one API key apart, in the audit log; the same in all requests about a call."`
	Lease    string   `json:"lease,omitempty" maxLength:"16" example:"60s" doc:"How long a call is yours without a sign of life: 5s to 10m; 60s if not said."`
	Nonce    string   `json:"nonce,omitempty" maxLength:"64" doc:"Of this request: the same sent twice gets the same call."`
}

// ClaimAnswer is a call to run, if there is one.
type ClaimAnswer struct {
	Answer
	Work *Work `json:"work,omitempty"`
}

// Work is an approved call that is leased to whoever asked. Nothing may run before
// it is started.
type Work struct {
	ID         string      `json:"approval_id" doc:"Also the key that makes the effect idempotent."`
	Queue      string      `json:"queue"`
	Token      string      `json:"token" doc:"Of this lease. No model should see it."`
	Until      string      `json:"lease_until" format:"date-time"`
	Generation int64       `json:"generation" doc:"Rises with every lease of the call."`
	Call       Call        `json:"call" doc:"The exact bytes that run are args_b64."`
	Digest     string      `json:"digest"`
	Rule       string      `json:"rule"`
	Requester  RequesterOf `json:"requester"`
	By         string      `json:"by,omitempty" doc:"Who approved it."`
}

// StartRequest says that a leased call is about to run: the one way from leased to
// allow.
type StartRequest struct {
	Token     string `json:"token" maxLength:"512"`
	AttemptID string `json:"attempt_id" maxLength:"32" doc:"32 lower-case hex digits, fresh for each dispatch; repeat it if the answer was lost."`
	Digest    string `json:"digest" maxLength:"71" doc:"Of the call that is about to run, sha256:…"`
	WorkerID  string `json:"worker_id,omitempty" maxLength:"32" pattern:"^[A-Za-z0-9._-]*$"`
	Lease     string `json:"lease,omitempty" maxLength:"16" example:"60s" doc:"How long until the outcome is unknown without a sign of life."`
}

// LeaseRequest is a sign of life, or gives a call back.
type LeaseRequest struct {
	Token    string `json:"token" maxLength:"512"`
	WorkerID string `json:"worker_id,omitempty" maxLength:"32" pattern:"^[A-Za-z0-9._-]*$"`
	Lease    string `json:"lease,omitempty" maxLength:"16" example:"60s"`
}

// LeaseAnswer says until when a sign of life is good.
type LeaseAnswer struct {
	Answer
	Until string `json:"until,omitempty" format:"date-time"`
}

// CompleteRequest says how a started call ended.
type CompleteRequest struct {
	Token     string `json:"token" maxLength:"512"`
	AttemptID string `json:"attempt_id,omitempty" maxLength:"32" doc:"May be lost in a crash."`
	WorkerID  string `json:"worker_id,omitempty" maxLength:"32" pattern:"^[A-Za-z0-9._-]*$"`
	Outcome   string `json:"outcome" enum:"executed,failed,outcome_unknown"`
	Result    string `json:"result,omitempty" maxLength:"65536" doc:"What the tool said. 4,000 characters are kept, without what the rule redacts."`
}

// RerunAnswer names the approval that asks whether to run a call again.
type RerunAnswer struct {
	Answer
	ID string `json:"approval_id"`
}
