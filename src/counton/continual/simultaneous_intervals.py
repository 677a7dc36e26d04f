"""Intervals that hold together: for all steps of a stream, or for several answers at once.

By the union bound (Bonferroni) each of n intervals may fail with an n-th of the allowed
probability: too wide if errors are correlated. So the quantile of the largest ratio of error to
half-width is computed from the joint noise, simulated for many cells without data. The key is
public, so all readers compute the same numbers, and independent of the noise of releases. The
result is below the true quantile with probability at most 10^-6 over the choice of that key.
Ratios, means and quantiles keep the union bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.continual.comparisons import Answer
from counton.continual.counter import Counter
from counton.continual.design import Design
from counton.continual.formulas import Formula, StreamParts, parts_of
from counton.continual.intervals import check_confidence_level
from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key
from counton.privacy import ContributionBound

#: Largest number of simulated cells, of simulated numbers in all, and of those at a time.
_SIMULATED_CELLS = 20_000
_SIMULATED_NUMBERS = 2**26
_NUMBERS_AT_A_TIME = 2**22
#: Smallest number of simulated cells from which the quantile is computed.
_FEWEST_SIMULATED_CELLS = 1_000
#: Probability that the chosen order statistic lies below the true quantile.
FAILURE_PROBABILITY = 1e-6


def stream_noise(
    design: Design, key: Key, cells: int, steps: int, at_a_time: int
) -> Iterator[NDArray[np.float64]]:
    """Yield a stream's noise in data units: ``(n, cells)`` for ``at_a_time`` steps."""
    counts = ContributionBound.add_remove()
    # A stream of counts, whatever the design counts: its releases are in units of its sums.
    bare = Design(
        name=design.name,
        guarantee=design.guarantee,
        contribution=counts,
        shape=(cells,),
        distribution=design.distribution,
        strategy=design.strategy,
    )
    counter = Counter.from_design(bare, key)
    for first in range(0, steps, at_a_time):
        count = min(at_a_time, steps - first)
        noise = counter.release_many(np.zeros((count, cells), np.int64))
        yield design.errors.in_data_units(np.asarray(noise.values, np.float64))


