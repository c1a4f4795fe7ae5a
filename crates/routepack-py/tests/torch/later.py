"""What a trainer does after it has registered its sets: offloads, replaces, shrinks, or holds names across a step."""

import re
import types
from pathlib import Path

import torch
import torch.distributed as dist

import routepack
import routepack.torch.devices
from moe import DP, EXPERTS, IDENTITY, LAYERS, Trainer, draw, equal
from routepack.torch import (
    ExpertState,
    FlatShards,
    MapMismatch,
    MoveFailed,
    Mover,
    ParameterShards,
    load_logical,
    logical_named_tensors,
    refuse_unsupported,
    save_logical,
)
from shared import SMALL, TEMPLATE, everybody_says, fails, one_set, steps

PAGE = Path(__file__).resolve().parents[3] / "routepack-materialise" / "README.md"


def all_refuse(trainer, folder, name, words):
    """A move, a save and a load end on all ranks before anything has changed."""
    before = trainer.canonical()
    for what, work in [
        ("move", lambda: Mover(trainer.state, trainer.columns, SMALL).move(draw(1))),
        ("save", lambda: save_logical(trainer.state, folder / f"later.{name}.save", trainer.columns)),
        ("load", lambda: load_logical(trainer.state, folder / "later.good", trainer.columns, draw(2))),
    ]:
        heard = everybody_says(work)
        assert words in heard[1] and "nothing" not in heard, (what, heard)
        assert all("given up" in heard[rank] for rank in [0, 2, 3]), (what, heard)
        trainer.state.agree()
        assert trainer.state.log2phys == IDENTITY
    assert not (folder / f"later.{name}.save").exists()
    assert equal(trainer.canonical(), before)


