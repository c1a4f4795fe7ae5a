"""Moves expert state over torch.distributed: all ranks, or none."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from .._native import RoutePackError, map_hash, rank_move
from .columns import ColumnMap, by_layer, check_columns, set_columns
from .state import ExpertState, MapMismatch, Slots

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

    What arrives is held aside. After every pass all ranks vote; only if all have everything is it written to its place.
    If a later pass fails, the earlier ones are moved back. The map changes last. Backends: gloo, NCCL.
    """

    def __init__(
        self,
        state: ExpertState,
        column_maps: Sequence[ColumnMap] | Mapping[int, ColumnMap] = (),
        options: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        on_event: Callable[[str, int], None] = lambda event, number: None,
    ) -> None:
        """``column_maps``: of all layers, or by layer where a pipeline stage has some. ``options``: block_bytes,
        staging_bytes (1 GiB), links. ``on_event`` is told where the move is (for tests and traces)."""
        self.state = state
        self.column_maps = by_layer(column_maps)
        for layer in self.column_maps:
            if not 0 <= layer < len(state.log2phys):
                raise RoutePackError(f"a column map of layer {layer}, the state has {len(state.log2phys)} layers")
        self.options = {"staging_bytes": STAGING_BYTES, **(options or {})}
        self.device = torch.device(device)
        self.on_event = on_event

    def move(self, log2phys: Any) -> dict[str, int]:
        """Moves all state to a map ``[layers, experts]``; every rank calls this between the same steps.

        What ends it while it writes, Ctrl-C too, leaves sets that are torn: no step, no save until a checkpoint is loaded.

        Raises:
            MoveFailed: some rank failed; nothing has changed anywhere.
            MapMismatch: ranks or sets do not agree on map, plan, layout or options, or a step is going on.
        """
        state = self.state
        target, planned = self._prepare(log2phys)
        move = json.loads(planned)
        try:
            self._run(move)
        except Exception:
            if not state.torn:
                state._remake()
            raise
        state._take(target, move["target_sha256"])
        set_columns(self.column_maps, state)
        state._settle()
        state._remake()
        return {"passes": len(move["passes"]), "staging_bytes": move["staging_bytes"]}

    def _prepare(self, log2phys: Any) -> tuple[Slots, str]:
        """The move, once every rank has planned the same one; a rank that cannot tells all others."""
        state = self.state
        error: Exception | None = None
        target: Slots = []
        planned = ""
        said: dict[str, str] = {}
        try:
            if state.in_step:
                raise MapMismatch("a map changes only between steps")
            check_columns(self.column_maps, state)
            state.check()
            target, options = state.slots(log2phys), json.dumps(self.options, sort_keys=True)
            said = {
                "map in force": state.sha256[:16],
                "plan": map_hash(target)[:16],
                "topology": state.topology_json(),
                "layout of state": state.state_json(),
                "options": options,
            }
            planned = rank_move(state.topology_json(), state.state_json(), options, state.log2phys, target, state.rank)
        except Exception as failure:
            error = failure
        heard: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(heard, (str(error) if error else None, said))
        if error:
            raise error
        for rank, (failed, _) in enumerate(heard):
            if failed is not None:
                raise MoveFailed(f"a move was given up, nothing has changed: rank {rank}: {failed}")
        for what, mine in heard[0][1].items():
            for rank, (_, other) in enumerate(heard):
                if other[what] != mine:
                    raise MapMismatch(f"ranks 0 and {rank} have different {what}: {mine} and {other[what]}")
        return target, planned

    def _run(self, move: dict[str, Any]) -> None:
        send = [torch.empty(0, dtype=torch.uint8)] * 2
        staging = send[0]
        error: Exception | None = None
        try:
            self.on_event("allocate", 0)
            # Dropped first: their memory is there for the buffers.
            self.state._drop()
            send = [self._buffer(move["message_bytes"]) for _ in range(2)]
            staging = self._buffer(move["staging_bytes"])
        except Exception as failure:
            error = failure
        # Nothing is sent before every rank has its buffers.
        self._vote(error)
        for number, one in enumerate(move["passes"]):
            try:
                self._pass(number, one, send, staging)
            except MoveFailed as failure:
                self._undo(move["passes"][:number], send, staging, failure)
                self.state._settle()
                raise

    def _pass(self, number: int, one: dict[str, Any], send: list[Tensor], staging: Tensor) -> None:
        """Receives a pass aside, votes, writes it to its places."""
        error: Exception | None = None
        arrived: list[tuple[Piece, Tensor]] = []
        places: list[Tensor] = []
        used = 0
        try:
            self.on_event("pass", number)
            for source, place in one["local"]:
                part = staging[used : used + _size([source])]
                part.copy_(self.state.view(*source))
                arrived.append((place, part))
                used += part.numel()
        except Exception as failure:
            error = failure
        used = _size([place for _, place in one["local"]])
        waiting: list[Any] = []
        for turn, step in enumerate(one["rounds"]):
            # Packed while the round before is under way.
            buffer = send[turn % 2]
            if step["send"]:
                try:
                    self._pack(step["send"][1], buffer)
                except Exception as failure:
                    # The peer waits for bytes; the vote tells it to forget them.
                    error = error or failure
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
        try:
            places = [self.state.view(*piece) for piece, _ in arrived]
            self.on_event("vote", number)
        except Exception as failure:
            error = error or failure
        self._vote(error)
        # Before the first byte: whatever ends this, a lost connection or Ctrl-C, nobody takes half a move for a whole.
        self.state._tear()
        for place, (_, part) in zip(places, arrived):
            place.copy_(part)
        self.on_event("written", number)

    def _pack(self, pieces: Sequence[Piece], buffer: Tensor) -> None:
        at = 0
        for piece in pieces:
            size = _size([piece])
            buffer[at : at + size].copy_(self.state.view(*piece))
            at += size

    def _undo(self, done: list[dict[str, Any]], send: list[Tensor], staging: Tensor, cause: MoveFailed) -> None:
        """Moves passes back; needs no memory that is not there."""
        events, self.on_event = self.on_event, lambda event, number: None
        try:
            for number, one in reversed(list(enumerate(done))):
                self._pass(number, _inverse(one), send, staging)
        except MoveFailed as failure:
            raise RuntimeError(f"a move failed and could not be undone: {failure}; load a checkpoint") from cause
        finally:
            self.on_event = events

    def _vote(self, error: Exception | None) -> None:
        """All ranks hear whether all are well."""
        ballot = torch.tensor([0 if error else 1], device=self.device)
        dist.all_reduce(ballot, op=dist.ReduceOp.MIN)
        if not ballot.item():
            raise MoveFailed(f"a move was given up, nothing has changed: {error or 'another rank failed'}") from error

    def _buffer(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self.device)


def _inverse(one: dict[str, Any]) -> dict[str, Any]:
    rounds = [{"send": step["receive"], "receive": step["send"]} for step in one["rounds"]]
    return {"local": [[place, source] for source, place in one["local"]], "rounds": rounds}
