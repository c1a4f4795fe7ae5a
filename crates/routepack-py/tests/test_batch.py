"""Counts and batches."""

from __future__ import annotations

import gc
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import routepack as rp

from samples import JOB, window


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
        ({"ids": ["a", "a"]}, "ids[1] = 'a': expected ids that occur once, sample 0 has it too"),
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


def test_windows_are_files(batch: rp.Batch, tmp_path: Path) -> None:
    for name in ["w.npz", "w.json"]:
        batch.save(tmp_path / name)
        assert rp.Batch.load(tmp_path / name).sha256 == batch.sha256
    with pytest.raises(rp.FileError, match="none.npz: cannot open"):
        rp.Batch.load(tmp_path / "none.npz")
