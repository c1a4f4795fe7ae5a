"""A batch and its plan."""

from __future__ import annotations

import pytest

import routepack as rp

from samples import JOB, window


@pytest.fixture(scope="module")
def batch() -> rp.Batch:
    return rp.Batch(**window()[0])


@pytest.fixture(scope="module")
def plan(batch: rp.Batch) -> rp.Plan:
    return rp.plan(batch, JOB)
