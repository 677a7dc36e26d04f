"""Paths of event files and their formats: the files of a folder, a pattern or several names."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from counton.base.errors import InvalidInputError, is_text, param
from counton.io.other_formats import other_format, refuse_address


def is_file(name: str) -> bool:
    """Return True for the path of a file; False for a text too long for one, such as groups.

    >>> is_file("A," * 5000)
    False
    """
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def looks_like_file(text: str) -> bool:
    """Return True for a text that names a file, which may be missing, and no list of groups.

    >>> looks_like_file("groups.txt"), looks_like_file("home,shop"), looks_like_file("home")
    (True, False, False)
    """
    path = Path(text)
    return "," not in text and (is_table(path) or path.suffix == ".txt" or os.sep in text)


def place_of_file(path: str) -> str:
    """Return a file's folder, whatever links lead to it, and its name without .gz or .zst.

    >>> place_of_file("/in/1.csv.gz")
    '/in/1.csv'
    """
    name = os.path.basename(path)
    for packed in (".gz", ".zst"):
        name = name[: -len(packed)] if name.lower().endswith(packed) else name
    return os.path.join(os.path.realpath(os.path.dirname(path)), name)


def are_several(events: object) -> bool:
    """Return True for a folder, a pattern, or more than one path.

    >>> are_several("2024-*.csv"), are_several(["a.csv"]), are_several(["a.csv", "b.csv"])
    (True, False, True)
    """
    if isinstance(events, list | tuple):
        return len(events) > 1 or any(map(are_several, events))
    if not isinstance(events, str | os.PathLike) or is_database(events):
        return False
    path = os.fspath(events)
    return os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path))


def is_table(path: Path) -> bool:
    """Return True for the ending of a table, such as .csv."""
    return ending(str(path)) in SUFFIXES


def ending(name: str) -> str:
    """Return the ending in lower case, without .gz or .zst."""
    return Path(name.lower().removesuffix(".gz").removesuffix(".zst")).suffix


Format = Literal["csv", "parquet", "jsonl"]

FORMATS: tuple[Format, ...] = get_args(Format)

SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


class CsvForm(NamedTuple):
    """The form of CSV: its separator and decimal sign."""

    separator: str = ","
    decimal: str = "."

    @classmethod
    def read(cls, separator: str | None = None, decimal: str | None = None) -> CsvForm:
        """Return the form that a job's options state; None stands for the default.

        >>> CsvForm.read("tab", ",").separator
        '\\t'
        """
        decimal = decimal or "."
        character = "\t" if separator == "tab" else separator or ","
        if character not in SEPARATORS:
            raise InvalidInputError(
                f"{param('separator')} is {separator!r}; columns may be separated by , ; | or tab: "
                "give one of them, or write the file with one of them"
            )
        if decimal not in (".", ","):
            raise InvalidInputError(f"{param('decimal')} is {decimal!r}; use . or ,")
        return cls(character, decimal)


#: Allowed separators of the fields of CSV.
SEPARATORS = (",", ";", "|", "\t")


def format_of(path: str, file_format: str | None = None) -> Format:
    """Return the stated format, or that of the ending.

    >>> format_of("events.csv.gz"), format_of("-", "jsonl")
    ('csv', 'jsonl')
    """
    if file_format is not None:
        if file_format not in FORMATS:
            raise InvalidInputError(
                f"format {file_format!r} is not known; use one of {', '.join(FORMATS)}"
            )
        return file_format
    format_of_ending = SUFFIXES.get(ending(path))
    if format_of_ending is None:
        other = other_format(path)
        if other is not None:
            raise InvalidInputError(f"{path!r} {other}")
        raise InvalidInputError(
            f"the format of {path!r} cannot be told from its name; name it .csv, .parquet or "
            f".jsonl, or state the format ({', '.join(FORMATS)})"
        )
    return format_of_ending


class NoFilesError(InvalidInputError):
    """Named event files do not exist (yet)."""


#: Placeholders of a query: {since} is the beginning of the first unreleased window, {until} the
#: end of the last window that is released now. Their values are sent as parameters.
MOMENT: Final = re.compile(r"""(['"]?)\{(since|until)\}(['"]?)""")


def moments_named(query: str) -> frozenset[str]:
    """Return which of ``since`` and ``until`` a query contains in braces.

    Raises:
        InvalidInputError: a placeholder stands in quotes, which would make it a text.

    >>> sorted(moments_named("select * from visits where at >= {since} and at < {until}"))
    ['since', 'until']
    """
    names = set[str]()
    for before, name, after in MOMENT.findall(query):
        if before or after:
            raise InvalidInputError(
                f"{param('query')} has {{{name}}} in quotes, but a value is put in by the "
                "database, which needs no quotes: remove the quotes"
            )
        names.add(name)
    return frozenset(names)


def is_database(events: object) -> bool:
    """Return True for the address of a database, or if one is among the events.

    >>> is_database("sqlite:///visits.db"), is_database(["visits.csv"])
    (True, False)
    """
    if isinstance(events, list | tuple):
        return any(map(is_database, events))
    if not isinstance(events, str) or "://" not in events:
        return False
    return events.partition("://")[0].partition("+")[0] in ("sqlite", "postgresql")


def event_paths(events: object, file_format: str | None = None) -> list[str]:
    """Return the paths of the events; none for a frame."""
    if not isinstance(events, str | os.PathLike | list | tuple) or is_database(events):
        return []
    entries = [events] if isinstance(events, str | os.PathLike) else list(events)
    if not entries:
        raise InvalidInputError(f"{param('events')} names no file; give at least one")
    paths = [path for entry in entries for path in _find_files(entry, file_format)]
    seen: set[str] = set()
    for path in paths:
        place = os.path.realpath(path) if path != "-" else path
        if place in seen:
            raise InvalidInputError(
                f"{path!r} is given twice, and its rows would be counted twice; give it once"
            )
        seen.add(place)
    return paths


def names_tell_format(events: object) -> bool:
    """Return True if all endings show formats; a frame needs none.

    >>> names_tell_format(["a.csv", "b.jsonl.gz"]), names_tell_format("a.log")
    (True, False)
    """
    if not isinstance(events, str | os.PathLike | list | tuple) or is_database(events):
        return True
    entries = [events] if isinstance(events, str | os.PathLike) else list(events)
    names = list[str]()
    for entry in entries:
        if not isinstance(entry, str | os.PathLike):
            return False
        path = os.fspath(entry)
        if os.path.isdir(path):
            names += _files_in(path)
        else:
            names += glob.glob(path, recursive=True) if glob.has_magic(path) else [path]
    return all(ending(name) in SUFFIXES for name in names)


def refuse_among_events(events: object, out: Path | None) -> None:
    """Refuse an output file among the events, because a later run would read it."""
    if out is None or ending(out.name) not in SUFFIXES:
        return
    entries = events if isinstance(events, list | tuple) else [events]
    for path in entries:
        if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
            continue
        if os.path.realpath(path) == os.path.realpath(out.parent):
            raise InvalidInputError(
                f"{str(out)!r} would be read as events by the next run, which reads the folder "
                f"{os.fspath(path)!r}; write it elsewhere"
            )


def _files_in(folder: str) -> list[str]:
    """Return the files in a folder that are not hidden."""
    return [entry.path for entry in _entries_of(folder) if entry.is_file()]


def _entries_of(folder: str) -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir(folder) if not entry.name.startswith((".", "_"))]


