"""The columns of released tables: their names, order, types and meanings, stated once.

All files, data frames, rows of the service and rows of the SQL view have these columns. The schema
lies in `counton.base`, because statistics, results and states need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from counton.base.errors import InvalidInputError

#: Values of the column ``series``: what the rows of a window count.
CUMULATIVE = "cumulative"
PER_WINDOW = "per-window"
PERIOD_TO_DATE = "period-to-date"
TRAILING = "trailing"
ROLLING = "rolling"
DECAYED = "decayed"


class ColumnType(StrEnum):
    """The type of a column's values."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    BOOLEAN = "boolean"


class TableColumn(NamedTuple):
    """A column of released tables.

    Attributes:
        name: the name, the same everywhere.
        type: the type of its values.
        meaning: what a value says, for the reference.
        present: which tables have the column, for the reference.
        is_label: whether the column identifies a row.
        in_view: whether the SQL view has the column.
    """

    name: str
    type: ColumnType
    meaning: str
    present: str
    is_label: bool = False
    in_view: bool = True


_BEFORE_LABELS = (
    TableColumn(
        "window_index", ColumnType.INTEGER, "Number of the window, from 1", "windows", is_label=True
    ),
    TableColumn("window_start", ColumnType.TIME, "Start of the counted time", "windows of time"),
    TableColumn("window_end", ColumnType.TIME, "End of the counted time", "windows of time"),
    TableColumn(
        "counted_until", ColumnType.TIME, "Later events are not yet counted", "delayed releases"
    ),
    TableColumn(
        "n_windows",
        ColumnType.INTEGER,
        "Windows that are added up, once so many are released",
        "trailing windows, and series with `last`",
        is_label=True,
    ),
    TableColumn(
        "first_window",
        ColumnType.INTEGER,
        "First window of the period",
        "sums of periods",
        is_label=True,
        in_view=False,
    ),
    TableColumn(
        "last_window",
        ColumnType.INTEGER,
        "Last window of the period",
        "sums of periods",
        is_label=True,
        in_view=False,
    ),
    TableColumn("as_of", ColumnType.TIME, "When this version was released", "revised windows"),
    TableColumn(
        "lag_windows",
        ColumnType.INTEGER,
        "Windows that had ended since the row's window",
        "revised windows",
    ),
    TableColumn(
        "series",
        ColumnType.TEXT,
        f"What is counted: `{CUMULATIVE}`, `{PER_WINDOW}`, `{PERIOD_TO_DATE}`, `{TRAILING}`, "
        f"`{ROLLING}` or `{DECAYED}`",
        "windows",
        is_label=True,
    ),
)
#: Columns of a statistic. Columns named by the caller, such as levels of a tree, are among them.
_LABELS = (
    TableColumn("statistic", ColumnType.TEXT, "Statistic of a report", "reports", is_label=True),
    TableColumn("group", ColumnType.TEXT, "Group that is counted", "groups", is_label=True),
    TableColumn(
        "tree_level",
        ColumnType.TEXT,
        "Level of the node in the tree",
        "hierarchies",
        is_label=True,
        in_view=False,
    ),
    TableColumn(
        "rank", ColumnType.INTEGER, "Place by estimate, from 1", "largest groups", is_label=True
    ),
    TableColumn(
        "measure",
        ColumnType.TEXT,
        "What is estimated, such as `mean`",
        "several numbers",
        is_label=True,
    ),
    TableColumn(
        "quantile",
        ColumnType.NUMBER,
        "Share of values below the estimate",
        "quantiles",
        is_label=True,
    ),
)
_NUMBERS = (
    TableColumn("estimate", ColumnType.NUMBER, "Released number", "all"),
    TableColumn(
        "noise_std",
        ColumnType.NUMBER,
        "Standard deviation of its noise; empty if unknown, infinite if unbounded",
        "all",
    ),
    TableColumn("lower", ColumnType.NUMBER, "Lower end of the confidence interval", "all"),
    TableColumn("upper", ColumnType.NUMBER, "Upper end of the confidence interval", "all"),
    TableColumn("confidence_level", ColumnType.NUMBER, "Confidence level of the interval", "all"),
    TableColumn(
        "is_certain",
        ColumnType.BOOLEAN,
        "Whether the group surely is among the largest",
        "largest groups",
        in_view=False,
    ),
    TableColumn(
        "is_complete",
        ColumnType.BOOLEAN,
        "Whether released windows cover the whole period, or all last windows",
        "sums of periods, and series with `last`",
    ),
    TableColumn(
        "is_final", ColumnType.BOOLEAN, "Whether no later release revises it", "revised windows"
    ),
    TableColumn("note", ColumnType.TEXT, "Public note on the number", "annotated windows"),
)

#: All columns, in their order. Columns that the caller names follow ``group``.
COLUMNS = (*_BEFORE_LABELS, *_LABELS, *_NUMBERS)
#: Columns that identify a row, besides those that the caller names.
LABELS = tuple(column.name for column in COLUMNS if column.is_label)
#: Columns of the SQL view.
VIEW_COLUMNS = tuple(column for column in COLUMNS if column.in_view)
#: Names that columns of the caller cannot have.
RESERVED = tuple(column.name for column in (*_BEFORE_LABELS, *_NUMBERS))
#: The columns of a number and its confidence interval.
ESTIMATE = ("estimate", "noise_std", "lower", "upper", "confidence_level")
#: The columns that say which window is meant.
WINDOW = ("window_index", "window_start", "window_end")
#: The columns of versions of a window.
VERSION = ("as_of", "lag_windows", "is_final")

_BEFORE = tuple(column.name for column in _BEFORE_LABELS)
_AFTER = tuple(column.name for column in _NUMBERS)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of columns in the order of released tables.

    Columns that identify a number within its window keep their order.

    Args:
        names: the columns of one table.

    >>> in_order(["estimate", "window_index", "note", "page", "is_final", "series"])
    ['window_index', 'series', 'page', 'estimate', 'is_final', 'note']
    """
    present = list(names)
    return [
        *(name for name in _BEFORE if name in present),
        *(name for name in present if name not in RESERVED),
        *(name for name in _AFTER if name in present),
    ]


def refuse_reserved(names: Sequence[str], *more: str) -> None:
    """Refuse columns whose names a released table needs.

    Args:
        names: the names that the caller states.
        more: further names that this statistic needs.

    Raises:
        InvalidInputError: A name is reserved.
    """
    for name in names:
        if name in (*RESERVED, *more):
            raise InvalidInputError(
                f"a column of the events is called {name!r}, and the released table needs this "
                "name for a column of its own: rename the column of the events"
            )
