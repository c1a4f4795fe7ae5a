"""What all ranks must have alike: said in the first vote of a move, a save and a load, and compared by all."""

from __future__ import annotations

from typing import Any, Sequence

from .._native import JobError
from .columns import Columns
from .maps import MapMismatch
from .state import Elements, ExpertState

ELEMENTS = "elements"


def said(state: ExpertState, columns: Columns = ()) -> dict[str, Any]:
    """What a rank says of itself; ``columns``: those it will follow."""
    return {
        "topology": state.topology_json(),
        "layout of state": state.state_json(state.kinds()),
        # A stage without layers has no dispatchers.
        "column maps": ("some" if columns or state.column_maps else "none") if state.local_layers() else None,
        ELEMENTS: state.elements(),
    }


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
            raise error(f"ranks {first[0]} and {rank} have different {what}: {first[1][:end]} and {one[:end]}")
    return first[1] if first else None
