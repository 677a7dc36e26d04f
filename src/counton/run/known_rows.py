"""Files that the last run has read, and that told it nothing new.

A run is a function of the bytes of its files, its options, the clock and the state. If the last run
released and counted nothing, the bytes and options are the same, nobody has written the stream
since, and by the clock no further window has ended, then this run would release and count nothing
too, and tell its operator the same numbers. So the rows are not read: importing what reads them
would take a third of such a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import StateUnavailable, StreamConflict
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.rows.files import EventFile
from counton.rows.sources import Source
from counton.run.changes import Changes, Counts, ReadRows, ended_steps
from counton.run.settlement import SettledJob
from counton.state import Stream
from counton.state.addition import Addition
from counton.state.stream_facts import Facts


@name_alone
class TimesFound(NamedTuple):
    """Exact facts about a run's rows that decide which windows have ended. Secret.

    Attributes:
        newest: time of the newest row, in microseconds since 1970.
        beyond: number of rows after the last window.
        rows: number of all rows.
        moments: see `counton.rows.tally.Tally`.
    """

    newest: int | None
    beyond: int
    rows: int
    moments: NDArray[np.int64]


@dataclass(frozen=True)
class KnownRows(ReadRows):
    """Rows of unchanged files in which the last run found nothing new, so that they need not be
    read again.

    Attributes:
        changes: changes of the last run, which released and counted nothing.
    """

    counts: Private[Counts]
    until: int | None
    ended: int
    changes: Changes
    outputs: str | None = None

    @override
    def beside(self, stream: Stream | None) -> Changes:
        return self.changes


def look_up(
    settled: SettledJob, now: datetime | None = None, *, rows: bool = True
) -> tuple[str | None, KnownRows | None]:
    """Look up the rows that the last run found, if no file and no option has changed since.

    Args:
        now: the current time with a zone; None: this machine's clock.
        rows: False to return only the text, with None for the rows.

    Returns:
        A text that identifies the files and options of this run, and the rows. The text is None if
        rows must always be read: only rows of files, in time windows, can be skipped. The rows are
        None if the last run had another text, or if this run must read them for another reason.
    """
    definition, saved = settled.definition, settled.saved
    source = None if settled.source is None else open_private(settled.source)
    if type(source) is not Source or definition.counting.in_order or not definition.cut.timed:
        return None, None
    if saved is None or not all(type(part) is EventFile for part in source.parts):
        return None, None
    files = [(part.name, part.digest()) for part in source.parts]
    request = repr((_READING, settled.job, Facts.of(definition.details).text, files))
    kept = saved.last_read(request) if rows else None
    if kept is None or source.changed_part() is not None:
        return request, None
    found = open_private(kept)
    moments = np.array(found["times"]["moments"], np.int64)
    times = Private(TimesFound(**found["times"] | {"moments": moments}))
    until, ended = ended_steps(settled.job, definition, source, times, saved.step, now)
    if ended > saved.step:
        return request, None
    counts = Private(Counts(**found["counts"]))
    changes = Changes(counts, lambda empty: iter([(0.0, _EMPTY)] * empty), found["again"], kept)
    read, outputs = Private(Counts(**found["read"])), found.get("outputs")
    return request, KnownRows(read, until, ended, changes, outputs)


#: A higher number makes records of earlier versions void, if rows come to be read otherwise.
_READING = 3
_EMPTY = Private(Addition())


def remember(
    settled: SettledJob,
    stream: Stream,
    found: Private[Mapping[str, Any]],
    outputs: str | None = None,
) -> None:
    """Record what a run found in its files, after it released and counted nothing.

    If another process wrote the stream during this run, nothing is recorded. This is no error,
    because the run is complete.

    Args:
        outputs: digest of the output files as the run left them; None if there are none.
    """
    request = look_up(settled, rows=False)[0]
    alone = settled.saved is not None and stream.epoch_before == settled.saved.epoch
    if request is not None and alone:
        with suppress(StreamConflict, StateUnavailable):
            stream.take(Private(Addition(last_read=(request, found, outputs))))
