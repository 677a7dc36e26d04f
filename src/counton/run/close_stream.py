"""The end of a stream: it releases nothing more, and its numbers may be withdrawn."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from counton.base.errors import InvalidInputError, param
from counton.base.exact import name_alone
from counton.base.private import Private, reveal
from counton.run.spec.stream_spec import StreamSpec, amend_public_notes
from counton.run.spec.terms import SingleTable
from counton.state import Store
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl


@name_alone
class ClosedStream(NamedTuple):
    """A stream that releases nothing more.

    Attributes:
        step: its last step.
        dropped: number of rows that were read and are never counted. Secret.
    """

    step: int
    dropped: Private[int]

    def confidential_counts(self) -> int:
        """Return the exact number of rows never counted: only for the operator."""
        return reveal(self.dropped)


def confidential_late_rows(store: Store, name: str) -> tuple[int, int]:
    """Return how many rows a stream received, and how many came after their window's release.

    Exact: only for the operator.

    Raises:
        StateError: there is no such stream.
    """
    arrived, late = reveal(store.late_row_stats(name))
    return arrived, late


def waiting_rows(reader: JournalReader, spec: StreamSpec) -> Private[int]:
    """Return the number of rows that a stream has read and not counted yet."""
    sums_of_row = len(spec.terms.group_statistic.entries(pl.col("total")))
    waiting = 0
    blocks = reveal(reader.observed_blocks())
    for _, totals in blocks:  # window, seen or counted, measure, cell; the first measure is rows
        rows = totals[:, :, 0].astype(np.int64)
        waiting += int((rows[:, 0] - rows[:, 1]).sum())
    return Private(waiting // sums_of_row)


def close_stream(
    state: str | os.PathLike[str] | Store,
    stream: str,
    *,
    drop_waiting: bool = False,
    withdrawn: str | None = None,
) -> ClosedStream:
    """End a stream of events, so that it releases nothing more; an ended stream stays as it is.

    Args:
        state: path of a SQLite file, a database URL, or an open state.
        stream: name of the stream.
        drop_waiting: allow dropping rows that were read and not counted.
        withdrawn: public words that say why the numbers are withdrawn, and what replaces them. The
            description of every later table, chart, page, published database and methods text shows
            them. What was written before stays unmarked: write or publish it again. A single
            answer, such as a difference, carries no mark. A table that was released once can be
            withdrawn too. None: no withdrawal is added, and an earlier one stays.

    Returns:
        The last step, and how many rows are dropped now.

    Raises:
        StateError: the stream of events is missing, or the state cannot be used.
        InvalidInputError: rows would be dropped without permission, the stream is a table that was
            released once and is not withdrawn, or the words of the withdrawal are empty.
    """
    if not isinstance(state, Store):
        with Store(state) as store:
            return close_stream(store, stream, drop_waiting=drop_waiting, withdrawn=withdrawn)
    reader = state.reader(stream)
    spec = StreamSpec.of_stream(reader)
    is_single_table = isinstance(spec.terms.windowing, SingleTable)
    if withdrawn is None and is_single_table:
        raise InvalidInputError(
            f"{stream!r} is a table that is released once, so it needs no end; leave it as it is: "
            "its numbers can be written again from the state"
        )
    if withdrawn is None and spec.closed_at_step is not None:
        return ClosedStream(spec.closed_at_step, Private(0))
    if withdrawn is not None:
        _check_withdrawal(withdrawn)
    ends_now = not is_single_table and spec.closed_at_step is None
    waiting = waiting_rows(reader, spec) if ends_now else Private(0)
    if not drop_waiting:
        _refuse_dropped(stream, waiting)

    def close(current: StreamSpec, step: int) -> StreamSpec:
        if withdrawn is not None:
            current = replace(current, withdrawn=withdrawn.strip())
        if ends_now and current.closed_at_step is None:
            current = replace(current, closed_at_step=step)
        return current

    released = amend_public_notes(state, stream, close)
    return ClosedStream(released if spec.closed_at_step is None else spec.closed_at_step, waiting)


def _check_withdrawal(words: str) -> None:
    if not words.strip() or not words.isprintable():
        raise InvalidInputError(
            f"{param('withdrawn')} is {words!r}; give one line that says why the numbers are "
            "withdrawn, and what replaces them"
        )


def _refuse_dropped(name: str, waiting: Private[int]) -> None:
    rows = reveal(waiting)
    if not rows:
        return
    wait = "1 row waits" if rows == 1 else f"{rows:,} rows wait"
    raise InvalidInputError(
        f"{wait} in stream {name!r} and would never be counted; release their windows first (late "
        f"rows count in the next release), or give {param('drop_waiting', True)} to drop them"
    )
