package mattermost

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
	"github.com/approvalbot/approvalbot/gate/secret"
)

const (
	here  = "here0000000000000000000000"
	there = "there000000000000000000000"
	ann   = "ann00000000000000000000000"
	bo    = "bo000000000000000000000000"
)

func keyring(t *testing.T, keys ...string) *gate.Keyring {
	t.Helper()
	var all []secret.String
	for _, k := range keys {
		all = append(all, secret.New(strings.Repeat(k, gate.MinServerKey)))
	}
	k, err := gate.NewKeyring(all[0], all[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func card() *channels.Card {
	return &channels.Card{Approval: "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D2", Digest: gate.Digest{1, 2, 3}, Title: "claude wants to run deploy"}
}

// roundtrip is what Mattermost makes of a context.
func roundtrip(t *testing.T, c map[string]any) (out map[string]any) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSeal(t *testing.T) {
	t.Parallel()
	keys := keyring(t, "a")
	good := roundtrip(t, sealed(keys, card(), actApprove, here))
	for key, v := range good {
		if _, isText := v.(string); !isText {
			t.Errorf("%s is %T: Mattermost rounds numbers", key, v)
		}
	}
	b, err := unseal(keys, good, here)
	if err != nil || b.approval != card().Approval || b.digest != card().Digest || b.action != actApprove || b.chosen != "" {
		t.Fatalf("unseal = %+v, %v", b, err)
	}
	change := func(key string, v any) map[string]any {
		c := maps.Clone(good)
		c[key] = v
		return c
	}
	other := *card()
	other.Approval = "apr_01JNV4X3T2E6Q1Y5Z8A9B0C1D3"
	for name, tt := range map[string]struct {
		keys    *gate.Keyring
		context map[string]any
		channel string
	}{
		"of another conversation":         {keys, good, there},
		"by another server's key":         {keyring(t, "b"), good, here},
		"with another approval":           {keys, change(keyApproval, string(other.Approval)), here},
		"with another digest":             {keys, change(keyDigest, gate.Digest{9}.Hex()), here},
		"with the seal of another button": {keys, change(keyAction, actDeny), here},
		"of another version":              {keys, change(keyVersion, "2"), here},
		"with a number for text":          {keys, change(keyApproval, 1), here},
		"without a seal":                  {keys, change(keySeal, ""), here},
		"with a seal of another approval": {keys, change(keySeal, sealed(keys, &other, actApprove, here)[keySeal]), here},
		"of nothing":                      {keys, nil, here},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if b, err := unseal(tt.keys, tt.context, tt.channel); err == nil {
				t.Errorf("it is taken for %+v", b)
			}
		})
	}
	if _, err := unseal(keyring(t, "b", "a"), good, here); err != nil {
		t.Errorf("after the key was rotated: %v", err)
	}
	if b, err := unseal(keys, change(keyChosen, "session"), here); err != nil || b.chosen != "session" {
		t.Errorf("what was chosen is %+v, %v", b, err)
	}
}

func TestPass(t *testing.T) {
	t.Parallel()
	keys, now := keyring(t, "a"), time.Now()
	p := pass{Approval: card().Approval, Digest: card().Digest.Hex(), Action: actDeny, User: ann, Channel: here, Post: there, Nonce: "n", Until: now.Add(passLife).Unix()}
	state, err := p.seal(keys)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := admit(keys, state, ann, now); err != nil || got != p {
		t.Fatalf("admit = %+v, %v", got, err)
	}
	approves := p
	approves.Action = actApprove
	forged, err := approves.seal(keyring(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(forged, ".")
	_, seal, _ := strings.Cut(state, ".")
	for name, tt := range map[string]struct {
		state, user string
		at          time.Time
	}{
		"of somebody else":          {state, bo, now},
		"by another key":            {forged, ann, now},
		"with another text":         {text + "." + seal, ann, now},
		"without a seal":            {text, ann, now},
		"a button's seal":           {text + "." + keys.Sign(gate.Buttons, text), ann, now},
		"with more behind it":       {state + ".x", ann, now},
		"after half an hour":        {state, ann, now.Add(passLife)},
		"nothing":                   {"", ann, now},
		"a seal of what is no pass": {"e30." + keys.Sign(gate.Dialogs, "e30"), ann, now},
		"for nobody, of nobody":     {"e30." + keys.Sign(gate.Dialogs, "e30"), "", now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := admit(keys, tt.state, tt.user, tt.at); err == nil {
				t.Errorf("it admits %+v", got)
			}
		})
	}
	if _, err := admit(keys, state, ann, now.Add(passLife-2*time.Second)); err != nil {
		t.Errorf("just before half an hour: %v", err)
	}
}
