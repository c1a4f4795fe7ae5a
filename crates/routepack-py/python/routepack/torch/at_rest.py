"""Expert state at rest: every set by logical expert, whatever slots it is in, and the map that was in force beside it.

A folder, whole or not there:

* ``routepack_live_map.json``: ``format`` (``routepack-live-map 2``), ``order`` (``logical``), ``log2phys`` (slot of every
  expert ``[layers][experts]`` when this was saved) and its ``sha256``, ``tensors`` (elements of every tensor of one expert),
  ``etp``, ``sets`` (of every set ``element_bytes``, ``held``, and ``dtype``, types of its elements), ``shards``, and
  ``extra``, what the trainer wants back.
* ``experts-RANK-of-RANKS.safetensors``: tensors ``SET.layers.LAYER.experts.EXPERT.TENSOR``; sets that are flat in pieces of
  bytes, ``….fromBYTE``. The metadata of a shard names the map by its hash, and of every piece whose it is, where it begins
  and its SHA-256.

Experts are in logical order, so any EP size and any map can load them. Router and dense parameters are the trainer's.
"""

from __future__ import annotations

import errno
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

FORMAT = "routepack-live-map 2"
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
            together.said = state.set_types()
            _write_shard(state, unfinished / shards[dist.get_rank()])
        sets = _all_types(together.heard)
        with together:
            if first:
                _finish(unfinished, folder, json.dumps(_describe(state, sets, shards, dict(extra or {}))))
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
        MapMismatch: the map is not there, or not the one the shards were written under; experts are in slots; ranks were
            given different maps.
        JobError: ``log2phys`` is no map of these layers and experts.
        FileError: a shard or a set is missing, a set has other elements or is held in another form, or bytes are not what
            they were.
    """
    folder = Path(folder)
    together = _Together(f"{folder}: loading")
    with together:
        found = _read_map(folder)
        _check_shapes(state, found, folder)
        saved = _Saved(folder, found)
        slots = state.slots(found["log2phys"] if log2phys is None else log2phys)
        together.said = {"map of the folder": found["sha256"], "map to load": map_hash(slots), "types": state.set_types()}
    _check_said(together.heard, ["map of the folder", "map to load"])
    _check_types(_all_types([said["types"] for said in together.heard]), found["sets"], folder)
    try:
        # Derived tensors are remade inside, too: on no rank is the load good unless it is on all.
        with together, state.loading(slots):
            _fill(state, saved)
            set_columns(by_layer(column_maps), state)
        state.agree()
    except BaseException:
        state._tear()
        raise
    extra: dict[str, Any] = found["extra"]
    return extra


def _fill(state: ExpertState, saved: _Saved) -> None:
    for kind, name in enumerate(state.set_names()):
        for layer in state.local_layers():
            experts = state.phys2log(layer)
            for slot in state.local_slots():
                for tensor, start, part in state.pieces(kind, layer, slot):
                    saved.fill(_base(state, name, layer, experts[slot], tensor), start, part)


class _Together:
    """A part that all ranks do or none has done: its failure on one is raised on all. What every rank said in it, all have
    heard after it."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.said: Any = None
        self.heard: list[Any] = []

    def __enter__(self) -> _Together:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, Exception):
            return
        votes: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(votes, (None if error is None else str(error), self.said))
        if error is not None:
            return
        for rank, (failed, _) in enumerate(votes):
            if failed is not None:
                raise FileError(f"{self.what} was given up: rank {rank}: {failed}")
        self.heard = [said for _, said in votes]


def _check_said(heard: list[Any], keys: Sequence[str]) -> None:
    for key in keys:
        for rank, said in enumerate(heard):
            if said[key] != heard[0][key]:
                raise MapMismatch(f"ranks 0 and {rank} have different maps: {key}: {heard[0][key][:16]} and {said[key][:16]}")


def _all_types(heard: list[Any]) -> dict[str, Any]:
    """What all ranks say of their sets: a stage of the pipeline sees only its own layers."""
    return {name: {**one, "dtype": sorted({dtype for said in heard for dtype in said[name]["dtype"]})} for name, one in heard[0].items()}


def _begin(folder: Path, unfinished: Path) -> None:
    if folder.exists():
        raise FileError(f"{folder}: is there already; a checkpoint is never written over")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise FileError(f"{unfinished}: cannot make it: {error.strerror}") from error


def _finish(unfinished: Path, folder: Path, text: str) -> None:
    """The map and the name, each on the disk before the next: after a crash a folder with its name is whole."""
    try:
        with open(unfinished / MAP_FILE, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(unfinished)
        unfinished.rename(folder)
        _sync_folder(folder.parent)
    except OSError as error:
        raise FileError(f"{folder}: cannot write: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    """Names in a folder reach the disk with it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        # Some network file systems cannot.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(opened)


def _describe(state: ExpertState, sets: dict[str, Any], shards: list[str], extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "order": "logical",
        "sha256": state.sha256,
        "log2phys": state.log2phys,
        "tensors": state.tensors,
        "etp": state.etp(),
        "sets": sets,
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
        for one in found["sets"].values():
            one["element_bytes"], one["held"], one["dtype"]
        needed = [found[key] for key in ("tensors", "etp", "sets", "shards", "extra")]
    except FileNotFoundError:
        raise MapMismatch(f"{folder}: no {MAP_FILE}: nobody knows whether experts are in logical order or in slots") from None
    except OSError as error:
        raise FileError(f"{path}: cannot read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
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
        raise FileError(f"{folder}: no sets {missing}; there are {list(found['sets'])}")


def _check_types(mine: dict[str, Any], saved: dict[str, Any], folder: Path) -> None:
    for name, wanted in mine.items():
        for what, value in wanted.items():
            if saved[name][what] != value:
                raise FileError(f"{folder}: set {name}: {what} = {saved[name][what]!r} was saved, the trainer has {value!r}")


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
