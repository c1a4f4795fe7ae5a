"""Certified rows and bins, from lengths alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import MOST, integers, number, optional_number, thread_count
from ._native import JobError

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Rows:
    """The fewest rows of cells that hold all samples."""

    rows: int
    """Rows of the best packing found."""
    rows_bound: int
    """Rows proved necessary."""
    cells: int
    """Cells of the best packing found."""
    cells_bound: int
    """Cells proved necessary."""
    proved_by: str
    """Method of the proof."""
    finished: bool
    """Whether the search ended by itself."""
    certificate: str = field(repr=False)
    """Packing and proof, for ``check``."""
    bins: list[Int32] = field(repr=False)
    """The packing: sample indices of every cell."""

    @property
    def proved(self) -> bool:
        """Whether the fewest rows are proved."""
        return self.rows == self.rows_bound


@dataclass(frozen=True)
class Checked:
    """What an accepted certificate proves about the lengths it was checked against."""

    samples: int
    capacity: int
    max_samples: int | None
    dp: int
    rows_multiple: int
    cells_bound: int
    cells: int | None
    rows_bound: int
    rows: int | None


def rows(
    lengths: npt.ArrayLike,
    capacity: int,
    dp: int = 1,
    *,
    rows_multiple: int = 1,
    max_samples: int | None = None,
    pad_multiple: int = 1,
    prove_cells: bool = False,
    deadline_ms: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Rows:
    """The fewest rows of ``dp`` cells of ``capacity`` tokens, with a certificate.

    Args:
        rows_multiple: the number of rows is a multiple of this (virtual pipelining).
        max_samples: at most this many samples in a cell.
        pad_multiple: each sample is padded to a multiple of this many tokens.
        prove_cells: go on until the fewest cells are proved, not just the fewest rows.

    Raises:
        WindowError: a sample is longer than the capacity.
        JobError: an option is out of range.
    """
    sizes = integers("lengths", lengths, np.uint64)
    answer: dict[str, Any] = _native.rows(
        sizes,
        number("capacity", capacity, 1, MOST, JobError),
        number("dp", dp, 1, MOST, JobError),
        number("rows_multiple", rows_multiple, 1, MOST, JobError),
        optional_number("max_samples", max_samples, 1, 0xFFFFFFFF),
        number("pad_multiple", pad_multiple, 1, MOST, JobError),
        prove_cells,
        optional_number("deadline_ms", deadline_ms),
        number("seed", seed, 0, MOST, JobError),
        thread_count(threads),
    )
    answer["bins"] = [np.asarray(cell, dtype=np.int32) for cell in answer["bins"]]
    return Rows(**answer)


def check(certificate: str, lengths: npt.ArrayLike, pad_multiple: int = 1) -> Checked:
    """Checks a certificate against lengths; no solver is involved.

    The certificate states capacity and DP size: compare them with yours.

    Raises:
        VerifyError: it does not prove what it claims, or is one of other lengths.
    """
    multiple = number("pad_multiple", pad_multiple, 1, MOST, JobError)
    return Checked(**_native.check(certificate, integers("lengths", lengths, np.uint64), multiple))


def pack(lengths: npt.ArrayLike, capacity: int, **options: Any) -> list[Int32]:
    """Sample indices in as few bins of ``capacity`` tokens as can be found; options as those of ``rows``."""
    return rows(lengths, capacity, 1, prove_cells=options.pop("prove_cells", True), **options).bins
