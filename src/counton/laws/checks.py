"""One function that checks all laws of a strategy or statistic: the properties that it must
have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib import import_module
from typing import Any

from counton.base.errors import InvalidInput
from counton.laws.statistic_laws import Batches, check_statistic
from counton.statistics import Statistic
from counton.strategies import StreamStrategy
from counton.strategies.lines import LineStrategy

#: Horizons of streams, and numbers of cells of lines, at which examples of a class are checked.
SIZES = (1, 2, 7, 12)
#: Names of the functions that check a strategy, by its base class. They are imported when needed.
_LAWS = {
    "StreamStrategy": "check_strategy",
    "LineStrategy": "check_line_strategy",
    "TreeStrategy": "check_tree_strategy",
    "TrainingStrategy": "check_training_strategy",
}


def check(
    subject: object,
    batches: Batches | None = None,
    *,
    unit_of: Callable[[Any], Hashable] | None = None,
) -> None:
    """Check that a strategy or a statistic, of any package, has all properties (laws) that it must
    have.

    Args:
        subject: a statistic, or a strategy of streams, lines, trees or training. If it is a
            class, its examples are checked: ``examples(size)`` of strategies for streams or
            lines, with 1, 2, 7 and 12 steps or cells; ``examples()`` of statistics, pairs
            of a statistic and batches.
        batches: for a statistic: the list of events of each step.
        unit_of: for a statistic: a function that returns the unit of an event; None: each
            event is a unit.

    Raises:
        InvalidInput: the subject is neither a statistic nor a strategy, or events are missing.
        LawBroken: a law does not hold; the message says which, and where.

    >>> from counton.statistics import Sum
    >>> from counton.strategies import Binary
    >>> check(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
    >>> check(Binary)
    """
    if isinstance(subject, type):
        examples: Any = getattr(subject, "examples", None)
        if examples is None or not issubclass(subject, Statistic | StreamStrategy | LineStrategy):
            raise InvalidInput(
                f"class {subject.__name__} has no examples: give a single object, or write a class "
                "method examples(). A statistic's examples() returns pairs of a statistic and the "
                "events of each step; a strategy's examples(horizon) returns strategies"
            )
        if issubclass(subject, Statistic):
            for statistic, events in examples():
                check(statistic, events)
            return
        for size in SIZES:
            for strategy in examples(size):
                check(strategy)
        return
    if isinstance(subject, Statistic):
        if batches is None:
            raise InvalidInput(f"the laws of {subject} need events: give the events of each step")
        check_statistic(subject, batches, unit_of=unit_of)
        return
    for base in type(subject).__mro__:
        if base.__module__.startswith("counton.strategies.") and base.__name__ in _LAWS:
            laws: Any = getattr(import_module("counton.laws"), _LAWS[base.__name__])
            laws(subject)
            return
    raise InvalidInput(f"there are no laws for {subject!r}: give a statistic or a strategy")
