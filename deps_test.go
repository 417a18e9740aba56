// Package approvalbot_test holds what is true of the repository as a whole: who
// may import whom, that every package says what it is for, and that what the
// docs call proved is proved by a test that exists.
package approvalbot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/approvalbot/approvalbot"

// mayImport is the map of the house: which parts each part may know. The longest
// matching prefix counts. Arrows point to gate and never back, siblings never
// meet, and only cmd names concrete parts.
var mayImport = map[string][]string{
	"gate":                 {},
	"store":                {"gate"},
	"store/embedded":       {"gate"}, // runs a server, and knows nothing of what is kept there
	"store/storetest":      {"gate"}, // what any store must do, so not this one
	"store/redistest":      {},       // real servers for tests of any part
	"channels":             {"gate"},
	"channels/channeltest": {"gate", "channels"},
	"channels/slack":       {"gate", "channels"},
	"channels/mattermost":  {"gate", "channels"},
	"bot":                  {"gate", "channels", "bot/wire"},
	"bot/wire":             {"gate"},
	"bot/client":           {"gate", "bot/wire"},
	"bot/api":              {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/audit":            {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/console":          {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/deliver":          {"gate", "bot/wire", "bot/webhook"},                                  // calls outside, in the words of the API
	"bot/execute":          {"gate", "channels", "bot", "bot/wire", "bot/client", "bot/webhook"}, // what it calls outside is guarded there
	"bot/hook":             {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/mcpgw":            {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/mcpserve":         {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/run":              {"gate", "channels", "bot", "bot/wire", "bot/client"},
	"bot/webhook":          {}, // signs and guards for others, and knows no approvals

	// doubles know neither the program nor each other
	"channels/channeltest/double":        {},
	"channels/slack/slacktest":           {"channels/channeltest/double"},
	"channels/mattermost/mattermosttest": {"channels/channeltest/double"},
}

const anything = "cmd" // may import everything

// tests of a package may put real parts together, so only its own imports count.
func TestImportsFollowTheMap(t *testing.T) {
	t.Parallel()
	edges := 0
	for line := range strings.Lines(list(t, `{{.ImportPath}} {{join .Imports " "}}`)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		from := part(pkg)
		if from == "" {
			t.Errorf("%s has no place in the map", pkg)
		}
		for imp := range strings.FieldsSeq(imports) {
			to, ours := part(imp), strings.HasPrefix(imp, module+"/")
			if !ours || to == from {
				continue
			}
			edges++
			if from != anything && !slices.Contains(mayImport[from], to) {
				t.Errorf("%s imports %s; %s may import only %v", pkg, imp, from, mayImport[from])
			}
		}
	}
	if edges == 0 {
		t.Error("no import was looked at")
	}
}

// part returns the part of the house that a package lies in: the longest key of
// mayImport that leads to it.
func part(pkg string) (best string) {
	rel := strings.TrimPrefix(pkg, module+"/")
	if rel == anything || strings.HasPrefix(rel, anything+"/") {
		return anything
	}
	for key := range mayImport {
		if (rel == key || strings.HasPrefix(rel, key+"/")) && len(key) > len(best) {
			best = key
		}
	}
	return best
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(list(t, `{{.ImportPath}} {{.Doc}}`)) {
		if pkg, doc, _ := strings.Cut(strings.TrimSpace(line), " "); doc == "" {
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

// list asks the go tool about all packages that are more than tests.
func list(t *testing.T, format string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if .GoFiles}}"+format+"{{end}}", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var (
	behaviour = regexp.MustCompile(`^\| ([A-Z]+[0-9]+) \| (.+) \| (.+) \|$`)
	proof     = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)(?:/([^`]+))?`")
)

func TestBehavioursNameTestsThatExist(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/behaviours.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, seen := testsByPackage(t), map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		proofs := proof.FindAllStringSubmatch(line, -1)
		for _, p := range proofs {
			rows, ok := tests[p[1]][p[2]]
			if !ok {
				t.Errorf("%s: there is no test %s.%s", line, p[1], p[2])
			} else if p[3] != "" && !rows[p[3]] {
				t.Errorf("%s: %s.%s has no row %q", line, p[1], p[2], p[3])
			}
		}
		row := behaviour.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		if seen[row[1]] {
			t.Errorf("%s has two rows", row[1])
		}
		seen[row[1]] = true
		if len(proofs) == 0 && !strings.HasPrefix(row[3], "does not apply: ") {
			t.Errorf("%s: neither a test nor why it does not apply", row[1])
		}
	}
	if len(seen) == 0 {
		t.Error("docs/behaviours.md has no rows")
	}
}

// testsByPackage returns the texts in every test, among them the names of its
// rows, by package and name. A package goes by its path and by its last part.
func testsByPackage(t *testing.T) map[string]map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "test/") {
			return err
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(file))
		for _, pkg := range []string{dir, path.Base(dir)} {
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
					if all[pkg] == nil {
						all[pkg] = map[string]map[string]bool{}
					}
					all[pkg][fn.Name.Name] = texts(fn)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func texts(fn *ast.FuncDecl) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				all[s] = true
			}
		}
		return true
	})
	return all
}
