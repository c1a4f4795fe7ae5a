#!/usr/bin/env bash
# From a wheel file to a verified plan of rollouts as vLLM hands them over, in a fresh virtual environment with nothing but
# pip. Says how long that took.
#
#   bash from_wheel.sh WHEEL
set -euo pipefail
wheel=$(realpath "$1")
example=$(realpath "$(dirname "${BASH_SOURCE[0]}")/vllm_to_plan.py")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
begun=$(date +%s.%N)
python3 -m venv fresh
fresh/bin/pip install -q "$wheel"
installed=$(date +%s.%N)
fresh/bin/python "$example"
awk -v a="$begun" -v b="$installed" -v c="$(date +%s.%N)" 'BEGIN { printf "environment and wheel %.1f s, in all %.1f s\n", b - a, c - a }'
