"""Section 6: random inputs are not easier. The bound, and what mechanisms do, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from counton.base.distributions import DiscreteLaplace
from counton.strategies import Binary, StreamStrategy
from papers.elders.numbers import best_tree, full_tree, printed_error
from papers.evidence import Comparison
from papers.simulation import Measured, errors

TREE = "Algorithm 2, best odd k"
BINARY = "binary mechanism"
#: Probability with which the theorem asks for a small error.
SUCCESS = 0.75
#: Powers of two that are measured, and runs of each.
_QUICK = (range(6, 13, 2), 200)
_FULL = (range(6, 17, 2), 1000)


class Largest(NamedTuple):
    """The largest error over T steps, over many runs.

    Attributes:
        quantile: what three of four runs stay within.
        lower: of its 95% interval.
        upper: of its 95% interval.
        runs: how many there were.
    """

    quantile: float
    lower: float
    upper: float
    runs: int


def least_error(horizon: float, epsilon: float = 1.0) -> float:
    """The proof's bound for T steps: k >= ln(m / 2) / epsilon, alpha = k / 4, m = sqrt(T).

    >>> round(least_error(2**16), 3)
    1.213
    """
    return math.log(math.sqrt(horizon) / 2) / (4 * epsilon)


def distance_bound(horizon: float) -> float:
    """Lemma 6.4 before its last step: how far the constructed streams are from random ones."""
    blocks = math.sqrt(horizon)
    last = 6 * math.sqrt(2 / math.pi) / math.pow(blocks, 0.1)
    return 2 * blocks * math.exp(-blocks / 8) + last


def measure(*, quick: bool) -> Mapping[tuple[str, int], Largest]:
    """Largest errors at epsilon = 1 by mechanism and T.

    The error of these mechanisms is their noise, drawn independently of the input: it is the same
    on random inputs as on all others, so that no input has to be drawn.
    """
    powers, runs = _QUICK if quick else _FULL
    return {
        (name, 2**power): _largest(strategy, runs, f"{name}, {power}")
        for power in powers
        for name, strategy in ((TREE, best_tree("odd", 2**power)), (BINARY, Binary(2**power)))
    }


def _largest(strategy: StreamStrategy, runs: int, name: str) -> Largest:
    distribution = DiscreteLaplace(strategy.l1_sensitivity())
    found = np.sort(
        np.concatenate(
            [np.abs(part).max(axis=0) for part in errors(strategy, distribution, runs, name)]
        )
    )
    # How many runs stay below the quantile is binomial.
    around = 1.96 * math.sqrt(runs * SUCCESS * (1 - SUCCESS))
    ranks = [round(runs * SUCCESS + shift) - 1 for shift in (0, -around, around)]
    middle, low, high = (float(found[rank]) for rank in ranks)
    return Largest(middle, low, high, runs)


def rows(measured: Mapping[tuple[str, int], Largest]) -> tuple[Comparison, ...]:
    """Comparisons of section 6, and the error of Lemma 4.7 measured."""
    return (*_lemmas(), *_bounds(measured), _simulated())


def _lemmas() -> Iterator[Comparison]:
    for block in (64, 256):
        horizon = block**2
        outside = 2 * sum(math.comb(block, ones) for ones in range(block // 4)) / 2**block
        yield Comparison(
            "Lemma 6.2", f"distance of x(0) from random bits, T = {horizon:,}",
            f"{2 * block * math.exp(-block / 8):.6g}",
            -math.expm1(block * math.log1p(-outside)), at_most=True,
            note="printed is the value of the bound; computed is exact",
        )  # fmt: skip
    first = next(t for t in range(16, 10**4) if distance_bound(t) <= 10 * t ** (-1 / 20))
    yield Comparison(
        "Lemma 6.4", "first T at which the last inequality holds, at most", "400", first,
        at_most=True,
    )  # fmt: skip


def _bounds(measured: Mapping[tuple[str, int], Largest]) -> Iterator[Comparison]:
    for (name, horizon), found in measured.items():
        if name == TREE:
            bound = least_error(horizon)
            yield Comparison(
                "Theorem 1.4",
                f"bound over Algorithm 2's error at success 3/4, T = 2^{horizon.bit_length() - 1}",
                "1", bound / found.quantile, at_most=True, unproved=True,
                note=f"ln(sqrt(T) / 2) / 4 = {bound:.3f} at epsilon = 1; the proof needs "
                f"10 T^(-1/20) <= 1/12, T from 4 * 10^41 on; measured "
                f"{found.quantile:.0f}, 95% interval {found.lower:.0f} to {found.upper:.0f}, "
                f"{found.runs} runs",
            )  # fmt: skip


def _simulated() -> Comparison:
    """Lemma 4.7 with drawn noise: at epsilon = 1/10 integers hardly differ from real numbers."""
    tree = full_tree("odd", 19, 2)
    parts = errors(tree, DiscreteLaplace(tree.l1_sensitivity() * 10), 8000, "Lemma 4.7")
    found = Measured.of(np.concatenate([np.mean(part**2, axis=0) for part in parts]))
    return Comparison(
        "Lemma 4.7", "mean squared error, k = 19, T = 180, epsilon = 0.1, measured",
        f"{printed_error('odd', 19, 2) * 100:.6g}", found.mean, tolerance=found.half,
        note=f"the value of the printed formula; {found.told()}",
    )  # fmt: skip
