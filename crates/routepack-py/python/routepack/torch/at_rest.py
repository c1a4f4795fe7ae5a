"""Expert state at rest: every set by logical expert, whatever slots it is in, and the map that was in force beside it.

A folder, whole or not there:

* ``routepack_live_map.json``: ``format`` (``routepack-live-map 1``), ``order`` (``logical``), ``log2phys`` (slot of every
  expert ``[layers][experts]`` when this was saved) and its ``sha256``, ``tensors`` (elements of every tensor of one expert),
  ``etp``, ``sets`` (bytes of an element of every set), ``shards``, and ``extra``, what the trainer wants back.
* ``experts-RANK-of-RANKS.safetensors``: tensors ``SET.layers.LAYER.experts.EXPERT.TENSOR``; sets that are flat in pieces of
  bytes, ``….fromBYTE``. The metadata of a shard names the map by its hash, and of every piece whose it is, where it begins
  and its SHA-256.

Experts are in logical order, so any EP size and any map can load them. Router and dense parameters are the trainer's.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from .._native import FileError, map_hash
from .columns import ColumnMap, by_layer, check_columns, set_columns
from .state import ExpertState, MapMismatch, as_bytes

FORMAT = "routepack-live-map 1"
MAP_FILE = "routepack_live_map.json"
SLOTS_FILE = "routepack_map.json"
"""What ``routepack checkpoint apply`` puts beside experts that are in slots."""
MARK = "routepack_live_map_sha256"
PIECES = "routepack_pieces"

TYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8", torch.int8: "I8"}

Columns = Sequence[ColumnMap] | Mapping[int, ColumnMap]


def save_logical(
    state: ExpertState, folder: str | os.PathLike[str], column_maps: Columns = (), extra: Mapping[str, Any] | None = None
) -> None:
    """Writes every set of the state; all ranks call this between the same steps, on a file system they share.

    The folder gets its name when all ranks have written. What a run that was killed left, ``FOLDER.unfinished``, is
    deleted by the next.

    Args:
        column_maps: of the dispatchers; refused where one is not the map in force.
        extra: plain data that ``load_logical`` gives back, such as the number of the step.

    Raises:
        MapMismatch: a set, a column map or a rank has another map.
        FileError: the folder is there already, or some rank cannot write; then it is not made.
    """
    state.agree()
    folder = Path(folder)
    unfinished = folder.with_name(folder.name + ".unfinished")
    world = dist.get_world_size()
    shards = [f"experts-{rank:05}-of-{world:05}.safetensors" for rank in range(world)]
    first = dist.get_rank() == 0
    with _Together(f"{folder}: saving") as together:
        check_columns(by_layer(column_maps), state)
        if first:
            _begin(folder, unfinished)
    try:
        with together:
            _write_shard(state, unfinished / shards[dist.get_rank()])
        with together:
            if first:
                (unfinished / MAP_FILE).write_text(json.dumps(_describe(state, shards, dict(extra or {}))))
                unfinished.rename(folder)
    except Exception:
        if first:
            shutil.rmtree(unfinished, ignore_errors=True)
        raise


def load_logical(
    state: ExpertState, folder: str | os.PathLike[str], column_maps: Columns = (), log2phys: Any = None
) -> dict[str, Any]:
    """Fills every set of the state from a folder of ``save_logical``; all ranks call this. If one fails, no set is fit for a
    step on any.

    Args:
        column_maps: of the dispatchers; they get the new map.
        log2phys: the map to lay state out by; that of the folder by default, whatever the EP size.

    Returns:
        What was given to ``save_logical`` as ``extra``.

    Raises:
        MapMismatch: the map is not there, or not the one the shards were written under; experts are in slots.
        FileError: a shard or a set is missing, or bytes are not what they were.
    """
    folder = Path(folder)
    with _Together(f"{folder}: loading") as together:
        found = _read_map(folder)
        _check_shapes(state, found, folder)
        saved = _Saved(folder, found)
    with state.loading(found["log2phys"] if log2phys is None else log2phys), together:
        for kind, name in enumerate(state.set_names()):
            for layer in state.local_layers():
                experts = state.phys2log(layer)
                for slot in state.local_slots():
                    for tensor, start, part in state.pieces(kind, layer, slot):
                        saved.fill(_base(state, name, layer, experts[slot], tensor), start, part)
        set_columns(by_layer(column_maps), state)
    state.agree()
    extra: dict[str, Any] = found["extra"]
    return extra


class _Together:
    """A part that all ranks do or none has done: its failure on one is raised on all."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> _Together:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, Exception):
            return
        heard: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(heard, None if error is None else str(error))
        if error is not None:
            return
        for rank, failed in enumerate(heard):
            if failed is not None:
                raise FileError(f"{self.what} was given up: rank {rank}: {failed}")


def _begin(folder: Path, unfinished: Path) -> None:
    if folder.exists():
        raise FileError(f"{folder}: is there already; a checkpoint is never written over")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise FileError(f"{unfinished}: cannot make it: {error.strerror}") from error


def _describe(state: ExpertState, shards: list[str], extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "order": "logical",
        "sha256": state.sha256,
        "log2phys": state.log2phys,
        "tensors": state.tensors,
        "etp": state.etp(),
        "sets": state.set_names(),
        "shards": shards,
        "extra": extra,
    }


def _base(state: ExpertState, name: str, layer: int, expert: int, tensor: int) -> str:
    part = f".slice{state.rank % state.etp()}" if state.etp() > 1 else ""
    return f"{name}.layers.{layer}.experts.{expert}.{list(state.tensors)[tensor]}{part}"


