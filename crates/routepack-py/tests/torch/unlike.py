"""What must be alike: topology, layout, types and shapes between ranks, slots and what was saved. Unlike, all refuse."""

import torch
import torch.distributed as dist

import routepack
from moe import DP, EXPERTS, IDENTITY, LAYERS, draw
from routepack.torch import ColumnMap, ExpertState, FlatShards, MapMismatch, Mover, load_logical, save_logical
from shared import everybody_says, fails

BF16, F16 = torch.bfloat16, torch.float16
TENSORS = {"fc1": 24, "fc2": 40}


class Held:
    """Weights by slot of a type and shape of their own by (layer, slot, tensor), and flat masters."""

    def __init__(self, topology={"dp": DP, "ep": 2}, tensors=TENSORS, flat=None, dtype=lambda *place: BF16, shape=lambda *place: None, master=torch.float):
        self.state = ExpertState(topology, EXPERTS, IDENTITY, tensors, flat=flat)
        sizes = list(tensors.values())
        places = [(l, s, t) for l in self.state.local_layers() for s in self.state.local_slots() for t in range(2)]
        self.ema = {}
        self.held = {place: torch.ones(shape(*place) or (sizes[place[2]],), dtype=dtype(*place)) for place in places}
        self.state.add("weight", 2, "by-slot", lambda *place: self.held[place])
        self.state.add("master", 4, "flat", FlatShards(*(torch.ones(size, dtype=master) for size in self.state.shard_elements())))

    def all_refuse(self, words, folder, name, saved=None):
        """Move, save and load, all with the same words, on all ranks; nothing is made."""
        works = [lambda: Mover(self.state).move(draw(1)), lambda: save_logical(self.state, folder / name)]
        if saved is not None:
            works.append(lambda: load_logical(self.state, folder / saved))
        for work in works:
            heard = everybody_says(work)
            assert all(one.startswith("MapMismatch: ") and words in one for one in heard), heard
        assert not list(folder.glob(f"{name}*"))
        self.state.check()
        assert self.state.log2phys == IDENTITY
        dist.barrier()


def ranks_of_other_jobs_neither_move_nor_save_nor_load(folder):
    """Saved they were well, and could not be loaded."""
    folder = folder / "unlike"
    save_logical(Held().state, folder / "alike")
    mine = lambda ranks, here, there: here if dist.get_rank() in ranks else there
    usual = {"dp": DP, "ep": 2}
    for name, words, held in [
        ("ep", "ranks 0 and 2 have different topology: ", Held(mine([2], {"dp": DP, "ep": 4}, usual))),
        ("pp", "ranks 0 and 2 have different topology: ", Held(mine([2, 3], {"dp": 2, "ep": 2, "pp": 2}, usual))),
        ("sizes", "ranks 0 and 2 have different layout of state, tensors 0, elements: 24 and 40", Held(tensors=mine([2], {"fc1": 40, "fc2": 24}, TENSORS))),
        ("order", "ranks 0 and 2 have different layout of state, tensors 0, elements: 24 and 40", Held(tensors=mine([2], {"fc2": 40, "fc1": 24}, TENSORS))),
        ("flat", "ranks 0 and 1 have different layout of state, flat, tensor_alignment: 4 and 64", Held(flat=mine([1], {"tensor_alignment": 64}, {"tensor_alignment": 4}))),
    ]:
        # Loading compares sizes with the folder before ranks compare theirs.
        held.all_refuse(words, folder, name, None if name == "sizes" else "alike")
    more = Held()
    if dist.get_rank() == 3:
        more.state.add("ema", 2, "by-slot", lambda *place: more.ema.setdefault(place, torch.ones(TENSORS["fc2"]).half()), tensors=["fc2"])
    words = "ranks 0 and 3 have different layout of state, kinds 2: null and "
    more.all_refuse(words, folder, "sets")
    # The same in another order.
    options = [("tensor_alignment", 4), ("bucket_alignment", 8)]
    same = Held(dict(mine([1], [*usual.items()][::-1], usual)), flat=dict(mine([1], options[::-1], options)))
    Mover(same.state).move(draw(1))
    sizes = Held(tensors=mine([2], {"fc1": 40, "fc2": 24}, TENSORS)).state
    assert all("tensors of an expert" in one for one in everybody_says(lambda: load_logical(sizes, folder / "alike")))


def a_save_that_lacks_bytes_is_none(folder):
    folder = folder / "unlike"
    for name, rank in [("of all", None), ("of one", 1)]:
        held = Held()
        if rank is None:
            held.state.edp_position = lambda: 1
        elif dist.get_rank() == rank:
            pieces, held.state.pieces = held.state.pieces, lambda kind, layer, slot: [] if kind else pieces(kind, layer, slot)
        heard = everybody_says(lambda: save_logical(held.state, folder / name))
        assert all("were not saved by any rank" in one for one in heard), heard
        assert not list(folder.glob(f"{name}*"))
        dist.barrier()


