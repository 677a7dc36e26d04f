"""Statistics of a report, each as if it had been released alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from counton.base.errors import InvalidInputError, param
from counton.continual import StepRelease
from counton.results.release_data import ReleaseData
from counton.statistics import AccumulatorStatistic, Grouped, StatisticResult
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
            f"{numbers.design.name!r} is not a report, it releases "
            f"{numbers.metadata.statistic_name}; leave it out"
        )
    report: Report = cast("Report", inner_of(numbers.metadata.statistic))
    groups_of_report = numbers.metadata.domain
    member = report.statistic(name)
    counted_name = report.derived_from.get(name, name)
    is_derived = counted_name != name
    n_groups = () if groups_of_report is None else (len(groups_of_report),)
    design = report.design_of(counted_name, numbers.design, n_groups)
    grouped = None
    if groups_of_report is not None and (is_derived or not member.additive):
        grouped = Grouped(member, groups_of_report)
    columns = report.columns[name]
    part = _own_groups(member, columns)
    if part is None:
        part = _GroupedPart(member, groups_of_report, numbers.metadata.group_by, columns)
    statistic = part.statistic
    has_cells = statistic.additive and not is_derived
    contribution_rule = numbers.metadata.contribution_rule
    if member.counted_ranks == (1,) or (part.group_by is None and member.counts_users):
        contribution_rule = contribution_rule.with_groups(member.counted_ranks[-1])
    metadata = replace(
        numbers.metadata,
        statistic_name=statistic.keyword or type(statistic).__name__,
        statistic=statistic if has_cells else grouped or member,
        group_by=part.group_by,
        domain=part.groups,
        value=part.columns[0] if len(part.columns) == 1 else None,
        contribution_rule=contribution_rule,
    )
    releases = numbers.results.releases
    assert releases is not None
    if has_cells:
        values = report.values_of(name, releases.values, design)
        cells = ReleaseData.of(metadata, design, values, numbers.level)
        return cells.only(range(numbers.first, numbers.steps.stop), numbers.chosen)

    def read(release: StepRelease) -> StatisticResult:
        return report.read_part(name, Cells(release), grouped)

    results = StatisticResults(metadata.statistic, releases.steps, releases, read=read)
    return replace(numbers, metadata=metadata, design=design, published=results)


class _GroupedPart(NamedTuple):
    """A statistic of a report, with the groups in which it counts.

    Attributes:
        statistic: the statistic, as it counts in each group.
        groups: names of the groups; None: one total.
        group_by: column of the groups.
        columns: columns that the statistic reads, without that of its groups.
    """

    statistic: AccumulatorStatistic
    groups: GroupNames | None
    group_by: str | None
    columns: tuple[str, ...]


def _own_groups(member: AccumulatorStatistic, columns: tuple[str, ...]) -> _GroupedPart | None:
    """Return a statistic with groups of its own; None if it has those of the report.

    Args:
        member: the statistic.
        columns: columns that it reads. The first one has its groups, if it has any.
    """
    if isinstance(member, Grouped):
        names = member.groups
    elif member.declares is not None:
        names = member.declares
    else:
        return None
    return _GroupedPart(inner_of(member), GroupNames(names), columns[0], columns[1:])
