"""slime and miles, ``slime/utils/dp_schedule.py``."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from .._arrays import MOST, flag, integers, number, whole_numbers
from .._native import JobError, WindowError
from ._grid import at_least_one, grid

Schedule = tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]


def build_dp_schedule(
    args: Any,
    train_parallel_config: Mapping[str, int],
    total_lengths: list[int],
    *,
    global_batch_size: int,
    rollout_indices: list[int],
) -> Schedule:
    """Partitions ``[dp][sample]``, micro-batches ``[dp][micro-batch][position in the partition]``, micro-batches of every
    step, rollouts of every step.

    Samples of one rollout stay in one step of ``global_batch_size`` rollouts; rollouts that fill no step are left out. A
    sample longer than ``max_tokens_per_gpu * cp_size`` is alone in its micro-batch, the only one beyond the cap.

    Raises:
        WindowError: fewer rollouts than a step has, or fewer samples than micro-batches.
        JobError: an option of ``args`` that is not supported.
    """
    for unsupported in ("global_batch_tokens", "custom_rollout_step_split"):
        if getattr(args, unsupported, None) is not None:
            raise JobError(f"{unsupported} is not supported")
    if not isinstance(train_parallel_config, Mapping):
        raise JobError(f"train_parallel_config: {type(train_parallel_config).__name__}, expected a mapping")
    ranks = _size(train_parallel_config, "dp_size")
    vpp = at_least_one("vpp_size", train_parallel_config.get("vpp_size"))
    multiple = _size(train_parallel_config, "microbatch_group_size_per_vp_stage") if vpp > 1 else 1
    total_lengths = integers("total_lengths", total_lengths, np.uint32).tolist()
    rollout_indices = whole_numbers("rollout_indices", rollout_indices, WindowError)
    if len(rollout_indices) != len(total_lengths):
        raise WindowError(f"{len(rollout_indices)} rollout_indices for {len(total_lengths)} samples")
    global_batch_size = number("global_batch_size", global_batch_size, 1, MOST, JobError)
    if len(total_lengths) < ranks:
        raise WindowError(f"{len(total_lengths)} samples: fewer than dp_size = {ranks}")
    by_rollout: dict[int, list[int]] = {}
    for sample, rollout in enumerate(rollout_indices):
        by_rollout.setdefault(rollout, []).append(sample)
    rollouts = list(by_rollout.values())
    if len(rollouts) < global_batch_size:
        raise WindowError(f"num_rollouts ({len(rollouts)}) < global_batch_size ({global_batch_size})")

    partitions: list[list[int]] = [[] for _ in range(ranks)]
    micro_batches: list[list[list[int]]] = [[] for _ in range(ranks)]
    counts: list[int] = []
    for first in range(0, len(rollouts) - global_batch_size + 1, global_batch_size):
        samples = [sample for rollout in rollouts[first : first + global_batch_size] for sample in rollout]
        rows = _step(args, [total_lengths[sample] for sample in samples], train_parallel_config, ranks, multiple)
        counts.append(len(rows))
        for row in rows:
            for rank, cell in enumerate(row):
                start = len(partitions[rank])
                partitions[rank].extend(samples[position] for position in cell)
                micro_batches[rank].append(list(range(start, start + len(cell))))
    return partitions, micro_batches, counts, [global_batch_size] * len(counts)


def _size(config: Mapping[str, int], name: str) -> int:
    return number(f"train_parallel_config[{name!r}]", config.get(name), 1, MOST, JobError)


def _option(args: Any, name: str) -> int:
    return number(f"args.{name}", getattr(args, name, None), 1, MOST, JobError)


def _step(args: Any, lengths: list[int], config: Mapping[str, int], ranks: int, multiple: int) -> list[list[list[int]]]:
    if flag("args.use_dynamic_batch_size", getattr(args, "use_dynamic_batch_size", False), JobError):
        capacity = _option(args, "max_tokens_per_gpu") * _size(config, "cp_size")
        # A cell that is full takes nothing else.
        clipped = [min(max(length, 1), capacity) for length in lengths]
        return grid(clipped, capacity, ranks, rows_multiple=multiple)
    size = _option(args, "micro_batch_size")
    rows, rest = divmod(len(lengths), size * ranks)
    if rest or rows % multiple:
        raise WindowError(
            f"{len(lengths)} samples: expected a multiple of micro_batch_size {size} x dp_size {ranks} x group {multiple}"
        )
    return grid(lengths, sum(lengths), ranks, rows=rows, max_samples=size)
