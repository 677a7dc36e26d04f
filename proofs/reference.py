"""Released numbers computed a second time: key, noise, strategies and scales in one file.

A release is an exact sum plus noise. The noise depends only on the key and on public terms, so
whoever has both can compute it again. This program does so, as slowly and as plainly as it can. It
shares no line with the rest of counton, and imports only Python's own modules and one block cipher.
It refuses steps of GrowingSquareRoot after 2^20, strategies of other packages without their
matrices, and random draws and roundings that its digits do not decide (less than once in 2^100).

    python proofs/reference.py check RELEASED.json KEY SUMS.csv [--show]

``RELEASED.json`` is a table that counton wrote, with its description in ``RELEASED.json.json``.
``SUMS.csv`` has the columns step, group and sum: the exact running sum of each step, or the step's
own if releases are of windows. For a statistic, the column group has the numbers of its cells, from
0 on. If groups were not declared, a column cell gives each group's cell. Exit code 0: all values
are right; 1: the first wrong value is printed; 2: the input cannot be read, or nothing was
released. ``--show`` prints the measurements y = C x + z, and the release from y alone.

Sums of the last windows and decayed sums in a table are computed from the stream's releases. The
package adds floats there, so such a number is right if it differs by at most 2^-40 of the sum of
the sizes of all windows.

The parts of this file: random bits are derived from the key (1, 2), and noise from the bits (3). A
strategy says what is measured, and how the release follows from it (4). Norms and guarantees say
how wide the noise has to be (5). Released values are compared with what parts 1 to 4 give (6).
``docs/guarantees/specification.md`` says the same in words, in this order.

``check`` shows that each value is the given sum plus the noise of this key and these terms. It does
not show that the noise is wide enough for the guarantee, that the sums are those of the rows, or
that a unit's contribution is bounded. It does not call part 5: ``least_width`` and the functions
above it are for tests, and for readers who want to know how wide the noise of a small instance has
to be.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # folders beside this file are called as modules of Python are
    sys.path[:] = [at for at in sys.path if at != os.path.dirname(os.path.abspath(__file__))]

import argparse
import base64
import csv
import hashlib
import hmac
import json
import math
import re
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import accumulate, combinations, count, islice, pairwise, product, takewhile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

#: Real numbers are decimals of 100 digits. A draw that 144 bits do not decide is refused, and so is
#: a real number that must be rounded within 10^-40 of a jump of the rounding.
DIGITS = Context(prec=100, Emin=MIN_EMIN, Emax=MAX_EMAX)
Node = tuple[int, int]  # level, index
Draws = Callable[[int, int], int]  # z of a node
Place = tuple[int, int, int]  # level, row, column


class UnreadableError(Exception):
    """The error for input that cannot be read; its message is the reason."""


# ------------------------------------------------------------------------------------ 1. key


def subkey(secret: bytes, *context: bytes) -> bytes:
    """Derive a subkey of 32 bytes by HKDF-SHA256 (RFC 5869) without salt.

    Each part of the context is preceded by its length.
    """
    parts = (b"counton/noise/1", *context)
    info = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return hmac.digest(hmac.digest(bytes(32), secret, "sha256"), info + b"\x01", "sha256")


def read_key(text: str) -> bytes:
    """Return the secret in the text of a key file: ``counton-key-1:`` and 64 hexadecimal digits."""
    found = re.fullmatch(r"counton-key-1:([0-9a-f]{64})", text.strip())
    if found is None:
        raise UnreadableError(
            "the key is no key of counton: give counton-key-1: and 64 hexadecimal digits"
        )
    return bytes.fromhex(found[1])


def short(value: object) -> str:
    """Return the first 40 characters of a value, for messages."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def exact(text: str) -> Fraction:
    """Parse a number as written: 12, 0.05, 1/3 or 1e-6."""
    if len(text) > 2000 or re.search(r"e[+-]?\d{4}", text.lower()):
        raise UnreadableError(
            f"a number is {short(text)}, which has too many digits: give it as counton wrote it"
        )
    return Fraction(text)


def law_of(description: dict[str, str]) -> tuple[str, Fraction]:
    """Return the family of a described noise distribution ("laplace" or "gaussian"), and its scale
    (Laplace) or variance (Gaussian).

    Noise is drawn as integers, and the result is in units of these integers. The description states
    the width of the noise in data units, and in ``grid`` the size of one noise integer in data
    units.
    """
    unit = exact(description.get("grid", "1"))
    if description["law"] == "discrete Laplace":
        return "laplace", exact(description["scale"]) / unit
    return "gaussian", exact(description["sigma_squared"]) / unit**2


def address(terms: dict[str, Any]) -> str:
    """Return the public terms of a stream from which the key of its noise is derived, as JSON text.

    They include the contribution without the name of the protected unit, and the strategy without
    its arrays. Some terms are in the text only if the stream has them. ``format`` is the version of
    the text: 2 for strategies whose noise is computed otherwise than in version 1, where its width
    depended on a step fixed beforehand; else 1. ``counters`` is the guarantee of the noise alone,
    for cells that are created when they are needed. ``statistic`` describes the statistic whose
    cells are counted.
    """
    description = terms["strategy"]
    if description["strategy"] == "AsOf":  # its numbers are those of a stream of nights
        description = description["windows"]
    family, width = law_of(terms["law"])
    law = {"law": f"discrete {family.title()}"}
    law |= {"scale" if family == "laplace" else "sigma_squared": str(width)}
    bound = {
        "contribution": {k: v for k, v in terms["contribution"].items() if k != "unit"},
        "law": law,
        "stream": terms["name"],
        "strategy": without_arrays(description),
    }
    for name in ("format", "guarantee", "shape", "counters", "statistic"):
        bound |= {name: terms[name]} if name in terms else {}
    return json.dumps(bound, sort_keys=True, separators=(",", ":"))


def without_arrays(strategy: Any) -> Any:
    """Return the description of a strategy without its arrays and without the names given to its
    parameters.

    Instead of amplitudes and matrices, the description has digests of them. There is no digest of
    the node weights of the strategy `Octave`: with other weights the key of the noise stays the
    same, other values are computed, and no error is raised here.
    """
    if not isinstance(strategy, dict):
        return strategy
    left_out = ("name", "amplitudes", "matrix", "formula", "node_weights", "series")
    return {k: without_arrays(v) for k, v in strategy.items() if k not in left_out}


# ----------------------------------------------------------------------------------- 2. bits


