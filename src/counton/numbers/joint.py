"""Intervals that hold together: all steps of a stream, or several answers at once.

By the union bound (Bonferroni) each of n intervals may miss with an n-th of the allowed
probability. This is too wide if errors are correlated, as those of a stream's steps are, and those
of answers that share noise. So the quantile of the largest error over its half-width is computed
from the joint noise. This noise is drawn under a public key, for many cells that count nothing: all
readers draw the same, and it is nobody's noise. The result is below the true quantile with
probability at most 10^-6 over the choice of that key.

Only sums of cells with known weights have joint intervals. Ratios, means and quantiles keep the
union bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key
from counton.numbers.contrasts import Answer
from counton.numbers.counter import Counter
from counton.numbers.design import Design
from counton.numbers.formulas import Formula, StreamParts, parts_of
from counton.numbers.intervals import check_level
from counton.privacy import Contribution

#: Most cells that are drawn; most numbers of all of them together, and at a time.
_DRAWN, _MOST_DRAWN, _AT_A_TIME = 20_000, 2**26, 2**22
#: With fewer cells the quantile is not computed.
_FEWEST = 1_000
#: Probability that the order statistic lies below the quantile.
UNLUCKY = 1e-6


def fresh_noise(terms: Design, cells: int, steps: int) -> NDArray[np.float64]:
    """Draw the noise of all releases of a stream, as an example: shape ``(steps, cells)``.

    The key is fresh and then forgotten; the noise is in data units.
    """
    (found,) = noise_alone(terms, Key.generate(), cells, steps, steps)
    return found


def noise_alone(
    terms: Design, key: Key, cells: int, steps: int, at_a_time: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the noise of a stream under a key, some steps at a time.

    Yields:
        Noise in data units, shape ``(steps, cells)``: the releases of cells that count nothing.
    """
    counts = Contribution.add_remove()
    # A stream of counts, whatever the terms count: its releases are in units of its sums.
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


def _known_noise(
    terms: Design, cells: int, steps: int, seed: int, *, windows: bool
) -> Iterator[NDArray[np.float64]]:
    """Yield noise of a stream under the public key of ``seed``, some steps at a time.

    With ``windows`` it is the noise of each step's own count, else of running totals.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        key = InsecureSeededKey(seed)
    before, chunk = np.zeros((1, cells)), max(1, _AT_A_TIME // max(cells, 1))
    released_windows = terms.strategy.facts.workload == "windows"
    for noise in noise_alone(terms, key, cells, steps, chunk):
        if windows and not released_windows:
            noise, before = np.diff(noise, axis=0, prepend=before), noise[-1:].copy()
        elif released_windows and not windows:
            noise = np.cumsum(noise, axis=0) + before
            before = noise[-1:].copy()
        yield noise


def narrower(
    terms: Design, widths: NDArray[np.float64], first: int, level: float, *, windows: bool
) -> float:
    """Return a factor, at most 1: half-widths times this factor still hold at all steps together.

    Args:
        widths: half-widths at consecutive steps that hold for all of them by the union bound.
        first: the first of these steps.
        level: probability that one cell is within its interval at all of these steps.
        windows: True for counts of single windows, False for running totals.

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
    largest, done = np.zeros(cells), 0
    for noise in _known_noise(terms, cells, steps, 0, windows=windows):
        begin = max(first - 1 - done, 0)
        if begin < len(noise):
            at = done + begin - (first - 1)
            width = widths[at : at + len(noise) - begin, None]
            np.maximum(largest, (np.abs(noise[begin:]) / width).max(axis=0), out=largest)
        done += len(noise)
    share = largest_share(largest, level)
    return 1.0 if share is None else min(share, 1.0)


def largest_share(drawn: NDArray[np.float64], level: float) -> float | None:
    """Return the least of the drawn numbers that is almost certainly above the quantile of
    ``level``.

    It is below the quantile with probability at most 10^-6. None: there are too few numbers.

    >>> largest_share(np.arange(1000.0), 0.95)
    979.0
    """
    place = order_above_quantile(len(drawn), level)
    return None if place is None else float(np.sort(drawn)[place - 1])


