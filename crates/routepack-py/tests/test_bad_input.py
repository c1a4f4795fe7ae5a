"""Whatever comes in, what comes out is an error of the package, on one line: never one from inside."""

from __future__ import annotations

import decimal
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import routepack as rp
from routepack.dropins.areal import ffd_allocate
from routepack.dropins.nemo_rl import RoutePackPacker
from routepack.dropins.slime import build_dp_schedule
from routepack.dropins.trl import pack_examples
from routepack.dropins.verl import get_seqlen_balanced_partitions, split_micro_batches

QUICK = {"population": 2, "temperatures": 2, "proposals_per_unit": 4}
JOB: dict[str, Any] = {
    "topology": {"dp": 2, "ep": 2},
    "routing": {"top_k": 2},
    "packing": {"capacity": 64},
    "arrange": QUICK,
    "refine": {"turns": 0},
}
IDS = np.argsort(np.random.default_rng(0).random((9, 2, 4)), axis=-1)[..., :2].astype(np.int16)


class Elsewhere:
    """As a tensor on a device."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("on another\ndevice")

    def __index__(self) -> int:
        raise RuntimeError("on another device")


WRONG: list[Any] = [
    *[None, True, 0, -1, 1, 1 << 31, 1 << 63, 1 << 64, 1.5, 2.0, float("nan"), float("inf"), 1 + 2j],
    *["", "a", "a/b", "\ud800", "\0", b"x", (), [], {}, set(), {1: 2}, {"a": 1}, range(3), object(), Elsewhere()],
    *[[1], [1, 2], [[1, 2], [3]], [[]], [None], ["a"], [1.5], [float("nan")], [-1], [1 << 64], [Elsewhere()]],
    *[np.array(5), np.array([]), np.array([1, 2]), np.zeros((2, 2)), np.array([None]), np.bool_(True), np.int64(3)],
    *[np.array([1, 2], dtype=">i4"), np.zeros(3, dtype=[("a", "i4")]), np.array(["2020"], dtype="datetime64[Y]")],
    *[np.ma.masked_array([1, 2], [0, 1]), decimal.Decimal(1), MappingProxyType({}), Path("x"), rp.Batch],
]


@pytest.fixture(scope="module")
def batch() -> rp.Batch:
    counts = [rp.count(IDS, 4)[0] for _ in range(8)]
    ids = [f"s{index}" for index in range(8)]
    return rp.Batch([10] * 8, counts=counts, routed_rows=[9] * 8, loss_tokens=[3] * 8, ids=ids)


def each(function: Callable[..., Any], usual: dict[str, Any], *names: str) -> Iterator[Callable[[Any], Any]]:
    """The function with one of these arguments wrong, the others as usual."""
    for name in names or usual:
        yield lambda wrong, name=name: function(**{**usual, name: wrong})


def refuses(calls: Iterator[Callable[[Any], Any]], *others: type[Exception]) -> None:
    for call in calls:
        for wrong in WRONG:
            try:
                call(wrong)
            except (rp.RoutePackError, TimeoutError, *others) as error:
                assert "\n" not in str(error) and len(str(error)) < 1000 and "report" not in str(error), repr(error)


def test_counts_and_batches(tmp_path: Path) -> None:
    refuses(each(rp.count, {"ids": IDS, "num_experts": 4, "mask": None}))
    names = ["lengths", "counts", "routed_rows", "loss_tokens", "ids", "prompt_ids", "atomic_groups", "step", "cost"]
    job = {"topology": {"dp": 1, "ep": 1}, "packing": {"capacity": 64}, "routing": {"top_k": 1}, "arrange": QUICK}

    def planned(**arrays: Any) -> None:
        batch = rp.Batch(**{"lengths": [5, 6], **arrays})
        batch.save(tmp_path / "window.npz")
        rp.plan(batch, job, threads=1)

    refuses(each(planned, {}, *names))
    refuses(iter([rp.Batch([5]).check, rp.Batch([5]).indices, rp.Batch.load]))


def test_plans(batch: rp.Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"batch": batch, "job": JOB, "resident": None, "deadline_ms": 50, "threads": 1, "strict": True}
    refuses(each(rp.plan, usual))
    plan = rp.plan(**usual)
    cell = {"step": None, "pass_": "train"}
    for method, arguments in [
        (plan.num_rows, cell),
        (plan.micro_batches, {**cell, "dp_rank": 0}),
        (plan.dummies, cell),
        (plan.tokens, {**cell, "kind": "raw"}),
        (plan.loss_tokens, cell),
        (plan.rows_certificate, cell),
        (plan.gap, {"step": None}),
        (plan.drop, {"ids": ["s1"], "dummy_length": 1, "batch": batch}),
        (plan.verify, {"batch": batch}),
        (plan.report_html, {"batch": batch, "path": "page.html", "pass_": "train"}),
        (rp.Plan, {"text": ""}),
        (rp.Plan.load, {"path": ""}),
        (rp.start(batch, JOB, threads=1).result, {"timeout": None}),
    ]:
        wrong_names = [name for name in arguments if (method.__name__, name) != ("report_html", "path")]
        refuses(each(method, arguments, *wrong_names))
    refuses(iter([lambda wrong: plan.drop(indices=wrong)]))


@pytest.mark.parametrize(
    "place",
    ["topology.dp", "topology.ep", "routing.top_k", "packing.capacity", "packing.rows", "packing.rows_multiple"]
    + ["packing.max_samples", "packing.dummies", "packing.sample_multiple", "packing.cell_multiple", "topology"]
    + ["passes", "passes.log-prob", "seed", "deadline_ms", "cost", "arrange", "place", "pack", "moves", "machine"],
)
def test_jobs(batch: rp.Batch, place: str) -> None:
    table, _, key = place.rpartition(".")

    def planned(wrong: Any) -> None:
        job = {**JOB, table: {**JOB.get(table, {}), key: wrong}} if table else {**JOB, key: wrong}
        rp.plan(batch, job, deadline_ms=20, threads=1)

    refuses(iter([planned]))


def test_rows_and_certificates() -> None:
    usual: dict[str, Any] = {"lengths": [5, 6, 7], "capacity": 10, "dp": 1, "rows_multiple": 1, "max_samples": None}
    usual |= {"pad_multiple": 1, "prove_cells": False, "deadline_ms": 50, "seed": 0, "threads": 1}
    refuses(each(rp.rows, usual))
    refuses(each(rp.pack, usual))
    rules = {"pad_multiple": 1, "capacity": 10, "dp": 1, "rows_multiple": 1, "max_samples": None}
    refuses(each(rp.check, {"certificate": rp.rows([5, 6, 7], 10).certificate, "lengths": [5, 6, 7], **rules}))


def test_imports(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    path.write_text('{"length":2,"routed_experts":[[[1,2]]]}\n')
    usual = {"path": path, "form": "slime", "num_experts": 4, "layers": "moe", "top_k": None, "num_layers": None}
    refuses(each(rp.import_rollouts, {**usual, "missing": "refuse", "phys2log": None, "lengths": None}))


def test_drop_ins() -> None:
    refuses(
        each(ffd_allocate, {"values": [5, 6], "capacity": 20, "min_groups": 1, "n_groups_divisor": 1}), RuntimeError
    )
    refuses(each(get_seqlen_balanced_partitions, {"seqlen_list": [1, 2], "k_partitions": 2, "equal_size": True}))
    split = {"seqlen_list": [5, 6, 7], "max_token_len": 20, "num_batches_divided_by": 1, "min_num_micro_batch": 1}
    refuses(each(split_micro_batches, {**split, "force_group_size": 1}))
    refuses(each(pack_examples, {"examples": {"ids": [[1, 2]]}, "seq_length": 8}))
    refuses(iter([lambda wrong: pack_examples({"ids": wrong}, 8)]))
    packer = {"bin_capacity": 20, "min_bin_count": 1, "bin_count_multiple": 1}
    refuses(each(lambda **options: RoutePackPacker(**options).pack([5, 6]), packer))
    refuses(iter([RoutePackPacker(20).pack]))
    options = SimpleNamespace(use_dynamic_batch_size=True, max_tokens_per_gpu=100, micro_batch_size=1)
    sizes = {"dp_size": 1, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    usual: dict[str, Any] = {"args": options, "train_parallel_config": sizes, "total_lengths": [5, 6]}
    usual |= {"global_batch_size": 2, "rollout_indices": [0, 1]}
    refuses(each(build_dp_schedule, usual))
    refuses(each(lambda **wrong: build_dp_schedule(**{**usual, "train_parallel_config": wrong}), sizes))
    wrong_options = each(lambda **wrong: build_dp_schedule(**{**usual, "args": SimpleNamespace(**wrong)}), vars(options))
    refuses(wrong_options)


def test_a_masked_row_is_named_by_0_or_1() -> None:
    kept = np.arange(9) % 2
    assert (rp.count(IDS, 4, kept)[0] == rp.count(IDS, 4, kept == 1)[0]).all()
    # Indices of rows, say, would all count as true.
    with pytest.raises(rp.RoutesError, match=r"mask\[2\] = 2: expected 0 or 1"):
        rp.count(IDS, 4, np.arange(9))


def test_arrays_at_odd_addresses_are_copied() -> None:
    counts = np.ascontiguousarray(np.stack([rp.count(IDS, 4)[0]] * 3))
    memory = np.zeros(counts.nbytes + 1, dtype=np.uint8)
    odd = memory[1:].view(np.uint32).reshape(counts.shape)
    odd[...] = counts
    assert not odd.flags.aligned
    batch = rp.Batch([10] * 3, counts=odd)
    assert batch.sha256 == rp.Batch([10] * 3, counts=counts).sha256
    odd[...] = 0
    assert (batch.arrays()["counts"] == counts).all()


def test_numbers_of_numpy_and_any_mapping_make_a_job(batch: rp.Batch) -> None:
    packing = MappingProxyType({"capacity": np.uint32(64), "rows_multiple": np.int64(1), "max_samples": np.array(8)})
    job = MappingProxyType({**JOB, "packing": packing, "topology": {"dp": np.int8(2), "ep": np.uint64(2)}})
    assert rp.plan(batch, job, threads=1).verify(batch)
    endless: dict[str, Any] = {**JOB}
    endless["packing"] = endless
    for wrong, message in [
        (endless, "more than 16 levels"),
        ({**JOB, "seed": float("nan")}, "job.seed = nan"),
        ({**JOB, "passes": {1: {"capacity": 64}, "1": {"capacity": 64}}}, "job.passes: key 1, expected a text"),
    ]:
        with pytest.raises(rp.JobError, match=message):
            rp.plan(batch, wrong)
