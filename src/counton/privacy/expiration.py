"""Guarantees that weaken as data ages, and the noise that gives them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseKind, Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, text
from counton.base.expiry import LEVELS, ExpiringNoise, Expiry, checked_age, checked_ages
from counton.privacy.calibration import Calibration, Candidate
from counton.privacy.concentrated import checked_delta, epsilon_within
from counton.privacy.guarantees import ZCDP, Guarantee, PureDP, between_neighbours, upper_bound

if TYPE_CHECKING:
    from counton.privacy.contribution import Relation
    from counton.privacy.loss_by_age import Analysis, Expires


class ExpiringGuarantee(Guarantee):
    """A guarantee that weakens: at age d (in steps) the loss is epsilon or rho times g(d).

    The growth and the delay of the strategy decide g. ``bound_to`` copies them into the guarantee
    as ``expiry``, so that the loss needs no strategy.
    """

    __slots__ = ()
    scope: ClassVar[str] = "growing with age"
    expiry: Expiry | None

    def to_dict(self) -> dict[str, object]:
        """Return JSON values from which `guarantee_from_dict` rebuilds the guarantee."""
        saved = Guarantee.to_dict(self)
        return {**saved, "expiry": None if self.expiry is None else self.expiry.to_dict()}

    def bound_to(self, strategy: object) -> Self:
        """Return this guarantee with the growth and delay of a strategy, which decide its loss.

        Raises:
            InvalidInputError: the strategy's guarantee does not expire, or this one has another
                expiry.
        """
        expiry = strategy.expiry if isinstance(strategy, ExpiringNoise) else None
        if not isinstance(expiry, Expiry):
            raise InvalidInputError(
                f"{strategy!r} cannot give {self}, because its noise does not depend on age; use "
                "the strategy counton.strategies.Expiring, or a guarantee PureDP, ApproxDP or ZCDP"
            )
        if self.expiry not in (None, expiry):
            raise InvalidInputError(
                f"{self!r} was made for another growth or delay than {strategy!r} has: give a "
                "guarantee without them, and they are taken from the strategy"
            )
        return replace(self, expiry=expiry)  # type: ignore[type-var]

    @abstractmethod
    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Return the privacy loss at each age in steps: epsilon or rho, shape ``(len(ages),)``.

        Args:
            ages: ages of items in steps, 0 or more.
            analysis: "exact" for the loss of `at_age`; `expiration_loss` describes the others.

        Raises:
            InvalidInputError: the guarantee is not bound to a strategy, or there are no ages.
        """

    @property
    def bound_expiry(self) -> Expiry:
        """The expiry that `bound_to` has set."""
        if self.expiry is None:
            raise InvalidInputError(
                f"{self!r} is not bound to a strategy, whose growth and delay decide its loss by "
                f"age: use guarantee.bound_to(strategy)"
            )
        return self.expiry

    def __str__(self) -> str:
        description = Guarantee.__str__(self)
        if self.expiry is None:
            return description
        way = f"growth {text(self.expiry.growth)}"
        if self.expiry.delay:
            way += f", delay {self.expiry.delay:,}"
        if self.expiry.levels is not None:
            way += f", levels {self.expiry.levels}"
        return f"{description} ({way})"


