"""Planning and certifying on more than one machine, through Ray.

    plan = routepack.ray.plan(batch, job, workers=8)             # one population, spread
    plan = routepack.ray.plan_best(batch, job, seeds=range(16))  # a plan a seed, the best of them
    table = routepack.ray.certify("instances", "certificates")   # a folder of files of lengths
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Sequence, cast

import numpy as np
import numpy.typing as npt

from ._arrays import file_name, number, text, whole_numbers
from ._missing import needed
from ._native import FileError, JobError, RoutePackError, read_lengths, write_texts
from .batch import Batch, native_of
from .job import Job, job_text
from .plan import Plan
from .planning import start
from .rows import check, rows

ray = needed("ray", by="routepack.ray")


@ray.remote(num_cpus=0)
class _Table:
    """Where workers meet: an exchange is over when all have come."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._rounds: dict[int, tuple[dict[int, bytes], asyncio.Event]] = {}
        self._left: dict[int, int] = {}

    async def exchange(self, round_: int, rank: int, words: bytes) -> list[bytes]:
        held, complete = self._rounds.setdefault(round_, ({}, asyncio.Event()))
        held[rank] = words
        if len(held) == self._workers:
            complete.set()
        await complete.wait()
        self._left[round_] = self._left.get(round_, 0) + 1
        if self._left[round_] == self._workers:
            del self._rounds[round_], self._left[round_]
        return [held[rank] for rank in range(self._workers)]


@ray.remote
class _Worker:
    """One of the processes that plan together."""

    def plan(
        self, table: Any, place: tuple[int, int], batch: Batch, job: Any, resident: Any, threads: int | None
    ) -> Plan:
        rank, workers = place
        rounds = itertools.count()

        def exchange(words: bytes) -> list[bytes]:
            heard: list[bytes] = ray.get(table.exchange.remote(next(rounds), rank, words))
            return heard

        return start(batch, job, resident, threads=threads, _peers=(rank, workers, exchange)).result()


def plan(
    batch: Batch,
    job: Job | str | os.PathLike[str],
    resident: npt.ArrayLike | None = None,
    *,
    workers: int = 2,
    threads: int | None = None,
) -> Plan:
    """The plan that ``routepack.plan`` makes, by several actors.

    Each walks some replicas of every population and constructs some of the seeds; at every temperature they exchange
    states. What is not annealed is done by all. Budgets are counts: the plan is the same for any number of workers.

    Args:
        workers: actors, each of one processor as Ray counts; the most that is useful is ``arrange.population``.
        threads: threads of an actor.

    Raises:
        JobError: a deadline is set, or the job is wrong.
    """
    native_of(batch)
    data = _tables(job)
    if data.pop("deadline_ms", None) is not None:
        raise JobError("deadline_ms: actors have no common clock; set budgets of counts instead")
    workers = number("workers", workers, 1, 1 << 16, JobError)
    table = cast(Any, _Table).options(max_concurrency=workers + 1).remote(workers)
    actors = [cast(Any, _Worker).remote() for _ in range(workers)]
    held = ray.put(batch)
    waiting = [
        actor.plan.remote(table, (rank, workers), held, data, resident, threads) for rank, actor in enumerate(actors)
    ]
    try:
        plans = _gather(waiting)
    finally:
        for actor in [*actors, table]:
            ray.kill(actor)
    if len({made.sha256 for made in plans}) != 1:
        raise RoutePackError("actors made different plans, please report this: " + ", ".join(map(repr, plans)))
    return Plan._of_passes(plans[0]._texts(), batch)


def plan_best(
    batch: Batch,
    job: Job | str | os.PathLike[str],
    seeds: Iterable[int],
    resident: npt.ArrayLike | None = None,
    *,
    deadline_ms: int | None = None,
    threads: int | None = None,
) -> Plan:
    """The best of one plan a seed, by exact score summed over the steps; the first seed's among equals."""
    native_of(batch)
    data, chosen = _tables(job), whole_numbers("seeds", seeds, JobError)
    if not chosen:
        raise JobError("seeds: none")
    held = ray.put(batch)
    waiting = [
        _plan_seed.remote(held, {**data, "seed": seed}, resident, deadline_ms, threads) for seed in chosen
    ]
    best = min(_gather(waiting), key=_score)
    return Plan._of_passes(best._texts(), batch)


