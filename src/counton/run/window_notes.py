"""Public notes on released numbers, which their stream keeps."""

from __future__ import annotations

import os
from datetime import datetime

import numpy as np

from counton.base.errors import InvalidInput, field
from counton.base.exact import some_of, suggest, with_capital
from counton.frame.windows import microseconds, parse_time
from counton.released.marks import WindowMark
from counton.run.definition import Definition
from counton.state import Store


def mark(
    state: str | os.PathLike[str],
    window: str | datetime,
    note: str,
    *,
    name: str | None = None,
    group: str | None = None,
    withdraw: bool = False,
) -> WindowMark:
    """Put a public note beside the numbers of one window, in all later tables and texts.

    Day and note are published as they are written, and nothing protects a choice that was made by
    exact numbers. The stream goes on.

    Args:
        state: path of a SQLite file, or a database URL.
        window: a moment in the window, such as "2019-01-20", in the stream's time zone.
        note: one line that says why the number is wrong.
        name: name of the stream; needed if there are several.
        group: the group whose number is wrong; None: all groups.
        withdraw: take the number out of later tables. What was published stays published.

    Raises:
        InvalidInput: the window is not released, the group is not declared, the note is empty, or
            the numbers are not those of single cells and ``withdraw`` is True.
        StateError: the state cannot be used, or is an old copy.

    >>> import polars as pl
    >>> from counton import release
    >>> visits = pl.DataFrame({"at": ["2024-03-01T09:00"]})
    >>> _ = release("count", visits, state="m.db", time="at", every="1d", epsilon=1,
    ...             start="2024-03-01", steps=365, until="2024-03-02")
    >>> mark("m.db", "2024-03-01", "the counter was broken").step
    1
    """
    from counton.run.exports import only_name

    if not note.strip() or not note.isprintable():
        raise InvalidInput(
            f"{field('note')} is {note!r}; give one line that says why the number is wrong"
        )
    with Store(state) as store:
        name = only_name(store.streams) if name is None else name
        reader = store.reader(name)  # raises if there is no such stream
        store.position(name)  # raises if the state is an old copy
        definition = Definition.reopen(reader.design, reader.details)
        windows = definition.cut
        moment = microseconds(parse_time(window, windows.timezone))
        step = int(windows.step_of(np.array([moment], np.int64))[0])
        if not (definition.cut.goes_on and 1 <= step <= reader.step):
            last = windows.at(int(windows.ends(range(reader.step, reader.step + 1))[0]))
            raise InvalidInput(
                f"{field('window', window)} is in no window that stream {name!r} has released, "
                f"from {windows.at(windows.start)} to {last}: give a moment in one of them"
            )
        if group is not None and group not in definition.groups:
            near = with_capital(suggest(group, definition.groups))
            raise InvalidInput(
                f"{field('group', group)} is no declared group of stream {name!r}. {near}"
                f"Give one of {some_of(definition.groups)}, or leave {field('group')} out"
            )
        if withdraw and not (definition.shows_cells and definition.cells.named_beforehand):
            raise InvalidInput(
                f"{field('withdraw', True)} is for counts and sums of declared groups: leave it "
                "out, and the note stands beside the numbers"
            )
        known = [one for one in definition.marks if (one.step, one.group) == (step, group)]
        gone = withdraw or any(one.withdrawn for one in known)  # for ever
        found = WindowMark(step, group, note.strip(), gone)

        def details(_: int) -> dict[str, object]:
            kept = Definition.reopen(reader.design, store.reader(name).details)
            others = [one for one in kept.marks if (one.step, one.group) != (step, group)]
            marks = sorted([*others, found], key=lambda one: (one.step, one.group or ""))
            return dict(kept.having(marks=[[*one] for one in marks]).details)

        store.amend(name, details)
    return found
