"""Our layout of flat state beside Megatron's own: `_ParamAndGradBuffer` of megatron-core, on the CPU, for drawn shapes.

On demand, under a Python that has the wheel, torch 2 and megatron-core (0.16.1 here):

    python3 -m venv venv && venv/bin/pip install torch==2.9.1 numpy megatron-core==0.16.1 target/python/wheels/*.whl
    venv/bin/python crates/routepack-py/tests/torch/megatron_buffer.py
"""

import json
import random
import tempfile
import types
import warnings

import torch
import torch.distributed as dist
from torch import nn

from routepack._native import flat_runs

warnings.simplefilter("ignore")
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.distributed.param_and_grad_buffer import _ParamAndGradBuffer  # noqa: E402

SHAPES = 300


class Group:
    """As much of a process group as the buffer asks for."""

    def __init__(self, size):
        self._size = size

    def size(self):
        return self._size

    def rank(self):
        return 0


def model(order, layers, places, tensors):
    """A chunk's expert parameters as modules list them; (layer, place, tensor) → parameter and where in it."""
    root, found = nn.Module(), {}

    def parameter(module, name, size):
        module.register_parameter(name, nn.Parameter(torch.zeros(size, dtype=torch.bfloat16)))
        return getattr(module, name)

    def child(module, name):
        if not hasattr(module, name):
            module.add_module(name, nn.Module())
        return getattr(module, name)

    for layer in range(layers):
        experts = child(root, f"layer{layer}")
        if order == "grouped":
            for linear in dict.fromkeys(name.split(".")[0] for name in tensors):
                for place in range(places):
                    for index, (name, size) in enumerate(tensors.items()):
                        if name.split(".")[0] == linear:
                            kind = name.split(".")[1]
                            found[layer, place, index] = (parameter(child(experts, linear), f"{kind}{place}", size), 0)
        elif order == "sequential":
            for place in range(places):
                for index, (name, size) in enumerate(tensors.items()):
                    linear, kind = name.split(".")
                    found[layer, place, index] = (parameter(child(child(experts, f"e{place}"), linear), kind, size), 0)
        else:
            for index, (name, size) in enumerate(tensors.items()):
                stacked = parameter(experts, name.replace(".", "_"), size * places)
                for place in range(places):
                    found[layer, place, index] = (stacked, place * size)
    return root, found


def theirs(root, found, edp, bucket, busbw, layers):
    """(layer, tensor, place, first element, elements, where) by EDP position, from Megatron's buffer."""
    config = DistributedDataParallelConfig(use_distributed_optimizer=True, pad_buckets_for_high_nccl_busbw=busbw)
    groups = types.SimpleNamespace(tp=Group(1), dp_cp=Group(edp))
    parameters = list(root.parameters())
    names = {parameter: name for name, parameter in root.named_parameters()}
    buffer = _ParamAndGradBuffer(
        config, torch.bfloat16, torch.float, parameters, Group(edp), bucket, names, 1.0, list(range(len(parameters))), False, groups
    )
    held = [[] for _ in range(edp)]
    for (layer, place, tensor), (parameter, offset) in found.items():
        if layer >= layers:
            continue
        start, _, number = buffer.param_index_map[parameter]
        start += offset
        size = found_size(found, parameter)
        begin, end = buffer.bucket_indices[number]
        shard = (end - begin) // edp
        for position in range(edp):
            low, high = begin + position * shard, begin + (position + 1) * shard
            first, last = max(low, start), min(high, start + size)
            if first < last:
                held[position].append((layer, tensor, place, first - start, last - first, begin // edp + first - low))
    return held


def found_size(found, parameter):
    """Elements of one expert in a parameter."""
    return parameter.numel() // sum(1 for one, _ in found.values() if one is parameter)


def compare(draw):
    order = draw.choice(["grouped", "sequential", "stacked"])
    layers, places, edp, mtp = draw.randint(1, 3), draw.randint(1, 4), draw.choice([1, 2, 3, 4, 6, 8]), draw.randint(0, 1)
    tensors = {"fc1.weight": draw.randint(1, 500), "fc2.weight": draw.randint(1, 500)}
    if draw.random() < 0.4:
        tensors = {"fc1.weight": tensors["fc1.weight"], "fc1.bias": draw.randint(1, 40), "fc2.weight": tensors["fc2.weight"]}
    bucket, busbw = draw.choice([None, 300, 1000]), draw.random() < 0.1
    root, found = model(order, layers + mtp, places, tensors)
    held = theirs(root, found, edp, bucket, busbw, layers)
    flat = {"order": order, "mtp_layers": mtp, "bucket_alignment": 65536 if busbw else 128}
    if bucket:
        flat["bucket_elements"] = bucket
    state = {
        "num_experts": places,
        "tensors": [{"name": name, "elements": size} for name, size in tensors.items()],
        "kinds": [{"name": "master", "element_bytes": 1, "held": "flat"}],
        "flat": flat,
    }
    for rank in range(edp):
        ours = flat_runs(json.dumps({"dp": edp, "ep": 1}), json.dumps(state), layers, 0, rank)
        ours = sorted((layer, tensor, slot, *rest) for layer, tensor, slot, *rest in (run[:6] for run in ours))
        assert ours == sorted(held[rank]), (order, layers, places, edp, tensors, flat, rank)
    return sum(len(runs) for runs in held)


def main():
    torch.cuda.current_device = lambda: "cpu"
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
        draw = random.Random(1)
        runs = sum(compare(draw) for _ in range(SHAPES))
        print(f"{SHAPES} buffers of megatron-core and ours: {runs} runs equal")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
