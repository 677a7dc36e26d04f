"""The options that jobs share, by the section of the help that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, dataclass_transform

from pydantic import Field

from counton.base.errors import hide_secrets
from counton.base.strategy_names import FAMILIES, PAPERS, PUBLISHED
from counton.job import values as v
from counton.job.model_registry import REGISTRY
from counton.job.option_fields import (
    ALL_JOBS,
    EACH_RUN,
    FILE_ONLY,
    OFTEN,
    OUTPUT,
    REMEMBERED,
    RUN_ONLY,
    STREAM,
    ExplainedModel,
    Section,
    option,
)

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from counton.job.typed_kwargs import EventSource, JobOptions
    from counton.statistics import Statistic


class WindowOptions(Section):
    """The windows of time, and which of them a run releases."""

    heading = "Windows"
    scope = STREAM

    time: v.Column | None = option("Column with the time of each row.", OFTEN)
    every: v.Length | None = option("Length of a window: 15m, 1h, 1d, 1w or 1mo.", OFTEN)
    windows: v.Positive | None = option("Number of windows of the stream.", OFTEN)
    expected_windows: v.Positive | None = option(
        "Expected number of windows of a stream without a last window."
    )
    start: v.Moment | None = option("Start of the first window, as in 2024-03-01.", OFTEN)
    until: v.Moment | None = option(
        "Release the windows that ended by this time, minus release-delay, or latest-event: by the "
        "newest row. [default: now]",
        EACH_RUN,
        OFTEN,
        ALL_JOBS,
    )
    allow_empty_windows: bool = option(
        "Release even if rows seem to be missing.", EACH_RUN, ALL_JOBS, default=False
    )
    max_empty_windows: v.NotNegative | None = option(
        "Stop at more windows in a row without rows after the newest row, and with lookback or "
        "append also before it. [default of a new stream: 0 with lookback, else 2]",
        REMEMBERED,
        RUN_ONLY,
        FILE_ONLY,
    )
    timezone: v.Timezone | None = option(
        "Time zone of windows and of times without a zone. [default: UTC]"
    )


class LateDataOptions(Section):
    """What happens to rows that come after their window has ended."""

    heading = "Late data"
    scope = STREAM

    release_delay: v.Delay | None = option(
        "Time from the end of a window to its release, as in 6h.", REMEMBERED
    )
    allowed_lateness: v.Length | None = option(
        "How long late rows still change their own window, as in 14d."
    )
    max_corrections: v.Positive | None = option(
        "Number of changes of a counted row that the guarantee covers. [default: 0]", FILE_ONLY
    )


class DeclaredGroupOptions(Section):
    """The declared groups or cells, which are public."""

    heading = "Groups"
    scope = STREAM

    groups: v.Domain | None = option("All groups, publicly known: a file, or A,B,C.", OFTEN)


class GroupOptions(DeclaredGroupOptions):
    """The columns whose values are the groups of rows."""

    heading = "Groups"
    scope = STREAM

    group_by: v.Columns | None = option("Column with each row's group, or several: A,B.", OFTEN)
    other_group: v.Text | None = option("Name of one more group, for rows of undeclared groups.")


class UnlistedGroupOptions(Section):
    """What happens to rows of groups that nobody declared."""

    heading = "Groups"
    scope = REMEMBERED

    unlisted_groups: Literal["error", "drop"] | None = option(
        "What happens to rows of undeclared groups. [default: error]"
    )


class DiscoveredGroupOptions(Section):
    """The same for statistics that can publish undeclared groups above a noisy threshold."""

    heading = "Groups"
    scope = REMEMBERED

    unlisted_groups: Literal["error", "drop", "discover"] | None = option(
        "What happens to rows of undeclared groups; discover publishes large ones. [default: error]"
    )


class PrivacyOptions(Section):
    """The privacy loss."""

    heading = "Privacy"
    scope = STREAM

    epsilon: v.Loss | None = option(
        "Privacy loss of one event, user or user's period. Smaller protects more and adds noise.",
        OFTEN,
    )
    delta: v.Delta | None = option("The delta of an (epsilon, delta) guarantee, as in 1e-6.")
    rho: v.Loss | None = option("Zero-concentrated privacy loss, in place of epsilon.")
    margin_of_error: v.HalfWidth | None = option(
        "Largest margin of error at the last window, in place of epsilon: 20, or 2%.", EACH_RUN
    )
    solve_for: Literal["epsilon", "rho"] | None = option(
        "Which privacy loss margin-of-error finds. [default: epsilon]", EACH_RUN, FILE_ONLY
    )
    expected_rows: v.RowNumber | None = option(
        "Public number of rows by the last window, of which margin-of-error is a share.",
        EACH_RUN,
        FILE_ONLY,
    )
    expiring: bool = option(
        "Let the protection of an event fade as the event gets older.", default=False
    )
    expiration_growth: v.Exact | None = option(
        "With expiring: the loss grows like log(age)^GROWTH. [default: 1]"
    )
    expiration_delay: v.NotNegative | None = option(
        "With expiring: number of windows until an event counts. [default: 0]"
    )
    privacy_unit: v.Unit | None = option(
        "Name of the protected unit in the privacy ledger. [default: event or user]"
    )


class SeriesOptions(Section):
    """The released series."""

    heading = "Mechanism"
    scope = STREAM

    series: Literal["cumulative", "per-window", "both"] | None = option(
        "Which numbers to publish. [default: cumulative]", OFTEN
    )


class RollingSeriesOptions(Section):
    """The released series of counts, sums and averages, which may be of the last windows."""

    heading = "Mechanism"
    scope = STREAM

    series: Literal["cumulative", "per-window", "both", "rolling", "decayed"] | None = option(
        "Which numbers to publish; rolling: of the last windows. [default: cumulative]", OFTEN
    )
    last: v.Lengths | None = option(
        "Publish the sum or average of this last time, as in 7d, or several: 1d,7d,28d."
    )
    half_life: v.Length | None = option(
        "With series decayed: length of time after which a window counts half, as in 7d."
    )


class PeriodSeriesOptions(Section):
    """The released series where a user counts anew in each period."""

    heading = "Mechanism"
    scope = STREAM

    series: Literal["cumulative", "per-window", "both", "period-to-date"] | None = option(
        "Which numbers to publish; period-to-date counts since a period began. "
        "[default: cumulative, with contribution-period: period-to-date]",
        OFTEN,
    )


class MechanismOptions(Section):
    """The strategy that shares noise between windows, and its error metric."""

    heading = "Mechanism"
    scope = STREAM

    strategy: v.StrategyName | None = option(
        f"Strategy: auto, {PUBLISHED}, {', '.join(FAMILIES)}, {', '.join(PAPERS)}, or a file "
        "mine.json. [default: auto]"
    )
    metric: Literal["mean", "max"] | None = option(
        "Error that the strategy minimises, over all windows. [default: mean]", FILE_ONLY
    )
    simple: bool = option(
        "Use strategies that publish whole numbers, without a search.",
        FILE_ONLY,
        default=False,
    )


class UserOptions(Section):
    """The column of users, who are protected in place of single rows."""

    heading = "Contributions"
    scope = STREAM

    user: v.Column | None = option("Column of users, who are then protected.", OFTEN)
    max_contributions: v.MostEvents | None = option("How many rows of a user count.", OFTEN)


class UserPeriodOptions(UserOptions):
    """Users who are protected in each period anew."""

    heading = "Contributions"
    scope = STREAM

    contribution_period: v.Length | None = option("Period of this bound on a user, as in 1d.")
    retain: v.Length | None = option(
        "How long after a period its users are remembered, as in 7d. [default: 35d]",
        REMEMBERED,
        FILE_ONLY,
    )


class UserRowOptions(UserPeriodOptions):
    """Users of whom several rows count, one in each window, or one for ever."""

    heading = "Contributions"
    scope = STREAM

    max_contributions_per_window: v.Positive | None = option(
        "How many rows of a user count in one window.", FILE_ONLY
    )
    event_name: v.Text | None = option(
        "What texts call one row of a user, as in loan. [default: event]", FILE_ONLY
    )
    once_per_window: bool = option(
        "Count a user once in each window and group, and again in another period of one window.",
        FILE_ONLY,
        default=False,
    )
    distinct_users: bool = option("Count each user once in the whole stream.", default=False)


class InputOptions(Section):
    """The form of rows, which rows a run's files hold, and what happens to unreadable ones."""

    heading = "Input"
    scope = REMEMBERED

    file_format: Literal["csv", "parquet", "jsonl"] | None = option(
        "Format of the files. [default: by their endings]", RUN_ONLY, key="format"
    )
    separator: v.Text | None = option(
        "CSV: character between fields: , ; | or tab. [default: ,]", RUN_ONLY
    )
    decimal: Literal[".", ","] | None = option("CSV: decimal sign. [default: .]", STREAM, RUN_ONLY)
    time_format: v.TimeFormat | None = option(
        "How times are written: epoch, epoch_ms, epoch_us, epoch_ns, or as in %d.%m.%Y. "
        "[default: ISO 8601]",
        STREAM,
    )
    ambiguous: Literal["raise", "earliest", "latest"] | None = option(
        "Which moment is meant by a local time that occurs twice. [default: raise]",
        STREAM,
        FILE_ONLY,
    )
    bad_rows: v.BadRows | None = option(
        "What happens to unreadable rows: fail or quarantine:FILE. [default: fail]", RUN_ONLY
    )
    max_bad_rows: v.NotNegative | None = option(
        "How many rows may be set aside in a run. [default: 1000]", RUN_ONLY, FILE_ONLY
    )
    missing_values: Literal["fail", "drop"] | None = option(
        "Rows without a needed value: drop leaves them out, and fail treats them as unreadable "
        "rows. [default: fail]",
        FILE_ONLY,
    )
    row_id: v.Column | None = option("Column with an id of each row; an id counts once.", STREAM)
    query: v.Text | None = option("SELECT that chooses the rows of a database.", EACH_RUN, RUN_ONLY)
    append: bool = option("Each file holds new rows only.", STREAM, default=False)
    lookback: v.Length | None = option(
        "The files hold all rows of this last time, as in 7d. [default: all since start]",
        RUN_ONLY,
        OFTEN,
    )


