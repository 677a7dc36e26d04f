"""Rows that an input should have and lacks: the run ends, before anything is released.

An input of all rows of some windows replaces what earlier inputs said of the open ones. So an
export with a hole would become wrong final numbers, without a message. These refusals depend on the
rows of an input. They are visible, and `docs/guarantees/details.md` lists them.

- The job states which windows an input covers, and one that is due has no row in any group.
  ``max-empty-windows`` says how many such windows in a row are usual.
- An open window keeps less than half of the rows that the last input had of it.
- All rows that were counted before are missing, although the input should hold them: it has other
  days, or their ids or the names of their users were given anew.

- Files have new rows only (``append``), and none of them has a row of a window that is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from counton.base.errors import InvalidInputError, param
from counton.base.lengths import example_lookback
from counton.base.wording import counted
from counton.run.spec.terms import RunOptions
from counton.run.windows.covered_windows import empty_stretches
from counton.windowing.windows import Windows

#: Largest number of periods, or of windows, that a message names.
_MOST_NAMED_PERIODS = 5


class KeptRows(NamedTuple):
    """How many rows an input keeps of an open window. Exact: for the operator.

    Attributes:
        number: number of the window.
        before: number of rows by the last input that counted.
        now: number of rows by this input.
    """

    number: int
    before: int
    now: int


@dataclass(frozen=True, repr=False)
class MissingRows:
    """What an input lacks of the rows that were counted before. Exact: for the operator.

    Attributes:
        are_all: whether the input has none of the counted rows that it should have.
        open_windows: open windows of which the input has other rows than the last one.
    """

    are_all: bool = False
    open_windows: Sequence[KeptRows] = ()


def refuse_holes(
    options: RunOptions,
    windows: Windows,
    windows_with_rows: ArrayLike,
    *,
    covered: range,
    due: range,
    source_name: str,
) -> None:
    """Refuse to release windows without a row, unless the job says that they are usual.

    Args:
        windows_with_rows: numbers of the windows that have a row, in any group.
        covered: windows of which the input holds all rows; the last one is due.
        due: windows that this run releases.
        source_name: name of the input, for the message.

    Raises:
        InvalidInputError: a window that is due lies in a stretch of more windows without a row than
            ``max_empty_windows``.
    """
    holes = _holes_of_due_windows(options, windows_with_rows, covered=covered, due=due)
    if holes:
        raise InvalidInputError(
            f"{source_name} has no row of {_span_of_holes(windows, holes)}, and this run would "
            f"release {_size_of_holes(holes)} without rows. Add the missing rows. "
            f"{_REMEDIES_OF_HOLES}"
        )


def refuse_missed_files(
    options: RunOptions,
    windows: Windows,
    windows_with_rows: ArrayLike,
    *,
    due: range,
    forgets_rows_of_users: bool,
) -> None:
    """Refuse to release windows of which no file of new rows has a row: a file may be missing.

    Args:
        windows_with_rows: numbers of the windows that have a row, of this input or of earlier ones.
        due: windows that this run releases.
        forgets_rows_of_users: whether earlier files may have rows beyond their users' limits,
            which no state keeps.

    Raises:
        InvalidInputError: more windows in a row than ``max_empty_windows`` have none.
    """
    holes = _holes_of_due_windows(options, windows_with_rows, covered=due, due=due)
    if holes:
        exception = ", apart from rows beyond their user's limit" if forgets_rows_of_users else ""
        raise InvalidInputError(
            f"No input has a row of {_span_of_holes(windows, holes)}{exception}. This run would "
            f"release {_size_of_holes(holes)} without rows. Add the missing rows first. "
            f"{_REMEDIES_OF_HOLES}"
        )


_REMEDIES_OF_HOLES = (
    f"If nothing happened, give {param('allow_empty_windows', True)} for this run, or "
    f"{param('max_empty_windows')} for every run"
)


def _holes_of_due_windows(
    options: RunOptions, windows_with_rows: ArrayLike, *, covered: range, due: range
) -> list[range]:
    """Return the unusually long stretches of windows without a row, from the first due one on."""
    if options.allow_empty_windows or not due:
        return []
    return [
        range(max(stretch.start, due.start), stretch.stop)
        for stretch in empty_stretches(covered, windows_with_rows)
        if len(stretch) > options.max_empty_windows and stretch.stop > due.start
    ]


def _span_of_holes(windows: Windows, holes: Sequence[range]) -> str:
    """Return the first windows without rows, in words."""
    return _join([windows.span_text(hole) for hole in holes[:_MOST_NAMED_PERIODS]], len(holes))


def _size_of_holes(holes: Sequence[range]) -> str:
    """Return how many windows without rows there are, in words."""
    return counted(sum(len(hole) for hole in holes), "window")


def refuse_shrunk_windows(
    options: RunOptions, windows: Windows, source_name: str, open_windows: Sequence[KeptRows]
) -> None:
    """Refuse to replace the rows of an open window by less than half as many.

    Args:
        source_name: name of the input, for the message.
        open_windows: the open windows that this run replaces.

    Raises:
        InvalidInputError: an open window keeps less than half of its rows.
    """
    shrunk = [window for window in open_windows if 2 * window.now < window.before]
    if options.allow_empty_windows or not shrunk:
        return
    named = []
    for window in shrunk[:_MOST_NAMED_PERIODS]:
        span = windows.span_text(range(window.number, window.number + 1))
        named.append(f"{span} ({window.now:,}, before {window.before:,})")
    raise InvalidInputError(
        f"{source_name} has less than half of the rows that the last input had of "
        f"{_join(named, len(shrunk))}, and this run would replace them. Add the rows if they are "
        "missing. If they were removed on purpose, give "
        f"{param('allow_empty_windows', True)} for this run"
    )


def refuse_other_ids(source_name: str, id_column: str) -> None:
    """Refuse an input that has rows and none of the ids that were counted before.

    Rows under other ids would count a second time, which the guarantee does not cover. So
    ``allow_empty_windows`` does not permit it.

    Args:
        source_name: name of the input, for the message.
        id_column: column of the ids.

    Raises:
        InvalidInputError: always.
    """
    raise InvalidInputError(
        f"{source_name} has none of the ids that were counted before. If each export gives other "
        f"ids ({param('row_id', id_column)}), its rows would count again: use ids "
        f"that stay, and begin a new stream with another {param('stream')}, which spends the "
        f"privacy loss again. If all rows are new, give {param('append', True)}"
    )


def refuse_other_users(options: RunOptions, source_name: str, user_column: str) -> None:
    """Refuse an input that has rows and none of the users' rows that were counted before.

    Args:
        source_name: name of the input, for the message.
        user_column: column of the users.

    Raises:
        InvalidInputError: the job does not permit it.
    """
    if options.allow_empty_windows:
        return
    raise InvalidInputError(
        f"{source_name} has none of the rows that were counted before. If each export gives users "
        f"other names ({param('user', user_column)}), their rows would count again: give "
        "names that stay. If all these rows were removed on purpose, give "
        f"{param('allow_empty_windows', True)} for this run"
    )


def refuse_other_rows(options: RunOptions, source_name: str, every: str) -> None:
    """Refuse an input of all rows that has no row of the windows that were released before.

    Args:
        source_name: name of the input, for the message.
        every: length of a window.

    Raises:
        InvalidInputError: the job does not permit it.
    """
    if options.allow_empty_windows:
        return
    lookback = param("lookback", example_lookback(every))
    raise InvalidInputError(
        f"{source_name} has none of the rows that were counted before, and it should have all rows "
        f"since {param('start')}. If it has those of the last days, say of how many "
        f"({lookback}). If all earlier rows were removed on purpose, give "
        f"{param('allow_empty_windows', True)} for this run"
    )


def _join(names: Sequence[str], count: int) -> str:
    """Join names with commas; ``count`` is the number of all, of which only some are named."""
    if count > len(names):
        return f"{', '.join(names)} and {count - len(names):,} more"
    return ", ".join(names)
