package execute_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/gate"
)

// tools is a server whose tools end in all the ways there are. Over standard pipes it
// is this program, playing.
func tools(over <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	for name, answer := range map[string]func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error){
		"echo": func(_ context.Context, p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return content(&mcp.TextContent{Text: string(p.Arguments)}, &mcp.TextContent{Text: fmt.Sprint(p.Meta["approvalbot/approval_id"], " ", p.Meta["approvalbot/attempt_id"])}), nil
		},
		"fail": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			r := content(&mcp.TextContent{Text: "no such file"})
			r.IsError = true
			return r, nil
		},
		"hide": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return content(&mcp.TextContent{Text: `{"error":"no such file"}`}), nil
		},
		"draw": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return content(
				&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 12_345)}, &mcp.AudioContent{Data: make([]byte, 9)},
				&mcp.ResourceLink{URI: "file:///a", Name: "a"}, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", Text: "inside"}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c", Blob: make([]byte, 2000)}},
			), nil
		},
		"count": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: map[string]any{"files": 3}}, nil
		},
		"talk": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return content(&mcp.TextContent{Text: strings.Repeat("x", 1_000_000)}), nil
		},
		"refuse": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no path"}
		},
		"hang": func(ctx context.Context, _ *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			select { // not every server hears that its client is gone
			case <-ctx.Done():
			case <-over:
			}
			return nil, errors.New("over")
		},
		"crash": func(context.Context, *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
			os.Exit(7) //nolint:forbidigo // which is the point
			return nil, nil
		},
	} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return answer(ctx, r.Params)
			})
	}
	return s
}

func content(all ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: all} }

// playMCP is this program as a server on its standard pipes.
func playMCP() int {
	fmt.Fprintln(os.Stderr, "ready")
	if err := tools(nil).Run(context.Background(), &mcp.StdioTransport{}); err != nil { //nolint:forbidigo // this is a main
		return 1
	}
	return 0
}

// listener serves tools over HTTP, and counts calls.
type listener struct {
	*httptest.Server
	calls  atomic.Int32
	tokens chan string
}

// serve starts a listener. Instead of a call, if it is not nil, instead answers.
func serve(t testing.TB, stateless bool, instead http.HandlerFunc) *listener {
	t.Helper()
	over := make(chan struct{})
	s := tools(over)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	l := &listener{tokens: make(chan string, 100)}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.tokens <- r.Header.Get("Authorization")
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			l.calls.Add(1)
			if instead != nil {
				instead(w, r)
				return
			}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	t.Cleanup(func() { close(over) })
	return l
}

// servers are the ways to reach the same tools.
var servers = map[string]func(testing.TB) execute.MCPConfig{
	"over HTTP, with sessions":    func(t testing.TB) execute.MCPConfig { return started(t, serve(t, false, nil)) },
	"over HTTP, without sessions": func(t testing.TB) execute.MCPConfig { return started(t, serve(t, true, nil)) },
	"on pipes": func(t testing.TB) execute.MCPConfig {
		return execute.MCPConfig{Command: []string{self(t)}, SetEnv: map[string]string{"PLAY": "mcp"}}
	},
}

func started(t testing.TB, l *listener) execute.MCPConfig {
	t.Helper()
	l.Start()
	return execute.MCPConfig{URL: l.URL, AllowCIDRs: []string{"127.0.0.1"}}
}

func mcpOf(t testing.TB, c execute.MCPConfig) *execute.MCP {
	t.Helper()
	m, err := execute.NewMCP(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func calling(t testing.TB, tool string) *execute.Job {
	t.Helper()
	j := job(t)
	j.Call.Tool = tool
	return j
}

func TestHowAToolEnds(t *testing.T) {
	t.Parallel()
	for way, start := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			m := mcpOf(t, start(t))
			for _, tt := range []struct {
				tool    string
				outcome gate.State
				text    string
			}{
				{"fail", gate.Failed, "no such file"},
				{"hide", gate.Failed, `{"error":"no such file"}`},
				{"draw", gate.Executed, "[image, 12 kB]\n[audio, 9 bytes]\n[link to file:///a]\ninside\n[resource file:///c, 2 kB]"},
				{"count", gate.Executed, `{"files":3}`},
				{"talk", gate.Executed, "xxx"},
				{"refuse", gate.Failed, "error -32602: no path"},
			} {
				wants(t, run(soon(t), t, m, calling(t, tt.tool)), tt.outcome, tt.text)
			}
		})
	}
}

