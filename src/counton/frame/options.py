"""Options that a statistic of another package declares, and checks that interfaces share.

Options of jobs are fields of the models in `counton.job`. A statistic that another package
defines describes its options as `Option` objects, from which its model is made.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from numbers import Integral, Number, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

from counton.base.errors import InvalidInput, field, is_one, is_text

_Call = TypeVar("_Call", bound=Callable[..., Any])
_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")
#: Kind of value that an option takes.
Kind = Literal["text", "texts", "whole", "number", "flag", "path"]
#: How a stream keeps an option. "stream": the option defines the stream; a later run may leave it
#: out and may not contradict it. "policy" and "view": a later run that leaves it out gets the kept
#: value. "output": likewise, unless that run states any output. "reading": the option decides how a
#: cell is read, so it defines the stream, and a later run that leaves it out gets the kept value.
#: "": each run states it anew.
Kept: TypeAlias = Literal["", "stream", "reading", "policy", "view", "output"]


class Option(NamedTuple):
    """One option of a job or of a statistic.

    Attributes:
        name: name in Python.
        kind: form of the value; "number" is a float, "text" any text or exact number.
        word: name in commands and files if it differs from ``name``; without dashes.
        default: value if not stated. A statistic's own are in `Statistic.from_spec`, because a
            later run takes the first run's value.
        argument: whether a command takes it by position.
        several, by_name, nested: whether a list of texts, a table by name, a table of tables is
            allowed too.
        exact: whether any exact number is allowed, also as text.
        column: what the column holds that it names: numbers, labels, or true and false.
        needed: whether a new stream must state it.
        kept: how the state stores the value; see `Kept`.
        later: whether a later run may be the first to state an option that defines the stream,
            because no row that needs it has counted before.
        choices: allowed words; empty: any.
        file: whether it may name a file, relative to the job file's folder.
        is_word: with ``file``: function that returns whether a text is a word, and names no file
            seen from a folder.
        before_file: with ``file``: text that stands before the path of a file; other texts are
            words.
        words: Python type allowed besides text: "length" a `timedelta`, "moment" a `date` or
            `datetime`, "columns" a list of names.
        served: whether a job sent to a service may state it.
        nightly: whether the command that runs all jobs may override it for all.
        usual: without a default, the value that has the effect of leaving it out.
        of: kinds of jobs that take it; all of an axis of which
            none is named.
        instead: options that this one replaces.
        bounds: least and largest value, as whole numbers or lengths of time.
        often: whether the short help shows it.
        in_file: whether only job files and Python state it.
        other: check of a value that is not a text; None: ``kind`` decides.
        check: further check of a stated value, whose type is right.

    >>> Option("longest", "length of the longest word, in letters", "whole").key
    'longest'
    """

    name: str
    help: str
    kind: Kind = "text"
    word: str | None = None
    heading: str = "Statistic"
    default: Any = None
    argument: bool = False
    several: bool = False
    by_name: bool = False
    nested: bool = False
    exact: bool = False
    column: Literal["", "number", "label"] = ""
    needed: bool = False
    kept: Kept = ""
    later: bool = False
    choices: tuple[str, ...] = ()
    file: bool = False
    is_word: Callable[[str, Path], bool] | None = None
    before_file: str = ""
    words: Literal["", "length", "moment", "columns"] = ""
    served: bool = True
    nightly: bool = False
    usual: str | None = None
    often: bool = False
    in_file: bool = False
    of: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    bounds: tuple[Any, Any] | None = None
    other: Callable[[Any], object] | None = None
    check: Callable[[Any], object] | None = None

    @property
    def key(self) -> str:
        """The option's name in commands and job files, with hyphens and without leading dashes."""
        return self.word or self.name.replace("_", "-")

    def split_file(self, value: str, folder: Path) -> tuple[str, str] | None:
        """Split a value such as "quarantine:FILE" into the text before its path, and the path.

        This function alone decides which values of an option name a file.

        Args:
            value: the value of the option.
            folder: folder from which a relative path is seen.

        Returns:
            The two parts; None if the value is a word, and names no file.

        >>> bad_rows = Option("bad_rows", "bad rows", file=True, before_file="quarantine:")
        >>> bad_rows.split_file("quarantine:bad.csv", Path())
        ('quarantine:', 'bad.csv')
        >>> bad_rows.split_file("refuse", Path()) is None
        True
        """
        path = value.removeprefix(self.before_file)
        if not self.file or value == "-" or "://" in path:
            return None
        if self.before_file and path == value:
            return None
        if self.is_word is not None and self.is_word(path, folder):
            return None
        return value[: len(value) - len(path)], path


