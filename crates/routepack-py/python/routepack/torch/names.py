"""Names of expert tensors after moves: for weight synchronisation and checkpoints."""

from __future__ import annotations

import string
from typing import Iterator, Sequence

from torch import Tensor

from .._native import JobError
from .maps import MapMismatch
from .state import Bytes, ExpertState


def logical_slots(state: ExpertState, layer: int) -> list[tuple[int, int]]:
    """(slot, logical expert) of every expert of a layer on this rank."""
    state.check()
    if layer not in state.local_layers():
        raise JobError(f"layer = {layer}: this rank has layers {state.local_layers()}")
    experts = state.phys2log(layer)
    return [(slot, experts[slot]) for slot in state.local_slots()]


def logical_named_tensors(
    state: ExpertState, where: Bytes, template: str, layers: Sequence[int] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of every expert tensor on this rank, by logical expert, whatever slots they are in.

    ``template`` has ``{layer}``, ``{expert}`` and ``{tensor}``; ``layers``: the model's number of every recorded layer.

    Raises:
        MapMismatch: at once if a set is laid out by another map, a step is going on, or dispatchers have another map; later
            if experts moved, or a step or load began, before the last name was taken.
        JobError: names that would not tell tensors apart.
    """
    state.between_steps("names of tensors")
    state.check()
    try:
        holes = {hole for _, hole, _, _ in string.Formatter().parse(template) if hole is not None}
    except (TypeError, ValueError) as error:
        raise JobError(f"template {template!r}: {error}") from None
    if holes != {"layer", "expert", "tensor"}:
        raise JobError(f"template {template!r}: expected {{layer}}, {{expert}} and {{tensor}}, found {sorted(holes)}")
    numbers = list(range(state.num_layers) if layers is None else layers)
    if len(numbers) != state.num_layers or len(set(numbers)) != len(numbers):
        raise JobError(f"layers: expected {state.num_layers} different numbers, found {numbers}")
    return _named(state, where, template, numbers)


def _named(state: ExpertState, where: Bytes, template: str, numbers: list[int]) -> Iterator[tuple[str, Tensor]]:
    generation = state.generation
    for layer in state.local_layers():
        experts = state.phys2log(layer)
        for slot in state.local_slots():
            for index, tensor in enumerate(state.tensors):
                if state.generation != generation or state.torn:
                    raise MapMismatch("experts moved, or were loaded or trained, while their names were taken: begin again")
                yield template.format(layer=numbers[layer], expert=experts[slot], tensor=tensor), where(layer, slot, index)