def _expiry(value: object) -> Expiry | None:
    if isinstance(value, Mapping):
        return Expiry.from_dict(value)
    if value is not None and not isinstance(value, Expiry):
        raise InvalidInputError(
            f"expiry is {value!r}; give the expiry of a strategy, or leave it out: it is then "
            "taken from the counter's strategy"
        )
    return value


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ExpiringDP(ExpiringGuarantee):
    """Pure differential privacy that expires: at age d the loss is epsilon * g(d).

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Definition 1.1;
    g is the exact loss of `expiration_loss`.

    Args:
        epsilon: the privacy loss of an item that one release has counted.
        expiry: growth and delay of the strategy; None: `bound_to` sets them.

    Raises:
        InvalidInputError: epsilon is not a finite number above 0, or ``expiry`` is no `Expiry`.

    >>> from counton.strategies import Expiring
    >>> guarantee = ExpiringDP(epsilon=0.5).bound_to(Expiring(growth=1, delay=24))
    >>> print(guarantee)
    expiring differential privacy with epsilon = 0.5 (growth 1, delay 24)
    >>> print(guarantee.at_age(23), guarantee.at_age(8760), sep="; ")
    None; pure differential privacy with epsilon = 7
    """

    kind: ClassVar[str] = "expiring"
    families: ClassVar[tuple[NoiseKind, ...]] = ("laplace",)
    epsilon: Fraction
    expiry: Expiry | None

    def __init__(
        self, epsilon: Number, expiry: Expiry | Mapping[str, object] | None = None
    ) -> None:
        object.__setattr__(self, "epsilon", PureDP(epsilon).epsilon)
        object.__setattr__(self, "expiry", _expiry(expiry))

    def at_age(self, age: int) -> PureDP | None:
        """Return the guarantee for an item that entered ``age`` steps ago; None: not yet counted.

        Args:
            age: steps since the item entered, from 0 to 2^62.

        Raises:
            InvalidInputError: not bound to a strategy, or age is not an integer in 0..2^62.
        """
        from counton.privacy.loss_by_age import loss_rounded_up

        loss = self.epsilon * loss_rounded_up(self.bound_expiry, checked_age(age))
        return PureDP(loss) if loss else None

    @override
    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        from counton.privacy.loss_by_age import expiration_loss

        return float(self.epsilon) * expiration_loss(cast("Expires", self), ages, analysis)

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        """Return a sentence for laymen on how the privacy loss grows with the age of data.

        Args:
            unit: the name of a protected unit, such as "visit".
            relation: the neighbouring relation: "add_remove" or "replace".
        """
        neighbours = between_neighbours(unit, relation)
        return (
            f"{neighbours}, the privacy loss is at most epsilon = {upper_bound(self.epsilon)} when "
            "a release first counts it, and grows slowly with its age"
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ExpiringZCDP(ExpiringGuarantee):
    """Zero-concentrated differential privacy that expires: at age d the loss is rho * g(d).

    The Gaussian form of `ExpiringDP`: g is at most `expiration_loss` with the analysis "exact", and
    for wide noise close to the smaller one of "concentrated". Renyi divergences of whole orders are
    bounded, as by `ZCDP`.

    Raises:
        InvalidInputError: rho is not a finite number above 0, or ``expiry`` is no `Expiry`.

    >>> from counton.strategies import Expiring
    >>> ExpiringZCDP(rho=0.5).bound_to(Expiring(growth=1)).at_age(0)
    ZCDP(rho=0.5)
    """

    kind: ClassVar[str] = "expiring zero-concentrated"
    families: ClassVar[tuple[NoiseKind, ...]] = ("gaussian",)
    rho: Fraction
    expiry: Expiry | None

    def __init__(self, rho: Number, expiry: Expiry | Mapping[str, object] | None = None) -> None:
        object.__setattr__(self, "rho", ZCDP(rho).rho)
        object.__setattr__(self, "expiry", _expiry(expiry))

    def at_age(self, age: int) -> ZCDP | None:
        """Return the guarantee for an item that entered ``age`` steps ago; None: not yet counted.

        Args:
            age: steps since the item entered, from 0 to 2^62.

        Raises:
            InvalidInputError: not bound to a strategy, or age is not an integer in 0..2^62.
        """
        from counton.privacy.loss_by_age import concentrated_loss

        loss = concentrated_loss(self.bound_expiry, self.rho, checked_age(age))
        return ZCDP(loss) if loss else None

    @override
    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Return rho at each age in steps: shape ``(len(ages),)``.

        For "exact" it is that of `at_age`, else rho times `expiration_loss`.

        Args:
            ages: ages of items in steps, 0 or more.
            analysis: "exact", or another analysis of `expiration_loss`.
        """
        from counton.privacy.loss_by_age import expiration_loss

        if analysis != "exact":
            return float(self.rho) * expiration_loss(cast("Expires", self), ages, analysis)
        at_ages = [self.at_age(age) for age in checked_ages(ages)]
        return np.array(
            [float(guarantee.rho) if guarantee else 0.0 for guarantee in at_ages], np.float64
        )

    def epsilon_by_age(self, ages: Iterable[int], delta: Number) -> NDArray[np.float64]:
        """Return the epsilon of (epsilon, delta)-privacy at each age in steps, rounded up.

        It is converted from the rho of `at_age`, at a whole order.

        Args:
            ages: ages of items in steps, 0 or more.
            delta: above 0 and below 1, for each age alone.

        Returns:
            float64, shape ``(len(ages),)``; 0 for an item that no release has counted.

        Raises:
            InvalidInputError: not bound to a strategy, ages that are no collection of integers, or
                delta out of range.

        >>> from counton.strategies import Expiring
        >>> guarantee = ExpiringZCDP(rho=0.01).bound_to(Expiring(growth=1))
        >>> guarantee.epsilon_by_age([0, 24, 8760], delta=1e-6).round(2)
        array([0.62, 1.16, 1.83])
        """
        probability = checked_delta(delta)
        at_ages = [self.at_age(age) for age in checked_ages(ages)]
        return np.array(
            [
                epsilon_within(guarantee.rho, probability) if guarantee else 0.0
                for guarantee in at_ages
            ],
            np.float64,
        )

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        """Return a sentence for laymen on how the privacy loss grows with the age of data.

        Args:
            unit: the name of a protected unit, such as "visit".
            relation: the neighbouring relation: "add_remove" or "replace".
        """
        neighbours = between_neighbours(unit, relation)
        return (
            f"{neighbours}, the Renyi divergence of each whole order alpha from 2 on is at most "
            f"alpha times rho = {upper_bound(self.rho)} when a release first counts it, and grows "
            "slowly with its age"
        )


def calibrate_expiring(
    guarantee: ExpiringDP | ExpiringZCDP, sensitivity: Sensitivity, family: NoiseKind | None = None
) -> Calibration:
    """Return the noise of single steps (level 0) under a guarantee that expires.

    Counts of 2^l steps have the noise ``guarantee.expiry.distribution(distribution, l)`` for the
    returned ``distribution``.

    Args:
        guarantee: bound to its strategy (`bound_to`).
        sensitivity: of one step's counts, all cells together.
        family: "laplace" for `ExpiringDP`, "gaussian" for `ExpiringZCDP`, or None.

    >>> from counton.strategies import Expiring
    >>> calibrate_expiring(ExpiringDP(0.5).bound_to(Expiring(2)), Sensitivity(1, 1)).distribution
    DiscreteLaplace(scale=Fraction(2, 1))
    """
    distribution: DiscreteLaplace | DiscreteGaussian
    needed: NoiseKind
    if isinstance(guarantee, ExpiringDP):
        needed = "laplace"
        method = "Laplace of scale l1 / epsilon times a factor for each level"
        distribution = DiscreteLaplace(sensitivity.l1 / guarantee.epsilon)
    else:
        needed = "gaussian"
        method = "Gaussian of variance l2^2 / (2 rho) times a factor each level"
        distribution = DiscreteGaussian(sensitivity.l2_squared / (2 * guarantee.rho))
    if family not in (None, needed):
        raise InvalidInputError(
            f"{guarantee} needs {needed} noise, not {family} noise: leave family out, or use "
            f"{'ExpiringZCDP' if needed == 'laplace' else 'ExpiringDP'}"
        )
    guarantee.bound_expiry.distribution(
        distribution, LEVELS - 1
    )  # refuses too much noise now, not at a late step
    return Calibration(distribution, (Candidate(needed, distribution, method),), method)
