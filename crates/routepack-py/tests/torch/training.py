"""Training does not notice that experts move: four gloo processes, EP 2 × EDP 2."""

import json
import os
import shutil
import sys
import tempfile
import traceback
import types
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import kills
import routepack
import routepack.torch.mover
from moe import DP, EXPERTS, FFN, HIDDEN, IDENTITY, LAYERS, TENSORS, Trainer, dense_log_probs, draw, equal
from routepack.torch import (
    ColumnMap,
    ExpertState,
    FlatShards,
    MapMismatch,
    MoveFailed,
    Mover,
    ParameterShards,
    Unsupported,
    load_logical,
    logical_named_tensors,
    logical_slots,
    refuse_unsupported,
    save_logical,
)

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


def three_steps_a_move_three_steps(folder):
    still, moving = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    before = moving.log_probs()
    steps(still, 6)
    steps(moving, 3)
    told = Mover(moving.state, moving.columns, SMALL).move(draw(1))
    assert told["passes"] > 1 and told["staging_bytes"] <= 900
    steps(moving, 3)
    assert equal(still.canonical(), moving.canonical())
    assert torch.equal(still.log_probs(), moving.log_probs())
    assert not torch.equal(before, moving.log_probs())


def two_moves_are_their_composition(folder):
    twice, once = Trainer(2, draw(3)), Trainer(2, draw(3))
    for target in [draw(1), draw(2)]:
        Mover(twice.state, twice.columns).move(target)
    Mover(once.state, once.columns, SMALL).move(draw(2))
    for layer, slot, _ in once.slots():
        assert all(torch.equal(once.weight(layer, slot, t), twice.weight(layer, slot, t)) for t in range(2))
    assert all(torch.equal(once.shards[name].shards[0], twice.shards[name].shards[0]) for name in once.shards)


def a_failure_anywhere_leaves_old_map_and_old_state(folder):
    trainer, other = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    steps(trainer, 2)
    steps(other, 2)
    for event in ["allocate", "pass", "vote"]:
        for number in [0] if event == "allocate" else [0, 2]:

            def fail(seen, at, event=event, number=number):
                if dist.get_rank() == 3 and (seen, at) == (event, number):
                    raise MemoryError("no memory")

            mover = Mover(trainer.state, trainer.columns, SMALL, on_event=fail)
            fails(MoveFailed, "nothing has changed", lambda: mover.move(draw(4)))
            assert trainer.state.log2phys == IDENTITY
            assert equal(trainer.canonical(), other.canonical())
    steps(trainer, 1)
    steps(other, 1)
    assert equal(trainer.canonical(), other.canonical())


class Cut(Mover):
    """A mover whose connection fails at a vote."""

    def __init__(self, at, *arguments):
        super().__init__(*arguments)
        self.left = at

    def _vote(self, error):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("connection closed")
        super()._vote(error)


