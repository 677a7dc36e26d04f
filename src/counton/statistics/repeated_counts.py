"""Numbers of rows that several statistics of a report measure independently of each other.

Each measurement has its own noise, so their combination is more accurate than each alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from counton.statistics.contingency import Contingency
from counton.statistics.count import Count
from counton.statistics.hierarchy import Hierarchy
from counton.statistics.line_ranges import Ranges
from counton.statistics.report import Report
from counton.statistics.report_members import GroupedRows
from counton.statistics.tally_statistic import TallyStatistic


def repeated_counts(report: Report) -> dict[str, dict[str, str]]:
    """Find counts of the same rows that several statistics of a report measure, such as rows by
    page and a tree with a level "page".

    Returns:
        By column, the name of the count in the table of each such statistic. Only one label of each
        column is reported. Counts of all rows have the column "".

    >>> from counton.statistics import Grouped
    >>> import polars as pl
    >>> from counton.tables import Tree
    >>> pages = pl.DataFrame({"site": ["web", "web"], "page": ["home", "shop"]})
    >>> tree = Hierarchy(Tree.from_leaves(pages, ["site", "page"]))
    >>> report = Report(
    ...     {"pages": Count(), "tree": tree}, columns={"pages": "page", "tree": ["site", "page"]},
    ...     groups={"pages": ["home", "shop"]},
    ... )
    >>> repeated_counts(report)
    {'page': {'pages': 'home', 'tree': 'page web home'}}
    """
    by_column: dict[str, dict[str, Mapping[str, str]]] = {}
    for name, one in report.measured_ones.items():
        for column, labels in _counts(one, report.columns.get(name, ())).items():
            by_column.setdefault(column, {})[name] = labels
    found = {}
    for column, several in by_column.items():
        first, *others = several.values()
        same = [label for label in first if all(label in labels for labels in others)]
        if others and same:
            found[column] = {name: labels[same[0]] for name, labels in several.items()}
    return found


def _counts(one: TallyStatistic, columns: Any) -> dict[str, Mapping[str, str]]:
    """Return names of counts of rows, by column and by label; ("", "") for all rows."""
    if one.counts_units or one.counted_ranks:
        return {}
    if isinstance(one, GroupedRows):
        number = "" if isinstance(one.inner, Count) else one.inner.gives(None).get("count")
        if not isinstance(number, str):
            return {}
        return {columns[0]: {label: f"{label} {number}".strip() for label in one.groups}}
    if isinstance(one, Hierarchy):
        found: dict[str, Mapping[str, str]] = {"": {"": "total"}}
        for depth, level in enumerate(one.tree.levels[1:], 1):
            paths = [one.tree.path(depth, node) for node in range(one.tree.sizes[depth])]
            often = Counter(path[-1] for path in paths)
            found[level] = {  # without labels that several nodes of the level have
                str(path[-1]): " ".join(map(str, (level, *path)))
                for path in paths
                if often[path[-1]] == 1
            }
        return found
    if isinstance(one, Ranges):
        return {columns[0]: {str(label): str(label) for label in one.labels}}
    if isinstance(one, Contingency):
        often = Counter(label for labels in one.columns.values() for label in labels)
        alone = {
            column: {label: label for label in labels if often[label] == 1}
            for column, labels in one.columns.items()
        }
        return {"": {"": "all"}, **alone}
    if isinstance(one, Count):
        return {"": {"": "all"}}
    number = one.gives(None).get("count")
    return {"": {"": number}} if isinstance(number, str) else {}
