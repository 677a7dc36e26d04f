"""The chart of revised windows: the number known at each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counton.base.errors import InvalidInput
from counton.released.read_options import Look
from counton.released.release import Release
from counton.released.revisions import versions_at_hand
from counton.released.stream_words import foot_of, groups_in_words, times_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_of_versions(released: Release, look: Look) -> Figure:
    """Draw the known numbers of revised windows by time; of many groups the largest.

    Raises:
        InvalidInput: windows that are released once, or a statistic without sums.
    """
    from counton.charts.version_charts import MOST_PANELS, Versions, plot_versions

    definition, table = released.definition, released.versions()
    if "estimate" not in table.columns or "name" in table.columns:
        raise InvalidInput(
            f"a chart of versions is of counts and sums, and {released.design.name!r} releases "
            f"{definition.what}; write a table"
        )
    names = list(released.groups)
    if "group" not in table.columns:
        table = table.with_columns(group=pl.lit(names[0]))
    steps, lags = table["step"].unique().sort(), int(table["lag"].max()) + 1  # type: ignore[arg-type]
    shape, place = (len(steps), lags, len(names)), {name: at for at, name in enumerate(names)}
    at = (
        (table["step"] - steps[0]).to_numpy(),
        table["lag"].to_numpy(),
        table["group"].replace_strict(place, return_dtype=pl.Int64).to_numpy(),
    )
    values = {}
    for name, column in (("estimates", "estimate"), ("lower", "lower"), ("upper", "upper")):
        values[name] = np.full(shape, np.nan)
        values[name][at] = table[column].to_numpy()
    windows = definition.windows
    ends = released._local(windows.ends(range(int(steps[0]) - 1, int(steps[-1]) + 1)))
    versions = Versions(
        ends[:-1],
        ends[1:],
        names,
        **values,
        final=versions_at_hand(released.revisions, released.design.name).lags,
    )
    grouped = groups_in_words(definition)
    by = f", by {grouped}" if grouped else ""
    words = look.around(
        f"{times_in_words(definition, 1, windows.every)}; with {100 * released.level:g}% intervals "
        f"of the newest version",
        foot_of(definition, look.source),
        title=f"What was known when: {definition.subject}{by}",
        axis=definition.subject,
    )
    return plot_versions(versions.largest(MOST_PANELS), words, period=windows.period or "window")
