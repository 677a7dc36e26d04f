"""The end of a stream: it releases nothing more, and its numbers may be withdrawn."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from counton.base.errors import InvalidInput, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.run.changes import for_operator, unpack_observed
from counton.run.definition import Definition
from counton.state import Store
from counton.state.reader import JournalReader


@name_alone
class End(NamedTuple):
    """The end of a stream: its last step, and the secret number of rows never counted."""

    step: int
    dropped: Private[int]

    def for_operator(self) -> int:
        """Return the exact number of rows never counted: only for the operator."""
        return for_operator(self.dropped)


def late_rows_for_operator(store: Store, name: str) -> tuple[int, int]:
    """Return how many rows a stream received, and how many came after their window's release.

    Exact: only for the operator.

    Raises:
        StateError: the reader may not see exact numbers.
    """
    arrived, late = for_operator(store.arrivals(name))
    return arrived, late


def waiting_in(reader: JournalReader) -> Private[int]:
    """Return the number of rows read from files of new events and not released yet."""
    cells = unpack_observed(open_private(reader.observed_blocks()), ("rows",))
    return Private(int((cells["seen_rows"] - cells["counted_rows"]).sum()))


def end_stream(
    state: str | os.PathLike[str] | Store,
    name: str,
    *,
    drop_waiting: bool = False,
    withdrawn: str | None = None,
) -> End:
    """End a stream of events, so that it releases nothing more; an ended stream stays as it is.

    Args:
        state: path of a SQLite file, a database URL, or an open state.
        name: name of the stream.
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
        InvalidInput: rows would be dropped without permission, the stream is a table that was
            released once and is not withdrawn, or the words of the withdrawal are empty.
    """
    if not isinstance(state, Store):
        with Store(state) as store:
            return end_stream(store, name, drop_waiting=drop_waiting, withdrawn=withdrawn)
    reader, facts = state.reader(name), dict[str, Any]()
    definition = Definition.reopen(reader.design, reader.details)
    if withdrawn is None:
        if not definition.cut.goes_on:
            raise InvalidInput(
                f"{name!r} is a table that is released once, so it needs no end; leave it as it "
                "is: its numbers can be written again from the state"
            )
        if definition.ended is not None:
            return End(definition.ended, Private(0))
    else:
        if not withdrawn.strip() or not withdrawn.isprintable():
            raise InvalidInput(
                f"{field('withdrawn')} is {withdrawn!r}; give one line that says why the numbers "
                "are withdrawn, and what replaces them"
            )
        facts["withdrawn"] = withdrawn.strip()
    ends, waiting = definition.cut.goes_on and definition.ended is None, Private(0)
    if ends:
        waiting = waiting_in(reader)
        if not drop_waiting:
            _refuse_dropped(name, waiting)
    step = state.amend(
        name, lambda last: definition.having(**facts, **({"ended": last} if ends else {})).details
    )
    return End(step if definition.ended is None else definition.ended, waiting)


def _refuse_dropped(name: str, waiting: Private[int]) -> None:
    rows = for_operator(waiting)
    if not rows:
        return
    wait = "1 row waits" if rows == 1 else f"{rows:,} rows wait"
    raise InvalidInput(
        f"{wait} in stream {name!r} and would never be counted; release their windows first (late "
        f"rows count in the next release), or give {field('drop_waiting', True)} to drop them"
    )
