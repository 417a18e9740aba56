package bot

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/gate"
)

// mayCall are the addresses that a key may have called back.
func mayCall(t testing.TB, prefixes ...string) *Key {
	t.Helper()
	key := &Key{Principal: gate.Principal{Key: "hermes", Roles: []gate.Role{gate.RoleAgent}}}
	key.readCallbacks(&CallbackConfig{Prefixes: prefixes}, func(field, text string) { t.Errorf("%s: %s", field, text) })
	return key
}

func TestCallbacksLieUnderAPrefix(t *testing.T) {
	t.Parallel()
	const folder, file, host = "https://ci.example.com/hooks/", "https://ci.example.com/hook", "https://ci.example.com"
	for name, row := range map[string]struct {
		prefix, address string
		ok              bool
	}{
		"in the folder":                           {folder, "https://ci.example.com/hooks/7", true},
		"in a folder of it":                       {folder, "https://ci.example.com/hooks/7/done", true},
		"the folder itself":                       {folder, folder, true},
		"with a query":                            {folder, "https://ci.example.com/hooks/7?job=1&u=https://evil.example.com/", true},
		"in capitals, where that is the same":     {folder, "HTTPS://CI.example.COM/hooks/7", true},
		"with the port that goes without saying":  {folder, "https://ci.example.com:443/hooks/7", true},
		"with an escape in a name":                {folder, "https://ci.example.com/hooks/a%20b", true},
		"of the name":                             {file, file, true},
		"in a folder of the name":                 {file, "https://ci.example.com/hook/7", true},
		"anywhere on the host":                    {host, "https://ci.example.com/a/b", true},
		"the host itself":                         {host, "https://ci.example.com", true},
		"the folder without its slash":            {folder, "https://ci.example.com/hooks", false},
		"of a longer name":                        {file, "https://ci.example.com/hooked", false},
		"in another folder":                       {folder, "https://ci.example.com/hookss/7", false},
		"in capitals, where that is another":      {folder, "https://ci.example.com/Hooks/7", false},
		"on a longer host":                        {host, "https://ci.example.com.evil.example.com/", false},
		"on a host that ends so":                  {host, "https://evilci.example.com/", false},
		"on a host with a dot at its end":         {host, "https://ci.example.com./", false},
		"on another port":                         {folder, "https://ci.example.com:8443/hooks/7", false},
		"on a port that is none":                  {folder, "https://ci.example.com:/hooks/7", false},
		"without TLS":                             {folder, "http://ci.example.com/hooks/7", false},
		"without TLS, on the port of TLS":         {folder, "http://ci.example.com:443/hooks/7", false},
		"of another scheme":                       {folder, "ftp://ci.example.com/hooks/7", false},
		"of no scheme":                            {folder, "//ci.example.com/hooks/7", false},
		"a path alone":                            {folder, "/hooks/7", false},
		"with a user":                             {host, "https://ann@ci.example.com/hooks/7", false},
		"with the host as a user":                 {host, "https://ci.example.com@evil.example.com/", false},
		"with the host as a user and a password":  {host, "https://ci.example.com:443@evil.example.com/", false},
		"with a backslash":                        {host, `https://ci.example.com\@evil.example.com/`, false},
		"with a fragment":                         {folder, "https://ci.example.com/hooks/7#top", false},
		"with an empty fragment":                  {folder, "https://ci.example.com/hooks/7#", false},
		"out of the folder":                       {folder, "https://ci.example.com/hooks/../admin", false},
		"out of the folder, at the end":           {folder, "https://ci.example.com/hooks/..", false},
		"out of the folder, escaped":              {folder, "https://ci.example.com/hooks/%2e%2E/admin", false},
		"out of the folder, half escaped":         {folder, "https://ci.example.com/hooks/.%2e/admin", false},
		"out of the folder, escaped twice":        {folder, "https://ci.example.com/hooks/%252e%252e/admin", false},
		"out of the folder, by an escaped slash":  {folder, "https://ci.example.com/hooks/..%2fadmin", false},
		"out of the folder, for some servers":     {folder, "https://ci.example.com/hooks/..;/admin", false},
		"out of the folder, by another backslash": {folder, "https://ci.example.com/hooks/..%5cadmin", false},
		"a dot":                         {folder, "https://ci.example.com/hooks/./7", false},
		"two slashes":                   {folder, "https://ci.example.com/hooks//7", false},
		"two slashes before the folder": {folder, "https://ci.example.com//hooks/7", false},
		"a dot in UTF-8 that is none":   {folder, "https://ci.example.com/hooks/%c0%ae%c0%ae/7", false},
		"a line break":                  {folder, "https://ci.example.com/hooks/%0d%0aHost:evil", false},
		"a raw line break":              {folder, "https://ci.example.com/hooks/\r\n", false},
		"a space":                       {folder, "https://ci.example.com/hooks/a b", false},
		"another script":                {host, "https://сi.example.com/", false},
		"an escape that is none":        {folder, "https://ci.example.com/hooks/%zz", false},
		"too long":                      {folder, folder + strings.Repeat("a", 2000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := mayCall(t, "https://other.example.com/", row.prefix).MayCallBack(row.address)
			if (err == nil) != row.ok {
				t.Errorf("%s under %s: %v", row.address, row.prefix, err)
			}
			if err != nil && (gate.KindOf(err) != gate.Invalid || !strings.HasPrefix(gate.PublicText(err), "callback: ")) {
				t.Errorf("refused with %v, want Invalid that names the field", err)
			}
		})
	}
}

