"""Events that come again: files of the same rows, in one run or after another.

Rows without ids are counted as often as they come. So a file that was counted is known by its
bytes, whatever its name and compression. One that is written anew is known by what its rows come to
in any order and format: what they add to each window and group, and sums over all that is read of
them. Then files of one run are compared row by row, and a later one is refused. A file that holds
some of the rows is told by its looks (`counton.run.looks`). With ids rows are told one by one, and
nothing is refused by its looks. Rows that lie in the state itself are removed where they are
counted, and cannot come again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from counton.base.errors import InvalidInput, ReplayMismatch, field
from counton.base.private import Private, open_private
from counton.rows.copies import find_copy
from counton.rows.remote_rows import Spread
from counton.rows.sources import Rows, Source
from counton.rows.tally import FileLook, Tally
from counton.rows.timestamps import ClockChange, moments
from counton.run.definition import Definition
from counton.spec.job import Job

#: By what a part is known again: its bytes, then what its rows come to where they have no ids.
Marks = tuple[str, ...]
#: Whether a stream has counted what a mark stands for.
Counted = Callable[[str], bool]


@dataclass(frozen=True, repr=False)
class KnownBy:
    """By what the files of a run are known again: digests of what is exact, hence secret.

    Attributes:
        source: the events.
        marks: of each of its parts.
        looks: of each part, where they are looked at.
        whole: what the rows of all parts come to, where there are several: ``()``, or one mark.
    """

    source: Source
    marks: Sequence[Marks]
    looks: Sequence[FileLook]
    whole: Marks = ()

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
    source: Source, job: Job, definition: Definition, found: Private[Tally]
) -> Private[KnownBy]:
    """How the files of a run are known again.

    Args:
        source: the events.
        job: how times are read.
        definition: of the stream.
        found: what they hold.

    Raises:
        InvalidInput: two files hold the same rows, to be counted twice.
    """
    rows = open_private(found)
    if source.comes_once:
        return Private(KnownBy(source, [()] * len(source.parts), rows.looks))
    refuse_copies(source, job, definition, rows.sums)
    sums = rows.sums or ("",) * len(source.parts)
    marks = [
        (_bytes_of(part, definition), *_mark_of(what))
        for part, what in zip(source.parts, sums, strict=True)
    ]
    return Private(KnownBy(source, marks, rows.looks, _mark_of(rows.whole)))


def _bytes_of(part: Rows, definition: Definition) -> str:
    return f"sha256:{part.digest(definition.columns.names)}"


def _mark_of(sums: str) -> Marks:
    """Of what rows come to; nothing where there are none."""
    return (f"sums:{sums}",) if sums else ()


def refuse_copies(source: Source, job: Job, definition: Definition, sums: Sequence[str]) -> None:
    """Refuse files of which one holds the rows of another, to be counted twice.

    They are compared row by row where what their rows come to is the same.

    Args:
        source: the events.
        job: how times are read.
        definition: of the stream.
        sums: of each part what its rows come to; empty where it has none.

    Raises:
        InvalidInput: two do, naming both.
    """
    alike: dict[str, list[Rows]] = {}
    for part, what in zip(source.parts, sums, strict=False):
        alike.setdefault(what, []).append(part)
    for what, parts in alike.items():
        if not what or len(parts) == 1:
            continue
        times = partial(
            moments,
            timezone="UTC" if definition.cut is None else definition.cut.timezone,
            clock_change=cast("ClockChange", job.clock_change),
            time_format=job.time_format,
        )
        if (pair := find_copy(parts, definition.columns.time or None, times)) is not None:
            raise InvalidInput(
                f"{pair[1].name} holds the same rows as {pair[0].name}, in whatever order, format "
                f"and compression, so that they would be counted twice; leave one of them out, or, "
                f"if these are different events indeed, put them into one file, or give each an id "
                f"({field('id')})"
            )


def without_counted(
    source: Source, definition: Definition, known_sources: Callable[[], Counted]
) -> Source:
    """Of several files those whose bytes were not counted before; if there is no other, each once.

    So a folder to which a file is added every night is read from the new one on. Rows with ids are
    told one by one.

    Args:
        source: the events.
        definition: of the stream.
        known_sources: what the stream has counted; asked where there are several files, since its
            key may have to be fetched.
    """
    known_whole = len(source.parts) == 1 or isinstance(source, Spread)
    if known_whole or source.comes_once or definition.columns.id is not None:
        return source
    counted, marks = known_sources(), [_bytes_of(part, definition) for part in source.parts]
    known = [part for part, mark in zip(source.parts, marks, strict=True) if counted(mark)]
    if len(known) == len(source.parts):  # one of each, since copies are no news either
        one_of = dict(zip(marks, source.parts, strict=True))
        known = [part for part, mark in zip(known, marks, strict=True) if one_of[mark] is not part]
    return source.without(known) if known else source


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
        ReplayMismatch: they would release windows as if nothing more had happened in them.
    """
    known = open_private(files)
    if not all(marks and counted(marks[0]) for marks in known.marks):
        return False
    refuse_nothing_new(known.source, released, ended)
    return True


def counted_copies(known: KnownBy, counted: Counted) -> Sequence[Rows]:
    """The files whose rows come to what counted ones came to; all of them if those of all do."""
    if any(map(counted, known.whole)):
        return known.source.parts
    parts = zip(known.source.parts, known.marks, strict=True)
    return [part for part, marks in parts if any(map(counted, marks[1:]))]


def refuse_copy(source: Source, copies: Sequence[Rows]) -> None:
    """Refuse files whose rows come to what counted ones came to, if there are any.

    Raises:
        ReplayMismatch: naming the first; or the source, if it is all of several.
    """
    if not copies:
        return
    name = copies[0].name if len(copies) == 1 else source.name
    raise ReplayMismatch(
        f"{name} holds the same rows as events that have been counted already, as far as they are "
        f"read: as many in each window and group, with the same sums of times, values and users, "
        f"in whatever order, format and compression; {copies[0].again}, or let it add nothing "
        f"({field('counted', 'keep')}). If these are other events indeed, put them into one file "
        f"with others that are new; a stream whose rows have ids tells them apart ({field('id')})"
    )


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
    given, new = open_private(files), [*open_private(kept).marks]
    for part, of_part in zip(given.source.parts, given.marks, strict=True):
        if once and of_part and counted(of_part[0]):
            raise ReplayMismatch(
                f"{part.name} has been counted already ({of_part[0][:18]}...); {part.again}"
            )
        new += of_part
    if once:
        refuse_copy(given.source, counted_copies(given, counted))
    marks = dict.fromkeys((*new, *given.whole))
    # The same file of all events again adds nothing.
    return Private(tuple(mark for mark in marks if not counted(mark)))
