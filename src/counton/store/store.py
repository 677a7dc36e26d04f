"""A state database as a whole: its streams, the privacy they have spent, and its limit."""

from __future__ import annotations

import json
import os
from types import TracebackType
from typing import Any, Self

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from counton.privacy import Guarantee
from counton.store import budget, journal, schema
from counton.store.database import Database


class Store:
    """The streams of one database, which share one data set and one privacy budget.

    Args:
        state: path of a SQLite file, or a database URL.
        create: make the database where there is none.

    Raises:
        StateError: the state is missing, damaged, not ours or of another format.
        StreamConflict: it is locked by another process.
    """

    def __init__(self, state: str | os.PathLike[str], *, create: bool = False) -> None:
        self._database = Database(state, create=create)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of its streams, sorted."""
        with self._database.transaction(write=False) as connection:
            return tuple(sorted(connection.execute(sa.select(schema.streams.c.name)).scalars()))

    @property
    def ledger(self) -> "Ledger":
        """What its streams have spent, and the limit. A copy: entries are made by Stream.create."""
        with self._database.transaction(write=False) as connection:
            return budget.load(connection)

    @property
    def limit(self) -> Guarantee | None:
        """The most that all streams together may spend; None: no limit.

        Setting a limit below what is spent already raises ``BudgetExceeded`` and changes nothing.
        """
        with self._database.transaction(write=False) as connection:
            return budget.limit(connection)

    @limit.setter
    def limit(self, limit: Guarantee | None) -> None:
        with self._database.transaction(write=True) as connection:
            budget.lock(connection)
            budget.set_limit(connection, limit)

    def describe(self) -> dict[str, Any]:
        """What the database holds, as JSON values without secrets: no sums, no inputs, no keys."""
        with self._database.transaction(write=False) as connection:
            limit = budget.limit(connection)
            rows = connection.execute(sa.select(schema.streams).order_by(schema.streams.c.name))
            return {
                "state": self._database.label,
                "format": schema.FORMAT,
                "limit": None if limit is None else limit.to_dict(),
                "ledger": budget.entries(connection),
                "streams": [_public(connection, row) for row in rows.all()],
            }

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def describe_state(state: str | os.PathLike[str]) -> dict[str, Any]:
    """What a state holds, as JSON values without secrets. Needs no key and disturbs no writer.

    Returns:
        ``state``, ``format``, ``limit``, ``ledger`` (entries) and ``streams``: for each its
        ``name``, ``spec``, ``details``, ``key_fingerprint``, ``created``, ``step`` and ``last``
        (step, values and std of the last release, or None).

    Raises:
        StateError: the state is missing, damaged, not ours or of another format.
    """
    with Store(state) as store:
        return store.describe()


def _public(connection: Connection, row: Row[Any]) -> dict[str, Any]:
    spec = json.loads(row.spec)
    last = None
    if row.step:
        shape = tuple(spec["shape"])
        released = journal.read(connection, row.id, row.step, row.step + 1, shape)
        last = {
            "step": row.step,
            "values": np.asarray(released.values[0]).tolist(),
            "std": float(released.std[0]),
        }
    return {
        "name": row.name,
        "spec": spec,
        "details": json.loads(row.details),
        "key_fingerprint": row.key_fingerprint,
        "created": row.created,
        "step": row.step,
        "last": last,
    }
