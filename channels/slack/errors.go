package slack

import (
	"errors"
	"net"
	"net/http"
	"time"

	api "github.com/slack-go/slack"

	"github.com/approvalbot/approvalbot/channels"
)

// troubles says what Slack's codes mean for a card. A code that is not here is a
// mistake of ours or of the installation: no second try mends it.
var troubles = map[string]channels.Trouble{
	"ratelimited": channels.Busy, "rate_limited": channels.Busy, "message_limit_exceeded": channels.Busy, "team_added_to_org": channels.Busy,

	"channel_not_found": channels.Nowhere, "not_in_channel": channels.Nowhere, "is_archived": channels.Nowhere, "is_inactive": channels.Nowhere,
	"restricted_action": channels.Nowhere, "restricted_action_read_only_channel": channels.Nowhere,
	"restricted_action_thread_only_channel": channels.Nowhere, "restricted_action_non_threadable_channel": channels.Nowhere,
	"restricted_action_thread_locked": channels.Nowhere, "cannot_reply_to_message": channels.Nowhere,
	"user_disabled": channels.Nowhere, "user_not_found": channels.Nowhere, "messages_tab_disabled": channels.Nowhere,

	"message_not_found": channels.Frozen, "cant_update_message": channels.Frozen, "edit_window_closed": channels.Frozen, "block_mismatch": channels.Frozen,

	"invalid_auth": channels.Out, "not_authed": channels.Out, "account_inactive": channels.Out, "token_revoked": channels.Out, "token_expired": channels.Out,
	"missing_scope": channels.Out, "no_permission": channels.Out, "not_allowed_token_type": channels.Out, "org_login_required": channels.Out,
	"team_access_not_granted": channels.Out, "two_factor_setup_required": channels.Out, "enterprise_is_restricted": channels.Out, "access_denied": channels.Out,
	"accesslimited": channels.Out, "app_access_restricted": channels.Out, "ekm_access_denied": channels.Out, "invalid_app_id": channels.Out,

	"internal_error": channels.Unknown, "fatal_error": channels.Unknown, "request_timeout": channels.Unknown, "service_unavailable": channels.Unknown,
}

// slowDown is how long to wait where Slack does not say.
const slowDown = 30 * time.Second

// errNeither is an answer that Slack gives at times: no success, and no error.
var errNeither = errors.New("slack answered neither yes nor no")

// failed tells what an error of slack-go means. No error at all is Slack's
// answer without one: nobody knows what it did.
func failed(op string, err error) error {
	if err == nil {
		err = errNeither
	}
	e := &channels.Error{Op: op, Err: err}
	e.Trouble, e.After = meaning(err)
	return e
}

func meaning(err error) (channels.Trouble, time.Duration) {
	if limited, ok := errors.AsType[*api.RateLimitedError](err); ok {
		return channels.Busy, max(limited.RetryAfter, time.Second)
	}
	if status, ok := errors.AsType[api.StatusCodeError](err); ok && status.Code == http.StatusTooManyRequests {
		return channels.Busy, slowDown
	}
	if refused, ok := errors.AsType[api.SlackErrorResponse](err); ok {
		t := troubles[refused.Err]
		if t == channels.Busy {
			return t, slowDown
		}
		return t, 0
	}
	if wire, ok := errors.AsType[*net.OpError](err); ok && wire.Op == "dial" {
		return channels.Busy, 0 // it was never sent
	}
	return channels.Unknown, 0
}
