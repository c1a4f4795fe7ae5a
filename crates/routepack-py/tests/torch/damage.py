"""Files of a save that are damaged, exchanged or changed, field by field: refused on every rank, by name, and typed."""

import json
import os
import random
import shutil

import torch
import torch.distributed as dist

import routepack
from moe import DP, IDENTITY, Trainer, draw, equal
from routepack.torch import MapMismatch, load_logical, save_logical
from routepack.torch.live_map import MAP_FILE
from shared import edit, everybody_says, fails, first_writes, steps

SHARD = "experts-00002-of-00004.safetensors"


def refused(victim, bad, words):
    """A folder is refused on all ranks: who sees what is wrong says it, the others that it is. Nothing has changed, or
    nothing is fit for a step."""
    before = victim.canonical()
    heard = everybody_says(lambda: load_logical(victim.state, bad, victim.columns))
    assert all(text.startswith(("MapMismatch", "FileError", "JobError")) for text in heard), (bad.name, heard)
    saw = [text for text in heard if "was given up: rank" not in text]
    assert saw and all(words in text for text in saw), (words, heard)
    if victim.state.torn:
        fails(MapMismatch, "torn", victim.train_step)
    else:
        assert equal(victim.canonical(), before)


def mended(victim, good, expected):
    load_logical(victim.state, good, victim.columns)
    victim.steps_done = 1
    assert equal(victim.canonical(), expected)


def a_save_that_is_not_what_its_map_says_is_refused(folder):
    """Slots without a map, a map of other slots, shards of two saves, bytes that changed: a hard error on every rank."""
    trainer, other = Trainer(2, draw(1)), Trainer(2, draw(1))
    steps(trainer, 1)
    good, saved = folder / "good", trainer.canonical()
    save_logical(trainer.state, good, trainer.columns)
    # Same map, same names, same sizes, another step.
    save_logical(other.state, folder / "other", other.columns)
    assert (good / SHARD).stat().st_size == (folder / "other" / SHARD).stat().st_size

    def at(place, value):
        def change(bad):
            data = bytearray((bad / SHARD).read_bytes())
            data[place] ^= value
            (bad / SHARD).write_bytes(data)

        return change

    changed = lambda change, sealed=True: lambda bad: edit(bad, change, sealed)
    text = lambda words: lambda bad: (bad / MAP_FILE).write_bytes(words)
    exchanged = lambda name: lambda bad: shutil.copy(folder / "other" / name, bad / name)
    size = (good / SHARD).stat().st_size
    for number, (words, damage) in enumerate([
        ("no routepack_live_map.json: nobody knows", lambda bad: (bad / MAP_FILE).unlink()),
        ("experts are in slots", lambda bad: (bad / "routepack_map.json").write_text("{}")),
        ("no map", text(b"{")),
        ("no map", text(b"")),
        ("no map", text(b"\xff\xfe")),
        ("no map", text(b"[" * 100_000)),
        ("no map: expected an object, found list", text(b"[]")),
        ("expected 'routepack-live-map 5'", text(b"{}")),
        ("it was changed after it was saved", changed(lambda held: held.update(extra={"step": 7}), False)),
        ("its slots have", changed(lambda held: held.update(log2phys=IDENTITY))),
        ("expected 'routepack-live-map 5' in order 'logical'", changed(lambda held: held.update(order="slots"))),
        ("expected 'routepack-live-map 5'", changed(lambda held: held.update(format="routepack-live-map 2"))),
        ("its header has sha256", exchanged(SHARD)),
        ("its header has sha256", exchanged(MAP_FILE)),
        ("of 4 shards that routepack_live_map.json names 3 are there", lambda bad: (bad / SHARD).unlink()),
        ("cannot read: Is a directory", lambda bad: ((bad / SHARD).unlink(), (bad / SHARD).mkdir())),
        (f"{SHARD}: a pipe, socket or device", lambda bad: ((bad / SHARD).unlink(), os.mkfifo(bad / SHARD))),
        (f"{MAP_FILE}: a pipe, socket or device", lambda bad: ((bad / MAP_FILE).unlink(), os.mkfifo(bad / MAP_FILE))),
        (f"{SHARD}: a pipe, socket or device", lambda bad: ((bad / SHARD).unlink(), (bad / SHARD).symlink_to("/dev/zero"))),
        ("its header has sha256", lambda bad: (bad / SHARD).write_bytes(b"")),
        ("its header has sha256", at(0, 1)),
        ("its header has sha256", at(7, 255)),
        ("its header has sha256", at(100, 1)),
        ("were not saved", changed(lambda held: held["shards"].pop(SHARD))),
        ("tensors of an expert", changed(lambda held: held["tensors"].update(up=31))),
        ("no sets ['reference']", changed(lambda held: held["sets"].pop("reference"))),
        ("sets ['more'] were saved, the trainer has none such", changed(lambda held: held["sets"].update(more=held["sets"]["master"]))),
        ("set master: tensors = ['up'] was saved, the trainer has ['down', 'up']", changed(lambda held: held["sets"]["master"]["tensors"].pop("down"))),
        ("set master: element_bytes = 2 was saved", changed(lambda held: held["sets"]["master"].update(element_bytes=2))),
        ("not what was saved", at(size - 1, 1)),
        ("ends at byte", lambda bad: (bad / SHARD).write_bytes((bad / SHARD).read_bytes()[:-1])),
        ("layers and experts: [1, 8], the trainer has [2, 8]", lambda bad: edit(bad, one_layer)),
    ]):
        bad = folder / f"bad{number}"
        first_writes(lambda: (shutil.copytree(good, bad), damage(bad)))
        victim = Trainer(2, draw(3))
        refused(victim, bad, words)
        mended(victim, good, saved)