class Bits:
    """Random bits by AES-256: each block is the encryption of its address. No bit is used twice.

    An address has 16 bytes, little-endian: the low 8 bytes are the column, the next 4 the row; then
    come lane, attempt, level and purpose, a byte each. If a stream has a single cell, the row is 0,
    and the column is the node's index; if it has several, the row is the node's index, and the
    column the number of the cell. A draw uses blocks of several purposes and lanes; if it is
    rejected and repeated, it uses further blocks, with the next attempt in their addresses. A block
    of lane 0 and attempt 0 is shared by neighbouring columns, each of which uses two or eight
    bytes. Every other block belongs to one draw.

    Attributes:
        read: addresses of all bytes used so far: a block, and the byte within it.
    """

    def __init__(self, secret: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(secret), modes.ECB()).encryptor()
        self.read: set[tuple[bytes, int]] = set()

    def part(self, where: Place, fields: Place, block: int, first: int, size: int) -> int:
        """Return ``size`` bytes of a block, from byte ``first`` on, as an integer; refuse a byte
        that was used before.

        ``where`` is level, row and column; ``fields`` is purpose, attempt and lane.
        """
        (level, row, _), (purpose, attempt, lane) = where, fields
        plain = block.to_bytes(8, "little") + row.to_bytes(4, "little")
        plain += bytes([lane, attempt, level, purpose])
        addresses = {(plain, at) for at in range(first, first + size)}
        if addresses & self.read:
            raise UnreadableError(
                f"the noise at level {level}, {where[1:]} reads bits a second time"
            )
        self.read |= addresses
        return int.from_bytes(self._cipher.update(plain)[first : first + size], "little")

    def word(self, purpose: int, where: Place, size: int) -> int:
        """Return ``size`` bytes from a shared block of pseudorandom bytes, as an integer.

        The draw at ``where`` (level, row, column) shares this block with draws of neighbouring
        columns.
        """
        block, within = divmod(where[2], 16 // size)
        return self.part(where, (purpose, 0, 0), block, within * size, size)

    def lane(self, purpose: int, where: Place, attempt: int, lane: int) -> tuple[int, int]:
        """Return two integers of 64 bits from a block that belongs to one draw alone.

        The block's address has this purpose, attempt and lane, and level, row and column from
        ``where``.
        """
        both = self.part(where, (purpose, attempt, lane), where[2], 0, 16)
        return both % 2**64, both >> 64

    def uniform(self, purpose: int, where: Place, attempt: int, sixteen: int) -> int:
        """Return a random number in [0, 1) as an integer of 144 bits: the given 16 bits
        (``sixteen``), followed by 128 bits that are read.
        """
        first, second = self.lane(purpose, where, attempt, 1)
        return sixteen << 128 | first << 64 | second


# ---------------------------------------------------------------------------------- 3. noise

# purposes
MAIN = 0
ACCEPT = 1
OFFSET = 2
RETRY = 3
DIGIT = 16


def real(value: Fraction | int) -> Decimal:
    """Convert a fraction to a decimal of 100 digits."""
    top, bottom = value.as_integer_ratio()
    return DIGITS.divide(Decimal(top), Decimal(bottom))


def exp(value: Fraction | int) -> Decimal:
    """Return e to the power ``value``, with 100 digits."""
    return DIGITS.exp(real(value))


class Inverse:
    """A distribution on consecutive integers, from which integers are drawn by inverting its
    distribution function.

    A draw is the least integer j with U < F(j), where U is uniform in [0, 1), and F is the
    distribution function.

    Args:
        least: the first integer.
        weights: weights of the first integer and of those that follow; the probability of an
            integer is its weight divided by the sum of all weights.
    """

    def __init__(self, least: int, weights: Iterable[Decimal]) -> None:
        with localcontext(DIGITS):
            sums = [*accumulate(weights)]
            self._least = least
            self._sums = [int(one / sums[-1] * 2**200) for one in sums]

    def find(self, uniform: int) -> int:
        """Return the integer that a uniform number in [0, 1) draws from this distribution.

        ``uniform`` is the first 144 bits of the number. Raise an error if they do not decide which
        integer is drawn.
        """
        at = bisect_right(self._sums, uniform << 56)
        if at != bisect_right(self._sums, (uniform + 1) << 56):
            raise UnreadableError("144 bits do not decide a draw, as happens once in 2^130 of them")
        return self._least + at


def nearest_zero(block: int, size: int) -> int:
    """Return the value nearest to 0 in a block. The block with number b has the ``size`` values
    from b * size on.
    """
    return block * size if block >= 0 else (block + 1) * size - 1


def blocks(size: int, weight: Callable[[int], Decimal]) -> Inverse:
    """Return a distribution of block numbers: a block has ``size`` consecutive integers, and its
    weight is the weight of its integer nearest to 0.

    Blocks with negligible weights are left out.
    """
    sides = [
        [
            *takewhile(
                lambda one: one > Decimal(2) ** -180,
                (weight(nearest_zero(block, size)) for block in count(first, step)),
            )
        ]
        for first, step in ((-1, -1), (0, 1))
    ]
    return Inverse(-len(sides[0]), [*reversed(sides[0]), *sides[1]])


class Laplace:
    """The discrete Laplace distribution on the integers: P(x) is proportional to exp(-|x| / scale).

    First a block of consecutive values is drawn, then the position in the block: its binary digits,
    up to eight at a time. Each draw inverts a distribution function.
    """

    def __init__(self, scale: Fraction) -> None:
        bits = next(bits for bits in count() if scale <= 24 * 2**bits)
        ratio = exp(-1 / scale)
        self._blocks = blocks(2**bits, lambda value: DIGITS.power(ratio, abs(value)))
        self._digits: list[tuple[int, Inverse]] = []
        while bits:
            width = min(bits, 8)
            bits -= width
            weights = [DIGITS.power(ratio, j << bits) for j in range(2**width)]
            self._digits.append((width, Inverse(0, weights)))

    def draw(self, bits: Bits, where: Place) -> int:
        """Return the noise, an integer, that the key's ``bits`` give to an address (level, row,
        column).
        """
        value = self._blocks.find(bits.uniform(MAIN, where, 0, bits.word(MAIN, where, 2)))
        for number, (width, law) in enumerate(self._digits, start=DIGIT):
            digit = law.find(bits.uniform(number, where, 0, bits.word(number, where, 2)))
            value = value << width | (digit if value >= 0 else (1 << width) - 1 - digit)
        return value


class Gaussian:
    """The discrete Gaussian distribution on the integers: P(x) is proportional to exp(-x^2 / (2
    variance)).

    A narrow distribution is drawn by inverting its distribution function. A wide distribution is
    drawn in three parts: a block of consecutive values, a value x in the block, and a test. If x0
    is the block's value nearest to 0, the test accepts x with probability P(x) / P(x0). After a
    failed test all three are drawn again.
    """

    def __init__(self, variance: Fraction) -> None:
        self._variance = variance
        self._bits = 0
        while variance > 128**2 and variance >= 64**2 * 4 ** (self._bits + 1):
            self._bits += 1
        ratio = exp(-1 / (2 * variance))
        self._blocks = blocks(2**self._bits, lambda value: DIGITS.power(ratio, value**2))

    def draw(self, bits: Bits, where: Place) -> int:
        """Return the noise, an integer, that the key's ``bits`` give to an address (level, row,
        column).
        """
        main = bits.word(MAIN, where, 2)
        size = 1 << self._bits
        if size == 1:
            return self._blocks.find(bits.uniform(MAIN, where, 0, main))
        accept = bits.word(ACCEPT, where, 2)
        offset = bits.word(OFFSET, where, 2 if self._bits <= 16 else 8)
        for attempt in range(256):
            if attempt:
                first, offset = bits.lane(RETRY, where, attempt, 0)
                accept = first >> 48
                main = first >> 32 & 0xFFFF
            block = self._blocks.find(bits.uniform(MAIN, where, attempt, main))
            value = block * size + offset % size
            chance = exp((nearest_zero(block, size) ** 2 - value**2) / (2 * self._variance))
            test = Inverse(0, [chance, DIGITS.subtract(Decimal(1), chance)])
            if test.find(bits.uniform(ACCEPT, where, attempt, accept)) == 0:
                return value
        raise UnreadableError(
            "a draw was rejected 256 times, which happens by chance once in 2^1000 draws, so the "
            "key and the description do not belong together; take both from one state"
        )


@cache
def noise_of(family: str, width: Fraction) -> Laplace | Gaussian:
    """Return the noise distribution with this family ("laplace" or "gaussian") and width (scale or
    variance).

    Results are cached, because their tables take milliseconds, and many nodes share them.
    """
    return (Laplace if family == "laplace" else Gaussian)(width)


class Noise:
    """The noise z of one cell: an independent draw for each node of the strategy.

    A node is a level and an index. Level, index and cell are the address of the draw.

    Args:
        bits: random bits of the stream.
        law: function that returns the noise distribution of a level's nodes.
        cell: number of the cell; None if the stream has a single cell.

    Attributes:
        drawn: noise drawn so far, by node.
    """

    def __init__(
        self, bits: Bits, law: Callable[[int], Laplace | Gaussian], cell: int | None
    ) -> None:
        self._bits = bits
        self._law = law
        self._cell = cell
        self.drawn: dict[Node, int] = {}

    def __call__(self, level: int, index: int) -> int:
        if (level, index) not in self.drawn:
            where = (level, 0, index) if self._cell is None else (level, index, self._cell)
            self.drawn[level, index] = self._law(level).draw(self._bits, where)
        return self.drawn[level, index]


# ----------------------------------------------------------------------------- 4. strategies


def nearest(top: int, bottom: int) -> int:
    """Round top / bottom to the nearest integer, halves up.

    Every estimate of a count is rounded in this way.
    """
    return (2 * top + bottom) // (2 * bottom)


def part_times(value: int, part: Fraction) -> int:
    """Multiply an integer by a fraction that is first rounded to units of 2^-40; round the product
    to an integer.
    """
    return nearest(value * nearest(part.numerator << 40, part.denominator), 1 << 40)


def round_to(value: Decimal, places: int) -> int:
    """Round a real number to a multiple k 2^-places, and return the integer k.

    The result is floor(x + 1/2 + (sqrt 2 - 1) / 2^20), where x = value * 2^places. The irrational
    shift excludes ties.
    """
    moved = value * Decimal(2) ** places + Decimal("0.5") + (Decimal(2).sqrt() - 1) / 2**20
    low = math.floor(moved - Decimal("1e-40"))
    high = math.floor(moved + Decimal("1e-40"))
    if low != high:
        raise UnreadableError("40 digits do not decide how a number is rounded")
    return low


class Strategy:
    """A strategy: the measurements y = C x + z, and the rule by which releases follow from y alone.

    x are the exact counts of steps, C is an integer matrix with a row for each node, and z is the
    nodes' noise. C x and z are in units of 2^-bits, releases in units of 2^-places. The method
    `noise` is a function from one number for each node to one for each step. For every x, the
    releases are A x + noise(z), and this equals noise(C x + z), where A x are the running sums, or
    each step's own count. So releases are a function of y alone, rounding included, and are private
    if y is. Steps count from 1.

    Attributes:
        bits, places: C x and z are in units of 2^-bits, releases in units of 2^-places.
        windows: True if releases are each step's own count, not running sums.
        delay: a release leaves out the inputs of this many latest steps.
        versions: number of values that a step releases for each cell. It is 1 unless windows are
            revised: then a step releases one value for each of the last windows
            (`WindowVersions`).
    """

    bits = places = delay = 0
    windows = False
    versions = 1

    def factor(self, level: int) -> Fraction:
        """Return the scale (Laplace) or variance (Gaussian) of the noise of a level, divided by the
        scale or variance of level 0.
        """
        return Fraction(1)

    def column(self, step: int, last: int) -> dict[Node, int]:
        """Return the column of C for a step: the nodes to which an input of this step adds, each
        with its weight.

        If a column has no end (Expiring, GrowingSquareRoot, GrowingBlocks), only nodes whose noise
        is in some release up to ``last`` are returned; other strategies ignore ``last``.
        """
        raise NotImplementedError

    def noise(self, z: Draws, last: int) -> list[int]:
        """Return the noise of the releases 1 .. last, computed from the nodes' noise z."""
        with localcontext(DIGITS):
            return self._noise(z, last)

    def numbers(self, z: Draws, last: int) -> list[list[int]]:
        """Return the noise of each value that the steps 1 to ``last`` release.

        The result has a list for each of the values that a step releases; a list has an entry for
        each step.
        """
        return [self.noise(z, last)]

    def _noise(self, z: Draws, last: int) -> list[int]:
        return [self._at(z, step) for step in range(1, last + 1)]

    def _at(self, z: Draws, step: int) -> int:
        raise NotImplementedError


class KAry(Strategy):
    """The strategy of a k-ary tree. The digits of a step in base k tell which nodes its release
    reads.

    With subtraction a release adds or subtracts nodes, so that it reads as few as possible.
    """

    def __init__(self, horizon: int, arity: int, subtraction: bool = True) -> None:
        self._base = arity
        self._below = (arity - 1) // 2 if subtraction else 0
        self._height = 0
        most = 0
        while most < horizon:  # the largest number of so many digits
            most = most * arity + arity - 1 - self._below
            self._height += 1

    def column(self, step: int, last: int) -> dict[Node, int]:
        ends = [-(-step // self._base**level) for level in range(self._height)]
        # A release reads the nodes between its end and a multiple k q of the base: of the nodes
        # after it all before k (q + 1) - below, of the nodes up to it all after k q - below. So no
        # release reads a node k q - below itself, and no item enters it.
        return {(level, p): 1 for level, p in enumerate(ends) if (p + self._below) % self._base}

    def _at(self, z: Draws, step: int) -> int:
        total = 0
        end = step
        for level in range(self._height):
            parent = (end + self._below) // self._base
            middle = parent * self._base
            total += sum(z(level, p) for p in range(middle + 1, end + 1))
            total -= sum(z(level, p) for p in range(end + 1, middle + 1))
            end = parent
        return total


class Binary(KAry):
    """The binary tree without subtraction. Only left children are measured, and only they are
    numbered.
    """

    def __init__(self, horizon: int) -> None:
        super().__init__(horizon, 2, subtraction=False)

    def column(self, step: int, last: int) -> dict[Node, int]:
        return {(level, p >> 1): 1 for level, p in super().column(step, last)}

    def _at(self, z: Draws, step: int) -> int:
        return super()._at(lambda level, p: z(level, p >> 1), step)


class SmoothBinary(Strategy):
    """The strategy of a binary tree that uses only some leaves: those whose numbers, of ``height``
    bits, have ``zeros`` bits that are 0.

    Leaves are taken in ascending order. A node is a bit position and the bits above it. An input of
    step t has leaf t - 1, and adds to a node for each bit 0 of the leaf that has a bit 1 somewhere
    below it. Release t reads a node for each bit 1 of leaf t. On each level the nodes that are read
    are numbered from 0.
    """

    def __init__(self, horizon: int, height: int, zeros: int) -> None:
        leaves = (leaf for leaf in range(2**height) if leaf.bit_count() == height - zeros)
        self._leaves = [*islice(leaves, horizon + 1)]
        self._bits = range(height)
        self._read = [
            sorted({leaf >> bit + 1 for leaf in self._leaves if leaf >> bit & 1})
            for bit in self._bits
        ]

    def _nodes(self, leaf: int, value: int) -> list[Node]:
        """Return a node for each bit of a leaf's number that equals ``value`` (0 or 1).

        A node is the position of the bit, and the bits above it. Nodes of a level are numbered in
        ascending order of their bits; only nodes whose noise is in some release have a number.
        """
        found = [bit for bit in self._bits if leaf >> bit & 1 == value]
        return [(bit, bisect_left(self._read[bit], leaf >> bit + 1)) for bit in found]

    def column(self, step: int, last: int) -> dict[Node, int]:
        leaf = self._leaves[step - 1]
        # If no one stands below a zero, no leaf goes on with a one in its place: no release reads
        # it.
        return {(bit, node): 1 for bit, node in self._nodes(leaf, 0) if leaf % 2**bit}

    def _at(self, z: Draws, step: int) -> int:
        return sum(z(bit, node) for bit, node in self._nodes(self._leaves[step], 1))


class Independent(Strategy):
    """The strategy that releases each step's own count with independent noise."""

    windows = True

    def __init__(self, horizon: int) -> None:
        """Accept the number of steps, as every strategy does; it is not needed."""

    def column(self, step: int, last: int) -> dict[Node, int]:
        return {(0, step): 1}

    def _at(self, z: Draws, step: int) -> int:
        return z(0, step)


class Expiring(Strategy):
    """The strategy of dyadic intervals [j 2^l, (j + 1) 2^l - 1], j >= 1, on levels l. A release
    reads the intervals that contain its step.

    The noise of level l is (1 + l)^(1 - growth) times as wide as the noise of level 0; ``growth``
    is a parameter of the strategy.
    """

    def __init__(self, growth: str = "1", delay: int = 0, levels: int | None = None) -> None:
        self._power = 1 - Fraction(growth)
        self.delay = delay
        self._levels = levels or 63

    def factor(self, level: int) -> Fraction:
        root = round((1 + level) ** (1 / self._power.denominator))
        if root**self._power.denominator == 1 + level:
            return Fraction(root) ** self._power.numerator
        with localcontext(DIGITS):  # otherwise the least number above it of 40 bits
            found = (real(self._power) * Decimal(1 + level).ln()).exp()
            unit = Fraction(2) ** (math.frexp(float(found))[1] - 40)
            return math.ceil(found / real(unit)) * unit

    def column(self, step: int, last: int) -> dict[Node, int]:
        found = {}
        end = last - self.delay
        while step <= end:  # the widest interval that begins here
            level = min((step & -step).bit_length(), self._levels) - 1
            found[level, step >> level] = 1
            step += 1 << level
        return found

    def _at(self, z: Draws, step: int) -> int:
        end = max(step - self.delay, 0)
        levels = range(min(end.bit_length(), self._levels))
        return sum(z(level, end >> level) for level in levels)


class HonakerOnline(Strategy):
    """The strategy of a binary tree whose nodes are estimated from their own measurements and from
    the estimates of their children.
    """

    places = 16

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def column(self, step: int, last: int) -> dict[Node, int]:
        nodes = [(level, step - 1 >> level) for level in range(self._horizon.bit_length())]
        return {(level, at): 1 for level, at in nodes if at < self._horizon >> level}

    def _noise(self, z: Draws, last: int) -> list[int]:
        @cache
        def estimate(level: int, node: int) -> int:
            own = z(level, node) << 16
            if not level:
                return own
            children = sum(estimate(level - 1, 2 * node + odd) for odd in (0, 1))
            return own + part_times(children - own, 1 - Fraction(2**level, 2 ** (level + 1) - 1))

        return [
            sum(
                estimate(level, (step >> level) - 1)
                for level in range(step.bit_length())
                if step >> level & 1
            )
            for step in range(1, last + 1)
        ]


class LookAhead(Strategy):
    """A tree over all steps, in which each node's count is estimated from the nodes below and above
    it.

    A node of level l is measured with weight w_l. Its estimate combines this measurement with its
    children's estimates, down to some levels below, by least squares. At the highest level the
    estimate is final. Below, the difference between a parent's final number and the sum of its
    children's estimates is divided among the children, in proportion to their variances. The last
    node of a level ends with the last step. Estimates are in units of 2^-16, variances in units of
    the noise's variance.

    Args:
        own: weight (0 to 1) of a node's own measurement in its estimate, which then uses one level
            below. None: the best weight; the estimate then uses as many levels below as possible,
            at most so many that a node has 400 nodes on the lowest of them.
    """

    places = 16

    def __init__(
        self,
        horizon: int,
        radices: Sequence[int] = (),
        weights: Sequence[int] = (1,),
        own: Fraction | None = None,
    ) -> None:
        self._radices = radices
        self._weights = weights
        self._own = own
        self.top = len(radices)
        self._widths = [*accumulate(radices, lambda a, b: a * b, initial=1)]
        self._counts = [-(-horizon // width) for width in self._widths]
        self.bits = weights[0].bit_length() - 1
        self._depths = [0]
        for level in range(1, self.top + 1):
            fit = [d for d in range(2, level + 1) if math.prod(radices[level - d : level]) <= 400]
            self._depths.append(max(fit, default=1) if own is None else 1)

    def column(self, step: int, last: int) -> dict[Node, int]:
        levels = enumerate(zip(self._widths, self._weights, strict=True))
        return {(level, (step - 1) // width): weight for level, (width, weight) in levels}

    def final(self, z: Draws) -> Draws:
        """Return a function from a level and a node's index to the noise of the node's final
        estimate, in units of 2^-16.
        """

        def children(level: int, node: int) -> range:
            radix = self._radices[level - 1]
            return range(node * radix, min((node + 1) * radix, self._counts[level - 1]))

        @cache
        def estimate(level: int, node: int, depth: int) -> tuple[int, Fraction]:
            """Return the noise of a node's estimate, and the variance of the estimate.

            The estimate uses the nodes down to ``depth`` levels below the node.
            """
            weight = self._weights[level]
            drawn = z(level, node) << 16
            if not depth:
                return nearest(drawn, weight), Fraction(1, weight**2)
            from_below, variance = children_sum(level, node, depth)
            own = self._own or weight**2 * variance / (weight**2 * variance + 1)
            value = from_below + part_times(drawn - weight * from_below, own / weight)
            return value, (own / weight) ** 2 + (1 - own) ** 2 * variance

        @cache
        def children_sum(level: int, node: int, depth: int) -> tuple[int, Fraction]:
            """Return the noise of the sum of the estimates of a node's children, and the variance
            of this sum.
            """
            below = [estimate(level - 1, one, depth - 1) for one in children(level, node)]
            total = sum(value for value, _ in below)
            if depth == 1:  # the sum of measurements, rounded once
                drawn = sum(z(level - 1, one) for one in children(level, node))
                total = nearest(drawn << 16, self._weights[level - 1])
            return total, sum((variance for _, variance in below), Fraction(0))

        @cache
        def final(level: int, node: int) -> int:
            depth = self._depths[level]
            value, variance = estimate(level, node, depth)
            if level == self.top:
                return value
            parent = node // self._radices[level]
            from_below, variance_below = children_sum(level + 1, parent, depth + 1)
            return value + part_times(
                final(level + 1, parent) - from_below, variance / variance_below
            )

        return final

    def total(self, final: Draws, step: int) -> int:
        """Return the noise of the running total at a step.

        The total is a sum of final estimates of nodes' counts; ``final`` is the function that the
        method `final` returned. The nodes are the widest nodes that end before the step, narrower
        nodes after them, and the step itself.
        """
        found = final(0, step - 1)
        node = 0
        for level in reversed(range(self.top + 1)):
            end = (step - 1) // self._widths[level]
            found += sum(final(level, one) for one in range(node, end))
            node = end * self._radices[level - 1] if level else end
        return found

    def _noise(self, z: Draws, last: int) -> list[int]:
        final = self.final(z)
        return [self.total(final, step) for step in range(1, last + 1)]


class Epochs(Strategy):
    """The strategy of epochs, each with a tree over its steps whose root is measured too.

    A node has k children; the root of an epoch after epoch 0 has k - 1. Epoch 0 has the steps 1 ..
    k, and epoch j the steps k^j + 1 .. k^(j + 1). The noise of epoch j is (j + 2) / 2 times as wide
    as the noise of epoch 0. The numbering of noise levels continues from epoch to epoch. A release
    adds the roots of past epochs.
    """

    places = 16

    def __init__(self, radix: int = 16) -> None:
        self._radix = radix

    def _epochs(self) -> Iterator[tuple[LookAhead, int, int, int]]:
        """Yield each epoch, a stretch of steps with a tree of its own.

        An epoch is given as its tree, the number of steps before it, the number of its steps, and
        its lowest level of noise.
        """
        k = self._radix
        own = Fraction(nearest(self._radix - 1 << 40, self._radix), 2**40)
        for number in count():
            radices = [k] * number + [k - 1 if number else k]
            tree = LookAhead(math.prod(radices), radices, [1] * (number + 2), own)
            yield tree, k**number if number else 0, math.prod(radices), number * (number + 3) // 2

    def factor(self, level: int) -> Fraction:
        return Fraction(next(j for j in count(2) if (j - 1) * (j + 2) // 2 > level), 2)

    def column(self, step: int, last: int) -> dict[Node, int]:
        for tree, before, size, lowest in self._epochs():
            if step <= before + size:
                nodes = tree.column(step - before, last)
                return {(lowest + level, at): 1 for level, at in nodes}
        return {}

    def _noise(self, z: Draws, last: int) -> list[int]:
        found = list[int]()
        past = 0
        for tree, before, size, lowest in self._epochs():
            final = tree.final(self._above(z, lowest))
            steps = range(1, min(last - before, size) + 1)
            found += [past + tree.total(final, step) for step in steps]
            if len(found) == last:
                break
            past += final(tree.top, 0)
        return found

    def _above(self, z: Draws, lowest: int) -> Draws:
        return lambda level, at: z(lowest + level, at)


class GrowingCascade(Strategy):
    """The strategy of a binary tree that doubles as data arrives; it releases each step's own
    count.

    Step 1 is measured alone. Doubling d adds the steps 2^(d - 1) + 1 .. 2^d. At the root, twice the
    total of these steps plus the total of all earlier steps is measured; below, the difference
    between the two children of each node.
    """

    windows = True

    def __init__(self, doublings: int, fraction_bits: int = 10) -> None:
        self._doublings = doublings
        self.places = fraction_bits
        # their ratio is the root of 3
        self._first = 978122
        self._weight = 564719

    def column(self, step: int, last: int) -> dict[Node, int]:
        cell = step - 1
        came = (step - 1).bit_length()
        found = {(128 + j, 0): self._weight for j in range(came + 1, self._doublings + 1)}
        for height in range(1, came):
            found[height, cell >> height] = self._weight * (-1) ** (cell >> height - 1 & 1)
        return found | {(128 + came, 0): 2 * self._weight if came else self._first}

    def _at(self, z: Draws, step: int) -> int:
        weight = self._weight
        cell = step - 1
        block = total = nearest(z(128, 0) << self.places, self._first)
        for number in range(1, cell.bit_length() + 1):
            block = nearest((z(128 + number, 0) << self.places) - weight * total, 2 * weight)
            total += block
        for height in reversed(range(1, cell.bit_length())):
            left = nearest((z(height, cell >> height) << self.places) + weight * block, 2 * weight)
            block = block - left if cell >> height - 1 & 1 else left
        return block


class Octave(Strategy):
    """The strategy whose noise is a sum of independent noises, one for each octave of time scales.

    Node j of level l stands at time j 2^l, and has a draw of noise z and a weight w. At the highest
    level the noise is N = z / w. Below, it is N = z / w + U N', where N' is the noise of the level
    above, and U interpolates in time by (3, 8, 10, 8, 3) / 16. Each level is rounded to multiples
    of 2^-grid_bits. The noise of a release is N of level 0. Only nodes of the highest nine levels
    have a weight other than 1. C was found by search and is not in this file: a test takes it from
    the strategy, and checks it.
    """

    def __init__(
        self,
        horizon: int,
        metric: str = "mean",
        grid_bits: int = 16,
        whole: bool = False,
        node_weights: str | None = None,
    ) -> None:
        self._fine = grid_bits
        self._unit = 2 ** (grid_bits // 2 - 2)
        self.bits = grid_bits + grid_bits // 2 - 2
        self.places = 0 if whole else 10
        upper = max(horizon.bit_length() - 8, 0)
        if upper >= 2:  # a multiple of 8 nodes of the lowest of the highest levels
            horizon = -(-horizon // (8 << upper)) * (8 << upper)
            upper = horizon.bit_length() - 8
        self._nodes = [range(1, horizon + 1)]
        for _ in range(horizon.bit_length()):
            first = self._nodes[-1].start
            last = self._nodes[-1].stop - 1
            self._nodes.append(range(first // 2 - (first % 2 == 0), last // 2 + 2))
        levels = range(upper, len(self._nodes))
        measured = [(level, j) for level in levels for j in self._nodes[level]]
        if upper >= 2 and node_weights is None:
            raise UnreadableError(
                "the description lacks node_weights, the weights of the strategy Octave: take the "
                "description as counton wrote it"
            )
        weights = (
            integers(node_weights, len(measured)) if node_weights else [self._unit] * len(measured)
        )
        self._weights = dict(zip(measured, weights, strict=True))

    def column(self, step: int, last: int) -> dict[Node, int]:
        raise UnreadableError(
            "the matrix C of the strategy Octave was found by search and is not in this program: "
            "check the released values without --show"
        )

    def _noise(self, z: Draws, last: int) -> list[int]:
        @cache
        def number(level: int, node: int) -> int:
            weight = self._weights.get((level, node), self._unit)
            half = node // 2
            reads = {half: 8, half + 1: 8} if node % 2 else {half - 1: 3, half: 10, half + 1: 3}
            above = self._nodes[level + 1] if level + 1 < len(self._nodes) else range(0)
            carried = sum(part * number(level + 1, j) for j, part in reads.items() if j in above)
            return nearest(carried * weight + 16 * z(level, node + 1), 16 * weight)

        return [
            nearest(number(0, step), 1 << self._fine - self.places)
            for step in self._nodes[0][:last]
        ]


class Root(Strategy):
    """A strategy whose matrix C is the square root of the matrix A of running sums, with weighted
    columns.

    C = F diag(w). F is a Toeplitz matrix with F F = A but for rounding; w has a weight for each
    step.
    """

    places = 10

    def __init__(self, horizon: int | None, series_bits: int, weight_bits: int) -> None:
        self._horizon = horizon
        self._series_bits = series_bits
        self._weight_bits = weight_bits
        self.bits = series_bits + weight_bits

    def _series(self, last: int) -> list[int]:
        """Return f(k) = binomial(2k, k) / 4^k for k = 0 .. last - 1, in units of 2^-series_bits.

        It is the power series of 1 / sqrt(1 - x), and the first column of F.
        """
        found = []
        binomial = 1
        for k in range(last):
            found.append(nearest(binomial << self._series_bits, 4**k))
            binomial = binomial * 2 * (2 * k + 1) // (k + 1)
        return found

    def _weights(self, last: int) -> list[int]:
        """Return the weights w of the steps 1 to ``last``, in units of 2^-weight_bits.

        The count of a step is multiplied by its weight.
        """
        return [1] * last

    def _node(self, node: int) -> Node:
        return 0, node

    def column(self, step: int, last: int) -> dict[Node, int]:
        last = self._horizon or last
        weight = self._weights(step)[-1]
        f = self._series(last)
        return {self._node(node): weight * f[node - step] for node in range(step, last + 1)}

    def _noise(self, z: Draws, last: int) -> list[int]:
        """Return the noise of each release: the running sums of the solution u of C u = z.

        z is the noise of the nodes; u is computed step by step.
        """
        f = self._series(last)
        weights = self._weights(last)
        divided: list[Decimal] = []
        for step in range(1, last + 1):
            known = sum((f[k] * divided[-k] for k in range(1, step)), Decimal(0))
            divided.append((z(*self._node(step)) - known) / f[0])
        sums = accumulate(one / weight for one, weight in zip(divided, weights, strict=True))
        return [round_to(one, 10) for one in sums]


class SqrtToeplitz(Root):
    """The square-root strategy with all weights 1."""

    def __init__(self, horizon: int) -> None:
        super().__init__(horizon, 18 if horizon <= 2**19 else 20, 0)


class NormalisedSqrt(Root):
    """The square-root strategy in which the weight of each step is 1 / (norm of F's column),
    rounded.
    """

    def __init__(self, horizon: int, weight_bits: int = 16) -> None:
        super().__init__(horizon, 12 if horizon <= 2**13 else 14, weight_bits)

    def _weights(self, last: int) -> list[int]:
        squares = [*accumulate(one**2 for one in self._series(self._horizon or 0))][::-1]
        # 2^bits / sqrt(s): the largest w with (2 w - 1)^2 s <= 4^(bits + 1)
        return [(math.isqrt(4 ** (self.bits + 1) // one) + 1) // 2 for one in squares[:last]]


class EndlessBandedRoot(Strategy):
    """Sums over recent steps: item i enters the nodes i, i + 1, ... with the weights c_0, c_1, ...

    The weights may be negative. Counts of single steps are estimated by a recursion, in which each
    estimate is rounded to a grid; adding a multiple of the grid before or after rounding gives the
    same result. Releases are running totals of the estimates.
    """

    places = 10

    def __init__(
        self, series: str, coefficients: int, series_bits: int, series_sha256: str
    ) -> None:
        self._series = integers(series, coefficients)
        check_digest(self._series, series_sha256)
        self._bits = self.bits = series_bits

    def _weights(self, last: int) -> list[int]:
        return [1] * last

    def column(self, step: int, last: int) -> dict[Node, int]:
        weight = self._weights(step)[-1]
        found = {(0, step + k): weight * one for k, one in enumerate(self._series)}
        return {node: one for node, one in found.items() if one and node[1] <= last}

    def _noise(self, z: Draws, last: int) -> list[int]:
        weights = self._weights(last)
        weighted = self.bits > self._bits
        finer = 0 if weighted else 10  # further bits of the recursion, or of the quotients
        counts: list[int] = []
        found = []
        total = 0
        for step in range(1, last + 1):
            terms = zip(self._series[1:], reversed(counts), strict=False)
            past = sum(one * before for one, before in terms)
            half = 1 << self._bits >> 1
            counts.append((z(0, step) << finer) - ((past + half) >> self._bits))
            weight = weights[step - 1]
            total += (
                ((counts[-1] << 10 - finer) + (weight >> 1)) // weight if weighted else counts[-1]
            )
            found.append((total + (1 << self._bits >> 1)) >> self._bits)
        return found


class BandedRoot(EndlessBandedRoot):
    """The same up to a horizon; a step's weight is 1 / (norm of its column before), rounded."""

    def __init__(self, horizon: int, weight_bits: int, **series: Any) -> None:
        super().__init__(**series)
        self._horizon = horizon
        self._weight_bits = weight_bits
        self.bits += weight_bits

    def _weights(self, last: int) -> list[int]:
        if not self._weight_bits:
            return [1] * last
        squares = [*accumulate(one**2 for one in self._series)]
        left = [min(self._horizon - step, len(squares) - 1) for step in range(1, last + 1)]
        # 2^bits / sqrt(s): the largest w with (2 w - 1)^2 s <= 4^(bits + 1)
        return [(math.isqrt(4 ** (self.bits + 1) // squares[at]) + 1) // 2 for at in left]

    def column(self, step: int, last: int) -> dict[Node, int]:
        return super().column(step, self._horizon)


class CorrectedSteps(Strategy):
    """Estimates of single steps, which the nodes of knots correct."""

    _own: int  # weight of an item in the node of its step

    def _hats(self, step: int) -> dict[int, int]:
        """The weights of an item in knots."""
        raise NotImplementedError

    def _corrections(self, z: Draws, last: int) -> list[int]:
        """What the knots correct in these estimates, in units of 2^-10."""
        raise NotImplementedError

    def _noise(self, z: Draws, last: int) -> list[int]:
        corrections = self._corrections(z, last)
        found = []
        total = 0
        for step in range(1, last + 1):
            corrected = sum(weight * corrections[knot] for knot, weight in self._hats(step).items())
            left = (z(0, step) << self.bits + 10) - corrected
            total += (left + (self._own >> 1)) // self._own
            found.append((total + (1 << self.bits >> 1)) >> self.bits)
        return found


class OneHats(CorrectedSteps):
    """Sums over recent steps: item t enters the node of its step, and the two knots around it.

    A knot stands at every s-th step, from the first one on. Its node weighs the items by a hat: the
    weight falls from the height at the knot to 0 at the knots beside it. The difference between a
    knot's node and the same sum of nodes of single steps is noise alone. These differences correct
    the estimates of single steps, by the inverse of a matrix with three diagonals, cut off.
    """

    places = 10
    _reach = 6  # knots to each side that correct an estimate
    _solved = 24  # knots to each side of the matrix that is inverted

    def __init__(self, spacing: int, height: int, bits: int) -> None:
        self._spacing = spacing
        self._height = height
        self.bits = bits
        self._own = 2**bits - height

    def _hats(self, step: int) -> dict[int, int]:
        """The weights of an item in knots."""
        knot, past = divmod(step - 1, self._spacing)
        right = (2 * self._height * past + self._spacing) // (2 * self._spacing)
        return {knot: self._height - right, knot + 1: right}

    def column(self, step: int, last: int) -> dict[Node, int]:
        hats = {(1, knot): weight for knot, weight in self._hats(step).items() if weight}
        return {(0, step): self._own, **hats}

    def _inverse(self) -> list[int]:
        """The middle column of the inverse, from the middle on, in units of 2^-(2 bits + 14)."""
        hats = [self._hats(step) for step in range(1, self._spacing + 1)]
        beside = sum(one[0] * one[1] for one in hats)
        middle = self._own**2 + sum(one[0] ** 2 + one[1] ** 2 for one in hats)
        # determinants of the matrices of 0, 1, 2, ... rows
        sizes = [1, middle]
        for _ in range(2 * self._solved):
            sizes.append(middle * sizes[-1] - beside**2 * sizes[-2])
        unit = 2 ** (2 * self.bits + 14)
        return [
            nearest(
                (-beside) ** far * sizes[self._solved] * sizes[self._solved - far] * unit,
                sizes[2 * self._solved + 1],
            )
            for far in range(self._reach + 1)
        ]

    def _corrections(self, z: Draws, last: int) -> list[int]:
        knots = (last - 1) // self._spacing + 2
        inverse = self._inverse()
        differences = []
        for knot in range(knots + self._reach):
            around = range(max(knot - 1, 0) * self._spacing + 1, (knot + 1) * self._spacing + 1)
            of_steps = sum(self._hats(step)[knot] * z(0, step) for step in around)
            differences.append(of_steps - self._own * z(1, knot))
        corrections = []
        for knot in range(knots):
            near = range(max(knot - self._reach, 0), knot + self._reach + 1)
            read = sum(inverse[abs(knot - one)] * differences[one] for one in near)
            corrections.append(nearest(read, 2 ** (self.bits + 4)))
        return corrections


class TwoHats(CorrectedSteps):
    """Sums over recent steps with two levels of hats: a wide knot stands at every m-th narrow one.

    A block has the steps from a wide knot to the next, and the knots that stand there: m narrow
    ones, then the wide one. Estimates are corrected as in `OneHats`, with blocks for knots.
    """

    places = 10
    _reach = 6  # blocks to each side that correct an estimate
    _solved = 24  # blocks to each side of the matrix that is inverted
    _digits = 160  # binary digits by which the solution is more precise than what is kept of it

    def __init__(
        self, spacing: int, height: int, bits: int, multiple: int, wide_height: int
    ) -> None:
        self._levels = [(spacing, height), (spacing * multiple, wide_height)]
        self._multiple = multiple
        self._steps = spacing * multiple
        self._knots = multiple + 1  # of a block
        self.bits = bits
        self._own = 2**bits - height - wide_height

    def _hats(self, step: int) -> dict[int, int]:
        """The weights of an item in knots, which are numbered block by block."""
        weights = {}
        for wide, (spacing, height) in enumerate(self._levels):
            knot, past = divmod(step - 1, spacing)
            right = (2 * height * past + spacing) // (2 * spacing)
            for index, weight in ((knot, height - right), (knot + 1, right)):
                block, place = (index, self._multiple) if wide else divmod(index, self._multiple)
                weights[block * self._knots + place] = weight
        return weights

    def _node(self, knot: int) -> Node:
        block, place = divmod(knot, self._knots)
        return (2, block) if place == self._multiple else (1, block * self._multiple + place)

    def column(self, step: int, last: int) -> dict[Node, int]:
        hats = {self._node(knot): weight for knot, weight in self._hats(step).items() if weight}
        return {(0, step): self._own, **hats}

    def _inverse(self) -> list[dict[int, int]]:
        """Columns of the inverse at the knots of the middle block, in units of 2^-(2 bits + 14).

        The keys are rows: knots from the middle block on, from 0.
        """
        size = self._knots
        rows = (2 * self._solved + 1) * size
        middle = self._solved * size
        scale = 2**self._digits
        system: list[dict[int, int]] = [{row: self._own**2 * scale} for row in range(rows)]
        for first in range(-size, rows, size):  # the block before the first one has hats in it
            for step in range(1, self._steps + 1):
                hats = self._hats(step).items()
                for (one, weight), (other, factor) in product(hats, hats):
                    row = first + one
                    column = first + other
                    if min(row, column) >= 0 and max(row, column) < rows:
                        before = system[row].get(column, 0)
                        system[row][column] = before + weight * factor * scale
        return self._solved_system(system, middle, 2 ** (2 * self.bits + 14) * scale**2)

    def _solved_system(
        self, system: list[dict[int, int]], middle: int, one: int
    ) -> list[dict[int, int]]:
        """Solve by elimination from the first row on: each row ends within two blocks."""
        size = self._knots
        rows = len(system)
        right = [[one * (row == middle + at) for at in range(size)] for row in range(rows)]
        for row in range(rows):
            pivot = system[row][row]
            later = [column for column in system[row] if column > row]
            for below in later:
                factor = system[below].pop(row, 0)
                for column in later:
                    change = factor * system[row][column] // pivot
                    system[below][column] = system[below].get(column, 0) - change
                for at in range(size):
                    right[below][at] -= factor * right[row][at] // pivot
        solved: list[dict[int, int]] = [{} for _ in range(size)]
        for row in reversed(range(middle, rows)):
            for at in range(size):
                rest = right[row][at] - sum(
                    weight * solved[at][column]
                    for column, weight in system[row].items()
                    if column > row
                )
                solved[at][row] = rest // system[row][row]
        unit = 2**self._digits
        return [
            {row - middle: nearest(value, unit) for row, value in column.items()}
            for column in solved
        ]

    def _corrections(self, z: Draws, last: int) -> list[int]:
        size = self._knots
        blocks = (last - 1) // self._steps + 2
        inverse = self._inverse()
        differences = [-self._own * z(*self._node(knot)) for knot in range((blocks + 6) * size)]
        for step in range(1, (blocks + 6) * self._steps + 1):
            for knot, weight in self._hats(step).items():
                if knot < len(differences):
                    differences[knot] += weight * z(0, step)
        corrections = []
        for knot in range(blocks * size):
            block, place = divmod(knot, size)
            read = 0
            for other in range(max(block - self._reach, 0), block + self._reach + 1):
                for at in range(size):
                    far = abs(other - block) * size
                    entry = inverse[place][far + at] if other >= block else inverse[at][far + place]
                    read += entry * differences[other * size + at]
            corrections.append(nearest(read, 2 ** (self.bits + 4)))
        return corrections


def EndlessHats(  # noqa: N802  # the name of a strategy
    spacing: int, height: int, bits: int, multiple: int = 1, wide_height: int = 0
) -> Strategy:
    """Return the strategy with one level of hats or, if there is a multiple, with two."""
    if multiple == 1:
        return OneHats(spacing, height, bits)
    return TwoHats(spacing, height, bits, multiple, wide_height)


class GrowingSquareRoot(Root):
    """The square-root strategy for streams without a last step: later nodes have wider noise.

    Nodes are divided into classes, and the noise is wider from class to class. Class 0 has the
    nodes n with n^4 < 2^(equal + 1); each further class has the nodes within the next factor of
    2^(1/4). A column of F, the square root in `Root`, is multiplied by 1 / d. Here d^2 is at least
    the sum, over the node of the column and all later nodes, of the squared entry of F divided by
    the node's noise variance. d is computed by IEEE operations in the order written here, with a
    margin for their rounding.
    """

    def __init__(self, weight_bits: int = 18, even: int | None = None) -> None:
        super().__init__(
            None, 16 if weight_bits > 16 else 14 if weight_bits > 10 else 12, weight_bits
        )
        self._steep = 0 if even is None else 8
        self._equal = 12 if even is None else 4 * (even.bit_length() - 1)

    def _node(self, node: int) -> Node:
        return max(0, (node**4).bit_length() - 1 - self._equal), node

    def factor(self, level: int) -> Fraction:
        steep = min(level, self._steep)
        exact = Fraction(13, 10) ** steep * Fraction(12, 11) ** (level - steep)
        return Fraction(math.ceil(exact * 2**30), 2**30)

    def _first(self, level: int) -> int:
        """Return the number of the first node of a class of equal noise: 1 for class 0, else the
        least n with n^4 >= 2^(level + equal).
        """
        return math.isqrt(math.isqrt((1 << level + self._equal) - 1)) + 1 if level else 1

    def _weights(self, last: int) -> list[int]:
        if last > 2**20:
            raise UnreadableError(
                f"release {last} cannot be computed here, because the strategy GrowingSquareRoot "
                "counts steps after 2^20 in blocks: check a table of earlier steps"
            )
        sums = sums_of_squares()
        found = list[int]()
        classes = next(level for level in count() if self._first(level) >= 2**22)
        widths = [float(self.factor(level)) for level in range(classes + 160)]
        for step in range(1, last + 1):
            ends = [self._first(level) - step for level in range(classes + 161)]
            beyond = 0.0
            for level in reversed(range(classes, classes + 160)):
                ratio = (ends[level + 1] - 1) / (ends[level] - 1)  # F^2 at k is at most 1 / (pi k)
                y = (ratio - 1) / (ratio + 1)
                square = y * y
                log = 2 * y * (1 + square / 3 + square * square / (5 * (1 - square)))
                beyond += log / (math.pi * widths[level]) * (4.0 if level >= classes + 156 else 1.0)
            total = 0.0 + beyond
            for level in reversed(range(classes)):
                low = ends[level]
                high = min(ends[level + 1], 2**22 - step)
                total += (sums[max(high, 0)] - sums[max(low, 0)]) / widths[level]
            found.append(math.floor(2.0**self._weight_bits / math.sqrt(total * (1 + 1e-9))))
        return found


class WithinBlock(Root):
    """The square-root strategy over the steps of a block, with columns of norm 1 at most."""

    def _weights(self, last: int) -> list[int]:
        squares = [*accumulate(one**2 for one in self._series(self._horizon or 0))][::-1]
        return [math.isqrt(4**self.bits // one) for one in squares[:last]]


class GrowingBlocks(Strategy):
    """The strategy `GrowingSquareRoot` over finished blocks of steps, and `WithinBlock` over the
    steps of each block.

    The node of a step within its block is (0, step). The level of a node between blocks is one
    more than in `GrowingSquareRoot`. The last step of a block has no node within the block.
    """

    places = 10

    def __init__(self, weight_bits: int = 18, block: int = 1024) -> None:
        self._block = block
        self._between = GrowingSquareRoot(weight_bits)
        self.bits = self._between.bits
        self._within = WithinBlock(block - 1, self.bits - weight_bits, weight_bits)

    def factor(self, level: int) -> Fraction:
        return Fraction(4, 5) * self._between.factor(level - 1) if level else Fraction(1)

    def column(self, step: int, last: int) -> dict[Node, int]:
        finished, place = divmod(step - 1, self._block)
        before = finished * self._block
        found = {}
        if place + 1 < self._block:
            within = self._within.column(place + 1, last)
            found = {(0, before + node): weight for (_, node), weight in within.items()}
        found = {node: weight for node, weight in found.items() if node[1] <= last}
        if finished < last // self._block:
            between = self._between.column(finished + 1, last // self._block)
            found |= {(1 + level, node): weight for (level, node), weight in between.items()}
        return found

    def _noise(self, z: Draws, last: int) -> list[int]:
        finished = last // self._block
        between = [0]
        if finished:
            between += self._between._noise(lambda level, node: z(1 + level, node), finished)
        found = []
        for number, total in enumerate(between):
            before = number * self._block

            def of_step(_level: int, node: int, before: int = before) -> int:
                return z(0, before + node)

            open_steps = min(self._block - 1, last - before)
            within = self._within._noise(of_step, open_steps) if open_steps else []
            found += [total + one for one in (0, *within)]
        return found[1:]


@cache
def sums_of_squares() -> list[float]:
    """Return running sums of squares of the first 2^22 entries f(k) of the square root, by IEEE
    operations.

    f(k) = binomial(2k, k) / 4^k, before it is rounded.
    """
    ratios = ((2 * k - 1) / (2 * k) for k in range(1, 2**22))
    series = accumulate(ratios, lambda a, b: a * b, initial=1.0)
    return [*accumulate((one * one for one in series), initial=0.0)]


def integers(text: str, size: int) -> list[int]:
    """Decode ``size`` integers from a text in a strategy's description.

    The text states the number of bytes of an integer, and then the compressed bytes: first the
    lowest byte of every integer, then the second lowest, and so on.
    """
    width = int(text[0])
    planes = zlib.decompress(base64.b64decode(text[2:]))
    if len(planes) != width * size:
        raise UnreadableError(
            f"a text of the strategy does not contain {size} integers of {width} bytes: give it as "
            "counton wrote it"
        )
    return [int.from_bytes(planes[at::size], "little", signed=True) for at in range(size)]


def check_digest(numbers: Iterable[int], stated: str) -> None:
    """Refuse a strategy's integers if their digest is not the stated digest, from which the key of
    the noise is derived.
    """
    held = b"".join(one.to_bytes(8, "little", signed=True) for one in numbers)
    if hashlib.sha256(held).hexdigest() != stated:
        raise UnreadableError(
            "the numbers of the strategy do not match their digest, so they were changed: take the "
            "description as counton wrote it"
        )


Line = tuple[list[dict[int, int]], list[int]]  # rows over several cells, each cell's own weight


def hats(description: dict[str, Any]) -> Line:
    """Build the measurements of a line of cells from triangles; a line is a sequence of counts in a
    fixed order.

    There are two kinds of measurements: weighted sums of several cells, and each cell alone with a
    weight. The weights of a sum form a triangle ("hat"), which rises from one knot (a position in
    the line) to the next, and falls to the one after that; it is multiplied by its height. The
    weight of a cell alone is chosen so that the entries of the cell's column add up to 2^bits, or
    their squares to 4^bits or a little less.
    """
    cells = description["cells"]
    norm = description["norm"]
    unit = 1 << description["bits"]
    spaced = [
        [*range(0, cells + one, one)][: -(-cells // one) + 1] if isinstance(one, int) else one
        for one in description["spacings"]
    ]
    heights = integers(description["amplitudes"], sum(map(len, spaced)))
    check_digest(heights, description["amplitudes_sha256"])
    rows: list[dict[int, int]] = []
    for knots in spaced:
        found: list[dict[int, int]] = [{} for _ in knots]
        for i, (start, stop) in enumerate(pairwise(knots)):
            for cell in range(start if i else 0, min(stop, cells)):
                width = 2 * (stop - start)
                risen = max(2 * (cell - start) + 1, 0)
                found[i][cell] = nearest(heights[i] * (width - risen), width)
                found[i + 1][cell] = nearest(heights[i + 1] * risen, width)
        rows = rows + found
        heights = heights[len(knots) :]
    left = [unit**norm - sum(row.get(cell, 0) ** norm for row in rows) for cell in range(cells)]
    return rows, [one if norm == 1 else math.isqrt(one) for one in left]


def dense(description: dict[str, Any]) -> Line:
    """Build the measurements of a line of cells from a saved matrix; a line is a sequence of counts
    in a fixed order.

    There are two kinds of measurements: weighted sums of several cells, and each cell alone with a
    weight. Among the rows that measure a single cell, the one with the largest weight is that
    cell's own measurement.
    """
    cells = description["cells"]
    if description.get("formula") is not None:
        matrix = scaled_root(cells, description["formula"])
    else:
        flat = integers(description["matrix"], cells * description["measurements"])
        matrix = [flat[at : at + cells] for at in range(0, len(flat), cells)]
    check_digest((one for row in matrix for one in row), description["matrix_sha256"])
    rows = [{cell: weight for cell, weight in enumerate(row) if weight} for row in matrix]
    own = [0] * cells
    row_of = [-1] * cells
    for number, row in enumerate(rows):
        for cell, weight in row.items():
            if len(row) == 1 and weight > own[cell]:
                own[cell] = weight
                row_of[cell] = number
    return [row for number, row in enumerate(rows) if number not in row_of], own


def scaled_root(steps: int, formula: str) -> list[list[int]]:
    """Return the matrix with entries C_ij = p_i f(i - j) / d_j, in units of 2^-16.

    f(k) = binomial(2k, k) / 4^k. ``formula`` is the name of the rule for the factors p_i of rows,
    and d_j makes the norm of column j equal to 1. IEEE operations are done in the order written
    here.
    """

    def roots(base: float, *powers: int) -> float:
        """Return the product of the 2^k-th roots of ``base``, for every k in ``powers``."""
        found = 1.0
        for power in powers:
            factor = base
            for _ in range(power):
                factor = math.sqrt(factor)
            found *= factor
        return found

    f = [1.0]
    squares = [0.0] * steps
    matrix = []
    for k in range(1, steps):
        f.append(f[-1] * (2 * k - 1) / (2 * k))
    for i in range(steps):
        if formula == "mean":
            p = roots(i + 10.5, 3, 5) * roots(steps - i + 0.58, 2, 3, 4)
            p *= 1 + 0.17 * (i + 0.5) / steps
        else:
            p = roots(i + 8, 3, 4) * roots(steps - i, 2)
        matrix.append([f[i - j] * p if j <= i else 0.0 for j in range(steps)])
        squares = [square + one**2 for square, one in zip(squares, matrix[-1], strict=True)]
    norms = [math.sqrt(square) for square in squares]
    return [[round(a / b * 65536) for a, b in zip(row, norms, strict=True)] for row in matrix]


def solve(equations: list[tuple[dict[int, Decimal], Decimal]]) -> list[Decimal]:
    """Solve linear equations by Gaussian elimination, and return the unknowns 0, 1, .. in order.

    An equation is given as its coefficients, by number of the unknown, and its right side.
    """
    for k, (head, known) in enumerate(equations):
        for i in range(k + 1, len(equations)):
            row, right = equations[i]
            if k in row:
                part = row.pop(k) / head[k]
                row |= {j: row.get(j, 0) - part * one for j, one in head.items() if j > k}
                equations[i] = row, right - part * known
    found: dict[int, Decimal] = {}
    for k in reversed(range(len(equations))):
        row, right = equations[k]
        known = sum((one * found[j] for j, one in row.items() if j > k), Decimal(0))
        found[k] = (right - known) / row[k]
    return [found[k] for k in range(len(equations))]


class LeastSquares(Strategy):
    """The strategy that estimates a sequence of counts by least squares; the counts are called
    cells.

    A cell is a step, or a block of steps with a tree over them. The measurements are rows H of
    weights over several cells, and each cell alone with a weight w. A block is measured through its
    tree: a node of level l has the weight shares[l] w. The tree's estimate of the block's total has
    variance v / w^2, as if the block were measured once with weight w / sqrt v. Without trees v =
    1.

    Let z be the noise of the rows H, k the noise of each cell's own estimate, and u the solution of
    (H'H + diag(w^2 / v)) u = H'z + (w^2 / v) k. The noise of the releases is the running sums of u.
    """

    places = 10

    def __init__(
        self,
        line: dict[str, Any],
        radices: Sequence[int] = (),
        shares: Sequence[int] = (),
        norm: int = 1,
        horizon: int = 0,
    ) -> None:
        self._rows, self._own = (hats if line["strategy"] == "Hats" else dense)(line)
        self._radices = radices
        self._top = len(radices)
        self._widths = [*accumulate(radices, lambda a, b: a * b, initial=1)]
        self._shares = [*(shares or [1] * self._top), 0][: self._top + 1] if radices else [1]
        powers = sum(share**norm for share in self._shares)
        # H is in units in which the shares are integers.
        unit = 1 if not radices else powers if norm == 1 else math.isqrt(powers - 1) + 1
        self._rows = [{cell: unit * one for cell, one in row.items()} for row in self._rows]
        column_powers = [powers * abs(own) ** norm for own in self._own]
        for row in self._rows:
            for cell, weight in row.items():
                column_powers[cell] += abs(weight) ** norm
        norm_above = max(column_powers) if norm == 1 else math.isqrt(max(column_powers) - 1) + 1
        self.bits = max(norm_above.bit_length() - 1, 1)
        # Weights of children in estimates are in 1/256; the variance v of a block's estimate is a
        # short fraction.
        self._parts, self._v = [0], Fraction(1, self._shares[0] ** 2)
        for level, radix in enumerate(radices, start=1):
            below = Fraction(1, self._shares[level - 1] ** 2) if level < self._top else self._v
            alone = Fraction(1, self._shares[level] ** 2) if self._shares[level] else None
            part = Fraction(round(256 * alone / (alone + radix * below)) if alone else 256, 256)
            self._parts.append(int(256 * part))
            self._v = part**2 * radix * below + (1 - part) ** 2 * (alone or 0)
        self._v = self._v.limit_denominator(2**22)

    def column(self, step: int, last: int) -> dict[Node, int]:
        cell = (step - 1) // self._widths[-1]
        found = {(0, i): row.get(cell, 0) for i, row in enumerate(self._rows)}
        for level, (share, width) in enumerate(zip(self._shares, self._widths, strict=True), 1):
            found[level, (step - 1) // width] = share * self._own[cell]
        return {node: weight for node, weight in found.items() if weight}

    def _estimate(self, z: Draws, level: int, node: int, depth: int) -> int:
        """Return the noise of the estimate of a node's count, in units of 2^-24.

        The estimate combines the measurement of the node with the measurements of nodes up to
        ``depth`` levels below it.
        """
        own = self._shares[level] * self._own[node * self._widths[level] // self._widths[-1]]
        measured = nearest(z(1 + level, node) << 24, own) if own else 0
        if not depth:
            return measured
        radix = self._radices[level - 1]
        children = range(node * radix, (node + 1) * radix)
        lack = sum(self._estimate(z, level - 1, one, depth - 1) for one in children) - measured
        return measured + nearest(lack * (self._parts[level] if own else 256), 256)

    def _noise(self, z: Draws, last: int) -> list[int]:
        block = self._widths[-1]
        known = list[Decimal]()
        for cell, own in enumerate(self._own):
            if self._top:
                estimate = self._estimate(z, self._top, cell, min(self._top, 2))
                known.append(Decimal(estimate) / 2**24)
            else:
                known.append(Decimal(z(1, cell)) / own if own else Decimal(0))
        sums = [Decimal(0), *accumulate(self._cells(z, known))]
        if not self._top:
            return [round_to(sums[step], 10) for step in range(1, last + 1)]
        grid = [round_to(one, 14) << 10 for one in sums]  # and so on in units of 2^-24
        pairs = [(grid[at // block], grid[at // block + 1]) for at in range(last)]
        return [nearest(self._inside(z, *pair, at), 2**14) for at, pair in enumerate(pairs)]

    def _cells(self, z: Draws, known: list[Decimal]) -> list[Decimal]:
        """Return the solution u of the equations that the class states, as numbers of 100 digits;
        ``known`` is the noise k of each cell's own estimate.

        The residuals r = z - H u of the rows H are further unknowns, with W u - H'r = W k, where W
        = diag(w^2 / v). The order of the unknowns changes only the amount of work.
        """
        weights = [real(own**2 / self._v) for own in self._own]
        u, r = (0, len(known)) if all(weights) else (len(self._rows), 0)
        equations: dict[int, tuple[dict[int, Decimal], Decimal]] = {}
        for cell, weight in enumerate(weights):
            equations[u + cell] = {u + cell: weight}, weight * known[cell]
        for i, row in enumerate(self._rows):
            over = {u + cell: Decimal(one) for cell, one in row.items()}
            equations[r + i] = {r + i: Decimal(1), **over}, Decimal(z(0, i))
            for at, one in over.items():
                equations[at][0][r + i] = -one
        return solve([equations[at] for at in range(len(equations))])[u : u + len(known)]

    def _inside(self, z: Draws, before: int, after: int, at: int) -> int:
        """Return the noise of a running total within a block of steps, given the noise of the
        totals before and after the block.

        The total includes step ``at`` + 1: ``at`` counts from 0.
        """
        node = at // self._widths[-1]
        total = after - before
        for level in reversed(range(self._top)):
            radix = self._radices[level]
            family = range(node * radix, (node + 1) * radix)
            found = [self._estimate(z, level, one, min(level, 1)) for one in family]
            added = nearest(total - sum(found), radix)  # the missing part, shared out evenly
            node = at // self._widths[level]
            child = node - family.start
            before += sum(found[:child]) + child * added
            total = found[child] + added
        return before + total


class Factorisation(LeastSquares):
    """The least-squares strategy for a matrix C that the user gives."""

    def __init__(self, horizon: int, bits: int, **matrix: Any) -> None:
        super().__init__({"strategy": "Dense", "cells": horizon, **matrix})
        self.bits = bits


class WindowVersions(Strategy):
    """The strategy of revised windows: their counts are released again as rows arrive late.

    A version of a window is the number of its rows that have arrived by the end of this window, or
    by the end of a later window. The last version of a window is final.

    Args:
        inner: strategy of one window; its steps are the window's versions.
        nodes: pairs (level, number of nodes of one window on this level). On each level the nodes
            of window w are followed by the nodes of window w + 1. With V versions, the numbering
            leaves room for V - 1 windows before the first.
    """

    windows = True

    def __init__(
        self, horizon: int, inner: dict[str, Any], nodes: list[list[int]], corrections: int = 0
    ) -> None:
        self._inner = strategy_of(inner)
        self._widths = {one[0]: one[1] for one in nodes}
        self.versions = inner.get("horizon") or inner["line"]["cells"]
        self.bits = self._inner.bits
        self.places = self._inner.places

    def _first(self, window: int, level: int) -> int:
        return (window - 1 + self.versions - 1) * self._widths.get(level, 0)

    def column(self, step: int, last: int) -> dict[Node, int]:
        found = self._inner.column(1, self.versions)
        return {(level, p + self._first(step, level)): much for (level, p), much in found.items()}

    def version(self, z: Draws, window: int, lag: int) -> int:
        """Return the noise of the version of a window that is released ``lag`` windows after the
        first version.

        A version is the window's count as released at one time.
        """
        own = self._inner.noise(lambda level, p: z(level, p + self._first(window, level)), lag + 1)
        return own[lag]

    def numbers(self, z: Draws, last: int) -> list[list[int]]:
        """Return the noise of releases 1 .. last: a list for each lag 0, 1, ... of a window.

        A release has one number for each lag: the newest window has lag 0, the window before it lag
        1, and so on. Each list has one number for each release. ``z`` draws the noise of a node.
        """
        nights = range(1, last + 1)
        return [[self.version(z, t - lag, lag) for t in nights] for lag in range(self.versions)]

    def _at(self, z: Draws, step: int) -> int:
        return self.version(z, step, self.versions - 1)


class AsOf(Strategy):
    """The strategy of revised windows at one time: it reads the count of each window as last
    released when ``night`` windows have ended.

    Args:
        windows: strategy of revised windows (`WindowVersions`).
        night: number of windows that have ended. At the end of each window there is a release,
            called a night.
    """

    windows = True

    def __init__(self, windows: dict[str, Any], night: int) -> None:
        self._of: Any = strategy_of(windows)
        self._night = night
        self.bits = self._of.bits
        self.places = self._of.places

    def column(self, step: int, last: int) -> dict[Node, int]:
        found: dict[Node, int] = self._of.column(step, last)
        return found

    def _at(self, z: Draws, step: int) -> int:
        lag = min(self._night - step, self._of.versions - 1)
        return int(self._of.version(z, step, lag))


class WrittenOut(Strategy):
    """A strategy of another package, given by its integer matrices.

    Args:
        rows, columns: for each step, the nodes that its release reads, and the nodes to which its
            input adds, as [level, index, weight]. No node may be named twice in a list, because
            both would have the same noise.
    """

    def __init__(self, rows: list[Any], columns: list[Any], bits: int = 0) -> None:
        self._rows = rows
        self._columns = columns
        self.bits = bits
        for nodes in (*rows, *columns):
            if len({(level, index) for level, index, _ in nodes}) < len(nodes):
                raise UnreadableError(
                    f"the matrices name a node twice in a step, {str(nodes)[:200]}: name it once"
                )

    def column(self, step: int, last: int) -> dict[Node, int]:
        return {(level, index): weight for level, index, weight in self._columns[step - 1]}

    def _at(self, z: Draws, step: int) -> int:
        return sum(weight * z(level, index) for level, index, weight in self._rows[step - 1])


#: Strategies by their names in descriptions.
STRATEGIES: dict[str, Callable[..., Strategy]] = {"Solved": LeastSquares} | {
    kind.__name__: kind
    for kind in (
        KAry, Binary, SmoothBinary, Independent, Expiring, HonakerOnline, LookAhead, Epochs, Octave,
        Factorisation, SqrtToeplitz, NormalisedSqrt, GrowingSquareRoot, GrowingBlocks,
        GrowingCascade, BandedRoot, EndlessBandedRoot, EndlessHats,
        WindowVersions, AsOf,
    )
}  # fmt: skip


def strategy_of(description: dict[str, Any], matrices: dict[str, Any] | None = None) -> Strategy:
    """Build the strategy that a description names, or a strategy from given matrices."""
    if matrices is not None:
        return WrittenOut(**matrices)
    if description["strategy"] not in STRATEGIES:
        raise UnreadableError(
            f"the strategy {description['strategy']} belongs to another package: give its matrices "
            "(--matrices)"
        )
    return STRATEGIES[description["strategy"]](
        **{k: v for k, v in description.items() if k != "strategy"}
    )


# --------------------------------------------------------------------------------- 5. scale

Change = dict[tuple[int, int], int]  # by step and cell, how neighbours differ, in grid units


def changes(contribution: dict[str, Any], cells: int, last: int) -> Iterator[Change]:
    """Yield the changes of the counts that one protected unit can make, or at least those that may
    have the largest norm.

    Norms are convex, so extreme changes are enough. All are tried by brute force, so steps and
    cells must be few. A change maps (step, cell) to a number.

    Args:
        contribution: the description of the bound on one unit. ``most`` is the number of its
            events, in any steps and cells. ``per_cell`` is the largest change of a cell by one
            event, or by one step of the unit; with ``resolution`` it is from ``lower`` to ``upper``
            instead. If ``neighbours`` is "replace", another unit takes the place of this one in the
            same steps, so a cell changes by the difference of two counts. Units with ``most`` are
            added or removed, never replaced.
        cells: number of cells.
        last: number of steps.
    """
    bounds = {"cells": 1, "separation": 1} | contribution
    replaced = bounds["neighbours"] == "replace"
    per_cell = bounds.get("per_cell", 0)
    ends = [0 if replaced else -per_cell, per_cell]
    if "resolution" in bounds:
        unit = Fraction(bounds["resolution"])
        ends = [int(Fraction(bounds[name]) / unit) for name in ("lower", "upper")]
    if "most" in bounds:  # this many events, in any places
        everywhere = [*product(range(1, last + 1), range(cells))]
        for many in range(1, bounds["most"] + 1):
            for events in product(everywhere, repeat=many):
                steps, groups = zip(*events, strict=True)
                crowd = max(map(steps.count, steps))
                again = "once" in bounds and len({*groups}) < many
                if crowd <= (bounds.get("most_a_step") or many) and not again:
                    for sizes in product(ends, repeat=many):
                        yield sums_by_key(zip(events, sizes, strict=True))
        return
    vectors: list[dict[int, int]] = [{}]  # the counts of a unit in one step
    for many in range(1, min(bounds["cells"], cells) + 1):
        for chosen in combinations(range(cells), many):
            vectors += [dict(zip(chosen, of, strict=True)) for of in product(ends, repeat=many)]
    if replaced:  # one unit's counts less another's
        pairs = product(vectors, repeat=2)
        vectors = [{at: a.get(at, 0) - b.get(at, 0) for at in {*a, *b}} for a, b in pairs]
    for days in step_sets(bounds, last):
        for vector in product(vectors, repeat=len(days)):
            both = zip(days, vector, strict=True)
            yield {(step, cell): size for step, of in both for cell, size in of.items()}


def sums_by_key(sizes: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Add up the sizes of all pairs (key, size) with the same key."""
    found: dict[Any, int] = {}
    for key, size in sizes:
        found[key] = found.get(key, 0) + size
    return found


def step_sets(bounds: dict[str, Any], last: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of steps in which one protected unit may count, among the steps 1 .. last.

    ``bounds`` is the description of its contribution.
    """
    if "every" in bounds:
        for first in range(1, last + 1):
            yield tuple(range(first, last + 1, bounds["every"]))[: bounds.get("steps")]
        return
    for many in range(1, bounds.get("steps", 1) + 1):
        for steps in combinations(range(1, last + 1), many):
            if all(b - a >= bounds["separation"] for a, b in pairwise(steps)):
                yield steps


def norms(strategy: Strategy, moved: Iterable[Change], last: int) -> tuple[Fraction, Fraction]:
    """Return the largest 1-norm and the largest squared 2-norm of C d, where C is the strategy's
    matrix, over all changes d of the counts.

    The norms are in units of the noise integers. The change of each node is divided by the width of
    its level's noise, relative to level 0.
    """
    columns = {step: strategy.column(step, last) for step in range(1, last + 1)}
    lengths: set[frozenset[tuple[int, int]]] = {frozenset()}
    squares = {*lengths}
    for change in moved:
        nodes = sums_by_key(
            ((node, cell), weight * size)
            for (step, cell), size in change.items()
            for node, weight in columns[step].items()
        )
        by_level = [(level, abs(one)) for ((level, _), _), one in nodes.items()]
        lengths.add(frozenset(sums_by_key(by_level).items()))
        squares.add(frozenset(sums_by_key((at, one**2) for at, one in by_level).items()))
    return largest(strategy, lengths), largest(strategy, squares)


def largest(strategy: Strategy, found: Iterable[Iterable[tuple[int, int]]]) -> Fraction:
    """Return the largest sum among several weighted sums.

    Each sum is given as pairs (level, size), and every size is divided by the width of the level's
    noise, relative to level 0.
    """
    return max(
        sum((size / strategy.factor(level) for level, size in one), Fraction(0)) for one in found
    )


def keeps(
    guarantee: dict[str, Any], family: str, width: Fraction, moved: tuple[Fraction, Fraction, int]
) -> bool:
    """Return False if noise of this width certainly breaks a guarantee.

    Laplace noise with delta or rho is not checked if the last number of ``moved`` is 0: any width
    passes. Laplace noise with rho is checked by Renyi divergences of the integer orders 2 to 31.

    Args:
        width: scale (Laplace) or variance (Gaussian).
        moved: largest 1-norm and squared 2-norm of the change of the nodes, and the number of nodes
            that change, if each changes by 1; 0 if nodes change otherwise.
    """
    l1, l2_squared, units = moved
    epsilon, delta, rho = (Fraction(guarantee.get(name, 0)) for name in ("epsilon", "delta", "rho"))
    if not delta and not rho:
        return family == "laplace" and l1 / width <= epsilon
    if family == "gaussian" and rho:
        return l2_squared / (2 * width) <= rho
    if family == "gaussian":  # Balle and Wang 2018, Theorem 8, of continuous noise
        half = math.sqrt(l2_squared / width) / 2
        ends = [(float(epsilon) / (2 * half) + side * half) / math.sqrt(2) for side in (-1, 1)]
        lost = math.erfc(ends[0]) - math.exp(epsilon) * math.erfc(ends[1])
        return lost / 2 <= float(delta) * (1 + 1e-9)
    with localcontext(DIGITS):  # Laplace noise: a node loses 1 / width, or gains as much
        less = exp(-1 / width) / (1 + exp(-1 / width))
        losses = [
            (real((2 * k - units) / width), math.comb(units, k) * less ** (units - k))
            for k in range(units + 1)
        ]
        losses = [(loss, some * (1 - less) ** k) for k, (loss, some) in enumerate(losses)]
        if rho:
            return not units or all(
                sum(chance * ((order - 1) * loss).exp() for loss, chance in losses)
                <= exp(order * (order - 1) * rho)
                for order in range(2, 32)
            )
        beyond = [(loss - real(epsilon), chance) for loss, chance in losses]
        return sum(chance * (1 - (-loss).exp()) for loss, chance in beyond if loss > 0) <= delta


def least_width(
    guarantee: dict[str, Any], family: str, moved: tuple[Fraction, Fraction, int]
) -> Fraction:
    """Return the least width of the noise with which `keeps` is True, up to a relative error of
    half a millionth.

    For Laplace noise with delta or rho the last number of ``moved`` must be above 0, because with 0
    `keeps` checks nothing, and the result is meaningless.
    """
    low = Fraction(2) ** -40
    high = Fraction(2) ** 120
    while high / low > 1 + Fraction(1, 2**21):
        middle = Fraction(math.sqrt(low) * math.sqrt(high)).limit_denominator(2**200)
        low, high = (low, middle) if keeps(guarantee, family, middle, moved) else (middle, high)
    return low


# --------------------------------------------------------------------------------- 6. check


class Stream:
    """One stream, whose releases are computed from its exact sums.

    Args:
        terms: public terms of the stream, as in a description.
        secret: 32 bytes of the key.
        matrices: matrices of the strategy, if it is of another package.

    Attributes:
        strategy: strategy of the stream.
        grid: size in data units of the number 1 in the exact sums, which are integers.
        horizon: the last step that the stream can have.
    """

    def __init__(
        self, terms: dict[str, Any], secret: bytes, matrices: dict[str, Any] | None = None
    ) -> None:
        bound = address(terms)
        printed = subkey(secret, b"fingerprint")[:8].hex()
        noise_id = hashlib.sha256(f"identity of noise\n{printed}\n{bound}".encode()).hexdigest()
        if terms.get("noise_id", noise_id[:32]) != noise_id[:32]:
            raise UnreadableError(
                "the key is not that of the stream, or its terms were changed: take the key and "
                "the table from the state that made the release"
            )
        self.strategy = strategy_of(terms["strategy"], matrices)  # with the terms unchanged
        self._bits = Bits(subkey(secret, b"counter", bound.encode()))
        self._law = law_of(terms["law"])
        self._single = not terms["shape"]
        self.grid = Fraction(terms["contribution"].get("resolution", "1"))
        self.horizon = terms["strategy"].get("horizon", 2**62)

    def _law_at(self, level: int) -> Laplace | Gaussian:
        return noise_of(self._law[0], self._law[1] * self.strategy.factor(level))

    def z(self, cell: int) -> Noise:
        """Return the noise z of one cell, a function that maps a node's level and index to its
        noise.
        """
        return Noise(self._bits, self._law_at, None if self._single else cell)

    def value(self, total: int, noise: int) -> int | float:
        """Return the released value of an exact sum with noise, in data units: an integer, or the
        nearest float.

        ``total`` is the exact sum in units of ``grid``, the resolution of the stream; ``noise`` is
        in units of 2^-places of the grid, as the strategy's releases are.
        """
        unit = self.grid / 2**self.strategy.places
        released = (total << self.strategy.places) + noise
        return released if unit == 1 else released * unit.numerator / unit.denominator


class Table:
    """Released values by cell, read from the rows of a table or from the cells in its description.

    Attributes:
        values: released values, by name of the cell and then by step.
        recent: sums of the last windows and decayed sums, by name of the cell, and then by step
            and width; the width of decayed sums is None.
        half_life: number of windows after which a window counts half, of decayed sums.
        cells: number of each cell, by its name.
    """

    def __init__(
        self, rows: list[dict[str, Any]], description: dict[str, Any], windows: bool
    ) -> None:
        self.values: dict[str, dict[int, int | float]] = {}
        self.recent: dict[str, dict[tuple[int, int | None], int | float]] = {}
        self.half_life = exact(description.get("half_life") or "1")
        self.cells = {name: cell for cell, name in enumerate(description["groups"] or ["all"])}
        if "cells" not in description:
            present = {row.get("series") for row in rows} - {"rolling", "decayed"}
            wanted = "per-window" if windows and "per-window" in present else "cumulative"
            for row in rows:
                name = str(row.get("group", row.get("cell", "all")))
                step = row.get("window_index", 1)
                if row.get("series") in ("rolling", "decayed"):
                    self.recent.setdefault(name, {})[step, row.get("n_windows")] = row["estimate"]
                elif len(present) == 1 or row.get("series") == wanted:
                    self.values.setdefault(name, {})[step] = row["estimate"]
            return
        steps = sorted({row["window_index"] for row in rows if "window_index" in row}) or [1]
        packed = zlib.decompress(base64.b64decode(description["cells"]["data"]))
        moved = struct.unpack(f"<{len(packed) // 8}q", packed)
        size = len(moved) // len(steps)
        sums = list[int]()
        for at, one in enumerate(moved):  # differences from step to step, for floats by their bits
            sums.append(one + (sums[at - size] if at >= size else 0))
            held = (sums[-1] % 2**64).to_bytes(8, "little")
            (value,) = struct.unpack("<q" if description["cells"]["type"] == "i8" else "<d", held)
            self.values.setdefault(str(at % size), {})[steps[at // size]] = value
        self.cells = {name: int(name) for name in self.values}


class Sums:
    """Exact sums by step and name of the cell, as read from CSV.

    If there is a column ``cell``, it gives the number of each cell.
    """

    def __init__(self, text: str) -> None:
        self._sums: dict[tuple[int, str], Fraction] = {}
        self.cells: dict[str, int] = {}
        try:
            rows = [*csv.DictReader(text.splitlines())]
        except csv.Error as error:
            raise UnreadableError(f"the sums are not valid CSV: {error}") from None
        for row in rows:
            try:
                self._sums[int(row["step"]), row["group"]] = exact(row["sum"])
                if row.get("cell"):
                    self.cells[row["group"]] = int(row["cell"])
            except (KeyError, TypeError, ValueError, ZeroDivisionError):
                raise UnreadableError(
                    f"a row of the sums is {str(row)[:80]}; each row needs the columns step, group "
                    "and sum"
                ) from None

    def at(self, step: int, name: str, grid: Fraction) -> int:
        """Return the sum of the cell ``name`` at a step, as an integer in units of ``grid``, the
        resolution of the stream; 0 before the first step.
        """
        found = self._sums.get((step, name)) if step > 0 else Fraction(0)
        if found is None:
            raise UnreadableError(
                f"there is no sum for step {step} and group {name!r}: add its row"
            )
        if (found / grid).denominator > 1 or abs(found / grid) > 2**62:
            raise UnreadableError(
                f"the sum of step {step} and group {name!r} is {short(found)}: give a multiple of "
                f"{grid}, at most 2^62 times as large"
            )
        return int(found / grid)


def check(stream: Stream, table: Table, sums: Sums, show: bool = False) -> tuple[int, str | None]:
    """Return the number of right values before the first wrong value, and a description of the
    wrong value; None if all are right.
    """
    if not table.values and not table.recent:
        raise UnreadableError(
            "the table has no released values: export one after its first release"
        )
    right = 0
    cells = table.cells | sums.cells
    late = stream.strategy.delay
    for name in {**table.values, **table.recent}:
        by_step = table.values.get(name, {})
        recent = table.recent.get(name, {})
        if name not in cells:
            raise UnreadableError(
                f"the number of the cell of group {name!r} is unknown: add a column cell to the "
                "sums"
            )
        z = stream.z(cells[name])
        steps = {*by_step, *(step for step, _ in recent)}
        first = min(steps)
        last = max(steps)
        if not 1 <= first <= last <= stream.horizon:
            beyond = short(last if first >= 1 else first)
            raise UnreadableError(
                f"group {name!r} has step {beyond}, but the stream has the steps 1 to "
                f"{stream.horizon}: correct the step"
            )
        needed = range(1, last + 1) if recent else by_step
        exact_sums = {step: sums.at(step - late, name, stream.grid) for step in needed}
        noise = stream.strategy.noise(z, last)
        for step, value in by_step.items():
            mine = stream.value(exact_sums[step], noise[step - 1])
            if mine != value:
                was = f"step {step} of {name!r} was released as {short(value)}"
                return right, f"{was}; {mine} is right"
            right += 1
        releases = [stream.value(exact_sums[step], noise[step - 1]) for step in needed if recent]
        windows = windows_of(releases, stream.strategy.windows)
        size = max(1, sum(map(abs, windows)))
        for (step, width), value in recent.items():
            wanted = sum_of_recent(windows[:step], width, table.half_life)
            if abs(Fraction(value) - wanted) > size * Fraction(1, 2**40):
                over = "decayed" if width is None else f"over {width} windows"
                was = f"step {step} of {name!r}, {over}, was released as {short(value)}"
                return right, f"{was}; {float(wanted)} is right"
            right += 1
        if show:
            totals = [sums.at(step, name, stream.grid) for step in range(last + 1)]
            x = totals[1:] if stream.strategy.windows else [b - a for a, b in pairwise(totals)]
            print_measured(stream, z, name, x)
    return right, None


def windows_of(releases: Sequence[int | float], are_windows: bool) -> list[Fraction]:
    """Return the numbers of single windows from releases of windows or of running totals."""
    numbers = [Fraction(value) for value in releases]
    if are_windows:
        return numbers
    return [after - before for before, after in pairwise([Fraction(0), *numbers])]


def sum_of_recent(windows: Sequence[Fraction], width: int | None, half_life: Fraction) -> Fraction:
    """Return the sum of the last ``width`` windows; if it is None, of all windows, of which each
    counts half after ``half_life`` more windows.
    """
    if width is not None:
        return sum(windows[-width:], Fraction(0))
    ages = range(len(windows) - 1, -1, -1)
    factors = [Fraction(2.0 ** float(-age / half_life)) for age in ages]
    return sum((factor * one for factor, one in zip(factors, windows, strict=True)), Fraction(0))


def print_measured(stream: Stream, z: Noise, name: str, x: Sequence[int]) -> None:
    """Print the measurements y = C x + z of the nodes whose noise was read, and the release
    computed from y alone.
    """
    strategy = stream.strategy
    last = len(x)
    counted = sums_by_key(
        (node, weight * one)
        for step, one in enumerate(x, start=1)
        for node, weight in strategy.column(step, last).items()
    )
    y = {node: counted.get(node, 0) + drawn for node, drawn in sorted(z.drawn.items())}
    print(f"{name}: C x + z = y of each node (level, index), in units of 2^-{strategy.bits}")
    for node, measured in y.items():
        print(f"  {node}: {counted.get(node, 0)} + {z.drawn[node]} = {measured}")
    released = strategy.noise(lambda *node: y[node], last)
    print(f"  released, from y alone: {[stream.value(0, one) for one in released]}")


def read_json(path: str) -> Any:
    """Return the content of a JSON file; if that fails, the error names the file."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{path} is not JSON that counton wrote: {error}"[:300]) from None


def main(words: list[str]) -> int:
    """Run the command that the beginning of this file describes; return its exit code."""
    options = argparse.ArgumentParser("reference.py", description=(__doc__ or "").split("\n")[0])
    options.add_argument("check", choices=["check"])
    options.add_argument("released", metavar="RELEASED.json")
    options.add_argument("key", metavar="KEY")
    options.add_argument("sums", metavar="SUMS.csv")
    options.add_argument("--show", action="store_true", help="print y = C x + z")
    options.add_argument("--salt", help="of a state whose key serves several")
    options.add_argument("--matrices", help="JSON of a strategy of another package")
    given = options.parse_args(words)
    try:
        description = read_json(f"{given.released}.json")["description"]
        secret = read_key(Path(given.key).read_text("utf-8"))
        if given.salt:
            secret = subkey(secret, b"salted", given.salt.encode())
        matrices = read_json(given.matrices) if given.matrices else None
        stream = Stream(description["terms"], secret, matrices)
        table = Table(read_json(given.released), description, stream.strategy.windows)
        right, wrong = check(stream, table, Sums(Path(given.sums).read_text("utf-8")), given.show)
    except (UnreadableError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except (
        *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
        *(struct.error, zlib.error),
    ) as why:
        print(f"a file is not what counton writes: {why!r}"[:300], file=sys.stderr)
        return 2
    print(f"{right} values are right" if wrong is None else f"not right: {wrong}")
    return 0 if wrong is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
