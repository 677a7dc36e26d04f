"""All steps at once: how much narrower than Bonferroni a band is, by the joint law of its noise.

Noise of a stream's steps is correlated, so a band that allows for each step by itself is too wide.
How wide it has to be is a quantile of the largest error over all steps, whose law is that of the
stream's own strategy and draws. It is found by drawing that noise for many cells that count
nothing, under a key that everybody knows: the same for every reader, and of nobody's data. A
quantile of a sample is uncertain; taken is an order statistic that lies below the true one with
probability 10^-6 at most over the choice of that key.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key
from counton.numbers.counter import Counter
from counton.numbers.design import Design
from counton.privacy import Contribution

#: Cells that are drawn, at most; numbers of all of them together, and at a time.
_DRAWN, _MOST_DRAWN, _AT_A_TIME = 20_000, 2**26, 2**22
#: Fewer than these say too little.
_FEWEST = 1_000
#: Probability that the order statistic lies below the quantile.
_UNLUCKY = 1e-6


def fresh_noise(terms: Design, cells: int, steps: int) -> NDArray[np.float64]:
    """As `noise_alone`, of all steps, under a key that nobody else has or will have."""
    (found,) = noise_alone(terms, Key.generate(), cells, steps, steps)
    return found


def noise_alone(
    terms: Design, key: Key, cells: int, steps: int, at_a_time: int
) -> Iterator[NDArray[np.float64]]:
    """What a stream of these terms releases of cells that count nothing.

    Yields:
        Noise in data units, shape ``(steps, cells)``.
    """
    counts = Contribution.add_remove()
    # Of a stream of counts, whatever these terms are of: what it releases is in units of its sums.
    bare = Design(
        name=terms.name,
        guarantee=terms.guarantee,
        contribution=counts,
        shape=(cells,),
        law=terms.law,
        strategy=terms.strategy,
    )
    counter = Counter.of(bare, key)
    for first in range(0, steps, at_a_time):
        count = min(at_a_time, steps - first)
        found = counter.release_many(np.zeros((count, cells), np.int64))
        yield terms.in_data_units(np.asarray(found.values, np.float64))


def narrower(
    terms: Design, widths: NDArray[np.float64], first: int, level: float, *, windows: bool
) -> float:
    """The factor, at most 1, by which half-widths may shrink that hold at all steps together.

    Args:
        widths: half-widths at consecutive steps that hold for all of them by the union bound.
        first: the first of these steps.
        level: probability with which one cell is to be within, at all of these steps.
        windows: whether they are of windows' own numbers, and not of totals.

    >>> from counton import Counter, ZCDP
    >>> from counton.numbers import halfwidths
    >>> from counton.strategies import KAry
    >>> terms = Counter(KAry(31, 3), ZCDP(0.01), key=Key.generate(), name="t").design
    >>> widths = halfwidths(terms.strategy, terms.law, range(1, 32), 1 - 0.05 / 31)
    >>> 0.85 < narrower(terms, widths, 1, 0.95, windows=False) < 1
    True
    """
    steps = first + len(widths) - 1
    cells = min(_DRAWN, _MOST_DRAWN // max(steps, 1))
    if cells < _FEWEST or not widths.all():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        key = InsecureSeededKey(0)
    largest, before, done = np.zeros(cells), np.zeros(cells), 0
    totals = terms.strategy.workload == "totals"
    chunk = max(1, _AT_A_TIME // cells)
    for noise in noise_alone(terms, key, cells, steps, chunk):
        if windows == totals:  # windows of totals, or totals of windows
            if windows:
                last = noise[-1].copy()
                noise = np.diff(noise, axis=0, prepend=before[None])
            else:
                noise = np.cumsum(noise, axis=0) + before
                last = noise[-1].copy()
            before = last
        begin = max(first - 1 - done, 0)
        if begin < len(noise):
            at = done + begin - (first - 1)
            width = widths[at : at + len(noise) - begin, None]
            np.maximum(largest, (np.abs(noise[begin:]) / width).max(axis=0), out=largest)
        done += len(noise)
    share = largest_share(largest, level)
    return 1.0 if share is None else min(share, 1.0)


def largest_share(drawn: NDArray[np.float64], level: float) -> float | None:
    """An order statistic that is hardly ever below the quantile; None: too few were drawn.

    >>> largest_share(np.arange(1000.0), 0.95)
    979.0
    """
    place = _order(len(drawn), level)
    return None if place is None else float(np.sort(drawn)[place - 1])


def _order(cells: int, level: float) -> int | None:
    """Which of this many, in ascending order, is hardly ever below the quantile; None: not even the
    last one.

    The one at place k is below it where k or more are: a binomial tail.

    >>> _order(1000, 0.95), _order(100, 0.95)
    (980, None)
    """
    from scipy.stats import binom

    place = int(binom.isf(_UNLUCKY, cells, level)) + 1
    return place if place <= cells else None
