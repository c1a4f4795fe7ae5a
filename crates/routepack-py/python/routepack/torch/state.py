"""Which sets of tensors are laid out by which map, and where every byte of them is on this rank."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from .._arrays import number
from .._native import JobError, RoutePackError, map_hash
from .columns import ColumnMap, Columns, by_layer, check_columns, check_fit, set_columns
from .layout import Layout
from .maps import MapMismatch, Slots, inverse, slots_of
from .memory import as_bytes, check_apart, check_slots
from .peers import PATIENCE, Interrupts, Peers, Together
from .shards import FlatShards, ParameterShards, Place, Ranges

TORN = "torn"
"""In place of its map's hash: what a set has while it is written, and if that was cut off."""

DROPPED = "dropped"
"""In place of its map's hash: what a derived set has until it is remade."""

Bytes = Callable[[int, int, int], Tensor]
"""(layer, slot, tensor) -> the tensor of the expert in that slot on this rank, contiguous; written in place."""


Elements = dict[str, dict[str, list[str | None]]]
"""Of every set and tensor by layer: type of its elements, and its shape where it is held by slot; None where it is elsewhere."""


class ExpertState(Layout):
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
        patience: float = PATIENCE,
    ) -> None:
        """``topology`` as in a job; ``tensors``: elements of every tensor of one expert's slice on this rank; ``patience``:
        seconds that ranks wait for each other in a vote, the same on all. All ranks make one, in the same order, unless ``rank``
        says whose it is: that one is to look at. If one is refused, all are."""
        self.peers = Peers()
        refused: Exception | None = None
        try:
            self.peers = Peers(patience)
            num_experts = number("num_experts", num_experts, 1, 0xFFFFFFFF, JobError)
            self.log2phys = slots_of(log2phys, num_experts)
            super().__init__(topology, num_experts, len(self.log2phys), tensors, rank, flat)
            self._take(self.log2phys)
        except Exception as failure:
            refused = failure
        if rank is None and dist.is_initialized():
            self.peers.meet(refused)
        if refused:
            raise refused
        self.versions: dict[str, str] = {}
        self.column_maps: list[tuple[int, ColumnMap]] = []
        self.in_step = self.in_loading = False
        self.generation = 0
        self._kinds: list[dict[str, Any]] = []
        self._held: list[Bytes | Ranges] = []
        self._checks: list[Callable[[], None]] = []
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
        self._check_new(name)
        if (held == "flat") != isinstance(where, Ranges) or held not in ("flat", "by-slot") or not (held == "flat" or callable(where)):
            raise RoutePackError(f"{name}: held = {held!r}: expected 'flat' with FlatShards or 'by-slot' with a function")
        kind: dict[str, Any] = {"name": name, "element_bytes": element_bytes, "held": held}
        if tensors is not None:
            kind["tensors"] = list(tensors)
        # Also refuses a kind that the layout cannot have.
        runs = self.flat_runs(kind)
        if isinstance(where, Ranges):
            where.name = name
            check = functools.partial(where.bind, runs, self.held_bytes(kind), element_bytes, list(self._places(kind)))
        else:
            check = functools.partial(check_slots, name, where, list(self._places(kind)), element_bytes, self.tensors)
        check()
        self._elements(kind, where)
        others = [self._memory(*one) for one in zip(self._kinds, self._held)]
        check_apart(place for memory in [*others, self._memory(kind, where)] for place in memory)
        self._kinds.append(kind)
        self._held.append(where)
        self._checks.append(check)
        self.versions[name] = self.sha256 if sha256 is None else sha256

    def check_memory(self) -> None:
        """The checks of ``add`` and ``follow`` again, and their errors: what a trainer's functions give may have become a copy, or
        another piece."""
        for check in self._checks:
            check()
        self.elements()
        check_apart(place for one in zip(self._kinds, self._held) for place in self._memory(*one))
        check_fit(self.column_maps, self)

    def devices(self) -> list[torch.device]:
        """Where sets are, in the order they were added."""
        found = [next(self._memory(*one), None) for one in zip(self._kinds, self._held)]
        return [held[1].device for held in found if held is not None]

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise RoutePackError(f"{name!r}: expected the name of a set")
        if name in self.versions:
            raise RoutePackError(f"{name}: is there already")

    def _places(self, kind: Mapping[str, Any]) -> Iterator[Place]:
        """Every (layer, slot, tensor) of this rank that has a kind of state."""
        mine = [index for index, tensor in enumerate(self.tensors) if tensor in kind.get("tensors", self.tensors)]
        return ((layer, slot, index) for layer in self.local_layers() for slot in self.local_slots() for index in mine)

    def _memory(self, kind: Mapping[str, Any], held: Bytes | Ranges) -> Iterator[tuple[str, Tensor]]:
        """Where a set is, in words and as tensors."""
        if isinstance(held, Ranges):
            yield from held.memory(list(self._places(kind)))
            return
        names = list(self.tensors)
        for layer, slot, index in self._places(kind):
            yield f"{kind['name']}, layer {layer}, slot {slot}, {names[index]}", held(layer, slot, index)

    def set_names(self) -> list[str]:
        """Sets in the order they were added, without those made from others."""
        return [kind["name"] for kind in self._kinds]

    def is_flat(self, kind: int) -> bool:
        """Whether a set is held in flat ranges of bytes."""
        return isinstance(self._held[kind], Ranges)

    def pieces(self, kind: int, layer: int, slot: int) -> Iterator[tuple[int, int, Tensor]]:
        """(tensor, its first byte here, what is here of it) of the expert in a slot of this rank, one set."""
        held = self._held[kind]
        for index, tensor in enumerate(self.tensors):
            if tensor not in self._kinds[kind].get("tensors", self.tensors):
                continue
            if isinstance(held, Ranges):
                for start, run in held.runs(layer, slot, index):
                    yield index, start, run
            else:
                yield index, 0, held(layer, slot, index)

    def kinds(self) -> list[dict[str, Any]]:
        """What every set is, in the order they were added."""
        return self._kinds

    def elements(self) -> Elements:
        """What the elements of every set are on this rank; raises RoutePackError where slots of a layer differ: a move would
        put bytes of one type or shape where another is."""
        return {kind["name"]: self._elements(kind, held) for kind, held in zip(self._kinds, self._held)}

    def _elements(self, kind: Mapping[str, Any], held: Bytes | Ranges) -> dict[str, list[str | None]]:
        names = list(self.tensors)
        found: dict[str, list[str | None]] = {name: [None] * self.num_layers for name in kind.get("tensors", names)}
        for layer, slot, index in self._places(kind):
            if isinstance(held, Ranges):
                dtype, shape = held.dtype(layer, slot, index), ""
            else:
                tensor = held(layer, slot, index)
                dtype, shape = tensor.dtype, f" {list(tensor.shape)}"
            if dtype is None:
                continue
            one = str(dtype).removeprefix("torch.") + shape
            layers = found[names[index]]
            if layers[layer] is None:
                layers[layer] = one
            elif layers[layer] != one:
                place = f"set {kind['name']}: {names[index]} of layer {layer}"
                both = f"{one} in slot {slot}, {layers[layer]} before it"
                raise RoutePackError(f"{place}: {both}: expected one type and shape in all slots")
        return found

    def add_derived(self, name: str, drop: Callable[[], None], remake: Callable[[], None]) -> None:
        """Tensors made from others (quantised weights, scales): dropped before a move, remade after it. They are there, made
        from what is there now. A rank may have some that others have not."""
        self._check_new(name)
        self._derived[name] = (drop, remake)
        self.versions[name] = TORN if self.torn else self.sha256

    def follow(self, column_maps: Columns) -> None:
        """Dispatchers that have the map in force from here on, beside those that have it already: a layer has one in every
        model that is laid out by this state (actor, reference). Every step compares all, every move and load sets all."""
        for layer, column_map in by_layer(column_maps, self).items():
            others = [other for other, held in self.column_maps if held is column_map]
            if others and others != [layer]:
                raise RoutePackError(f"the column map of layer {layer} is that of layer {others[0]} already")
            if not others:
                self.column_maps.append((layer, column_map))

    def view(self, layer: int, kind: int, tensor: int, slot: int, start: int, end: int) -> Tensor:
        """Bytes of this rank, to be read or written."""
        held = self._held[kind]
        if isinstance(held, Ranges):
            return held.view(layer, slot, tensor, start, end)
        return as_bytes(held(layer, slot, tensor), f"{self._kinds[kind]['name']}: layer {layer}, slot {slot}")[start:end]

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """An optimizer step: every set and dispatcher must have the map in force, and nothing moves inside."""
        self.between_steps("a step")
        self.check()
        self.in_step = True
        self.generation += 1
        try:
            yield
        finally:
            self.in_step = False

    def between_steps(self, what: str) -> None:
        """Raises MapMismatch inside of a step, or while sets are filled anew."""
        if self.in_step:
            raise MapMismatch(f"{what} inside of a step: a map changes only between steps, and only there is state whole")
        if self.in_loading:
            raise MapMismatch(f"{what} while sets are loaded: they are whole only after it")

    def check(self) -> None:
        """Raises MapMismatch unless every set and dispatcher has the map in force."""
        for name, sha256 in self.versions.items():
            if sha256 != self.sha256:
                raise MapMismatch(f"{name} is laid out by map {sha256[:16]}…, in force is {self.sha256[:16]}…")
        check_columns(self.column_maps, self)

    def check_job(self) -> None:
        """Raises JobError unless torch.distributed is the job this state is of."""
        if (self.rank, self.num_ranks()) != (dist.get_rank(), dist.get_world_size()):
            mine, theirs = (self.rank, self.num_ranks()), (dist.get_rank(), dist.get_world_size())
            raise JobError(f"the state is of rank {mine[0]} of {mine[1]}, torch.distributed has {theirs[0]} of {theirs[1]}")

    def agree(self) -> None:
        """Raises MapMismatch unless all ranks have the same map in force: before saving, and after loading. A rank whose sets
        are wrong, or that gets Ctrl-C, tells the others."""
        with Interrupts() as interrupts:
            together = Together(self.peers, "comparing maps", interrupts, MapMismatch)
            with together.on("comparing maps"):
                self.check_job()
                self.check()
                together.said = self.sha256
            if len(set(together.heard)) > 1:
                raise MapMismatch(f"ranks have different maps: {[sha256[:16] for sha256 in together.heard]}")

    @contextlib.contextmanager
    def loading(self, log2phys: Any) -> Iterator[None]:
        """Every set is filled anew inside, laid out by this map: while a checkpoint is loaded. If that fails, no set is
        fit for a step; if derived tensors cannot be remade, they are not.

        Raises:
            JobError: the map is none of these layers and experts; then nothing has changed.
        """
        self.between_steps("loading")
        slots = self.slots(log2phys)
        self.take(slots)
        try:
            self.in_loading = True
            yield
        finally:
            self.in_loading = False
        self.settle()
        self.remake()

    def slots(self, log2phys: Any) -> Slots:
        """A map of these layers and experts as lists; raises JobError if it is none."""
        return slots_of(log2phys, self.num_experts, self.num_layers)

    def phys2log(self, layer: int) -> list[int]:
        """Logical expert in every slot of a layer."""
        return self._phys2log[layer]

    @property
    def torn(self) -> bool:
        """Whether a move or a load was cut off while it wrote: nothing here is fit for a step, or to be saved, until a
        checkpoint is loaded."""
        return TORN in self.versions.values()

    def tear(self) -> None:
        """Before the first byte is written: whatever ends that, nobody takes half of it for a whole."""
        self.versions = {name: TORN for name in self.versions}
        self.generation += 1

    def take(self, log2phys: Slots) -> None:
        """Another map; sets count as torn until they are settled, whatever ends this in between."""
        self.tear()
        self._take(log2phys)

    def _take(self, log2phys: Slots) -> None:
        self.log2phys, self.sha256 = log2phys, map_hash(log2phys)
        self._phys2log = [inverse(row) for row in log2phys]

    def settle(self) -> None:
        """Sets are what the map in force says, and dispatchers get it; derived sets are still to be made."""
        set_columns(self.column_maps, self)
        self.versions = {name: DROPPED if name in self._derived else self.sha256 for name in self.versions}

    def drop(self) -> None:
        """Drops derived sets."""
        for name, (drop, _) in self._derived.items():
            self.versions[name] = DROPPED
            drop()

    def remake(self) -> None:
        """Makes derived sets from what is there now; one that cannot be made is refused by the next step."""
        if self.torn:
            raise MapMismatch("derived sets cannot be made: a move or load was cut off; load a checkpoint")
        for name in self._derived:
            self.versions[name] = DROPPED
        for name, (_, remake) in self._derived.items():
            remake()
            self.versions[name] = self.sha256
