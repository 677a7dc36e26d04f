"""The privacy ledger of a state as database rows: what releases have spent, and the budget; and the
names of protected units, one rule for streams, statistics and tables of a state.

A ledger adds up spending for each name of a unit, so the same people under two names could lose
twice the budget. To prevent this, a new release inherits the name that the state has, in its
spelling; another name must be stated. One name never stands for both an event and a user.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from textwrap import shorten
from typing import Any, NamedTuple, Protocol

from counton.base.errors import BudgetExceededError, InvalidInputError, param
from counton.privacy import AddableGuarantee, Ledger, LedgerEntry, guarantee_from_dict
from counton.privacy.contribution import (
    ANY_UNIT,
    Relation,
    base_unit,
    canonical_unit,
    states_period,
    with_clock,
)
from counton.privacy.ledger import NEIGHBOURS
from counton.privacy.ledger import totals as add_up
from counton.state.database import reading
from counton.state.public_rows import public_rows
from counton.state.sql import Connection


class LedgerRow(Protocol):
    """The columns of a ledger's row that make its entry."""

    name: str
    unit: str
    relation: str
    guarantee: str


def entry_of_row(row: LedgerRow) -> LedgerEntry:
    """Convert a ledger's row to its entry."""
    columns = {"name": row.name, "unit": row.unit, "relation": row.relation}
    return LedgerEntry.from_dict({**json.loads(row.guarantee), **columns})


#: Names of the terms that define a budget.
_BUDGET_TERMS = ("limit", "age", "relation", "approximate_delta", "unit")


def stamp(column: str) -> dict[str, str]:
    """Return time (ISO 8601, UTC), user and machine of an entry.

    The user is the operating system's: environment variables can be forged.
    """
    user_name = f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    try:
        import pwd

        user_name = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):  # no such file, or it lacks this user
        with suppress(Exception):
            user_name = getpass.getuser()
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return {column: time, "who": user_name, "host": socket.gethostname() or "unknown"}


def budget_in_words(budget: Mapping[str, Any] | None) -> str:
    """Describe the terms of a budget (JSON values, as in `LedgerEvent`) in words; None is
    "none"."""
    if budget is None:
        return "none"
    words = str(guarantee_from_dict(budget["limit"]))
    if budget.get("unit") is not None:
        words += f", about one {budget['unit']}"
    if budget.get("age") is not None:
        words += f", for events up to {budget['age']:,} windows old"
    if budget.get("relation") is not None:
        words += f", of units {NEIGHBOURS[budget['relation']]}"
    if budget.get("approximate_delta") is not None:
        words += f", of whose delta {budget['approximate_delta']} is for ApproxDP guarantees"
    return words


def entry_times(connection: Connection) -> tuple[str, ...]:
    """Return the ISO 8601 times, in UTC, at which `entries` were made, in their order."""
    rows = connection.rows("SELECT entered FROM counton_ledger ORDER BY id")
    return tuple(row.entered for row in rows)


class LedgerEvent(NamedTuple):
    """An event in the history of a ledger (the record of spent privacy loss): the entry of a
    stream's guarantee, or a change of the ledger's budget.

    Attributes:
        time: time of the event, ISO 8601 in UTC.
        event: ``spent``, ``budget set``, ``budget raised``, ``budget lowered``, ``budget narrowed``
            (only to one unit), or ``budget removed``.
        name: name of the stream or table that spends; None for a budget.
        terms: guarantee, unit and relation of an entry, or the terms of a budget, as JSON values
            (``limit``, ``age``, ``relation``, ``approximate_delta``, ``unit``); None if the budget
            was removed.
        user: operating system's name of the user who did this.
        host: name of the machine on which this was done.
        before: terms of the former budget; None if there was none.
    """

    time: str
    event: str
    name: str | None = None
    terms: Mapping[str, object] | None = None
    user: str | None = None
    host: str | None = None
    before: Mapping[str, object] | None = None

    def in_words(self) -> str:
        """Describe this event of the ledger's history in words, without its time and user.

        >>> one, two = ({"limit": {"guarantee": "pure", "epsilon": each}} for each in "12")
        >>> time, about = "2024-03-01T09:30:00+00:00", {**two, "unit": "reader"}
        >>> print(LedgerEvent(time, "budget raised", terms=about, before=one).in_words())
        budget raised from pure differential privacy with epsilon = 1 to pure differential privacy
        with epsilon = 2, about one reader
        """
        if self.name is None:
            old = self.before is not None and self.event != "budget narrowed"
            before = f" from {budget_in_words(self.before)}" if old else ""
            return f"{self.event}{before} to {budget_in_words(self.terms)}"
        spend = LedgerEntry.from_dict(self.terms or {})
        return f"{self.event} by {self.name!r}: {spend.guarantee}, {spend.unit}"


