package config

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/deliver"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
	"github.com/approvalbot/approvalbot/store"
)

// checker looks at a Config as a whole, and makes of it what the server needs.
type checker struct {
	decoder

	file, dir string
	env       func(string) string
	loaded    *Loaded
}

// check reports what the decoder cannot know to be wrong.
func (c *checker) check() {
	c.network()
	c.serverKeys()
	c.store()
	keys, problems := bot.NewKeys(c.loaded.Keys)
	c.add(false, problems)
	c.loaded.APIKeys = keys
	c.outside()
	chats := c.chats()
	executors := c.executors()
	c.queues(c.loaded.Keys)
	policy, problems := gate.NewPolicy(c.loaded.Approvals, c.loaded.Approvers, c.loaded.People, keys.Principals(), chats, executors...)
	c.add(false, problems)
	if policy != nil {
		c.add(true, policy.Warnings())
		c.homeless(policy)
	}
	c.loaded.Policy = policy
}

// outside checks who outside is told what happens: hooks, and the callbacks of agents.
func (c *checker) outside() {
	hooks, problems := deliver.NewHooks(c.loaded.Hooks)
	c.add(false, problems)
	c.loaded.Receivers = hooks
	for i, k := range c.loaded.Keys {
		if k.Callbacks == nil {
			continue
		}
		for j, prefix := range k.Callbacks.Prefixes {
			c.callbacks(fmt.Sprintf("keys[%d].callbacks.", i), j, CallbackTo(*k.Callbacks, prefix))
		}
	}
}

func (c *checker) callbacks(path string, prefix int, to webhook.Config) {
	problems := deliver.CheckCallbacks(to)
	for i := range problems {
		if problems[i].Path == "url" {
			problems[i].Path = fmt.Sprintf("prefixes[%d]", prefix)
		}
	}
	c.add(false, below(path, problems))
}

// CallbackTo is how an agent's callbacks are sent to an address.
func CallbackTo(c bot.CallbackConfig, address string) webhook.Config {
	return webhook.Config{URL: address, SecretFile: c.SecretFile, AllowCIDRs: c.AllowCIDRs}
}

// result sorts the problems by line.
func (c *checker) result() (*Loaded, []Problem) {
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	for i := range c.problems {
		c.problems[i].File = c.file
		if !c.problems[i].Warning {
			c.loaded = nil
		}
	}
	return c.loaded, c.problems
}

// add takes over what others found. What could not be read is not judged too.
func (c *checker) add(warning bool, found []gate.Problem) {
	unread := slices.Clone(c.problems)
	for _, f := range found {
		if !slices.ContainsFunc(unread, func(p Problem) bool { return p.Path != "" && within(f.Path, p.Path) && !p.Warning }) {
			at := c.nearest(f.Path)
			c.problems = append(c.problems, Problem{Line: at.line, Col: at.col, Path: f.Path, Text: f.Text, Warning: warning})
		}
	}
}

func (c *checker) problem(path, format string, args ...any) {
	c.add(false, []gate.Problem{{Path: path, Text: fmt.Sprintf(format, args...)}})
}

