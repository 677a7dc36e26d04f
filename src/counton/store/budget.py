"""The ledger of a database, kept as rows: what its streams have spent, and the limit."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.errors import BudgetExceeded
from counton.privacy import Guarantee, guarantee_from_dict
from counton.privacy.ledger import Budget, Ledger
from counton.store import schema
from counton.store.database import reading


def lock(connection: Connection) -> None:
    """Wait for other transactions that change the ledger (SQLite has locked the file already)."""
    connection.execute(sa.select(schema.database.c.id).with_for_update()).all()


def entries(connection: Connection) -> list[dict[str, Any]]:
    """What was spent, in order, as JSON values: the stream and its guarantee."""
    table = schema.ledger
    rows = connection.execute(sa.select(table.c.stream, table.c.guarantee).order_by(table.c.id))
    with reading("the ledger"):
        return [{"stream": row.stream, **json.loads(row.guarantee)} for row in rows]


def limit(connection: Connection) -> dict[str, Any] | None:
    """The limit and the age it counts at, as JSON values, or None."""
    saved = connection.execute(sa.select(schema.database.c.budget_limit)).scalar_one()
    with reading("the ledger's limit"):
        return None if saved is None else dict(json.loads(saved))


def ledger(connection: Connection) -> Ledger | None:
    """What was spent under the limit; None where there is no limit to add up to."""
    bound = limit(connection)
    if bound is None:
        return None
    with reading("the ledger"):
        return Ledger.from_dict({**bound, "spends": entries(connection)})


def enter(connection: Connection, stream: str, guarantee: Guarantee) -> None:
    """Record what a new stream spends.

    Raises:
        BudgetExceeded: the limit does not allow it.
        InvalidInput: this kind of guarantee cannot be counted against the limit.
    """
    present = ledger(connection)
    if present is not None:
        present.spend(stream, guarantee)
    text = json.dumps(guarantee.to_dict(), sort_keys=True)
    connection.execute(schema.ledger.insert().values(stream=stream, guarantee=text))


def _refuse_overspent(proposed: Ledger, spends: list[dict[str, Any]]) -> None:
    """Raise if what was spent is beyond a limit that is proposed."""
    guarantees = [(entry.pop("stream"), guarantee_from_dict(entry)) for entry in spends]
    spent = [f"{name!r} {guarantee}" for name, guarantee in guarantees]
    try:
        for name, guarantee in guarantees:
            proposed.spend(name, guarantee)
    except BudgetExceeded as error:
        raise BudgetExceeded(
            f"the limit of {proposed.limit} was not set: more is spent already and cannot be taken "
            f"back ({shorten('; '.join(spent), 300, placeholder=' ...')}): set a larger limit"
        ) from error


def set_limit(connection: Connection, new: Budget | None, age: int | None) -> None:
    """Change the limit.

    Raises:
        BudgetExceeded: more is spent already.
        InvalidInput: what is spent cannot be counted against this kind of limit.
    """
    text = None
    if new is not None:
        _refuse_overspent(Ledger(new, age=age), entries(connection))
        text = json.dumps({"limit": new.to_dict(), "age": age}, sort_keys=True)
    connection.execute(schema.database.update().values(budget_limit=text))
