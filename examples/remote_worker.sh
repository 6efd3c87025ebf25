#!/usr/bin/env bash
# A remote worker in bash, curl and jq.
#
#     [types.shout]
#     remote = true
#
#     ./remote_worker.sh http://127.0.0.1:5627
set -euo pipefail
url=$1

ask() { # PATH JSON: post, and wait for a daemon that is away
    curl --silent --show-error --fail --retry 10 --retry-connrefused --json "$2" "$url$1"
}

while true; do
    wish='{"types": ["shout"], "max": 1, "wait_seconds": 30, "worker": "bash"}'
    job=$(ask /leases "$wish" | jq --compact-output '.jobs[0] // empty')
    [ -n "$job" ] || continue
    token=$(jq --raw-output .lease.token <<<"$job")

    # While the work goes on, show life well before half of the lease is over.
    while sleep 10; do
        ask /leases/heartbeat "$(jq -n --arg t "$token" '{leases: [{token: $t}]}')" >/dev/null
    done &
    alive=$!

    if result=$(jq --compact-output '.payload | {said: (.text | ascii_upcase)}' <<<"$job"); then
        outcome=$(jq -n --arg t "$token" --argjson r "$result" \
            '{leases: [{token: $t, outcome: "completed", result: $r}]}')
    else
        outcome=$(jq -n --arg t "$token" \
            '{leases: [{token: $t, outcome: "retry", error: "the payload has no text"}]}')
    fi
    kill "$alive"
    ask /leases/settle "$outcome" >/dev/null
done
