package gate

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// ProofLife is how long a card that one person alone was shown can be pressed.
const ProofLife = 30 * time.Minute

// ProveCard signs that a voter was shown a call. Such a card is written down
// nowhere, so the proof travels with its buttons and comes back with a press; it
// holds for that voter, that approval and that very call, until then.
func (k *Keyring) ProveCard(id ID, d Digest, voter string, until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 36)
	return end + "." + base64.RawURLEncoding.EncodeToString(k.sign(forPrivate, string(id), d.Hex(), voter, end))
}

// CheckCard refuses a proof that is none of this voter, approval and call, and one
// that is too old; now is the store's clock.
func (k *Keyring) CheckCard(proof string, id ID, d Digest, voter string, now time.Time) error {
	end, text, _ := strings.Cut(proof, ".")
	mac, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || !k.verify(forPrivate, mac, string(id), d.Hex(), voter, end) {
		return forbidden(ReasonNotFound, "This card was not made for you, or not for this call. Nothing was decided; ask for it anew.")
	}
	if until, err := strconv.ParseInt(end, 36, 64); err != nil || !now.Before(time.Unix(until, 0)) {
		return forbidden(ReasonExpired, "This card is more than 30 minutes old. Nothing was decided; ask for it anew.")
	}
	return nil
}
