package execute

import (
	"encoding/json"
	"fmt"
	"time"
)

// order is the body of a webhook. The arguments are in it as they came, which
// encoding/json would not leave them: so the text around them is made first.
func order(j *Job, at time.Time) ([]byte, error) {
	data, err := json.Marshal(orderData{
		Approval: string(j.ID), Attempt: j.Attempt,
		Server: j.Call.Server, Tool: j.Call.Tool, Target: j.Call.Target,
		ArgsB64: j.Call.RawArgs(), Digest: j.Digest.String(), Rule: j.Rule,
		Requester:  orderRequester{j.Requester.Agent, j.Requester.Run, j.Requester.Session, j.Requester.Person},
		ApprovedBy: j.By,
	})
	if err != nil {
		return nil, err
	}
	stamp := at.UTC().Format(time.RFC3339)
	return fmt.Appendf(nil, `{"type":"call.execute","timestamp":"%s","data":%s,"args":%s}}`, stamp, data[:len(data)-1], j.Call.RawArgs()), nil
}

type orderData struct {
	Approval   string         `json:"approval_id"`
	Attempt    string         `json:"attempt_id"`
	Server     string         `json:"server"`
	Tool       string         `json:"tool"`
	Target     string         `json:"target"`
	ArgsB64    []byte         `json:"args_b64"`
	Digest     string         `json:"digest"`
	Rule       string         `json:"rule"`
	Requester  orderRequester `json:"requester"`
	ApprovedBy string         `json:"approved_by"`
}

type orderRequester struct {
	Agent   string `json:"agent"`
	Run     string `json:"run"`
	Session string `json:"session"`
	Person  string `json:"person"`
}
