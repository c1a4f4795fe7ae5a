"""Recorded routes: in memory at the rollout worker, or in files."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import RoutesError
from ._arrays import number
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
        mask: rows to count ``[rows]``; all by default.

    Returns:
        counts ``[layers, E]`` (uint32), and how many rows were counted.

    Raises:
        RoutesError: an id repeats in a row or is no expert, or the type cannot hold E ids; names row, layer and value.
    """
    array = np.ascontiguousarray(np.asarray(ids))
    if array.dtype.kind not in "iu":
        raise RoutesError(f"ids: dtype {array.dtype}, expected an integer type")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    chosen = None if mask is None else np.ascontiguousarray(mask, dtype=np.bool_)
    if chosen is not None and chosen.shape != array.shape[:1]:
        raise RoutesError(f"mask: shape {list(chosen.shape)}, expected {list(array.shape[:1])}, the rows of ids")
    return _native.count(array, number("num_experts", num_experts, 0, 0xFFFFFFFF, RoutesError), chosen)


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
        "top_k": None if top_k is None else number("top_k", top_k, 0, 0xFFFFFFFF, RoutesError),
        "num_layers": None if num_layers is None else number("num_layers", num_layers, 0, 0xFFFFFFFF, RoutesError),
        "missing": missing,
        "lengths": None if lengths is None else np.asarray(lengths).tolist(),
    }
    if layers is not None:
        options["layers"] = layers if isinstance(layers, str) else {"all": [int(layer) for layer in layers]}
    if phys2log is not None:
        options["ids"] = {"physical": np.asarray(phys2log).tolist()}
    batch, summary = _native.import_rollouts(path, form, json.dumps(options))
    return Imported(Batch._wrap(batch), json.loads(summary))
