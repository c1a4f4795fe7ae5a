"""``rearrange_micro_batches`` beside verl's own, alone and over a DP group of two processes (gloo).

    pip download --no-deps verl && unzip -q verl*.whl
    python verl_rearrange.py FOLDER      # the folder of the unpacked wheel; needs torch

tensordict is not needed: a stand-in holds the columns.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import types
from pathlib import Path

import torch
import torch.multiprocessing

from routepack.dropins import verl as ours


class Columns(dict):
    """A TensorDict as far as both functions use one."""

    def __getitem__(self, key):
        if isinstance(key, str):
            return super().__getitem__(key)
        return Columns({name: column[torch.tensor(key)] for name, column in self.items()})


def verl(folder: Path) -> types.ModuleType:
    for name in ["verl", "verl.protocol", "verl.utils", "verl.utils.device", "verl.utils.tensordict_utils"]:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["verl.protocol"].DataProto = object
    sys.modules["verl.utils"].tensordict_utils = sys.modules["verl.utils.tensordict_utils"]
    sys.modules["verl.utils.device"].get_device_name = lambda: "cpu"
    sys.modules["verl.utils.tensordict_utils"].index_select_tensor_dict = lambda batch, cell: batch[cell]
    path = next(folder.rglob("verl/utils/seqlen_balancing.py"))
    spec = importlib.util.spec_from_file_location("peer_verl", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch(seed: int, samples: int, longest: int = 1024) -> Columns:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (samples,), generator=generator)
    mask = (torch.arange(longest)[None, :] < lengths[:, None]).long()
    return Columns({"input_ids": torch.randint(0, 9, (samples, longest), generator=generator) * mask, "attention_mask": mask})


def compare(theirs, case: Columns, cap: int, **options) -> tuple[int, int]:
    """Both results keep the promises; how many micro-batches there are."""
    counts = []
    for function in (theirs.rearrange_micro_batches, ours.rearrange_micro_batches):
        cells, indices = function(case, cap, **options)
        assert len(cells) == len(indices) and sorted(i for cell in indices for i in cell) == list(range(len(case["input_ids"])))
        for cell, held in zip(cells, indices):
            assert held and int(cell["attention_mask"].sum()) <= cap
            assert torch.equal(cell["input_ids"], case["input_ids"][torch.tensor(held)])
        assert len(cells) % (options.get("num_batches_divided_by") or 1) == 0
        assert len(cells) >= (options.get("min_num_micro_batch") or 1)
        group = options.get("force_group_size", 1)
        assert all(len({i // group for i in cell}) * group == len(cell) for cell in indices)
        counts.append(len(cells))
    assert counts[1] <= counts[0]
    return counts[0], counts[1]


def on_rank(rank: int, folder: str, meeting: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    group = torch.distributed.group.WORLD
    theirs = verl(Path(folder))
    # Ranks hold differently many samples.
    case = batch(rank, 24 + 40 * rank)
    counts = compare(theirs, case, 2048, dp_group=group)
    both = [None, None]
    torch.distributed.all_gather_object(both, counts)
    assert both[0] == both[1], both
    # One rank cannot: both raise, none waits.
    try:
        ours.rearrange_micro_batches(batch(rank, 2 + 60 * rank), 1024, dp_group=group)
        raise SystemExit("no error")
    except ValueError as error:
        if rank == 0:
            print(f"two processes: verl and routepack micro-batches {counts}; refused on both: {error}")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    theirs = verl(folder)
    for seed, options in enumerate(
        [{}, {"num_batches_divided_by": 4}, {"min_num_micro_batch": 60}, {"force_group_size": 2}, {"use_dynamic_bsz_balance": False}]
    ):
        print(options, "micro-batches of verl, routepack:", compare(theirs, batch(seed, 96), 3000, **options))
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    torch.multiprocessing.spawn(on_rank, (str(folder), meeting), nprocs=2)
