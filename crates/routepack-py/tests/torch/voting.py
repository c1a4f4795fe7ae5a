"""Votes of a move: Ctrl-C, failures and devices on one rank alone, between what it has heard and what it does."""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist

import routepack
import routepack.torch.mover
import routepack.torch.peers
import routepack.torch.state
from moe import EXPERTS, FFN, IDENTITY, Trainer, draw, equal
from routepack.torch import ExpertState, MapMismatch, Mover, PeersLost, VotesDiffer, load_logical, save_logical
from routepack.torch.devices import finish
from routepack.torch.peers import Interrupts, Peers
from shared import SMALL, everybody_says, fails, steps

# Votes of a move of one pass.
PREPARED, ALLOCATED, ARRIVED, WRITTEN, DONE = range(5)


class InterruptedVote:
    """Ctrl-C on rank 2 once it has heard a vote, as where a trainer's own handler raises it: the others have heard it too."""

    def __init__(self, at):
        self.at, self.seen = at, 0

    def __enter__(self):
        self.gathered = routepack.torch.peers._gathered
        routepack.torch.peers._gathered = self.vote

    def vote(self, *arguments):
        heard = self.gathered(*arguments)
        self.seen += 1
        if dist.get_rank() == 2 and self.seen == self.at + 1:
            raise KeyboardInterrupt
        return heard

    def __exit__(self, *error):
        routepack.torch.peers._gathered = self.gathered


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
        fails(MapMismatch if trainer.state.torn else PeersLost, "", trainer.state.agree)
        dist.barrier()
        trainer.state.peers = Peers(1800.0)
        if not torn:
            assert equal(trainer.canonical(), still.canonical()), at
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        trainer.state.agree()
        assert equal(trainer.canonical(), still.canonical())


class Left(Exception):
    """Rank 2 leaves a call before its vote of this number, as where a handler of its own raises."""

    @staticmethod
    def from_call(peers, at, work):
        seen, hear = [], peers.hear

        def leave(*said):
            seen.append(said)
            if len(seen) > at:
                raise Left
            return hear(*said)

        peers.hear = leave
        try:
            fails(Left, "", work)
        finally:
            del peers.hear


def a_rank_that_left_a_call_answers_for_no_other(folder):
    """Whatever it calls next: all hear what ranks are in, nobody is half moved and fit for a step, and the job goes on."""
    still = Trainer(2, IDENTITY)
    good = folder / "left.good"
    save_logical(still.state, good)
    move = lambda trainer: Mover(trainer.state, trainer.columns).move(draw(4))
    number = [0]
    save = lambda trainer: save_logical(trainer.state, folder / f"left.saved{number[0]}", trainer.columns)
    load = lambda trainer: load_logical(trainer.state, good, trainer.columns)
    agree = lambda trainer: trainer.state.agree()
    in_move = ["plan", "buffers", "pass 0 received", "pass 0 written", "derived sets"]
    calls = [
        *(("a move: " + vote, move, at) for at, vote in enumerate(in_move)),
        *(("saving: " + vote, save, at) for at, vote in enumerate(["arguments", "the folder", "shards", "the map"])),
        *(("loading: " + vote, load, at) for at, vote in enumerate(["arguments", "sets"])),
    ]
    for vote, call, at in calls:
        for other, first in [(agree, "comparing maps"), (move, "a move: plan"), (save, "saving: arguments"), (load, "loading: arguments")]:
            if vote == first:
                # The same call: there is no other.
                continue
            number[0] += 1
            trainer = Trainer(2, IDENTITY)
            if dist.get_rank() == 2:
                Left.from_call(trainer.state.peers, at, lambda: call(trainer))
            heard = everybody_says(lambda: (other if dist.get_rank() == 2 else call)(trainer))
            for said in heard:
                assert said.startswith("VotesDiffer: "), (vote, first, heard)
                assert f"ranks [0, 1, 3]: vote " in said and f", {vote} (state" in said and f"ranks [2]: vote " in said and f", {first} (" in said, heard
            dist.barrier()
            # All have written, and it has its name: whole.
            found = [f"left.saved{number[0]}"] if vote == "saving: the map" else []
            assert [path.name for path in folder.glob(f"left.saved{number[0]}*")] == found, (vote, first)
            if found:
                load_logical(trainer.state, folder / found[0], trainer.columns)
            state, torn = trainer.state, [None] * 4
            dist.all_gather_object(torn, trainer.state.torn)
            # Rank 2 cannot know whether the others write; a load is begun anew.
            expected = {"a move: pass 0 received": [2], "a move: pass 0 written": [0, 1, 2, 3], "loading: sets": [0, 1, 2, 3]}
            assert [rank for rank in range(4) if torn[rank]] == expected.get(vote, []), (vote, first, torn)
            if any(torn):
                fails(MapMismatch, "torn", state.agree)
                load_logical(state, good, trainer.columns)
            state.agree()
            assert state.log2phys == (draw(4) if vote == "a move: derived sets" else IDENTITY)
            assert equal(trainer.canonical(), still.canonical()), (vote, first)
            # And on it goes.
            Mover(state, trainer.columns, SMALL).move(draw(5))
            assert equal(trainer.canonical(), still.canonical()), (vote, first)


