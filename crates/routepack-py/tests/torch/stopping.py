"""Ctrl-C, and ranks that fail, are gone or silent: the others hear of it, in bounded time."""

import os
import signal
import time

import torch
import torch.distributed as dist

import routepack
import routepack.torch.at_rest
import routepack.torch.columns
import routepack.torch.peers
import routepack.torch.state
from moe import IDENTITY, Trainer, draw, equal
from routepack.torch import MapMismatch, Mover, PeersLost, load_logical, save_logical
from routepack.torch.peers import Interrupts, Peers
from shared import SMALL, everybody_says, fails, steps


class Interrupting(torch.Tensor):
    """Memory in which the first write ends with Ctrl-C."""

    def copy_(self, *arguments):
        super().copy_(*arguments)
        raise KeyboardInterrupt


def cut_in_a_write(trainer):
    view = trainer.state.view
    trainer.state.view = lambda *piece: view(*piece).as_subclass(Interrupting)
    return Mover(trainer.state, trainer.columns, SMALL)


def cut_between_map_and_columns(trainer):
    def interrupt(*arguments):
        routepack.torch.state.set_columns = given
        raise KeyboardInterrupt

    given, routepack.torch.state.set_columns = routepack.torch.state.set_columns, interrupt
    return Mover(trainer.state, trainer.columns, SMALL)


def at(event, number, work):
    """A mover that does this there."""

    def note(seen, n):
        if (seen, n) == (event, number):
            work()

    return lambda trainer: Mover(trainer.state, trainer.columns, SMALL, on_event=note)


def interrupt():
    raise KeyboardInterrupt


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def what_ends_a_move_while_it_writes_leaves_no_state_that_trains(folder):
    still = Trainer(2, IDENTITY)
    for number, made in enumerate([at("written", 0, interrupt), at("written", 1, interrupt), cut_in_a_write, cut_between_map_and_columns]):
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


def one_rank_that_fails_while_it_writes_is_heard_by_all(folder):
    for made in [cut_in_a_write, at("written", 0, interrupt), at("written", 1, lambda: 1 / 0)]:
        trainer = Trainer(2, IDENTITY)
        saved = trainer.canonical()
        if dist.get_rank() != 2:
            made = lambda trainer: Mover(trainer.state, trainer.columns, SMALL)
        heard = everybody_says(lambda: made(trainer).move(draw(4)))
        trainer.state.__dict__.pop("view", None)
        assert heard[2].startswith(("KeyboardInterrupt", "ZeroDivisionError")), heard
        assert all(heard[rank].startswith("MapMismatch: rank 2 could not write what moved: ") for rank in [0, 1, 3]), heard
        fails(MapMismatch, "torn", trainer.state.check)
        with trainer.state.loading(IDENTITY):
            trainer.load(saved)
        trainer.state.agree()


def ctrl_c_on_one_rank_gives_a_move_up_on_all(folder):
    """Wherever it comes: nothing has moved, or all of it has."""
    still, trainer = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
    for event, number in [("allocate", 0), ("pass", 0), ("vote", 0), ("written", 0), ("pass", 1), ("vote", 2)]:
        # A signal, or an exception: from a debugger, or a library's own handler.
        for ended in [press_ctrl_c, interrupt] if event != "written" else [press_ctrl_c]:
            work = ended if dist.get_rank() == 2 else lambda: None
            heard = everybody_says(lambda: at(event, number, work)(trainer).move(draw(4)))
            assert heard[2].startswith("KeyboardInterrupt"), (event, number, heard)
            assert all("was given up: rank 2: interrupted; nothing has changed" in heard[rank] for rank in [0, 1, 3]), (event, number, heard)
            trainer.state.agree()
            assert trainer.state.log2phys == IDENTITY and equal(trainer.canonical(), still.canonical())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # After the last vote: done everywhere, and then Ctrl-C.
    last = Mover(trainer.state, trainer.columns, SMALL).move(draw(4))["passes"] - 1
    work = press_ctrl_c if dist.get_rank() == 2 else lambda: None
    heard = everybody_says(lambda: at("written", last, work)(trainer).move(IDENTITY))
    assert heard[2].startswith("KeyboardInterrupt") and all("the move is done" in heard[rank] for rank in [0, 1, 3]), heard
    trainer.state.agree()
    steps(trainer, 1)
    steps(still, 1)
    assert equal(trainer.canonical(), still.canonical())


