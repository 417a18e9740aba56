package deliver

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/approvalbot/approvalbot/bot/wire"
	"github.com/approvalbot/approvalbot/gate"
)

// maxBody is the size that Standard Webhooks asks messages to stay under, in bytes.
const maxBody = 20_000

// message says what has happened, and how the approval stands now.
func message(e gate.Entry, v *gate.View) wire.Message {
	a := &v.Approval
	data := wire.MessageData{
		ID: string(a.ID), Event: string(e.Event), State: string(e.To), Previous: string(e.From), By: e.By,
		Server: a.Call.Server, Tool: a.Call.Tool, Target: a.Call.Target, Digest: a.Digest.String(),
		Rule: a.Rule, Policy: string(a.Version), Executor: a.Executor,
		Requester: wire.RequesterOf{
			Key: a.Requester.Key, Agent: a.Requester.Agent, Run: a.Requester.Run, Session: a.Requester.Session,
			Person: a.Requester.Person, Attended: a.Requester.Attended,
		},
		Created: stamp(a.Created), Predecessor: string(a.Predecessor),
		Now: wire.Standing{
			State: string(a.State), Version: a.Rev, Mode: string(a.Mode), Expires: stamp(a.Expires), Successor: string(a.Successor),
		},
	}
	if a.State == e.To { // else these are about something later
		data.Reason, data.Note, data.Outcome, data.Result = string(a.Reason), a.Note, a.Outcome, a.Result
	}
	return wire.Message{Type: "approval." + kindOf(e), Timestamp: stamp(e.At), Data: data}
}

// fit is the JSON of a message, without what is too long for it. What is left then
// has bounds of its own that are well below.
func fit(m wire.Message) ([]byte, error) {
	for _, cut := range []func(){
		func() {},
		func() { m.Data.Args, m.Data.Redacted, m.Data.Cut = nil, false, true },
		func() { m.Data.Result = "" },
		func() { m.Data.Now.AgentText = "" },
	} {
		cut()
		body, err := encode(m)
		if err != nil || len(body) < maxBody {
			return body, err
		}
	}
	return nil, errTooLong
}

// encode writes < > & as they are: no page shows this, and each would be six bytes.
func encode(m wire.Message) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	err := out.Encode(m)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// stamp writes a moment of the store's clock; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
