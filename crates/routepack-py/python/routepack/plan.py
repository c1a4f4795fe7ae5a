"""A plan: where every expert lives and which sample goes to which micro-batch."""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ._arrays import MOST, file_name, number, one_line, text, whole_numbers
from ._native import (
    FileError,
    JobError,
    VerifyError,
    WindowError,
    export_plan,
    filter_plans,
    read_plan,
    report_html,
    verify_plan,
    write_texts,
)
from .batch import Batch, native_of

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

TRAIN = "train"
"""The pass that ``job["packing"]`` describes."""


class Plan:
    """A verified plan. Immutable; pickles; the same on every machine for the same batch, job and seed.

    Compute it once, broadcast it, and compare ``sha256``.
    """

    def __init__(
        self,
        text: str,
        passes: Mapping[str, Plan] | None = None,
        batch: Batch | None = None,
    ) -> None:
        self._text = text
        self._passes = dict(passes or {})
        self._batch = batch
        try:
            self._plan: dict[str, Any] = json.loads(text)
            self._of_step: dict[int, dict[str, Any]] = {step["step"]: step for step in self._plan["steps"]}
            options = self._plan["options"]
            digests = options.get("passes", {}) if isinstance(options, dict) else {}
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"plan: no plan: {type(error).__name__}: {one_line(str(error))}") from None
        if digests != (there := {name: plan.sha256 for name, plan in self._passes.items()}):
            raise VerifyError(f"options.passes: the plan stands for {digests}, its other passes are {there}")

    @classmethod
    def _of_passes(cls, plans: list[tuple[str, str]], batch: Batch | None) -> Plan:
        (_, train), *others = plans
        return cls(train, {name: cls(text, None, batch) for name, text in others}, batch)

    def _texts(self) -> list[tuple[str, str]]:
        return [(TRAIN, self._text), *((name, plan._text) for name, plan in self._passes.items())]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file, and those of its other passes beside it. Nothing in it is believed before ``verify``."""
        path = file_name(path)
        text, names = read_plan(path)
        return cls(text, {name: cls(read_plan(_path_of_pass(path, name))[0]) for name in names})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file that ``routepack verify`` and ``routepack report`` read.

        Every other pass has a file of its own beside it: ``plan.log-prob.json`` beside ``plan.json``.
        """
        path = file_name(path)
        passes = [(_path_of_pass(path, name), plan._text) for name, plan in self._passes.items()]
        write_texts([*passes, (path, self._text)])

    @property
    def passes(self) -> dict[str, Plan]:
        """Plans of the passes beside training, by name; ``sha256`` stands for them too."""
        return dict(self._passes)

    def _pass(self, name: str) -> Plan:
        if text("pass_", name, WindowError) == TRAIN:
            return self
        if name not in self._passes:
            raise WindowError(f"pass_ = {name!r}: the plan has passes {[TRAIN, *self._passes]}")
        return self._passes[name]

    @property
    def steps(self) -> list[int]:
        """Optimizer steps, ascending."""
        return list(self._of_step)

    def _of(self, step: int | None) -> dict[str, Any]:
        if step is None and len(self._of_step) == 1:
            return next(iter(self._of_step.values()))
        step = step if step is None else number("step", step, -MOST - 1, MOST, WindowError)
        if step is None or step not in self._of_step:
            raise WindowError(f"step = {step}: the plan has steps {self.steps}; choose one")
        return self._of_step[step]

    def num_rows(self, step: int | None = None, pass_: str = TRAIN) -> int:
        """R: micro-batches every DP rank runs in a step."""
        return len(self._pass(pass_)._of(step)["cells"])

    def micro_batches(self, step: int | None = None, dp_rank: int = 0, pass_: str = TRAIN) -> list[Int32]:
        """The micro-batches of a DP rank in the order they run: indices of samples in input order, int32."""
        grid = self._pass(pass_)._of(step)["cells"]
        dp_rank = number("dp_rank", dp_rank, 0, len(grid[0]) - 1, WindowError)
        return [np.asarray(row[dp_rank], dtype=np.int32) for row in grid]

    def dummies(self, step: int | None = None, pass_: str = TRAIN) -> Int32:
        """Dummy samples in every cell ``[rows, dp]``."""
        return np.asarray(self._pass(pass_)._of(step)["dummies"], dtype=np.int32)

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
        """Digest of everything else in the plan, and of its other passes."""
        return str(self._plan["sha256"])

    @property
    def data(self) -> dict[str, Any]:
        """The plan as data; see the format's page. Do not change it."""
        return self._plan

    def tokens(self, step: int | None = None, kind: str = "padded", pass_: str = TRAIN) -> Int64:
        """Tokens of every cell ``[rows, dp]``: ``raw``, ``padded`` (what the trainer runs), or ``routed``."""
        if text("kind", kind, WindowError) not in ("raw", "padded", "routed", "samples"):
            raise WindowError(f"kind = {kind!r}: expected raw, padded, routed or samples")
        return np.asarray(self._pass(pass_)._of(step)["tokens"][kind], dtype=np.int64)

    def loss_tokens(self, step: int | None = None, pass_: str = TRAIN) -> Int64 | None:
        """Loss-mask tokens of every cell ``[rows, dp]``; None where they were not recorded."""
        tokens = self._pass(pass_)._of(step)["tokens"]["loss"]
        return None if tokens is None else np.asarray(tokens, dtype=np.int64)

    def gap(self, step: int | None = None) -> tuple[float, float]:
        """Distance of the slowest shard's cost to its bound, as shares: under this placement, under any placement."""
        entry = self._of(step)
        return entry["gap_to_placement"], entry["gap_to_free"]

    def rows_certificate(self, step: int | None = None, pass_: str = TRAIN) -> str:
        """The certificate of the step's rows; ``routepack.check`` and ``routepack-check`` read it."""
        return str(self._pass(pass_)._of(step)["certificate"])

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

        From the resident placement given to ``start``, which the plan file keeps, else from expert e in slot e. Plans of
        other passes move none: they begin where training has the experts.
        """
        log2phys = self.log2phys
        if log2phys is None:
            return np.zeros((0, 4), dtype=np.int32)
        layers, experts = log2phys.shape
        per_rank = experts // int(self._plan["placement"]["num_ranks"])
        resident = np.tile(np.arange(experts, dtype=np.int32), (layers, 1))
        if (kept := self._plan["placement"].get("resident")) is not None:
            resident = np.asarray(kept["log2phys"], dtype=np.int32)
        before, after = resident // per_rank, log2phys // per_rank
        layer, expert = np.nonzero(before != after)
        return np.stack([layer, expert, before[layer, expert], after[layer, expert]], axis=1).astype(np.int32)

    def drop(
        self,
        ids: Iterable[int] | Iterable[str] | None = None,
        *,
        indices: Iterable[int] | None = None,
        batch: Batch | None = None,
        dummy_length: int = 1,
    ) -> Plan:
        """The plan without some samples, for filters that come late: no search, one pass over the counts.

        Placement, rows and the cells of the other samples stay, in all passes; indices are those of the same batch, which
        the new plan verifies against. Its certificate is one of the samples that are left: they suffice with at most the
        rows used, and ``status`` is ``ok`` only where a quick bound proves the fewest.

        Args:
            ids: samples by the batch's ids; by index where it has none.
            indices: or samples by index in input order.
            batch: the samples; needed where the plan was loaded or unpickled.
            dummy_length: tokens of the dummy in a cell that empties, where the job states none.

        Raises:
            WindowError: a sample is not in the plan, or a step would lose its last one.
        """
        batch = self._batch if batch is None else batch
        if batch is None:
            raise WindowError("batch: a plan that was loaded or unpickled needs the samples to drop some")
        native = native_of(batch)
        if (ids is None) == (indices is None):
            raise WindowError("drop: give ids or indices")
        dummy_length = number("dummy_length", dummy_length, 1, 0xFFFFFFFF, JobError)
        chosen = whole_numbers("indices", indices, WindowError) if ids is None else batch.indices(ids)
        present = {index for step in self._plan["steps"] for row in step["cells"] for cell in row for index in cell}
        if missing := sorted(set(chosen) - present):
            raise WindowError(f"samples {missing[:10]} are not in the plan")
        filtered = filter_plans(self._texts(), native, sorted(set(chosen)), dummy_length)
        return Plan._of_passes(filtered, batch)

    def verify(self, batch: Batch) -> dict[str, str]:
        """Recomputes everything the plan and its other passes claim; what was claimed and found.

        Raises:
            VerifyError: a claim is refused.
        """
        claims = dict(verify_plan(self._text, native_of(batch)))
        for name, plan in self._passes.items():
            if not _same(plan.log2phys, self.log2phys):
                raise VerifyError(f"pass {name}: another placement than that of the training pass")
            claims.update({f"pass {name}: {what}": value for what, value in plan.verify(batch).items()})
        return claims

    def report_html(self, batch: Batch, path: str | os.PathLike[str], pass_: str = TRAIN) -> None:
        """Writes a page with the table of reference arms and pictures, all recomputed from the batch.

        One file of HTML that opens from disk and asks no network.

        Raises:
            VerifyError: a claim is refused.
        """
        write_texts([(file_name(path), report_html(self._pass(pass_)._text, native_of(batch)))])

    def export(self, to: str, pass_: str = TRAIN) -> dict[str, Any]:
        """The micro-batches in the shape of a framework's own scheduler, ready for JSON: ``routepack export``.

        Args:
            to: ``verl``, ``slime``, ``nemo-rl``, ``areal`` or ``megatron``.
        """
        exported: dict[str, Any] = json.loads(export_plan(self._pass(pass_)._text, text("to", to, JobError)))
        return exported

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._text == other._text and self._passes == other._passes

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        rows = {step: self.num_rows(step) for step in self.steps}
        return f"<routepack.Plan {self.status}, rows by step {rows}, sha256 {self.sha256[:12]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Plan, (self._text, self._passes))


def _same(one: Int32 | None, other: Int32 | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _path_of_pass(path: str, name: str) -> str:
    stem, ending = os.path.splitext(path)
    return f"{stem}.{name}{ending}"