def in_the_work_of(name, ended):
    """What `at_rest` calls by this name ends so, once its work is done, on rank 2."""
    module = routepack.torch.at_rest
    given = getattr(module, name)

    def work(*arguments):
        done = given(*arguments)
        ended()
        return done

    class Replaced:
        def __enter__(self):
            if dist.get_rank() == 2:
                setattr(module, name, work)

        def __exit__(self, *error):
            setattr(module, name, given)

    return Replaced()


def ctrl_c_on_one_rank_gives_a_save_or_a_load_up_on_all(folder):
    trainer, victim = Trainer(2, draw(1)), Trainer(2, IDENTITY)
    steps(trainer, 1)
    good, number = folder / "pressed", 0
    save_logical(trainer.state, good, trainer.columns, {"step": 1})
    for ended in [press_ctrl_c, interrupt, lambda: 1 / 0]:
        for name in ["by_layer", "check_columns", "write_shard"]:
            number += 1
            with in_the_work_of(name, ended):
                heard = everybody_says(lambda: save_logical(trainer.state, folder / f"pressed{number}", trainer.columns))
            assert heard[2].startswith(("KeyboardInterrupt", "ZeroDivisionError")), (name, heard)
            assert all("saving was given up: rank 2: " in heard[rank] for rank in [0, 1, 3]), (name, heard)
            assert not list(folder.glob(f"pressed{number}*")), name
            dist.barrier()
        for name in ["read_map", "Saved", "_fill"]:
            with in_the_work_of(name, ended):
                heard = everybody_says(lambda: load_logical(victim.state, good, victim.columns))
            assert heard[2].startswith(("KeyboardInterrupt", "ZeroDivisionError")), (name, heard)
            assert all("loading was given up: rank 2: " in heard[rank] for rank in [0, 1, 3]), (name, heard)
            if name == "_fill":
                fails(MapMismatch, "torn", victim.state.check)
            else:
                victim.state.agree()
        load_logical(victim.state, good, victim.columns)
        assert equal(victim.canonical(), trainer.canonical())


def signals_are_held_back_only_where_it_matters(folder):
    with Interrupts() as interrupts:
        press_ctrl_c()
        fails(KeyboardInterrupt, "", interrupts.heed)
        # Who presses twice means it.
        fails(KeyboardInterrupt, "", press_ctrl_c)
        interrupts.came = False

    def hold():
        with Interrupts():
            press_ctrl_c()

    fails(KeyboardInterrupt, "", hold)
    # A trainer's own handler hears at once and decides.
    heard = []
    own = lambda number, frame: heard.append(number)
    before = signal.signal(signal.SIGINT, own)
    with Interrupts() as interrupts:
        press_ctrl_c()
        assert heard == [signal.SIGINT]
        interrupts.heed()
    assert signal.getsignal(signal.SIGINT) is own
    signal.signal(signal.SIGINT, before)


def a_rank_that_is_silent_is_waited_for_no_longer_than_said(folder):
    trainer = Trainer(2, IDENTITY)
    trainer.state.peers = Peers(2.0)
    trainer.state.agree()
    begun = time.monotonic()
    if dist.get_rank() == 3:
        time.sleep(4)
    else:
        fails(PeersLost, "a rank is gone, or did not answer within 2 s", lambda: save_logical(trainer.state, folder / "silent", trainer.columns))
        assert time.monotonic() - begun < 20
        # And every later vote ends at once.
        fails(PeersLost, "the job has to begin anew", trainer.state.agree)
    dist.barrier()
    assert not (folder / "silent").exists()
    # The trainer's own groups live on; a state with groups of its own is as good as new.
    fresh = Trainer(2, IDENTITY)
    fresh.state.agree()


CASES = [
    what_ends_a_move_while_it_writes_leaves_no_state_that_trains,
    one_rank_that_fails_while_it_writes_is_heard_by_all,
    ctrl_c_on_one_rank_gives_a_move_up_on_all,
    ctrl_c_on_one_rank_gives_a_save_or_a_load_up_on_all,
    signals_are_held_back_only_where_it_matters,
    a_rank_that_is_silent_is_waited_for_no_longer_than_said,
]
