"""A folder that is whole or not there: filled under another name, on the disk before it gets its own."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Iterable

from .._native import FileError
from .live_map import MAP_FILE


def named(folder: str | os.PathLike[str]) -> Path:
    """A folder's path; raises FileError for what is none, or names what is not whole yet."""
    try:
        path = Path(folder)
    except TypeError:
        raise FileError(f"{folder!r}: expected the path of a folder, found {type(folder).__name__}") from None
    if path.name.endswith(".unfinished"):
        raise FileError(f"{path}: a name for what is not whole yet, and is deleted when its folder is made again")
    return path


def unfinished(folder: Path) -> Path:
    """Its name until it is whole."""
    return folder.with_name(folder.name + ".unfinished")


def begin(folder: Path) -> int:
    """An empty folder, and the file descriptor that says, as long as it is open, that this run fills it; what a run that was
    killed left is deleted."""
    if folder.name in ("", ".."):
        raise FileError(f"{str(folder)!r}: expected the name of a new folder")
    try:
        _check_free(folder)
        if unfinished(folder).is_dir():
            held = _hold(unfinished(folder))
            shutil.rmtree(unfinished(folder), ignore_errors=True)
            os.close(held)
        unfinished(folder).mkdir(parents=True)
        held = _hold(unfinished(folder))
        try:
            # A run may have ended meanwhile.
            _check_free(folder)
        except FileError:
            unfinished(folder).rmdir()
            os.close(held)
            raise
        return held
    except OSError as error:
        raise FileError(f"{unfinished(folder)}: cannot make it: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{str(folder)!r}: cannot make it: {error}") from None


def _check_free(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise FileError(f"{folder}: is there already; a checkpoint is never written over")


def _hold(path: Path) -> int:
    """Locks a folder that is not whole; refused while another run is at it. File systems without locks cannot tell."""
    other = FileError(f"{path}: another run is saving there; let it end, or save elsewhere")
    try:
        held = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        # Deleted by another, which begins again.
        raise other from None
    busy = False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        busy = isinstance(error, BlockingIOError)
    try:
        # Another may have deleted it, and made its own.
        ours = not busy and os.path.samestat(os.fstat(held), path.stat())
    except FileNotFoundError:
        ours = False
    if not ours:
        os.close(held)
        raise other
    return held


def finish(folder: Path, text: str, shards: Iterable[str]) -> None:
    """The map and the name, each on the disk before the next: after a crash a folder with its name is whole."""
    for shard in shards:
        if not (unfinished(folder) / shard).exists():
            raise FileError(f"{unfinished(folder) / shard}: not there: do all ranks write to one file system?")
    try:
        with open(unfinished(folder) / MAP_FILE, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _sync(unfinished(folder))
        unfinished(folder).rename(folder)
        _sync(folder.parent)
    except OSError as error:
        raise FileError(f"{folder}: cannot write: {error.strerror}") from error


def give_up(folder: Path) -> None:
    """Nothing half written is left."""
    shutil.rmtree(unfinished(folder), ignore_errors=True)


def _sync(folder: Path) -> None:
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
