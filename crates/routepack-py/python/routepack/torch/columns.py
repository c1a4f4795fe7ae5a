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
        experts = self.phys2log.shape[0]
        for what, given in [("probs", probs), ("routing_map", routing_map)]:
            if given.ndim == 0 or given.shape[-1] != experts:
                raise RoutePackError(f"{what}: shape {list(given.shape)}, expected {experts} experts along the last axis")
        return probs.index_select(-1, self.phys2log), routing_map.index_select(-1, self.phys2log)

    def slots(self, expert_ids: Tensor) -> Tensor:
        """Slots of logical expert ids as int64, for dispatchers that take ids; ids below 0 (dropped, padded) stay as they are."""
        if expert_ids.dtype == torch.bool or expert_ids.is_floating_point() or expert_ids.is_complex():
            raise RoutePackError(f"ids of experts: expected integers, found {expert_ids.dtype}")
        # Narrow types would be masks, or no index at all.
        ids = expert_ids.long()
        try:
            found = torch.argsort(self.phys2log)[ids.clamp(min=0)]
        except IndexError:
            raise RoutePackError(f"ids of experts: {int(ids.max())}, there are experts 0 to {self.phys2log.shape[0] - 1}") from None
        return torch.where(ids < 0, ids, found)


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
        check_fit([(layer, column_map)], state)
        other = layer_of.setdefault(column_map.phys2log.data_ptr(), layer)
        if other != layer:
            raise RoutePackError(f"layers {other} and {layer} have the same column map")
    if missing := [layer for layer in state.local_layers() if layer not in found]:
        raise RoutePackError(f"no column maps of layers {missing}, which are on this rank")
    return found


def check_fit(column_maps: Iterable[tuple[int, ColumnMap]], state: ExpertState) -> None:
    """Raises RoutePackError for a buffer that cannot hold a map of these experts, be it since it was given."""
    for layer, column_map in column_maps:
        held = column_map.phys2log
        if held.is_meta:
            raise RoutePackError(f"the column map of layer {layer} is on no device yet (meta)")
        if list(held.shape) != [state.num_experts] or held.dtype != torch.int64:
            raise RoutePackError(f"the column map of layer {layer} has {held.dtype} {list(held.shape)}, expected {state.num_experts} experts")


def check_columns(column_maps: Iterable[tuple[int, ColumnMap]], state: ExpertState) -> None:
    """Raises MapMismatch unless the dispatchers have the map in force."""
    layers = list(column_maps)
    if not layers:
        return
    check_fit(layers, state)
    # One copy from the device for all layers.
    held = [column_map.phys2log for _, column_map in layers]
    found = torch.stack([one.to(held[0].device) for one in held]).tolist()
    for (layer, _), experts in zip(layers, found):
        if experts != state.phys2log(layer):
            raise MapMismatch(f"the column map of layer {layer} is not the map in force")


def set_columns(column_maps: Iterable[tuple[int, ColumnMap]], state: ExpertState) -> None:
    """Gives the dispatchers the map in force."""
    for layer, column_map in column_maps:
        # Detached, also one that was made in inference mode can be written.
        column_map.phys2log.detach().copy_(torch.tensor(state.phys2log(layer)))
