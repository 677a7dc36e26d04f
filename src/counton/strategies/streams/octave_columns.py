"""Why Octave is private: for every step a column of one possible C, and how long columns are.

Levels l = 0, 1, .., L; node j of level l stands at time j 2^l. The noise of a level is
N_l = z_l + U N_(l+1), where U interpolates (`interpolate`), and a release reads N_0. For *any*
numbers g_0, g_1, .., g_L with g_0(t) = 1 from step i on and 0 before, and g_(L+1) = 0, the column

    C e_i = (g_0 - U g_1, g_1 - U g_2, .., g_L)

makes B C e_i = A e_i: what is added to N_l is g_l, level after level (a telescope). So the g are
free, and short columns need little noise. They are whole multiples of 2^-G here, so that U g lies
on the lattice 2^-(G + 4) on which noise is rounded: rounding commutes with the shift by d C e_i.

- *Inside* g_l follows the step through a window of 48 nodes around i / 2^l: 0 before, 1 after, and
  a table between, one for each value of the three bits of i below bit l. What level l costs then
  depends on four bits of i alone, and the most that all levels cost together, over every i, is
  found by a dynamic programme over the bits, lowest first.
- The *lowest four levels* have a table for each i mod 16.
- The *highest eight levels* are few nodes. Given g at the lowest of them, the shortest column is
  that of least squares, rounded.

All of this is integers, so the norms found are the true ones of these columns: no error of
floating point is in them. The tables are shipped (``octave.json``), found by
``make octave``; a bad table would only make the norms, and the noise, larger.
"""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from counton.arrays import Floats, Integers, integers_from_text

#: Nodes of a table to either side of the step, and bits of the step that choose a table.
REACH, CHOOSING = 24, 3
#: Levels from below whose tables depend on all lower bits of the step.
LOWEST = 4
#: Tables are shipped as multiples of 2^-12.
TABLE_BITS = 12
_FILE = "octave.json"
#: Nodes to either side of the step beyond which a column is 0 below the highest levels.
_WIDTH = 2 * REACH + 8
#: There a column ends, so many nodes before and after that of its step.
_SUPPORT = 2 * REACH + 1, 2 * REACH + 2


class Tables(NamedTuple):
    """What g is near a step, in units of 2^-12, at the nodes -23 .. 24 from the one before it.

    Attributes:
        lowest: shape (16, 3, 48), for each i mod 16 and the levels 1 to 3.
        inside: shape (8, 48), for each value of three bits and all levels from 4 on.
    """

    lowest: Integers
    inside: Integers


