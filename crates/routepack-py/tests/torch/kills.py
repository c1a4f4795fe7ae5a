"""Training with moves and saves is killed at random moments and begun again from what was saved, until it is done.

    ROUTEPACK_KILLS=100 python kills.py

Four gloo processes train, move all experts, save, and so on; one of them is killed, or gets Ctrl-C. Every new beginning must find a whole
save whose state is, bit for bit, that of the training without moves after as many steps, and must go on to its end.
"""

import collections
import datetime
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from moe import DP, IDENTITY, Trainer, draw, equal
from routepack.torch import Mover, PeersLost, load_logical, save_logical

STEPS = 6
SMALL = {"block_bytes": 128, "staging_bytes": 900}
PHASES = ["begin", "step", "move", "commit", "save", "end"]
# No threads of torch may be there before: forked processes begin at once, without importing it.
fork = multiprocessing.get_context("fork")


def together(folder, rank, work):
    torch.set_num_threads(1)
    # gloo misses, once in hundreds of kills, that a peer is gone: then a message waits as long as this group does. Votes wait for
    # half an hour, and never for who is gone.
    limit = datetime.timedelta(seconds=30)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=DP, timeout=limit)
    try:
        work()
    except (Exception, KeyboardInterrupt) as error:
        # A peer is gone, or this is the one.
        (Path(folder) / f"error{rank}").write_text(f"{type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def start(folder, work):
    processes = [fork.Process(target=together, args=(folder, rank, work)) for rank in range(DP)]
    for process in processes:
        process.start()
    return processes


def end(processes, patience=60):
    """Exit codes; who waits for a peer that is gone for too long is killed as well."""
    until = time.monotonic() + patience
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    return [process.exitcode for process in processes]


def train_without_moves(states):
    trainer = Trainer(2, IDENTITY)
    for done in range(STEPS + 1):
        state = trainer.canonical()
        if dist.get_rank() == 0:
            torch.save(state, Path(states) / f"{done}.pt")
        if done < STEPS:
            trainer.train_step()


def newest(saves):
    """Steps of the newest save that has its name."""
    return max((int(path.name) for path in saves.iterdir() if path.name.isdigit()), default=0)


def train_with_moves(saves, states, phases, seed):
    rank = dist.get_rank()
    trainer = Trainer(2, IDENTITY)
    done = newest(saves)
    if done:
        extra = load_logical(trainer.state, saves / str(done), trainer.columns)
        assert extra == {"step": done} and trainer.state.log2phys == draw(100 * seed + done)
        assert equal(trainer.canonical(), torch.load(Path(states) / f"{done}.pt")), f"a save of {done} steps is not what it was"
        trainer.steps_done = done
    events = {"allocate": "move", "pass": "move", "vote": "commit", "written": "commit"}

    def note(phase):
        phases[rank] = PHASES.index(phase)

    for step in range(done, STEPS):
        note("step")
        trainer.train_step()
        mover = Mover(trainer.state, trainer.columns, SMALL, on_event=lambda event, number: note(events[event]))
        mover.move(draw(100 * seed + step + 1))
        note("save")
        save_logical(trainer.state, saves / str(step + 1), trainer.columns, {"step": step + 1})
    note("end")
    assert equal(trainer.canonical(), torch.load(Path(states) / f"{STEPS}.pt"))


def die_before_the_first_vote():
    """Nobody waits for who died after the state was made: its connections tell."""
    trainer = Trainer(2, IDENTITY)
    dist.barrier()
    if dist.get_rank() == 2:
        os._exit(9)
    begun = time.monotonic()
    try:
        trainer.state.agree()
    except PeersLost:
        assert time.monotonic() - begun < 30


def main():
    kills = int(os.environ.get("ROUTEPACK_KILLS", "5"))
    chance = random.Random(int(os.environ.get("ROUTEPACK_SEED", "1")))
    hit, resumed, trainings, runs, spell = collections.Counter(), 0, 0, 0, 0.0
    with tempfile.TemporaryDirectory() as root:
        root = Path(root)
        for name in ["states", "meet"]:
            (root / name).mkdir()
        (root / "early").mkdir()
        assert end(start(root / "early", die_before_the_first_vote)) == [0, 0, 9, 0]
        assert end(start(root / "meet", lambda: train_without_moves(root / "states")), 300) == [0] * DP
        # The first and the last training are left alone.
        while spell == 0 or hit.total() < kills or saves.exists():
            saves, meet = root / f"saves{trainings}", root / f"meet{runs}"
            saves.mkdir(exist_ok=True)
            meet.mkdir()
            runs += 1
            resumed += newest(saves) > 0
            phases = fork.Array("i", DP, lock=False)
            processes = start(meet, lambda: train_with_moves(saves, root / "states", phases, trainings + 1))
            while min(phases) == 0 and all(process.is_alive() for process in processes):
                time.sleep(0.001)
            begun, victim = time.monotonic(), None
            if spell and hit.total() < kills:
                # For about as long as two steps, moves and saves take.
                time.sleep(chance.random() * spell)
                victim = chance.randrange(DP)
                phase = PHASES[phases[victim]]
                # Ctrl-C, every third: the others hear of it.
                os.kill(processes[victim].pid, chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))
            codes = end(processes)
            spell = spell or 2 * (time.monotonic() - begun) / STEPS
            said = [path.read_text() for path in sorted(meet.glob("error*"))]
            # Nobody finds anything mixed, nothing fails in an unknown way; torch's own errors are of the training's sums.
            known = ("PeersLost", "RuntimeError", "KeyboardInterrupt", "MoveFailed", "FileError", "MapMismatch: the move is done")
            assert all(text.startswith(known) for text in said), said
            others = [code for rank, code in enumerate(codes) if rank != victim]
            assert -signal.SIGKILL not in others, ("waited too long for a peer that is gone", codes, said)
            if victim is not None and codes[victim] != 0:
                hit[phase] += 1
            else:
                assert codes == [0] * DP, (codes, said)
                shutil.rmtree(saves)
                trainings += 1
    where = ", ".join(f"{phase} {hit[phase]}" for phase in PHASES if hit[phase])
    print(f"{hit.total()} kills ({where}), {resumed} resumed from a save, {trainings} trainings to their end ... ok", flush=True)
    assert kills < 50 or {"step", "move", "commit", "save"} <= set(hit), "every phase was hit"


if __name__ == "__main__":
    main()
