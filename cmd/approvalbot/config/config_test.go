package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const annsKey = "keys: [{name: ann-cli, roles: [approver], person: ann, hash_file: ann.sha256}]\n"

// folder makes the files of a config folder, private ones.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func hash(n int) string { return fmt.Sprintf("%064x\n", n) }

// read loads src beside some secrets, and returns the problems as text without
// the folder.
func read(t testing.TB, src string, env map[string]string) (*Loaded, string) {
	t.Helper()
	dir := folder(t, map[string]string{
		"c.yaml": src, "ann.sha256": hash(1), "bo.sha256": hash(2), "empty": " \n", "short.key": "short", "whsec": hookSecret, "bot": "xoxb-2", "mm": mattermostToken,
		"server.key": strings.Repeat("k", 32) + "\n", "next.key": strings.Repeat("n", 32),
	})
	loaded, problems := Load(filepath.Join(dir, "c.yaml"), func(name string) string { return env[name] })
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return loaded, strings.ReplaceAll(b.String(), dir+string(filepath.Separator), "")
}

func TestEveryMistakeIsReportedAtOnceWithItsLine(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/broken.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded, got := read(t, string(src), nil)
	if loaded != nil {
		t.Error("a broken file was loaded")
	}
	golden(t, "testdata/broken.golden", got)
}

func TestTheSeedConfigLoadsWordForWord(t *testing.T) {
	t.Parallel()
	const seed = `approvals:
  tool_gate:
    require_approval:
      - send_email      # exact name
      - delete_*        # glob: * ? [a-z] {a,b}, case-sensitive, whole name; [^…] refused (it is [!…])
    default_mode: deferred    # or inline
    force_deferred: [send_email]
    allow_inline: [delete_file]
`
	loaded, problems := read(t, seed+annsKey, nil)
	if loaded == nil || problems != "" {
		t.Fatalf("problems:\n%s", problems)
	}
	want := gate.PolicyConfig{ToolGate: &gate.ToolGateConfig{
		RequireApproval: []string{"send_email", "delete_*"}, DefaultMode: "deferred",
		ForceDeferred: []string{"send_email"}, AllowInline: []string{"delete_file"},
	}}
	if diff := cmp.Diff(&want, loaded.Approvals); diff != "" {
		t.Error(diff)
	}
	if loaded.Policy.Disabled() || loaded.Policy.Off() {
		t.Error("the published config leaves the gate off")
	}
	if _, problems = read(t, seed, nil); !strings.Contains(problems, "approv") {
		t.Errorf("without an approver start fails and names the fix; got %q", problems)
	}
}

func TestBareOffIsOff(t *testing.T) {
	t.Parallel()
	for text, off := range map[string]bool{"off": true, "false": true, `"off"`: true, "manual": false} {
		loaded, problems := read(t, "approvals: {mode: "+text+", tool_gate: {require_approval: [x]}}\n"+annsKey, nil)
		if loaded == nil || loaded.Policy.Off() != off {
			t.Errorf("mode: %s: want off %v; problems: %s", text, off, problems)
		}
	}
	for _, text := range []string{"on", "true", "0", "no", "", "[off]"} {
		if loaded, _ := read(t, "approvals: {mode: "+text+", tool_gate: {require_approval: [x]}}\n"+annsKey, nil); loaded != nil {
			t.Errorf("mode: %s was taken for something", text)
		}
	}
}

