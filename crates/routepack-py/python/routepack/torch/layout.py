"""Where this rank is in the expert grid, and what one expert is made of."""

from __future__ import annotations

import json
import operator
from typing import Any, Mapping, Sequence

import torch.distributed as dist

from .._arrays import number
from .._native import JobError, flat_runs, held_bytes, rank_place
from .shards import Run


def plain(what: str, value: Any) -> Any:
    """Plain data with NumPy's integers as Python's."""
    try:
        return json.loads(json.dumps(value, default=operator.index, allow_nan=False))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise JobError(f"{what}: expected plain data: {error}") from None


class Layout:
    """Sizes of the job and of an expert, checked; slots and layers of this rank."""

    def __init__(
        self,
        topology: Mapping[str, Any],
        num_experts: int,
        num_layers: int,
        tensors: Mapping[str, int],
        rank: int | None = None,
        flat: Mapping[str, Any] | None = None,
    ) -> None:
        for what, value in [("topology", topology), ("tensors", tensors), ("flat", flat or {})]:
            if not isinstance(value, Mapping):
                raise JobError(f"{what}: expected names and values, found {type(value).__name__}")
        self.topology: dict[str, Any] = plain("topology", dict(topology))
        self.num_experts, self.num_layers = num_experts, num_layers
        self.tensors: dict[str, int] = plain("tensors", dict(tensors))
        self.flat: dict[str, Any] = plain("flat", dict(flat or {}))
        if rank is None and not dist.is_initialized():
            raise JobError("rank: torch.distributed has not begun")
        self.rank = number("rank", dist.get_rank() if rank is None else rank, 0, 0xFFFFFFFF, JobError)
        # Refuses sizes that give no grid, experts that EP does not divide, a rank that the topology has not.
        self.flat_runs({"name": "all", "element_bytes": 1, "held": "by-slot"})
        place = rank_place(self.topology_json(), num_layers, self.rank)
        self._num_ranks, self._etp, ep, self._slice, self._copy, self._layers = place
        slots = num_experts // int(self.topology["ep"])
        self._slots = range(ep * slots, (ep + 1) * slots)
        if rank is None and dist.get_world_size() != self._num_ranks:
            raise JobError(f"the topology has {self._num_ranks} ranks, torch.distributed {dist.get_world_size()}")

    def local_layers(self) -> list[int]:
        """Layers whose experts are on this rank's pipeline stage."""
        return self._layers

    def local_slots(self) -> range:
        """Slots of every layer that are on this rank."""
        return self._slots

    def etp(self) -> int:
        """Ranks that an expert is cut over."""
        return self._etp

    def etp_position(self) -> int:
        """Which slice of its experts this rank has."""
        return self._slice

    def edp_position(self) -> int:
        """Which of the copies of its experts this rank has."""
        return self._copy

    def num_ranks(self) -> int:
        """Ranks of the job."""
        return self._num_ranks

    def shard_elements(self, tensors: Sequence[str] | None = None) -> list[int]:
        """Elements of this rank's flat shards of every chunk, for a set of these tensors (all by default)."""
        kind = {"name": "flat", "element_bytes": 1, "held": "flat", **({} if tensors is None else {"tensors": list(tensors)})}
        return self.held_bytes(kind)

    def flat_runs(self, kind: Mapping[str, Any]) -> list[Run]:
        """What this rank holds of a flat set; refuses a set that the layout cannot have."""
        return flat_runs(self.topology_json(), self.state_json([kind]), self.num_layers, 0, self.rank)

    def held_bytes(self, kind: Mapping[str, Any]) -> list[int]:
        """Bytes of this rank's memory of a set, by chunk."""
        return held_bytes(self.topology_json(), self.state_json([kind]), self.num_layers, 0, self.rank)

    def topology_json(self) -> str:
        # Sorted: ranks compare it.
        return json.dumps(self.topology, sort_keys=True)

    def state_json(self, kinds: Sequence[Mapping[str, Any]]) -> str:
        tensors = [{"name": name, "elements": elements} for name, elements in self.tensors.items()]
        state = {"num_experts": self.num_experts, "tensors": tensors, "kinds": kinds}
        return json.dumps(plain("a set", {**state, "flat": self.flat} if self.flat else state), sort_keys=True)
