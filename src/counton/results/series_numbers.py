"""The numbers of a series of counts or sums, by step and group, with their noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Column, IntegersOrFloats, nearest_multiples, read_only
from counton.base.errors import InvalidInputError
from counton.base.exact import some_of

Numbers = IntegersOrFloats


@dataclass(frozen=True)
class SeriesNumbers:
    """Released numbers by step and group, with the standard deviation of their noise by step.

    Attributes:
        values: in data units, shape ``(steps, groups)``; 0 for a missing row: use `estimates`.
        std, half: standard deviation and half-width by step.
        is_present: for each number whether it is known; None: all.
        start: number of the first step.
        unit: number of which released numbers are multiples, such as a hundredth.

    >>> totals = SeriesNumbers(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0]))
    >>> totals.lower.tolist()
    [[3], [8]]
    """

    values: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]
    is_present: NDArray[np.bool_] | None = None
    start: int = 1
    unit: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("values", "std", "half", "is_present"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def estimates(self) -> Numbers:
        """The numbers in data units; `InvalidInputError` names the steps of missing rows."""
        if self.is_present is not None and not self.is_present.all():
            missing = np.flatnonzero(~self.is_present.all(axis=1)) + self.start
            raise InvalidInputError(
                f"{steps_in_words(missing)} not in the file, at least not for all groups: give a "
                "complete file, or ask for steps and groups that are complete, or use the table"
            )
        return self.values

    def with_withdrawn(self, withdrawn: NDArray[np.bool_]) -> SeriesNumbers:
        """Return a copy in which withdrawn numbers may be missing, for callers who hide them.

        Args:
            withdrawn: which numbers are withdrawn, of the shape of ``values``.
        """
        if self.is_present is None:
            return self
        return replace(self, is_present=self.is_present | withdrawn)

    def with_zeros(self) -> SeriesNumbers:
        """Return a copy in which missing numbers are 0, for callers who do not show them."""
        return replace(self, is_present=None)

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals, integers if estimates are."""
        return self._shift(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals, integers if estimates are."""
        return self._shift(self.half)

    def _shift(self, offsets: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(offsets == np.rint(offsets)):
            return np.asarray(self.estimates + offsets.astype(np.int64)[:, None], dtype=np.int64)
        ends = np.asarray(self.estimates + offsets[:, None], dtype=np.float64)
        return nearest_multiples(ends, self.unit)

    def part(self, steps: range) -> SeriesNumbers:
        """Return consecutive steps of a series that begins at step 1."""
        return self._at(slice(steps.start - 1, steps.stop - 1), steps.start)

    def each_step(self) -> Iterator[SeriesNumbers]:
        """Yield each step of the series alone."""
        for index in range(len(self.std)):
            yield self._at(slice(index, index + 1), self.start + index)

    def _at(self, indices: slice, start: int) -> SeriesNumbers:
        is_present = None if self.is_present is None else self.is_present[indices]
        return replace(
            self,
            values=self.values[indices],
            std=self.std[indices],
            half=self.half[indices],
            is_present=is_present,
            start=start,
        )

    def columns(self, confidence_level: float) -> dict[str, Column]:
        """Return the columns of estimates and intervals.

        Args:
            confidence_level: that of the intervals.
        """
        estimates = self.estimates
        return {
            "estimate": estimates.ravel(),
            "noise_std": np.repeat(self.std, estimates.shape[1]),
            "lower": self.lower.ravel(),
            "upper": self.upper.ravel(),
            "confidence_level": np.full(estimates.size, confidence_level),
        }


def steps_in_words(steps: NDArray[np.int64]) -> str:
    """Format ascending steps as ranges, the first few."""
    parts = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1)
    texts = [f"{a[0]:,}" if len(a) == 1 else f"{a[0]:,} to {a[-1]:,}" for a in parts]
    if len(steps) == 1:
        return f"step {texts[0]} is"
    return f"steps {some_of(texts)} are"
