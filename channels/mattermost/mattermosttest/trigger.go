package mattermosttest

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// publicKey returns the half of the key that everybody gets to see.
func (s *Server) publicKey() string {
	der, err := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	if err != nil {
		s.t.Errorf("mattermosttest: %v", err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

// Trigger returns a fresh trigger id of a user, as any integration gets one whose
// button they press.
func (s *Server) Trigger(user string) string { return s.TriggerAt(user, s.config.Now()) }

// TriggerAt returns a trigger id of another time.
func (s *Server) TriggerAt(user string, at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, long := s.trigger(user, at)
	return long
}

// trigger makes the id that a client keeps and the signed one that integrations
// get.
func (s *Server) trigger(user string, at time.Time) (short, long string) {
	short = NewID()
	data := fmt.Sprintf("%s:%s:%d:", short, user, at.UnixMilli())
	sum := sha256.Sum256([]byte(data))
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	if err != nil {
		s.t.Errorf("mattermosttest: %v", err)
	}
	data += base64.StdEncoding.EncodeToString(signature)
	return short, base64.StdEncoding.EncodeToString([]byte(data))
}

func badTrigger(id, message string) *appError {
	return refuse(http.StatusBadRequest, "interactive_message.decode_trigger_id."+id, message)
}

// readTrigger says whose trigger id it is, and what their client calls it.
func (s *Server) readTrigger(long string) (short, user string, err error) {
	raw, err := base64.StdEncoding.DecodeString(long)
	if err != nil {
		return "", "", badTrigger("base64_decode_failed", "Failed to decode base64 for trigger ID for interactive dialog.")
	}
	parts := strings.Split(string(raw), ":")
	if len(parts) != 4 {
		return "", "", badTrigger("missing_data", "Trigger ID missing required data for interactive dialog.")
	}
	at, _ := strconv.ParseInt(parts[2], 10, 64)
	if s.config.Now().Sub(time.UnixMilli(at)) > s.config.OutgoingTimeout {
		return "", "", badTrigger("expired", fmt.Sprintf(
			"Trigger ID for interactive dialog is expired. Trigger IDs live for a maximum of %s.", s.config.OutgoingTimeout))
	}
	signature, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return "", "", badTrigger("base64_decode_failed_signature", "Failed to decode base64 signature of trigger ID for interactive dialog.")
	}
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &numbers); err != nil {
		return "", "", badTrigger("signature_decode_failed", "Failed to decode base64 signature of trigger ID for interactive dialog.")
	}
	sum := sha256.Sum256([]byte(strings.Join(parts[:3], ":") + ":"))
	if !ecdsa.VerifyASN1(&s.key.PublicKey, sum[:], signature) {
		return "", "", badTrigger("verify_signature_failed", "Signature verification failed of trigger ID for interactive dialog.")
	}
	return parts[0], parts[1], nil
}
