"""NeMo-RL, ``nemo_rl/data/packing/algorithms.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import MOST, integers, number
from .._native import JobError
from ._grid import at_least_one, grid

try:
    from nemo_rl.data.packing.algorithms import SequencePacker as _Base  # type: ignore[import-not-found, unused-ignore]
except ImportError:

    class _Base:  # type: ignore[no-redef]
        """The part of NeMo-RL's base class that is used."""

        def __init__(
            self,
            bin_capacity: int,
            collect_metrics: bool = False,
            min_bin_count: int | None = None,
            bin_count_multiple: int | None = None,
        ) -> None:
            self.bin_capacity = number("bin_capacity", bin_capacity, 1, MOST, JobError)
            self.collect_metrics = collect_metrics
            self.min_bin_count = min_bin_count
            self.bin_count_multiple = bin_count_multiple


class RoutePackPacker(_Base):  # type: ignore[misc, unused-ignore]
    """A ``SequencePacker``: ``min_bin_count`` and ``bin_count_multiple`` (the DP size) hold.

    NeMo-RL deals bins to ranks by ``bins[rank::dp]``; the order of the bins makes these the rows of one grid, even over the
    ranks.
    """

    def pack(self, sequence_lengths: list[int]) -> list[list[int]]:
        """Bins of indices, each of at most ``bin_capacity`` tokens."""
        lengths = integers("sequence_lengths", sequence_lengths, np.uint32)
        if lengths.size == 0:
            return []
        ranks = at_least_one("bin_count_multiple", self.bin_count_multiple)
        min_bins = at_least_one("min_bin_count", self.min_bin_count)
        rows = grid(lengths, self.bin_capacity, ranks, min_rows=-(-min_bins // ranks))
        return [cell for row in rows for cell in row]

    def _pack_implementation(self, sequence_lengths: list[int]) -> Any:
        return self.pack(sequence_lengths)
