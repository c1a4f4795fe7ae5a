"""Recorded rollouts in files."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import routepack as rp

from samples import window


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
