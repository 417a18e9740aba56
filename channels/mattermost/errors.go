package mattermost

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mattermost/mattermost/server/public/model"

	"github.com/approvalbot/approvalbot/channels"
	"github.com/approvalbot/approvalbot/gate"
)

// troubles says what Mattermost's error ids mean for a card.
var troubles = map[string]channels.Trouble{
	"api.post.create_post.can_not_post_to_deleted.error":        channels.Nowhere, // the conversation is archived
	"api.post.create_post.town_square_read_only":                channels.Nowhere,
	"api.channel.create_channel.direct_channel.invalid_user":    channels.Nowhere,
	"api.post.update_post.can_not_update_post_in_deleted.error": channels.Frozen,
	"api.post.update_post.permissions_details.app_error":        channels.Frozen, // the post was deleted
	"api.post.update_post.permissions_time_limit.app_error":     channels.Frozen,
	"api.post.update_post.system_message.app_error":             channels.Frozen,
	"api.post.patch_post.can_not_update_post_in_deleted.error":  channels.Frozen,
	"api.post.deduplicate_create_post.pending":                  channels.Busy,
	"api.context.session_expired.app_error":                     channels.Out,
	"api.context.token_provided.app_error":                      channels.Out,
	"api.context.mfa_required.app_error":                        channels.Out,
	"model.post.is_valid.message_length.app_error":              channels.Broken,
	"model.post.is_valid.props.app_error":                       channels.Broken,
	"api.context.request_body_too_large.app_error":              channels.Broken,
	"api.post.create_post.root_id.app_error":                    channels.Nowhere, // what the thread began with is gone
	"api.post.create_post.parent_id.app_error":                  channels.Nowhere,
	"api.post.create_post.channel_root_id.app_error":            channels.Nowhere, // it is in another conversation
	"model.channel.is_valid.2_or_more.app_error":                channels.Nowhere,
	"api.channel.create_direct_channel.invalid_user.app_error":  channels.Nowhere,
	"api.user.get_authorization_code.endpoint.app_error":        channels.Out,
}

// ours are the ids with which Mattermost says that a card itself is wrong.
var ours = map[string]bool{
	"model.post.is_valid.message_length.app_error": true,
	"model.post.is_valid.props.app_error":          true,
	"api.context.request_body_too_large.app_error": true,
	"model.post.is_valid.filenames.app_error":      true,
	"api.context.invalid_body_param.app_error":     true,
}

// slowDown is how long to wait where Mattermost does not say.
const slowDown = 5 * time.Second

var errNeither = errors.New("mattermost answered neither yes nor no")

// failed tells what a failure of the client library means. Its response is nil
// where nothing came back, or what came was no answer of Mattermost.
func failed(op string, resp *model.Response, err error) *channels.Error {
	if err == nil {
		err = errNeither
	}
	e := &channels.Error{Op: op, Err: short(resp, err)}
	e.Trouble, e.After = meaning(op, resp, err)
	return e
}

// short leaves out what a log has no use for: the library repeats itself, and quotes
// pages of proxies.
func short(resp *model.Response, err error) error {
	refused, ok := errors.AsType[*model.AppError](err)
	switch {
	case ok && refused != nil && refused.Id == unreadable:
		return errors.New("what answers is not Mattermost; a proxy or a login page may be in between")
	case ok && refused != nil:
		return fmt.Errorf("%s (%s)", gate.Clean(refused.Message), gate.Clean(refused.Id))
	case resp != nil && !errors.Is(err, errNeither):
		return fmt.Errorf("HTTP %d, and not in Mattermost's words; a proxy may be in between", resp.StatusCode)
	}
	return err
}

// unreadable is what the library makes of an answer that is no JSON.
const unreadable = "api.unmarshal_error"

// codeOf returns Mattermost's error id, empty if there is none.
func codeOf(err error) string {
	refused, ok := errors.AsType[*model.AppError](err)
	if !ok || refused == nil || refused.Id == unreadable {
		return ""
	}
	return refused.Id
}

func meaning(op string, resp *model.Response, err error) (channels.Trouble, time.Duration) {
	if resp == nil {
		return unanswered(err), 0
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return channels.Busy, after(resp.Header)
	}
	if t, known := troubles[codeOf(err)]; known {
		if t == channels.Busy {
			return t, time.Second
		}
		return t, 0
	}
	if strings.Contains(codeOf(err), "restricted_dm") {
		return channels.Nowhere, 0
	}
	return byStatus(op, resp.StatusCode), 0
}

// byStatus is for the many error ids that nobody has listed.
func byStatus(op string, status int) channels.Trouble {
	gone := channels.Nowhere
	if op == "mattermost.Update" {
		gone = channels.Frozen
	}
	switch {
	case status == http.StatusUnauthorized:
		return channels.Out
	case status == http.StatusForbidden, status == http.StatusNotFound:
		return gone
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented, status >= 300 && status < 400:
		return channels.Unknown
	case status < 300: // a success that cannot be read
		return channels.Unknown
	}
	return channels.Broken
}

// unanswered tells a request that was never sent from one of which nobody knows.
func unanswered(err error) channels.Trouble {
	if wire, ok := errors.AsType[*net.OpError](err); ok && wire.Op == "dial" {
		return channels.Busy
	}
	return channels.Unknown
}

// after is how long Mattermost, or a proxy before it, wants to be left alone.
func after(h http.Header) time.Duration {
	for _, key := range []string{"Retry-After", "X-Ratelimit-Reset"} {
		if s, err := strconv.Atoi(h.Get(key)); err == nil && s >= 0 {
			return max(time.Duration(s)*time.Second, time.Second)
		}
	}
	return slowDown
}

// notKnown is the error of a look-up that a decision rests on.
func notKnown(op string, resp *model.Response, err error) error {
	return &gate.Error{Kind: gate.Unavailable, Reason: gate.ReasonIdentityUnavailable, Op: op, Public: "mattermost does not answer", Err: failed(op, resp, err)}
}

// missing reports whether Mattermost knows for sure that there is no such thing.
func missing(resp *model.Response, err error) bool {
	return err != nil && resp != nil && resp.StatusCode == http.StatusNotFound && codeOf(err) != ""
}

// noThread reports whether a post was refused because what it answers is gone.
func noThread(err error) bool {
	switch codeOf(err) {
	case "api.post.create_post.root_id.app_error", "api.post.create_post.parent_id.app_error", "api.post.create_post.channel_root_id.app_error":
		return true
	}
	return false
}
