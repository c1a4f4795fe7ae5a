"""Arrays as the native module takes them: values are checked, never wrapped or rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._native import WindowError


def integers(
    name: str, values: Any, dtype: npt.DTypeLike, axes: tuple[str, ...] = ("samples",)
) -> npt.NDArray[Any]:
    """A contiguous array of this integer type with these axes."""
    array = np.asarray(values)
    if array.ndim != len(axes):
        raise WindowError(f"{name}: shape {list(array.shape)}, expected [{', '.join(axes)}]")
    if array.size == 0:
        return np.zeros(array.shape, dtype=dtype)
    if array.dtype.kind not in "iu":
        raise WindowError(f"{name}: dtype {array.dtype}, expected integers")
    limits = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        value = low if low < limits.min else high
        index = ", ".join(str(place) for place in np.argwhere(array == value)[0])
        raise WindowError(f"{name}[{index}] = {value}: expected {limits.min} to {limits.max}")
    return np.ascontiguousarray(array, dtype=dtype)


def optional(name: str, values: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """The same, or None."""
    return None if values is None else integers(name, values, dtype)
