"""Sets of tensors: what is registered, what moves with its expert, what is refused."""

import torch
import torch.distributed as dist

import routepack
from moe import DP, EXPERTS, FFN, HIDDEN, IDENTITY, LAYERS, TENSORS, Trainer, draw
from routepack.torch import (
    ExpertState,
    FlatShards,
    MapMismatch,
    MoveFailed,
    Mover,
    ParameterShards,
    logical_named_tensors,
    logical_slots,
)
from shared import SMALL, everybody_says, fails, steps


def wrong_state_is_refused_before_it_is_registered(folder):
    trainer = Trainer(2, IDENTITY)
    state = trainer.state

    def one(elements, dtype=torch.bfloat16, turned=False):
        """Tensors that stay where they are, one a place."""
        held = {}

        def where(*place):
            if place not in held:
                held[place] = torch.zeros(elements, dtype=dtype)
            return held[place].t() if turned else held[place]

        return where

    adds = lambda words, *arguments, **named: fails(routepack.RoutePackError, words, lambda: state.add("old", *arguments, **named))
    adds("not contiguous: its bytes cannot be moved", 2, "by-slot", one((HIDDEN, FFN), turned=True))
    adds("up has 116 bytes, expected 120", 4, "by-slot", one(29, torch.float))
    # Bytes as many as there should be, elements of another size.
    adds("up has elements of 4 bytes (torch.float32), expected 2", 2, "by-slot", one(15, torch.float))
    adds("in other memory each time it is asked for, a copy: what is written there is lost", 2, "by-slot", lambda *place: torch.zeros(30).bfloat16())
    adds("are in the same memory, which can be in one place only", 2, "by-slot", lambda l, s, t, held=one(30): held(l, 4 * (s // 4), t))
    adds("are in the same memory", 2, "by-slot", trainer.weight)
    adds("up is a meta tensor: its bytes are elsewhere", 2, "by-slot", lambda *place: torch.zeros(30, dtype=torch.bfloat16, device="meta"))
    sharded = type("DTensor", (torch.Tensor,), {"__torch_dispatch__": classmethod(lambda *arguments: None)})
    adds("up is a DTensor: its bytes are elsewhere", 2, "by-slot", lambda *place, held=one(30): held(*place).as_subclass(sharded))
    offloaded = one(30)
    offloaded(0, state.local_slots()[0], 0).storage().resize_(0)
    adds("has no memory: it was given back, as offloading does", 2, "by-slot", offloaded)
    adds("cannot be had: KeyError: 0", 2, "by-slot", lambda layer, slot, tensor: {}[layer])
    adds("expected a tensor, found list", 2, "by-slot", lambda *place: [])
    adds("expected 'flat' with FlatShards or 'by-slot' with a function", 2, "by-slot", torch.zeros(30))
    adds("expected 'flat' with FlatShards", 2, "flat", one(30))
    for size in [2.0, 0, -2, "2", None, 1 << 40]:
        adds("", size, "by-slot", one(30))
    (elements,) = state.shard_elements()
    adds("has elements of 2 bytes (torch.bfloat16), expected 4", 4, "flat", FlatShards(torch.zeros(elements * 2, dtype=torch.bfloat16)))
    for wrong in [elements - 1, elements + 1]:
        adds(f"a flat shard of chunk 0 has {4 * wrong} bytes, expected {4 * elements}", 4, "flat", FlatShards(torch.zeros(wrong)))
    adds("flat shards of 2 chunks, the rank has chunk 0 and no more", 4, "flat", FlatShards(torch.zeros(elements), torch.zeros(elements)))
    # Refused once, taken when it is right.
    buffer = FlatShards(torch.zeros(elements))
    fails(routepack.RoutePackError, "is there already", lambda: state.add("weight", 4, "flat", buffer))
    with_runs = trainer.shards["master"]
    adds("are in the same memory", 4, "flat", FlatShards(with_runs.shards[0]))
    adds("expected (first element, piece) or None, found Tensor", 4, "flat", ParameterShards(lambda *place, piece=torch.zeros(30): piece))
    # A piece where the layout has none on this rank.
    held = {}

    def everywhere(layer, slot, tensor):
        runs = with_runs.runs(layer, slot, tensor)
        first, size = (runs[0][0] // 4, runs[0][1].numel() // 4) if runs else (0, 1)
        return first, held.setdefault((layer, slot, tensor), torch.zeros(size))

    empty = any(not with_runs.runs(*place) for place in state._places({}))
    if empty:
        adds("the layout has bytes none on this rank, the trainer [(0, 4)]", 4, "flat", ParameterShards(everywhere))
    else:
        state.add("old", 4, "flat", ParameterShards(everywhere))
    assert empty or "old" in state.versions
    state = Trainer(2, IDENTITY).state
    few = FlatShards(torch.zeros(5))
    fails(routepack.RoutePackError, "ema: a flat shard of chunk 0 has 20 bytes", lambda: state.add("ema", 4, "flat", few))
    fails(routepack.JobError, "no such tensor", lambda: state.add("ema", 4, "by-slot", one(1), tensors=["lora"]))
    fails(routepack.JobError, "no such tensor", lambda: state.add("ema", 4, "by-slot", one(1), tensors="up"))
    shift = torch.zeros(3)
    shifted = ParameterShards(lambda layer, slot, tensor: (1, shift))
    fails(routepack.RoutePackError, "set flat to the trainer's order", lambda: state.add("ema", 4, "flat", shifted))
    fails(routepack.JobError, "rank = 4: the topology has 4 ranks", lambda: ExpertState({"dp": 4, "ep": 2}, EXPERTS, IDENTITY, TENSORS, rank=4))
    assert "old" not in state.versions and "ema" not in state.versions


def caches_are_fit_once_they_are_remade(folder):
    """Quantised copies: of the old experts until they are made anew, on every way."""
    trainer = Trainer(2, IDENTITY)
    made = []

    def drop():
        made.clear()

    def remake():
        made[:] = [trainer.weight(layer, slot, 0).clone() for layer, slot, _ in trainer.slots()]

    fresh = lambda: made and all(torch.equal(a, trainer.weight(l, s, 0)) for a, (l, s, _) in zip(made, trainer.slots()))
    remake()
    trainer.state.add_derived("fp8 cache", drop, remake)
    Mover(trainer.state, trainer.columns, SMALL).move(draw(1))
    assert fresh()
    # Fails before and after something is written: moved back, and made of what is there again.
    for number in [0, 1]:

        def fail(event, at, number=number):
            assert (event, at) != ("vote", number) or dist.get_rank() != 1

        fails(MoveFailed, "nothing has changed", lambda: Mover(trainer.state, trainer.columns, SMALL, on_event=fail).move(draw(2)))
        assert fresh() and trainer.state.log2phys == draw(1)
        steps(trainer, 1)
        remake()
    # One that cannot be made on one rank is heard by all; once it can, all go on.
    failing = [dist.get_rank() == 1]
    trainer.state.add_derived("scales of activations", lambda: None, lambda: failing[0] and 1 / 0)
    heard = everybody_says(lambda: Mover(trainer.state, trainer.columns).move(draw(2)))
    assert heard[1].startswith("ZeroDivisionError"), heard
    assert all(heard[rank].startswith("MapMismatch: the move is done, but remaking derived sets was given up: rank 1") for rank in [0, 2, 3]), heard
    assert trainer.state.versions["weight"] == trainer.state.sha256 and trainer.state.log2phys == draw(2)
    if failing[0]:
        fails(MapMismatch, "scales of activations is laid out by map dropped", trainer.state.check)
    failing[0] = False
    trainer.state.remake()
    trainer.state.agree()
    # Made anew by hand, half.
    failing[0] = True
    fails(ZeroDivisionError, "", trainer.state.remake)
    fails(MapMismatch, "scales of activations is laid out by map dropped", trainer.train_step)
    failing[0] = False
    trainer.state.remake()
    steps(trainer, 1)
    trainer.state.tear()
    fails(MapMismatch, "derived sets cannot be made: a move or load was cut off", trainer.state.remake)
    trainer.state.add_derived("late", lambda: None, lambda: None)
    assert trainer.state.versions["late"] != trainer.state.sha256


def scales_are_not_left_behind_by_a_move(folder):
    """Seen in public: accuracy 0.95 became 0.007. They are those of the new experts, or there is no step."""
    trainer = Trainer(2, IDENTITY)
    before = trainer.scales
    Mover(trainer.state, trainer.columns, SMALL).move(draw(4))
    assert trainer.scales != before
    assert all(trainer.scales[l][s % 4] == float(trainer.weight(l, s, 0).float().abs().max()) for l, s, _ in trainer.slots())
    trainer.state.add_derived("fp8 weights", lambda: None, lambda: 1 / 0)
    fails(ZeroDivisionError, "", lambda: Mover(trainer.state, trainer.columns, SMALL).move(draw(1)))
    fails(MapMismatch, "fp8 weights is laid out by map dropped", trainer.train_step)


def biases_of_experts_move_with_them(folder):
    """Seen in public: an expert's bias, a buffer beside its weights, not permuted with them."""
    trainer = Trainer(2, IDENTITY)
    biases = {(layer, slot): torch.full((FFN,), 100.0 * layer + expert) for layer, slot, expert in trainer.slots()}
    state = ExpertState({"dp": DP, "ep": 2}, EXPERTS, IDENTITY, {"bias": FFN})
    state.add("bias", 4, "by-slot", lambda layer, slot, tensor: biases[layer, slot])
    Mover(state).move(draw(4))
    for layer in range(LAYERS):
        for slot, expert in logical_slots(state, layer):
            assert biases[layer, slot].tolist() == [100.0 * layer + expert] * FFN


def expert_adapters_move_with_their_experts(folder):
    """LoRA: the base is frozen, so masters and moments are of the adapters alone."""
    rank_of_adapter = 3
    tensors = {"fc1": 40, "fc2": 24, "lora_a": 2 * rank_of_adapter, "lora_b": 5 * rank_of_adapter}
    state = ExpertState({"dp": DP, "ep": 2}, EXPERTS, IDENTITY, tensors, flat={"bucket_alignment": 4})
    sizes = list(tensors.values())
    filled = lambda layer, slot, tensor: torch.arange(sizes[tensor]) + 1000.0 * (tensor + 10 * slot + 100 * layer)
    held = {
        (layer, slot, tensor): filled(layer, slot, tensor) for layer in range(LAYERS) for slot in state.local_slots() for tensor in range(4)
    }
    adapters = ["lora_a", "lora_b"]
    state.add("base", 4, "by-slot", lambda *place: held[place], tensors=["fc1", "fc2"])
    state.add("adapters", 4, "by-slot", lambda *place: held[place], tensors=adapters)
    shard = FlatShards(*map(torch.zeros, state.shard_elements(adapters)))
    state.add("adapter masters", 4, "flat", shard, tensors=adapters)
    for layer in range(LAYERS):
        for slot in state.local_slots():
            assert not shard.runs(layer, slot, 0), "no masters of the frozen base"
            for tensor in [2, 3]:
                for start, run in shard.runs(layer, slot, tensor):
                    run.copy_(filled(layer, slot, tensor).view(torch.uint8)[start : start + run.numel()])
    Mover(state, options={"staging_bytes": 600}).move(draw(6))
    pieces = 0
    for layer in range(LAYERS):
        for slot, expert in logical_slots(state, layer):
            for tensor in range(4):
                assert torch.equal(held[layer, slot, tensor], filled(layer, expert, tensor))
                for start, run in shard.runs(layer, slot, tensor):
                    pieces += 1
                    assert torch.equal(run, filled(layer, expert, tensor).view(torch.uint8)[start : start + run.numel()])
    assert pieces


def chunks_of_virtual_stages_and_pieces_of_parameters(folder):
    """PP 2, VPP 2: a flat buffer a chunk; masters as pieces of parameters, as Megatron's optimizer has them."""
    topology = {"dp": 2, "ep": 1, "pp": 2, "vpp": 2, "layer_stage": [0, 1, 0, 1]}
    identity = [list(range(4))] * 4
    turned = [[1, 2, 3, 0]] * 4
    state = ExpertState(topology, 4, identity, {"up": 50, "down": 14}, flat={"bucket_alignment": 4, "tensor_alignment": 2})
    assert state.local_layers() == ([0, 2] if dist.get_rank() < 2 else [1, 3])
    filled = lambda layer, slot, tensor: torch.arange([50, 14][tensor]) + 1000.0 * (tensor + 10 * slot + 100 * layer)
    shards = FlatShards(*map(torch.zeros, state.shard_elements()))
    state.add("master", 4, "flat", shards)
    fails(routepack.RoutePackError, "flat shards of 1 chunks, the rank has chunk 1", lambda: state.add("m", 4, "flat", FlatShards(torch.zeros(state.shard_elements()[0]))))
    places = [(layer, slot, tensor) for layer in state.local_layers() for slot in range(4) for tensor in range(2)]
    pieces = {}
    for place in places:
        for start, run in shards.runs(*place):
            run.copy_(filled(*place).view(torch.uint8)[start : start + run.numel()])
            pieces[place] = (start // 4, run.view(torch.float).clone())
    state.add("moment", 4, "flat", ParameterShards(lambda *place: pieces.get(place)))
    Mover(state, options={"staging_bytes": 300, "block_bytes": 64}).move(turned)
    for layer, slot, tensor in places:
        expert = state.phys2log(layer)[slot]
        for start, run in shards.runs(layer, slot, tensor):
            expected = filled(layer, expert, tensor).view(torch.uint8)[start : start + run.numel()]
            assert torch.equal(run, expected) and torch.equal(pieces[layer, slot, tensor][1].view(torch.uint8), expected)
    names = [name for name, _ in logical_named_tensors(state, lambda *place: place, "{layer}.{expert}.{tensor}")]
    assert len(names) == 16 and {name.split(".")[0] for name in names} == ({"0", "2"} if dist.get_rank() < 2 else {"1", "3"})


def masters_are_moved_not_refilled_from_bf16(folder):
    """Seen in public: 1.0009765625 became 1.0 after an expert swap."""
    trainer = Trainer(2, IDENTITY)
    exact = 1.0009765625
    assert float(torch.tensor(exact).bfloat16()) == 1.0
    state = trainer.canonical()
    state["master"][(1, 3, 0)][0, 0] = exact
    trainer.load(state)
    Mover(trainer.state, trainer.columns).move(draw(8))
    assert float(trainer.canonical()["master"][(1, 3, 0)][0, 0]) == exact


CASES = [
    wrong_state_is_refused_before_it_is_registered,
    caches_are_fit_once_they_are_remade,
    scales_are_not_left_behind_by_a_move,
    biases_of_experts_move_with_them,
    expert_adapters_move_with_their_experts,
    chunks_of_virtual_stages_and_pieces_of_parameters,
    masters_are_moved_not_refilled_from_bf16,
]
