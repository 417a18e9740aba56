package bot

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/approvalbot/approvalbot/gate"
)

// CallbackConfig says what an agent's key may have called back, and how.
type CallbackConfig struct {
	Prefixes   []string `yaml:"prefixes"`    // "https://ci.example.com/hooks/": what callbacks begin with
	SecretFile string   `yaml:"secret_file"` // holds whsec_…, which signs them
	AllowCIDRs []string `yaml:"allow_cidrs"` // networks that are called although they are not public
}

// callback is the address of a receiver, taken apart.
type callback struct {
	scheme, host, port string
	path               string
}

const maxCallback = 2000 // bytes

// parseCallback reads an address that everybody reads alike: what one server takes
// for a folder and another for a way out of it is refused.
func parseCallback(text string) (c callback, err error) {
	if len(text) > maxCallback {
		return c, fmt.Errorf("want at most %d bytes", maxCallback)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f || text[i] == '\\' {
			return c, errors.New("want ASCII without spaces and backslashes; escape what is not")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":"):
		return c, errors.New("want a scheme and a host, like https://ci.example.com/hooks/")
	case u.User != nil:
		return c, errors.New("want no user and no password in it")
	case strings.Contains(text, "#"):
		return c, errors.New("want no #fragment")
	}
	c = callback{u.Scheme, strings.ToLower(u.Hostname()), portOf(u), cmp.Or(u.EscapedPath(), "/")}
	return c, checkPath(c.path, u.Path)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// checkPath refuses what a path could be read as besides what it is.
func checkPath(path, decoded string) error {
	for _, odd := range []string{"%2f", "%5c", "%2e", "%25", "//", ";"} {
		if strings.Contains(strings.ToLower(path), odd) {
			return fmt.Errorf("want no %s in its path", odd)
		}
	}
	if !utf8.ValidString(decoded) || strings.ContainsFunc(decoded, unicode.IsControl) {
		return errors.New("want UTF-8 without control characters in its path")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return errors.New("want no . and .. in its path")
		}
	}
	return nil
}

// under reports whether an address lies under a prefix: on the same host, in the
// same folder. A prefix without a slash at its end is that address, and what lies in
// a folder of that name.
func (c callback) under(prefix callback) bool {
	if c.scheme != prefix.scheme || c.host != prefix.host || c.port != prefix.port {
		return false
	}
	rest, ok := strings.CutPrefix(c.path, prefix.path)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(prefix.path, "/"))
}

// readCallbacks checks what a key may have called back.
func (key *Key) readCallbacks(c *CallbackConfig, bad func(field, text string)) {
	if c == nil {
		return
	}
	if !key.Has(gate.RoleAgent) {
		bad("callbacks", "only an agent's key has callbacks")
	}
	if len(c.Prefixes) == 0 {
		bad("callbacks.prefixes", "want what callbacks begin with, like [https://ci.example.com/hooks/]")
	}
	for i, text := range c.Prefixes {
		p, err := parseCallback(text)
		if err == nil && strings.Contains(text, "?") {
			err = errors.New("want no query in a prefix")
		}
		if err != nil {
			bad(fmt.Sprintf("callbacks.prefixes[%d]", i), err.Error())
			continue
		}
		key.prefixes = append(key.prefixes, p)
	}
	key.callbacks = *c
}

// MayCallBack refuses the address of a callback that this key may not name.
func (key *Key) MayCallBack(address string) error {
	if address == "" {
		return nil
	}
	if len(key.prefixes) == 0 {
		return unlisted("callback: this API key may not name one; list prefixes in its callbacks")
	}
	c, err := parseCallback(address)
	if err != nil {
		return unlisted("callback: " + err.Error())
	}
	if !slices.ContainsFunc(key.prefixes, c.under) {
		return unlisted("callback: this API key may not name this address; list a prefix of it in its callbacks")
	}
	return nil
}

// Callbacks says with what the callbacks of a key are sent to an address, or why
// they are not.
func (k *Keys) Callbacks(name, address string) (CallbackConfig, error) {
	for _, key := range k.byHash {
		if key.Principal.Key == name {
			return key.callbacks, key.MayCallBack(address)
		}
	}
	return CallbackConfig{}, errors.New("callback: no API key of that name is configured any more")
}
