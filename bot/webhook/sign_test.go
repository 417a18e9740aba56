package webhook_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/bot/webhook"
)

// The published example of Standard Webhooks.
const (
	exampleSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleBody   = `{"test": 2432232314}`
	exampleSigned = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var exampleTime = time.Unix(1614265330, 0)

func key(t testing.TB, text string) webhook.Key {
	t.Helper()
	k, err := webhook.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// other returns a secret of n bytes.
func other(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func example(keys ...webhook.Key) http.Header {
	h := http.Header{}
	webhook.Sign(h, exampleID, exampleTime, []byte(exampleBody), keys...)
	return h
}

func TestSignaturesAreThoseOfTheStandard(t *testing.T) {
	t.Parallel()
	h := example(key(t, exampleSecret))
	for name, want := range map[string]string{
		"webhook-id": exampleID, "webhook-timestamp": "1614265330", "webhook-signature": exampleSigned,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	h = example(key(t, other(24)), key(t, exampleSecret))
	if all := strings.Fields(h.Get("webhook-signature")); len(all) != 2 || all[1] != exampleSigned {
		t.Errorf("two secrets sign %q", all)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	k, new24 := key(t, exampleSecret), key(t, other(24))
	for name, tt := range map[string]struct {
		change func(http.Header)
		keys   []webhook.Key
		after  time.Duration
		body   string
		ok     bool
	}{
		"the example":                          {ok: true},
		"five minutes late":                    {after: 5 * time.Minute, ok: true},
		"later than that":                      {after: 5*time.Minute + time.Second},
		"five minutes early":                   {after: -5 * time.Minute, ok: true},
		"earlier than that":                    {after: -5*time.Minute - time.Second},
		"another body":                         {body: `{"test": 2432232315}`},
		"another id":                           {change: func(h http.Header) { h.Set("webhook-id", "msg_2") }},
		"another time":                         {change: func(h http.Header) { h.Set("webhook-timestamp", "1614265331") }},
		"no id":                                {change: func(h http.Header) { h.Del("webhook-id") }},
		"no time":                              {change: func(h http.Header) { h.Del("webhook-timestamp") }},
		"no number":                            {change: func(h http.Header) { h.Set("webhook-timestamp", "now") }},
		"no signature":                         {change: func(h http.Header) { h.Del("webhook-signature") }},
		"an empty signature":                   {change: func(h http.Header) { h.Set("webhook-signature", "v1,") }},
		"no base64":                            {change: func(h http.Header) { h.Set("webhook-signature", "v1,%") }},
		"the right one of another version":     {change: func(h http.Header) { h.Set("webhook-signature", "v1a"+exampleSigned[2:]) }},
		"the right one behind others":          {change: func(h http.Header) { h.Set("webhook-signature", "v1a,AAAA v1,AAAA "+exampleSigned) }, ok: true},
		"another key":                          {keys: []webhook.Key{new24}},
		"the new key or the old":               {keys: []webhook.Key{new24, k}, ok: true},
		"no key":                               {keys: []webhook.Key{}},
		"a key that was never read":            {keys: []webhook.Key{{}}},
		"signed with no key, by whoever knows": {change: func(h http.Header) { webhook.Sign(h, exampleID, exampleTime, []byte(exampleBody), webhook.Key{}) }, keys: []webhook.Key{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := example(k)
			if tt.change != nil {
				tt.change(h)
			}
			body, keys := exampleBody, []webhook.Key{k}
			if tt.body != "" {
				body = tt.body
			}
			if tt.keys != nil {
				keys = tt.keys
			}
			if err := webhook.Verify(h, exampleTime.Add(tt.after), []byte(body), keys...); (err == nil) != tt.ok {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, says string }{
		"the example":        {exampleSecret, ""},
		"with a newline":     {exampleSecret + "\n", ""},
		"of 24 bytes":        {other(24), ""},
		"of 64 bytes":        {other(64), ""},
		"of 23 bytes":        {other(23), "23 bytes; want 24 to 64"},
		"of 65 bytes":        {other(65), "65 bytes; want 24 to 64"},
		"nothing":            {"", "begins with whsec_"},
		"without its prefix": {exampleSecret[6:], "begins with whsec_"},
		"a public key":       {"whpk_" + exampleSecret[6:], "begins with whsec_"},
		"no base64":          {"whsec_hunter2!", "base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := webhook.ParseKey(tt.text)
			switch {
			case err == nil && tt.says != "", err != nil && (tt.says == "" || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("it says %v, want %q", err, tt.says)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("it tells the secret: %v", err)
			}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				if shown := fmt.Sprintf(verb, []any{k, &k, struct{ k webhook.Key }{k}}); strings.Contains(shown, "kkkk") || strings.Contains(shown, "6b6b6b") {
					t.Errorf("%s prints %s", verb, shown)
				}
			}
		})
	}
}
