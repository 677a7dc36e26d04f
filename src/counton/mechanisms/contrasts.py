"""Differences, sums with signs, ratios and shares of what was released, each with its interval.

Cells have independent noise of one law. Noise of one cell at several steps is correlated, and its
covariances follow from variances of windows: 2 Cov(N_s, N_t) = Var N_s + Var N_t - Var(N_t - N_s).

The interval of a ratio X / Y holds all r for which X - r Y, a sum with signs, may be 0 by its own
interval (Fieller 1954): it needs no approximation, and is the whole line where Y may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import check_integer, quantity
from counton.mechanisms.intervals import check_level, interval_halfwidth
from counton.mechanisms.terms import StreamTerms

#: Bisections of an end of an interval: to float64's last bits.
_HALVINGS = 200


class Part(NamedTuple):
    """What happened in one cell in the steps start + 1 .. stop, so many times.

    >>> Part(-1.0, 0, 7, 2).cell
    2
    """

    weight: float
    start: int
    stop: int
    cell: int


@dataclass(frozen=True)
class Answer:
    """A number computed from what was released, and its interval.

    Attributes:
        value: the estimate.
        std: standard deviation of its noise; of a ratio by linear approximation.
        lower, upper: ends of the interval, infinite where a ratio's divisor may be 0.
        level: probability with which the interval holds the true value, at least, but for a
            ten-thousandth with wide Laplace noise; of all the answers at once that were asked for
            together.
        what: in words.

    >>> Answer(3.25, 1.0, 1.25, 5.25, 0.95, "home minus shop").interval()
    (1.25, 5.25)
    """

    value: float
    std: float
    lower: float
    upper: float
    level: float
    what: str = "combination"

    def interval(self) -> tuple[float, float]:
        """Its ends."""
        return self.lower, self.upper

    def table_columns(self) -> dict[str, NDArray[Any]]:
        """One row as arrays: what, estimate, std, lower, upper."""
        return {
            "what": np.array([self.what]),
            "estimate": np.array([self.value]),
            "std": np.array([self.std]),
            "lower": np.array([self.lower]),
            "upper": np.array([self.upper]),
        }

    def table(self) -> Any:
        """One row as a polars data frame.

        Raises:
            MissingExtra: polars is not installed.
        """
        from counton.columns import data_frame

        return data_frame(self.table_columns())

    def describe(self) -> str:
        """The number and its interval, in words, to the digits that its error leaves."""
        value, lower, upper = (
            quantity(one, self.std)
            if math.isfinite(one) and math.isfinite(self.std)
            else f"{one:g}"
            for one in (self.value, self.lower, self.upper)
        )
        return (
            f"{self.what}: {value}, and with probability {100 * self.level:g}% between "
            f"{lower} and {upper}"
        )

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.columns import html

        return html(self.describe(), self.table_columns())


def combined(
    terms: StreamTerms,
    parts: Sequence[Part],
    total: Callable[[int, int], float],
    level: float = 0.95,
    *,
    at_once: int = 1,
    what: str = "combination",
) -> Answer:
    """A sum of parts with weights.

    Args:
        terms: of the stream.
        parts: what is added up.
        total: the released total of a cell after a step, in data units; 0 after step 0.
        level: probability with which the intervals of all ``at_once`` answers hold, at least.
        at_once: so many answers are asked for together (Bonferroni).
        what: in words.

    Raises:
        InvalidInput: no parts, weights that are no finite numbers, or a level out of range.
    """
    one = _alone(level, at_once)
    noise = _Noise(terms, parts, one)
    value = math.fsum(
        part.weight * (total(part.cell, part.stop) - total(part.cell, part.start)) for part in parts
    )
    half = noise.half([part.weight for part in parts])
    std = noise.std([part.weight for part in parts])
    return Answer(value, std, value - half, value + half, float(level), what)


def ratio(
    terms: StreamTerms,
    above: Sequence[Part],
    below: Sequence[Part],
    total: Callable[[int, int], float],
    level: float = 0.95,
    *,
    at_once: int = 1,
    what: str = "ratio",
) -> Answer:
    """One sum of parts over another; see `combined`.

    The interval holds with probability ``level`` at least, however small the numbers are.
    """
    one = _alone(level, at_once)
    x, y = (combined(terms, parts, total, level).value for parts in (above, below))
    noise = _Noise(terms, [*above, *below], one)

    def weights(r: float) -> list[float]:
        return [part.weight for part in above] + [-r * part.weight for part in below]

    def outside(r: float) -> bool:
        return abs(x - r * y) > noise.half(weights(r), full=True)

    divisor = [0.0] * len(above) + [part.weight for part in below]
    if y == 0 or abs(y) <= noise.half(divisor, full=True):
        std = math.inf if y == 0 else noise.std(weights(x / y)) / abs(y)
        return Answer(x / y if y else math.nan, std, -math.inf, math.inf, float(level), what)
    value = x / y
    std = noise.std(weights(value)) / abs(y)
    ends = []
    for sign in (-1, 1):
        step = max(std, abs(value) * 2**-40, 1e-300)
        while not outside(value + sign * step):
            step *= 2
        inner, outer = 0.0, step
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            if middle in (inner, outer):
                break
            if outside(value + sign * middle):
                outer = middle
            else:
                inner = middle
        ends.append(value + sign * outer)
    return Answer(value, std, ends[0], ends[1], float(level), what)


def _alone(level: float, at_once: int) -> float:
    """The level of one interval if so many are to hold together."""
    level = check_level(level)
    return check_level(1 - (1 - level) / check_integer("at_once", at_once, 1))


class _Noise:
    """Noise of sums of parts, with any weights."""

    def __init__(self, terms: StreamTerms, parts: Sequence[Part], level: float) -> None:
        if not parts:
            raise InvalidInput("nothing is added up; give at least one group and its weight")
        self._terms, self._parts, self._level = terms, parts, level
        strategy = terms.strategy
        ends = sorted({end for part in parts for end in (part.start, part.stop)} - {0})
        self._place = {end: place for place, end in enumerate(ends)}
        self._cells = sorted({part.cell for part in parts})
        at = np.array(ends, dtype=np.int64)
        first = np.minimum(at[:, None], at[None, :])
        last = np.maximum(at[:, None], at[None, :])
        apart = np.zeros(first.shape)
        if len(at):
            apart = strategy.window_noise_variance(terms.law, first.ravel(), last.ravel()).reshape(
                first.shape
            )
        alone = np.array(
            strategy.window_noise_variance(terms.law, np.zeros_like(at), at) if len(at) else []
        )
        self._covariance = (alone[:, None] + alone[None, :] - apart) / 2
        self._rounding = strategy.window_rounding(np.zeros_like(at), at) if len(at) else np.zeros(0)
        self._unit = float(terms.resolution)
        bits = 2.0**-strategy.lattice_bits
        self._full = float(strategy.largest_reads(at).max()) * bits if len(at) else 0.0
        law = terms.law
        self._node = law.std  # of a node read at weight 1, in lattice cells
        self._coarse = 1.0 if law.variance < 400 else 0.5

    def _at_ends(self, weights: Sequence[float]) -> NDArray[np.float64]:
        """Weights of totals by cell and end."""
        found = np.zeros((len(self._cells), len(self._place)))
        for part, weight in zip(self._parts, weights, strict=True):
            if not math.isfinite(weight):
                raise InvalidInput(f"a weight is {weight}; give finite numbers")
            row = self._cells.index(part.cell)
            for end, sign in ((part.stop, 1), (part.start, -1)):
                if end:
                    found[row, self._place[end]] += sign * weight
        return found

    def _variance(self, at: NDArray[np.float64]) -> float:
        return max(float(np.einsum("ci,ij,cj->", at, self._covariance, at)), 0.0)

    def std(self, weights: Sequence[float]) -> float:
        """Standard deviation, in data units."""
        return math.sqrt(self._variance(self._at_ends(weights))) * self._unit

    def half(self, weights: Sequence[float], *, full: bool = False) -> float:
        """Half-width of the interval, in data units.

        As `counton.mechanisms.window_halfwidths` of fractional weights: the larger of a normal
        law's quantile and that of as many equal nodes as have the variance where each has the
        largest weight that any can have.

        Args:
            weights: of the parts.
            full: as if a single node had all of the variance, whose tails are the heaviest, so
                that the half-width is a norm of the weights.
        """
        at = self._at_ends(weights)
        std = math.sqrt(self._variance(at))
        by_cell = dict.fromkeys(self._cells, 0.0)
        for part, weight in zip(self._parts, weights, strict=True):
            by_cell[part.cell] += abs(weight)
        largest = self._full * max(by_cell.values())
        jump = self._full * max(map(abs, weights))
        if not std and not largest:
            return 0.0
        nodes = 1
        if not full and largest and self._node:
            nodes = max(int(std**2 / (largest * self._node) ** 2 * (1 + 1e-9)), 1)
        heavy = 0.0
        if self._node:
            heavy = interval_halfwidth(self._terms.law, nodes, self._level) / (
                math.sqrt(nodes) * self._node
            )
        quantile = max(NormalDist().inv_cdf((1 + self._level) / 2), heavy)
        cell = 2.0**-self._terms.strategy.fraction_bits
        rounding = float((np.abs(at) * self._rounding).sum()) * cell
        return (quantile * std + self._coarse * jump + rounding) * self._unit
