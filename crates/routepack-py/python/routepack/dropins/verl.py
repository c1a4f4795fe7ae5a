"""verl, ``verl/utils/seqlen_balancing.py``."""

from __future__ import annotations

from typing import Callable

from .._native import WindowError
from ._grid import grid, scaled


def get_seqlen_balanced_partitions(seqlen_list: list[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """``k_partitions`` sorted lists of indices with sums as equal as possible; equally many indices if ``equal_size``.

    Raises:
        WindowError: fewer values than partitions, or not divisible among them.
    """
    count = len(seqlen_list)
    if count < k_partitions:
        raise WindowError(f"number of items:[{count}] < k_partitions:[{k_partitions}]")
    if equal_size and count % k_partitions:
        raise WindowError(f"{count} items cannot be divided equally among {k_partitions} partitions")
    lengths, total = scaled(seqlen_list)
    limit = count // k_partitions if equal_size else None
    (row,) = grid(lengths, total, k_partitions, rows=1, max_samples=limit, linear=True)
    return [sorted(cell) for cell in row]


def split_micro_batches(
    seqlen_list: list[int],
    max_token_len: int,
    num_batches_divided_by: int | None = None,
    min_num_micro_batch: int | None = None,
    force_group_size: int = 1,
    agree: Callable[[int], int] | None = None,
) -> list[list[int]]:
    """The split inside ``rearrange_micro_batches``: indices of every micro-batch, none beyond ``max_token_len`` tokens.

    ``agree`` gives the most micro-batches over the DP group (an all-reduce with MAX); all ranks then run that many. Light
    micro-batches come first and last, where a pipeline has its bubbles.
    """
    groups = None
    if force_group_size > 1:
        if len(seqlen_list) % force_group_size:
            raise WindowError(f"batch size {len(seqlen_list)} must be divisible by force_group_size {force_group_size}")
        groups = [index // force_group_size for index in range(len(seqlen_list))]
    multiple = num_batches_divided_by or 1
    rows = grid(
        seqlen_list, max_token_len, rows_multiple=multiple, min_rows=min_num_micro_batch or 1, atomic_groups=groups
    )
    if agree is not None and (agreed := agree(len(rows))) > len(rows):
        rows = grid(seqlen_list, max_token_len, rows_multiple=multiple, min_rows=agreed, atomic_groups=groups)
    cells = [sorted(row[0]) for row in rows]

    def cost(cell: list[int]) -> tuple[int, list[int]]:
        return sum(seqlen_list[index] * (max_token_len + seqlen_list[index]) for index in cell), cell

    heavy_first = sorted(cells, key=cost, reverse=True)
    return heavy_first[::2][::-1] + heavy_first[1::2]
