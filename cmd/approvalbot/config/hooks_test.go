package config

import (
	"encoding/pem"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// authority is a certificate that vouches for itself.
func authority(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestHooksAndCallbacks(t *testing.T) {
	t.Parallel()
	const good = `{url: "https://ci.example.com", secret_file: whsec}`
	hook := func(fields string) string {
		return "hooks: [{name: ci, on: decided, webhook: " + good + "}, {" + fields + "}]\n"
	}
	agent := func(callbacks string) string {
		return "keys: [{name: h, roles: [agent], hash_file: ann.sha256, callbacks: {" + callbacks + "}}]\n"
	}
	for name, row := range map[string]struct {
		text string
		says []string // "path: part of the text"; none: nothing is wrong
	}{
		"one word":                             {hook("name: b, on: executed, webhook: " + good), nil},
		"a list of words":                      {hook("name: b, on: [requested, executed], webhook: " + good), nil},
		"some rules, with arguments":           {hook(`name: b, on: decided, rules: ["prod-*"], include_args: true, webhook: ` + good), nil},
		"nothing to hear":                      {hook("name: b, webhook: " + good), []string{"hooks[1].on: want of requested, decided, executed"}},
		"a word that is none":                  {hook("name: b, on: approved, webhook: " + good), []string{"hooks[1].on: want of requested, decided, executed"}},
		"a word that is none, in a list":       {hook("name: b, on: [decided, done], webhook: " + good), []string{"hooks[1].on: want of requested, decided, executed"}},
		"something else than words":            {hook("name: b, on: {a: b}, webhook: " + good), []string{"hooks[1].on: want a word, or a list"}},
		"no name":                              {hook("on: decided, webhook: " + good), []string{"hooks[1].name: want at most 64"}},
		"a name that is taken":                 {hook("name: ci, on: decided, webhook: " + good), []string{"hooks[1].name: another hook"}},
		"a rule that is no glob":               {hook(`name: b, on: decided, rules: ["ok", "[x"], webhook: ` + good), []string{"hooks[1].rules[1]: "}},
		"no address":                           {hook("name: b, on: decided, webhook: {secret_file: whsec}"), []string{"hooks[1].webhook.url: want the address"}},
		"no secret":                            {hook(`name: b, on: decided, webhook: {url: "https://a.example"}`), []string{"hooks[1].webhook.secret_file: nothing is sent unsigned"}},
		"a secret that is none":                {hook(`name: b, on: decided, webhook: {url: "https://a.example", secret_file: ann.sha256}`), []string{"hooks[1].webhook.secret_file: "}},
		"without TLS":                          {hook(`name: b, on: decided, webhook: {url: "http://a.example", secret_file: whsec}`), []string{"hooks[1].webhook.url: http://a.example is without TLS"}},
		"without TLS, in a network":            {hook(`name: b, on: decided, webhook: {url: "http://a.example", secret_file: whsec, allow_cidrs: [10.0.0.0/8]}`), nil},
		"a time that is too long":              {hook(`name: b, on: decided, webhook: {url: "https://a.example", secret_file: whsec, timeout: 31s}`), []string{"hooks[1].webhook.timeout: want at most 30s"}},
		"everything at once":                   {hook("name: '', on: x, rules: ['['], webhook: {timeout: soon}"), []string{"hooks[1].name: ", "hooks[1].on: ", "hooks[1].rules[0]: ", "hooks[1].webhook.url: ", "hooks[1].webhook.secret_file: ", "hooks[1].webhook.timeout: "}},
		"callbacks":                            {agent(`prefixes: ["https://ci.example.com/hooks/", "https://ci.example.com:8443"], secret_file: whsec`), nil},
		"callbacks without a prefix":           {agent(`secret_file: whsec`), []string{"keys[0].callbacks.prefixes: want what callbacks begin with"}},
		"callbacks without a secret":           {agent(`prefixes: ["https://ci.example.com/"]`), []string{"keys[0].callbacks.secret_file: nothing is sent unsigned"}},
		"callbacks without TLS":                {agent(`prefixes: ["https://a.example/", "http://ci.example.com/"], secret_file: whsec`), []string{"keys[0].callbacks.prefixes[1]: http://ci.example.com/ is without TLS"}},
		"callbacks with a way out":             {agent(`prefixes: ["https://ci.example.com/a/../b/"], secret_file: whsec`), []string{"keys[0].callbacks.prefixes[0]: want no . and .."}},
		"callbacks with a query":               {agent(`prefixes: ["https://ci.example.com/?a=b"], secret_file: whsec`), []string{"keys[0].callbacks.prefixes[0]: want no query"}},
		"callbacks to everywhere":              {agent(`prefixes: ["https://a.example/"], secret_file: whsec, allow_cidrs: [0.0.0.0/0]`), []string{"keys[0].callbacks.allow_cidrs[0]: "}},
		"callbacks of somebody who never asks": {strings.Replace(agent(`prefixes: ["https://ci.example.com/"], secret_file: whsec`), "[agent]", "[auditor]", 1), []string{"keys[0].callbacks: only an agent's key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := read(t, row.text, nil)
			var lines []string
			if problems != "" {
				lines = strings.Split(strings.TrimSpace(problems), "\n")
			}
			for _, want := range row.says {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, " "+want) }) {
					t.Errorf("nothing of %q in:\n%s", want, problems)
				}
			}
			if len(lines) != len(row.says) {
				t.Errorf("%d problems, want %d:\n%s", len(lines), len(row.says), problems)
			}
		})
	}
}
