"""The privacy loss of an event at familiar ages, in words."""

from __future__ import annotations

import math

from counton.base.lengths import days_in
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.released.description import Description
from counton.strategies import Expiring

#: Days in a year on average.
_YEAR = 365.2425
#: Familiar ages in days.
_AGES = {"an hour": 1 / 24, "a day": 1, "a week": 7, "a year": _YEAR, "ten years": 10 * _YEAR}


def named_ages(every: str) -> dict[str, int]:
    """Return familiar ages by name, as the largest number of steps of length ``every`` that pass.

    They are an hour, a day, a week, a year and ten years; ages shorter than a step are left out.

    >>> named_ages("1d")
    {'a day': 1, 'a week': 7, 'a year': 366, 'ten years': 3653}
    """
    month = _YEAR / 12 / days_in("1mo")  # on average
    length = days_in(every) * (month if every.endswith("mo") else 1)
    steps = {name: age / length - 1e-9 for name, age in _AGES.items()}
    return {name: math.ceil(many) for name, many in steps.items() if many > 1 - 1e-6}


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
        loss = 0 if at_age is None else sum(at_age.losses.values())
        parts.append(f"{float(loss):.3g} after {name}")
    return f"{next(iter(bound.losses))} {', '.join(parts)}"
