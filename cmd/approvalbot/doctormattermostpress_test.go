package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/approvalbot/approvalbot/channels/mattermost/mattermosttest"
)

// trying is a doctor that waits for a press.
type trying struct {
	*mmClinic
	door     *door
	out, err lockedBuffer
	done     chan int
}

// newTrying is an installation that Mattermost reaches at a door, behind which is who
// answers.
func newTrying(t *testing.T, c mattermosttest.Config, changes ...string) *trying {
	t.Helper()
	d := newDoor(t)
	changes = append(changes, plainCallback, d.url, "review: {mattermost: acme/review}", "listen: 127.0.0.1:0\nreview: {mattermost: acme/review}")
	return &trying{mmClinic: newMattermostClinic(t, c, changes...), door: d, done: make(chan int, 1)}
}

// begin starts the doctor, and waits for its button.
func (d *trying) begin(flags ...string) mattermosttest.Post {
	d.t.Helper()
	args := append([]string{"doctor", "mattermost", "-c", d.path("approvalbot.yaml"), "--press"}, flags...)
	go func() {
		d.done <- run(d.t.Context(), process{args: args, env: func(string) string { return "" }, out: &d.out, err: &d.err})
	}()
	var post mattermosttest.Post
	soon(d.t, "the question", func() bool {
		if all := d.mm.Posts(opsOnMM); len(all) > 0 {
			post = all[0]
		}
		return strings.Contains(d.err.String(), "Press the button")
	})
	if at := answersOn.FindStringSubmatch(d.err.String()); at != nil {
		d.door.add("http://" + at[1])
	}
	if !strings.Contains(d.err.String(), "/_redirect/pl/"+post.ID) {
		d.t.Errorf("no way to %s in:\n%s", post.ID, d.err.String())
	}
	return post
}

var answersOn = regexp.MustCompile(`which this process answers, on (\S+)\.\n`)

