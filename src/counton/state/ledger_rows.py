"""The ledger of a database, kept as rows: what its releases have spent, and the limit.

Other states may enter here what they spend (`counton.state.shared`): the limit is then of all of
them together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from textwrap import shorten
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.base.errors import BudgetExceeded, InvalidInput, StateError, field
from counton.numbers import Design
from counton.privacy import Contribution, Ledger, Limit, Spend
from counton.privacy.contribution import Relation
from counton.privacy.ledger import refuse_not_following
from counton.privacy.ledger import totals as add_up
from counton.state import schema
from counton.state.database import reading
from counton.state.sql import LIMIT, PreparedStatement, has
from counton.state.stream_facts import record_in

_metadata = sa.MetaData()

#: What other states have entered, each entry for a whole stream. Rows are added, and none is ever
#: taken away. A ledger that no other state uses has no such table.
entered = sa.Table(
    "counton_shared_entries",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3 ...
    sa.Column("state", sa.String(32), nullable=False),  # identity of the state
    sa.Column("place", sa.Text, nullable=False),  # where it was
    sa.Column("name", sa.String(schema.LONGEST_NAME), nullable=False),
    sa.Column("guarantee", sa.Text, nullable=False),  # JSON
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("relation", sa.String(20), nullable=False),
    sa.Column("kind", sa.String(8)),  # see units.Known
    sa.Column("chain", sa.String(64), nullable=False),  # digest of this entry and all before it
    sa.Column("token", sa.String(32)),  # of the one stream that has it; null: reserved
    sa.Column("step", sa.BigInteger, nullable=False),  # how far that stream was
    sa.Column("digest", sa.String(64), nullable=False),  # of its release there, keyed
    sa.UniqueConstraint("state", "name", name="counton_shared_entry"),
)

#: What a state remembers of the ledger into which its streams are entered.
ties = sa.Table(
    "counton_shared_ledgers",
    sa.MetaData(),
    sa.Column("name", sa.String(schema.LONGEST_NAME), primary_key=True),  # of the stream
    sa.Column("ledger", sa.String(32), nullable=False),  # its identity
    sa.Column("address", sa.Text, nullable=False),  # without a password
    sa.Column("token", sa.String(32), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),  # of the entry
    sa.Column("newest", sa.BigInteger, nullable=False),  # number of the last entry that was seen
    sa.Column("chain", sa.String(64), nullable=False),  # and its digest
)


class ForeignEntry(NamedTuple):
    """An entry of another state.

    Attributes:
        number: counted from 1.
        state: its identity.
        place: where it was.
        spend: what it spends.
        begun: whether a stream has it; else it is reserved for one that was interrupted.
        step: how many steps that stream had released when it was heard of last.
    """

    number: int
    state: str
    place: str
    spend: Spend
    begun: bool
    step: int

    @property
    def label(self) -> str:
        """The stream and its state, in short."""
        return f"{self.spend.name} ({PurePath(self.place).name})"


def make(connection: Connection, table: sa.Table) -> None:
    """Make it, where it is missing; `lock` goes before."""
    if not has(connection, table):
        table.create(connection, checkfirst=False)


def of_others(connection: Connection) -> tuple[ForeignEntry, ...]:
    """What other states have entered, in order."""
    if not has(connection, entered):
        return ()
    rows = connection.execute(sa.select(entered).order_by(entered.c.number))
    with reading("the ledger"):
        return tuple(
            ForeignEntry(
                row.number, row.state, row.place, spend_of(row), row.token is not None, row.step
            )
            for row in rows
        )


def spend_of(row: Any) -> Spend:
    """What a row of a ledger says."""
    kept = {"name": row.name, "unit": row.unit, "relation": row.relation}
    return Spend.from_dict({**json.loads(row.guarantee), **kept})


def first_tie(connection: Connection) -> sa.Row[Any] | None:
    """What a state remembers of the ledger that it shares with others; None where it has none."""
    if not has(connection, ties):
        return None
    return connection.execute(sa.select(ties).order_by(ties.c.number)).first()


_ENTRIES = PreparedStatement(
    "SELECT name, guarantee, unit, relation FROM counton_ledger ORDER BY id"
)
_ENTER = PreparedStatement.insert(schema.ledger, "id")


def lock(connection: Connection) -> None:
    """Wait for other transactions that change the ledger (SQLite has locked the file already)."""
    if connection.dialect.name != "sqlite":
        connection.execute(sa.select(schema.database.c.id).with_for_update()).all()


def entries(connection: Connection) -> tuple[Spend, ...]:
    """What was spent, in order."""
    with reading("the ledger"):
        return tuple(spend_of(row) for row in _ENTRIES.rows(connection))


def all_entries(connection: Connection) -> tuple[Spend, ...]:
    """What was spent here, and by other states that count against the limit of this one.

    Other states may have streams of one name, so none of theirs follows another: they add up.
    """
    others = (one.spend._replace(name=one.label, follows=None) for one in of_others(connection))
    return (*entries(connection), *others)


def terms(connection: Connection) -> dict[str, Any] | None:
    """The limit and what it has fixed (`Ledger.terms`), or None."""
    saved = LIMIT.value(connection)
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
    _ENTER.run(connection, {**said, "guarantee": promise})


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


_STREAM = PreparedStatement("SELECT step, terms, details FROM counton_streams WHERE name = :name")


def _refuse_unfinished(connection: Connection, name: str) -> None:
    """Refuse to follow a stream that may release more: of a copy of its state, or of this one.

    Nor may a unit of it have been in several steps.
    """
    row, horizon = _STREAM.first(connection, name=name), None
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


def enter_known(connection: Connection, proposed: Ledger) -> Ledger:
    """Enter what was spent into a ledger without entries; nothing is written.

    What a limit is about stays as long as nobody says otherwise: without it less protection passes.

    Raises:
        BudgetExceeded: more is spent already.
        InvalidInput: what is spent cannot be counted against this kind of limit.
    """
    before = terms(connection)
    if proposed.unit is None and before is not None:
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
    connection.execute(schema.database.update().values(budget_limit=text))
