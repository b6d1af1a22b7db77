# Runs the parts of a whole one after the other, whatever becomes of each, and says of each how it went and
# how long it took beside what it may take. For .ci/run and make/nightly.sh, which source it.

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

passed=0
failed=0
table=()

# Which of so many pieces of a part this commit takes, as 3/8: from its hash, so that each has its turn.
piece_of() {
    local part=$1 pieces=$2 commit chosen
    commit=$(git rev-parse --quiet --verify HEAD || true)
    read -r chosen _ < <(cksum <<<"$part $commit")
    echo "$((chosen % pieces + 1))/$pieces"
}

# Adds up cargo's "test result:" lines of one log into `sum_passed` and `sum_failed`. A test that was run again
# counts by how it ended then.
count() {
    read -r sum_passed sum_failed < <(awk '
        /^test result: / {
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^passed;?$/) passed += $(i - 1)
                if ($i ~ /^failed;?$/) failed += $(i - 1)
            }
        }
        /^again, alone: / { failed-- }
        END { print passed + 0, failed + 0 }' "$1")
}

# What failed is said once more at the end, where people look first: the errors of tools as they
# stand, and of each failed test what it printed last.
failures() {
    grep -hE '^(error|sweep: |failed: .*; alone again with: |testbed: (error|.* FAILED: ))' "$1" | sort -u | head -20 | cut -c1-300
    awk -v most=50 '
        function tell(  i) {
            if (n == 0) return
            print name
            for (i = (n > most ? n - most + 1 : 1); i <= n; i++) print "    " line[i]
            n = 0
        }
        /^---- .* stdout ----$/ { tell(); name = $2; inside = 1; next }
        /^failures:$/ { tell(); inside = 0 }
        inside && NF { line[++n] = substr($0, 1, 600) }
        END { tell() }' "$1"
}

# Seconds as 12:34.
clock() {
    printf '%d:%02d' "$(($1 / 60))" "$(($1 % 60))"
}

row() {
    local name=$1 used=$2 minutes=$3 budget=- remark=$4
    if [[ $minutes != - ]]; then
        budget=$(clock "$((minutes * 60))")
        if ((used > minutes * 60)); then
            remark+=' OVER ITS BUDGET'
        fi
    fi
    table+=("$(printf '%-10s %8s %8s  %s' "$name" "$(clock "$used")" "$budget" "$remark")")
}

# part NAME MINUTES TARGET...: makes it. What it may take, in minutes, or -; a part that takes longer is
# named and does not fail, as machines are not equally fast every day.
part() {
    local name=$1 minutes=$2 log=$logs/$1 started=$SECONDS status=0 verdict=ok used
    shift 2
    echo "=== make $*"
    # 9 is the lock of .ci/run, which nothing that outlives this may hold.
    make --no-print-directory "$@" </dev/null 9>&- 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    used=$((SECONDS - started))
    count "$log"
    # A part that fails without a failed test (a lint, a build, a crash) counts as one failure.
    if ((status != 0 && sum_failed == 0)); then
        sum_failed=1
    fi
    if ((status != 0 || sum_failed > 0)); then
        verdict=FAILED
        printf '%s, again with: make %s\n' "$name" "$*" >>"$logs/failures"
        failures "$log" >>"$logs/failures"
    fi
    grep '^flaky: ' "$log" >>"$logs/flaky"
    passed=$((passed + sum_passed))
    failed=$((failed + sum_failed))
    row "$name" "$used" "$minutes" "$verdict"
    echo "=== make $*: $verdict after $used s ($sum_passed passed, $sum_failed failed)"
    if [[ $minutes != - ]] && ((used > minutes * 60)); then
        echo "=== $name is OVER ITS BUDGET: $(clock "$used") of $(clock "$((minutes * 60))") minutes"
    fi
}

# finish MINUTES MOST: the table, what failed, and one line: N passed, N failed. What the whole may take in
# minutes, and from how many on it has failed; or -.
finish() {
    local minutes=$1 most=$2
    row whole "$SECONDS" "$minutes" ''
    if [[ $most != - ]] && ((SECONDS > most * 60)); then
        failed=$((failed + 1))
        echo "the whole took $(clock "$SECONDS") minutes; at most $most are allowed" >>"$logs/failures"
    fi
    printf '=== %-10s %8s %8s\n' part used budget
    printf '    %s\n' "${table[@]}"
    sort -u "$logs/flaky"
    if ((failed > 0)); then
        echo "=== what failed"
        head -200 "$logs/failures"
    fi
    echo "$passed passed, $failed failed"
    ((failed == 0))
}
