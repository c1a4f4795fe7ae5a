"""Recorded samples of one or several optimizer steps."""

from __future__ import annotations

import numbers
import os
from typing import Any, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ._arrays import array_of, file_name, integers, number, optional, several, text
from ._native import NativeBatch, WindowError


class Batch:
    """Samples of one or several optimizer steps that share one expert placement. Immutable; pickles.

    Args:
        lengths: tokens of every sample, prompt and response, ``[samples]``.
        counts: routed rows that chose each expert: ``[samples, layers, experts]``, or a list of ``[layers, experts]``
            as ``count`` gives them. Arrays of uint32 are not copied but become read-only: give ``counts.copy()`` to go on
            writing into yours. Without counts only attention is charged.
        routed_rows: rows counted of every sample; derived from the counts by default.
        loss_tokens: tokens in the loss mask; reported per micro-batch and step.
        ids: integers or texts, unique, repeated in plans.
        prompt_ids: prompt of every sample; statistics only.
        atomic_groups: samples with the same nonnegative number share a micro-batch.
        step: optimizer step of every sample; one step by default.
        cost: attention cost of every sample and kind, ``[samples, kinds]``, instead of the job's formula; in tokens at
            α = 1.

    Raises:
        WindowError: an array has another shape, or a value is out of range.
    """

    def __init__(
        self,
        lengths: npt.ArrayLike,
        counts: npt.NDArray[Any] | Sequence[npt.NDArray[Any]] | None = None,
        routed_rows: npt.ArrayLike | None = None,
        loss_tokens: npt.ArrayLike | None = None,
        ids: Sequence[int] | Sequence[str] | None = None,
        prompt_ids: npt.ArrayLike | None = None,
        atomic_groups: npt.ArrayLike | None = None,
        step: npt.ArrayLike | None = None,
        cost: npt.ArrayLike | None = None,
    ) -> None:
        self._native = NativeBatch(
            integers("lengths", lengths, np.uint32),
            counts=_counts(counts),
            routed_rows=optional("routed_rows", routed_rows, np.uint32),
            loss_tokens=optional("loss_tokens", loss_tokens, np.uint32),
            ids=_ids(ids),
            prompt_ids=optional("prompt_ids", prompt_ids, np.int64),
            atomic_groups=optional("atomic_groups", atomic_groups, np.int64),
            step=optional("step", step, np.int64),
            cost=None if cost is None else integers("cost", cost, np.uint32, ("samples", "kinds")),
        )

    _places: dict[int | str, int] | None = None

    @classmethod
    def _wrap(cls, native: NativeBatch) -> Batch:
        batch = cls.__new__(cls)
        batch._native = native
        return batch

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Batch:
        """Reads a window, ``.npz`` or ``.json``."""
        return cls._wrap(NativeBatch.load(file_name(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a window, JSON where the name ends with ``.json``, else npz; the file is whole or not there."""
        self._native.save(file_name(path))

    def check(self, top_k: int) -> None:
        """Checks the arrays against each other: every layer's counts of a sample sum to ``top_k`` times its rows."""
        self._native.check(number("top_k", top_k, 0, 0xFFFFFFFF, WindowError))

    def indices(self, ids: Iterable[int] | Iterable[str]) -> list[int]:
        """Indices in input order of samples by id; ids are indices where the batch has none.

        Raises:
            WindowError: there is no such sample.
        """
        if self._places is None:
            held: Iterable[int | str] | None = self._native.ids()
            self._places = {id_: place for place, id_ in enumerate(range(len(self)) if held is None else held)}
        wanted = several("ids", ids, WindowError)
        if any(isinstance(id_, (bool, np.bool_)) for id_ in wanted):
            raise WindowError("ids: True or False, expected ids; of a mask, give indices=np.flatnonzero(mask)")
        if unknown := [id_ for id_ in wanted if not isinstance(id_, (str, numbers.Integral)) or id_ not in self._places]:
            raise WindowError(f"ids: no samples {unknown[:10]}")
        return [self._places[id_] for id_ in wanted]

    def arrays(self) -> dict[str, Any]:
        """Copies of the arrays, by the names of the constructor."""
        return self._native.arrays()

    @property
    def sha256(self) -> str:
        """Digest of the values; plans state it."""
        return self._native.sha256()

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<routepack.Batch of {len(self)} samples>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_from_arrays, (self.arrays(),))


def native_of(batch: Any) -> NativeBatch:
    """What the native module works on."""
    if not isinstance(batch, Batch):
        raise WindowError(f"batch: {type(batch).__name__}, expected a routepack.Batch")
    return batch._native


def _from_arrays(arrays: dict[str, Any]) -> Batch:
    return Batch(**arrays)


def _ids(ids: Any) -> list[Any] | None:
    if ids is None:
        return None
    held = several("ids", ids, WindowError)
    if held and all(isinstance(id_, str) for id_ in held):
        held = [text(f"ids[{place}]", id_, WindowError) for place, id_ in enumerate(held)]
    else:
        held = [number(f"ids[{place}]", id_, -(1 << 63), (1 << 63) - 1, WindowError) for place, id_ in enumerate(held)]
    places: dict[Any, int] = {}
    for place, id_ in enumerate(held):
        if (before := places.setdefault(id_, place)) != place:
            raise WindowError(f"ids[{place}] = {id_!r}: expected ids that occur once, sample {before} has it too")
    return held


def _counts(counts: Any) -> Any:
    if counts is None:
        return None
    if isinstance(counts, (list, tuple)):
        names = [f"counts of sample {index}" for index in range(len(counts))]
        each = [_unsigned(name, array_of(name, one, WindowError)) for name, one in zip(names, counts)]
        for name, one in zip(names, each):
            if one.ndim != 2:
                raise WindowError(f"{name}: shape {list(one.shape)}, expected [layers, experts]")
        return [_read_only(one) for one in each]
    return _read_only(_unsigned("counts", array_of("counts", counts, WindowError)))


def _unsigned(name: str, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if counts.dtype == np.uint32 or (counts.dtype == np.uint16 and counts.ndim > 2):
        return counts
    if counts.dtype.kind not in "iu":
        raise WindowError(f"{name}: dtype {counts.dtype}, expected integers")
    if counts.size and (int(counts.min()) < 0 or int(counts.max()) > 0xFFFFFFFF):
        raise WindowError(f"{name}: values from {counts.min()} to {counts.max()}, expected 0 to 4294967295")
    return counts.astype(np.uint32)


def _read_only(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, which the native batch reads where it is if nobody may write there, and else copies.

    Read-only from here on, with the arrays it is a view of, where NumPy owns the memory.
    """
    if counts.dtype != np.uint32 or not counts.flags.c_contiguous:
        return counts
    views: list[npt.NDArray[Any]] = [counts]
    while isinstance(views[-1].base, np.ndarray):
        views.append(views[-1].base)
    if views[-1].base is None:
        for view in views:
            view.flags.writeable = False
    return counts