def _tables(job: Job | str | os.PathLike[str]) -> dict[str, Any]:
    """A job as a mapping that may be changed."""
    data = json.loads(job_text(job))
    if not isinstance(data, dict):
        raise JobError(f"job: {type(data).__name__}, expected a mapping or the path of a job file")
    return data


@ray.remote
def _plan_seed(batch: Batch, job: Any, resident: Any, deadline_ms: int | None, threads: int | None) -> Plan:
    return start(batch, job, resident, deadline_ms, threads).result()


def _score(made: Plan) -> tuple[int, ...]:
    scores = [step["score"] for step in made.data["steps"]]
    return tuple(sum(score[key] for score in scores) for key in ("worst_shard", "total", "worst_row"))


@dataclass(frozen=True)
class Certified:
    """What was certified of a file, recomputed by the checker; or why nothing was."""

    file: Path
    error: str | None = None
    samples: int = 0
    rows: int | None = None
    rows_bound: int | None = None
    cells: int | None = None
    cells_bound: int | None = None
    certificate: Path | None = None

    @property
    def proved(self) -> bool:
        """Whether the fewest rows are proved."""
        return self.rows is not None and self.rows == self.rows_bound


def certify(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    pattern: str = "*",
    form: str | None = None,
    capacity: int | None = None,
    dp: int = 1,
    deadline_ms: int | None = None,
    **options: Any,
) -> list[Certified]:
    """Certifies the rows of every file of lengths in a folder, one Ray task a file.

    Certificates go to ``output``, ``NAME.cert`` for a file ``NAME``; each is checked where it was made and when it came.

    Args:
        form: lines (with ``capacity``), bins (files that state their own), or window.
        options: those of ``routepack.rows``.
    """
    form = form or ("bins" if capacity is None else "lines")
    source, target = Path(file_name(folder)), Path(file_name(output))
    if not source.is_dir():
        raise FileError(f"{source}: no folder")
    try:
        files = sorted(path for path in source.glob(text("pattern", pattern, JobError)) if path.is_file())
        target.mkdir(parents=True, exist_ok=True)
    except (NotImplementedError, ValueError) as error:
        raise JobError(f"pattern = {pattern!r}: {error}") from None
    except OSError as error:
        raise FileError(f"{target}: cannot make the folder: {error.strerror}") from None
    table: list[Certified] = []
    waiting: list[tuple[Path, npt.NDArray[np.uint64], Any]] = []
    for file in files:
        try:
            lengths, stated = read_lengths(file, form)
            if (limit := stated or capacity) is None:
                raise JobError(f"{file}: states no capacity; give one")
            waiting.append((file, lengths, _certify.remote(lengths, limit, dp, deadline_ms, options)))
        except RoutePackError as error:
            table.append(Certified(file, str(error)))
    for file, lengths, future in waiting:
        try:
            (certificate,) = _gather([future])
            checked = check(certificate, lengths, options.get("pad_multiple", 1))
        except RoutePackError as error:
            table.append(Certified(file, str(error)))
            continue
        path = target / f"{file.name}.cert"
        write_texts([(path, certificate)])
        figures = (checked.samples, checked.rows, checked.rows_bound, checked.cells, checked.cells_bound)
        table.append(Certified(file, None, *figures, path))
    return sorted(table, key=lambda certified: certified.file)


@ray.remote
def _certify(
    lengths: npt.NDArray[np.uint64], capacity: int, dp: int, deadline_ms: int | None, options: dict[str, Any]
) -> str:
    certificate = rows(lengths, capacity, dp, deadline_ms=deadline_ms, **options).certificate
    check(certificate, lengths, options.get("pad_multiple", 1))
    return certificate


def _gather(waiting: Sequence[Any]) -> list[Any]:
    """Results in order; the first failure, of any of them, is raised at once as what it was."""
    left = list(waiting)
    try:
        while left:
            done, left = ray.wait(left)
            ray.get(done)
        results: list[Any] = ray.get(list(waiting))
        return results
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, RoutePackError) else error) from None
