"""Which sets of tensors are laid out by which map, and where every byte of them is on this rank."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .._arrays import integers, number
from .._native import JobError, RoutePackError, flat_runs, local_layers, map_hash

Slots = list[list[int]]
"""Slot of every logical expert ``[layers][experts]``."""

TORN = "torn"
"""In place of its map's hash: what a set has while it is written, and if that was cut off."""

Bytes = Callable[[int, int, int], Tensor]
"""(layer, slot, tensor) -> the tensor of the expert in that slot on this rank, contiguous; written in place."""


class MapMismatch(RoutePackError):
    """Tensors are laid out by another map than the one in force."""


def slots_of(log2phys: Any, num_experts: int, num_layers: int | None = None) -> Slots:
    """A map as lists, from an array or tensor ``[layers, experts]``.

    Raises:
        JobError: another shape, something that is no integer, or a layer that is no bijection of experts and slots.
    """
    values = log2phys.tolist() if hasattr(log2phys, "tolist") else log2phys
    try:
        slots: Slots = integers("log2phys", values, np.uint32, ("layers", "experts"), JobError).tolist()
    except ValueError as error:
        if isinstance(error, JobError):
            raise
        raise JobError(f"log2phys: expected integers [layers, experts]: {error}") from None
    layers = num_layers or max(len(slots), 1)
    if len(slots) != layers or len(slots[0]) != num_experts:
        shape = [len(slots), len(slots[0]) if slots else 0]
        raise JobError(f"log2phys: layers and experts {shape}, expected {[layers, num_experts]}")
    for layer, row in enumerate(slots):
        if sorted(row) != list(range(num_experts)):
            raise JobError(f"log2phys: layer {layer} is no bijection of experts and slots 0 to {num_experts - 1}: {row}")
    return slots


def as_bytes(tensor: Tensor, place: str = "a tensor") -> Tensor:
    """A tensor's bytes, sharing its memory."""
    if not tensor.is_contiguous():
        raise RoutePackError(f"{place} of shape {list(tensor.shape)} is not contiguous: its bytes cannot be moved in place")
    return tensor.detach().reshape(-1).view(torch.uint8)


Run = tuple[int, int, int, int, int, int, int]
"""layer, tensor, slot, first byte of the tensor, bytes, where in the memory of the layer's chunk, the chunk."""


class _Ranges:
    """A flat state (master, moment) of which this rank holds byte ranges of tensors."""

    name = "flat"

    def bind(self, runs: Sequence[Run]) -> None:
        """Takes what the layout says this rank holds; refuses a trainer that holds something else."""
        raise NotImplementedError

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        """First byte and bytes of every run of a tensor that is here."""
        raise NotImplementedError

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        """Type of the elements of a tensor; None where this rank holds nothing of it."""
        raise NotImplementedError

    def view(self, layer: int, slot: int, tensor: int, start: int, end: int) -> Tensor:
        for first, run in self.runs(layer, slot, tensor):
            if first <= start and end <= first + run.numel():
                return run[start - first : end - first]
        raise RoutePackError(f"{self.name}: bytes {start} to {end} of layer {layer}, slot {slot}, tensor {tensor} are not on this rank")


class FlatShards(_Ranges):
    """Flat state in buffers: this rank's shards of all buckets behind each other, one tensor a virtual pipeline chunk."""

    def __init__(self, *shards: Tensor) -> None:
        self.shards = shards
        self._runs: dict[tuple[int, int, int], list[tuple[int, int, int, int]]] = {}

    def bind(self, runs: Sequence[Run]) -> None:
        for layer, tensor, slot, start, size, at, chunk in runs:
            self._runs.setdefault((layer, tensor, slot), []).append((start, size, at, chunk))
        for chunk in {run[6] for run in runs}:
            if chunk >= len(self.shards):
                raise RoutePackError(f"{self.name}: flat shards of {len(self.shards)} chunks, the rank has chunk {chunk}")
            need = max(run[4] + run[5] for run in runs if run[6] == chunk)
            found = as_bytes(self.shards[chunk]).numel()
            if found < need:
                raise RoutePackError(f"{self.name}: a flat shard of chunk {chunk} has {found} bytes, expected at least {need}")

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        held = self._runs.get((layer, tensor, slot), [])
        return [(start, as_bytes(self.shards[chunk])[at : at + size]) for start, size, at, chunk in held]

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        held = self._runs.get((layer, tensor, slot), [])
        return self.shards[held[0][3]].dtype if held else None


