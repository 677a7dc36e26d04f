"""Whole totals that never fall, for readers, beside the released ones.

The total that is shown after a window is the largest released total of its group so far, rounded to
a whole number, and at least 0. So it depends on no later release, and is never changed. No rule
that shows at least the newest released total, and never less than before, shows less.

Isotonic regression of all totals so far would change totals that were shown. Of its values only
the last could be shown: the largest mean of the newest totals, over any number of them. It is never
below the newest total, so it is biased more than the rule here.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import polars as pl

from counton.base.columns import WHEN
from counton.base.errors import InvalidInput, field
from counton.released.released_numbers import ReleasedNumbers
from counton.statistics.by_group import inner_of

#: Note on the bias, beside each table of such totals.
BIAS = (
    "whole totals that never fall are not released totals: each is the largest released total so "
    "far, at least 0 and rounded, so it is too large on the average, most of all where little is "
    "counted; intervals are of the released totals"
)


def totals_that_never_fall(released: ReleasedNumbers, steps: range | None) -> pl.DataFrame:
    """Return a table of totals that are integers and never fall, for some of the shown steps: see
    `counton.Release.table`.

    Raises:
        InvalidInput: the release has no totals, or its true totals may fall.
    """
    definition, name = released.definition, repr(released.design.name)
    why = None
    if not inner_of(definition.statistic).card.additive or definition.ranks:
        why = f"releases {definition.what}, and only totals of counts and sums never fall"
    elif not definition.cut.goes_on or definition.release not in ("totals", "both"):
        why = f"has no totals: begin a stream with {field('release', 'totals')}"
    elif definition.cut.lags:
        why = "revises its windows, so that totals may fall too"
    elif definition.follows:
        why = "goes on from totals of an earlier stream, which are not shown here"
    elif cast("Any", definition.statistic).row_bounds()[0] < 0:
        why = "adds up values that may be below 0, so that totals may fall too"
    if why is not None:
        raise InvalidInput(f"{field('never_falling', True)} is for totals, and {name} {why}")
    shown = released.shown_steps if steps is None else steps
    # Without an earlier step, its total could have been the largest so far.
    released._refuse_missing(np.arange(1, released.steps.stop))
    whole = released.table(range(1, released.steps.stop))
    said = (pl.col("estimate") + 0.5).floor().clip(0).cast(pl.Int64)
    times = [name for name in WHEN if name in whole.columns]
    found = whole.select(*times, "group", total=said.cum_max().over("group"))
    before = pl.col("total").shift(1, fill_value=0).over("group")
    return found.with_columns(in_window=pl.col("total") - before).filter(
        pl.col("step").is_between(shown.start, shown.stop, closed="left")
    )