def one_state_is_not_moved_for_another(folder):
    """Two models whose states look alike."""
    one, other = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    saved = one.canonical()
    mine = other if dist.get_rank() == 1 else one
    number = one.state.peers.number
    fails(VotesDiffer, f"a move: plan (state {number + 1})", lambda: Mover(mine.state, mine.columns).move(draw(4)))
    for trainer in [one, other]:
        assert trainer.state.log2phys == IDENTITY
        assert equal(trainer.canonical(), saved)


def a_second_ctrl_c_ends_a_vote_that_waits(folder):
    """The first waits for the others; with the second this rank is gone for them."""
    press = lambda: os.kill(os.getpid(), signal.SIGINT)
    for presses in [1, 2]:
        trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
        trainer.state.peers = Peers(4.0 + presses / 8)
        trainer.state.agree()
        mover = Mover(trainer.state, trainer.columns, SMALL)
        dist.barrier()
        begun, said = time.monotonic(), "nothing"
        if dist.get_rank() == 2:
            for number in range(presses):
                threading.Timer(0.3 + 0.3 * number, press).start()
        else:
            time.sleep(1.5)
        try:
            mover.move(draw(4))
        except (KeyboardInterrupt, routepack.RoutePackError) as found:
            said = f"{type(found).__name__}: {found}"
        took = time.monotonic() - begun
        if dist.get_rank() == 2:
            assert said.startswith("KeyboardInterrupt") and (took < 1.4) == (presses == 2), (said, took)
        elif presses == 2:
            assert said.startswith("PeersLost: a move: a rank is gone, or did not answer within") and took < 60, said
            fails(PeersLost, "the job has to begin anew", trainer.state.agree)
        else:
            assert said.startswith("MoveFailed: a move was given up: rank 2: interrupted; nothing has changed"), said
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        dist.barrier()
        assert trainer.state.log2phys == IDENTITY and not trainer.state.torn
        assert equal(trainer.canonical(), still.canonical())


