#!/usr/bin/env bash
# The planner and the conductor decide; they must not be able to look at a clock, throw dice or reach
# the outside world. Two walls keep them so, and this script proves that both stand:
#   1. no crate in their dependency tree can do any of it;
#   2. clippy's list of disallowed types and methods, which lies beside each crate's manifest, bites.
# Nor do they know one engine from another: that is what crates/engines is for, of which they see the
# part without I/O.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
locked=(${CI:+--locked})
pure_crates=(planner conductor)
forbidden='tokio|tokio-.*|async-std|smol|mio|socket2|hyper|hyper-.*|reqwest|ureq|tower|tower-http'
forbidden+='|kube-client|kube-runtime|rustls|openssl|native-tls|rand|rand_core|getrandom|fastrand'
forbidden+='|uuid|chrono|tempfile|rayon|crossbeam-.*|notify'

# One folder an engine.
engines=$(find crates/engines/src -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort | paste -sd '|')
if [[ -z $engines ]]; then
    echo "purity: no engine has a folder in crates/engines/src" >&2
    exit 1
fi

failed=0
for crate in "${pure_crates[@]}"; do
    tree=$("$cargo" tree "${locked[@]}" -p "ensemble-$crate" -e normal --prefix none --format '{p}')
    found=$(awk '{ print $1 }' <<<"$tree" | sort -u | grep -xE "$forbidden" || true)
    if [[ -n $found ]]; then
        echo "purity: ensemble-$crate depends on: ${found//$'\n'/, }" >&2
        for name in $found; do
            "$cargo" tree "${locked[@]}" -p "ensemble-$crate" -e normal -i "$name" >&2 || true
        done
        failed=1
    fi
done

for crate in "${pure_crates[@]}"; do
    if grep -rniE "$engines" "crates/$crate/src" >&2; then
        echo "purity: ensemble-$crate knows an engine by its name" >&2
        failed=1
    fi
    # Alone: in a build of the whole workspace, others bring in the part of engines that does I/O.
    "$cargo" check --quiet "${locked[@]}" -p "ensemble-$crate"
done

# One place counts members and names what is theirs: everybody else asks the roster.
counting='spec\.replicas\b|\.replicas\(\)|0\.\.[a-z_.]*replicas|names::(pod|claim|ordinal_of)\b'
for crate in planner conductor controller engines; do
    found=$(grep -rnE "$counting" "crates/$crate/src" --include='*.rs' \
        | grep -vE '^crates/planner/src/roster/' || true)
    if [[ -n $found ]]; then
        echo "purity: counts or names members outside of the roster:" >&2
        echo "$found" >&2
        failed=1
    fi
done

# A crate that breaks the rules, linted under the list of each pure crate, must be refused.
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
mkdir "$probe/src"
cat >"$probe/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2024"
[workspace]
TOML
sins=(
    'pub fn clock() -> std::time::Instant { std::time::Instant::now() }'
    'pub fn wall() -> std::time::SystemTime { std::time::SystemTime::now() }'
    'pub fn order() -> std::collections::HashMap<u8, u8> { Default::default() }'
    'pub fn files() -> bool { std::fs::read("x").is_ok() }'
    'pub fn env() -> bool { std::env::var("X").is_ok() }'
    'pub fn threads() { std::thread::sleep(Default::default()) }'
)
lint() {
    # RUSTUP_TOOLCHAIN: the probe lies outside of the checkout and its rust-toolchain.toml.
    (cd "$probe" && RUSTUP_TOOLCHAIN=${toolchain:-} CARGO_TARGET_DIR="$probe/target" \
        "$cargo" clippy --quiet --offline --message-format short -- -D warnings 2>"$probe/stderr")
}
toolchain=${RUSTUP_TOOLCHAIN:-$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)}
for crate in "${pure_crates[@]}"; do
    cp "crates/$crate/clippy.toml" "$probe/clippy.toml"
    echo '// nothing wrong here' >"$probe/src/lib.rs"
    if ! lint; then
        echo "purity: the probe does not lint at all under crates/$crate/clippy.toml:" >&2
        cat "$probe/stderr" >&2
        exit 1
    fi
    # Each on its line, which must be named.
    printf '%s\n' "${sins[@]}" >"$probe/src/lib.rs"
    lint || true
    for line in "${!sins[@]}"; do
        if ! grep -q "^src/lib.rs:$((line + 1)):.*disallowed" "$probe/stderr"; then
            echo "purity: crates/$crate/clippy.toml lets pass: ${sins[line]}" >&2
            failed=1
        fi
    done
done

[[ $failed == 0 ]] && echo "purity: ${pure_crates[*]}: no clock, no chance, no outside world"
exit "$failed"
