"""Events that come again: files of the same rows, in one run or after another.

Rows without ids are counted as often as they come. So a file that was counted is known by its
bytes, and by what its rows come to in any order and compression; one that holds some of its rows
is told by its looks (`counton.jobs.looks`). With ids rows are told one by one, and nothing is
refused by its looks. Rows that lie in the state itself are removed where they are counted, and
cannot come again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from counton.errors import InvalidInput, ReplayMismatch, field
from counton.events.copies import alike, same_rows
from counton.events.sources import Rows, Source
from counton.events.spread import Spread
from counton.events.tally import FileLook, Tally
from counton.events.windows import ClockChange, moments
from counton.jobs.definition import Definition
from counton.jobs.job import Job
from counton.private import Private, open_private

#: How marks begin that are of all rows: of a table with types, and of lines of text.
TABLE, LINES = "table:", "rows:"
#: By what a part is known again: its bytes, and its rows where they have no ids.
Marks = tuple[str, ...]
#: Of each part what its rows come to, as they are read: see `counton.events.tally.Tally`.
Sums = Sequence[str]
#: Whether a stream has counted what a mark stands for.
Counted = Callable[[str], bool]


@dataclass(frozen=True, repr=False)
class KnownBy:
    """By what the files of a run are known again: digests of what is exact, hence secret.

    Attributes:
        source: the events.
        marks: of each of its parts.
        looks: of each part, where they are looked at.
    """

    source: Source
    marks: Sequence[Marks]
    looks: Sequence[FileLook]

    def __repr__(self) -> str:
        return "KnownBy(secret)"


@dataclass(frozen=True, repr=False)
class FilesLeftOut:
    """Files that look counted, and add nothing. Exact data: secret.

    Attributes:
        rows: how many they have.
        marks: make them known from now on.
    """

    rows: int = 0
    marks: Marks = ()

    def __repr__(self) -> str:
        return "FilesLeftOut(secret)"


#: No such file.
NO_FILES = Private(FilesLeftOut())


def known_by(
    source: Source, job: Job, definition: Definition, found: Private[Tally], *, lines: bool
) -> Private[KnownBy]:
    """How the files of a run are known again: see `marks_of_all`.

    Args:
        source: the events.
        job: how times are read.
        definition: of the stream.
        found: what they hold.
        lines: see `marks_of`.
    """
    rows = open_private(found)
    marks = marks_of_all(source, job, definition, rows.sums, lines=lines)
    return Private(KnownBy(source, marks, rows.looks))


def marks_of(part: Rows, definition: Definition, *, lines: bool = False) -> Marks:
    """By what a part is known again: its bytes; and its rows, of a file with types as they are.

    Args:
        part: some events.
        definition: of the stream.
        lines: rows of a file with types are known by the lines too that CSV would have, as older
            states know them.
    """
    columns = definition.columns.names
    marks = [f"sha256:{part.digest(columns)}"]
    if definition.columns.id is not None:
        return tuple(marks)
    if (table := part.table_digest()) is not None:
        marks.append(f"{TABLE}{table}")
    if (lines or not part.has_types) and (rows := part.row_digest(columns)) is not None:
        marks.append(f"{LINES}{rows}")
    return tuple(marks)


def marks_of_all(
    source: Source, job: Job, definition: Definition, sums: Sums, *, lines: bool = False
) -> list[Marks]:
    """Marks of all parts, none of which holds the rows of another, to be counted twice.

    Files of which the lines, or bytes, are not the same are compared row by row where what their
    rows come to is.

    Args:
        source: the events.
        job: how times are read.
        definition: of the stream.
        sums: of each part what its rows come to; empty where it has none.
        lines: see `marks_of`.

    Raises:
        InvalidInput: two do, naming both.
    """
    if source.comes_once:
        return [()] * len(source.parts)
    found = [marks_of(part, definition, lines=lines) for part in source.parts]
    if definition.columns.id is not None:
        return found
    pairs = []
    for kind in (TABLE, LINES):
        of_kind = ([mark for mark in marks if mark.startswith(kind)] for marks in found)
        pairs += alike(["".join(mark) for mark in of_kind])
    times = partial(
        moments,
        timezone=definition.windows.timezone,
        clock_change=cast("ClockChange", job.clock_change),
        time_format=job.time_format,
    )
    for one, other in alike(sums):
        parts = source.parts[one], source.parts[other]
        if same_rows(*parts, definition.columns.time or None, times):
            pairs.append((one, other))
    for one, other in pairs:
        raise InvalidInput(
            f"{source.parts[other].name} holds the same rows as {source.parts[one].name}, in "
            f"whatever order, format and compression, so that they would be counted twice; leave "
            f"one of them out, or, if these are different events indeed, put them into one file, "
            f"or give each an id ({field('id')})"
        )
    return found


def without_counted(
    source: Source, definition: Definition, counted: Counted, *, lines: bool = False
) -> Source:
    """Of several files those that were not counted before; all of them if there is no other.

    So a folder to which a file is added every night is read from the new one on. Rows with ids are
    told one by one.
    """
    known_whole = len(source.parts) == 1 or isinstance(source, Spread)
    if known_whole or source.comes_once or definition.columns.id is not None:
        return source
    marks = partial(marks_of, definition=definition, lines=lines)
    known = [part for part in source.parts if any(map(counted, marks(part)))]
    return source if len(known) == len(source.parts) else source.without(known)


def is_counted(files: Private[KnownBy], counted: Counted, released: int, ended: int) -> bool:
    """Whether new events are those of an earlier run, all of whose rows are in the state.

    That run came to its end, or it was killed after it had committed: then there is nothing to do
    but to write what it would have written, from the journal.

    Args:
        files: the new events.
        counted: what the stream has counted.
        released: steps released.
        ended: steps that have ended.

    Raises:
        ReplayMismatch: one other file of the same rows; or they would release windows as if nothing
            more had happened in them.
    """
    known = open_private(files)
    source, marks = known.source, known.marks
    if not all(any(map(counted, of_part)) for of_part in marks):
        return False
    if len(marks) == 1 and not counted(marks[0][0]):
        raise ReplayMismatch(
            f"{source.name} holds the same rows as events that have been counted already, in "
            f"whatever order and compression; {source.parts[0].again}"
        )
    refuse_nothing_new(source, released, ended)
    return True


def refuse_nothing_new(source: Source, released: int, ended: int) -> None:
    """Refuse to release windows where all events were counted before.

    Raises:
        ReplayMismatch: more windows have ended than are released.
    """
    if ended > released:
        have = "has" if len(source.parts) == 1 else "have"
        raise ReplayMismatch(
            f"{source.name} {have} been counted already, and {ended - released:,} more windows "
            f"would be released without a new event; give the file of the new events, or drop "
            f"{field('append', True)} if the file holds everything since the first window"
        )


def new_marks(
    files: Private[KnownBy], counted: Counted, kept: Private[FilesLeftOut] = NO_FILES, *, once: bool
) -> Private[tuple[str, ...]]:
    """Marks of parts that are new to the stream.

    A file of new events must not be counted twice, and neither as such after it was the file of all
    events; so the marks of both are kept.

    Args:
        files: the events.
        counted: what the stream has counted.
        kept: files that look counted, and are known from now on.
        once: each may come once.

    Raises:
        ReplayMismatch: new events that were counted before.
    """
    given, new = open_private(files), list(open_private(kept).marks)
    for part, of_part in zip(given.source.parts, given.marks, strict=True):
        known = [mark for mark in of_part if counted(mark)]
        if known and once:
            raise ReplayMismatch(
                f"{part.name} has been counted already ({known[0][:18]}...); {part.again}"
            )
        new += [mark for mark in of_part if mark not in known]
    return Private(tuple(dict.fromkeys(new)))  # the same file of all events again adds nothing
