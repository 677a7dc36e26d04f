"""The table of counts or sums as the text of a CSV file, made without polars.

Most runs release no window, and write the table that its file already has. Such a run need not
import polars, which takes longer than all that it does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from counton.base.table_schema import in_order

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData

#: Names of groups that are written as they are: no quotes are needed, and no spreadsheet takes them
#: for a formula.
_PLAIN = re.compile(r"\w[\w .:/()-]*")


def plain_csv(numbers: ReleaseData) -> str | None:
    """Return the text of a release's CSV file; None if only `released_table` makes its table.

    Numbers are written as Python does. polars writes a very large or very small fraction in another
    way, so the text may differ from the file: equal texts have equal tables.

    Args:
        numbers: the released numbers.
    """
    if not _is_plain(numbers):
        return None
    steps = numbers.shown_steps
    groups = [*numbers.groups]
    ((published, series),) = numbers.series.published(steps)
    windows = numbers.metadata.windows
    columns: dict[str, list[Any]] = {
        "window_index": np.repeat(steps, len(groups)).tolist(),
        "window_start": [],
        "window_end": [],
        "group": groups * len(steps),
        "series": [published.name] * (len(steps) * len(groups)),
    }
    for name, moments in (
        ("window_start", windows.starts(steps)),
        ("window_end", windows.ends(steps)),
    ):
        for us in moments.tolist():
            columns[name] += [windows.local(us).isoformat(timespec="seconds")] * len(groups)
    for name, values in series.columns(numbers.level).items():
        columns[name] = np.asarray(values).tolist()
    names = in_order(columns)
    rows = zip(*(columns[name] for name in names), strict=True)
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows), ""]
    return "\n".join(lines)


def _is_plain(numbers: ReleaseData) -> bool:
    """Return whether a table has one number for each window and group, and no other columns."""
    metadata = numbers.metadata
    facts = numbers.design.strategy.facts
    return (
        numbers.is_by_group
        and metadata.windows.timed
        and metadata.windows.is_recurring
        and len(metadata.published_series) == 1
        and not metadata.widths
        and not metadata.notes
        and not facts.delay
        and not facts.reads_another
        and numbers.since is None
        and numbers.cells.is_present is None
        and "," not in (metadata.group_by or "")
        and all(_PLAIN.fullmatch(name) for name in numbers.groups)
    )