def python_has_its_handler_back_after_a_second_ctrl_c(folder):
    """Also where it comes while Interrupts are left."""
    interrupts = Interrupts()
    interrupts.__enter__()
    os.kill(os.getpid(), signal.SIGINT)
    fails(KeyboardInterrupt, "", lambda: os.kill(os.getpid(), signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def ctrl_c_after_the_last_vote_comes_too_late(folder):
    """All have moved, saved or loaded: rank 2 too, and the others do not hear of it."""
    press = lambda: os.kill(os.getpid(), signal.SIGINT)
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    for work, votes in [
        (lambda: Mover(trainer.state, trainer.columns).move(draw(4)), 5),
        (lambda: save_logical(trainer.state, folder / "late", trainer.columns, {"step": 1}), 4),
        (lambda: load_logical(trainer.state, folder / "late", trainer.columns, draw(5)), 3),
    ]:
        seen, hear = [], trainer.state.peers.hear

        def last(*said):
            heard = hear(*said)
            seen.append(said)
            if len(seen) == votes and dist.get_rank() == 2:
                press()
            return heard

        trainer.state.peers.hear = last
        heard = everybody_says(work)
        del trainer.state.peers.hear
        assert len(seen) == votes and heard == ["nothing", "nothing", "KeyboardInterrupt: ", "nothing"], (seen, heard)
        trainer.state.agree()
        assert equal(trainer.canonical(), still.canonical())
    assert trainer.state.log2phys == draw(5)
    assert load_logical(trainer.state, folder / "late", trainer.columns) == {"step": 1}


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
        trainer.state.peers.hear = lambda *said: (order.append("vote"), hear(*said))[1]
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
    """Before any is taken: messages would wait for each other."""

    def nothing(event, number):
        raise AssertionError(f"{event} {number}: not refused")

    given = routepack.torch.mover.device_of
    if dist.get_rank() == 3:
        routepack.torch.mover.device_of = lambda *arguments: torch.device("meta")
    trainer = Trainer(2, IDENTITY)
    mover = Mover(trainer.state, trainer.columns, on_event=nothing)
    try:
        fails(MapMismatch, "ranks 0 and 3 have different device of buffers: cpu and meta", lambda: mover.move(draw(4)))
    finally:
        routepack.torch.mover.device_of = given
    assert trainer.state.log2phys == IDENTITY
    trainer.state.agree()


def patience_is_a_number_of_seconds(folder):
    made = lambda patience: ExpertState({"dp": 4, "ep": 2}, EXPERTS, IDENTITY, {"up": FFN}, patience=patience)
    for wrong in [0, -1, float("nan"), float("inf"), 1e300, "60", True, None]:
        fails(routepack.JobError, "patience = ", lambda: made(wrong))
    made(60).agree()


def patience_is_the_same_on_all_ranks(folder):
    made = lambda patience: ExpertState({"dp": 4, "ep": 2}, EXPERTS, IDENTITY, {"up": FFN}, patience=patience)
    refused = lambda: fails(
        routepack.JobError, "patience: rank 0 was given 61 s, rank 3 62 s: expected the same on all ranks", lambda: made(62 if dist.get_rank() == 3 else 61)
    )
    refused()
    made(61).agree()
    # The first state of a job, too.
    given, routepack.torch.peers.Peers._meeting = routepack.torch.peers.Peers._meeting, None
    circles = dict(Peers._circles)
    Peers._circles.clear()
    refused()
    refused()
    made(61).agree()
    Peers._circles.update(circles)
    routepack.torch.peers.Peers._meeting = given


def a_state_that_is_refused_on_one_rank_is_refused_on_all(folder):
    """The others waited for it. The first state of a job, and a later one."""
    right = {"topology": {"dp": 4, "ep": 2}, "num_experts": EXPERTS, "log2phys": IDENTITY, "tensors": {"up": FFN}}
    given, routepack.torch.peers.Peers._meeting = routepack.torch.peers.Peers._meeting, None
    circles = dict(Peers._circles)
    Peers._circles.clear()
    for wrong in [{"topology": {"dp": 4, "ep": 3}}, {"num_experts": 0}, {"log2phys": [[0]]}, {"tensors": 3}, {"patience": -1}, {"flat": {"what": 1}}]:
        mine = {**right, **wrong} if dist.get_rank() == 2 else right
        heard = everybody_says(lambda: ExpertState(**mine))
        words = heard[2].removeprefix("JobError: ")
        assert words != heard[2] and all(one == f"JobError: the state of rank 2 was refused: {words}" for one in [*heard[:2], heard[3]]), heard
        heard = everybody_says(lambda: ExpertState(**{**right, **wrong}))
        assert heard == [f"JobError: {words}"] * 4, heard
    ExpertState(**right).agree()
    heard = everybody_says(lambda: ExpertState(**mine))
    assert all("the state of rank 2 was refused" in one for one in [*heard[:2], heard[3]]), heard
    ExpertState(**right).agree()
    Peers._circles.update(circles)
    routepack.torch.peers.Peers._meeting = given


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("mute")


def an_error_without_words_is_heard_and_so_is_ctrl_c_where_maps_are_compared(folder):
    """A rank that failed to say what is wrong left the vote, and one that compared maps left it at once."""
    trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    trainer.state.peers = Peers(9.0)
    trainer.state.agree()

    def mute(event, number):
        if dist.get_rank() == 2:
            raise Mute

    heard = everybody_says(lambda: Mover(trainer.state, trainer.columns, on_event=mute).move(draw(4)))
    assert "a move was given up: Mute: has no words; nothing has changed" in heard[2], heard
    assert all("a move was given up: rank 2: Mute: has no words; nothing has changed" in one for one in [*heard[:2], heard[3]]), heard
    for error, words in [(KeyboardInterrupt(), "interrupted"), (ZeroDivisionError("of it"), "ZeroDivisionError: of it")]:

        def broken():
            raise error

        if dist.get_rank() == 2:
            trainer.state.check = broken
        heard = everybody_says(trainer.state.agree)
        trainer.state.__dict__.pop("check", None)
        assert heard[2].startswith(type(error).__name__), heard
        assert all(one == f"MapMismatch: comparing maps was given up: rank 2: {words}" for one in [*heard[:2], heard[3]]), heard
    # While it waits for others: it comes too late, and only there.
    press = lambda: os.kill(os.getpid(), signal.SIGINT)
    if dist.get_rank() == 2:
        threading.Timer(0.3, press).start()
    else:
        time.sleep(1.0)
    heard = everybody_says(trainer.state.agree)
    assert heard == ["nothing", "nothing", "KeyboardInterrupt: ", "nothing"], heard
    trainer.state.agree()
    assert trainer.state.log2phys == IDENTITY and equal(trainer.canonical(), still.canonical())


CASES = [
    a_state_that_is_refused_on_one_rank_is_refused_on_all,
    an_error_without_words_is_heard_and_so_is_ctrl_c_where_maps_are_compared,
    ctrl_c_inside_of_a_vote_leaves_no_half_of_a_move_that_trains,
    a_rank_that_left_a_call_answers_for_no_other,
    one_state_is_not_moved_for_another,
    a_second_ctrl_c_ends_a_vote_that_waits,
    python_has_its_handler_back_after_a_second_ctrl_c,
    ctrl_c_after_the_last_vote_comes_too_late,
    a_dispatcher_that_fails_on_one_rank_is_heard_by_all,
    votes_wait_for_devices,
    buffers_on_two_types_of_device_are_refused,
    patience_is_a_number_of_seconds,
    patience_is_the_same_on_all_ranks,
]
