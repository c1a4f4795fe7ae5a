"""Flat optimizer state: byte ranges of tensors, cut over the EDP group."""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

import torch
from torch import Tensor

from .._native import RoutePackError
from .memory import as_bytes, asked, check_elements

Run = tuple[int, int, int, int, int, int, int]
"""layer, tensor, slot, first byte of the tensor, bytes, where in the memory of the layer's chunk, the chunk."""

Place = tuple[int, int, int]
"""layer, slot, tensor."""

ORDER = "set flat to the trainer's order, alignment and buckets"


class Ranges:
    """A flat state (master, moment) of which this rank holds byte ranges of tensors."""

    name = "flat"

    def bind(self, runs: Sequence[Run], chunk_bytes: Sequence[int], element_bytes: int, places: Sequence[Place]) -> None:
        """Takes what the layout says this rank holds of these places; refuses a trainer that holds something else."""
        raise NotImplementedError

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        """First byte and bytes of every run of a tensor that is here."""
        raise NotImplementedError

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        """Type of the elements of a tensor; None where this rank holds nothing of it."""
        raise NotImplementedError

    def memory(self, places: Sequence[Place]) -> Iterator[tuple[str, Tensor]]:
        """What is held of these places, in words and where it is."""
        raise NotImplementedError

    def view(self, layer: int, slot: int, tensor: int, start: int, end: int) -> Tensor:
        for first, run in self.runs(layer, slot, tensor):
            if first <= start and end <= first + run.numel():
                return run[start - first : end - first]
        raise RoutePackError(f"{self.name}: bytes {start} to {end} of layer {layer}, slot {slot}, tensor {tensor} are not on this rank")


class FlatShards(Ranges):
    """Flat state in buffers: this rank's shards of all buckets behind each other, one a virtual pipeline chunk.

    Tensors, or functions that give them: a buffer that the optimizer replaces (as ``load_state_dict`` may) has to be a
    function, or the one it had before is moved and saved. ``ExpertState.shard_elements`` says how many elements each has.
    """

    def __init__(self, *shards: Tensor | Callable[[], Tensor]) -> None:
        self.shards = shards
        self._runs: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}

    def bind(self, runs: Sequence[Run], chunk_bytes: Sequence[int], element_bytes: int, places: Sequence[Place]) -> None:
        if len(self.shards) != len(chunk_bytes):
            last = len(chunk_bytes) - 1
            raise RoutePackError(f"{self.name}: flat shards of {len(self.shards)} chunks, the rank has chunk {last} and no more")
        for chunk, expected in enumerate(chunk_bytes):
            place = f"{self.name}: a flat shard of chunk {chunk}"
            held = self.shards[chunk]
            shard = asked(place, held) if callable(held) else held
            found = as_bytes(shard, place).numel()
            check_elements(shard, element_bytes, place)
            if found != expected:
                raise RoutePackError(f"{place} has {found} bytes, expected {expected}: {ORDER}")
        self._runs = {}
        for layer, tensor, slot, start, size, at, chunk in runs:
            self._runs.setdefault((layer, tensor, slot), []).append((start, size, at, chunk))

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        held = self._runs.get((layer, tensor, slot), [])
        return [(start, as_bytes(self._shard(chunk), self.name)[at : at + size]) for start, size, at, chunk in held]

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        held = self._runs.get((layer, tensor, slot), [])
        return self._shard(held[0][3]).dtype if held else None

    def memory(self, places: Sequence[Place]) -> Iterator[tuple[str, Tensor]]:
        for chunk in range(len(self.shards)):
            yield f"{self.name}, chunk {chunk}", self._shard(chunk)

    def _shard(self, chunk: int) -> Tensor:
        held = self.shards[chunk]
        return held() if callable(held) else held


class ParameterShards(Ranges):
    """Flat state as Megatron's optimizer keeps it: of every parameter, the piece that is this rank's, a tensor of its own.

    ``where(layer, slot, tensor)`` gives ``(first element, piece)``, or None where this rank has no piece: the range that
    ``_get_model_param_range_map(parameter)["param"]`` names (a KeyError where there is none: ask ``model_param_gbuf_map``
    first), and the main parameter or its moment in the optimizer's state.
    """

    def __init__(self, where: Callable[[int, int, int], tuple[int, Tensor] | None]) -> None:
        self.where = where

    def bind(self, runs: Sequence[Run], chunk_bytes: Sequence[int], element_bytes: int, places: Sequence[Place]) -> None:
        expected: dict[Place, list[tuple[int, int]]] = {place: [] for place in places}
        for layer, tensor, slot, start, size, _, _ in runs:
            expected[layer, slot, tensor].append((start, start + size))
        for (layer, slot, tensor), wanted in expected.items():
            place = f"{self.name}: layer {layer}, slot {slot}, tensor {tensor}"
            piece = asked(place, self.where, layer, slot, tensor)
            if piece is not None:
                if not (isinstance(piece, tuple) and len(piece) == 2 and isinstance(piece[0], int) and piece[0] >= 0):
                    raise RoutePackError(f"{place}: expected (first element, piece) or None, found {type(piece).__name__}")
                as_bytes(piece[1], place)
                check_elements(piece[1], element_bytes, place)
            found = [(first, first + held.numel()) for first, held in self.runs(layer, slot, tensor) if held.numel()]
            if found != wanted:
                raise RoutePackError(
                    f"{self.name}: of layer {layer}, slot {slot}, tensor {tensor} the layout has bytes {wanted or 'none'} "
                    f"on this rank, the trainer {found or 'none'}: {ORDER}"
                )

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        found = self.where(layer, slot, tensor)
        return [] if found is None else [(found[0] * found[1].element_size(), as_bytes(found[1], self.name))]

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        found = self.where(layer, slot, tensor)
        return None if found is None else found[1].dtype

    def memory(self, places: Sequence[Place]) -> Iterator[tuple[str, Tensor]]:
        for layer, slot, tensor in places:
            found = self.where(layer, slot, tensor)
            if found is not None:
                yield f"{self.name}, layer {layer}, slot {slot}, tensor {tensor}", found[1]
