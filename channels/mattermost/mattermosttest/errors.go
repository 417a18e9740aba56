package mattermosttest

import (
	"fmt"
	"net/http"
)

// appError is how Mattermost refuses. Its JSON is the body of the answer.
type appError struct {
	ID       string `json:"id"`
	Message  string `json:"message"`
	Detailed string `json:"detailed_error"`
	Request  string `json:"request_id,omitempty"`
	Status   int    `json:"status_code"`

	cause string // shown only to developers
}

// Error implements error.
func (e *appError) Error() string { return e.ID }

func refuse(status int, id, message string) *appError {
	return &appError{ID: id, Message: message, Status: status}
}

// because says what only the log of a server says.
func (e *appError) because(format string, with ...any) *appError {
	e.cause = fmt.Sprintf(format, with...)
	return e
}

func forbidden() *appError {
	return refuse(http.StatusForbidden, "api.context.permissions.app_error", "You do not have the appropriate permissions.").because("permission")
}

func noSession() *appError {
	return refuse(http.StatusUnauthorized, "api.context.session_expired.app_error", "Invalid or expired session, please login again.")
}

func invalidBody(what string) *appError {
	return refuse(http.StatusBadRequest, "api.context.invalid_body_param.app_error", "Invalid or missing "+what+" in request body.")
}

func invalidURL(what string) *appError {
	return refuse(http.StatusBadRequest, "api.context.invalid_url_param.app_error", "Invalid or missing "+what+" parameter in request URL.")
}

func tooLarge() *appError {
	return refuse(http.StatusRequestEntityTooLarge, "api.context.request_body_too_large.app_error", "Unable to process request. Request body too large.")
}

// notFound is the answer for paths that lead nowhere. It has no request id.
func notFound(path string) *appError {
	e := refuse(http.StatusNotFound, "api.context.404.app_error", "Sorry, we could not find the page.")
	e.Detailed = "There doesn't appear to be an api call for the url='" + path +
		"'.  Typo? are you missing a team_id or user_id as part of the url?"
	return e
}

func noPost() *appError {
	return refuse(http.StatusNotFound, "app.post.get.app_error", "Unable to get the post.")
}

func noChannel(id string) *appError {
	return refuse(http.StatusNotFound, "app.channel.get.existing.app_error", "Unable to find the existing channel "+id+".")
}

func noUser() *appError {
	return refuse(http.StatusNotFound, "app.user.missing_account.const", "Unable to find the user.")
}

func badIntegration() *appError {
	return refuse(http.StatusBadRequest, "api.post.do_action.action_integration.app_error", "Action integration error.")
}

func noAction() *appError {
	return refuse(http.StatusNotFound, "api.post.do_action.action_id.app_error", "Invalid action id.").because("action=<nil>")
}