@lru_cache(maxsize=1)
def load_shipped() -> dict[str, Any]:
    """What ``octave.json`` holds."""
    return dict(json.loads(files(__package__).joinpath(_FILE).read_text(encoding="ascii")))


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The tables that are shipped."""
    lowest = integers_from_text(load_shipped()["lowest"], (1 << LOWEST, LOWEST - 1, 2 * REACH))
    return Tables(lowest, integers_from_text(load_shipped()["inside"], (1 << CHOOSING, 2 * REACH)))


def interpolate(above: Integers, first: int, nodes: range, times: int = 1) -> Integers:
    """16 U g, this many times, at some nodes of a level, from g at the nodes of the next one.

    Even nodes read three nodes above, (U g)(2q) = (3 g(q-1) + 10 g(q) + 3 g(q+1)) / 16, odd ones
    two, (U g)(2q+1) = (g(q) + g(q+1)) / 2. What is not in ``above`` counts as 0.

    Args:
        above: g at the nodes ``first``, first + 1, .. of the level above; shape (nodes, ...).
        first: number of the first of them.
        nodes: of the level below.
        times: a factor.

    >>> interpolate(np.array([0, 1, 0]), 4, range(7, 14)).tolist()
    [0, 3, 8, 10, 8, 3, 0]
    """
    # From the parent before the first node's on; an odd first node comes with the one before it.
    start = nodes.start // 2
    count = (nodes.stop - 1) // 2 - start + 1
    low, high = start - 1, start + count + 1
    if first <= low and high <= first + len(above):
        held = above[low - first : high - first]
    else:
        held = np.zeros((count + 2, *above.shape[1:]), above.dtype)
        low, high = max(first, low), min(first + len(above), high)
        if low < high:
            held[low - start + 1 : high - start + 1] = above[low - first : high - first]
    middle, after = held[1:-1], held[2:]
    found = np.empty((2 * count, *above.shape[1:]), above.dtype)
    even, odd = found[0::2], found[1::2]
    np.add(middle, after, out=odd)
    odd *= 8 * times
    np.add(held[:-2], after, out=even)
    even *= 3 * times
    even += middle * (10 * times)
    offset = nodes.start - 2 * start
    return found[offset : offset + len(nodes)]


class Norms(NamedTuple):
    """Most that a column has in the 1-norm, and in the squared 2-norm, in lattice units."""

    l1: int
    l2_squared: int


class OctaveColumns:
    """C for Octave: a column for each step, and bounds on their norms.

    Args:
        horizon: steps that have a column.
        nodes: of every level, all that releases read.
        weights: of the nodes of the levels from ``upper`` on, in units of 2^-weight_bits; below
            all weights are 1.
        upper: the first level with weights of its own.
        g_bits: g is a multiple of 2^-g_bits, U g of 2^-(g_bits + 4).
        weight_bits: of weights.
    """

    def __init__(
        self,
        horizon: int,
        nodes: tuple[range, ...],
        weights: tuple[Integers, ...],
        g_bits: int,
        weight_bits: int,
    ) -> None:
        self._horizon, self._nodes, self._weights = horizon, nodes, weights
        self._bits, self._unit = g_bits, 1 << g_bits
        self._plain = 1 << weight_bits
        self.upper = len(nodes) - len(weights)
        #: Steps that agree in all bits from here on have the same column in the upper levels.
        self._key_bits = max(0, self.upper - CHOOSING) if self.upper >= LOWEST else 0

    def g(self, level: int, step: int, nodes: range) -> Integers:
        """g of a level up to ``upper`` at some nodes, in units of 2^-g_bits."""
        if level == 0:
            return np.where(np.arange(nodes.start, nodes.stop) >= step, self._unit, 0)
        place = np.arange(nodes.start, nodes.stop) - (step >> level)
        if level < LOWEST:
            table = tables().lowest[step % (1 << LOWEST), level - 1]
        else:
            table = tables().inside[(step >> (level - CHOOSING)) % (1 << CHOOSING)]
        table = _round_bits(table, TABLE_BITS - self._bits)
        inside = table[np.clip(place + REACH - 1, 0, 2 * REACH - 1)]
        return np.where(place > REACH, self._unit, np.where(place <= -REACH, 0, inside))

    def _below(self, level: int, step: int, nodes: range | None = None) -> tuple[range, Integers]:
        """Nodes of a level below ``upper`` around a step, and the column there."""
        middle = step >> level
        around = range(middle - _WIDTH, middle + _WIDTH + 1)
        if nodes is not None:
            around = range(max(around.start, nodes.start), min(around.stop, nodes.stop))
        parents = range((around.start >> 1) - 1, (around.stop - 1 >> 1) + 2)
        above = interpolate(self.g(level + 1, step, parents), parents.start, around)
        return around, 16 * self.g(level, step, around) - above

    def column(self, step: int) -> list[tuple[int, int, int]]:
        """(level, node, weight) of every node that an item enters, in lattice units."""
        entries = []
        for level in range(self.upper):
            nodes, column = self._below(level, step, self._nodes[level])
            entries += [
                (level, node, self._plain * int(weight))
                for node, weight in zip(nodes, column, strict=True)
                if weight
            ]
        key = (step >> self._key_bits) - self._keys.start
        for level, column in enumerate(self._upper, start=self.upper):
            entries += [
                (level, node, int(weight))
                for node, weight in zip(self._nodes[level], column[:, key], strict=True)
                if weight
            ]
        return entries

    @property
    def _keys(self) -> range:
        return range(1 >> self._key_bits, (self._horizon >> self._key_bits) + 1)

    @cached_property
    def entering(self) -> Integers:
        """g at the lowest of the upper levels, one column for each key of steps."""
        first = self.upper, self._nodes[self.upper]
        steps = (max(key << self._key_bits, 1) for key in self._keys)
        return np.stack([self.g(first[0], step, first[1]) for step in steps], axis=1)

    @cached_property
    def _upper(self) -> list[Integers]:
        """Columns in the upper levels: of least squares given ``entering``, rounded."""
        nodes, weights = self._nodes[self.upper :], self._weights
        variances = [(self._plain / w.astype(np.float64)) ** 2 for w in weights]
        ups = [matrix(below, above) for below, above in pairwise(nodes)]
        covariance = np.diag(variances[-1])
        for up, own in zip(reversed(ups), reversed(variances[:-1]), strict=True):
            covariance = np.diag(own) + up @ covariance @ up.T
        pulled = [np.linalg.solve(covariance, self.entering.astype(np.float64))]
        for up in ups:
            pulled.append(up.T @ pulled[-1])
        exact: Floats = np.zeros((len(nodes[-1]), self.entering.shape[1]))
        found: list[Integers] = []
        for level in reversed(range(1, len(nodes))):
            of_above = ups[level] @ exact if level < len(ups) else 0.0
            exact = variances[level][:, None] * pulled[level] + of_above
            found.append(np.rint(exact).astype(np.int64))
        g = [self.entering, *reversed(found)]
        columns = []
        for level, of_level in enumerate(g):
            column: Integers = 16 * of_level
            if level + 1 < len(g):
                column -= interpolate(g[level + 1], nodes[level + 1].start, nodes[level])
            columns.append(weights[level][:, None] * column)
        return columns

    @cached_property
    def norms(self) -> Norms:
        """No column is longer, in either norm."""
        return Norms(self.largest(1), self.largest(2))

    def largest(self, norm: int, start: int = 0) -> int:
        """Most that a column has, in lattice units, in the levels from ``start`` on."""
        upper = sum((np.abs(column) ** norm).sum(axis=0) for column in self._upper)
        return int((upper + self.below(norm, start)).max())

    @staticmethod
    def first_shared_level(lag: int) -> int:
        """The first level on which two columns this many steps apart can have a node in common.

        Up to the upper levels column i has no nodes but those from 49 before i >> level to 50
        after it.

        >>> [OctaveColumns.first_shared_level(lag) for lag in (99, 100, 799)]
        [0, 1, 3]
        """
        return (lag // (_SUPPORT[0] + _SUPPORT[1] + 1)).bit_length()

    def below(self, norm: int, start: int = 0) -> Integers:
        """For every key the most that a column has from a level on to below the upper levels."""
        keys = np.arange(self._keys.start, self._keys.stop)
        if self.upper == 0:
            return np.zeros(len(keys), np.int64)
        lowest = np.array(
            [
                sum(
                    self._power(level, (1 << 30) + low, norm)
                    for level in range(start, min(self.upper, LOWEST))
                )
                for low in range(1 << LOWEST)
            ]
        )
        if self.upper < LOWEST:
            return lowest[keys % (1 << LOWEST)]
        # By bits l - 1, l - 2, l - 3 of the step, from level l = 4 on.
        most = lowest.reshape(-1, 2).max(axis=1)
        each = np.array([self._power(LOWEST, (1 << 30) + (bits << 1), norm) for bits in range(16)])
        for _ in range(max(start, LOWEST), self.upper):
            # Bit l is new, bit l - 3 is forgotten.
            most = (each + np.tile(most, 2)).reshape(-1, 2).max(axis=1)
        return np.asarray(most[keys % (1 << CHOOSING)])

    def _power(self, level: int, step: int, norm: int) -> int:
        _, column = self._below(level, step)
        return int((np.abs(self._plain * column) ** norm).sum())


def matrix(below: range, above: range) -> Floats:
    """U as a matrix from the nodes of one level to those of the level below."""
    found = interpolate(np.eye(len(above), dtype=np.int64), above.start, below)
    return np.asarray(found / 16.0)


def _round_bits(values: Integers, bits: int) -> Integers:
    """Values divided by 2^bits, to the nearest."""
    return (values + (1 << bits >> 1)) >> bits
