"""What defines a stream of events: fixed when it is created, kept with it, and opened again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from counton.base.arrays import Integers
from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.base.groups import GroupNames
from counton.base.options import OwnColumns
from counton.base.windows import Windows
from counton.numbers import Design
from counton.numbers.discovery import Discovery
from counton.privacy import Contribution
from counton.released.description import Description, People, statistic_kept
from counton.rows.window_marks import Columns
from counton.spec.job import Job, options_of
from counton.spec.stated_options import kept_as, own_options
from counton.statistics import Statistic, TallyStatistic

#: Of details that a job keeps with its stream.
KIND = "events by window and group"
#: Options that say together what is promised: a stream keeps the guarantee in their place.
GUARANTEE = ("epsilon", "delta", "rho", "within")
#: The other options of every job that define its stream.
DEFINING = tuple(
    option.name for option in kept_as("stream", options_of(Job)) if option.name not in GUARANTEE
)
#: Those of them that name columns, and the one that statistics have.
COLUMNS = ("time", "by", "value", "user", "id")


class Continuation(NamedTuple):
    """The stream that another one goes on from.

    Attributes:
        name: in the same state.
        step: its last release that counts here.
        totals: whether this stream's totals go on from that release; else they begin anew.
        apart: whether no unit counts in both, so that the ledger counts the larger guarantee alone.
    """

    name: str
    step: int
    totals: bool
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Definition(Description):
    """A stream of events: its description, and what its runs have to know besides.

    Attributes:
        record: what jobs asked, by the names of options, as canonical JSON: what defines the
            stream, as it was when the stream was created and with what was settled then, and
            policies and outputs of the last job. Columns are called as they were then.
        columns: where time, group, user and id stand in the events, as they are called now.
        named: groups that were named later, and from which step on they count.
        renamed: columns that are called otherwise, old and new, since which step.
        continues: the stream that this one goes on from, if any.
        ended: the step at which it ended; None: it goes on.
        parts: columns of a statistic.
        reread: a later job read the times of rows otherwise than one before.

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

    record: Mapping[str, Any]
    columns: Columns
    named: tuple[tuple[str, int], ...] = ()
    renamed: tuple[tuple[str, str, int], ...] = ()
    continues: Continuation | None = None
    ended: int | None = None
    parts: OwnColumns = attribute(default_factory=OwnColumns)
    reread: bool = False

    @property
    def adds(self) -> TallyStatistic | None:
        """What rows of one group are added up to; None where they are counted."""
        inner = self.statistic.inner
        if not isinstance(inner, TallyStatistic):
            return None
        says = inner.counts_users or any(part.name != "by" for part in inner.parts)
        return inner if says else None

    @property
    def other(self) -> str | None:
        """The group that counts rows of all groups not declared, if any.

        It stands after those declared, and before those of ``named``.
        """
        return self.record.get("other")

    @property
    def spare(self) -> int:
        """Cells that have no name yet; nothing is counted in them, and they are not shown."""
        return int(self.record["spare"]) - len(self.named)

    @property
    def expires(self) -> bool:
        """Whether protection fades with age."""
        return bool(self.record.get("expire"))

    @cached_property
    def defining_options(self) -> Mapping[str, Any]:
        """What a job states that makes this stream, by the names of its options.

        Columns are called as they are now. What an option holds that is not stated is None.
        """
        found = {name: self.record.get(name) for name in (*DEFINING, "value")}
        columns = {name: self.current_name(found[name]) for name in COLUMNS}
        return {**found, **columns, "domain": self.declared_groups}

    @property
    def own_options(self) -> dict[str, Any]:
        """What was said of its statistic, by the names of options."""
        names = [option.name for option in own_options(self.what)]
        return {name: self.record[name] for name in names if name in self.record}

    @property
    def places(self) -> int:
        """How many numbers rows of one group are added up to."""
        return 1 if self.adds is None else self.adds.places

    @property
    def measures(self) -> tuple[str, ...]:
        """What is kept of each place: how many rows, and what they add up to if that is more."""
        return ("rows",) if self.adds is None or self.adds.counts_rows else ("rows", "total")

    def measure(self, sums: Integers) -> Integers:
        """What is released of sums by place, shape ``(steps, groups * places)``, in grid units."""
        if self.statistic.additive:
            return sums.reshape(len(sums), *(self.shape if self.discovery is None else (-1,)))
        assert isinstance(self.statistic, TallyStatistic)
        return self.statistic.measure(sums)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one step."""
        if self.discovery is not None:
            from counton.numbers.discovery import ROOM

            return (ROOM,)
        return self.statistic.shape_of(None if self.domain is None else len(self.cells))

    @property
    def cells(self) -> GroupNames:
        """All cells of one step: first the groups, then those that have no name yet."""
        if not self.spare:
            return self.groups
        return self.groups.plus([f"(spare {number + 1})" for number in range(self.spare)])

    @property
    def declared_groups(self) -> GroupNames:
        """The groups that were declared when the stream was created."""
        return self.groups[: len(self.groups) - len(self.named) - (self.other is not None)]

    @property
    def since(self) -> dict[str, int]:
        """From which step on groups count by themselves that were part of ``other`` before."""
        return {} if self.other is None else dict(self.named)

    def current_name(self, column: str | None) -> str | None:
        """What a column is called now that was called so once."""
        for old, new, _ in self.renamed:
            column = new if column == old else column
        return column

    def called_once(self, column: str) -> str:
        """What a column was called when the stream was created that is called so now."""
        for old, new, _ in reversed(self.renamed):
            column = old if column == new else column
        return column

    @property
    def reads(self) -> tuple[str, ...]:
        """All columns, as they are called now."""
        parts = (self.current_name(name) or name for name in self.parts.names)
        return tuple(dict.fromkeys((*self.columns.names, *parts)))

    @cached_property
    def details(self) -> dict[str, Any]:
        """Public facts that are kept with the stream, as JSON values."""
        return {
            "kind": KIND,
            "what": self.what,
            "record": dict(self.record),
            "domain": self.domain,
            "once": self.once,
            "named": [list(group) for group in self.named],
            "renamed": [list(column) for column in self.renamed],
            "continues": None if self.continues is None else self.continues._asdict(),
            "ended": self.ended,
            "parts": self.parts._asdict(),
            "reread": self.reread,
            "discovery": None if self.discovery is None else self.discovery._asdict(),
        }

    @classmethod
    def reopen(
        cls, saved: Design, details: Mapping[str, Any], *, discovering: bool = True
    ) -> Definition:
        """The definition of a stream that exists.

        Args:
            discovering: whether groups may be such as nobody declared.
        """
        if details.get("kind") != KIND:
            raise RequestMismatch(
                f"stream {saved.name!r} does not count or sum events by windows of time; continue "
                f"it with the program that made it, or choose another {field('name')}"
            )
        found, continues = details["discovery"], details["continues"]
        if found is not None and not discovering:
            raise RequestMismatch(
                f"stream {saved.name!r} finds groups that nobody declared, so it has no successor: "
                f"begin a stream of declared groups"
            )
        parts = {name: tuple(columns) for name, columns in details["parts"].items()}
        return cls.from_record(
            details["record"],
            what=details["what"],
            statistic=statistic_kept(saved, details["what"]),
            guarantee=saved.guarantee,
            contribution=saved.contribution,
            strategy=saved.strategy,
            domain=details["domain"],
            once=details["once"],
            parts=OwnColumns(**parts),
            discovery=None if found is None else Discovery(**found),
            named=tuple((group, step) for group, step in details["named"]),
            renamed=tuple((old, new, step) for old, new, step in details["renamed"]),
            continues=None if continues is None else Continuation(**continues),
            ended=details["ended"],
            reread=details["reread"],
        )

    @classmethod
    def from_record(
        cls,
        record: Mapping[str, Any],
        *,
        statistic: Statistic,
        contribution: Contribution,
        once: bool,
        parts: OwnColumns,
        renamed: tuple[tuple[str, str, int], ...] = (),
        **more: Any,
    ) -> Definition:
        """The definition of what was asked, and of what was settled of it.

        Args:
            record: what was asked.
            statistic, contribution, once, parts, renamed, more: the other attributes, but for those
                that follow from the record.

        Raises:
            InvalidInput: two parts of an event have one column.
        """
        cut = windows_of(record)
        ordered = (cut is None and not once) or not statistic.tallied
        columns = _columns_of(record, parts, ordered=ordered)
        for old, new, _ in renamed:
            columns = columns.rename(old, new)
        return cls(
            record=record,
            statistic=statistic,
            contribution=contribution,
            unit=contribution.unit,
            once=once,
            parts=parts,
            renamed=renamed,
            columns=columns,
            by=columns.group,
            value=columns.value,
            cut=cut,
            people=None if ordered else people_of(record, statistic),
            release=record["release"],
            metric=record["metric"],
            **more,
        )


def windows_of(record: Mapping[str, Any]) -> Windows | None:
    """How a record says that time is cut; None: it is not."""
    if record.get("time") is None:
        return None
    start = datetime.fromisoformat(record["start"])
    return Windows(start, record["every"], record["steps"], record["timezone"])


def people_of(record: Mapping[str, Any], statistic: Statistic) -> People | None:
    """Whose events count, and how many, as a record says it; None: single events are protected."""
    if record.get("user") is None:
        return None
    each = 1 if record.get("first") else rows_of_each_group(statistic)
    per, distinct = record.get("per"), bool(record.get("distinct"))
    return People(record["most"], per, distinct, each, record.get("most_a_window"))


def rows_of_each_group(statistic: Statistic | None) -> int | None:
    """How many rows of a user count in each group, where a statistic says it; None: it does not."""
    inner = None if statistic is None else statistic.inner
    ranks = isinstance(inner, TallyStatistic) and inner.counted_ranks
    return ranks[-1] if ranks else None


def _columns_of(record: Mapping[str, Any], parts: OwnColumns, *, ordered: bool) -> Columns:
    one = not ordered and len(parts.names) == 1 and parts.names == parts.numbers
    value, several = (parts.names[0], ()) if one else (None, () if ordered else parts.names)
    time, by, user, row = (record.get(name) for name in ("time", "by", "user", "id"))
    columns = Columns(time or "", by, value, user, row, several)
    if len(columns.parts) > len(set(columns.parts)):
        raise InvalidInput(
            f"the columns are {', '.join(columns.parts)}; each part of an event needs its own: "
            f"name each once"
        )
    return columns
