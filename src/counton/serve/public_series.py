"""Released series for readers, from a stream's journal and public facts alone.

No exact sum passes here: `counton.state.Store.reader` needs no key and reads only releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from counton.base.errors import InvalidInputError, StateError, param
from counton.base.exact import figures_above
from counton.base.table_schema import ESTIMATE
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.continual.strategy_text import strategy_in_words
from counton.privacy.contribution import canonical_unit
from counton.results.metadata import ReleaseMetadata
from counton.results.metadata_codec import facts_of
from counton.results.privacy_text import protection_in_words, users_note_of
from counton.results.release_data import ReleaseData
from counton.results.released_table import table_of, table_of_series
from counton.results.subject_text import measured_in
from counton.results.systematic_errors import systematic_errors
from counton.results.table_rows import finite
from counton.run.outputs.read_journal import public_notes, read_release
from counton.run.spec.planned_accuracy import halfwidths_at, planned_last_step
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import Endless
from counton.serve.pages import Page, PagePosition, ReleasedRows
from counton.state import Store
from counton.state.keys import KeySource
from counton.state.stream_reader import JournalReader
from counton.statistics.catalogue import is_keyword, statistic_named
from counton.strategies.strategy import last_served_step
from counton.windowing.windows import microseconds, parse_time

#: Largest number of rows of an answer that is sent in parts.
MOST_ROWS = 2_000_000
#: Largest number of rows of an answer that waits for no other one.
FEW_ROWS = 500


def refuse_many_rows(rows: int | None) -> None:
    """Refuse an answer in parts that would never end.

    Args:
        rows: number of its rows; None: unknown.

    Raises:
        InvalidInputError: there are too many rows.
    """
    if (rows or 0) > MOST_ROWS:
        raise InvalidInputError(
            f"that would be {rows:,} rows, and at most {MOST_ROWS:,} are possible: ask for fewer "
            f"steps or groups, or export the stream to a file"
        )


def json_rows(rows: pl.DataFrame) -> list[dict[str, object]]:
    """Return rows as JSON values: times with their offset, and no NaN."""
    times = [name for name, dtype in rows.schema.items() if isinstance(dtype, pl.Datetime)]
    converted = finite(rows).with_columns(
        pl.col(name).map_elements(datetime.isoformat, return_dtype=pl.String) for name in times
    )
    return converted.to_dicts()


def _steps_with_rows(numbers: ReleaseData, steps: range) -> range:
    """Return the steps that have rows: the first numbers of several windows need these windows."""
    return range(max(steps.start, numbers.shown.over or 1), steps.stop)


@dataclass(frozen=True)
class SeriesSelection:
    """Which released rows of a stream a reader wants.

    Attributes:
        groups: names of the groups; empty: all.
        start: only windows that begin at this time or later.
        until: only windows that end by this time.
        series: cumulative or per-window; None: cumulative, if it is released.
        level: probability of the intervals; None: that of the stream.
        last: only this many newest steps.
    """

    groups: tuple[str, ...] = ()
    start: str | None = None
    until: str | None = None
    series: str | None = None
    level: float | None = None
    last: int | None = None

    @property
    def has_all_steps(self) -> bool:
        """Whether no step is left out."""
        return (self.start, self.until, self.last) == (None, None, None)


#: All released rows, with the intervals of the stream.
ALL_ROWS = SeriesSelection()


class _PublicFacts(NamedTuple):
    """A stream, open for reading, and its public facts at one moment."""

    reader: JournalReader
    spec: StreamSpec
    metadata: ReleaseMetadata


class Journal:
    """Reader of one stream's releases and public facts, for several threads.

    Args:
        store: the state.
        name: name of the stream.
        key: where the key of the stream is; it is read only where it is needed.
        release_delay: microseconds from the end of a window to its release.
    """

    def __init__(
        self, store: Store, name: str, *, key: KeySource = None, release_delay: int = 0
    ) -> None:
        self._store = store
        self.name = name
        self._key = key
        self._release_delay = release_delay
        self._reading = Lock()  # so that many readers of a new step read the journal once
        self._kept: tuple[object, ReleaseData | None] = (None, None)
        #: The newest answer of `page`, for which many readers ask, by what they ask.
        self._newest: tuple[object, Page] = (None, Page(pl.DataFrame(), None))
        self.refused = False
        self._position = self._store.position(self.name)
        self._facts = self._look()

    def refresh(self) -> int:
        """Read new steps, and return the number of released ones.

        Raises:
            StateError: the state cannot be used, for instance because it is an old copy. Then
                `refused` becomes True, and public facts stay.
        """
        try:
            position = self._store.position(self.name)
            if position != self._position or self.refused:
                facts = self._look()
                self._store.position(self.name)  # raises if the state has become an older copy
                self._facts = facts
                self._position = position
        except StateError:
            self.refused = True
            raise
        self.refused = False
        return self.step

    def _look(self) -> _PublicFacts:
        reader = self._store.reader(self.name, self._key)
        spec = StreamSpec.of_stream(reader)
        return _PublicFacts(reader, spec, spec.metadata())

    @property
    def step(self) -> int:
        """Number of steps at the last `refresh`."""
        return self._facts.reader.step

    @property
    def spec(self) -> StreamSpec:
        """The specification of the stream."""
        return self._facts.spec

    @property
    def metadata(self) -> ReleaseMetadata:
        """The public description of the stream."""
        return self._facts.metadata

    def ends(self, step: int) -> datetime | None:
        """Return the end of a step's window, in local time."""
        windows = self.metadata.windows
        if not 1 <= step <= windows.steps:
            return None
        return windows.local(int(windows.ends(range(step, step + 1))[0]))

    def due(self, step: int) -> datetime | None:
        """Return when a step is to be released: at its window's end plus the release delay."""
        end = self.ends(step)
        last = last_served_step(self.spec.strategy)
        if end is None or self.spec.closed_at_step is not None or step > (last or step):
            return None
        return self.metadata.windows.local(microseconds(end) + self._release_delay)

    def about(self) -> dict[str, object]:
        """Return public facts (unit, guarantee, windows, groups) as JSON values."""
        metadata = self.metadata
        step = self.step
        last = self.ends(step)
        due = self.due(step + 1)
        forever = metadata.strategy.horizon is None
        subject = metadata.subject if metadata.inner.additive else metadata.statistic_name
        if not metadata.inner.additive and is_keyword(subject):
            subject = statistic_named(subject).says
        return {
            "name": self.name,
            "statistic": metadata.statistic_name,
            "what": subject,
            **self.promise(),
            "series": metadata.series,
            **metadata.recent_sums(),
            "every": metadata.windows.every,
            "timezone": metadata.windows.timezone,
            "confidence_level": self.level,
            "group": metadata.group_by,
            "groups": self.groups(),
            "units": measured_in(metadata),
            "steps": step,
            "horizon": None if forever else metadata.windows.steps,
            "last_window_end": None if last is None else last.isoformat(),
            "next_release": None if due is None else due.isoformat(),
        }

    def promise(self) -> dict[str, str]:
        """Return unit and guarantee; answers with few numbers repeat them for their readers."""
        metadata = self.metadata
        return {
            "unit": metadata.privacy_unit,
            "protected": metadata.contribution.describe(metadata.privacy_unit),
            "guarantee": str(metadata.guarantee),
        }

    def groups(self) -> list[str]:
        """Return the shown groups."""
        if self.metadata.cells.named_beforehand:
            return list(self.metadata.groups)
        return list(self.read().groups) if self.step else []

    def describe(self) -> dict[str, Any]:
        """Return `about`, the guarantee in words, errors besides noise, and the budget left."""
        reader, spec, metadata = self._facts
        ledger = self._store.ledger
        unit = metadata.privacy_unit
        counted = spec.unit_in_ledger
        remaining = None if ledger is None else ledger.remaining(unit=counted)
        totals = self._store.totals
        _, spent = totals.get(canonical_unit(counted, totals), (None, None))
        columns: list[str] = []
        if self.step:
            columns = self.rows(SeriesSelection(last=1)).page().table.columns
        return {
            **self.about(),
            "description": [
                f"{metadata.guarantee}, {metadata.guarantee.scope}",
                metadata.guarantee.meaning_for(unit, metadata.contribution.relation),
                *filter(None, [users_note_of(metadata)]),
                strategy_in_words(metadata.strategy, metadata.windows.noun),
            ],
            "protects": protection_in_words(metadata),
            "people": users_note_of(metadata),
            "systematic_errors": [
                *public_notes(spec),
                *systematic_errors(metadata),
            ],
            "planned_error": self.planned_error,
            "key_fingerprint": reader.key_fingerprint,
            "budget": {
                "unit": unit,
                "spent": None if spent is None else str(spent),
                "budget": None if ledger is None else str(ledger.budget),
                "left": None if remaining is None else str(remaining),
            },
            "columns": columns,
        }

    @cached_property
    def planned_error(self) -> str | None:
        """Half-widths of a count's or sum's intervals at the last step, as they were planned."""
        spec = self.spec
        last = None if isinstance(spec.terms.windowing, Endless) else planned_last_step(spec)
        if last is None or not spec.accumulator_statistic.additive:
            return None
        planned = halfwidths_at(spec, [last], self.level)
        errors = [f"{name} ± {figures_above(half)}".strip() for name, (half,) in planned.items()]
        return ", ".join(errors)

    def budget_left(self) -> float | None:
        """Return the fraction of the unit's privacy budget that is left, if there is a budget."""
        ledger = self._store.ledger
        if ledger is None:
            return None
        remaining = ledger.remaining(unit=self.spec.unit_in_ledger)
        if remaining is None:
            return 0.0
        for name in ("rho", "epsilon"):
            whole = ledger.budget.losses.get(name)
            if whole:
                return float(remaining.losses[name]) / float(whole)
        return None

    @property
    def level(self) -> float:
        """Probability of intervals by default: that of the stream's last job."""
        return check_confidence_level(self.spec.remembered_level, usual=DEFAULT_CONFIDENCE_LEVEL)

    def read(self, level: float | None = None) -> ReleaseData:
        """Read all released numbers.

        Raises:
            InvalidInputError: the level is out of range, or nothing is released yet.
            StateError: the state is an old copy.
        """
        level = check_confidence_level(self.level if level is None else level)
        if not self.step:
            due = self.due(1)
            raise InvalidInputError(
                f"stream {self.name!r} has released nothing yet; ask again after "
                f"{'its first window' if due is None else due.isoformat()}"
            )
        return self._read_journal(level)

    def whole(self) -> tuple[dict[str, object], ReleasedRows]:
        """Return what a file of the whole release has, for `counton.read`: its facts and rows.

        Raises:
            InvalidInputError: nothing is released yet, or there are too many rows.
        """
        numbers = self.read()
        refuse_many_rows(numbers.n_rows)
        steps = _steps_with_rows(numbers, numbers.steps)
        step_rows = None if numbers.n_rows is None else len(numbers.groups) * numbers.n_series
        return facts_of(numbers), ReleasedRows(steps, partial(table_of, numbers), step_rows)

    def _read_journal(self, level: float) -> ReleaseData:
        """Read all released numbers anew if the journal has another position.

        At another position some numbers may have been withdrawn.

        Args:
            level: probability of the intervals.
        """
        with self._reading:
            request = (self._position, self.level)
            cached, numbers = self._kept
            if numbers is None or cached != request:
                reader = self._store.reader(self.name, self._key)
                numbers = read_release(reader, self.spec, level=self.level).numbers
                self._store.position(self.name)  # raises if it is an older copy
                self._kept = (request, numbers)
        return numbers if level == numbers.level else numbers.at(level)

    def has_many_rows(
        self, selection: SeriesSelection = ALL_ROWS, position: str | None = None
    ) -> bool:
        """Return whether an answer may have many rows, by public facts, before the journal is read.

        Args:
            selection: the rows.
            position: text of the position where a page begins.

        Raises:
            InvalidInputError: a time or position cannot be read.
        """
        steps = self._steps(self.step, selection)
        if position is not None:
            page = PagePosition.parse(position)
            steps = range(page.step, page.last + 1)
        return len(steps) * self._rows_of_step(selection.groups) > FEW_ROWS

    def has_many_groups(self) -> bool:
        """Return whether `about` may be long."""
        return len(self.groups()) > FEW_ROWS if self.step else self._rows_of_step() > FEW_ROWS

    def _rows_of_step(self, groups: Sequence[str] = ()) -> int:
        """Return the largest number of rows of a step, as far as public facts tell it."""
        metadata = self.metadata
        numbers = self._kept[1]
        if not metadata.inner.additive:
            return max(math.prod(metadata.statistic.cells), 1)
        if groups:
            return len(groups)
        if metadata.cells.named_beforehand:
            return max(len(metadata.groups), 1)
        return FEW_ROWS if numbers is None else max(len(numbers.groups), 1)

    def _steps(self, released: int, selection: SeriesSelection) -> range:
        """Return the steps of a selection, among the ``released`` first ones."""
        windows = self.metadata.windows
        first = 1
        stop = released + 1
        if selection.start is not None:
            begin = microseconds(parse_time(selection.start, windows.timezone))
            first = max(first, int(windows.step_of(np.array([begin - 1]))[0]) + 1)
        if selection.until is not None:
            end = microseconds(parse_time(selection.until, windows.timezone))
            stop = min(stop, windows.ended_by(end) + 1)
        if selection.last is not None:
            first = max(first, stop - selection.last)
        return range(first, stop)

    def rows(self, selection: SeriesSelection) -> ReleasedRows:
        """Return the rows of some released steps and groups.

        Raises:
            InvalidInputError: a group or time is unknown.
        """
        numbers = self.read(selection.level) if self.step else self._read_journal(self.level)
        steps = _steps_with_rows(numbers, self._steps(len(numbers.steps), selection))
        if not steps:
            empty = self._table_without_rows(numbers, selection)
            return ReleasedRows(steps, lambda _: empty)
        chosen = numbers.only(steps, list(selection.groups) or None)
        series = selection.series
        name = chosen.metadata.series_names[0] if series is None else series
        n_series = sum(published.name == name for published in chosen.metadata.published_series)
        step_rows = None if chosen.n_rows is None else len(chosen.groups) * max(n_series, 1)
        return ReleasedRows(steps, partial(table_of_series, chosen, series), step_rows)

    def page(self, selection: SeriesSelection = ALL_ROWS, position: str | None = None) -> Page:
        """Return a page of `rows`.

        Args:
            selection: the rows.
            position: text of the position where the page begins; None: the first page.

        Raises:
            InvalidInputError: a group, time or position is unknown.
        """
        request = (self._position, selection, position)
        cached, page = self._newest
        if cached == request:
            return page
        if position is not None and not selection.has_all_steps:
            raise InvalidInputError(
                f"{param('page', position)} cannot be used with 'from', 'to' or 'last', because it "
                "holds the place in the series. Use 'next' of the answer before as it is"
            )
        page = self.rows(selection).page(None if position is None else PagePosition.parse(position))
        self._newest = request, page
        return page

    def _table_without_rows(self, numbers: ReleaseData, selection: SeriesSelection) -> pl.DataFrame:
        """Return the columns of `rows`, before there are rows."""
        # A group that is found in the rows may be shown later.
        names = list(selection.groups) if self.metadata.cells.named_beforehand else None
        first_step = numbers.only(numbers.steps[:1], names or None)
        empty = table_of_series(first_step, selection.series).head(0)
        more = [name for name in ESTIMATE if not self.step and name not in empty.columns]
        return empty.with_columns(pl.lit(None, pl.Float64).alias(name) for name in more)
