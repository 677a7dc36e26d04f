"""Multiscale noise: running totals with Gaussian noise over any horizon, computed in integers.

Privacy needs *some* matrix C with B C = A and columns of small norm, but a running stream need not
compute it. So this mechanism defines the noise B z first: independent noise at points of time that
are 1, 2, 4, ... steps apart, interpolated. Node j of level l is at time j 2^l, with noise z_l(j),
and

    N_L = z_L,    N_l = z_l + U N_(l+1),    noise of release t = N_0(t),

where U interpolates from a level to the one below, with the weights (3, 8, 10, 8, 3) / 16, and
rounds to multiples of a small power of two. A release uses at most four nodes of a level, near its
step, so any window can be computed alone. About two draws of noise are needed for each step.

**Privacy.** For *any* numbers g_0, g_1, .., g_L with g_0(t) = 1 from step i on and 0 before, and
g_(L+1) = 0, the column

    C e_i = (g_0 - U g_1, g_1 - U g_2, .., g_L)

satisfies B C e_i = A e_i, because it changes N_l by g_l on every level (a telescoping sum). So the
g may be chosen freely; the smaller the norms of columns, the less noise is needed. Here the g are
multiples of 2^-G. So U g is a multiple of 2^-(G + 4), to which noise is rounded, and rounding
commutes with a change of z by -d C e_i.

- *On middle levels*, g_l is 0 before a window of 48 nodes around i / 2^l, 1 after it, and given by
  a table within it, one for each value of the three bits of i below bit l. What level l adds to the
  norm then depends on four bits of i only. A dynamic programme over the bits, lowest first, finds
  the largest norm over every i.
- *The lowest four levels* have a table for each i mod 16.
- *The highest nine levels* have few nodes. Given g at the lowest of them, the column of least norm
  is computed by least squares, and rounded.

Norms are computed in integers, so they are exact for these columns. The tables come with the
package (``multiscale.json``); ``make multiscale`` computes them. A bad table would only make the
norms, and so the noise, larger.

This mechanism, and its proof of privacy, are counton's own and not in the papers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import (
    Floats,
    Integers,
    integers_from_text,
    integers_to_text,
    one_thread,
)
from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure
from counton.strategies.rounding import round_bits
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
    Reader,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    nodes_per_chunk,
    window_ends,
)

#: Number of nodes of a table on either side of the step, and number of bits of the step that select
#: a table.
REACH = 24
CHOOSING_BITS = 3
#: Number of the lowest levels, whose tables depend on all lower bits of the step.
LOWEST_LEVELS = 4
#: The tables of the package are multiples of 2^-12.
TABLE_BITS = 12
_FILE = "multiscale.json"
#: On levels below the highest ones, a column is 0 at nodes further than this from the step.
_COLUMN_REACH = 2 * REACH + 8
#: Below the highest levels a column has this many nodes before and after its step.
_SUPPORT = 2 * REACH + 1, 2 * REACH + 2
#: Releases are multiples of 2^-10, unless they are rounded to whole numbers.
_FRACTION_BITS = 10
#: Largest horizon: twice the index of a node fits int64.
LARGEST_HORIZON = 2**60
#: The upper levels, whose nodes have their own weights, begin at the bit length of the horizon
#: minus this.
UPPER_LEVELS = 8
#: If fewer levels are below the upper ones, all weights are 1.
_FEWEST_WEIGHED_LEVELS = 2
#: The length of a long stream, in nodes of the lowest upper level, is rounded up to a multiple of
#: this.
LENGTH_MULTIPLE = 8
#: The weights of the package are in units of 2^-6.
WEIGHT_BITS = 6
#: Up to this many steps all variances are computed to find the largest.
_MOST_ENUMERATED_STEPS = 2**16
#: Number of the lowest levels, which have nearly all nodes, that are computed in parts.
_SEPARATE_LEVELS = 5
#: Number of bits of a step, below a level, that the search for the largest variance distinguishes.
_PLACE_BITS = 13


class Tables(NamedTuple):
    """Tables of the numbers g, in units of 2^-12, from which C is computed.

    g is the weight of a step's count at a node in N_l, its unweighted measurement plus N_(l+1)
    interpolated: 0 well before the step, 1 well after it, and as in the tables at the 48 nodes -23
    .. 24, where 0 is the node of the step.

    Attributes:
        lowest: by step modulo 16, for the levels 1 to 3: shape (16, 3, 48).
        inside: by the step's three bits below bit l, for all levels l from 4 on: shape (8, 48).
    """

    lowest: Integers
    inside: Integers


@lru_cache(maxsize=1)
def load_shipped() -> dict[str, Any]:
    """Return the content of ``multiscale.json``: tables and weights that a search found."""
    return dict(json.loads(files(__package__).joinpath(_FILE).read_text(encoding="ascii")))


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the tables of `MultiscaleStrategy`, which come with the package."""
    lowest = integers_from_text(
        load_shipped()["lowest"], (1 << LOWEST_LEVELS, LOWEST_LEVELS - 1, 2 * REACH)
    )
    return Tables(
        lowest, integers_from_text(load_shipped()["inside"], (1 << CHOOSING_BITS, 2 * REACH))
    )


