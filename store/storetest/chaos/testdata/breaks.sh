#!/usr/bin/env bash
# Breaks the gate on purpose, one patch at a time, in a copy of the module, and
# expects the rig to find it within a minute. Usage: breaks.sh [patch…]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../../.."
(($#)) || set -- "$here"/*.patch

missed=0
for patch in "$@"; do
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	git ls-files -z | xargs -0 cp --parents -t "$copy"
	patch --quiet --strip 1 --directory "$copy" <"$patch"
	(cd "$copy" && go test -c -o chaos.test ./store/storetest/chaos)
	topology=
	[[ $patch != *incarnation* ]] || topology=promotions # else there is nothing to find
	begun=$SECONDS
	if out=$(cd "$copy/store/storetest/chaos" && CHAOS_DIR="$copy/histories" CHAOS_STOP=1 CHAOS_HISTORIES="${CHAOS_HISTORIES:-200}" \
		CHAOS_TOPOLOGY=$topology CHAOS_PARALLEL="${CHAOS_PARALLEL:-6}" CHAOS_SECONDS="${CHAOS_SECONDS:-60}" "$copy/chaos.test" -test.run TestChaos 2>&1) ||
		! grep -q 'violation: ' <<<"$out"; then
		echo "NOT FOUND: $(basename "$patch"), in $((SECONDS - begun)) s"
		missed=1
	else
		echo "found: $(basename "$patch"), in $((SECONDS - begun)) s: $(grep -m 1 -o 'violation: .*' <<<"$out")"
	fi
	rm -rf "$copy"
done
exit $missed
