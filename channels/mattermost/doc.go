// Package mattermost shows approvals in Mattermost. Cards are message attachments,
// drawn by a pure function; whatever an agent says is code in them, where Mattermost
// parses nothing.
//
// Mattermost does not sign what it sends us when a button is pressed, and everybody
// in a conversation can read what a button carries, or post buttons of their own
// with the same in them. A press counts only if all of this is true:
//
//   - the button says what we signed: approval, call, action, conversation (seal.go)
//   - it is on a post of ours, in that conversation (presses.go)
//   - its trigger id is signed by the server for this person, is not older than half
//     a minute, and was not used before (trigger.go)
//   - it comes from an address that may call us, if any are listed (config.go); if
//     none are, an approval is asked for once more in a dialog, which only the person
//     themselves is shown (dialogs.go)
package mattermost