@lru_cache(maxsize=LOWEST_LEVELS * (TABLE_BITS + 1))
def _tables_of(level: int, g_bits: int) -> Integers:
    """Return the tables of a level in units of 2^-g_bits, each with a 0 before and a 1 after it.

    Args:
        level: level from 1 on; `LOWEST_LEVELS`: this one, and all above.
        g_bits: number of bits of `g`.
    """
    shipped = tables().lowest[:, level - 1] if level < LOWEST_LEVELS else tables().inside
    rounded = round_bits(shipped, TABLE_BITS - g_bits)
    return np.pad(rounded, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1 << g_bits)))


def interpolate(above: Integers, first: int, nodes: range, factor: int = 1) -> Integers:
    """Return values at nodes, interpolated from the level above, times 16 * ``factor``.

    ``above`` has the nodes from ``first`` on, (nodes, ...); any others have the value 0.

    >>> interpolate(np.array([0, 1, 0]), 4, range(7, 14)).tolist()
    [0, 3, 8, 10, 8, 3, 0]
    """
    # The interpolation is U in the module's formulas. Even nodes use three nodes of the level
    # above, (U g)(2q) = (3 g(q-1) + 10 g(q) + 3 g(q+1)) / 16; odd ones two, (U g)(2q+1) = (g(q) +
    # g(q+1)) / 2. Start at the parent before the first node; an odd first node comes with its
    # predecessor.
    start = nodes.start // 2
    count = (nodes.stop - 1) // 2 - start + 1
    low = start - 1
    high = start + count + 1
    if first <= low and high <= first + len(above):
        held = above[low - first : high - first]
    else:
        held = np.zeros((count + 2, *above.shape[1:]), above.dtype)
        low = max(first, low)
        high = min(first + len(above), high)
        if low < high:
            held[low - start + 1 : high - start + 1] = above[low - first : high - first]
    middle = held[1:-1]
    after = held[2:]
    nodes_below = np.empty((2 * count, *above.shape[1:]), above.dtype)
    even = nodes_below[0::2]
    odd = nodes_below[1::2]
    np.add(middle, after, out=odd)
    odd *= 8 * factor
    np.add(held[:-2], after, out=even)
    even *= 3 * factor
    even += middle * (10 * factor)
    offset = nodes.start - 2 * start
    return nodes_below[offset : offset + len(nodes)]


