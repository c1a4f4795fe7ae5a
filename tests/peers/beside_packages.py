"""Rules of routepack-baselines beside the packages of the trainers, on random lengths; run on demand.

    pip download --no-deps verl==0.8.0 verl==0.9.1 areal==1.0.4 trl==0.24.0     # each unpacked into FOLDER/NAME-VERSION
    pip install numpy pyarrow
    cargo build --release -p routepack-baselines -p routepack-cli --example pack
    python3 tests/peers/beside_packages.py FOLDER [CASES]

Only the one module of each package is loaded; what it imports beside numpy and pyarrow is stood in for. The trainers' flow
around the functions (samples to ranks, the same number of micro-batches on all) is written out here. Says for each rule how
many cases agree cell by cell, and how many in the tokens of the cells alone (equal lengths may change places).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[2]
PACK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "pack"
SLOTS, CAPACITY = 4, 1000


def load(folder: Path, path: str, stand_ins: list[str]) -> types.ModuleType:
    for name in stand_ins:
        sys.modules[name] = MagicMock()
    file = folder / path
    spec = importlib.util.spec_from_file_location(file.stem + "_" + folder.name.replace("-", "_").replace(".", "_"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verl(folder: Path, keeps_capacity: bool):
    torch = ["torch", "torch.distributed", "verl", "verl.protocol", "verl.utils", "verl.utils.device"]
    module = load(folder, "verl/utils/seqlen_balancing.py", torch)

    def pack(lengths):
        work = [24576 * t + t * t for t in lengths]
        ranks = module.get_seqlen_balanced_partitions(work, SLOTS, equal_size=True)
        count = max(-(-sum(lengths[i] for i in rank) // CAPACITY) for rank in ranks)
        while True:
            cells = []
            for rank in ranks:
                if count > len(rank):
                    return None
                own = [work[i] for i in rank]
                parts = module.get_seqlen_balanced_partitions(own, count, equal_size=False)
                parts.sort(key=lambda part: (sum(own[i] for i in part), part[0]), reverse=True)
                parts = parts[::2][::-1] + parts[1::2]
                cells.append([[rank[i] for i in part] for part in parts])
            if not keeps_capacity or all(sum(lengths[i] for i in cell) <= CAPACITY for rank in cells for cell in rank):
                return cells
            count += 1

    return pack


def areal(folder: Path):
    module = load(folder, "areal/utils/seqpack.py", ["numba", "areal", "areal.utils"])

    def pack(lengths):
        # LPT on tokens over the ranks, counts free.
        ranks, sums = [[] for _ in range(SLOTS)], [0] * SLOTS
        for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
            rank = min(range(SLOTS), key=lambda rank: sums[rank])
            ranks[rank].append(i)
            sums[rank] += lengths[i]
        least = 1
        while True:
            if any(len(rank) < least for rank in ranks):
                return None
            groups = [module.ffd_allocate([lengths[i] for i in rank], CAPACITY, least) for rank in ranks]
            most = max(map(len, groups))
            if all(len(found) == most for found in groups):
                return [[[rank[int(i)] for i in group] for group in found] for rank, found in zip(ranks, groups)]
            least = most

    return pack


def trl(folder: Path):
    import pyarrow

    module = load(folder, "trl/data_utils.py", ["datasets", "transformers"])

    def pack(lengths):
        """Bins of the window alone: TRL knows no ranks."""
        table = pyarrow.table({"ids": pyarrow.array([[i] * t for i, t in enumerate(lengths)], pyarrow.list_(pyarrow.int32()))})
        packed = module._pack_bfd(table, CAPACITY)
        return [list(dict.fromkeys(bin)) for bin in packed["ids"].to_pylist()]

    return pack


def cases(count: int):
    for seed in range(count):
        stream = random.Random(seed)
        samples = SLOTS * stream.randint(2, 24)
        top = stream.choice([200, 500, 1000])
        yield [stream.randint(1, top) for _ in range(samples)]


def ours(rule: str, inputs):
    text = "\n".join(" ".join(map(str, lengths)) for lengths in inputs)
    command = [str(PACK), rule, str(CAPACITY), str(SLOTS), "1"]
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def compare(name: str, rule: str, theirs, inputs, ordered: bool) -> bool:
    exact = tokens = without = 0
    for lengths, own in zip(inputs, ours(rule, inputs)):
        their = theirs(lengths)
        if own is None or their is None:
            without += own is None and their is None
            continue
        if not ordered:
            # Bins of a window: dealt in turn, and where they do not fill whole rows split, which the package leaves out.
            own = [[cell for rank in own for cell in rank]]
            their = [their]
            if len(their[0]) % SLOTS:
                without += len(own[0]) == -(-len(their[0]) // SLOTS) * SLOTS
                continue
        cells = lambda found: [[sorted(cell) for cell in rank] for rank in found]
        sums = lambda found: [[sorted(lengths[i] for i in cell) for cell in rank] for rank in found]
        one, other = cells(own), cells(their)
        low, high = sums(own), sums(their)
        if not ordered:
            one, other, low, high = ([sorted(rank) for rank in found] for found in (one, other, low, high))
        # Which rank is called the first says nothing.
        exact += sorted(one) == sorted(other)
        tokens += sorted(low) == sorted(high)
    print(f"{name:<12} {len(inputs)} cases: {exact} cell by cell, {tokens} by tokens, {without} not comparable on both sides")
    return max(exact, tokens) + without == len(inputs)


def main() -> int:
    folder, inputs = Path(sys.argv[1]), list(cases(int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    good = [
        compare("verl 0.8.0", "verl 0.8", verl(folder / "verl-0.8.0", False), inputs, True),
        compare("verl 0.9.1", "verl 0.9", verl(folder / "verl-0.9.1", True), inputs, True),
        compare("areal 1.0.4", "AReaL", areal(folder / "areal-1.0.4"), inputs, True),
        compare("trl 0.24.0", "TRL", trl(folder / "trl-0.24.0"), inputs, False),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
