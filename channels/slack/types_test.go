package slack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// kinds says what Slack's types call each thing that can be sent. A view's own
// type lets any block in, so its blocks are named here.
const kinds = `import type { HomeView, KnownBlock, ModalView } from "@slack/types";

export type Blocks = KnownBlock[];
export type Message = { text: string; blocks: Blocks };
export type Modal = Omit<ModalView, "blocks"> & { blocks: Blocks };
export type Home = Omit<HomeView, "blocks"> & { blocks: Blocks };
`

// wrong is what Slack's types must refuse. As long as they do, what they let pass
// means something.
var wrong = map[string]string{
	"a button in a colour that there is not": `[{"type": "actions", "elements": [{"type": "button", "style": "purple", "text": {"type": "plain_text", "text": "Approve"}}]}]`,
	"a button without a text":                `[{"type": "actions", "elements": [{"type": "button", "style": "danger", "action_id": "deny"}]}]`,
	"a header without a text":                `[{"type": "header"}]`,
	"a header with markup":                   `[{"type": "header", "text": {"type": "mrkdwn", "text": "*x*"}}]`,
	"a block that there is not":              `[{"type": "headline", "text": {"type": "plain_text", "text": "x"}}]`,
	"a property that a block has not":        `[{"type": "section", "colour": "red", "text": {"type": "plain_text", "text": "x"}}]`,
	"a property that a text has not":         `[{"type": "context", "elements": [{"type": "plain_text", "text": "x", "size": "small"}]}]`,
	"a property that plain text has not":     `[{"type": "section", "text": {"type": "plain_text", "text": "x", "verbatim": true}}]`,
	"a property deep in rich text":           `[{"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "x", "bold": true}]}]}]`,
	"a confirmation without a question":      `[{"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "x"}, "confirm": {"title": {"type": "plain_text", "text": "x"}}}]}]`,
	"a menu with an option without a text":   `[{"type": "actions", "elements": [{"type": "static_select", "options": [{"value": "once"}]}]}]`,
	"an input in a row of buttons":           `[{"type": "actions", "elements": [{"type": "plain_text_input"}]}]`,
	"null for a text":                        `{"text": null, "blocks": []}`,
	"a message with a property too many":     `{"text": "x", "blocks": [], "colour": "red"}`,
	"a message with a wrong block":           `{"text": "x", "blocks": [{"type": "header"}]}`,
	"a modal without a title":                `{"type": "modal", "blocks": []}`,
	"a modal with a property too many":       `{"type": "modal", "title": {"type": "plain_text", "text": "x"}, "blocks": [], "style": "primary"}`,
	"a modal with a wrong block":             `{"type": "modal", "title": {"type": "plain_text", "text": "x"}, "blocks": [{"type": "input", "label": {"type": "plain_text", "text": "x"}}]}`,
	"a home with a wrong block":              `{"type": "home", "blocks": [{"type": "header"}]}`,
	"a key twice":                            `{"text": "x", "text": "y", "blocks": []}`,
}

// TestGoldenFilesAreOfSlacksTypes gives all that is sent to Slack to the types
// that Slack publishes. JSON is written as it is into TypeScript, for what is
// imported as JSON may have properties too many.
func TestGoldenFilesAreOfSlacksTypes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(slackTypes(t), "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "tsconfig.json", `{"compilerOptions": {"strict": true, "noEmit": true, "module": "nodenext", "types": []}}`)
	write(t, dir, "kinds.ts", kinds)
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, strings.TrimSuffix(filepath.Base(file), ".json")+".ts", emitted(t, golden))
	}
	var names []string
	for name, literal := range wrong {
		names = append(names, name)
		write(t, dir, "wrong "+name+".ts", emitted(t, []byte(literal)))
	}
	slices.Sort(names)

	refused := compile(t, dir)
	for _, name := range names {
		if refused["wrong "+name+".ts"] == "" {
			t.Errorf("%s is not refused", name)
		}
		delete(refused, "wrong "+name+".ts")
	}
	for file, why := range refused {
		t.Errorf("%s is not of Slack's types:\n%s", file, why)
	}
}

// emitted writes JSON as a TypeScript module whose one value has the type that the
// JSON says it is of.
func emitted(t *testing.T, literal []byte) string {
	t.Helper()
	kind := "Blocks"
	if literal = bytes.TrimSpace(literal); literal[0] != '[' {
		var whole struct{ Type string }
		if err := json.Unmarshal(literal, &whole); err != nil {
			t.Fatal(err)
		}
		switch whole.Type {
		case "":
			kind = "Message"
		case "modal":
			kind = "Modal"
		case "home":
			kind = "Home"
		default:
			t.Fatalf("what is %q?", whole.Type)
		}
	}
	return fmt.Sprintf("import type { %s } from \"./kinds.js\";\n\nexport const sent: %[1]s = %s;\n", kind, literal)
}

var complaint = regexp.MustCompile(`^([^(]+\.ts)\(\d+,\d+\): error TS`)

// compile returns what the compiler says, by file.
func compile(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("node_modules", "typescript", "bin", "tsc"), "--pretty", "false", "-p", ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, refused := errors.AsType[*exec.ExitError](err); err != nil && !refused {
		t.Fatal(err)
	}
	said, file := map[string]string{}, ""
	for line := range strings.Lines(string(out)) {
		if m := complaint.FindStringSubmatch(line); m != nil {
			file = m[1]
		} else if !strings.HasPrefix(line, " ") {
			t.Fatalf("the compiler fails: %s", out)
		}
		said[file] += line
	}
	return said
}

// slackTypes is a folder with Slack's types and a compiler, of the versions in
// testdata/types. It is filled once, beside its place, and then moved there, so
// that nobody sees it half full.
func slackTypes(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			without(t, program+" is missing: apt-get install nodejs npm")
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string][]byte{}
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		if wanted[name], err = os.ReadFile(filepath.Join("testdata", "types", name)); err != nil {
			t.Fatal(err)
		}
		hash.Write(wanted[name])
	}
	place := filepath.Join(cache, fmt.Sprintf("approvalbot-slack-types-%x", hash.Sum(nil)[:6]))
	if _, err := os.Stat(place); err == nil {
		return place
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	draft, err := os.MkdirTemp(cache, "approvalbot-slack-types-*.new")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(draft) })
	for name, content := range wanted {
		write(t, draft, name, string(content))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir, cmd.WaitDelay = draft, 10*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		without(t, fmt.Sprintf("Slack's types cannot be installed: %v\n%s", err, out))
	}
	if err := os.Rename(draft, place); err != nil {
		if _, err := os.Stat(place); err != nil { // else another test was faster
			t.Fatal(err)
		}
	}
	return place
}

// without ends a test that misses what it needs, loudly where it must run.
func without(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
