package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// What the double calls itself and its app. All of it is invented.
const (
	Team    = "T0AAAAAA1"
	App     = "A0AAAAAA1"
	BotUser = "U0BOT00001" // the bot as a member of conversations
	Bot     = "B0BOT00001" // the bot as an author

	BotToken      = "xoxb-slacktest"
	AppToken      = "xapp-slacktest"
	SigningSecret = "slacktest-signing-secret"
)

// Config says how a double differs from a busy workspace of an ordinary team.
type Config struct {
	Now        func() time.Time // nil means time.Now
	SignedAt   func() time.Time // the time in signatures; nil means Now
	Scopes     []string         // what the bot token may do; nil means what the manifest asks for
	EditWindow time.Duration    // how long messages can be changed; zero means for ever
	Patience   time.Duration    // real time that people wait for an answer; zero means 3 s
	PingEvery  time.Duration    // real time between ping frames; zero means 5 s

	SocketApp string // the app that the app token is of; empty means App

	Listener net.Listener // nil means a port of this machine; [Pipes] for bubbles of synctest

	NoRateLimits  bool
	NoMessagesTab bool // direct messages to the bot are switched off
}

// Slack is the double. It is safe for concurrent use.
type Slack struct {
	config  Config
	server  *httptest.Server
	methods map[string]method
	done    chan struct{}  // closed when the test is over
	work    sync.WaitGroup // what ends with the test

	mu         sync.Mutex
	scopes     []string
	botToken   string // the good one
	tokenError string // what the bot token gets instead of answers
	enterprise string // the organisation of the workspace, if there is one
	users      map[string]User
	groups     map[string]Group
	channels   map[string]*conversation
	views      map[string]*view
	triggers   map[string]*trigger
	hooks      map[string]*hook
	urls       URLs
	calls      map[string][]Call
	faults     double.Script
	limits     map[string]*limit
	sockets    sockets
	events     []*event
	serial     int // makes ids
}

// New starts a double, which ends with the test.
func New(t testing.TB, c Config) *Slack {
	t.Helper()
	s := &Slack{
		config: c.withDefaults(), done: make(chan struct{}), scopes: c.Scopes, botToken: BotToken,
		users: map[string]User{}, groups: map[string]Group{}, channels: map[string]*conversation{},
		views: map[string]*view{}, triggers: map[string]*trigger{}, hooks: map[string]*hook{},
		calls: map[string][]Call{}, faults: double.Script{}, limits: map[string]*limit{},
		sockets: newSockets(),
	}
	if s.scopes == nil {
		s.scopes = []string{"chat:write", "commands", "im:write", "users:read", "usergroups:read", "channels:read", "groups:read"}
	}
	s.methods = s.table()
	s.AddUser(User{ID: BotUser, Name: "approvalbot", Bot: true})
	mux := http.NewServeMux()
	mux.HandleFunc("/api/{method}", s.serveMethod)
	mux.HandleFunc("/actions/", s.serveHook)
	mux.HandleFunc("/commands/", s.serveHook)
	mux.HandleFunc("/link/", s.serveSocket)
	s.server = httptest.NewUnstartedServer(mux)
	if c.Listener != nil {
		_ = s.server.Listener.Close()
		s.server.Listener = c.Listener
	}
	s.server.Start()
	t.Cleanup(s.close)
	return s
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.SignedAt == nil {
		c.SignedAt = c.Now
	}
	if c.Patience == 0 {
		c.Patience = ackWithin
	}
	if c.PingEvery == 0 {
		c.PingEvery = 5 * time.Second
	}
	if c.SocketApp == "" {
		c.SocketApp = App
	}
	return c
}

func (s *Slack) close() {
	close(s.done)
	s.Drop(0)
	s.server.Close()
	s.work.Wait()
}

// URL returns the base of all that the double serves. Clients of the Web API
// want it with "/api/" behind.
func (s *Slack) URL() string { return s.server.URL }

// SetScopes changes what the bot token may do.
func (s *Slack) SetScopes(scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = scopes
}

// BreakToken makes every call with the bot token fail with an error such as
// token_revoked or account_inactive; the empty one repairs the token.
func (s *Slack) BreakToken(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenError = code
}

// RenewToken makes another bot token the good one; what broke the last is over.
func (s *Slack) RenewToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.botToken, s.tokenError = token, ""
}

// Call is a call of the Web API as it arrived, whatever became of it.
type Call struct {
	Args map[string]string // nested values are JSON; the token is left out
	At   time.Time
}

// Calls returns the calls of a method so far. Those of response URLs are under
// the name "response_url".
func (s *Slack) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[method])
}

// method is what the double can do for a client.
type method struct {
	scopes  []string // any one of them will do; none: no scope needed
	perMin  int
	app     bool // takes the app token
	perform func(*call) (object, error)
}

// call is one call under way. The double's lock is held meanwhile.
type call struct {
	args
	now time.Time
}

type object = map[string]any

// Refusal is an answer with "ok": false.
type Refusal struct {
	Code     string   // "invalid_blocks"
	Problems []string // "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
	Needed   string   // the scope that is missing
	Provided string   // those that are there
	wait     time.Duration
}

// Error implements error.
func (r *Refusal) Error() string { return strings.Join(append([]string{r.Code}, r.Problems...), "; ") }

func refuse(code string, problems ...string) *Refusal {
	return &Refusal{Code: code, Problems: problems}
}

func (s *Slack) serveMethod(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	args, bad := readArgs(r)
	fault := s.note(name, args)
	if fault.Instead(w) {
		return
	}
	answer, err := s.perform(r, name, args, bad)
	if fault.Afterwards(w, r, s.done) {
		return
	}
	s.answerMethod(w, name, answer, err)
}

