"""What ranks tell each other beside tensors: everybody hears everybody, within bounded time, Ctrl-C or not."""

from __future__ import annotations

import datetime
import pickle
import signal
import threading
import time
from typing import Any, Callable

import numpy as np
import torch
import torch.distributed as dist

from .._arrays import shown
from .._native import FileError, JobError, RoutePackError


PATIENCE = 1800.0


class PeersLost(RoutePackError):
    """A rank did not answer: its process is gone, or it took longer than the patience of the state."""


class VotesDiffer(PeersLost):
    """Ranks vote on different things: one has left a call that others are in. All hear it, and nobody writes after it; where
    sets are not torn the job may go on."""


class Interrupts:
    """Ctrl-C waits until all ranks have heard of it; a second one does not wait, but for what torch waits for in C: there
    several count as one.

    Python's own handler is replaced meanwhile, and back from the second on; a trainer's, which has its own idea of when to
    stop, is left alone.
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
            # Here, for this may end __exit__ before it does.
            signal.signal(signal.SIGINT, signal.default_int_handler)
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


class _Circle:
    """A group that votes, and how many votes it has had."""

    def __init__(self, patience: float) -> None:
        self.everybody = _everybody()
        self.group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=patience))
        self.votes = 0


class Peers:
    """All ranks of the job, over a gloo group of its own: votes need no GPU, and wait so many seconds at most. A vote says its
    number and what it is on, or a rank that left a call would answer for another. Once a rank is lost there are no more votes:
    who has heard what is not known any more."""

    _circles: dict[float, _Circle] = {}
    _meeting: _Circle | None = None
    _met = 0

    def __init__(self, patience: float = PATIENCE) -> None:
        """Raises JobError unless ``patience`` is a number of seconds from 0.001 to 10^9."""
        if isinstance(patience, bool) or not isinstance(patience, (int, float, np.integer, np.floating)) or not 0.001 <= patience <= 1e9:
            raise JobError(f"patience = {shown(patience)}: expected seconds from 0.001 to 1e9")
        self.patience = float(patience)
        self.number = 0
        self._lost = ""

    def hear(self, said: Any, what: str, vote: str) -> list[Any]:
        """What every rank says, by rank; all ranks call this. ``what``: in messages; ``vote``: on what, the same on all ranks."""
        return self._hear(self._circle, said, what, f"{vote} (state {self.number})")

    def _hear(self, circle_of: Callable[[], _Circle], said: Any, what: str, vote: str) -> list[Any]:
        if self._lost:
            raise PeersLost(f"{what}: the job has to begin anew, since {self._lost}")
        try:
            circle = circle_of()
            circle.votes += 1
            heard = _gathered(((circle.votes, vote), said), circle.group)
        except BaseException as error:
            lost = self.lost(f"{what}: a rank is gone, or did not answer within {self.patience:g} s: {error}")
            if not isinstance(error, Exception):
                raise
            raise lost from error
        ranks: dict[tuple[int, str], list[int]] = {}
        for rank, (voted, _) in enumerate(heard):
            ranks.setdefault(voted, []).append(rank)
        if len(ranks) > 1:
            # All have heard all numbers: the next vote is the same on all ranks again.
            circle.votes = max(number for number, _ in ranks)
            found = "; ".join(f"ranks {some}: vote {number}, {vote}" for (number, vote), some in ranks.items())
            raise VotesDiffer(f"{what}: ranks are in different calls, since one left a call that others are in: {found}")
        return [one for _, one in heard]

    def lost(self, why: str) -> PeersLost:
        """No more votes."""
        self._lost = why
        if self._circles.pop(self.patience, None) is Peers._meeting:
            Peers._meeting = None
        return PeersLost(why)

    def meet(self, refused: Exception | None) -> None:
        """Makes the group: all ranks call this while all are there, and then a lost one is noticed by its connections.

        Raises:
            JobError: a rank was refused, or ranks were given different patience; on all. ``refused`` here.
        """
        if Peers._meeting is None or Peers._meeting.everybody is not _everybody():
            Peers._meeting, Peers._met = None, 0
        number = Peers._met + 1
        # Over the job's first group, whatever its patience: all ranks have that one.
        try:
            heard = self._hear(self._first, (words(refused), self.patience), "meeting", f"meeting (state {number})")
        except PeersLost as lost:
            # What is wrong here is the better news.
            raise refused or lost
        wrong = [f"the state of rank {rank} was refused: {failed}" for rank, (failed, _) in enumerate(heard) if failed is not None]
        first = heard[0][1]
        wrong += [
            f"patience: rank 0 was given {first:g} s, rank {rank} {other:g} s: expected the same on all ranks"
            for rank, (_, other) in enumerate(heard)
            if other != first
        ]
        if wrong:
            if number == 1:
                self._circles.pop(self.patience)
                Peers._meeting = None
            raise refused or JobError(wrong[0])
        self.number = Peers._met = number
        try:
            self._circle()
        except RuntimeError as error:
            raise self.lost(f"meeting: a rank is gone, or did not come within {self.patience:g} s: {error}") from error

    def _first(self) -> _Circle:
        if Peers._meeting is None:
            Peers._meeting = self._circle()
        return Peers._meeting

    def _circle(self) -> _Circle:
        circle = self._circles.get(self.patience)
        if circle is None or circle.everybody is not _everybody():
            circle = self._circles[self.patience] = _Circle(self.patience)
        return circle


def _everybody() -> Any:
    return dist.distributed_c10d._get_default_group()


def _gathered(said: Any, group: Any) -> list[Any]:
    """What every rank says. Unlike ``all_gather_object`` this ends at once where a handler of signals raises."""
    text = torch.frombuffer(bytearray(pickle.dumps(said)), dtype=torch.uint8)
    size = torch.tensor([text.numel()])
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    _wait(dist.all_gather(sizes, size, group=group, async_op=True))
    longest = int(max(sizes))
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: text.numel()] = text
    texts = [torch.empty_like(padded) for _ in sizes]
    _wait(dist.all_gather(texts, padded, group=group, async_op=True))
    return [pickle.loads(one.numpy().tobytes()[: int(size)]) for one, size in zip(texts, sizes)]


def _wait(work: Any) -> None:
    """torch waits in C, where no signal is heard."""
    nap = 5e-5
    while not work.is_completed():
        time.sleep(nap)
        nap = min(2 * nap, 5e-3)
    work.wait()


class Together:
    """A part that all ranks do or none has done: its failure on one, Ctrl-C too, is raised on all. What every rank said in
    it, all have heard after it."""

    def __init__(
        self, peers: Peers, what: str, interrupts: Interrupts, error: Callable[[str], RoutePackError] = FileError
    ) -> None:
        self.peers = peers
        self.what = what
        self.vote = ""
        self.interrupts = interrupts
        self.error = error
        self.said: Any = None
        self.heard: list[Any] = []

    def on(self, vote: str) -> Together:
        """What the next part is, the same on all ranks."""
        self.vote = vote
        return self

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, PeersLost):
            return
        came = error is None and self.interrupts.came
        failed = KeyboardInterrupt() if came else error
        try:
            votes = self.peers.hear((words(failed), self.said), self.what, self.vote)
        except VotesDiffer:
            raise
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
    try:
        said = str(error)
    except Exception:
        # A rank that raises here would not vote.
        said = "has no words"
    return said if isinstance(error, RoutePackError) else f"{type(error).__name__}: {said}"
