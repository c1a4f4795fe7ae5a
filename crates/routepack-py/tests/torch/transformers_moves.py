"""Training does not notice that experts move, with real models: tiny random Qwen3-MoE and Mixtral of transformers in BF16
on four gloo processes, EP 2 × EDP 2, sharded AdamW. Top-2, so that the two outputs of a token sum alike in any order. Experts
go where a plan puts them, made of the routes that the model itself takes for the samples of the next steps.

On demand, under a Python that has the wheel, torch 2 and a transformers with one module an expert (4.57 here):

    python3 -m venv venv && venv/bin/pip install torch==2.9.1 numpy transformers==4.57.6 target/python/wheels/*.whl
    venv/bin/python crates/routepack-py/tests/torch/transformers_moves.py
"""

import copy
import json
import os
import sys
import tempfile
import traceback
import types
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import transformers
from safetensors.torch import save_file
from torch import nn

import routepack as rp
from moe import DP, Gather, Scatter, own_group
from routepack.torch import (
    ColumnMap,
    ExpertState,
    FlatShards,
    Mover,
    load_logical,
    logical_named_tensors,
    refuse_unsupported,
    save_logical,
)

LAYERS, EXPERTS, HIDDEN, FFN, VOCABULARY, BATCH, LENGTH = 3, 8, 32, 24, 97, 2, 24
IDENTITY = [list(range(EXPERTS))] * LAYERS
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts_per_tok": 2,
    "initializer_range": 0.2,
    "attn_implementation": "eager",
}


def qwen3_moe():
    config = transformers.Qwen3MoeConfig(
        **COMMON, intermediate_size=FFN, moe_intermediate_size=FFN, num_experts=EXPERTS, norm_topk_prob=True, decoder_sparse_step=1
    )
    return transformers.Qwen3MoeForCausalLM, config, "mlp", ["gate_proj", "up_proj", "down_proj"]


def mixtral():
    config = transformers.MixtralConfig(**COMMON, intermediate_size=FFN, num_local_experts=EXPERTS)
    return transformers.MixtralForCausalLM, config, "block_sparse_moe", ["w1", "w2", "w3"]


