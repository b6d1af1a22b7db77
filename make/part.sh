#!/usr/bin/env bash
# Of tests as `--list --format terse` names them, the names of one part: 2/3 is every third, from the second
# on. Without a part, of all.
set -euo pipefail
part=${1:-1/1}
[[ $part =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] && ((BASH_REMATCH[1] <= BASH_REMATCH[2])) || {
    echo "PART is \"$part\"; write the second of three parts as 2/3" >&2
    exit 1
}
sed -n 's/: test$//p' | awk -v which="${BASH_REMATCH[1]}" -v of="${BASH_REMATCH[2]}" 'NR % of == which % of'