def left_in_folders(events: object, file_format: str | None = None) -> str | None:
    """Return a sentence about folders and files of other kinds that are not read, if any."""
    entries = events if isinstance(events, list | tuple) else [events]
    folders = [os.fspath(item) for item in entries if isinstance(item, str | os.PathLike)]
    unread: list[str] = []
    for folder in filter(os.path.isdir, folders):
        for entry in sorted(_entries_of(folder), key=lambda entry: entry.name):
            has_other_ending = file_format is None and ending(entry.name) not in SUFFIXES
            if entry.is_dir():
                unread.append(f"{entry.path!r} (a folder)")
            elif not entry.is_file() or has_other_ending:
                unread.append(f"{entry.path!r}")
    if not unread:
        return None
    more = f" and {len(unread) - _SHOWN_FILES:,} more" if len(unread) > _SHOWN_FILES else ""
    return (
        f"not read: {', '.join(unread[:_SHOWN_FILES])}{more}; a folder gives its own files that "
        f"end in {', '.join(SUFFIXES)}, also .gz and .zst: name others, or give a pattern such as "
        f"{os.path.join(folders[0], '**', '*.csv')!r}"
    )


#: Number of files to name that are not read.
_SHOWN_FILES = 3


def _find_files(entry: object, file_format: str | None) -> list[str]:
    """Return the files of a path, a folder, or a pattern."""
    if not isinstance(entry, str | os.PathLike):
        raise InvalidInputError(
            f"{param('events')} contains a value of type {type(entry).__name__}, which is not the "
            "path of a file; give paths, or a single data frame"
        )
    path = os.fspath(entry)
    if not is_text(path):
        raise InvalidInputError(
            f"{param('events')} is {path[:80]!r}, which is not valid UTF-8 (a byte of another "
            f"encoding, or NUL); rename the file"
        )
    refuse_address(path)
    if path == "-" or (os.path.exists(path) and not os.path.isdir(path)):
        return [path]
    if os.path.isdir(path):
        if os.path.isdir(os.path.join(path, "_delta_log")):
            raise InvalidInputError(
                f"{path!r} is the folder of a Delta table, which also contains files of deleted "
                "rows; give polars.scan_delta of it in Python, or write its rows into a "
                "file"
            )
        inside = sorted(
            name for name in _files_in(path) if file_format is not None or ending(name) in SUFFIXES
        )
        if not inside:
            raise NoFilesError(
                f"the folder {path!r} has no event files ({', '.join(SUFFIXES)}, also .gz and "
                f".zst); name the files, or give a pattern such as {os.path.join(path, '*')!r}; if "
                "a run has no rows, add a file that has only the line of column names"
            )
        return inside
    if not glob.has_magic(path):
        folder = os.path.dirname(path)
        missing = f"there is no folder {folder!r}" if folder and not os.path.isdir(folder) else ""
        raise NoFilesError(
            f"{path!r} is not a file{missing and f' ({missing})'}. Check the path, or use - to "
            "read standard input"
        )
    matching = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
    if not matching:
        raise NoFilesError(f"no file matches {path!r}; check the pattern")
    return matching
