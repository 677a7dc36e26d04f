"""Tests of the errors that a strategy states: largest weights, rounding, means."""

import math
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.distributions import (
    LARGEST_SPREAD,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseDistribution,
)
from counton.base.errors import InvalidInputError
from counton.base.expiry import Expiry
from counton.strategies import EndlessStrategy, Metric, StreamStrategy, noise_variance
from counton.strategies.joint_errors import released_variance
from counton.strategies.strategy import ReleaseForm, node_distribution, window_rounding
from counton.testing import HashedNoise
from counton.testing.node_noise import noise_of
from counton.testing.rows import (
    accepts,
    count_steps,
    largest_entry,
    names_subject,
    node_variance,
    reads_of,
    require,
    rows_by_step,
    spread,
)

_METRICS: tuple[Metric, ...] = ("mean", "max")
_FORMS: tuple[ReleaseForm, ...] = ("totals", "windows", "both")
#: Largest mean square of rounding, in squared data units, that a strategy need not state.
_FINE = 4.0**-4
#: Noise distributions under which errors are compared: wide ones, and ones on a few integers.
WIDE: tuple[NoiseDistribution, ...] = (
    DiscreteLaplace(Fraction(2**30)),
    DiscreteGaussian(Fraction(2**60)),
)
NARROW = DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(1, 3))
#: Allowed relative error of variances, which are sums of some hundred floats.
NEAR = 1e-9


@names_subject
def check_noise_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """`noise_variance` is the sum, over all nodes, of the squared weight times the variance of the
    node's noise, plus up to ``rounding_variance`` for each release.

    Releases and differences of two are checked, under wide and narrow noise.
    """
    reads = reads_of(strategy, count_steps(strategy, steps))
    levels = sorted(set(reads.levels.tolist()))
    first, last = reads.ends()
    starts = reads.steps[first]
    stops = reads.steps[last]
    squares = reads.between(first, last) ** 2
    by_level = np.zeros((len(levels), len(first)))
    for place, level in enumerate(levels):
        by_level[place] = squares[:, reads.levels == level].sum(axis=1)
    windows = strategy.facts.release == "windows"
    ends = np.where(windows, stops - starts, (starts > 0) * 1 + (stops > starts))
    more = np.asarray(ends * strategy.facts.rounding_variance, np.float64)
    # Measurements are integers in this unit; narrow noise is a few units of data at most.
    unit, (laplace, gaussian) = 1 << strategy.facts.lattice_bits, NARROW
    narrow = (
        DiscreteLaplace(min(laplace.scale * unit, Fraction(LARGEST_SPREAD))),
        DiscreteGaussian(gaussian.sigma_squared * unit**2),
    )
    for distribution in (*WIDE, *narrow):
        if not accepts(strategy, distribution):
            continue
        distributions = [node_distribution(strategy, distribution, level) for level in levels]
        widths = np.array([distribution.variance for distribution in distributions])
        exact = widths @ by_level / 4.0**strategy.facts.lattice_bits
        found = noise_variance(strategy, distribution, stops, since=starts)
        _compare(
            f"noise_variance() between two steps, with the noise {distribution}",
            found, exact, more, stops, starts,
        )  # fmt: skip
        single = first == (last - 1 if windows else 0)
        single &= last > 0
        found = noise_variance(strategy, distribution, stops[single].tolist())
        names = (
            f"noise_variance() with the noise {distribution}",
            found,
            exact[single],
            more[single],
        )
        _compare(*names, stops[single], starts[single])


def _compare(
    what: str, found: Any, exact: Floats, more: Floats, stops: Integers, starts: Integers
) -> None:
    found = np.asarray(found)
    room = NEAR * np.abs(exact) + 1e-13 * float(exact.max(initial=0.0))
    wrong = (found < exact - room) | (found > exact + more + room)
    if found.shape != exact.shape or wrong.any():
        at = int(np.argmax(wrong))
        where = f"{what} from {starts[at]} to {stops[at]}"
        require(False, f"{where} returns {found.flat[at]}, but rows give {exact[at]}")


