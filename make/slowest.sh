#!/usr/bin/env bash
# What took how long, from lines of seconds, phase and test: one line a test, the longest first.
set -euo pipefail
awk -F '\t' '
    { sum[$2, $3] += $1; names[$3] }
    $2 != "waited" { took[$3] += $1; all += $1 }
    END {
        for (name in names)
            printf "%6.1f %6.1f %6.1f  %s\n", took[name], sum["up", name], sum["waited", name], name
        printf "%6.1f    -      -    all, one after the other\n", all
    }' "$1" | sort -rn | sed '1i\    took  up to  waited  seconds; up to: until its database was up; waited: for its turn'