class OwnColumns(NamedTuple):
    """Columns that a statistic reads, in this order, and those of them that hold numbers."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class MissingOptions(InvalidInput):
    """The error that a job lacks an option that it needs."""

    def __init__(self, message: str = "", names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class Statement(ABC):
    """Options as a job states them, in the form in which a statistic reads them.

    Attributes:
        options: stated options of the statistic itself.
        time, by, user, id: names of columns of the rows, if stated.
        other: name of a group for all undeclared values; None: there is none.
        most: how many events of a user count.
        first: whether a user counts only once, at the first event.
        unknown: policy for groups that are not declared.
        domain: declared groups, nodes or cells, as stated.
        size: approximate public number of rows.
    """

    options: Mapping[str, Any]
    time: str | None
    by: str | None
    user: str | None
    id: str | None
    other: str | None
    most: int | None
    first: bool
    unknown: str
    domain: Any
    size: int | None

    @property
    @abstractmethod
    def statistic(self) -> str:
        """Name of the statistic that the job computes."""

    def __getitem__(self, name: str) -> Any:
        return self.options.get(name)

    def only(self, *names: str) -> dict[str, Any]:
        """Return the values of those named options that the job states."""
        return {name: self.options[name] for name in names if name in self.options}

    def require(self, *names: str) -> list[Any]:
        found = [
            self[name] if name in self.options else getattr(self, name, None) for name in names
        ]
        absent = [name for name, value in zip(names, found, strict=True) if value is None]
        if absent:
            raise MissingOptions(
                f"{self.statistic} needs {', '.join(map(field, absent))}; choose the missing "
                f"options without looking at the data. If the stream exists already, correct "
                f"{field('state')} or {field('name')}",
                absent,
            )
        return found

    def require_names(self, name: str) -> tuple[str, ...]:
        """Return the stated names of an option, from a list or text with commas; refuse none."""
        (given,) = self.require(name)
        return split_names(given)

    @abstractmethod
    def of_part(
        self, statistic: str, options: Mapping[str, Any], by: str | None, domain: Any
    ) -> Statement:
        """Return the options of one statistic of a report: its own, its groups and their column."""

    @abstractmethod
    def groups(self, column: str) -> tuple[str, ...]:
        """Return the groups that the job declares for a column, in a list or a public file."""

    @abstractmethod
    def tree(self, levels: Sequence[str], value: str | None) -> Any:
        """Return the tree (`counton.tables.Tree`) whose leaves the job declares.

        ``levels`` are columns from the root down. A file with the column ``value``, which only
        private rows have, is refused.
        """

    @abstractmethod
    def labels(self, columns: Sequence[str], value: str | None) -> dict[str, list[str]]:
        """Return the declared values of each column; refuse a file with the column ``value``."""

    @abstractmethod
    def refuse_counts(self, value: str | None) -> None:
        """Refuse declared groups with a column of counts: the file probably holds private rows."""


def split_names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Split a text at commas and trim the names; those of a list are only trimmed."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(str(one).strip() for one in names)


def check_value(option: Option, value: Any) -> None:
    """Refuse a value of a wrong type, or a word that is not among the choices."""
    text = isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
    if option.kind == "flag":
        fits, wanted = isinstance(value, bool), "True or False"
    elif option.kind == "whole":
        fits, wanted = isinstance(value, Integral) and not isinstance(value, bool), "a whole number"
    elif option.exact or option.kind == "number":
        fits, wanted = isinstance(value, Number if option.exact else Real), "a number"
        fits = (fits or (option.exact and isinstance(value, str))) and not isinstance(value, bool)
    elif option.other is not None and not isinstance(value, str):
        option.other(value)
        fits, wanted = True, ""
    elif option.file:
        fits, wanted = text, "the path of a file"
        wanted += " or a database URL" if option.name in ("state", "ledger") else ""
    elif option.words == "moment":
        fits = isinstance(value, str | datetime)
        wanted = "a date, a datetime or a text, as in 2013-01-01T00:00"
    else:
        fits, wanted = isinstance(value, str), "a text or a list" if option.several else "a text"
        fits = fits or (option.by_name and isinstance(value, Mapping))
        if option.several and isinstance(value, Sequence) and not isinstance(value, bytes):
            fits = fits or all(map(is_one, value))
    if not fits:
        wanted += f", as in {field(option.name, 30)}" if option.kind == "whole" else ""
        raise wrong_type(option.name, value, wanted)
    if text:
        check_text(option.name, os.fspath(value))
    if option.choices and value not in option.choices:
        raise InvalidInput(
            f"{field(option.name)} is {value!r}; use one of {', '.join(option.choices)}"
        )


def check_text(name: str, value: object) -> None:
    """Refuse a text that is not UTF-8, or holds NUL, because no file or database can store it."""
    if isinstance(value, str) and not is_text(value):
        raise InvalidInput(
            f"{field(name)} is {value[:80]!r}, which is not valid UTF-8 (it has NUL, or a byte of "
            "another encoding); write or rename it in UTF-8"
        )


def wrong_type(name: str, value: object, wanted: str) -> InvalidInput:
    """Build the error for a value of a wrong type; it shows the value if `is_one` allows."""
    found = f"{repr(value)[:80]}, of type" if is_one(value) else "of type"
    return InvalidInput(f"{field(name)} is {found} {type(value).__name__}; give {wanted}")


def numbers_of(given: str | Sequence[Any], name: str) -> list[float]:
    """Return numbers from a list, or from text with commas."""
    try:
        return [float(one) for one in (given.split(",") if isinstance(given, str) else given)]
    except ValueError as error:
        raise InvalidInput(
            f"{field(name, given)} is not a list of numbers; separate numbers by commas, as in "
            "0.5,0.9"
        ) from error


#: Default number of largest groups to show.
TOP = 10

# Options of more than one statistic, each written once.
VALUE = Option("value", "column of the values to add up", column="number", needed=True)
COUNTS = Option(
    "counts", "column of whole numbers: how many events each row stands for; default: one",
    column="number", of=("ungrouped", "declared"),
)  # fmt: skip
LOWER = Option("lower", "smaller values count as this", exact=True, needed=True)
UPPER = Option("upper", "larger values count as this", exact=True, needed=True)
RESOLUTION = Option(
    "resolution", "values are rounded to multiples of this", exact=True, needed=True
)
REPLACE = Option(
    "replace", "protect the values of a row, not its presence", "flag", heading="Guarantee",
    default=False,
)  # fmt: skip
LINE = Option("line", "how cells are measured: auto, identity, haar, hierarchy or optimal")
TABLE_COLUMNS = Option(
    "columns", "columns that make up an event, in the statistic's order: A,B", several=True,
    column="label", needed=True,
)  # fmt: skip


def refuse_unknown(function: str, names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse an argument that a function does not have, with the nearest name that it has.

    >>> refuse_unknown("plan", ["strategy"], ["horizon", "strategies"], "help(plan)")
    Traceback (most recent call last):
    ...
    counton.base.errors.InvalidInput: plan has no argument 'strategy': did you mean strategies?
    """
    known = [*known]
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"{where} lists all arguments"
            raise InvalidInput(f"{function} has no argument {name!r}: {meant}")


