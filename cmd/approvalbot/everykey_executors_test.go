package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
)

// runs is a config file whose staged calls of the tool x are run by an executor.
func runs(executor string) string {
	return "@people\nexecutors: {ops: {" + executor + "}}\n" +
		"approvals: {tool_gate: {rules: [{name: r, match: {tool: x}, mode: deferred, executor: ops}]}}\n"
}

const (
	hook    = `webhook: {url: "{receiver}", secret_file: ops-secret, allow_cidrs: [127.0.0.1/32]%s}`
	tlsHook = `webhook: {url: "{receiver_tls}", secret_file: ops-secret, allow_cidrs: [127.0.0.1/32]%s}`
	echo    = `command: {argv: [/bin/echo, "-n", "{tool}"]%s}`
	shell_  = `command: {argv: [/bin/sh, "-c", 'echo "dir=$(pwd) home=$HOME region=$REGION."']%s}`
)

const (
	mcp      = `mcp: {url: "{mcp}", allow_cidrs: [127.0.0.1/32]%s}`
	tlsMCP   = `mcp: {url: "{mcp_tls}", allow_cidrs: [127.0.0.1/32]%s}`
	localMCP = `mcp: {command: [{self}]%s, set_env: {APP_TEST_AS_MCP: "1"%s}}`
)

// asMCP makes this test binary an MCP server on its standard pipes.
const asMCP = "APP_TEST_AS_MCP"

// tools is an MCP server with the tool x, which tells how it was started or called.
func tools(tells func(*sdk.CallToolRequest) string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: tells(r)}}}, nil
	})
	return s
}

// serveMCP is what this test binary does as an MCP server.
func serveMCP() {
	s := tools(func(*sdk.CallToolRequest) string {
		return fmt.Sprintf("args %v home=%s region=%s.", os.Args[1:], os.Getenv("HOME"), os.Getenv("REGION"))
	})
	_ = s.Run(context.Background(), &sdk.StdioTransport{}) //nolint:forbidigo // there is no test around it
}

// mcpServers are what executors of a lab call.
func (l *lab) mcpServers(text string) string {
	l.t.Helper()
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		token := r.Header.Get("Authorization")
		return tools(func(*sdk.CallToolRequest) string { return "at " + r.URL.Path + " as " + token + "." })
	}, nil)
	plain, secured := httptest.NewServer(h), httptest.NewTLSServer(h)
	l.t.Cleanup(plain.Close)
	l.t.Cleanup(secured.Close)
	l.write("mcp-token", "t0ken")
	l.write("mcp-ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})))
	self := l.path("self") // the binary of this test may lie where anybody can write
	if err := copyProgram(os.Args[0], self); err != nil {
		l.t.Fatal(err)
	}
	return strings.NewReplacer("{mcp}", plain.URL, "{mcp_tls}", secured.URL, "{self}", self).Replace(text)
}

func copyProgram(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o700)
}

// receivers are what webhooks of a lab are sent to; each tells what it was sent.
func (l *lab) receivers(text string) string {
	l.t.Helper()
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-time.After(3 * time.Second):
			}
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "path %s signatures %d body %t", r.URL.Path, len(strings.Fields(r.Header.Get("webhook-signature"))), json.Valid(body))
	})
	plain, secured := httptest.NewServer(tell), httptest.NewTLSServer(tell)
	l.t.Cleanup(plain.Close)
	l.t.Cleanup(secured.Close)
	l.write("ops-secret", opsSecret)
	l.write("ops-old", "whsec_"+strings.Repeat("A", 32))
	l.write("no-secret", "hunter2")
	l.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})))
	return strings.NewReplacer("{receiver}", plain.URL, "{receiver_tls}", secured.URL).Replace(text)
}

