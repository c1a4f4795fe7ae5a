"""Expert state at rest: every set by logical expert, whatever slots it is in, and the map that was in force beside it.

A folder, whole or not there:

* ``routepack_live_map.json``: ``format`` (``routepack-live-map 5``), ``order`` (``logical``), ``log2phys`` (slot of every
  expert ``[layers][experts]`` when this was saved) and its ``sha256``, ``tensors`` (elements of every tensor of one expert),
  ``etp``, ``sets`` (of every set ``element_bytes``, ``held`` and ``tensors``: of each, by layer, the type of its elements and, by
  slot, its shape), ``shards`` (files, and the SHA-256 of each one's header), ``extra``, what the trainer wants back, and
  ``digest``, the SHA-256 of all that.
* ``experts-RANK-of-RANKS.safetensors``: tensors ``SET.layers.LAYER.experts.EXPERT.TENSOR``; sets that are flat in pieces of
  bytes, ``….fromBYTE``. The metadata of a shard says of every piece whose it is, where it begins and its SHA-256.

So one digest stands for every byte, and files of two saves cannot be mixed. Experts are in logical order, so any EP size and
any map can load them. Router and dense parameters are the trainer's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Collection, Mapping

import torch.distributed as dist

from .._native import JobError, map_hash
from .alike import check_alike, said
from .columns import Columns, by_layer, check_columns
from .live_folder import begin, finish, give_up, named, unfinished
from .live_map import check_sets, check_shapes, describe, describe_sets, plain_extra, read_map
from .live_shards import Saved, base, write_shard
from .maps import MapMismatch
from .peers import Interrupts, Together
from .state import ExpertState


def save_logical(
    state: ExpertState, folder: str | os.PathLike[str], column_maps: Columns = (), extra: Mapping[str, Any] | None = None
) -> None:
    """Writes every set of the state; all ranks call this between the same steps, on a file system they share.

    The folder gets its name when all ranks have written. What a run that was killed left, ``FOLDER.unfinished``, is
    deleted by the next.

    Args:
        column_maps: of the dispatchers; refused where one is not the map in force.
        extra: plain data that ``load_logical`` gives back, such as the number of the step; the same on all ranks.

    Raises:
        MapMismatch: a set, a column map or a rank has another map, a step is going on, or ranks have different topology, layout,
            elements or column maps.
        RoutePackError: what a trainer's function gives is not what it was when the set was added.
        JobError: ``extra`` would not come back as it is.
        FileError: the folder is there already, some rank cannot write, bytes are missing, or another refused; then it is not
            made.
        PeersLost: a rank is gone, did not answer for too long or (VotesDiffer) left this call; a folder that has its name is
            whole.
        KeyboardInterrupt: Ctrl-C here, once all ranks know; the others raise FileError, and the folder is not made. Once all
            have written it comes too late but on the first rank: the folder is made, and the others do not hear of it.
    """
    with Interrupts() as interrupts:
        together = Together(state.peers, f"{folder}: saving", interrupts)
        with together.on("saving: arguments"):
            folder = named(folder)
            state.check_job()
            state.between_steps("saving")
            state.check()
            state.check_memory()
            columns = by_layer(column_maps, state)
            check_columns(columns.items(), state)
            kept = plain_extra(extra)
            together.said = {"maps: in force": state.sha256, "extra": json.dumps(kept, sort_keys=True), **said(state, columns)}
        sets = describe_sets(state, check_alike(together.heard))
        folder = Path(folder)
        first = dist.get_rank() == 0
        shard = f"experts-{dist.get_rank():05}-of-{dist.get_world_size():05}.safetensors"
        held: int | None = None
        try:
            with together.on("saving: the folder"):
                if first:
                    held = begin(folder)
            with together.on("saving: shards"):
                together.said = shard, write_shard(state, unfinished(folder) / shard)
            shards = dict(together.heard)
            # All have written: from here on Ctrl-C on another rank comes too late.
            with Together(state.peers, f"{folder}: saving", Interrupts()).on("saving: the map"):
                if first:
                    interrupts.heed()
                    Saved(unfinished(folder), shards).check_whole(state)
                    finish(folder, json.dumps(describe(state, sets, shards, kept)), shards)
        except BaseException:
            if held is not None:
                give_up(folder)
            raise
        finally:
            if held is not None:
                os.close(held)


def load_logical(
    state: ExpertState,
    folder: str | os.PathLike[str],
    column_maps: Columns = (),
    log2phys: Any = None,
    leave: Collection[str] = (),
) -> dict[str, Any]:
    """Fills every set of the state from a folder of ``save_logical``; all ranks call this. If one fails, no set is fit for a
    step on any.

    Args:
        column_maps: of the dispatchers; they get the new map, as all that were given before (``ExpertState.follow``).
        log2phys: the map to lay state out by; that of the folder by default, whatever the EP size.
        leave: names of saved sets that the trainer has not, to do without; others are refused.

    Returns:
        What was given to ``save_logical`` as ``extra``.

    Raises:
        MapMismatch: the map is not there, or is none of its own slots; experts are in slots; ranks were given different maps
            or folders, or have different topology, layout, elements or column maps; a step is going on.
        RoutePackError: what a trainer's function gives is not what it was when the set was added.
        JobError: ``log2phys`` is no map of these layers and experts, or ``leave`` names what is not there.
        FileError: a shard or a set is missing or of another save, there is a set that the trainer has not, one has other
            elements, shapes or tensors or is held in another form, bytes are not what they were, or another rank failed.
        PeersLost: a rank is gone, did not answer for too long or (VotesDiffer) left this call.
        KeyboardInterrupt: Ctrl-C here, once all ranks know; the others raise FileError. Once all have loaded it comes too
            late: sets are loaded on all ranks, this one too, and the others do not hear of it.
    """
    with Interrupts() as interrupts:
        together = Together(state.peers, f"{folder}: loading", interrupts)
        with together.on("loading: arguments"):
            folder = named(folder)
            state.check_job()
            state.between_steps("loading")
            state.check_memory()
            columns = by_layer(column_maps, state)
            found = read_map(folder)
            check_shapes(state, found, folder, leave)
            saved = Saved(folder, found["shards"])
            slots = state.slots(found["log2phys"] if log2phys is None else log2phys)
            together.said = {"folders": found["digest"], "maps: map to load": map_hash(slots), **said(state, columns)}
        check_sets(describe_sets(state, check_alike(together.heard)), found["sets"], Path(folder))
        try:
            # Derived tensors are remade inside, too: on no rank is the load good unless it is on all.
            with together.on("loading: sets"):
                state.follow(columns)
                with state.loading(slots):
                    _fill(state, saved, interrupts)
            state.agree()
        except BaseException:
            state.tear()
            raise
    extra: dict[str, Any] = found["extra"]
    return extra


def _fill(state: ExpertState, saved: Saved, interrupts: Interrupts) -> None:
    for kind, name in enumerate(state.set_names()):
        for layer in state.local_layers():
            experts = state.phys2log(layer)
            for slot in state.local_slots():
                interrupts.heed()
                for tensor, start, part in state.pieces(kind, layer, slot):
                    saved.fill(base(state, name, layer, experts[slot], tensor, state.etp_position()), start, part)
