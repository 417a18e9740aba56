#!/bin/sh
# Makes what approvalbot needs in a Mattermost server: the settings, a bot account with
# its token, a private channel for the cards, and the slash command. It uses mmctl,
# which a system admin has logged in before (mmctl auth login https://…); --local does
# not do, because bots cannot be made that way.
#
#   TEAM=acme CREATOR=ops-admin CALLBACK_URL=https://approvals.internal.example.com sh setup.sh
#
# It can be run again: what is there stays as it is. Tokens go into files that only you
# can read, and nowhere else.
set -eu
umask 077

: "${TEAM:?the name of the team as it is in addresses, like acme}"
: "${CALLBACK_URL:?where Mattermost reaches approvalbot, like https://approvals.internal.example.com}"
: "${CREATOR:=}"                 # whose slash command it is; empty: none is made
: "${CHANNEL:=approvals}"
: "${BOT:=approvalbot}"
: "${SECRETS:=secrets}"
: "${MMCTL:=mmctl}"              # or: docker compose exec -T mattermost mmctl

# The host that Mattermost may call although its address is private. Set it to nothing
# if approvalbot has a public address.
host=${CALLBACK_URL#*://}
host=${host%%/*}
: "${INTERNAL=${host%:*}}"

mm() { $MMCTL "$@" </dev/null; }
setting() { mm config get "ServiceSettings.$1" | sed -n 's/^"\{0,1\}\(.*[^"]\)"\{0,1\}$/\1/p'; }
on() { [ "$(setting "$1")" = true ] || mm config set "ServiceSettings.$1" true >/dev/null; }
say() { printf '%s\n' "$*"; }

# keep NAME writes the 26 letters and digits of a token, which it reads, into a file.
keep() {
    token=$(cat)
    case $token in
        *[!a-z0-9]* | "") say "mmctl has printed no token for $SECRETS/$1; make one by hand: docs/mattermost.md" >&2; exit 1 ;;
    esac
    printf '%s\n' "$token" >"$SECRETS/$1"
}

mkdir -p "$SECRETS"

# 1. The settings.
if [ -z "$(setting SiteURL)" ]; then
    say "SiteURL is empty, and without it buttons and commands do not work. Set it to what people type into their browsers:" >&2
    say "  $MMCTL config set ServiceSettings.SiteURL https://mattermost.example.com" >&2
    exit 1
fi
on EnableBotAccountCreation
on EnableCommands
allowed=$(setting AllowedUntrustedInternalConnections)
case "${INTERNAL:+ $allowed }" in
    "" | *" $INTERNAL "*) ;;
    *) mm config set ServiceSettings.AllowedUntrustedInternalConnections "${allowed:+$allowed }$INTERNAL" >/dev/null ;;
esac
say "settings: Mattermost may call ${INTERNAL:-public addresses only}"

# 2. The bot, which belongs to whoever runs this: it is disabled when they are.
if ! mm bot list --all | grep -qF ": $BOT("; then
    mm bot create "$BOT" --display-name "Approvals" --description "Holds tool calls of AI agents until the right people have said yes" >/dev/null
fi
if [ ! -s "$SECRETS/mattermost-token" ]; then
    mm token generate "$BOT" approvalbot | sed -n 's/^\([a-z0-9]\{26\}\): .*/\1/p' | keep mattermost-token
fi
say "bot: @$BOT, its token is in $SECRETS/mattermost-token"

# 3. Where cards go. Whoever is in this channel sees the arguments of calls.
mm team users add "$TEAM" "$BOT" >/dev/null
if ! mm channel list "$TEAM" | grep -qxE "$CHANNEL( \(.*\))?"; then
    mm channel create --team "$TEAM" --name "$CHANNEL" --display-name "Approvals" --private >/dev/null
fi
mm channel users add "$TEAM:$CHANNEL" "$BOT" >/dev/null
say "channel: $TEAM/$CHANNEL; invite the people who decide"

# 4. The slash command.
if [ -n "$CREATOR" ] && [ ! -s "$SECRETS/mattermost-command-token" ]; then
    mm --json command create "$TEAM" --creator "$CREATOR" --title Approvals --description "approvalbot" \
        --trigger-word approvals --url "$CALLBACK_URL/mattermost/commands" --post \
        --autocomplete --autocompleteDesc "See what waits for people, and decide" --autocompleteHint "[pending | show ID | help]" |
        sed -n 's/^.*"token": *"\([a-z0-9]\{26\}\)".*$/\1/p' | keep mattermost-command-token
fi
[ ! -s "$SECRETS/mattermost-command-token" ] || say "command: /approvals, its token is in $SECRETS/mattermost-command-token"

say ""
say "In approvalbot.yaml:"
say "  channels:"
say "    mattermost:"
say "      url: $(setting SiteURL)"
say "      token_file: $SECRETS/mattermost-token"
say "      callback_url: $CALLBACK_URL"
[ ! -s "$SECRETS/mattermost-command-token" ] || say "      commands: [{team: $TEAM, token_file: $SECRETS/mattermost-command-token}]"
say "  review: {mattermost: $TEAM/$CHANNEL}"
say "Then: approvalbot doctor mattermost --config approvalbot.yaml"
