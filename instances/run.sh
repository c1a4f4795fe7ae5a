#!/usr/bin/env bash
# From a clone to a verified plan: prepares HiGHS, builds the command, plans a shipped window, verifies, reports.
#
#   bash instances/run.sh [OUTPUT_DIRECTORY]      # default: the target directory
#
# Heeds CARGO_TARGET_DIR, and ROUTEPACK_HIGHS (see crates/routepack-lp/setup.sh).
set -euo pipefail

say() { printf '\n==> %s\n' "$*"; }

target=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}
mkdir -p "$target" "${1:-$target}"
target=$(cd "$target" && pwd)
output=$(cd "${1:-$target}" && pwd)
export CARGO_TARGET_DIR=$target
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say "preparing HiGHS"
bash crates/routepack-lp/setup.sh
. "$target/highs/env.sh"

say "building routepack"
# shellcheck disable=SC2086 # no feature flag, or one
cargo build --release --package routepack-cli --package routepack-certificate $ROUTEPACK_FEATURES
routepack=$target/release/routepack
window=instances/windows/tiny.npz
plan=$output/tiny.plan.json

say "planning $window"
"$routepack" plan $window --job instances/windows/tiny.toml -o "$plan"

say "verifying $plan"
"$routepack" verify "$plan" --window $window

say "reporting"
"$routepack" report "$plan" --window $window
