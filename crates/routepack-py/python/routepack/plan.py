"""A plan: where every expert lives and which sample goes to which micro-batch."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable

import numpy as np
import numpy.typing as npt

from ._native import WindowError, read_text, verify_plan, write_text
from .batch import Batch

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Layout:
    """Samples in micro-batches: for every step a grid of R rows and D DP ranks; every cell is one micro-batch."""

    def __init__(self, steps: dict[int, list[list[list[int]]]], dummies: dict[int, list[list[int]]]) -> None:
        self._cells = steps
        self._dummies = dummies

    @property
    def steps(self) -> list[int]:
        """Optimizer steps, ascending."""
        return list(self._cells)

    def _step(self, step: int | None) -> int:
        if step is None:
            if len(self._cells) != 1:
                raise WindowError(f"step: the plan has steps {self.steps}; choose one")
            return next(iter(self._cells))
        if step not in self._cells:
            raise WindowError(f"step = {step}: the plan has steps {self.steps}")
        return step

    def num_rows(self, step: int | None = None) -> int:
        """R: micro-batches every DP rank runs in a step."""
        return len(self._cells[self._step(step)])

    def micro_batches(self, step: int | None = None, dp_rank: int = 0) -> list[Int32]:
        """The micro-batches of a DP rank in the order they run: indices of samples in input order, int32."""
        grid = self._cells[self._step(step)]
        if not 0 <= dp_rank < len(grid[0]):
            raise WindowError(f"dp_rank = {dp_rank}: expected 0 to {len(grid[0]) - 1}")
        return [np.asarray(row[dp_rank], dtype=np.int32) for row in grid]

    def dummies(self, step: int | None = None) -> Int32:
        """Dummy samples in every cell ``[rows, dp]``."""
        return np.asarray(self._dummies[self._step(step)], dtype=np.int32)


class Plan(Layout):
    """A verified plan. Immutable; pickles; the same on every machine for the same batch, job and seed.

    Compute it once, broadcast it, and compare ``sha256``.
    """

    def __init__(self, text: str, resident: Int32 | None = None) -> None:
        self._text = text
        self._resident = resident
        self._plan: dict[str, Any] = json.loads(text)
        steps = self._plan["steps"]
        super().__init__(
            {step["step"]: step["cells"] for step in steps},
            {step["step"]: step["dummies"] for step in steps},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file. Nothing in it is believed before ``verify``."""
        return cls(read_text(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file that ``routepack verify`` and ``routepack report`` read."""
        write_text(path, self._text)

    @property
    def status(self) -> str:
        """``ok``: the fewest rows are proved; ``gap``: fewer might exist; ``fallback(reason)``."""
        status = self._plan["status"]
        return status if isinstance(status, str) else f"fallback({status['fallback']})"

    @property
    def finished(self) -> bool:
        """Whether every stage used its whole budget, not ended by a deadline."""
        return bool(self._plan["finished"])

    @property
    def sha256(self) -> str:
        """Digest of everything else in the plan."""
        return str(self._plan["sha256"])

    @property
    def data(self) -> dict[str, Any]:
        """The plan as data; see the format's page. Do not change it."""
        return self._plan

    def _of(self, step: int | None) -> dict[str, Any]:
        number = self._step(step)
        return next(entry for entry in self._plan["steps"] if entry["step"] == number)

    def tokens(self, step: int | None = None, kind: str = "padded") -> Int64:
        """Tokens of every cell ``[rows, dp]``: ``raw``, ``padded`` (what the trainer runs), or ``routed``."""
        if kind not in ("raw", "padded", "routed", "samples"):
            raise WindowError(f"kind = {kind!r}: expected raw, padded, routed or samples")
        return np.asarray(self._of(step)["tokens"][kind], dtype=np.int64)

    def loss_tokens(self, step: int | None = None) -> Int64 | None:
        """Loss-mask tokens of every cell ``[rows, dp]``; None where they were not recorded."""
        tokens = self._of(step)["tokens"]["loss"]
        return None if tokens is None else np.asarray(tokens, dtype=np.int64)

    def gap(self, step: int | None = None) -> tuple[float, float]:
        """Distance of the slowest shard's cost to its bound, as shares: under this placement, under any placement."""
        entry = self._of(step)
        return entry["gap_to_placement"], entry["gap_to_free"]

    def rows_certificate(self, step: int | None = None) -> str:
        """The certificate of the step's rows; ``routepack.check`` and ``routepack-check`` read it."""
        return str(self._of(step)["certificate"])

    @property
    def log2phys(self) -> Int32 | None:
        """Slot of every logical expert ``[layers, experts]``; None without routes."""
        placement = self._plan["placement"]
        return None if placement is None else np.asarray(placement["log2phys"], dtype=np.int32)

    @property
    def phys2log(self) -> Int32 | None:
        """Logical expert in every slot ``[layers, experts]``; None without routes."""
        log2phys = self.log2phys
        return None if log2phys is None else np.argsort(log2phys, axis=1).astype(np.int32)

    @property
    def moves(self) -> Int32:
        """Experts that change their EP rank: rows of (layer, expert, from rank, to rank), int32.

        From the resident placement given to ``start``, else from expert e in slot e.
        """
        log2phys = self.log2phys
        if log2phys is None:
            return np.zeros((0, 4), dtype=np.int32)
        layers, experts = log2phys.shape
        per_rank = experts // int(self._plan["placement"]["num_ranks"])
        resident = np.tile(np.arange(experts, dtype=np.int32), (layers, 1))
        if self._resident is not None:
            resident = np.argsort(self._resident, axis=1).astype(np.int32)
        before, after = resident // per_rank, log2phys // per_rank
        layer, expert = np.nonzero(before != after)
        return np.stack([layer, expert, before[layer, expert], after[layer, expert]], axis=1).astype(np.int32)

    def drop(self, indices: Iterable[int]) -> Layout:
        """The layout without some samples, for filters that come late: same rows, a dummy where a cell empties.

        Certificate and figures speak of the plan before.

        Raises:
            WindowError: an index is not in the plan.
        """
        gone = {int(index) for index in indices}
        present = {index for grid in self._cells.values() for row in grid for cell in row for index in cell}
        if not gone <= present:
            raise WindowError(f"samples {sorted(gone - present)[:10]} are not in the plan")
        cells = {
            step: [[[index for index in cell if index not in gone] for cell in row] for row in grid]
            for step, grid in self._cells.items()
        }
        dummies = {
            step: [
                [count + (not cell and not count) for cell, count in zip(row, counts)]
                for row, counts in zip(grid, self._dummies[step])
            ]
            for step, grid in cells.items()
        }
        return Layout(cells, dummies)

    def verify(self, batch: Batch) -> dict[str, str]:
        """Recomputes everything the plan claims; what was claimed and found.

        Raises:
            VerifyError: a claim is refused.
        """
        return dict(verify_plan(self._text, batch._native))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        rows = {step: self.num_rows(step) for step in self.steps}
        return f"<routepack.Plan {self.status}, rows by step {rows}, sha256 {self.sha256[:12]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Plan, (self._text, self._resident))