// note keeps a call and returns what has been scripted for it.
func (s *Slack) note(name string, a args) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := maps.Clone(map[string]string(a))
	delete(kept, "token")
	s.calls[name] = append(s.calls[name], Call{Args: kept, At: s.config.Now()})
	return s.faults.For(name, len(s.calls[name]))
}

func (s *Slack) perform(r *http.Request, name string, a args, bad error) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.methods[name]
	if !known {
		return nil, refuse("unknown_method")
	}
	if bad != nil {
		return nil, bad
	}
	if err := s.authorise(r, m, a); err != nil {
		return nil, err
	}
	c := &call{args: a, now: s.config.Now()}
	if err := s.limited(name, m.perMin, m.perMin, c.now); err != nil {
		return nil, err
	}
	if len(m.scopes) > 0 && !slices.ContainsFunc(m.scopes, s.granted) {
		return nil, s.missing(m.scopes...)
	}
	return m.perform(c)
}

func (s *Slack) granted(scope string) bool { return slices.Contains(s.scopes, scope) }

func (s *Slack) missing(scopes ...string) *Refusal {
	return &Refusal{Code: "missing_scope", Needed: strings.Join(scopes, ","), Provided: strings.Join(s.scopes, ",")}
}

// authorise takes a bot token from the header or the form, an app token from the
// header alone.
func (s *Slack) authorise(r *http.Request, m method, a args) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok && !m.app {
		token = a["token"]
	}
	switch {
	case token == "":
		return refuse("not_authed")
	case token != s.botToken && token != AppToken:
		return refuse("invalid_auth")
	case (token == AppToken) != m.app:
		return refuse("not_allowed_token_type")
	case token == s.botToken && s.tokenError != "":
		return refuse(s.tokenError)
	}
	return nil
}

func (s *Slack) answerMethod(w http.ResponseWriter, name string, answer object, err error) {
	s.mu.Lock()
	w.Header().Set("X-OAuth-Scopes", strings.Join(s.scopes, ","))
	w.Header().Set("Date", s.config.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("X-Accepted-OAuth-Scopes", strings.Join(s.methods[name].scopes, ","))
	s.mu.Unlock()
	status := http.StatusOK
	refusal := &Refusal{}
	if errors.As(err, &refusal) {
		answer = refusal.wire()
		if refusal.wait > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int((refusal.wait+time.Second-1)/time.Second)))
			status = http.StatusTooManyRequests
		}
	} else {
		answer["ok"] = true
	}
	writeJSON(w, status, answer)
}

// wire says where a mistake is twice, as Slack does.
func (r *Refusal) wire() object {
	o := object{"ok": false, "error": r.Code}
	if r.Needed != "" {
		o["needed"], o["provided"] = r.Needed, r.Provided
	}
	if len(r.Problems) > 0 {
		messages := make([]string, len(r.Problems))
		for i, p := range r.Problems {
			messages[i] = "[ERROR] " + p
		}
		o["errors"], o["response_metadata"] = r.Problems, object{"messages": messages}
	}
	return o
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}

// id makes an id that no other call gets.
func (s *Slack) id(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s0GEN%05d", prefix, s.serial)
}

func (s *Slack) authTest(*call) (object, error) {
	who := object{
		"url": "https://acme.slack.com/", "team": "Acme", "team_id": Team, "user": s.users[BotUser].Name,
		"user_id": BotUser, "bot_id": Bot, "is_enterprise_install": false,
	}
	if s.enterprise != "" {
		who["enterprise_id"] = s.enterprise
	}
	return who, nil
}

func (s *Slack) botInfo(c *call) (object, error) {
	if c.args["bot"] != Bot {
		return nil, refuse("bot_not_found")
	}
	return object{"bot": object{"id": Bot, "deleted": false, "name": s.users[BotUser].Name, "app_id": App, "user_id": BotUser}}, nil
}

// How often methods may be called in a minute.
const (
	tier2, tier3, tier4  = 20, 50, 100
	perWorkspace, liveOn = 300, 600 // "several hundred": chat.postMessage; auth.test
)

func (s *Slack) table() map[string]method {
	write := []string{"chat:write"}
	read := scopesOf("read")
	history := scopesOf("history")
	return map[string]method{
		"auth.test":             {nil, liveOn, false, s.authTest},
		"bots.info":             {[]string{"users:read"}, tier3, false, s.botInfo},
		"apps.connections.open": {nil, tier3, true, s.openConnection},
		"chat.postMessage":      {write, perWorkspace, false, s.postMessage},
		"chat.update":           {write, tier3, false, s.update},
		"chat.postEphemeral":    {write, tier4, false, s.postEphemeral},
		"chat.delete":           {write, tier3, false, s.remove},
		"conversations.open":    {[]string{"im:write", "mpim:write"}, tier3, false, s.openConversation},
		"conversations.info":    {read, tier3, false, s.conversationInfo},
		"conversations.members": {read, tier4, false, s.conversationMembers},
		"conversations.history": {history, tier3, false, s.history},
		"conversations.replies": {history, tier3, false, s.replies},
		"users.info":            {[]string{"users:read"}, tier4, false, s.userInfo},
		"usergroups.users.list": {[]string{"usergroups:read"}, tier2, false, s.groupMembers},
		"views.open":            {nil, tier4, false, s.openView},
		"views.push":            {nil, tier4, false, s.pushView},
		"views.update":          {nil, tier4, false, s.updateView},
		"views.publish":         {nil, tier4, false, s.publishView},
	}
}
