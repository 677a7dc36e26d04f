"""Events in the order in which they happened: rows of a table, or letters of a text.

`tally` only adds events up by window and group. Statistics of consecutive letters, or of edges of a
growing graph, need every event, so here each row is kept.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.base.exact import name_alone
from counton.base.private import Private
from counton.rows.bad_rows import set_bad_rows_aside
from counton.rows.files import refuse_sqlite
from counton.rows.sources import Source
from counton.rows.window_marks import RowReading, collect, mark_part

_ENDS, _COMMENTS = b"\r\n\t ", (">", ";")


@name_alone
class OrderedEvents(NamedTuple):
    """All events of a run, in order, divided into steps. Exact, so they are passed on as `Private`.

    Attributes:
        events: texts or numbers; tuples if an event has several values.
        stops: for each step, the number of events in this step and all earlier ones. The last step
            is the step of the last event.
        newest: time of the newest row, also of a row outside the windows, in microseconds since
            1970; None if there are no times, or no rows.
        before: number of rows before the first window, counted nowhere.
        beyond: number of rows after the last window.
        left_out: number of rows with values that are not allowed.
        skipped: number of rows with a missing value, which are left out.
        quarantined: number of unreadable rows, which are set aside.
    """

    events: list[Any] | NDArray[Any]
    stops: NDArray[np.int64]
    newest: int | None = None
    before: int = 0
    beyond: int = 0
    left_out: int = 0
    skipped: int = 0
    quarantined: int = 0

    def until(self, steps: int) -> OrderedEvents:
        """Return the events of the first ``steps`` steps. If there are fewer steps, ``stops`` is
        extended to ``steps`` entries; the added steps have no events.
        """
        stops = self.stops[:steps]
        stops = np.append(stops, np.full(steps - len(stops), len(self.events), np.int64))
        return self._replace(events=self.events[: stops[-1] if steps else 0], stops=stops)


def ordered_rows(
    source: Source,
    reading: RowReading,
    *,
    ties: bool = False,
) -> Private[OrderedEvents]:
    """Read rows in the order of their times; rows with equal times keep their order in the file.

    Without a column of times, each row is a step.

    Args:
        source: the rows.
        reading: options by which rows are read; ``kept`` names the values of an event. If there is
            a column of times, steps are windows.
        ties: order rows of equal times by their values, so that their order in the file does not
            matter.

    >>> from datetime import UTC, datetime
    >>> from counton.base.windows import Windows
    >>> from counton.rows.files import open_source
    >>> from counton.rows.window_marks import Columns, KeptPart
    >>> frame = pl.DataFrame({"at": ["2024-03-01T02:30", "2024-03-01T00:10"], "to": ["b", "a"]})
    >>> windows = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 4)
    >>> from counton.base.private import open_private
    >>> columns, kept = Columns("at", several=("to",)), [KeptPart("to", "text")]
    >>> found = ordered_rows(open_source(frame), RowReading(columns, windows, kept=kept))
    >>> open_private(found).events, open_private(found).stops.tolist()
    (['a', 'b'], [1, 1, 2])
    """
    windows, names = reading.windows, [f"part {place}" for place in range(len(reading.kept))]
    each = [collect(Source((part,), part.name), mark_part(part, reading)) for part in source.parts]
    rows, skipped, quarantined, left_out = pl.concat(each), 0, 0, 0
    bad = rows["step"] < 0
    if bad.any():
        skipped, quarantined = set_bad_rows_aside(source, reading)
        rows = rows.filter(~bad)
    for name, part in zip(names, reading.kept, strict=True):
        if part.labels:
            kept = rows.filter(pl.col(name).is_in(part.labels))
            left_out, rows = left_out + rows.height - kept.height, kept
    if not reading.columns.time:
        stops = np.arange(1, rows.height + 1)
        return Private(OrderedEvents(_events(rows, names), stops, left_out=left_out))
    rows = rows.sort("us", *(names if ties else ()), maintain_order=True)
    steps = rows["step"].to_numpy()
    before, within = np.searchsorted(steps, [1, windows.steps + 1]).tolist()
    last = (
        int(steps[within - 1]) if within > before else 0
    )  # not the stream's last step: the stream may be endless
    stops = np.searchsorted(steps[before:within], np.arange(1, last + 1), "right")
    return Private(
        OrderedEvents(
            _events(rows.slice(before, within - before), names),
            stops.astype(np.int64),
            int(rows["us"][-1]) if rows.height else None,
            before,
            rows.height - within,
            left_out,
            skipped,
            quarantined,
        )
    )


def _events(rows: pl.DataFrame, names: Sequence[str]) -> list[Any] | NDArray[Any]:
    parts = [rows[name] for name in names]
    if len(parts) == 1:
        alone = parts[0]
        return alone.to_list() if alone.dtype == pl.String else alone.to_numpy()
    return list(zip(*(part.to_list() for part in parts), strict=True))


def letters_of(
    path: str | os.PathLike[str], alphabet: Collection[str] = ()
) -> Private[OrderedEvents]:
    """Read a text's letters, without spaces and ends of lines, as events: each letter is a step.

    Lines that begin with ``>`` or ``;`` are names and comments, as in FASTA files, unless that sign
    is a letter of the alphabet.

    Args:
        path: path of a file, which may be compressed by gzip.
    """
    name = os.fspath(path)
    if not Path(name).is_file():
        raise InvalidInput(f"{name!r} is not a file; check the path")
    refuse_sqlite(name)
    data = Path(name).read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(
                io.BytesIO(data)
            ) as unpacked:  # in one piece, many members take quadratic time
                data = unpacked.read()
        signs = tuple(sign.encode() for sign in _COMMENTS if sign not in alphabet)
        ends = bytes(end for end in _ENDS if chr(end) not in alphabet)
        lines = data.splitlines(keepends=True)
        kept = [line for line in lines if not (signs and line.lstrip().startswith(signs))]
        text = b"".join(kept).translate(None, ends).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{name!r} is not valid UTF-8 ({error}); convert it, or name the column of letters if "
            "the file is a table"
        ) from error
    return Private(OrderedEvents(list(text), np.arange(1, len(text) + 1)))
