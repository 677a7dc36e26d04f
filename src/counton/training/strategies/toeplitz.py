"""Training strategies whose measurement matrix C is lower-triangular Toeplitz, with scaled columns.

Column t is multiplied by the number by which step scaling divides the noise of step t.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule
from counton.training.strategies.scaling import balance, best_shares, toeplitz_weights
from counton.training.strategies.sensitivity import (
    fixed_squared,
    full_gram,
    gram_of_schedules,
    monotone_squared,
    separated_squared,
)
from counton.training.strategies.sgd import RUNNING_SUMS, unscaled_variance
from counton.training.strategies.training_strategy import (
    LARGEST_STEPS,
    SLACK,
    Search,
    TrainingStrategy,
)

#: Kinds of step scaling (see ``scaling.py``). "none": no scaling; "equal": one scale for each place
#: in the epoch; "epochs": also a factor for each epoch; "free": one scale for each step, which
#: requires that examples keep their places in all epochs.
Scaling = Literal["none", "equal", "epochs", "free"]


class ToeplitzTraining(TrainingStrategy):
    """Base class of training strategies with the measurement matrix C = Toeplitz(c) D.

    D is the diagonal matrix of the divisors of step scaling. Subclasses define the coefficients c,
    and the coefficients of the inverse power series 1 / c.

    Attributes:
        shares: one positive number for each step, from which step scaling computes the numbers that
            divide the steps' noise; None: noise is not scaled.
    """

    shares: Floats | None = None

    @abstractmethod
    def coefficients(self) -> Floats:
        """Return the first column of the Toeplitz matrix before step scaling: shape (steps,)."""

    @abstractmethod
    def inverse(self) -> Floats:
        """Return the first column of the inverse before step scaling: shape (steps,)."""

    @cached_property
    def _gram(self) -> Floats:
        return gram_of_schedules(self.coefficients(), self.schedule.apart)

    @cached_property
    def divisors(self) -> Floats | None:
        """The divisors of the steps' noise, shape (steps,); None: no scaling."""
        return None if self.shares is None else balance(self._gram, self.shares)

    @override
    def divisor(self, step: int) -> float:
        self.check_step(step)
        return 1.0 if self.divisors is None else float(self.divisors[step - 1])

    @property
    def scaling(self) -> Scaling:
        """The kind of step scaling: "none", "equal", "epochs" or "free".

        Step scaling divides the noise of each step by a number of its own.
        """
        if self.shares is None:
            return "none"
        if bool((self.shares == 1).all()):
            return "equal"
        firsts = self.shares[:: self.schedule.apart]
        return "epochs" if (self.shares == firsts[self._epoch_of_steps]).all() else "free"

    @property
    def _epoch_of_steps(self) -> Integers:
        return np.arange(self.steps) // self.schedule.apart

    def with_scaling(self, scaling: Scaling = "equal", search: Search = "long") -> Self:
        """Return a copy of the strategy with step scaling, which divides the noise of each step by
        a number of its own.

        Args:
            scaling: "none": no scaling. "equal": for every schedule. "epochs": for every schedule,
                with a smaller error if the separation is a whole epoch. "free": with the smallest
                error; it needs a fixed order.
            search: "quick" for fewer iterations of the search for scales.

        Raises:
            InvalidInputError: "free" without an enforced order; or "epochs" or "free" for more than
                4096 steps.

        >>> from counton.training.strategies import BufferedToeplitz
        >>> strategy = BufferedToeplitz.fit(steps=64, epochs=4, buffers=2)
        >>> [round(strategy.with_scaling(s).rmse, 2) for s in ("none", "equal", "epochs", "free")]
        [4.92, 4.86, 4.77, 4.76]
        """
        check_scaling(scaling, self.schedule)
        if scaling == "none":
            return self._with_shares(None)
        if scaling == "equal":
            return self._with_shares(np.ones(self.steps))
        groups = self._epoch_of_steps if scaling == "epochs" else None
        weights = toeplitz_weights(self.inverse(), self.optimizer)
        shares = best_shares(self._gram, weights, groups, search)
        scaled = self._with_shares(shares)
        if scaling == "free":
            return scaled
        return min(scaled, self.with_scaling("equal"), key=lambda strategy: strategy.rmse)

    @classmethod
    @override
    def _from_description(cls, steps: int, scaling: str, shares: Any = None, **more: Any) -> Self:
        check_scaling(scaling)
        if scaling == "equal":
            shares = np.ones(check_integer("steps", steps, 1, LARGEST_STEPS))
        make: Any = cls
        return make(steps=steps, shares=shares, **more)  # type: ignore[no-any-return]

    def _best_refit(self, again: Callable[[Self], Self | None], rounds: int = 2) -> Self:
        """Return the best of a chain in which ``again`` refits to the last scaling or ends it."""
        best = self
        for _ in range(rounds):
            other = again(best)
            if other is None or other.rmse >= best.rmse:
                break
            best = other
        return best

    def _with_shares(self, shares: Floats | None) -> Self:
        return self._copy_with("divisors", shares=shares)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        if self.scaling in ("epochs", "free"):
            assert self.shares is not None
            return {"scaling": self.scaling, "shares": self.shares.tolist()}
        return {"scaling": self.scaling}

    @override
    def squared_sensitivity(self) -> float:
        c = self.coefficients()
        monotone = bool((c >= 0).all() and (np.diff(c) <= 0).all())
        if self.divisors is None and monotone:
            bound = monotone_squared(c, self.schedule)
        elif self.schedule.fixed:
            bound = fixed_squared(self._gram, self.divisors)
        elif self.schedule.steps == 1:
            norms = np.cumsum(c * c)[::-1]
            bound = float((norms if self.divisors is None else norms * self.divisors**2).max())
        else:
            self.check_small()
            products = np.abs(full_gram(c))
            if self.divisors is not None:
                products *= self.divisors[:, None] * self.divisors
            bound = separated_squared(products, self.schedule)
        return bound * (1 + SLACK)

    @override
    def mean_variance(self) -> float:
        if self.divisors is None and self.optimizer is None:
            return float(unscaled_variance(self.inverse(), RUNNING_SUMS))
        self.check_small()
        inverse = np.ones(self.steps) if self.divisors is None else 1 / self.divisors
        return float(inverse @ toeplitz_weights(self.inverse(), self.optimizer) @ inverse)

    @override
    def encoder(self) -> Floats:
        self.check_small()
        c = self.coefficients()
        lag = np.arange(self.steps)[:, None] - np.arange(self.steps)
        matrix = np.where(lag >= 0, c[np.maximum(lag, 0)], 0.0)
        return matrix if self.divisors is None else matrix * self.divisors


def check_scaling(scaling: str, schedule: Schedule | None = None) -> None:
    """Raise `InvalidInputError` for an unknown scaling, and for "free" without a fixed order."""
    if scaling not in get_args(Scaling):
        raise InvalidInputError(f"scaling is {scaling!r}; give 'none', 'equal', 'epochs' or 'free'")
    if scaling == "free" and schedule and schedule.steps > 1 and not schedule.fixed:
        raise InvalidInputError(
            "scaling is 'free', but the schedule enforces only a separation, for which free "
            "scaling costs more than it gains: use 'epochs' or 'equal', or enforce the order "
            "(order='fixed')"
        )


def check_shares(steps: int, shares: object) -> Floats | None:
    """Return the shares of step scaling as floats, shape (steps,); None stays None.

    The divisors of the steps' noise are computed from them.

    Raises:
        InvalidInputError: the shares are not one finite number above 0 for each step.
    """
    if shares is None:
        return None
    try:
        array = np.array(shares, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (steps,) or not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidInputError(
            f"shares are not {steps} finite numbers above 0: give one for each step, from a "
            "strategy's to_dict, or leave them out"
        )
    return array
