package manifests_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/cmd/approvalbot/config"
)

// settings reads a part of a config.json as Mattermost does, but heeds what it does
// not know.
func settings(raw []byte) (model.ServiceSettings, error) {
	var c model.Config
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	return c.ServiceSettings, err
}

func TestMattermostKnowsTheSettings(t *testing.T) {
	t.Parallel()
	raw := read(t, "mattermost/settings.json")
	s, err := settings([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"SiteURL": "https://mattermost.example.com", "AllowedUntrustedInternalConnections": "approvals.internal.example.com",
		"EnableBotAccountCreation": true, "EnableCommands": true, "OutgoingIntegrationRequestsTimeout": int64(30), "PostEditTimeLimit": -1,
	}
	got := map[string]any{
		"SiteURL": *s.SiteURL, "AllowedUntrustedInternalConnections": *s.AllowedUntrustedInternalConnections,
		"EnableBotAccountCreation": *s.EnableBotAccountCreation, "EnableCommands": *s.EnableCommands,
		"OutgoingIntegrationRequestsTimeout": *s.OutgoingIntegrationRequestsTimeout, "PostEditTimeLimit": *s.PostEditTimeLimit,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := settings([]byte(strings.Replace(raw, "EnableCommands", "EnableCommand", 1))); err == nil {
		t.Error("a slip of the pen is not found")
	}
	doc := read(t, "../docs/mattermost.md")
	for name := range want {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("docs/mattermost.md does not say what %s is for", name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestTheConfigurationsAreTaken reads them as approvalbot does, beside the secrets that
// setup.sh and `approvalbot keys` make.
func TestTheConfigurationsAreTaken(t *testing.T) {
	t.Parallel()
	_, doc, _ := strings.Cut(read(t, "../docs/mattermost.md"), "\n`approvalbot.yaml`:\n\n```yaml\n")
	doc, _, _ = strings.Cut(doc, "```")
	for name, c := range map[string]struct{ text, warns string }{
		"of one machine": {read(t, "mattermost/approvalbot.yaml"), "channels.mattermost.url"}, // http, which nobody else sees
		"of the docs":    {doc, "store"},                                                      // memory, to try it
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{
			"approvalbot.yaml": c.text, "secrets/server.key": strings.Repeat("k", 32), "keys/hermes.sha256": strings.Repeat("0", 64),
			"secrets/mattermost-token": strings.Repeat("b", 26), "secrets/mattermost-command-token": strings.Repeat("c", 26),
		} {
			file = filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		loaded, problems := config.Load(filepath.Join(dir, "approvalbot.yaml"), func(string) string { return "" })
		for _, p := range problems {
			if !p.Warning || p.Path != c.warns {
				t.Error(name, p)
			}
		}
		if loaded == nil || loaded.Config.Channels.Mattermost == nil {
			t.Errorf("%s: no Mattermost", name)
		}
	}
}

type compose struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Build       map[string]string `yaml:"build"`
		Environment map[string]string `yaml:"environment"`
		Ports       []string          `yaml:"ports"`
		Volumes     []string          `yaml:"volumes"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

// TestWhatIsTriedOnOneMachineFitsTogether holds what compose.yaml starts against what
// approvalbot.yaml calls.
func TestWhatIsTriedOnOneMachineFitsTogether(t *testing.T) {
	t.Parallel()
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "mattermost/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "mattermost", "redis", "approvalbot"} {
		s, there := c.Services[name]
		if !there || (s.Image == "") == (s.Build == nil) || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: want one image of a version, or a place to build it from: %+v", name, s)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, known := c.Volumes[from]
			if mount := strings.HasPrefix(from, "./"); !known && !mount || mount && !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s: volume %s", name, v)
			}
		}
	}
	text := read(t, "mattermost/approvalbot.yaml")
	for _, want := range []string{"url: http://mattermost:8065", "callback_url: http://approvalbot:8080", `addrs: ["redis:6379"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("approvalbot.yaml has no %s", want)
		}
	}
	allowed := c.Services["mattermost"].Environment["MM_SERVICESETTINGS_ALLOWEDUNTRUSTEDINTERNALCONNECTIONS"]
	if !slices.Contains(strings.Fields(allowed), "approvalbot") {
		t.Errorf("Mattermost may call %q, and so no button works", allowed)
	}
}

// mmctl does as the real one does, as far as setup.sh asks for it, and keeps what it
// was asked for in the folder $STATE.
const mmctl = `#!/bin/sh
set -eu
echo "$*" >>"$STATE/calls"
case "$*" in
"config get ServiceSettings."*) name=${3#*.}
    if [ -f "$STATE/$name" ]; then cat "$STATE/$name"; else echo '""'; fi ;;
"config set ServiceSettings.EnableBotAccountCreation "* | "config set ServiceSettings.EnableCommands "*) echo "$4" >"$STATE/${3#*.}" ;;
"config set "*) echo "\"$4\"" >"$STATE/${3#*.}" ;;
"bot list --all") echo "8k3w9m2x7c5v1b6n4q0z8a2s5d: boss(Owned by ann, Enabled)"; cat "$STATE/bots" 2>/dev/null || : ;;
"bot create "*) echo "9k3w9m2x7c5v1b6n4q0z8a2s5d: $3(Owned by ann, Enabled)" >>"$STATE/bots"; echo "Created bot" ;;
"token generate "*) [ ! -f "$STATE/no-tokens" ] || { echo "Error: no" >&2; exit 1; }
    echo "tttttttttttttttttttttttt01: $4" ;;
"channel list "*) echo town-square; cat "$STATE/channels" 2>/dev/null || : ;;
"channel create "*) echo "$6 (private)" >>"$STATE/channels" ;;
"team users add "* | "channel users add "*) ;;
"--json command create "*) printf '{\n  "id": "x",\n  "token": "cccccccccccccccccccccccc01",\n  "team_id": "y"\n}\n' ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`

// setUp is a place to run setup.sh in.
type setUp struct {
	t   *testing.T
	dir string
}

func newSetUp(t *testing.T) *setUp {
	t.Helper()
	s := &setUp{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.dir, "mmctl"), []byte(mmctl), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("SiteURL", `"https://mattermost.example.com"`)
	s.write("AllowedUntrustedInternalConnections", `"jira.internal 10.9.0.0/16"`)
	return s
}

func (s *setUp) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs setup.sh and returns what it says, and whether all went well.
func (s *setUp) run(env ...string) (said string, ok bool) {
	s.t.Helper()
	script, err := filepath.Abs("mattermost/setup.sh")
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(s.t.Context(), "sh", script)
	c.Dir = s.dir
	c.Env = append([]string{"PATH=" + s.dir + ":" + os.Getenv("PATH"), "STATE=" + s.dir}, env...)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

var acme = []string{"TEAM=acme", "CREATOR=ann", "CALLBACK_URL=https://approvals.internal.example.com:8443"}

func TestSetupMakesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newSetUp(t)
	for _, time := range []string{"the first time", "the second time"} {
		said, ok := s.run(acme...)
		if !ok || strings.Contains(said, "01\n") {
			t.Fatalf("%s it fails, or tells a token:\n%s", time, said)
		}
		for file, want := range map[string]string{
			"secrets/mattermost-token": "tttttttttttttttttttttttt01\n", "secrets/mattermost-command-token": "cccccccccccccccccccccccc01\n",
			"EnableBotAccountCreation": "true\n", "EnableCommands": "true\n",
			"AllowedUntrustedInternalConnections": `"jira.internal 10.9.0.0/16 approvals.internal.example.com"` + "\n",
			"channels":                            "approvals (private)\n",
		} {
			if got := read(t, filepath.Join(s.dir, file)); got != want {
				t.Errorf("%s %s is %q, want %q", time, file, got, want)
			}
		}
	}
	for _, file := range []string{"secrets", "secrets/mattermost-token", "secrets/mattermost-command-token"} {
		if info, err := os.Stat(filepath.Join(s.dir, file)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v %v", file, info.Mode(), err)
		}
	}
	calls := read(t, filepath.Join(s.dir, "calls"))
	for _, once := range []string{"bot create", "token generate", "channel create", "command create", "config set ServiceSettings.Allowed"} {
		if n := strings.Count(calls, once); n != 1 {
			t.Errorf("%s was called %d times", once, n)
		}
	}
	if !strings.Contains(calls, "--url https://approvals.internal.example.com:8443/mattermost/commands --post") {
		t.Errorf("the command leads elsewhere:\n%s", calls)
	}
}

func TestSetupStopsWhereItCannotGoOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text, want string
		env                    []string
	}{
		{"without a SiteURL", "SiteURL", `""`, "SiteURL is empty", acme},
		{"without a token", "no-tokens", "", "no token for secrets/mattermost-token", acme},
		{"without a team", "x", "", "TEAM", []string{"CALLBACK_URL=https://a.example"}},
		{"without an address", "x", "", "CALLBACK_URL", []string{"TEAM=acme"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSetUp(t)
			s.write(c.file, c.text)
			if said, ok := s.run(c.env...); ok || !strings.Contains(said, c.want) {
				t.Errorf("it ends well: %v, and says\n%s", ok, said)
			}
		})
	}
}

func TestSetupLeavesAloneWhatIsNotWanted(t *testing.T) {
	t.Parallel()
	s := newSetUp(t)
	if said, ok := s.run("TEAM=acme", "CALLBACK_URL=https://approvals.example.com", "INTERNAL="); !ok {
		t.Fatal(said)
	}
	if calls := read(t, filepath.Join(s.dir, "calls")); strings.Contains(calls, "command create") || strings.Contains(calls, "set ServiceSettings.Allowed") {
		t.Errorf("it calls\n%s", calls)
	}
}

// TestTheDocsNameWhatSetupTakes looks for the variables of setup.sh.
func TestTheDocsNameWhatSetupTakes(t *testing.T) {
	t.Parallel()
	doc := read(t, "../docs/mattermost.md")
	names := regexp.MustCompile(`\$\{([A-Z]+)[:=]`).FindAllStringSubmatch(read(t, "mattermost/setup.sh"), -1)
	if len(names) < 8 {
		t.Fatalf("%d variables", len(names))
	}
	for _, n := range names {
		if !strings.Contains(doc, "`"+n[1]+"`") && !strings.Contains(doc, n[1]+"=") {
			t.Errorf("docs/mattermost.md has no %s", n[1])
		}
	}
}
