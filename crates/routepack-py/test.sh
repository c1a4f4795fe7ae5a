#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment and runs the tests of the package there.
#
#   bash crates/routepack-py/test.sh
#
# Needs Python 3.10 or later with pip and venv. Heeds CARGO_TARGET_DIR. On demand, as both are
# large: ROUTEPACK_RAY=1 with Ray from PyPI, ROUTEPACK_TORCH=1 with the system's python3-torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=${CARGO_TARGET_DIR:-$PWD/../../target}
mkdir -p "$target/python"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target PYTHONDONTWRITEBYTECODE=1

tools=$target/python/tools fresh=$target/python/fresh wheels=$target/python/wheels
[ -x "$tools/bin/maturin" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install -q 'maturin>=1.9,<2'; }
rm -rf "$wheels" "$fresh"
"$tools/bin/maturin" build --release --quiet --out "$wheels" --interpreter python3
if [ -n "${ROUTEPACK_TORCH:-}" ]; then
    /usr/bin/python3 -m venv --system-site-packages "$fresh"
else
    python3 -m venv "$fresh"
fi
"$fresh/bin/pip" install -q pytest mypy ${ROUTEPACK_RAY:+ray} "$wheels"/*.whl
"$fresh/bin/python" -m pytest -q -p no:cacheprovider tests
