"""The package as a trainer uses it."""

from __future__ import annotations

import copy
import gc
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import routepack as rp

JOB = {
    "topology": {"dp": 4, "ep": 2},
    "routing": {"top_k": 2},
    "packing": {"capacity": 256},
    "arrange": {},
}


def window(samples: int = 48, seed: int = 0, layers: int = 3, experts: int = 8, top_k: int = 2, steps: int = 1):
    """Lengths, ids of every sample `[rows, layers, k]`, and arrays for a batch."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 128, samples)
    ids = [
        np.argsort(rng.random((length - 1, layers, experts)), axis=-1)[..., :top_k].astype(np.int16)
        for length in lengths
    ]
    counted = [rp.count(one, experts) for one in ids]
    step = np.arange(samples) % steps
    return {
        "lengths": lengths,
        "counts": [counts for counts, _ in counted],
        "routed_rows": [rows for _, rows in counted],
        "loss_tokens": lengths // 2,
        "ids": [f"sample-{index}" for index in range(samples)],
        "step": step,
    }, ids


@pytest.fixture(scope="module")
def batch() -> rp.Batch:
    return rp.Batch(**window()[0])


@pytest.fixture(scope="module")
def plan(batch: rp.Batch) -> rp.Plan:
    return rp.plan(batch, JOB)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_counts_are_those_of_bincount(dtype: type) -> None:
    _, ids = window(samples=3)
    for one in ids:
        expected = np.stack([np.bincount(one[:, layer].ravel(), minlength=8) for layer in range(3)])
        counts, rows = rp.count(one.astype(dtype), 8)
        assert counts.dtype == np.uint32 and (counts == expected).all() and rows == len(one)
    mask = np.arange(len(ids[0])) % 2 == 0
    expected = np.bincount(ids[0][mask][:, 1].ravel(), minlength=8)
    assert (rp.count(ids[0].astype(dtype), 8, mask)[0][1] == expected).all()


def test_missing_rows_are_not_counted_and_wrong_ids_refused() -> None:
    ids = np.array([[[0, 1]], [[-1, -1]], [[2, 3]]], dtype=np.int16)
    counts, rows = rp.count(ids, 4)
    assert counts.tolist() == [[1, 1, 1, 1]] and rows == 2
    for wrong, message in [
        (ids.copy(), "row 2, layer 0: expert 3: expected 0 to 2"),
        (np.array([[[1, 1]]]), "row 0, layer 0: expert 1 twice"),
        (ids.astype(np.float32), "dtype float32"),
        (ids[0], "expected [rows, layers, k]"),
    ]:
        with pytest.raises(rp.RoutesError, match=re.escape(message)):
            rp.count(wrong, 3)
    with pytest.raises(rp.RoutesError, match="dtype uint8 holds ids up to 255"):
        rp.count(np.zeros((1, 1, 1), dtype=np.uint8), 300)
    for mask in ([True], [[True], [True], [True]]):
        with pytest.raises(rp.RoutesError, match="mask: shape"):
            rp.count(ids, 4, mask)
    for experts in (-1, 0, 1 << 40, 2.5):
        with pytest.raises(rp.RoutesError, match="num_experts"):
            rp.count(ids, experts)
    # Any memory order, byte order and stride.
    for same in (np.asfortranarray(ids), ids.astype(">i2"), np.repeat(ids, 2, axis=1)[:, ::2]):
        assert (rp.count(same, 4)[0] == counts).all()
    assert rp.count(ids[:0], 4)[1] == 0


def test_a_batch_states_its_arrays_and_pickles(batch: rp.Batch) -> None:
    arrays, _ = window()
    again = pickle.loads(pickle.dumps(batch))
    assert again.sha256 == batch.sha256 and len(again) == 48
    held = batch.arrays()
    assert (held["counts"] == np.stack(arrays["counts"])).all()
    assert held["ids"] == arrays["ids"]
    whole = rp.Batch(**{**arrays, "counts": np.stack(arrays["counts"]).astype(np.int64)})
    assert whole.sha256 == batch.sha256
    batch.check(2)
    with pytest.raises(rp.WindowError, match="sum"):
        batch.check(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [1, -2]}, "lengths[1] = -2: expected 0 to 4294967295"),
        ({"lengths": [1.5, 2]}, "lengths: dtype float64"),
        ({"lengths": [[1, 2]]}, "expected [samples]"),
        ({"ids": ["a", "a"]}, "ids: some id occurs twice"),
        ({"counts": np.full((2, 1, 2), -1)}, "counts: values from -1"),
        ({"counts": [np.zeros((1, 2), np.uint32), np.zeros((1, 3), np.uint32)]}, "counts of sample 1: shape [1, 3]"),
        ({"counts": [1, 2]}, "counts of sample 0: shape [], expected [layers, experts]"),
        ({"counts": np.zeros((2, 2), np.uint32)}, "counts: shape [2, 2], expected [samples, layers, experts]"),
        ({"counts": np.zeros((2, 0, 4), np.uint32)}, "expert_counts"),
        ({"counts": np.zeros((2, 1, 4))}, "counts: dtype float64"),
        ({"lengths": [True, False]}, "lengths: dtype bool"),
        ({"lengths": [1 << 32, 1]}, "lengths[0] = 4294967296"),
        ({"ids": [1.5, 2.5]}, "ids[0] = 1.5: expected a whole number"),
        ({"ids": ["a", 1]}, "ids[0] = 'a': expected a whole number"),
        ({"ids": [1 << 63, 1]}, "ids[0] = 9223372036854775808"),
    ],
)
def test_wrong_arrays_are_refused(change: dict, message: str) -> None:
    with pytest.raises(rp.WindowError, match=re.escape(message)):
        rp.Batch(**{"lengths": [1, 2], **change})


def test_counts_stay_where_they_are_and_a_change_is_noticed() -> None:
    arrays, _ = window()
    for counts in (np.stack(arrays["counts"]), arrays["counts"]):
        # A view from before is not frozen: the one way to write behind the batch's back.
        view = counts[0][:1]
        batch = rp.Batch(**{**arrays, "counts": counts})
        plan = rp.plan(batch, JOB)
        assert plan.verify(batch)
        with pytest.raises(ValueError, match="read-only"):
            counts[0][0, 0] = 1
        before = batch.sha256
        view[0, :2] = view[0, 1::-1]
        assert batch.sha256 != before
        with pytest.raises(rp.VerifyError, match="window_sha256"):
            plan.verify(batch)


def test_memory_of_others_is_copied_if_they_may_write_it() -> None:
    arrays, _ = window()
    memory = bytearray(np.stack(arrays["counts"]).tobytes())
    foreign = np.frombuffer(memory, dtype=np.uint32).reshape(48, 3, 8)
    strided = np.asfortranarray(np.stack(arrays["counts"]))
    for counts in (foreign, strided):
        batch = rp.Batch(**{**arrays, "counts": counts})
        before = batch.sha256
        counts[...] = 0
        assert batch.sha256 == before == rp.Batch(**arrays).sha256


def test_a_batch_outlives_the_arrays_it_was_made_of() -> None:
    arrays, _ = window()
    before = rp.Batch(**arrays).sha256
    batch = rp.Batch(**{**arrays, "counts": [one.copy() for one in arrays["counts"]]})
    planning = rp.start(batch, JOB)
    del batch
    gc.collect()
    filler = [np.ones((3, 8), dtype=np.uint32) for _ in range(200)]
    assert planning.result().data["window_sha256"] == before and len(filler) == 200


def test_few_samples_and_none() -> None:
    job = {"topology": {"dp": 1, "ep": 1}, "packing": {"capacity": 8}}
    one = rp.Batch([5])
    plan = rp.plan(one, job)
    assert plan.verify(one) and plan.num_rows() == 1 and plan.micro_batches()[0].tolist() == [0]
    with pytest.raises(rp.WindowError, match="without a sample"):
        plan.drop([0])
    assert plan.drop([]).verify(one)
    for wrong, message in [([], "no samples"), ([0], r"lengths\[0\]"), ([9], "capacity")]:
        with pytest.raises(rp.WindowError, match=message):
            rp.plan(rp.Batch(wrong), job)
    with pytest.raises(rp.RoutePackError, match="dp|cells|samples"):
        rp.plan(one, {**job, "topology": {"dp": 4, "ep": 1}})


@pytest.mark.parametrize("deadline", [0, 1])
def test_no_time_at_all_still_gives_a_plan(batch: rp.Batch, deadline: int) -> None:
    assert rp.start(batch, JOB, deadline_ms=deadline).result().verify(batch)


def test_windows_are_files(batch: rp.Batch, tmp_path: Path) -> None:
    for name in ["w.npz", "w.json"]:
        batch.save(tmp_path / name)
        assert rp.Batch.load(tmp_path / name).sha256 == batch.sha256
    with pytest.raises(rp.FileError, match="none.npz: cannot open"):
        rp.Batch.load(tmp_path / "none.npz")


def test_a_plan_holds_every_sample_once(batch: rp.Batch, plan: rp.Plan) -> None:
    lengths = batch.arrays()["lengths"]
    assert plan.status in ("ok", "gap") and plan.finished
    held = [index for rank in range(4) for cell in plan.micro_batches(dp_rank=rank) for index in cell]
    assert sorted(held) == list(range(48))
    assert all(len(plan.micro_batches(dp_rank=rank)) == plan.num_rows() for rank in range(4))
    for rank in range(4):
        for row, cell in enumerate(plan.micro_batches(dp_rank=rank)):
            assert cell.dtype == np.int32 and lengths[cell].sum() == plan.tokens(kind="raw")[row, rank] <= 256
            assert (lengths[cell] // 2).sum() == plan.loss_tokens()[row, rank]
    assert plan.tokens().shape == (plan.num_rows(), 4)
    log2phys, phys2log = plan.log2phys, plan.phys2log
    assert log2phys.dtype == phys2log.dtype == np.int32 and log2phys.shape == (3, 8)
    assert (np.take_along_axis(phys2log, log2phys, axis=1) == np.arange(8)).all()
    moved = {(layer, expert) for layer, expert, _, _ in plan.moves.tolist()}
    ranks = log2phys // 4
    assert moved == {(l, e) for l in range(3) for e in range(8) if ranks[l, e] != e // 4}
    assert all(0 <= gap < 1 for gap in plan.gap())
    with pytest.raises(rp.WindowError, match="dp_rank = 4"):
        plan.micro_batches(dp_rank=4)


def test_a_plan_verifies_and_a_changed_one_does_not(batch: rp.Batch, plan: rp.Plan) -> None:
    assert plan.verify(batch)
    data = copy.deepcopy(plan.data)
    data["steps"][0]["rows_bound"] += 1
    with pytest.raises(rp.VerifyError):
        rp.Plan(json.dumps(data)).verify(batch)
    with pytest.raises(rp.VerifyError, match="window_sha256"):
        plan.verify(rp.Batch([1, 2, 3]))


def test_a_plan_is_shown_as_a_page(batch: rp.Batch, plan: rp.Plan, tmp_path: Path) -> None:
    plan.report_html(batch, tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and plan.sha256 in page and page.count("<figure") == 8
    with pytest.raises(rp.VerifyError, match="window_sha256"):
        plan.report_html(rp.Batch([1, 2, 3]), tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_a_plan_is_one_for_any_threads_and_travels(batch: rp.Batch, plan: rp.Plan, tmp_path: Path) -> None:
    assert rp.plan(batch, JOB, threads=1).sha256 == plan.sha256
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and hash(again) == hash(plan)
    plan.save(tmp_path / "plan.json")
    assert rp.Plan.load(tmp_path / "plan.json").sha256 == plan.sha256
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(rp.FileError, match="broken.json"):
        rp.Plan.load(tmp_path / "broken.json")


def test_what_another_version_pickled_is_refused(batch: rp.Batch, plan: rp.Plan) -> None:
    data = copy.deepcopy(plan.data)
    for key, value, error in [("format", "routepack-plan/999", rp.VerifyError), ("unheard", 1, rp.FileError)]:
        stale = pickle.loads(pickle.dumps(rp.Plan(json.dumps({**data, key: value}))))
        with pytest.raises(error, match=key):
            stale.verify(batch)


def test_several_steps_share_one_placement() -> None:
    arrays, _ = window(steps=2)
    plan = rp.plan(rp.Batch(**arrays), JOB)
    assert plan.steps == [0, 1]
    for step in plan.steps:
        held = [index for rank in range(4) for cell in plan.micro_batches(step, rank) for index in cell]
        assert sorted(held) == list(range(step, 48, 2))
    with pytest.raises(rp.WindowError, match="choose one"):
        plan.micro_batches()
    with pytest.raises(rp.WindowError, match="step = 5"):
        plan.tokens(5)
    left = plan.drop(["sample-3"])
    assert left.verify(rp.Batch(**arrays)) and left.num_rows(1) == plan.num_rows(1)


def test_experts_stay_where_the_weights_are(batch: rp.Batch, plan: rp.Plan, tmp_path: Path) -> None:
    again = rp.plan(batch, JOB, resident=plan.phys2log)
    assert len(again.moves) <= len(plan.moves)
    assert (pickle.loads(pickle.dumps(again)).moves == again.moves).all()
    assert len(plan.moves) > 0
    again.save(tmp_path / "plan.json")
    for same in [rp.Plan.load(tmp_path / "plan.json"), again.drop(["sample-3"])]:
        assert same.moves.tolist() == again.moves.tolist()
    with pytest.raises(rp.JobError, match="resident: layer 0, slot 1: expert 0 twice"):
        rp.start(batch, JOB, resident=np.zeros((3, 8), dtype=int))


def test_late_filters_keep_the_rows_and_the_plan_verifies(batch: rp.Batch, plan: rp.Plan) -> None:
    gone = plan.micro_batches(dp_rank=1)[0].tolist()
    left = plan.drop(indices=gone)
    assert left == plan.drop([f"sample-{index}" for index in gone])
    assert left.verify(batch)["samples filtered since"].startswith(str(len(gone)))
    assert left.num_rows() == plan.num_rows() and (left.log2phys == plan.log2phys).all()
    assert left.micro_batches(dp_rank=1)[0].size == 0 and left.dummies()[0, 1] == 1
    assert left.dummies().sum() == 1 and left.sha256 != plan.sha256
    for rank in range(4):
        for before, after in zip(plan.micro_batches(dp_rank=rank), left.micro_batches(dp_rank=rank)):
            assert set(after) == set(before) - set(gone)
    checked = rp.check(left.rows_certificate(), np.delete(batch.arrays()["lengths"], gone))
    assert checked.rows_bound <= checked.rows <= plan.num_rows()
    # From what is left, some more; and a plan that travelled needs the samples.
    twice = pickle.loads(pickle.dumps(left))
    with pytest.raises(rp.WindowError, match="batch: a plan"):
        twice.drop(indices=plan.micro_batches()[0][:1])
    assert twice.drop(indices=plan.micro_batches()[0][:1], batch=batch).verify(batch)
    assert plan.drop(indices=gone + gone) == left and plan.drop([]).verify(batch)
    assert plan.drop(indices=np.array(gone)) == plan.drop(indices=iter(gone)) == left
    assert plan.drop(indices=np.array([], dtype=int)) == plan.drop([])
    with pytest.raises(rp.JobError, match="dummy_length = 0"):
        plan.drop(indices=gone, dummy_length=0)
    for arguments, message in [
        ({"indices": [-1]}, r"samples \[-1\] are not in the plan"),
        ({"ids": "sample-3"}, "no samples"),
        ({"indices": [48]}, r"samples \[48\] are not in the plan"),
        ({"indices": gone}, "are not in the plan"),
        ({"ids": ["sample-48"]}, "no samples"),
        ({}, "give ids or indices"),
        ({"indices": set(range(48)) - set(gone)}, "step 0 would be left without a sample"),
    ]:
        with pytest.raises(rp.WindowError, match=message):
            left.drop(**arguments)


def test_wrong_jobs_are_refused(batch: rp.Batch, tmp_path: Path) -> None:
    for change, message in [
        ({"packing": {}}, "capacity"),
        ({"unknown": 1}, "unknown field"),
        ({"topology": {"dp": 4, "ep": 3}}, "ep"),
        ({"packing": {"capacity": 8}}, "capacity"),
    ]:
        with pytest.raises(rp.RoutePackError, match=message):
            rp.plan(batch, {**JOB, **change})
    with pytest.raises(rp.JobError, match="job"):
        rp.start(batch, {"topology": object()})
    for option, message in [
        ({"deadline_ms": -1}, "deadline_ms = -1: expected 0"),
        ({"deadline_ms": 0.5}, "deadline_ms = 0.5: expected a whole number"),
        ({"threads": 0}, "threads = 0: expected 1 to 1024"),
        ({"resident": [[-1, 0]]}, "resident\\[0, 0\\] = -1"),
        ({"resident": [[0.5, 1.0]]}, "resident: dtype float64"),
        ({"resident": [0, 1]}, "resident: shape"),
    ]:
        with pytest.raises(rp.JobError, match=message):
            rp.start(batch, JOB, **option)
    path = tmp_path / "job.toml"
    path.write_text("[topology]\ndp = 4\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 256\n")
    assert rp.plan(batch, path).steps == [0]
    with pytest.raises(rp.FileError, match="none.toml"):
        rp.start(batch, tmp_path / "none.toml")


def test_wrong_routes_fall_back_where_asked() -> None:
    arrays, _ = window()
    arrays["counts"][3] = arrays["counts"][3].copy()
    arrays["counts"][3][0, 0] += 1
    wrong = rp.Batch(**arrays)
    with pytest.raises(rp.WindowError, match="3"):
        rp.plan(wrong, JOB)
    plan = rp.plan(wrong, JOB, strict=False)
    assert plan.status.startswith("fallback(planned without routes: ") and plan.log2phys is None
    assert plan.verify(wrong)
    assert len(plan.moves) == 0


def test_planning_goes_on_while_python_does(batch: rp.Batch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "routepack")
    planning = rp.start(batch, JOB, deadline_ms=300)
    ticks = 0
    while not planning.done():
        ticks += 1
        time.sleep(0.001)
    assert planning.result() is planning.result()
    assert ticks > 0 and isinstance(planning.progress()[0], str)
    assert any("rows by step" in record.getMessage() for record in caplog.records)


def large() -> tuple[rp.Batch, dict]:
    rng = np.random.default_rng(1)
    lengths = rng.integers(100, 4000, 2000)
    job = {**JOB, "topology": {"dp": 8, "ep": 1}, "packing": {"capacity": 8192}, "arrange": {}}
    return rp.Batch(lengths), job


def test_waiting_lets_other_threads_run_and_can_be_ended() -> None:
    planning = rp.start(*large())
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(range(1000)))
    with pytest.raises(TimeoutError):
        thread.start()
        planning.result(timeout=0.05)
    for at_once in (-1.0, float("nan")):
        with pytest.raises(TimeoutError):
            planning.result(timeout=at_once)
    thread.join(5)
    assert len(seen) == 1000
    planning.cancel()
    assert planning.result().status in ("ok", "gap")


def test_a_signal_ends_the_wait() -> None:
    planning = rp.start(*large())
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            planning.result()
            signal.pause()  # the plan was quicker than the signal
    finally:
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_plan_for_themselves(batch: rp.Batch, plan: rp.Plan) -> None:
    # In a process of its own, so that pytest's threads are out of the way.
    code = f"""