// within reports whether path is that of part, or of something in it.
func within(path, part string) bool {
	rest, ok := strings.CutPrefix(path, part)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nearest returns where path is, or the innermost part around it that is there.
func (c *checker) nearest(path string) place {
	for {
		if at, ok := c.at[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

func (c *checker) network() {
	if _, port, err := net.SplitHostPort(c.loaded.Listen); err != nil || !number.MatchString(port) {
		c.problem("listen", "want host:port, like 127.0.0.1:8080")
	}
	if c.loaded.PublicURL == "" {
		return
	}
	u, err := url.Parse(c.loaded.PublicURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		c.problem("public_url", "want a scheme and a host and nothing more, like https://approvals.example.com")
	} else if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		c.add(true, []gate.Problem{{Path: "public_url", Text: "http: what approvers send can be read and changed on the way; use https"}})
	}
}

func (c *checker) store() {
	s := c.loaded.Store
	c.loaded.DataDir = filepath.Join(c.dir, DataDir)
	if s == nil || s.Memory {
		return
	}
	if s.Embedded != nil {
		c.embedded(s)
		return
	}
	c.add(false, s.Problems())
}

// embedded puts the data folder where the file says, from its own folder.
func (c *checker) embedded(s *Store) {
	if len(s.Redis.Addrs) > 0 {
		c.problem("store.redis", "an embedded store has a Redis of its own; keep one of redis and embedded")
	}
	if !slices.Contains([]store.Durability{"", store.Strict, store.Standard}, s.Durability) {
		c.problem("store.durability", "%q: want %s or %s", s.Durability, store.Strict, store.Standard)
	}
	if s.WaitReplicas != 0 || s.WaitTimeout != "" {
		c.problem("store.wait_replicas", "an embedded store has no replicas to wait for; take this out")
	}
	dir := cmp.Or(s.Embedded.Dir, DataDir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.dir, dir)
	}
	s.Embedded.Dir, c.loaded.DataDir = dir, dir
}

// serverKeys makes the keyring.
func (c *checker) serverKeys() {
	if c.loaded.Key.Set() && c.loaded.KeyFile != "" {
		c.problem("key_file", "key and key_file are both given; keep one")
	}
	key := c.loaded.Key
	if c.loaded.KeyFile != "" {
		key = c.serverKey("key_file", c.loaded.KeyFile)
	} else if key.Set() {
		c.long("key", key)
	}
	var others []secret.String
	for i, file := range c.loaded.VerifyKeyFiles {
		others = append(others, c.serverKey(fmt.Sprintf("verify_key_files[%d]", i), file))
	}
	if c.loaded.KeyFile == "" && !key.Set() && len(others) > 0 {
		c.problem("verify_key_files", "keys that only verify need one that signs; give key_file")
	}
	if key.Set() {
		c.loaded.Keyring, _ = gate.NewKeyring(key, others...) // it fails on short keys only, reported above
	}
}

func (c *checker) serverKey(path, file string) secret.String {
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return secret.String{} // reported when the path was read
	}
	key := secret.New(strings.TrimRight(string(b), "\r\n"))
	c.long(path, key)
	return key
}

func (c *checker) long(path string, key secret.String) {
	if len(key.Reveal()) < gate.MinServerKey {
		c.problem(path, "a server key has at least %d bytes; make one with `approvalbot keys server`", gate.MinServerKey)
	}
}

var number = regexp.MustCompile(`^[0-9]{1,5}$`)

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// readText makes of a path one from the file's folder, and leaves other texts.
func (c *checker) readText(path, text string) string {
	name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
	switch {
	case strings.HasSuffix(name, "_file"), strings.HasSuffix(name, "_files"):
		return c.secretFile(path, name, text)
	case variable.MatchString(text):
		c.problem(path, "only secrets are read from the environment; write the value here")
	}
	return text
}

// readSecret takes a secret from the environment: it has no place in the file.
func (c *checker) readSecret(path, text string) string {
	m := variable.FindStringSubmatch(text)
	switch {
	case m == nil:
		c.problem(path, "a secret has no place in this file; write ${NAME} to take it from the environment, or use %s_file", path)
		return ""
	case c.env(m[1]) == "":
		c.problem(path, "%s is not set in the environment", m[1])
	}
	return c.env(m[1])
}

// secretFile returns the path of a file as it is from here, and reports if
// there is nothing in it. All but certificates and hashes are secrets.
func (c *checker) secretFile(path, name, file string) string {
	if file == "" {
		c.problem(path, "want the path of a file")
		return file
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.dir, file)
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	switch {
	case err != nil:
		c.problem(path, "%s", err)
	case len(bytes.TrimSpace(b)) == 0:
		c.problem(path, "%s is empty", file)
	case slices.Contains([]string{"ca_file", "cert_file", "hash_file"}, name):
	default:
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&worldReadable != 0 {
			c.add(true, []gate.Problem{{Path: path, Text: file + " is a secret that everybody on this machine can read; chmod it to 0600"}})
		}
	}
	return file
}

const worldReadable fs.FileMode = 0o004
