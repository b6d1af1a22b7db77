#!/usr/bin/env bash
# again.sh "make e2e E2E_TEST=" COMMAND...: runs tests, and says of each that failed how to run it alone.
#
# With AGAIN=5, up to five tests that failed run once more, one at a time: tests on real nodes share two cores
# with other databases, and an engine that is starved gives up by itself. What fails alone, too, has failed. What
# passes then is named as `flaky:` and stays in sight; it does not count as a failure.
set -uo pipefail
again=$1
shift
log=$(mktemp)
trap 'rm -f "$log" "$log.alone"' EXIT

# Tests that wait for their turn are not slow: nobody needs to be told.
run() {
    local log=$1
    shift
    "$@" 2>&1 | grep --line-buffered -v ' has been running for over 60 seconds$' | tee "$log"
    return "${PIPESTATUS[0]}"
}

failed_in() {
    sed -nE 's/^---- (.*) stdout ----$/\1/p' "$1" | sort -u
}

# The command without the names of tests that follow `--exact`.
without_names() {
    command=()
    local word
    for word in "$@"; do
        [[ $word == --exact ]] && break
        command+=("$word")
    done
}

status=0
run "$log" "$@" || status=$?
mapfile -t failed < <(failed_in "$log")
if ((status != 0 && ${#failed[@]} > 0 && ${#failed[@]} <= ${AGAIN:-0})); then
    without_names "$@"
    status=0
    first=("${failed[@]}") failed=()
    for name in "${first[@]}"; do
        echo "again, alone: $name"
        if run "$log.alone" "${command[@]}" --exact "$name"; then
            echo "flaky: $name failed beside others and passed alone"
        else
            status=1
            failed+=("$name")
        fi
    done
fi
for name in "${failed[@]}"; do
    echo "failed: $name; alone again with: $again$name"
done
exit "$status"
