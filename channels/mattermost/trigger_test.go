package mattermost

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattermost/mattermost/server/public/model"
)

func signer(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signedTrigger(t testing.TB, user string, k *ecdsa.PrivateKey) string {
	t.Helper()
	_, text, refused := model.GenerateTriggerId(user, k)
	if refused != nil {
		t.Fatal(refused)
	}
	return text
}

// signedAt is what a server makes at another time.
func signedAt(t testing.TB, user string, at time.Time, k *ecdsa.PrivateKey) string {
	t.Helper()
	text := fmt.Sprintf("%s:%s:%d:", model.NewId(), user, at.UnixMilli())
	sum := sha256.Sum256([]byte(text))
	sig, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString([]byte(text + base64.StdEncoding.EncodeToString(sig)))
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	k, other := signer(t), signer(t)
	edit := func(part int, with string) string {
		raw, err := base64.StdEncoding.DecodeString(signedTrigger(t, ann, k))
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(raw), ":")
		parts[part] = with
		return base64.StdEncoding.EncodeToString([]byte(strings.Join(parts, ":")))
	}
	for name, tt := range map[string]struct {
		text func() string // made when it is looked at: it grows old
		want error
	}{
		"signed just now":              {func() string { return signedTrigger(t, ann, k) }, nil},
		"signed by another server":     {func() string { return signedTrigger(t, ann, other) }, errForged},
		"of somebody else than signed": {func() string { return edit(1, bo) }, errForged},
		"of another time than signed":  {func() string { return edit(2, "1700000000000") }, errForged},
		"with another nonce":           {func() string { return edit(0, strings.Repeat("x", 26)) }, errForged},
		"with a broken signature":      {func() string { return edit(3, "AAAA") }, errForged},
		"the short one of clients":     {func() string { return strings.Repeat("x", 26) }, errForged},
		"nothing":                      {func() string { return "" }, errForged},
		"much too long":                {func() string { return strings.Repeat("A", 4000) }, errForged},
		"signed for nobody":            {func() string { return signedTrigger(t, "", k) }, errForged},
		"by a clock that is ahead":     {func() string { return signedAt(t, ann, time.Now().Add(triggerLife-time.Second), k) }, nil},
		"of tomorrow":                  {func() string { return signedAt(t, ann, time.Now().Add(24*time.Hour), k) }, errLate},
		"of the last century":          {func() string { return signedAt(t, ann, time.Unix(0, 0), k) }, errLate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := check(tt.text(), &k.PublicKey)
			if !errors.Is(err, tt.want) || tt.want == nil && (err != nil || got.user != ann || len(got.nonce) != 26) {
				t.Errorf("check = %+v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestTriggerIsOfNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := signer(t)
		<-time.After(time.Hour)
		early := signedTrigger(t, ann, k)
		<-time.After(triggerLife)
		if _, err := check(early, &k.PublicKey); err != nil {
			t.Errorf("after 30 s: %v", err)
		}
		<-time.After(time.Millisecond)
		if _, err := check(early, &k.PublicKey); !errors.Is(err, errLate) {
			t.Errorf("after more than 30 s: %v", err)
		}
	})
}

// FuzzTrigger: nothing that the server has not signed is taken, whatever it is.
func FuzzTrigger(f *testing.F) {
	k := signer(f)
	good := signedTrigger(f, ann, k)
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add("a:b:1:")
	f.Add(string(raw) + ":")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := check(base64.StdEncoding.EncodeToString([]byte(text)), &k.PublicKey)
		if err == nil && (text != string(raw) || got.user != ann) {
			t.Errorf("%q is taken for %+v", text, got)
		}
	})
}