def history(connection: Connection) -> tuple[LedgerEvent, ...]:
    """Return all entries and changes of the budget by time; in one second, changes come first."""
    events = []
    with reading("the ledger"):
        for row in connection.rows("SELECT * FROM counton_limits ORDER BY id"):
            before, after = (text and json.loads(text) for text in (row.before, row.after))
            for budget in (before, after):
                budget_in_words(budget)  # refuses malformed terms
            if before is None or after is None:
                verb = "set" if before is None else "removed"
            elif before["limit"] == after["limit"] and not row.higher:
                verb = "narrowed"  # to a unit
            else:
                verb = "raised" if row.higher else "lowered"
            events.append(
                LedgerEvent(
                    time=row.time,
                    event=f"budget {verb}",
                    terms=after,
                    user=row.who,
                    host=row.host,
                    before=before,
                )
            )
        for row in connection.rows("SELECT * FROM counton_ledger ORDER BY id"):
            spent = entry_of_row(row).to_dict()
            events.append(
                LedgerEvent(
                    time=row.entered,
                    event="spent",
                    name=row.name,
                    terms=spent,
                    user=row.who,
                    host=row.host,
                )
            )
    return tuple(sorted(events, key=lambda event: event.time))


def _budget_terms(bound: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return the terms of a budget as JSON values; None if there is no budget."""
    if bound is None:
        return None
    return {name: bound[name] for name in _BUDGET_TERMS if bound.get(name) is not None}


def _is_higher(before: Mapping[str, Any], after: Mapping[str, Any] | None) -> bool:
    """Return False only if the budgets differ in numbers alone, none of which is larger."""
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


def set_budget(connection: Connection, proposed: Ledger | None, *, allow_raise: bool) -> None:
    """Replace the state's privacy budget by that of ``proposed``, and record the change.

    Raises:
        InvalidInputError: the new budget allows more, and ``allow_raise`` is False.
    """
    before = _budget_terms(budget_terms(connection))
    after = None if proposed is None else _budget_terms(proposed.terms())
    if before == after:
        return
    higher = before is not None and _is_higher(before, after)
    if higher and not allow_raise:
        raise InvalidInputError(
            f"the budget is {budget_in_words(before)}, and would become {budget_in_words(after)}, "
            "which allows more than was promised, or something else, when the first release was "
            f"made: leave the budget as it is, or give {param('allow_raise', True)}; the ledger "
            "then notes the change with time, user and host"
        )
    write_terms(connection, proposed)
    texts = (
        None if budget is None else json.dumps(budget, sort_keys=True) for budget in (before, after)
    )
    values = dict(zip(("before", "after"), texts, strict=True))
    connection.insert("counton_limits", {**stamp("time"), **values, "higher": higher})


def lock(connection: Connection) -> None:
    """Wait until no other transaction on the server changes the ledger."""
    if not connection.is_sqlite:
        connection.execute("SELECT id FROM counton_database FOR UPDATE")


def entries(connection: Connection) -> tuple[LedgerEntry, ...]:
    """Return what each stream and table of this state has spent, in order of entry."""
    with reading("the ledger"):
        return tuple(map(entry_of_row, connection.rows("SELECT * FROM counton_ledger ORDER BY id")))


def budget_terms(connection: Connection) -> dict[str, Any] | None:
    """Return the budget and its terms as JSON values; None without a budget."""
    saved = connection.value("SELECT budget_limit FROM counton_database")
    with reading("the ledger's budget"):
        return None if saved is None else dict(json.loads(saved))


def ledger(connection: Connection) -> Ledger | None:
    """Return the ledger; None if there is no budget."""
    bound = budget_terms(connection)
    if bound is None:
        return None
    with reading("the ledger"):
        spends = [entry.to_dict() for entry in entries(connection)]
        try:
            return Ledger.from_dict({**bound, "spends": spends})
        except BudgetExceededError as error:  # no entry is made beyond the budget
            raise ValueError(str(error)) from error


def totals(connection: Connection) -> dict[str, tuple[Relation, AddableGuarantee | None]]:
    """Return the relation of neighbours and the total privacy loss, by unit."""
    privacy_ledger = ledger(connection)
    if privacy_ledger is None:
        return add_up(entries(connection))
    return {
        unit: (relation, privacy_ledger.cost(unit=unit))
        for unit, relation in privacy_ledger.units.items()
    }


def with_entry(connection: Connection, entry: LedgerEntry) -> Ledger | None:
    """Return the ledger with one more entry, unwritten; None if there is no budget.

    Raises:
        BudgetExceededError: the budget does not allow it.
        InvalidInputError: the entry's kind of guarantee cannot be counted against the budget.
    """
    present = ledger(connection)
    if present is not None:
        present.spend(**entry._asdict())
    return present


def record_spend(connection: Connection, entry: LedgerEntry) -> None:
    """Enter the guarantee of a new stream or table in the ledger, or what another program has
    spent.

    Raises:
        BudgetExceededError: the budget does not allow it.
        InvalidInputError: another entry has this name, or the guarantee cannot be counted against
            the budget.
    """
    if any(existing.name == entry.name for existing in entries(connection)):
        raise InvalidInputError(
            f"the ledger has an entry {entry.name!r} already, and entries are never removed: give "
            "another name"
        )
    present = with_entry(connection, entry)
    if present is not None:
        # A first entry fixes rules of the ledger (`Ledger.terms`), such as its unit's relation.
        write_terms(connection, present)
    promise = json.dumps(entry.guarantee.to_dict(), sort_keys=True)
    columns = {"name": entry.name, "unit": entry.unit, "relation": entry.relation}
    connection.insert("counton_ledger", {**columns, "guarantee": promise, **stamp("entered")})


def enter_known(connection: Connection, proposed: Ledger, *, keep_unit: bool) -> Ledger:
    """Return a ledger with the budget of ``proposed`` and all existing spending, unwritten.

    Raises:
        BudgetExceededError: more than the new budget is spent already.
        InvalidInputError: earlier spending cannot be counted against this kind of budget.
    """
    before = budget_terms(connection)
    if keep_unit and proposed.unit is None and before is not None:
        proposed.unit = before.get("unit")
    existing = entries(connection)
    try:
        proposed.enter_all(existing)
    except BudgetExceededError as error:
        spent = "; ".join(f"{entry.name!r} {entry.guarantee}" for entry in existing)
        raise BudgetExceededError(
            f"budget not set: {proposed.budget} is less than what is spent already "
            f"({shorten(spent, 300, placeholder=' ...')}). Spent privacy loss cannot be recovered. "
            "Set a larger budget"
        ) from error
    return proposed


def write_terms(connection: Connection, present: Ledger | None) -> None:
    """Store the budget of ``present`` with its terms; None removes it."""
    text = None if present is None else json.dumps(present.terms(), sort_keys=True)
    connection.execute("UPDATE counton_database SET budget_limit = :text", text=text)


#: Kind of a budget's unit that the first release with this name decides: rows or users.
OPEN_KIND = "row or user"
#: Name of the entry of a budget among those of streams.
BUDGET = "budget of the ledger"
#: Names of a budget's unit that stand for people.
_NAMES_OF_PEOPLE = re.compile(
    "borrower|citizen|client|customer|employee|guest|household|human|individual|inhabitant|member|"
    "passenger|patient|people|person|pupil|reader|resident|student|subscriber|user|visitor|worker",
    re.IGNORECASE,
)


class SpentUnit(NamedTuple):
    """The protected unit of an entry in a state's ledger, the record of spent privacy loss.

    Attributes:
        name: name of the stream or table.
        unit: name of the unit, such as "reader".
        kind: kind of unit with this name: "event" (any row), "user", "edge" or "letter";
            `OPEN_KIND` for a budget whose name no release has yet; None if unknown.
    """

    name: str
    unit: str
    kind: str | None


def unit_word(
    spent_units: Iterable[SpentUnit],
    kind: str | None,
    stated_unit: str | None,
    default: str = ANY_UNIT,
) -> str:
    """Return the name of a new release's protected unit.

    Args:
        spent_units: units of the entries in the state's ledger, the record of spent privacy loss.
        kind: kind of the new unit ("event", "user", "edge", "letter"); None if unknown.
        stated_unit: name that the caller gives it; None if the caller gives none.
        default: name if neither the caller nor the state gives one.

    Raises:
        InvalidInputError: the state uses several names and the caller gives none; the state uses
            the given name for another kind of unit; or the caller gives a name now and gave none
            for an earlier release.

    >>> unit_word([SpentUnit("visits", "visitor", "user")], "user", None, "user")
    'visitor'
    >>> unit_word([SpentUnit("visits", "visitor", "user")], "event", "Visitor")
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: 'visitor' means one user in the release 'visits' of ...
    """
    spent_units = list(spent_units)
    # Unless its name is stated, a release of rows is none of what a budget names.
    inherited = (kind, None, OPEN_KIND) if kind == "user" else (kind, None)
    units_of_kind = [spent for spent in spent_units if kind is None or spent.kind in inherited]
    if stated_unit is None:
        names = list(dict.fromkeys(base_unit(spent.unit) for spent in units_of_kind))
        _refuse_ambiguous_name(names)
        name = names[0] if names else base_unit(default)
    else:
        names_of_all = [base_unit(spent.unit) for spent in spent_units]
        name = canonical_unit(base_unit(stated_unit), names_of_all)
    with_period = default if stated_unit is None else stated_unit
    period = with_period[len(base_unit(with_period)) :]
    _refuse_second_total(name, period, units_of_kind)
    _refuse_other_kind(name, kind, spent_units)
    return name + period


def _refuse_ambiguous_name(names: Sequence[str]) -> None:
    """Refuse to choose one of several names of units.

    Raises:
        InvalidInputError: there are several.
    """
    if len(names) < 2:
        return
    examples = [name for name in names if name != ANY_UNIT]
    raise InvalidInputError(
        f"the state has separate totals for {' and '.join(map(repr, names))}, and another unit "
        "would get a total of its own; name the protected unit: "
        f"{param('privacy_unit', examples[0])}"
    )


def _refuse_second_total(name: str, period: str, units_of_kind: Sequence[SpentUnit]) -> None:
    """Refuse a name for units that have a total without a name.

    Args:
        name: the name, without the period.
        period: what follows the name, such as "'s day".
        units_of_kind: units of this kind in the ledger.

    Raises:
        InvalidInputError: an earlier release gave the unit no name.
    """
    names = {base_unit(spent.unit) for spent in units_of_kind}
    if ANY_UNIT not in names or name in names:
        return
    unnamed = next(spent.name for spent in units_of_kind if spent.unit == ANY_UNIT)
    raise InvalidInputError(
        f"unit is {name + period!r}, but the unit of {unnamed!r} in this state has no name, so "
        "the same people could be counted in two totals, each up to the budget: call the unit "
        f"{ANY_UNIT!r} here too, or use another state"
    )


def _refuse_other_kind(name: str, kind: str | None, spent_units: Sequence[SpentUnit]) -> None:
    """Refuse a name that means another kind of unit in the ledger.

    Raises:
        InvalidInputError: it does.
    """
    if kind is None:
        return
    for spent in spent_units:
        is_of_kind = spent.kind in (kind, None, OPEN_KIND)
        if not is_of_kind and base_unit(spent.unit) == name:
            raise InvalidInputError(
                f"{name!r} means one {spent.kind} in the release {spent.name!r} of this state, but "
                f"one {kind} here, so the ledger would add up different units; give one {kind} "
                f"another name: {param('privacy_unit', kind)}"
            )


def unit_name_in_ledger(unit: str, options: Mapping[str, object], window: object = None) -> str:
    """Return the name under which a ledger, the record of spent privacy loss, counts a stream's
    protected unit.

    If the unit is a user's period of time, such as a reader's day, the name also states the time
    zone and the column of times, because both decide where a period begins. If the statistic has
    windows of its own, the period is a window. The name then states the number of steps in a
    window, and the options that decide where a step begins.

    The name does not say how the column's texts are read as times; the caller is trusted to read
    them in one way.

    Args:
        unit: the unit's name in the stream.
        options: options that define the stream (`defining_options_in`).
        window: number of steps in a window of its statistic; None if it has no windows.

    >>> asked = {"time": "seen", "timezone": "Asia/Kolkata", "contribution_period": "1d"}
    >>> unit_name_in_ledger("reader's day", asked), unit_name_in_ledger("reader", asked)
    ("reader's day (Asia/Kolkata, seen)", 'reader')
    """
    zone = str(options.get("timezone") or "UTC")
    column = options.get("time")
    if options.get("contribution_period") is not None:
        return with_clock(unit, zone, str(column))
    if window is None:
        return unit
    steps = f"{window} steps"
    if column is None:
        return with_clock(unit, steps)
    every = str(options.get("every"))
    start = str(options.get("start"))
    return with_clock(unit, steps, every, start, zone, str(column))


def protects_users(options: Mapping[str, object]) -> bool:
    """Return True if a stream with these options protects users, whatever a row describes.

    A column names them (``user``), or the table was made of at most so many events of each
    (``upstream_max_contributions``).
    """
    return options.get("user") is not None or options.get("upstream_max_contributions") is not None


def protected_kind(saved: Mapping[str, object] | None, options: Mapping[str, object]) -> str | None:
    """Return "event", "user", "edge" or "letter"; None if the options do not say."""
    if protects_users(options):
        return "user"
    if saved is not None:
        from counton.statistics.live_statistic import statistic_of

        return statistic_of(saved)[0].protects
    return "event" if options else None


#: Units that are no users.
_NO_USERS = ("event", "edge", "letter")


def defining_options_in(details: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the options of a stream of events from its public facts; else none."""
    options = details.get("record")
    return options if isinstance(options, Mapping) else {}


def spent_units_in(connection: Connection) -> list[SpentUnit]:
    """Return the budget's protected unit, then those of the ledger's entries in order."""
    kinds: dict[str, str | None] = {}
    with reading("what the streams protect"):
        for row in public_rows(connection):
            saved = json.loads(row.terms).get("statistic")
            kinds[row.name] = protected_kind(saved, defining_options_in(json.loads(row.details)))
    rows = connection.rows("SELECT name, unit FROM counton_ledger ORDER BY id")
    units = [SpentUnit(name, unit, kinds.get(name)) for name, unit in rows]
    budget = connection.value("SELECT budget_limit FROM counton_database")
    with reading("the ledger's budget"):
        about = None if budget is None else json.loads(budget).get("unit")
    return units if about is None else [unit_of_budget(about, units), *units]


def unit_of_budget(about: str, released: Iterable[SpentUnit] = ()) -> SpentUnit:
    """Return the unit that a budget protects.

    The unit's name is ``about``. Its kind is the name itself for "event", "edge" or "letter", and
    "user" for a word for people or a period of somebody. For any other name the kind is that of the
    first unit in ``released`` with this name, or `OPEN_KIND` if there is none.

    >>> [unit_of_budget(about).kind for about in ("move", "Person", "move's week", "event")]
    ['row or user', 'user', 'user', 'event']
    >>> unit_of_budget("move", [SpentUnit("moves", "move", "event")]).kind
    'event'
    """
    word = base_unit(about)
    if about in _NO_USERS:
        kind = about
    elif states_period(about) or _NAMES_OF_PEOPLE.fullmatch(word):
        kind = "user"
    else:
        kinds = (spent.kind for spent in released if spent.kind and base_unit(spent.unit) == word)
        kind = next(kinds, OPEN_KIND)
    return SpentUnit(BUDGET, about, kind)
