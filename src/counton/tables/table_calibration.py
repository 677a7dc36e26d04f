"""Noise of tables that are released once or over time: sensitivity, rounding, and kinds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from counton.base.distributions import NoiseKind, scaled_norms
from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP, ContributionBound, Guarantee, Sensitivity
from counton.strategies.strategy import TableStrategy

T = TypeVar("T")

#: Bound of exact measured sums; the rest of int64 is room for noise.
LARGEST_MEASUREMENT = 2**61


def sensitivity_of_cells(strategy: TableStrategy, contribution: ContributionBound) -> Sensitivity:
    """Return how much one unit changes all measured sums of a table: 1-norm and squared 2-norm.

    Raises:
        InvalidInputError: the contribution is of clipped values or of several steps.

    >>> from counton.tables import Nodes
    >>> sensitivity_of_cells(Nodes(2, (2,), (1, 2)), ContributionBound.add_remove(cells=2))
    Sensitivity(l1=6, l2_squared=20, entries=None)
    """
    # Several cells or several units per cell multiply the norms, by the triangle inequality. A
    # replaced unit leaves its cells and enters others; it may also only leave or only enter.
    if contribution.resolution is not None:
        raise InvalidInputError(
            "the contribution has values that are clipped, but hierarchies and ranges contain "
            "counts: use ContributionBound.add_remove or ContributionBound.replace"
        )
    if not contribution.acts_once:
        raise InvalidInputError(
            f"the contribution is {contribution}, but a table has no steps: give cells, the number "
            "of cells that a unit may change, or release a stream"
        )
    most = contribution.cells * contribution.per_cell
    sensitivity = strategy.sensitivities()
    if contribution.relation == "add_remove":
        entries = None
        if sensitivity.entries is not None and contribution.cells == 1:
            entries = tuple((most * magnitude, count) for magnitude, count in sensitivity.entries)
        return Sensitivity(*scaled_norms(sensitivity.l1, sensitivity.l2_squared, by=most), entries)
    moved = strategy.sensitivities("move")
    l1 = max(sensitivity.l1, moved.l1)
    l2_squared = max(sensitivity.l2_squared, moved.l2_squared)
    return Sensitivity(*scaled_norms(l1, l2_squared, by=most))


def fraction_bits(std: float) -> int:
    """Return the fractional bits of released numbers, given their smallest standard deviation.

    One unit of the last place is below ``std * 2**-15``. It is public, because ``std`` is.

    >>> fraction_bits(0.3), fraction_bits(50.0), fraction_bits(1e9)
    (16, 11, 0)
    """
    if std < 1:  # also 0: the variance of noise that is almost always 0 is below any float
        return 16
    return min(max(16 - math.floor(math.log2(std)), 0), 16)


def noise_kinds(guarantee: Guarantee) -> tuple[NoiseKind, ...]:
    """Return the kinds of noise that should be tried for a guarantee."""
    # Up to rho = 2, Laplace noise of scale l1 / sqrt(2 rho) has at least twice the variance of
    # Gaussian noise with any strategy, since l1 is never below l2.
    large = isinstance(guarantee, ZCDP) and guarantee.rho > 2
    return ("laplace", "gaussian") if large else guarantee.families


def rank_attempts(attempts: Iterable[Callable[[], T]], cost: Callable[[T], float]) -> list[T]:
    """Return the results of all functions in ascending order of ``cost``.

    Those that raise `InvalidInputError` are left out. If all raise it, so does this.
    """
    results: list[T] = []
    reason = InvalidInputError("the number of attempts is 0: give at least 1")
    for attempt in attempts:
        try:
            results.append(attempt())
        except InvalidInputError as error:
            reason = error
    if not results:
        raise reason
    return sorted(results, key=cost)
