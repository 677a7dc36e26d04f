"""What defines a stream of events: fixed when it is created, kept with it, and opened again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cached_property
from typing import Any, NamedTuple

from counton.base.arrays import Integers
from counton.base.errors import RequestMismatch, field
from counton.base.groups import GroupNames
from counton.base.options import OwnColumns
from counton.numbers import Design
from counton.numbers.discovery import Discovery
from counton.released.description import (
    Description,
    People,
    statistic_kept,
    windows_from_dict,
    windows_to_dict,
)
from counton.rows.window_marks import Columns
from counton.spec.job import EXPIRING
from counton.statistics import TallyStatistic

#: Of details that a job keeps with its stream.
KIND = "events by window and group"


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
        columns: where time, group, user and id stand in the events.
        other: the group that counts rows of all groups not declared, if any; after those declared,
            and before those of ``named``.
        named: groups that were named later, and from which step on they count.
        spare: cells that have no name yet; nothing is counted in them, and they are not shown.
        renamed: columns that are called otherwise, old and new, since which step.
        continues: the stream that this one goes on from, if any.
        ended: the step at which it ended; None: it goes on.
        parts, stated: columns of a statistic, and what was said of it.
        remembered: policies and outputs of the last job.
        reread: a later job read the times of rows otherwise than one before.
        choice, simple: by what the strategy was chosen, besides ``metric``.

    >>> from counton.run import Job
    >>> from counton.run.new_stream import ask
    >>> from counton.run.new_stream import define
    >>> request = Job(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, by="page", domain="home,shop", epsilon=1
    ... )
    >>> definition = define(ask(request))
    >>> definition.groups, definition.strategy.saved_name
    (('home', 'shop'), 'Solved')
    """

    columns: Columns
    choice: str
    simple: bool
    other: str | None = None
    named: tuple[tuple[str, int], ...] = ()
    spare: int = 0
    renamed: tuple[tuple[str, str, int], ...] = ()
    continues: Continuation | None = None
    ended: int | None = None
    parts: OwnColumns = attribute(default_factory=OwnColumns)
    stated: Mapping[str, Any] = attribute(default_factory=dict)
    remembered: Mapping[str, Any] = attribute(default_factory=dict, repr=False)
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
    def first(self) -> bool:
        """Whether a job says that users count once for ever, and not its statistic by itself."""
        of_statistic = self.adds is not None and self.adds.counted_ranks
        return self.people is not None and self.people.each is not None and not of_statistic

    @cached_property
    def defining_options(self) -> Mapping[str, Any]:
        """What a job states that makes this stream, by the names of its options.

        Columns are called as they are now. What an option holds that is not stated is None.
        """
        cut, columns, people = self.cut, self.columns, self.people
        value = self.current_name(columns.value or self.stated.get("value"))
        ranks = self.inner.parameters if self.inner.declares is not None else {}
        most, once = ranks.get("most"), ranks.get("once") is not None
        return {
            "continues": None if self.continues is None else self.continues.name,
            "time": columns.time or None,
            "by": columns.group,
            "value": value or (self.parts.names[0] if self.parts.names else None),
            "every": cut and cut.every,
            "steps": self.strategy.horizon if cut is None else cut.steps,
            "start": cut and cut.local(cut.start),
            "timezone": cut and cut.timezone,
            "domain": self.declared_groups,
            "other": self.other,
            "spare": self.spare + len(self.named),
            "user": columns.user,
            "id": columns.id,
            "most": most if people is None else people.most,
            "per": people and people.per,
            "most_a_window": people and people.most_a_window,
            "distinct": people and people.distinct,
            "first": once if people is None else self.first,
            "unit": self.unit,
            "release": self.release,
            "strategy": self.choice,
            "metric": self.metric,
            "simple": self.simple,
            "growth": getattr(self.strategy, "growth", None) if self.choice == EXPIRING else None,
            "delay": self.strategy.delay,
        }

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
            "time": self.columns.time or None,
            "by": self.columns.group,
            "value": self.columns.value,
            **({"several": list(self.columns.several)} if self.columns.several else {}),
            **({} if self.cut is None else windows_to_dict(self.cut)),
            **({"once": True} if self.once else {}),
            "domain": self.domain,
            "user": self.columns.user,
            "id": self.columns.id,
            "people": None if self.people is None else self.people._asdict(),
            "unit": self.unit,
            "release": self.release,
            "strategy": self.choice,
            "metric": self.metric,
            "simple": self.simple,
            "other": self.other,
            "named": [list(group) for group in self.named],
            "spare": self.spare,
            "renamed": [list(column) for column in self.renamed],
            "continues": None if self.continues is None else self.continues._asdict(),
            "ended": self.ended,
            "parts": {name: list(columns) for name, columns in self.parts._asdict().items()},
            "stated": dict(self.stated),
            "remembered": dict(self.remembered),
            **({"reread": True} if self.reread else {}),
            **({} if self.discovery is None else {"discovery": self.discovery._asdict()}),
        }

    @classmethod
    def reopen(
        cls, saved: Design, details: Mapping[str, Any], *, discovering: bool = True
    ) -> Definition:
        """The definition of a stream that exists.

        Args:
            saved: its terms.
            details: as they were kept.
            discovering: whether groups may be such as nobody declared.
        """
        found = details.get("discovery")
        if found is not None and not discovering:
            raise RequestMismatch(
                f"stream {saved.name!r} finds groups that nobody declared, so it has no successor: "
                f"begin a stream of declared groups"
            )
        if details.get("kind") != KIND:
            raise RequestMismatch(
                f"stream {saved.name!r} does not count or sum events by windows of time; continue "
                f"it with the program that made it, or choose another {field('name')}"
            )
        return cls(
            what=details["what"],
            statistic=statistic_kept(saved, details["what"]),
            by=details["by"],
            value=details["value"],
            columns=Columns(
                details["time"] or "",
                details["by"],
                details["value"],
                details["user"],
                details["id"],
                tuple(details.get("several", ())),
            ),
            cut=windows_from_dict(details) if "every" in details else None,
            once=details.get("once", False),
            domain=details["domain"],
            unit=saved.contribution.unit,
            guarantee=saved.guarantee,
            contribution=saved.contribution,
            strategy=saved.strategy,
            release=details.get("release", "totals"),  # states of before there was a choice
            choice=details["strategy"],
            metric=details["metric"],
            simple=details.get("simple", False),
            people=None if details["people"] is None else People(**details["people"]),
            other=details.get("other"),
            named=tuple((group, step) for group, step in details.get("named", ())),
            spare=details.get("spare", 0),
            renamed=tuple((old, new, step) for old, new, step in details.get("renamed", ())),
            continues=Continuation(**details["continues"]) if details.get("continues") else None,
            ended=details.get("ended"),
            discovery=None if found is None else Discovery(**found),
            parts=OwnColumns(**{name: tuple(part) for name, part in details["parts"].items()}),
            stated=details["stated"],
            remembered=details.get("remembered", {}),
            reread=details.get("reread", False),
        )
