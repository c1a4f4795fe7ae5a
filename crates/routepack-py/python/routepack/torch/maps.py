"""Maps: the slot of every logical expert, and what is said where two maps meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import integers
from .._native import JobError, RoutePackError

Slots = list[list[int]]
"""Slot of every logical expert ``[layers][experts]``."""


class MapMismatch(RoutePackError):
    """Tensors are laid out by another map than the one in force."""


def slots_of(log2phys: Any, num_experts: int, num_layers: int | None = None) -> Slots:
    """A map as lists, from an array or tensor ``[layers, experts]``.

    Raises:
        JobError: another shape, something that is no integer, or a layer that is no bijection of experts and slots.
    """
    try:
        values = log2phys.tolist() if hasattr(log2phys, "tolist") else log2phys
        slots: Slots = integers("log2phys", values, np.uint32, ("layers", "experts"), JobError).tolist()
    except JobError:
        raise
    # NotImplementedError among them: tensors without data.
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise JobError(f"log2phys: expected integers [layers, experts]: {(str(error).splitlines() or [''])[0]}") from None
    layers = num_layers or max(len(slots), 1)
    if len(slots) != layers or len(slots[0]) != num_experts:
        shape = [len(slots), len(slots[0]) if slots else 0]
        raise JobError(f"log2phys: layers and experts {shape}, expected {[layers, num_experts]}")
    for layer, row in enumerate(slots):
        if sorted(row) != list(range(num_experts)):
            raise JobError(f"log2phys: layer {layer} is no bijection of experts and slots 0 to {num_experts - 1}: {row}")
    return slots


def inverse(row: list[int]) -> list[int]:
    """Logical expert in every slot of a layer."""
    experts = [0] * len(row)
    for expert, slot in enumerate(row):
        experts[slot] = expert
    return experts