func TestAKeyWithoutPrefixesNamesNoCallback(t *testing.T) {
	t.Parallel()
	key := &Key{}
	if err := key.MayCallBack(""); err != nil {
		t.Errorf("none is refused: %v", err)
	}
	if err := key.MayCallBack("https://ci.example.com/"); gate.KindOf(err) != gate.Invalid {
		t.Errorf("one = %v, want Invalid", err)
	}
}

func TestCallbacksOfAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	_, hash := NewKey()
	keys, problems := NewKeys([]KeyConfig{{
		Name: "hermes", Roles: []string{"agent"}, Hash: hash,
		Callbacks: &CallbackConfig{Prefixes: []string{"https://ci.example.com/"}, SecretFile: "s"},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if c, err := keys.Callbacks("hermes", "https://ci.example.com/7"); err != nil || c.SecretFile != "s" {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, row := range [][2]string{{"hermes", "https://evil.example.com/"}, {"other", "https://ci.example.com/7"}} {
		if _, err := keys.Callbacks(row[0], row[1]); err == nil {
			t.Errorf("%v may be called", row)
		}
	}
}

// FuzzCallback: what is taken leads, however somebody reads it, to the host and into
// the folder of the prefix.
func FuzzCallback(f *testing.F) {
	for _, seed := range []string{
		"https://ci.example.com/hooks/7", "https://ci.example.com/hooks/../x", "https://ci.example.com/hooks/%2e%2e/x",
		"https://ci.example.com:443/hooks/a%20b?x=/../", "https://ci.example.com@evil/hooks/", "https://ci.example.com/hooks/;a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if address == "" || mayCall(t, "https://ci.example.com/hooks/").MayCallBack(address) != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" || !strings.EqualFold(u.Hostname(), "ci.example.com") || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q is %+v, %v", address, u, err)
		}
		if port := u.Port(); port != "" && port != "443" {
			t.Errorf("%q is on port %q", address, port)
		}
		at := u.EscapedPath()
		for range 3 { // as servers may read it that decode more than once
			if clean := path.Clean(strings.ReplaceAll(at, `\`, "/")); clean != "/hooks" && !strings.HasPrefix(clean, "/hooks/") {
				t.Errorf("%q leads to %q", address, clean)
			}
			if decoded, err := url.PathUnescape(at); err == nil {
				at = decoded
			}
		}
	})
}
