"""``rearrange_micro_batches`` beside verl's own, alone and over a DP group of two processes (gloo).

    pip install --no-deps verl tensordict    # and torch, which decides the rest
    python verl_rearrange.py FOLDER          # the folder of the package verl

verl's own module runs on real TensorDicts, padded and nested; only what verl imports for other purposes is empty.
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
from tensordict import TensorDict

from routepack.dropins import verl as ours


def verl(folder: Path) -> types.ModuleType:
    """verl's module, without the package's own imports: Ray, transformers, …"""
    for name in ["verl", "verl.protocol", "verl.utils", "verl.utils.device"]:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["verl.protocol"].DataProto = object
    sys.modules["verl.utils.device"].get_device_name = lambda: "cpu"
    for name in ["tensordict_utils", "seqlen_balancing"]:
        path = next(folder.rglob(f"utils/{name}.py"))
        spec = importlib.util.spec_from_file_location(f"verl.utils.{name}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[f"verl.utils.{name}"] = module
        setattr(sys.modules["verl.utils"], name, module)
        spec.loader.exec_module(module)
    return module


def batch(seed: int, samples: int, longest: int = 1024, nested: bool = False) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (samples,), generator=generator)
    ids = torch.randint(0, 9, (samples, longest), generator=generator)
    columns = {"sample": torch.arange(samples)}
    if nested:
        rows = [row[:length] for row, length in zip(ids, lengths.tolist())]
        columns["input_ids"] = torch.nested.nested_tensor(rows, layout=torch.jagged)
    else:
        mask = (torch.arange(longest)[None, :] < lengths[:, None]).long()
        columns.update(input_ids=ids * mask, attention_mask=mask)
    return TensorDict(columns, batch_size=[samples])


def tokens(cell: TensorDict) -> int:
    ids = cell["input_ids"]
    return int(ids.offsets()[-1] if ids.is_nested else cell["attention_mask"].sum())


def compare(theirs, case: TensorDict, cap: int, **options) -> tuple[int, int]:
    """Both results keep the promises; how many micro-batches there are."""
    counts = []
    for function in (theirs.rearrange_micro_batches, ours.rearrange_micro_batches):
        cells, indices = function(case, cap, **options)
        assert len(cells) == len(indices) and sorted(i for cell in indices for i in cell) == list(range(len(case)))
        for cell, held in zip(cells, indices):
            assert held and tokens(cell) <= cap and cell["sample"].tolist() == list(held)
            rows = [case["input_ids"][index] for index in held]
            assert all(torch.equal(row, own) for row, own in zip(cell["input_ids"], rows))
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
        for nested in (False, True):
            counts = compare(theirs, batch(seed, 96, nested=nested), 3000, **options)
            print(options, "nested" if nested else "padded", "micro-batches of verl, routepack:", counts)
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    torch.multiprocessing.spawn(on_rank, (str(folder), meeting), nprocs=2)
