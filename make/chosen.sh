#!/usr/bin/env bash
# chosen.sh TEST PART COMMAND...: the names of the tests to run, of those that COMMAND knows: TEST alone; or
# else all that are not marked to be ignored, and a PART of the others, without one all of them.
set -euo pipefail
test=$1 part=$2
shift 2
every=$("$@" --list --format terse)
if [[ -n $test ]]; then
    grep -qxF "$test: test" <<<"$every" || {
        echo "no test has the name \"$test\"" >&2
        exit 1
    }
    echo "$test"
    exit
fi
marked=$("$@" --list --format terse --ignored)
here=$(dirname "$0")
comm -23 <(sort <<<"$every") <(sort <<<"$marked") | bash "$here/part.sh"
bash "$here/part.sh" "$part" <<<"$marked"
