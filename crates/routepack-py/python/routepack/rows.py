"""Certified rows and bins, from lengths alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import MOST, flag, integers, number, optional_number, text, thread_count
from ._native import JobError, VerifyError

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
    bins: list[Int32] = field(repr=False, compare=False)
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
    """The fewest rows of ``dp`` cells of ``capacity`` tokens, with a certificate; a cell may be empty.

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
        flag("prove_cells", prove_cells, JobError),
        optional_number("deadline_ms", deadline_ms),
        number("seed", seed, 0, MOST, JobError),
        thread_count(threads),
    )
    answer["bins"] = [np.asarray(cell, dtype=np.int32) for cell in answer["bins"]]
    return Rows(**answer)


def check(
    certificate: str,
    lengths: npt.ArrayLike,
    pad_multiple: int = 1,
    *,
    capacity: int | None = None,
    dp: int | None = None,
    rows_multiple: int | None = None,
    max_samples: int | None = None,
) -> Checked:
    """Checks a certificate; no solver is involved.

    Asserts that samples of these lengths, padded to ``pad_multiple``, need at least ``cells_bound`` cells and
    ``rows_bound`` rows, and fit into ``cells`` and ``rows``, under the rules that the certificate states. Its rules are
    those of the answer; a rule given here must be the same, else the certificate answers another question.

    Args:
        capacity: tokens of a cell, in the multiple of a cell if there is one: ⌊capacity / multiple⌋ · multiple.
        dp: cells of a row.
        rows_multiple: the number of rows is a multiple of this.
        max_samples: at most this many samples in a cell.

    Raises:
        VerifyError: it does not prove what it claims, or is one of other lengths or other rules.
    """
    multiple = number("pad_multiple", pad_multiple, 1, MOST, JobError)
    expected = {
        "capacity": optional_number("capacity", capacity, 1),
        "dp": optional_number("dp", dp, 1),
        "rows_multiple": optional_number("rows_multiple", rows_multiple, 1),
        "max_samples": optional_number("max_samples", max_samples, 1),
    }
    sizes = integers("lengths", lengths, np.uint64)
    checked = Checked(**_native.check(text("certificate", certificate, VerifyError), sizes, multiple))
    for name, value in expected.items():
        if value is not None and getattr(checked, name) != value:
            raise VerifyError(f"{name} = {value}: the certificate is one for {name} = {getattr(checked, name)}")
    return checked


def pack(lengths: npt.ArrayLike, capacity: int, **options: Any) -> list[Int32]:
    """Sample indices in as few bins of ``capacity`` tokens as can be found.

    Options are the keywords of ``rows``, but that the fewest bins are to be proved unless ``prove_cells=False``.
    """
    return rows(lengths, capacity, **{"prove_cells": True, **options}).bins
