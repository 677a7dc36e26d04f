"""The privacy loss of an event at familiar ages, in words."""

from __future__ import annotations

import math
import re

from counton.base.errors import InvalidInput
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.released.description import Description
from counton.strategies import Expiring

_SECONDS = {
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 7 * 86_400.0,
    "mo": 365.2425 * 7200.0,
    "y": 365.2425 * 86_400.0,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w|mo|y)")
_NAMED = {"an hour": "1h", "a day": "1d", "a week": "1w", "a year": "1y", "ten years": "10y"}


def seconds(text: str) -> float:
    """Return the number of seconds of a duration; months and years have their average length.

    >>> seconds("1.5h"), seconds("2w")
    (5400.0, 1209600.0)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise InvalidInput(
            f"duration {text!r} is not a number above 0 with a unit; write it as in 30m, 1h, 1d, "
            "1w, 1mo or 1y"
        )
    return float(match[1]) * _SECONDS[match[2]]


def steps_in(age: str, every: str) -> int:
    """Return the largest number of steps that can pass within an age.

    Args:
        age: the age, as a duration.
        every: length of a step.

    >>> steps_in("1d", "1h"), steps_in("90m", "1h")
    (24, 2)
    """
    return math.ceil(seconds(age) / seconds(every) - 1e-9)


def named_ages(every: str) -> dict[str, int]:
    """Return familiar ages by name, as numbers of steps of length ``every``.

    They are an hour, a day, a week, a year and ten years; ages shorter than a step are left out.

    >>> named_ages("1d")
    {'a day': 1, 'a week': 7, 'a year': 366, 'ten years': 3653}
    """
    length = seconds(every)
    return {name: steps_in(text, every) for name, text in _NAMED.items() if seconds(text) >= length}


def loss_in_words(definition: Description) -> str | None:
    """Describe the privacy loss of an event at several ages, such as "1 after a day"; None for
    guarantees whose loss does not depend on age.
    """
    guarantee, strategy = definition.guarantee, definition.strategy
    if not isinstance(guarantee, (ExpiringDP, ExpiringZCDP)) or not isinstance(strategy, Expiring):
        return None
    bound = guarantee.bound_to(strategy)
    parts = []
    for name, age in named_ages(definition.cut.every).items():
        at_age = bound.at_age(age)
        loss = 0 if at_age is None else at_age.rho if isinstance(at_age, ZCDP) else at_age.epsilon
        parts.append(f"{float(loss):.3g} after {name}")
    return f"{'epsilon' if isinstance(guarantee, ExpiringDP) else 'rho'} {', '.join(parts)}"
