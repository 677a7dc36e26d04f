"""Readings of one statistic of a report, as if it were released alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.mechanisms import Design
from counton.statistics import Reading, Statistic
from counton.statistics.grouped import GroupedReading
from counton.statistics.readings import Readings

if TYPE_CHECKING:
    from counton.statistics.report_readings import ReportReading


class PartSource:
    """Readings of one statistic, from those of the report."""

    def __init__(self, readings: Readings, statistic: Statistic, name: str, terms: Design) -> None:
        self._readings, self._statistic, self._name = readings, statistic, name
        self.terms, self.step = terms, len(readings)

    def readings(
        self, start: int = 1, stop: int | None = None, read_as: Statistic | None = None
    ) -> Readings:
        """See `Source.readings`."""
        some = self._readings[start - 1 : None if stop is None else stop - 1]
        return _PartReadings(some, self._statistic, self._name)

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """See `Source.history`: no statistic of a report is read on demand."""
        raise NotImplementedError


class _PartReadings(Readings):
    """See `Readings`."""

    def __init__(self, whole: Readings, statistic: Statistic, name: str) -> None:
        super().__init__(statistic, whole.steps, None)
        self._whole, self._name = whole, name

    @override
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return _PartReadings(self._whole[place], self._statistic, self._name)
        return _part(self._whole[place], self._statistic, self._name)


def _part(reading: Reading, statistic: Statistic, name: str) -> Reading:
    groups = reading.by_group(None)
    if groups is None:
        return cast("ReportReading", reading).of(name)
    return _PartByGroup(reading, statistic, name)


class _PartByGroup(GroupedReading):
    """One statistic of a report, by group."""

    def __init__(self, reading: Reading, statistic: Statistic, name: str) -> None:
        super().__init__(statistic, reading.cells)
        self._reading, self._name = reading, name

    @override
    def of(self, group: str) -> Reading:
        return cast("ReportReading", cast("GroupedReading", self._reading).of(group)).of(self._name)

    @override
    def since(self, earlier: Reading) -> Any:
        assert isinstance(earlier, _PartByGroup)
        whole = self._reading.since(earlier._reading)
        return _PartByGroup(whole, self.statistic, self._name)
