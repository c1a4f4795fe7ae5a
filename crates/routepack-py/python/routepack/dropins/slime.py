"""slime and miles, ``slime/utils/dp_schedule.py``."""

from __future__ import annotations

from typing import Any

from .._native import JobError, WindowError
from ._grid import grid

Schedule = tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]


def build_dp_schedule(
    args: Any,
    train_parallel_config: dict[str, int],
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
    ranks = train_parallel_config["dp_size"]
    vpp = train_parallel_config["vpp_size"] or 1
    multiple = train_parallel_config["microbatch_group_size_per_vp_stage"] if vpp > 1 else 1
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


def _step(args: Any, lengths: list[int], config: dict[str, int], ranks: int, multiple: int) -> list[list[list[int]]]:
    if args.use_dynamic_batch_size:
        capacity = args.max_tokens_per_gpu * config["cp_size"]
        # A cell that is full takes nothing else.
        clipped = [min(max(length, 1), capacity) for length in lengths]
        return grid(clipped, capacity, ranks, rows_multiple=multiple)
    size = args.micro_batch_size
    rows, rest = divmod(len(lengths), size * ranks)
    if rest or rows % multiple:
        raise WindowError(
            f"{len(lengths)} samples: expected a multiple of micro_batch_size {size} x dp_size {ranks} x group {multiple}"
        )
    return grid(lengths, sum(lengths), ranks, rows=rows, max_samples=size)
