"""Expert state moves between four processes while a small MoE trains: the package's `routepack.torch` under a Python that
has torch. Skipped, and said so, where none has.

Runs after test_wheel.py, which builds the wheel; builds it if it is not there.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

root = Path(__file__).resolve().parents[2]
package = root / "crates/routepack-py"
target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))


def python_with_torch() -> str | None:
    for python in [os.environ.get("ROUTEPACK_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"]:
        if python and subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode == 0:
            return python
    return None


def main() -> int:
    python = python_with_torch()
    if python is None:
        print("skipped: no Python with torch and numpy; Debian: apt-get install python3-torch, or ROUTEPACK_TORCH_PYTHON=…")
        return 0
    wheels = sorted((target / "python/wheels").glob("routepack-*.whl"))
    if not wheels:
        built = subprocess.run(["bash", package / "test.sh"]).returncode
        wheels = sorted((target / "python/wheels").glob("routepack-*.whl"))
        if built or not wheels:
            return built or 1
    with tempfile.TemporaryDirectory() as site:
        zipfile.ZipFile(wheels[-1]).extractall(site)
        paths = [site, str(package / "tests/torch")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([python, package / "tests/torch/training.py"], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
