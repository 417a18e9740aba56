// Package slack shows approvals in Slack. Cards are Block Kit, drawn by a pure
// function; what an agent says is only ever put where Slack parses nothing:
// plain_text objects and preformatted rich text.
package slack
