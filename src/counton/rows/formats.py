"""Formats of event files, as their names end."""

from __future__ import annotations

from pathlib import Path
from string import punctuation
from typing import Literal, NamedTuple, get_args

from counton.base.errors import InvalidInput, field


def is_file(name: str) -> bool:
    """Whether a text names a file; a long list of groups is no name at all.

    >>> is_file("A," * 5000)
    False
    """
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def is_table(path: Path) -> bool:
    """Whether a file is a table, as its name ends."""
    return ending(str(path)) in SUFFIXES


def ending(name: str) -> str:
    """What a name ends with, whatever its letters and its compression."""
    return Path(name.lower().removesuffix(".gz").removesuffix(".zst")).suffix


Format = Literal["csv", "parquet", "jsonl"]

FORMATS: tuple[Format, ...] = get_args(Format)

SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


class CsvForm(NamedTuple):
    """How CSV is written.

    Attributes:
        separator: what stands between fields.
        decimal: what stands before the fraction of a number.
        comment: how lines begin that are no rows; None: there are no such lines.
    """

    separator: str = ","
    decimal: str = "."
    comment: str | None = None

    @classmethod
    def read(cls, separator: str = ",", decimal: str = ".", comment: str | None = None) -> CsvForm:
        """The form that a job's words say.

        >>> CsvForm.read("tab", ",").separator
        '\\t'
        """
        between = "\t" if separator == "tab" else separator
        if between not in SEPARATORS:
            raise InvalidInput(
                f"{field('separator')} is {separator!r}; use one of , ; | or tab, or write the "
                f"file with one of them"
            )
        if decimal not in (".", ","):
            raise InvalidInput(f"{field('decimal')} is {decimal!r}; use . or ,")
        signs = set(punctuation) - {'"', between}
        if comment is not None and not (0 < len(comment) <= _SIGNS and set(comment) <= signs):
            raise InvalidInput(
                f"{field('comment')} is {comment!r}; give 1 to {_SIGNS} signs that no row begins "
                f"with, such as #, and neither a quotation mark nor what stands between fields"
            )
        return cls(between, decimal, comment)


#: Signs at most with which a line begins that is no row.
_SIGNS = 4
#: What may stand between the fields of CSV.
SEPARATORS = (",", ";", "|", "\t")


def format_of(path: str, stated: str | None = None) -> Format:
    """Format of a file: what the caller states, else what its name ends with.

    >>> format_of("events.csv.gz"), format_of("-", "jsonl")
    ('csv', 'jsonl')
    """
    if stated is not None:
        if stated not in FORMATS:
            raise InvalidInput(f"format {stated!r} is not known; use one of {', '.join(FORMATS)}")
        return stated
    found = SUFFIXES.get(ending(path))
    if found is None:
        raise InvalidInput(
            f"the format of {path!r} cannot be told from its name; name it .csv, .parquet or "
            f".jsonl, or state the format ({', '.join(FORMATS)})"
        )
    return found