// dispatched says what comes of running a call by the executor ops.
func dispatched(l *lab) string {
	l.t.Helper()
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	call := gate.Call{Tool: "x", Args: []byte(`{}`)}
	digest, err := call.Digest()
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	d, err := l.cfg.Runners["ops"].Executor.Prepare(ctx, &execute.Job{ID: "apr_1", Attempt: strings.Repeat("0a", 16), Call: call, Digest: digest})
	if err != nil {
		return "not prepared: " + err.Error()
	}
	r := d.Run(ctx)
	return fmt.Sprintf("%s: %s", r.Outcome, r.Text)
}

// ranBy says who has run an approved call: the server, or nobody yet.
func ranBy(l *lab) string {
	l.t.Helper()
	l.runs()
	a := l.askAs(gate.Requester{Key: "hermes"}, "x").Approval
	l.vote(a, "ann", gate.Approve, gate.Once)
	v, err := l.gate().Get(l.t.Context(), gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}, a.ID)
	if err != nil {
		l.t.Fatal(err)
	}
	if v.Ruling.Next == gate.NextConsume {
		return "the requester"
	}
	soon(l.t, "the call", func() bool {
		v, err := l.gate().Get(l.t.Context(), gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}, a.ID)
		return err == nil && v.State == gate.Executed
	})
	return "the executor"
}

func limits(l *lab) string {
	r := l.cfg.Runners["ops"]
	return fmt.Sprintf("%s, %d", r.Timeout, r.AtOnce)
}

func retries(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	return fmt.Sprintf("retries %t", l.cfg.Policy.Rules()[0].RetrySafe)
}

func mayRun(l *lab) string {
	if l.cfg == nil {
		return "refused: " + l.problems
	}
	k, _ := l.cfg.APIKeys.Authenticate(l.keys["hermes"].Reveal())
	return fmt.Sprintf("ops %t, batch %t", k.MayRun("ops"), k.MayRun("batch"))
}

func queues(names string) string {
	return hermes("name: a, roles: [worker], queues: ["+names+"]") + "executors: {ops: {worker: {}}, batch: {worker: {}}}\n"
}

const ofOps = "executors.*."

