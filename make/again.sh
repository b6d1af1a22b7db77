#!/usr/bin/env bash
# again.sh "make e2e E2E_TEST=" COMMAND...: runs tests, and says of each that failed how to run it alone.
set -uo pipefail
again=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Tests that wait for their turn are not slow: nobody needs to be told.
"$@" 2>&1 | grep --line-buffered -v ' has been running for over 60 seconds$' | tee "$log"
status=${PIPESTATUS[0]}
sed -nE 's/^---- (.*) stdout ----$/\1/p' "$log" | sort -u | while IFS= read -r name; do
    echo "failed: $name; alone again with: $again$name"
done
exit "$status"
