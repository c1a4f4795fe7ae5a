"""TRL, ``trl/data_utils.py::pack_dataset``."""

from __future__ import annotations

from typing import Any

from .._arrays import MOST, number
from .._native import JobError, WindowError
from ..rows import pack


def pack_examples(examples: dict[str, list[list[Any]]], seq_length: int) -> dict[str, list[list[Any]]]:
    """Packs a batch of columns of token lists: ``dataset.map(pack_examples, batched=True, fn_kwargs={"seq_length": …})``.

    As with the strategy ``bfd`` examples are truncated to ``seq_length`` and never split; a column ``seq_lengths`` says
    where the examples of a row end. As few rows as can be found.
    """
    seq_length = number("seq_length", seq_length, 1, MOST, JobError)
    try:
        columns = {name: [values[:seq_length] for values in column] for name, column in examples.items()}
        sizes = [[len(values) for values in column] for column in columns.values()]
    except (AttributeError, IndexError, TypeError):
        raise WindowError("examples: expected columns by name, each a list of token lists") from None
    if not sizes or any(other != sizes[0] for other in sizes):
        raise WindowError("examples: every column needs a list of the same length for each example")
    present = [index for index, size in enumerate(sizes[0]) if size]
    packed_sizes = pack([sizes[0][index] for index in present], seq_length) if present else []
    bins = [[present[index] for index in cell] for cell in packed_sizes]
    packed: dict[str, list[list[Any]]] = {
        name: [[value for index in cell for value in column[index]] for cell in bins]
        for name, column in columns.items()
    }
    packed["seq_lengths"] = [[sizes[0][index] for index in cell] for cell in bins]
    return packed
