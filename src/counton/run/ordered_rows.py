"""Rows of statistics for which the order of rows matters: letters of a text, edges of a graph,
users who come and go.

The file holds all rows since the first step. Rows of released steps must be as before; they are
compared and not released again.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

import numpy as np
import polars as pl
from typing_extensions import override

from counton.base.errors import HorizonExceeded, InvalidInput, ReplayMismatch, field
from counton.base.private import Private, open_private
from counton.job.job import Job
from counton.job.refusals import EXCLUDED, refuse
from counton.job.stated_options import name_of
from counton.rows.ordered_events import OrderedEvents, letters_of, ordered_rows
from counton.rows.policies import Policies
from counton.rows.sources import Source
from counton.rows.tally import Tally
from counton.rows.timestamps import ClockChange
from counton.rows.window_marks import Columns, KeptPart, RowReading
from counton.run.changes import (
    Changes,
    Counts,
    ReadRows,
    chunks,
    counts_of,
    ended_steps,
    read_whole,
)
from counton.run.definition import Definition
from counton.run.settlement import SettledJob
from counton.run.stream_request import in_which_order
from counton.run.unordered_rows import new_files
from counton.state import Stream
from counton.state.addition import Addition


def read_rows(job: Job, definition: Definition, source: Source) -> Private[OrderedEvents]:
    """Return the rows of a source as events, in the order in which they happened.

    Raises:
        InvalidInput: a column is missing, or a row is no event.
    """
    parts, statistic, policies = definition.columns.own, definition.statistic, job.format.policies()
    if not definition.cut.timed and policies != Policies():
        name = "missing" if policies.missing == "skip" else "bad_rows"
        raise InvalidInput(
            f"{field(name, job.option(name))} leaves rows out, but here each row is a step, and "
            "the published number of steps would tell how many rows are left out; give "
            f"{field('time')}, or correct the rows"
        )
    known = dict[str, tuple[str, ...]]()
    if job.groups.unknown == "drop" and statistic.card.declares is not None:
        if not definition.cut.timed:
            raise InvalidInput(
                f"rows whose {parts.names[-1]} has another value cannot be left out where each row "
                "is a step, because the published number of steps would tell how many are left "
                f"out; give {field('time')}"
            )
        known = {parts.names[-1]: tuple(statistic.card.declares)}
    kinds = dict.fromkeys(parts.names, "text")
    kinds |= dict.fromkeys(parts.numbers, "number") | dict.fromkeys(parts.flags, "flag")
    kept = [
        KeptPart(definition.columns.current_name(name), kinds[name], known.get(name, ()))
        for name in parts.names
    ]
    reading = RowReading(
        Columns(definition.columns.time, several=tuple(part.name for part in kept)),
        definition.cut,
        kept=kept,
        clock_change=cast("ClockChange", job.format.clock_change or "raise"),
        time_format=job.format.time_format,
        policies=policies,
    )
    return ordered_rows(source, reading, ties=in_any_order(definition))


def in_any_order(definition: Definition) -> bool:
    """Return True if the order of rows with equal times does not matter.

    It matters for the letters of a text, and for rows that say that a user comes or goes.
    """
    return definition.cut.timed and not (
        definition.statistic.card.of_letters or definition.columns.own.flags
    )


@dataclass(frozen=True)
class OrderedRows(ReadRows):
    """Rows of one run, read in their order, and the steps to release.

    Attributes:
        settled: the job, completed with the options that its stream keeps.
        events: events of all rows since the first step, up to the last step of the stream.
        counts: exact numbers of rows, for the operator.
        until: time in microseconds since 1970; windows that ended by then are released. None if
            each row is a step.
        ended: number of steps that have ended.
    """

    settled: SettledJob
    events: Private[OrderedEvents]
    counts: Private[Counts]
    until: int | None
    ended: int

    @override
    def beside(self, stream: Stream | None) -> Changes:
        """Return the changes that the events of the new steps make to the stream.

        Malformed events, and events of released steps that differ from before, are refused.
        """
        definition, events = self.settled.definition, open_private(self.events)
        statistic, before = definition.statistic, 0 if stream is None else stream.step
        if not definition.cut.timed and len(events.stops) < before:
            raise ReplayMismatch(
                f"the file holds {len(events.stops):,} events, but {before:,} steps have been "
                "released, one for each event, so events are missing; give the file of all events"
            )
        if stream is not None and before and self.settled.job.rows.late != "drop":
            released = events.until(before)
            try:
                stream.check_events(released.events, released.stops)
            except ReplayMismatch as error:
                order = ""
                if definition.cut.timed and not in_any_order(definition):
                    order = "rows with equal times must keep their order, also from file to file; "
                raise ReplayMismatch(
                    f"{error} ({order}late rows and corrections cannot change steps that are "
                    f"released: release later, with {field('watermark', '6h')} or "
                    f"{field('until')}, or leave such rows out: {field('late', 'drop')})"
                ) from error
        cells = 1 if statistic.card.on_demand else math.prod(statistic.cells)
        known, new = events.until(self.ended), []
        for steps in chunks(range(before, self.ended), cells):  # counted from 0
            begin = int(known.stops[steps.start - 1]) if steps.start else 0
            stops = known.stops[steps.start : steps.stop] - begin
            new.append((known.events[begin : begin + int(stops[-1])], stops))
        if stream is None or (before and len(new) > 1):
            # Refuse before a stream is created, or a part is committed.
            exact = statistic.begin() if stream is None else open_private(stream.exact())
            for some in new:
                exact.take(*some)
        given = [(n / len(new), Private(Addition(None, events=one))) for n, one in enumerate(new)]
        return Changes(self.counts, lambda _: iter(given))


def rows_in_order(settled: SettledJob, now: datetime | None) -> OrderedRows:
    """Read the events of a job in their order: the rows of its source, or, if its events are one
    text, the letters of the text.

    Raises:
        HorizonExceeded: each row is a step, and there are more rows than the stream has steps. A
            stream that has released all its steps may read rows again that it counted.
    """
    job, definition = settled.job, settled.definition
    source = None if settled.source is None else open_private(settled.source)
    own = ("missing", "bad_rows") if definition.cut.batched else ()
    beside = f"{name_of(job.what)}, {in_which_order(definition.statistic)}"
    refuse(job, EXCLUDED["in order"], beside, "leave it out", but=own)
    if source is None:  # the letters of a text
        text = job.events
        if isinstance(text, list | tuple) and len(text) == 1:
            text = text[0]
        if not isinstance(text, str | os.PathLike):
            raise InvalidInput(
                f"{field('events')} are several files or a data frame, but letters are read from a "
                "single text; give one file, or name the column of letters"
            )
        read = letters_of(text, definition.statistic.parameters.get("alphabet", ()))
    else:
        if len(source.parts) > 1:
            source = new_files(source, definition, lambda _: False)
        read, source = read_whole(job, definition, source, partial(read_rows, job, definition))
    events, horizon = open_private(read), definition.strategy.horizon
    released = settled.steps_released
    rows = len(events.stops)
    if not definition.cut.timed and horizon is not None and rows > horizon:
        if released is None or released < horizon:
            give = f"only the first {horizon:,} rows"
            give = f"{field('steps', rows)}, or more" if released is None else give
            raise HorizonExceeded(
                f"there are {rows:,} rows, each a step, but the stream has only {horizon:,} steps, "
                f"so nothing is released; give {give}"
            )
        events = events.until(horizon)._replace(beyond=rows - horizon)
    newest = np.array([] if events.newest is None or events.beyond else [events.newest], np.int64)
    within = len(events.events) + events.left_out
    numbers = (len(events.events), *events[3:])
    found = Tally(pl.DataFrame(), events.newest, *numbers, moments=newest, within=within)
    until, ended = ended_steps(job, definition, source, Private(found), released, now)
    counts = counts_of(found, definition.cut, until, ended, released or 0, now)
    return OrderedRows(settled, Private(events), Private(counts), until, ended)
