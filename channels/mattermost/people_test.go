package mattermost_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/mattermost"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

func members(of string) gate.Roster { return gate.Roster{Kind: gate.KindConversation, ID: of} }
func inGroup(of string) gate.Roster { return gate.Roster{Kind: gate.KindUserGroup, ID: of} }

func TestHas(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{Licensed: true})
	s.AddGroup(mattermosttest.Group{ID: "g1gone0000000000000000000a", Name: "gone", Source: "custom", Members: []string{ann}, Deleted: true})
	s.AddGroup(mattermosttest.Group{ID: "g1ldap0000000000000000000a", Name: "ldap", Source: "ldap", Members: []string{ann}})
	s.AddChannel(mattermosttest.Channel{ID: "c1sre000000000000000000000", Name: "sre", Team: mattermosttest.Team, Type: "P", Members: []string{ann, mattermosttest.BotUser}})
	m := channel(t, s)
	for name, tt := range map[string]struct {
		in    gate.Roster
		voter string
		has   bool
		known bool
	}{
		"a member of a channel":               {members("acme/sre"), "mattermost:" + ann, true, true},
		"of a channel by its id":              {members("c1sre000000000000000000000"), "mattermost:" + ann, true, true},
		"who is not in it":                    {members("acme/sre"), "mattermost:" + bo, false, true},
		"somebody of another platform":        {members("acme/sre"), "slack:T1/" + ann, false, true},
		"a channel that the bot cannot read":  {members(secrets), "mattermost:" + ann, false, false},
		"a channel that is none":              {members("acme/nothing"), "mattermost:" + ann, false, false},
		"a member of a group":                 {inGroup(group), "mattermost:" + ann, true, true},
		"who is not in the group":             {inGroup(group), "mattermost:" + bo, false, true},
		"a group that was deleted":            {inGroup("g1gone0000000000000000000a"), "mattermost:" + ann, false, false},
		"a group of LDAP, which no bot reads": {inGroup("g1ldap0000000000000000000a"), "mattermost:" + ann, false, false},
		"a group that is none":                {inGroup("g1nothing00000000000000000"), "mattermost:" + ann, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has, err := m.Has(t.Context(), tt.in, tt.voter)
			if has != tt.has || (err == nil) != tt.known {
				t.Errorf("Has = %v, %v", has, err)
			}
		})
	}
}

