"""Tables of a job file: TOML whose texts may name variables of the environment.

Nothing here knows the options of jobs; `counton.job.job_file` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from counton.base.errors import InvalidInputError, is_text
from counton.base.outside_input import parse_toml, read_plain
from counton.job.messages import parse_options
from counton.job.option_fields import Section

_Model = TypeVar("_Model", bound=Section)

#: All tables that a job file may have.
TABLES = ("defaults", "jobs", "report", "serve", "publish")
#: A table of earlier versions, which sets no budget any more.
_LIMIT = "limit"
#: A reference to a variable of the environment; and a text that begins like one.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_VARIABLE = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})[^}]{0,40}\}?")
#: Key whose text is SQL.
_QUERY = "query"
#: The place at the end of a message of Python's parser.
_PLACE = re.compile(r"\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")
#: The key at the beginning of a line, also without its sign of equality.
_KEY_OF_LINE = re.compile(r"[ \t]*(?P<key>[A-Za-z0-9_-]+)[ \t]*(?:=|$)")
_HOW_TO_WRITE_VALUES = (
    'write text and dates in quotation marks, as in "1d", decimals with a point, and each key once'
)
#: Most characters of a wrong text in a message.
_LONGEST_TEXT = 80


def read_tables(file: Path) -> dict[str, Any]:
    """Read the tables of a job file, and replace variables in its texts.

    ``${NAME}`` is a variable of the environment. Replaced text is not searched again. Names of
    tables and keys are unchanged.

    Raises:
        InvalidInputError: the file is missing or no TOML, a table is unknown, or a variable is not
            set.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[defaults]\\nstate = "${COUNTON_EXAMPLE}"\\n')
    >>> read_tables(file)
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: job file 'nightly.toml' uses environment variables ...
    """
    tables = _parse_file(file)
    unset: dict[str, str] = {}
    filled: dict[str, object] = _replace_variables(tables, "", unset)
    if unset:
        names = ", ".join(f"{name} ({where})" for name, where in unset.items())
        raise InvalidInputError(
            f"job file {str(file)!r} uses environment variables that are not set: {names}; set them"
        )
    try:
        _refuse_unstorable(filled, "")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    _refuse_unknown_tables(filled, file)
    return filled


def read_table(file: Path, tables: Mapping[str, Any], name: str, model: type[_Model]) -> _Model:
    """Return one table of a job file as a model, such as ``[publish]``; empty if there is none.

    Args:
        file: path of the job file, to whose folder paths are relative.
        tables: all tables of the job file.
        name: name of the table.
        model: the options that the table may have.

    Raises:
        InvalidInputError: the table has an unknown key, or a wrong value.
    """
    try:
        parsed: _Model = parse_options(model, tables.get(name, {}), file.parent)
    except InvalidInputError as error:
        keys = {option: str(field.alias) for option, field in model.model_fields.items()}
        raise InvalidInputError(f"[{name}] of {str(file)!r}: {error.translate(keys)}") from error
    return parsed


def parse_file_text(file: Path, data: bytes) -> dict[str, object]:
    """Parse the text of a job file.

    Raises:
        InvalidInputError: the text is no TOML, or its tables are nested too deep.
    """
    try:
        return parse_toml(data)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} is not valid TOML: {error}; correct it"
        ) from error
    except ValueError as error:  # also text that is not UTF-8
        key = _key_at(data.decode(errors="replace"), str(error))
        problem = str(error)
        remedy = "correct it"
        if key is not None:
            problem = f"key {key!r}: {error}"
            remedy = _HOW_TO_WRITE_VALUES
        raise InvalidInputError(
            f"job file {str(file)!r} is not valid TOML: {problem}; {remedy}"
        ) from error


def _key_at(text: str, problem: str) -> str | None:
    """Return the key whose line or list a parser could not read; None if it was at no key.

    Args:
        text: text of the job file.
        problem: message of the parser, which ends with the place.

    >>> text = 'every = "1d"\\ntimezone = UTC\\n'
    >>> _key_at(text, "Invalid value (at line 2, column 12)")
    'timezone'
    """
    place = _PLACE.search(problem)
    if place is None:
        return None
    lines = text.split("\n")
    if place["line"]:
        number = int(place["line"])
        beginning = "".join(lines[number - 1 : number])[: int(place["column"]) - 1]
        lines = [*lines[: number - 1], beginning]
    for line in reversed(lines):
        if line.lstrip().startswith("["):
            return None
        key = _KEY_OF_LINE.match(line)
        if key is not None:
            return key["key"]
    return None


def _parse_file(file: Path) -> dict[str, object]:
    try:
        data = read_plain(file)
    except OSError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} cannot be read ({error.strerror}); check the path"
        ) from error
    except ValueError as error:
        raise InvalidInputError(
            f"job file {str(file)!r} has the character NUL in its path; correct the path"
        ) from error
    return parse_file_text(file, data)


def _refuse_unknown_tables(tables: Mapping[str, object], file: Path) -> None:
    if _LIMIT in tables:
        raise InvalidInputError(
            f"[{_LIMIT}] of {str(file)!r} sets no budget; remove the section, and set the budget "
            f"of the state by counton ledger"
        )
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise InvalidInputError(
            f"job file {str(file)!r} has the unknown section {', '.join(map(repr, unknown))}; "
            "write [jobs.NAME] for a job, [report.NAME] for a report, and shared options under "
            "[defaults]"
        )
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InvalidInputError(
                f"job file {str(file)!r}: {name!r} is no section; write the line [{name}], and its "
                "keys below"
            )


# -------------------------------------------------------------------- variables of the environment
def _replace_variables(value: object, where: str, unset: dict[str, str]) -> Any:
    """Return a value with variables of the environment replaced in all its texts.

    Args:
        where: place of the value in the file, such as ``defaults.state``.
        unset: receives the variables that are not set, with the place of each.
    """
    if isinstance(value, dict):
        return {
            key: _replace_variables(item, f"{where}.{key}" if where else key, unset)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_replace_variables(item, where, unset) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if where.rpartition(".")[2] == _QUERY:
        raise InvalidInputError(
            f"{where} contains ${{, and environment variables are not put into SQL; use {{since}} "
            "and {until}, whose values are passed safely, or make a view"
        )
    wrong = _NO_VARIABLE.search(value)
    if wrong is not None:
        raise InvalidInputError(
            f"{where} has {wrong[0]!r}, which is not a variable; write ${{NAME}} with letters, "
            "digits and _, or put the whole text into a variable"
        )
    for name in _VARIABLE.findall(value):
        if name not in os.environ:
            unset.setdefault(name, where)
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], ""), value)


def _refuse_unstorable(value: object, where: str) -> None:
    """Refuse texts and keys that no file and no database can hold, such as a text with NUL."""
    if isinstance(value, str) and not is_text(value):
        raise InvalidInputError(
            f"{where} is {value[:_LONGEST_TEXT]!r}, which is not valid UTF-8 or has the character "
            "NUL"
        )
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            _refuse_unstorable(item, f"{where}.{number}")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_unstorable(key, f"a key of {where or 'it'}")
            _refuse_unstorable(item, f"{where}.{key}" if where else key)
