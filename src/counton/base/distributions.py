"""Noise distributions as data, and how one protected unit changes a stream's counts.

`counton.noise` draws from these distributions and `counton.privacy` chooses them; neither imports
the other. Parameters are exact rationals: a float is not the number you meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Self

from counton.base.errors import InvalidInputError
from counton.base.exact import exact

#: The kinds of noise.
NoiseKind = Literal["laplace", "gaussian"]

#: With a larger scale or standard deviation, sums of noise could leave int64.
LARGEST_SPREAD = 2**40


def _exact(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise InvalidInputError(
            f"{name} of a noise distribution is {value!r}; it must be a Fraction or a whole "
            "number, because floats are not exact: write Fraction('0.1')"
        )
    return Fraction(value)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Two-sided geometric distribution: P(x) proportional to exp(-|x| / scale) on the integers.

    Shifting it by one unit changes log-probabilities by at most ``1 / scale``.

    >>> DiscreteLaplace(5).variance
    49.83366...
    """

    family: ClassVar[NoiseKind] = "laplace"
    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _exact("scale", self.scale))
        if not 0 < self.scale <= LARGEST_SPREAD:
            raise InvalidInputError(
                f"scale of a discrete Laplace noise distribution is {self.scale}; it must be above "
                "0 and at most 2^40: raise epsilon or give a coarser resolution"
            )

    @property
    def variance(self) -> float:
        """Exact variance 2q / (1-q)^2 with q = exp(-1/scale). It is below 2 scale^2."""
        if self.scale * 700 <= 1:  # below 1e-300
            return 0.0
        return 0.5 / math.sinh(0.5 / float(self.scale)) ** 2

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def wider_by(self, factor: Fraction) -> DiscreteLaplace:
        """Return the distribution with a scale ``factor`` times as large."""
        return DiscreteLaplace(self.scale * factor)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(x) proportional to exp(-x^2 / (2 sigma_squared)) on the integers.

    ``sigma_squared`` is the parameter; the true variance is never above it (Canonne, Kamath and
    Steinke 2020, Cor. 9).

    >>> DiscreteGaussian(Fraction(9)).variance
    9.0
    """

    family: ClassVar[NoiseKind] = "gaussian"
    sigma_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", _exact("sigma_squared", self.sigma_squared))
        if not 0 < self.sigma_squared <= LARGEST_SPREAD**2:
            raise InvalidInputError(
                f"sigma_squared of a discrete Gaussian noise distribution is {self.sigma_squared}; "
                "it must be above 0 and at most 2^80: raise rho or epsilon, or give a larger "
                "resolution"
            )

    @property
    def variance(self) -> float:
        """Exact variance: from a series where it differs from ``sigma_squared`` in float64."""
        if self.sigma_squared * 1400 <= 1:  # below 1e-300
            return 0.0
        sigma_squared = float(self.sigma_squared)
        if sigma_squared > 4:  # the difference is below 1e-30
            return sigma_squared
        xs = range(1, int(40 * math.sqrt(sigma_squared)) + 3)
        weights = [math.exp(-x * x / (2 * sigma_squared)) for x in xs]
        return (
            2
            * math.fsum(x * x * w for x, w in zip(xs, weights, strict=True))
            / (1 + 2 * math.fsum(weights))
        )

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def wider_by(self, factor: Fraction) -> DiscreteGaussian:
        """Return the distribution with a ``sigma_squared`` ``factor`` times as large."""
        return DiscreteGaussian(self.sigma_squared * factor)


NoiseDistribution = DiscreteLaplace | DiscreteGaussian


def distribution_to_dict(
    distribution: NoiseDistribution, grid: Fraction | None = None
) -> dict[str, str]:
    """Return JSON values from which `distribution_from_dict` rebuilds the same distribution.

    With ``grid``, the size of the integer 1 in data units, parameters are in data units.

    >>> distribution_to_dict(DiscreteLaplace(2**17), Fraction(1, 2**16))
    {'law': 'discrete Laplace', 'scale': '2', 'grid': '1/65536'}
    """
    grid_entry = {} if grid is None else {"grid": str(grid)}
    unit = Fraction(1) if grid is None else grid
    if isinstance(distribution, DiscreteLaplace):
        return {"law": "discrete Laplace", "scale": str(distribution.scale * unit), **grid_entry}
    return {
        "law": "discrete Gaussian",
        "sigma_squared": str(distribution.sigma_squared * unit**2),
        **grid_entry,
    }


def distribution_from_dict(saved: dict[str, str]) -> NoiseDistribution:
    """Rebuild a noise distribution from the values of `distribution_to_dict`."""
    kind = saved.get("law")
    try:
        unit = exact(saved.get("grid", 1), "grid")
        if kind == "discrete Laplace":
            return DiscreteLaplace(exact(saved["scale"], "scale") / unit)
        if kind == "discrete Gaussian":
            return DiscreteGaussian(exact(saved["sigma_squared"], "sigma_squared") / unit**2)
    except (KeyError, ZeroDivisionError) as error:
        raise InvalidInputError(
            f"the noise distribution {saved!r} cannot be read ({error!r}): give what "
            "distribution_to_dict wrote"
        ) from error
    raise InvalidInputError(
        f"the noise distribution is {kind!r}; it must be 'discrete Laplace' or 'discrete Gaussian'"
    )


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Largest change of all node values between neighbouring datasets, in the stream's resolution.

    Attributes:
        l1: largest 1-norm of the change.
        l2_squared: largest squared 2-norm of the change.
        entries: the worst change as pairs (magnitude, number of entries), or None. It exceeds every
            possible change entry by entry, after reordering. Log-concave noise that protects the
            worst change protects all of them.

    Raises:
        InvalidInputError: a norm is below 1, no integer vector has these norms, or entries
            contradict them.

    >>> Sensitivity(l1=3, l2_squared=3, entries=((1, 3),)).most_affected
    3
    """

    l1: int
    l2_squared: int
    entries: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.l1 <= self.l2_squared <= self.l1**2:
            raise InvalidInputError(
                f"a sensitivity with l1 = {self.l1} and l2_squared = {self.l2_squared} is "
                f"impossible; integer vectors have 1 <= l1 <= l2_squared <= l1^2: "
                f"check the sensitivities"
            )
        if self.entries is None:
            return
        if any(magnitude < 1 or count < 1 for magnitude, count in self.entries):
            raise InvalidInputError(
                f"entries of a sensitivity are {self.entries}; magnitudes and counts must be at "
                "least 1: leave out entries that are 0"
            )
        l1 = sum(magnitude * count for magnitude, count in self.entries)
        l2_squared = sum(magnitude**2 * count for magnitude, count in self.entries)
        if (l1, l2_squared) != (self.l1, self.l2_squared):
            raise InvalidInputError(
                f"entries {self.entries} of a sensitivity have l1 = {l1} and l2_squared = "
                f"{l2_squared}, but {self.l1} and {self.l2_squared} are stated: correct them, or "
                "pass entries=None if the entries are not known"
            )

    @property
    def most_affected(self) -> int:
        """Largest number of node values that can change; at most ``l1``, as integers change."""
        if self.entries is None:
            return self.l1
        return sum(count for _, count in self.entries)


