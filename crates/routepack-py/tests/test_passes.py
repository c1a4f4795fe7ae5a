"""Passes beside training, and given costs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import routepack as rp

from samples import JOB, window

PASSES = {**JOB, "passes": {"log-prob": {"capacity": 512, "steps": "together"}, "reference": {"capacity": 384}}}


@pytest.fixture(scope="module")
def batch() -> rp.Batch:
    return rp.Batch(**window(steps=2)[0])


@pytest.fixture(scope="module")
def plan(batch: rp.Batch) -> rp.Plan:
    return rp.plan(batch, PASSES)


def test_every_pass_has_rows_and_layout_of_its_own_under_one_placement(batch: rp.Batch, plan: rp.Plan) -> None:
    claims = plan.verify(batch)
    assert "pass log-prob: rows" in claims and "pass reference: step 1: rows" in claims
    lengths = batch.arrays()["lengths"]
    for pass_, capacity, steps in [("train", 256, [0, 1]), ("log-prob", 512, [0]), ("reference", 384, [0, 1])]:
        held = []
        for step in steps:
            rows = plan.num_rows(step, pass_)
            for rank in range(4):
                cells = plan.micro_batches(step, rank, pass_)
                assert len(cells) == rows and all(0 < lengths[cell].sum() <= capacity for cell in cells)
                held += [index for cell in cells for index in cell]
            certificate = plan.rows_certificate(step, pass_)
            inside = lengths if len(steps) == 1 else lengths[step::2]
            assert rp.check(certificate, inside).rows_bound <= rows
            assert plan.tokens(step, pass_=pass_).max() <= capacity
        assert sorted(held) == list(range(48))
    assert all((other.log2phys == plan.log2phys).all() for other in plan.passes.values())
    assert len(plan.passes["log-prob"].steps) == 1
    with pytest.raises(rp.WindowError, match="pass_ = .other."):
        plan.micro_batches(0, pass_="other")


def test_passes_travel_together(batch: rp.Batch, plan: rp.Plan, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(plan)) == plan
    plan.save(tmp_path / "plan.json")
    assert (tmp_path / "plan.log-prob.json").exists()
    loaded = rp.Plan.load(tmp_path / "plan.json")
    assert loaded == plan and len(plan.moves) > 0 and loaded.moves.tolist() == plan.moves.tolist()
    # A pass begins where training has the experts.
    assert all(len(one.passes[name].moves) == 0 for one in [plan, loaded] for name in plan.passes)
    # The digest of the training plan stands for all: another pass in its place is seen.
    other = rp.plan(batch, {**PASSES, "seed": 1})
    other.passes["log-prob"].save(tmp_path / "plan.log-prob.json")
    with pytest.raises(rp.VerifyError, match="passes"):
        rp.Plan.load(tmp_path / "plan.json").verify(batch)
    (tmp_path / "plan.log-prob.json").unlink()
    with pytest.raises(rp.FileError, match="plan.log-prob.json"):
        rp.Plan.load(tmp_path / "plan.json")


def test_late_filters_reach_every_pass(batch: rp.Batch, plan: rp.Plan) -> None:
    left = plan.drop(["sample-5", "sample-6"])
    assert left.verify(batch)
    for pass_ in ["train", "log-prob", "reference"]:
        inside = left if pass_ == "train" else left.passes[pass_]
        held = {i for step in inside.steps for rank in range(4) for cell in inside.micro_batches(step, rank) for i in cell}
        assert held == set(range(48)) - {5, 6}


def test_a_deadline_is_one_for_all_passes(batch: rp.Batch) -> None:
    plan = rp.start(batch, PASSES, deadline_ms=200).result()
    assert plan.verify(batch) and set(plan.passes) == {"log-prob", "reference"}


@pytest.mark.parametrize("name", ["a/b", "../../x", "", ".", "train", "Train", "a b", "é", "a.b", "x" * 65, "a\0"])
def test_a_pass_is_named_as_a_file_can_be(batch: rp.Batch, name: str) -> None:
    with pytest.raises(rp.JobError, match="passes.* expected 1 to 64 letters, digits, - and _, other than train"):
        rp.plan(batch, {**JOB, "passes": {name: {"capacity": 512}}})
    with pytest.raises(rp.JobError, match="passes.* expected names that differ"):
        rp.plan(batch, {**JOB, "passes": {"log-prob": {"capacity": 512}, "Log-prob": {"capacity": 512}}})


def test_no_file_of_several_is_written_if_one_cannot_be(plan: rp.Plan, tmp_path: Path) -> None:
    for output in [tmp_path, tmp_path / "none" / "plan.json"]:
        with pytest.raises(rp.FileError, match="cannot write"):
            plan.save(output)
    (tmp_path / "plan.reference.json").mkdir()
    with pytest.raises(rp.FileError, match="plan.reference.json: cannot write: it is a folder"):
        plan.save(tmp_path / "plan.json")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.reference.json"]


def test_a_wrong_pass_is_refused(batch: rp.Batch) -> None:
    with pytest.raises(rp.JobError, match="unknown field"):
        rp.plan(batch, {**JOB, "passes": {"log-prob": {"capacity": 512, "rowz": 1}}})


def test_given_costs_are_charged_and_travel() -> None:
    lengths = [100, 100, 100, 100]
    # Two samples are dear: they may not share a rank.
    cost = np.array([[1000], [1000], [1], [1]])
    job = {"topology": {"dp": 2, "ep": 2}, "packing": {"capacity": 200}}
    batch = rp.Batch(lengths, cost=cost)
    plan = rp.plan(batch, job)
    plan.verify(batch)
    cells = [set(plan.micro_batches(dp_rank=rank)[0]) for rank in range(2)]
    assert all(len(cell & {0, 1}) == 1 for cell in cells)
    assert (pickle.loads(pickle.dumps(batch)).arrays()["cost"] == cost).all()
    assert pickle.loads(pickle.dumps(batch)).sha256 == batch.sha256 != rp.Batch(lengths).sha256
    for wrong, message in [
        (cost[:, 0], r"cost: shape \[4\], expected \[samples, kinds\]"),
        (-cost, r"cost\[0, 0\] = -1000"),
        (cost[:3], "cost"),
        (np.tile(cost, 2), "1 attention kinds"),
    ]:
        with pytest.raises(rp.WindowError, match=message):
            rp.plan(rp.Batch(lengths, cost=wrong), job)


def test_job_files_say_passes(batch: rp.Batch, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        "[topology]\ndp = 4\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 256\n"
        "[passes.log-prob]\ncapacity = 512\nsteps = 'together'\n"
    )
    plan = rp.plan(batch, path)
    assert list(plan.passes) == ["log-prob"] and json.loads(json.dumps(plan.data)) == plan.data
