package mattermosttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base32"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels/channeltest/double"
)

// What there is from the start. All of it is invented.
const (
	Team     = "t1acme00000000000000000000"
	TeamName = "acme"

	BotUser  = "u1bot000000000000000000000" // a member of the team with no other right
	BotName  = "approvalbot"
	BotToken = "k1bot000000000000000000000"

	Admin     = "u1admin0000000000000000000" // a system admin in the team
	AdminName = "admin"
)

// maxBody is how large a request body may be.
const maxBody = 300_000

// Config says how a double differs from Team Edition 11.2 as it is installed.
type Config struct {
	Now      func() time.Time // nil means time.Now
	Listener net.Listener     // nil means a port of this machine; [Pipes] for bubbles of synctest
	Dial     Dialer           // how integrations are reached; nil means as addresses say

	Version         string        // "" means "11.2.0"; "10.5.0", "10.11.0" and "11.10.0" differ
	OutgoingTimeout time.Duration // of callbacks, at most 30 s, and the life of trigger ids; zero means 30 s
	EditLimit       time.Duration // for how long posts can be edited; zero means for ever
	RateLimit       int           // requests per second with a burst of ten times that; zero means no limit
	MaxPostSize     int           // in characters; zero means 16383
	SiteURL         string        // "" means [Server.URL], "-" means that none is set
	Allowed         []string      // hosts, IPs and CIDRs of AllowedUntrustedInternalConnections; nil allows all

	Licensed                 bool // has groups
	NoCommands               bool
	HideEmails               bool
	RequireEmailVerification bool
	NoBotAccounts            bool // none can be made; those that are there work
	DMsWithinTeam            bool // people write only to members of a team of theirs
	AllowOverrides           bool // EnablePostUsernameOverride and EnablePostIconOverride
	Developer                bool // EnableDeveloper: errors say their cause
}

// Server is the double. It is safe for concurrent use.
type Server struct {
	t        testing.TB
	config   Config
	server   *httptest.Server
	routes   http.Handler
	outgoing *http.Client
	done     chan struct{} // closed when the test is over

	mu        sync.Mutex
	key       *ecdsa.PrivateKey // signs trigger ids
	users     map[string]*user
	tokens    map[string]*token // by their secret
	teams     map[string]*team
	channels  map[string]*channel
	groups    []*Group
	posts     map[string]*post
	order     []*post // the oldest first
	pending   map[string]*creation
	cookies   map[string]cookie
	reactions map[string][]reaction // by post
	shown     map[string][]Ephemeral
	dialogs   []*Dialog
	commands  []*Command
	hooks     map[string]*hook // where late answers of slash commands go
	calls     map[string][]Call
	faults    double.Script
	buckets   map[string]time.Time // of the rate limit, by address
	makers    map[string]bool      // who may manage commands, besides admins
}

// New starts a double, which ends with the test.
func New(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{
		t: t, config: c.withDefaults(), done: make(chan struct{}),
		users: map[string]*user{}, tokens: map[string]*token{}, teams: map[string]*team{},
		channels: map[string]*channel{}, posts: map[string]*post{}, pending: map[string]*creation{},
		cookies: map[string]cookie{}, reactions: map[string][]reaction{}, shown: map[string][]Ephemeral{},
		hooks: map[string]*hook{}, calls: map[string][]Call{}, faults: double.Script{},
		buckets: map[string]time.Time{}, makers: map[string]bool{},
	}
	s.RotateKey()
	s.routes = s.router()
	s.outgoing = s.client()
	s.server = httptest.NewUnstartedServer(s.routes)
	if c.Listener != nil {
		_ = s.server.Listener.Close()
		s.server.Listener = c.Listener
	}
	s.server.Start()
	t.Cleanup(s.close)
	s.AddTeam(Team, TeamName)
	s.AddUser(User{ID: Admin, Username: AdminName, Admin: true, EmailVerified: true})
	s.AddUser(User{ID: BotUser, Username: BotName, Bot: true})
	s.Renew(BotToken)
	return s
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Version == "" {
		c.Version = "11.2.0"
	}
	if c.OutgoingTimeout == 0 {
		c.OutgoingTimeout = 30 * time.Second
	}
	if c.MaxPostSize == 0 {
		c.MaxPostSize = 16383
	}
	return c
}

func (s *Server) close() {
	close(s.done)
	s.server.CloseClientConnections()
	s.server.Close()
	s.outgoing.CloseIdleConnections()
}

// URL returns the address of the server, to which clients add "/api/v4".
func (s *Server) URL() string { return s.server.URL }

// siteURL returns what the server takes for its own address, if it knows one.
func (s *Server) siteURL() string {
	switch s.config.SiteURL {
	case "":
		return s.URL()
	case "-":
		return ""
	}
	return s.config.SiteURL
}

// RotateKey gives the server another key for trigger ids. What the last one has
// signed is worth nothing any more.
func (s *Server) RotateKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

// ids are written with these letters.
var letters = base32.NewEncoding("ybndrfg8ejkmcpqxot1uwisza345h769").WithPadding(base32.NoPadding)

// NewID makes an id that nothing else has.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return letters.EncodeToString(b[:])
}

// validID reports whether s can be an id.
func validID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// millis is how Mattermost writes times.
func (s *Server) millis() int64 { return s.config.Now().UnixMilli() }
