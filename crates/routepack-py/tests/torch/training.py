"""Training does not notice that experts move: four gloo processes, EP 2 × EDP 2.

    python training.py [FILE …]

Without names the cases of all files beside this, then the kills.
"""

import importlib
import os
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import kills
from moe import DP, EXPERTS, IDENTITY, LAYERS, TENSORS, Trainer, dense_log_probs, draw, equal
from routepack.torch import Mover, logical_named_tensors
from shared import SMALL, TEMPLATE, steps

FILES = ["training", "moving", "shapes", "refusals", "sets", "saving", "unlike", "damage", "stopping", "voting", "dispatchers", "later"]


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


CASES = [
    three_steps_a_move_three_steps,
    names_for_weight_synchronisation,
]


# Far more than the slowest takes beside other work.
SECONDS_A_CASE = 300


def took_too_long(rank, case):
    print(f"{case} on rank {rank}: waits for more than {SECONDS_A_CASE} s", file=sys.stderr, flush=True)
    os._exit(1)


def run_cases(rank, folder, files):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=DP)
    try:
        for case in [case for file in files for case in importlib.import_module(file).CASES]:
            hanging = threading.Timer(SECONDS_A_CASE, took_too_long, (rank, case.__name__))
            hanging.daemon = True
            hanging.start()
            case(Path(folder))
            dist.barrier()
            hanging.cancel()
            if rank == 0:
                print(f"{case.__name__} ... ok", flush=True)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def main(files):
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run_cases, args=(folder, files or FILES), nprocs=DP)
    if not files:
        kills.main()


if __name__ == "__main__":
    main(sys.argv[1:])