func TestWhatAToolIsTold(t *testing.T) {
	t.Parallel()
	for way, start := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			j := calling(t, "echo")
			got := run(soon(t), t, mcpOf(t, start(t)), j)
			wants(t, got, gate.Executed, string(j.ID)+" "+j.Attempt)
			told, _, _ := strings.Cut(got.Text, "\n")
			if diff := cmp.Diff(tokens(t, args), tokens(t, told)); diff != "" {
				t.Errorf("other arguments than were approved (-want +got):\n%s", diff)
			}
		})
	}
}

// tokens are the parts of a JSON text in their order, numbers as they are written.
func tokens(t *testing.T, text string) (all []any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return all
		}
		all = append(all, fmt.Sprintf("%T %v", token, token))
	}
}

func TestAToolThatIsNotThere(t *testing.T) {
	t.Parallel()
	for way, start := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			_, err := mcpOf(t, start(t)).Prepare(soon(t), calling(t, "nothing"))
			if gate.KindOf(err) != gate.Unavailable || !strings.Contains(err.Error(), `no tool "nothing"`) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	silent := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNotFound) })
	for name, c := range map[string]execute.MCPConfig{
		"nobody listens":       {URL: nobody(t), AllowCIDRs: []string{"127.0.0.1"}},
		"another address":      {URL: nobody(t), AllowCIDRs: []string{"10.0.0.1"}},
		"no MCP":               {URL: silent.URL, AllowCIDRs: []string{"127.0.0.1"}},
		"a program that ends":  {Command: []string{self(t)}, SetEnv: map[string]string{"PLAY": "fail 1"}},
		"a program that talks": {Command: []string{self(t)}, SetEnv: map[string]string{"PLAY": "say hello"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := mcpOf(t, c).Prepare(soon(t), calling(t, "echo")); gate.KindOf(err) != gate.Unavailable {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestAToolWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tt := range map[string]struct {
		instead http.HandlerFunc
		outcome gate.State
		text    string
	}{
		"the connection breaks": {func(w http.ResponseWriter, _ *http.Request) { cut(w, "") }, "", "it may have taken effect: no answer"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			cut(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
		}, "", "it may have taken effect"},
		"no JSON":                           {says200("application/json", "not JSON"), "", "it may have taken effect"},
		"another kind of answer":            {says200("text/html", "<p>"), "", "it may have taken effect"},
		"a proxy lost it":                   {status(502), "", "it may have taken effect"},
		"500":                               {status(500), "", "it may have taken effect"},
		"nobody may":                        {status(401), gate.Failed, "answered 401 Unauthorized"},
		"a redirect":                        {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusTemporaryRedirect) }, gate.Failed, "answered 307"},
		"the session is gone":               {status(404), gate.Failed, "answered 404 Not Found"},
		"a code that the SDK would make up": {answers(`"error":{"code":-32005,"message":"x"}`), "", "it may have taken effect"},
		"a very long answer":                {answers(`"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 15<<20) + `"}]}`), gate.Executed, "xxx"},
		"too long an answer":                {answers(`"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 17<<20) + `"}]}`), "", "it may have taken effect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := serve(t, false, tt.instead)
			wants(t, run(soon(t), t, mcpOf(t, started(t, l)), calling(t, "echo")), tt.outcome, tt.text)
			if n := l.calls.Load(); n != 1 {
				t.Errorf("called %d times", n)
			}
		})
	}
}

// answers answers a call by its id.
func answers(with string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&q)
		says200("application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, q.ID, with))(w, r)
	}
}

func says200(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

func TestAServerThatDiesUnderACall(t *testing.T) {
	t.Parallel()
	wants(t, run(soon(t), t, mcpOf(t, servers["on pipes"](t)), calling(t, "crash")), "", "it may have taken effect")
}

// Between Prepare and Run the server goes away. It keeps no connections: of a kept one
// nobody can tell at once that it is dead.
func TestAServerThatLeavesBeforeTheCall(t *testing.T) {
	t.Parallel()
	l := serve(t, false, nil)
	l.Config.SetKeepAlivesEnabled(false)
	d, err := mcpOf(t, started(t, l)).Prepare(soon(t), calling(t, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	wants(t, d.Run(soon(t)), gate.Failed, "not sent")
}

func TestAToolThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for way, start := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			d, err := mcpOf(t, start(t)).Prepare(soon(t), calling(t, "hang"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wants(t, d.Run(ctx), "", "it may have taken effect: no answer: the time was up")
		})
	}
}

// What Prepare was given may end before Run; what Run was not called for ends with Drop.
func TestASessionOutlivesItsPreparation(t *testing.T) {
	t.Parallel()
	for way, start := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			m := mcpOf(t, start(t))
			ctx, cancel := context.WithCancel(t.Context())
			d, err := m.Prepare(ctx, calling(t, "count"))
			if err != nil {
				t.Fatal(err)
			}
			dropped, err := m.Prepare(ctx, calling(t, "count"))
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			dropped.Drop()
			wants(t, d.Run(soon(t)), gate.Executed, "files")
		})
	}
}

