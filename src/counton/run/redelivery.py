"""Files of new events that come again: each is known by SHA-256 of its bytes, and by nothing else.

The bytes are those of the file unpacked, whatever its name. Of a data frame, and of rows that a
database or Spark counts where they lie, they are the columns that are read. A file of new events
counts once, and each row in it is new: nothing that a row says decides whether another one counts.
A file with one row more or less is another file. Rows with ids are told one by one, and rows that
lie in the state itself are removed where they are counted, so of these no file is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from counton.base.errors import InvalidInput, ReplayMismatch, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.rows.remote_rows import Spread
from counton.rows.sources import Rows, Source
from counton.run.definition import Definition

#: Whether a stream has counted what a mark stands for.
Counted = Callable[[str], bool]


@name_alone
@dataclass(frozen=True)
class KnownBy:
    """By what the files of a run are known again: digests of what is exact, hence secret.

    Attributes:
        source: the events.
        marks: of each of its parts; none where its rows come once.
    """

    source: Source
    marks: Sequence[str]


def known_by(source: Source, definition: Definition) -> Private[KnownBy]:
    """How the files of a run are known again."""
    if source.comes_once:
        return Private(KnownBy(source, ()))
    return Private(KnownBy(source, [_mark(part, definition) for part in source.parts]))


def _mark(part: Rows, definition: Definition) -> str:
    return f"sha256:{part.digest(definition.columns.names)}"


def refuse_several(source: Source, *, append: bool) -> None:
    """Refuse several files as one of all events: a file among them with a few rows less is another.

    Hangs on the number of files alone, which is public.
    """
    if len(source.parts) > 1 and not append:
        raise InvalidInput(
            f"{field('events')} are {len(source.parts):,} files, and a file of all events is one: "
            f"if each holds new events only, so that no row stands in two, give "
            f"{field('append', True)}, and each file counts once, known by its bytes; else put the "
            f"rows into one file, or give each an id ({field('id')})"
        )


def refuse_all_events(source: Source, *, append: bool) -> None:
    """Refuse a file of all events without ids, where a late row counts in a window of before.

    Such a file does not tell a row that came late from one that changed, and a row that comes, goes
    and comes again would count in several versions. Hangs on what is asked alone.
    """
    if not (append or source.comes_once):
        raise InvalidInput(
            f"{source.name} is a file of all events, which does not tell late rows from changed "
            f"ones, and {field('revise')} counts late rows in their own windows: give files of new "
            f"events alone, with {field('append', True)}, or name the column that tells one row "
            f"from another ({field('id')})"
        )


def new_files(source: Source, definition: Definition, counted: Counted) -> Source:
    """Of several files each once, without those that were counted before, unless all of them were.

    So a folder to which a file is added every night is read from the new one on.
    """
    if len(source.parts) == 1 or isinstance(source, Spread) or source.comes_once:
        return source
    one_of: dict[str, Rows] = {}
    for part in source.parts:
        one_of.setdefault(_mark(part, definition), part)
    new = [part for mark, part in one_of.items() if not counted(mark)] or [*one_of.values()]
    return source.without([part for part in source.parts if part not in new])


def is_counted(files: Private[KnownBy], counted: Counted, windows: int, *, yes: bool) -> bool:
    """Whether new events are those of earlier runs, all of whose rows are in the state.

    Args:
        files: of the run.
        counted: what the stream has counted.
        windows: how many would be released without a new event.
        yes: nothing happened in them.

    Raises:
        InvalidInput: windows would be, and nobody says so.
    """
    known = open_private(files)
    if not known.marks or not all(map(counted, known.marks)):
        return False
    if windows > 0 and not yes:
        have = "has" if len(known.marks) == 1 else "have"
        would = "window would" if windows == 1 else "windows would"
        raise InvalidInput(
            f"{known.source.name} {have} been counted already, and {windows:,} more {would} be "
            f"released without a new event; give the file of the new events, or "
            f"{field('yes', True)} if nothing happened, or drop {field('append', True)} if "
            f"the file holds everything since the first window"
        )
    return True


def new_marks(files: Private[KnownBy], counted: Counted, *, once: bool) -> Private[tuple[str, ...]]:
    """Marks of parts that are new to the stream.

    A file of new events must not be counted twice, and neither as such after it was the file of all
    events; so the marks of both are kept.

    Raises:
        ReplayMismatch: another run has counted a file of new events meanwhile.
    """
    given = open_private(files)
    for part, mark in zip(given.source.parts, given.marks, strict=False):
        if once and counted(mark):
            raise ReplayMismatch(
                f"{part.name} has been counted already ({mark[:18]}...); {part.again}"
            )
    return Private(tuple(mark for mark in dict.fromkeys(given.marks) if not counted(mark)))
