"""The file beside experts that were saved live: which map was in force, what the sets are, and which shards belong to it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Collection, Mapping

from .._native import FileError, JobError, RoutePackError, map_hash
from .layout import plain
from .maps import MapMismatch, slots_of
from .state import Elements, ExpertState

FORMAT = "routepack-live-map 5"
MAP_FILE = "routepack_live_map.json"
SLOTS_FILE = "routepack_map.json"
"""What ``routepack checkpoint apply`` puts beside experts that are in slots."""

FIELDS = {
    "format": str,
    "order": str,
    "sha256": str,
    "log2phys": list,
    "tensors": dict,
    "etp": int,
    "sets": dict,
    "shards": dict,
    "extra": dict,
    "digest": str,
}


def digest(described: Mapping[str, Any]) -> str:
    """SHA-256 of everything a map file says beside its digest."""
    said = {key: value for key, value in described.items() if key != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def describe(state: ExpertState, sets: dict[str, Any], shards: Mapping[str, str], extra: dict[str, Any]) -> dict[str, Any]:
    """A map file of this state; ``shards``: SHA-256 of every shard's header, which has those of its pieces."""
    described = {
        "format": FORMAT,
        "order": "logical",
        "sha256": state.sha256,
        "log2phys": state.log2phys,
        "tensors": state.tensors,
        "etp": state.etp(),
        "sets": sets,
        "shards": dict(shards),
        "extra": extra,
    }
    return {**described, "digest": digest(described)}


def plain_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a trainer wants back, if it comes back as it is."""
    if not isinstance(extra, (Mapping, type(None))):
        raise JobError(f"extra: expected names and values, found {type(extra).__name__}")
    given = dict(extra or {})
    kept: dict[str, Any] = plain("extra", given)
    if kept != given:
        wrong = [key for key in given if kept.get(key) != given[key]]
        raise JobError(f"extra: {wrong} would come back as something else: expected text as keys, numbers, text, lists")
    return kept


def check_plain(path: Path) -> None:
    """Raises FileError for a pipe, socket or device: who opens one may wait for ever, and all ranks with it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FileError(f"{path}: a pipe, socket or device: expected a file")


def read_map(folder: Path) -> dict[str, Any]:
    """The map file of a folder, whole and untouched.

    Raises:
        MapMismatch: there is none, or experts are in slots.
        FileError: it is damaged.
    """
    path = folder / MAP_FILE
    try:
        if (folder / SLOTS_FILE).exists():
            raise MapMismatch(f"{folder}: experts are in slots ({SLOTS_FILE}): routepack checkpoint canonicalise first")
        check_plain(path)
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MapMismatch(f"{folder}: no {MAP_FILE}: nobody knows whether experts are in logical order or in slots") from None
    except OSError as error:
        raise FileError(f"{path}: cannot read: {error.strerror}") from error
    except RoutePackError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: no map: {error}") from None
    if not isinstance(found, dict):
        raise FileError(f"{path}: no map: expected an object, found {type(found).__name__}")
    if found.get("format") != FORMAT or found.get("order") != "logical":
        said = (found.get("format"), found.get("order"))
        raise FileError(f"{path}: format {said[0]!r} in order {said[1]!r}, expected {FORMAT!r} in order 'logical'")
    for key, kind in FIELDS.items():
        if type(found.get(key)) is not kind:
            raise FileError(f"{path}: no map: {key} = {_short(found.get(key))}, expected {kind.__name__}")
    if (held := digest(found)) != found["digest"]:
        raise FileError(f"{path}: digest = {_short(found['digest'])}, what it says has {held}: it was changed after it was saved")
    _check_fields(found, path)
    return found


def _check_fields(found: dict[str, Any], path: Path) -> None:
    """What a digest does not say: whether this was ever right."""
    try:
        rows = found["log2phys"]
        slots = slots_of(rows, len(rows[0]) if rows and isinstance(rows[0], list) else 0)
    except JobError as error:
        raise FileError(f"{path}: no map: {error}") from None
    if (held := map_hash(slots)) != found["sha256"]:
        raise MapMismatch(f"{path}: sha256 = {_short(found['sha256'])}, its slots have {held}")
    for name, one in found["sets"].items():
        if not isinstance(one, dict) or set(one) != {"element_bytes", "held", "tensors"}:
            raise FileError(f"{path}: no map: sets: {name} = {_short(one)}, expected element_bytes, held and tensors")
        layers = one["tensors"].values() if isinstance(one["tensors"], dict) else [None]
        if any(not isinstance(of, list) or len(of) != len(rows) for of in layers):
            wrong = _short(one["tensors"])
            raise FileError(f"{path}: no map: sets: {name}: tensors = {wrong}, expected {len(rows)} layers of each")
    for name, sha256 in found["shards"].items():
        # A name, not a way out of the folder.
        if not isinstance(sha256, str) or Path(name).name != name:
            raise FileError(f"{path}: no map: shards: {_short(name)} = {_short(sha256)}, expected a file and its sha256")


def check_shapes(state: ExpertState, found: dict[str, Any], folder: Path, leave: Collection[str]) -> None:
    """What was saved is of this model, cut over as many ranks; sets that are to be left behind are there, and no others."""
    shape = [len(found["log2phys"]), len(found["log2phys"][0])]
    for what, saved, mine in [
        ("layers and experts", shape, [state.num_layers, state.num_experts]),
        ("tensors of an expert", found["tensors"], state.tensors),
        ("etp", found["etp"], state.etp()),
    ]:
        if saved != mine:
            raise FileError(f"{folder}: {what}: {saved}, the trainer has {mine}")
    if missing := [name for name in state.set_names() if name not in found["sets"]]:
        raise FileError(f"{folder}: no sets {missing}; there are {list(found['sets'])}")
    if isinstance(leave, str) or not all(isinstance(name, str) for name in leave):
        raise JobError(f"leave: expected names of sets, found {_short(leave)}")
    if wrong := [name for name in leave if name not in found["sets"] or name in state.set_names()]:
        raise JobError(f"leave: {wrong} are not saved, or the trainer has them")
    if more := [name for name in found["sets"] if name not in state.set_names() and name not in leave]:
        raise FileError(f"{folder}: sets {more} were saved, the trainer has none such: leave={more} does without them")


def describe_sets(state: ExpertState, elements: Elements) -> dict[str, Any]:
    """Of every set: bytes of an element, how it is held, and of its tensors what they are by layer."""
    return {
        kind["name"]: {"element_bytes": kind["element_bytes"], "held": kind["held"], "tensors": elements[kind["name"]]}
        for kind in state.kinds()
    }


def check_sets(mine: dict[str, Any], saved: dict[str, Any], folder: Path) -> None:
    """FP32 bytes in a BF16 set are other weights, and every map agrees."""
    for name, wanted in mine.items():
        found = {**saved[name], "tensors": sorted(saved[name]["tensors"])}
        for what, value in {**wanted, "tensors": sorted(wanted["tensors"])}.items():
            if found[what] != value:
                raise FileError(f"{folder}: set {name}: {what} = {found[what]!r} was saved, the trainer has {value!r}")
        for tensor, layers in wanted["tensors"].items():
            for layer, (one, held) in enumerate(zip(saved[name]["tensors"][tensor], layers)):
                if one != held:
                    place = f"{folder}: set {name}: {tensor} of layer {layer}"
                    raise FileError(f"{place}: {_short(one)} was saved, the trainer has {held!r}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
