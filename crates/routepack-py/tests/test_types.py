"""What the package says of its types: its sources under mypy, and the stub of the native module beside the module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="pip install mypy")

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"


def run(folder: Path, *arguments: str) -> None:
    settings = {**os.environ, "MYPY_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, env=settings, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sources_are_strictly_typed(tmp_path: Path) -> None:
    run(tmp_path, "mypy", "--config-file", str(SETTINGS), "--package", "routepack")


def test_the_native_module_is_what_its_stub_says(tmp_path: Path) -> None:
    run(tmp_path, "mypy.stubtest", "routepack._native")
