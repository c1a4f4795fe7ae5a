#!/usr/bin/env python3
"""Tests of the second checker: fixtures, oracles by brute force, damaged certificates, agreement with the first.

    python3 tests/certificate/test_check.py

Agreement needs the program routepack-check, built in $CARGO_TARGET_DIR/release or target/release; without it, that
test is skipped and says so. Every random choice has a fixed seed.
"""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import check as checker  # noqa: E402  (it is next to this file)

FIXTURES = ROOT / "crates" / "routepack-certificate" / "tests"
BINARY = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release" / "routepack-check"
DAMAGED_CERTIFICATES = 700


# What is true, by brute force.


@lru_cache(maxsize=None)
def fewest_bins(sizes, capacity, max_items):
    """The fewest bins, over all packings: the first item left goes with every set of others that fits."""
    everything = (1 << len(sizes)) - 1
    load = [0] * (everything + 1)
    for items in range(1, everything + 1):
        lowest = items & -items
        load[items] = load[items ^ lowest] + sizes[lowest.bit_length() - 1]

    fewest = [0] * (everything + 1)
    for items in range(1, everything + 1):
        lowest = items & -items
        others = chosen = items ^ lowest
        best = len(sizes) + 1
        while True:
            members = chosen | lowest
            if load[members] <= capacity and (max_items == 0 or bin(members).count("1") <= max_items):
                best = min(best, 1 + fewest[items ^ members])
            if chosen == 0:
                break
            chosen = (chosen - 1) & others
        fewest[items] = best
    return fewest[everything]


def rows_by_trial(bins, slots, multiple):
    """The least multiple of `multiple` rows with slots for so many bins."""
    return next(rows for rows in itertools.count(0, multiple) if slots * rows >= bins)


def patterns_by_list(node, capacity, most_items):
    """All patterns of a node (sizes, demands, counts, apart), one by one: (pattern, load, count)."""
    sizes, demands, counts, apart = node
    for pattern in itertools.product(*(range(demand + 1) for demand in demands)):
        load = sum(w * a for w, a in zip(sizes, pattern))
        count = sum(c * a for c, a in zip(counts, pattern))
        if load > capacity or (most_items is not None and count > most_items):
            continue
        if not any(pattern[s] and pattern[t] and (s != t or pattern[s] > 1) for s, t in apart):
            yield pattern, load, count


