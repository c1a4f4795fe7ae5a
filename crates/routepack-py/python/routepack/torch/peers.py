"""What ranks tell each other beside tensors: everybody hears everybody, within bounded time, Ctrl-C or not."""

from __future__ import annotations

import datetime
import signal
import threading
from typing import Any, Callable

import numpy as np
import torch.distributed as dist

from .._arrays import shown
from .._native import FileError, JobError, RoutePackError


class PeersLost(RoutePackError):
    """A rank did not answer: its process is gone, or it took longer than the patience of the state."""


class Interrupts:
    """Ctrl-C waits until all ranks have heard of it; a second one does not wait.

    Python's own handler is replaced meanwhile; a trainer's, which has its own idea of when to stop, is left alone.
    """

    came = False

    def __enter__(self) -> Interrupts:
        here = threading.current_thread() is threading.main_thread()
        self.held = here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.held:
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True

    def heed(self) -> None:
        """Where work may end: raises KeyboardInterrupt if Ctrl-C came."""
        if self.came:
            raise KeyboardInterrupt

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.held:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.came and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error


class Peers:
    """All ranks of the job, over a gloo group of its own: votes need no GPU, and wait so many seconds at most. Once one is
    lost there are no more votes: who has heard what is not known any more."""

    _groups: dict[float, tuple[Any, Any]] = {}

    def __init__(self, patience: float) -> None:
        """Raises JobError unless ``patience`` is a number of seconds from 0.001 to 10^9."""
        if isinstance(patience, bool) or not isinstance(patience, (int, float, np.integer, np.floating)) or not 0.001 <= patience <= 1e9:
            raise JobError(f"patience = {shown(patience)}: expected seconds from 0.001 to 1e9")
        self.patience = float(patience)
        self._lost = ""

    def hear(self, said: Any, what: str) -> list[Any]:
        """What every rank says, by rank; all ranks call this."""
        if self._lost:
            raise PeersLost(f"{what}: the job has to begin anew, since {self._lost}")
        heard: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(heard, said, group=self._group())
        except BaseException as error:
            lost = self.lost(f"{what}: a rank is gone, or did not answer within {self.patience:g} s: {error}")
            if not isinstance(error, Exception):
                raise
            raise lost from error
        return heard

    def lost(self, why: str) -> PeersLost:
        """No more votes."""
        self._lost = why
        self._groups.pop(self.patience, None)
        return PeersLost(why)

    def meet(self) -> None:
        """Makes the group: all ranks call this while all are there, and then a lost one is noticed by its connections."""
        try:
            self._group()
        except RuntimeError as error:
            raise self.lost(f"meeting: a rank is gone, or did not come within {self.patience:g} s: {error}") from error

    def _group(self) -> Any:
        everybody = dist.distributed_c10d._get_default_group()
        whose, group = self._groups.get(self.patience, (None, None))
        if whose is not everybody:
            group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=self.patience))
            self._groups[self.patience] = (everybody, group)
        return group


class Together:
    """A part that all ranks do or none has done: its failure on one, Ctrl-C too, is raised on all. What every rank said in
    it, all have heard after it."""

    def __init__(
        self, peers: Peers, what: str, interrupts: Interrupts, error: Callable[[str], RoutePackError] = FileError
    ) -> None:
        self.peers = peers
        self.what = what
        self.interrupts = interrupts
        self.error = error
        self.said: Any = None
        self.heard: list[Any] = []

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, PeersLost):
            return
        came = error is None and self.interrupts.came
        failed = KeyboardInterrupt() if came else error
        try:
            votes = self.peers.hear((words(failed), self.said), self.what)
        except PeersLost:
            # What is wrong here is the better news.
            if error is None:
                raise
            return
        if error is not None:
            return
        if failed is not None:
            raise failed
        for rank, (said, _) in enumerate(votes):
            if said is not None:
                raise self.error(f"{self.what} was given up: rank {rank}: {said}")
        self.heard = [said for _, said in votes]


def words(error: BaseException | None) -> str | None:
    """An error as other ranks hear it."""
    if error is None:
        return None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, RoutePackError) else f"{type(error).__name__}: {error}"