func (d *trying) press(post mattermosttest.Post) mattermosttest.Outcome {
	d.t.Helper()
	o, err := d.mm.Press(d.t.Context(), mattermosttest.Press{User: annOnMM, Post: post.ID, Action: "doctor"})
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

// ends waits for the doctor, and returns the rest of what it says.
func (d *trying) ends(code int) string {
	d.t.Helper()
	if got := <-d.done; got != code {
		d.t.Errorf("exit %d, want %d:\n%s", got, code, d.out.String())
	}
	_, rest, _ := strings.Cut(d.out.String(), "command ")
	for _, secret := range []string{mattermosttest.BotToken, mmCommand} {
		if strings.Contains(d.out.String()+d.err.String(), secret) {
			d.t.Error("a secret is told")
		}
	}
	return rest
}

// left is what the post says in the end, which nobody can press any more.
func (d *trying) left(post mattermosttest.Post) string {
	d.t.Helper()
	p, _ := d.mm.Post(post.ID)
	if len(p.Buttons()) > 0 {
		d.t.Errorf("%v can still be pressed", p.Buttons())
	}
	return p.Message
}

const allowedHere = "callback_allow: [127.0.0.1]"

func TestDoctorMattermostWaitsForAPress(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		changes []string
		server  mattermosttest.Config
		says    string // with a regular expression in place of times
		code    int
	}{
		{
			name: "that arrives, from where it may", changes: []string{"callback_allow: [10.0.0.7]", allowedHere},
			says: `\nok    round trip      the press arrived from 127\.0\.0\.1 after -?\d+\.\d s, signed by Mattermost\n\nAll is well\.\n$`,
		},
		{
			name: "that arrives, and tells what to allow", changes: []string{", callback_allow: [10.0.0.7]", ""},
			says: `\nok    round trip      the press arrived from 127\.0\.0\.1 after -?\d+\.\d s, signed by Mattermost\n` +
				`      with this in channels\.mattermost, Approve needs no second question\. If it is the address of a proxy, that must keep others out:\n` +
				`      callback_allow: \[127\.0\.0\.1\]\n`,
		},
		{
			name: "that arrives from where it may not", code: exitBlock,
			says: `\nFAIL  round trip      the press arrived from 127\.0\.0\.1, which is not in callback_allow: every press is refused\n` +
				`      add it to channels\.mattermost\.callback_allow, if that is Mattermost; if it is a proxy, it must keep others out:\n` +
				`      callback_allow: \[127\.0\.0\.1\]\n`,
		},
		{
			name: "that arrives when it looks old", changes: []string{"callback_allow: [10.0.0.7]", allowedHere}, server: mmAhead(-15 * time.Second),
			says: `\nwarn  round trip      the press arrived from 127\.0\.0\.1, and is 1\d s old by the clock there; from 30 s on, every press is refused\n      ` + regexp.QuoteMeta(clockFix),
		},
		{
			name: "that arrives when it is too old", server: mmAhead(-45 * time.Second), code: exitBlock,
			says: `\nFAIL  round trip      the press arrived from 127\.0\.0\.1, and is 4\d s old by the clock there: every press is refused\n      ` + regexp.QuoteMeta(clockFix),
		},
		{
			name: "that arrives from the future", server: mmAhead(45 * time.Second), code: exitBlock,
			says: `\nFAIL  round trip      the press arrived from 127\.0\.0\.1, and is -4\d s old by the clock there: every press is refused\n`,
		},
		{
			name: "of which nobody looks whose it is", changes: []string{"callback_allow: [10.0.0.7]", "verify_triggers: false, " + allowedHere},
			says: `\nok    round trip      the press arrived from 127\.0\.0\.1 after -?\d+\.\d s, and nobody has looked whose it is\n`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newTrying(t, row.server, row.changes...)
			post := d.begin()
			if o := d.press(post); o.Status != http.StatusOK || !o.Updated {
				t.Errorf("%+v", o)
			}
			if rest := d.ends(row.code); !regexp.MustCompile(row.says).MatchString(rest) {
				t.Errorf("it says\n%s\nwant\n%s", rest, row.says)
			}
			if text := d.left(post); !strings.Contains(text, "nothing was decided") || strings.HasPrefix(text, "It works") != (row.server.Now == nil || row.code == exitOK) {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// TestDoctorMattermostAsksTheServerThatRuns: what listens on the address answers.
func TestDoctorMattermostAsksTheServerThatRuns(t *testing.T) {
	t.Parallel()
	d := newTrying(t, mattermosttest.Config{}, "callback_allow: [10.0.0.7]", allowedHere)
	s := d.serve("--store", "memory")
	d.door.add(s.url)
	d.config(changed(t, wellMattermost, "callback_allow: [10.0.0.7]", allowedHere, plainCallback, d.door.url, "{mattermost}", d.mm.URL(),
		"review:", "listen: "+strings.TrimPrefix(s.url, "http://")+"\nreview:"))
	post := d.begin("-o", "json")
	wantText(t, d.err.String(), "which the server on 127.0.0.1:")
	d.press(post)
	d.ends(exitOK)
	got := fromJSON[examined](t, d.out.String())
	if last := got.Checks[len(got.Checks)-1]; !got.OK || last.Check != checkPress || last.Level != fine {
		t.Errorf("%+v", last)
	}
	if !s.log.holds("the button of a trial was pressed") {
		t.Error("somebody else has answered")
	}
}

func TestDoctorMattermostSaysWhyNoPressArrives(t *testing.T) {
	t.Parallel()
	t.Run("nobody presses", func(t *testing.T) {
		t.Parallel()
		d := newTrying(t, mattermosttest.Config{}, "callback_allow: [10.0.0.7]", allowedHere)
		post := d.begin("--wait", "1s")
		wantText(t, d.ends(exitBlock), "FAIL  round trip      no press has arrived within 1.0 s\n", d.door.url+"/mattermost/doctor. Its log says why", "\n                          127.0.0.1\n", "1 thing to mend.")
		_, words, _ := strings.Cut(d.out.String(), "one of these words:\n")
		for line := range strings.Lines(words) { // they are not folded
			if utf8.RuneCountInString(line) > 81 {
				t.Errorf("too long for a terminal: %s", line)
			}
		}
		if text := d.left(post); text != "This was a test of approvalbot. No press of its button has arrived." {
			t.Errorf("it says %q", text)
		}
	})
	t.Run("Mattermost may not call into its network", func(t *testing.T) {
		t.Parallel()
		d := newTrying(t, mattermosttest.Config{Allowed: []string{}}, "callback_allow: [10.0.0.7]", allowedHere)
		post := d.begin("--wait", "2s")
		if o := d.press(post); o.Status != http.StatusBadRequest {
			t.Errorf("%+v", o)
		}
		wantText(t, d.ends(exitBlock), "address forbidden   System Console > Environment > Developer")
		d.left(post)
	})
	t.Run("the post is deleted", func(t *testing.T) {
		t.Parallel()
		d := newTrying(t, mattermosttest.Config{}, "callback_allow: [10.0.0.7]", allowedHere)
		d.mm.Remove(d.begin().ID)
		wantText(t, d.ends(exitBlock), "FAIL  round trip      the post with the button is gone: ", "leave the post until it says that it works")
	})
}

func TestDoctorMattermostPostsNoButtonWhereItCannot(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		args    []string
		changes []string
		before  func(*trying)
		says    string
	}{
		{
			name: "the bot is not in the conversation", args: []string{"acme/alien"},
			before: func(d *trying) {
				d.mm.AddChannel(mattermosttest.Channel{ID: "c1alien0000000000000000000", Name: "alien"})
			},
			says: "FAIL  round trip      no button could be posted in acme/alien: You do not have the appropriate permissions. (api.context.permissions.app_error)\n" +
				"      invite the bot, and let it post there; or name another conversation: --press team/channel\n",
		},
		{
			name: "Mattermost is down", before: func(d *trying) { d.mm.Fail("create_post", 0, mattermosttest.HTMLPage(503)) },
			says: "FAIL  round trip      no button could be posted in acme/review: it answers HTTP 503\n      run this again in a minute\n",
		},
		{
			name: "there is no review channel", changes: []string{"review: {mattermost: acme/review}\n", ""},
			says: "FAIL  round trip      not tried: there is no review.mattermost to post a button in\n      name a conversation that the bot is in: --press team/channel\n",
		},
		{
			name: "the server that runs would not know the button", before: func(d *trying) {
				l := listen(d.t, d.home)
				d.write("approvalbot.yaml", changed(d.t, people+wellMattermost, "key_file: server.key\n", "listen: "+l.addr+"\n", "{mattermost}", d.mm.URL()))
			},
			says: "FAIL  round trip      not tried: without a server key, the server that runs would not know the button\n",
		},
		{name: "a conversation without --press", args: []string{"--press=false", "acme/review"}, says: `"acme/review": a conversation goes with --press`},
		{name: "two conversations", args: []string{"acme/review", "acme/ops"}, says: "want one conversation"},
		{name: "what is no conversation", args: []string{"#review"}, says: `"#review" is no channel`},
		{name: "no time", args: []string{"--wait", "0s"}, says: "--wait: 0s is no time to press a button in"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newTrying(t, mattermosttest.Config{}, "callback_allow: [10.0.0.7]", allowedHere)
			if row.changes != nil {
				d.config(changed(t, wellMattermost, append(row.changes, "{mattermost}", d.mm.URL())...))
			}
			if row.before != nil {
				row.before(d)
			}
			r := d.examine(append([]string{"--press"}, row.args...)...)
			wantCode(t, r, exitBlock)
			wantText(t, r.out+r.err, row.says)
			if n := len(d.mm.Posts(opsOnMM)); n > 0 {
				t.Errorf("%d posts", n)
			}
		})
	}
}
