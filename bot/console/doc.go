// Package console is the web page where people decide: an inbox of what waits,
// one approval with everything an approver needs to see, the history and the
// standing grants.
//
//	browser ─▶ guard ─▶ session ─▶ page ─▶ Inbox (the gate)
//	   ▲                                       │
//	   └───────── /console/events ◀─ Wake ◀────┘  ids and kinds; the page reads itself again
//
// Pages are plain HTML and every decision is a plain form: without JavaScript
// nothing is missing but the liveness. GET never decides. Start reading at
// console.go, which lists the routes; approval.go says what one page shows and
// press.go what a press does.
package console
