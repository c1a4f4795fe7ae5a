"""Shards of experts saved live: safetensors whose metadata says of every piece whose it is, where it begins and its SHA-256."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._native import FileError
from .live_map import MAP_FILE, check_plain
from .memory import as_bytes
from .state import ExpertState

PIECES = "routepack_pieces"
MAX_HEADER = 1 << 30

TYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8", torch.int8: "I8"}


def base(state: ExpertState, name: str, layer: int, expert: int, tensor: int, slice_: int) -> str:
    """The name of a tensor at rest; of one of its slices where experts are cut."""
    part = f".slice{slice_}" if state.etp() > 1 else ""
    return f"{name}.layers.{layer}.experts.{expert}.{list(state.tensors)[tensor]}{part}"


def write_shard(state: ExpertState, path: Path) -> str:
    """The pieces of this rank; tensors that all EDP positions have a copy of are written by the first. SHA-256 of its header."""
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
                    whose = base(state, name, layer, experts[slot], tensor, state.etp_position())
                    piece = f"{whose}.from{start}" if flat else whose
                    data = as_bytes(part, f"{name}: layer {layer}, slot {slot}")
                    dtype = "U8" if flat else TYPES.get(part.dtype, "U8")
                    shape = [data.numel()] if dtype == "U8" else list(part.shape)
                    header[piece] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + data.numel()]}
                    pieces[piece] = [whose, start, hashlib.sha256(_host(data)).hexdigest()]
                    written.append(data)
                    end += data.numel()
    header["__metadata__"] = {PIECES: json.dumps(pieces)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    begin = len(text).to_bytes(8, "little") + text
    try:
        with open(path, "xb") as file:
            file.write(begin)
            for data in written:
                file.write(_host(data))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(f"{path}: cannot write: {error.strerror}") from error
    return hashlib.sha256(begin).hexdigest()


def _host(data: Tensor) -> memoryview:
    held: npt.NDArray[np.uint8] = data.cpu().numpy()
    return held.data


class Saved:
    """Pieces of a folder by tensor, read where they are asked for."""

    def __init__(self, folder: Path, shards: Mapping[str, str]) -> None:
        self._pieces: dict[str, list[tuple[int, int, str, npt.NDArray[np.uint8]]]] = {}
        for shard, sha256 in shards.items():
            try:
                self._open(folder / shard, sha256)
            except FileNotFoundError:
                there = sum((folder / one).exists() for one in shards)
                why = f"of {len(shards)} shards that {MAP_FILE} names {there} are there; copy all files of the folder"
                raise FileError(f"{folder / shard}: cannot read: no such file: {why}") from None
            except OSError as error:
                raise FileError(f"{folder / shard}: cannot read: {error.strerror}") from error

    def _open(self, path: Path, sha256: str) -> None:
        check_plain(path)
        with open(path, "rb") as file:
            length = file.read(8)
            size = int.from_bytes(length, "little")
            text = file.read(size) if size <= MAX_HEADER else b""
        found = hashlib.sha256(length + text).hexdigest()
        if found != sha256:
            # Two saves under one map have the same names and sizes.
            raise FileError(f"{path}: its header has sha256 {found}, the map says {sha256}: damaged, or of another save")
        data = np.memmap(path, dtype=np.uint8, mode="r")
        try:
            header = json.loads(text)
            begin = 8 + size
            for piece, (whose, start, digest) in json.loads(header["__metadata__"][PIECES]).items():
                first, end = header[piece]["data_offsets"]
                if begin + end > data.size:
                    raise FileError(f"{path}: {piece} ends at byte {begin + end}, the file has {data.size}")
                held = (start, start + end - first, digest, data[begin + first : begin + end])
                self._pieces.setdefault(whose, []).append(held)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{path}: no shard of save_logical: {error!r}") from error

    def check_whole(self, state: ExpertState) -> None:
        """Raises FileError unless every byte of every tensor of these sets is in some piece."""
        places = itertools.product(range(state.num_layers), range(state.num_experts), range(state.etp()))
        for (layer, expert, slice_), kind in itertools.product(places, state.kinds()):
            for tensor, (name, elements) in enumerate(state.tensors.items()):
                if name in kind.get("tensors", state.tensors):
                    whose = base(state, kind["name"], layer, expert, tensor, slice_)
                    self._check_whole(whose, elements * kind["element_bytes"])

    def _check_whole(self, whose: str, size: int) -> None:
        at = 0
        for first, last, _, _ in sorted(self._pieces.get(whose, []), key=lambda piece: piece[:2]):
            at = max(at, last) if first <= at else at
        if at < size:
            raise FileError(f"{whose}: bytes {at} to {size} were not saved by any rank")

    def fill(self, whose: str, start: int, part: Tensor) -> None:
        """Writes the bytes of a tensor from ``start`` on to their place on this rank."""
        target = as_bytes(part, whose)
        at, end = start, start + target.numel()
        for first, last, digest, data in sorted(self._pieces.get(whose, []), key=lambda piece: piece[:2]):
            if not first <= at < last:
                continue
            if hashlib.sha256(data.data).hexdigest() != digest:
                raise FileError(f"{whose}: bytes {first} to {last} are not what was saved")
            to = min(last, end)
            target[at - start : to - start].copy_(torch.from_numpy(data[at - first : to - first].copy()))
            at = to
        if at < end:
            raise FileError(f"{whose}: bytes {at} to {end} were not saved")
