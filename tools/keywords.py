"""Write the keywords of jobs for editors and type checkers: ``python -m tools.keywords``.

A type checker does not run programs, so each name and type must stand in a file. The file is
written from the models of `counton.job`, whose fields have types.
"""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from counton.job.common_options import InputOptions, Job
from counton.job.custom_statistic import CustomStatisticJob
from counton.job.statistics import all_models
from counton.statistics.catalogue import OWN_STATISTICS

FILE = Path(__file__).parent.parent / "src/counton/job/typed_kwargs.py"
_START = '''"""The options of jobs as keyword arguments, for editors and type checkers.

`counton.job` says what each of them means, and ``python -m tools.keywords`` writes this file
from its models. A length of time may be a `timedelta` here, a moment a `date` or a `datetime`, and
several columns a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    import polars as pl

    from counton.base.exact import Number
    from counton.noise import Key
    from counton.strategies.strategy import StreamStrategy

#: Names of the statistics of counton. A statistic of another package is given as an object.
StatisticName: TypeAlias = Literal[
    NAMES
]


class ArrowTable(Protocol):
    """A data frame of any library that exports its rows by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream in a PyCapsule, as Arrow's C stream interface
        prescribes.
        """


#: Sources of events.
EventSource: TypeAlias = (
    "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pl.LazyFrame | ArrowTable"
)


class RowOptions(TypedDict, total=False):
    """Keyword arguments that state the format of rows, for every function that reads rows."""

'''
_JOBS = '''

class JobOptions(RowOptions, total=False):
    """Keyword arguments of `counton.release`, besides the state and the guarantee.

    >>> stream: JobOptions = {"time": "at", "every": "1d", "start": "2024-03-01", "windows": 365}
    >>> sorted(stream)
    ['every', 'start', 'time', 'windows']
    """

'''
#: Arguments that functions of jobs take by position, and what no keyword states.
_POSITIONAL = ("statistic", "events", "state", "definition")
#: Options of a row's format.
_OF_ROWS = tuple(
    name for name in InputOptions.model_fields if name not in ("id", "query", "append", "covers")
)
#: Types that the models take without checks of their own.
_TYPES = {
    "key": "Key | str | os.PathLike[str] | None",
    "strategy": "str | StreamStrategy | None",
    "statistics": "str | Mapping[str, Mapping[str, Any]] | None",
}
_NUMBER = frozenset({int, float, str, Fraction})


def text() -> str:
    """Return the text that ``src/counton/job/typed_kwargs.py`` must have."""
    fields: dict[str, list[Any]] = {}
    models: list[type[Job]] = [Job, *all_models().values(), CustomStatisticJob]
    for model in models:
        for name, field in model.model_fields.items():
            fields.setdefault(name, []).append(field.annotation)
    types_of = {
        name: _TYPES.get(name) or type_in_words(annotations)
        for name, annotations in fields.items()
        if name not in _POSITIONAL
    }
    names = "\n".join(f'    "{name}",' for name in OWN_STATISTICS)
    others = [name for name in types_of if name not in _OF_ROWS]
    return formatted(
        _START.replace("    NAMES", names)
        + "\n".join(_line(name, types_of[name]) for name in _OF_ROWS)
        + "\n"
        + _JOBS
        + "\n".join(_line(name, types_of[name]) for name in others)
        + "\n"
    )


def _line(name: str, kind: str) -> str:
    """Return the line of a field with its type, however long it is."""
    return f"    {name}: ({kind})"


def formatted(code: str) -> str:
    """Return code in the form that ``make format`` gives it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout


def type_in_words(annotations: Iterable[Any]) -> str:
    """Return the type of an option as text, which may differ between models.

    >>> type_in_words([bool]), type_in_words([int | None, str])
    ('bool', 'int | str | None')
    """
    parts: list[Any] = []
    for annotation in annotations:
        parts += [part for part in _parts_of(annotation) if part not in parts]
    words: list[str] = []
    choices = [choice for part in parts for choice in _choices_of(part)]
    if choices:
        texts = ", ".join(f'"{choice}"' for choice in dict.fromkeys(choices))
        words.append(f"Literal[{texts}]")
    is_number = set(parts) >= _NUMBER
    if is_number:
        words.append("Number")
    for part in parts:
        if part is not type(None) and not _choices_of(part) and not (is_number and part in _NUMBER):
            words.append(_word_of(part))
    if type(None) in parts:
        words.append("None")
    return " | ".join(words)


def _parts_of(annotation: Any) -> Iterator[Any]:
    """Yield the types of a union, without their checks."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _parts_of(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _parts_of(part)
    else:
        yield annotation


def _choices_of(part: Any) -> tuple[str, ...]:
    return get_args(part) if get_origin(part) is Literal else ()


def _word_of(part: Any) -> str:
    """Return one type as text."""
    origin = get_origin(part)
    arguments = ", ".join(_word_of(argument) for argument in get_args(part))
    if origin in (Sequence, Mapping, PathLike):
        name = "os.PathLike" if origin is PathLike else origin.__name__
        return f"{name}[{arguments}]"
    if part in (date, timedelta, str, int, float, bool):
        return str(part.__name__)
    if part is Any:
        return "Any"
    raise TypeError(f"no text for the type {part!r}")


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