@names_subject
def check_window_variance(strategy: StreamStrategy, steps: int | None = None) -> None:
    """``variance`` with ``since`` is that of a window's released count: a difference of two totals,
    or a sum of single steps. With ``facts.unit_rows`` nodes have the weights 1 and -1 in it.
    """
    # Up to 64 steps all pairs of ends are tried (some if weights are fractions), beyond that some
    # pairs.
    count = count_steps(strategy, steps)
    reads = reads_of(strategy, count)
    first, last = reads.ends(64)
    starts = reads.steps[first]
    stops = reads.steps[last]
    weights = reads.between(first, last)
    units = np.isin(weights, (-1, 0, 1)).all()
    require(units or not strategy.facts.unit_rows, "a window has weights other than 1 and -1")
    width = cache(partial(node_variance, strategy))
    widths = np.array([width(level) for level in reads.levels.tolist()])
    exact = weights**2 @ widths
    claimed = strategy.variance(stops, since=starts)
    wrong = ~np.isclose(claimed, exact, rtol=1e-11, atol=1e-13)
    at = int(np.argmax(wrong))
    message = f"variance() of the window from {starts[at]} to {stops[at]} returns {claimed[at]}"
    require(not wrong.any(), f"{message}, but its rows give {exact[at]}")
    again = strategy.variance(stops[::-3], since=starts[::-3])
    same = np.allclose(again, claimed[::-3], 1e-12)
    require(same, "variance() of a window changes with the other windows of the call")


@names_subject
def check_largest_reads(strategy: StreamStrategy, steps: int | None = None) -> None:
    """`largest_reads` is an upper bound on the weight of any one node's noise in a release, on
    which half-widths of intervals depend.

    If nodes have noise of different widths, each weight is multiplied by the standard deviation of
    its node's noise, relative to the calibrated noise; the bound holds for Laplace noise or for
    Gaussian noise. With a horizon, the bound for the first step is at least the largest weight in
    any release, and above 2 at most twice this.
    """
    reads = reads_of(strategy, count_steps(strategy, steps))
    last = np.arange(1, len(reads.steps))
    first = last - 1 if strategy.facts.release == "windows" else np.zeros_like(last)
    weights = np.abs(reads.between(first, last))
    if not isinstance(strategy, EndlessStrategy):
        most = float(weights.max(initial=0.0))
        claimed = float(strategy.largest_reads(np.ones(1, np.int64))[0])
        right = most * (1 - NEAR) <= claimed <= 2 * max(most, 1.0)
        require(right, f"largest_read is {claimed}, but a release has the weight {most}")
    enough = []
    for distribution in WIDE:
        try:
            # standard deviations of nodes' noise at each of the levels, divided by that of the law
            known = {
                level: node_distribution(strategy, distribution, level).std / distribution.std
                for level in set(reads.levels.tolist())
            }
            found = np.array([known[level] for level in reads.levels.tolist()], np.float64)
        except InvalidInputError:
            continue
        wide = np.maximum.accumulate((weights * found).max(axis=1, initial=0.0))
        claims = strategy.largest_reads(reads.steps[last])
        enough.append(claims.shape == wide.shape and bool((claims >= wide * (1 - 1e-6)).all()))
    require(any(enough) or not enough, "largest_reads is below a weight in a release")


@names_subject
def check_window_rounding(strategy: StreamStrategy, steps: int | None = None) -> None:
    """Rounding changes the released count of a window by at most `window_rounding`.

    For single releases, the mean square of the rounding error is also at most 1.5 times the
    strategy's ``rounding_variance``, plus 1/256 of a squared data unit.
    """
    count = count_steps(strategy, steps)
    reads = reads_of(strategy, count)
    table = HashedNoise((40,), spread=1000 * largest_entry(strategy, count))
    noise = strategy.noise(table, range(1, count + 1))
    z = noise_of(table, reads.nodes).astype(np.float64)
    unit = 2.0 ** (strategy.facts.fraction_bits - strategy.facts.lattice_bits)
    if strategy.facts.release == "windows":
        shown = np.concatenate([np.zeros((1, 40), np.int64), np.cumsum(noise, axis=0)])
    else:
        shown = np.concatenate([np.zeros((1, 40), np.int64), noise])
    first, last = reads.ends()
    starts = reads.steps[first]
    stops = reads.steps[last]
    off = np.abs(shown[stops] - shown[starts] - reads.between(first, last) @ z * unit)
    allowed = window_rounding(strategy, starts, stops)
    wrong = off.max(axis=1) > allowed * 1.00001 + 1e-12 * np.abs(shown).max(initial=0)
    at = int(np.argmax(wrong))
    message = f"rounding moves the release from {starts[at]} to {stops[at]} by {off[at].max()}"
    require(not wrong.any(), f"{message}, but window_rounding allows {allowed[at]}")
    single = (
        (starts == 0) & (stops > 0) if strategy.facts.release == "totals" else stops == starts + 1
    )
    if single.any():
        square = float((off[single] ** 2).mean()) / 4.0**strategy.facts.fraction_bits
        stated = strategy.facts.rounding_variance
        message = f"rounding has the mean square {square}, but facts.rounding_variance is {stated}"
        require(square <= _FINE + 1.5 * stated, message)


