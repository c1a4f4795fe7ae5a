"""The dispatcher's map: logical columns of the router's output become columns of slots."""

from __future__ import annotations

from typing import Mapping, Sequence

import torch
from torch import Tensor, nn

from .state import ExpertState, MapMismatch


class ColumnMap(nn.Module):
    """Sits between router and dispatcher of one layer; everything before it is logical, everything after it slots.

    The map is a persistent buffer, so it is saved with the model and compared when it is loaded.
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


def by_layer(column_maps: Sequence[ColumnMap] | Mapping[int, ColumnMap]) -> dict[int, ColumnMap]:
    """Column maps of all layers, or by layer where a pipeline stage has some."""
    return dict(column_maps if isinstance(column_maps, Mapping) else enumerate(column_maps))


def check_columns(column_maps: Mapping[int, ColumnMap], state: ExpertState) -> None:
    """Raises MapMismatch unless the dispatchers have the map in force."""
    for layer, column_map in column_maps.items():
        if column_map.phys2log.tolist() != state.phys2log(layer):
            raise MapMismatch(f"the column map of layer {layer} is not the map in force")


def set_columns(column_maps: Mapping[int, ColumnMap], state: ExpertState) -> None:
    """Gives the dispatchers the map in force."""
    for layer, column_map in column_maps.items():
        column_map.phys2log.copy_(torch.tensor(state.phys2log(layer)))
