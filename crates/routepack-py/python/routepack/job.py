"""A job as the native module reads it."""

from __future__ import annotations

import json
import math
import numbers
import operator
import os
from typing import Any, Mapping

import numpy as np

from . import _native
from ._arrays import file_name
from ._native import JobError, job_from_toml

Job = Mapping[str, Any]

DEPTH = 16
"""Most levels of a job; one that holds itself has more."""


def job_text(job: Job | str | os.PathLike[str]) -> str:
    """A job as JSON: of a mapping, or of the job file with this path."""
    if isinstance(job, (str, os.PathLike)):
        return job_from_toml(file_name(job))
    return json.dumps(_plain("job", job, DEPTH))


def job_schema() -> dict[str, Any]:
    """The JSON Schema of a job: every key with its meaning, unit and default."""
    schema: dict[str, Any] = json.loads(_native.job_schema())
    return schema


def _plain(name: str, value: Any, depth: int) -> Any:
    """Numbers of NumPy, mappings and sequences of any kind, as JSON has them."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (np.bool_, np.ndarray)):
        return _plain(name, value.tolist(), depth)
    if isinstance(value, numbers.Integral):
        return operator.index(value)
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise JobError(f"{name} = {value}: expected a finite number")
        return float(value)
    if depth == 0:
        raise JobError(f"{name}: more than {DEPTH} levels")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise JobError(f"{name}: key {key!r}, expected a text")
        return {key: _plain(f"{name}.{key}", held, depth - 1) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{name}[{place}]", held, depth - 1) for place, held in enumerate(value)]
    raise JobError(f"{name}: {type(value).__name__}, expected a number, a text, a list or a mapping")
