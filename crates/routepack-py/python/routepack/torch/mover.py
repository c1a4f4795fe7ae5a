"""Moves expert state over torch.distributed: all ranks, or none."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from .._native import JobError, RoutePackError, map_hash, rank_move
from .alike import check_alike, said
from .columns import Columns
from .devices import device_of, finish, given
from .layout import plain
from .maps import MapMismatch, Slots
from .peers import Interrupts, PeersLost, Together, VotesDiffer, words
from .state import ExpertState

Piece = Sequence[int]
"""layer, kind, tensor, slot, first byte, end."""


class MoveFailed(RoutePackError):
    """A rank could not do its part: map and state are what they were before."""


def _size(pieces: Sequence[Piece]) -> int:
    return sum(piece[5] - piece[4] for piece in pieces)


STAGING_BYTES = 1 << 30
"""Most bytes a rank holds aside, unless options say otherwise; None in them is no limit."""


class Mover:
    """Executes the rounds of a move: in each, this rank sends to at most one peer and receives from at most one.

    What arrives is held aside. After every pass all ranks vote; only if all have everything is it written to its place,
    and then they vote whether it is. If a later pass fails, the earlier ones are moved back. The map changes last.
    Backends: gloo, NCCL; votes go over gloo.
    """

    def __init__(
        self,
        state: ExpertState,
        column_maps: Columns = (),
        options: Mapping[str, Any] | None = None,
        device: torch.device | str | None = None,
        on_event: Callable[[str, int], None] = lambda event, number: None,
    ) -> None:
        """``column_maps``: of all layers, or by layer where a pipeline stage has some; every step compares them from here
        on, beside those given before. ``options``: block_bytes, staging_bytes (1 GiB), links. ``device``: of the buffers; by
        default that of the first set which the process group can send from. ``on_event`` is told where the move is (for
        tests and traces)."""
        self.state = state
        state.follow(column_maps)
        if not isinstance(options, (Mapping, type(None))):
            raise JobError(f"options: expected names and values, found {type(options).__name__}")
        self.options = plain("options", {"staging_bytes": STAGING_BYTES, **(options or {})})
        self.device = given(device)
        self._buffers_on = torch.device("cpu")
        self.on_event = on_event

    def move(self, log2phys: Any) -> dict[str, int]:
        """Moves all state to a map ``[layers, experts]``; every rank calls this between the same steps.

        Ctrl-C on one rank gives the move up on all; a second one, or whatever else ends this while it writes, leaves sets
        that are torn: no step, no save until a checkpoint is loaded.

        Raises:
            MoveFailed: some rank failed; nothing has changed anywhere.
            MapMismatch: ranks or sets do not agree on map, plan, topology, layout, elements or options, or a step is going on;
                or the move is done or given up and a rank could not remake its derived sets; or it could neither be done nor undone.
            PeersLost: a rank is gone, did not answer for too long or (VotesDiffer) left this call; sets are torn unless
                nothing can have been written, or all ranks have said that all is.
            KeyboardInterrupt: Ctrl-C here; nothing has changed anywhere. Once all have written it comes too late: the move
                is done on all ranks, this one too.
        """
        state = self.state
        with Interrupts() as interrupts:
            target, planned = self._prepare(log2phys, interrupts)
            move = json.loads(planned)
            try:
                self._run(move, interrupts)
            except MoveFailed as failure:
                # On all ranks, and so is what comes of this.
                with Together(state.peers, f"{failure}; then remaking derived sets", Interrupts(), MapMismatch).on(
                    "a move given up: derived sets"
                ):
                    state.settle()
                    state.remake()
                if isinstance(failure.__cause__, KeyboardInterrupt):
                    raise failure.__cause__
                raise
            except BaseException:
                if not state.torn:
                    # What cannot be remade is refused by the next step; why the move ended is the better news.
                    with contextlib.suppress(Exception):
                        state.remake()
                raise
            done = Together(state.peers, "the move is done, but remaking derived sets", interrupts, MapMismatch)
            with done.on("a move: derived sets"):
                state.take(target)
                state.settle()
                state.remake()
        return {"passes": len(move["passes"]), "staging_bytes": move["staging_bytes"]}

    def _prepare(self, log2phys: Any, interrupts: Interrupts) -> tuple[Slots, str]:
        """The move, once every rank has planned the same one; a rank that cannot tells all others."""
        state = self.state
        spoiled: RoutePackError | None = None
        try:
            with Together(state.peers, "a move", interrupts, _unchanged).on("a move: plan") as together:
                state.check_job()
                state.between_steps("a move")
                state.check()
                try:
                    # What functions give now may be no longer what it was.
                    state.check_memory()
                except RoutePackError as failure:
                    spoiled = failure
                    raise
                self._buffers_on = device_of(self.device, state.devices())
                target, options = state.slots(log2phys), json.dumps(self.options, sort_keys=True)
                together.said = {
                    "map in force": state.sha256[:16],
                    "plan": map_hash(target)[:16],
                    **said(state),
                    "options": options,
                    # Messages between two types of device have no backend.
                    "device of buffers": self._buffers_on.type,
                }
                sets = state.state_json(state.kinds())
                planned = rank_move(state.topology_json(), sets, options, state.log2phys, target, state.rank)
        except RoutePackError as failure:
            if failure is spoiled:
                raise _unchanged(f"a move was given up: {failure}") from failure
            raise
        check_alike(together.heard)
        return target, planned

    def _run(self, move: dict[str, Any], interrupts: Interrupts) -> None:
        send = [torch.empty(0, dtype=torch.uint8)] * 2
        staging = send[0]
        error: BaseException | None = None
        try:
            self.on_event("allocate", 0)
            # Dropped first: their memory is there for the buffers.
            self.state.drop()
            send = [self._buffer(move["message_bytes"]) for _ in range(2)]
            staging = self._buffer(move["staging_bytes"])
            interrupts.heed()
        except BaseException as failure:
            error = failure
        # Nothing is sent before every rank has its buffers.
        self._vote(error, "a move: buffers", self.state.versions)
        for number, one in enumerate(move["passes"]):
            try:
                self._pass("a move", number, one, send, staging, interrupts)
            except MoveFailed as failure:
                self._undo(move["passes"][:number], send, staging, failure)
                raise

    def _pass(
        self, call: str, number: int, one: dict[str, Any], send: list[Tensor], staging: Tensor, interrupts: Interrupts
    ) -> None:
        """Receives a pass aside, votes, writes it to its places, votes."""
        state = self.state
        arrived: list[tuple[Piece, Tensor]] = []
        places: list[Tensor] = []
        error = self._receive(number, one, send, staging, arrived)
        try:
            if error is None:
                places = [state.view(*piece) for piece, _ in arrived]
            self.on_event("vote", number)
            interrupts.heed()
        except BaseException as failure:
            error = error or failure
        # Before the vote: once the others have heard that all are well, they write.
        before = state.versions
        state.tear()
        self._vote(error, f"{call}: pass {number} received", before)
        try:
            for place, (_, part) in zip(places, arrived):
                place.copy_(part)
            finish(place.device for place in places)
            self.on_event("written", number)
        except BaseException as failure:
            error = failure
        heard = state.peers.hear(words(error), "a move", f"{call}: pass {number} written")
        if error:
            raise error
        for rank, failed in enumerate(heard):
            if failed is not None:
                raise MapMismatch(f"rank {rank} could not write what moved: {failed}; load a checkpoint")

    def _receive(
        self, number: int, one: dict[str, Any], send: list[Tensor], staging: Tensor, arrived: list[tuple[Piece, Tensor]]
    ) -> BaseException | None:
        """Messages of a pass, and copies within this rank; what went wrong here."""
        error: BaseException | None = None
        used = 0
        try:
            self.on_event("pass", number)
            for source, place in one["local"]:
                part = staging[used : used + _size([source])]
                part.copy_(self.state.view(*source))
                arrived.append((place, part))
                used += part.numel()
        except BaseException as failure:
            error = failure
        used = _size([place for _, place in one["local"]])
        try:
            self._messages(one["rounds"], send, staging, used, arrived)
        except _Unpacked as failure:
            error = error or failure.__cause__
        except BaseException as failure:
            # Messages may be under way that nobody waits for: no undoing over these connections, and no other move.
            error = PeersLost(f"a message of pass {number} was lost: {words(failure)}")
        return error

    def _messages(
        self, rounds: list[Any], send: list[Tensor], staging: Tensor, used: int, arrived: list[tuple[Piece, Tensor]]
    ) -> None:
        """All messages of a pass. What cannot be packed here is raised after the last: peers wait for bytes, and the vote
        tells them to forget them."""
        unpacked: BaseException | None = None
        waiting: list[Any] = []
        for turn, step in enumerate(rounds):
            # Packed while the round before is under way.
            buffer = send[turn % 2]
            if step["send"]:
                try:
                    self._pack(step["send"][1], buffer)
                except BaseException as failure:
                    unpacked = unpacked or failure
            for request in waiting:
                request.wait()
            messages = []
            if step["receive"]:
                peer, pieces = step["receive"]
                size = _size(pieces)
                messages.append(dist.P2POp(dist.irecv, staging[used : used + size], peer))
                for piece in pieces:
                    arrived.append((piece, staging[used : used + _size([piece])]))
                    used += _size([piece])
            if step["send"]:
                messages.append(dist.P2POp(dist.isend, buffer[: _size(step["send"][1])], step["send"][0]))
            # Grouped, or two ranks that send to each other would wait for each other under NCCL.
            waiting = dist.batch_isend_irecv(messages) if messages else []
        for request in waiting:
            request.wait()
        # Local copies, too: the vote says that bytes are here.
        finish([staging.device])
        if unpacked:
            raise _Unpacked from unpacked

    def _pack(self, pieces: Sequence[Piece], buffer: Tensor) -> None:
        at = 0
        for piece in pieces:
            size = _size([piece])
            buffer[at : at + size].copy_(self.state.view(*piece))
            at += size

    def _undo(self, done: list[dict[str, Any]], send: list[Tensor], staging: Tensor, cause: MoveFailed) -> None:
        """Moves passes back; needs no memory that is not there. Ctrl-C has been heard already."""
        events, self.on_event = self.on_event, lambda event, number: None
        try:
            for number, one in reversed(list(enumerate(done))):
                self._pass("undoing a move", number, _inverse(one), send, staging, Interrupts())
        except MoveFailed as failure:
            raise MapMismatch(f"a move failed and could not be undone: {failure}; load a checkpoint") from cause
        finally:
            self.on_event = events

    def _vote(self, error: BaseException | None, vote: str, before: dict[str, str]) -> None:
        """All ranks hear whether all are well, and still connected. Sets are what they were ``before`` where all have heard
        that nobody writes."""
        peers = self.state.peers
        try:
            heard = peers.hear((isinstance(error, PeersLost), words(error)), "a move", vote)
        except VotesDiffer:
            self.state.versions = before
            raise
        if all(failed is None for _, failed in heard):
            return
        self.state.versions = before
        if error and not isinstance(error, PeersLost) and not any(lost for lost, _ in heard):
            raise _unchanged(f"a move was given up: {words(error)}") from error
        for rank, (lost, failed) in enumerate(heard):
            if lost:
                raise peers.lost(f"a move: rank {rank}: {failed}")
        for rank, (_, failed) in enumerate(heard):
            if failed is not None:
                raise _unchanged(f"a move was given up: rank {rank}: {failed}")

    def _buffer(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._buffers_on)


class _Unpacked(Exception):
    """A message had bytes that nobody may take."""


def _unchanged(why: str) -> MoveFailed:
    return MoveFailed(f"{why}; nothing has changed")


def _inverse(one: dict[str, Any]) -> dict[str, Any]:
    rounds = [{"send": step["receive"], "receive": step["send"]} for step in one["rounds"]]
    return {"local": [[place, source] for source, place in one["local"]], "rounds": rounds}