func TestOneProblem(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ src, want string }{
		"a file that is no YAML":                      {"listen: x: y\n", "c.yaml:1:9: not YAML: mapping value is not allowed in this context"},
		"a second document":                           {"listen: a:1\n---\nlisten: b:2\n", "c.yaml:3:1: a second document or a directive; want one document"},
		"a directive, which could change what off is": {"%YAML 1.1\n---\nlisten: a:1\n", "c.yaml:3:1: a second document or a directive; want one document"},
		"a list where keys are wanted":                {"- a\n", "c.yaml:1:1: want keys and values"},
		"a word where keys are wanted":                {"approvers: sre\n", "c.yaml:1:12: approvers: want keys and values"},
		"an alias":                                    {"listen: *a\n", "c.yaml:1:9: listen: anchors, aliases and merge keys are not read; write it out"},
		"an anchor":                                   {"people: &p []\n", "c.yaml:1:9: people: anchors, aliases and merge keys are not read; write it out"},
		"a merge key":                                 {"<<: {listen: a}\n", "c.yaml:1:1: anchors, aliases and merge keys are not read; write it out"},
		"a tag":                                       {"listen: !!str a:1\n", "c.yaml:1:9: listen: tags are not read; put a text in quotes"},
		"a key twice":                                 {"listen: a:1\nlisten: a:2\n", `c.yaml:2:1: listen: the key "listen" is here already`},
		"a key twice in a quorum":                     {"approvals: {tool_gate: {rules: [{match: {tool: x}, quorum: {a: 1, a: 2}}]}}\n" + annsKey, `c.yaml:1:52: approvals.tool_gate.rules[0].quorum: the key "a" is here already`},
		"a key that is a number":                      {"1: a\n", "c.yaml:1:1: want a text as key; put it in quotes if it is meant to be one"},
		"an empty key":                                {`"": a` + "\n", "c.yaml:1:1: want a text as key; put it in quotes if it is meant to be one"},
		"a key without a value, which could be a gate": {"approvals:\n  tool_gate:\n", "c.yaml:2:3: approvals.tool_gate: no value; give one or take the key out"},
		"a slip of the pen":                            {"approvls: {}\n", `c.yaml:1:1: approvls: no such key; did you mean "approvals"?`},
		"a key of another program":                     {"people: [{name: ann, color: red}]\n", "c.yaml:1:22: people[0].color: no such key; want one of name, keys, slack, mattermost, emails"},
		"a negative number":                            {"store: {redis: {addrs: [a], db: -1}}\n", "c.yaml:1:33: store.redis.db: want a whole number that is not negative"},
		"a number with a fraction":                     {"store: {redis: {addrs: [a], db: 1.5}}\n", "c.yaml:1:33: store.redis.db: want a whole number that is not negative"},
		"a number that is too large":                   {"store: {redis: {addrs: [a], db: 9223372036854775808}}\n", "c.yaml:1:33: store.redis.db: want a whole number that is not negative"},
		"a public URL with a user":                     {"public_url: https://me@a.example\n", "c.yaml:1:13: public_url: want a scheme and a host and nothing more, like https://approvals.example.com"},
		"a list that gates nothing":                    {"approvals: {tool_gate: {force_deferred: [x]}}\n" + annsKey, `c.yaml:1:42: approvals.tool_gate.force_deferred[0]: warning: "x" only chooses a mode, and nothing holds such a tool; add it to require_approval or to a rule`},
		"a store that does not exist":                  {"store: disk\n", `c.yaml:1:8: store: store "disk": want embedded, memory, or {redis: {addrs: ["host:port"]}}`},
		"a store without an address":                   {"store: {durability: strict}\n", `c.yaml:1:1: store.redis.addrs: want one address, like ["localhost:6379"]`},
		"a Redis and one of its own":                   {"store: {redis: {addrs: [a]}, embedded: {dir: data}}\n", "c.yaml:1:9: store.redis: an embedded store has a Redis of its own; keep one of redis and embedded"},
		"an unknown durability":                        {"store: {redis: {addrs: [a]}, durability: none}\n", `c.yaml:1:42: store.durability: "none": want strict or standard`},
		"two servers":                                  {"store: {redis: {addrs: [a, b]}}\n", "c.yaml:1:17: store.redis.addrs: want one address; if these are Sentinels add sentinel: {master: NAME}, if they are nodes of a Cluster add cluster: true"},
		"an address that is empty":                     {"store: {redis: {cluster: true, addrs: [a, \"\"]}}\n", `c.yaml:1:32: store.redis.addrs: want one address, like ["localhost:6379"]`},
		"Sentinels and a Cluster":                      {"store: {redis: {addrs: [a], cluster: true, sentinel: {master: m}}}\n", "c.yaml:1:38: store.redis.cluster: sentinel is given too; keep one of them"},
		"Sentinels of no primary":                      {"store: {redis: {addrs: [a], sentinel: {username: u}}}\n", "c.yaml:1:29: store.redis.sentinel.master: want the name that the Sentinels have for the primary, like mymaster"},
		"Sentinels on a unix socket":                   {"store: {redis: {addrs: [/a], sentinel: {master: m}}}\n", "c.yaml:1:17: store.redis.addrs: want host:port; Sentinels and Clusters are not on unix sockets"},
		"a database of a Cluster":                      {"store: {redis: {addrs: [a], cluster: true, db: 1}}\n", "c.yaml:1:48: store.redis.db: a Cluster has database 0 alone; take this out"},
		"standard on a Cluster":                        {"store: {durability: standard, redis: {addrs: [a], cluster: true}}\n", "c.yaml:1:21: store.durability: standard needs one primary that nothing takes over from; with sentinel or cluster use strict"},
		"standard that waits":                          {"store: {durability: standard, wait_replicas: 1, redis: {addrs: [a]}}\n", "c.yaml:1:46: store.wait_replicas: standard has no replicas to wait for; use durability strict"},
		"a time to wait for nobody":                    {"store: {wait_timeout: 100ms, redis: {addrs: [a]}}\n", "c.yaml:1:23: store.wait_timeout: nothing is waited for; give wait_replicas, or take this out"},
		"a long time to wait":                          {"store: {wait_replicas: 1, wait_timeout: 2s, redis: {addrs: [a]}}\n", "c.yaml:1:41: store.wait_timeout: want a time from 1ms to 1s, like 500ms"},
		"no time to wait":                              {"store: {wait_replicas: 1, wait_timeout: soon, redis: {addrs: [a]}}\n", "c.yaml:1:41: store.wait_timeout: want a time from 1ms to 1s, like 500ms"},
		"an address without a port":                    {"listen: localhost\n", "c.yaml:1:9: listen: want host:port, like 127.0.0.1:8080"},
		"a port that is none":                          {"listen: 'localhost:http'\n", "c.yaml:1:9: listen: want host:port, like 127.0.0.1:8080"},
		"a public URL with a path":                     {"public_url: https://a.example/x\n", "c.yaml:1:13: public_url: want a scheme and a host and nothing more, like https://approvals.example.com"},
		"a public URL of another scheme":               {"public_url: ftp://a.example\n", "c.yaml:1:13: public_url: want a scheme and a host and nothing more, like https://approvals.example.com"},
		"a secret in the file itself":                  {"key: kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n", "c.yaml:1:6: key: a secret has no place in this file; write ${NAME} to take it from the environment, or use key_file"},
		"a secret within a text":                       {"key: x${KEY}\n", "c.yaml:1:6: key: a secret has no place in this file; write ${NAME} to take it from the environment, or use key_file"},
		"a secret that is not set":                     {"key: ${NONE}\n", "c.yaml:1:6: key: NONE is not set in the environment"},
		"a variable where no secret is":                {"listen: ${KEY}\n", "c.yaml:1:9: listen: only secrets are read from the environment; write the value here"},
		"a secret file that is not there":              {"key_file: none\n", "c.yaml:1:11: key_file: open none: no such file or directory"},
		"a secret file that is empty":                  {"key_file: empty\n", "c.yaml:1:11: key_file: empty is empty"},
		"a secret file without a name":                 {"key_file: ''\n", "c.yaml:1:11: key_file: want the path of a file"},
		"a short server key":                           {"key_file: short.key\n", "c.yaml:1:11: key_file: a server key has at least 32 bytes; make one with `approvalbot keys server`"},
		"a short key to verify with":                   {"key_file: server.key\nverify_key_files: [next.key, short.key]\n", "c.yaml:2:30: verify_key_files[1]: a server key has at least 32 bytes; make one with `approvalbot keys server`"},
		"a short server key from the environment":      {"key: ${SHORT}\n", "c.yaml:1:6: key: a server key has at least 32 bytes; make one with `approvalbot keys server`"},
		"a Slack without a token":                      {`channels: {slack: {app_token: "${APP}"}}` + "\n", "c.yaml:1:12: channels.slack.bot_token_file: the bot token is missing: Slack app, OAuth & Permissions, Bot User OAuth Token"},
		"a token given twice":                          {`channels: {slack: {app_token: "${APP}", bot_token: "${BOT}", bot_token_file: bot}}` + "\n", "c.yaml:1:52: channels.slack.bot_token: given here and as channels.slack.bot_token_file; keep one"},
		"cards without a conversation":                 {`channels: {slack: {app_token: "${APP}", bot_token: "${BOT}"}}` + "\napprovers: {default: [g], groups: {g: {slack_users: [U1]}}}\napprovals: {tool_gate: {require_approval: [x]}}\n", `c.yaml:1:12: channels.slack: warning: cards of rule "x" have no conversation here, unless the call came from one; set review: {slack: C0REVIEW}`},
		"cards where no approver is":                   {`channels: {slack: {app_token: "${APP}", bot_token: "${BOT}"}, mattermost: {url: "https://mm.example", token: "${MM}"}}` + "\npublic_url: https://a.example\nreview: {slack: C1}\napprovers: {default: [g], groups: {g: {mattermost_channel_members: [acme/sre]}}}\napprovals: {tool_gate: {require_approval: [x]}}\n", `c.yaml:1:63: channels.mattermost: warning: cards of rule "x" have no conversation here, unless the call came from one; set review: {mattermost: acme/approvals}`},
		"a Mattermost without a token":                 {`channels: {mattermost: {url: "https://mm.example"}}` + "\npublic_url: https://a.example\n", "c.yaml:1:12: channels.mattermost.token_file: the bot's token is missing: Integrations, Bot Accounts, Create New Token"},
		"a Mattermost that cannot call back":           {`channels: {mattermost: {url: "https://mm.example", token: "${MM}"}}` + "\n", "c.yaml:1:12: channels.mattermost.callback_url: Mattermost cannot reach this server: set public_url, or callback_url if Mattermost reaches it elsewhere"},
		"a Mattermost that can be listened in on":      {`channels: {mattermost: {url: "http://mm.example", token: "${MM}", callback_url: "https://a.example"}}` + "\n", "c.yaml:1:30: channels.mattermost.url: warning: http: the bot's token can be read on the way, and whose press it was be forged; use https"},
		"a command's token given twice":                {`channels: {mattermost: {url: "https://mm.example", token: "${MM}", callback_url: "https://a.example", commands: [{team: acme, token: "${MM}", token_file: mm}]}}` + "\n", "c.yaml:1:134: channels.mattermost.commands[0].token: given here and as channels.mattermost.commands[0].token_file; keep one"},
		"a conversation that is none of Mattermost's":  {`channels: {mattermost: {url: "https://mm.example", token: "${MM}", callback_url: "https://a.example"}}` + "\nreview: {mattermost: approvals}\n", `c.yaml:2:22: review.mattermost: "approvals" is no channel; want team/channel as they are in addresses, like acme/approvals, or a channel's id`},
		"cards for a chat that is none":                {"review: {slack: C1}\n", `c.yaml:1:17: review.slack: no channel named "slack" is configured; add channels.slack, or take it out`},
		"operators by name":                            {`channels: {slack: {app_token: "${APP}", bot_token: "${BOT}"}}` + "\noperators: {slack: '#ops'}\n", `c.yaml:2:20: operators.slack: "#ops" is no id of a conversation; want Slack's own, like C0PROD, which never changes`},
		"two server keys":                              {"key: ${KEY}\nkey_file: server.key\n", "c.yaml:2:11: key_file: key and key_file are both given; keep one"},
		"keys that verify and none that signs":         {"verify_key_files: [server.key]\n", "c.yaml:1:1: verify_key_files: keys that only verify need one that signs; give key_file"},
		"an agent that may decide":                     {"keys: [{name: a, roles: [agent, approver], person: a, hash_file: ann.sha256}]\n", "c.yaml:1:18: keys[0].roles: whoever asks must not decide, read others' calls, or set a bypass: use a key of its own for that"},
		"a public URL that can be listened in on":      {"public_url: http://a.example\n", "c.yaml:1:13: public_url: warning: http: what approvers send can be read and changed on the way; use https"},
		"a public URL on another machine":              {"public_url: http://10.0.0.1\n", "c.yaml:1:13: public_url: warning: http: what approvers send can be read and changed on the way; use https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, got := read(t, row.src, map[string]string{"KEY": strings.Repeat("e", 32), "SHORT": "e", "APP": "xapp-1", "BOT": "xoxb-1", "MM": mattermostToken})
			if diff := cmp.Diff(row.want+"\n", got); diff != "" {
				t.Error(diff)
			}
			if warning := strings.Contains(row.want, ": warning: "); (loaded != nil) != warning {
				t.Errorf("loaded %v, want %v", loaded != nil, warning)
			}
		})
	}
}

func TestAnEmptyFileKeepsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"", "\n", "# nothing\n", "---\n", "{}\n", "\ufeff# nothing\r\n"} {
		loaded, problems := read(t, src, nil)
		if loaded == nil || problems != "" {
			t.Fatalf("%q: %s", src, problems)
		}
		if diff := cmp.Diff(defaults, loaded.Config, cmp.AllowUnexported(secret.String{})); diff != "" {
			t.Errorf("%q: %s", src, diff)
		}
		if !loaded.Policy.Disabled() || loaded.Keyring != nil {
			t.Errorf("%q: policy disabled %v, keyring %v", src, loaded.Policy.Disabled(), loaded.Keyring)
		}
	}
}

func TestSecretsAndPaths(t *testing.T) {
	t.Parallel()
	loaded, problems := read(t, "store: memory\nkey: ${KEY}\nverify_key_files: [next.key]\n", map[string]string{"KEY": strings.Repeat("e", 32)})
	if loaded == nil || problems != "" || !loaded.Store.Memory {
		t.Fatalf("a server key from the environment: %s", problems)
	}
	if n := len(loaded.Keyring.Fingerprints()); n != 2 {
		t.Errorf("%d server keys, want 2", n)
	}
	for name, print := range map[string]string{"%v": fmt.Sprintf("%+v", loaded.Config), "YAML": marshal(t, loaded.Config)} {
		if strings.Contains(print, "eee") {
			t.Errorf("%s prints the key", name)
		}
	}
	fromFile, _ := read(t, "key_file: server.key\n", nil)
	fromEnv, _ := read(t, "key: ${KEY}\n", map[string]string{"KEY": strings.Repeat("k", 32)})
	if diff := cmp.Diff(fromEnv.Keyring.Fingerprints(), fromFile.Keyring.Fingerprints()); diff != "" {
		t.Errorf("the newline at the end of a key file counts: %s", diff)
	}
	if !filepath.IsAbs(fromFile.KeyFile) {
		t.Errorf("key_file is %s, not a path from the file's folder", fromFile.KeyFile)
	}
}

