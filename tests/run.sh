#!/usr/bin/env bash
# Every check there is: format, lints, documentation, tests with HiGHS and with its stand-in, Python checks.
#
#   bash tests/run.sh
#
# Heeds CARGO_TARGET_DIR, and ROUTEPACK_HIGHS (see crates/routepack-lp/setup.sh).
set -euo pipefail

say() { printf '\n==> %s\n' "$*"; }

target=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say "preparing HiGHS"
bash crates/routepack-lp/setup.sh
. "$target/highs/env.sh"

say "format"
cargo fmt --all --check

# shellcheck disable=SC2086 # no feature flag, or one
{
    say "lints"
    cargo clippy --release --workspace --all-targets $ROUTEPACK_FEATURES -- -D warnings
    say "documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --release --workspace --no-deps $ROUTEPACK_FEATURES
    say "tests"
    cargo test --release --workspace $ROUTEPACK_FEATURES
}

if [ -z "$ROUTEPACK_FEATURES" ]; then
    # The crates with a feature `highs` are those that reach routepack-lp.
    reach=$(grep -l '^highs = ' crates/*/Cargo.toml tests/Cargo.toml | xargs sed -n 's/^name = "\(routepack[^"_]*\)"$/--package \1/p' | sort -u)
    # shellcheck disable=SC2086 # a list of packages
    {
        say "lints without HiGHS"
        cargo clippy --release --all-targets --no-default-features $reach -- -D warnings
        say "tests without HiGHS"
        cargo test --release --no-default-features $reach
    }
fi

shopt -s nullglob globstar
for check in tests/**/test_*.py; do
    say "python3 $check"
    python3 "$check"
done

say "all green"
