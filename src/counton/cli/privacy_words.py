"""Guarantees in words: of a release, by the age of an event, and of all streams of a state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from counton.base.lengths import days_in
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.guarantees import AgesWithData
from counton.privacy.ledger import CAUTION_BELOW_TOTALS, NEIGHBOURS
from counton.results.metadata import ReleaseMetadata
from counton.results.privacy_text import guarantee_in_words
from counton.strategies import Expiring

if TYPE_CHECKING:
    from counton.cli.print_forms import Console
    from counton.privacy import AddableGuarantee
    from counton.privacy.contribution import Relation

#: Days in a year on average.
_YEAR = 365.2425
#: Familiar ages in days.
_AGES = {"an hour": 1 / 24, "a day": 1, "a week": 7, "a year": _YEAR, "ten years": 10 * _YEAR}


def privacy_line(metadata: ReleaseMetadata) -> str:
    """Return the guarantee of a release in one sentence."""
    loss = None
    if isinstance(metadata.guarantee, AgesWithData):
        loss = loss_by_age(metadata)
    return guarantee_in_words(metadata, loss)


def named_ages(every: str) -> dict[str, int]:
    """Return familiar ages by name, as the largest number of windows of length ``every`` that pass.

    They are an hour, a day, a week, a year and ten years; ages shorter than a window are left out.

    >>> named_ages("1d")
    {'a day': 1, 'a week': 7, 'a year': 366, 'ten years': 3653}
    """
    month = _YEAR / 12 / days_in("1mo")  # on average
    length = days_in(every) * (month if every.endswith("mo") else 1)
    windows = {name: age / length - 1e-9 for name, age in _AGES.items()}
    return {name: math.ceil(number) for name, number in windows.items() if number > 1 - 1e-6}


def loss_by_age(metadata: ReleaseMetadata) -> str | None:
    """Describe the privacy loss of an event at several ages, such as "1 after a day".

    Returns:
        The words; None for guarantees whose loss does not depend on age.
    """
    guarantee = metadata.guarantee
    strategy = metadata.strategy
    if not isinstance(guarantee, ExpiringDP | ExpiringZCDP) or not isinstance(strategy, Expiring):
        return None
    bound = guarantee.bound_to(strategy)
    parts = []
    for name, age in named_ages(metadata.windows.every).items():
        at_age = bound.at_age(age)
        loss = 0 if at_age is None else sum(at_age.losses.values())
        parts.append(f"{float(loss):.3g} after {name}")
    return f"{next(iter(bound.losses))} {', '.join(parts)}"


def print_totals(
    console: Console, totals: Mapping[str, tuple[Relation, AddableGuarantee | None]]
) -> None:
    """Print the privacy loss of all streams together, for a state without a budget.

    Args:
        console: where to print.
        totals: by protected unit, its kind of neighbours and its total loss.
    """
    for unit, (relation, total) in totals.items():
        words = "no one sum; against a budget (--budget-epsilon and --budget-delta) they add up"
        if total is not None:
            words = str(total)
        console.write_line(f"total for one {unit} {NEIGHBOURS[relation]}: {words}")
    if len(totals) > 1:
        console.write_line(CAUTION_BELOW_TOTALS)
