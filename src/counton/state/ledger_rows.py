"""The ledger of a database, kept as rows: what its releases have spent, and the limit.

Other states may enter here what they spend (`counton.state.shared`): the limit is then of all of
them together.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import PurePath
from textwrap import shorten
from typing import Any, NamedTuple

from counton.base.errors import BudgetExceeded, InvalidInput, StateError, field
from counton.numbers import Design
from counton.privacy import Contribution, Ledger, Limit, Spend, guarantee_from_dict
from counton.privacy.contribution import Relation
from counton.privacy.ledger import NEIGHBOURS, refuse_not_following
from counton.privacy.ledger import totals as add_up
from counton.state.database import reading
from counton.state.sql import Connection
from counton.state.stream_facts import record_in


class ForeignEntry(NamedTuple):
    """An entry of another state.

    Attributes:
        number: counted from 1.
        state: its identity.
        place: where it was.
        spend: what it spends.
        begun: whether a stream has it; else it is reserved for one that was interrupted.
        step: how many steps that stream had released when it was heard of last.
        entered: when, ISO 8601 in UTC.
    """

    number: int
    state: str
    place: str
    spend: Spend
    begun: bool
    step: int
    entered: str

    @property
    def label(self) -> str:
        """The stream and its state, in short."""
        return f"{self.spend.name} ({PurePath(self.place).name})"


def of_others(connection: Connection) -> tuple[ForeignEntry, ...]:
    """What other states have entered, in order."""
    rows = connection.rows("SELECT * FROM counton_shared_entries ORDER BY number")
    with reading("the ledger"):
        return tuple(
            ForeignEntry(
                *(row.number, row.state, row.place, spend_of(row), row.token is not None, row.step),
                entered=row.entered,
            )
            for row in rows
        )


def spend_of(row: Any) -> Spend:
    """What a row of a ledger says."""
    kept = {"name": row.name, "unit": row.unit, "relation": row.relation}
    return Spend.from_dict({**json.loads(row.guarantee), **kept})


def ties(connection: Connection) -> list[Any]:
    """What a state remembers of the ledger that it shares with others, a row for each stream."""
    return [*connection.rows("SELECT * FROM counton_shared_ledgers ORDER BY number")]


#: What a limit is, of its terms; the rest it fixes with the first entries.
_STATED = ("limit", "age", "relation", "approximate_delta", "unit")


def now() -> str:
    """The time of an entry, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class LimitChange(NamedTuple):
    """A limit that was set, raised, lowered or taken away.

    Attributes:
        time: when, ISO 8601 in UTC.
        user: who set it, as the machine calls that user.
        host: which machine.
        before: what was stated of the limit, JSON values by names (``limit``, ``age``,
            ``relation``, ``approximate_delta``, ``unit``); None: there was none.
        after: likewise.
        higher: whether it allows more than before, or something else.
    """

    time: str
    user: str
    host: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    higher: bool

    def in_words(self) -> str:
        """What was changed and when, without who did it.

        >>> one = {"limit": {"guarantee": "pure", "epsilon": "1"}}
        >>> two = {"limit": {"guarantee": "pure", "epsilon": "2"}, "unit": "reader"}
        >>> print(LimitChange("2024-03-01T09:30:00+00:00", "ann", "box", one, two, True).in_words())
        raised on 2024-03-01 at 09:30 UTC from pure differential privacy with epsilon = 1 to pure
        differential privacy with epsilon = 2, about one reader
        """
        when = f"on {self.time[:10]} at {self.time[11:16]} UTC"
        if self.before is None:
            return f"set {when} to {limit_in_words(self.after)}"
        verb = "raised" if self.higher else "lowered"
        return f"{verb} {when} from {limit_in_words(self.before)} to {limit_in_words(self.after)}"


def limit_in_words(stated: Mapping[str, Any] | None) -> str:
    """What is stated of a limit, in words."""
    if stated is None:
        return "none"
    words = str(guarantee_from_dict(stated["limit"]))
    if stated.get("unit") is not None:
        words += f", about one {stated['unit']}"
    if stated.get("age") is not None:
        words += f", for events up to {stated['age']:,} windows old"
    if stated.get("relation") is not None:
        words += f", of units {NEIGHBOURS[stated['relation']]}"
    if stated.get("approximate_delta") is not None:
        words += f", of whose delta {stated['approximate_delta']} is for ApproxDP guarantees"
    return words