class Run(NamedTuple):
    """Change of some cells in consecutive steps; a part of `Runs`.

    Attributes:
        offset: steps by which it begins after the beginning of the pattern.
        size: largest change of a cell in each step.
        times: largest number of cells that change so.
        since: first step of the stream in which one of these cells can change at all.
    """

    length: int
    offset: int = 0
    size: int = 1
    times: int = 1
    since: int = 1

    @classmethod
    def from_saved(cls, values: Sequence[int]) -> Self:
        """Rebuild a run from the list of its attributes, in their order, which a stream keeps."""
        return cls(*values)


@dataclass(frozen=True, slots=True)
class Runs:
    """Cells that one protected unit changes, each in a run of consecutive steps.

    Different runs change different cells. Two runs may share a cell if their changes have opposite
    signs, or if they never both occur: the norms are then below those of separate cells.

    >>> Runs((Run(length=3), Run(length=1, times=2))).steps
    3
    """

    kind: ClassVar[str] = "runs"
    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        least = (1, 0, 1, 1, 1)
        if not self.runs or any(
            type(amount) is not int or not low <= amount <= LARGEST_SPREAD
            for run in self.runs
            for amount, low in zip(run, least, strict=True)
        ):
            raise InvalidInputError(
                f"runs of a sensitivity pattern are {self.runs!r}; give at least one run: length, "
                "size, times and first step from 1 to 2^40, offset from 0 to 2^40"
            )

    @property
    def steps(self) -> int:
        """Steps from offset 0 to the end of the run that ends last."""
        return max(run.offset + run.length for run in self.runs)

    @property
    def total(self) -> int:
        """Sum of the sizes of all changes, over all steps and cells."""
        return sum(run.times * run.size * run.length for run in self.runs)


