"""How far plans overrun their deadline, what memory they take, and how long a late filter takes.

    python deadlines.py [starts] [samples] [layers] [experts]

Starts planning with deadlines from 20 to 500 ms; every plan is verified. Times include the way through Python.
"""

import resource
import sys
import time

import numpy as np

import routepack as rp

starts, samples, layers, experts = [int(value) for value in (*sys.argv[1:], *[100, 1024, 48, 128][len(sys.argv) - 1 :])]
top_k, ranks = 8, 8
rng = np.random.default_rng(0)
lengths = np.clip(rng.lognormal(7.5, 0.8, samples), 16, 8192).astype(np.int64)


def routes(rows: int) -> np.ndarray:
    """Counts of one sample: every row chooses a contiguous run of experts."""
    first = rng.zipf(1.3, (layers, rows)) % experts
    counts = np.zeros((layers, experts), dtype=np.uint32)
    for shift in range(top_k):
        for layer in range(layers):
            counts[layer] += np.bincount((first[layer] + shift) % experts, minlength=experts).astype(np.uint32)
    return counts


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


counts = [routes(length - 1) for length in lengths]
dense = samples * layers * experts * 4 / 1e6
before = megabytes()
batch = rp.Batch(lengths, counts=counts, routed_rows=lengths - 1)
made = megabytes()
del counts
job = {
    "topology": {"dp": 16, "ep": ranks},
    "routing": {"top_k": top_k},
    "packing": {"capacity": 16384},
}
overruns = []
for index in range(starts):
    deadline = 20 + (480 * index) // max(starts - 1, 1)
    begun = time.perf_counter()
    plan = rp.start(batch, job, deadline_ms=deadline).result()
    overruns.append(1000 * (time.perf_counter() - begun) - deadline)
    peak = megabytes()
    plan.verify(batch)
overruns = np.sort(overruns)
share = (overruns > 50).mean()
print(f"{starts} starts of {samples} samples, {layers} layers, {experts} experts: all verified")
print(f"overrun in ms: median {np.median(overruns):.0f}, 99 % {np.quantile(overruns, 0.99):.0f}, most {overruns[-1]:.0f}; beyond 50 ms: {share:.1%}")
print(f"MB: counts {dense:.0f}; resident before {before:.0f}, with the batch {made:.0f}, at most while planning {peak:.0f}")

seconds = []
for index in range(20):
    begun = time.perf_counter(), time.process_time()
    plan.drop(indices=range(index, samples, 100))
    seconds.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
wall, processor = 1000 * np.median(seconds, axis=0)
print(f"drop of {len(range(0, samples, 100))} samples, median ms: {wall:.0f}, of processor time {processor:.0f}")
