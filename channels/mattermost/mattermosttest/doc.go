// Package mattermosttest is a double of a Mattermost server for tests: it accepts
// what Mattermost 11.2 accepts and, above all, refuses what that refuses. It keeps
// posts, and its people press buttons, fill in dialogs and type commands.
//
//	bot ── API v4 ──▶ serve.go ─▶ table.go: posts.go, people.go, places.go, …
//	 ▲                 faults.go and limits.go stand in between
//	 │
//	 └── callbacks ◀── outgoing.go ◀── a test: Press, Submit, Type
//
// A test makes one with [New], seeds people and channels, gives [Server.URL] and
// [BotToken] to the client, and acts as a person:
//
//	s := mattermosttest.New(t, mattermosttest.Config{})
//	s.AddUser(mattermosttest.User{ID: ada, Username: "ada"})
//	s.AddChannel(mattermosttest.Channel{ID: ops, Name: "ops", Members: []string{ada, mattermosttest.BotUser}})
//	… the bot posts …
//	seen, err := s.Press(ctx, mattermosttest.Press{User: ada, Post: post, Action: "approve"})
//
// On [Pipes] it lives in a bubble of testing/synctest, where hours take no time.
//
// What it does was measured on a real server of version 11.2.0; where that was not
// looked at, the double takes what is known of the source, and the stricter of
// two. Where the captured traffic of that server is at hand, replay_test.go makes
// all of its calls again and compares. The double shares no code and no types with
// the client. WebSockets, webhooks, files, search and plugins are left out.
package mattermosttest
