"""Drop-ins beside the packers they stand in for, run from their own packages.

    pip download --no-deps verl areal && for wheel in *.whl; do unzip -q -o "$wheel"; done
    python beside_peers.py FOLDER      # the folder of the unpacked wheels

The two modules import torch and numba for parts that are not used here; empty modules stand in for these.
"""

import importlib.util
import math
import sys
import types
from pathlib import Path

import numpy as np

from routepack.dropins.areal import ffd_allocate
from routepack.dropins.verl import get_seqlen_balanced_partitions, split_micro_batches


class Empty(types.ModuleType):
    """Every attribute is such a module; called, it is a decorator that does nothing."""

    def __getattr__(self, name: str) -> "Empty":
        if name.startswith("__"):
            raise AttributeError(name)
        return Empty(name)

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else (lambda function: function)


def load(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for name in ["torch", "torch.distributed", "tensordict", "numba"]:
    sys.modules[name] = Empty(name)
for name in ["verl", "verl.protocol", "verl.utils", "verl.utils.device", "verl.utils.tensordict_utils"]:
    sys.modules[name] = Empty(name)
for name in ["areal", "areal.utils", "areal.utils.logging"]:
    sys.modules[name] = Empty(name)
folder = Path(sys.argv[1])
verl = load("peer_verl", next(folder.rglob("verl/utils/seqlen_balancing.py")))
areal = load("peer_areal", next(folder.rglob("areal/utils/seqpack.py")))

rng = np.random.default_rng(0)
windows = {
    "512 log-normal, mean 0.27 C": (np.clip(rng.lognormal(np.log(6000), 0.9, 512), 16, 32768), 32768),
    "256 uniform in C/4 to C/2": (rng.integers(4096, 8193, 256), 16384),
    "256 log-normal, truncated at 0.89 C": (np.clip(rng.lognormal(np.log(4000), 1.0, 256), 16, 16384), 18432),
}
print("| window | verl | routepack | areal, multiple of 8 | routepack |\n|---|---|---|---|---|")
for name, (values, capacity) in windows.items():
    sizes = values.astype(int).tolist()
    work = [24576 * size + size * size for size in sizes]
    # As verl's loop does it: one more until every part keeps the cap.
    count = math.ceil(sum(sizes) / capacity)
    while any(
        sum(sizes[index] for index in part) > capacity
        for part in verl.get_seqlen_balanced_partitions(work, count, False)
    ):
        count += 1
    ours = len(split_micro_batches(sizes, capacity))
    theirs = len(areal.ffd_allocate(sizes, capacity, 1, 8))
    print(f"| {name} | {count} | {ours} | {theirs} | {len(ffd_allocate(sizes, capacity, 1, 8))} |")
    for equal in (False, True):
        parts = [f(work, 8, equal) for f in (verl.get_seqlen_balanced_partitions, get_seqlen_balanced_partitions)]
        spread = [max(sum(work[index] for index in part) for part in found) / (sum(work) / 8) for found in parts]
        print(f"  8 partitions, equal_size={equal}: most over mean, verl {spread[0]:.6f}, routepack {spread[1]:.6f}")
