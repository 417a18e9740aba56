package wire

import "encoding/json"

// Message is what hooks and callbacks are sent, signed as Standard Webhooks says.
// Whatever is sent again has the same webhook-id.
type Message struct {
	Type      string      `json:"type" enum:"approval.requested,approval.decided,approval.executed"`
	Timestamp string      `json:"timestamp" format:"date-time" doc:"When it happened; the webhook-timestamp is when this was sent."`
	Data      MessageData `json:"data"`
}

// MessageData says what has happened to an approval.
type MessageData struct {
	ID string `json:"id"`

	// What has happened. It is the same whenever the message is sent.
	Event    string `json:"event" doc:"The move as the log names it."`
	State    string `json:"state" doc:"The state it led to."`
	Previous string `json:"previous_state,omitempty"`
	By       string `json:"by,omitempty" doc:"Who did it."`

	// Why, and how it ended. Left out if the approval has moved on since: now says where it is.
	Reason  string `json:"reason_code,omitempty"`
	Note    string `json:"note,omitempty" doc:"A person's words, or the tool's first line."`
	Outcome string `json:"outcome,omitempty" doc:"How a dispatch is known to have ended."`
	Result  string `json:"result,omitempty" doc:"What the tool said: bounded, redacted."`

	// What was asked. It never changes.
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool"`
	Target      string          `json:"target,omitempty"`
	Digest      string          `json:"digest"`
	Args        json.RawMessage `json:"args,omitempty" doc:"With include_args, as people may see them."`
	Redacted    bool            `json:"redacted,omitempty" doc:"Something in args is covered."`
	Cut         bool            `json:"cut,omitempty" doc:"Something had to be left out: args, then result. The API has all."`
	Rule        string          `json:"rule"`
	Policy      string          `json:"policy_version" doc:"Of the rule."`
	Requester   RequesterOf     `json:"requester"`
	Executor    string          `json:"executor" doc:"Who runs it once approved."`
	Created     string          `json:"created" format:"date-time"`
	Predecessor string          `json:"predecessor,omitempty" doc:"It asks in place of."`

	// How it stood when this was sent.
	Now Standing `json:"now"`
}

// Standing is how an approval stood at some moment.
type Standing struct {
	State     string `json:"state"`
	Version   int64  `json:"version" doc:"Rises with every change."`
	Mode      string `json:"mode" enum:"inline,deferred"`
	Expires   string `json:"expires" format:"date-time"`
	Successor string `json:"successor,omitempty" doc:"Asks in its place."`
	AgentText string `json:"agent_text,omitempty" doc:"To callbacks: the sentence for the model."`
}
