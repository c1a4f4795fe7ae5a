"""NeMo-RL, ``nemo_rl/data/packing/algorithms.py``."""

from __future__ import annotations

from typing import Any

from ._grid import grid

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
            if bin_capacity <= 0:
                raise ValueError("bin_capacity must be positive")
            self.bin_capacity = bin_capacity
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
        if len(sequence_lengths) == 0:
            return []
        ranks = self.bin_count_multiple or 1
        min_rows = -(-(self.min_bin_count or 1) // ranks)
        rows = grid(sequence_lengths, self.bin_capacity, ranks, min_rows=max(min_rows, 1))
        return [cell for row in rows for cell in row]

    def _pack_implementation(self, sequence_lengths: list[int]) -> Any:
        return self.pack(sequence_lengths)