def _known_noise(
    design: Design, cells: int, steps: int, seed: int, *, windows: bool
) -> Iterator[NDArray[np.float64]]:
    """Yield simulated noise of windows or totals, for some steps at a time, under a public key."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        key = InsecureSeededKey(seed)
    before = np.zeros((1, cells))
    chunk = max(1, _NUMBERS_AT_A_TIME // max(cells, 1))
    released_windows = design.strategy.facts.release == "windows"
    for noise in stream_noise(design, key, cells, steps, chunk):
        if windows and not released_windows:
            noise, before = np.diff(noise, axis=0, prepend=before), noise[-1:].copy()
        elif released_windows and not windows:
            noise = np.cumsum(noise, axis=0) + before
            before = noise[-1:].copy()
        yield noise


def narrowing_factor(
    design: Design,
    widths: NDArray[np.float64],
    first: int,
    confidence_level: float,
    *,
    windows: bool,
) -> float:
    """Return a factor, at most 1, of half-widths whose intervals still hold at all steps.

    Args:
        widths: half-widths from step ``first`` on, which hold together by the union bound.
        confidence_level: probability that all errors of one cell are within their half-widths.
        windows: whether they are counts of single windows, not totals.
    """
    steps = first + len(widths) - 1
    cells = min(_SIMULATED_CELLS, _SIMULATED_NUMBERS // max(steps, 1))
    if cells < _FEWEST_SIMULATED_CELLS or not widths.all():
        return 1.0
    largest = np.zeros(cells)
    done = 0
    for noise in _known_noise(design, cells, steps, 0, windows=windows):
        begin = max(first - 1 - done, 0)
        if begin < len(noise):
            first_width = done + begin - (first - 1)
            width = widths[first_width : first_width + len(noise) - begin, None]
            np.maximum(largest, (np.abs(noise[begin:]) / width).max(axis=0), out=largest)
        done += len(noise)
    share = largest_share(largest, confidence_level)
    return 1.0 if share is None else min(share, 1.0)


def largest_share(drawn: NDArray[np.float64], quantile_level: float) -> float | None:
    """Return the smallest simulated number below the quantile with probability <= 10^-6.

    None: there are too few numbers.

    >>> largest_share(np.arange(1000.0), 0.95)
    979.0
    """
    rank = order_above_quantile(len(drawn), quantile_level)
    return None if rank is None else float(np.sort(drawn)[rank - 1])


def order_above_quantile(cells: int, quantile_level: float) -> int | None:
    """Return the ascending rank, from 1, of the number above the ``quantile_level`` quantile.

    It is the smallest rank whose number is below the quantile with probability at most 10^-6. None:
    there are too few numbers.

    >>> order_above_quantile(1000, 0.95), order_above_quantile(100, 0.95)
    (980, None)
    """
    # The order statistic of rank k is below the quantile if k or more draws are: a binomial tail.
    from scipy.stats import binom

    rank = int(binom.isf(FAILURE_PROBABILITY, cells, quantile_level)) + 1
    return rank if rank <= cells else None


def jointly(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers with intervals that hold all at once, with the level of the answers.

    Sums and differences use the joint distribution of their noise. Ratios, means, quantiles, and
    answers from older files, which do not identify their noise, use Bonferroni.

    Args:
        answers: of one level, to questions chosen without looking at the answers.

    Raises:
        InvalidInputError: no answers, different levels, or an answer that is not from a release.

    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> visits = pl.DataFrame({"at": ["2024-03-01", "2024-03-02"], "page": ["home", "shop"]})
    >>> found = release(
    ...     "count", visits, time="at", every="1d", start="2024-03-01", windows=2,
    ...     until="2024-03-03", group_by="page", groups=["home", "shop", "help"],
    ...     guarantee=PureDP(1), state="visits.db",
    ... )
    >>> apart = [found.difference(page, "home") for page in ("shop", "help")]
    >>> all(one.upper < two.upper for one, two in zip(apart, jointly(apart)))
    True
    """
    levels = {answer.confidence_level for answer in answers}
    if len(levels) != 1 or any(answer.asked is None for answer in answers):
        raise InvalidInputError(
            f"{len(answers)} answers have different levels, {sorted(levels)}: give answers of "
            "releases with one level"
        )
    total = sum(answer.at_once for answer in answers)
    missed = (1 - check_confidence_level(levels.pop())) / total
    alone = check_confidence_level(1 - missed)
    joint = [
        _within(answer, *answer.asked.interval(alone))
        for answer in answers
        if answer.asked is not None
    ]
    formulas = [answer.asked.formula for answer in answers if answer.asked is not None]
    linear = {
        index: formula
        for index, (answer, formula) in enumerate(zip(answers, formulas, strict=True))
        if formula is not None and formula.linear and answer.at_once == 1
    }
    if len(linear) > 1:
        halves = np.array([answer.half(alone) for answer in linear.values()])
        halves *= joint_factor([*linear.values()], halves, 1 - missed * len(linear))
        for (index, answer), half in zip(linear.items(), halves.tolist(), strict=True):
            joint[index] = _within(answers[index], *answer.interval_of_half_width(half))
    return joint


def _within(answer: Answer, lower: float, upper: float) -> Answer:
    return replace(answer, lower=lower, upper=upper)


def joint_factor(
    formulas: Sequence[Formula], halves: NDArray[np.float64], confidence_level: float
) -> float:
    """Return a factor, at most 1, of half-widths whose intervals still hold together.

    ``formulas`` are weighted sums of released cells; ``halves`` hold by the union bound.
    """
    streams, grain = parts_of(formulas)
    if any(stream.design.noise_id is None for stream in streams):
        return 1.0  # without identities two streams may share their noise, or not
    sizes = [len(stream.cells) * int(stream.ends.max(initial=0)) for stream in streams]
    draws = min(_SIMULATED_CELLS, _SIMULATED_NUMBERS // max(sum(sizes), 1))
    some = halves > 0
    if draws < _FEWEST_SIMULATED_CELLS or not some.any():
        return 1.0
    errors = np.zeros((len(formulas), draws))
    for index, stream in enumerate(streams):
        errors += _errors_of(stream, draws, index)
    errors = (np.abs(errors) + grain[:, None])[some] / halves[some, None]
    share = largest_share(errors.max(axis=0), confidence_level)
    return 1.0 if share is None else min(share, 1.0)


def _errors_of(stream: StreamParts, draws: int, seed: int) -> NDArray[np.float64]:
    """Simulate the errors of formulas on one stream: ``(formulas, draws)``; ``seed`` is public."""
    index_of_end = {end: index for index, end in enumerate(stream.ends.tolist())}
    count = len(stream.cells)
    steps = int(stream.ends.max(initial=0))
    errors = np.zeros((stream.weights.shape[0], draws))
    totals = _known_noise(stream.design, count * draws, steps, seed, windows=False)
    for step, totals_of_step in enumerate(chain.from_iterable(totals), 1):
        if step in index_of_end:
            errors += stream.weights[:, :, index_of_end[step]] @ totals_of_step.reshape(
                count, draws
            )
    return errors