func TestASecretThatEverybodyCanReadIsDoubted(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"c.yaml": "key_file: server.key\n" + annsKey, "server.key": strings.Repeat("k", 32), "ann.sha256": hash(1)})
	for _, f := range []string{"server.key", "ann.sha256"} {
		if err := os.Chmod(filepath.Join(dir, f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loaded, problems := Load(filepath.Join(dir, "c.yaml"), os.Getenv)
	if loaded == nil || len(problems) != 1 || !problems[0].Warning || problems[0].Path != "key_file" {
		t.Errorf("want one warning, about key_file; got %v", problems)
	}
	if err := os.WriteFile(filepath.Join(dir, "server.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if loaded, problems = Load(filepath.Join(dir, "c.yaml"), os.Getenv); loaded != nil || len(problems) != 2 {
		t.Errorf("want the warning and the mistake; got %v", problems)
	}
}

func TestFilesThatAreNotThereOrTooLarge(t *testing.T) {
	t.Parallel()
	if loaded, problems := Load(filepath.Join(t.TempDir(), "none.yaml"), os.Getenv); loaded != nil || len(problems) != 1 {
		t.Errorf("a missing file: %v", problems)
	}
	if _, problems := read(t, strings.Repeat("# filler\n", maxFile/9+1), nil); !strings.Contains(problems, "larger than 1 MiB") {
		t.Errorf("a large file: %s", problems)
	}
}

// mattermostToken looks like one.
const mattermostToken = "x1t4k3nx1t4k3nx1t4k3nx1t4k"

func TestTheExampleIsWholeAndRight(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 32)
	program := filepath.Join(t.TempDir(), "restart")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/usr/local/bin/restart", program, "/usr/local/bin/mcp-files", program, "/var/empty", os.TempDir()).Replace(Example)
	dir := folder(t, map[string]string{
		"c.yaml": text, "secrets/ops-webhook": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "secrets/ops-webhook-old": "whsec_" + strings.Repeat("A", 32),
		"secrets/builder.sha256": hash(4), "secrets/mcp-token": "x", "secrets/server.key": key, "secrets/next-server.key": "next" + key, "secrets/redis-password": "x",
		"secrets/slack-bot-token": "xoxb-x", "secrets/slack-app-token": "xapp-x",
		"secrets/mattermost-token": mattermostToken, "secrets/mattermost-command-token": mattermostToken,
		"secrets/callback-secret": hookSecret, "secrets/hook-secret": hookSecret, "secrets/hook-secret-before": hookSecret,
		"tls/ca.pem": authority(t), "tls/client.pem": "x", "tls/client.key": "x",
		"secrets/hermes.sha256": hash(1), "secrets/ann-cli.sha256": hash(2), "secrets/bo-cli.sha256": hash(3),
	})
	loaded, problems := Load(filepath.Join(dir, "c.yaml"), os.Getenv)
	if loaded == nil || len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	if loaded.Policy.Disabled() || loaded.Policy.Off() {
		t.Error("the example leaves the gate off")
	}
	for _, name := range keysOf(reflect.TypeFor[Config]()) {
		if !regexp.MustCompile(`(?m)(^|[\s{])` + name + `:`).MatchString(Example) {
			t.Errorf("the example says nothing about %s", name)
		}
	}
	for _, word := range []string{"store: memory", "store: embedded"} {
		if !strings.Contains(Example, word) {
			t.Errorf("the example says nothing of %s", word)
		}
	}
}

func TestDataOfAnEmbeddedStoreLiesBesideTheFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"store: memory":                           "approvalbot-data",
		"store: embedded":                         "approvalbot-data",
		"store: {embedded: {}}":                   "approvalbot-data",
		"store: {embedded: {dir: kept/here}}":     "kept/here",
		"store: {embedded: {dir: /var/lib/kept}}": "/var/lib/kept",
	} {
		dir := folder(t, map[string]string{"c.yaml": text})
		loaded, problems := Load(filepath.Join(dir, "c.yaml"), os.Getenv)
		if loaded == nil {
			t.Fatal(problems)
		}
		if !filepath.IsAbs(want) {
			want = filepath.Join(dir, want)
		}
		if loaded.DataDir != want || loaded.Store.Embedded != nil && loaded.Store.Embedded.Dir != want {
			t.Errorf("%s: data in %s, %+v; want %s", text, loaded.DataDir, loaded.Store.Embedded, want)
		}
	}
}

