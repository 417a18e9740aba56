// Package slacktest is a double of Slack for tests: a server that accepts what
// Slack accepts and, above all, refuses what Slack refuses. It keeps messages,
// views and sockets, and its people press buttons.
//
//	bot ── Web API ──▶ server.go ─▶ messages.go, views.go, workspace.go
//	 ▲                   faults.go and limits.go stand in between
//	 │
//	 └── HTTP, signed, or socket.go ◀── clicks.go ◀── a test: Click, Submit, Slash
//
// A test makes one with [New], seeds people and conversations, gives [Slack.URL]
// to the client, and acts as a person:
//
//	s := slacktest.New(t, slacktest.Config{})
//	s.AddUser(slacktest.User{ID: "U0AAAAAA1", Name: "ada"})
//	s.AddChannel(slacktest.Channel{ID: "C0AAAAAA1", Members: []string{"U0AAAAAA1", slacktest.BotUser}})
//	api := slack.New(slacktest.BotToken, slack.OptionAPIURL(s.URL()+"/api/"))
//	… the bot posts …
//	seen, err := s.Click(ctx, slacktest.Click{User: "U0AAAAAA1", Channel: "C0AAAAAA1", TS: ts, Action: "approve"})
//
// On [Pipes] it lives in a bubble of testing/synctest, where hours take no time.
//
// Where Slack's behaviour is not documented, the double takes the stricter one
// and the comment says so. It knows the blocks that a card may use and refuses
// others. Organisation-wide installs, rotating tokens, files and streams are left
// out; [Click.Mangle] makes the payloads that they would bring.
package slacktest
