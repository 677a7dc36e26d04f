"""Types of the values of options: each turns what a person may write into one form, or refuses it.

A refusal is the end of a sentence that begins with ``name=value``, as in "is not a length of time;
write 15m, 1h, 1d, 1w or 1mo". `counton.job.messages` puts the beginning before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
)

from counton.base import lengths
from counton.base.errors import is_text, param
from counton.base.strategy_names import FAMILIES, PAPERS, PUBLISHED

PathText: TypeAlias = str | os.PathLike[str]


def check_storable(text: str) -> str:
    """Return the text; refuse one that no file or database can hold."""
    if not is_text(text):
        raise ValueError("is not valid UTF-8, or has the character NUL; write it in UTF-8")
    return text


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise ValueError("is not a text; put it into quotes")
    if isinstance(value, date):
        return value.isoformat()
    return check_storable(value if isinstance(value, str) else repr(value))


def _column(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not the name of a column; put the name into quotes")
    if not value:
        raise ValueError("is empty; give the name of a column, or leave it out")
    return check_storable(value)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        names = tuple(name.strip() for name in value.split(","))
    elif isinstance(value, Sequence) and all(isinstance(name, str | int | float) for name in value):
        names = tuple(str(name) for name in value)
    else:
        raise ValueError("is not a list of names; write A,B or a list of texts")
    if not names or "" in names:
        raise ValueError("has an empty name; give each its name, as in A,B")
    return tuple(check_storable(name) for name in names)


def _length(value: object) -> str:
    if isinstance(value, timedelta):
        return length_of(value)
    if not isinstance(value, str) or lengths.Length.parse(value.strip()) is None:
        raise ValueError(
            "is not a length of time; write a whole number and a unit: 15m, 1h, 1d, 1w, 1mo "
            "(12mo for a year)"
        )
    return value.strip()


def _lengths(value: object) -> tuple[str, ...]:
    texts = value
    if isinstance(value, str):
        texts = value.split(",")
    elif isinstance(value, timedelta):
        texts = [value]
    if not isinstance(texts, Sequence) or not texts:
        raise ValueError("is not a length of time, or several; write 7d, or 7d,28d")
    lengths = tuple(_length(text) for text in texts)
    if len({*lengths}) < len(lengths):
        raise ValueError("names a length twice; write each once, as in 7d,28d")
    return lengths


def _delay(value: object) -> str:
    if isinstance(value, timedelta):
        return length_of(value)
    if not isinstance(value, str) or _DELAY.fullmatch(value.strip()) is None:
        raise ValueError("is not a length of time; write 90s, 15m, 6h or 2d, or 0s for none")
    return value.strip()


def length_of(value: timedelta) -> str:
    """Return a length as text, such as "36h".

    >>> length_of(timedelta(hours=36)), length_of(timedelta(days=7))
    ('36h', '7d')
    """
    seconds = value.total_seconds()
    if seconds <= 0 or seconds != int(seconds):
        raise ValueError("is not a whole number of seconds above 0; give one")
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def _moment(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str):
        raise ValueError("is not a time; write a date or a time, as in 2024-03-01T08:30")
    if value not in (NOW, LATEST_ROW):
        try:
            datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                "is not a time; write ISO 8601, as in 2024-03-01 or 2024-03-01T08:30Z "
                f"({param('until', '')} may also be {NOW} or {LATEST_ROW})"
            ) from None
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError("is not a whole number; write it as in 30")
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError("is not a number; write it as in 0.95")
    return float(value)


def _exact(value: Any) -> Fraction:
    from counton.base.exact import exact  # imports numpy, which help does not need

    try:
        return exact(value, "")
    except ValueError:
        raise ValueError(
            "is not a number from 1e-300 to 1e300; write it as in 0.5, 1e-6 or 1/3"
        ) from None


def _above_zero(value: Any) -> Any:
    if value <= 0:
        raise ValueError("is not above 0; give a number above 0, as in 1")
    return value


def _below_one(value: Any) -> object:
    if not 0 < value < 1:
        raise ValueError("is not between 0 and 1; give a number between them")
    return value


def _unit(value: object) -> str:
    from counton.privacy.contribution import checked_unit  # imports numpy, which help does not need

    return checked_unit(value, param("privacy_unit"))


def _row_number(value: object) -> int:
    number = _whole(value)
    if not 1 <= number <= _MOST_ROWS:
        raise ValueError(f"is not from 1 to {_MOST_ROWS:,}; give the number of rows")
    return number


def _timezone(value: object) -> str:
    try:
        return ZoneInfo(_text(value)).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not a time zone; give its name, as in UTC or Europe/Berlin") from None


def _half_width(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _half_width(width) for name, width in value.items()}
    if isinstance(value, str) and "=" in value:
        widths: dict[str, object] = {}
        for pair in value.split(","):
            name, _, width = pair.partition("=")
            if name.strip() in widths:
                raise ValueError(f"names {name.strip()!r} twice; give each name one half-width")
            widths[name.strip()] = _half_width(width.strip())
        return widths
    if isinstance(value, str) and value.strip().endswith("%"):
        return f"{_above_zero(_exact(value.strip()[:-1]))}%"
    return _above_zero(_exact(value))


def _domain(value: object, info: ValidationInfo) -> object:
    if isinstance(value, os.PathLike):
        return _file(value, info)
    if isinstance(value, str) and value.strip():
        from counton.io.input_paths import is_file, looks_like_file  # help does not need it

        path = path_from_job_file(check_storable(value), info)
        return path if is_file(path) or looks_like_file(value) else value
    if isinstance(value, Mapping) and value:
        return {_column(name): _groups(groups) for name, groups in value.items()}
    if isinstance(value, list | tuple) and value:
        return _groups(value)
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_list"):
        return value
    if hasattr(value, "collect"):  # a lazy frame of polars
        return value.collect()
    raise ValueError("is not a list of groups; give a file, or A,B,C")


def _groups(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("has a column without a list of groups; give each a list")
    if any(isinstance(group, list | Mapping) for group in value):
        raise ValueError("has a list or a table in place of a group; give the name of each group")
    return tuple(value)  # whoever reads the groups makes texts of them


def _file(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise ValueError("is not the path of a file; put it into quotes")
    if not os.fspath(value).strip():
        raise ValueError("is empty; give the path of a file, or leave it out")
    return path_from_job_file(check_storable(os.fspath(value)), info)


def path_from_job_file(path: str, info: ValidationInfo) -> str:
    """Return a path of a job file as seen from the working folder; addresses stay as they are."""
    folder: Path | None = (info.context or {}).get("folder")  # of the job file that is read
    if folder is None or path == "-" or "://" in path:
        return path
    return str(folder / path)


def _events(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str | os.PathLike):
        return _file(value, info)
    if isinstance(value, list | tuple) and value:
        return [_file(path, info) for path in value]
    if isinstance(value, bool | int | float | bytes | list | tuple | Mapping | None):
        raise ValueError("is no source of rows; give a file, a folder, several, or a data frame")
    return value


def _key_source(value: object, info: ValidationInfo) -> object:
    from counton.noise import Key
    from counton.noise.key import refuse_key_as_place

    if isinstance(value, Key):
        return value
    if not isinstance(value, str | os.PathLike):
        raise ValueError("is not a key; give a counton.Key, a file, env:NAME or command:...")
    refuse_key_as_place(value)
    named_elsewhere = os.fspath(value).startswith(("env:", "command:"))
    return value if named_elsewhere else _file(value, info)


def _rollback_guard(value: object, info: ValidationInfo) -> str:
    return "none" if value == "none" else _file(value, info)


def _bad_rows(value: object, info: ValidationInfo) -> str:
    if value == "fail":
        return value
    if (
        not isinstance(value, str)
        or not value.removeprefix(QUARANTINE)
        or value == value.removeprefix(QUARANTINE)
    ):
        raise ValueError(f"is neither fail nor {QUARANTINE}FILE; write one of them")
    return QUARANTINE + _file(value.removeprefix(QUARANTINE), info)


def _strategy(value: object, info: ValidationInfo) -> object:
    from counton.job.custom_strategies import is_file_of, own_strategy

    if is_file_of(value):
        return _file(value, info)
    if not isinstance(value, str):
        own_strategy(value)
        return value
    if value not in STRATEGIES:
        near = get_close_matches(value, STRATEGIES, 1)
        remedy = (
            f"did you mean {near[0]}?"
            if near
            else "give auto, a name from the help, or a file, mine.json"
        )
        raise ValueError(f"is not known; {remedy}")
    return value


def _statistic_object(value: object) -> object:
    from counton.statistics import Statistic
    from counton.statistics.catalogue import statistic_from_dict

    if isinstance(value, Statistic):
        return value
    saved = value
    if isinstance(value, str):
        from counton.base.outside_input import parse_json

        try:
            saved = parse_json(value.encode())
        except ValueError:
            saved = None
    if not isinstance(saved, Mapping):
        raise ValueError(
            "is not a statistic; give an object such as Average(0, 200, resolution=1), or its "
            "class and parameters as JSON"
        )
    return statistic_from_dict(saved)


def _plain_value(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain_value(part) for part in value]
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return check_storable(value)
    if isinstance(value, Fraction):
        from counton.base.exact import text

        return text(value)
    raise ValueError("is no text, number or list; give one of them")


def _time_format(value: str) -> str:
    from counton.io.timestamps import check_time_format  # imports polars

    check_time_format(value)
    return value


def _numbers(value: object) -> tuple[Fraction, ...]:
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, Sequence):
        texts = [texts]
    try:
        return tuple(_exact(text) for text in texts)
    except ValueError:
        raise ValueError("is not a list of numbers; write it as in 0.5,0.9") from None


def _whole_numbers(value: object) -> tuple[int, ...]:
    numbers = _numbers(value)
    if any(number.denominator != 1 for number in numbers):
        raise ValueError("has a number that is not whole; write it as in 1,5,100")
    return tuple(int(number) for number in numbers)


def _by_name(value: object) -> dict[str, Fraction]:
    pairs: list[Sequence[object]] = []
    if isinstance(value, str):
        pairs = [pair.split("=", 1) for pair in value.split(",") if "=" in pair]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    if not pairs:
        raise ValueError("has no numbers by name; write it as in region=10,city=5")
    numbers: dict[str, Fraction] = {}
    for name, number in pairs:
        key = str(name).strip()
        if key in numbers:
            raise ValueError(f"names {key!r} twice; give each name one number")
        numbers[key] = _above_zero(_exact(number))
    return numbers


#: Largest public number of rows.
_MOST_ROWS = 2**60
#: Form of the time from the end of a window to its release.
_DELAY = re.compile(r"\d{1,6}[smhd]")
#: Names of strategies.
STRATEGIES = ("auto", PUBLISHED, *FAMILIES, *PAPERS)
#: The time at which a run begins, and the time of the newest event.
NOW = "now"
LATEST_ROW = "latest-event"
#: Begins a value of ``bad_rows`` that names a file.
QUARANTINE = "quarantine:"

_STR = {"json_schema_input_type": str}
_TEXTS = {"json_schema_input_type": str | list[str]}
_NUMBER = {"json_schema_input_type": str | float}
_as_text = PlainSerializer(str)

Text = Annotated[str, PlainValidator(_text, json_schema_input_type=str | float)]
Column = Annotated[str, PlainValidator(_column, **_STR)]
Columns = Annotated[str | Sequence[str], PlainValidator(_names, **_TEXTS)]
Names = Annotated[str | Sequence[str], PlainValidator(_names, **_TEXTS)]
Length = Annotated[str | timedelta, PlainValidator(_length, **_STR)]
Lengths = Annotated[str | timedelta | Sequence[str], PlainValidator(_lengths, **_TEXTS)]
Delay = Annotated[str | timedelta, PlainValidator(_delay, **_STR)]
Moment = Annotated[str | date, PlainValidator(_moment, **_STR)]
Positive = Annotated[int, Ge(1), BeforeValidator(_whole)]
NotNegative = Annotated[int, Ge(0), BeforeValidator(_whole)]
#: Bound on the counted events of one user; a larger one would hide every count in noise.
MostEvents = Annotated[int, Ge(1), Le(1_000_000), BeforeValidator(_whole)]
Size = Annotated[
    float, PlainValidator(_number, json_schema_input_type=float), AfterValidator(_above_zero)
]
Share = Annotated[
    float, PlainValidator(_number, json_schema_input_type=float), AfterValidator(_below_one)
]
RowNumber = Annotated[int, PlainValidator(_row_number, json_schema_input_type=int)]
Unit = Annotated[str, PlainValidator(_unit, **_STR)]
Timezone = Annotated[str, PlainValidator(_timezone, **_STR)]
Exact = Annotated[int | float | str | Fraction, PlainValidator(_exact, **_NUMBER), _as_text]
Loss = Annotated[
    int | float | str | Fraction,
    PlainValidator(_exact, **_NUMBER),
    AfterValidator(_above_zero),
    _as_text,
]
Delta = Annotated[
    int | float | str | Fraction,
    PlainValidator(_exact, **_NUMBER),
    AfterValidator(_below_one),
    _as_text,
]
HalfWidth = Annotated[
    int | float | str | Fraction | Mapping[str, Any], PlainValidator(_half_width, **_NUMBER)
]
Numbers = Annotated[
    str | Sequence[float], PlainValidator(_numbers, json_schema_input_type=str | list[float])
]
WholeNumbers = Annotated[
    str | Sequence[int], PlainValidator(_whole_numbers, json_schema_input_type=str | list[int])
]
NumbersByName = Annotated[
    str | Mapping[str, float],
    PlainValidator(_by_name, json_schema_input_type=str | dict[str, float]),
]
File = Annotated[PathText, PlainValidator(_file, **_STR)]
State = Annotated[PathText, PlainValidator(_file, **_STR)]
KeySource = Annotated[Any, PlainValidator(_key_source, **_STR)]
RollbackGuard = Annotated[PathText, PlainValidator(_rollback_guard, **_STR)]
BadRows = Annotated[str, PlainValidator(_bad_rows, **_STR)]
StrategyName = Annotated[Any, PlainValidator(_strategy, **_STR)]
StatisticObject = Annotated[Any, PlainValidator(_statistic_object, json_schema_input_type=str)]
PlainValue = Annotated[Any, PlainValidator(_plain_value)]
TimeFormat = Annotated[str, PlainValidator(_text, **_STR), AfterValidator(_time_format)]
Domain = Annotated[
    PathText | Sequence[Any] | Mapping[str, Sequence[Any]],
    PlainValidator(_domain, json_schema_input_type=str | list[str] | dict[str, list[str]]),
]
Events = Annotated[Any, PlainValidator(_events, **_TEXTS)]
