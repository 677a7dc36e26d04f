"""Events of statistics in the order in which they happened: rows of a table, or letters of a text.

A `tally` adds events up by window and group; letters that follow each other, or edges of a growing
graph, are more than their number. Here each row stays what it is.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.private import Private
from counton.base.windows import NO_MOMENT, Windows
from counton.rows.bad_rows import of_unread, texts_of
from counton.rows.files import refuse_sqlite
from counton.rows.policies import Policies, Problem, set_aside
from counton.rows.sources import Rows, Source
from counton.rows.timestamps import ClockChange, as_text, moments
from counton.rows.window_marks import collect, unread_marked

_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_ENDS, _COMMENTS = b"\r\n\t ", (">", ";")


class OrderedEvents(NamedTuple):
    """Events of steps. Exact: rooms hand them on as `Private`.

    Attributes:
        events: all of them in order: texts or numbers, or tuples where an event has several parts.
        stops: for each step the number of events up to its end.
        newest: microsecond of the last event; None without times, or events.
        before: rows before the first window, which count nowhere.
        beyond: rows after the last window.
        left_out: rows with values that are none of those known.
        skipped, quarantined: rows that lack something, and rows that cannot be read.
        sums: of each of several parts what its rows come to in any order, in this process; empty
            for a part without rows.
    """

    events: list[Any] | NDArray[Any]
    stops: NDArray[np.int64]
    newest: int | None = None
    before: int = 0
    beyond: int = 0
    left_out: int = 0
    skipped: int = 0
    quarantined: int = 0
    sums: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "OrderedEvents(secret)"

    def until(self, steps: int) -> OrderedEvents:
        """Those of the first steps."""
        stops = self.stops[:steps]
        return self._replace(events=self.events[: stops[-1] if steps else 0], stops=stops)


def ordered_rows(
    source: Source,
    columns: Sequence[str],
    numbers: Sequence[str] = (),
    flags: Sequence[str] = (),
    *,
    only: Mapping[str, Collection[str]] | None = None,
    time: str | None = None,
    windows: Windows | None = None,
    clock_change: ClockChange = "raise",
    time_format: str | None = None,
    ties: bool = False,
    policies: Policies | None = None,
) -> Private[OrderedEvents]:
    """Rows by time (of equal times in their order), or each a step in the order of the file.

    Args:
        source: the rows.
        columns: the parts of an event, as the statistic takes them: texts, or numbers.
        numbers: those of them that are numbers.
        flags: those of them that are true or false, also as 1 and 0, yes and no.
        only: values that a column may have; rows with others are left out.
        time, windows: steps are windows of this column's times; None: each row is a step.
        clock_change, time_format: see `counton.rows.timestamps.moments`.
        policies: what happens to rows that cannot be read; None: they are refused.
        ties: rows of equal times are ordered by their parts, so that their order does not matter.

    >>> from datetime import UTC, datetime
    >>> from counton.rows.files import open_source
    >>> frame = pl.DataFrame({"at": ["2024-03-01T02:30", "2024-03-01T00:10"], "to": ["b", "a"]})
    >>> windows = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 4)
    >>> from counton.base.private import open_private
    >>> found = ordered_rows(open_source(frame), ["to"], time="at", windows=windows)
    >>> open_private(found).events, open_private(found).stops.tolist()
    (['a', 'b'], [1, 1, 2, 2])
    """
    timed = time is not None and windows is not None
    parts, sums, skipped, aside = [], list[str](), 0, list[tuple[object, ...]]()
    policies = Policies() if policies is None else policies
    for part in source.parts:
        told = [name for name in columns if name not in numbers]
        frame = part.scan((*dict.fromkeys((*([time] if time else []), *columns)),), told)
        types, taken = frame.collect_schema(), dict[str, pl.Expr]()
        for place, name in enumerate(columns):
            text = as_text(pl.col(name), types[name])
            number = part.number(pl.col(name)).cast(pl.Float64, strict=False)
            given = _flag(text) if name in flags else number if name in numbers else text
            taken[f"part {place}"] = given
        if time is not None and windows is not None:
            us = moments(time, types[time], windows.timezone, clock_change, time_format)
            if part.unread:
                frame, us = unread_marked(frame, us, part)
            taken["us"] = us
        rows = collect(Source((part,), part.name), frame.select(**taken))
        if len(source.parts) > 1:
            sums.append(f"{rows.height} {rows.hash_rows().sum()}" if rows.height else "")
        if policies == Policies():
            _check(rows, part, columns, numbers, time, windows)
        else:
            rows, lacking = _sorted_out(rows, part, columns, numbers, time, policies, aside)
            skipped += lacking
            _check(rows, part, columns, numbers, time, windows)
        parts.append(rows)
    if policies.quarantine is not None:
        if len(aside) > policies.most:
            raise InvalidInput(
                f"more than {policies.most:,} rows of {source.name} cannot be read, which is as "
                f"many as may be set aside; look at them, or raise {field('bad_rows_most')}"
            )
        named = dict.fromkeys([*([time] if time else []), *columns])
        set_aside(policies.quarantine, named, aside)
    rows, left_out = pl.concat(parts), 0
    for name, known in (only or {}).items():
        kept = rows.filter(pl.col(f"part {columns.index(name)}").is_in(list(known)))
        left_out, rows = left_out + rows.height - kept.height, kept
    if not timed:
        stops = np.arange(1, rows.height + 1)
        events = _events(rows, columns)
        return Private(OrderedEvents(events, stops, left_out=left_out, sums=tuple(sums)))
    assert windows is not None
    parted = [f"part {place}" for place in range(len(columns))] if ties else []
    rows = rows.sort("us", *parted, maintain_order=True)
    steps = windows.step_of(rows["us"].to_numpy())
    before, within = np.searchsorted(steps, [1, windows.steps + 1]).tolist()
    stops = np.searchsorted(steps[before:within], np.arange(1, windows.steps + 1), "right")
    return Private(
        OrderedEvents(
            _events(rows.slice(before, within - before), columns),
            stops.astype(np.int64),
            int(rows["us"][-1]) if rows.height else None,
            before,
            rows.height - within,
            left_out,
            skipped,
            len(aside),
            tuple(sums),
        )
    )


def _sorted_out(
    rows: pl.DataFrame,
    part: Rows,
    columns: Sequence[str],
    numbers: Sequence[str],
    time: str | None,
    policies: Policies,
    aside: list[tuple[object, ...]],
) -> tuple[pl.DataFrame, int]:
    """Rows that can be read, and how many lack something; those set aside are added to a list."""
    problem = pl.lit(0, pl.Int64)
    for place, name in reversed([*enumerate(columns)]):
        value, kind = pl.col(f"part {place}"), rows.schema[f"part {place}"]
        if name in numbers:
            bad, why = ~value.is_finite().fill_null(False), Problem.NOT_FINITE
        elif kind == pl.Boolean:
            bad, why = value.is_null(), Problem.NO_FLAG
        else:
            bad, why = value.is_null() | (value == ""), Problem.NO_VALUE
        problem = pl.when(bad).then(int(why)).otherwise(problem)
    if "us" in rows.columns:
        untimed = NO_MOMENT - pl.col("us")
        problem = pl.when(pl.col("us") < NO_MOMENT).then(untimed).otherwise(problem)
    told = rows.select(problem=problem).with_row_index("row", offset=1)
    named = list(dict.fromkeys([*([time] if time is not None else []), *columns]))
    texts = collect(Source((part,), part.name), texts_of(part, named))
    empty = pl.any_horizontal((pl.col(name).is_null() | (pl.col(name) == "")) for name in named)
    found = told["problem"] > 0
    lacks = texts.select(empty.alias("lacks"))["lacks"]
    lacks &= told["problem"] != int(Problem.UNREADABLE_ROW)
    gone = found & lacks if policies.missing == "skip" else found & ~found
    skipped = int(gone.sum())
    if policies.quarantine is not None:
        for row, why in told.filter(found & ~gone).iter_rows():
            cells = of_unread(part, row - 1, texts.row(row - 1))
            aside.append((part.name, row, Problem(why).words, *cells))
        gone = gone | found
    return rows.filter(~gone), skipped


def _flag(text: pl.Expr) -> pl.Expr:
    text = text.str.to_lowercase().str.strip_chars()
    return text.replace_strict(_FLAGS, default=None, return_dtype=pl.Boolean)


def _events(rows: pl.DataFrame, columns: Sequence[str]) -> list[Any] | NDArray[Any]:
    parts = [rows[f"part {place}"] for place in range(len(columns))]
    if len(parts) == 1:
        alone = parts[0]
        return alone.to_list() if alone.dtype == pl.String else alone.to_numpy()
    return list(zip(*(part.to_list() for part in parts), strict=True))


def _check(
    rows: pl.DataFrame,
    part: Rows,
    columns: Sequence[str],
    numbers: Sequence[str],
    time: str | None,
    windows: Windows | None,
) -> None:
    wrong: list[tuple[int, str, Problem]] = []
    if time is not None and windows is not None:
        us = rows["us"]
        for row in (us < NO_MOMENT).arg_true().head(1):
            wrong.append((row, time, Problem(NO_MOMENT - us[row])))
    for place, name in enumerate(columns):
        values = rows[f"part {place}"]
        if name in numbers:
            bad, problem = ~values.is_finite().fill_null(False), Problem.NOT_FINITE
        elif values.dtype == pl.Boolean:
            bad, problem = values.is_null(), Problem.NO_FLAG
        else:
            bad, problem = (values.is_null() | (values == "")), Problem.NO_VALUE
        for row in bad.arg_true().head(1):
            wrong.append((row, name, problem))
    if not wrong:
        return
    row, name, problem = min(wrong, key=lambda found: found[0])
    timezone = "UTC" if windows is None else windows.timezone
    raise InvalidInput(
        f"row {row + 1:,} of {part.name} has {problem.words} in column {name!r}; "
        f"{problem.remedy(timezone)}"
    )


def letters_of(
    path: str | os.PathLike[str], alphabet: Collection[str] = ()
) -> Private[OrderedEvents]:
    """Letters of a text, each a step: all but spaces and ends of lines.

    Lines that begin with ``>`` or ``;`` are names and comments, as FASTA files have them. None of
    these signs has such a meaning where it is a letter itself.

    Args:
        path: of a file, which may be compressed by gzip.
    """
    name = os.fspath(path)
    if not Path(name).is_file():
        raise InvalidInput(f"{name!r} is not a file; check the path")
    refuse_sqlite(name)
    data = Path(name).read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(io.BytesIO(data)) as unpacked:  # at once it takes a square of members
                data = unpacked.read()
        signs = tuple(sign.encode() for sign in _COMMENTS if sign not in alphabet)
        ends = bytes(end for end in _ENDS if chr(end) not in alphabet)
        lines = data.splitlines(keepends=True)
        kept = [line for line in lines if not (signs and line.lstrip().startswith(signs))]
        text = b"".join(kept).translate(None, ends).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{name!r} is no text in UTF-8 ({error}); convert it, or name a column of letters if "
            f"it is a table"
        ) from error
    return Private(OrderedEvents(list(text), np.arange(1, len(text) + 1)))
