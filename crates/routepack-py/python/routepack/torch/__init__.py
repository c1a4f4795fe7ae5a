"""Expert state that moves between optimizer steps: a reference for trainers built on Megatron's expert grid.

    state = ExpertState(topology, num_experts, log2phys, tensors={"fc1": n1, "fc2": n2})
    state.add("weight", 2, "by-slot", weight_bytes)       # every set of tensors that is laid out by the map
    state.add("master", 4, "flat", FlatShards(...))
    state.add_derived("fp8 cache", drop, remake)
    router output -> column_map(probs, routing_map) -> dispatcher
    with state.step(): forward, backward, optimizer
    Mover(state, column_maps).move(plan.log2phys)         # between steps: all ranks, or none

The router, its bias and per-expert statistics stay logical. Checkpoints hold logical experts: ``save_logical``, ``load_logical``.
Needs torch; the rest of the package does not.
"""

from .._missing import needed

needed("torch", by="routepack.torch")

from .at_rest import load_logical, save_logical
from .columns import ColumnMap
from .maps import MapMismatch
from .mover import MoveFailed, Mover
from .names import logical_named_tensors, logical_slots
from .peers import PeersLost, VotesDiffer
from .refusals import Unsupported, refuse_unsupported
from .shards import FlatShards, ParameterShards
from .state import ExpertState

__all__ = [
    "ColumnMap",
    "ExpertState",
    "FlatShards",
    "MapMismatch",
    "MoveFailed",
    "Mover",
    "ParameterShards",
    "PeersLost",
    "Unsupported",
    "VotesDiffer",
    "load_logical",
    "logical_named_tensors",
    "logical_slots",
    "refuse_unsupported",
    "save_logical",
]
