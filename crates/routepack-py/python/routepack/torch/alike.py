"""What all ranks must have alike: said in the first vote of a move, a save and a load, and compared by all."""

from __future__ import annotations

import itertools
import json
from typing import Any, Mapping, Sequence

from .._native import JobError
from .columns import ColumnMap
from .maps import MapMismatch
from .state import Elements, ExpertState

ELEMENTS = "elements"
LAYOUT = "layout of state"


def said(state: ExpertState, columns: Mapping[int, ColumnMap] = {}) -> dict[str, Any]:
    """What a rank says of itself; ``columns``: those it will follow."""
    return {
        "topology": state.topology_json(),
        LAYOUT: state.state_json(state.kinds()),
        "numbers of column maps a layer": _num_dispatchers(state, columns),
        ELEMENTS: state.elements(),
    }


def _num_dispatchers(state: ExpertState, columns: Mapping[int, ColumnMap]) -> str | None:
    """How many models' dispatchers a layer has, for one that is forgotten would stay where it is; a stage without layers has
    none."""
    held = {(layer, id(one)) for layer, one in [*state.column_maps, *columns.items()]}
    found = {sum(layer == other for other, _ in held) for layer in state.local_layers()}
    return " or ".join(map(str, sorted(found))) or None


def check_alike(heard: Sequence[dict[str, Any]]) -> Elements:
    """Raises MapMismatch (JobError for ``extra``) on all ranks if any two say different things; None says nothing.

    Returns:
        The elements of all sets, whatever stage has a layer.
    """
    for what in heard[0]:
        if what != ELEMENTS:
            _check_one(what, [said[what] for said in heard])
    # Of one layout, so all have the same sets and tensors.
    of_ranks: list[Elements] = [said[ELEMENTS] for said in heard]
    return {
        name: {
            tensor: [
                _check_one(f"elements of set {name}: {tensor} of layer {layer}", [one[name][tensor][layer] for one in of_ranks])
                for layer in range(len(layers))
            ]
            for tensor, layers in tensors.items()
        }
        for name, tensors in of_ranks[0].items()
    }


def _check_one(what: str, of_ranks: Sequence[str | None]) -> str | None:
    first: tuple[int, str] | None = None
    for rank, one in enumerate(of_ranks):
        if one is None:
            continue
        if first is None:
            first = rank, one
        elif one != first[1]:
            # A trainer's own, of any length.
            error, end = (JobError, 64) if what == "extra" else (MapMismatch, None)
            here, there = first[1], one
            if what == LAYOUT:
                where, here, there = _first_difference(json.loads(here), json.loads(there))
                what += where
            raise error(f"ranks {first[0]} and {rank} have different {what}: {here[:end]} and {there[:end]}")
    return first[1] if first else None


def _first_difference(one: Any, other: Any) -> tuple[str, str, str]:
    """Where two layouts that are not the same differ first, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(f", {key}", one.get(key), other.get(key)) for key in sorted({*one, *other})]
    elif isinstance(one, list) and isinstance(other, list):
        pairs = [(f" {at}", here, there) for at, (here, there) in enumerate(itertools.zip_longest(one, other))]
    else:
        return "", json.dumps(one), json.dumps(other)
    where, here, there = next(pair for pair in pairs if pair[1] != pair[2])
    inner, here, there = _first_difference(here, there)
    return where + inner, here, there
