"""The definition of a stream of events: fixed when the stream is created, and kept in its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counton.base.arrays import Integers
from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.base.exact import check_integer
from counton.frame.groups import GroupNames
from counton.frame.options import OwnColumns
from counton.frame.windows import Once, RevisedWindows, Windows, lags_in, load_zone, parse_time
from counton.job import stated_options as statements
from counton.job.job import NEWEST, NOW, Job, options_of
from counton.numbers import Design
from counton.privacy import Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.privacy.contribution import without_clock
from counton.privacy.guarantees import check_delta, guarantee_from
from counton.released.description import (
    Added,
    Bounded,
    BoundedBefore,
    Counting,
    Description,
    RowsLeftOut,
    statistic_kept,
)
from counton.released.marks import WindowMark
from counton.rows.row_reading import Columns
from counton.state.database import reading
from counton.statistics import TallyStatistic
from counton.statistics.by_group import inner_of
from counton.statistics.discovery import ROOM, cells_from_dict
from counton.statistics.statistic import shape_of
from counton.strategies import Expiring, StreamStrategy

#: Value that marks the public facts of streams that are made by jobs.
KIND = "events by window and group"
#: Options that together state the guarantee. A stream keeps the guarantee itself instead.
GUARANTEE = ("epsilon", "delta", "rho", "within")
#: All other options of a job that define its stream.
DEFINING = tuple(
    name
    for name, option in options_of(Job).items()
    if option.kept in ("stream", "reading") and name not in GUARANTEE
)
#: Kinds of options that a stream keeps from its last job.
REMEMBERED = ("policy", "view", "output")


@dataclass(frozen=True)
class StreamColumns(Columns):
    """Names of the columns of a stream's rows; ``own`` are those of the statistic."""

    own: OwnColumns = attribute(default_factory=OwnColumns)

    @classmethod
    def of(cls, record: Mapping[str, Any], details: Mapping[str, Any]) -> StreamColumns:
        """Return the columns of a stream; refuse one column that is named for two uses."""
        own = OwnColumns(**{name: tuple(each) for name, each in details["parts"].items()})
        one = len(own.names) == 1 and own.names == own.numbers
        value, several = (own.names[0], ()) if one else (None, own.names)
        time, by, user, row = (record.get(name) for name in ("time", "by", "user", "id"))
        told = time or "", by, value, user, row, several
        columns = cls(*told, own=own)
        if len(columns.parts) > len(set(columns.parts)):
            raise InvalidInput(
                f"the columns are {', '.join(columns.parts)}, and one of them is named twice; name "
                "another column for each"
            )
        return columns


class GroupSums(NamedTuple):
    """The exact sums that a stream keeps for each window and group.

    Attributes:
        rule: the statistic, if it has a rule of its own that turns rows into sums; otherwise None.
            Without such a rule the rows of a group are counted, or their values added up.
        places: number of sums that the statistic keeps for each group.
        measures: names of a group's exact numbers: ``rows``, and ``total`` if it can differ.
    """

    rule: TallyStatistic | None = None
    places: int = 1
    measures: tuple[str, ...] = ("rows",)