import os, pickle, sys
import routepack as rp
batch, job, sha256 = pickle.load(sys.stdin.buffer)
planning = rp.start(batch, job)
child = os.fork()
if child == 0:
    for ask in (planning.result, planning.done, planning.progress):
        try:
            ask()
            os._exit(1)
        except rp.RoutePackError as error:
            assert "another process" in str(error)
    os._exit(0 if rp.plan(batch, job).sha256 == sha256 else 2)
assert os.waitpid(child, 0)[1] == 0
assert planning.result().sha256 == sha256
"""
    text = pickle.dumps((batch, JOB, plan.sha256))
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-c", code], input=text, timeout=120)
    assert done.returncode == 0


def test_rows_are_certified_and_checked() -> None:
    lengths = [60, 50, 40, 30, 20, 10, 90, 100]
    found = rp.rows(lengths, 100, 2)
    assert (found.rows, found.rows_bound, found.proved, found.cells) == (2, 2, True, 4)
    assert sorted(index for cell in found.bins for index in cell) == list(range(8))
    checked = rp.check(found.certificate, lengths)
    assert (checked.rows, checked.rows_bound, checked.capacity, checked.dp, checked.samples) == (2, 2, 100, 2, 8)
    with pytest.raises(rp.VerifyError):
        rp.check(found.certificate, lengths[::-1])
    with pytest.raises(rp.VerifyError):
        rp.check(found.certificate.replace("rows-at-least 2", "rows-at-least 3"), lengths)
    assert [sum(lengths[index] for index in cell) <= 100 for cell in rp.pack(lengths, 100)] == [True] * 4
    padded = rp.rows(lengths, 128, 1, pad_multiple=64, max_samples=2)
    assert all(len(cell) <= 2 for cell in padded.bins) and rp.check(padded.certificate, lengths, 64).cells == padded.cells
    for wrong, error, message in [
        (lambda: rp.rows([101], 100), rp.WindowError, r"lengths\[0\] = 101"),
        (lambda: rp.rows([], 100), rp.WindowError, "no samples"),
        (lambda: rp.rows([1], 100, 0), rp.JobError, "dp = 0"),
        (lambda: rp.rows([1], -1), rp.JobError, "capacity = -1"),
        (lambda: rp.rows([1], 100, threads=1 << 40), rp.JobError, "threads"),
        (lambda: rp.check(found.certificate, lengths, 0), rp.JobError, "pad_multiple = 0"),
        (lambda: rp.rows([1], 100, pad_multiple=0), rp.JobError, "pad_multiple = 0"),
    ]:
        with pytest.raises(error, match=message):
            wrong()


def test_the_certificate_of_a_plan_is_checked_alone(batch: rp.Batch, plan: rp.Plan) -> None:
    checked = rp.check(plan.rows_certificate(), batch.arrays()["lengths"])
    assert checked.dp == 4 and checked.capacity == 256 and checked.rows_bound <= plan.num_rows()


def test_rollouts_become_a_batch(tmp_path: Path) -> None:
    _, ids = window(samples=6)
    path = tmp_path / "rollouts.jsonl"
    lines = []
    for index, one in enumerate(ids):
        prompt = max(len(one) // 3, 1)
        lines.append(
            json.dumps(
                {
                    "id": f"cmpl-{index}",
                    "usage": {"prompt_tokens": prompt, "completion_tokens": len(one) + 1 - prompt},
                    "prompt_routed_experts": one[:prompt].tolist(),
                    "choices": [{"index": 0, "routed_experts": one[prompt:].tolist()}],
                }
            )
        )
    path.write_text("\n".join(lines))
    batch, summary = rp.import_rollouts(path, "vllm", 8)
    assert summary["samples"] == summary["samples_without_last_row"] == 6
    expected = np.stack([rp.count(one, 8)[0] for one in ids])
    assert (batch.arrays()["counts"] == expected).all()
    with pytest.raises(rp.RoutesError, match="sample 0 .cmpl-0., row"):
        rp.import_rollouts(path, "vllm", 4)
    with pytest.raises(rp.RoutesError, match="form = nobody"):
        rp.import_rollouts(path, "nobody", 4)
    with pytest.raises(rp.FileError, match="cannot open"):
        rp.import_rollouts(tmp_path / "none", "vllm", 4)
    # Physical ids, all layers.
    maps = [[7, 6, 5, 4, 3, 2, 1, 0]] * 3
    slots = tmp_path / "slots.npz"
    rows = np.concatenate([7 - one for one in ids])
    dense = np.zeros((len(rows), 1, 2), dtype=np.int16)
    lengths = np.array([len(one) + 1 for one in ids])
    np.savez(slots, routed_experts=np.concatenate([dense, rows], axis=1), lengths=lengths)
    again, _ = rp.import_rollouts(slots, "slime", 8, layers=[1, 2, 3], phys2log=maps)
    assert (again.arrays()["counts"] == expected).all()


def test_imported_and_loaded_ids_occur_once(tmp_path: Path) -> None:
    # As those of a batch made here: `drop` takes ids, and a pickle is made anew of its arrays.
    def rollouts(*ids: str) -> Path:
        path = tmp_path / "ids.jsonl"
        path.write_text("\n".join(f'{{"id":{id_},"length":2,"routed_experts":[[[1,2]]]}}' for id_ in ids))
        return path

    batch, _ = rp.import_rollouts(rollouts('"a"', '"b"'), "slime", 4, layers="moe")
    assert pickle.loads(pickle.dumps(batch)).sha256 == batch.sha256
    with pytest.raises(rp.RoutesError, match="sample 1 .a.: id: .* sample 0 has it too"):
        rp.import_rollouts(rollouts('"a"', '"a"'), "slime", 4, layers="moe")
    with pytest.raises(rp.RoutesError, match="sample 1 .1.: id: .* sample 0 has it too"):
        rp.import_rollouts(rollouts("1", '"1"'), "slime", 4, layers="moe")
    for ids, value in [([3, 5, 3], "3"), (["x", "y", "x"], '"x"')]:
        path = tmp_path / "window.npz"
        np.savez(path, lengths=[4, 5, 6], sample_ids=ids)
        with pytest.raises(rp.FileError, match=re.escape(f"sample_ids[2] = {value}: expected ids that occur once")):
            rp.Batch.load(path)


def test_import_takes_whole_numbers_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"length":2,"routed_experts":[[[1,2]]]}')
    batch, _ = rp.import_rollouts(
        path, "slime", np.int64(4), layers="moe", top_k=np.uint8(2), num_layers=np.int32(1)
    )
    assert batch.arrays()["counts"].tolist() == [[[0, 1, 1, 0]]]
    for options in [{"num_experts": 4.0}, {"num_experts": 4, "top_k": "2"}, {"num_experts": 4, "num_layers": -1}]:
        with pytest.raises(rp.RoutesError, match="expected"):
            rp.import_rollouts(path, "slime", layers="moe", **options)


def test_the_readme_runs(tmp_path: Path) -> None:
    readme = Path(__file__).parent.parent / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert blocks
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