def value_of(pattern, weights, cuts):
    """V of the leaf rule."""
    rounded = sum(s * (sum(mu * pattern[t] for t, mu in pairs) // den) for s, den, pairs in cuts)
    return sum(p * a for p, a in zip(weights, pattern)) - rounded


def refutes_by_list(node, statement, bins, weights, cuts):
    """The leaf rule, word for word, over the list of all patterns."""
    all_sizes, capacity, max_items, _, _ = statement
    total, items = sum(all_sizes), len(all_sizes)
    most_items = min(max_items, items) if max_items else None
    if bins * capacity < total or (max_items and bins * most_items < items):
        return True
    for pattern, load, count in patterns_by_list(node, capacity, most_items):
        filled = load >= capacity - (bins * capacity - total)
        filled = filled and (not max_items or count >= most_items - (bins * most_items - items))
        if filled and bins * value_of(pattern, weights, cuts) >= value_of(node[1], weights, cuts):
            return False
    return True


def totals_by_list(sizes):
    """The totals of all sets of one or more items."""
    sets = itertools.chain.from_iterable(itertools.combinations(sizes, 1 + count) for count in range(len(sizes)))
    return {sum(chosen) for chosen in sets}


def without(sizes, fill):
    """The items that are left after a fill, or after as much of it as there is."""
    left = list(sizes)
    for size in fill:
        if size in left:
            left.remove(size)
    return left


def fill_flaw(sizes, capacity, bins, fill):
    """Which condition of the rule fill fails, word for word (None: none), where the items in a bin are unlimited."""
    left = without(sizes, fill)
    if sum(sizes) > bins * capacity:
        return "bins"
    if len(left) != len(sizes) - len(fill):
        return "items"
    if sum(fill) != capacity:
        return "full"
    if len(left) < bins:
        return "left"
    low = capacity - (bins * capacity - sum(sizes)) - fill[0]
    for total in totals_by_list([size for size in left if size not in fill[1:]]):
        if low <= total <= capacity - fill[0] and all(total > size for size in fill[1:]):
            return "others"
    return None


def fills_of(sizes, capacity):
    """All lines fill of one to three sizes that are there and, if so many items of them are, fill a bin."""
    kinds = sorted(set(sizes))
    if capacity in kinds:
        yield (capacity,)
    for first, second in itertools.product(kinds, repeat=2):
        if first + second == capacity:
            yield first, second
        elif capacity - first - second in kinds:
            yield first, second, capacity - first - second


# Writing certificates.


def header(sizes, capacity, max_items=0, slots=1, multiple=1):
    """The lines of the header."""
    digest = checker.digest_of(sizes, checker.Budget())
    return [
        "routepack-certificate 1",
        f"items {len(sizes)}",
        f"total {sum(sizes)}",
        f"digest {digest}",
        f"capacity {capacity}",
        f"max-items {max_items}",
        f"slots {slots}",
        f"rows-multiple {multiple}",
    ]


def text_of(*parts):
    """The bytes of a certificate of these lines."""
    return "".join(f"{line}\n" for part in parts for line in part).encode()


def lengths_of(sizes):
    """A file of lengths, one a line."""
    return "".join(f"{size}\n" for size in sizes).encode()


def branchings(node, capacity, max_items):
    """All pairs of types that may be branched on."""
    sizes, demands, counts, apart = node
    for i, j in itertools.combinations_with_replacement(range(len(sizes)), 2):
        there = demands[i] >= 1 and demands[j] >= 1 and (i != j or demands[i] >= 2)
        fit = sizes[i] + sizes[j] <= capacity and (max_items == 0 or counts[i] + counts[j] <= max_items)
        if there and fit and (i, j) not in apart:
            yield i, j


def glued(node, i, j):
    """The child *together*."""
    sizes, demands, counts, apart = node
    demands = list(demands)
    demands[i] -= 1
    demands[j] -= 1
    new = len(sizes)
    inherited = {t for s, t in apart if s in (i, j)}
    return (
        sizes + [sizes[i] + sizes[j]],
        demands + [1],
        counts + [counts[i] + counts[j]],
        apart | {(new, t) for t in inherited} | {(t, new) for t in inherited},
    )


def parted(node, i, j):
    """The child *apart*."""
    sizes, demands, counts, apart = node
    return sizes, demands, counts, apart | {(i, j), (j, i)}


def root(sizes):
    """The root as (sizes, demands, counts, apart)."""
    kinds = sorted(set(sizes), reverse=True)
    return kinds, [sizes.count(kind) for kind in kinds], [1] * len(kinds), frozenset()


def random_cuts(random_stream, types):
    """Up to two cuts as (s, den, [(t, μ), …])."""
    cuts = []
    for _ in range(random_stream.choice((0, 0, 1, 1, 2))):
        members = sorted(random_stream.sample(range(types), random_stream.randint(1, min(3, types))))
        pairs = [(t, random_stream.randint(1, 2)) for t in members]
        cuts.append((random_stream.randint(1, 4), random_stream.randint(1, 3), pairs))
    return cuts


def line_of(word, numbers):
    """One line."""
    return " ".join(map(str, [word, *numbers]))


def leaf_lines(weights, cuts):
    """The lines of a leaf."""
    yield line_of("leaf", [len(cuts), *weights])
    for scale, den, pairs in cuts:
        yield line_of("cut", [scale, den, *itertools.chain(*pairs)])


def prove(random_stream, node, statement, bins, depth=0):
    """The lines of a tree that refutes so many bins: a leaf if one of a few guesses holds, else a branch.

    Always ends: where nothing can be branched on, no bin holds two items, and weights of one refute. Near the root
    it sometimes branches without need.
    """
    _, capacity, max_items, _, _ = statement
    pairs = list(branchings(node, capacity, max_items))
    sizes = node[0]
    guesses = [(sizes, []), ([1] * len(sizes), [])]
    for _ in range(3):
        weights = [random_stream.randint(-2, size) for size in sizes]
        guesses.append((weights, random_cuts(random_stream, len(sizes))))
    random_stream.shuffle(guesses)
    if pairs and depth < 4 and random_stream.random() < 0.5:
        guesses = []
    for weights, cuts in guesses:
        if refutes_by_list(node, statement, bins, weights, cuts):
            return list(leaf_lines(weights, cuts))
    i, j = random_stream.choice(pairs)
    if random_stream.random() < 0.5:
        i, j = j, i
    lines = [f"branch {i} {j}"]
    for child in (glued(node, i, j), parted(node, i, j)):
        lines += prove(random_stream, child, statement, bins, depth + 1)
    return lines


def random_statement(random_stream, most_items):
    """(sizes, capacity, max_items, slots, multiple)."""
    capacity = random_stream.randint(4, 30)
    sizes = [random_stream.randint(1, capacity) for _ in range(random_stream.randint(1, most_items))]
    if random_stream.random() < 0.5:
        sizes = [max(1, min(capacity, size // 2 + 1)) for size in sizes]
    max_items = random_stream.choice((0, 0, 1, 2, 3))
    return sizes, capacity, max_items, random_stream.randint(1, 3), random_stream.randint(1, 3)


def fillable_statement(random_stream, most_items, hard):
    """A statement whose items are those of bins that are full or nearly so, with no limit of items in a bin.

    If hard, three are larger than half a bin: they often need one more than the volume says.
    """
    capacity = random_stream.randint(8, 30)
    sizes = [random_stream.randint(capacity // 2 + 1, capacity * 2 // 3) for _ in range(3)] if hard else []
    waste = random_stream.choice((0, 0, 1, 3))
    while len(sizes) < most_items and (len(sizes) < 4 or random_stream.random() < 0.9):
        parts = min(random_stream.choice((1, 2, 2, 3, 3, 3, 4)), most_items - len(sizes))
        room = capacity - random_stream.randint(0, waste)
        for ahead in range(parts - 1, 0, -1):
            known = [size for size in sizes if size <= room - ahead]
            again = known and random_stream.random() < 0.3
            sizes.append(random_stream.choice(known) if again else random_stream.randint(1, room - ahead))
            room -= sizes[-1]
        sizes.append(room)
    random_stream.shuffle(sizes)
    return sizes, capacity, 0, random_stream.randint(1, 3), random_stream.randint(1, 3)


def random_node(random_stream):
    """A statement with small numbers, and a node of it: as (sizes, demands, counts, apart), and as the checker's."""
    statement = random_statement(random_stream, 9)
    if random_stream.random() < 0.7:  # many bins of one load, several items in a bin
        capacity = random_stream.randint(6, 14)
        sizes = [random_stream.randint(1, 6) for _ in range(random_stream.randint(4, 9))]
        statement = (sizes, capacity, *statement[2:])
    sizes, capacity, max_items, _, _ = statement
    node = root(sizes)
    ours = checker.Node(node[0], node[1])
    for _ in range(random_stream.randint(0, 4)):
        pairs = list(branchings(node, capacity, max_items))
        if not pairs:
            break
        i, j = random_stream.choice(pairs)
        if random_stream.random() < 0.4:
            ours.glue(i, j)
            node = glued(node, i, j)
        else:
            ours.part(i, j)
            node = parted(node, i, j)
    return statement, node, ours


@lru_cache(maxsize=None)
def proved_certificates():
    """Certificates by the prover above, of optimal claims: [(certificate, lengths)]."""
    random_stream = random.Random(20)
    cases = []
    while len(cases) < 70:
        with_fills = len(cases) >= 40
        statement = fillable_statement(random_stream, 9, True) if with_fills else random_statement(random_stream, 7)
        sizes, capacity, max_items, slots, multiple = statement
        bins = fewest_bins(tuple(sizes), capacity, max_items) - 1
        rows = rows_by_trial(bins + 1, slots, multiple)
        fills, left, bins_left = [], sizes, bins
        while with_fills:
            allowed = [fill for fill in fills_of(left, capacity) if not fill_flaw(left, capacity, bins_left, fill)]
            if not allowed or random_stream.random() < 0.2:
                break
            fill = random_stream.choice(allowed)
            fills, left, bins_left = fills + [line_of("fill", fill)], without(left, fill), bins_left - 1
        if with_fills and not fills:
            continue
        tree = fills + prove(random_stream, root(left), (left, *statement[1:]), bins_left)
        if len(tree) > 200:
            continue
        claims = [f"cells-at-least {bins + 1}"]
        if random_stream.random() < 0.5:
            claims.append(f"rows-at-least {rows}")
        cases.append((text_of(header(*statement), claims, ["tree"], tree, ["end"]), lengths_of(sizes)))
    return cases


def guessed_tree(random_stream, node, statement, depth=0):
    """The lines of a tree with guessed branches, weights and cuts: about half of them refute what they should."""
    _, capacity, max_items, _, _ = statement
    pairs = list(branchings(node, capacity, max_items))
    if pairs and depth < 3 and random_stream.random() < 0.5:
        i, j = random_stream.choice(pairs)
        children = glued(node, i, j), parted(node, i, j)
        lines = [guessed_tree(random_stream, child, statement, depth + 1) for child in children]
        return [f"branch {i} {j}", *lines[0], *lines[1]]
    sizes, scale = node[0], random_stream.choice((1, 7, 2**20))
    weights = [size * scale + random_stream.choice((0, 0, 0, 1, -1)) for size in sizes]
    if random_stream.random() < 0.4:
        weights = [random_stream.choice((1, 1, 2)) * (4 * size // capacity + 1) - 1 for size in sizes]
    elif random_stream.random() < 0.3:
        weights = [scale * (2 * size > capacity) for size in sizes]
    return list(leaf_lines(weights, random_cuts(random_stream, len(sizes))))


@lru_cache(maxsize=None)
def guessed_certificates():
    """Claims near the optimum with guessed proofs: [(certificate, lengths)]."""
    random_stream = random.Random(26)
    cases = []
    while len(cases) < 400:
        with_fills = len(cases) >= 300
        statement = fillable_statement(random_stream, 9, True) if with_fills else random_statement(random_stream, 9)
        sizes, capacity, max_items, _, _ = statement
        cells = fewest_bins(tuple(sizes), capacity, max_items) + random_stream.choice((-1, 0, 0, 0, 1))
        fills, left = [], sizes
        while with_fills and len(left) > 3 and random_stream.random() < 0.7:
            lines = list(fills_of(left, capacity))
            allowed = [fill for fill in lines if not fill_flaw(left, capacity, cells - 1 - len(fills), fill)]
            if random_stream.random() < 0.9:
                lines = allowed
            if not lines:
                break
            fill = random_stream.choice(lines)
            fills, left = fills + [line_of("fill", fill)], without(left, fill)
        if with_fills and not fills:
            continue
        tree = fills + guessed_tree(random_stream, root(left), (left, *statement[1:]))
        claim = f"cells-at-least {min(max(cells, 1), len(sizes))}"
        cases.append((text_of(header(*statement), [claim, "tree"], tree, ["end"]), lengths_of(sizes)))
    return cases


def boundary_cases():
    """What is just allowed and just not: [(certificate, lengths, exit code)]."""
    sizes = [9, 9, 9, 9, 2, 2, 2, 2]
    cases = []

    def add(code, *lines, sizes=sizes, **statement):
        start = header(sizes, **{"capacity": 10, **statement})
        cases.append((text_of(start, lines, ["end"]), lengths_of(sizes), code))

    # Section 1: ranges of the statement and of the claims.
    for name, limit in (("capacity", 2**64), ("slots", 2**64), ("multiple", 2**64), ("max_items", 2**32)):
        add(0, **{name: limit - 1})
        add(1, **{name: limit})
        add(1, **{name: -1})
        add(0 if name == "max_items" else 1, **{name: 0})
    for code, claim in ((1, "-1"), (1, "0"), (0, "8"), (1, "9"), (1, str(2**64)), (1, "8 8"), (1, "")):
        add(code, f"cells-at-least {claim}".rstrip(), "count", max_items=1)
    for code, claim in ((1, "0"), (0, "2"), (1, "3"), (0, "8"), (1, "10")):
        add(code, f"rows-at-least {claim}", "count", max_items=1, multiple=2)
    add(0, f"rows-at-least {2**64 - 1}", "volume", slots=2**64 - 1, multiple=2**64 - 1)
    add(1, f"rows-at-least {2**64 - 1}", "volume", slots=2**64 - 1)
    add(1, "rows-at-least 1", "cells-at-least 1", "volume")
    add(1, "cells-at-least 1", "cells-at-least 1", "volume")
    add(1, "cells-at-least 1", "volume", sizes=[])
    add(1, "cells-at-least 1", "tree", "leaf 0", sizes=[])
    add(0, "witness 0", sizes=[])
    add(1, "witness 1", "bin", sizes=[])
    add(1, "witness -1")
    add(1, "witness -1", sizes=[])

    # Section 2: the digest is of the sizes in input order.
    shuffled = text_of(header(sizes[::-1], 10), ["end"])
    cases.append((shuffled, lengths_of(sizes[::-1]), 0))
    cases.append((shuffled, lengths_of(sizes), 1))

    # Section 3: one bin.
    for code, capacity, max_items in ((0, 44, 0), (0, 44, 8), (1, 43, 0), (1, 44, 7)):
        add(code, "witness 1", "bin 7 0 1 2 3 4 5 6", capacity=capacity, max_items=max_items)

    # Section 2: plain integers only, of at most 38 bytes.
    for integer in ("-1", "-0", "01", "+1", "1-", "-", "0x1", "1_0", "9" * 39):
        code = 0 if integer == "-1" else 1
        add(code, "cells-at-least 1", "tree", f"leaf 0 {integer} 0")

    # Section 4: conditions hold even where K = 0. |p|·10 <= 9·2^60 for the larger size.
    most = 9 * 2**60 // 10
    for code, weights in ((0, "0 0"), (1, "0"), (1, "0 0 0"), (1, "-1 0"), (0, f"{most} 0"), (1, f"{most + 1} 0")):
        add(code, "cells-at-least 1", f"weights {weights}")
    for code, weights in ((0, f"{-most} 0"), (1, f"{-most - 1} 0"), (1, ""), (0, f"0 {2**61 // 10}")):
        add(code, "cells-at-least 1", "tree", f"leaf 0 {weights}".rstrip())
    add(1, "cells-at-least 1", "tree", "leaf 0 0 0", "leaf 0 0 0")
    add(1, "cells-at-least 1", "tree")
    add(1, "cells-at-least 1", "tree", "leaf")
    add(1, "cells-at-least 1", "tree", "leaf -1 0 0")
    for code, cut in (
        (0, "1 1 0 1"),
        (0, "1 1 0 1 1 1"),
        (1, "1 1 1 1 0 1"),
        (1, "1 1 0 1 0 1"),
        (1, "1 1 2 1"),
        (1, "1 1 -1 1"),
        (1, "1 1 0 0"),
        (1, "1 1 0"),
        (1, "1 1"),
        (1, "0 1 0 1"),
        (1, "1 0 0 1"),
        (0, f"{2**60} 1 0 1"),
        (1, f"{2**60 + 1} 1 0 1"),
        (0, f"1 {2**32 - 1} 0 1"),
        (1, f"1 {2**32} 0 1"),
        (0, f"1 1 0 {2**32 - 1}"),
        (1, f"1 1 0 {2**32}"),
    ):
        add(code, "cells-at-least 1", "tree", "leaf 1 0 0", f"cut {cut}")
    add(0, "cells-at-least 1", "tree", "leaf 1 0", f"cut {2**60} 1 0 {2**31}", sizes=[1] * 512)
    add(1, "cells-at-least 1", "tree", "leaf 1 0", f"cut {2**60} 1 0 {2**31 + 1}", sizes=[1] * 512)
    # Branches at the root, where K = 0.
    for code, pair, types in ((0, "1 1", 3), (1, "0 1", 3), (1, "1 2", 3), (1, "-1 1", 3), (1, "1", 3), (1, "1 1", 2)):
        leaf = "leaf 0" + " 0" * types
        add(code, "cells-at-least 1", "tree", f"branch {pair}", leaf, "leaf 0 0 0")
    add(1, "cells-at-least 1", "tree", "branch 0 0", "leaf 0 0 0", "leaf 0 0", sizes=[2], capacity=4)
    add(0, "cells-at-least 1", "tree", "branch 0 0", "leaf 0 0 0", "leaf 0 0", sizes=[2, 2], capacity=4)
    twice = ["branch 0 0", "leaf 0 0 0", "branch 0 0", "leaf 0 0 0", "leaf 0 0"]
    add(1, "cells-at-least 1", "tree", *twice, sizes=[2, 2, 2], capacity=4)
    add(1, "cells-at-least 1", "tree", "branch 1 1", "leaf 0 0 0 0", "leaf 0 0 0", max_items=1)
    add(0, "cells-at-least 1", "tree", "branch 1 1", "leaf 0 0 0 0", "leaf 0 0 0", max_items=2)
    # Section 5: (q' + 1)·2^64 is past a limit that a checker may have, this one has not.
    add(0, "cells-at-least 2", "weights 1 0", sizes=[2**63, 2**63, 1], capacity=2**64 - 1, max_items=1)
    return cases


def fill_cases():
    """Every condition of the rule fill just holding and just failing: [(certificate, lengths, exit code)].

    No bin holds two of the items that are larger than half of it. More of them than bins are left nearly everywhere:
    then the leaf is valid whatever else is left, and what is refused is refused for its fills.
    """
    cases = []

    def add(code, bins, fills, sizes, capacity=100, tree=None, max_items=0):
        left = sizes
        for fill in fills:
            left = without(left, map(int, fill.split()))
        weights = [int(2 * kind > capacity) for kind in root(left)[0]]
        lines = [f"cells-at-least {bins + 1}", "tree", *(f"fill {fill}".rstrip() for fill in fills)]
        lines += leaf_lines(weights, []) if tree is None else tree
        cases.append((text_of(header(sizes, capacity, max_items), lines, ["end"]), lengths_of(sizes), code))

    large = [60, 60, 60]
    # One size.
    add(0, 3, ["100"], [100, *large])
    add(0, 3, ["100"], [*large, 15, 100])
    # Two sizes, in either order, or the same one.
    for fill in ("70 30", "30 70"):
        add(0, 3, [fill], [70, 30, *large])
        add(0, 3, [fill], [*large, 15, 30, 70])
    add(0, 3, ["50 50"], [50, 50, *large])
    # One to three sizes, none of them 0 or negative.
    add(0, 3, [], [70, 30, *large])
    add(1, 3, [""], [70, 30, *large])
    add(1, 3, ["25 25 25 25"], [25, 25, 25, 25, 66, 66, 66])
    add(1, 3, ["100 0"], [100, *large, 15])
    add(1, 3, ["100 0 0"], [100, *large, 10, 5])
    add(1, 3, ["110 -10"], [100, *large, 10])
    # As many items of a size as it is named.
    add(1, 3, ["100"], [70, 30, *large])
    add(0, 4, ["100", "100"], [100, 100, *large])
    add(1, 4, ["100", "100"], [100, *large, 20])
    add(1, 3, ["50 50"], [50, *large, 15])
    for fill in ("70 30", "30 70"):
        add(1, 3, [fill], [70, *large, 15])
        add(1, 3, [fill], [30, *large, 15])
    add(1, 3, ["70 30"], [70, 29, *large])
    # Full, not less and not more.
    add(1, 3, ["99"], [99, *large])
    add(1, 3, ["99"], [99, *large, 1])
    add(1, 3, ["60"], [99, *large])
    add(1, 3, ["70 29"], [70, 29, *large])
    add(1, 3, ["70 31"], [70, 31, *large])
    add(1, 3, ["70 20 9"], [70, 20, 9, *large])
    add(1, 3, ["70 20 11"], [70, 20, 11, *large])
    # q = 0, and nothing else.
    for max_items in (2, 5, 6, 2**32 - 1):
        add(0, 3, [], [70, 30, *large], max_items=max_items)
        add(1, 3, ["70 30"], [70, 30, *large], max_items=max_items)
        add(1, 3, ["100"], [100, *large], max_items=max_items)
    # S <= K·C, so never for K = 0.
    add(0, 3, ["100"], [100, *large, 20])
    add(1, 3, ["100"], [100, *large, 21])
    add(1, 0, ["100"], [100])
    add(0, 0, [], [100])
    add(1, 0, ["100"], [100, *large])
    add(0, 3, ["70 30"], [70, 30, *large, 20])
    add(1, 3, ["70 30"], [70, 30, *large, 21])
    add(0, 3, [], [70, 30, *large, 21])
    add(1, 2, ["70 30"], [70, 30, *large])
    add(0, 2, [], [70, 30, *large])
    add(1, 0, ["70 30"], [70, 30, *large])
    add(0, 0, [], [70, 30, *large])
    # As many items left as there were bins: else nothing would be left for no bins, and no bins are not enough for
    # something only. One item can always go, for more items than bins are there.
    add(1, 3, ["70 30"], [70, 30, 60, 60])
    add(1, 3, ["100", "70 30"], [100, 70, 30, 60])
    add(0, 5, ["70 20 10"], [70, 20, 10, 67, 67, 67, 67, 67])
    add(1, 5, ["70 20 10"], [70, 20, 10, 67, 67, 67, 67])
    add(1, 1, ["50 50"], [50, 50])
    add(1, 1, ["70 20 10"], [70, 20, 10])
    add(1, 2, ["50 50", "70 30"], [50, 50, 70, 30])
    add(1, 2, ["50 50"], [50, 50, 60])
    # One or two sizes: however much is wasted, and whatever else is there.
    fifties = [51] * 5
    for others in ([1], [1, 2, 3], [30], [29], [70], [10, 20], [15, 15, 15], [100], []):
        for fill in ("70 30", "30 70"):
            add(0, 5, [fill], [70, 30, *fifties, *others])
        add(0, 5, ["100"], [100, *fifties, *others])
    # Three sizes: which one is first matters. 62 are wasted, so with 10 in a bin 84 would do as well as 70 and 20.
    most = [70, 20, 10, 84, 51, 51, 51, 51]
    add(0, 5, ["70 20 10"], [*most, 50])
    add(0, 5, ["70 10 20"], [*most, 50])
    add(1, 5, ["10 70 20"], [*most, 50])
    add(1, 5, ["10 20 70"], [*most, 50])
    add(0, 5, ["20 70 10"], [*most, 50])
    # 20 are wasted: with 20 in a bin 60 would fill it enough, but changes places with 70.
    for fill in ("70 20 10", "70 10 20", "10 70 20", "20 70 10", "20 10 70"):
        add(0, 3, [fill], [70, 20, 10, *large])
    for missing, other in ((70, 46), (20, 3), (10, 3)):
        add(1, 5, ["70 20 10"], without([70, 20, 10, 79, 79, 79, 79, 79, other], [missing]))
    # 10 are wasted, so sets of a total of 20 … 30; those above 21 would do as well as 21 and 9.
    for code, others in (
        (0, [19, 71]),
        (0, [20, 70]),
        (1, [22, 68]),
        (1, [30, 60]),
        (0, [31, 59]),
        (0, [6, 6, 6, 72]),
        (0, [7, 7, 7, 69]),
        (1, [8, 7, 7, 68]),
        (1, [15, 15, 60]),
        (0, [21, 69]),
        (0, [9, 11, 70]),
        (0, [8, 12, 70]),
        (0, [8, 13, 69]),
        (1, [8, 14, 68]),
        (0, [9, 14, 67]),
        (0, [21, 8, 61]),
    ):
        for fill in ("70 21 9", "70 9 21"):
            add(code, 5, [fill], [70, 21, 9, 60, 60, *large, *others])
    # 5 are wasted: those of a total of 25 … 30 would do as well.
    for code, others in ((0, [22, 73]), (0, [24, 71]), (1, [25, 70]), (1, [30, 65]), (0, [31, 64]), (1, [13, 12, 70])):
        add(code, 5, ["70 21 9"], [70, 21, 9, 60, 60, *large, *others])
    # 9, 8 and 7 are wasted: the larger of w_1 and what fills a bin enough decides.
    for code, others in ((1, [22, 69]), (0, [21, 70]), (1, [22, 70]), (0, [20, 72]), (0, [22, 71]), (1, [23, 70])):
        add(code, 5, ["70 21 9"], [70, 21, 9, 60, 60, *large, *others])
    # Nothing is wasted, so sets of a total of 90; the item of 10 in the bin does not count, another one does.
    eighties = [80] * 6
    for code, others in ((0, [20]), (1, [10, 10]), (0, [9, 11]), (1, [5, 5, 10]), (1, [4, 6, 7, 3])):
        add(code, 6, ["10 45 45"], [10, 45, 45, *eighties, *others])
    # 79 are wasted, or more; sets of a total of 46 … 90.
    for code, others in ((0, [45]), (0, [45, 44]), (0, [10, 35]), (1, [10, 36]), (1, [46]), (1, [90]), (0, [91])):
        add(code, 30, ["10 45 45"], [10, 45, 45, *[91] * 30, *others])
    # Two of three the same. 5 are wasted.
    add(0, 3, ["40 30 30"], [40, 30, 30, 61, 61, 61, 12])
    add(1, 3, ["40 30 30"], [40, 30, 30, 60, 60, 60, 15])
    add(1, 3, ["40 30 30"], [40, 30, 61, 61, 61, 12, 20])
    for fill in ("30 30 40", "30 40 30"):
        add(0, 3, [fill], [30, 30, 40, 61, 61, 61, 12])
        add(1, 3, [fill], [30, 40, 61, 61, 61, 12, 27])
        add(0, 5, [fill], [30, 30, 40, 61, 61, 61, 61, 61, 30, 36, 24])
        add(1, 5, [fill], [30, 30, 40, 61, 61, 61, 61, 61, 29, 37, 24])
    # All of three the same: 4 are wasted, sets of a total of 56 … 60.
    for code, others in ((0, [55, 46]), (0, [55, 30, 16]), (1, [56, 45]), (0, [61, 40])):
        add(code, 4, ["30 30 30"], [30, 30, 30, 55, 55, 55, *others], capacity=90)
    for code, others in ((0, [39, 16, 64]), (1, [40, 16, 63])):
        add(code, 4, ["30 30 30"], [30, 30, 30, 49, 49, 49, *others], capacity=90)
    add(1, 4, ["30 30 30"], [30, 30, 61, 61, 61, 61, 52], capacity=90)
    # So much is wasted that 70 alone would do, the set without items: it doesn't count, nor do those up to 20.
    add(0, 4, ["70 20 10"], [70, 20, 10, 67, 67, 67, 69])
    add(0, 4, ["70 20 10"], [70, 20, 10, 67, 67, 68, 69])
    add(1, 5, ["70 20 10"], [70, 20, 10, 67, 67, 67, 69])
    for code, others in (
        (0, []),
        (0, [1]),
        (0, [9, 10, 11]),
        (0, [8, 12]),
        (1, [8, 13]),
        (0, [20, 20, 20]),
        (0, [10, 20, 20]),
        (1, [21]),
        (1, [30]),
        (0, [31]),
        (0, [1] * 20),
        (1, [1] * 21),
    ):
        for fill in ("70 20 10", "70 10 20"):
            add(code, 5, [fill], [70, 20, 10, *fifties, *others])
    # One line after another: each is about what is left.
    add(0, 4, ["70 30", "70 30"], [70, 30, 70, 30, *large])
    add(1, 4, ["70 30", "70 30"], [70, 30, 70, *large, 31, 5])
    add(1, 4, ["70 30", "70 30"], [70, 30, 30, *large, 69, 5])
    add(0, 4, ["70 30", "50 50"], [70, 30, 50, 50, *large])
    add(0, 4, ["70 30", "70 20 10"], [70, 30, 70, 20, 10, *large])
    add(0, 5, ["100", "70 30", "70 20 10"], [100, 70, 30, 70, 20, 10, *large])
    add(0, 5, ["70 30", "70 20 10", "100"], [100, 70, 30, 70, 20, 10, *large])
    add(1, 5, ["70 20 10", "70 30", "100"], [100, 70, 30, 70, 20, 10, *large])
    two_ways = [70, 21, 9, 70, 30, 60, 60, *large, 31, 59]  # 30 would do as well as 21 and 9 while it is there
    add(1, 6, ["70 21 9"], two_ways)
    add(0, 6, ["70 30"], two_ways)
    add(0, 6, ["70 30", "70 21 9"], two_ways)
    add(1, 6, ["70 21 9", "70 30"], two_ways)
    # The rest of the tree is about what is left: types, demands, total and K. The claim here is false.
    pairs = [70, 30, 60, 40, 60, 40]
    add(1, 3, ["70 30"], pairs)
    for weights in ("-7 7", "7 -7", "60 40", "0 0"):
        add(1, 3, ["70 30"], pairs, tree=[f"leaf 0 {weights}"])
    add(1, 3, ["70 30"], [70, 30, *large], tree=["leaf 0 1 1 0"])
    add(1, 3, ["70 30"], [70, 30, *large], tree=["leaf 0 1", "leaf 0 1"])
    children = ["leaf 0 1 0 1", "leaf 0 1 0"]  # of what is left by 70 30: types 60 and 15, perhaps one of 75
    add(0, 3, ["70 30"], [70, 30, *large, 15], tree=["branch 0 1", *children])
    add(1, 3, ["70 30"], [70, 30, *large, 15], tree=["branch 0 3", *children])
    # Before the nodes and nowhere else.
    for place in range(4):
        tree = ["branch 0 1", *children]
        tree.insert(place, "fill 70 30")
        add(1 if place else 0, 3, [], [70, 30, *large, 15], tree=tree)
    for lines in (["fill 70 30", "tree"], ["weights 0 0 0", "fill 70 30"], ["fill 70 30"]):
        text = text_of(header([70, 30, *large], 100), ["cells-at-least 4", *lines, "leaf 0 1", "end"])
        cases.append((text, lengths_of([70, 30, *large]), 1))
    add(1, 3, [], [70, 30, *large], tree=["fullest 100", "leaf 0 1 1 0"])
    return cases


def fixtures(kind):
    """[(name, certificate, lengths)] of a folder of fixtures."""
    names = sorted((FIXTURES / kind).glob("*.cert"))
    return [(path.name, path.read_bytes(), path.with_suffix(".lengths").read_bytes()) for path in names]


# Damage.


def damage_number(random_stream, line):
    """Another integer in the line: one more, one less, or a digit changed."""
    words = line.split(b" ")
    if len(words) < 2:
        return line
    place = random_stream.randrange(1, len(words))
    word = words[place]
    if not re.fullmatch(b"-?[0-9]+", word):  # damaged already
        return line
    if random_stream.random() < 0.6:
        words[place] = str(int(word) + random_stream.choice((-1, 1))).encode()
    else:
        digit = random_stream.randrange(len(word))
        words[place] = word[:digit] + random_stream.choice(b"0123456789-").to_bytes(1, "big") + word[digit + 1 :]
    return b" ".join(words)


def damage(random_stream, certificate, others):
    """The certificate with one or two things changed; lines after the digest are changed most."""
    lines = certificate.splitlines(keepends=True)
    for _ in range(random_stream.choice((1, 1, 2))):
        if len(lines) < 2:
            break
        first = 4 if random_stream.random() < 0.9 and len(lines) > 5 else 0
        place = random_stream.randrange(first, len(lines))
        other = random_stream.randrange(first, len(lines))
        what = random_stream.choice(("number",) * 6 + ("delete", "double", "swap", "cut short", "splice", "byte"))
        if what == "number" and len(lines[place]) > 1:
            lines[place] = damage_number(random_stream, lines[place].rstrip(b"\n")) + b"\n"
        elif what == "delete":
            del lines[place]
        elif what == "double":
            lines.insert(other, lines[place])
        elif what == "swap":
            lines[place], lines[other] = lines[other], lines[place]
        elif what == "splice":
            lines[place] = random_stream.choice(random_stream.choice(others).splitlines(keepends=True))
        elif what == "cut short":
            text = b"".join(lines)
            lines = text[: random_stream.randrange(len(text))].splitlines(keepends=True)
        elif what == "byte" and lines[place]:
            at = random_stream.randrange(len(lines[place]))
            byte = random_stream.choice(b"\n\r \t-0aZ\xff\x00").to_bytes(1, "big")
            lines[place] = lines[place][:at] + byte + lines[place][at + random_stream.randint(0, 1) :]
    return b"".join(lines)


@lru_cache(maxsize=None)
def damaged_certificates():
    """[(certificate, lengths)], all damaged."""
    random_stream = random.Random(21)
    whole = [(certificate, lengths) for _, certificate, lengths in fixtures("valid")] * 3 + proved_certificates()
    others = [certificate for certificate, _ in whole]
    cases = []
    while len(cases) < DAMAGED_CERTIFICATES:
        certificate, lengths = random_stream.choice(whole)
        damaged = damage(random_stream, certificate, others)
        if damaged != certificate:
            cases.append((damaged, lengths))
    return cases


def verdict(certificate, lengths, pad_multiple=1, form="lines", columns=None):
    """(exit code, what is checked or None)."""
    try:
        return 0, checker.check(certificate, checker.read_lengths(lengths, pad_multiple, form, columns))
    except checker.Invalid:
        return 1, None
    except checker.NotChecked:
        return 2, None
    except checker.Unreadable:
        return 3, None


def figures(checked):
    """The four numbers that are proved."""
    return checked.cells_lower, checked.cells_upper, checked.rows_lower, checked.rows_upper


class Oracle(unittest.TestCase):
    """Base: what is accepted must be true."""

    def assert_true_bounds(self, checked):
        """The optimum by brute force lies between the bounds."""
        statement = checked.statement
        cells = fewest_bins(tuple(statement.sizes), statement.capacity, statement.max_items)
        rows = rows_by_trial(cells, statement.slots, statement.rows_multiple)
        self.assertLessEqual(checked.cells_lower, cells)
        self.assertLessEqual(checked.rows_lower, rows)
        if checked.cells_upper is not None:
            self.assertGreaterEqual(checked.cells_upper, cells)
            self.assertGreaterEqual(checked.rows_upper, rows)


class Fixtures(Oracle):
    """The twin folders of the first checker."""

    def test_valid_ones_are_accepted_with_the_right_claims(self):
        cases = fixtures("valid")
        self.assertTrue(cases)
        for name, certificate, lengths in cases:
            with self.subTest(name):
                code, checked = verdict(certificate, lengths)
                self.assertEqual(code, 0)
                words = [line.split() for line in certificate.decode().splitlines() if " " in line]
                stated = {line[0]: int(line[1]) for line in words}
                slots, multiple = stated["slots"], stated["rows-multiple"]
                cells, rows = stated.get("cells-at-least", 0), stated.get("rows-at-least", 0)
                lower = max(cells, slots * (rows - multiple) + 1 if rows else 0)
                upper = stated.get("witness")
                self.assertEqual(checked.cells_lower, lower)
                self.assertEqual(checked.rows_lower, rows_by_trial(lower, slots, multiple))
                self.assertGreaterEqual(checked.rows_lower, rows)
                self.assertEqual(checked.cells_upper, upper)
                self.assertEqual(checked.rows_upper, None if upper is None else rows_by_trial(upper, slots, multiple))
                self.assert_true_bounds(checked)

    def test_invalid_ones_are_refused(self):
        cases = fixtures("invalid")
        self.assertTrue(cases)
        for name, certificate, lengths in cases:
            with self.subTest(name):
                self.assertEqual(verdict(certificate, lengths)[0], 1)


class Rules(Oracle):
    """Each rule against the list of all patterns or the optimum."""

    def test_largest_value_is_that_of_the_list_of_all_patterns(self):
        random_stream = random.Random(27)
        for _ in range(800):
            statement, node, ours = random_node(random_stream)
            window = checker.Window(
                random_stream.choice((-1, 0, statement[1] // 2, statement[1] - 1)),
                statement[1],
                random_stream.choice((0, 0, 1, 2)),
                random_stream.choice((None, 2, 3, 4)),
            )
            weights = [random_stream.randint(-3, 9) for _ in node[0]]
            if random_stream.random() < 0.7:  # close to the sizes, where bounds decide little
                weights = [4 * size + random_stream.randint(-2, 2) for size in node[0]]
            cuts = random_cuts(random_stream, len(weights))
            values = [
                value_of(pattern, weights, cuts)
                for pattern, load, count in patterns_by_list(node, window.capacity, window.count_limit)
                if load >= window.low_load and (window.count_limit is None or count >= window.low_count)
            ]
            largest = max(values, default=-(10**6))
            cuts = [checker.Cut(scale, den, dict(pairs)) for scale, den, pairs in cuts]
            for factor, target in ((1, largest), (1, largest + 1), (3, 3 * largest), (3, 3 * largest + 1)):
                found = checker.some_pattern_reaches(ours, window, weights, cuts, factor, target, checker.Budget())
                self.assertEqual(found, bool(values) and target <= factor * largest, (node, window, weights, cuts))

    def test_of_two_partial_patterns_of_one_load_the_better_is_kept(self):
        # 4 weighs 5 and 2+2 weighs 4; they are apart. The best within 9 is 4+5, of weight 9; 2+2+5 is second.
        node = checker.Node([5, 4, 2], [1, 1, 2])
        node.part(1, 2)
        for target in (8, 9, 10):
            found = checker.some_pattern_reaches(
                node, checker.Window(9, 13, 0, None), [4, 5, 2], [], 1, target, checker.Budget()
            )
            self.assertEqual(found, target <= 9)

    def test_leaf_rule_is_that_of_the_list_of_all_patterns(self):
        random_stream = random.Random(22)
        outcomes = [0, 0]
        for _ in range(800):
            statement, node, ours = random_node(random_stream)
            sizes, capacity, max_items, _, _ = statement
            bins = min(len(sizes), -(-sum(sizes) // capacity) + random_stream.choice((-1, 0, 0, 1, 2)))
            bins = max(1, bins)
            weights = [random_stream.randint(-3, 2 * size) for size in node[0]]
            if random_stream.random() < 0.4:
                weights = [8 * size + random_stream.randint(-5, 5) for size in node[0]]
            cuts = random_cuts(random_stream, len(weights))
            expected = refutes_by_list(node, statement, bins, weights, cuts)
            stated = checker.Statement(sizes, sum(sizes), capacity, max_items, 1, 1)
            lines = checker.Lines(text_of(leaf_lines(weights, cuts)), checker.Budget())
            try:
                checker.check_leaf(lines, stated, ours, bins, checker.Budget())
                found = True
            except checker.Invalid:
                found = False
            self.assertEqual(found, expected, (node, statement, bins, weights, cuts))
            outcomes[found] += 1
        self.assertGreater(min(outcomes), 150)

    def test_nodes_are_restored(self):
        random_stream = random.Random(23)
        node = checker.Node([9, 7, 5, 3], [3, 3, 3, 3])
        states, moves = [], []

        def state():
            return (tuple(node.sizes), tuple(node.demands), tuple(node.counts), tuple(node.apart))

        for _ in range(6):
            states.append(state())
            i, j = random_stream.sample([t for t in range(len(node.sizes)) if node.demands[t]], 2)
            move = random_stream.choice((node.glue, node.part))
            if move == node.part and node.apart[i] >> j & 1:
                move = node.glue
            move(i, j)
            moves.append((move, i, j))
        for (move, i, j), before in zip(reversed(moves), reversed(states)):
            (node.unglue if move == node.glue else node.unpart)(i, j)
            self.assertEqual(state(), before)

    def test_totals_within_are_those_of_the_list_of_all_sets(self):
        random_stream = random.Random(24)
        outcomes = [0, 0]
        for _ in range(1500):
            kinds = random_stream.sample(range(1, 30), random_stream.randint(0, 3))
            numbers = {kind: random_stream.choice((0, 1, 2, 3, 7, 12)) for kind in kinds}
            products = itertools.product(*(range(number + 1) for number in numbers.values()))
            totals = {sum(kind * copies for kind, copies in zip(numbers, product)) for product in products}
            high = random_stream.choice((0, 5, 31, 63, 64, 65, 150, 400, 2**70))
            low = high - random_stream.choice((-1, 0, 1, 2, 9, high - max(totals), high - max(totals) - 1))
            low = max(low, 1)
            found = checker.some_total_within(numbers, low, high, checker.Budget())
            self.assertEqual(found, any(low <= total <= high for total in totals), (numbers, low, high))
            outcomes[found] += 1
        self.assertGreater(min(outcomes), 150)

    def test_copies_are_doubled_and_64_totals_are_a_step(self):
        budget = checker.Budget()
        self.assertFalse(checker.some_total_within({2: 511}, 1021, 1021, budget))
        self.assertEqual(budget.steps, 1 + 9 * 16)  # one size; 1 + 2 + … + 256 copies; 1022 totals

    def test_fills_at_their_boundaries(self):
        for certificate, lengths, code in fill_cases():
            found, checked = verdict(certificate, lengths)
            self.assertEqual(found, code, certificate.decode())
            if checked and len(checked.statement.sizes) < 12:
                self.assert_true_bounds(checked)

    def test_fills_are_allowed_where_they_should_be_and_lose_nothing(self):
        random_stream = random.Random(28)
        allowed, flaws, wrong = {1: 0, 2: 0, 3: 0}, {}, 0
        for _ in range(250):
            sizes, capacity, _, _, _ = fillable_statement(random_stream, 9, random_stream.random() < 0.5)
            before = fewest_bins(tuple(sorted(sizes)), capacity, 0)
            lines = list(fills_of(sizes, capacity))
            lines += [tuple(random_stream.choices(sizes, k=random_stream.choice((1, 2, 3)))) for _ in range(2)]
            for bins, fill in itertools.product(range(len(sizes)), lines):
                flaw = fill_flaw(sizes, capacity, bins, fill)
                left = without(sizes, fill)
                enough = before <= bins
                still = not left or fewest_bins(tuple(sorted(left)), capacity, 0) <= bins - 1
                stated = checker.Statement(sizes, sum(sizes), capacity, 0, 1, 1)
                text = checker.Lines(text_of([line_of("fill", fill)]), checker.Budget())
                try:
                    rest, rest_bins = checker.check_fills(text, stated, bins, checker.Budget())
                except checker.Invalid:
                    self.assertIsNotNone(flaw, (sizes, capacity, bins, fill))
                    flaws[flaw] = flaws.get(flaw, 0) + 1
                    wrong += flaw == "others" and enough != still
                    continue
                self.assertIsNone(flaw, (sizes, capacity, bins, fill))
                self.assertEqual((sorted(rest.sizes), rest.total, rest_bins), (sorted(left), sum(left), bins - 1))
                self.assertEqual(enough, still, (sizes, capacity, bins, fill))
                allowed[len(fill)] += 1
        self.assertGreater(min(allowed.values()), 200, allowed)
        self.assertEqual(set(flaws), {"bins", "items", "full", "left", "others"})
        self.assertGreater(wrong, 20)  # without the condition about other items, so many would have been

    def test_closed_rules_hold_exactly_where_they_say(self):
        random_stream = random.Random(25)
        for _ in range(150):
            sizes, capacity, max_items, slots, multiple = statement = random_statement(random_stream, 9)
            bins = random_stream.randrange(len(sizes))
            kinds, demands, _, _ = root(sizes)
            weights = [random_stream.randint(0, kind) for kind in kinds]
            worth = max(
                sum(p * a for p, a in zip(weights, pattern))
                for pattern in itertools.product(*(range(demand + 1) for demand in demands))
                if sum(w * a for w, a in zip(kinds, pattern)) <= capacity and sum(pattern) <= (max_items or 9)
            )
            rules = {
                "volume": sum(sizes) > bins * capacity,
                "count": 0 < max_items * bins < len(sizes) or (max_items > 0 and bins == 0),
                " ".join(map(str, ["weights", *weights])): bins == 0
                or bins * worth < sum(p * d for p, d in zip(weights, demands)),
            }
            for rule, holds in rules.items():
                text = text_of(header(*statement), [f"cells-at-least {bins + 1}", rule, "end"])
                code, checked = verdict(text, lengths_of(sizes))
                self.assertEqual(code, 0 if holds else 1, (statement, bins, rule))
                if checked:
                    self.assert_true_bounds(checked)

    def test_proofs_of_a_complete_prover_are_accepted_and_prove_no_more(self):
        branched = filled = 0
        for certificate, lengths in proved_certificates():
            code, checked = verdict(certificate, lengths)
            self.assertEqual(code, 0, certificate)
            self.assert_true_bounds(checked)
            statement = checked.statement
            cells = fewest_bins(tuple(statement.sizes), statement.capacity, statement.max_items)
            self.assertEqual(checked.cells_lower, cells)
            claim = b"cells-at-least %d\n"
            more = certificate.replace(claim % cells, claim % (cells + 1))
            self.assertEqual(verdict(more, lengths)[0], 1)
            branched += checked.leaves > 1
            filled += b"\nfill " in certificate and checked.leaves > 1
        self.assertGreater(branched, 10)
        self.assertGreater(filled, 3)

    def test_boundaries(self):
        for certificate, lengths, code in boundary_cases():
            self.assertEqual(verdict(certificate, lengths)[0], code, certificate)

    def test_guessed_proofs_are_refused_or_true(self):
        accepted = 0
        for certificate, lengths in guessed_certificates():
            code, checked = verdict(certificate, lengths)
            self.assertIn(code, (0, 1))
            if checked:
                self.assert_true_bounds(checked)
                accepted += 1
        self.assertTrue(80 < accepted < 320, accepted)


class Files(unittest.TestCase):
    """Files of lengths, options, exit codes."""

    def run_program(self, certificate, lengths, *options):
        """The exit code of the program on these texts."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "cert").write_bytes(certificate)
            (Path(folder) / "lengths").write_bytes(lengths)
            command = [sys.executable, "-B", str(HERE / "check.py"), "cert", "lengths", *options]
            return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode

    def test_forms_of_lengths_and_padding(self):
        sizes = [9, 9, 9, 9, 2, 2, 2, 2]
        text = text_of(header(sizes, 10), ["cells-at-least 5", "volume", "end"])
        self.assertEqual(verdict(text, b"\xef\xbb\xbf9\n# c\n9\n9 # c\r\n 9\n2\n\n2\t\n2\n02")[0], 0)
        for lengths in (b"8\n10\n9\n9\n9\n9\n2\n2\n2\n2\n", b"2\n10\n9 4\n2\t4\n"):
            self.assertEqual(verdict(text, lengths, form="bins")[0], 0)
            self.assertIn(verdict(text, lengths)[0], (1, 3))
        table = b"n\ta\tb\n" + b"x\t4\t5\n" * 4 + b"y\t2\t0\n" * 4
        self.assertEqual(verdict(text, table, form="table", columns="a + b")[0], 0)
        self.assertEqual(verdict(text, table, form="table", columns="a")[0], 1)
        self.assertEqual(verdict(text, table, form="table", columns="n")[0], 3)
        self.assertEqual(verdict(text, table, form="table", columns="c")[0], 3)
        self.assertEqual(verdict(text, b"2\n11\n9 4\n2 4\n", form="bins")[0], 1)
        self.assertEqual(verdict(text, b"7\n7\n7\n8\n1\n1\n2\n2\n", 1)[0], 1)
        padded = text_of(header([8, 8, 4], 8), ["cells-at-least 3", "volume", "end"])
        self.assertEqual(verdict(padded, b"5\n8\n1\n", 4)[0], 0)
        self.assertEqual(verdict(padded, b"5\n9\n1\n", 4)[0], 1)
        for lengths in (b"x\n", b"1 2 3\n", b"1\n2 3\n", b"-1\n", b"\xff\n", b"9\r9\n", b"18446744073709551616\n"):
            self.assertEqual(verdict(text, lengths)[0], 3)
        for lengths in (b"", b"2\n", b"2\n10\n9 4\n", b"2\n10\n9 4\n2\n", b"1\n10\n9 1 1\n"):
            self.assertEqual(verdict(text, lengths, form="bins")[0], 3)

    def test_a_file_has_one_reading(self):
        lengths = b"1\n7\n5\n"
        three, one = (text_of(header(sizes, 7), ["end"]) for sizes in ([1, 7, 5], [5]))
        self.assertEqual([verdict(text, lengths)[0] for text in (three, one)], [0, 1])
        self.assertEqual([verdict(text, lengths, form="bins")[0] for text in (three, one)], [1, 0])
        self.assertEqual(verdict(text_of(header([5], 8), ["end"]), lengths, form="bins")[0], 1)

    def test_exit_codes(self):
        by_name = {name: (certificate, lengths) for name, certificate, lengths in fixtures("valid")}
        certificate, lengths = by_name["branch.cert"]
        self.assertEqual(self.run_program(certificate, lengths), 0)
        self.assertEqual(self.run_program(certificate, lengths, "--pad-multiple", "2"), 1)
        self.assertEqual(self.run_program(certificate[:-1], lengths), 1)
        self.assertEqual(self.run_program(certificate, lengths, "--max-steps", "50"), 2)
        self.assertEqual(self.run_program(certificate, lengths, "--max-memory", "500"), 2)
        self.assertEqual(self.run_program(certificate, b"no lengths\n"), 3)
        self.assertEqual(self.run_program(certificate, lengths, "--max-steps", "many"), 3)
        self.assertEqual(self.run_program(certificate, lengths, "--pad-multiple", "0"), 3)
        self.assertEqual(self.run_program(certificate, lengths, "one-file-too-many"), 3)
        self.assertEqual(self.run_program(certificate, b"size\n" + lengths, "--column", "size"), 0)
        self.assertEqual(self.run_program(certificate, lengths, "--form", "table"), 3)
        self.assertEqual(self.run_program(certificate, lengths, "--form", "bins"), 3)


class Hostile(Oracle):
    """Damage, limits, and certificates made to hurt."""

    def test_damaged_certificates_are_refused_or_true(self):
        accepted = 0
        for certificate, lengths in damaged_certificates():
            code, checked = verdict(certificate, lengths)
            self.assertIn(code, (0, 1), certificate)
            if checked:
                self.assert_true_bounds(checked)
                accepted += 1
        self.assertGreater(accepted, 20)
        self.assertLess(accepted, DAMAGED_CERTIFICATES // 2)

    def test_limits_never_make_anything_valid(self):
        fills = [("fill", certificate, lengths) for certificate, lengths, _ in fill_cases()]
        for name, certificate, lengths in fixtures("valid") + fixtures("invalid") + fills:
            code, _ = verdict(certificate, lengths)
            reading = checker.read_lengths(lengths, 1)
            whole = checker.Budget()
            try:
                checker.check(certificate, reading, whole)
            except checker.Invalid:
                pass
            for fewer in (
                checker.Budget(max_steps=whole.steps - 1),
                checker.Budget(max_steps=whole.steps // 2),
                checker.Budget(max_memory=whole.memory - 1),
            ):
                with self.assertRaises(checker.NotChecked, msg=name):
                    checker.check(certificate, reading, fewer)
            exact = checker.Budget(whole.steps, whole.memory)
            try:
                checker.check(certificate, reading, exact)
                self.assertEqual(code, 0)
            except checker.Invalid:
                self.assertEqual(code, 1)

    def test_a_table_of_totals_is_as_large_as_the_room(self):
        for code, unit in ((1, 2**6), (1, 2**20), (2, 2**48)):
            sizes = [2 * unit, unit, unit, *[2 * unit + 1] * 4, *(unit - less for less in (1, 2, 3, 4))]
            fill = f"fill {2 * unit} {unit} {unit}"
            text = text_of(header(sizes, 4 * unit), ["cells-at-least 5", "tree", fill, "leaf 0 1 0 0 0 0", "end"])
            self.assertEqual(verdict(text, lengths_of(sizes))[0], code)
        sizes = [2**63, 2**62, 2**62 - 1, *[2**63 + 5] * 3]  # no other item is within the room
        fill = line_of("fill", sizes[:3])
        text = text_of(header(sizes, 2**64 - 1), ["cells-at-least 4", "tree", fill, "leaf 0 1", "end"])
        self.assertEqual(verdict(text, lengths_of(sizes))[0], 0)
        sizes = [2**63, 2**62, 2**62 - 1, *[2**63 + 5] * 4, 2**61, 2**61 - 1, 1]  # not above w_1, all together
        fill = line_of("fill", sizes[:3])
        for code, more in ((0, []), (2, [1])):
            lines = ["cells-at-least 5", "tree", fill, *leaf_lines([1, 0, 0, 0], []), "end"]
            text = text_of(header(sizes + more, 2**64 - 1), lines)
            self.assertEqual(verdict(text, lengths_of(sizes + more))[0], code)
        for fill in ([2**64 - 1], [2**63, 2**63 - 1]):  # no set is above w_1 and within the room
            sizes = [*fill, *[2**63 + 5] * 3, 2**60, 2**59]
            lines = ["cells-at-least 4", "tree", line_of("fill", fill), "leaf 0 1 0 0", "end"]
            self.assertEqual(verdict(text_of(header(sizes, 2**64 - 1), lines), lengths_of(sizes))[0], 0)

    def test_deep_and_boastful_certificates(self):
        many = [1] * 4000
        start = header(many, 10**6) + ["cells-at-least 1", "tree"]
        chain = ["branch 0 0"] + [f"branch {t} 0" for t in range(1, 3000)]
        self.assertEqual(verdict(text_of(start, chain, ["end"]), lengths_of(many))[0], 1)
        for lines in (["witness " + "9" * 38], ["cells-at-least 1", "tree", "leaf " + "9" * 38 + " 0"]):
            self.assertEqual(verdict(text_of(header([1], 1), lines), b"1\n")[0], 1)
        boast = [line.replace("items 1", f"items {2**32 - 1}") for line in header([1], 1)]
        self.assertEqual(verdict(text_of(boast), b"1\n")[0], 1)
        copies = [line.replace("total 1", f"total {2**32 - 1}") for line in boast]
        self.assertEqual(verdict(text_of(copies), b"1\n1\n1 %d\n" % (2**32 - 1), form="bins")[0], 2)
        self.assertEqual(verdict(text_of(copies), b"1\n1\n1 %d\n" % (2**64 - 1), form="bins")[0], 1)


@unittest.skipUnless(BINARY.is_file(), "routepack-check is not built: agreement of the two checkers is not tested")
class Agreement(unittest.TestCase):
    """Two checkers, one specification."""

    def test_both_checkers_agree(self):
        cases = [case[1:] for kind in ("valid", "invalid") for case in fixtures(kind)]
        cases += [case[:2] for case in boundary_cases() + fill_cases()]
        cases += proved_certificates() + guessed_certificates() + damaged_certificates()
        seen, differing = [0, 0, 0, 0], []
        with tempfile.TemporaryDirectory() as folder:
            paths = Path(folder) / "cert", Path(folder) / "lengths"
            for case in cases:
                for path, text in zip(paths, case):
                    path.write_bytes(text)
                command = [str(BINARY), *map(str, paths), "--json"]
                first = subprocess.run(command, capture_output=True, check=False)
                seen[first.returncode] += 1
                if first.returncode == 2:  # not checked: no verdict, so none that differs
                    continue
                code, checked = verdict(*case)
                ours = theirs = ()
                if code == first.returncode == 0:
                    said = json.loads(first.stdout)
                    names = ("cells_lower", "cells_upper", "rows_lower", "rows_upper", "rule", "leaves")
                    theirs = tuple(said[name] for name in names)
                    ours = (*figures(checked), checked.rule, checked.leaves)
                if (first.returncode, theirs) != (code, ours):
                    differing.append(case[0].decode(errors="replace"))
        which = "\n".join(differing[:3])
        self.assertEqual(len(differing), 0, f"of {len(cases)}; first verdict and second differ, as for:\n{which}")
        self.assertGreater(min(seen[:2]), 200)
        self.assertLess(seen[2], 5)
        self.assertEqual(seen[3], 0)


def main():
    """Runs all tests; the last line says how many passed and failed."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len({case.id().split(" ")[0] for case, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
