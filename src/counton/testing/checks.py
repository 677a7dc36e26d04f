"""One function that checks all properties of a strategy or statistic."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from counton.base.errors import InvalidInputError
from counton.statistics import Statistic
from counton.strategies import StreamStrategy
from counton.testing.statistic_checks import Batches, check_statistic
from counton.testing.stream_checks import check_strategy

#: Horizons at which examples of a class of strategies are checked.
SIZES = (1, 2, 7, 12)


def check(
    subject: object,
    batches: Batches | None = None,
    *,
    unit_of: Callable[[Any], Hashable] | None = None,
) -> None:
    """Check that a strategy or a statistic, of any package, has all properties.

    Args:
        subject: a statistic, or a strategy for streams. Of a class, its examples are checked:
            ``examples(horizon)`` of strategies, with 1, 2, 7 and 12 steps; ``examples()`` of
            statistics, pairs of a statistic and batches.
        batches: of a statistic: the events of each step.
        unit_of: the unit of an event; None: each event is one.

    Raises:
        InvalidInputError: the subject is neither a statistic nor a strategy, or events are missing.
        PropertyViolationError: a property does not hold; the message says which, and where.

    >>> from counton.statistics import Sum
    >>> from counton.strategies import Binary
    >>> check(Sum(0, 10, resolution=1), [[3, 12], [], [4]])
    >>> check(Binary)
    """
    if isinstance(subject, type):
        examples: Any = getattr(subject, "examples", None)
        if examples is None or not issubclass(subject, Statistic | StreamStrategy):
            raise InvalidInputError(
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
            raise InvalidInputError(
                f"the checks of {subject} need events: give the events of each step"
            )
        check_statistic(subject, batches, unit_of=unit_of)
        return
    if isinstance(subject, StreamStrategy):
        check_strategy(subject)
        return
    raise InvalidInputError(
        f"there are no checks for {subject!r}: give a statistic or a strategy for streams"
    )
