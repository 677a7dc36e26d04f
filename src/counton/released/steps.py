"""Released steps of a stream that was not made from events: totals, or windows, by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, field
from counton.numbers import Design, Releases
from counton.released.description import Description, statistic_kept
from counton.released.release import Release
from counton.released.screen import Screen, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class ReleasedSteps(Release):
    """What a stream says that somebody gave counts by step: it has no windows and no groups.

    Attributes:
        definition, terms, steps, level, notes: see `Release`.
        releases: of the steps that are shown.

    >>> import tempfile
    >>> from counton import PureDP, Stream
    >>> from counton.run import export
    >>> from counton.strategies import Binary
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Stream.create(folder.name + "/s.db", "visits", Binary(9), PureDP(1)) as stream:
    ...     _ = stream.release_many([3, 0, 5])
    >>> found = export(folder.name + "/s.db")
    >>> found.table().columns, found.steps
    (['step', 'estimate', 'std', 'lower', 'upper'], range(1, 4))
    >>> folder.cleanup()
    """

    definition: Description
    terms: Design
    steps: range
    level: float
    releases: Releases
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, terms: Design, releases: Releases, level: float) -> ReleasedSteps:
        """All that was released so far."""
        windows = terms.strategy.workload == "windows"
        definition = Description(
            what="stream",
            statistic=statistic_kept(terms, "stream"),
            by=None,
            value=None,
            cut=None,
            domain=None,
            unit=terms.contribution.unit,
            guarantee=terms.guarantee,
            contribution=terms.contribution,
            strategy=terms.strategy,
            release="windows" if windows else "totals",
            metric="mean",
        )
        return cls(definition, terms, releases.steps, level, releases)

    @property
    @override
    def groups(self) -> tuple[str, ...]:
        """None, its cells have numbers."""
        return ()

    @property
    @override
    def shown_steps(self) -> range:
        return self.releases.steps

    @override
    def only(
        self, steps: range | None = None, groups: Sequence[str] | None = None
    ) -> ReleasedSteps:
        if groups is not None:
            raise InvalidInput(
                f"{field('groups', ','.join(groups))} names groups, and stream "
                f"{self.terms.name!r}, which was not made from events, has none: leave it out"
            )
        if steps is None:
            return self
        part = slice(steps.start - self.shown_steps.start, steps.stop - self.shown_steps.start)
        releases = Releases(steps, self.releases.values[part], self.terms)
        return replace(self, steps=range(1, steps.stop), releases=releases)

    @override
    def table(self, steps: range | None = None) -> pl.DataFrame:
        """A row for each step and cell."""
        shown = self if steps is None else self.only(steps)
        return cast("pl.DataFrame", shown.releases.table(self.level))

    @override
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        rows = self.table(self.steps[-1:])
        return rows if most is None else rows.head(most)

    @override
    def window_end(self, step: int) -> np.datetime64:
        """Its steps have no times.

        Raises:
            InvalidInput: always.
        """
        self._no_times("windows")

    @override
    def screen(self) -> Screen:
        heading = f"\nafter step {self.steps[-1]:,}, intervals of {100 * self.level:g}%"
        return Screen((), heading, [text_table(self.last_rows())])

    @override
    def errors(self) -> list[str]:
        from counton.released.stream_words import far_in_words

        far = far_in_words(self.reach())
        return [
            self.releases._error(),
            f"At step {self.steps[-1]:,}, the last one, {100 * self.level:g}% intervals reach at "
            f"most {far} to either side.",
        ]

    def _account(self) -> str:
        """See `Release.methods`: of its terms alone, since nobody said what its numbers are of."""
        from counton.numbers.methods import methods

        return methods(self.terms, errors=self.errors())

    @override
    def figures(self, *, panels: bool = False, **look: Any) -> dict[str, Figure]:
        """There are none.

        Raises:
            InvalidInput: always.
        """
        self._no_times("a chart")

    @override
    def own_facts(self) -> None:
        """Its stream answers by `Stream.window`."""

    @property
    @override
    def drawable(self) -> bool:
        return False

    @override
    def with_note(self, note: str) -> ReleasedSteps:
        return replace(self, notes=(*self.notes, note))

    def _no_times(self, what: str) -> NoReturn:
        raise InvalidInput(
            f"stream {self.terms.name!r} was not made from events, so that its steps have no times "
            f"and there is nothing for {what}: write a table"
        )