@dataclass(frozen=True, slots=True)
class Alternating:
    """Changes of a cell that alternate in sign, as of a user who comes and goes.

    Attributes:
        changes: largest number of changes of a cell.
        cells: largest number of cells that change.
        size: largest size of one change. Sums of ``size`` patterns of size 1 are allowed too.
    """

    kind: ClassVar[str] = "alternating"
    changes: int
    cells: int = 1
    size: int = 1

    def __post_init__(self) -> None:
        for name in ("changes", "cells", "size"):
            amount = getattr(self, name)
            if type(amount) is not int or not 1 <= amount <= LARGEST_SPREAD:
                raise InvalidInputError(
                    f"{name} is {amount!r}; it must be an integer from 1 to 2^40"
                )

    @property
    def total(self) -> int:
        """Sum of the sizes of all changes, over all steps and cells."""
        return self.changes * self.cells * self.size


def scaled_norms(l1: int, l2_squared: int, by: int) -> tuple[int, int]:
    """Return the 1-norm and the squared 2-norm of a change whose entries are multiplied by ``by``.

    >>> scaled_norms(2, 4, by=3)
    (6, 36)
    """
    return by * l1, by**2 * l2_squared


@dataclass(frozen=True, slots=True)
class BoundedChange:
    """Bounds on how much one protected unit changes the measurements C x.

    Let d be the change of x by one unit, and e_t a change of one count in step t alone. Each bound
    compares the norm of C d with the largest norm of C e_t.

    Attributes:
        l1: ||C d||_1 is at most this many times the largest ||C e_t||_1.
        l2_squared: ||C d||_2^2 is at most this many times the largest ||C e_t||_2^2, for every C
            whose columns are aligned (`counton.strategies.StreamStrategy`).
        single_step: True if d changes one step only; the bounds are then the norms of d itself.
    """

    kind: ClassVar[str] = "bounded"
    l1: int
    l2_squared: int
    single_step: bool = False

    def __post_init__(self) -> None:
        whole = type(self.l1) is int and type(self.l2_squared) is int
        if type(self.single_step) is not bool:
            raise InvalidInputError(
                f"single_step is {self.single_step!r}; it must be true or false"
            )
        if not whole or not 1 <= self.l1 <= self.l2_squared <= self.l1**2 <= LARGEST_SPREAD**2:
            raise InvalidInputError(
                f"norms are l1 = {self.l1!r} and l2_squared = {self.l2_squared!r}; they must be "
                f"integers with 1 <= l1 <= l2_squared <= l1^2, and l1 at most 2^40"
            )

    @property
    def total(self) -> int:
        """Sum of the sizes of all changes, over all steps and cells: ``l1``, as C may be 1."""
        return self.l1

    def scaled_by(self, by: int) -> BoundedChange:
        """Return the bounds for a unit that changes every count ``by`` times as much."""
        l1, l2_squared = scaled_norms(self.l1, self.l2_squared, by)
        return BoundedChange(l1, l2_squared, self.single_step)


#: The ways to describe how one protected unit changes the counts of a stream.
Pattern = Runs | Alternating | BoundedChange


def pattern_to_dict(pattern: Pattern) -> dict[str, Any]:
    """Return JSON values from which `pattern_from_dict` rebuilds the pattern."""
    if isinstance(pattern, Runs):
        return {"pattern": pattern.kind, "runs": [list(run) for run in pattern.runs]}
    if isinstance(pattern, Alternating):
        change_entries = {"changes": pattern.changes, "cells": pattern.cells, "size": pattern.size}
        # "together" is a part of noise addresses.
        return {"pattern": pattern.kind, **change_entries, "together": False}
    # "once" is a part of noise addresses.
    once = {"once": True} if pattern.single_step else {}
    return {"pattern": pattern.kind, "l1": pattern.l1, "l2_squared": pattern.l2_squared, **once}


def pattern_from_dict(saved: dict[str, Any]) -> Pattern:
    """Rebuild a pattern from the values of `pattern_to_dict`."""
    rest = {name: value for name, value in saved.items() if name != "pattern"}
    try:
        if saved.get("pattern") == "runs":
            return Runs(tuple(map(Run.from_saved, rest.pop("runs"))), **rest)
        if saved.get("pattern") == "alternating":
            return Alternating(**{name: rest[name] for name in ("changes", "cells", "size")})
        if saved.get("pattern") == "bounded":
            return BoundedChange(single_step=rest.pop("once", False), **rest)
    except (KeyError, TypeError) as error:
        raise InvalidInputError(
            f"the sensitivity pattern {saved!r} cannot be read ({error!r}): give what "
            "pattern_to_dict wrote"
        ) from error
    raise InvalidInputError(
        f"the sensitivity pattern is {saved.get('pattern')!r}; it must be 'runs', 'alternating' or "
        "'bounded'"
    )