// keysOf lists every key of the file, however deep.
func keysOf(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return keysOf(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[gate.QuorumConfig]() || t == reflect.TypeFor[secret.String]() {
			return nil // it reads itself
		}
		for _, f := range fieldsOf(t) {
			names = append(names, f.name)
			names = append(names, keysOf(t.FieldByIndex(f.index).Type)...)
		}
	default: // a word or a number
	}
	return names
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"lisen": "listen", "listens": "listen", "lisden": "listen", "listten_": "listen", "keyz": "keys", "peolpe": "people", "store": "", "x": ""} {
		if got := nearest(key, []string{"keyring", "keys", "people", "listen", "lister"}); got != want {
			t.Errorf("nearest(%s) = %q, want %q", key, got, want)
		}
	}
}

func TestPlainHTTPIsFineOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost:8080", "127.0.0.1", "[::1]:8080"} {
		if loaded, problems := read(t, "public_url: http://"+host+"\n", nil); loaded == nil || problems != "" {
			t.Errorf("%s: %s", host, problems)
		}
	}
}

func TestEveryKeyHasAName(t *testing.T) {
	t.Parallel()
	names := keysOf(reflect.TypeFor[Config]())
	for _, name := range names {
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(name) {
			t.Errorf("%q is no name for a key", name)
		}
	}
	if len(names) < 40 {
		t.Errorf("only %d keys found: %v", len(names), names)
	}
}

