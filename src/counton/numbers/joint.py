"""Several answers at once: intervals that hold together, by the joint law of their noise.

By the union bound (Bonferroni) each of n intervals may miss with an n-th of the probability that is
allowed, as if no two ever missed together. Answers share noise: differences of several groups from
one, windows that read the same nodes. Of sums of cells the joint law is known, that of the streams'
own draws, so what all of them need is a quantile of the largest error over its half-width. It is
found as that of bands is (`counton.numbers.bands`): from noise of cells that count nothing,
under a key that everybody knows, and an order statistic that lies below the true quantile with
probability 10^-6 at most over the choice of that key.

The interval of a ratio is no sum of cells with known weights: ratios, means and quantiles keep
their part of the union bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.noise import InsecureKeyWarning, InsecureSeededKey
from counton.numbers.bands import largest_share, noise_alone
from counton.numbers.contrasts import Answer
from counton.numbers.formulas import Formula, StreamParts, parts_of
from counton.numbers.intervals import check_level

#: Draws of each cell, at most; numbers of all of them together, and at a time.
_DRAWN, _MOST_DRAWN, _AT_A_TIME = 20_000, 2**26, 2**22
#: Fewer than these say too little.
_FEWEST = 1_000


def jointly(answers: Sequence[Answer]) -> list[Answer]:
    """The same answers, whose intervals hold all at once with the probability of each.

    Sums and differences of counts, sums and other sums of cells are taken by their joint law, which
    is never wider than Bonferroni; what is a ratio, a mean or a quantile by Bonferroni, and so is
    all if one answer is from a file that does not say whose noise it has, as older ones.

    Args:
        answers: of one level, to questions that were chosen without looking at the answers.

    Raises:
        InvalidInput: no answers, of several levels, or one that was made otherwise than by asking a
            release.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> folder = tempfile.TemporaryDirectory()
    >>> visits = pl.DataFrame({"at": ["2024-03-01", "2024-03-02"], "page": ["home", "shop"]})
    >>> found = release(
    ...     "count", visits, time="at", every="1d", start="2024-03-01", steps=2, until="2024-03-03",
    ...     by="page", domain=["home", "shop", "help"], guarantee=PureDP(1),
    ...     state=folder.name + "/visits.db",
    ... )
    >>> apart = [found.difference(page, "home") for page in ("shop", "help")]
    >>> all(one.upper < two.upper for one, two in zip(apart, jointly(apart)))
    True
    >>> folder.cleanup()
    """
    levels = {one.level for one in answers}
    if len(levels) != 1 or any(one.asked is None for one in answers):
        raise InvalidInput(
            f"{len(answers)} answers of levels {sorted(levels)} do not go together: give answers "
            f"of releases, all of one level"
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
    """The factor, at most 1, by which half-widths may shrink so that all hold together.

    Args:
        halves: half-widths of each, which hold together by the union bound.
        level: probability with which all are to hold.
    """
    streams, grain = parts_of(formulas)
    if any(one.design.noise_id is None for one in streams):
        return 1.0  # what has no identity may be the same noise, or not
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
    """Errors of formulas by one stream's noise, shape ``(formulas, draws)``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        key = InsecureSeededKey(seed)
    wanted = {end: place for place, end in enumerate(one.ends.tolist())}
    count, steps = len(one.cells), int(one.ends.max(initial=0))
    errors = np.zeros((one.weights.shape[0], draws))
    so_far, done = np.zeros(count * draws), 0
    chunk = max(1, _AT_A_TIME // max(count * draws, 1))
    totals = one.design.strategy.workload == "totals"
    for noise in noise_alone(one.design, key, count * draws, steps, chunk):
        for each in noise:
            done += 1
            so_far = each if totals else so_far + each
            if done in wanted:
                at = one.weights[:, :, wanted[done]]
                errors += at @ so_far.reshape(count, draws)
    return errors
