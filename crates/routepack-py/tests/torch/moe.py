"""A small MoE trained over torch.distributed: EP × EDP, BF16 weights in slots, sharded AdamW with byte ranges.

The router is logical; behind it a column map. Every sum is taken in an order that does not depend on slots, so that
training with moves can be compared bit for bit with training without.
"""

import math

import torch
import torch.distributed as dist

from routepack.torch import ColumnMap, ExpertState, FlatShards

LAYERS, EXPERTS, HIDDEN, FFN, TOP_K, TOKENS, DP = 2, 8, 6, 5, 2, 16, 4
TENSORS = {"up": FFN * HIDDEN, "down": HIDDEN * FFN}
SHAPES = [(FFN, HIDDEN), (HIDDEN, FFN)]
FLAT = {"tensor_alignment": 4, "bucket_alignment": 8, "bucket_elements": 300}
IDENTITY = [list(range(EXPERTS))] * LAYERS


class Gather(torch.autograd.Function):
    """Rows of all EP ranks; every row's gradient has one contributor."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.group, ctx.rank, ctx.size = group, dist.get_rank(group), rows.shape[0]
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows.contiguous(), group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient[ctx.rank * ctx.size : (ctx.rank + 1) * ctx.size], None


class Scatter(torch.autograd.Function):
    """Own rows of the sum over EP ranks, of which one is not zero."""

    @staticmethod
    def forward(ctx, rows, group):
        ctx.group, rank = group, dist.get_rank(group)
        size = rows.shape[0] // dist.get_world_size(group)
        rows = rows.clone()
        dist.all_reduce(rows, group=group)
        return rows[rank * size : (rank + 1) * size]

    @staticmethod
    def backward(ctx, gradient):
        parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(parts, gradient.contiguous(), group=ctx.group)
        return torch.cat(parts), None


def own_group(members):
    """The process group this rank is in; all ranks make all groups."""
    mine = None
    for ranks in members:
        group = dist.new_group(ranks)
        mine = group if dist.get_rank() in ranks else mine
    return mine


class Trainer:
    def __init__(self, ep, log2phys):
        rank, edp = dist.get_rank(), DP // ep
        self.ep, self.rank, self.ep_rank, self.places = ep, rank, rank % ep, EXPERTS // ep
        self.ep_group = own_group([[g * ep + p for p in range(ep)] for g in range(edp)])
        self.edp_group = own_group([[g * ep + p for g in range(edp)] for p in range(ep)])
        self.steps_done = 0
        topology = {"dp": DP, "ep": ep}
        self.state = ExpertState(topology, EXPERTS, log2phys, TENSORS, flat=FLAT)
        # [layers][places][tensors]
        self.weights = [
            [[torch.zeros(shape, dtype=torch.bfloat16) for shape in SHAPES] for _ in range(self.places)]
            for _ in range(LAYERS)
        ]
        self.reference = [[[w.clone() for w in place] for place in layer] for layer in self.weights]
        sizes = self.state.shard_elements()
        self.shards = {name: FlatShards(*map(torch.zeros, sizes)) for name in ["master", "exp_avg", "exp_avg_sq"]}
        self.scales = None
        self.state.add("weight", 2, "by-slot", self.weight)
        self.state.add("reference", 2, "by-slot", lambda l, s, t: self.reference[l][s % self.places][t])
        for name, shard in self.shards.items():
            self.state.add(name, 4, "flat", shard)
        self.state.add_derived("scales", self.drop_scales, self.remake_scales)
        self.columns = [ColumnMap(EXPERTS) for _ in range(LAYERS)]
        for layer, columns in enumerate(self.columns):
            columns.phys2log.copy_(torch.tensor(self.state.phys2log(layer)))
        generator = torch.Generator().manual_seed(7)
        self.router = [torch.randn(EXPERTS, HIDDEN, generator=generator) for _ in range(LAYERS)]
        drawn = {
            (layer, expert, tensor): 0.4 * torch.randn(SHAPES[tensor], generator=generator)
            for layer in range(LAYERS)
            for expert in range(EXPERTS)
            for tensor in range(2)
        }
        zero = {key: torch.zeros_like(value) for key, value in drawn.items()}
        weights = {key: value.bfloat16() for key, value in drawn.items()}
        self.load({"weight": weights, "reference": weights, "master": drawn, "exp_avg": zero, "exp_avg_sq": zero})

    def weight(self, layer, slot, tensor):
        return self.weights[layer][slot % self.places][tensor]

    def drop_scales(self):
        self.scales = None

    def remake_scales(self):
        """Largest weight of every expert here: what a quantised copy would keep."""
        self.scales = [[float(place[0].float().abs().max()) for place in layer] for layer in self.weights]

    def slots(self):
        """(layer, slot, logical expert) of all experts here."""
        for layer in range(LAYERS):
            experts = self.state.phys2log(layer)
            for slot in range(self.ep_rank * self.places, (self.ep_rank + 1) * self.places):
                yield layer, slot, experts[slot]

    def load(self, canonical):
        """Takes state by logical expert."""
        for layer, slot, expert in self.slots():
            for tensor in range(2):
                key = (layer, expert, tensor)
                self.weight(layer, slot, tensor).copy_(canonical["weight"][key])
                self.reference[layer][slot % self.places][tensor].copy_(canonical["reference"][key])
                for name, shard in self.shards.items():
                    whole = canonical[name][key].contiguous().reshape(-1).view(torch.uint8)
                    for start, run in shard.runs(layer, slot, tensor):
                        run.copy_(whole[start : start + run.numel()])
        self.remake_scales()

    def canonical(self):
        """State by logical expert, gathered from all ranks; all copies of a weight must be equal."""
        mine = {name: {} for name in ["weight", "reference", *self.shards]}
        for layer, slot, expert in self.slots():
            for tensor in range(2):
                key = (layer, expert, tensor)
                mine["weight"][key] = self.weight(layer, slot, tensor)
                mine["reference"][key] = self.reference[layer][slot % self.places][tensor]
                for name, shard in self.shards.items():
                    mine[name][key] = [(start, run.clone()) for start, run in shard.runs(layer, slot, tensor)]
        gathered = [None] * DP
        dist.all_gather_object(gathered, mine)
        whole = {name: {} for name in mine}
        for part in gathered:
            for name in ["weight", "reference"]:
                for key, value in part[name].items():
                    assert torch.equal(whole[name].setdefault(key, value), value), f"copies of {name} {key} differ"
            for name in self.shards:
                for key, runs in part[name].items():
                    shape = SHAPES[key[2]]
                    value = whole[name].setdefault(key, torch.zeros(shape))
                    for start, run in runs:
                        value.view(-1).view(torch.uint8)[start : start + run.numel()].copy_(run)
        return whole

    def forward(self, x, leaves):
        for layer in range(LAYERS):
            logits = x @ self.router[layer].t()
            probs, ids = torch.softmax(logits, dim=-1).topk(TOP_K, dim=-1)
            dense = torch.zeros_like(logits).scatter(-1, ids, probs)
            chosen = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, ids, True)
            # From here on columns are slots.
            dense, chosen = self.columns[layer](dense, chosen)
            slots = self.columns[layer].slots(ids)
            assert chosen.gather(-1, slots).all()
            share = dense.gather(-1, slots)
            rows = Gather.apply(x.repeat_interleave(TOP_K, 0), self.ep_group)
            where = [torch.empty_like(slots) for _ in range(self.ep)]
            dist.all_gather(where, slots.contiguous(), group=self.ep_group)
            where = torch.cat(where).reshape(-1)
            out = torch.zeros_like(rows)
            for place in range(self.places):
                mine = (where == self.ep_rank * self.places + place).nonzero()[:, 0]
                up, down = leaves[layer][place]
                inner = torch.relu(rows.index_select(0, mine) @ up.t())
                out = out.index_copy(0, mine, inner @ down.t())
            back = Scatter.apply(out, self.ep_group).view(*ids.shape, HIDDEN)
            x = x + (back * share.unsqueeze(-1)).sum(1)
        return x

    def leaves(self):
        return [[[w.float().requires_grad_() for w in place] for place in layer] for layer in self.weights]

    def batch(self, step):
        generator = torch.Generator().manual_seed(1000 * step + self.rank)
        return torch.randn(TOKENS, HIDDEN, generator=generator), torch.randn(TOKENS, HIDDEN, generator=generator)

    def log_probs(self, step=99):
        """Log-probabilities of this rank's tokens, gathered."""
        with torch.no_grad():
            mine = torch.log_softmax(self.forward(self.batch(step)[0], self.leaves()), -1)
        parts = [torch.empty_like(mine) for _ in range(DP)]
        dist.all_gather(parts, mine)
        return torch.cat(parts)

    def train_step(self):
        with self.state.step():
            leaves = self.leaves()
            x, wanted = self.batch(self.steps_done)
            loss = 0.5 * (self.forward(x, leaves) - wanted).square().sum()
            loss.backward()
            self.steps_done += 1
            updated = [[[torch.zeros_like(w) for w in place] for place in layer] for layer in leaves]
            for layer, slot, _ in self.slots():
                for tensor in range(2):
                    place = slot % self.places
                    gradient = leaves[layer][place][tensor].grad
                    gradient = torch.zeros(SHAPES[tensor]) if gradient is None else gradient.contiguous()
                    dist.all_reduce(gradient, group=self.edp_group)
                    self.adam_w(layer, slot, tensor, gradient.view(-1), updated[layer][place][tensor].detach().view(-1))
                    whole = updated[layer][place][tensor].detach()
                    # Every element has one owner.
                    dist.all_reduce(whole, group=self.edp_group)
                    self.weight(layer, slot, tensor).copy_(whole.bfloat16())
        self.remake_scales()

    def adam_w(self, layer, slot, tensor, gradient, updated):
        rate, b1, b2, decay, step = 0.01, 0.9, 0.95, 0.1, self.steps_done
        runs = zip(*(self.shards[name].runs(layer, slot, tensor) for name in ["master", "exp_avg", "exp_avg_sq"]))
        for (start, master), (_, mean), (_, square) in runs:
            w, m, v = (part.view(torch.float32) for part in (master, mean, square))
            g = gradient[start // 4 : start // 4 + w.numel()]
            w.mul_(1 - rate * decay)
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            scaled = (v / (1 - b2**step)).sqrt_().add_(1e-8)
            w.addcdiv_(m, scaled, value=-rate / (1 - b1**step))
            updated[start // 4 : start // 4 + w.numel()].copy_(w)


def dense_log_probs(router, named, x):
    """An inference copy: whole experts by name, no slots."""
    for layer in range(LAYERS):
        probs, ids = torch.softmax(x @ router[layer].t(), -1).topk(TOP_K, -1)
        outs = []
        for k in range(TOP_K):
            rows = []
            for token, expert in enumerate(ids[:, k].tolist()):
                up, down = (named[f"model.layers.{layer}.mlp.experts.{expert}.{t}"].float() for t in TENSORS)
                rows.append(torch.relu(x[token : token + 1] @ up.t()) @ down.t())
            outs.append(torch.cat(rows))
        x = x + (torch.stack(outs, 1) * probs.unsqueeze(-1)).sum(1)
    return torch.log_softmax(x, -1)


def equal(a, b):
    """Bit for bit, all kinds of state."""
    assert a.keys() == b.keys()
    return all(
        torch.equal(a[name][key].contiguous().view(-1).view(torch.uint8), b[name][key].contiguous().view(-1).view(torch.uint8))
        for name in a
        for key in a[name]
    )


def draw(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(EXPERTS, generator=generator).tolist() for _ in range(LAYERS)]


assert math.prod(SHAPES[0]) == TENSORS["up"]
