"""Packages that only some modules need."""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackageError(ImportError):
    """A module of this package needs another package; the message says how to install it."""


def needed(package: str, by: str) -> Any:
    """The package, or an error that says what to do."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(f"{by} needs {package}: pip install {package} ({error})", name=package) from error
