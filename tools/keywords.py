"""Write the keywords of jobs for editors and type checkers: ``python -m tools.keywords``.

A type checker does not run programs, so each name and type must stand in a file. The file is
written from the fields of `Job` and from the options of statistics, which state their types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from counton.frame.options import Option
from counton.job.job import Job, RowFormat, fields_of, options_of
from counton.job.stated_options import all_options
from counton.statistics.catalogue import OWN

FILE = Path(__file__).parent.parent / "src/counton/job/keywords.py"
#: What Python says otherwise than files, by `Option.words`: in place of what a field's type says.
_WIDER = {
    "length": ("str", "str | timedelta"),
    "moment": ("str | datetime", "str | date"),
    "columns": ("str", "str | Sequence[str]"),
}
_START = '''"""The fields of a job as keyword arguments, for editors and type checkers.

`Job` says what each of them means, and ``python -m tools.keywords`` writes this file from it. A
length of time may be a `timedelta` here, a moment a `date` or a `datetime`, and several columns a
list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.state.keys import Kept
    from counton.strategies.strategy import StreamStrategy

#: Names of the statistics of counton. A statistic of another package is given as an object.
StatisticName: TypeAlias = Literal[
    NAMES
]


class RowFields(TypedDict, total=False):
    """Keyword arguments that state the format of rows, for every function that reads rows."""

'''
_JOBS = '''

class JobFields(RowFields, total=False):
    """Keyword arguments of `counton.release`, besides the state and the guarantee.

    >>> stream: JobFields = {"time": "at", "every": "1d", "start": "2024-03-01", "steps": 365}
    >>> sorted(stream)
    ['every', 'start', 'steps', 'time']
    """

'''


def text() -> str:
    """Return the text that ``src/counton/job/keywords.py`` must have."""
    how, told = options_of(RowFormat), options_of(Job)
    types = {item.name: str(item.type) for _, item in fields_of(Job)}
    rest = {name: told.get(name) for name in types if name not in (*how, *_POSITIONAL)}
    own = [f"    {name}: {_of_statistic(one)}" for name, one in all_options().items()]
    names = "\n".join(f'    "{name}",' for name in OWN)
    return (
        _START.replace("    NAMES", names)
        + "\n".join(_fields(types, how))
        + "\n"
        + _JOBS
        + "\n".join([*_fields(types, rest), *own])
        + "\n"
    )


#: What `release` takes besides.
_POSITIONAL = ("what", "events", "state")


def _fields(types: Mapping[str, str], told: Mapping[str, Option | None]) -> Iterator[str]:
    for name, said in told.items():
        before, after = _WIDER.get("" if said is None else said.words, ("", ""))
        found = types[name].replace(before, after) if before else types[name]
        if said is not None and said.choices:
            found = found.replace("str", _literal(said.choices), 1)
        yield _line(name, found)


def _line(name: str, found: str) -> str:
    """Return the line of a field with its type, broken over several lines if it is too long."""
    line = f"    {name}: {found}"
    if len(line) <= 100:
        return line
    inner, _, rest = found.removeprefix("Literal[").partition("]")
    return f"    {name}: (\n        Literal[{inner}]{rest}\n    )"


def _literal(choices: Sequence[str]) -> str:
    return f"Literal[{', '.join(map(repr, choices))}]".replace("'", '"')


def _of_statistic(said: Option) -> str:
    """Return the Python type of a statistic's option, as text."""
    if said.kind == "flag":
        return "bool"
    types: dict[Any, str] = {"whole": "int", "number": "float"}
    found = "Number" if said.exact else types.get(said.kind, "str")
    if said.choices:
        found = _literal(said.choices)
    if said.nested:
        found += " | Mapping[str, Mapping[str, Any]]"
    elif said.by_name:
        found += " | Mapping[str, float]"
    elif said.several:
        found += " | Sequence[str]" if said.column else " | Sequence[str] | Sequence[float]"
    return f"{found} | None"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