def entry_times(connection: Connection) -> tuple[str, ...]:
    """When each entry of this state was made, ISO 8601 in UTC, in the order of `entries`."""
    rows = connection.rows("SELECT entered FROM counton_ledger ORDER BY id")
    return tuple(row.entered for row in rows)


def limit_changes(connection: Connection) -> tuple[LimitChange, ...]:
    """All that was done to the limit, in order."""
    with reading("the changes of the limit"):
        return tuple(
            LimitChange(
                *(row.time, row.who, row.host),
                before=_read(row.before),
                after=_read(row.after),
                higher=bool(row.higher),
            )
            for row in connection.rows("SELECT * FROM counton_limits ORDER BY id")
        )


def _read(text: str | None) -> dict[str, Any] | None:
    return None if text is None else dict(json.loads(text))


def _limit_terms(bound: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is stated of a limit, of its terms; None where there is none."""
    if bound is None:
        return None
    return {name: bound[name] for name in _STATED if bound.get(name) is not None}


def _is_higher(before: Mapping[str, Any], after: Mapping[str, Any] | None) -> bool:
    """Whether one limit allows anything that another one does not: all but smaller numbers."""
    if after is None or before["limit"]["guarantee"] != after["limit"]["guarantee"]:
        return True
    if any(
        before.get(name) != after.get(name) for name in ("age", "relation", "approximate_delta")
    ):
        return True
    if before.get("unit") not in (None, after.get("unit")):
        return True
    numbers = [name for name in before["limit"] if name != "guarantee"]
    return any(Fraction(after["limit"][name]) > Fraction(before["limit"][name]) for name in numbers)


def set_limit(connection: Connection, proposed: Ledger | None, *, allow_raise: bool) -> None:
    """Replace the limit, and note when, by whom, and what it was before.

    Raises:
        InvalidInput: it would be raised, and nobody says that it may.
    """
    before = _limit_terms(terms(connection))
    after = None if proposed is None else _limit_terms(proposed.terms())
    if before == after:
        return
    higher = before is not None and _is_higher(before, after)
    if higher and not allow_raise:
        raise InvalidInput(
            f"the limit is {limit_in_words(before)}, and would be {limit_in_words(after)}, which "
            f"allows more, or something else, than was promised when the first release was made: "
            f"leave it, or give {field('allow_raise', True)}, which the ledger notes with time, "
            f"user and host"
        )
    write_terms(connection, proposed)
    texts = (None if one is None else json.dumps(one, sort_keys=True) for one in (before, after))
    values = dict(zip(("before", "after"), texts, strict=True))
    who = {"time": now(), "who": _user(), "host": socket.gethostname() or "unknown"}
    connection.insert("counton_limits", {**who, **values, "higher": higher})


def _user() -> str:
    """Who runs this process, as the machine knows them: variables that anybody sets say nothing."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):  # no such file, or a user that it lacks
        with suppress(Exception):
            return getpass.getuser()
    return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def lock(connection: Connection) -> None:
    """Wait for other transactions that change the ledger (SQLite has locked the file already)."""
    if not connection.is_sqlite:
        connection.run("SELECT id FROM counton_database FOR UPDATE")


def entries(connection: Connection) -> tuple[Spend, ...]:
    """What was spent, in order."""
    with reading("the ledger"):
        rows = connection.rows("SELECT * FROM counton_ledger ORDER BY id")
        return tuple(map(spend_of, rows))


def all_entries(connection: Connection) -> tuple[Spend, ...]:
    """What was spent here, and by other states that count against the limit of this one.

    Other states may have streams of one name, so none of theirs follows another: they add up.
    """
    others = (one.spend._replace(name=one.label, follows=None) for one in of_others(connection))
    return (*entries(connection), *others)


def terms(connection: Connection) -> dict[str, Any] | None:
    """The limit and what it has fixed (`Ledger.terms`), or None."""
    saved = connection.value("SELECT budget_limit FROM counton_database")
    with reading("the ledger's limit"):
        return None if saved is None else dict(json.loads(saved))


def ledger(connection: Connection) -> Ledger | None:
    """What was spent under the limit; None where there is no limit to add up to."""
    bound = terms(connection)
    if bound is None:
        return None
    with reading("the ledger"):
        spends = [entry.to_dict() for entry in all_entries(connection)]
        return Ledger.from_dict({**bound, "spends": spends})


def totals(connection: Connection) -> dict[str, tuple[Relation, Limit | None]]:
    """All entries added up: see `Store.totals`."""
    found = ledger(connection)
    if found is None:
        return add_up(all_entries(connection))
    return {unit: (relation, found.cost(unit=unit)) for unit, relation in found.units.items()}


def with_entry(connection: Connection, entry: Spend) -> Ledger | None:
    """The ledger with one entry more, which is not recorded; None where there is no limit.

    Raises:
        BudgetExceeded: the limit does not allow it.
        InvalidInput: this kind of guarantee cannot be counted against the limit.
    """
    present = ledger(connection)
    if present is not None:
        present.spend(**entry._asdict())
    return present


def enter(
    connection: Connection, entry: Spend, contribution: Contribution, details: Mapping[str, Any]
) -> None:
    """Record what a new stream or table spends.

    Args:
        contribution: of a unit.
        details: public facts that are kept with the stream.

    Raises:
        BudgetExceeded: the limit does not allow it.
        InvalidInput: this kind of guarantee cannot be counted against the limit; or the stream
            cannot follow, since a unit may be in steps of both, or that one has not released its
            last step.
    """
    if entry.follows is not None:
        refuse_not_following(entry, entries(connection))
        _refuse_several_steps(entry.name, contribution, details)
        _refuse_unfinished(connection, entry.follows)
    present = with_entry(connection, entry)
    if present is not None:
        write_terms(connection, present)
    promise = json.dumps(entry.promise(), sort_keys=True)
    said = {"name": entry.name, "unit": entry.unit, "relation": entry.relation}
    connection.insert("counton_ledger", {**said, "guarantee": promise, "entered": now()})


def _refuse_several_steps(
    name: str, contribution: Contribution, details: Mapping[str, Any]
) -> None:
    """Refuse units that are in several steps, and so perhaps in steps of two streams.

    Those of a period of a person are in several; where periods begin is looked at by whoever
    states them (`counton.run.continuation.apart`).
    """
    if contribution.in_one_step or record_in(details).get("per") is not None:
        return
    raise InvalidInput(
        f"one {contribution.unit} of stream {name!r} may change several steps, so that it may "
        f"count in a stream and in the one that follows it: leave {field('follows', True)} out, "
        f"and their guarantees add up"
    )


def _refuse_unfinished(connection: Connection, name: str) -> None:
    """Refuse to follow a stream that may release more: of a copy of its state, or of this one.

    Nor may a unit of it have been in several steps.
    """
    said = "SELECT step, terms, details FROM counton_streams WHERE name = :name"
    row, horizon = connection.first(said, name=name), None
    with suppress(StateError):  # of a strategy that is somebody's own
        if row is not None:
            terms = Design.from_dict(json.loads(row.terms))
            horizon = terms.strategy.horizon
            _refuse_several_steps(name, terms.contribution, json.loads(row.details))
    if row is None or row.step != horizon:
        raise InvalidInput(
            f"stream {name!r} has not released the last of its steps, so that it may go on, and "
            f"what follows it may count the same units: release all of its steps first, or leave "
            f"{field('follows', name)} out, and their guarantees add up"
        )


def enter_known(connection: Connection, proposed: Ledger, *, keep_unit: bool = True) -> Ledger:
    """Enter what was spent into a ledger without entries; nothing is written.

    Args:
        proposed: the limit. What it is about stays as long as nobody says otherwise: without it
            less protection passes.
        keep_unit: nobody says otherwise, where the proposed one is about nothing in particular.

    Raises:
        BudgetExceeded: more is spent already.
        InvalidInput: what is spent cannot be counted against this kind of limit.
    """
    before = terms(connection)
    if keep_unit and proposed.unit is None and before is not None:
        proposed.unit = before.get("unit")
    known = all_entries(connection)
    try:
        proposed.enter_all(known)
    except BudgetExceeded as error:
        spent = "; ".join(f"{entry.name!r} {entry.guarantee}" for entry in known)
        raise BudgetExceeded(
            f"the limit of {proposed.limit} was not set: more is spent already and cannot be "
            f"taken back ({shorten(spent, 300, placeholder=' ...')}): set a larger limit"
        ) from error
    return proposed


def write_terms(connection: Connection, present: Ledger | None) -> None:
    """Keep the limit and what it has fixed."""
    text = None if present is None else json.dumps(present.terms(), sort_keys=True)
    connection.run("UPDATE counton_database SET budget_limit = :text", text=text)
