"""Names of protected units: one rule for streams, statistics and tables of a state.

A ledger adds up spending for each name of a unit, so the same people under two names could lose
twice the limit. To prevent this, a new release inherits the name that the state has, in its
spelling; another name must be stated. One name never stands for both an event and a user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from counton.base.errors import InvalidInput, field
from counton.privacy.contribution import ANY_UNIT, base_unit, known_unit, states_period, with_clock
from counton.state.database import reading
from counton.state.sql import Connection
from counton.state.stream_facts import record_in

#: Kind of a limit's unit that the first release with this name decides: rows or users.
OPEN = "row or user"
#: Names of a limit's unit that stand for people.
_PEOPLE = re.compile(
    "borrower|citizen|client|customer|employee|guest|household|human|individual|inhabitant|member|"
    "passenger|patient|people|person|pupil|reader|resident|student|subscriber|user|visitor|worker",
    re.IGNORECASE,
)


class SpentUnit(NamedTuple):
    """The protected unit of an entry in a state's ledger, the record of spent privacy loss.

    Attributes:
        name: name of the stream or table.
        unit: name of the unit, such as "reader".
        kind: kind of unit with this name: "event" (any row), "user", "edge" or "letter"; `OPEN`
            for a limit whose name no release has yet; None if unknown.
    """

    name: str
    unit: str
    kind: str | None


def unit_word(
    known: Iterable[SpentUnit], kind: str | None, stated: str | None, default: str = ANY_UNIT
) -> str:
    """Return the name of a new release's protected unit.

    Args:
        known: units of the entries in the state's ledger, the record of spent privacy loss.
        kind: kind of the new unit ("event", "user", "edge", "letter"); None if unknown.
        stated: name that the caller gives it; None if the caller gives none.
        default: name if neither the caller nor the state gives one.

    Raises:
        InvalidInput: the state uses several names and the caller gives none; the state uses the
            given name for another kind of unit; or the caller gives a name now and gave none for an
            earlier release.

    >>> unit_word([SpentUnit("visits", "visitor", "user")], "user", None, "user")
    'visitor'
    >>> unit_word([SpentUnit("visits", "visitor", "user")], "event", "Visitor")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: 'visitor' means one user in the release 'visits' of ...
    """
    known = list(known)
    # Unless its name is stated, a release of rows is none of what a limit names.
    inherited = (kind, None, OPEN) if kind == "user" else (kind, None)
    alike = [one for one in known if kind is None or one.kind in inherited]
    whole = default if stated is None else stated
    suffix = whole[len(base_unit(whole)) :]
    words = list(dict.fromkeys(base_unit(one.unit) for one in alike))
    if stated is None and len(words) > 1:
        named = [word for word in words if word != ANY_UNIT]
        raise InvalidInput(
            f"the state has separate totals for {' and '.join(map(repr, words))}, and another unit "
            f"would get a total of its own; name the protected unit: {field('unit', named[0])}"
        )
    if stated is None:
        word = words[0] if words else base_unit(default)
    else:
        word = known_unit(base_unit(stated), [base_unit(one.unit) for one in known])
    if ANY_UNIT in words and word not in words:
        first = next(one.name for one in alike if one.unit == ANY_UNIT)
        raise InvalidInput(
            f"unit is {word + suffix!r}, but the unit of {first!r} in this state has no name, so "
            "the same people could be counted in two totals, each up to the limit: call the unit "
            f"{ANY_UNIT!r} here too, or use another state"
        )
    for one in known:
        if kind is not None and one.kind not in (kind, None, OPEN) and base_unit(one.unit) == word:
            raise InvalidInput(
                f"{word!r} means one {one.kind} in the release {one.name!r} of this state, but one "
                f"{kind} here, so the ledger would add up different units; give one {kind} another "
                f"name: {field('unit', kind)}"
            )
    return word + suffix


def by_its_clock(unit: str, record: Mapping[str, Any], window: object = None) -> str:
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
        record: options that define the stream (`stream_facts.record_in`).
        window: number of steps in a window of its statistic; None if it has no windows.

    >>> asked = {"time": "seen", "timezone": "Asia/Kolkata", "per": "1d"}
    >>> by_its_clock("reader's day", asked), by_its_clock("reader", asked)
    ("reader's day (Asia/Kolkata, seen)", 'reader')
    """
    zone, column = str(record.get("timezone") or "UTC"), record.get("time")
    if record.get("per") is not None:
        return with_clock(unit, zone, str(column))
    if window is None:
        return unit
    steps = f"{window} steps"
    if column is None:
        return with_clock(unit, steps)
    cut = (str(record.get(name)) for name in ("every", "start"))
    return with_clock(unit, steps, *cut, zone, str(column))


def protects_users(record: Mapping[str, Any]) -> bool:
    """Return True if a stream with these options protects users, whatever a row describes: a column
    names them, or the table was made of at most so many events of each (``moves``).
    """
    return record.get("user") is not None or record.get("moves") is not None


def kind_of(saved: Mapping[str, Any] | None, record: Mapping[str, Any]) -> str | None:
    """Return "event", "user", "edge" or "letter"; None if the options do not say."""
    if protects_users(record):
        return "user"
    if saved is not None:
        from counton.statistics.live_statistic import statistic_of

        return statistic_of(saved)[0].protects
    return "event" if record else None


#: Units that are no users.
_NO_USERS = ("event", "edge", "letter")


def known_in(connection: Connection) -> list[SpentUnit]:
    """Return the limit's protected unit, then those of the ledger's entries in order."""
    kinds: dict[str, str | None] = {}
    with reading("what the streams protect"):
        for row in connection.rows("SELECT name, terms, details FROM counton_streams"):
            saved = json.loads(row.terms).get("statistic")
            kinds[row.name] = kind_of(saved, record_in(json.loads(row.details)))
    rows = connection.rows("SELECT name, unit FROM counton_ledger ORDER BY id")
    found = [SpentUnit(name, unit, kinds.get(name)) for name, unit in rows]
    limit = connection.value("SELECT budget_limit FROM counton_database")
    with reading("the ledger's limit"):
        about = None if limit is None else json.loads(limit).get("unit")
    return found if about is None else [of_limit(about, found), *found]


def of_limit(about: str, released: Iterable[SpentUnit] = ()) -> SpentUnit:
    """Return the unit that a limit protects.

    The unit's name is ``about``. Its kind is the name itself for "event", "edge" or "letter", and
    "user" for a word for people or a period of somebody. For any other name the kind is that of the
    first unit in ``released`` with this name, or `OPEN` if there is none.

    >>> [of_limit(about).kind for about in ("move", "Person", "move's week", "event")]
    ['row or user', 'user', 'user', 'event']
    >>> of_limit("move", [SpentUnit("moves", "move", "event")]).kind
    'event'
    """
    word = base_unit(about)
    if about in _NO_USERS:
        kind = about
    elif states_period(about) or _PEOPLE.fullmatch(word):
        kind = "user"
    else:
        kinds = (one.kind for one in released if one.kind and base_unit(one.unit) == word)
        kind = next(kinds, OPEN)
    return SpentUnit("limit of the ledger", about, kind)
