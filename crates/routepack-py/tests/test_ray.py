"""Two local workers of Ray; without Ray, what is said then. `ROUTEPACK_RAY=1 bash test.sh` installs it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Iterator

import pytest

import routepack as rp

from samples import JOB, window

HERE = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HERE, reason="Ray is not installed")


@pytest.mark.skipif(HERE, reason="Ray is installed")
def test_without_ray_it_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="routepack.ray needs ray: pip install ray") as raised:
        import routepack.ray  # noqa: F401
    assert isinstance(raised.value, rp.MissingPackageError)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    import routepack.ray

    yield routepack.ray
    ray.shutdown()


@needs_ray
def test_a_spread_population_gives_the_plan_of_one_machine(cluster: Any) -> None:
    batch = rp.Batch(**window(steps=2)[0])
    job = {**JOB, "seed": 3, "arrange": {"population": 6, "temperatures": 8}, "passes": {"log-prob": {"capacity": 512}}}
    alone = rp.plan(batch, job)
    for workers in (1, 2, 3):
        spread = cluster.plan(batch, job, workers=workers, threads=1)
        assert spread == alone and spread.sha256 == alone.sha256
    assert spread.drop(indices=[0]).verify(batch)
    assert cluster.plan(batch, job, alone.phys2log, threads=1) == rp.plan(batch, job, alone.phys2log)


@needs_ray
def test_errors_of_workers_are_errors_here(cluster: Any) -> None:
    batch = rp.Batch(**window()[0])
    with pytest.raises(rp.WindowError, match="capacity"):
        cluster.plan(batch, {**JOB, "packing": {"capacity": 8}})
    with pytest.raises(rp.JobError, match="no common clock"):
        cluster.plan(batch, {**JOB, "deadline_ms": 100})


@needs_ray
def test_the_best_seed_wins(cluster: Any) -> None:
    batch = rp.Batch(**window()[0])
    plans = [rp.plan(batch, {**JOB, "seed": seed}) for seed in range(3)]
    best = cluster.plan_best(batch, JOB, range(3), threads=1)
    score = [plan.data["steps"][0]["score"]["worst_shard"] for plan in plans]
    assert best.data["steps"][0]["score"]["worst_shard"] == min(score) and best in plans


@needs_ray
def test_a_folder_is_certified(cluster: Any, tmp_path: Path) -> None:
    instances, certificates = tmp_path / "instances", tmp_path / "certificates"
    instances.mkdir()
    (instances / "a.txt").write_text("3\n10\n5\n5\n6\n")
    (instances / "b.txt").write_text("2\n10\n7\n7\n")
    (instances / "c.txt").write_text("2\n10\n11\n7\n")
    (instances / "d.txt").write_text("nothing\n")
    table = cluster.certify(instances, certificates)
    assert [(line.file.name, line.rows, line.rows_bound, line.proved) for line in table] == [
        ("a.txt", 2, 2, True),
        ("b.txt", 2, 2, True),
        ("c.txt", None, None, False),
        ("d.txt", None, None, False),
    ]
    assert "11" in table[2].error and "d.txt" in table[3].error
    assert rp.check(table[0].certificate.read_text(), [5, 5, 6]).rows == 2
    assert sorted(path.name for path in certificates.iterdir()) == ["a.txt.cert", "b.txt.cert"]
