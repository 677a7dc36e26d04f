"""Looks into the database of a state, and ears on what databases are asked."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from counton.state.database import parse_address
from counton.state.sql import Connection


@contextmanager
def looked_into(state: str | os.PathLike[str]) -> Iterator[Connection]:
    """A transaction of a state's database, around all that a state checks."""
    connections = parse_address(state).connections(5)
    try:
        with connections.transaction("BEGIN") as connection:
            yield connection
    finally:
        connections.close()


def rows_in(state: str | os.PathLike[str], said: str, **values: Any) -> list[dict[str, Any]]:
    """What a SELECT finds in a state's database."""
    with looked_into(state) as connection:
        return [row._asdict() for row in connection.rows(said, **values)]


def hear(
    before: Callable[[str], object], after: Callable[[str], object] = lambda _: None
) -> Callable[[], None]:
    """Call functions around each statement of every database, BEGIN and COMMIT included.

    Returns:
        What ends it.
    """
    execute = Connection.execute

    def listening(self: Connection, said: str, *rows: Any, **values: Any) -> Any:
        before(said)
        cursor = execute(self, said, *rows, **values)
        after(said)
        return cursor

    setattr(Connection, "execute", listening)  # noqa: B010 - a type checker cannot follow
    return lambda: setattr(Connection, "execute", execute)


@contextmanager
def heard(
    before: Callable[[str], object], after: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """As `hear`, within a block."""
    end = hear(before, after)
    try:
        yield
    finally:
        end()
