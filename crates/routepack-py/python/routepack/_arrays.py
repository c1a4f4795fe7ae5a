"""Arguments as the native module takes them: values are checked, never wrapped, rounded or guessed."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ._native import FileError, JobError, RoutePackError, WindowError

Error = type[RoutePackError]

MOST = (1 << 63) - 1


def shown(value: Any) -> str:
    """A value as it appears in messages."""
    return one_line(repr(value))


def one_line(said: str) -> str:
    """One line, not too long."""
    line = " ".join(said.split())
    return line if len(line) <= 200 else line[:199] + "…"


def array_of(name: str, values: Any, error: Error) -> npt.NDArray[Any]:
    """The values as an array, without a copy where they are one that may be read in place."""
    if isinstance(values, np.ma.MaskedArray):
        raise error(f"{name}: a masked array, expected values without a mask")
    try:
        return np.require(np.asarray(values), requirements="A")
    except (TypeError, ValueError, RuntimeError, OverflowError) as reason:
        # Lists of different lengths, tensors that are elsewhere or need a gradient.
        raise error(f"{name}: no array: {one_line(str(reason))}") from None


def integers(
    name: str,
    values: Any,
    dtype: npt.DTypeLike,
    axes: tuple[str, ...] = ("samples",),
    error: Error = WindowError,
) -> npt.NDArray[Any]:
    """A contiguous array of this integer type with these axes."""
    array = array_of(name, values, error)
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


def number(name: str, value: Any, least: int, most: int, error: Error) -> int:
    """A whole number within its limits; True and False are none."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        whole = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise error(f"{name} = {shown(value)}: expected a whole number") from None
    if not least <= whole <= most:
        raise error(f"{name} = {whole}: expected {least} to {most}")
    return whole


def optional_number(
    name: str, value: Any, least: int = 0, most: int = MOST, error: Error = JobError
) -> int | None:
    """The same, or None."""
    return None if value is None else number(name, value, least, most, error)


def thread_count(threads: Any) -> int | None:
    """Threads, or None for all processors."""
    return optional_number("threads", threads, 1, 1024)


def flag(name: str, value: Any, error: Error) -> bool:
    """True or False, and nothing that counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{name} = {shown(value)}: expected True or False")
    return bool(value)


def text(name: str, value: Any, error: Error) -> str:
    """A text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise error(f"{name} = {shown(value)}: expected a text")
    try:
        value.encode()
    except UnicodeEncodeError as reason:
        raise error(f"{name} = {shown(value)}: {reason.reason}") from None
    return value


def several(name: str, values: Any, error: Error) -> list[Any]:
    """The values of anything that can be gone through; one text is one value, not its letters."""
    if isinstance(values, (str, bytes)):
        raise error(f"{name} = {shown(values)}: expected several, in a list")
    try:
        return list(values)
    except TypeError:
        raise error(f"{name} = {shown(values)}: expected several, in a list") from None


def whole_numbers(name: str, values: Any, error: Error) -> list[int]:
    """Whole numbers in the order they come."""
    return [
        number(f"{name}[{place}]", value, -MOST - 1, MOST, error)
        for place, value in enumerate(several(name, values, error))
    ]


def file_name(path: Any) -> str:
    """The path of a file as a text."""
    try:
        return os.fsdecode(os.fsencode(path))
    except (TypeError, ValueError):
        raise FileError(f"{shown(path)}: expected the path of a file") from None
