package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"        // of the message; the same whenever it is sent again
	HeaderTimestamp = "Webhook-Timestamp" // Unix seconds of this sending
	HeaderSignature = "Webhook-Signature" // "v1,…", one for each key, with spaces between
)

// Tolerance is how far a timestamp may lie from the receiver's clock, either way.
const Tolerance = 5 * time.Minute

const (
	secretPrefix = "whsec_"
	signedBy     = "v1," // HMAC-SHA256
	minKey       = 24    // bytes
	maxKey       = 64
)

// Key is what a secret stands for. The zero value is none and signs nothing. It is
// a function inside because fmt prints what is in a struct, however deep and
// whatever methods that has.
type Key struct{ reveal func() []byte }

// ParseKey reads a secret as Standard Webhooks writes it: whsec_ and 24 to 64
// bytes in base64. Its errors say nothing of the secret.
func ParseKey(text string) (Key, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Key{}, errors.New(`a secret begins with whsec_; make one with: echo "whsec_$(openssl rand -base64 32)"`)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil:
		return Key{}, errors.New("after whsec_ a secret is base64, with its = at the end")
	case len(key) < minKey || len(key) > maxKey:
		return Key{}, fmt.Errorf("the secret has %d bytes; want %d to %d", len(key), minKey, maxKey)
	}
	return Key{func() []byte { return key }}, nil
}

// Sign puts the headers of one sending into h. While secrets are rotated there are
// two keys, and a receiver may know either.
func Sign(h http.Header, id string, at time.Time, body []byte, keys ...Key) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var all []string
	for _, k := range keys {
		if k.reveal != nil {
			all = append(all, signedBy+base64.StdEncoding.EncodeToString(k.mac(id, stamp, body)))
		}
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, stamp)
	h.Set(HeaderSignature, strings.Join(all, " "))
}

func (k Key) mac(id, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, k.reveal())
	m.Write([]byte(id + "." + stamp + "."))
	m.Write(body)
	return m.Sum(nil)
}

// Verify is for receivers: it reports why a request is not to be believed. body
// are the bytes that came, before anything has read them as JSON.
func Verify(h http.Header, now time.Time, body []byte, keys ...Key) error {
	id, stamp := h.Get(HeaderID), h.Get(HeaderTimestamp)
	if id == "" || stamp == "" {
		return errors.New("webhook: no webhook-id or no webhook-timestamp")
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("webhook: webhook-timestamp is no number of seconds")
	}
	if off := now.Sub(time.Unix(at, 0)); off > Tolerance || off < -Tolerance {
		return errors.New("webhook: sent more than five minutes ago, or a clock is wrong")
	}
	for signature := range strings.FieldsSeq(h.Get(HeaderSignature)) {
		encoded, ok := strings.CutPrefix(signature, signedBy)
		if mac, err := base64.StdEncoding.DecodeString(encoded); ok && err == nil && signed(mac, id, stamp, body, keys) {
			return nil
		}
	}
	return errors.New("webhook: signed with another secret, or changed on the way")
}

func signed(mac []byte, id, stamp string, body []byte, keys []Key) bool {
	for _, k := range keys {
		if k.reveal != nil && hmac.Equal(mac, k.mac(id, stamp, body)) {
			return true
		}
	}
	return false
}
