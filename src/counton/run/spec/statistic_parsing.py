"""What the options of each statistic mean: a statistic of the core, and the columns that it reads.

A statistic is added by a model of its options (`counton.job.statistics`), one function here, and
its line in `_PARSERS`. If its domain is not a list of groups, a second function reads it, with a
line in `_DOMAINS`. Classes and models of statistics are imported when a job has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from counton import statistics, tables
from counton.base.arguments import DEFAULT_TOP
from counton.base.errors import InvalidInputError, param
from counton.base.exact import exact, text
from counton.io.declared_groups import read_domain, refuse_long_terms
from counton.job.common_options import Job
from counton.job.group_tables import labels_of, read_tree_table, refuse_counts, values_of
from counton.job.incompatible import refuse_groups
from counton.job.option_fields import Section
from counton.job.statistics import STATISTIC_NAMES, model_of
from counton.privacy.contribution import Relation
from counton.results.display import DisplaySelection
from counton.run.spec.terms import RankingOfGroups, StatisticOfRows
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.job.custom_statistic import OwnStatisticJob
    from counton.job.report import ReportJob
    from counton.job.statistic_options import CountColumnOptions, ReplaceOptions
    from counton.job.statistics.average import AverageJob
    from counton.job.statistics.contingency import ContingencyJob
    from counton.job.statistics.count import CountJob
    from counton.job.statistics.distinct import DistinctJob
    from counton.job.statistics.hierarchy import HierarchyJob
    from counton.job.statistics.moments import MomentsJob
    from counton.job.statistics.quantiles import QuantilesJob
    from counton.job.statistics.ranges import RangesJob
    from counton.job.statistics.reach import ReachJob
    from counton.job.statistics.sum import SumJob
    from counton.job.statistics.top_k import TopKJob

#: Default of the option ``grid``.
_DEFAULT_GRID = 256


# ------------------------------------------------------------------------------------- statistics
def parse_count(job: CountJob) -> StatisticOfRows:
    """Parse the options of a count."""
    columns = () if job.count_column is None else (job.count_column,)
    return StatisticOfRows(
        job.statistic, statistics.Count(counts=job.count_column is not None), columns
    )


def parse_distinct(job: DistinctJob) -> StatisticOfRows:
    """Parse a count of distinct users: of the first row of each."""
    return StatisticOfRows(job.statistic, statistics.Count())


def parse_reach(job: ReachJob) -> StatisticOfRows:
    """Parse the options of a count of users by their number of rows."""
    thresholds = (1,) if job.at_least is None else tuple(job.at_least)
    text_of_thresholds = ",".join(map(str, thresholds))  # which an error shows
    return StatisticOfRows(job.statistic, statistics.Reach(text_of_thresholds))


def parse_sum(job: SumJob) -> StatisticOfRows:
    """Parse the options of a sum."""
    statistic = statistics.Sum(
        _required(job.lower), _required(job.upper), _required(job.resolution)
    )
    return StatisticOfRows(job.statistic, statistic, (_required(job.value),))


def parse_average(job: AverageJob) -> StatisticOfRows:
    """Parse the options of an average."""
    statistic = statistics.Average(
        _required(job.lower), _required(job.upper), _required(job.resolution)
    )
    return StatisticOfRows(job.statistic, statistic, (_required(job.value),))


def parse_quantiles(job: QuantilesJob) -> StatisticOfRows:
    """Parse the options of quantiles."""
    quantiles = statistics.Quantiles(
        edges=None if job.edges is None else [float(edge) for edge in job.edges],
        lower=cast("Any", job.lower),
        upper=cast("Any", job.upper),
        cells=job.cells,
        line=_line(job),
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, quantiles, (_required(job.value),))


def parse_moments(job: MomentsJob) -> StatisticOfRows:
    """Parse the options of moments."""
    columns = tuple(job.columns or ())
    pairs = [tuple(ends.split(":")) for ends in job.bounds or ()]
    bounds: Any = dict(zip(columns, pairs, strict=True))
    moments = statistics.Moments(bounds, grid=job.grid or _DEFAULT_GRID)
    return StatisticOfRows(job.statistic, moments, columns)


def parse_ranking(job: TopKJob) -> StatisticOfRows:
    """Parse the options of a ranking."""
    return RankingOfGroups(
        job.statistic, statistics.Count(), shown=job.top or DEFAULT_TOP, neighbours=_neighbours(job)
    )


def parse_hierarchy(job: HierarchyJob) -> StatisticOfRows:
    """Parse the options of a hierarchy."""
    levels = list(job.levels or ())
    tree = tables.Tree.from_leaves(cast("Any", job.groups), levels)
    targets = None if job.target is None else _floats_by_name(job.target)
    hierarchy = statistics.Hierarchy(
        tree, targets=targets, counts=job.count_column is not None, neighbours=_neighbours(job)
    )
    return StatisticOfRows(job.statistic, hierarchy, _with_counts(job, levels))


def parse_contingency(job: ContingencyJob) -> StatisticOfRows:
    """Parse the options of a contingency table."""
    columns = list(job.columns or ())
    values = cast("Mapping[str, Any]", job.groups)
    contingency = statistics.Contingency(
        {column: values[column] for column in columns},
        equal=job.equal,
        counts=job.count_column is not None,
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, contingency, _with_counts(job, columns))


def parse_ranges(job: RangesJob) -> StatisticOfRows:
    """Parse the options of a line of cells."""
    label = _required(job.label)
    ranges = statistics.Ranges(
        tuple(cast("Any", job.groups)),
        name=label,
        workload=job.workload or "ranges",
        line=_line(job),
        counts=job.count_column is not None,
        neighbours=_neighbours(job),
    )
    return StatisticOfRows(job.statistic, ranges, _with_counts(job, [label]))


def parse_report(job: ReportJob) -> StatisticOfRows:
    """Parse the options of a report."""
    members = cast("Mapping[str, Section]", job.statistics)
    parsed = {name: _parse_member(member) for name, member in members.items()}
    shares = {name: member.value_of("share") for name, member in members.items()}
    report = statistics.Report(
        {name: statistic.of_group for name, statistic in parsed.items()},
        columns={name: statistic.columns for name, statistic in parsed.items()},
        shares={name: share for name, share in shares.items() if share is not None},
        size=job.expected_rows,
    )
    return StatisticOfRows(job.statistic, report, report.column_names)


def parse_own_statistic(job: OwnStatisticJob) -> StatisticOfRows:
    """Parse a statistic that counton does not name, and the columns that it reads."""
    statistic = job.make_statistic()
    if not isinstance(statistic, statistics.AccumulatorStatistic) or statistic.ordered:
        raise InvalidInputError(
            f"{statistic!r} takes events in their order, which jobs do not: count them in memory, "
            "with counton.Running in Python"
        )
    columns = job.column_names
    if statistic.own_columns is not None:
        columns = statistic.own_columns.names
    # Groups inside it, and another number of columns, were refused with the options of the job.
    assert not isinstance(statistic, statistics.Grouped)
    assert len(columns) == len(statistic.parts)
    return StatisticOfRows(job.name_of_statistic(), statistic, columns)


#: Functions that parse the options of counton's own statistics.
_PARSERS: Mapping[str, Callable[[Any], StatisticOfRows]] = {
    "count": parse_count,
    "sum": parse_sum,
    "average": parse_average,
    "quantiles": parse_quantiles,
    "top-k": parse_ranking,
    "hierarchy": parse_hierarchy,
    "ranges": parse_ranges,
    "contingency": parse_contingency,
    "moments": parse_moments,
    "distinct": parse_distinct,
    "reach": parse_reach,
    "report": parse_report,
}


def parse_statistic(job: Job) -> StatisticOfRows:
    """Parse the options of a job's statistic, in their normal form.

    Args:
        job: a job whose statistic has all options that it needs.

    Raises:
        InvalidInputError: an option has a wrong value.
    """
    if job.statistic in STATISTIC_NAMES:
        return _PARSERS[job.statistic](job)
    return parse_own_statistic(cast("OwnStatisticJob", job))


def _parse_member(member: Section) -> StatisticOfRows:
    """Parse the options of one statistic of a report, which has all that it shows in its state."""
    job = job_of_member(member)
    if job.statistic == "distinct":
        from counton.statistics.report_members import FirstRows

        statistic = StatisticOfRows(job.statistic, FirstRows())
    else:
        statistic = parse_statistic(job)
    shares = parse_display(job.value_of).ask
    if shares is not None:
        group_statistic = statistic.of_group
        shown = type(group_statistic)(**{**group_statistic.parameters, "shares": shares})
        statistic = replace(statistic, of_group=shown)
    group_by = job.value_of("group_by")
    if group_by is None:
        return statistic
    (column,) = group_by  # several were refused with the options of the job
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


def fit_targets(job: Job, half_widths: Mapping[str, float]) -> Job:
    """Return a job with options of its statistic that fit wanted half-widths of intervals.

    The targets of a hierarchy get the ratios of the half-widths of its levels.
    """
    if job.statistic != "hierarchy":
        return job
    hierarchy = cast("statistics.Hierarchy", parse_statistic(job).of_group)
    targets = hierarchy.fitted_to(half_widths).targets
    return job.with_options(target=None if targets is None else dict(targets))


# ------------------------------------------------------------------------------------ normal form
def normal_options(job: Job) -> dict[str, object]:
    """Return those options of a statistic that may be written in several forms, in their normal
    form.

    >>> from counton.job.statistics.moments import MomentsJob
    >>> normal_options(MomentsJob(state="s.db", columns="a, b", bounds="0:9,-0.50:2"))
    {'bounds': ('0:9', '-0.5:2')}
    """
    normal: dict[str, object] = {}
    bounds = job.value_of("bounds")
    if bounds is not None:
        normal["bounds"] = tuple(map(_exact_pair, bounds))
    normal |= job.normal_parameters()
    members = job.value_of("statistics")
    if members is not None:
        normal["statistics"] = {name: _normal_member(member) for name, member in members.items()}
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


def normal_domain(job: Job) -> object:
    """Return the stated domain of a job in its normal form: names of declared groups, or cells.

    Raises:
        IncompatibleOptionsError: other options of the job do not allow it.
        InvalidInputError: it cannot be read, or seems to hold private rows.
    """
    domain = _read_domain(job)
    refuse_groups(job, domain)
    return domain


def _read_domain(job: Job) -> object:
    read_cells = _DOMAINS.get(job.statistic)
    if read_cells is not None:
        return read_cells(job)
    group_by = job.value_of("group_by")
    domain = job.value_of("groups")
    return domain if group_by is None or domain is None else read_domain(domain, ",".join(group_by))


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


def values_of_columns(job: ContingencyJob) -> object:
    """Return the possible values of each column."""
    refuse_counts(job.groups, job.count_column)
    values = values_of(job.groups, list(job.columns or ()))
    return {column: list(labels) for column, labels in values.items()}


def cells_of_line(job: RangesJob) -> object:
    """Return the names of the cells of a line."""
    refuse_counts(job.groups, job.count_column)
    domain: Any = () if job.groups is None else job.groups
    return read_domain(domain, _required(job.label))


#: Functions that read the domain of a statistic whose domain is not a list of groups.
_DOMAINS: Mapping[str, Callable[[Any], object]] = {
    "hierarchy": leaves_of_tree,
    "contingency": values_of_columns,
    "ranges": cells_of_line,
}


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
        from counton.statistics.quantiles import checked_shares

        ask = checked_shares([float(share) for share in shares])
    elif intervals is not None:
        ask = tuple(dict.fromkeys(intervals))
    return DisplaySelection(
        ask=ask, over=value_of("over") or None, top=value_of("top"), room=value_of("room")
    )
