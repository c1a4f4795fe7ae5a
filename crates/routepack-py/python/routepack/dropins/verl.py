"""verl, ``verl/utils/seqlen_balancing.py``."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import numpy as np

from .._arrays import MOST, flag, integers, number
from .._missing import needed
from .._native import JobError, WindowError
from ._grid import at_least_one, grid, scaled


def get_seqlen_balanced_partitions(seqlen_list: list[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """``k_partitions`` sorted lists of indices with sums as equal as possible; equally many indices if ``equal_size``.

    Raises:
        WindowError: fewer values than partitions, or not divisible among them.
    """
    lengths, total = scaled(seqlen_list)
    count, k_partitions = len(lengths), number("k_partitions", k_partitions, 1, MOST, JobError)
    if count < k_partitions:
        raise WindowError(f"number of items:[{count}] < k_partitions:[{k_partitions}]")
    if flag("equal_size", equal_size, JobError) and count % k_partitions:
        raise WindowError(f"{count} items cannot be divided equally among {k_partitions} partitions")
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
    balanced_order: bool = True,
) -> list[list[int]]:
    """The split inside ``rearrange_micro_batches``: indices of every micro-batch, none beyond ``max_token_len`` tokens.

    ``agree`` gives the most micro-batches over the DP group (an all-reduce with MAX); all ranks then run that many. With
    ``balanced_order`` light micro-batches come first and last, where a pipeline has its bubbles.
    """
    seqlen_list = integers("seqlen_list", seqlen_list, np.uint32).tolist()
    force_group_size = number("force_group_size", force_group_size, 1, MOST, JobError)
    groups = None
    if force_group_size > 1:
        if len(seqlen_list) % force_group_size:
            raise WindowError(f"batch size {len(seqlen_list)} must be divisible by force_group_size {force_group_size}")
        groups = [index // force_group_size for index in range(len(seqlen_list))]
    multiple = at_least_one("num_batches_divided_by", num_batches_divided_by)
    min_rows = at_least_one("min_num_micro_batch", min_num_micro_batch)
    rows = grid(seqlen_list, max_token_len, rows_multiple=multiple, min_rows=min_rows, atomic_groups=groups)
    if agree is not None and (agreed := agree(len(rows))) > len(rows):
        rows = grid(seqlen_list, max_token_len, rows_multiple=multiple, min_rows=agreed, atomic_groups=groups)
    cells = [sorted(row[0]) for row in rows]
    if not balanced_order:
        return cells

    def cost(cell: list[int]) -> tuple[int, list[int]]:
        return sum(seqlen_list[index] * (max_token_len + seqlen_list[index]) for index in cell), cell

    heavy_first = sorted(cells, key=cost, reverse=True)
    return heavy_first[::2][::-1] + heavy_first[1::2]


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
) -> tuple[list[Any], list[list[int]]]:
    """verl's function: micro-batches of a TensorDict, and the indices that each of them holds.

    ``batch`` has ``input_ids``, nested or beside an ``attention_mask`` ``[samples, sequence]``. With a DP group all ranks
    run equally many micro-batches: two all-reduces, so that no rank raises while others wait.

    Raises:
        WindowError: a sample or group is longer than a micro-batch, or some rank has fewer groups than micro-batches.
    """
    torch = needed("torch", by="routepack.dropins.verl.rearrange_micro_batches")
    try:
        ids = batch["input_ids"]
        sizes = ids.offsets().diff() if ids.is_nested else batch["attention_mask"].sum(dim=1)
    except KeyError as error:
        raise WindowError(f"batch: no {error}") from None
    sizes = [int(size) for size in sizes.tolist()]
    force_group_size = number("force_group_size", force_group_size, 1, MOST, JobError)
    shared = dp_group is not None and same_micro_num_in_dp and torch.distributed.is_initialized()

    def most(values: list[int]) -> list[int]:
        """The largest over the DP group, each for itself."""
        if not shared:
            return values
        tensor = torch.tensor(values, dtype=torch.long, device=_device(torch))
        torch.distributed.all_reduce(tensor, op=torch.distributed.ReduceOp.MAX, group=dp_group)
        return [int(value) for value in tensor.tolist()]

    groups = [sum(sizes[start : start + force_group_size]) for start in range(0, len(sizes), force_group_size)]
    longest, fewest = most([max(groups, default=0), -len(groups)])
    if longest > max_token_len:
        raise WindowError(f"max_token_len = {max_token_len}: a sample or group has {longest} tokens")

    def agree(count: int) -> int:
        (agreed,) = most([count])
        if agreed > -fewest:
            raise WindowError(f"{agreed} micro-batches on every rank: some rank has only {-fewest} samples or groups")
        return agreed

    cells = split_micro_batches(
        sizes,
        max_token_len,
        num_batches_divided_by,
        min_num_micro_batch,
        force_group_size,
        agree,
        use_dynamic_bsz_balance,
    )
    return [_select(batch, cell) for cell in cells], cells


def _device(torch: Any) -> str:
    """Where verl's collectives run."""
    try:
        return str(importlib.import_module("verl.utils.device").get_device_name())
    except ImportError:
        return "cuda" if torch.cuda.is_available() else "cpu"


def _select(batch: Any, cell: list[int]) -> Any:
    """Samples of a TensorDict; verl's own way knows nested tensors and its metadata."""
    try:
        utilities = importlib.import_module("verl.utils.tensordict_utils")
    except ImportError:
        return batch[cell]
    return utilities.index_select_tensor_dict(batch, cell)
