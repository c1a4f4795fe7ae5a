"""Jobs, dispatchers, names and optimizers that are refused, and when."""

import types

import numpy as np
import torch
import torch.distributed as dist

import routepack
from moe import DP, EXPERTS, FFN, IDENTITY, LAYERS, TENSORS, Trainer, draw, equal
from routepack.torch import (
    ColumnMap,
    ExpertState,
    MapMismatch,
    Mover,
    Unsupported,
    load_logical,
    logical_named_tensors,
    logical_slots,
    refuse_unsupported,
    save_logical,
)
from shared import TEMPLATE, everybody_says, fails, steps


def a_job_that_is_none_is_refused(folder):
    right = ({"dp": DP, "ep": 2}, EXPERTS, IDENTITY, TENSORS)
    ExpertState(*right)
    for place, wrong, words in [
        (0, {"dp": DP, "ep": 3}, ""),
        (0, {"dp": 2, "ep": 2}, "the topology has 2 ranks" if dist.get_rank() < 2 else "rank = "),
        (0, {"dp": 8, "ep": 2}, "the topology has 8 ranks, torch.distributed 4"),
        (0, {"dp": DP}, "missing field `ep`"),
        (0, {"dp": DP, "ep": 2.0}, "topology"),
        (0, {"dp": -DP, "ep": 2}, "topology"),
        (0, {"dp": DP, "ep": float("nan")}, "topology"),
        (0, {"dp": DP, "ep": 2, "order": "tp-ep-dp-pp"}, "order"),
        (0, None, "topology: expected names and values, found NoneType"),
        (0, {"dp": DP, "ep": {1, 2}}, "topology: expected plain data"),
        (3, {"up": -1}, "state"),
        (3, {"up": 0}, "tensors[0].elements = 0"),
        (3, {"up": 1 << 63}, "2^62"),
        (3, {}, "tensors = 0"),
        (3, ["up"], "tensors: expected names and values, found list"),
    ]:
        arguments = [wrong if index == place else value for index, value in enumerate(right)]
        fails(routepack.JobError, words, lambda: ExpertState(*arguments))
    # EP divides the ranks, and not the experts.
    nine = [list(range(9))] * LAYERS
    fails(routepack.JobError, "", lambda: ExpertState({"dp": DP, "ep": 2}, 9, nine, TENSORS))
    fails(routepack.JobError, "flat", lambda: ExpertState(*right, flat={"tensor_alignment": 0}))
    fails(routepack.JobError, "unknown field `alignment`", lambda: ExpertState(*right, flat={"alignment": 1}))
    # NumPy's integers are integers.
    ExpertState({"dp": np.int64(DP), "ep": np.int32(2)}, np.int64(EXPERTS), np.array(IDENTITY), {"up": np.int64(FFN)})
    # The state of another rank is planned with, never moved.
    other = ExpertState(*right, rank=(dist.get_rank() + 1) % DP)
    fails(routepack.JobError, "the state is of rank", lambda: Mover(other).move(IDENTITY))
    fails(routepack.JobError, "the state is of rank", lambda: save_logical(other, folder / "other"))
    fails(routepack.RoutePackError, "options: expected plain data", lambda: Mover(ExpertState(*right), options={"links": {1, 2}}))
    for options in [{"block_bytes": -1}, {"block_bytes": 0}, {"staging_bytes": 1.5}, {"stage": 1}, {"links": {"within_node": 0}}]:
        filled = Trainer(2, IDENTITY).state
        fails(routepack.JobError, "options", lambda: Mover(filled, options=options).move(draw(1)))


def dispatchers_follow_the_map_or_there_is_no_step(folder):
    trainer = Trainer(2, IDENTITY)
    one = ColumnMap(EXPERTS)
    mover = lambda columns: Mover(trainer.state, columns)
    fails(routepack.RoutePackError, "column maps of 1 layers, the state has 2", lambda: mover([one]))
    fails(routepack.RoutePackError, "layers 0 and 1 have the same column map", lambda: mover([one, one]))
    fails(routepack.RoutePackError, "a column map of layer 2", lambda: mover({0: one, 2: ColumnMap(EXPERTS)}))
    fails(routepack.RoutePackError, "no column maps of layers [1], which are on this rank", lambda: mover({0: one}))
    fails(routepack.RoutePackError, "the column map of layer 1 has torch.int64 [9], expected 8 experts", lambda: mover([one, ColumnMap(9)]))
    fails(routepack.RoutePackError, "the column map of layer 1 is a Linear", lambda: mover([one, torch.nn.Linear(2, 2)]))
    fails(routepack.RoutePackError, "column maps: expected one a layer, found ColumnMap", lambda: mover(one))
    fails(routepack.RoutePackError, "column maps of 1 layers", lambda: save_logical(trainer.state, folder / "columns", [one]))
    assert not (folder / "columns").exists()
    save_logical(trainer.state, folder / "columns", trainer.columns)
    fails(routepack.RoutePackError, "layers 0 and 1 have the same", lambda: load_logical(trainer.state, folder / "columns", [one, one]))
    trainer.state.check()
    # Megatron's model.load_state_dict brings the map of another day; a list or a module's list will do.
    old = [column_map.state_dict() for column_map in trainer.columns]
    old = [{name: value.clone() for name, value in one.items()} for one in old]
    Mover(trainer.state, torch.nn.ModuleList(trainer.columns)).move(draw(1))
    steps(trainer, 1)
    trainer.columns[1].load_state_dict(old[1])
    fails(MapMismatch, "the column map of layer 1 is not the map in force", trainer.train_step)
    fails(MapMismatch, "the column map of layer 1", lambda: logical_named_tensors(trainer.state, trainer.weight, TEMPLATE))
    load_logical(trainer.state, folder / "columns", log2phys=draw(2))
    trainer.steps_done = 0
    steps(trainer, 1)
    # A trainer's own loading sets them, too.
    with trainer.state.loading(draw(3)):
        trainer.load(trainer.canonical())
    steps(trainer, 1)