class OutputOptions(Section):
    """The files and charts that a run writes, and their form."""

    heading = "Output"
    scope = OUTPUT

    output: v.File | None = option("File for the table: .parquet, .csv or .json.", RUN_ONLY, OFTEN)
    chart: v.File | None = option("File for a chart: .png, .svg or .pdf.", RUN_ONLY)
    title: v.Text | None = option("Title of the chart.", FILE_ONLY)
    axis: v.Text | None = option("Label of the chart's vertical axis.", FILE_ONLY)
    source: v.Text | None = option("Line below the chart that names the source.", FILE_ONLY)
    width: v.Size | None = option("Width of the chart in inches. [default: 7.5]", FILE_ONLY)
    confidence_level: v.Share | None = option(
        "Confidence level of the intervals. [default: 0.95]", REMEMBERED
    )


class StateOptions(Section):
    """The state (database) that keeps the stream, and its secrets."""

    heading = "State"
    scope = EACH_RUN

    state: v.State | None = option("Secret SQLite file or database URL of the stream.", OFTEN)
    stream: v.Text | None = option("Name of the stream in the state. [default: its statistic]")
    key: v.KeySource | None = option(
        "Where the key is: a file, env:NAME or command:... [default: STATE.key]"
    )
    rollback_guard: v.RollbackGuard | None = option(
        "Folder outside the state whose notes reveal an old copy of the state; or none."
    )


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _JobOfAnyStatistic(ExplainedModel):
    """Metaclass of jobs: ``Job("count", ...)`` makes the job of that statistic."""

    if not TYPE_CHECKING:  # type checkers read `Job.__init__`, and the fields of other models

        def __call__(cls, *arguments: object, **options: object) -> Job:  # noqa: N805
            if cls is not Job:
                return super().__call__(*arguments, **options)
            return REGISTRY.make_job(*arguments, **options)


