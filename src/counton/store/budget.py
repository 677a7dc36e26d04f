"""The ledger of a database: what its streams have spent, kept as rows."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.privacy import Guarantee, guarantee_from_dict
from counton.store import schema


def lock(connection: Connection) -> None:
    """Wait for other transactions that change the ledger (SQLite has locked the file already)."""
    connection.execute(sa.select(schema.database.c.id).with_for_update()).all()


def entries(connection: Connection) -> list[dict[str, Any]]:
    """Entries in the order they were made, as JSON values."""
    table = schema.ledger
    rows = connection.execute(sa.select(table.c.entry).order_by(table.c.id)).scalars()
    return [json.loads(entry) for entry in rows]


def limit(connection: Connection) -> Guarantee | None:
    """The most that may be spent, or None."""
    saved = connection.execute(sa.select(schema.database.c.budget_limit)).scalar_one()
    return None if saved is None else guarantee_from_dict(json.loads(saved))


def enter(connection: Connection, stream: str, guarantee: Guarantee) -> None:
    entry = {"stream": stream, "guarantee": guarantee.to_dict()}
    connection.execute(schema.ledger.insert().values(stream=stream, entry=json.dumps(entry)))


def set_limit(connection: Connection, new: Guarantee | None) -> None:
    text = None if new is None else json.dumps(new.to_dict(), sort_keys=True)
    connection.execute(schema.database.update().values(budget_limit=text))


def load(connection: Connection) -> Any: ...