class Trainer:
    """A model whose experts are spread over EP ranks; everything else is on every rank."""

    def __init__(self, family, ep, log2phys):
        kind, config, self.block, self.linears = family()
        rank = dist.get_rank()
        self.ep, self.ep_rank, self.places = ep, rank % ep, EXPERTS // ep
        groups = range(DP // ep)
        self.ep_group = own_group([[g * ep + p for p in range(ep)] for g in groups])
        self.edp_group = own_group([[g * ep + p for g in groups] for p in range(ep)])
        self.steps_done = 0
        # Expert ids [tokens, k] of every layer, while they are recorded.
        self.recorded = None
        torch.manual_seed(11)
        self.model = kind(config)
        # Not its buffers: rotary frequencies stay as transformers has them.
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
        self.state = ExpertState(
            {"dp": DP, "ep": ep},
            EXPERTS,
            log2phys,
            {f"{linear}.weight": HIDDEN * FFN for linear in self.linears},
            flat={"order": "sequential", "tensor_alignment": 64, "bucket_alignment": 128, "bucket_elements": 5000},
        )
        self.blocks = [getattr(layer, self.block) for layer in self.model.model.layers]
        self.columns = [ColumnMap(EXPERTS) for _ in range(LAYERS)]
        drawn = {}
        for layer, block in enumerate(self.blocks):
            self.columns[layer].phys2log.copy_(torch.tensor(self.state.phys2log(layer)))
            experts = list(block.experts)
            for expert, module in enumerate(experts):
                for tensor, linear in enumerate(self.linears):
                    drawn[layer, expert, tensor] = getattr(module, linear).weight.detach().clone()
            # This rank's slots; the model's own modules, filled by load.
            block.experts = nn.ModuleList(experts[: self.places])
            block.forward = types.MethodType(self.moe_forward(layer), block)
        sizes = self.state.shard_elements()
        self.shards = {name: FlatShards(*map(torch.zeros, sizes)) for name in ["master", "exp_avg", "exp_avg_sq"]}
        self.state.add("weight", 2, "by-slot", self.weight)
        for name, shard in self.shards.items():
            self.state.add(name, 4, "flat", shard)
        zeros = {key: torch.zeros(value.shape) for key, value in drawn.items()}
        masters = {key: value.float() for key, value in drawn.items()}
        self.load({"weight": drawn, "master": masters, "exp_avg": zeros, "exp_avg_sq": zeros})
        dense = [p for name, p in self.model.named_parameters() if ".experts." not in name]
        self.dense = torch.optim.AdamW(dense, lr=0.01)
        refuse_unsupported(self.model, self.dense)

    def weight(self, layer, slot, tensor):
        return getattr(self.blocks[layer].experts[slot % self.places], self.linears[tensor]).weight

    def places_here(self):
        for layer in range(LAYERS):
            experts = self.state.phys2log(layer)
            for slot in self.state.local_slots():
                for tensor in range(3):
                    yield (layer, slot, tensor), (layer, experts[slot], tensor)

    def load(self, canonical):
        for place, key in self.places_here():
            with torch.no_grad():
                self.weight(*place).copy_(canonical["weight"][key])
            for name, shard in self.shards.items():
                whole = canonical[name][key].contiguous().reshape(-1).view(torch.uint8)
                for start, run in shard.runs(*place):
                    run.copy_(whole[start : start + run.numel()])

    def canonical(self):
        """By logical expert, gathered from all ranks."""
        mine = {name: {} for name in ["weight", *self.shards]}
        for place, key in self.places_here():
            mine["weight"][key] = self.weight(*place).detach().clone()
            for name, shard in self.shards.items():
                mine[name][key] = [(start, run.clone()) for start, run in shard.runs(*place)]
        gathered = [None] * DP
        dist.all_gather_object(gathered, mine)
        whole = {name: {} for name in mine}
        for part in gathered:
            for key, value in part["weight"].items():
                assert torch.equal(whole["weight"].setdefault(key, value), value), "copies differ"
                for name in self.shards:
                    filled = whole[name].setdefault(key, torch.zeros(value.shape))
                    for start, run in part[name][key]:
                        filled.view(-1).view(torch.uint8)[start : start + run.numel()].copy_(run)
        return whole

    def moe_forward(self, layer):
        def forward(block, hidden):
            shape, x = hidden.shape, hidden.reshape(-1, HIDDEN)
            logits = block.gate(x)
            probs, ids = torch.softmax(logits, -1, dtype=torch.float).topk(2, -1)
            probs = probs / probs.sum(-1, keepdim=True)
            if self.recorded is not None:
                self.recorded[layer].append(ids)
            dense = torch.zeros(logits.shape).scatter(-1, ids, probs)
            chosen = torch.zeros(logits.shape, dtype=torch.bool).scatter(-1, ids, True)
            # From here on columns are slots.
            dense, chosen = self.columns[layer](dense, chosen)
            rows, shares = Gather.apply(x, self.ep_group), Gather.apply(dense, self.ep_group)
            mapped = [torch.empty_like(chosen, dtype=torch.uint8) for _ in range(self.ep)]
            dist.all_gather(mapped, chosen.to(torch.uint8).contiguous(), group=self.ep_group)
            mapped = torch.cat(mapped).bool()
            out = torch.zeros_like(rows)
            for slot in self.state.local_slots():
                tokens = mapped[:, slot].nonzero()[:, 0]
                answer = block.experts[slot % self.places](rows.index_select(0, tokens))
                weighted = answer * shares[tokens, slot].to(answer.dtype).unsqueeze(-1)
                out = out.index_add(0, tokens, weighted)
            return Scatter.apply(out, self.ep_group).reshape(shape), logits

        return forward

    def tokens(self, step):
        generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        return torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator)

    def log_probs(self, exact=False):
        """Of this rank's tokens; ``exact``: the same weights computed with in FP32, to be compared across grids, where BF16
        rounds sums of another order differently and a router may then choose otherwise."""
        model = copy.deepcopy(self.model).float() if exact else self.model
        with torch.no_grad():
            return torch.log_softmax(model(self.tokens(99), use_cache=False).logits.float(), -1)

    def train(self, steps):
        for _ in range(steps):
            self.train_step()

    def train_step(self):
        with self.state.step():
            ids = self.tokens(self.steps_done)
            self.model.zero_grad(set_to_none=True)
            logits = self.model(ids, use_cache=False).logits.float()
            nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1)).backward()
            self.steps_done += 1
            for parameter in self.dense.param_groups[0]["params"]:
                gradient = parameter.grad.float()
                dist.all_reduce(gradient)
                parameter.grad.copy_(gradient)
            self.dense.step()
            for place, _ in self.places_here():
                weight = self.weight(*place)
                gradient = torch.zeros(weight.shape) if weight.grad is None else weight.grad.float()
                dist.all_reduce(gradient, group=self.edp_group)
                updated = torch.zeros(HIDDEN * FFN)
                self.adam_w(place, gradient.reshape(-1), updated)
                # Every element has one owner.
                dist.all_reduce(updated, group=self.edp_group)
                with torch.no_grad():
                    weight.copy_(updated.view(weight.shape))

    def adam_w(self, place, gradient, updated):
        rate, b1, b2, step = 0.01, 0.9, 0.95, self.steps_done
        runs = zip(*(self.shards[name].runs(*place) for name in ["master", "exp_avg", "exp_avg_sq"]))
        for (start, master), (_, mean), (_, square) in runs:
            w, m, v = (part.view(torch.float32) for part in (master, mean, square))
            g = gradient[start // 4 : start // 4 + w.numel()]
            w.mul_(1 - rate * 0.1)
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            w.addcdiv_(m, (v / (1 - b2**step)).sqrt_().add_(1e-8), value=-rate / (1 - b1**step))
            updated[start // 4 : start // 4 + w.numel()].copy_(w)

    def named(self):
        """Every tensor of the model by its name in transformers, on all ranks."""
        template = f"model.layers.{{layer}}.{self.block}.experts.{{expert}}.{{tensor}}"
        mine = {name: tensor.detach().clone() for name, tensor in logical_named_tensors(self.state, self.weight, template)}
        gathered = [None] * DP
        dist.all_gather_object(gathered, mine)
        dense = {name: p.detach().clone() for name, p in self.model.state_dict().items() if ".experts." not in name}
        return {**dense, **{name: tensor for part in gathered for name, tensor in part.items()}}


def equal(a, b):
    return all(torch.equal(a[kind][key], b[kind][key]) for kind in a for key in a[kind]) and a.keys() == b.keys()


def plan_next_steps(trainer, count):
    """A plan of the next steps' samples, from the routes they take now; made by every rank, the same on all."""
    trainer.recorded = [[] for _ in range(LAYERS)]
    steps = range(trainer.steps_done, trainer.steps_done + count)
    with torch.no_grad():
        for step in steps:
            trainer.model(trainer.tokens(step), use_cache=False)
    # [samples][rows, layers, k]; every pass has BATCH samples.
    routes = torch.stack([torch.cat(layer) for layer in trainer.recorded], 1).reshape(count * BATCH, LENGTH, LAYERS, 2)
    trainer.recorded = None
    mine = [rp.count(sample.to(torch.int16), num_experts=EXPERTS) for sample in routes]
    gathered = [None] * DP
    dist.all_gather_object(gathered, mine)
    counted = [one for part in gathered for one in part]
    batch = rp.Batch(
        [LENGTH] * len(counted),
        counts=[counts for counts, rows in counted],
        routed_rows=[rows for counts, rows in counted],
        step=[step for _ in range(DP) for step in steps for _ in range(BATCH)],
    )
    job = {"topology": {"dp": DP, "ep": 2}, "routing": {"top_k": 2}, "packing": {"capacity": BATCH * LENGTH}}
    plan = rp.plan(batch, job, resident=IDENTITY, threads=1)
    plan.verify(batch)
    digests = [None] * DP
    dist.all_gather_object(digests, plan.sha256)
    assert len(set(digests)) == 1, digests
    return plan


def check(family, folder, say):
    still, moving = Trainer(family, 2, IDENTITY), Trainer(family, 2, IDENTITY)
    start = still.log_probs()
    still.train(6)
    moving.train(3)
    plan = plan_next_steps(moving, 3)
    told = Mover(moving.state, moving.columns, {"block_bytes": 2000, "staging_bytes": 30_000}).move(plan.log2phys)
    moving.train(3)
    assert equal(still.canonical(), moving.canonical()), "weights, masters or moments differ"
    for (name, mine), other in zip(moving.model.state_dict().items(), still.model.state_dict().values()):
        assert ".experts." in name or torch.equal(mine, other), name
    trained = still.log_probs()
    assert torch.equal(trained, moving.log_probs()) and not torch.equal(start, trained)
    moved = int((plan.log2phys != IDENTITY).sum())
    assert moved and told["passes"] > 1
    say(f"3 steps, {moved} of {LAYERS * EXPERTS} experts moved by {plan} in {told['passes']} passes, 3 steps: bit for bit as without")
    # Saved in logical order; read by transformers itself, and by a trainer on another grid.
    named, saved = moving.named(), moving.canonical()
    kind, config = family()[:2]
    if dist.get_rank() == 0:
        folder.mkdir()
    dist.barrier()
    save_logical(moving.state, folder / "experts", moving.columns)
    if dist.get_rank() == 0:
        save_file({name: tensor.contiguous() for name, tensor in named.items()}, folder / "model.safetensors", {"format": "pt"})
        config.architectures = [kind.__name__]
        config.save_pretrained(folder)
    dist.barrier()
    trained = moving.log_probs(exact=True)
    inference, told = kind.from_pretrained(folder, dtype=torch.float, output_loading_info=True, attn_implementation="eager")
    assert not told["missing_keys"] and not told["unexpected_keys"], json.dumps({k: sorted(v) for k, v in told.items()})
    with torch.no_grad():
        theirs = torch.log_softmax(inference(moving.tokens(99), use_cache=False).logits.float(), -1)
    furthest = [None] * DP
    dist.all_gather_object(furthest, float((theirs - trained).abs().max()))
    assert max(furthest) < 1e-4, furthest
    say(f"names synchronised to a copy of transformers' own: log-probabilities in FP32 within {max(furthest):.2g}")
    four = Trainer(family, 4, [list(reversed(range(EXPERTS)))] * LAYERS)
    load_logical(four.state, folder / "experts", four.columns)
    assert four.state.log2phys == moving.state.log2phys
    with torch.no_grad():
        four.model.load_state_dict({n: t for n, t in named.items() if ".experts." not in n}, strict=False)
    assert equal(four.canonical(), saved)
    furthest = [None] * DP
    dist.all_gather_object(furthest, float((four.log_probs(exact=True) - trained).abs().max()))
    assert max(furthest) < 1e-4, furthest
    say(f"loaded at EP 4: state bit for bit, log-probabilities in FP32 within {max(furthest):.2g}")


def process(rank, folder):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=DP)
    try:
        for family in [qwen3_moe, mixtral]:
            say = lambda text: print(f"{family.__name__}: {text}", flush=True) if rank == 0 else None
            check(family, Path(folder) / family.__name__, say)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def main():
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, args=(folder,), nprocs=DP)


if __name__ == "__main__":
    main()
