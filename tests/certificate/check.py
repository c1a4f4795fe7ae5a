#!/usr/bin/env python3
"""A second checker of bin-packing certificates, written from the specification alone.

The specification is the README of crates/routepack-certificate, sections 1 to 5; the docstrings here cite it.
Nothing is shared with the checker in Rust: two readings of one page, in two languages, must agree.

    python3 check.py CERTIFICATE LENGTHS [--pad-multiple M] [--max-memory B] [--max-steps N]

Exit code: 0 valid, 1 invalid, 2 not checked (a limit was reached), 3 wrong usage or unreadable files.
Integers only, no recursion. It is plain rather than fast: past a limit the answer is "not checked", never "valid".
"""

import argparse
import re
import sys
from collections import namedtuple
from fractions import Fraction

VALID, INVALID, NOT_CHECKED, UNREADABLE = 0, 1, 2, 3

WORD64 = 1 << 64
WORD32 = 1 << 32
WEIGHT_RANGE = 1 << 60  # |p|·C <= 2^60·w, and the largest scale of a cut
CUT_RANGE = 1 << 100  # the largest total of a cut

# What Python needs, roughly, to keep one thing of each kind.
BYTES_PER_ITEM = 16
BYTES_PER_TYPE = 256
BYTES_PER_STATE = 320
BYTES_PER_64_TOTALS = 52  # in some_total_within: up to six numbers of as many bits at once


class Invalid(Exception):
    """Outside the grammar, for another statement, or a condition fails (section 5)."""


class NotChecked(Exception):
    """More steps or memory would be needed than the limits allow (section 5)."""


class Unreadable(Exception):
    """A file that is no list of lengths, or can't be read."""


def require(condition, why):
    """Refuses the certificate unless the condition holds."""
    if not condition:
        raise Invalid(why)


class Budget:
    """The limits of section 5, and what has been used of them."""

    def __init__(self, max_steps=10**9, max_memory=2 << 30):
        self.max_steps, self.max_memory = max_steps, max_memory
        self.steps = self.memory = 0

    def step(self, count=1):
        """Counts steps: an integer read, a state made, a relation changed, 64 totals looked at."""
        self.steps += count
        if self.steps > self.max_steps:
            raise NotChecked(f"needs at least {self.steps} steps, the limit is {self.max_steps}")

    def hold(self, count):
        """Notes that a table of so many bytes is kept at this moment."""
        self.memory = max(self.memory, count)
        if count > self.max_memory:
            raise NotChecked(f"needs at least {count} bytes, the limit is {self.max_memory}")


# Section 1: statement and claims.

Statement = namedtuple("Statement", "sizes total capacity max_items slots rows_multiple")
Checked = namedtuple("Checked", "statement cells_lower cells_upper rows_lower rows_upper rule leaves")


def rows_for(bins, slots, multiple):
    """Section 1: the least multiple of v with D·R >= k."""
    return -(-bins // (slots * multiple)) * multiple


def refuted_bins(statement, cells, rows):
    """Section 1: K, the number of bins that the claims (None: not claimed) say are not enough."""
    numbers = []
    if cells is not None:
        require(1 <= cells < WORD64, "a claim about cells is out of range")
        numbers.append(cells - 1)
    if rows is not None:
        multiple = statement.rows_multiple
        require(multiple <= rows < WORD64, "a claim about rows is out of range")
        require(rows % multiple == 0, "a claim about rows is no multiple of rows-multiple")
        numbers.append(statement.slots * (rows - multiple))
    bins = max(numbers, default=None)
    require(bins is None or bins < len(statement.sizes), "a claim of nothing, or of more bins than items")
    return bins


# The file of lengths.


def lines_of(data):
    """(number, text) of the lines that aren't blank; all must be UTF-8 and shorter than 2^16 bytes, ends included."""
    for number, line in enumerate(re.findall(rb"[^\n]*\n|[^\n]+$", data), 1):
        if len(line) >= 1 << 16:
            raise Unreadable(f"lengths, line {number}: too long")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"lengths, line {number}: not valid UTF-8") from error
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text.endswith("\n"):
            text = text[:-1].removesuffix("\r")
        if text.strip(" \t"):
            yield number, text


