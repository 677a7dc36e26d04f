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
    """Return, for each column of a report, the statistics that count the rows of one label of the
    column, if several do.

    The result maps a column to the names of these statistics, two or more, and each name to the
    name of the count in the statistic's table. All count the same label. The number of all rows has
    the column "".

    >>> from counton.statistics import Grouped
    >>> import polars as pl
    >>> from counton.strategies.trees import Tree
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
    """Return the counts of rows with a label that a statistic has: for each column, the name of the
    count by label.

    The number of all rows has the column "".
    """
    if one.counts_units or one.counted_ranks:
        return {}
    if isinstance(one, GroupedRows):
        number = "" if isinstance(one.inner, Count) else one.inner.gives(None).get("count")
        if not isinstance(number, str):
            return {}
        return {columns[0]: {label: f"{label} {number}".strip() for label in one.groups}}
    if isinstance(one, Hierarchy):
        return {"": {"": "total"}, **_of_levels(one)}
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


def _of_levels(one: Hierarchy) -> dict[str, Mapping[str, str]]:
    """Return, for each level of a tree, the names of its counts by label.

    Only labels that exactly one node of the level has are included.
    """
    tree, found = one.tree, dict[str, Mapping[str, str]]()
    for depth, level in enumerate(tree.levels[1:], 1):
        paths = [tree.path(depth, node) for node in range(tree.sizes[depth])]
        often = Counter(path[-1] for path in paths)
        found[level] = {
            str(path[-1]): " ".join(map(str, (level, *path)))
            for path in paths
            if often[path[-1]] == 1
        }
    return found
