"""From rollouts as vLLM hands them over to a verified plan.

    python vllm_to_plan.py [ROLLOUTS.jsonl] [PLAN.json]

Without a file of rollouts it writes one first: 128 responses, 24 MoE layers, 64 experts, 6 per token.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import routepack as rp

EXPERTS, LAYERS, TOP_K = 64, 24, 6


def write_rollouts(path: Path) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as lines:
        for index, length in enumerate(np.clip(rng.lognormal(5.3, 0.6, 128), 32, 1024).astype(int)):
            # The last sampled token has no forward pass: one row fewer than tokens.
            routes = np.argsort(rng.random((length - 1, LAYERS, EXPERTS)), axis=-1)[..., :TOP_K]
            prompt = length // 4
            response = {
                "id": f"cmpl-{index}",
                "usage": {"prompt_tokens": int(prompt), "completion_tokens": int(length - prompt)},
                "prompt_routed_experts": routes[:prompt].tolist(),
                "choices": [{"index": 0, "routed_experts": routes[prompt:].tolist()}],
            }
            lines.write(json.dumps(response) + "\n")


rollouts = Path(sys.argv[1] if len(sys.argv) > 1 else "rollouts.jsonl")
if len(sys.argv) < 2:
    write_rollouts(rollouts)
begun = time.perf_counter()
batch, summary = rp.import_rollouts(rollouts, "vllm", EXPERTS)
job = {"topology": {"dp": 4, "ep": 4}, "routing": {"top_k": TOP_K}, "packing": {"capacity": 2048}}
imported = time.perf_counter()
plan = rp.plan(batch, job, deadline_ms=2000)
planned = time.perf_counter()
claims = plan.verify(batch)
plan.save(sys.argv[2] if len(sys.argv) > 2 else "plan.json")
print(f"{summary['samples']} samples, {rollouts.stat().st_size / 1e6:.0f} MB read in {imported - begun:.1f} s")
print(f"{plan} in {planned - imported:.1f} s, {len(claims)} claims verified")