def memory_that_became_another_is_refused_before_anything_changes(folder):
    trainer = Trainer(2, IDENTITY)
    pieces = {}
    for place in trainer.state._places({}):
        for start, run in trainer.shards["master"].runs(*place):
            pieces[place] = (start // 4, run.view(torch.float).clone())
    trainer.state.add("moment", 4, "flat", ParameterShards(lambda *place: pieces.get(place)))
    save_logical(trainer.state, folder / "later.good", trainer.columns)
    reference, (place, (first, piece)) = trainer.reference, next(iter(pieces.items()))
    if dist.get_rank() == 1:
        # Offloaded after it was registered: written into a copy, and lost.
        trainer.reference = type("Copies", (list,), {"__getitem__": lambda self, at: [[w.clone() for w in place] for place in list.__getitem__(self, at)]})(reference)
    before = [w.clone() for layer in reference for place_ in layer for w in place_]
    for work in [
        lambda: Mover(trainer.state, trainer.columns, SMALL).move(draw(1)),
        lambda: save_logical(trainer.state, folder / "later.copies", trainer.columns),
        lambda: load_logical(trainer.state, folder / "later.good", trainer.columns, draw(2)),
    ]:
        heard = everybody_says(work)
        assert "in other memory each time it is asked for" in heard[1] and all("given up" in heard[rank] for rank in [0, 2, 3]), heard
        trainer.state.agree()
    trainer.reference = reference
    assert trainer.state.log2phys == IDENTITY and not (folder / "later.copies").exists()
    assert all(torch.equal(a, b) for a, b in zip(before, (w for layer in reference for place_ in layer for w in place_)))
    for name, other in [("lost", None), ("shrunk", (first, piece[:-1].clone())), ("shifted", (first + 1, piece))]:
        if dist.get_rank() == 1:
            pieces[place] = other
        all_refuse(trainer, folder, name, "the layout has bytes")
        pieces[place] = (first, piece)
    load_logical(trainer.state, folder / "later.good", trainer.columns, draw(2))


def buffers_that_are_replaced_are_functions(folder):
    state, (weights, *_) = one_set(torch.float, True)
    held = types.SimpleNamespace(moment=torch.zeros(weights.numel()))
    shard = FlatShards(lambda: held.moment)
    state.add("moment", 4, "flat", shard)
    # Without padding.
    said = lambda: [run.tolist() for place in state._places({}) for _, run in shard.runs(*place)]
    held.moment = torch.arange(weights.numel(), dtype=torch.float)
    before, expected = held.moment.clone(), said()
    save_logical(state, folder / "later.replaced")
    Mover(state).move(draw(4))
    gathered = [None] * DP
    dist.all_gather_object(gathered, said() != expected)
    assert any(gathered), "what is there now is moved"
    held.moment = torch.full_like(before, 7)
    load_logical(state, folder / "later.replaced", log2phys=IDENTITY)
    assert said() == expected, "what is there now is loaded"
    held.moment = before[:-1]
    fails(routepack.RoutePackError, "moment: a flat shard of chunk 0 has", lambda: save_logical(state, folder / "later.shrunk"))
    fails(routepack.RoutePackError, "in other memory each time", lambda: state.add("v", 4, "flat", FlatShards(lambda: torch.zeros(weights.numel()))))


def the_pages_lookup_is_right_where_a_rank_has_no_piece(folder):
    trainer = Trainer(2, IDENTITY)
    places = list(trainer.state._places({}))
    parameters = {place: torch.nn.Parameter(trainer.weight(*place).clone()) for place in places}
    runs = {place: trainer.shards["master"].runs(*place) for place in places}
    ranges = {}
    for place, parameter in parameters.items():
        for start, run in runs[place]:
            ranges[parameter] = {"param": types.SimpleNamespace(start=start // 4)}
            parameter.main_param = run.view(torch.float).clone()
    optimizer = types.SimpleNamespace(model_param_gbuf_map=ranges, _get_model_param_range_map=lambda parameter: ranges[parameter])
    said = {"parameters": parameters, "optimizer": optimizer}
    exec(re.search(r"def master.*?\n\n", PAGE.read_text(), re.S)[0], said)
    trainer.state.add("main", 4, "flat", ParameterShards(said["master"]))
    lacking = len(ranges) < len(parameters)
    heard = [None] * DP
    dist.all_gather_object(heard, lacking)
    assert any(heard), "some rank has no piece of some parameter"
    # Without that line: one line says so, not the parameter.
    careless = lambda *place: (ranges[parameters[place]]["param"].start, parameters[place].main_param)
    if lacking:
        try:
            trainer.state.add("careless", 4, "flat", ParameterShards(careless))
        except routepack.RoutePackError as error:
            assert "cannot be had: KeyError" in str(error) and "\n" not in str(error) and len(str(error)) < 250, error


def buffers_are_where_messages_can_be_sent_from(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    mover = Mover(trainer.state, trainer.columns, SMALL)
    mover.move(IDENTITY)
    assert mover._buffers_on == torch.device("cpu")
    can, cpu, cuda = routepack.torch.devices.device_of, torch.device("cpu"), torch.device("cuda:1")
    given = routepack.torch.devices.backends
    try:
        for told, held, expected in [
            ("gloo", [cuda], cpu),
            ("nccl", [cuda], cuda),
            ("nccl", [cpu, cuda], cuda),
            ("cpu:gloo,cuda:nccl", [cuda, cpu], cuda),
            ("cpu:gloo,cuda:nccl", [cpu, cuda], cpu),
            ("cpu:gloo,cuda:gloo", [cuda], cpu),
        ]:
            routepack.torch.devices.backends = lambda: told
            assert can(None, held) == expected, told
        routepack.torch.devices.backends = lambda: "nccl"
        fails(routepack.RoutePackError, "the process group (nccl) has no messages on cpu", lambda: mover.move(draw(1)))
        # One rank that cannot is heard by all.
        routepack.torch.devices.backends = lambda: "nccl" if dist.get_rank() == 3 else "gloo"
        fails(routepack.RoutePackError, "has no messages on cpu", lambda: mover.move(draw(1)))
    finally:
        routepack.torch.devices.backends = given
    fails(routepack.RoutePackError, "has no messages on cuda", lambda: Mover(trainer.state, trainer.columns, device="cuda").move(draw(1)))
    fails(routepack.RoutePackError, "device = 'gpu'", lambda: Mover(trainer.state, trainer.columns, device="gpu"))
    assert equal(trainer.canonical(), still.canonical())


def a_cache_that_cannot_be_remade_after_a_failed_move_is_heard_by_all(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    failing = [dist.get_rank() == 2]
    trainer.state.add_derived("cache", lambda: None, lambda: failing[0] and 1 / 0)

    def fail(event, number):
        if dist.get_rank() == 1 and event == "pass":
            raise MemoryError("no memory")

    heard = everybody_says(lambda: Mover(trainer.state, trainer.columns, SMALL, on_event=fail).move(draw(1)))
    assert heard[2].startswith("ZeroDivisionError"), heard
    for rank in [0, 1, 3]:
        assert heard[rank].startswith("MapMismatch: a move was given up") and "no memory" in heard[rank], heard
        assert heard[rank].endswith("then remaking derived sets was given up: rank 2: ZeroDivisionError: division by zero"), heard
    failing[0] = False
    trainer.state.remake()
    trainer.state.agree()
    assert equal(trainer.canonical(), still.canonical())
    fails(MoveFailed, "nothing has changed", lambda: Mover(trainer.state, trainer.columns, SMALL, on_event=fail).move(draw(1)))


def a_load_leaves_nothing_behind_unless_it_is_asked_to(folder):
    state, _ = one_set(torch.float)
    more = {place[:2]: torch.ones(3) for place in state._places({})}
    tensors = {**state.tensors, "lora_a": 3, "lora_b": 3}

    def made(*names):
        made = ExpertState({"dp": DP, "ep": 2}, EXPERTS, IDENTITY, tensors)
        held = {}
        where = lambda layer, slot, tensor: held.setdefault((layer, slot, tensor), torch.zeros(list(tensors.values())[tensor]))
        made.add("adapters", 4, "by-slot", where, tensors=list(names))
        return made

    both = made("lora_a", "lora_b")
    both.add("ema", 4, "by-slot", lambda layer, slot, tensor: more[layer, slot], tensors=["lora_a"])
    save_logical(both, folder / "later.both")
    load = lambda state, **named: load_logical(state, folder / "later.both", **named)
    fails(routepack.FileError, "sets ['ema'] were saved, the trainer has none such: leave=['ema']", lambda: load(made("lora_a", "lora_b")))
    load(made("lora_b", "lora_a"), leave=["ema"])
    fails(routepack.FileError, "set adapters: tensors = ['lora_a', 'lora_b'] was saved, the trainer has ['lora_a']", lambda: load(made("lora_a"), leave=["ema"]))
    for leave in [["none"], ["adapters"], "ema", [3]]:
        fails(routepack.JobError, "leave: ", lambda: load(made("lora_a", "lora_b"), leave=leave))


def names_and_loads_end_where_state_changes(folder):
    trainer = Trainer(2, IDENTITY)
    save_logical(trainer.state, folder / "later.names", trainer.columns)
    for work in [
        lambda: steps(trainer, 1),
        lambda: load_logical(trainer.state, folder / "later.names", trainer.columns),
        lambda: Mover(trainer.state, trainer.columns).move(trainer.state.log2phys),
    ]:
        names = logical_named_tensors(trainer.state, trainer.weight, TEMPLATE)
        next(names)
        work()
        fails(MapMismatch, "while their names were taken", lambda: next(names))
    saved = trainer.canonical()
    for inner in [
        lambda: trainer.state.step().__enter__(),
        lambda: trainer.state.loading(IDENTITY).__enter__(),
        lambda: load_logical(trainer.state, folder / "later.names", trainer.columns),
        lambda: save_logical(trainer.state, folder / "later.inner", trainer.columns),
        lambda: Mover(trainer.state, trainer.columns).move(draw(1)),
    ]:
        with trainer.state.loading(draw(2)):
            fails(MapMismatch, "while sets are loaded", inner)
            trainer.load(saved)
        trainer.state.agree()
        assert equal(trainer.canonical(), saved)


def odd_arguments_are_refused_in_a_line(folder):
    trainer = Trainer(2, IDENTITY)
    state = trainer.state
    for given in ["", ".", "..", "/", "a\0b", "x" * 300]:
        heard = everybody_says(lambda: save_logical(state, given))
        assert all(text.startswith("FileError") and "\n" not in text for text in heard), (given, heard)
    for given in [None, 3, b"x"]:
        for work in [save_logical, load_logical]:
            fails(routepack.FileError, "expected the path of a folder", lambda: work(state, given))
    for given in ["a\0b", "x" * 300]:
        fails(routepack.RoutePackError, "", lambda: load_logical(state, given))
    for given in [5, [1], "ab"]:
        fails(routepack.JobError, "options: expected names and values", lambda: Mover(state, trainer.columns, given))
    fails(routepack.JobError, "log2phys", lambda: Mover(state, trainer.columns).move(torch.empty(LAYERS, EXPERTS, device="meta")))
    sparse = {place: torch.zeros(30, dtype=torch.bfloat16).to_sparse() for place in state._places({})}
    fails(routepack.RoutePackError, "is a tensor of layout torch.sparse_coo", lambda: state.add("s", 2, "by-slot", lambda *place: sparse[place]))
    negated = {place: torch._neg_view(torch.ones(30)) for place in state._places({})}
    fails(routepack.RoutePackError, "is a lazily conjugated or negated view", lambda: state.add("n", 4, "by-slot", lambda *place: negated[place]))
    # Megatron's model is a list of its chunks.
    plain, stacked = torch.nn.Linear(2, 2), torch.nn.Module()
    stacked.experts = torch.nn.Parameter(torch.zeros(2, 2, 2))
    stacked.experts.placements = ()
    refuse_unsupported([plain, plain])
    fails(routepack.RoutePackError, "experts stacked in one FSDP2 parameter", lambda: refuse_unsupported([plain, stacked]))
    fails(routepack.RoutePackError, "model: expected a module or a list of its chunks, found NoneType", lambda: refuse_unsupported(None))


CASES = [
    memory_that_became_another_is_refused_before_anything_changes,
    buffers_that_are_replaced_are_functions,
    the_pages_lookup_is_right_where_a_rank_has_no_piece,
    buffers_are_where_messages_can_be_sent_from,
    a_cache_that_cannot_be_remade_after_a_failed_move_is_heard_by_all,
    a_load_leaves_nothing_behind_unless_it_is_asked_to,
    names_and_loads_end_where_state_changes,
    odd_arguments_are_refused_in_a_line,
]