def order_above_quantile(cells: int, level: float) -> int | None:
    """Return the rank of a drawn number that is almost certainly above the quantile of ``level``.

    Of ``cells`` drawn numbers in ascending order, the number of this rank, counted from 1, is below
    the quantile with probability at most 10^-6. None: there are too few numbers.

    >>> order_above_quantile(1000, 0.95), order_above_quantile(100, 0.95)
    (980, None)
    """
    # The order statistic of rank k is below the quantile if k or more draws are: a binomial tail.
    from scipy.stats import binom

    place = int(binom.isf(UNLUCKY, cells, level)) + 1
    return place if place <= cells else None


def jointly(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers with wider intervals, which all hold at once with their common level.

    Sums and differences of counts use the joint distribution of their noise. Ratios, means and
    quantiles use Bonferroni. If one answer was read from an older file, which does not identify its
    noise, all use Bonferroni.

    Args:
        answers: answers of one level, to questions chosen without looking at the answers.

    Raises:
        InvalidInput: no answers, several levels, or an answer that was not read from a release.

    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> visits = pl.DataFrame({"at": ["2024-03-01", "2024-03-02"], "page": ["home", "shop"]})
    >>> found = release(
    ...     "count", visits, time="at", every="1d", start="2024-03-01", steps=2, until="2024-03-03",
    ...     by="page", domain=["home", "shop", "help"], guarantee=PureDP(1),
    ...     state="visits.db",
    ... )
    >>> apart = [found.difference(page, "home") for page in ("shop", "help")]
    >>> all(one.upper < two.upper for one, two in zip(apart, jointly(apart)))
    True
    """
    levels = {one.level for one in answers}
    if len(levels) != 1 or any(one.asked is None for one in answers):
        raise InvalidInput(
            f"{len(answers)} answers have different levels, {sorted(levels)}: give answers of "
            "releases with one level"
        )
    total = sum(one.at_once for one in answers)
    missed = (1 - check_level(levels.pop())) / total
    alone = check_level(1 - missed)
    found = [_within(one, *one.asked.interval(alone)) for one in answers if one.asked is not None]
    formulas = [one.asked.formula for one in answers if one.asked is not None]
    linear = {
        place: formula
        for place, (one, formula) in enumerate(zip(answers, formulas, strict=True))
        if formula is not None and formula.linear and one.at_once == 1
    }
    if len(linear) > 1:
        halves = np.array([one.half(alone) for one in linear.values()])
        halves *= joint_factor([*linear.values()], halves, 1 - missed * len(linear))
        for (place, one), half in zip(linear.items(), halves.tolist(), strict=True):
            found[place] = _within(answers[place], *one.around(half))
    return found


def _within(one: Answer, lower: float, upper: float) -> Answer:
    return replace(one, lower=lower, upper=upper)


def joint_factor(formulas: Sequence[Formula], halves: NDArray[np.float64], level: float) -> float:
    """Return a factor, at most 1: half-widths times this factor still hold for all formulas
    together.

    Args:
        formulas: sums of cells.
        halves: their half-widths, which hold together by the union bound.
        level: probability that all hold.
    """
    streams, grain = parts_of(formulas)
    if any(one.design.noise_id is None for one in streams):
        return 1.0  # without identities two streams may share their noise, or not
    sizes = [len(one.cells) * int(one.ends.max(initial=0)) for one in streams]
    draws = min(_DRAWN, _MOST_DRAWN // max(sum(sizes), 1))
    some = halves > 0
    if draws < _FEWEST or not some.any():
        return 1.0
    errors = np.zeros((len(formulas), draws))
    for place, one in enumerate(streams):
        errors += _errors_of(one, draws, place)
    errors = (np.abs(errors) + grain[:, None])[some] / halves[some, None]
    share = largest_share(errors.max(axis=0), level)
    return 1.0 if share is None else min(share, 1.0)


def _errors_of(one: StreamParts, draws: int, seed: int) -> NDArray[np.float64]:
    """Draw errors of formulas from one stream's noise: shape ``(formulas, draws)``."""
    wanted = {end: place for place, end in enumerate(one.ends.tolist())}
    count, steps = len(one.cells), int(one.ends.max(initial=0))
    errors = np.zeros((one.weights.shape[0], draws))
    totals = _known_noise(one.design, count * draws, steps, seed, windows=False)
    for step, each in enumerate(chain.from_iterable(totals), 1):
        if step in wanted:
            errors += one.weights[:, :, wanted[step]] @ each.reshape(count, draws)
    return errors
