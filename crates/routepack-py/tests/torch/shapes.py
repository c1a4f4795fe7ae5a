"""Jobs of every shape that four ranks have: filled, moved twice, saved, and loaded by jobs of other shapes."""

import random

import torch

from routepack.torch import ExpertState, FlatShards, Mover, load_logical, save_logical
from shared import SMALL

LAYERS, EXPERTS = 4, 12
TENSORS = {"fc1.weight": 30, "fc1.bias": 7, "fc2.weight": 21}
SHAPES = [
    {"dp": 4, "ep": 1},
    {"dp": 4, "ep": 2},
    {"dp": 4, "ep": 4},
    {"dp": 2, "tp": 2, "ep": 2},
    {"dp": 2, "tp": 2, "ep": 1},
    {"dp": 2, "tp": 2, "ep": 4, "etp": 1},
    {"dp": 1, "tp": 4, "ep": 2, "etp": 1},
    {"dp": 2, "cp": 2, "ep": 4},
    {"dp": 2, "ep": 2, "pp": 2},
    {"dp": 2, "ep": 1, "pp": 2, "vpp": 2, "layer_stage": [0, 1, 0, 1]},
    {"dp": 1, "ep": 1, "pp": 4},
    # Stages that have unlike many layers, and one that has none.
    {"dp": 2, "ep": 2, "pp": 2, "layer_stage": [0, 1, 1, 1]},
    {"dp": 2, "ep": 2, "pp": 2, "layer_stage": [1, 1, 1, 1]},
]
FLATS = [
    {"bucket_alignment": 8, "tensor_alignment": 4},
    {"order": "sequential", "bucket_alignment": 2, "tensor_alignment": 2, "bucket_elements": 100, "bucket_everywhere": True},
    {"order": "stacked", "mtp_layers": 1},
]


class Held:
    """Sets of a job, filled by logical expert."""

    def __init__(self, topology, flat, log2phys):
        self.state = ExpertState(topology, EXPERTS, log2phys, TENSORS, flat=flat)
        sizes = list(TENSORS.values())
        self.weights = {
            (layer, slot, tensor): torch.zeros(sizes[tensor], dtype=torch.bfloat16)
            for layer in self.state.local_layers()
            for slot in self.state.local_slots()
            for tensor in range(len(sizes))
        }
        self.state.add("weight", 2, "by-slot", lambda *place: self.weights[place])
        self.state.add("master", 4, "flat", FlatShards(*map(torch.zeros, self.state.shard_elements())))
        # The frozen part of a model has no moments.
        adapters = ["fc1.bias"]
        self.state.add("moment", 4, "flat", FlatShards(*map(torch.zeros, self.state.shard_elements(adapters))), tensors=adapters)

    def expected(self, kind, layer, expert, tensor):
        """Bytes that no other place has."""
        slice_ = self.state.etp_position()
        generator = torch.Generator().manual_seed(hash((kind, layer, expert, tensor, slice_)) & 0x7FFFFFFF)
        return torch.randint(0, 256, ((2, 4, 4)[kind] * list(TENSORS.values())[tensor],), dtype=torch.uint8, generator=generator)

    def each(self):
        for kind in range(3):
            for layer in self.state.local_layers():
                experts = self.state.phys2log(layer)
                for slot in self.state.local_slots():
                    for tensor, start, part in self.state.pieces(kind, layer, slot):
                        held = part.reshape(-1).view(torch.uint8)
                        yield held, self.expected(kind, layer, experts[slot], tensor)[start : start + held.numel()]

    def fill(self):
        for held, expected in self.each():
            held.copy_(expected)

    def is_right(self):
        return all(torch.equal(held, expected) for held, expected in self.each())


def drawn(chance):
    return [chance.sample(range(EXPERTS), EXPERTS) for _ in range(LAYERS)]


def every_shape_of_four_ranks(folder):
    chance = random.Random(5)
    saved = {}
    for number, topology in enumerate(SHAPES):
        first, second, third = (drawn(chance) for _ in range(3))
        # Layers that stay, and one that turns within its ranks.
        second[0], third[1] = first[0], second[1]
        twice, once = (Held(topology, FLATS[number % 3], first) for _ in range(2))
        for held in [twice, once]:
            held.fill()
            assert held.is_right()
        for target in [second, third]:
            Mover(twice.state, options=SMALL).move(target)
            assert twice.is_right(), topology
        Mover(once.state).move(third)
        assert once.is_right(), topology
        # Twice is once, byte for byte; padding is not looked at.
        assert all(torch.equal(a, b) for (a, _), (b, _) in zip(twice.each(), once.each()))
        name = folder / f"shape{number}"
        save_logical(twice.state, name)
        saved.setdefault(twice.state.etp(), []).append(name)
    for number, topology in enumerate(SHAPES):
        for name in saved[Held(topology, {}, first).state.etp()]:
            held = Held(topology, FLATS[(number + 1) % 3], drawn(chance))
            load_logical(held.state, name, log2phys=chance.choice([None, drawn(chance)]))
            assert held.is_right(), (topology, name)


CASES = [every_shape_of_four_ranks]
