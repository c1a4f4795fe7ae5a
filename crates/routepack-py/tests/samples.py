"""Samples and a job that most tests use."""

from __future__ import annotations

import numpy as np

import routepack as rp

JOB = {
    "topology": {"dp": 4, "ep": 2},
    "routing": {"top_k": 2},
    "packing": {"capacity": 256},
    "arrange": {},
}


def window(samples: int = 48, seed: int = 0, layers: int = 3, experts: int = 8, top_k: int = 2, steps: int = 1):
    """Lengths, ids of every sample `[rows, layers, k]`, and arrays for a batch."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 128, samples)
    ids = [
        np.argsort(rng.random((length - 1, layers, experts)), axis=-1)[..., :top_k].astype(np.int16)
        for length in lengths
    ]
    counted = [rp.count(one, experts) for one in ids]
    step = np.arange(samples) % steps
    return {
        "lengths": lengths,
        "counts": [counts for counts, _ in counted],
        "routed_rows": [rows for _, rows in counted],
        "loss_tokens": lengths // 2,
        "ids": [f"sample-{index}" for index in range(samples)],
        "step": step,
    }, ids