def a_lost_connection_leaves_old_state_or_none_that_trains(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    # Before anything is written: buffers, first pass.
    for at in [0, 1]:
        fails(RuntimeError, "connection closed", lambda: Cut(at, trainer.state, trainer.columns, SMALL).move(draw(4)))
        trainer.state.agree()
        assert equal(trainer.canonical(), still.canonical())
    saved = trainer.canonical()
    fails(RuntimeError, "connection closed", lambda: Cut(3, trainer.state, trainer.columns, SMALL).move(draw(4)))
    fails(MapMismatch, "weight is laid out by map torn", trainer.train_step)
    fails(MapMismatch, "torn", lambda: list(logical_named_tensors(trainer.state, trainer.weight, TEMPLATE)))
    fails(MapMismatch, "torn", lambda: Mover(trainer.state, trainer.columns).move(draw(5)))
    with trainer.state.loading(IDENTITY):
        trainer.load(saved)
    steps(trainer, 1)
    steps(still, 1)
    assert equal(trainer.canonical(), still.canonical())


def saved_at_ep_2_loaded_at_ep_4(folder):
    two = Trainer(2, IDENTITY)
    steps(two, 2)
    Mover(two.state, two.columns).move(draw(5))
    save_logical(two.state, folder / "ep2", two.columns, {"step": 2})
    saved = two.canonical()
    four, again, moved = Trainer(4, draw(6)), Trainer(2, draw(6)), Trainer(1, IDENTITY)
    for trainer, given, expected in [(four, None, draw(5)), (again, None, draw(5)), (moved, draw(7), draw(7))]:
        extra = load_logical(trainer.state, folder / "ep2", trainer.columns, given)
        assert extra == {"step": 2} and trainer.state.log2phys == expected
        assert equal(trainer.canonical(), saved)
        trainer.steps_done = extra["step"]
    # Kernels may sum in another order for another number of rows.
    assert torch.allclose(four.log_probs(), two.log_probs(), atol=1e-5)
    # Gradients are summed in another order: two shards of two ranks, or one of four.
    for trainer in [two, four, again]:
        steps(trainer, 1)
    left, right = two.canonical()["master"], four.canonical()["master"]
    assert max(float((left[key] - right[key]).abs().max()) for key in left) < 1e-5
    assert equal(two.canonical(), again.canonical())


def first_writes(work):
    """The first rank changes files, all wait for it."""
    if dist.get_rank() == 0:
        work()
    dist.barrier()


def a_save_that_is_not_what_its_map_says_is_refused(folder):
    """Slots without a map, a map of other slots, shards of two saves, bytes that changed: a hard error on every rank."""
    trainer, other = Trainer(2, draw(1)), Trainer(2, draw(2))
    steps(trainer, 1)
    good = folder / "good"
    save_logical(trainer.state, good, trainer.columns)
    save_logical(other.state, folder / "other", other.columns)
    shard = "experts-00002-of-00004.safetensors"
    map_of = lambda bad: bad / "routepack_live_map.json"

    def edit(change):
        def work(bad):
            held = json.loads(map_of(bad).read_text())
            change(held)
            map_of(bad).write_text(json.dumps(held))

        return work

    def flip(bad):
        data = bytearray((bad / shard).read_bytes())
        data[-1] ^= 1
        (bad / shard).write_bytes(data)

    for number, (error, words, damage) in enumerate([
        ("MapMismatch", "no routepack_live_map.json: nobody knows", lambda bad: map_of(bad).unlink()),
        ("MapMismatch", "its slots have", edit(lambda held: held.update(log2phys=IDENTITY))),
        ("FileError", "no map", lambda bad: map_of(bad).write_text("{")),
        ("FileError", "expected 'routepack-live-map 2' in order 'logical'", edit(lambda held: held.update(order="slots"))),
        ("MapMismatch", "experts are in slots", lambda bad: (bad / "routepack_map.json").write_text("{}")),
        ("MapMismatch", "written under map", lambda bad: shutil.copy(folder / "other" / shard, bad / shard)),
        ("FileError", "cannot read", lambda bad: (bad / shard).unlink()),
        ("FileError", "no shard of save_logical", lambda bad: (bad / shard).write_bytes(b"")),
        ("FileError", "were not saved", edit(lambda held: held["shards"].pop(2))),
        ("FileError", "tensors of an expert", edit(lambda held: held["tensors"].update(up=31))),
        ("FileError", "no sets ['reference']", edit(lambda held: held["sets"].pop("reference"))),
        ("FileError", "no map", edit(lambda held: held.update(sets=list(held["sets"])))),
        ("FileError", "no map", edit(lambda held: held["sets"]["weight"].pop("dtype"))),
        ("FileError", "set master: element_bytes = 2 was saved", edit(lambda held: held["sets"]["master"].update(element_bytes=2))),
        ("FileError", "expected 'routepack-live-map 2'", edit(lambda held: held.update(format="routepack-live-map 1"))),
        ("FileError", "not what was saved", flip),
        ("FileError", "ends at byte", lambda bad: (bad / shard).write_bytes((bad / shard).read_bytes()[:-1])),
    ]):
        bad = folder / f"bad{number}"
        first_writes(lambda: (shutil.copytree(good, bad), damage(bad)))
        victim = Trainer(2, draw(3))

        said = "nothing"
        try:
            load_logical(victim.state, bad, victim.columns)
        except routepack.RoutePackError as found:
            said = f"{type(found).__name__}: {found}"
        heard = [None] * DP
        dist.all_gather_object(heard, said)
        # Those who saw what is wrong say it, the others that it is.
        saw = [text for text in heard if "was given up: rank" not in text]
        assert saw and all(text.startswith(error) and words in text for text in saw), heard
        if victim.state.versions["weight"] != victim.state.sha256:
            fails(MapMismatch, "torn", victim.train_step)
        load_logical(victim.state, good, victim.columns)
        victim.steps_done = 1
        assert equal(victim.canonical(), trainer.canonical())


def a_save_is_whole_or_not_there(folder):
    trainer = Trainer(2, draw(1))
    target = folder / "whole"
    trainer.columns[1].phys2log.copy_(torch.arange(EXPERTS))
    fails(MapMismatch, "the column map of layer 1", lambda: save_logical(trainer.state, target, trainer.columns))
    trainer.columns[1].phys2log.copy_(torch.tensor(trainer.state.phys2log(1)))
    broken = trainer.weights
    if dist.get_rank() == 1:
        trainer.weights = None
    try:
        save_logical(trainer.state, target, trainer.columns)
    except (TypeError, routepack.RoutePackError):
        pass
    else:
        raise AssertionError("a rank without weights saved them")
    trainer.weights = broken
    dist.barrier()
    assert not target.exists() and not (folder / "whole.unfinished").exists()
    dist.barrier()
    first_writes(lambda: (folder / "whole.unfinished").mkdir())
    save_logical(trainer.state, target, trainer.columns)
    fails(routepack.RoutePackError, "there already" if dist.get_rank() == 0 else "given up", lambda: save_logical(trainer.state, target))
    first_writes(lambda: (folder / "file").write_text(""))
    where = folder / "file" / "saved"
    fails(routepack.RoutePackError, "cannot make it" if dist.get_rank() == 0 else "given up", lambda: save_logical(trainer.state, where))
    trainer.state._tear()
    fails(MapMismatch, "torn", lambda: save_logical(trainer.state, folder / "torn"))


def one_set(dtype, flat=False, topology={"dp": DP, "ep": 2}, dtype_of_layer=lambda layer: None):
    """A state of one set, filled, and its tensors."""
    state = ExpertState(topology, EXPERTS, IDENTITY, {"up": FFN})
    size = torch.zeros(1, dtype=dtype).element_size()
    if flat:
        shard = torch.ones(200, dtype=dtype)
        state.add("ema", size, "flat", FlatShards(shard))
        return state, [shard]
    held = {
        (layer, slot): torch.full((FFN,), 1.5, dtype=dtype_of_layer(layer) or dtype)
        for layer in state.local_layers()
        for slot in state.local_slots()
    }
    state.add("ema", size, "by-slot", lambda layer, slot, tensor: held[layer, slot])
    return state, list(held.values())


def sets_of_other_elements_are_not_loaded(folder):
    """FP32 bytes in a BF16 set are other weights, and every map agrees."""
    for name, saved, mine, words in [
        ("f32", (torch.float,), (torch.bfloat16,), "set ema: element_bytes = 4 was saved, the trainer has 2"),
        ("f16", (torch.float16,), (torch.bfloat16,), "set ema: dtype = ['float16'] was saved, the trainer has ['bfloat16']"),
        ("slots", (torch.float,), (torch.float, True), "set ema: held = 'by-slot' was saved, the trainer has 'flat'"),
        ("flat", (torch.float, True), (torch.int32, True), "set ema: dtype = ['float32'] was saved, the trainer has ['int32']"),
    ]:
        save_logical(one_set(*saved)[0], folder / name)
        state, tensors = one_set(*mine)
        before = [tensor.clone() for tensor in tensors]
        fails(routepack.RoutePackError, words, lambda: load_logical(state, folder / name))
        state.check()
        assert all(torch.equal(a, b) for a, b in zip(tensors, before)), name
        load_logical(one_set(*saved)[0], folder / name)
    # Every stage of a pipeline has a type of its own.
    stages = {"dp": 2, "ep": 2, "pp": 2, "layer_stage": [0, 1]}
    mixed = lambda: one_set(torch.float16, False, stages, lambda layer: [torch.float16, torch.bfloat16][layer])[0]
    save_logical(mixed(), folder / "stages")
    held = json.loads((folder / "stages" / "routepack_live_map.json").read_text())
    assert held["sets"]["ema"] == {"element_bytes": 2, "held": "by-slot", "dtype": ["bfloat16", "float16"]}
    load_logical(mixed(), folder / "stages")


class Interrupting(torch.Tensor):
    """Memory in which the first write ends with Ctrl-C."""

    def copy_(self, *arguments):
        super().copy_(*arguments)
        raise KeyboardInterrupt


def ctrl_c_while_a_move_writes_leaves_no_state_that_trains(folder):
    still = Trainer(2, IDENTITY)

    def at(event, number):
        def interrupt(seen, n):
            if (seen, n) == (event, number):
                raise KeyboardInterrupt

        return lambda trainer: Mover(trainer.state, trainer.columns, SMALL, on_event=interrupt)

    def in_a_write(trainer):
        view = trainer.state.view
        trainer.state.view = lambda *piece: view(*piece).as_subclass(Interrupting)
        return Mover(trainer.state, trainer.columns, SMALL)

    def between_map_and_columns(trainer):
        def interrupt(*arguments):
            routepack.torch.mover.set_columns = given
            raise KeyboardInterrupt

        given, routepack.torch.mover.set_columns = routepack.torch.mover.set_columns, interrupt
        return Mover(trainer.state, trainer.columns, SMALL)

    for number, made in enumerate([at("written", 0), at("written", 1), at("pass", 1), in_a_write, between_map_and_columns]):
        trainer = Trainer(2, IDENTITY)
        saved = trainer.canonical()
        fails(KeyboardInterrupt, "", lambda: made(trainer).move(draw(4)))
        trainer.state.__dict__.pop("view", None)
        assert trainer.state.torn, number
        fails(MapMismatch, "weight is laid out by map torn", trainer.train_step)
        fails(MapMismatch, "torn", lambda: save_logical(trainer.state, folder / f"torn{number}"))
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        assert equal(trainer.canonical(), still.canonical())
        trainer.state.agree()


def maps_of_another_shape_are_refused(folder):
    trainer, still = Trainer(2, draw(1)), Trainer(2, draw(1))
    save_logical(trainer.state, folder / "shapes", trainer.columns)

    def load(log2phys):
        with trainer.state.loading(log2phys):
            raise AssertionError("a map of another shape was taken")

    for bad, words in [
        ([list(range(EXPERTS + 1))] * LAYERS, "layers and experts [2, 9], expected [2, 8]"),
        ([list(range(EXPERTS - 1))] * LAYERS, "layers and experts [2, 7], expected [2, 8]"),
        ([[0] + list(range(EXPERTS - 1))] * LAYERS, "layer 0 is no bijection"),
        ([IDENTITY[0], list(range(1, EXPERTS + 1))], "layer 1 is no bijection"),
        ([[slot + 0.5 for slot in range(EXPERTS)]] * LAYERS, "expected integers"),
        (torch.tensor(IDENTITY).double(), "expected integers"),
        ([[slot > 0 for slot in range(EXPERTS)]] * LAYERS, "expected integers"),
        ([IDENTITY[0], [0]], "log2phys"),
        (7, "expected [layers, experts]"),
        ([], "expected [layers, experts]"),
        (None, "expected [layers, experts]"),
        ([IDENTITY[0]], "layers and experts [1, 8], expected [2, 8]"),
        ([IDENTITY[0]] * 3, "layers and experts [3, 8], expected [2, 8]"),
    ]:
        fails(routepack.JobError, words, lambda: load(bad))
        if bad is not None:
            fails(routepack.JobError, words, lambda: load_logical(trainer.state, folder / "shapes", trainer.columns, bad))
        # Layers are those of the map a state begins with.
        if "[1, 8]" not in words and "[3, 8]" not in words:
            fails(routepack.JobError, words, lambda: ExpertState({"dp": DP, "ep": 2}, EXPERTS, bad, TENSORS))
        trainer.state.agree()
        assert trainer.state.log2phys == draw(1) and equal(trainer.canonical(), still.canonical())
    fails(routepack.JobError, "expected [2, 16]", lambda: ExpertState({"dp": DP, "ep": 2}, 16, IDENTITY, TENSORS))
    fails(routepack.JobError, "num_experts", lambda: ExpertState({"dp": DP, "ep": 2}, 8.0, IDENTITY, TENSORS))


def derived_tensors_that_cannot_be_remade_after_a_load_are_stale_on_all_ranks(folder):
    trainer = Trainer(2, IDENTITY)
    save_logical(trainer.state, folder / "derived", trainer.columns)
    well = []
    trainer.state.add_derived("fp8 weights", lambda: None, lambda: well or 1 / 0)

    def load():
        with trainer.state.loading(draw(2)):
            trainer.load(saved)

    saved = trainer.canonical()
    fails(ZeroDivisionError, "", load)
    assert trainer.state.versions["scales"] == trainer.state.versions["weight"] == trainer.state.sha256
    fails(MapMismatch, "fp8 weights is laid out by map", trainer.train_step)
    if dist.get_rank() != 1:
        well.append(True)
    error, words = (ZeroDivisionError, "") if dist.get_rank() == 1 else (routepack.FileError, "rank 1: division by zero")
    fails(error, words, lambda: load_logical(trainer.state, folder / "derived", trainer.columns))
    fails(MapMismatch, "torn", trainer.train_step)
    well.append(True)
    load_logical(trainer.state, folder / "derived", trainer.columns)
    assert equal(trainer.canonical(), saved)
    steps(trainer, 1)


def one_rank_that_loads_by_another_map_is_heard_by_all(folder):
    trainer, still = Trainer(2, draw(3)), Trainer(2, draw(3))
    save_logical(trainer.state, folder / "heard", trainer.columns)
    mine = dist.get_rank() == 2
    load = lambda given=None: load_logical(trainer.state, folder / "heard", trainer.columns, given)
    fails(MapMismatch, "ranks 0 and 2 have different maps: map to load", lambda: load(draw(2 if mine else 1)))
    error, words = (routepack.JobError, "bijection") if mine else (routepack.FileError, "rank 2: ")
    fails(error, words, lambda: load([[0] * EXPERTS] * LAYERS if mine else draw(1)))
    trainer.state.agree()
    assert trainer.state.log2phys == draw(3) and equal(trainer.canonical(), still.canonical())

    def no():
        raise MapMismatch("ranks have different maps")

    trainer.state.agree = no
    fails(MapMismatch, "ranks have different maps", load)
    del trainer.state.agree
    fails(MapMismatch, "torn", trainer.train_step)
    load()
    assert equal(trainer.canonical(), still.canonical())


def a_save_is_on_the_disk_before_it_has_its_name(folder):
    trainer = Trainer(2, IDENTITY)
    seen, sync, rename = [], os.fsync, Path.rename

    def note_sync(opened):
        seen.append(os.path.basename(os.readlink(f"/proc/self/fd/{opened}")))
        sync(opened)

    def note_rename(path, target):
        seen.append("rename")
        return rename(path, target)

    os.fsync, Path.rename = note_sync, note_rename
    try:
        save_logical(trainer.state, folder / "synced", trainer.columns)
    finally:
        os.fsync, Path.rename = sync, rename
    rest = ["routepack_live_map.json", "synced.unfinished", "rename", folder.name] if dist.get_rank() == 0 else []
    assert seen == [f"experts-{dist.get_rank():05}-of-00004.safetensors", *rest], seen


def wrong_state_is_refused_before_it_is_registered(folder):
    state = Trainer(2, IDENTITY).state
    one = lambda elements, dtype=torch.bfloat16: lambda layer, slot, tensor: torch.zeros(elements, dtype=dtype)
    columns = lambda layer, slot, tensor: torch.zeros(HIDDEN, FFN, dtype=torch.bfloat16).t()
    fails(routepack.RoutePackError, "not contiguous: its bytes cannot be moved", lambda: state.add("old", 2, "by-slot", columns))
    fails(routepack.RoutePackError, "up has 116 bytes, expected 120", lambda: state.add("old", 4, "by-slot", one(29, torch.float)))
    few = FlatShards(torch.zeros(5))
    fails(routepack.RoutePackError, "ema: a flat shard of chunk 0 has 20 bytes", lambda: state.add("ema", 4, "flat", few))
    fails(routepack.JobError, "no such tensor", lambda: state.add("ema", 4, "by-slot", one(1), tensors=["lora"]))
    shifted = ParameterShards(lambda layer, slot, tensor: (1, torch.zeros(3)))
    fails(routepack.RoutePackError, "set flat to the trainer's order", lambda: state.add("ema", 4, "flat", shifted))
    fails(routepack.JobError, "rank = 4: the topology has 4 ranks", lambda: ExpertState({"dp": 4, "ep": 2}, EXPERTS, IDENTITY, TENSORS, rank=4))
    fails(routepack.RoutePackError, "a column map of layer 2", lambda: Mover(state, {2: ColumnMap(EXPERTS)}))
    assert "old" not in state.versions and "ema" not in state.versions


def one_rank_with_another_plan_is_heard_by_all(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    mine = dist.get_rank() == 2
    move = lambda target, **options: Mover(trainer.state, trainer.columns, {**SMALL, **options}).move(target)
    fails(MapMismatch, "ranks 0 and 2 have different plan", lambda: move(draw(2 if mine else 1)))
    fails(MapMismatch, "ranks 0 and 2 have different options", lambda: move(draw(1), block_bytes=64 if mine else 128))
    # A plan that one rank cannot even read.
    error = routepack.JobError if mine else MoveFailed
    fails(error, "bijection", lambda: move([[0] * EXPERTS] * LAYERS if mine else draw(1)))
    trainer.state.tensors = {**TENSORS, "up": 30 + mine}
    fails(MapMismatch, "have different layout of state", lambda: move(draw(1)))
    trainer.state.tensors = dict(TENSORS)
    if mine:
        trainer.state.versions["reference"] = "0" * 64
    fails(MapMismatch if mine else MoveFailed, "reference is laid out by map 0000", lambda: move(draw(1)))
    trainer.state.versions["reference"] = trainer.state.sha256
    assert trainer.state.log2phys == IDENTITY
    assert equal(trainer.canonical(), still.canonical())


def views_that_fail_on_one_rank_fail_before_anything_is_written(folder):
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    steps(trainer, 1)
    steps(still, 1)
    weights = trainer.weights
    if dist.get_rank() == 1:
        # Somebody swapped a tensor for one that is not contiguous.
        trainer.weights = [[[tensor.t().contiguous().t() for tensor in place] for place in layer] for layer in weights]
    fails(MoveFailed, "nothing has changed", lambda: Mover(trainer.state, trainer.columns, SMALL).move(draw(4)))
    trainer.weights = weights
    assert equal(trainer.canonical(), still.canonical())
    assert torch.equal(trainer.log_probs(), still.log_probs())


def a_move_to_where_everything_is_does_nothing(folder):
    trainer = Trainer(2, draw(3))
    before = trainer.canonical()
    assert Mover(trainer.state, trainer.columns).move(draw(3)) == {"passes": 0, "staging_bytes": 0}
    assert equal(trainer.canonical(), before)


def one_copy_and_one_expert_rank_move_too(folder):
    """EDP 1: no group to be flat over. EP 1: slots change inside every rank."""
    for ep in [4, 1]:
        still, moving = Trainer(ep, IDENTITY), Trainer(ep, IDENTITY)
        steps(still, 3)
        steps(moving, 1)
        Mover(moving.state, moving.columns, SMALL).move(draw(1))
        steps(moving, 2)
        assert equal(still.canonical(), moving.canonical()), ep
        assert torch.equal(still.log_probs(), moving.log_probs()), ep


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
    shard = FlatShards(torch.zeros(600))
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
    shards = FlatShards(torch.zeros(200), torch.zeros(200))
    state.add("master", 4, "flat", shards)
    fails(routepack.RoutePackError, "flat shards of 1 chunks, the rank has chunk 1", lambda: state.add("m", 4, "flat", FlatShards(torch.zeros(200))))
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


def names_for_weight_synchronisation(folder):
    trainer = Trainer(2, IDENTITY)
    steps(trainer, 1)
    Mover(trainer.state, trainer.columns).move(draw(7))
    mine = {name: tensor.clone() for name, tensor in logical_named_tensors(trainer.state, trainer.weight, TEMPLATE)}
    gathered = [None] * DP
    dist.all_gather_object(gathered, mine)
    named = {name: tensor for part in gathered for name, tensor in part.items()}
    assert len(named) == LAYERS * EXPERTS * len(TENSORS)
    x, _ = trainer.batch(99)
    own = trainer.log_probs()[dist.get_rank() * len(x) : (dist.get_rank() + 1) * len(x)]
    assert torch.allclose(dense_log_probs(trainer.router, named, x), own, atol=1e-6)


def wrong_maps_are_refused(folder):
    trainer = Trainer(2, IDENTITY)
    mover = Mover(trainer.state, trainer.columns)

    def inside():
        with trainer.state.step():
            mover.move(draw(1))

    fails(MapMismatch, "only between steps", inside)
    trainer.state.versions["reference"] = "0" * 64
    fails(MapMismatch, "reference is laid out by map 0000000000000000", trainer.train_step)
    fails(MapMismatch, "reference is laid out", lambda: mover.move(draw(1)))
    trainer.state.versions["reference"] = trainer.state.sha256
    trainer.columns[1].phys2log.copy_(torch.tensor(draw(1)[0]))
    fails(MapMismatch, "the column map of layer 1", lambda: mover.move(draw(1)))
    trainer.columns[1].phys2log.copy_(torch.arange(EXPERTS))
    fails(routepack.JobError, "bijection", lambda: mover.move([[0] * EXPERTS] * LAYERS))
    if dist.get_rank() == 2:
        trainer.state._take(draw(1), "1" * 64)
        trainer.state._settle()
        trainer.state._remake()
    fails(MapMismatch, "ranks have different maps", trainer.state.agree)


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


def unsupported_state_is_refused_by_name(folder):
    model = torch.nn.Linear(2, 2)
    muon = type("Muon", (), {})()
    chained = types.SimpleNamespace(chained_optimizers=[types.SimpleNamespace(optimizer=muon)])
    fails(Unsupported, "Muon: whole-matrix", lambda: refuse_unsupported(model, chained))
    hybrid = type("HybridDeviceOptimizer", (), {})()
    fails(Unsupported, "HybridDeviceOptimizer: hybrid-device offload", lambda: refuse_unsupported(model, hybrid))
    model.fp8_meta = {"recipe": types.SimpleNamespace(delayed=lambda: True)}
    fails(Unsupported, "delayed scaling", lambda: refuse_unsupported(model))
    model.fp8_meta = {"recipe": types.SimpleNamespace(delayed=lambda: False)}
    model.config = types.SimpleNamespace(moe_router_num_groups=8)
    refuse_unsupported(model)
    fails(Unsupported, "group-limited", lambda: refuse_unsupported(model, physical_router=True))
    stacked = torch.nn.Module()
    stacked.experts = torch.nn.Parameter(torch.zeros(2, 2, 2))
    stacked.experts.placements = ()
    fails(Unsupported, "experts: experts stacked in one FSDP2 parameter", lambda: refuse_unsupported(stacked))


CASES = [
    three_steps_a_move_three_steps,
    two_moves_are_their_composition,
    a_failure_anywhere_leaves_old_map_and_old_state,
    a_lost_connection_leaves_old_state_or_none_that_trains,
    saved_at_ep_2_loaded_at_ep_4,
    a_save_that_is_not_what_its_map_says_is_refused,
    a_save_is_whole_or_not_there,
    names_for_weight_synchronisation,
    wrong_maps_are_refused,
    masters_are_moved_not_refilled_from_bf16,
    unsupported_state_is_refused_by_name,
    sets_of_other_elements_are_not_loaded,
    ctrl_c_while_a_move_writes_leaves_no_state_that_trains,
    maps_of_another_shape_are_refused,
    derived_tensors_that_cannot_be_remade_after_a_load_are_stale_on_all_ranks,
    one_rank_that_loads_by_another_map_is_heard_by_all,
    a_save_is_on_the_disk_before_it_has_its_name,
    wrong_state_is_refused_before_it_is_registered,
    one_rank_with_another_plan_is_heard_by_all,
    views_that_fail_on_one_rank_fail_before_anything_is_written,
    a_move_to_where_everything_is_does_nothing,
    one_copy_and_one_expert_rank_move_too,
    scales_are_not_left_behind_by_a_move,
    biases_of_experts_move_with_them,
    expert_adapters_move_with_their_experts,
    chunks_of_virtual_stages_and_pieces_of_parameters,
]


def run_cases(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=DP)
    try:
        for case in CASES:
            case(Path(folder))
            dist.barrier()
            if rank == 0:
                print(f"{case.__name__} ... ok", flush=True)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_cases, args=(folder,), nprocs=DP)
    kills.main()


if __name__ == "__main__":
    main()
