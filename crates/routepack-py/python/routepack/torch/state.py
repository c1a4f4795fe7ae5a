"""Which sets of tensors are laid out by which map, and where every byte of them is on this rank."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from .._native import RoutePackError, flat_runs, map_hash

Slots = list[list[int]]
"""Slot of every logical expert ``[layers][experts]``."""

Bytes = Callable[[int, int, int], Tensor]
"""(layer, slot, tensor) -> the tensor of the expert in that slot on this rank, contiguous; written in place."""


class MapMismatch(RoutePackError):
    """Tensors are laid out by another map than the one in force."""


def slots_of(log2phys: Any) -> Slots:
    """A map as lists, from an array or tensor ``[layers, experts]``."""
    values = log2phys.tolist() if hasattr(log2phys, "tolist") else log2phys
    return [[int(slot) for slot in layer] for layer in values]


def as_bytes(tensor: Tensor) -> Tensor:
    """A tensor's bytes, sharing its memory."""
    if not tensor.is_contiguous():
        raise RoutePackError(f"a tensor of shape {list(tensor.shape)} is not contiguous: its bytes cannot be moved in place")
    return tensor.detach().reshape(-1).view(torch.uint8)


class FlatShards:
    """A flat state (master, moment) of which this rank holds byte ranges, as Megatron's distributed optimizer does."""

    def __init__(self, shard: Tensor) -> None:
        self.shard = shard
        self._runs: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}

    def bind(self, runs: Sequence[tuple[int, int, int, int, int, int]]) -> None:
        """Takes the runs of this rank: (layer, tensor, slot, first byte, bytes, where in the shard)."""
        for layer, tensor, slot, start, size, at in runs:
            self._runs.setdefault((layer, tensor, slot), []).append((start, size, at))
        need = max((run[4] + run[5] for run in runs), default=0)
        if as_bytes(self.shard).numel() < need:
            raise RoutePackError(f"a flat shard has {as_bytes(self.shard).numel()} bytes, expected at least {need}")

    def runs(self, layer: int, slot: int, tensor: int) -> list[tuple[int, Tensor]]:
        """First byte and bytes of every run of a tensor that is here."""
        whole = as_bytes(self.shard)
        return [(start, whole[at : at + size]) for start, size, at in self._runs.get((layer, tensor, slot), [])]

    def view(self, layer: int, slot: int, tensor: int, start: int, end: int) -> Tensor:
        for first, run in self.runs(layer, slot, tensor):
            if first <= start and end <= first + run.numel():
                return run[start - first : end - first]
        raise RoutePackError(f"bytes {start} to {end} of layer {layer}, slot {slot}, tensor {tensor} are not on this rank")


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
        flat: Mapping[str, int] | None = None,
    ) -> None:
        """``topology`` as in a job; ``tensors``: elements of every tensor of one expert's slice on this rank."""
        self.topology = dict(topology)
        self.num_experts = num_experts
        self.log2phys = slots_of(log2phys)
        self.tensors = dict(tensors)
        self.flat = dict(flat or {})
        self.rank = dist.get_rank() if rank is None else rank
        self.sha256 = map_hash(self.log2phys)
        self.versions: dict[str, str] = {}
        self.in_step = False
        self._kinds: list[dict[str, Any]] = []
        self._held: list[Bytes | FlatShards] = []
        self._derived: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {}

    def add(self, name: str, element_bytes: int, held: str, where: Bytes | FlatShards, sha256: str | None = None) -> None:
        """A set of tensors: ``by-slot`` with a function to its tensors, or ``flat`` with its shards."""
        if name in self.versions:
            raise RoutePackError(f"{name}: is there already")
        if (held == "flat") != isinstance(where, FlatShards) or held not in ("flat", "by-slot"):
            raise RoutePackError(f"{name}: held = {held!r}: expected 'flat' with FlatShards or 'by-slot' with a function")
        if held == "flat" and int(self.topology.get("vpp", 1)) > 1:
            raise RoutePackError(f"{name}: flat state of several chunks a stage: one buffer each is not supported yet")
        self._kinds.append({"name": name, "element_bytes": element_bytes, "held": held})
        self._held.append(where)
        self.versions[name] = self.sha256 if sha256 is None else sha256
        if isinstance(where, FlatShards):
            kind = len(self._kinds) - 1
            where.bind(flat_runs(self.topology_json(), self.state_json(), len(self.log2phys), kind, self.rank))

    def add_derived(self, name: str, drop: Callable[[], None], remake: Callable[[], None]) -> None:
        """Tensors made from others (quantised weights, scales): dropped before a move, remade after it."""
        if name in self.versions:
            raise RoutePackError(f"{name}: is there already")
        self._derived[name] = (drop, remake)
        self.versions[name] = self.sha256

    def topology_json(self) -> str:
        return json.dumps(self.topology)

    def state_json(self) -> str:
        tensors = [{"name": name, "elements": elements} for name, elements in self.tensors.items()]
        state: dict[str, Any] = {"num_experts": self.num_experts, "tensors": tensors, "kinds": self._kinds}
        if self.flat:
            state["flat"] = self.flat
        return json.dumps(state)

    def view(self, layer: int, kind: int, tensor: int, slot: int, start: int, end: int) -> Tensor:
        """Bytes of this rank, to be read or written."""
        held = self._held[kind]
        if isinstance(held, FlatShards):
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
        self.check()
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, self.sha256)
        if len(set(found)) > 1:
            raise MapMismatch(f"ranks have different maps: {[sha256[:16] for sha256 in found]}")

    def loaded(self, log2phys: Any) -> None:
        """Every set has been filled anew, laid out by this map: after a checkpoint was loaded."""
        slots = slots_of(log2phys)
        self._commit(slots, map_hash(slots))

    def phys2log(self, layer: int) -> list[int]:
        """Logical expert in every slot of a layer."""
        experts = [0] * self.num_experts
        for expert, slot in enumerate(self.log2phys[layer]):
            experts[slot] = expert
        return experts

    def _drop(self) -> None:
        for drop, _ in self._derived.values():
            drop()

    def _remake(self) -> None:
        for _, remake in self._derived.values():
            remake()

    def _commit(self, log2phys: Slots, sha256: str) -> None:
        self.log2phys, self.sha256 = log2phys, sha256
        self.versions = {name: sha256 for name in self.versions}
