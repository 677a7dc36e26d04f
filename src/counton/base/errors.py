"""Errors that counton raises on purpose. Messages name the value, the bound and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Number
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

#: Names of passwords in an address of a database or a service, or in words.
_PASSWORD = re.compile(
    r"(?:[\w-]*[_-])?(?:pg|ssl)?(?:password|passwd|passphrase|passfile|pwd)", re.I
)
_TOKEN = re.compile(
    r"(?:[\w-]*[_-])?(?:secret|token|credential|sig|signature|(?:api|access)[_-]?key)", re.I
)
#: A user and a password; the password may hold / ? # @ or spaces unquoted; no port. A path has one
#: of the two slashes.
_USER = re.compile(
    r"(:/{1,2}(?:[^\s/?#:@]+@)*[^\s/?#:@]*):"
    r"(?:(?!\d+(?:[/?#\s]|$)|[/?#])\S*|\d+/[^\s/?#]*|(?<=[^\s/]:)[/?#]\S*"
    r"|(?!\d+(?:[/?#\s]|$))[^@\n]*)@"
)
_NAMED = re.compile(r"(?<![\w%])([\w%.+-]+)\s*=\s*")
_VALUE = re.compile(
    r"'(?:\\.|[^'\\])*'|\"[^\"\n]*\""
    r"|(?:(?<=\w=)[^\s&]*)?[^\s&;#'\"`,:)\]}]|[^\s&;#'\"]+"
)
_OMISSION = "***"
#: Matches the text of a key file.
_KEY = re.compile(r"(counton-key-\d+:)\s*\w+")
#: A parameter in a message: control characters, which no name and no shown value has, enclose both.
_PARAM = re.compile("\x02([^\x02\x03\x1f]*)\x1f([^\x02\x03]*)\x03")


def param(name: str, value: object = None) -> str:
    """Mark the name of a caller's argument in an error message, so that it can be translated.

    In Python the message shows the name, elsewhere what `CountonError.translate` puts there. With a
    value it shows ``name=value``; True stands for an option without a value. A value that `is_one`
    does not allow is not shown.

    Args:
        name: name of the argument, as Python spells it.
        value: its value, if the message shows it; None: the name alone.

    >>> error = InvalidInputError(
    ...     f"a new stream needs {param('start')}; give {param('append', True)}"
    ... )
    >>> print(error)
    a new stream needs start; give append=True
    >>> error.translate({"start": "First window", "append": "New rows only"})
    'a new stream needs First window; give New rows only'
    """
    text = "" if value is None or not is_one(value) else hide_secrets(str(value))
    text = re.sub("[\x02\x03\x1f]", "?", text)
    return f"\x02{name}\x1f{text}\x03"


def hide_secrets(text: str) -> str:
    """Hide passwords, tokens and keys in the addresses of databases and services in a text.

    >>> hide_secrets("postgresql://ann:x@db/visits?sslpassword=x"), hide_secrets("password = 'x y'")
    ('postgresql://ann:***@db/visits?sslpassword=***', 'password = ***')
    >>> hide_secrets("no file counton-key-1:" + "0" * 64)
    'no file counton-key-1:***'
    """
    text = _KEY.sub(rf"\1{_OMISSION}", text)
    if ":/" in text:
        lines = (line.rpartition("@") for line in text.split("\n"))  # the rest has no password
        text = "\n".join(
            _USER.sub(rf"\1:{_OMISSION}@", head + separator) + end for head, separator, end in lines
        )
    shown = ""
    place = 0
    for match in _NAMED.finditer(text):
        name = unquote(match[1])
        in_address = text.endswith(("?", "&", ";"), 0, match.start())
        is_secret = _PASSWORD.fullmatch(name) or (in_address and _TOKEN.fullmatch(name))
        if is_secret and match.start() >= place and (value := _VALUE.match(text, match.end())):
            shown += text[place : match.end()] + _OMISSION
            place = value.end()
    return shown + text[place:]


def without_secrets(address: str) -> str:
    """Remove passwords and tokens from an address, so that it may be stored.

    >>> without_secrets("postgresql://ann:x@db/visits?password=x&sslmode=require")
    'postgresql://ann@db/visits?sslmode=require'
    """
    if "://" not in address:
        return address
    place, _, query = hide_secrets(address).replace(f":{_OMISSION}@", "@").partition("?")
    pairs = [pair for pair in query.split("&") if not pair.endswith(f"={_OMISSION}")]
    return "?".join(filter(None, (place, "&".join(pairs))))


def is_one(value: object) -> bool:
    """Return whether a message may show a value: a number, text, date, path or object of counton.

    A collection or another library's object holds private rows if a caller has swapped arguments.

    >>> is_one("visits.csv"), is_one(0.5), is_one(["ann"]), is_one({"user": "ann"})
    (True, True, False, False)
    """
    if isinstance(value, str | bytes | Number | date | time | timedelta | PurePath | type | None):
        return True
    kind = type(value)
    numpy_scalar = kind.__module__ == "numpy" and not hasattr(value, "__len__")
    return numpy_scalar or kind.__module__.partition(".")[0] == "counton"


def is_text(value: str) -> bool:
    """Return whether files and databases can hold a text: UTF-8, and no NUL.

    >>> is_text("café"), is_text("caf" + chr(0xDC80)), is_text("a" + chr(0))
    (True, False, False)
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return chr(0) not in value


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, for another message."""
    return str(error).strip().partition("\n")[0]


class CountonError(Exception):
    """Base of all errors raised by counton."""

    def __init__(self, message: str = "", **more: Any) -> None:
        self._message = message = hide_secrets(message)
        super().__init__(_PARAM.sub(_in_python, message), **more)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the arguments that the message mentions, in order."""
        return tuple(dict.fromkeys(match[1] for match in _PARAM.finditer(self._message)))

    @property
    def template(self) -> str:
        """The message with names still marked as by `param`, to stand in another message."""
        return self._message

    def translate(self, names: Mapping[str, str]) -> str:
        """Return the message with other names for arguments, as `translate` replaces them."""
        return translate(self._message, names)


