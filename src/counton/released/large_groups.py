"""Of many groups those that are large enough to be shown: a function of what was released."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from counton.base.errors import InvalidInput, field
from counton.base.groups import GroupNames
from counton.released.description import Description, Threshold

if TYPE_CHECKING:
    from counton.released.release import Release


def large_only(
    released: Release, above: float | None = None, surely_above: float | None = None
) -> Release:
    """The rows that are to be shown, by one threshold or none: see `only_above`.

    Raises:
        InvalidInput: both thresholds, or as `only_above`.
    """
    check_thresholds(above, surely_above)
    if surely_above is not None:
        return only_above(released, surely_above, "lower")
    return released if above is None else only_above(released, above)


def check_thresholds(above: float | None, surely_above: float | None) -> None:
    """Refuse two thresholds, or one that is none, before anything is released.

    Raises:
        InvalidInput: naming them.
    """
    if above is not None and surely_above is not None:
        raise InvalidInput(
            f"{field('above', above)} and {field('surely_above', surely_above)} are two "
            f"thresholds: give one of them"
        )
    for name, value in (("above", above), ("surely_above", surely_above)):
        if value is not None and not math.isfinite(value):
            raise InvalidInput(
                f"{field(name, value)} is no finite number: give the least number that is not shown"
            )


def only_above(
    released: Release, value: float, of: Literal["estimate", "lower"] = "estimate"
) -> Release:
    """The rows whose number is above a value; of groups of which none is, nothing stays.

    The number is that of the total, or of the window where no totals are published. It costs no
    privacy: what is left out is a function of what was released.

    Args:
        released: counts or sums of declared groups.
        value: chosen beforehand. A number that is shown because it is large is on the average
            larger than the true one; three standard deviations of the noise keep nearly all
            groups away that are 0.
        of: which number is compared: the estimate, or the lower end of the interval.

    Raises:
        InvalidInput: no finite number, or something else than counts or sums of declared groups.
    """
    name = field("above" if of == "estimate" else "surely_above", value)
    check_thresholds(*((value, None) if of == "estimate" else (None, value)))
    if not released.statistic.additive or released.definition.domain is None:
        raise InvalidInput(
            f"{name} chooses among groups by their counts or sums, and {released.design.name!r} "
            f"has none: leave it out"
        )
    if released.since is not None:
        raise InvalidInput(
            f"{name} does not go with groups that nobody declared, which are shown by a threshold "
            f"of their own: leave it out"
        )
    main = released.main.with_zeros()
    numbers = np.asarray(main.estimates if of == "estimate" else main.lower)
    there = numbers > value
    if released.there is not None:
        there &= released.there
    first = slice(released.first - 1, None)
    places = np.flatnonzero(there[first].any(axis=0))
    names = GroupNames(GroupNames(released.groups).column.gather(places))
    declared = released.definition.declares
    facts = {one.name: getattr(released.definition, one.name) for one in fields(Description)}
    threshold = Threshold(float(value), of, declared)
    windows, carried = released.own_windows, released.carried
    found = replace(
        released,
        definition=Description(**facts | {"domain": names, "above": threshold}),
        said=released.series.of_groups(places.tolist()),
        chosen=None,
        there=there[:, places],
        own_windows=None if windows is None else windows[:, places],
        carried=carried and replace(carried, estimates=carried.estimates[places]),
    )
    rows, all_rows = int(there[first].sum()), len(released.shown_steps) * len(released.groups)
    return found.with_note(
        f"{rows:,} of {all_rows:,} rows, of {len(names):,} of {declared:,} groups, are shown: "
        f"{threshold}. A number that is shown because it is large is on the average larger than "
        f"the true one"
    )
