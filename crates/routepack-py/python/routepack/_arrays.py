"""Arrays as the native module takes them: values are checked, never wrapped or rounded."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from ._native import JobError, RoutePackError, WindowError


def integers(
    name: str,
    values: Any,
    dtype: npt.DTypeLike,
    axes: tuple[str, ...] = ("samples",),
    error: type[RoutePackError] = WindowError,
) -> npt.NDArray[Any]:
    """A contiguous array of this integer type with these axes."""
    array = np.asarray(values)
    if array.ndim != len(axes):
        raise error(f"{name}: shape {list(array.shape)}, expected [{', '.join(axes)}]")
    if array.size == 0:
        return np.zeros(array.shape, dtype=dtype)
    if array.dtype.kind not in "iu":
        raise error(f"{name}: dtype {array.dtype}, expected integers")
    limits = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        value = low if low < limits.min else high
        index = ", ".join(str(place) for place in np.argwhere(array == value)[0])
        raise error(f"{name}[{index}] = {value}: expected {limits.min} to {limits.max}")
    return np.ascontiguousarray(array, dtype=dtype)


def optional(name: str, values: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """The same, or None."""
    return None if values is None else integers(name, values, dtype)


MOST = (1 << 63) - 1


def number(name: str, value: Any, least: int, most: int, error: type[RoutePackError]) -> int:
    """A whole number within its limits."""
    try:
        whole = operator.index(value)
    except TypeError:
        raise error(f"{name} = {value!r}: expected a whole number") from None
    if not least <= whole <= most:
        raise error(f"{name} = {whole}: expected {least} to {most}")
    return whole


def optional_number(name: str, value: Any, least: int = 0, most: int = MOST) -> int | None:
    """The same of a job, or None."""
    return None if value is None else number(name, value, least, most, JobError)


def thread_count(threads: Any) -> int | None:
    """Threads, or None for all processors."""
    return optional_number("threads", threads, 1, 1024)