def known_arguments(call: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Make a function refuse unknown arguments with the nearest name that it has."""
    known = [*inspect.signature(call).parameters]
    name = call.__name__

    @wraps(call)
    def call_it(*given: _Given.args, **named: _Given.kwargs) -> _Found:
        refuse_unknown(name, named, known, f"help({name})")
        return call(*given, **named)

    return call_it


def with_keywords(keys: type, defaults: Mapping[str, Any]) -> Callable[[_Call], _Call]:
    """Return a decorator that lists each keyword of ``**keywords`` in a function's signature.

    Args:
        keys: TypedDict of the keywords.
        defaults: their defaults; of a missing one None.

    >>> from typing import TypedDict
    >>> class Look(TypedDict, total=False):
    ...     width: float
    ...     title: str | None
    >>> @with_keywords(Look, {"width": 7.5})
    ... def draw(numbers: list[int], **look: object) -> None: ...
    >>> fields = inspect.signature(draw).parameters
    >>> list(fields), fields["width"].default, str(fields["title"])
    (['numbers', 'width', 'title'], 7.5, "title: 'str | None' = None")
    """

    def name_them(call: _Call) -> _Call:
        given = inspect.signature(call)
        own = [*given.parameters.values()][:-1]
        there = {one.name for one in own}
        fields = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=kind.__forward_arg__,
            )
            for name, kind in keys.__annotations__.items()
            if name not in there
        ]
        # `inspect.signature` reads this attribute first.
        call.__signature__ = given.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
        return call

    return name_them