@names_subject
def check_released_variance(strategy: StreamStrategy) -> None:
    """`released_variance` is the mean and the maximum of the variances of all released numbers:
    totals, counts of single steps, or both.
    """
    count = count_steps(strategy, None)
    ends = np.arange(count + 1)
    totals = strategy.variance(ends[1:])
    alone = strategy.variance(ends[1:], since=ends[:-1])
    if strategy.facts.release == "windows":
        alone = totals
    of = {"totals": totals, "windows": alone, "both": np.concatenate([totals, alone])}
    for form in _FORMS:
        for metric in _METRICS:
            true = float(of[form].max() if metric == "max" else of[form].mean())
            claimed = released_variance(strategy, metric, form)
            message = f"released_variance({metric}, {form}) is {claimed}, but releases have {true}"
            require(math.isclose(claimed, true, rel_tol=1e-12), message)


@names_subject
def check_endless_variance(strategy: EndlessStrategy, steps: int | None = None) -> None:
    """``mean_variance`` and ``largest_variance`` of a strategy without a horizon are the mean and
    the maximum of the variances of the first releases, of some noise and in units of a node's.
    """
    # The planner ranks strategies by them.
    whole = count_steps(strategy, steps)
    for count in sorted({1, whole // 2, whole} - {0}):
        first = range(1, count + 1)
        variances: list[tuple[NoiseDistribution | None, Floats]] = [
            (None, strategy.variance(first)),
            *(
                (distribution, noise_variance(strategy, distribution, first))
                for distribution in WIDE
                if accepts(strategy, distribution)
            ),
        ]
        for distribution, variance in variances:
            for name, claim, true in (
                ("mean_variance", strategy.mean_variance, variance.mean()),
                ("largest_variance", strategy.largest_variance, variance.max()),
            ):
                found = claim(count, distribution)
                message = f"{name}({count}, {distribution}) is {found}, but releases have {true}"
                require(math.isclose(found, float(true), rel_tol=1e-6), message)


@names_subject
def check_expiry(strategy: StreamStrategy, steps: int | None = None) -> None:
    """The noise of a strategy whose guarantee weakens as data ages is that of its ``expiry``, by
    which privacy losses are computed; others pass.

    `Expiry` states a delay, and noise for each dyadic interval of steps. A release adds up the
    noise of the intervals that contain the last step that it counts, each once, and no other, at
    least as wide as stated.
    """
    # The intervals are [j 2^l, (j + 1) 2^l - 1], with j from 1 on.
    expiry = getattr(strategy, "expiry", None)
    if not isinstance(expiry, Expiry):
        return
    count = count_steps(strategy, steps)
    delay = strategy.facts.delay
    require(delay == expiry.delay, f"its expiry has the delay {expiry.delay}, its facts {delay}")
    for step, row in rows_by_step(strategy, count).items():
        at = step - expiry.delay
        levels = range(min(max(at, 0).bit_length(), expiry.top + 1))
        expected = {(level, at >> level): 1 for level in levels}
        require(row == expected, f"row({step}) has other nodes than the intervals of its expiry")
    for level in range(min(count.bit_length(), expiry.top) + 1):
        for distribution in (*WIDE, *NARROW):
            found = node_distribution(strategy, distribution, level)
            expected_distribution = expiry.distribution(distribution, level)
            narrow = (
                spread(found) < spread(expected_distribution) or found.family != distribution.family
            )
            message = (
                f"node_distribution({distribution}, {level}) is {found}, but its expiry needs "
                f"{expected_distribution}"
            )
            require(not narrow, message)