def translate(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names for the arguments that `param` marks in it.

    Args:
        text: the text.
        names: for each argument, by its Python name, what the text shows instead. A key such as
            ``"what=count"`` is for the argument with this value: both are replaced. A name such as
            ``"comment ="`` is that of a line of a job file.

    >>> translate(f"give {param('start', '2024-03-01')}", {"start": "First window"})
    'give First window 2024-03-01'
    >>> translate(f"give {param('lookback', '3d')}", {"lookback": "lookback ="})
    'give lookback = "3d" (in a job file)'
    """

    def name(match: re.Match[str]) -> str:
        whole = _in_python(match)
        if whole != match[1] and whole in names:
            return names[whole]
        if match[1] not in names:
            return whole
        field_text = names[match[1]]
        plain = match[2] in ("", "True")
        if field_text.endswith(" ="):
            line = field_text[:-2] if plain else f"{field_text} {_in_toml(match[2])}"
            return f"{line} (in a job file)"
        return field_text if plain else f"{field_text} {match[2]}"

    return _PARAM.sub(name, text)


def _in_toml(value: str) -> str:
    """Return a value as a job file states it: numbers as they are, texts in quotes."""
    if value == "False":
        return "false"
    is_number = value.replace(".", "", 1).isdecimal()
    return value if is_number else json.dumps(value, ensure_ascii=False)


def _in_python(match: re.Match[str]) -> str:
    return f"{match[1]}={match[2]}" if match[2] else match[1]


class MissingDependencyError(CountonError, ImportError):
    """An optional package is needed and not installed; the message says how to install it."""


class InvalidInputError(CountonError, ValueError):
    """A value is outside what is allowed; nothing was released or changed."""


class ChartWarning(UserWarning):
    """A chart could not be drawn; its numbers are released and kept."""


class JobWarning(UserWarning):
    """The numbers of a new stream may mislead, because of the options of its job."""


class MissingOptionError(InvalidInputError):
    """The error that a job lacks an option that it needs."""

    def __init__(self, message: str = "", names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class HorizonExceededError(InvalidInputError):
    """More steps were asked for than the strategy serves."""


class SumOverflowError(InvalidInputError):
    """A running sum would leave the range in which arithmetic is exact."""


class NoiseAddressError(CountonError, OverflowError):
    """A node, its level or a coordinate lies outside the range for which noise can be drawn."""


class NoiseKeyError(CountonError):
    """A key is missing, unreadable, badly protected, or not that of the state."""


class StateError(CountonError):
    """A saved state is truncated, altered or of another format version."""


class StateRolledBackError(StateError):
    """A state is not the newest: a copy was restored, or two copies were continued."""


class StateUnavailableError(StateError):
    """A state, or the server that holds the events, cannot be reached, read or written now."""


class StreamMismatchError(StateError):
    """A request does not fit the state: it changes an option, or names what the state lacks."""


class StreamClosedError(StreamMismatchError):
    """A stream that has been ended (at ``step``) releases nothing more."""

    def __init__(self, message: str = "", step: int = 0) -> None:
        super().__init__(message)
        self.step = step


class InputChangedError(CountonError):
    """Input for a step that was already released differs from the input of that release."""


class ConcurrentWriterError(CountonError):
    """Another process has taken over the stream."""


class BudgetExceededError(CountonError):
    """A stream would spend more privacy than the ledger's budget leaves."""
