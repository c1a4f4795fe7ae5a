"""Modules that need other packages say which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    # In a process of its own: the folder beside this file would be taken for torch.
    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)

    if run("import torch.nn").returncode == 0:
        pytest.skip("torch is installed")
    said = run("import routepack.torch").stderr.splitlines()[-1]
    assert said.startswith("routepack._missing.MissingPackageError: routepack.torch needs torch: pip install torch")
