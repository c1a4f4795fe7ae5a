"""Planning in a thread: jobs, deadlines, signals, forks."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import routepack as rp

from samples import JOB, window


@pytest.mark.parametrize("deadline", [0, 1])
def test_no_time_at_all_still_gives_a_plan(batch: rp.Batch, deadline: int) -> None:
    assert rp.start(batch, JOB, deadline_ms=deadline).result().verify(batch)


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


def test_both_ways_to_plan_take_the_same_arguments() -> None:
    arguments = [list(inspect.signature(function).parameters) for function in (rp.plan, rp.start)]
    assert arguments[0] == arguments[1] and arguments[0][:4] == ["batch", "job", "resident", "deadline_ms"]
    assert inspect.signature(rp.plan).return_annotation == "Plan" and pickle.loads(pickle.dumps(rp.plan)) is rp.plan


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
def ask_all(plan):
    # Threads that one of these left behind would be missing in a fork, and waited for.
    for _ in range(2):
        batch.sha256, batch.check(2), plan.verify(batch), plan.drop([]), rp.rows([3, 4], 8)
    return plan
ask_all(rp.plan(batch, job))
child = os.fork()
if child == 0:
    for ask in (planning.result, planning.done, planning.progress):
        try:
            ask()
            os._exit(1)
        except rp.RoutePackError as error:
            assert "another process" in str(error)
    os._exit(0 if ask_all(rp.plan(batch, job)).sha256 == sha256 else 2)
assert os.waitpid(child, 0)[1] == 0
assert planning.result().sha256 == sha256
"""
    text = pickle.dumps((batch, JOB, plan.sha256))
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-c", code], input=text, timeout=120)
    assert done.returncode == 0
