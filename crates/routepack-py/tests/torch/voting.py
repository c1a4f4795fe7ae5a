"""Votes of a move: Ctrl-C, failures and devices on one rank alone, between what it has heard and what it does."""

import torch
import torch.distributed as dist

import routepack
import routepack.torch.mover
import routepack.torch.state
from moe import EXPERTS, FFN, IDENTITY, Trainer, draw, equal
from routepack.torch import ExpertState, MapMismatch, Mover, PeersLost
from routepack.torch.devices import finish
from routepack.torch.peers import Peers
from shared import SMALL, everybody_says, fails, steps

# Votes of a move of one pass.
PREPARED, ALLOCATED, ARRIVED, WRITTEN, DONE = range(5)


class InterruptedVote:
    """Ctrl-C on rank 2 once it has heard a vote, as where a trainer's own handler raises it: the others have heard it too."""

    def __init__(self, at):
        self.at, self.seen = at, 0

    def __enter__(self):
        self.hear = dist.all_gather_object
        dist.all_gather_object = self.vote

    def vote(self, *arguments, **named):
        self.hear(*arguments, **named)
        self.seen += 1
        if dist.get_rank() == 2 and self.seen == self.at + 1:
            raise KeyboardInterrupt

    def __exit__(self, *error):
        dist.all_gather_object = self.hear


def ctrl_c_inside_of_a_vote_leaves_no_half_of_a_move_that_trains(folder):
    """After ALLOCATED messages wait as long as the trainer's own group does, which nobody wants to see here."""
    still = Trainer(2, IDENTITY)
    for at, others, torn in [
        (PREPARED, "PeersLost", []),
        (ARRIVED, "PeersLost", [0, 1, 2, 3]),
        (WRITTEN, "PeersLost", [2]),
        (DONE, "nothing", []),
    ]:
        trainer = Trainer(2, IDENTITY)
        # Groups are told apart by their patience, and no other case leaves one of this behind.
        trainer.state.peers = Peers(3.0)
        saved = trainer.canonical()
        with InterruptedVote(at):
            outcome = []
            try:
                assert Mover(trainer.state, trainer.columns).move(draw(4))["passes"] == 1
            except (PeersLost, KeyboardInterrupt) as found:
                outcome.append(type(found).__name__)
        said = outcome[0] if outcome else "nothing"
        assert said == ("KeyboardInterrupt" if dist.get_rank() == 2 else others), (at, said)
        assert trainer.state.torn == (dist.get_rank() in torn), at
        if trainer.state.torn:
            fails(MapMismatch, "torn", trainer.state.check)
        else:
            trainer.state.check()
            assert trainer.state.log2phys == (IDENTITY if at == PREPARED else draw(4)), at
        # Nobody votes any more, and whoever is not torn is whole.
        fails(PeersLost, "", trainer.state.agree)
        dist.barrier()
        trainer.state.peers = Peers(1800.0)
        if not torn:
            assert equal(trainer.canonical(), still.canonical()), at
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        trainer.state.agree()
        assert equal(trainer.canonical(), still.canonical())


def a_dispatcher_that_fails_on_one_rank_is_heard_by_all(folder):
    """When a move is done, and when it was given up: the failing rank is torn, and nobody trains or saves beside it."""
    given = routepack.torch.state.set_columns

    def broken(*arguments):
        raise RuntimeError("no such buffer")

    def give_up(event, number):
        assert (event, number) != ("vote", 1) or dist.get_rank() != 1

    still = Trainer(2, IDENTITY)
    for on_event, why in [
        (lambda event, number: None, "MapMismatch: the move is done, but remaking derived sets was given up: rank 2: RuntimeError: no such buffer"),
        (give_up, "rank 1: AssertionError: ; nothing has changed; then remaking derived sets was given up: rank 2: RuntimeError: no such buffer"),
    ]:
        trainer = Trainer(2, IDENTITY)
        saved = trainer.canonical()
        mover = Mover(trainer.state, trainer.columns, SMALL, on_event=on_event)
        if dist.get_rank() == 2:
            routepack.torch.state.set_columns = broken
        try:
            heard = everybody_says(lambda: mover.move(draw(4)))
        finally:
            routepack.torch.state.set_columns = given
        assert heard[2] == "RuntimeError: no such buffer", heard
        assert all(why in heard[rank] for rank in [0, 3]), heard
        assert trainer.state.torn == (dist.get_rank() == 2)
        fails(MapMismatch, "is laid out by map torn", trainer.state.agree)
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        steps(trainer, 1)
        trainer.state.agree()
    steps(still, 1)
    assert equal(trainer.canonical(), still.canonical())


def votes_wait_for_devices(folder):
    """Under NCCL a request that was waited for may be under way still."""
    order = []
    given, routepack.torch.mover.finish = routepack.torch.mover.finish, lambda devices: order.append([device.type for device in devices])
    try:
        trainer = Trainer(2, IDENTITY)
        hear = trainer.state.peers.hear
        trainer.state.peers.hear = lambda said, what: (order.append("vote"), hear(said, what))[1]
        Mover(trainer.state, trainer.columns).move(draw(4))
    finally:
        routepack.torch.mover.finish = given
    assert order[:3] == ["vote", "vote", ["cpu"]] and order[3] == "vote" and set(order[4]) == {"cpu"} and order[5:] == ["vote"] * 2, order
    asked = []
    kind = type("device", (), {"type": "made_up"})()
    torch.made_up = type("made_up", (), {"synchronize": staticmethod(asked.append)})
    try:
        finish([kind, torch.device("cpu"), kind])
    finally:
        del torch.made_up
    assert asked == [kind]


def buffers_on_two_types_of_device_are_refused(folder):
    given = routepack.torch.mover.device_of
    if dist.get_rank() == 3:
        routepack.torch.mover.device_of = lambda *arguments: torch.device("meta")
    trainer = Trainer(2, IDENTITY)
    try:
        fails(MapMismatch, "ranks 0 and 3 have different device of buffers: cpu and meta", lambda: Mover(trainer.state, trainer.columns).move(draw(4)))
    finally:
        routepack.torch.mover.device_of = given
    assert trainer.state.log2phys == IDENTITY
    trainer.state.agree()


def patience_is_a_number_of_seconds(folder):
    made = lambda patience: ExpertState({"dp": 4, "ep": 2}, EXPERTS, IDENTITY, {"up": FFN}, patience=patience)
    for wrong in [0, -1, float("nan"), float("inf"), 1e300, "60", True, None]:
        fails(routepack.JobError, "patience = ", lambda: made(wrong))
    made(60).agree()


CASES = [
    ctrl_c_inside_of_a_vote_leaves_no_half_of_a_move_that_trains,
    a_dispatcher_that_fails_on_one_rank_is_heard_by_all,
    votes_wait_for_devices,
    buffers_on_two_types_of_device_are_refused,
    patience_is_a_number_of_seconds,
]
