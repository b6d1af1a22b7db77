#!/usr/bin/env bash
# Everything, at every call and every version. Goes on after a failure and ends with one line: N passed,
# N failed. Takes hours; e2e needs root.
set -uo pipefail
cd "$(dirname "$0")/.."
source make/parts.sh

# How long chance is given, where it begins, and how many random calls simkube is compared over.
minutes=${MINUTES:-20}
seed=${SEED:-$(date +%Y%m%d)}
calls=${OPS:-100000}

part lint - lint
part test - test
part sweep - sweep
part explore - explore MINUTES="$minutes" SEED="$seed"
part test-api - test-api
part fidelity - fidelity OPS="$calls"
part e2e - e2e
finish - -
