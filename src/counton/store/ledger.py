"""The ledger of a database, kept as rows: what its releases have spent, and the limit."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.errors import BudgetExceeded
from counton.privacy import Contribution, Guarantee, Ledger, Spend
from counton.store import schema
from counton.store.database import reading


def lock(connection: Connection) -> None:
    """Wait for other transactions that change the ledger (SQLite has locked the file already)."""
    connection.execute(sa.select(schema.database.c.id).with_for_update()).all()


def entries(connection: Connection) -> tuple[Spend, ...]:
    """What was spent, in order."""
    table = schema.ledger
    columns = (table.c.name, table.c.guarantee, table.c.unit, table.c.relation)
    rows = connection.execute(sa.select(*columns).order_by(table.c.id))
    with reading("the ledger"):
        return tuple(
            Spend.from_dict(
                {
                    **json.loads(row.guarantee),
                    "name": row.name,
                    "unit": row.unit,
                    "relation": row.relation,
                }
            )
            for row in rows
        )


def terms(connection: Connection) -> dict[str, Any] | None:
    """The limit and what it has fixed (`Ledger.terms`), or None."""
    saved = connection.execute(sa.select(schema.database.c.budget_limit)).scalar_one()
    with reading("the ledger's limit"):
        return None if saved is None else dict(json.loads(saved))


def ledger(connection: Connection) -> Ledger | None:
    """What was spent under the limit; None where there is no limit to add up to."""
    bound = terms(connection)
    if bound is None:
        return None
    with reading("the ledger"):
        spends = [entry.to_dict() for entry in entries(connection)]
        return Ledger.from_dict({**bound, "spends": spends})


def refuse_beyond(
    connection: Connection, name: str, guarantee: Guarantee, contribution: Contribution
) -> None:
    """Refuse what `enter` would refuse, and record nothing.

    Raises:
        BudgetExceeded, InvalidInput: see `enter`.
    """
    present = ledger(connection)
    if present is not None:
        present.spend(name, guarantee, unit=contribution.unit, relation=contribution.relation)


def enter(
    connection: Connection, name: str, guarantee: Guarantee, contribution: Contribution
) -> None:
    """Record what a new stream or table spends.

    Raises:
        BudgetExceeded: the limit does not allow it.
        InvalidInput: this kind of guarantee cannot be counted against the limit.
    """
    entry = Spend(name, guarantee, contribution.unit, contribution.relation)
    present = ledger(connection)
    if present is not None:
        present.spend(name, guarantee, unit=entry.unit, relation=entry.relation)
        _write_terms(connection, present)
    connection.execute(
        schema.ledger.insert().values(
            name=name,
            guarantee=json.dumps(guarantee.to_dict(), sort_keys=True),
            unit=entry.unit,
            relation=entry.relation,
        )
    )


def set_limit(connection: Connection, proposed: Ledger | None) -> None:
    """Change the limit to that of a ledger without entries.

    Raises:
        BudgetExceeded: more is spent already.
        InvalidInput: what is spent cannot be counted against this kind of limit.
    """
    if proposed is not None:
        known = entries(connection)
        try:
            proposed.enter_all(known)
        except BudgetExceeded as error:
            spent = "; ".join(f"{entry.name!r} {entry.guarantee}" for entry in known)
            raise BudgetExceeded(
                f"the limit of {proposed.limit} was not set: more is spent already and cannot be "
                f"taken back ({shorten(spent, 300, placeholder=' ...')}): set a larger limit"
            ) from error
    _write_terms(connection, proposed)


def _write_terms(connection: Connection, present: Ledger | None) -> None:
    text = None if present is None else json.dumps(present.terms(), sort_keys=True)
    connection.execute(schema.database.update().values(budget_limit=text))