def one_layer(held):
    held["log2phys"] = held["log2phys"][:1]
    for one in held["sets"].values():
        one["tensors"] = {name: layers[:1] for name, layers in one["tensors"].items()}
    held["sha256"] = routepack._native.map_hash(held["log2phys"])


def every_field_of_a_map_is_checked(folder):
    """Missing, of another type, longer, shorter, negative, huge: whoever sealed it."""
    trainer, victim = Trainer(2, draw(1)), Trainer(2, draw(3))
    good, bad = folder / "fields", folder / "field"
    save_logical(trainer.state, good, trainer.columns)
    values = [None, True, -1, 1.5, 1 << 80, float("inf"), "x" * 100, "\x00", [], [[]], [[-1]], [[1 << 40]], {}, {"x": None}, {"..": "x"}, [["0"] * 8] * 2]
    places = [(key,) for key in json.loads((good / MAP_FILE).read_text())]
    places += [("log2phys", 0), ("log2phys", 1, 3), ("tensors", "up"), ("sets", "master"), ("sets", "master", "tensors", "up", 0), ("shards", SHARD)]
    tried = 0
    for place in places:
        for value in [*values, "gone", "longer"]:

            def change(held, place=place, value=value):
                for key in place[:-1]:
                    held = held[key]
                if value == "gone":
                    held.pop(place[-1])
                elif value == "longer":
                    extend(held, place[-1])
                else:
                    held[place[-1]] = value

            sealed = place[0] != "digest"
            first_writes(lambda: (shutil.rmtree(bad, ignore_errors=True), shutil.copytree(good, bad), edit(bad, change, sealed)))
            # What the trainer wants back is its own.
            if place == ("extra",) and (isinstance(value, dict) or value == "longer"):
                load_logical(victim.state, bad, victim.columns)
                continue
            refused(victim, bad, "")
            tried += 1
    assert tried > 200, tried
    mended(victim, good, trainer.canonical())


def extend(held, key):
    value = held[key]
    if isinstance(value, list):
        held[key] = value + value
    elif isinstance(value, dict):
        held[key] = {**value, "more": next(iter(value.values()), 0)}
    elif isinstance(value, str):
        held[key] = value + "0"
    else:
        held[key] = value + 1


def every_byte_of_a_shard_is_what_it_was(folder):
    """Flipped, cut off, or more of them, at drawn places: refused, or what was saved."""
    trainer, victim = Trainer(2, draw(1)), Trainer(2, draw(3))
    steps(trainer, 1)
    good, bad, saved = folder / "bytes", folder / "byte", trainer.canonical()
    save_logical(trainer.state, good, trainer.columns)
    chance = random.Random(3)
    whole = (good / SHARD).read_bytes()
    first_writes(lambda: shutil.copytree(good, bad))
    refusals = 0
    for number in range(40):
        at = chance.randrange(len(whole))
        data = [whole[:at] + bytes([whole[at] ^ (1 << number % 8)]) + whole[at + 1 :], whole[:at], whole + whole[:at]][number % 3]
        first_writes(lambda: (bad / SHARD).write_bytes(data))
        heard = everybody_says(lambda: load_logical(victim.state, bad, victim.columns))
        assert heard == ["nothing"] * DP or all(text.startswith("FileError") for text in heard), heard
        if heard == ["nothing"] * DP:
            assert equal(victim.canonical(), saved), "other bytes were loaded"
        refusals += heard != ["nothing"] * DP
    # More bytes behind are nobody's.
    assert refusals >= 26, refusals


def what_cannot_come_back_is_not_saved(folder):
    trainer = Trainer(2, draw(1))
    save = lambda extra: save_logical(trainer.state, folder / "extra", trainer.columns, extra)
    for extra in [{1: 2}, {"a": float("nan")}, {"a": {1}}, {"a": torch.zeros(1)}, {"a": (1, 2)}, {"a": b""}, {"a": {1: 2}}, {"a": float("inf")}, 5, [1], "ab"]:
        fails(routepack.JobError, "extra", lambda: save(extra))
        assert not list(folder.glob("extra*"))
        dist.barrier()
    # Ranks that do not agree which step this is.
    fails(routepack.JobError, "ranks 0 and 2 have different extra", lambda: save({"step": int(dist.get_rank() == 2)}))
    assert not list(folder.glob("extra*"))
    dist.barrier()
    kept = {"step": 3, "losses": [1.5, -0.0], "name": "é", "none": None, "deep": {"a": [True]}}
    save(kept)
    assert load_logical(trainer.state, folder / "extra", trainer.columns) == kept


CASES = [
    a_save_that_is_not_what_its_map_says_is_refused,
    every_field_of_a_map_is_checked,
    every_byte_of_a_shard_is_what_it_was,
    what_cannot_come_back_is_not_saved,
]
