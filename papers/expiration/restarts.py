"""A common alternative to guarantees that weaken with age: a counter with fresh budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.base.expiry import checked_age, checked_ages

#: Values of past / current that are tried.
_SHARES = np.geomspace(1e-3, 3, 120)


@dataclass(frozen=True, slots=True)
class RestartedCounter:
    """A counter that starts again every ``window`` steps, and spends a fresh budget on old data.

    Within such a round the binary mechanism spends ``current`` on the round's items. From the
    second round on, the sum of all earlier rounds is released once in each, with Laplace noise of
    scale 1 / ``past``. So an item's loss grows by ``past`` with every later round, without end.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Appendix A,
    after the practice described by Tang et al. and Thakurta.

    Attributes:
        current: epsilon of a round; its noise has scale bit_length(window) / current.
        past: epsilon of the sum of all earlier rounds.
        gaussian: both are rho; the noise is then of variance bit_length(window) / (2 current) and 1
            / (2 past).

    >>> habit = RestartedCounter(window=127, current=0.7387, past=0.07387)
    >>> habit.loss([0, 127, 10**6]).round(2).tolist()
    [0.11, 0.81, 582.39]

    Raises:
        InvalidInputError: window below 1, or a budget that is not a number above 0.
    """

    window: int
    current: float
    past: float
    gaussian: bool = False

    def __post_init__(self) -> None:
        check_integer("window", self.window, 1, 2**22)
        for name, value in (("current", self.current), ("past", self.past)):
            if not 0 < value < math.inf:
                raise InvalidInputError(
                    f"{name} is {value!r}; a privacy budget must be a number above 0"
                )

    @property
    def height(self) -> int:
        """Number of noisy sums of a round that count an item at most."""
        return self.window.bit_length()

    def loss(self, ages: Iterable[int]) -> NDArray[np.float64]:
        """Return the largest loss of an item, over all positions in its round, at each age."""
        worst = [
            max(
                nodes * self.current / self.height + rounds * self.past
                for nodes, rounds in _most_uses(self.window, age)
            )
            for age in checked_ages(ages)
        ]
        return np.array(worst, np.float64)

    def mean_variance(self, steps: int) -> float:
        """Return the mean variance of releases 1 to ``steps``, as if noise were continuous."""
        within, later = variance_parts(self.window, steps, self.gaussian)
        power = 1 if self.gaussian else 2
        with np.errstate(over="ignore", divide="ignore"):  # the smallest and largest budgets
            budgets = np.array([self.current, self.past]) ** power
            return float((np.array([within, later]) / budgets).sum())

    @classmethod
    def best(
        cls, targets: Mapping[int, float], steps: int, *, gaussian: bool = False
    ) -> RestartedCounter:
        """Return the counter that keeps all targets with the least mean variance over ``steps``
        steps.

        The search tries windows of 2^k - 1 steps that are shorter than the stream, and one as long
        as it, up to 2^22, and 120 divisions of the budget.
        """
        candidates = []
        for k in range(1, steps.bit_length() + 1):
            window = min(2**k - 1, steps, 2**22)
            height = window.bit_length()
            # With current = 1 and each share: the largest loss relative to its target.
            relative = np.max(
                [
                    np.max([nodes / height + rounds * _SHARES for nodes, rounds in uses], axis=0)
                    / limit
                    for age, limit in targets.items()
                    if (uses := _most_uses(window, checked_age(age)))
                ],
                axis=0,
            )
            within, later = variance_parts(window, steps, gaussian)
            power = 1 if gaussian else 2
            with np.errstate(over="ignore"):  # of the smallest budgets
                variance = relative**power * (within + later / _SHARES**power)
            i = int(np.argmin(variance))
            candidates.append((variance[i], window, 1 / relative[i], _SHARES[i] / relative[i]))
        _, window, current, past = min(candidates)
        return cls(window, float(current), float(past), gaussian)


@lru_cache(maxsize=4096)
def _most_uses(window: int, age: int) -> tuple[tuple[int, int], ...]:
    """Return how often releases have used an item of this age: (noisy sums, later rounds).

    Both depend on the item's position in its round: for each number of later rounds, the largest
    number of noisy sums is returned.
    """
    place = np.arange(1, window + 1, dtype=np.int32)  # a window has at most 2^22 steps
    last = np.minimum(place + min(age, window), window)
    nodes = np.zeros(window, np.int8)
    for level in range(window.bit_length()):
        number = -(-place >> level)  # rounded up: which node of this level holds the item
        nodes += (number & 1 == 1) & (number << level <= last)
    first, past = divmod(age, window)
    # `age` steps later, the first items of a round have seen `first` later rounds begin, the others
    # one more.
    parts = ((first, nodes[: window - past]), (first + 1, nodes[window - past :]))
    return tuple((int(some.max()), later) for later, some in parts if len(some))


def variance_parts(window: int, steps: int, gaussian: bool = False) -> tuple[float, float]:
    """Return the coefficients of a `RestartedCounter`'s mean variance over ``steps`` steps.

    It is first / current^2 + second / past^2 with Laplace noise, and first / current + second /
    past with Gaussian noise.
    """
    # A noisy sum of a round has variance 2 scale^2 = 2 (height / current)^2, or height / (2
    # current) with Gaussian noise.
    from counton.strategies import Binary

    steps = check_integer("steps", steps, 1)
    whole, rest = divmod(steps, window)
    nodes = whole * window * Binary(window).overall_variance("mean")
    nodes += rest * Binary(rest).overall_variance("mean") if rest else 0
    height = window.bit_length()
    later = max(steps - window, 0) / steps
    if gaussian:
        return height * nodes / steps / 2, later / 2
    return 2 * height**2 * nodes / steps, 2 * later
