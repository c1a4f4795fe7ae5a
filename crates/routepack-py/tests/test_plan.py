"""Plans: what they hold, how they travel, and late filters."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from pathlib import Path
from typing import Callable

import numpy as np
import pytest

import routepack as rp

from samples import JOB, window


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


def test_a_plan_file_is_whole_and_what_its_digest_says(plan: rp.Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"

    def claims(change: Callable[[dict], None], digest: bool) -> str:
        data = copy.deepcopy(plan.data)
        change(data)
        if digest:
            body = {key: value for key, value in data.items() if key != "sha256"}
            text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            data["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(json.dumps(data))
        with pytest.raises(rp.VerifyError, match="plan.json: ") as raised:
            rp.Plan.load(path)
        return str(raised.value)

    def step(**values: object) -> Callable[[dict], None]:
        return lambda data: data["steps"][0].update(values)

    def placed(**values: object) -> Callable[[dict], None]:
        return lambda data: data["placement"].update(values)

    cells, slots = plan.data["steps"][0]["cells"], plan.data["placement"]["log2phys"]
    for change, message in [
        (lambda data: data.update(format="routepack-plan/9"), "format"),
        (lambda data: data.update(steps=[]), "steps"),
        (lambda data: data["steps"].append(data["steps"][0]), "steps"),
        (step(cells=[]), "step 0: cells"),
        (step(cells=[row[:3] for row in cells]), "step 0: cells"),
        (step(cells=[[cells[0][0]] * 4, *cells[1:]]), r"step 0: cells[0][1]"),
        (step(rows=7), "step 0: cells"),
        (step(dummies=[[0]]), "step 0: dummies"),
        (lambda data: data["steps"][0]["tokens"].update(loss=[]), "step 0: tokens"),
        (placed(log2phys=[[0] * 8] * 3), "placement"),
        (placed(log2phys=[slots[0], slots[1][:4], slots[2]]), "placement"),
        (placed(log2phys=[]), "placement"),
        (placed(num_ranks=0), "topology.ep"),
        (placed(resident={"log2phys": slots[:2], "moved": [0, 0]}), "placement"),
        (lambda data: data["options"].update(passes=["log-prob"]), "options.passes"),
        (lambda data: data["options"].update(passes={"../../x": ""}), "options.passes"),
    ]:
        assert message in claims(change, digest=True)
    assert "sha256: the plan claims" in claims(step(rows_bound=1), digest=False)


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
        ({"ids": "sample-3"}, "ids = 'sample-3': expected several"),
        ({"indices": [48]}, r"samples \[48\] are not in the plan"),
        ({"indices": gone}, "are not in the plan"),
        ({"ids": ["sample-48"]}, "no samples"),
        ({}, "give ids or indices"),
        ({"indices": set(range(48)) - set(gone)}, "step 0 would be left without a sample"),
    ]:
        with pytest.raises(rp.WindowError, match=message):
            left.drop(**arguments)


def test_a_mask_is_no_list_of_samples(batch: rp.Batch, plan: rp.Plan) -> None:
    mask = [True] * 5 + [False] * 43
    with pytest.raises(rp.WindowError, match=r"indices\[0\] = True"):
        plan.drop(indices=mask)
    lengths = batch.arrays()["lengths"]
    nameless = rp.Batch(lengths)
    with pytest.raises(rp.WindowError, match="flatnonzero"):
        rp.plan(nameless, JOB).drop(mask)
    for wrong in (np.ma.masked_array(lengths, lengths > 9), np.ma.masked_array(lengths)):
        with pytest.raises(rp.WindowError, match="lengths: a masked array"):
            rp.Batch(wrong)


def test_samples_of_another_batch_are_not_dropped(plan: rp.Plan) -> None:
    other = rp.Batch(**window(seed=1)[0])
    with pytest.raises(rp.WindowError, match="batch: another one"):
        plan.drop(["sample-1"], batch=other)


def test_a_digest_stands_for_the_passes_it_was_made_with(batch: rp.Batch, tmp_path: Path) -> None:
    plan = rp.plan(batch, {**JOB, "passes": {"ref": {"capacity": 512}}})
    plan.save(tmp_path / "plan.json")
    plan.drop(["sample-1"]).passes["ref"].save(tmp_path / "plan.ref.json")
    with pytest.raises(rp.VerifyError, match="options.passes"):
        rp.Plan.load(tmp_path / "plan.json")
    with pytest.raises(rp.VerifyError, match="options.passes"):
        rp.Plan(plan._text, {})


def test_micro_batches_in_the_shape_of_frameworks(plan: rp.Plan) -> None:
    ranks = [[cell.tolist() for cell in plan.micro_batches(dp_rank=rank)] for rank in range(4)]
    rows = [list(row) for row in zip(*ranks)]
    assert plan.export("verl")["steps"][0]["micro_batches"] == ranks
    assert plan.export("areal")["steps"][0]["groups"] == ranks
    assert plan.export("megatron")["steps"][0]["micro_batches"] == rows
    assert plan.export("nemo-rl")["steps"][0]["bins"] == [cell for row in rows for cell in row]
    slime = plan.export("slime")
    found = [
        [[partition[place] for place in cell] for cell in cells]
        for partition, cells in zip(slime["partitions"], slime["micro_batch_indices"])
    ]
    assert found == ranks and slime["sha256"] == plan.sha256
    with pytest.raises(rp.JobError, match="`trl`: expected one of verl"):
        plan.export("trl")
    data = copy.deepcopy(plan.data)
    data["steps"][0]["cells"][-1].pop()
    with pytest.raises(rp.VerifyError):
        rp.Plan(json.dumps(data)).export("verl")


def test_the_keys_of_a_job_are_at_hand() -> None:
    schema = rp.job_schema()
    assert {"topology", "packing", "routing", "cost", "passes"} <= set(schema["properties"])