class MultiscaleColumns:
    """The columns of C, and bounds on their norms.

    Args:
        nodes: for every level, the nodes that releases use.
        weights: weights of the nodes of the highest levels, from ``upper`` on, in units of
            2^-weight_bits; 1 on lower levels.
        g_bits: `g` are multiples of 2^-g_bits; interpolated, of 2^-(g_bits + 4).
    """

    def __init__(
        self,
        horizon: int,
        nodes: tuple[range, ...],
        weights: tuple[Integers, ...],
        g_bits: int,
        weight_bits: int,
    ) -> None:
        self._horizon = horizon
        self._nodes = nodes
        self._weights = weights
        self._bits = g_bits
        self._unit = 1 << g_bits
        self._plain = 1 << weight_bits
        self.upper = len(nodes) - len(weights)
        #: Steps with equal bits from this bit on have equal columns on the upper levels.
        self._key_bits = max(0, self.upper - CHOOSING_BITS) if self.upper >= LOWEST_LEVELS else 0

    def g(self, level: int, step: int, nodes: range) -> Integers:
        """Return g of a step at nodes of a level, at most ``upper``, in units of 2^-g_bits.

        N_l, a node's unweighted measurement plus N_(l+1) interpolated to its time, estimates the
        running total. g is the weight of the step's count in it: 0 well before the step, and 1 well
        after. The step's column has g at a node of level l, minus the g of level l + 1 interpolated
        to this node.
        """
        return self._g(level, np.array([step]), nodes)[:, 0]

    def _g(self, level: int, steps: Integers, nodes: range) -> Integers:
        """Return g of several steps: shape (nodes, steps)."""
        numbers = np.arange(nodes.start, nodes.stop)[:, None]
        if level == 0:
            return np.where(numbers >= steps, self._unit, 0)
        places = np.clip(numbers - (steps >> level) + REACH, 0, 2 * REACH + 1)
        if level < LOWEST_LEVELS:
            choice = steps % (1 << LOWEST_LEVELS)
        else:
            choice = (steps >> (level - CHOOSING_BITS)) % (1 << CHOOSING_BITS)
        return np.asarray(_tables_of(min(level, LOWEST_LEVELS), self._bits)[choice, places])

    def _below(self, level: int, step: int, nodes: range | None = None) -> tuple[range, Integers]:
        """Return the nodes around a step on a level below ``upper``, and its column's entries.

        Entries are in units of 2^-(g_bits + 4). ``nodes`` are those that exist; None: all integers.
        """
        middle = step >> level
        around = range(middle - _COLUMN_REACH, middle + _COLUMN_REACH + 1)
        if nodes is not None:
            around = range(max(around.start, nodes.start), min(around.stop, nodes.stop))
        parents = range((around.start >> 1) - 1, (around.stop - 1 >> 1) + 2)
        above = interpolate(self.g(level + 1, step, parents), parents.start, around)
        return around, 16 * self.g(level, step, around) - above

    def column(self, step: int) -> list[tuple[int, int, int]]:
        """Return (level, node, weight) of a step's column, in units of 2^-lattice_bits."""
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
        """The numbers g of all steps at the nodes of the level ``upper``: shape (nodes, classes).

        A class has all steps of equal ``step >> _key_bits``, whose columns are equal from ``upper``
        on.
        """
        keys = np.arange(self._keys.start, self._keys.stop)
        steps = np.maximum(keys << self._key_bits, 1)
        return self._g(self.upper, steps, self._nodes[self.upper])

    @cached_property
    def _upper(self) -> list[Integers]:
        """Entries of the columns on each level from ``upper`` on: shape ``(nodes, classes)``."""
        with one_thread():
            return self._of_least_norm()

    def _of_least_norm(self) -> list[Integers]:
        """Return the columns of least norm given ``entering``, by least squares and rounded."""
        nodes = self._nodes[self.upper :]
        weights = self._weights
        variances = [(self._plain / w.astype(np.float64)) ** 2 for w in weights]
        ups = [matrix(below, above) for below, above in pairwise(nodes)]
        covariance = _covariance_of(nodes, variances)
        pulled = [np.linalg.solve(covariance, self.entering.astype(np.float64))]
        for up in ups:
            pulled.append(up.T @ pulled[-1])
        exact: Floats = np.zeros((len(nodes[-1]), self.entering.shape[1]))
        levels: list[Integers] = []
        for level in reversed(range(1, len(nodes))):
            pulled_from_above = ups[level] @ exact if level < len(ups) else 0.0
            exact = variances[level][:, None] * pulled[level] + pulled_from_above
            levels.append(np.rint(exact).astype(np.int64))
        g = [self.entering, *reversed(levels)]
        columns = []
        for level, level_weights in enumerate(g):
            column: Integers = 16 * level_weights
            if level + 1 < len(g):
                column -= interpolate(g[level + 1], nodes[level + 1].start, nodes[level])
            columns.append(weights[level][:, None] * column)
        return columns

    @cached_property
    def norms(self) -> Sensitivity:
        """Upper bounds of all columns' norms, in units of 2^-lattice_bits and 4^-lattice_bits."""
        return Sensitivity(self.largest(1), self.largest(2))

    def largest(self, norm: int, start: int = 0) -> int:
        """Return a bound of the norm (2: squared) of any column over levels from ``start`` on."""
        upper = sum((np.abs(column) ** norm).sum(axis=0) for column in self._upper)
        return int((upper + self.below(norm, start)).max())

    @staticmethod
    def first_shared_level(lag: int) -> int:
        """Return the first level on which columns of steps ``lag`` apart can share a node."""
        # Below the upper levels column i has only the nodes from 49 before i >> level to 50 after
        # it.
        return (lag // (_SUPPORT[0] + _SUPPORT[1] + 1)).bit_length()

    def below(self, norm: int, start: int = 0) -> Integers:
        """Return by class the largest norm of a column over levels ``start`` .. ``upper`` - 1."""
        keys = np.arange(self._keys.start, self._keys.stop)
        if self.upper == 0:
            return np.zeros(len(keys), np.int64)
        lowest = np.array(
            [
                sum(
                    self._power(level, (1 << 30) + low, norm)
                    for level in range(start, min(self.upper, LOWEST_LEVELS))
                )
                for low in range(1 << LOWEST_LEVELS)
            ]
        )
        if self.upper < LOWEST_LEVELS:
            return lowest[keys % (1 << LOWEST_LEVELS)]
        # From level l = 4 on, bits l - 1, l - 2 and l - 3 of the step select the power.
        most = lowest.reshape(-1, 2).max(axis=1)
        powers = np.array(
            [self._power(LOWEST_LEVELS, (1 << 30) + (bits << 1), norm) for bits in range(16)]
        )
        for _ in range(max(start, LOWEST_LEVELS), self.upper):
            # Bit l is new, bit l - 3 is dropped.
            most = (powers + np.tile(most, 2)).reshape(-1, 2).max(axis=1)
        return np.asarray(most[keys % (1 << CHOOSING_BITS)])

    def _power(self, level: int, step: int, norm: int) -> int:
        """Return the 1-norm, or squared 2-norm, of a step's column on one level."""
        _, column = self._below(level, step)
        return int((np.abs(self._plain * column) ** norm).sum())


def matrix(below: range, above: range) -> Floats:
    """Return the matrix of the interpolation U: shape (below, above)."""
    return np.asarray(interpolate(np.eye(len(above), dtype=np.int64), above.start, below) / 16.0)


def _covariance_of(nodes: Sequence[range], variances: Sequence[Floats]) -> Floats:
    """Return the covariance of the noise of several levels, interpolated to the lowest."""
    covariance = np.diag(variances[-1])
    for (below, above), level_variances in zip(
        [*pairwise(nodes)][::-1], variances[-2::-1], strict=True
    ):
        up = matrix(below, above)
        covariance = np.diag(level_variances) + up @ covariance @ up.T
    return np.asarray(covariance)


#: Two matrices, for P = 2 Q and P = 2 Q + 1: they convert weights of the nodes P - 2 .. P + 2 of a
#: level to weights of the nodes Q - 2 .. Q + 2 of the next higher level; in units of 1/16.
CLIMBING_MATRICES = tuple(
    interpolate(np.eye(5, dtype=np.int64), -2, range(odd - 2, odd + 3)).T for odd in (0, 1)
)
#: Weights of the lowest level's nodes t - 2 .. t + 2 in release t, and in the difference of
#: releases t and t - 1.
_RELEASE_WEIGHTS = (0, 0, 1, 0, 0)
_DIFFERENCE_WEIGHTS = (0, -1, 1, 0, 0)


class _Grid(NamedTuple):
    """The nodes of every level, and the first level whose nodes have their own weights.

    Attributes:
        length: steps for which there are nodes, at least the horizon.
        upper: the first level whose nodes have their own weights.
        nodes: for each level, all that are needed to interpolate the level below.
    """

    length: int
    upper: int
    nodes: tuple[range, ...]

    @classmethod
    def for_horizon(cls, horizon: int) -> _Grid:
        """Return the nodes for at least ``horizon`` steps.

        A long horizon gets those of the next length whose weights come with the package.
        """
        upper = max(horizon.bit_length() - UPPER_LEVELS, 0)
        length = horizon
        if upper >= _FEWEST_WEIGHED_LEVELS:
            unit = LENGTH_MULTIPLE << upper
            length = -(-horizon // unit) * unit
            upper = length.bit_length() - UPPER_LEVELS
        nodes = [range(1, length + 1)]
        for _ in range(length.bit_length()):
            first = nodes[-1].start
            last = nodes[-1].stop - 1
            nodes.append(range(first // 2 - (first % 2 == 0), last // 2 + 2))
        return cls(length, upper, tuple(nodes))


class MultiscaleStrategy(StreamStrategy):
    """Running totals with independent Gaussian noise on every octave of time, interpolated.

    Level l has points of time that are 2^l steps apart; the noise of a release is interpolated from
    points near the step on each level.

    On long streams the mean error is within one percent of that of the best known matrices. The
    largest variance is the least known for strategies that do not solve equations over the whole
    stream. No noise is kept in memory, and any window can be computed alone.

    Args:
        horizon: number of steps, from 1 to 2^60.
        metric: the variance that the weights minimise: the mean or the largest.
        grid_bits: 12, 14 or 16: noise is rounded to multiples of 2^-grid_bits before it is added
            up; with fewer the error is slightly larger, but wider noise fits int64.
        whole: whether releases are rounded to integers, which adds 1/12 to their variance.

    Raises:
        InvalidInputError: an argument out of range.

    >>> strategy = MultiscaleStrategy(10**7)
    >>> squared = float(strategy.squared_sensitivity()) * strategy.overall_variance("mean")
    >>> bool(squared < 6.05**2)
    True
    """

    sources = ("a_rounded_quotient_estimates",)
    saved_name = "Octave"

    horizon: int

    def __init__(
        self, horizon: int, metric: Metric = "mean", grid_bits: int = 16, whole: bool = False
    ) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        check_metric(metric)
        self.metric: Metric = metric
        self.grid_bits = check_integer("grid_bits", grid_bits, 12, 16)
        if self.grid_bits % 2:
            raise InvalidInputError(f"grid_bits is {grid_bits}; give 12, 14 or 16")
        if not isinstance(whole, bool):
            raise InvalidInputError(f"whole is {whole!r}; give True for whole numbers, or False")
        self.whole = whole
        #: Number of fraction bits of the weights of nodes.
        self.weight_bits = grid_bits // 2 - 2
        self.facts = StrategyFacts(
            lattice_bits=grid_bits + self.weight_bits,
            fraction_bits=0 if whole else _FRACTION_BITS,
            unit_columns=False,
            attained=False,
            rounding_variance=1 / 12 if whole else 0.0,
        )
        self._grid = _Grid.for_horizon(self.horizon)

    @classmethod
    def examples(cls, horizon: int) -> tuple[MultiscaleStrategy, ...]:
        """Return strategies with many and with few ``grid_bits``.

        Columns of longer horizons have many entries: above 26 steps there are few bits alone, above
        250 none.

        Args:
            horizon: number of steps that each instance must serve, from 1.
        """
        coarse = cls(horizon, "max", 12, whole=True)
        fine = cls(horizon)
        if horizon <= 26:
            return (fine, coarse)
        return (coarse,) if horizon <= 250 else ()

    @override
    def to_dict(self) -> dict[str, Any]:
        if self._grid.upper < _FEWEST_WEIGHED_LEVELS:
            return super().to_dict()
        return {**super().to_dict(), "node_weights": integers_to_text(np.concatenate(self.weights))}

    @classmethod
    @override
    def _from_description(cls, node_weights: str | None = None, **parameters: Any) -> Self:
        built = cls(**parameters)
        if node_weights not in (None, built.to_dict().get("node_weights")):
            raise InvalidInputError(
                f"{built!r} has other node weights than its description states: it was altered, or "
                f"written by another version of counton; restore it from a copy"
            )
        return built

    # ------------------------------------------------------------------------------ the matrices

    @cached_property
    def weights(self) -> tuple[Integers, ...]:
        """Weights of the nodes of each upper level, in units of 2^-weight_bits; below, 1."""
        counts = [len(nodes) for nodes in self._grid.nodes[self._grid.upper :]]
        plain = 1 << self.weight_bits
        if self._grid.upper < _FEWEST_WEIGHED_LEVELS:
            return tuple(np.full(count, plain) for count in counts)
        # The weights come from the searched shape with the nearest number of levels.
        shipped = load_shipped()["weights"][self.metric]
        upper = self._grid.upper
        nearest = min(shipped, key=lambda levels: (abs(int(levels) - upper), int(levels)))
        text = shipped[nearest][str(self._grid.length >> upper)]
        held = integers_from_text(text, (sum(counts),))
        coarser = WEIGHT_BITS - self.weight_bits
        rounded = np.maximum(round_bits(held, coarser), 1)
        return tuple(np.split(rounded, np.cumsum(counts)[:-1]))

    @cached_property
    def _columns(self) -> MultiscaleColumns:
        """The columns of C, and bounds on their norms."""
        return MultiscaleColumns(
            self.horizon, self._grid.nodes, self.weights, self.grid_bits - 4, self.weight_bits
        )

    def column(self, step: int) -> tuple[Node, ...]:
        """Return some nodes near the step on every level.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        unit = 1 << self.facts.lattice_bits
        return tuple(
            Node(level, node + 1, Fraction(weight, unit))
            for level, node, weight in self._columns.column(check_step(self, step))
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes in the release, with exact interpolation weights.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        step = check_step(self, step)
        nodes = []
        read = [*_RELEASE_WEIGHTS]
        for level in range(len(self._grid.nodes)):
            first = (step >> level) - 2
            for node, weight in enumerate(read, start=first):
                if weight:
                    node_scale = Fraction(1 << self.weight_bits, self._weight(level, node))
                    exact = Fraction(weight, 16**level) * node_scale
                    whole = exact.denominator == 1
                    nodes.append(Node(level, node + 1, int(exact) if whole else exact))
            climb = CLIMBING_MATRICES[step >> level & 1]
            read = [sum(int(a) * b for a, b in zip(row, read, strict=True)) for row in climb]
        return tuple(nodes)

    def _weight(self, level: int, node: int) -> int:
        """Return the weight with which a node is measured, in units of 2^-weight_bits."""
        if level < self._grid.upper:
            return 1 << self.weight_bits
        return int(self.weights[level - self._grid.upper][node - self._grid.nodes[level].start])

    # ------------------------------------------------------------------------------- sensitivity

    def l1_sensitivity(self) -> Fraction:
        """Return a bound on the 1-norm of every column, computed in integers."""
        return Fraction(self._columns.norms.l1, 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        """Return a bound on the squared 2-norm of every column, computed in integers."""
        return Fraction(self._columns.norms.l2_squared, 4**self.facts.lattice_bits)

    @property
    def _largest_read(self) -> float:
        """1 / the least weight of a node, at least 1."""
        least = min(int(weights.min()) for weights in self.weights)
        return max(1.0, (1 << self.weight_bits) / least)

    @property
    @override
    def structure(self) -> Structure:
        """Columns have negative entries; those of steps far apart share nodes on few levels."""
        return Structure(overlaps=self._overlaps, aligned=lambda: False)

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        # Only levels on which two columns so far apart can share a node are included; the bound
        # follows by the Cauchy-Schwarz inequality.
        overlaps: list[int] = []
        firsts_by_level: dict[int, int] = {}
        for j in range(1, schedule.steps):
            level = min(self._columns.first_shared_level(j * schedule.apart), self._grid.upper)
            if level not in firsts_by_level:
                firsts_by_level[level] = self._columns.largest(2, level)
            overlaps.append(firsts_by_level[level])
        return overlaps

    # --------------------------------------------------------------------------------- variances

    @cached_property
    def _variances(self) -> tuple[Floats, ...]:
        """Variances of the nodes of each upper level, relative to nodes of lower levels."""
        plain = float(1 << self.weight_bits)
        return tuple((plain / weights) ** 2 for weights in self.weights)

    def _node_variances(self, level: int, nodes: Integers) -> Floats:
        """Return the variances of nodes of a level; any value for nodes that do not exist."""
        upper = self._grid.upper
        if level < upper:
            return np.ones(nodes.shape)
        level_variances = self._variances[level - upper]
        return level_variances[
            np.clip(nodes - self._grid.nodes[level].start, 0, len(level_variances) - 1)
        ]

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of releases or differences, in units of a node of level 0.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
        """
        first, last = window_ends(self, steps, since)
        shape = first.shape
        first = first.ravel()
        last = last.ravel()
        variances = np.zeros(len(last))
        for start in range(0, len(last), _MOST_ENUMERATED_STEPS):
            part = slice(start, start + _MOST_ENUMERATED_STEPS)
            variances[part] = self._window_variances(first[part], last[part])
        return variances.reshape(shape)

    def _window_variances(self, first: Integers, last: Integers) -> Floats:
        """Return the variances of the counts of the steps first + 1 .. last: shape (windows,)."""
        around = np.arange(-2, 3)
        total = np.zeros(len(last))
        step_reads = np.array(_RELEASE_WEIGHTS, np.float64)
        later, earlier = (
            (ends > 0).astype(np.float64)[:, None] * step_reads for ends in (last, first)
        )
        for level in range(len(self._grid.nodes)):
            there = last >> level
            shared = later.copy()
            if first.any():
                before = first >> level
                # The earlier step's weights lie on nodes around the later one, or on others.
                apart = there - before
                rest = earlier.copy()
                for distance in range(5):
                    some = apart == distance
                    width = 5 - distance
                    shared[some, :width] -= earlier[some, distance:]
                    rest[some, distance:] = 0.0
                total += (rest**2 * self._node_variances(level, before[:, None] + around)).sum(
                    axis=1
                )
                earlier = _climb(earlier, before)
            total += (shared**2 * self._node_variances(level, there[:, None] + around)).sum(axis=1)
            later = _climb(later, there)
        return total

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        """Return the mean or the largest variance; beyond 2^16 steps the largest within 1e-4.

        Args:
            metric: "mean" over all steps, or "max" for the largest.
            of: "totals" for the releases, "windows" for the counts of single steps.
        """
        check_metric(metric)
        read, first = (
            (_DIFFERENCE_WEIGHTS, float(self.variance([1])[0]))
            if of == "windows"
            else (_RELEASE_WEIGHTS, 0)
        )
        if metric == "mean":
            return (first + self._sum_of_variances(read)) / self.horizon
        if self.horizon <= _MOST_ENUMERATED_STEPS:
            return super().overall_variance(metric, of)
        with one_thread():
            return max(first, self._largest(read))

    def _sum_of_variances(self, read: tuple[int, ...]) -> float:
        """Return the summed variance of releases, or (``read``) of consecutive differences."""
        # Differences count from the second step on. On a level, let P be the place t >> level of
        # step t. All steps with one P use the five nodes from P - 2 to P + 2, with weights that do
        # not depend on P. The second moments of these weights, summed over the steps, are computed
        # from level to level; those of the last P, which the horizon cuts short, separately.
        start = np.outer(read, read).astype(np.float64)
        whole = start
        last = start
        missing = (
            [start] if read == _RELEASE_WEIGHTS else [start, start]
        )  # step 0, and for differences step 1
        indices = [0] if read == _RELEASE_WEIGHTS else [0, 1]
        total = 0.0
        climbs = [climb / 16.0 for climb in CLIMBING_MATRICES]
        for level in range(len(self._grid.nodes)):
            end = self.horizon >> level
            level_variances = (
                self._node_variances(level, np.arange(-2, end + 3))
                if level >= self._grid.upper
                else None
            )
            if level_variances is None:
                total += end * np.trace(whole) + np.trace(last) - sum(map(np.trace, missing))
            else:
                diagonal = np.diag(whole)
                total += sum(diagonal[k] * level_variances[k : k + end].sum() for k in range(5))
                total += float(np.diag(last) @ level_variances[end:])
                for index, moment in zip(indices, missing, strict=True):
                    total -= float(np.diag(moment) @ level_variances[index : index + 5])
            even, odd = (climb @ whole @ climb.T for climb in climbs)
            climb = climbs[end & 1]
            last = climb @ last @ climb.T + (even if end & 1 else 0.0)
            for k, index in enumerate(indices):
                climb = climbs[index & 1]
                missing[k] = climb @ missing[k] @ climb.T
            indices = [index >> 1 for index in indices]
            whole = even + odd
        return float(total)

    def _largest(self, read: tuple[int, ...]) -> float:
        """Return the largest variance of these on long horizons."""
        # On each level, among steps with equal 13 bits below the level, the one with the largest
        # variance so far is kept: on higher levels the weights of nodes are almost equal for these
        # steps.
        steps = np.zeros(1, np.int64)
        reads = np.array([read], np.float64)
        total = (reads**2).sum(axis=1)
        upper = self._grid.upper
        for level in range(upper):
            steps = np.concatenate([steps, steps | 1 << level])
            reads = np.concatenate([reads @ (climb.T / 16.0) for climb in CLIMBING_MATRICES])
            total = np.tile(total, 2)
            if level >= _PLACE_BITS:
                pairs = total.reshape(-1, 2)
                kept = 2 * np.arange(len(pairs)) + pairs.argmax(axis=1)
                steps = steps[kept]
                reads = reads[kept]
                total = total[kept]
            if level + 1 < upper:
                total = total + (reads**2).sum(axis=1)
        # Covariance of N at the lowest of the upper levels, in variances of one node's noise.
        covariance = _covariance_of(self._grid.nodes[self._grid.upper :], self._variances)
        first = self._grid.nodes[upper].start
        count = len(covariance)
        largest = 0.0
        for node in range((self.horizon >> upper) + 1):
            near = np.clip(np.arange(node - 2, node + 3) - first, 0, count - 1)
            around = covariance[np.ix_(near, near)]
            variances = total + ((reads @ around) * reads).sum(axis=1)
            whole = (node << upper) + steps
            possible = (whole > (1 if read == _DIFFERENCE_WEIGHTS else 0)) & (whole <= self.horizon)
            largest = max(largest, float(variances[possible].max(initial=0.0)))
        return largest

    # ------------------------------------------------------------------------------------- noise

    @property
    @override
    def _release_rounding(self) -> float:
        """Bound on how far rounding moves a release, in units of 2^-fraction_bits.

        Half for the release itself, and half for the 2^-grid_bits of each level's noise.
        """
        return 0.5 * (
            1 + len(self._grid.nodes) * 2.0 ** (self.facts.fraction_bits - self.grid_bits)
        )

    @override
    def _reader(self, field: NodeNoise) -> Reader:
        """Return a reader: high levels once for each window, and low levels in parts."""
        return Reader(self, field, self._parts)

    def _parts(self, field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        if not steps:
            return
        size = nodes_per_chunk(field.shape)
        base = min(_SEPARATE_LEVELS, size.bit_length() - 1, len(self._grid.nodes) - 1)
        nothing = np.zeros((0, *field.shape), np.int64)
        every = self._needed_nodes(range(steps.start, steps.stop))
        high = self._down(field, nothing, 0, every[base:], base)
        if base == 0:
            yield high
            return
        for start in range(0, len(steps), size):
            needed = self._needed_nodes(steps[start : start + size])[:base]
            yield self._down(field, high, every[base].start, needed, 0)

    def _needed_nodes(self, nodes: range) -> list[range]:
        """Return, by level, the nodes from which the noise at ``nodes`` is interpolated."""
        needed = [nodes]
        for there in self._grid.nodes[1:]:
            first = needed[-1].start
            last = needed[-1].stop - 1
            first = first // 2 - (first % 2 == 0)
            needed.append(range(max(first, there.start), min(last // 2 + 2, there.stop)))
        return needed

    def _down(
        self, field: NodeNoise, above: Integers, first: int, needed: list[range], level: int
    ) -> NDArray[np.int64]:
        """Return the noise at ``needed[0]``: the nodes' own, plus that of the level above.

        ``above`` is the level above the highest of ``needed``, from the node ``first`` on.
        """
        # Level by level from above. N of single steps is rounded to the grid of releases.
        bits = self.weight_bits
        upper = self._grid.upper
        column = (-1, *(1,) * len(field.shape))
        for drawn_level in reversed(range(level, level + len(needed))):
            nodes = needed[drawn_level - level]
            drawn = field.run(drawn_level, range(nodes.start + 1, nodes.stop + 1))
            coarser = 0 if drawn_level else self.grid_bits - self.facts.fraction_bits
            # Two roundings, each down after half a unit was added, are done at once.
            half = 1 << coarser >> 1
            if drawn_level < upper:
                noise = interpolate(above, first, nodes, 1 << bits - 4)
                noise += drawn
                noise += (1 << bits - 1) + (half << bits)
                noise >>= bits + coarser
            else:
                noise = interpolate(above, first, nodes)  # in units of 1/16
                start = self._grid.nodes[drawn_level].start
                node_weights = self.weights[drawn_level - upper][
                    nodes.start - start : nodes.stop - start
                ]
                weights = node_weights.reshape(column)
                noise = (noise * weights + 16 * drawn + 8 * weights) // (16 * weights)
                noise = (noise + half) >> coarser
            above = noise
            first = nodes.start
        return above


def _climb(read: Floats, nodes: Integers) -> Floats:
    """Carry the weights of nodes in releases up by one level.

    Those of five nodes around p, shape (steps, 5), become those of the nodes q - 2 .. q + 2 of the
    next higher level, where q is p // 2.
    """
    climbed = np.empty_like(read)
    for odd, climb in enumerate(CLIMBING_MATRICES):
        some = (nodes & 1) == odd
        climbed[some] = read[some] @ (climb.T / 16.0)
    return climbed