def nothing_is_named_moved_or_saved_inside_of_a_step(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    save_logical(trainer.state, folder / "before", trainer.columns)
    for work in [
        lambda: save_logical(trainer.state, folder / "inside", trainer.columns),
        lambda: load_logical(trainer.state, folder / "before", trainer.columns),
        lambda: trainer.state.loading(IDENTITY).__enter__(),
        lambda: Mover(trainer.state, trainer.columns).move(draw(1)),
        lambda: logical_named_tensors(trainer.state, trainer.weight, TEMPLATE),
        lambda: trainer.state.step().__enter__(),
    ]:
        with trainer.state.step():
            fails(MapMismatch, "inside of a step: a map changes only between steps", work)
    # One rank inside, all refuse.
    inside = trainer.state.step()
    if dist.get_rank() == 2:
        inside.__enter__()
    heard = everybody_says(lambda: save_logical(trainer.state, folder / "inside", trainer.columns))
    assert heard[2].startswith("MapMismatch") and all("rank 2: saving inside of a step" in heard[rank] for rank in [0, 1, 3]), heard
    if dist.get_rank() == 2:
        inside.__exit__(None, None, None)
    dist.barrier()
    assert not (folder / "inside").exists() and not (folder / "inside.unfinished").exists()
    trainer.state.agree()
    assert equal(trainer.canonical(), still.canonical())


def names_tell_tensors_apart(folder):
    trainer = Trainer(2, IDENTITY)
    named = lambda template, **more: logical_named_tensors(trainer.state, trainer.weight, template, **more)
    fails(routepack.JobError, "expected {layer}, {expert} and {tensor}", lambda: named("model.layers.{layer}.{tensor}"))
    fails(routepack.JobError, "expected {layer}, {expert} and {tensor}", lambda: named("{layer}.{expert}.{tensor}.{part}"))
    fails(routepack.JobError, "template", lambda: named("{layer}.{expert}.{tensor"))
    fails(routepack.JobError, "template", lambda: named(None))
    fails(routepack.JobError, "layers: expected 2 different numbers, found [3]", lambda: named(TEMPLATE, layers=[3]))
    fails(routepack.JobError, "layers: expected 2 different numbers, found [3, 3]", lambda: named(TEMPLATE, layers=[3, 3]))
    assert all(".layers.3." in name or ".layers.7." in name for name, _ in named(TEMPLATE, layers=[3, 7]))
    fails(routepack.JobError, "layer = 2: this rank has layers [0, 1]", lambda: logical_slots(trainer.state, 2))
    # Names half taken when experts move.
    names = named(TEMPLATE)
    next(names)
    Mover(trainer.state, trainer.columns).move(draw(7))
    fails(MapMismatch, "while their names were taken", lambda: next(names))


def unsupported_state_is_refused_by_name(folder):
    model = torch.nn.Linear(2, 2)
    muon = type("Muon", (), {})()
    chained = types.SimpleNamespace(chained_optimizers=[types.SimpleNamespace(optimizer=muon)])
    fails(Unsupported, "Muon: whole-matrix", lambda: refuse_unsupported(model, chained))
    hybrid = type("HybridDeviceOptimizer", (), {})()
    fails(Unsupported, "HybridDeviceOptimizer: hybrid-device offload", lambda: refuse_unsupported(model, hybrid))
    model.fp8_meta = {"recipe": types.SimpleNamespace(delayed=lambda: True)}
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    # Transformer Engine before its second version has no word for it, and a recipe although FP8 is off.
    model.fp8_meta = {"recipe": type("DelayedScaling", (), {})()}
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    model.fp8 = False
    refuse_unsupported(model)
    model.primary_weights_in_fp8 = True
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    del model.fp8, model.primary_weights_in_fp8
    model.fp8_meta = {}
    # Before the first forward pass only Megatron's settings know.
    model.config = types.SimpleNamespace(fp8="hybrid", fp8_recipe="delayed")
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    model.config = types.SimpleNamespace(fp8="hybrid")
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    for config in [types.SimpleNamespace(fp8=None, fp8_recipe="delayed"), types.SimpleNamespace(fp8="e4m3", fp8_recipe="blockwise")]:
        model.config = config
        refuse_unsupported(model)
    model.fp8_meta = {"recipe": types.SimpleNamespace(delayed=lambda: False)}
    model.config = types.SimpleNamespace(moe_router_num_groups=8)
    refuse_unsupported(model)
    fails(Unsupported, "group-limited", lambda: refuse_unsupported(model, physical_router=True))
    stacked = torch.nn.Module()
    stacked.experts = torch.nn.Parameter(torch.zeros(2, 2, 2))
    stacked.experts.placements = ()
    fails(Unsupported, "experts: experts stacked in one FSDP2 parameter", lambda: refuse_unsupported(stacked))


CASES = [
    a_job_that_is_none_is_refused,
    dispatchers_follow_the_map_or_there_is_no_step,
    nothing_is_named_moved_or_saved_inside_of_a_step,
    names_tell_tensors_apart,
    unsupported_state_is_refused_by_name,
]
