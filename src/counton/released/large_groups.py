"""Selection of large groups among many groups, by their released numbers."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.groups import GroupNames
from counton.released.description import Description, Threshold
from counton.released.series import LateValues

if TYPE_CHECKING:
    from counton.released.released_numbers import ReleasedNumbers


def large_only(
    released: ReleasedNumbers, above: float | None = None, surely_above: float | None = None
) -> ReleasedNumbers:
    """Return a release of only the rows above a threshold; all rows if both thresholds are None.

    Args:
        released: the release.
        above: threshold for estimates.
        surely_above: threshold for lower ends of intervals.

    Raises:
        InvalidInput: both thresholds are given, or see `only_above`.
    """
    check_thresholds(above, surely_above)
    if surely_above is not None:
        return only_above(released, surely_above, "lower")
    return released if above is None else only_above(released, above)


def check_thresholds(above: float | None, surely_above: float | None) -> None:
    """Raise an error for two thresholds, or for one that is not finite, before anything is
    released.

    Raises:
        InvalidInput: the message names the thresholds.
    """
    if above is not None and surely_above is not None:
        raise InvalidInput(
            f"{field('above', above)} and {field('surely_above', surely_above)} are two "
            f"thresholds: give one of them"
        )
    for name, value in (("above", above), ("surely_above", surely_above)):
        if value is not None and not math.isfinite(value):
            raise InvalidInput(
                f"{field(name, value)} is not a finite number: give the number above which rows "
                "are shown"
            )


def only_above(
    released: ReleasedNumbers, value: float, of: Literal["estimate", "lower"] = "estimate"
) -> ReleasedNumbers:
    """Return a release of only the rows whose number is above a threshold; there may be none.

    The compared number is the total, or the count of the window if no totals are published. This
    costs no privacy, because the choice is a function of released numbers.

    Args:
        released: counts or sums of declared groups.
        value: the threshold, chosen without looking at the numbers. A number that is shown because
            it is large is on average larger than the true one. A threshold of three standard
            deviations of the noise leaves out nearly all groups whose true number is 0.
        of: the compared number: the estimate, or the lower end of the interval.

    Raises:
        InvalidInput: the threshold is not finite, or the release has no counts or sums of declared
            groups.
    """
    name = field("above" if of == "estimate" else "surely_above", value)
    check_thresholds(*((value, None) if of == "estimate" else (None, value)))
    if not released.statistic.card.additive or released.definition.domain is None:
        raise InvalidInput(
            f"{name} chooses groups by their counts or sums, and {released.design.name!r} has no "
            "such groups: leave it out"
        )
    if released.since is not None:
        raise InvalidInput(
            f"{name} does not go with groups that were found in the data, because they are shown "
            "by a threshold already: leave it out"
        )
    late = isinstance(released._cells.values, LateValues)
    held = released.shown_steps if late else released.steps
    main = released._main_of(held).with_zeros()
    large = np.asarray(main.estimates if of == "estimate" else main.lower) > value
    if released.there is not None:
        large &= released.there[held.start - 1 :]
    shown = large[released.first - held.start :]
    places = np.flatnonzero(shown.any(axis=0))
    there = np.zeros((released.steps.stop - 1, len(places)), np.bool_)
    there[held.start - 1 :] = large[:, places]
    declared = released.definition.declares
    threshold = Threshold(float(value), of, declared)
    found = replace(_at_positions(released, places, above=threshold), there=there)
    names = found.definition.groups
    rows, all_rows = int(shown.sum()), len(released.shown_steps) * len(released.groups)
    return found.with_note(
        f"{rows:,} of {all_rows:,} rows, of {len(names):,} of {declared:,} groups, are shown: "
        f"{threshold}. A number that is shown because it is large is on the average larger than "
        "the true one"
    )


def _at_positions(
    released: ReleasedNumbers, places: NDArray[np.intp], **facts: Any
) -> ReleasedNumbers:
    """Return a release of only the groups with these indices.

    Args:
        released: the release.
        places: indices of the groups.
        facts: fields of the release's public description that change, such as the threshold.
    """
    found = released._groups_at(places)
    held = {one.name: getattr(released.definition, one.name) for one in fields(Description)}
    definition = Description(**held | {"domain": GroupNames(found.groups)} | facts)
    return replace(found, definition=definition, chosen=None)