var executorRows = []keyRow{
	{"keys[].queues", queues("ops"), queues("batch"), mayRun, [2]string{"ops true, batch false", "ops false, batch true"}},
	{ofOps + "timeout", runs("worker: {}"), runs("worker: {}, timeout: 2m"), limits, [2]string{"15m0s", "2m0s"}},
	{ofOps + "at_once", runs(fmt.Sprintf(echo, "")), runs(fmt.Sprintf(echo, "") + ", at_once: 3"), limits, [2]string{", 0", ", 3"}},
	{ofOps + "webhook.url", runs(fmt.Sprintf(hook, "")), runs(strings.Replace(fmt.Sprintf(hook, ""), "{receiver}", "{receiver}/there", 1)), dispatched, [2]string{"path / ", "path /there "}},
	{ofOps + "webhook.secret_file", runs(fmt.Sprintf(hook, "")), runs(strings.Replace(fmt.Sprintf(hook, ""), "ops-secret", "no-secret", 1)), dispatched, [2]string{"signatures 1", "refused: "}},
	{ofOps + "webhook.previous_secret_file", runs(fmt.Sprintf(hook, "")), runs(fmt.Sprintf(hook, ", previous_secret_file: ops-old")), dispatched, [2]string{"signatures 1", "signatures 2"}},
	{ofOps + "webhook.allow_cidrs", runs(fmt.Sprintf(hook, "")), runs(strings.Replace(fmt.Sprintf(hook, ""), "127.0.0.1/32", "10.0.0.0/8", 1)), dispatched, [2]string{"executed", "not prepared"}},
	{ofOps + "webhook.ca_file", runs(fmt.Sprintf(tlsHook, ", ca_file: ca.pem")), runs(fmt.Sprintf(tlsHook, "")), dispatched, [2]string{"executed", "not prepared"}},
	{ofOps + "webhook.timeout", runs(fmt.Sprintf(strings.Replace(hook, "{receiver}", "{receiver}/slow", 1), "")), runs(fmt.Sprintf(strings.Replace(hook, "{receiver}", "{receiver}/slow", 1), ", timeout: 100ms")), dispatched, [2]string{"executed: path /slow", ": no answer"}},
	{ofOps + "command.argv", runs(fmt.Sprintf(echo, "")), runs(strings.Replace(fmt.Sprintf(echo, ""), "{tool}", "{id}", 1)), dispatched, [2]string{"executed: x", "executed: apr_1"}},
	{ofOps + "command.dir", runs(fmt.Sprintf(shell_, "")), runs(fmt.Sprintf(shell_, ", dir: /usr")), dispatched, [2]string{"dir=/ ", "dir=/usr "}},
	{ofOps + "command.env", runs(fmt.Sprintf(shell_, "")), runs(fmt.Sprintf(shell_, ", env: [HOME]")), dispatched, [2]string{"home= ", "home=/"}},
	{ofOps + "command.set_env.*", runs(fmt.Sprintf(shell_, "")), runs(fmt.Sprintf(shell_, ", set_env: {REGION: eu-1}")), dispatched, [2]string{"region=.", "region=eu-1."}},
	{ofOps + "command.max_output", runs(strings.Replace(fmt.Sprintf(echo, ""), "{tool}", "abcdefgh", 1)), runs(strings.Replace(fmt.Sprintf(echo, ", max_output: 4"), "{tool}", "abcdefgh", 1)), dispatched, [2]string{"abcdefgh", "4 more"}},
	{ofOps + "mcp.url", runs(fmt.Sprintf(mcp, "")), runs(strings.Replace(fmt.Sprintf(mcp, ""), "{mcp}", "{mcp}/there", 1)), dispatched, [2]string{"at / ", "at /there "}},
	{ofOps + "mcp.token_file", runs(fmt.Sprintf(mcp, "")), runs(fmt.Sprintf(mcp, ", token_file: mcp-token")), dispatched, [2]string{"as .", "as Bearer t0ken."}},
	{ofOps + "mcp.allow_cidrs", runs(fmt.Sprintf(mcp, "")), runs(strings.Replace(fmt.Sprintf(mcp, ""), "127.0.0.1/32", "10.0.0.0/8", 1)), dispatched, [2]string{"executed", "not prepared"}},
	{ofOps + "mcp.ca_file", runs(fmt.Sprintf(tlsMCP, ", ca_file: mcp-ca.pem")), runs(fmt.Sprintf(tlsMCP, "")), dispatched, [2]string{"executed", "not prepared"}},
	{ofOps + "mcp.command", runs(fmt.Sprintf(localMCP, "", "")), runs(strings.Replace(fmt.Sprintf(localMCP, "", ""), "{self}]", "{self}, -v]", 1)), dispatched, [2]string{"args []", "args [-v]"}},
	{ofOps + "mcp.env", runs(fmt.Sprintf(localMCP, "", "")), runs(fmt.Sprintf(localMCP, ", env: [HOME]", "")), dispatched, [2]string{"home= ", "home=/"}},
	{ofOps + "mcp.set_env.*", runs(fmt.Sprintf(localMCP, "", "")), runs(fmt.Sprintf(localMCP, "", ", REGION: eu-1")), dispatched, [2]string{"region=.", "region=eu-1."}},
	{rules + "executor", strings.Replace(runs(fmt.Sprintf(echo, "")), ", executor: ops", "", 1), runs(fmt.Sprintf(echo, "")), ranBy, [2]string{"the requester", "the executor"}},
	{rules + "retry_safe", runs(fmt.Sprintf(hook, "")), strings.Replace(runs(fmt.Sprintf(hook, "")), "executor: ops}]", "executor: ops, retry_safe: true}]", 1), retries, [2]string{"retries false", "retries true"}},
}
