"""Drop-ins keep what the frameworks' own packers promise, and do better where these are known to fall short."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import routepack as rp
from routepack.dropins.areal import ffd_allocate
from routepack.dropins.nemo_rl import RoutePackPacker
from routepack.dropins.slime import build_dp_schedule
from routepack.dropins.trl import pack_examples
from routepack.dropins.verl import get_seqlen_balanced_partitions, split_micro_batches


def lengths(count: int, capacity: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return np.clip(rng.lognormal(math.log(capacity / 6), 0.8, count), 1, capacity).astype(int).tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("equal_size", [False, True])
def test_verl_partitions_are_even(seed: int, equal_size: bool) -> None:
    values = [24576 * length + length * length for length in lengths(64, 8192, seed)]
    parts = get_seqlen_balanced_partitions(values, 8, equal_size)
    assert sorted(index for part in parts for index in part) == list(range(64))
    assert all(part == sorted(part) and part for part in parts) and len(parts) == 8
    assert not equal_size or {len(part) for part in parts} == {8}
    sums = [sum(values[index] for index in part) for part in parts]
    best = max(max(values), sum(values) / 8)
    assert max(sums) <= 1.02 * best


def test_verl_partitions_refuse_what_cannot_be() -> None:
    assert get_seqlen_balanced_partitions([5], 1, True) == [[0]]
    for values, parts, equal in [([1, 2], 3, False), ([1, 2, 3], 2, True)]:
        with pytest.raises(ValueError):
            get_seqlen_balanced_partitions(values, parts, equal)


@pytest.mark.parametrize("seed", range(4))
def test_verl_micro_batches_keep_the_cap(seed: int) -> None:
    sizes = lengths(48, 4096, seed)
    cells = split_micro_batches(sizes, 4096, num_batches_divided_by=4)
    assert sorted(index for cell in cells for index in cell) == list(range(48))
    assert len(cells) % 4 == 0 and all(0 < sum(sizes[index] for index in cell) <= 4096 for cell in cells)
    assert len(cells) <= 4 * math.ceil(rp.rows(sizes, 4096).rows / 4)
    agreed = split_micro_batches(sizes, 4096, agree=lambda count: count + 3)
    assert len(agreed) == len(split_micro_batches(sizes, 4096)) + 3
    pairs = split_micro_batches([size // 2 + 1 for size in sizes], 4097, force_group_size=2)
    assert all(index ^ 1 in cell for cell in pairs for index in cell)
    work = [sum(sizes[index] * (4096 + sizes[index]) for index in cell) for cell in cells]
    top = work.index(max(work))
    assert work[: top + 1] == sorted(work[: top + 1]) and work[top:] == sorted(work[top:], reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_areal_groups_keep_cap_least_number_and_divisor(seed: int) -> None:
    values = lengths(40, 1000, seed)
    for min_groups, divisor in [(1, 1), (12, 1), (1, 8), (9, 4)]:
        groups = ffd_allocate(values, 1000, min_groups, divisor)
        assert sorted(index for group in groups for index in group) == list(range(40))
        assert len(groups) >= min_groups and len(groups) % divisor == 0
        assert all(0 < sum(values[index] for index in group) <= 1000 for group in groups)
    for wrong in [([1001], 1000, 1), ([1, 2], 1000, 3)]:
        with pytest.raises(RuntimeError):
            ffd_allocate(*wrong)


@pytest.mark.parametrize("seed", range(4))
def test_nemo_bins_keep_minimum_and_multiple_and_rows_are_even(seed: int) -> None:
    sizes = lengths(64, 4096, seed)
    packer = RoutePackPacker(4096, min_bin_count=8, bin_count_multiple=8)
    bins = packer.pack(sizes)
    assert sorted(index for cell in bins for index in cell) == list(range(64))
    assert len(bins) % 8 == 0 and len(bins) == 8 * rp.rows(sizes, 4096, 8).rows
    assert all(0 < sum(sizes[index] for index in cell) <= 4096 for cell in bins)
    assert len(RoutePackPacker(4096, min_bin_count=40, bin_count_multiple=8).pack(sizes)) == 40
    assert RoutePackPacker(4096).pack([]) == RoutePackPacker(4096).pack(np.array([], dtype=int)) == []
    assert packer.pack(np.array(sizes)) == bins
    for wrong in [[4097], [1] * 7]:
        with pytest.raises(ValueError):
            packer.pack(wrong)


CONFIG = {"dp_size": 4, "cp_size": 2, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}


@pytest.mark.parametrize("vpp", [1, 2])
def test_slime_schedules_keep_their_invariants(vpp: int) -> None:
    # 3 samples a rollout, 7 rollouts a step, 2 steps, one rollout left over; one sample beyond the cap.
    sizes = lengths(45, 2048, 5)
    sizes[4] = 5000
    args = SimpleNamespace(use_dynamic_batch_size=True, max_tokens_per_gpu=1024, balance_data=True)
    config = {**CONFIG, "vpp_size": vpp, "microbatch_group_size_per_vp_stage": 3}
    rollouts = [index // 3 for index in range(45)]
    parts, micro, counts, batch_sizes = build_dp_schedule(
        args, config, sizes, global_batch_size=7, rollout_indices=rollouts
    )
    assert sorted(index for part in parts for index in part) == list(range(42))
    assert batch_sizes == [7, 7] and all(count % (3 if vpp > 1 else 1) == 0 for count in counts)
    for part, cells in zip(parts, micro):
        assert len(cells) == sum(counts)
        assert [position for cell in cells for position in cell] == list(range(len(part)))
        for number, cell in enumerate(cells):
            held = [part[position] for position in cell]
            assert held and {index // 21 for index in held} == {0 if number < counts[0] else 1}
            assert sum(sizes[index] for index in held) <= 2048 or held == [4]
    with pytest.raises(ValueError, match="global_batch_size"):
        build_dp_schedule(args, config, sizes, global_batch_size=16, rollout_indices=rollouts)
    with pytest.raises(ValueError, match="global_batch_tokens"):
        other = SimpleNamespace(**vars(args), global_batch_tokens=1)
        build_dp_schedule(other, config, sizes, global_batch_size=7, rollout_indices=rollouts)


def test_slime_static_micro_batches_have_their_size() -> None:
    args = SimpleNamespace(use_dynamic_batch_size=False, micro_batch_size=2)
    sizes = lengths(16, 2048, 1)
    parts, micro, counts, _ = build_dp_schedule(
        args, CONFIG, sizes, global_batch_size=16, rollout_indices=list(range(16))
    )
    assert counts == [2] and all(len(cell) == 2 for cells in micro for cell in cells)
    assert sorted(index for part in parts for index in part) == list(range(16))
    with pytest.raises(ValueError, match="multiple"):
        build_dp_schedule(args, CONFIG, sizes[:12], global_batch_size=12, rollout_indices=list(range(12)))


def test_trl_rows_hold_whole_examples() -> None:
    examples = {
        "input_ids": [[index] * size for index, size in enumerate([3, 5, 9, 2, 0, 8])],
        "labels": [[-index] * size for index, size in enumerate([3, 5, 9, 2, 0, 8])],
    }
    packed = pack_examples(examples, 8)
    assert len(packed["seq_lengths"]) == 4
    for row, labels, ends in zip(packed["input_ids"], packed["labels"], packed["seq_lengths"]):
        assert len(row) == len(labels) == sum(ends) <= 8 and [-value for value in row] == labels
        assert [len(set(row[start : start + size])) for start, size in zip(np.cumsum([0, *ends]), ends)] == [1] * len(ends)
    with pytest.raises(ValueError, match="every column"):
        pack_examples({"a": [[1]], "b": [[1, 2]]}, 8)


def test_drop_ins_are_the_same_on_every_rank() -> None:
    sizes = lengths(64, 4096, 9)
    packer = RoutePackPacker(4096, bin_count_multiple=4)
    assert packer.pack(sizes) == packer.pack(list(sizes))


def test_a_token_mean_is_what_it_was_and_a_mean_of_means_is_not() -> None:
    # Least squares: gradients of single tokens, summed over micro-batches, over the step's loss tokens.
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 60, 40)
    tokens = [rng.standard_normal((size, 5)) for size in sizes]
    weights = rng.standard_normal(5)
    batch = rp.Batch(sizes, loss_tokens=sizes)
    job = {"topology": {"dp": 2, "ep": 1}, "packing": {"capacity": 128}}
    gradients, means = [], []
    for plan in (rp.plan(batch, job), rp.plan(batch, {**job, "seed": 1, "packing": {"capacity": 200}})):
        total, of_means, cells = np.zeros(5), np.zeros(5), 0
        for rank in range(2):
            for cell in plan.micro_batches(dp_rank=rank):
                inputs = np.concatenate([tokens[index] for index in cell])
                gradient = inputs.T @ (inputs @ weights - 1.0)
                total += gradient
                of_means += gradient / len(inputs)
                cells += 1
        gradients.append(total / plan.loss_tokens().sum())
        means.append(of_means / cells)
    assert np.allclose(gradients[0], gradients[1], rtol=1e-12)
    assert not np.allclose(means[0], means[1], rtol=1e-3)
