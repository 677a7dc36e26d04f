"""Problems of rows in the columns of times and of windows, in place of a time or a window.

Each row has either a window or a problem. A column of its own for problems would be computed and
kept for every row of an input, of which almost none has a problem. So one column has both, and only
this file and `counton.windowing.windows` know by which numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from counton.io.error_policy import Problem
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import NO_MOMENT


def code_as_time(problem: Problem) -> int:
    """Return the number that stands for a problem in a column of times.

    `counton.windowing.windows.Windows.step` turns it into that of a column of windows.
    """
    return NO_MOMENT - int(problem)


def code_as_window(problem: Problem) -> int:
    """Return the number that stands for a problem in a column of windows.

    >>> code_as_window(Problem.NO_GROUP), problem_of(-4).words
    (-4, 'no group')
    """
    return -int(problem)


def problem_of(window: int) -> Problem:
    """Return the problem of a row, from its number in the column of windows."""
    return Problem(-window)


def has_problem(window: str = "window") -> pl.Expr:
    """Return whether a row has a problem in place of a window.

    Args:
        window: name of the column of windows.
    """
    return pl.col(window) < 0


def has_one_of(problems: Iterable[Problem], window: str = "window") -> pl.Expr:
    """Return whether a row has one of some problems.

    Args:
        problems: the problems.
        window: name of the column of windows.
    """
    return pl.col(window).is_in([code_as_window(problem) for problem in problems])
