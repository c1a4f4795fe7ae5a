"""Planning in a thread of its own."""

from __future__ import annotations

import inspect
import logging
import os
import time
from typing import Any, Callable, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from ._arrays import flag, integers, optional_number, shown, thread_count
from ._native import JobError
from ._native import Planning as NativePlanning
from ._native import start as native_start
from .batch import Batch, native_of
from .job import Job, job_text
from .plan import Plan

log = logging.getLogger("routepack")

Peers = tuple[int, int, Callable[[bytes], list[bytes]]]
"""Rank, number of processes, and the exchange of bytes among them: see ``routepack.ray``."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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
            plans = self._native.result(_seconds(timeout))
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
        resident: the placement the weights have now, the expert in every slot ``[layers, experts]``. Moves are free
            unless the job says what they are worth: ``"moves": {"goal": {"within": {"tolerance_ppm": 5000}}}`` moves the
            fewest experts that bring every peak within 0.5 % of its bound.
        deadline_ms: stop with the best plan so far after this many milliseconds from now.
        threads: all processors by default. Without a deadline the plan does not depend on it.
        strict: ``False`` plans without routes where the recorded routes are wrong; the status says so.

    Raises:
        JobError: the job has an unknown or wrong field.
    """
    native = native_of(batch)
    held = None if resident is None else integers("resident", resident, np.uint32, ("layers", "experts"), JobError)
    slots = None if held is None else held.tolist()
    deadline_ms = optional_number("deadline_ms", deadline_ms)
    threads = thread_count(threads)
    strict = flag("strict", strict, JobError)
    begun = native_start(native, job_text(job), slots, deadline_ms, threads, strict, _peers)
    log.debug("planning %r, deadline %s ms", batch, deadline_ms)
    return Planning(begun, batch)


def _with_arguments_of(
    other: Callable[Arguments, object],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """Declares that a function takes the arguments of another one: for type checkers, ``help`` and editors."""

    def declare(function: Callable[..., Result]) -> Callable[Arguments, Result]:
        own = inspect.signature(function)
        signature = inspect.signature(other).replace(return_annotation=own.return_annotation)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return declare


@_with_arguments_of(start)
def plan(*arguments: Any, **options: Any) -> Plan:
    """``start`` and ``result`` in one: the arguments of ``start``."""
    return start(*arguments, **options).result()


def _seconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    try:
        return float(timeout)
    except (TypeError, ValueError):
        raise JobError(f"timeout = {shown(timeout)}: expected seconds") from None
