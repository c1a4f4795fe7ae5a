"""What the cases share."""

import json

import torch
import torch.distributed as dist

from moe import DP, EXPERTS, FFN, IDENTITY
from routepack.torch import ExpertState, FlatShards
from routepack.torch.live_map import MAP_FILE, digest

SMALL = {"block_bytes": 128, "staging_bytes": 900}
TEMPLATE = "model.layers.{layer}.mlp.experts.{expert}.{tensor}"


def fails(error, words, work):
    try:
        work()
    except error as found:
        assert words in str(found), found
    else:
        raise AssertionError(f"no {error.__name__}")


def steps(trainer, count):
    for _ in range(count):
        trainer.train_step()


def first_writes(work):
    """The first rank changes files, all wait for it."""
    if dist.get_rank() == 0:
        work()
    dist.barrier()


def one_set(dtype, flat=False, topology={"dp": DP, "ep": 2}, dtype_of_layer=lambda layer: None):
    """A state of one set, filled, and its tensors."""
    state = ExpertState(topology, EXPERTS, IDENTITY, {"up": FFN})
    size = torch.zeros(1, dtype=dtype).element_size()
    if flat:
        (size_of_shard,) = state.shard_elements()
        shard = torch.ones(size_of_shard, dtype=dtype)
        state.add("ema", size, "flat", FlatShards(shard))
        return state, [shard]
    held = {
        (layer, slot): torch.full((FFN,), 1.5, dtype=dtype_of_layer(layer) or dtype)
        for layer in state.local_layers()
        for slot in state.local_slots()
    }
    state.add("ema", size, "by-slot", lambda layer, slot, tensor: held[layer, slot])
    return state, list(held.values())


def everybody_says(work):
    """What work raises on every rank, as text; "nothing" where it does not."""
    said = "nothing"
    try:
        work()
    except (Exception, KeyboardInterrupt) as found:
        said = f"{type(found).__name__}: {found}"
    heard = [None] * DP
    dist.all_gather_object(heard, said)
    return heard


def edit(folder, change, sealed=True):
    """Changes a map file; sealed: under a digest of its own, as if it had been saved so."""
    path = folder / MAP_FILE
    held = json.loads(path.read_text())
    change(held)
    if sealed:
        held["digest"] = digest(held)
    path.write_text(json.dumps(held))
