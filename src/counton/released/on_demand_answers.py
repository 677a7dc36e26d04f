"""Released cells of a statistic that computes cells only on request, taken from rows of its
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
    """A stand-in for the running stream of a statistic whose cells are computed on request.

    The stream would compute any cell with the key; this object takes cells from the rows of a
    released table. A cell that was not requested when the rows were written has no row, and raises
    an error.

    Args:
        terms: the design of the stream (strategy, guarantee and noise).
        statistic: the statistic.
        shown: which cells were requested; if none were, the last step has all cells.
        tables: the rows, all or some, with columns ``step``, ``estimate`` and the requested names.

    Attributes:
        step: the last step.
        listed: indices of the cells that have a row; None if only requested cells were written.
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
            name, cells = cast("NamedCells", statistic).cells_of_name(given)
            self._known[_key(cells)] = of.get(name, {})

    @staticmethod
    def named_by(statistic: Statistic, shown: View) -> str:
        """Return the name of the table column that has the names of requested cells."""
        return "cell" if shown.ask is None else statistic.card.cell_column

    def readings(self, statistic: Statistic) -> Readings:
        """Return the statistic's numbers at the steps 1 to ``step``, computed from the cells in the
        rows of the released table (``tables``).
        """
        machine: Any = self
        return Readings(statistic, range(1, self.step + 1), None, machine)

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """Return the sum of some cells at each step, of shape ``(steps, 1)``; 0 if a row was left
        out.

        Args:
            cells: indices of the cells.
            steps: the steps.

        Raises:
            InvalidInput: the cells were not requested when the rows were written.
        """
        known = self._known.get(_key(cells))
        if known is None:
            raise self._unrequested_answer()
        return np.array([[known.get(step, 0)] for step in steps], self._dtype)

    def check_rows(self, cells: NDArray[np.int64], steps: Sequence[int]) -> None:
        """Raise an error if the rows lack the sum of these cells at one of the steps.

        Raises:
            InvalidInput: the cells were not requested, or a row was left out.
        """
        known = self._known.get(_key(cells), {})
        if not all(step in known for step in steps):
            raise self._unrequested_answer()

    def values(self, cells: NDArray[np.int64], step: int) -> NDArray[Any]:
        """Return the released values of some cells after a step, of shape ``(cells,)``.

        Raises:
            InvalidInput: a cell was not requested, or its row was left out.
        """
        found = [self._known.get(_key([cell]), {}).get(step) for cell in cells.tolist()]
        if None in found:
            raise self._unrequested_answer()
        return np.array(found, self._dtype)

    def describe(self) -> str:
        """Describe the stream's name, the protected unit and the guarantee in words."""
        return Releases(range(1, 1), np.zeros(0), self.design).describe()

    def _unrequested_answer(self) -> InvalidInput:
        return InvalidInput(
            f"the file of {self.design.name!r} has only the answers that were asked for when it "
            "was written, and this one is missing or was left out: run the stream's own command, "
            "where the key is, and ask for it there"
        )


def _key(cells: Sequence[int] | NDArray[np.int64]) -> bytes:
    return np.asarray(cells, np.int64).tobytes()
