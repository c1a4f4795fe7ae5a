"""The dispatcher's map: logical columns of the router's output become columns of slots."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
