package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

// MCPConfig is an `mcp:` section: a server at an address, or one that is started for
// each call. Paths of files are as they are from here.
type MCPConfig struct {
	URL        string   `yaml:"url"`         // of streamable HTTP
	TokenFile  string   `yaml:"token_file"`  // a bearer token; empty: none
	AllowCIDRs []string `yaml:"allow_cidrs"` // networks that are called although they are not public
	CAFile     string   `yaml:"ca_file"`     // roots to trust instead of the system's

	Command []string          `yaml:"command"` // a program by its whole path, and arguments; it speaks on its standard pipes
	Env     []string          `yaml:"env"`     // names of variables that it gets from this process
	SetEnv  map[string]string `yaml:"set_env"` // variables that it gets besides
}

// MCP runs calls as tools of an MCP server. A result that says it is an error, or an
// error of the protocol, is failed. If the connection is lost after the call was sent
// it may have taken effect; it is never sent again.
type MCP struct {
	open func(context.Context) (*session, error)
}

// within bounds Prepare: a server that does not answer is one that is not there.
const within = 30 * time.Second

// NewMCP makes an MCP. Its error reports all that is wrong, each with its key.
func NewMCP(c MCPConfig) (*MCP, error) {
	switch overHTTP, asCommand := c.URL != "", len(c.Command) > 0; {
	case overHTTP == asCommand:
		return nil, errors.New("url: want either the url of an MCP server, or a command that starts one")
	case overHTTP && len(c.Env)+len(c.SetEnv) > 0:
		return nil, errors.New("env: a server with a url is not started here; take env and set_env out")
	case asCommand && (c.TokenFile != "" || c.CAFile != "" || len(c.AllowCIDRs) > 0):
		return nil, errors.New("command: it is not called over the network; take token_file, ca_file and allow_cidrs out")
	case asCommand:
		return newLocal(c)
	}
	return newRemote(c)
}

func newRemote(c MCPConfig) (*MCP, error) {
	peer, errPeer := webhook.NewPeer(webhook.PeerConfig{URL: c.URL, AllowCIDRs: c.AllowCIDRs, CAFile: c.CAFile})
	token, errToken := readToken(c.TokenFile)
	if err := errors.Join(errPeer, errToken); err != nil {
		return nil, err
	}
	return &MCP{func(ctx context.Context) (*session, error) { return openRemote(ctx, peer, token) }}, nil
}

func readToken(file string) (secret.String, error) {
	if file == "" {
		return secret.String{}, nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return secret.String{}, fmt.Errorf("token_file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return secret.String{}, fmt.Errorf("token_file: %s: want one token, without spaces", file)
	}
	return secret.New(token), nil
}

func newLocal(c MCPConfig) (*MCP, error) {
	env, errEnv := environment(c.Env, c.SetEnv)
	errProgram := checkProgram(c.Command[0])
	if errProgram != nil {
		errProgram = fmt.Errorf("command[0]: %w", errProgram)
	}
	if err := errors.Join(errProgram, errEnv); err != nil {
		return nil, err
	}
	return &MCP{func(ctx context.Context) (*session, error) { return openLocal(ctx, c.Command, env) }}, nil
}

// Prepare implements Executor: it opens a session of its own, and looks whether there
// is such a tool.
func (m *MCP) Prepare(ctx context.Context, j *Job) (Dispatch, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s, err := m.open(ctx)
	if err == nil {
		err = s.has(ctx, j.Call.Tool)
	}
	if err != nil {
		s.close()
		return nil, &gate.Error{Kind: gate.Unavailable, Op: "execute.MCP", Public: "the MCP server cannot be reached, or has no such tool", Err: err}
	}
	return &toolCall{s, j}, nil
}

// session is a connection to a server. A nil session is none.
type session struct {
	*mcp.ClientSession
	wire *wire  // nil: no HTTP
	end  func() // after the connection was closed; nil: nothing
}

// connect shakes hands. A server may ask nothing of this client, because nobody is
// there to answer; and the SDK must not send a call again with what it was asked for.
func connect(ctx context.Context, over mcp.Transport) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "approvalbot", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	return client.Connect(ctx, over, nil)
}

func openRemote(ctx context.Context, peer *webhook.Peer, token secret.String) (*session, error) {
	w := &wire{token: token}
	cs, err := connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: peer.URL(), HTTPClient: peer.Client(w.through), DisableStandaloneSSE: true, MaxRetries: -1,
	})
	if err != nil {
		return nil, err
	}
	return &session{ClientSession: cs, wire: w}, nil
}

// openLocal starts a server, which lives until the session is closed.
func openLocal(ctx context.Context, argv, env []string) (*session, error) {
	if err := checkProgram(argv[0]); err != nil {
		return nil, err
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd, _ := program(life, argv)
	errs := &tail{most: maxErrors}
	cmd.Env, cmd.Dir, cmd.Stderr = env, "/", errs
	pipes, err := start(cmd)
	if err != nil {
		kill()
		return nil, err
	}
	s := &session{end: func() { bury(cmd, kill) }}
	if s.ClientSession, err = connect(ctx, pipes); err != nil {
		_ = pipes.Writer.Close()
		s.end()
		return nil, fmt.Errorf("%w; it said: %s", err, errs.or(&head{}))
	}
	return s, nil
}

func start(cmd *exec.Cmd) (*mcp.IOTransport, error) {
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	return &mcp.IOTransport{Reader: out, Writer: in}, cmd.Start()
}

// close ends a session; a server that was started for it ends as well.
func (s *session) close() {
	if s == nil {
		return
	}
	_ = s.Close()
	if s.end != nil {
		s.end()
	}
}

// has returns an error if there is no such tool.
func (s *session) has(ctx context.Context, name string) error {
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if tool.Name == name {
			return nil
		}
	}
	return fmt.Errorf("the server has no tool %q", name)
}
