package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a tool is told of the approval, beside its arguments.
const (
	metaApproval = "approvalbot/approval_id"
	metaAttempt  = "approvalbot/attempt_id"
)

// toolCall is a call of a tool that is ready to go.
type toolCall struct {
	session *session
	job     *Job
}

// Drop implements Dispatch.
func (c *toolCall) Drop() { c.session.close() }

// Run implements Dispatch.
func (c *toolCall) Run(ctx context.Context) Result {
	defer c.session.close()
	c.session.wire.listen()
	r, err := c.session.CallTool(ctx, &mcp.CallToolParams{
		Meta: mcp.Meta{metaApproval: string(c.job.ID), metaAttempt: c.job.Attempt},
		Name: c.job.Call.Tool, Arguments: c.job.Call.RawArgs(),
	})
	if err != nil {
		return c.without(ctx, err)
	}
	text := said(r)
	switch {
	case r.NeedsInput():
		return failed("the tool asks for more, which an approved call cannot give: " + text)
	case r.IsError, saysError([]byte(text)):
		return failed(text)
	}
	return executed(text)
}

// without says what it means that there is no result.
func (c *toolCall) without(ctx context.Context, err error) Result {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ok && !ours(answer.Code):
		return failed(fmt.Sprintf("error %d: %s", answer.Code, answer.Message))
	case c.session.wire.unsent():
		return failed("not sent: " + reason(ctx, err))
	case c.session.wire.refused():
		status := int(c.session.wire.status.Load())
		return failed(fmt.Sprintf("answered %d %s", status, http.StatusText(status)))
	}
	return unknown("no answer: " + reason(ctx, err))
}

// ours reports whether a code is one that this side makes up when a connection is
// lost, or a proxy when time is up. A server that sends one is not believed.
func ours(code int64) bool {
	switch code {
	case -32001, -32003, -32004, -32005: // time-out; client closing; server closing; not written
		return true
	}
	return false
}

// said puts the content of a result in words.
func said(r *mcp.CallToolResult) string {
	parts := make([]string, len(r.Content))
	for i, c := range r.Content {
		parts[i] = inWords(c)
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			return string(b)
		}
	}
	return strings.Join(parts, "\n")
}

func inWords(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return thing("image", len(c.Data))
	case *mcp.AudioContent:
		return thing("audio", len(c.Data))
	case *mcp.ResourceLink:
		return "[link to " + c.URI + "]"
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return "[resource]"
		}
		if c.Resource.Text != "" {
			return c.Resource.Text
		}
		return thing("resource "+c.Resource.URI, len(c.Resource.Blob))
	}
	return "[something that is no text]"
}

// thing names what is no text: [image, 12 kB].
func thing(name string, size int) string {
	if size < 1000 {
		return fmt.Sprintf("[%s, %d bytes]", name, size)
	}
	return fmt.Sprintf("[%s, %d kB]", name, size/1000)
}