func TestTokenAndTLS(t *testing.T) {
	t.Parallel()
	l := serve(t, false, nil)
	l.StartTLS()
	ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw})), 0o600)
	c := execute.MCPConfig{URL: l.URL, AllowCIDRs: []string{"127.0.0.1"}, CAFile: ca, TokenFile: file(t, "s3cret\n", 0o600)}
	wants(t, run(soon(t), t, mcpOf(t, c), calling(t, "count")), gate.Executed, "files")
	for n := len(l.tokens); n > 0; n-- {
		if got := <-l.tokens; got != "Bearer s3cret" {
			t.Errorf("a request shows %q", got)
		}
	}
}

func TestMCPConfig(t *testing.T) {
	t.Parallel()
	program := []string{self(t)}
	for name, tt := range map[string]struct {
		config execute.MCPConfig
		says   string // empty: nothing
	}{
		"a url":                            {execute.MCPConfig{URL: "https://mcp.example.com"}, ""},
		"a command":                        {execute.MCPConfig{Command: program, Env: []string{"HOME"}}, ""},
		"neither":                          {execute.MCPConfig{}, "url: want either"},
		"both":                             {execute.MCPConfig{URL: "https://mcp.example.com", Command: program}, "url: want either"},
		"a url, and an environment":        {execute.MCPConfig{URL: "https://mcp.example.com", Env: []string{"HOME"}}, "env: a server with a url"},
		"a command, and a token":           {execute.MCPConfig{Command: program, TokenFile: "x"}, "command: it is not called"},
		"a url without TLS":                {execute.MCPConfig{URL: "http://mcp.example.com"}, "url: http://mcp.example.com is without TLS"},
		"a network that is none":           {execute.MCPConfig{URL: "https://mcp.example.com", AllowCIDRs: []string{"x"}}, "allow_cidrs[0]: "},
		"a token that is not there":        {execute.MCPConfig{URL: "https://mcp.example.com", TokenFile: "nowhere"}, "token_file: open"},
		"a token of two":                   {execute.MCPConfig{URL: "https://mcp.example.com", TokenFile: file(t, "hunter2 hunter2", 0o600)}, "token_file: "},
		"a program without a path":         {execute.MCPConfig{Command: []string{"npx"}}, "command[0]: \"npx\": want the whole path"},
		"a program that others can change": {execute.MCPConfig{Command: []string{file(t, "", 0o777)}}, "chmod go-w"},
		"a variable that is none":          {execute.MCPConfig{Command: program, Env: []string{"="}}, "env[0]: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute.NewMCP(tt.config)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it tells the token: %v", err)
			}
		})
	}
}
