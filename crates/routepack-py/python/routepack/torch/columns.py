"""The dispatcher's map: logical columns of the router's output become columns of slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping

import torch
from torch import Tensor, nn

from .._native import RoutePackError
from .maps import MapMismatch

if TYPE_CHECKING:
    from .state import ExpertState


class ColumnMap(nn.Module):
    """Sits between router and dispatcher of one layer; everything before it is logical, everything after it slots.

    The map is a persistent buffer, so it is saved with the model; every step compares it with the map in force.
    """

    phys2log: Tensor

    def __init__(self, num_experts: int) -> None:
        super().__init__()
        self.register_buffer("phys2log", torch.arange(num_experts), persistent=True)

    def forward(self, probs: Tensor, routing_map: Tensor) -> tuple[Tensor, Tensor]:
        """Columns ``[..., experts]`` by slot: column s is that of the expert in slot s."""
        return probs.index_select(-1, self.phys2log), routing_map.index_select(-1, self.phys2log)

    def slots(self, expert_ids: Tensor) -> Tensor:
        """Slots of logical expert ids, for dispatchers that take ids."""
        return torch.argsort(self.phys2log)[expert_ids]


Columns = Iterable[ColumnMap] | Mapping[int, ColumnMap]
"""Of all layers in order (a list, an nn.ModuleList), or by layer."""


def by_layer(column_maps: Any, state: ExpertState) -> dict[int, ColumnMap]:
    """Column maps of all layers, or by layer where a pipeline stage has some; none where dispatchers have other maps.

    Raises:
        RoutePackError: a layer of this rank has none, the state has no such layer, or two layers share one.
    """
    if isinstance(column_maps, Mapping):
        found = dict(column_maps)
    else:
        try:
            listed = list(column_maps)
        except TypeError:
            raise RoutePackError(f"column maps: expected one a layer, found {type(column_maps).__name__}") from None
        if listed and len(listed) != state.num_layers:
            # Of the layers of one stage: nobody knows which.
            raise RoutePackError(f"column maps of {len(listed)} layers, the state has {state.num_layers}: give them by layer")
        found = dict(enumerate(listed))
    if not found:
        return {}
    layer_of: dict[int, int] = {}
    for layer, column_map in found.items():
        if layer not in range(state.num_layers):
            raise RoutePackError(f"a column map of layer {layer}, the state has {state.num_layers} layers")
        if not isinstance(column_map, ColumnMap):
            raise RoutePackError(f"the column map of layer {layer} is a {type(column_map).__name__}")
        shape = list(column_map.phys2log.shape)
        if shape != [state.num_experts] or column_map.phys2log.dtype != torch.int64:
            raise RoutePackError(f"the column map of layer {layer} has {column_map.phys2log.dtype} {shape}, expected {state.num_experts} experts")
        other = layer_of.setdefault(column_map.phys2log.data_ptr(), layer)
        if other != layer:
            raise RoutePackError(f"layers {other} and {layer} have the same column map")
    if missing := [layer for layer in state.local_layers() if layer not in found]:
        raise RoutePackError(f"no column maps of layers {missing}, which are on this rank")
    return found


def check_columns(column_maps: Mapping[int, ColumnMap], state: ExpertState) -> None:
    """Raises MapMismatch unless the dispatchers have the map in force."""
    if not column_maps:
        return
    # One copy from the device for all layers.
    held = [column_map.phys2log for column_map in column_maps.values()]
    found = torch.stack([one.to(held[0].device) for one in held]).tolist()
    for layer, experts in zip(column_maps, found):
        if experts != state.phys2log(layer):
            raise MapMismatch(f"the column map of layer {layer} is not the map in force")


def set_columns(column_maps: Mapping[int, ColumnMap], state: ExpertState) -> None:
    """Gives the dispatchers the map in force."""
    for layer, column_map in column_maps.items():
        column_map.phys2log.copy_(torch.tensor(state.phys2log(layer)))
