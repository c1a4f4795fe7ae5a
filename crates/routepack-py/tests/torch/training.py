"""Training does not notice that experts move: four gloo processes, EP 2 × EDP 2."""

import os
import sys
import tempfile
import traceback
import types
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import routepack
from moe import DP, EXPERTS, IDENTITY, LAYERS, TENSORS, Trainer, dense_log_probs, draw, equal
from routepack.torch import MapMismatch, MoveFailed, Mover, Unsupported, logical_named_tensors, refuse_unsupported

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
    assert all(moving.scales[l][s % 4] == float(moving.weight(l, s, 0).float().abs().max()) for l, s, _ in moving.slots())
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
    assert all(torch.equal(once.shards[name].shard, twice.shards[name].shard) for name in once.shards)


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
    trainer.state.loaded(IDENTITY)
    trainer.load(saved)
    steps(trainer, 1)
    steps(still, 1)
    assert equal(trainer.canonical(), still.canonical())


def saved_at_ep_2_loaded_at_ep_4(folder):
    two = Trainer(2, IDENTITY)
    steps(two, 2)
    Mover(two.state, two.columns).move(draw(5))
    two.state.agree()
    saved = two.canonical()
    four = Trainer(4, draw(6))
    four.load(saved)
    assert equal(four.canonical(), saved)
    assert torch.equal(four.log_probs(), two.log_probs())
    # Gradients are summed in another order: two shards of two ranks, or one of four.
    four.steps_done = two.steps_done
    steps(two, 1)
    steps(four, 1)
    left, right = two.canonical()["master"], four.canonical()["master"]
    assert max(float((left[key] - right[key]).abs().max()) for key in left) < 1e-5


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
        trainer.state._commit(draw(1), "1" * 64)
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


def killed(event, number):
    """A process that dies here when it is told to."""

    def die(seen, at):
        if dist.get_rank() == 2 and (seen, at) == (event, number):
            os._exit(9)

    return die


def move_and_die(folder, event, number):
    trainer = Trainer(2, IDENTITY)
    steps(trainer, 1)
    if dist.get_rank() == 0:
        torch.save({"step": 1, "state": trainer.canonical()}, folder / "saved.pt")
    else:
        trainer.canonical()
    dist.barrier()
    Mover(trainer.state, trainer.columns, SMALL, on_event=killed(event, number)).move(draw(9))


def resumed_after_a_kill(folder):
    saved = torch.load(folder / "saved.pt")
    resumed, still = Trainer(2, draw(10)), Trainer(2, IDENTITY)
    resumed.load(saved["state"])
    resumed.steps_done = saved["step"]
    resumed.state.agree()
    steps(resumed, 2)
    steps(still, 3)
    assert equal(resumed.canonical(), still.canonical())


CASES = [
    three_steps_a_move_three_steps,
    two_moves_are_their_composition,
    a_failure_anywhere_leaves_old_map_and_old_state,
    a_lost_connection_leaves_old_state_or_none_that_trains,
    saved_at_ep_2_loaded_at_ep_4,
    names_for_weight_synchronisation,
    wrong_maps_are_refused,
    masters_are_moved_not_refilled_from_bf16,
    unsupported_state_is_refused_by_name,
]


def process(rank, folder, work, quiet=False):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=DP)
    try:
        work()
    except Exception:
        if not quiet:
            traceback.print_exc()
        sys.exit(1)


def run_cases(rank, folder):
    def all_cases():
        for case in CASES:
            case(Path(folder))
            dist.barrier()
            if rank == 0:
                print(f"{case.__name__} ... ok", flush=True)

    process(rank, folder, all_cases)


def run_kill(rank, folder, meet, event, number):
    process(rank, meet, lambda: move_and_die(Path(folder), event, number), quiet=True)


def run_resume(rank, folder, meet):
    process(rank, meet, lambda: resumed_after_a_kill(Path(folder)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_cases, args=(folder,), nprocs=DP)
    for event, number in [("pass", 1), ("vote", 1), ("written", 1)]:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            try:
                mp.spawn(run_kill, args=(folder, one, event, number), nprocs=DP)
            except (mp.ProcessExitedException, mp.ProcessRaisedException):
                pass
            else:
                raise AssertionError("nobody was killed")
            mp.spawn(run_resume, args=(folder, two), nprocs=DP)
        print(f"killed at {event} {number}, resumed ... ok", flush=True)


if __name__ == "__main__":
    main()
