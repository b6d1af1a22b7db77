#!/usr/bin/env bash
# Small things that a reader stumbles over: paths of somebody's machine, links that lead nowhere,
# files that have grown beyond one idea.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
complain() {
    echo "tidy: $*" >&2
    failed=1
}

# All files that belong to the repository, also those not yet committed.
mapfile -t files < <(git ls-files --cached --others --exclude-standard | sort -u)
existing=()
for file in "${files[@]}"; do
    [[ -f $file ]] && existing+=("$file")
done

# Home directories and scratch places of a developer have no business here.
places='(^|[^A-Za-z0-9_.$}-])/((home|Users|work)/[A-Za-z0-9._-]+|root/\.[a-z])'
while IFS= read -r hit; do
    complain "a path of somebody's machine: $hit"
done < <(grep -nHIE "$places" -- "${existing[@]}" 2>/dev/null | grep -v '^make/tidy.sh:' || true)

# Relative links in Markdown.
for file in "${existing[@]}"; do
    [[ $file == *.md ]] || continue
    while IFS= read -r link; do
        target=${link%%#*}
        [[ -z $target || $target =~ ^[a-z]+: || $target == *'<'* ]] && continue
        [[ -e $(dirname "$file")/$target ]] || complain "$file: dead link: $link"
    done < <(awk '/^[[:space:]]*```/ { code = !code } !code' "$file" \
        | grep -oE '\]\([^) ]+\)' | sed -E 's/^\]\((.*)\)$/\1/' || true)
done

# One idea a file. Tests and generated pages may be longer.
for file in "${existing[@]}"; do
    [[ $file == crates/*/src/*.rs && $file != */tests/* && $file != *tests.rs ]] || continue
    lines=$(awk '/^#\[cfg\(test\)\]/ { exit } { n++ } END { print n + 0 }' "$file")
    ((lines <= 600)) || complain "$file: $lines lines before its tests; split it by ideas"
done

# Every page is in the book's table of contents.
if [[ -f docs/SUMMARY.md ]]; then
    while IFS= read -r page; do
        page=${page#docs/}
        [[ $page == SUMMARY.md ]] && continue
        grep -qF "($page)" docs/SUMMARY.md || complain "docs/$page is not in docs/SUMMARY.md"
    done < <(printf '%s\n' "${existing[@]}" | grep -E '^docs/.*\.md$' || true)
fi

[[ $failed == 0 ]] && echo "tidy: ${#existing[@]} files"
exit "$failed"
