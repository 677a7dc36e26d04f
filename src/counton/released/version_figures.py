"""Charts of windows that are released again for late rows: what was known of each window when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from counton.base.errors import InvalidInput
from counton.base.exact import percent
from counton.base.language_files import locale_named
from counton.base.locales import local_number, local_text, speaking
from counton.released.nowcasting import Nowcasts
from counton.released.read_options import Look
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.released.revisions import versions_at_hand
from counton.released.stream_words import (
    foot_of,
    groups_in_words,
    subject_in_words,
    times_in_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.charts.version_charts import Versions


def figure_of_versions(released: Release, look: Look) -> Figure:
    """Draw how the known counts of windows changed as late rows came; of many groups, the largest.

    Args:
        released: the release.
        look: words, width and language of the chart.

    Raises:
        InvalidInput: windows are released only once, or the statistic has no sums.
    """
    from counton.charts.version_charts import MOST_PANELS, plot_versions

    versions, numbers = _versions_of(released), released.numbers
    with speaking(locale_named(look.locale)):
        words = look.around(
            local_text("{times} of the newest version", times=_times_of(numbers)),
            foot_of(numbers.definition, look.source, numbers.notes),
            title=local_text("What was known when: {what}", what=_subject_of(numbers)),
            axis=subject_in_words(numbers.definition.subject),
        )
        period = numbers.definition.windows.period or "window"
        return plot_versions(versions.largest(MOST_PANELS), words, period=period)


def figure_of_nowcast(found: Nowcasts) -> Figure:
    """Draw the newest counts of windows whose rows still arrive, and forecasts of their final
    counts; of many groups, only the largest.
    """
    from counton.charts.style import Caption
    from counton.charts.version_charts import MOST_PANELS, Forecasts, plot_nowcast

    released = found.released.numbers
    versions, named = _versions_of(found.released), list(found.found)
    places = [list(versions.groups).index(group) for group in named]
    versions = versions.of(places).largest(MOST_PANELS)
    each = [found.found[group] for group in versions.groups]
    forecasts = Forecasts(
        *(
            np.stack([getattr(one, name) for one in each], axis=1)
            for name in ("estimates", "lower", "upper")
        )
    )
    changed = ""
    if found.changed_groups:
        changed = " " + local_text("Delays changed: the forecast does not hold.")
    words = Caption(
        local_text("What will be: {what}", what=_subject_of(released)),
        _times_of(released),
        subject_in_words(released.definition.subject),
        f"{foot_of(released.definition, None, released.notes)}{changed}".strip(),
    )
    period = released.definition.windows.period or "window"
    return plot_nowcast(versions, forecasts, words, period=period)


def _subject_of(released: ReleasedNumbers) -> str:
    definition = released.definition
    what, groups = subject_in_words(definition.subject), groups_in_words(definition)
    return what if groups is None else local_text("{what}, by {groups}", what=what, groups=groups)


def _times_of(released: ReleasedNumbers) -> str:
    every = released.definition.windows.every
    times = times_in_words(released.definition, 1, every)
    level = local_number(percent(released.level))
    return local_text("{times}; with {level}% intervals", times=times, level=level)


def _versions_of(released: Release) -> Versions:
    """Return the released counts of all windows in the form that a chart needs.

    A window's count is released again for late rows.

    Raises:
        InvalidInput: windows are released only once, or the statistic has no sums.
    """
    from counton.charts.version_charts import Versions

    numbers, table = released.numbers, released.versions()
    definition = numbers.definition
    if "estimate" not in table.columns or "name" in table.columns:
        raise InvalidInput(
            f"a chart of versions is only for counts and sums, but {numbers.design.name!r} "
            f"releases {definition.what}; write a table"
        )
    if not table.height:
        raise InvalidInput(
            f"there is nothing to draw: no group of {numbers.design.name!r} is large enough to be "
            f"shown yet; wait for more rows"
        )
    names = list(numbers.groups)
    if "group" not in table.columns:
        table = table.with_columns(group=pl.lit(names[0]))
    steps, lags = table["step"].unique().sort(), int(table["lag"].max()) + 1  # type: ignore[arg-type]
    shape, place = (len(steps), lags, len(names)), {name: at for at, name in enumerate(names)}
    at = (
        (table["step"] - steps[0]).to_numpy(),
        table["lag"].to_numpy(),
        table["group"].replace_strict(place, return_dtype=pl.Int64).to_numpy(),
    )
    values, of = {}, definition.of_windows
    for name, column in (("estimates", "estimate"), ("lower", "lower"), ("upper", "upper")):
        values[name] = np.full(shape, np.nan)
        values[name][at] = table[f"{of}{column}"].to_numpy()
    windows = definition.windows
    ends = numbers._local(windows.ends(range(int(steps[0]) - 1, int(steps[-1]) + 1)))
    return Versions(
        ends[:-1],
        ends[1:],
        names,
        **values,
        final=versions_at_hand(numbers.revisions, numbers.design.name).lags,
    )
