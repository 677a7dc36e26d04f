"""What the options of each statistic mean: a statistic of the core, and the columns that it reads.

A statistic is added by a model of its options (`counton.job.statistics`) and one function here.
If its domain is not a list of groups, a second function reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any, cast

from counton.base.arguments import DEFAULT_TOP
from counton.base.errors import InvalidInputError, param
from counton.base.exact import exact, text
from counton.io.declared_groups import read_domain, refuse_long_terms
from counton.job.common_options import Job
from counton.job.custom_statistic import OwnStatisticJob, PackageStatisticJob
from counton.job.group_tables import labels_of, read_tree_table, refuse_counts, values_of
from counton.job.option_fields import Section
from counton.job.report import ReportJob
from counton.job.statistics import (
    AverageJob,
    ContingencyJob,
    CountColumnOptions,
    CountJob,
    DistinctJob,
    HierarchyJob,
    MomentsJob,
    QuantilesJob,
    RangesJob,
    ReachJob,
    ReplaceOptions,
    SumJob,
    TopKJob,
    model_of,
)
from counton.privacy.contribution import Relation
from counton.results.display import DisplaySelection
from counton.run.spec.terms import RankingOfGroups, StatisticOfRows
from counton.statistics import (
    AccumulatorStatistic,
    Average,
    Contingency,
    Count,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Reach,
    Report,
    Sum,
)
from counton.statistics.quantiles import checked_shares
from counton.statistics.report_members import FirstRows
from counton.tables import Tree
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

#: Default of the option ``grid``.
_GRID = 256


# ------------------------------------------------------------------------------------- statistics
@singledispatch
def parse_statistic(job: Job) -> StatisticOfRows:
    """Parse the options of a job's statistic, in their normal form.

    Args:
        job: a job whose statistic has all options that it needs.

    Raises:
        InvalidInputError: an option has a wrong value.
    """
    raise NotImplementedError(job.statistic)


@parse_statistic.register
def parse_count(job: CountJob) -> StatisticOfRows:
    """Parse the options of a count."""
    columns = () if job.count_column is None else (job.count_column,)
    return StatisticOfRows(job.statistic, Count(counts=job.count_column is not None), columns)


@parse_statistic.register
def parse_distinct(job: DistinctJob) -> StatisticOfRows:
    """Parse a count of distinct users: of the first row of each."""
    return StatisticOfRows(job.statistic, Count())


@parse_statistic.register
def parse_reach(job: ReachJob) -> StatisticOfRows:
    """Parse the options of a count of users by their number of rows."""
    thresholds = (1,) if job.at_least is None else tuple(job.at_least)
    text_of_thresholds = ",".join(map(str, thresholds))  # which an error shows
    return StatisticOfRows(job.statistic, Reach(text_of_thresholds))


@parse_statistic.register
def parse_sum(job: SumJob) -> StatisticOfRows:
    """Parse the options of a sum."""
    statistic = Sum(_required(job.lower), _required(job.upper), _required(job.resolution))
    return StatisticOfRows(job.statistic, statistic, (_required(job.value),))


@parse_statistic.register
def parse_average(job: AverageJob) -> StatisticOfRows:
    """Parse the options of an average."""
    statistic = Average(_required(job.lower), _required(job.upper), _required(job.resolution))
    return StatisticOfRows(job.statistic, statistic, (_required(job.value),))


@parse_statistic.register
def parse_quantiles(job: QuantilesJob) -> StatisticOfRows:
    """Parse the options of quantiles."""
    quantiles = Quantiles(
        edges=None if job.edges is None else [float(edge) for edge in job.edges],
        lower=cast("Any", job.lower),
        upper=cast("Any", job.upper),
        cells=job.cells,
        line=_line(job),
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, quantiles, (_required(job.value),))


@parse_statistic.register
def parse_moments(job: MomentsJob) -> StatisticOfRows:
    """Parse the options of moments."""
    columns = tuple(job.columns or ())
    pairs = [tuple(ends.split(":")) for ends in job.bounds or ()]
    bounds: Any = dict(zip(columns, pairs, strict=True))
    moments = Moments(bounds, grid=job.grid or _GRID)
    return StatisticOfRows(job.statistic, moments, columns)


@parse_statistic.register
def parse_ranking(job: TopKJob) -> StatisticOfRows:
    """Parse the options of a ranking."""
    return RankingOfGroups(
        job.statistic, Count(), shown=job.top or DEFAULT_TOP, neighbours=_neighbours(job)
    )


@parse_statistic.register
def parse_hierarchy(job: HierarchyJob) -> StatisticOfRows:
    """Parse the options of a hierarchy."""
    levels = list(job.levels or ())
    tree = Tree.from_leaves(cast("Any", job.groups), levels)
    targets = None if job.target is None else _floats_by_name(job.target)
    hierarchy = Hierarchy(
        tree, targets=targets, counts=job.count_column is not None, neighbours=_neighbours(job)
    )
    return StatisticOfRows(job.statistic, hierarchy, _with_counts(job, levels))


@parse_statistic.register
def parse_contingency(job: ContingencyJob) -> StatisticOfRows:
    """Parse the options of a contingency table."""
    columns = list(job.columns or ())
    values = cast("Mapping[str, Any]", job.groups)
    lacking = [column for column in columns if column not in values]
    # This check stands here because groups may come from a file, which was read before.
    if lacking:
        example = ";".join(f"{column}=A,B" for column in columns)
        raise InvalidInputError(
            f"{param('groups')} does not list the values of {lacking[0]!r}, which must be "
            f"public: list those of all columns, as in {param('groups', example)}"
        )
    contingency = Contingency(
        {column: values[column] for column in columns},
        equal=job.equal,
        counts=job.count_column is not None,
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, contingency, _with_counts(job, columns))


@parse_statistic.register
def parse_ranges(job: RangesJob) -> StatisticOfRows:
    """Parse the options of a line of cells."""
    label = _required(job.label)
    ranges = Ranges(
        tuple(cast("Any", job.groups)),
        name=label,
        workload=job.workload or "ranges",
        line=_line(job),
        counts=job.count_column is not None,
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, ranges, _with_counts(job, [label]))


@parse_statistic.register
def parse_report(job: ReportJob) -> StatisticOfRows:
    """Parse the options of a report."""
    members = cast("Mapping[str, Section]", job.statistics)
    parsed = {name: _parse_member(member) for name, member in members.items()}
    shares = {name: member.value_of("share") for name, member in members.items()}
    report = Report(
        {name: statistic.of_group for name, statistic in parsed.items()},
        columns={name: statistic.columns for name, statistic in parsed.items()},
        shares={name: share for name, share in shares.items() if share is not None},
        size=job.expected_rows,
    )
    return StatisticOfRows(job.statistic, report, report.column_names)


@parse_statistic.register
def parse_own_statistic(job: OwnStatisticJob) -> StatisticOfRows:
    """Parse a statistic that counton does not name, and the columns that it reads."""
    statistic = job.make_statistic()
    if not isinstance(statistic, AccumulatorStatistic) or statistic.ordered:
        raise InvalidInputError(
            f"{statistic!r} takes events in their order, which jobs do not: count them in memory, "
            "with counton.Running in Python"
        )
    columns = job.column_names
    if statistic.own_columns is not None:
        columns = statistic.own_columns.names
    # Groups inside it, and another number of columns, were refused with the options of the job.
    assert not isinstance(statistic, Grouped)
    assert len(columns) == len(statistic.parts)
    return StatisticOfRows(job.name_of_statistic(), statistic, columns)


def _parse_member(member: Section) -> StatisticOfRows:
    """Parse the options of one statistic of a report, which has all that it shows in its state."""
    job = job_of_member(member)
    if isinstance(job, DistinctJob):
        statistic = StatisticOfRows(job.statistic, FirstRows())
    else:
        statistic = parse_statistic(job)
    shares = parse_display(job.value_of).ask
    if shares is not None:
        of_group = statistic.of_group
        shown = type(of_group)(**{**of_group.parameters, "shares": shares})
        statistic = replace(statistic, of_group=shown)
    by = job.value_of("group_by")
    if by is None:
        return statistic
    (column,) = by  # several were refused with the options of the job
    groups = cast("GroupNames", normal_domain(job))
    refuse_long_terms(groups)
    return statistic.in_report(column, groups)


def job_of_member(member: Section) -> Job:
    """Return one statistic of a report as a job, which has no windows and no guarantee."""
    options = {name: getattr(member, name) for name in type(member).model_fields}
    statistic = options.pop("statistic")
    options.pop("share")
    return model_of(statistic).model_construct(statistic=statistic, **options)


def _required(value: object) -> Any:
    """Return the value of an option without which the statistic was refused before."""
    assert value is not None
    return value


def _line(job: QuantilesJob | RangesJob) -> str | None:
    return None if job.line == "auto" else job.line


def _neighbours(job: ReplaceOptions) -> Relation:
    return "replace" if job.replace else "add_remove"


def _with_counts(job: CountColumnOptions, columns: list[str]) -> tuple[str, ...]:
    return (*columns,) if job.count_column is None else (*columns, job.count_column)


def _floats_by_name(numbers: Any) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items()}


@singledispatch
def fit_targets(job: Job, half_widths: Mapping[str, float]) -> Job:
    """Return a job with options of its statistic that fit wanted half-widths of intervals."""
    return job


@fit_targets.register
def fit_targets_of_hierarchy(job: HierarchyJob, half_widths: Mapping[str, float]) -> Job:
    """Return a hierarchy whose targets have the ratios of the half-widths of its levels."""
    hierarchy = cast("Hierarchy", parse_statistic(job).of_group)
    targets = hierarchy.fitted_to(half_widths).targets
    return job.with_options(target=None if targets is None else dict(targets))


# ------------------------------------------------------------------------------------ normal form
def normal_options(job: Job) -> dict[str, object]:
    """Return those options of a statistic that may be written in several forms, in their normal
    form.

    >>> from counton.job.statistics import MomentsJob
    >>> normal_options(MomentsJob(state="s.db", columns="a, b", bounds="0:9,-0.50:2"))
    {'bounds': ('0:9', '-0.5:2')}
    """
    normal: dict[str, object] = {}
    bounds = job.value_of("bounds")
    if bounds is not None:
        normal["bounds"] = tuple(map(_exact_pair, bounds))
    statistics = job.value_of("statistics")
    if isinstance(job, PackageStatisticJob):
        normal |= job.normal_parameters()
    if statistics is not None:
        normal["statistics"] = {name: _normal_member(member) for name, member in statistics.items()}
    return normal


def _exact_pair(pair: str) -> str:
    """Return bounds with exact ends, as in "-0.5:2"."""
    return ":".join(text(exact(end, "bounds")) for end in pair.split(":"))


def _normal_member(member: Section) -> Section:
    job = job_of_member(member)
    normal = normal_options(job)
    if job.value_of("groups") is not None:
        domain = normal_domain(job)
        normal["groups"] = tuple(domain) if isinstance(domain, GroupNames) else domain
    return member.model_copy(update=normal)


@singledispatch
def normal_domain(job: Job) -> object:
    """Return the stated domain of a job in its normal form: the names of declared groups.

    Raises:
        InvalidInputError: it cannot be read, or seems to hold private rows.
    """
    by = job.value_of("group_by")
    domain = job.value_of("groups")
    return domain if by is None or domain is None else read_domain(domain, ",".join(by))


@normal_domain.register
def leaves_of_tree(job: HierarchyJob) -> object:
    """Return the labels of the leaves of a tree, by level."""
    refuse_counts(job.groups, job.count_column)
    levels = list(job.levels or ())
    if isinstance(job.groups, Mapping):
        return {str(level): list(labels) for level, labels in job.groups.items()}
    if isinstance(job.groups, str):
        table = read_tree_table(job.groups, levels)
    elif hasattr(job.groups, "__arrow_c_stream__"):
        table = _table_of_frame(job.groups, levels)
    else:
        return job.groups
    labels = labels_of(table, levels)
    return {level: names.tolist() for level, names in labels.items()}


def _table_of_frame(frame: Any, levels: Sequence[str]) -> pl.DataFrame:
    """Return the columns of the levels of a data frame that lists the leaves of a tree."""
    table = pl.DataFrame(frame)
    for level in levels:
        if level not in table.columns:
            raise InvalidInputError(
                f"the data frame of {param('groups')} has no column {level!r}; its columns "
                f"are {', '.join(table.columns)}"
            )
    return table.select(levels)


@normal_domain.register
def values_of_columns(job: ContingencyJob) -> object:
    """Return the possible values of each column."""
    refuse_counts(job.groups, job.count_column)
    values = values_of(job.groups, list(job.columns or ()))
    return {column: list(labels) for column, labels in values.items()}


@normal_domain.register
def cells_of_line(job: RangesJob) -> object:
    """Return the names of the cells of a line."""
    refuse_counts(job.groups, job.count_column)
    domain: Any = () if job.groups is None else job.groups
    return read_domain(domain, _required(job.label))


# --------------------------------------------------------------------------------- shown numbers
def parse_display(value_of: Callable[[str], Any]) -> DisplaySelection:
    """Parse the selection of the released numbers that a table shows.

    Args:
        value_of: function that returns the value of an option by its name, or None.

    Raises:
        InvalidInputError: an option has a wrong value.
    """
    ask: tuple[object, ...] | None = None
    shares = value_of("shares")
    intervals = value_of("ask")
    if shares is not None:
        ask = checked_shares([float(share) for share in shares])
    elif intervals is not None:
        ask = tuple(dict.fromkeys(intervals))
    return DisplaySelection(
        ask=ask, over=value_of("over") or None, top=value_of("top"), room=value_of("room")
    )
