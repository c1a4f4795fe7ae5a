"""Builds the Python wheel and runs the package's own tests in a fresh environment."""

import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.exit(subprocess.run(["bash", root / "crates/routepack-py/test.sh"]).returncode)