class ParameterShards(_Ranges):
    """Flat state as Megatron's optimizer keeps it: of every parameter, the piece that is this rank's, a tensor of its own.

    ``where(layer, slot, tensor)`` gives ``(first element, piece)``, or None where this rank has no piece: the range that
    ``_get_model_param_range_map(parameter)["param"]`` names, and the main parameter or its moment in the optimizer's state.
    """

    def __init__(self, where: Callable[[int, int, int], tuple[int, Tensor] | None]) -> None:
        self.where = where

    def bind(self, runs: Sequence[Run]) -> None:
        for layer, tensor, slot, start, size, _, _ in runs:
            found = [(first, first + piece.numel()) for first, piece in self.runs(layer, slot, tensor)]
            if found != [(start, start + size)]:
                raise RoutePackError(
                    f"{self.name}: of layer {layer}, slot {slot}, tensor {tensor} the layout has bytes {start} to {start + size} "
                    f"on this rank, the trainer {found or 'none'}: set flat to the trainer's order, alignment and buckets"
                )

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        found = self.where(layer, slot, tensor)
        return [] if found is None else [(found[0] * found[1].element_size(), as_bytes(found[1]))]

    def dtype(self, layer: int, slot: int, tensor: int) -> torch.dtype | None:
        found = self.where(layer, slot, tensor)
        return None if found is None else found[1].dtype


