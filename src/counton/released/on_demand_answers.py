"""Released cells of a statistic that computes cells only on request, read from rows of its
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.numbers import Releases
from counton.numbers.design import Design
from counton.released.read_options import View
from counton.statistics import Statistic
from counton.statistics.readings import Readings
from counton.statistics.statistic import NamedCells


class Answers:
    """Stand-in for the state of a statistic whose cells are computed on request.

    The state would compute any cell with the key; this reads cells from rows of a released table. A
    cell that was not requested when the rows were written has no row, and is refused.

    Args:
        design: the design of the stream.
        statistic: the statistic.
        shown: the requested cells; without a request the last step has all cells.
        tables: the rows, all or some, with columns ``step, estimate`` and the requested names.

    Attributes:
        step: the last step.
        listed: cells that have a row, if all were written.
    """

    def __init__(
        self,
        terms: Design,
        statistic: Statistic,
        shown: View,
        tables: Sequence[pl.DataFrame],
    ) -> None:
        self.design, self.statistic = terms, statistic
        self.listed: NDArray[np.int64] | None = None
        whole = terms.contribution.resolution is None and not terms.strategy.facts.fraction_bits
        self._dtype = np.int64 if whole else np.float64
        columns = (
            pl.col("step").cast(pl.Int64),
            pl.col(self.named_by(statistic, shown)).cast(pl.String),
            pl.col("estimate").cast(pl.Int64 if whole else pl.Float64),
        )
        rows = pl.concat([one.select(columns) for one in tables]).drop_nulls()
        of: dict[str, dict[int, Any]] = {}
        for step, name, value in rows.iter_rows():
            of.setdefault(name, {})[step] = value
        self.step = int(rows["step"].to_numpy().max(initial=0))
        self._known: dict[bytes, dict[int, Any]] = {}
        if shown.ask is None:
            names = map(cast("NamedCells", statistic).name_of, range(math.prod(statistic.cells)))
            there = {cell: of[name] for cell, name in enumerate(names) if name in of}
            self.listed = np.array(list(there), np.int64)
            self._known = {_key([cell]): found for cell, found in there.items()}
        for given in shown.ask or ():
            name, cells = cast("NamedCells", statistic).asked_cells(given)
            self._known[_key(cells)] = of.get(name, {})

    @staticmethod
    def named_by(statistic: Statistic, shown: View) -> str:
        """Return the name of the table column that holds the names of the requested cells."""
        return "cell" if shown.ask is None else statistic.card.chart.cells

    def readings(self, statistic: Statistic) -> Readings:
        """Return the statistic's numbers at all steps, computed from the cells that these rows
        have.
        """
        machine: Any = self
        return Readings(statistic, range(1, self.step + 1), None, machine)

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """Return, for each step, the sum of some cells after it; 0 if a row was left out.

        Raises:
            InvalidInput: the cells were not requested when the rows were written.
        """
        known = self._known.get(_key(cells))
        if known is None:
            raise self._not_asked()
        return np.array([[known.get(step, 0)] for step in steps], self._dtype)

    def check_rows(self, cells: NDArray[np.int64], steps: Sequence[int]) -> None:
        """Refuse a sum of cells if one of the steps has no row for it.

        Raises:
            InvalidInput: the cells were not requested, or a row was left out.
        """
        known = self._known.get(_key(cells), {})
        if not all(step in known for step in steps):
            raise self._not_asked()

    def values(self, cells: NDArray[np.int64], step: int) -> NDArray[Any]:
        """Return the released values of some cells after a step.

        Raises:
            InvalidInput: a cell was not requested, or its row was left out.
        """
        found = [self._known.get(_key([cell]), {}).get(step) for cell in cells.tolist()]
        if None in found:
            raise self._not_asked()
        return np.array(found, self._dtype)

    def describe(self) -> str:
        """Return the stream's name, protected unit and guarantee in words."""
        return Releases(range(1, 1), np.zeros(0), self.design).describe()

    def _not_asked(self) -> InvalidInput:
        return InvalidInput(
            f"the file of {self.design.name!r} has only the answers that were asked for when it "
            "was written, and this one is missing or was left out: run the stream's own command, "
            "where the key is, and ask for it there"
        )


def _key(cells: Sequence[int] | NDArray[np.int64]) -> bytes:
    return np.asarray(cells, np.int64).tobytes()