class Job(
    StateOptions,
    OutputOptions,
    InputOptions,
    MechanismOptions,
    PrivacyOptions,
    LateDataOptions,
    WindowOptions,
    metaclass=_JobOfAnyStatistic,
):
    """The options of every job. Each statistic adds its own. An option that is None is not stated.

    ``Job("count", events, state, ...)`` makes a job of a statistic's name, and ``Job(Average(0, 9,
    resolution=1), ...)`` one of a statistic. A new stream needs the options that define it. A later
    job may leave them out, and may not contradict them.

    >>> job = Job("count", "visits.csv", "visits.db", every="1d")
    >>> job
    CountJob(every='1d', state='visits.db')
    >>> job.state, job.every, job.windows
    ('visits.db', '1d', None)

    Attributes:
        summary: what the statistic computes, in one sentence.
        also_called: other names of the statistic, for messages.
        example: options of an example, as a command states them.
        example_file: path and text of a file that the example needs.
        may_be_single_table: whether rows without times make one table, which is released once.
        needs: its own options that a new stream must state.
    """

    statistic: str
    events: Annotated[
        v.Events | None,
        option("File, folder or pattern of the rows, several of these, or - for standard input."),
    ] = None

    summary: ClassVar[str] = ""
    also_called: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[Mapping[str, str]] = {}
    example_file: ClassVar[tuple[str, str] | None] = None
    may_be_single_table: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            what: str | Statistic,
            events: EventSource | None,
            state: str | os.PathLike[str] | None,
            **options: Unpack[JobOptions],
        ) -> None: ...

    def name_of_statistic(self) -> str:
        """Return the name of the statistic, as tables and usual names of streams have it."""
        return self.statistic

    def own_statistic(self) -> Statistic | None:
        """Return the statistic, if counton does not name it and the job states all of it."""
        return None

    def normal_parameters(self) -> dict[str, object]:
        """Return the stated parameters of a statistic of another package, as it keeps them."""
        return {}

    def allows_single_table(self) -> bool:
        """Return whether rows without times make one table, which is released once."""
        return self.may_be_single_table

    def is_single_table(self) -> bool:
        """Return whether the job releases one table of rows without times."""
        return self.time is None and self.windows is None and self.allows_single_table()

    def stated_options(self) -> dict[str, object]:
        """Return the options whose value differs from leaving them out, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        del values["statistic"]
        return {name: value for name, value in values.items() if is_stated(value)}

    def has_stated(self, name: str) -> bool:
        """Return whether the job states an option; False if its statistic has no such option.

        Args:
            name: name of the option, as Python spells it.
        """
        return is_stated(self.value_of(name))

    def with_options(self, **options: object) -> Job:
        """Return a copy with other values of some options, which are not checked again."""
        return self.model_copy(update=options)

    def derive(self, **options: object) -> Job:
        """Return a job with other values of some options, or with another statistic, ``what``.

        Raises:
            InvalidInputError: an option is wrong.

        >>> Job("average", "visits.csv", "visits.db", lower=0).derive(lower=1, windows=9)
        AverageJob(windows=9, state='visits.db', lower=Fraction(1, 1))
        """
        make_job = REGISTRY.make_job
        what = options.pop("what", None)
        if what is not None:
            other: Job = make_job(what, **{**self.stated_options(), **options})
            return other
        added = make_job(self.statistic, **options)
        names = [name for name in options if name in type(self).model_fields]
        return self.with_options(**{name: added.value_of(name) for name in names})

    def __repr__(self) -> str:
        """Return the job as a call with its stated options, without its rows and passwords."""
        options = self.stated_options()
        options.pop("events", None)
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return hide_secrets(f"{type(self).__name__}({shown})")

    __str__ = __repr__


def is_stated(value: object) -> bool:
    """Return whether the value of an option differs from leaving the option out."""
    return value is not None and value is not False