func TestMembersOfManyPages(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	var want []string
	crowd := mattermosttest.Channel{ID: "c1crowd0000000000000000000", Name: "crowd", Team: mattermosttest.Team, Type: "O", Members: []string{mattermosttest.BotUser}}
	for i := range 450 {
		u := "u1crowd" + strings.Repeat("0", 19-len(strconv.Itoa(i))) + strconv.Itoa(i)
		s.AddUser(mattermosttest.User{ID: u, Username: "crowd" + strconv.Itoa(i)})
		crowd.Members, want = append(crowd.Members, u), append(want, "mattermost:"+u)
	}
	s.AddChannel(crowd)
	m := channel(t, s)
	got, err := m.Members(t.Context(), members("acme/crowd"))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestPin: a username stands for whoever had it when it was first asked for.
func TestPin(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	m := channel(t, s)
	s.FailNext("users_by_name", mattermosttest.Reset)
	if got, err := m.Pin(t.Context(), []string{"ann"}); gate.KindOf(err) != gate.Unavailable || len(got) > 0 {
		t.Errorf("Mattermost does not answer: %v, %v", got, err)
	}
	got, err := m.Pin(t.Context(), []string{"ann", "nobody"})
	if want := map[string]string{"ann": ann}; err == nil || gate.KindOf(err) != gate.Invalid || !strings.Contains(err.Error(), "nobody") || !cmp.Equal(got, want) {
		t.Errorf("Pin = %v, %v", got, err)
	}
	s.FailNext("users_by_name", mattermosttest.Garbled(`[{"id":"`+mallory+`","username":"mallory"},null,{"id":"x","username":"bo"}]`))
	if got, err := m.Pin(t.Context(), []string{"bo"}); err == nil || !cmp.Equal(got, map[string]string{"ann": ann}) {
		t.Errorf("what nobody asked for is believed: %v, %v", got, err)
	}
	s.Change(ann, func(u *mattermosttest.User) { u.Username = "ann.married" })
	s.Change(mallory, func(u *mattermosttest.User) { u.Username = "ann" })
	got, err = m.Pin(t.Context(), []string{"ann", "bo"})
	if want := map[string]string{"ann": ann, "bo": bo}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("after somebody took the name: %v, %v", got, err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	m := channel(t, s)
	resolve := func(place string) (string, channels.Trouble) {
		c, err := m.Resolve(t.Context(), gate.Conversation{Place: "mattermost:" + place, Thread: "x"})
		trouble, _ := channels.TroubleOf(err)
		if err == nil {
			trouble = -1
		}
		return strings.TrimPrefix(c.Place, "mattermost:"), trouble
	}
	direct, trouble := resolve("@" + ann)
	if len(direct) != 26 || trouble != -1 {
		t.Errorf("a direct conversation is %q, trouble %d", direct, trouble)
	}
	if again, _ := resolve("@" + ann); again != direct || len(s.Calls("direct")) != 1 {
		t.Errorf("it is %q then, after %d calls", again, len(s.Calls("direct")))
	}
	for place, want := range map[string]channels.Trouble{
		ops: -1, "acme/ops": -1, "acme/nothing": channels.Nowhere, "nowhere/ops": channels.Nowhere, "acme/secrets": channels.Nowhere,
		"@" + mattermosttest.BotUser: channels.Nowhere, "@ann": channels.Nowhere, "x": channels.Nowhere, "": channels.Nowhere, "@u1nothing00000000000000000": channels.Nowhere,
	} {
		if _, got := resolve(place); got != want {
			t.Errorf("%q is trouble %d, want %d", place, got, want)
		}
	}
	s.FailNext("channel_by_name", mattermosttest.HTMLPage(200))
	s.AddChannel(mattermosttest.Channel{ID: "c1new000000000000000000000", Name: "new", Team: mattermosttest.Team, Type: "O", Members: []string{mattermosttest.BotUser}})
	if _, got := resolve("acme/new"); got != channels.Busy {
		t.Errorf("behind a proxy it is trouble %d", got)
	}
	if id, got := resolve("acme/new"); got != -1 || id != "c1new000000000000000000000" {
		t.Errorf("then it is %q, trouble %d", id, got)
	}
}

// TestEmail: an address counts only where the server has verified it, and does so for
// everybody.
func TestEmail(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server mattermosttest.Config
		user   string
		want   string
	}{
		"verified":                            {mattermosttest.Config{RequireEmailVerification: true}, ann, "ann@example.com"},
		"none at all":                         {mattermosttest.Config{RequireEmailVerification: true}, carol, ""},
		"where the server does not want that": {mattermosttest.Config{}, ann, ""},
		"where the server does not show them": {mattermosttest.Config{RequireEmailVerification: true, HideEmails: true}, ann, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, tt.server, known)
			d.presses(tt.user, d.post().Message, "approve")
			if k := d.one(tt.user, gate.Approve); k.Voter.Email != tt.want {
				t.Errorf("the address is %q, want %q", k.Voter.Email, tt.want)
			}
		})
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		licensed bool
		in       gate.Roster
		break_   func(s *mattermosttest.Server)
		kind     gate.Kind
		says     string
	}{
		"a group":                          {true, inGroup(group), nil, 0, ""},
		"a group without a licence":        {false, inGroup(group), nil, gate.Invalid, "take a licence"},
		"a group that is none":             {true, inGroup("g1nothing00000000000000000"), nil, gate.Invalid, "cannot be read"},
		"a channel":                        {false, members("acme/ops"), nil, 0, ""},
		"a channel that the bot is not in": {false, members(secrets), nil, gate.Invalid, "Invite the bot"},
		"a channel that is none":           {false, members("acme/nothing"), nil, gate.Invalid, "Invite the bot"},
		"a server that does not answer":    {false, members("acme/ops"), func(s *mattermosttest.Server) { s.FailNext("channel_by_name", mattermosttest.HTMLPage(503)) }, gate.Unavailable, ""},
		"a server that is asked too much":  {true, inGroup(group), func(s *mattermosttest.Server) { s.FailNext("group", mattermosttest.TooManyBare) }, gate.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, mattermosttest.Config{Licensed: tt.licensed})
			m := channel(t, s)
			if tt.break_ != nil {
				tt.break_(s)
			}
			err := m.Readable(t.Context(), tt.in)
			if (err == nil) != (tt.kind == 0) || err != nil && (gate.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("Readable = %v, of kind %v", err, gate.KindOf(err))
			}
		})
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		break_ func(s *mattermosttest.Server)
		kind   gate.Kind
		says   string
	}{
		"all is well":               {nil, 0, ""},
		"the token was revoked":     {func(s *mattermosttest.Server) { s.Revoke() }, gate.Invalid, "token is refused"},
		"the bot was disabled":      {func(s *mattermosttest.Server) { s.DisableBot() }, gate.Invalid, "token is refused"},
		"a login page answers":      {func(s *mattermosttest.Server) { s.FailNext("me", mattermosttest.HTMLPage(200)) }, gate.Unavailable, ""},
		"a proxy answers":           {func(s *mattermosttest.Server) { s.FailNext("me", mattermosttest.HTMLPage(502)) }, gate.Unavailable, ""},
		"the settings are not told": {func(s *mattermosttest.Server) { s.FailNext("config", mattermosttest.HTMLPage(503)) }, gate.Unavailable, ""},
		"there is no key": {func(s *mattermosttest.Server) {
			s.FailNext("config", mattermosttest.Garbled(`{"Version":"x"}`), mattermosttest.Garbled(`{"Version":"x"}`))
		}, gate.Invalid, "shows no key"},
		"the key is none": {func(s *mattermosttest.Server) {
			s.FailNext("config", mattermosttest.Garbled(`{"AsymmetricSigningPublicKey":"AAAA"}`), mattermosttest.Garbled(`{"AsymmetricSigningPublicKey":"AAAA"}`))
		}, gate.Invalid, "shows no key"},
		"it is no Mattermost": {func(s *mattermosttest.Server) { s.FailNext("me", mattermosttest.HTMLPage(404)) }, gate.Invalid, "is no Mattermost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, mattermosttest.Config{})
			if tt.break_ != nil {
				tt.break_(s)
			}
			self, err := channel(t, s).Connect(t.Context())
			if (err == nil) != (tt.kind == 0) || err != nil && (gate.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says)) {
				t.Fatalf("Connect = %v, of kind %v", err, gate.KindOf(err))
			}
			if err == nil && (self.ID != mattermosttest.BotUser || self.Username != mattermosttest.BotName || !self.Bot || self.Admin || self.Version != "11.2.0") {
				t.Errorf("it is %+v", self)
			}
			if err != nil && strings.Contains(err.Error(), mattermosttest.BotToken) {
				t.Error("the token is told")
			}
		})
	}
}

// TestAdopt: a renewed token is taken over.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s := server(t, mattermosttest.Config{})
	m := channel(t, s)
	s.Revoke()
	if trouble, _ := channels.TroubleOf(m.Probe(t.Context())); trouble != channels.Out {
		t.Fatalf("with a revoked token it is trouble %d", trouble)
	}
	s.Renew("k2bot000000000000000000000")
	m.Adopt(mattermost.New(mattermost.Config{URL: s.URL(), Token: secret.New("k2bot000000000000000000000")}))
	if err := m.Probe(t.Context()); err != nil {
		t.Errorf("with the new one: %v", err)
	}
}
