"""Sums over recent steps, computed from the releases of a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.continual.intervals import ErrorsOf
from counton.continual.releases import PublicNumbers, Releases, around, cell_columns, table_of
from counton.strategies.workloads import Part, RecentWorkload, check_workload

if TYPE_CHECKING:
    from counton.base.arrays import Floats
    from counton.continual.design import Design


@dataclass(frozen=True)
class RecentNumbers(PublicNumbers):
    """The numbers of a workload after each step, such as the sums of the last 7 and 28 steps.

    In the first steps a rolling sum is incomplete: it is the sum of all steps so far.

    Attributes:
        workload: the numbers that are computed.
        steps: the steps after which they are computed.
        values: by name, the numbers in data units, of shape ``(steps, *cells)``.

    >>> from counton import Counter, Key, Rolling, ZCDP
    >>> strategy = Rolling(7).root(365)
    >>> counter = Counter(strategy, ZCDP(0.5), key=Key.generate(), name="visits")
    >>> recent = counter.release_many([20] * 30).recent(Rolling(7))
    >>> recent.values[""].shape, recent.std().round(2).tolist()[-1]
    ((30,), 1.77...)
    >>> recent.is_complete().tolist().index(True)
    6
    """

    workload: RecentWorkload
    steps: range
    values: Mapping[str, NDArray[Any]]
    _design: Design = field(repr=False)

    @classmethod
    def of(cls, releases: Releases, workload: RecentWorkload) -> RecentNumbers:
        """Compute the numbers of a workload from all releases of a stream so far.

        Raises:
            InvalidInputError: no workload, releases that do not begin with step 1, or a stream
                that releases several recent windows again, or with a delay.
        """
        workload = check_workload(workload)
        design = releases._design
        facts = design.strategy.facts
        if facts.versions > 1 or facts.delay:
            raise InvalidInputError(
                f"{design.strategy!r} releases windows again or with a delay, so sums over recent "
                "steps are not computed: use another strategy"
            )
        if not len(releases) or releases.steps[0] != 1:
            raise InvalidInputError(
                "sums over recent steps need all releases from step 1 on: release them together, "
                "or give all of them"
            )
        totals = np.asarray(releases.values)
        if facts.workload == "windows":
            totals = np.cumsum(totals, axis=0)
        terms = replace(design, errors_of=ErrorsOf(workload=workload))
        values = {part.name: _values(totals, part) for part in workload.parts}
        return cls(workload, releases.steps, values, terms)

    @cached_property
    def _stds(self) -> dict[str, Floats]:
        return self._design.errors.recent_stds(self.steps)

    def std(self, name: str = "") -> NDArray[np.float64]:
        """Return the standard deviation of one number after each step, in data units.

        Args:
            name: the name of the number, such as "last 7" of a stack; "" for a single one.

        Raises:
            InvalidInputError: there is no number of this name.
        """
        return self._stds[self._part(name).name]

    def interval(
        self, confidence_level: float = 0.95, name: str = ""
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the ends of intervals, each with probability ``confidence_level``.

        Args:
            confidence_level: the probability of each interval.
            name: as of `std`.

        Raises:
            InvalidInputError: there is no number of this name, or the level is out of range.
        """
        values = self.values[self._part(name).name]
        half = self._design.errors.recent_halfwidths(self.steps, confidence_level)[name]
        return around(values, half.reshape(-1, *(1,) * (values.ndim - 1)))

    def is_complete(self, name: str = "") -> NDArray[np.bool_]:
        """Return whether a rolling sum has all of its steps, after each step.

        Args:
            name: as of `std`.

        Raises:
            InvalidInputError: there is no number of this name.
        """
        width = self._part(name).width or 1
        return np.asarray(self.steps) >= width

    def _part(self, name: str) -> Part:
        parts: Sequence[Part] = self.workload.parts
        for part in parts:
            if part.name == name:
                return part
        names = ", ".join(repr(part.name) for part in parts)
        raise InvalidInputError(f"there is no number {name!r}: give one of {names}")

    @override
    def table_columns(self, confidence_level: float = 0.95) -> dict[str, NDArray[Any]]:
        """Return the columns of `table` as arrays: all numbers, with is_complete.

        The column last_windows is the number of steps of a rolling sum; 0 for totals and decayed
        sums.
        """
        cells = max(math.prod(self._design.shape), 1)
        tables = []
        for part in self.workload.parts:
            about = {"window_index": np.repeat(np.asarray(self.steps), cells)}
            about["last_windows"] = np.full(len(self.steps) * cells, part.width or 0)
            about |= cell_columns(self._design.shape, len(self.steps))
            std = np.repeat(self.std(part.name), cells)
            interval = self.interval(confidence_level, part.name)
            columns = table_of(about, self.values[part.name], std, interval, confidence_level)
            columns["is_complete"] = np.repeat(self.is_complete(part.name), cells)
            tables.append(columns)
        return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _values(totals: NDArray[Any], part: Part) -> NDArray[Any]:
    """Return one number of a workload after each step, from the totals of all steps."""
    if part.factor < 1:
        steps = np.diff(totals.astype(np.float64), axis=0, prepend=0.0)
        decayed = np.zeros_like(steps)
        before = np.zeros(steps.shape[1:])
        for at, own in enumerate(steps):
            before = part.factor * before + own
            decayed[at] = before
        return decayed
    values = totals.copy()
    if part.width is not None and part.width < len(totals):
        values[part.width :] -= totals[: -part.width]
    return values
