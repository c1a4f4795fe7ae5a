"""Folders of `save_logical`: whole or not there, and loaded as they were saved or not at all."""

import fcntl
import json
import os
import resource
from pathlib import Path

import torch
import torch.distributed as dist

import routepack
from moe import EXPERTS, FFN, IDENTITY, LAYERS, Trainer, draw, equal
from routepack.torch import MapMismatch, Mover, load_logical, save_logical
from shared import everybody_says, fails, first_writes, one_set, steps


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
    for work in [lambda: save_logical(trainer.state, folder / "a.unfinished"), lambda: load_logical(trainer.state, folder / "a.unfinished")]:
        fails(routepack.FileError, "a.unfinished: a name for what is not whole yet", work)
    trainer.state.tear()
    fails(MapMismatch, "torn", lambda: save_logical(trainer.state, folder / "torn"))


def sets_of_other_elements_are_not_loaded(folder):
    """FP32 bytes in a BF16 set are other weights, and every map agrees."""
    for name, saved, mine, words in [
        ("f32", (torch.float,), (torch.bfloat16,), "set ema: element_bytes = 4 was saved, the trainer has 2"),
        ("f16", (torch.float16,), (torch.bfloat16,), "set ema: up of layer 0: 'float16 [5]' was saved, the trainer has 'bfloat16 [5]'"),
        ("slots", (torch.float,), (torch.float, True), "set ema: held = 'by-slot' was saved, the trainer has 'flat'"),
        ("flat", (torch.float, True), (torch.int32, True), "set ema: up of layer 0: 'float32' was saved, the trainer has 'int32'"),
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
    assert held["sets"]["ema"] == {"element_bytes": 2, "held": "by-slot", "tensors": {"up": [f"float16 [{FFN}]", f"bfloat16 [{FFN}]"]}}
    load_logical(mixed(), folder / "stages")


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
    error, words = (ZeroDivisionError, "") if dist.get_rank() == 1 else (routepack.FileError, "rank 1: ZeroDivisionError: division by zero")
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


def a_full_disk_on_one_rank_leaves_nothing_behind(folder):
    """A limit on the size of files is the nearest that needs no rights."""
    trainer = Trainer(2, draw(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if dist.get_rank() == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    heard = everybody_says(lambda: save_logical(trainer.state, folder / "full", trainer.columns))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert heard[2].startswith("FileError") and heard[2].endswith("cannot write: File too large"), heard
    assert all("was given up: rank 2: " in heard[rank] for rank in [0, 1, 3]), heard
    assert not list(folder.glob("full*"))
    dist.barrier()
    save_logical(trainer.state, folder / "full", trainer.columns)


def what_another_job_is_saving_is_left_alone(folder):
    """Its folder was deleted while it was filled, and both failed."""
    trainer = Trainer(2, IDENTITY)
    target, other = folder / "of two", folder / "of two.unfinished"
    held = []
    first_writes(lambda: (other.mkdir(), (other / "theirs").touch(), held.append(os.open(other, os.O_RDONLY)), fcntl.flock(held[0], fcntl.LOCK_EX)))
    heard = everybody_says(lambda: save_logical(trainer.state, target, trainer.columns))
    assert all("of two.unfinished: another run is saving there" in one for one in heard), heard
    assert (other / "theirs").exists() and not target.exists()
    first_writes(lambda: os.close(held[0]))
    # It was killed; and who has saved holds nothing any more.
    for _ in range(2):
        save_logical(trainer.state, target, trainer.columns)
        load_logical(trainer.state, target, trainer.columns)
        first_writes(lambda: (target.rename(other), (other / "theirs").touch()))
    save_logical(trainer.state, target, trainer.columns)
    assert not other.exists() and not (target / "theirs").exists()


CASES = [
    what_another_job_is_saving_is_left_alone,
    a_full_disk_on_one_rank_leaves_nothing_behind,
    saved_at_ep_2_loaded_at_ep_4,
    a_save_is_whole_or_not_there,
    sets_of_other_elements_are_not_loaded,
    derived_tensors_that_cannot_be_remade_after_a_load_are_stale_on_all_ranks,
    one_rank_that_loads_by_another_map_is_heard_by_all,
    a_save_is_on_the_disk_before_it_has_its_name,
]