@dataclass(frozen=True, kw_only=True)
class Definition(Description):
    """A stream of events as its job defines it: statistic, columns, windows, groups and guarantee,
    fixed when the stream is created.

    Attributes:
        details: public facts that the state (database) keeps of the stream, as JSON values and
            names of groups.
        record: options that jobs stated, by name: see `from_details`.
        columns: columns of the rows.
        other: group that counts the rows of all groups that are not declared; None if there is
            none. It stands after the declared groups.
        new_rows: True if inputs hold new rows; False if they hold all rows of the windows that they
            cover.
        by_bytes: True if inputs hold new rows that no id recognises, but only the bytes of a file.
        ended: step at which the operator ended the stream; None if it was not ended.
        withdrawn: words for readers that say why the stream's numbers are withdrawn, and what
            replaces them; None: the numbers are valid.

    >>> from counton.run import Job
    >>> from counton.run.new_stream import define
    >>> request = Job(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, by="page", domain="home,shop", epsilon=1
    ... )
    >>> definition = define(request)
    >>> definition.groups, definition.strategy.saved_name
    (('home', 'shop'), 'Solved')
    """

    details: Mapping[str, Any]
    record: Mapping[str, Any]
    columns: StreamColumns
    other: str | None
    new_rows: bool
    by_bytes: bool
    ended: int | None
    withdrawn: str | None

    @classmethod
    def from_details(
        cls,
        details: Mapping[str, Any],
        statistic: TallyStatistic,
        guarantee: Guarantee,
        contribution: Contribution,
        strategy: StreamStrategy,
    ) -> Definition:
        """Build the definition of a stream from the public facts that its state (database) keeps.

        Args:
            details: public facts of the stream, by name. ``what`` is the name of its statistic,
                ``parts`` are its columns, ``domain`` its groups. ``once`` is True for a table that
                is released once. ``new_rows`` is True if inputs hold new rows. ``discovery`` says
                how groups are found. ``ended`` is the step at
                which the stream ended. ``withdrawn``, left out for valid numbers, says why numbers
                are withdrawn. ``record`` has the options that jobs stated: those that define the
                stream, and policies and outputs of the last job. Further
                entries of ``record`` tell what some job did: ``dropped`` that it left out rows of
                undeclared groups, ``skipped`` that it left out rows with a missing value,
                ``set_aside`` that it set unreadable rows aside.
            statistic, guarantee, contribution, strategy: see `Description`.

        Raises:
            InvalidInput: one column is named for two uses, such as user and id.
        """
        record = details["record"]
        cut = cut_of(record, once=details["once"])
        columns = StreamColumns.of(record, details)
        domain = None if details["domain"] is None else GroupNames(details["domain"])
        whole = cut.goes_on and not details["new_rows"]
        whole &= record.get("user") is None or cut.lags > 0 or record.get("covers") is not None
        return cls(
            what=details["what"],
            statistic=statistic,
            guarantee=guarantee,
            contribution=contribution,
            strategy=strategy,
            domain=domain,
            cut=cut,
            counting=counting_of(record, statistic),
            cells=cells_from_dict(details["discovery"]),
            unit=without_clock(contribution.unit),
            by=columns.group,
            value=columns.value,
            release=record["release"],
            metric=record["metric"],
            left_out=RowsLeftOut(
                bool(record.get("dropped")),
                _columns_skipped(record, columns, statistic) if record.get("skipped") else (),
                bool(record.get("set_aside")),
            ),
            ids=record.get("id") is not None,
            marks=tuple(WindowMark(*one) for one in details.get("marks", ())),
            changes=record.get("recounts", 0) if whole else None,
            details=details,
            record=record,
            columns=columns,
            other=record.get("other"),
            new_rows=details["new_rows"],
            by_bytes=details["new_rows"] and columns.id is None,
            ended=details["ended"],
            withdrawn=details.get("withdrawn"),
        )

    @classmethod
    def reopen(cls, saved: Design, details: Mapping[str, Any]) -> Definition:
        """Return an existing stream's definition; refuse a stream that no job made.

        Raises:
            RequestMismatch: no job made the stream.
            StateError: the public facts are malformed. They are read before the seal is checked.
        """
        if details.get("kind") != KIND:
            raise RequestMismatch(
                f"stream {saved.name!r} was not made from events and windows of time; continue it "
                f"with the Python program that made it, or choose another {field('name')}"
            )
        promise = saved.guarantee, saved.contribution, saved.strategy
        with reading(f"the details of stream {saved.name!r}"):
            column = next(iter(details["parts"]["names"]), None)
            statistic = statistic_kept(saved, details["what"], column)
            return cls.from_details(details, statistic, *promise)

    def having(self, **facts: Any) -> Definition:
        """Return a copy with some of the public facts replaced."""
        promise = self.guarantee, self.contribution, self.strategy
        return Definition.from_details({**self.details, **facts}, self.statistic, *promise)

    @cached_property
    def sums(self) -> GroupSums:
        """The exact sums that are kept for each group, and the rule by which rows change them."""
        rule = inner_of(self.statistic)
        if not (rule.rank_digits or any(part.name != "by" for part in rule.parts)):
            return GroupSums()
        return GroupSums(rule, rule.places, ("rows",) if rule.counts_rows else ("rows", "total"))

    @property
    def expires(self) -> bool:
        """True if the privacy loss depends on the age of the data."""
        return bool(self.record.get("expire"))

    @property
    def unit_in_ledger(self) -> str:
        """The ledger's name of the unit; a period's includes time zone and column of times."""
        from counton.state.ledger_rows import by_its_clock  # which needs a database's library

        window = getattr(self.statistic, "window", None)
        return by_its_clock(self.contribution.unit, self.record, window)

    def measure(self, sums: Integers) -> Integers:
        """Convert the sums of each step to the values that the step releases, before noise. Sums
        and values are integer multiples of the resolution.

        Args:
            sums: sums of each step by group and place, shape ``(steps, groups * places)``. A place
                is one of the sums that the statistic keeps for each group. If windows are released
                in several versions, the array has several rows for each step: see
                `counton.run.changes.Intake.inputs`.

        Returns:
            The values of each step. If windows are released in several versions, the last axis has
            one entry for each version.
        """
        if self.statistic.additive:
            found = sums.reshape(len(sums), *(self.shape if self.cells.named_beforehand else (-1,)))
        else:
            each = sums if self.cells.named_beforehand else sums.reshape(-1, self.sums.places)
            found = self.statistic.measure(each)
            if not self.cells.named_beforehand:
                found = found.reshape(len(sums), -1)
        if not self.cut.lags:
            return found
        return np.moveaxis(found.reshape(-1, self.cut.lags + 1, *found.shape[1:]), 1, -1)

    @property
    def declared_groups(self) -> GroupNames:
        """Names of the declared groups, without the group of all others."""
        return self.groups if self.other is None else self.groups[:-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of cells that the stream releases in one step."""
        if not self.cells.named_beforehand:
            return (ROOM,)
        return shape_of(self.statistic, None if self.domain is None else len(self.groups))


def remembering(record: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """Return a stream's record with a job's policies and outputs, if any, for later jobs.

    An option that a later run states first (`counton.frame.options.Option.later`) is added.
    """
    known = statements.options_of_job(job)
    anew = {name for name, one in known.items() if one.kept in REMEMBERED}
    if job.output.out is None and job.output.plot is None:
        anew -= {name for name in anew if known[name].kept == "output"}
    if job.format.file_format is None:
        anew -= {"file_format"}  # later nights may have files that need it again
    said = {
        name: statements.kept_value(known[name], job.option(name))
        for name in anew
        if job.option(name) != known[name].default
        and (name, job.option(name)) != ("unknown", "discover")
    }
    fixed = {name: value for name, value in record.items() if name not in anew}
    for name, option in known.items():
        if option.later and job.states(name) and record.get(name) in (None, option.usual):
            fixed[name] = job.option(name)
    if said.get("unknown") == "drop":  # releases until then lack rows for ever
        fixed["dropped"] = True
    if said.get("missing") == "skip":
        fixed["skipped"] = True
    if job.format.policies().quarantine is not None:
        fixed["set_aside"] = True
    return fixed | said


def check_words(job: Job) -> None:
    """Refuse values of options that no stream takes."""
    own = [one.name for one in statements.own_options(job.what) if one.column]
    for name in ("time", "by", "user", "id", *own):
        if job.option(name) == "":
            raise InvalidInput(
                f"{field(name)} is empty; give the name of a column, or leave it out"
            )
    user = job.people.user
    if user is not None and user == job.times.time:
        raise InvalidInput(
            f"{field('user', user)} and {field('time', user)} name the same column, and a time "
            f"says nobody's name; give the column that names the user of a row"
        )
    if user is not None and user == job.rows.id:
        raise InvalidInput(
            f"{field('user', user)} and {field('id', user)} name the same column, so only one row "
            f"of each user would ever count; give a column as {field('id')} that differs from row "
            f"to row, or leave {field('id')} out (to count each user once, give "
            f"{field('first', True)})"
        )
    if job.times.timezone is not None:
        load_zone(job.times.timezone)
    if job.times.quiet is not None:
        check_integer("quiet", job.times.quiet, 0)
    if job.times.until not in (None, NOW, NEWEST):
        parse_time(job.times.until or "", job.times.timezone or "UTC")


def check_discovery(job: Job, by: str | None) -> None:
    """Refuse private discovery of the groups ``by`` if options or statistic forbid it."""
    asked = field("unknown", "discover")
    if by is None:
        raise InvalidInput(f"{asked} needs {field('by')}, the column of the groups; give it")
    kind, what = statements.kind_of(job.what), statements.name_of(job.what)
    if not kind.finds:
        raise InvalidInput(
            f"{asked} finds groups by their number of rows, which is possible for counts, sums and "
            f"averages, but not for {what}; list the groups "
            f"({field('domain')})"
        )
    if job.states("release") and (job.noise.release != "windows" or kind.ranks):
        raise InvalidInput(
            f"{field('release', job.noise.release)} does not go with {asked}, since each group is "
            "shown from some window on; publish totals, or windows alone"
        )
    if job.lateness.revise is not None and kind.ranks:
        raise InvalidInput(
            f"{field('revise', job.lateness.revise)} does not go with a {what} of groups that "
            f"nobody declared: count them, and take the largest of the table, or declare them "
            f"({field('domain')})"
        )
    if job.noise.strategy not in (None, "auto", "binary", "kary", "smooth"):
        raise InvalidInput(
            f"{field('strategy', job.noise.strategy)} does not go with {asked}, which is proven "
            "only for binary, kary and smooth; give one of these, or auto"
        )


def stated_guarantee(job: Job, *, expires: bool) -> Guarantee | None:
    """Return a job's guarantee or None; with ``expires``, not bound to a strategy yet."""
    epsilon, delta, rho = job.promise.epsilon, job.promise.delta, job.promise.rho
    if job.promise.within is not None:
        check_delta(delta)
        return None
    if not expires:
        return guarantee_from(epsilon, delta, rho)
    if delta is not None:
        raise InvalidInput(
            f"{field('delta', delta)} does not go with {field('expire')}; give {field('epsilon')} "
            f"alone or {field('rho')} alone"
        )
    if epsilon is not None and rho is not None:
        raise needs_one_loss()
    if rho is not None:
        return ExpiringZCDP(rho)
    return None if epsilon is None else ExpiringDP(epsilon)


def needs_one_loss() -> InvalidInput:
    """Build the error for a job with an expiring guarantee that states no privacy loss, or two."""
    return InvalidInput(
        f"{field('expire')} needs either {field('epsilon')} or {field('rho')}, the loss of the "
        f"newest event; {field('plan_expiring(...)')} finds it from the losses that you allow at "
        "each age"
    )


def growth_of(job: Job) -> str:
    """Return ``growth``, by default 1, as exact text: loss grows like log(age)^growth."""
    return str(Expiring(1 if job.promise.growth is None else job.promise.growth).growth)


def cut_of(record: Mapping[str, Any], *, once: bool) -> Windows:
    """Return the rule that assigns rows to steps: time windows, or one step for all."""
    if once:
        return Once()
    start = datetime.fromisoformat(record["start"])
    told = start, record["every"], record["steps"], record["timezone"]
    if (revise := record.get("revise")) is not None:
        return RevisedWindows(*told, lags_in(revise, record["every"]) + 1)
    return Windows(*told)


def counting_of(record: Mapping[str, Any], statistic: TallyStatistic) -> Counting:
    """Return the rule of the rows that count: a bounded number of each user's, or all."""
    row = record.get("row", Bounded.row)
    if (moves := record.get("moves")) is not None:
        return BoundedBefore(moves, row)
    if record.get("user") is None:
        return Added()
    each = 1 if record.get("first") else rows_of_each_group(statistic)
    per, distinct = record.get("per"), bool(record.get("distinct"))
    return Bounded(record["most"], per, distinct, each, record.get("most_a_window"), row)


def rows_of_each_group(statistic: TallyStatistic | None) -> int | None:
    """Return the bound on a user's counted rows in each group, or None."""
    ranks = () if statistic is None else inner_of(statistic).counted_ranks
    return ranks[-1] if ranks else None


def _columns_skipped(
    record: Mapping[str, Any], columns: Columns, statistic: TallyStatistic
) -> tuple[str, ...]:
    """Return the columns whose missing values leave a row out, if the job skips missing values.

    A row without a label counts in no group anyway; undeclared groups may be counted or dropped.
    """
    grouped = record.get("other") is None and record.get("unknown", "refuse") == "refuse"
    inner, own = inner_of(statistic), columns.parts
    if own:
        parts = [part for part in inner.parts if part.name != "by"]
        own = tuple(name for name, part in zip(own, parts, strict=True) if part.kind != "label")
    group = columns.group if grouped else None
    named = (columns.time, group, *own, columns.user, columns.id)
    return tuple(dict.fromkeys(filter(None, named)))
