"""What a stream of events releases, in words."""

from __future__ import annotations

from collections.abc import Sequence

from counton.events.windows import load_zone
from counton.jobs.definition import Definition
from counton.mechanisms import StreamTerms

#: What is known of every stream of events besides its numbers.
_WHEN = (
    "that a release took place, when, and the time of the newest row where that decided which "
    "windows had ended"
)


def methods_of(
    definition: Definition, terms: StreamTerms, steps: int, errors: Sequence[str]
) -> str:
    """The paragraph that a publication needs, of a stream of events.

    Args:
        definition, terms: of the stream.
        steps: how many are released.
        errors: sentences about the error.
    """
    from counton.mechanisms.methods import methods

    people = definition.people
    left_out = []
    if people is not None and definition.statistic.tallied:
        left_out.append(
            "Rows of a user beyond the bound were left out, an error that no interval includes."
        )
    return methods(
        terms,
        released=_released_in_words(definition, terms, steps),
        unit=definition.unit,
        errors=[*errors, *left_out],
        unprotected=[_WHEN],
        sources=definition.statistic.sources,
    )


def _released_in_words(definition: Definition, terms: StreamTerms, steps: int) -> str:
    """What was released so far, a sentence."""
    cut = definition.cut
    if definition.plain:
        form = {"totals": "The running ", "windows": "The "}.get(definition.release, "The ")
        what = f"{form}{subject(definition)}"
        if definition.release == "both":
            what += ", running and of each window,"
        elif definition.release == "windows":
            what += " in each window"
    else:
        what = f"The statistic {definition.statistic!r}"
    if definition.discovery is not None:
        what += f" by {definition.columns.group} (each group shown once it is large enough)"
    elif definition.domain is not None:
        what += f" by {definition.columns.group} ({len(definition.domain):,} declared groups)"
    if cut is None:
        return f"{what} was released after each row, {steps:,} times so far."
    last = terms.strategy.horizon
    of = "windows" if last is None else f"up to {last:,} windows"
    start = cut.start.astimezone(load_zone(cut.timezone)).strftime("%Y-%m-%d %H:%M")
    return (
        f"{what} was released after each of {of} of {cut.every} from {start} ({cut.timezone}) on, "
        f"{steps:,} of them so far."
    )


def subject(definition: Definition) -> str:
    """What is counted or added up."""
    if definition.what in ("count", "distinct"):
        people = definition.people
        if people is not None:
            return f"number of {plural(definition.unit) if people.first else 'events'}"
        return f"number of {plural(definition.unit)}"
    return f"sum of {definition.columns.value}"


def plural(unit: str) -> str:
    """A unit's plural, for regular English words.

    >>> plural("departure"), plural("query"), plural("visits")
    ('departures', 'queries', 'visits')
    """
    if unit.endswith("y") and unit[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    return unit if unit.endswith("s") else f"{unit}s"