def _write_shard(state: ExpertState, path: Path) -> None:
    """The pieces of this rank; tensors that all EDP positions have a copy of are written by the first."""
    header: dict[str, Any] = {}
    pieces: dict[str, Any] = {}
    written: list[Tensor] = []
    end = 0
    for kind, name in enumerate(state.set_names()):
        flat = state.is_flat(kind)
        if not flat and state.edp_position() > 0:
            continue
        for layer in state.local_layers():
            experts = state.phys2log(layer)
            for slot in state.local_slots():
                for tensor, start, part in state.pieces(kind, layer, slot):
                    base = _base(state, name, layer, experts[slot], tensor)
                    piece = f"{base}.from{start}" if flat else base
                    data = as_bytes(part)
                    dtype = "U8" if flat else TYPES.get(part.dtype, "U8")
                    shape = [data.numel()] if dtype == "U8" else list(part.shape)
                    header[piece] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + data.numel()]}
                    pieces[piece] = [base, start, hashlib.sha256(_host(data)).hexdigest()]
                    written.append(data)
                    end += data.numel()
    header["__metadata__"] = {MARK: state.sha256, PIECES: json.dumps(pieces)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        with open(path, "xb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for data in written:
                file.write(_host(data))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(f"{path}: cannot write: {error.strerror}") from error


def _host(data: Tensor) -> memoryview:
    held: npt.NDArray[np.uint8] = data.cpu().numpy()
    return held.data


def _read_map(folder: Path) -> dict[str, Any]:
    path = folder / MAP_FILE
    if (folder / SLOTS_FILE).exists():
        raise MapMismatch(f"{folder}: experts are in slots ({SLOTS_FILE}): routepack checkpoint canonicalise first")
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        if found["format"] != FORMAT or found["order"] != "logical":
            raise FileError(f"{path}: format {found['format']!r} in order {found['order']!r}, expected {FORMAT!r} in order 'logical'")
        held, said = map_hash(found["log2phys"]), found["sha256"]
        needed = [found[key] for key in ("tensors", "etp", "sets", "shards", "extra")]
    except FileNotFoundError:
        raise MapMismatch(f"{folder}: no {MAP_FILE}: nobody knows whether experts are in logical order or in slots") from None
    except OSError as error:
        raise FileError(f"{path}: cannot read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: no map: {error!r}") from error
    if held != said or len(needed) != 5:
        raise MapMismatch(f"{path}: sha256 = {said}, its slots have {held}")
    return found


def _check_shapes(state: ExpertState, found: dict[str, Any], folder: Path) -> None:
    shape = [len(found["log2phys"]), len(found["log2phys"][0])]
    for what, saved, mine in [
        ("layers and experts", shape, [len(state.log2phys), state.num_experts]),
        ("tensors of an expert", found["tensors"], state.tensors),
        ("etp", found["etp"], state.etp()),
    ]:
        if saved != mine:
            raise FileError(f"{folder}: {what}: {saved}, the trainer has {mine}")
    if missing := [name for name in state.set_names() if name not in found["sets"]]:
        raise FileError(f"{folder}: no sets {missing}; there are {found['sets']}")


class _Saved:
    """Pieces of a folder by tensor, read where they are asked for."""

    def __init__(self, folder: Path, found: dict[str, Any]) -> None:
        self._pieces: dict[str, list[tuple[int, int, str, npt.NDArray[np.uint8]]]] = {}
        for shard in found["shards"]:
            self._open(folder / shard, found["sha256"])

    def _open(self, path: Path, sha256: str) -> None:
        try:
            with open(path, "rb") as file:
                header = _header(file)
            data = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
            metadata = header.pop("__metadata__", {})
            if metadata.get(MARK) != sha256:
                raise MapMismatch(f"{path}: written under map {metadata.get(MARK)}, the map beside it is {sha256}")
            begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
            for piece, (base, start, digest) in json.loads(metadata[PIECES]).items():
                first, end = header[piece]["data_offsets"]
                if begin + end > data.size:
                    raise FileError(f"{path}: {piece} ends at byte {begin + end}, the file has {data.size}")
                self._pieces.setdefault(base, []).append((start, start + end - first, digest, data[begin + first : begin + end]))
        except OSError as error:
            raise FileError(f"{path}: cannot read: {error.strerror}") from error
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, (FileError, MapMismatch)):
                raise
            raise FileError(f"{path}: no shard of save_logical: {error!r}") from error

    def fill(self, base: str, start: int, part: Tensor) -> None:
        """Writes the bytes of a tensor from ``start`` on to their place on this rank."""
        target = as_bytes(part)
        at, end = start, start + target.numel()
        for first, last, digest, data in sorted(self._pieces.get(base, []), key=lambda piece: piece[:2]):
            if not first <= at < last:
                continue
            if hashlib.sha256(data.data).hexdigest() != digest:
                raise FileError(f"{base}: bytes {first} to {last} are not what was saved")
            to = min(last, end)
            target[at - start : to - start].copy_(torch.from_numpy(data[at - first : to - first].copy()))
            at = to
        if at < end:
            raise FileError(f"{base}: bytes {at} to {end} were not saved")


def _header(file: BinaryIO) -> dict[str, Any]:
    size = int.from_bytes(file.read(8), "little")
    if size > 1 << 30:
        raise ValueError(f"a header of {size} bytes")
    header: dict[str, Any] = json.loads(file.read(size))
    return header