// readable is what the YAML library can read as well, for comparison.
type readable struct {
	Listen    string               `yaml:"listen"`
	Approvers gate.ApproversConfig `yaml:"approvers"`
	People    []gate.PersonConfig  `yaml:"people"`
	Keys      []bot.KeyConfig      `yaml:"keys"`
	Approvals *gate.PolicyConfig   `yaml:"approvals"`
}

func FuzzLoad(f *testing.F) {
	broken, err := os.ReadFile("testdata/broken.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(broken)
	f.Add([]byte(Example))
	for _, s := range []string{"", "a: [", "listen: |\n  x\n", "? a\n: b", "approvals: {mode: off}", "keys: [{name: 'a', roles: [agent]}]", "\ufefflisten: a", "&a : *a", "- - -", "approvals:\n  tool_gate:\n    rules:\n    - quorum: {a: 1}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		_, problems := load(filepath.Join("nowhere", "c.yaml"), src, func(string) string { return "" })
		lines := bytes.Count(src, []byte("\n")) + bytes.Count(src, []byte("\r")) + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Col < 1 || p.Text == "" {
				t.Errorf("a problem nowhere: %+v", p)
			}
		}
		var mine, again, theirs readable
		d := decoder{}
		if d.document(src, &mine); len(d.problems) > 0 {
			return
		}
		(&decoder{}).document(src, &again)
		if diff := cmp.Diff(mine, again); diff != "" {
			t.Errorf("read twice: %s", diff)
		}
		if err := yaml.Unmarshal(bytes.TrimPrefix(src, []byte("\ufeff")), &theirs); err != nil {
			return // stricter in other ways
		}
		if diff := cmp.Diff(marshal(t, mine), marshal(t, theirs)); diff != "" {
			t.Errorf("the library reads something else: %s", diff)
		}
	})
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", file, diff)
	}
}
