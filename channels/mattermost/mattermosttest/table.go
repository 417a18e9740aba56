package mattermosttest

import "net/http"

// Parts of paths, as narrow as Mattermost takes them.
const (
	api      = "/api/v4"
	id       = ":[A-Za-z0-9]+}"
	word     = `:[A-Za-z0-9_\-\.]+}`
	users    = api + "/users"
	oneUser  = users + "/{user" + id
	oneTeam  = api + "/teams/{team" + id
	namedTm  = api + "/teams/name/{teamname" + word
	oneChan  = api + "/channels/{channel" + id
	posts    = api + "/posts"
	onePost  = posts + "/{post" + id
	commands = api + "/commands"
	oneCmd   = commands + "/{command" + id
)

// table is all that the double can do for a client, by the names that tests script
// faults with.
func (s *Server) table() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	pressed := "/actions/{action:[A-Za-z0-9]+}"
	if s.since11(10) {
		pressed = "/actions/{action:[A-Za-z0-9_-]+}"
	}
	return append(s.adminTable(), []route{
		{op: "ping", method: get, path: api + "/system/ping", do: s.ping, open: true},
		{op: "license", method: get, path: api + "/license/client", do: s.license, open: true},
		{op: "config", method: get, path: api + "/config/client", do: s.clientConfig, open: true},

		{op: "me", method: get, path: users + "/me", do: s.getUser},
		{op: "user", method: get, path: oneUser, do: s.getUser},
		{op: "user_by_name", method: get, path: users + "/username/{name" + word, do: s.userByName},
		{op: "user_by_email", method: get, path: users + "/email/{email}", do: s.userByEmail},
		{op: "users_by_name", method: post, path: users + "/usernames", do: s.usersByNames},
		{op: "users_by_id", method: post, path: users + "/ids", do: s.usersByIDs},
		{op: "users", method: get, path: users, do: s.listUsers},

		{op: "team", method: get, path: oneTeam, do: s.getTeam},
		{op: "team_by_name", method: get, path: namedTm, do: s.teamByName},
		{op: "teams_of_user", method: get, path: oneUser + "/teams", do: s.teamsOfUser},
		{op: "team_member", method: get, path: oneTeam + "/members/{user" + id, do: s.teamMember},

		{op: "channel", method: get, path: oneChan, do: s.getChannel},
		{op: "channel_by_name", method: get, path: oneTeam + "/channels/name/{name" + word, do: s.channelByName},
		{op: "channel_by_name", method: get, path: namedTm + "/channels/name/{name" + word, do: s.channelByNames},
		{op: "channels_of_user", method: get, path: oneUser + "/teams/{team" + id + "/channels", do: s.channelsOfUser},
		{op: "channel_member", method: get, path: oneChan + "/members/{user" + id, do: s.channelMember},
		{op: "channel_members", method: get, path: oneChan + "/members", do: s.channelMembers},
		{op: "join_channel", method: post, path: oneChan + "/members", do: s.join},
		{op: "leave_channel", method: del, path: oneChan + "/members/{user" + id, do: s.leaveChannel},
		{op: "archive_channel", method: del, path: oneChan, do: s.archiveChannel},
		{op: "direct", method: post, path: api + "/channels/direct", do: s.direct},
		{op: "group_message", method: post, path: api + "/channels/group", do: s.groupMessage},

		{op: "groups", method: get, path: api + "/groups", do: s.listGroups},
		{op: "group", method: get, path: api + "/groups/{group" + id, do: s.getGroup},
		{op: "group_members", method: get, path: api + "/groups/{group" + id + "/members", do: s.groupMembers},
		{op: "user_groups", method: get, path: oneUser + "/groups", do: s.groupsOfUser},

		{op: opCreate, method: post, path: posts, do: s.createPost},
		{op: "create_ephemeral", method: post, path: posts + "/ephemeral", do: s.createEphemeral},
		{op: "posts_by_id", method: post, path: posts + "/ids", do: s.postsByIDs},
		{op: "get_post", method: get, path: onePost, do: s.getPost},
		{op: "patch_post", method: put, path: onePost + "/patch", do: s.patchPost},
		{op: "put_post", method: put, path: onePost, do: s.putPost},
		{op: "delete_post", method: del, path: onePost, do: s.deletePost},

		{op: "press", method: post, path: onePost + pressed, do: s.act},
		{op: "open_dialog", method: post, path: api + "/actions/dialogs/open", do: s.openDialog, open: true},
		{op: "submit_dialog", method: post, path: api + "/actions/dialogs/submit", do: s.submitDialog},
		{op: "look_up", method: post, path: api + "/actions/dialogs/lookup", do: s.lookUp},

		{op: "react", method: post, path: api + "/reactions", do: s.react},
		{op: "reactions", method: get, path: onePost + "/reactions", do: s.reactionsOf},
		{op: "unreact", method: del, path: oneUser + "/posts/{post" + id + `/reactions/{emoji:[A-Za-z0-9_\-\+]+}`, do: s.unreact},
		{op: "channel_posts", method: get, path: oneChan + "/posts", do: s.channelPosts},
		{op: "thread", method: get, path: onePost + "/thread", do: s.thread},

		{op: "commands", method: get, path: commands, do: s.listCommands},
		{op: "create_command", method: post, path: commands, do: s.createCommand},
		{op: "update_command", method: put, path: oneCmd, do: s.updateCommand},
		{op: "regen_command", method: put, path: oneCmd + "/regen_token", do: s.regenCommand},
		{op: "run_command", method: post, path: commands + "/execute", do: s.execute},
		{op: "late_answer", method: post, path: "/hooks/commands/{hook" + id, do: s.lateAnswer, open: true},
	}...)
}

// adminTable is what admins do.
func (s *Server) adminTable() []route {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	bot := api + "/bots/{user" + id
	tokens := users + "/tokens"
	return []route{
		{op: "create_bot", method: post, path: api + "/bots", do: s.createBot},
		{op: "disable_bot", method: post, path: bot + "/disable", do: s.switchBot(true)},
		{op: "enable_bot", method: post, path: bot + "/enable", do: s.switchBot(false)},
		{op: "login", method: post, path: users + "/login", do: s.logIn, open: true},
		{op: "patch_user", method: put, path: oneUser + "/patch", do: s.patchUser},
		{op: "set_active", method: put, path: oneUser + "/active", do: s.setActive},
		{op: "set_roles", method: put, path: oneUser + "/roles", do: s.setRoles},
		{op: "join_team", method: post, path: oneTeam + "/members", do: s.joinTeam},
		{op: "suggest", method: get, path: oneTeam + "/commands/autocomplete_suggestions", do: s.suggest},

		{op: "create_token", method: post, path: oneUser + "/tokens", do: s.createToken},
		{op: "tokens", method: get, path: oneUser + "/tokens", do: s.listTokens},
		{op: "disable_token", method: post, path: tokens + "/disable", do: s.onToken(func(_ string, t *token) { t.disabled = true })},
		{op: "enable_token", method: post, path: tokens + "/enable", do: s.onToken(func(_ string, t *token) { t.disabled = false })},
		{op: "revoke_token", method: post, path: tokens + "/revoke", do: s.onToken(func(secret string, _ *token) { delete(s.tokens, secret) })},
	}
}
