"""What was released of a report: of all its statistics, and of each by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.errors import InvalidInput
from counton.exact import figures, quote
from counton.mechanisms import StepRelease
from counton.mechanisms.formulas import ReleasedNumber
from counton.statistics.base import Statistic
from counton.statistics.readings import Reading, ReleaseDifference

#: Columns of a reading that are numbers, and not what a row is about.
_NUMBERS = ("estimate", "std", "lower", "upper")
#: Other columns that do not say what a row is about: when it is of, where its group ranks, and how
#: much there is up to it.
_NOT_ABOUT = ("step", "start", "rank", "sure", "running_total", "running_total_std")


class ReportReading(Reading):
    """What was released of all statistics of a report at one step.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Average, Count, Report
    >>> report = Report({"rows": Count(), "paid": Average(0, 9, 1)}, columns={"paid": "paid"})
    >>> counter = report.counter(1, PureDP(1), key=Key.generate(), name="r", batched=True)
    >>> reading = counter.release_batch([{"paid": 3}])
    >>> list(reading.parts)
    ['rows', 'paid']
    """

    statistic: Any  # the report, which makes these readings
    #: The two readings whose difference it is.
    _ends: tuple[ReportReading, ReportReading] | None = None

    def of(self, name: str) -> Reading:
        """What was released of one of the statistics.

        Raises:
            InvalidInput: none of this name.
        """
        this = self.statistic
        one = this.statistic(name)
        source = this.derived_from.get(name)
        if source is not None:
            return cast("Reading", this.reading_of(name, self.of(source)))
        if self._ends is not None:
            earlier, now = self._ends
            found = now.of(name).since(earlier.of(name))
        else:
            terms = this.terms_of(name, self.release._terms)
            values = this.values_of(name, np.asarray(self.release.value), terms)
            std = terms.in_data_units(self.release.std)
            cells = values if one.cells else float(values)
            release = StepRelease(self.step, cells, std, terms)
            if isinstance(self.release, ReleaseDifference):  # of a group
                release = ReleaseDifference(self.step, cells, std, terms, start=self.release.start)
            found = cast("Reading", one.read(release))
        # Cells of other groups, and of statistics that are described alike, have other noise.
        found.first_cell = self.first_cell + this.cell_ranges[name].start
        return found

    @property
    def parts(self) -> dict[str, Reading]:
        """What was released of each statistic."""
        return {name: self.of(name) for name in self.statistic.statistics}

    @override
    def since(self, earlier: Reading) -> Self:
        """See `Reading.since`: what was counted of each statistic."""
        found = super().since(earlier)
        assert isinstance(earlier, ReportReading)
        found._ends = earlier, self
        return found

    @override
    def formula(self, name: str | None = None) -> ReleasedNumber:
        """``"visits"``, or a statistic and a number of it, ``"paid mean"``.

        Raises:
            InvalidInput: no such statistic, or none of its numbers.
        """
        called = "" if name is None else name
        for part in sorted(self.statistic.statistics, key=len, reverse=True):
            if called == part:
                return self.of(part).formula()
            if called.startswith(f"{part} "):
                rest = called[len(part) + 1 :]
                with suppress(InvalidInput):
                    return self.of(part).formula(rest)
                return self.of(part).formula(rest.partition(" ")[2] or rest)  # without its level
        first = next(iter(self.statistic.statistics))
        raise InvalidInput(
            f"{quote(name)} names no number of the report: name one of its statistics, "
            f"{', '.join(self.statistic.statistics)}, and where that has several a number of it, "
            f"such as {f'{first} mean'!r}"
        )

    def __getitem__(self, name: Any) -> Any:
        """A number of one statistic: ``["visits"]`` of those with one number, else a pair.

        Raises:
            InvalidInput: no such statistic, or none of its numbers.
        """
        part, inner = self._split_name(name)
        return self._only(part) if inner is None else self.of(part)[inner]

    def _split_name(self, name: Any) -> tuple[str, Any]:
        if isinstance(name, tuple) and len(name) == 2:
            return name[0], name[1]
        return name, None

    def _only(self, part: str, column: str = "estimate") -> Any:
        found = self.of(part).table_columns()[column]
        if len(found) != 1:
            raise InvalidInput(
                f"{part!r} has {len(found)} numbers: ask for one of them, ({part!r}, name)"
            )
        return found[0].item()

    @override
    def std(self, name: Any = None) -> float:
        """See `Reading.std`; of a part as `__getitem__` has it."""
        if name is None:
            return self.release.std
        part, inner = self._split_name(name)
        return float(self._only(part, "std") if inner is None else self.of(part).std(inner))

    @override
    def interval(self, name: Any, level: float = 0.95) -> tuple[Any, Any]:
        """See `Reading.interval`; of a part as `__getitem__` has it."""
        part, inner = self._split_name(name)
        if inner is not None:
            return self.of(part).interval(inner, level)
        found = self.of(part).table_columns(level)
        self._only(part)
        return found["lower"][0].item(), found["upper"][0].item()

    @override
    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """The rows of each statistic, and what each row is about."""
        found: dict[str, list[Any]] = {"statistic": [], "name": []}
        numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _NUMBERS}
        for name, reading in self.parts.items():
            columns = dict(reading.table_columns(level))
            if "estimate" not in columns:  # of a share it is called what it is of
                columns["estimate"] = columns.pop("value")
            rows = len(columns["estimate"])
            about = {
                key: values
                for key, values in columns.items()
                if key not in (*_NUMBERS, *_NOT_ABOUT)
            }
            found["statistic"] += [name] * rows
            found["name"] += [_about(about, row) for row in range(rows)]
            for key, parts in numbers.items():
                values = columns.get(key, np.full(rows, math.nan))
                parts.append(np.asarray(values, np.float64))
        texts = {name: np.array(values) for name, values in found.items()}
        return texts | {name: np.concatenate(parts) for name, parts in numbers.items()}


class FollowedReading(Reading):
    """Some rows of another statistic's reading, which are all that a statistic has to say."""

    def __init__(self, statistic: Statistic, reading: Reading, rows: Mapping[Any, Any]) -> None:
        """Not for callers.

        Args:
            statistic: that is read.
            reading: of the statistic that was measured.
            rows: by the name of each row here that of the row there.
        """
        super().__init__(statistic, reading.release)
        self._reading, self._rows = reading, rows

    def _there(self, name: Any) -> Any:
        if len(self._rows) == 1 and name is None:
            return next(iter(self._rows.values()))
        if name not in self._rows:
            raise InvalidInput(f"{quote(name)} is none of {', '.join(map(str, self._rows))}")
        return self._rows[name]

    @override
    def since(self, earlier: Reading) -> Self:
        """Rows of what was counted."""
        assert isinstance(earlier, FollowedReading)
        since = self._reading.since(earlier._reading)
        return type(self)(self.statistic, since, self._rows)

    @override
    def formula(self, name: str | None = None) -> ReleasedNumber:
        """That of the reading from which it follows."""
        there = self._there(name)
        if isinstance(there, str):
            return self._reading.formula(there)
        if there and all(isinstance(one, str) for one in there):
            return self._reading.formula(" ".join(there))
        return self._reading.whole()  # how many rows there are

    @override
    def __getitem__(self, name: Any) -> Any:
        return self._reading[self._there(name)]

    @override
    def std(self, name: Any = None) -> float:
        return self._reading.std(self._there(name))

    @override
    def interval(self, name: Any = None, level: float = 0.95) -> tuple[Any, Any]:
        return self._reading.interval(self._there(name), level)

    @override
    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        names = [*self._rows]
        ends = [self.interval(name, level) for name in names]
        named = {} if names == [None] else {"name": np.array(names)}
        return {
            **named,
            "estimate": np.array([float(self[name]) for name in names]),
            "std": np.array([self.std(name) for name in names]),
            "lower": np.array([float(low) for low, _ in ends]),
            "upper": np.array([float(high) for _, high in ends]),
        }


def _about(columns: Mapping[str, NDArray[Any]], row: int) -> str:
    """What a row is about, in one text."""
    found = []
    for values in columns.values():
        one = values[row]
        if one is None:
            continue
        found.append(figures(float(one)) if values.dtype.kind == "f" else str(one))
    return " ".join(found) or "all"
