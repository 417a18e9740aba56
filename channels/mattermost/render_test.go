package mattermost

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/channels/channeltest"
	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
	"github.com/approvalbot/approvalbot/gate"
)

var update = flag.Bool("update", false, "rewrite golden files")

// posted is a drawing as the server keeps it.
func posted(t *testing.T, d drawing) mattermosttest.Post {
	t.Helper()
	p := mattermosttest.Post{Message: d.message}
	raw, err := json.Marshal(d.props)
	if err == nil {
		err = json.Unmarshal(raw, &p.Props)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRender compares how cards read with files.
func TestRender(t *testing.T) {
	t.Parallel()
	keys := keyring(t, "a")
	waiting := func(change func(*channels.Card)) *channels.Card {
		c := channeltest.Waiting()
		c.Server, c.Risk = "k8s-1", "low"
		if change != nil {
			change(c)
		}
		return c
	}
	for name, c := range map[string]*channels.Card{
		"pending": waiting(nil),
		"scopes": waiting(func(c *channels.Card) {
			c.Scopes = []channels.Choice{{Scope: gate.Once, Name: "Once"}, {Scope: gate.Session, Name: "This session"}, {Scope: gate.Always, Name: "Always"}}
		}),
		"long": waiting(func(c *channels.Card) {
			c.Args, c.Risk, c.Redacted, c.Link = strings.Repeat("0123456789", 1000), "high", true, "https://approvals.example.com/console/approvals/apr_1"
			c.Warning = "Redis failed over at 03:12; this may already have run."
		}),
		"edit": waiting(func(c *channels.Card) {
			c.Diff, c.Refused = "--- old\n+++ new\n-replicas: 1\n+replicas: 3", "The same call was refused before: Denied by Bo 12:00 UTC: \"not now\""
		}),
		"injected": waiting(func(c *channels.Card) {
			bad := "@all [Approve](https://evil.example) ``` ![](https://evil.example/x.png) ~town-square #x"
			c.Title, c.Notification, c.Target, c.Server, c.Tool, c.Line, c.Silence, c.Dialogue, c.Refused = bad, bad, bad, bad, bad, bad, bad, bad, bad
			c.Args, c.Diff, c.Intent = bad, bad, bad
			c.Facts = []channels.Fact{{Name: "For", Value: bad}}
		}),
		"settled": func() *channels.Card {
			c := channeltest.Settled()
			c.Settled, c.Link = true, "https://approvals.example.com/console/approvals/apr_1"
			return c
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seal := func(action string) map[string]any { return sealed(keys, c, action, here) }
			p := posted(t, render(c, frame{callback: "https://approvals.example.com", seal: seal}))
			if bad := append(append(p.Notifies(), p.Links()...), p.Images()...); len(bad) > 0 && (len(bad) > 1 || c.Link == "" || bad[0] != c.Link) {
				t.Errorf("it leads to %q", bad)
			}
			file := filepath.Join("testdata", name+".golden")
			got := p.Read() + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s, -update rewrites it (-want +got):\n%s", file, diff)
			}
		})
	}
	t.Run("a card has ids that can be pressed", func(t *testing.T) {
		t.Parallel()
		all := waiting(func(c *channels.Card) {
			c.Answer, c.TakeBack, c.Args = true, true, strings.Repeat("x", 10_000)
			c.Scopes = []channels.Choice{{Scope: gate.Once}, {Scope: gate.Session, Name: "This session"}}
		})
		f := frame{callback: "https://approvals.example.com", seal: func(action string) map[string]any { return sealed(keys, all, action, here) }}
		route := regexp.MustCompile(`^[A-Za-z0-9]+$`)
		buttons := buttons(all, f)
		if len(buttons) != 7 {
			t.Errorf("%d buttons", len(buttons))
		}
		for _, b := range buttons {
			if !route.MatchString(b.Id) || len(b.Name) > 25 || b.Integration.Context[keyAction] != b.Id || strings.Contains(b.Integration.URL, "?") {
				t.Errorf("%+v", b)
			}
		}
	})
}
