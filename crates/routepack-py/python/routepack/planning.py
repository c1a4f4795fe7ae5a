"""Planning in a thread of its own."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt

from ._native import JobError, job_from_toml
from ._native import Planning as NativePlanning
from ._native import start as native_start
from .batch import Batch
from .plan import Plan

log = logging.getLogger("routepack")

Job = Mapping[str, Any]


class Planning:
    """A plan being made; planning ends when this object goes."""

    def __init__(self, native: NativePlanning, resident: npt.NDArray[np.int32] | None) -> None:
        self._native = native
        self._resident = resident
        self._begun = time.perf_counter()
        self._plan: Plan | None = None

    def result(self, timeout: float | None = None) -> Plan:
        """Waits for the plan, without holding Python's lock; Ctrl-C works and ends planning.

        Raises:
            TimeoutError: not within ``timeout`` seconds; planning goes on.
            JobError, WindowError: there is no plan.
        """
        if self._plan is None:
            text = self._native.result(timeout)
            self._plan = Plan(text, self._resident)
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
) -> Planning:
    """Starts planning and returns at once.

    Args:
        batch: the recorded samples.
        job: tables ``topology``, ``packing``, ``routing``, ``cost``, … as a mapping, or the path of a job file (TOML).
        resident: the placement the weights have now, the expert in every slot ``[layers, experts]``: experts stay where
            that costs nothing.
        deadline_ms: stop with the best plan so far after this many milliseconds from now.
        threads: all processors by default. Without a deadline the plan does not depend on it.
        strict: ``False`` plans without routes where the recorded routes are wrong; the status says so.

    Raises:
        JobError: the job has an unknown or wrong field.
    """
    if isinstance(job, (str, os.PathLike)):
        text = job_from_toml(job)
    else:
        try:
            text = json.dumps(job)
        except TypeError as error:
            raise JobError(f"job: {error}") from None
    held = None if resident is None else np.ascontiguousarray(resident, dtype=np.int32)
    slots = None if held is None else held.tolist()
    native = native_start(batch._native, text, slots, deadline_ms, threads, strict)
    log.debug("planning %r, deadline %s ms", batch, deadline_ms)
    return Planning(native, held)


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