class ExpertState:
    """Registry of everything that is laid out by the map: model, master, moments, reference, old-actor, EMA and
    offloaded copies, scales. Every set carries the hash of its map; a set with another hash is refused."""

    def __init__(
        self,
        topology: Mapping[str, Any],
        num_experts: int,
        log2phys: Any,
        tensors: Mapping[str, int],
        rank: int | None = None,
        flat: Mapping[str, Any] | None = None,
    ) -> None:
        """``topology`` as in a job; ``tensors``: elements of every tensor of one expert's slice on this rank."""
        self.topology = dict(topology)
        self.num_experts = number("num_experts", num_experts, 1, 0xFFFFFFFF, JobError)
        self.log2phys = slots_of(log2phys, self.num_experts)
        self.tensors = dict(tensors)
        self.flat = dict(flat or {})
        self.rank = dist.get_rank() if rank is None else rank
        self.sha256 = map_hash(self.log2phys)
        # Refuses a rank that the topology has not.
        self.local_layers()
        self.versions: dict[str, str] = {}
        self.in_step = False
        self._kinds: list[dict[str, Any]] = []
        self._held: list[Bytes | _Ranges] = []
        self._derived: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {}

    def add(
        self,
        name: str,
        element_bytes: int,
        held: str,
        where: Bytes | FlatShards | ParameterShards,
        sha256: str | None = None,
        tensors: Sequence[str] | None = None,
    ) -> None:
        """A set of tensors: ``by-slot`` with a function to its tensors, or ``flat`` with its shards.

        ``tensors``: names of those that have this kind of state, all by default: expert LoRA and its optimizer state are
        sets of their adapters' tensors alone.
        """
        if name in self.versions:
            raise RoutePackError(f"{name}: is there already")
        if (held == "flat") != isinstance(where, _Ranges) or held not in ("flat", "by-slot"):
            raise RoutePackError(f"{name}: held = {held!r}: expected 'flat' with FlatShards or 'by-slot' with a function")
        kind: dict[str, Any] = {"name": name, "element_bytes": element_bytes, "held": held}
        if tensors is not None:
            kind["tensors"] = list(tensors)
        state = self.state_json([*self._kinds, kind])
        # Also refuses a kind that the layout cannot have.
        runs = flat_runs(self.topology_json(), state, len(self.log2phys), len(self._kinds), self.rank)
        if isinstance(where, _Ranges):
            where.name = name
            where.bind(runs)
        else:
            self._check_tensors(name, element_bytes, where, tensors)
        self._kinds.append(kind)
        self._held.append(where)
        self.versions[name] = self.sha256 if sha256 is None else sha256

    def _check_tensors(self, name: str, element_bytes: int, where: Bytes, tensors: Sequence[str] | None) -> None:
        """Every tensor held by slot on this rank has the bytes it is said to have, behind each other."""
        for layer in self.local_layers():
            for slot in self.local_slots():
                for index, (tensor, elements) in enumerate(self.tensors.items()):
                    if tensors is not None and tensor not in tensors:
                        continue
                    found = as_bytes(where(layer, slot, index), f"{name}: layer {layer}, slot {slot}, {tensor}").numel()
                    if found != elements * element_bytes:
                        raise RoutePackError(
                            f"{name}: layer {layer}, slot {slot}, {tensor} has {found} bytes, expected {elements * element_bytes}"
                        )

    def local_layers(self) -> list[int]:
        """Layers whose experts are on this rank's pipeline stage."""
        return local_layers(self.topology_json(), len(self.log2phys), self.rank)

    def local_slots(self) -> range:
        """Slots of every layer that are on this rank."""
        ep = int(self.topology["ep"])
        places = self.num_experts // ep
        first = self.rank // self.etp() % ep * places
        return range(first, first + places)

    def etp(self) -> int:
        """Ranks that an expert is cut over."""
        return int(self.topology.get("etp") or self.topology.get("tp", 1))

    def edp_position(self) -> int:
        """Which of the copies of its experts this rank has."""
        sizes = {name: int(self.topology.get(name) or 1) for name in ("dp", "tp", "cp", "ep")}
        block = self.etp() * sizes["ep"]
        return self.rank // block % (sizes["dp"] * sizes["tp"] * sizes["cp"] // block)

    def set_names(self) -> list[str]:
        """Sets in the order they were added, without those made from others."""
        return [kind["name"] for kind in self._kinds]

    def is_flat(self, kind: int) -> bool:
        """Whether a set is held in flat ranges of bytes."""
        return isinstance(self._held[kind], _Ranges)

    def pieces(self, kind: int, layer: int, slot: int) -> Iterator[tuple[int, int, Tensor]]:
        """(tensor, its first byte here, what is here of it) of the expert in a slot of this rank, one set."""
        held = self._held[kind]
        for index, tensor in enumerate(self.tensors):
            if tensor not in self._kinds[kind].get("tensors", self.tensors):
                continue
            if isinstance(held, _Ranges):
                for start, run in held.runs(layer, slot, index):
                    yield index, start, run
            else:
                yield index, 0, held(layer, slot, index)

    def set_types(self) -> dict[str, dict[str, Any]]:
        """Of every set: bytes of an element, how it is held, and the types of its elements on this rank."""
        types: dict[str, dict[str, Any]] = {}
        for name, kind, held in zip(self.set_names(), self._kinds, self._held):
            mine = [index for index, tensor in enumerate(self.tensors) if tensor in kind.get("tensors", self.tensors)]
            dtype = held.dtype if isinstance(held, _Ranges) else lambda *place, held=held: held(*place).dtype
            places = [(layer, slot, tensor) for layer in self.local_layers() for slot in self.local_slots() for tensor in mine]
            found = {str(one).removeprefix("torch.") for one in (dtype(*place) for place in places) if one is not None}
            types[name] = {"element_bytes": kind["element_bytes"], "held": kind["held"], "dtype": sorted(found)}
        return types

    def add_derived(self, name: str, drop: Callable[[], None], remake: Callable[[], None]) -> None:
        """Tensors made from others (quantised weights, scales): dropped before a move, remade after it."""
        if name in self.versions:
            raise RoutePackError(f"{name}: is there already")
        self._derived[name] = (drop, remake)
        self.versions[name] = self.sha256

    def topology_json(self) -> str:
        return json.dumps(self.topology)

    def state_json(self, kinds: Sequence[Mapping[str, Any]] | None = None) -> str:
        tensors = [{"name": name, "elements": elements} for name, elements in self.tensors.items()]
        state: dict[str, Any] = {"num_experts": self.num_experts, "tensors": tensors, "kinds": self._kinds if kinds is None else kinds}
        if self.flat:
            state["flat"] = self.flat
        return json.dumps(state)

    def view(self, layer: int, kind: int, tensor: int, slot: int, start: int, end: int) -> Tensor:
        """Bytes of this rank, to be read or written."""
        held = self._held[kind]
        if isinstance(held, _Ranges):
            return held.view(layer, slot, tensor, start, end)
        return as_bytes(held(layer, slot, tensor))[start:end]

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """An optimizer step: every set must be laid out by the map in force, and nothing moves inside."""
        self.check()
        self.in_step = True
        try:
            yield
        finally:
            self.in_step = False

    def check(self) -> None:
        """Raises MapMismatch unless every set is laid out by the map in force."""
        for name, sha256 in self.versions.items():
            if sha256 != self.sha256:
                raise MapMismatch(f"{name} is laid out by map {sha256[:16]}…, in force is {self.sha256[:16]}…")

    def agree(self) -> None:
        """Raises MapMismatch unless all ranks have the same map in force: before saving, and after loading."""
        error: MapMismatch | None = None
        try:
            self.check()
        except MapMismatch as failure:
            error = failure
        found: list[Any] = [None] * dist.get_world_size()
        # A rank whose sets are wrong tells the others, which would wait for it.
        dist.all_gather_object(found, (str(error) if error else None, self.sha256))
        if error:
            raise error
        for rank, (failed, _) in enumerate(found):
            if failed is not None:
                raise MapMismatch(f"rank {rank}: {failed}")
        if len({sha256 for _, sha256 in found}) > 1:
            raise MapMismatch(f"ranks have different maps: {[sha256[:16] for _, sha256 in found]}")

    @contextlib.contextmanager
    def loading(self, log2phys: Any) -> Iterator[None]:
        """Every set is filled anew inside, laid out by this map: while a checkpoint is loaded. If that fails, no set is
        fit for a step; if derived tensors cannot be remade, they are not.

        Raises:
            JobError: the map is none of these layers and experts; then nothing has changed.
        """
        slots = self.slots(log2phys)
        self._take(slots, map_hash(slots))
        yield
        self._settle()
        self._remake()

    def slots(self, log2phys: Any) -> Slots:
        """A map of these layers and experts as lists; raises JobError if it is none."""
        return slots_of(log2phys, self.num_experts, len(self.log2phys))

    @property
    def torn(self) -> bool:
        """Whether a move or a load was cut off while it wrote: nothing here is fit for a step, or to be saved, until a
        checkpoint is loaded."""
        return TORN in self.versions.values()

    def _tear(self) -> None:
        self.versions = {name: TORN for name in self.versions}

    def _take(self, log2phys: Slots, sha256: str) -> None:
        """Another map; sets count as torn until they are settled, whatever ends this in between."""
        self._tear()
        self.log2phys, self.sha256 = log2phys, sha256

    def _settle(self) -> None:
        """Sets are what the map in force says; derived ones are still to be made."""
        self.versions = {name: "dropped" if name in self._derived else self.sha256 for name in self.versions}

    def phys2log(self, layer: int) -> list[int]:
        """Logical expert in every slot of a layer."""
        experts = [0] * self.num_experts
        for expert, slot in enumerate(self.log2phys[layer]):
            experts[slot] = expert
        return experts

    def _drop(self) -> None:
        for name, (drop, _) in self._derived.items():
            self.versions[name] = "dropped"
            drop()

    def _remake(self) -> None:
        """Makes derived tensors from what is there now; one that cannot be made is refused by the next step."""
        for name, (_, remake) in self._derived.items():
            remake()
            self.versions[name] = self.sha256
