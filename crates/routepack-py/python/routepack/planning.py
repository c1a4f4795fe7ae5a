"""Planning in a thread of its own."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, Callable, Mapping

import numpy as np
import numpy.typing as npt

from ._arrays import integers, optional_number, thread_count
from ._native import JobError, job_from_toml
from ._native import Planning as NativePlanning
from ._native import start as native_start
from .batch import Batch
from .plan import Plan

log = logging.getLogger("routepack")

Job = Mapping[str, Any]

Peers = tuple[int, int, Callable[[bytes], list[bytes]]]
"""Rank, number of processes, and the exchange of bytes among them: see ``routepack.ray``."""


class Planning:
    """A plan being made; planning ends when this object goes."""

    def __init__(self, native: NativePlanning, batch: Batch) -> None:
        self._native = native
        self._batch = batch
        self._begun = time.perf_counter()
        self._plan: Plan | None = None

    def result(self, timeout: float | None = None) -> Plan:
        """Waits for the plan, without holding Python's lock; Ctrl-C works and ends planning.

        Raises:
            TimeoutError: not within ``timeout`` seconds; planning goes on.
            JobError, WindowError: there is no plan.
        """
        if self._plan is None:
            plans = self._native.result(timeout)
            self._plan = Plan._of_passes(plans, self._batch)
            log.info("%r after %.3f s", self._plan, time.perf_counter() - self._begun)
        return self._plan

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._native.done()

    def cancel(self) -> None:
        """Ends planning soon with the best plan so far; ``result`` gives it."""
        self._native.cancel()

    def progress(self) -> tuple[str, float]:
        """What is being done, and which share of that stage is done."""
        return self._native.progress()


def start(
    batch: Batch,
    job: Job | str | os.PathLike[str],
    resident: npt.ArrayLike | None = None,
    deadline_ms: int | None = None,
    threads: int | None = None,
    strict: bool = True,
    *,
    _peers: Peers | None = None,
) -> Planning:
    """Starts planning and returns at once.

    Args:
        batch: the recorded samples.
        job: tables ``topology``, ``packing``, ``routing``, ``cost``, ``passes``, … as a mapping, or the path of a job file
            (TOML).
        resident: the placement the weights have now, the expert in every slot ``[layers, experts]``: experts stay where
            that costs nothing.
        deadline_ms: stop with the best plan so far after this many milliseconds from now.
        threads: all processors by default. Without a deadline the plan does not depend on it.
        strict: ``False`` plans without routes where the recorded routes are wrong; the status says so.

    Raises:
        JobError: the job has an unknown or wrong field.
    """
    held = None if resident is None else integers("resident", resident, np.uint32, ("layers", "experts"), JobError)
    slots = None if held is None else held.tolist()
    deadline_ms = optional_number("deadline_ms", deadline_ms)
    threads = thread_count(threads)
    native = native_start(batch._native, job_text(job), slots, deadline_ms, threads, strict, _peers)
    log.debug("planning %r, deadline %s ms", batch, deadline_ms)
    return Planning(native, batch)


def job_text(job: Job | str | os.PathLike[str]) -> str:
    """A job as JSON."""
    if isinstance(job, (str, os.PathLike)):
        return job_from_toml(job)
    try:
        return json.dumps(job)
    except TypeError as error:
        raise JobError(f"job: {error}") from None


def plan(
    batch: Batch,
    job: Job | str | os.PathLike[str],
    resident: npt.ArrayLike | None = None,
    deadline_ms: int | None = None,
    threads: int | None = None,
    strict: bool = True,
) -> Plan:
    """``start`` and ``result`` in one."""
    return start(batch, job, resident, deadline_ms, threads, strict).result()
