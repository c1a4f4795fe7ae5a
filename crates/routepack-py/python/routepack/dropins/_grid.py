"""Lengths in a grid of micro-batches: what all drop-ins rest on."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy.typing as npt

from .._arrays import array_of, number
from .._native import JobError, WindowError
from ..batch import Batch
from ..planning import plan

# A search of some tens of milliseconds; budgets are counts, so that ranks agree.
BUDGET = {"population": 4, "temperatures": 8, "proposals_per_unit": 64, "rounds": 1}

# Largest capacity of a job.
MOST = 1 << 30

Grid = list[list[list[int]]]


def grid(
    lengths: npt.ArrayLike,
    capacity: int,
    ranks: int = 1,
    *,
    rows_multiple: int = 1,
    min_rows: int = 1,
    rows: int | None = None,
    max_samples: int | None = None,
    atomic_groups: Sequence[int] | None = None,
    linear: bool = False,
) -> Grid:
    """Sample indices ``[rows][ranks]``: the fewest rows, at least ``min_rows``, each as even as possible over the ranks.

    Cost is length, plus length squared over the capacity unless ``linear``.
    """
    job: dict[str, Any] = {
        # One shard of all ranks: a row takes as long as its slowest cell.
        "topology": {"dp": ranks, "ep": ranks},
        "packing": {"capacity": capacity, "rows_multiple": rows_multiple},
        "arrange": BUDGET,
    }
    if rows is not None:
        job["packing"]["rows"] = rows
    if max_samples is not None:
        job["packing"]["max_samples"] = max_samples
    if linear:
        job["cost"] = {"kinds": [{"name": "length", "alpha": 1, "beta": 0}]}
    batch = Batch(lengths, atomic_groups=atomic_groups)
    made = plan(batch, job)
    if rows is None and made.num_rows() < min_rows:
        job["packing"]["rows"] = -(-min_rows // rows_multiple) * rows_multiple
        made = plan(batch, job)
    columns = [made.micro_batches(dp_rank=rank) for rank in range(ranks)]
    return [[column[row].tolist() for column in columns] for row in range(made.num_rows())]


def at_least_one(name: str, value: int | None) -> int:
    """A number that may be absent or 0, which stand for 1."""
    return 1 if value is None else max(number(name, value, 0, MOST, JobError), 1)


def scaled(values: Sequence[int]) -> tuple[list[int], int]:
    """Values as lengths whose total fits a capacity, and that total; proportions are kept to a millionth."""
    array = array_of("values", values, WindowError)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not ((array >= 0) & (array < math.inf)).all():
        raise WindowError("values: expected a list of finite numbers, none below 0")
    whole = [int(value) for value in array.tolist()]
    unit = -(-(sum(whole) + len(whole)) // (MOST - len(whole)))
    lengths = [max(value // unit, 1) for value in whole]
    return lengths, sum(lengths)