def types_and_shapes_are_one_in_all_slots_of_a_layer(folder):
    folder = folder / "unlike"
    for words, wrong in [
        ("set weight: fc1 of layer 0: float16 [24] in slot {}, bfloat16 [24] before it", {"dtype": lambda l, s, t: [BF16, F16][s % 2]}),
        ("set weight: fc1 of layer 0: bfloat16 [6, 4] in slot {}, bfloat16 [4, 6] before it", {"shape": lambda l, s, t: [(4, 6), (6, 4)][s % 2] if t == 0 else None}),
    ]:
        fails(routepack.RoutePackError, words.format(4 * (dist.get_rank() % 2) + 1), lambda: Held(**wrong))
        dist.barrier()
    # After it was added.
    held = Held()
    place = (1, held.state.local_slots()[2], 1)
    if dist.get_rank() == 3:
        held.held[place] = held.held[place].half()
    for work in [lambda: Mover(held.state).move(draw(1)), lambda: save_logical(held.state, folder / "later")]:
        heard = everybody_says(work)
        assert all("set weight: fc2 of layer 1: float16 [40] in slot 6, bfloat16 [40] before it" in one for one in heard), heard
    held.state.check()
    # Or is not there any more.
    if dist.get_rank() == 3:
        del held.held[place]
    for work in [lambda: Mover(held.state).move(draw(1)), lambda: save_logical(held.state, folder / "later")]:
        heard = everybody_says(work)
        assert "weight: layer 1, slot 6, fc2: cannot be had: KeyError" in heard[3], heard
        assert heard[3].startswith(("MoveFailed: a move was given up", "RoutePackError")), heard
        assert all("was given up: rank 3: weight: layer 1, slot 6, fc2: cannot be had" in one for one in heard[:3]), heard
    held.state.check()


def types_and_shapes_are_one_on_all_ranks(folder):
    folder = folder / "unlike"
    save_logical(Held().state, folder / "one")
    first = lambda place: place[1] < 4
    for name, words, held in [
        ("of type", "have different elements of set weight: fc2 of layer 1: bfloat16 [40] and float16 [40]", Held(dtype=lambda *p: F16 if p[0] and p[2] and not first(p) else BF16)),
        ("of shape", "have different elements of set weight: fc1 of layer 0: bfloat16 [4, 6] and bfloat16 [6, 4]", Held(shape=lambda *p: None if p[2] else (4, 6) if first(p) else (6, 4))),
        ("of flat", "have different elements of set master: fc1 of layer 0: float32 and int32", Held(master=torch.int32 if dist.get_rank() % 2 else torch.float)),
    ]:
        held.all_refuse(words, folder, name, "one")


def types_and_shapes_are_those_that_were_saved(folder):
    folder = folder / "unlike"
    by = lambda *dtypes: lambda layer, slot, tensor: dtypes[tensor]
    by_layer = lambda *dtypes: lambda layer, slot, tensor: dtypes[layer]
    shape = lambda *sides: {"shape": lambda layer, slot, tensor: sides if tensor == 0 else None}
    assert LAYERS == 2
    for name, words, saved, mine in [
        ("tensors", "fc1 of layer 0: 'bfloat16 [24]' was saved, the trainer has 'float16 [24]'", {"dtype": by(BF16, F16)}, {"dtype": by(F16, BF16)}),
        ("layers", "fc1 of layer 0: 'bfloat16 [24]' was saved, the trainer has 'float16 [24]'", {"dtype": by_layer(BF16, F16)}, {"dtype": by_layer(F16, BF16)}),
        ("shapes", "fc1 of layer 0: 'bfloat16 [4, 6]' was saved, the trainer has 'bfloat16 [6, 4]'", shape(4, 6), shape(6, 4)),
    ]:
        save_logical(Held(**saved).state, folder / name)
        held = Held(**mine)
        fails(routepack.FileError, f"set weight: {words}", lambda: load_logical(held.state, folder / name))
        held.state.check()
        held = Held(**saved)
        load_logical(held.state, folder / name)
        held.state.check()


def all_ranks_have_column_maps_or_none_has(folder):
    folder = folder / "unlike"
    save_logical(Held().state, folder / "columns")
    held = Held()
    columns = [ColumnMap(EXPERTS) for _ in range(LAYERS)]
    mine = columns if dist.get_rank() != 3 else ()
    for work in [lambda: load_logical(held.state, folder / "columns", mine, log2phys=draw(1)), lambda: save_logical(held.state, folder / "other", mine)]:
        heard = everybody_says(work)
        assert all(one == "MapMismatch: ranks 0 and 3 have different numbers of column maps a layer: 1 and 0" for one in heard), heard
    held.state.check()
    assert held.state.log2phys == IDENTITY and all(one.phys2log.tolist() == list(range(EXPERTS)) for one in columns)
    # Those of a second model that one rank forgot stayed on the old map, and it routed by them.
    held.state.follow(columns)
    if dist.get_rank() != 3:
        held.state.follow([ColumnMap(EXPERTS) for _ in range(LAYERS)])
    held.all_refuse("ranks 0 and 3 have different numbers of column maps a layer: 2 and 1", folder, "second", "columns")
    # A stage without layers has no dispatchers to give.
    topology = {"dp": 2, "ep": 2, "pp": 2, "layer_stage": [1, 1]}
    held = Held(topology)
    mine = columns if held.state.local_layers() else ()
    save_logical(held.state, folder / "stage", mine)
    load_logical(held.state, folder / "stage", mine, log2phys=draw(1))
    Mover(held.state).move(draw(2))
    held.state.check()


CASES = [
    ranks_of_other_jobs_neither_move_nor_save_nor_load,
    a_save_that_lacks_bytes_is_none,
    types_and_shapes_are_one_in_all_slots_of_a_layer,
    types_and_shapes_are_one_on_all_ranks,
    types_and_shapes_are_those_that_were_saved,
    all_ranks_have_column_maps_or_none_has,
]
