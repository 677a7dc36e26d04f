"""One function that checks all properties of a strategy or statistic."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from counton.base.errors import InvalidInputError
from counton.statistics import Statistic
from counton.strategies import StreamStrategy
from counton.testing.statistic_checks import Batches, check_statistic
from counton.testing.stream_checks import check_strategy

#: Horizons at which examples of a class of strategies are checked.
SIZES = (1, 2, 7, 12)

#: Statistics, each with the events of its steps.
_Examples = Iterable[tuple[Statistic, Batches]]


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
        _check_examples(subject)
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


def _check_examples(subject: type) -> None:
    """Check the examples of a class of statistics or strategies.

    Raises:
        InvalidInputError: it is another class, or has no examples.
        PropertyViolationError: a property of an example does not hold.
    """
    if issubclass(subject, StreamStrategy):
        for size in SIZES:
            for strategy in subject.examples(size):
                check(strategy)
        return
    # `Statistic` has no examples; a class of statistics may add them.
    examples: Callable[[], _Examples] | None = getattr(subject, "examples", None)
    if examples is None or not issubclass(subject, Statistic):
        raise InvalidInputError(
            f"class {subject.__name__} has no examples: give a single object, or write a class "
            "method examples(). A statistic's examples() returns pairs of a statistic and the "
            "events of each step; a strategy's examples(horizon) returns strategies"
        )
    for statistic, events in examples():
        check(statistic, events)
