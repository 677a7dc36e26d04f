"""Statistics of a report, each as if it had been released alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from counton.base.errors import InvalidInputError, param
from counton.continual import StepRelease
from counton.results.release_data import ReleaseData
from counton.statistics import Grouped, StatisticResult
from counton.statistics.by_group import inner_of
from counton.statistics.cells import Cells
from counton.statistics.results import StatisticResults
from counton.windowing.groups import GroupNames

if TYPE_CHECKING:
    from counton.statistics.report import Report


def part_of(numbers: ReleaseData, name: str) -> ReleaseData:
    """Return the numbers of one statistic of a report; see `Release.part`.

    Args:
        numbers: the numbers of the report.
        name: name of the statistic in the report.

    Raises:
        InvalidInputError: the release is not a report, or has no statistic of this name.
    """
    if not inner_of(numbers.metadata.statistic).statistics:
        raise InvalidInputError(
            f"{param('part', name)} names a statistic inside a report, but "
            f"{numbers.design.name!r} is not a report, it releases {numbers.metadata.what}; "
            "leave it out"
        )
    report: Report = cast("Report", inner_of(numbers.metadata.statistic))
    groups = numbers.metadata.domain
    member = report.statistic(name)
    statistic = member
    measured = report.derived_from.get(name, name)
    n_groups = () if groups is None else (len(groups),)
    design = report.design_of(measured, numbers.design, n_groups)
    counts = statistic.additive and measured == name
    by_group = None if groups is None or counts else Grouped(statistic, groups)
    by = numbers.metadata.group_by
    columns = report.columns[name]
    if isinstance(statistic, Grouped) or statistic.declares is not None:  # it has its own groups
        groups = GroupNames(
            statistic.groups if isinstance(statistic, Grouped) else statistic.declares or ()
        )
        by = columns[0]
        columns = columns[1:]
        statistic = inner_of(statistic)
    additive = statistic.additive and measured == name
    contribution_rule = numbers.metadata.contribution_rule
    if member.counted_ranks == (1,) or (by is None and member.counts_users):
        contribution_rule = contribution_rule.with_groups(member.counted_ranks[-1])
    metadata = replace(
        numbers.metadata,
        what=statistic.keyword or type(statistic).__name__,
        statistic=statistic if additive else by_group or member,
        group_by=by,
        domain=groups,
        value=columns[0] if len(columns) == 1 else None,
        contribution_rule=contribution_rule,
    )
    releases = numbers.results.releases
    assert releases is not None
    if additive:
        values = report.values_of(name, releases.values, design)
        cells = numbers.of(metadata, design, values, numbers.level)
        return cells.only(range(numbers.first, numbers.steps.stop), numbers.chosen)

    def read(release: StepRelease) -> StatisticResult:
        return report.read_part(name, Cells(release), by_group)

    results = StatisticResults(metadata.statistic, releases.steps, releases, read=read)
    return replace(numbers, metadata=metadata, design=design, published=results)
