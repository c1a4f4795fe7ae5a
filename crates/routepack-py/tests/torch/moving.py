"""Moves that fail, and moves of every shape: all ranks, or none."""

import torch
import torch.distributed as dist

import routepack
from moe import DP, EXPERTS, IDENTITY, LAYERS, TENSORS, Trainer, draw, equal
from routepack.torch import (
    ExpertState,
    MapMismatch,
    MoveFailed,
    Mover,
    PeersLost,
    load_logical,
    logical_named_tensors,
    save_logical,
)
from shared import SMALL, TEMPLATE, fails, steps


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


def a_lost_connection_leaves_old_state_or_none_that_trains(folder):
    def cut(trainer, at):
        """From the vote of this number on nobody is heard."""
        hear, seen = trainer.state.peers.hear, []

        def silence(*said):
            seen.append(said)
            if len(seen) > at:
                raise trainer.state.peers.lost("connection closed")
            return hear(*said)

        trainer.state.peers.hear = silence
        fails(PeersLost, "connection closed", lambda: Mover(trainer.state, trainer.columns, SMALL).move(draw(4)))
        del trainer.state.peers.hear

    still = Trainer(2, IDENTITY)
    # Plans, buffers: nobody can have written. Then others may have: first pass, its writes, second pass.
    for at in range(5):
        trainer = Trainer(2, IDENTITY)
        saved = trainer.canonical()
        cut(trainer, at)
        assert trainer.state.torn == (at > 1), at
        if at > 1:
            fails(MapMismatch, "weight is laid out by map torn", trainer.train_step)
            fails(MapMismatch, "torn", lambda: logical_named_tensors(trainer.state, trainer.weight, TEMPLATE))
        else:
            assert equal(trainer.canonical(), still.canonical())
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        # Who has heard what is not known: no more votes.
        fails(PeersLost, "the job has to begin anew", lambda: Mover(trainer.state, trainer.columns).move(draw(5)))
        fails(PeersLost, "the job has to begin anew", lambda: save_logical(trainer.state, folder / "lost", trainer.columns))
        assert equal(trainer.canonical(), still.canonical())


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


def two_moves_are_their_composition(folder):
    twice, once = Trainer(2, draw(3)), Trainer(2, draw(3))
    for target in [draw(1), draw(2)]:
        Mover(twice.state, twice.columns).move(target)
    Mover(once.state, once.columns, SMALL).move(draw(2))
    for layer, slot, _ in once.slots():
        assert all(torch.equal(once.weight(layer, slot, t), twice.weight(layer, slot, t)) for t in range(2))
    assert all(torch.equal(once.shards[name].shards[0], twice.shards[name].shards[0]) for name in once.shards)


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
        trainer.state.take(draw(1))
        trainer.state.settle()
        trainer.state.remake()
    fails(MapMismatch, "ranks have different maps", trainer.state.agree)


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


CASES = [
    a_failure_anywhere_leaves_old_map_and_old_state,
    a_lost_connection_leaves_old_state_or_none_that_trains,
    one_rank_with_another_plan_is_heard_by_all,
    views_that_fail_on_one_rank_fail_before_anything_is_written,
    a_move_to_where_everything_is_does_nothing,
    one_copy_and_one_expert_rank_move_too,
    two_moves_are_their_composition,
    wrong_maps_are_refused,
    maps_of_another_shape_are_refused,
]
