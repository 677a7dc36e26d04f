"""The largest of groups that nobody declared: a ranking of what a counting job releases.

Its rows are the largest groups alone, and how sure each is hangs on all others too. So a file of it
carries the numbers of all groups that are shown, which are public as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.columns import WHEN
from counton.base.options import TOP
from counton.numbers import Design
from counton.released.counts import ReleasedCells
from counton.released.description import Description
from counton.released.packed_cells import MOST_CELLS, pack
from counton.released.read_options import Look, View
from counton.released.reading_tables import chart_of, heading_of, rows_among
from counton.released.release import Release
from counton.released.screen import Screen, largest_rows
from counton.statistics.catalogue import statistic_named
from counton.statistics.ranking import rank_largest, ranking_levels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.numbers.contrasts import Answer

#: Groups that there can be where nobody declares them, unless stated.
ROOM = 1_000_000


@dataclass(frozen=True, repr=False)
class ReleasedRanking(Release):
    """The k largest of the groups shown at each step; a function of what is released.

    Its table has the columns step, window_start, window_end, rank, group, estimate, std, lower,
    upper, sure; a group surely belongs to the k largest if no group that is not shown can be larger
    either.

    Attributes:
        definition, terms, steps, level: see `Release`.
        released: by a stream whose groups nobody declared.
        k: how many are shown.
        room: how many groups there can be, known to the public: showing some has chosen among all,
            so lower ends allow for the largest noise of all of them, and upper ends for that of k.
        among: groups that a reader chose, perhaps for what is released of them: then upper ends
            allow for the noise of all groups too. None: the largest of all are shown.
        there: of a file from which rows were left out, what tells apart those that are there; None:
            all are.
    """

    definition: Description
    terms: Design
    steps: range
    level: float
    released: ReleasedCells
    k: int
    room: int
    among: tuple[str, ...] | None = None
    there: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, released: ReleasedCells, shown: View) -> ReleasedRanking:
        """The largest of what was released, as many as are shown."""
        k, room = TOP if shown.top is None else shown.top, shown.room or ROOM
        own = released.definition, released.terms, released.steps, released.level
        return cls(*own, released, k, room, shown.ask)

    @property
    @override
    def groups(self) -> Sequence[str]:
        """Those that are ranked."""
        return self.released.groups

    @property
    @override
    def shown_steps(self) -> range:
        return self.released.shown_steps

    @override
    def only(
        self, steps: range | None = None, groups: Sequence[str] | None = None
    ) -> ReleasedRanking:
        released = self.released.only(steps)
        fewer = released.only(groups=groups)
        all_of_them = self.among is None and fewer is released
        among = None if all_of_them else tuple(fewer.groups)
        return replace(self, steps=fewer.steps, released=fewer, among=among)

    @override
    def most_of_hidden(self, *, groups: int = 1) -> Answer:
        """See `Release.most_of_hidden`: of a group that is not even among those found."""
        return self.released.most_of_hidden(groups=groups)

    @override
    def window_end(self, step: int) -> np.datetime64:
        return self.released.window_end(step)

    @override
    def table(self, steps: range | None = None) -> pl.DataFrame:
        return self._table if steps is None else self.only(steps)._table

    @cached_property
    def _table(self) -> pl.DataFrame:
        released, level, room = self.released, self.level, self.room
        terms, groups, discovery = released.terms, released.groups, released.definition.discovery
        assert discovery is not None
        # What is not shown was always below.
        hidden = discovery.thresholds(terms, released.steps)
        since = np.array([(released.since or {}).get(group, 1) for group in groups], np.int64)
        shown = self.k if self.among is None else room
        down, up = (
            terms.halfwidths(released.steps, each) for each in ranking_levels(room, shown, level)
        )
        rows: list[tuple[Any, ...]] = []
        for step in released.shown_steps:
            there = np.flatnonzero(since <= step)
            values = released.own.estimates[step - 1, there]
            names = [groups[int(place)] for place in there]
            upward = None if self.among is not None else float(up[step - 1])
            best = rank_largest(
                *(names, values, float(down[step - 1]), self.k),
                upward=upward, hidden=int(hidden[step - 1]), level=level,
            )  # fmt: skip
            std = float(released.own.std[step - 1])
            found = zip(
                *(best.names, best.values.tolist(), best.lower.tolist(), best.upper.tolist()),
                best.sure.tolist(),
                strict=True,
            )
            rows += [(step, rank, *one[:2], std, *one[2:]) for rank, one in enumerate(found, 1)]
        names_of = ("step", "rank", "group", "estimate", "std", "lower", "upper", "sure")
        none = dict.fromkeys(names_of, pl.Int64()) | {
            "group": pl.String(),
            "std": pl.Float64(),
            "sure": pl.Boolean(),
        }
        table = pl.DataFrame(rows, schema=list(names_of) if rows else none, orient="row")
        windows = released.table().select(WHEN).unique("step")
        table = table.join(windows, on="step", maintain_order="left").select(*WHEN, *names_of[1:])
        return table if self.there is None else rows_among(table, self.there)

    @override
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        last = self._table.filter(self._table["step"] == self.steps.stop - 1)
        return last if most is None else last.head(most)

    @override
    def with_note(self, note: str) -> ReleasedRanking:
        return replace(self, notes=(*self.notes, note))

    @override
    def left_out(self) -> tuple[int, int]:
        of = self._table.height if self.there is None else replace(self, there=None)._table.height
        return of - self._table.height, of

    @override
    def errors(self) -> list[str]:
        from counton.released.stream_words import far_in_words

        errors = self.released.errors()
        if far := far_in_words(self.reach()):
            errors.append(
                f"Intervals of the groups that are shown hold at once, and reach at most {far} to "
                f"either side."
            )
        return errors

    @override
    def screen(self) -> Screen:
        self.check_released()
        rows = self.last_rows()
        heading = heading_of(
            self, None, f" for all that are shown at once, chosen from up to {self.room:,} groups"
        )
        if not rows.height:
            return Screen(heading=heading, notes=["no group is large enough to be shown yet"])
        table, left_out = largest_rows(rows.drop(WHEN))
        return Screen((), heading, [table], left_out)

    @override
    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
    ) -> dict[str, Figure]:
        self.check_released()
        ranking: Any = statistic_named(self.definition.what)
        look = Look(title, axis, source, width)
        statistic = ranking(list(self.groups), self.k)
        return {"statistic": chart_of(statistic, self._table, self.released, look)}

    @property
    @override
    def drawable(self) -> bool:
        """A row of any step."""
        return self._table.height > 0

    @override
    def facts(self) -> dict[str, Any]:
        """How many groups there can be, from which those shown are chosen."""
        return {"room": self.room, **super().facts()}

    @override
    def own_facts(self) -> dict[str, Any]:
        """Also all groups that are shown, unless they are too many."""
        found = self.released.own_facts()
        found["since"] = {group: found["since"][group] for group in self.groups}
        found["shown"] = View(self.among, top=self.k, room=self.room).to_dict()
        if (cells := self.cells()) is not None:
            found["cells"] = pack(cells)
        return found

    def cells(self) -> NDArray[Any] | None:
        """The numbers of all groups that are shown, by step; None where they are too many."""
        values = self.released.published.values
        return None if values.size > MOST_CELLS else values
