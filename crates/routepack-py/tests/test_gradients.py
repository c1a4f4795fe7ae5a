"""Gradients under two plans, through a small attention model. `ROUTEPACK_TORCH=1 bash test.sh` uses the system's torch."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import routepack as rp

# By a submodule: a folder of that name beside the tests is none.
pytest.importorskip("torch.nn")
torch: Any = importlib.import_module("torch")

LENGTHS = np.random.default_rng(3).integers(2, 40, 24)
JOB = {"topology": {"dp": 2, "ep": 1}, "packing": {"capacity": 80}}


class Model(torch.nn.Module):
    """One causal attention layer; positions begin anew with every sample of a packed row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 16)
        self.place = torch.nn.Embedding(64, 16)
        self.project = torch.nn.ModuleList([torch.nn.Linear(16, 16) for _ in range(4)])
        self.head = torch.nn.Linear(16, 50)

    def forward(self, tokens: Any, positions: Any, sample: Any) -> Any:
        x = self.embed(tokens) + self.place(positions)
        query, key, value = (project(x) for project in self.project[:3])
        scores = query @ key.T / 4.0
        seen = (sample[:, None] == sample[None, :]) & (positions[:, None] >= positions[None, :])
        weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), dim=-1)
        return self.head(torch.relu(self.project[3](weights @ value)) + x)


def gradient(plan: rp.Plan, mean_of_means: bool = False) -> Any:
    """Of the loss of a step, accumulated over all ranks and micro-batches of the plan."""
    model = Model().double()
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, 50, (int(length),), generator=generator) for length in LENGTHS]
    loss_tokens = plan.loss_tokens()
    assert loss_tokens is not None
    for rank in range(2):
        for row, cell in enumerate(plan.micro_batches(dp_rank=rank)):
            tokens = torch.cat([texts[index] for index in cell])
            positions = torch.cat([torch.arange(len(texts[index])) for index in cell])
            sample = torch.cat([torch.full((len(texts[index]),), int(index)) for index in cell])
            logits = model(tokens, positions, sample)
            # The second half of every sample is its response.
            counted = positions >= torch.tensor(LENGTHS)[sample] - torch.tensor(LENGTHS)[sample] // 2
            losses = torch.nn.functional.cross_entropy(logits, (tokens + 1) % 50, reduction="none")[counted]
            assert len(losses) == loss_tokens[row, rank]
            loss = losses.mean() / loss_tokens.size if mean_of_means else losses.sum() / int(loss_tokens.sum())
            loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_gradients_of_a_token_mean_are_equal_under_two_plans() -> None:
    batch = rp.Batch(LENGTHS, loss_tokens=LENGTHS // 2)
    one = rp.plan(batch, JOB)
    other = rp.plan(batch, {**JOB, "seed": 1, "packing": {"capacity": 128}})
    assert one.num_rows() != other.num_rows()
    first, second = gradient(one), gradient(other)
    assert first.abs().max() > 1e-3
    assert torch.allclose(first, second, rtol=1e-10, atol=1e-13)
    assert not torch.allclose(gradient(one, mean_of_means=True), gradient(other, mean_of_means=True), rtol=1e-2)
