"""Names of expert tensors after moves: for weight synchronisation and checkpoints."""

from __future__ import annotations

from typing import Iterator, Sequence

from torch import Tensor

from .state import Bytes, ExpertState


def logical_slots(state: ExpertState, layer: int) -> list[tuple[int, int]]:
    """(slot, logical expert) of every expert on this rank."""
    experts = state.phys2log(layer)
    return [(slot, experts[slot]) for slot in state.local_slots()]


def logical_named_tensors(
    state: ExpertState, where: Bytes, template: str, layers: Sequence[int] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of every expert tensor on this rank, by logical expert, whatever slots they are in.

    ``template`` has ``{layer}``, ``{expert}`` and ``{tensor}``; ``layers``: the model's number of every recorded layer.
    """
    state.check()
    for layer in state.local_layers():
        for slot, expert in logical_slots(state, layer):
            for index, tensor in enumerate(state.tensors):
                number = layer if layers is None else layers[layer]
                yield template.format(layer=number, expert=expert, tensor=tensor), where(layer, slot, index)
