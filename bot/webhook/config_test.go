package webhook_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := webhook.New(webhook.Config{AllowCIDRs: []string{"10/8", "0.0.0.0/0"}, CAFile: "nowhere", Timeout: "soon"})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, part := range []string{"url: ", "allow_cidrs[0]: ", "allow_cidrs[1]: ", "ca_file: ", "secret_file: ", "timeout: "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing of %s in:\n%v", part, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*webhook.Config)
		says   string // empty: nothing
	}{
		"one that is right":        {func(*webhook.Config) {}, ""},
		"with a query":             {func(c *webhook.Config) { c.URL += "/run?team=ops" }, ""},
		"with a time":              {func(c *webhook.Config) { c.Timeout = "5s" }, ""},
		"of no scheme":             {func(c *webhook.Config) { c.URL = "ops.example.com" }, "url: want a scheme"},
		"of another scheme":        {func(c *webhook.Config) { c.URL = "ftp://ops.example.com" }, "url: want a scheme"},
		"of no host":               {func(c *webhook.Config) { c.URL = "https:///run" }, "url: want a scheme"},
		"with a password":          {func(c *webhook.Config) { c.URL = "https://a:hunter2@ops.example.com" }, "url: take the user"},
		"with a fragment":          {func(c *webhook.Config) { c.URL += "#top" }, "url: want no #fragment"},
		"a long one":               {func(c *webhook.Config) { c.URL += "/" + strings.Repeat("a", 3000) }, "at most 2000"},
		"without TLS":              {func(c *webhook.Config) { c.URL = "http://ops.example.com" }, "url: http://ops.example.com is without TLS"},
		"without TLS, but listed":  {func(c *webhook.Config) { c.URL, c.AllowCIDRs = "http://ops.example.com", []string{"10.0.0.0/8"} }, ""},
		"IPv4 as IPv6":             {func(c *webhook.Config) { c.AllowCIDRs = []string{"::ffff:10.0.0.0/104"} }, "allow_cidrs[0]: "},
		"all of IPv6":              {func(c *webhook.Config) { c.AllowCIDRs = []string{"::/0"} }, "everything"},
		"without a secret":         {func(c *webhook.Config) { c.SecretFile = "" }, "secret_file: nothing is sent unsigned"},
		"of no file":               {func(c *webhook.Config) { c.SecretFile += "x" }, "secret_file: open"},
		"of no secret":             {func(c *webhook.Config) { c.SecretFile = c.CAFile }, "secret_file: "},
		"of no previous secret":    {func(c *webhook.Config) { c.PreviousSecretFile = filepath.Join("no", "file") }, "previous_secret_file: open"},
		"of a CA that is none":     {func(c *webhook.Config) { c.CAFile = c.SecretFile }, "ca_file: no certificate"},
		"of a time that is none":   {func(c *webhook.Config) { c.Timeout = "30" }, "timeout: "},
		"of a time before nothing": {func(c *webhook.Config) { c.Timeout = "-1s" }, "timeout: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := webhook.Config{URL: "https://ops.example.com", SecretFile: file(t, exampleSecret)}
			tt.change(&c)
			_, err := webhook.New(c)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %v, want %q", err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it tells the password: %v", err)
			}
		})
	}
}