def whole(number, word):
    """Decimal digits below 2^64, nothing else."""
    if not re.fullmatch("[0-9]+", word) or len(word.lstrip("0")) > 20 or int(word) >= WORD64:
        raise Unreadable(f"lengths, line {number}: {word[:40]!r} is no whole number from 0 to 2^64 - 1")
    return int(word)


def read_table(data, columns):
    """[(size, 1), …]: the sum of some columns of a tab-separated table."""
    lines = ((number, [field.strip(" ") for field in line.split("\t")]) for number, line in lines_of(data))
    _, header = next(lines, (0, []))
    wanted = [column.strip(" ") for column in columns.split("+")]
    for column in wanted:
        if header.count(column) != 1:
            raise Unreadable(f"lengths: not one column {column!r}")
    sizes = []
    for number, fields in lines:
        if len(fields) != len(header):
            raise Unreadable(f"lengths, line {number}: not as many fields as the header")
        size = sum(whole(number, fields[header.index(column)]) for column in wanted)
        sizes.append((whole(number, str(size)), 1))
    return sizes


def read_lengths(data, pad_multiple, form="lines", columns=None):
    """A file of lengths: (capacity or None, [(size, copies), …]); its form is said, never guessed."""
    capacity = None
    if form == "table":
        sizes = read_table(data, columns)
    else:
        lines = [(number, re.findall("[^ \t]+", line.split("#")[0])) for number, line in lines_of(data)]
        lines = [(number, [whole(number, word) for word in words]) for number, words in lines if words]
        widths = {len(numbers) for _, numbers in lines[2 if form == "bins" else 0 :]}
        if form == "bins":
            if [len(numbers) for _, numbers in lines[:2]] != [1, 1] or widths not in (set(), {1}, {2}):
                raise Unreadable("lengths: not a number, a capacity, and then sizes, all with or all without a demand")
            (count,), (capacity,) = lines[0][1], lines[1][1]
            if count != len(lines) - 2:
                raise Unreadable(f"lengths: {count} items or types announced, {len(lines) - 2} found")
            lines = lines[2:]
        elif not widths <= {1}:
            raise Unreadable("lengths: more than one number on a line")
        sizes = [(numbers[0], numbers[1] if len(numbers) == 2 else 1) for _, numbers in lines]
    sizes = [(-(-size // pad_multiple) * pad_multiple, copies) for size, copies in sizes]
    if any(size >= WORD64 for size, _ in sizes):
        raise Unreadable("lengths: a padded length is past 2^64")
    return capacity, sizes


def digest_of(sizes, budget):
    """Section 2: FNV-1a of 64 bits over the sizes, each as 8 bytes, least significant first."""
    digest = 14695981039346656037
    budget.step(len(sizes))
    for size in sizes:
        for byte in size.to_bytes(8, "little"):
            digest = (digest ^ byte) * 1099511628211 % WORD64
    return digest


# Section 2: text.

INTEGER = rb"(?:0|[1-9][0-9]{0,37}|-[1-9][0-9]{0,36})"
LINE = re.compile(rb"[a-z][a-z0-9-]{0,37}(?: " + INTEGER + rb")*")


class Lines:
    """The lines of a certificate, one at a time, each a word and integers."""

    def __init__(self, text, budget):
        budget.hold(len(text))
        self.text, self.budget = text, budget
        self.start = 0  # where the line after the one at hand begins
        self.number = 0  # of the line at hand, from 1
        self.blamed = 0  # the line that an error now would be about
        self._read()

    def _read(self):
        """Section 2: one newline after every line; one word and integers, single spaces, nothing else."""
        self.number += 1
        self.blamed = self.number
        self.word, self.integers = None, []
        if self.start == len(self.text):
            return
        stop = self.text.find(b"\n", self.start)
        require(stop >= 0, "the last line doesn't end with a newline")
        line = self.text[self.start : stop]
        require(LINE.fullmatch(line), "not one word and integers in plain form")
        words = line.split(b" ")
        self.budget.step(len(words))
        self.word, self.integers = words[0].decode("ascii"), [int(word) for word in words[1:]]
        self.start = stop + 1

    def take(self, word):
        """The integers of the line at hand, whose word must be this one; then goes on to the next line."""
        self.blamed = taken = self.number
        require(self.word == word, f'expected "{word}", found {self.word or "the end of the text"}')
        integers = self.integers
        self._read()
        self.blamed = taken
        return integers

    def take_exactly(self, word, count):
        """As `take`, and there must be so many integers."""
        integers = self.take(word)
        require(len(integers) == count, f'"{word}" needs {count} integers')
        return integers

    def take_one(self, word):
        """The single integer of a line."""
        return self.take_exactly(word, 1)[0]

    def take_if(self, word):
        """The single integer of an optional line, or None."""
        return self.take_one(word) if self.word == word else None


def read_statement(lines, reading, budget):
    """Sections 1 and 2: the header, which must be that of a statement about these lengths."""
    require(lines.take_one("routepack-certificate") == 1, "only version 1 is known")
    names = ("items", "total", "digest", "capacity", "max-items", "slots", "rows-multiple")
    items, total, digest, capacity, max_items, slots, multiple = [lines.take_one(name) for name in names]
    require(0 <= items < WORD32, "the number of items is out of range")
    for value, name in ((capacity, "capacity"), (slots, "slots"), (multiple, "rows-multiple")):
        require(1 <= value < WORD64, f"{name} is out of range")
    require(0 <= max_items < WORD32, "max-items is out of range")
    stated_capacity, runs = reading
    same = stated_capacity in (None, capacity) and sum(copies for _, copies in runs) == items
    if same and sum(size * copies for size, copies in runs) == total:
        require(all(1 <= size <= capacity for size, copies in runs if copies), "a size is not in 1 to the capacity")
        budget.hold(len(lines.text) + BYTES_PER_ITEM * items)
        budget.step(items)
        sizes = [size for size, copies in runs for _ in range(copies)]
        if digest_of(sizes, budget) == digest:
            return Statement(sizes, total, capacity, max_items, slots, multiple)
    raise Invalid("the certificate is for other lengths")


# Section 3: the witness.


def check_witness(lines, statement):
    """Section 3: k bins, every item in exactly one of them, every bin nonempty and a bin. Returns k, or None."""
    bins = lines.take_if("witness")
    if bins is None:
        return None
    require(bins >= 0, "a number of bins is negative")
    unpacked = bytearray(b"\1") * len(statement.sizes)
    for _ in range(bins):
        members = lines.take("bin")
        require(members, "a bin is empty")
        load = 0
        for item in members:
            require(0 <= item < len(unpacked) and unpacked[item], f"item {item} is packed twice or does not exist")
            unpacked[item] = 0
            load += statement.sizes[item]
        require(load <= statement.capacity, "a bin is too full")
        require(statement.max_items == 0 or len(members) <= statement.max_items, "a bin has too many items")
    require(not any(unpacked), "an item is in no bin")
    return bins


# Section 4.1: nodes and patterns.


class Node:
    """Section 4.1: sizes w, demands d and counts c of the types; apart[t] has bit s if s and t are apart."""

    def __init__(self, sizes, demands):
        self.sizes, self.demands = list(sizes), list(demands)
        self.counts = [1] * len(self.sizes)
        self.apart = [0] * len(self.sizes)
        self.any_apart = False

    def glue(self, i, j):
        """Section 4.3, the child *together*: one item of type i and one of type j become one of a new type."""
        new = len(self.sizes)
        self.demands[i] -= 1
        self.demands[j] -= 1
        self.sizes.append(self.sizes[i] + self.sizes[j])
        self.demands.append(1)
        self.counts.append(self.counts[i] + self.counts[j])
        self.apart.append(self.apart[i] | self.apart[j])
        for other in bits_of(self.apart[new]):
            self.apart[other] |= 1 << new

    def unglue(self, i, j):
        """Takes back the last `glue`."""
        new = len(self.sizes) - 1
        for other in bits_of(self.apart[new]):
            self.apart[other] ^= 1 << new
        for column in (self.sizes, self.demands, self.counts, self.apart):
            column.pop()
        self.demands[i] += 1
        self.demands[j] += 1

    def part(self, i, j):
        """Section 4.3, the child *apart*: i and j are apart from now on."""
        self.any_apart = True
        self.apart[i] |= 1 << j
        self.apart[j] |= 1 << i

    def unpart(self, i, j):
        """Takes back a `part`."""
        self.apart[i] &= ~(1 << j)
        self.apart[j] &= ~(1 << i)

    def memory(self):
        """An upper bound of the bytes of this node."""
        types = len(self.sizes)
        return types * (BYTES_PER_TYPE + (types // 8 if self.any_apart else 0))


def bits_of(mask):
    """The places of the ones of a number, from the lowest."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def demands_of(statement):
    """The number of items of every distinct size."""
    demands = {}
    for size in statement.sizes:
        demands[size] = demands.get(size, 0) + 1
    return demands


def root_of(statement):
    """Section 4.1, the root: the distinct sizes in decreasing order with their numbers of items."""
    demands = demands_of(statement)
    sizes = sorted(demands, reverse=True)
    return Node(sizes, (demands[size] for size in sizes))


# What a bin may hold: total size in low_load … capacity, count in low_count … count_limit (None: unlimited).
Window = namedtuple("Window", "low_load capacity low_count count_limit")


def pattern_window(statement):
    """Section 4.1: what every *pattern* keeps to."""
    count_limit = min(statement.max_items, len(statement.sizes)) if statement.max_items else None
    return Window(0, statement.capacity, 0, count_limit)


def filled_window(statement, bins):
    """Section 4.1: what every *filled pattern* for K bins keeps to; None if there are none at all."""
    window = pattern_window(statement)
    waste = bins * statement.capacity - statement.total
    if waste < 0:
        return None
    window = window._replace(low_load=statement.capacity - waste)
    if window.count_limit is not None:
        unused = bins * window.count_limit - len(statement.sizes)
        if unused < 0:
            return None
        window = window._replace(low_count=window.count_limit - unused)
    return window


# Section 4.3: s·floor(Σ μ·a / den), subtracted from the weight of a pattern; μ by type.
Cut = namedtuple("Cut", "scale den multipliers")


def some_pattern_reaches(node, window, weights, cuts, factor, target, budget):
    """Whether a pattern a of the node, within the window, has factor·V(a) >= target (factor >= 1).

    V is the value of section 4.3; without cuts it is Σ p_t·a_t. Types are taken one after another, by decreasing p/w.
    A state stands for all partial patterns of one load, one count (if counts matter), the same types ruled out, and
    for every cut the same rest of Σ μ·a by den; only the largest value is kept. A state is dropped if the types to
    come can't fill it up to the window, or can't reach the target: at most p/w of the next type for all the room left.
    """
    limited = window.count_limit is not None
    counts = node.counts if limited else [0] * len(node.counts)
    order = [t for t, demand in enumerate(node.demands) if demand > 0]
    order.sort(key=lambda t: Fraction(weights[t], node.sizes[t]), reverse=True)
    size_ahead = sum(node.sizes[t] * node.demands[t] for t in order)
    count_ahead = sum(counts[t] * node.demands[t] for t in order)
    ahead = sum(1 << t for t in order) if node.any_apart else 0
    place_of = {t: place for place, t in enumerate(order)}
    last_of_cut = [max(place_of.get(t, -1) for t in cut.multipliers) for cut in cuts]
    bytes_per_state = BYTES_PER_STATE + 16 * len(cuts) + (len(node.sizes) // 4 if node.any_apart else 0)

    def is_hit(load, count, value):
        return load >= window.low_load and (not limited or count >= window.low_count) and factor * value >= target

    if is_hit(0, 0, 0):
        return True
    states = {(0, 0, 0, (0,) * len(cuts)): 0}
    for place, t in enumerate(order):
        size, items = node.sizes[t], counts[t]
        most = 1 if node.apart[t] >> t & 1 else node.demands[t]
        size_ahead -= size * node.demands[t]
        count_ahead -= items * node.demands[t]
        if node.any_apart:
            ahead ^= 1 << t
        next_weight, next_size = 0, 1
        if place + 1 < len(order):
            next_weight, next_size = max(0, weights[order[place + 1]]), node.sizes[order[place + 1]]
        touched = [(c, cut.multipliers.get(t, 0), place >= last_of_cut[c]) for c, cut in enumerate(cuts)]
        reached = {}
        for (load, count, ruled_out, rests), value in states.items():
            copies = 0 if ruled_out >> t & 1 else most
            for copy in range(copies + 1):
                if copy:
                    load, count, value = load + size, count + items, value + weights[t]
                    ruled_out |= node.apart[t]
                    if load > window.capacity or (limited and count > window.count_limit):
                        break
                    moved = list(rests)
                    for c, multiplier, _ in touched:
                        whole, moved[c] = divmod(moved[c] + multiplier, cuts[c].den)
                        value -= cuts[c].scale * whole
                    rests = tuple(moved)
                    if is_hit(load, count, value):
                        return True
                budget.step(1 + len(cuts))
                if load + size_ahead < window.low_load or (limited and count + count_ahead < window.low_count):
                    continue
                room = window.capacity - load
                if factor * (value * next_size + room * next_weight) < target * next_size:
                    continue
                kept = tuple(0 if closed else rests[c] for c, _, closed in touched)
                key = (load, count, ruled_out & ahead, kept)
                if reached.get(key, value) <= value:
                    reached[key] = value
                    if not len(reached) & 1023:
                        budget.hold((len(states) + len(reached)) * bytes_per_state)
        budget.hold(node.memory() + (len(states) + len(reached)) * bytes_per_state)
        states = reached
    return False


# Section 4: proofs that K bins are not enough.


def check_volume(lines, statement, bins):
    """Section 4, volume: S > K·C."""
    lines.take_exactly("volume", 0)
    require(statement.total > bins * statement.capacity, f"by volume alone {bins} bins may be enough")


def check_count(lines, statement, bins):
    """Section 4, count: q > 0 and n > K·q."""
    lines.take_exactly("count", 0)
    enough = statement.max_items == 0 or len(statement.sizes) <= bins * statement.max_items
    require(not enough, f"by count alone {bins} bins may be enough")


def check_weight_range(node, weights, capacity):
    """Sections 4.2 and 4.3: one weight for every type, |p_t|·C <= 2^60·w_t."""
    require(len(weights) == len(node.sizes), "the weights are not as many as the types")
    for weight, size in zip(weights, node.sizes):
        require(abs(weight) * capacity <= WEIGHT_RANGE * size, "a weight is out of range")


def check_weights(lines, statement, bins, budget):
    """Section 4.2: K = 0, or K·M < Σ d_t·p_t with M the largest value of a pattern of the root, filled or not."""
    weights = lines.take("weights")
    node = root_of(statement)
    check_weight_range(node, weights, statement.capacity)
    require(all(weight >= 0 for weight in weights), "a weight is negative")
    if bins == 0:
        return
    total = sum(weight * demand for weight, demand in zip(weights, node.demands))
    window = pattern_window(statement)
    refuted = some_pattern_reaches(node, window, weights, [], bins, total, budget)
    require(not refuted, "a bin can be worth too much")


def some_total_within(numbers, low, high, budget):
    """Whether some of these items, of every size at most its number, have a total of low … high (low >= 1).

    The totals within reach are the ones of a big number; what is past high is cut off.
    """
    budget.step(len(numbers))
    all_items = sum(size * number for size, number in numbers.items() if size <= high)
    if low > min(high, all_items):
        return False
    width = min(high, all_items) + 1
    words = -(-width // 64)
    budget.hold(BYTES_PER_TYPE * len(numbers) + BYTES_PER_64_TOTALS * words)
    totals, within = 1, (1 << width) - 1
    for size, number in numbers.items():
        number, group = min(number, high // size), 1
        while number:  # groups of 1, 2, 4, … and the rest: every number of copies is a sum of some of them
            group = min(group, number)
            budget.step(words)
            totals |= totals << size * group & within
            if totals.bit_length() > low:
                return True
            number -= group
            group *= 2
    return False


def check_fill(sizes, numbers, capacity, waste, budget):
    """Section 4.3, fill w_0 [w_1 [w_2]]: a full bin of items that are left, and no others must be in the bin of w_0.

    Others may be there that change places with w_1 or w_2: those of no larger total. So of three only they matter.
    """
    require(len(sizes) in (1, 2, 3), '"fill" needs 1 to 3 integers')
    there = all(numbers.get(size, 0) >= sizes.count(size) for size in sizes)
    require(there, "there are not so many items of these sizes left")
    require(sum(sizes) == capacity, "these items don't make a bin full")
    first, *rest = sizes
    others = {size: number - (size == first) for size, number in numbers.items() if size not in rest}
    low = max(capacity - waste - first, 1, *(size + 1 for size in rest))
    otherwise = some_total_within(others, low, capacity - first, budget)
    require(not otherwise, "other items may do as well in the bin of the first")


def check_fills(lines, statement, bins, budget):
    """Section 4.3, any number of lines fill. Returns what the rest of the tree is about: what is left, and its K."""
    if lines.word != "fill":
        return statement, bins
    numbers = demands_of(statement)
    items, total, capacity = len(statement.sizes), statement.total, statement.capacity
    budget.hold(BYTES_PER_TYPE * len(numbers) + BYTES_PER_ITEM * items)
    while lines.word == "fill":
        sizes = lines.take("fill")
        require(statement.max_items == 0, "no bin is filled for good where the items in a bin are limited")
        waste = bins * capacity - total
        require(waste >= 0, "no bin is filled for good where the items are too much for the bins")
        require(items - len(sizes) >= bins, "fewer items would be left than there were bins")
        check_fill(sizes, numbers, capacity, waste, budget)
        for size in sizes:
            numbers[size] -= 1
        items, bins, total = items - len(sizes), bins - 1, total - capacity
    budget.hold(BYTES_PER_TYPE * len(numbers) + BYTES_PER_ITEM * (len(statement.sizes) + items))
    budget.step(items)
    left = [size for size, number in numbers.items() for _ in range(number)]
    return statement._replace(sizes=left, total=total), bins


def check_branch(node, statement, i, j):
    """Section 4.3, branch i j: items of these types exist, and may share a bin at this node."""
    types = len(node.sizes)
    require(0 <= i < types and 0 <= j < types, "a type does not exist")
    need = 2 if i == j else 1
    require(node.demands[i] >= need and node.demands[j] >= need, "there are no items of these types left")
    require(node.sizes[i] + node.sizes[j] <= statement.capacity, "items of these types don't fit in a bin")
    within = statement.max_items == 0 or node.counts[i] + node.counts[j] <= statement.max_items
    require(within, "items of these types are too many for a bin")
    require(not node.apart[i] >> j & 1, "these types are apart")


def read_cut(lines, node):
    """Section 4.3: a line `cut s den t μ t μ …` and its conditions."""
    integers = lines.take("cut")
    require(len(integers) >= 4 and len(integers) % 2 == 0, "a cut needs a scale, a denominator, and pairs")
    scale, den, types, multipliers = integers[0], integers[1], integers[2::2], integers[3::2]
    require(1 <= scale <= WEIGHT_RANGE, "the scale of a cut is out of range")
    require(1 <= den < WORD32, "the denominator of a cut is out of range")
    require(0 <= types[0] and types[-1] < len(node.sizes), "a type of a cut does not exist")
    require(all(left < right for left, right in zip(types, types[1:])), "the types of a cut don't increase")
    require(all(1 <= multiplier < WORD32 for multiplier in multipliers), "a multiplier of a cut is out of range")
    cut = Cut(scale, den, dict(zip(types, multipliers)))
    require(cut_total(node, cut) <= CUT_RANGE, "a cut is worth too much")
    return cut


def cut_total(node, cut):
    """Section 4.3: s·floor(Σ μ_t·d_t / den)."""
    return cut.scale * (sum(mu * node.demands[t] for t, mu in cut.multipliers.items()) // cut.den)


def check_leaf(lines, statement, node, bins, budget):
    """Section 4.3, leaf: K = 0, or K·V(a) < V(d) for every filled pattern a of the node."""
    integers = lines.take("leaf")
    require(integers and integers[0] >= 0, "a leaf needs its number of cuts")
    weights = integers[1:]
    check_weight_range(node, weights, statement.capacity)
    cuts = []
    for _ in range(integers[0]):
        cuts.append(read_cut(lines, node))
    window = filled_window(statement, bins) if bins else None
    if window is None:
        return
    target = sum(weight * demand for weight, demand in zip(weights, node.demands))
    target -= sum(cut_total(node, cut) for cut in cuts)
    refuted = some_pattern_reaches(node, window, weights, cuts, bins, target, budget)
    require(not refuted, "a bin can be worth too much")


def check_tree(lines, statement, bins, budget):
    """Section 4.3, tree: fills, nodes in preorder, *together* first; holds one path. Returns the number of leaves."""
    lines.take_exactly("tree", 0)
    statement, bins = check_fills(lines, statement, bins, budget)
    node = root_of(statement)
    path, leaves = [], 0  # path: (i, j, whether in the second child) of every branch above
    while True:
        if lines.word == "branch":
            i, j = lines.take_exactly("branch", 2)
            check_branch(node, statement, i, j)
            node.glue(i, j)
            path.append((i, j, False))
        else:
            check_leaf(lines, statement, node, bins, budget)
            leaves += 1
            while path and path[-1][2]:
                node.unpart(*path.pop()[:2])
            if not path:
                return leaves
            i, j, _ = path.pop()
            node.unglue(i, j)
            node.part(i, j)
            path.append((i, j, True))
        budget.step(len(node.sizes) if node.any_apart else 1)
        budget.hold(node.memory() + BYTES_PER_TYPE * len(path))


def check_proof(lines, statement, bins, budget):
    """Section 2: exactly one proof if there is a claim, none if not. Returns its name and number of leaves."""
    rule = lines.word
    if bins is None:
        return "none", 0
    if rule == "volume":
        check_volume(lines, statement, bins)
    elif rule == "count":
        check_count(lines, statement, bins)
    elif rule == "weights":
        check_weights(lines, statement, bins, budget)
    elif rule == "tree":
        return rule, check_tree(lines, statement, bins, budget)
    else:
        raise Invalid("this begins no proof")
    return rule, 0


def check(certificate, reading, budget=None):
    """Checks a certificate (bytes) against a file of lengths. Returns what is proved, or raises."""
    budget = budget or Budget()
    lines = Lines(certificate, budget)
    try:
        statement = read_statement(lines, reading, budget)
        cells, rows = lines.take_if("cells-at-least"), lines.take_if("rows-at-least")
        bins = refuted_bins(statement, cells, rows)
        upper = check_witness(lines, statement)
        rule, leaves = check_proof(lines, statement, bins, budget)
        lines.take_exactly("end", 0)
        require(lines.word is None, "something follows the end")
    except Invalid as error:
        raise Invalid(f"line {lines.blamed}: {error}") from error
    lower = 0 if bins is None else bins + 1

    def rows_of(number):
        return rows_for(number, statement.slots, statement.rows_multiple)

    return Checked(statement, lower, upper, rows_of(lower), None if upper is None else rows_of(upper), rule, leaves)


# The program.


def sentence(what, lower, upper):
    """What is proved about one kind of thing."""
    if upper == 0:
        return f"no {what} are necessary: there is nothing to pack"
    if upper is None:
        return f"at least {lower} {what} are necessary" if lower else f"nothing is claimed about {what}"
    if lower == upper:
        return f"{upper} {what} are necessary and sufficient"
    necessary = f"at least {lower} are necessary" if lower else "whether they are necessary is not claimed"
    return f"{upper} {what} are sufficient; {necessary}"


def natural(text):
    """An option's value, an integer from 0 to 2^64 - 1."""
    if not re.fullmatch("0|[1-9][0-9]{0,19}", text) or int(text) >= WORD64:
        raise argparse.ArgumentTypeError("must be an integer from 0 to 2^64 - 1")
    return int(text)


class Arguments(argparse.ArgumentParser):
    """Wrong usage has exit code 3."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(UNREADABLE, f"{self.prog}: {message}\n")


def main(arguments):
    """Runs the program; returns its exit code."""
    parser = Arguments(prog="check.py", description="A second checker of bin-packing certificates.", allow_abbrev=False)
    parser.add_argument("certificate", metavar="CERTIFICATE")
    parser.add_argument("lengths", metavar="LENGTHS")
    parser.add_argument("--form", choices=("lines", "bins", "table"), help="what LENGTHS is; lines by default")
    parser.add_argument("--column", metavar="NAME", help="the column of a table, or a sum of columns")
    parser.add_argument("--pad-multiple", type=natural, default=1, metavar="M")
    parser.add_argument("--max-memory", type=natural, default=2 << 30, metavar="B", help="bytes")
    parser.add_argument("--max-steps", type=natural, default=10**9, metavar="N")
    options = parser.parse_args(arguments)
    if options.pad_multiple == 0:
        parser.error("argument --pad-multiple: must be at least 1")
    form = options.form or ("lines" if options.column is None else "table")
    if (form == "table") != (options.column is not None):
        parser.error("argument --column: tables need it, nothing else has it")
    try:
        with open(options.certificate, "rb") as file:
            certificate = file.read()
        with open(options.lengths, "rb") as file:
            reading = read_lengths(file.read(), options.pad_multiple, form, options.column)
        checked = check(certificate, reading, Budget(options.max_steps, options.max_memory))
    except (OSError, Unreadable) as error:
        print(f"UNREADABLE: {error}", file=sys.stderr)
        return UNREADABLE
    except Invalid as error:
        print(f"INVALID: {error}")
        return INVALID
    except (NotChecked, MemoryError) as error:
        print(f"NOT CHECKED: {error}")
        return NOT_CHECKED
    statement = checked.statement
    print(
        f"VALID for {len(statement.sizes)} lengths, total {statement.total}, capacity {statement.capacity}, "
        f"at most {statement.max_items or 'any number of'} items in a bin, "
        f"{statement.slots} slots, rows in multiples of {statement.rows_multiple}"
    )
    print(sentence("cells", checked.cells_lower, checked.cells_upper))
    print(sentence("rows", checked.rows_lower, checked.rows_upper))
    print(f"proof: {checked.rule}, {checked.leaves} leaves")
    return VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
