"""What was released of a report: of all its statistics, and of each by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInput
from counton.base.exact import figures, quote
from counton.numbers.fit_request import EVERY_ROW, TableRequest
from counton.numbers.formulas import Estimate, TableNumbers, join_numbers
from counton.statistics.readings import Reading
from counton.statistics.statistic import Statistic


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

    def of(self, name: str) -> Reading:
        """What was released of one of the statistics.

        Raises:
            InvalidInput: none of this name.
        """
        self.statistic.statistic(name)
        found: Reading = self.statistic.read_part(name, self.cells)
        return found

    @property
    def parts(self) -> dict[str, Reading]:
        """What was released of each statistic."""
        return {name: self.of(name) for name in self.statistic.statistics}

    @override
    def number_of(self, name: Any = None) -> Estimate:
        if isinstance(name, tuple) and len(name) == 2:
            return self.of(name[0]).number_of(name[1])
        called = "" if name is None else name
        for part in sorted(self.statistic.statistics, key=len, reverse=True):
            if called == part:
                return self.of(part).number_of()
            if called.startswith(f"{part} "):
                rest = called[len(part) + 1 :]
                with suppress(InvalidInput):
                    return self.of(part).number_of(rest)
                return self.of(part).number_of(rest.partition(" ")[2] or rest)  # without its level
        first = next(iter(self.statistic.statistics))
        raise InvalidInput(
            f"{quote(name)} names no number of the report: name one of its statistics, "
            f"{', '.join(self.statistic.statistics)}, and where that has several a number of it, "
            f"such as {f'{first} mean'!r}"
        )

    @override
    def numbers(self, asked: TableRequest = EVERY_ROW) -> TableNumbers:
        parts = {name: reading.numbers() for name, reading in self.parts.items()}
        names: dict[str, list[str]] = {"statistic": [], "name": []}
        for name, part in parts.items():
            rows = np.size(part.numbers.value)
            about = {key: values for key, values in part.about.items() if key != "rank"}
            names["statistic"] += [name] * rows
            names["name"] += [_about(about, row) for row in range(rows)]
        texts = {name: np.array(values) for name, values in names.items()}
        return TableNumbers(texts, join_numbers([part.numbers for part in parts.values()]))


class FollowedReading(Reading):
    """Some numbers of another statistic's reading, which are all that a statistic has to say."""

    def __init__(self, statistic: Statistic, reading: Reading, rows: Mapping[Any, Any]) -> None:
        super().__init__(statistic, reading.cells)
        self._reading, self._rows = reading, rows

    @property
    @override
    def number_names(self) -> Sequence[Any]:
        return [*self._rows]

    @override
    def number_of(self, name: Any = None) -> Estimate:
        there = next(iter(self._rows.values()), None)
        if len(self._rows) > 1 or name is not None:
            if name not in self._rows:
                raise InvalidInput(f"{quote(name)} is none of {', '.join(map(str, self._rows))}")
            there = self._rows[name]
        return self._reading.number_of(there)

    @override
    def since(self, earlier: Reading) -> Self:
        assert isinstance(earlier, FollowedReading)
        since = self._reading.since(earlier._reading)
        return type(self)(self.statistic, since, self._rows)


def _about(columns: Mapping[str, NDArray[Any]], row: int) -> str:
    found = []
    for values in columns.values():
        one = values[row]
        if one is None:
            continue
        found.append(figures(float(one)) if values.dtype.kind == "f" else str(one))
    return " ".join(found) or "all"
