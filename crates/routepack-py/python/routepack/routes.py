"""Recorded routes: in memory at the rollout worker, or in files."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import array_of, file_name, integers, number, optional_number, text, whole_numbers
from ._native import RoutesError
from .batch import Batch


class Imported(NamedTuple):
    """A window and what was read, in numbers."""

    batch: Batch
    summary: dict[str, int]


def count(
    ids: Any, num_experts: int, mask: npt.ArrayLike | None = None
) -> tuple[npt.NDArray[np.uint32], int]:
    """Counts how often each expert was chosen, without a copy of the ids.

    Args:
        ids: expert ids of one sample, ``[rows, layers, k]``, any integer type (NumPy, or a CPU tensor); rows of −1 are
            missing and not counted.
        num_experts: experts E per layer.
        mask: rows to count ``[rows]``, booleans or 0 and 1; all by default.

    Returns:
        counts ``[layers, E]`` (uint32), and how many rows were counted.

    Raises:
        RoutesError: an id repeats in a row or is no expert, or the type cannot hold E ids; names row, layer and value.
    """
    array = np.ascontiguousarray(array_of("ids", ids, RoutesError))
    if array.dtype.kind not in "iu":
        raise RoutesError(f"ids: dtype {array.dtype}, expected an integer type")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    chosen = None if mask is None else _mask(mask, list(array.shape[:1]))
    return _native.count(array, number("num_experts", num_experts, 0, 0xFFFFFFFF, RoutesError), chosen)


def _mask(mask: Any, shape: list[int]) -> npt.NDArray[np.bool_]:
    chosen = array_of("mask", mask, RoutesError)
    if list(chosen.shape) != shape:
        raise RoutesError(f"mask: shape {list(chosen.shape)}, expected {shape}, the rows of ids")
    if chosen.dtype != np.bool_ and chosen.size:
        # Indices of rows, say, would all count as true.
        if (wrong := np.argwhere(~np.isin(chosen, [0, 1]))).size:
            row = int(wrong[0][0])
            raise RoutesError(f"mask[{row}] = {chosen[row]}: expected 0 or 1")
    return np.ascontiguousarray(chosen, dtype=np.bool_)


def import_rollouts(
    path: str | os.PathLike[str],
    form: str,
    num_experts: int,
    *,
    layers: str | Sequence[int] | None = None,
    top_k: int | None = None,
    num_layers: int | None = None,
    missing: str = "refuse",
    phys2log: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
) -> Imported:
    """Counts the routes of a file while reading it: lines of JSON (gzipped or not), ``.npz``, ``.npy``, safetensors.

    Args:
        form: who wrote it: vllm, vllm-npy, sglang, slime, miles, verl, nemo-rl, skyrl, prime-rl, ms-swift, tunix,
            expert-distribution, megatron.
        layers: ``"moe"`` if the layer axis holds MoE layers only, else the MoE layers among all layers.
        missing: what to do with rows that were not recorded: refuse, leave-out, scale-up.
        phys2log: the ids are physical slots; the expert in every slot ``[layers, slots]``.
        lengths: tokens of every sample, where the file does not tell; where it does, they must be the same.

    Raises:
        RoutesError: names file, sample, row, layer and value.
        FileError: the file cannot be read.
    """
    options: dict[str, Any] = {
        "num_experts": number("num_experts", num_experts, 0, 0xFFFFFFFF, RoutesError),
        "top_k": optional_number("top_k", top_k, 0, 0xFFFFFFFF, RoutesError),
        "num_layers": optional_number("num_layers", num_layers, 0, 0xFFFFFFFF, RoutesError),
        "missing": text("missing", missing, RoutesError),
    }
    if layers is not None:
        options["layers"] = layers if isinstance(layers, str) else {"all": whole_numbers("layers", layers, RoutesError)}
    if lengths is not None:
        options["lengths"] = integers("lengths", lengths, np.uint32, error=RoutesError).tolist()
    if phys2log is not None:
        slots = integers("phys2log", phys2log, np.uint32, ("layers", "slots"), RoutesError)
        options["ids"] = {"physical": slots.tolist()}
    form = text("form", form, RoutesError)
    batch, summary = _native.import_rollouts(file_name(path), form, json.dumps(options))
    return Imported(Batch._wrap(batch), json.loads(summary))
