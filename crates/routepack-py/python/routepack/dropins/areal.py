"""AReaL, ``areal/utils/seqpack.py``."""

from __future__ import annotations

from ._grid import at_least_one, grid


def ffd_allocate(
    values: list[int], capacity: int, min_groups: int, n_groups_divisor: int = 1
) -> list[list[int]]:
    """Groups of indices with sums up to ``capacity``; at least ``min_groups`` groups, a multiple of ``n_groups_divisor``.

    Raises:
        RuntimeError: a value beyond the capacity, or fewer values than groups.
    """
    try:
        rows = grid(values, capacity, rows_multiple=n_groups_divisor, min_rows=at_least_one("min_groups", min_groups))
    except ValueError as error:
        raise RuntimeError(str(error)) from error
    return [row[0] for row in rows]
