"""Releases as plain rows, for whoever reads databases: Grafana, Metabase, psql.

The journal keeps releases as compressed blobs, which no query reads. Here they stand once more, one
row a value, in tables that hold nothing secret, and in one view over them, ``counton_releases``. A
value takes its number and its address; what all groups of a step share (times, deviation, the
half-width of the interval) stands there once. Beside them stands what is public of each stream, as
files carry it, so that `read_rows` finds all that a result is made from.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import SQLAlchemyError

from counton.base.errors import (
    InvalidInput,
    OldCopy,
    RequestMismatch,
    StateError,
    StateUnavailable,
    StreamConflict,
    field,
)
from counton.base.lazy import require
from counton.base.outside_input import parse_json
from counton.base.windows import load_zone
from counton.state import schema
from counton.state.database import Database, database_url, label_of
from counton.state.sql import has
from counton.state.sqlite_file import is_state

_NUMBER: Any = sa.Double().with_variant(
    sa.Numeric(asdecimal=False), "sqlite"
)  # whole ones stay whole
_TIME = sa.TIMESTAMP(timezone=True)

#: Characters of one text and rows of one stream that are read; instructions that SQLite takes at
#: once, and how many times.
_MOST_TEXT, _MOST_ROWS = 2**28, 2**24
_WORK, _MOST_WORK = 10_000, 400_000

metadata = sa.MetaData()
streams = sa.Table(
    "counton_published_streams",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("stream", sa.String(schema.LONGEST_NAME), nullable=False, unique=True),
    sa.Column("key_fingerprint", sa.String(64), nullable=False),
    sa.Column("protected", sa.Text, nullable=False),
    sa.Column("guarantee", sa.Text, nullable=False),
    sa.Column("strategy", sa.Text, nullable=False),
    sa.Column("level", _NUMBER, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),  # the last that is published
    sa.Column("shown", sa.Text),  # JSON: what is shown of readings; null: what shows by itself
)


def _of_stream(*more: Any, name: str) -> sa.Table:
    owner = sa.Column("stream_id", sa.BigInteger, sa.ForeignKey(streams.c.id), primary_key=True)
    return sa.Table(name, metadata, owner, *more, sqlite_with_rowid=False)


groups = _of_stream(
    sa.Column("cell", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("group", sa.Text, nullable=False),
    sa.UniqueConstraint("stream_id", "group", name="counton_published_group"),
    name="counton_published_groups",
)
windows = _of_stream(
    sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("window_start", _TIME),  # null: all rows were released once
    sa.Column("window_end", _TIME),
    sa.Column("std", _NUMBER),
    sa.Column("half", _NUMBER),
    sa.Column("window_std", _NUMBER),
    sa.Column("window_half", _NUMBER),
    sa.Column("local_start", sa.TIMESTAMP()),  # as clocks of the stream's timezone show it
    name="counton_published_windows",
)
values = _of_stream(
    sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("cell", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("estimate", _NUMBER),
    sa.Column("window_estimate", _NUMBER),
    name="counton_published_values",
)

#: What readings of statistics say: several numbers a step, each with an interval of its own.
readings = _of_stream(
    sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("group", sa.Text, nullable=False),
    sa.Column("estimate", _NUMBER),
    sa.Column("std", _NUMBER),
    sa.Column("lower", _NUMBER),
    sa.Column("upper", _NUMBER),
    name="counton_published_readings",
)

#: What is public of a stream, as files carry it; JSON.
descriptions = _of_stream(
    sa.Column("description", sa.Text, nullable=False), name="counton_published_descriptions"
)
#: Cells of which the readings of a statistic are made, by consecutive steps; JSON.
cells = _of_stream(
    sa.Column("first_step", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last_step", sa.BigInteger, nullable=False),
    sa.Column("cells", sa.Text, nullable=False),
    name="counton_published_cells",
)

#: What is read. Columns ``window_...`` are of the window by itself, the others of all so far.
_VIEW = """VIEW counton_releases AS
SELECT s.stream, w.step, w.window_start, w.window_end, g."group",
    v.estimate, w.std, v.estimate - w.half AS lower, v.estimate + w.half AS upper,
    v.window_estimate, w.window_std,
    v.window_estimate - w.window_half AS window_lower,
    v.window_estimate + w.window_half AS window_upper,
    s.level, s.step AS last_step, w.local_start
FROM counton_published_streams s
JOIN counton_published_groups g ON g.stream_id = s.id
JOIN counton_published_windows w ON w.stream_id = s.id
JOIN counton_published_values v
    ON v.stream_id = s.id AND v.step = w.step AND v.cell = g.cell
UNION ALL
SELECT s.stream, w.step, w.window_start, w.window_end, r."group",
    r.estimate, r.std, r.lower, r.upper, NULL, NULL, NULL, NULL, s.level, s.step, w.local_start
FROM counton_published_streams s
JOIN counton_published_windows w ON w.stream_id = s.id
JOIN counton_published_readings r ON r.stream_id = s.id AND r.step = w.step
"""


class PublicFacts(NamedTuple):
    """What a stream publishes, besides its rows."""

    stream: str
    key_fingerprint: str
    protected: str
    guarantee: str
    strategy: str
    level: float
    shown: str | None
    groups: Sequence[str]


class PublishedReach(NamedTuple):
    """How far a stream is published.

    Attributes:
        stream_id: the number under which it stands there.
        step: the last that is published.
        cells: the last step of which cells are published.
    """

    stream_id: int
    step: int
    cells: int


class PublishedRows(NamedTuple):
    """What a database says of one published stream, all of it public.

    Attributes:
        place: the database, without a password.
        facts: the description, and who wrote it.
        last: the last step that is published.
        columns: ``step``, and of counts and sums ``group, estimate, window_estimate``.
        cells: of a statistic, by consecutive steps: first, last, and the packed cells.
    """

    place: str
    facts: dict[str, Any]
    last: int
    columns: dict[str, list[Any]]
    cells: list[tuple[int, int, dict[str, Any]]]


class Place:
    """A database to publish in: that of the state, or another one.

    Args:
        database: of the state.
        to: path of a SQLite file, made if missing, or a database URL; None: the state's own.

    Raises:
        InvalidInput: ``to`` is neither a path nor a SQLite or PostgreSQL URL, or another state.
    """

    def __init__(self, database: Database, to: str | os.PathLike[str] | None) -> None:
        self._database: Database | None = database
        self._engine: sa.Engine | None = None
        self.label = database.label
        if to is None:
            return
        url = database_url(to, field("to"))
        if url == database.url:
            return
        if url.get_backend_name() == "sqlite":
            self.label = str(url.database)
            if is_state(Path(self.label)):
                raise InvalidInput(
                    f"{field('to', os.fspath(to))} is another state, which is secret: publish in "
                    f"a file of its own"
                )
            if not Path(self.label).parent.is_dir():
                raise InvalidInput(
                    f"{field('to', os.fspath(to))} lies in a folder that does not exist: make it "
                    f"first"
                )
        else:
            self.label = label_of(url)
            require("psycopg")
        self._database, self._engine = None, sa.create_engine(url)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """One transaction: committed at the end of the block, undone if the block raises."""
        if self._database is not None:
            with self._database.transaction(write=write) as connection:
                yield connection
            return
        assert self._engine is not None
        try:
            with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error) as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise StateUnavailable(
                f"{field('to', self.label)} cannot be used ({cause}): check the path or address, "
                f"its permissions and the space left"
            ) from error

    def close(self) -> None:
        """Drop the connections to another database than the state's."""
        if self._engine is not None:
            self._engine.dispose()


def find_row(connection: Connection, stream: str) -> Row[Any] | None:
    """The row of a published stream; None if it is not published."""
    if not has(connection, streams):
        return None
    return connection.execute(sa.select(streams).where(streams.c.stream == stream)).first()


def begin(
    connection: Connection,
    shown: PublicFacts,
    last: int,
    description: Mapping[str, Any],
    author: str,
) -> PublishedReach:
    """Make what is missing, and say how far a stream is published.

    Raises:
        StateError: another stream of this name is published there, or more of this one.
    """
    if not sa.inspect(connection).has_table(streams.name):
        metadata.create_all(connection)
        connection.exec_driver_sql(f"CREATE {_VIEW}")
    row = find_row(connection, shown.stream)
    facts = {name: value for name, value in shown._asdict().items() if name != "groups"}
    if row is not None and row.key_fingerprint != shown.key_fingerprint:
        raise RequestMismatch(
            f"another stream {shown.stream!r} is published there, with the key "
            f"{row.key_fingerprint}: publish elsewhere, or remove that one first"
        )
    if row is not None and row.step > last:
        raise OldCopy(
            f"{row.step:,} steps of stream {shown.stream!r} are published, but the state knows "
            f"{last:,}: it is an old copy; bring the newest one back"
        )
    if row is not None:
        known = connection.execute(
            sa.select(sa.func.count()).select_from(groups).where(groups.c.stream_id == row.id)
        ).scalar_one()
        same = row.level == shown.level and row.shown == shown.shown
        if not same or known != len(shown.groups):
            remove(connection, shown.stream)  # all readings, or all steps of a group, are new
            row = None
    if row is None:
        connection.execute(streams.insert().values(**facts, step=0))
        row = find_row(connection, shown.stream)
        assert row is not None
        named = [
            {"stream_id": row.id, "cell": cell, "group": name}
            for cell, name in enumerate(shown.groups)
        ]
        if named:
            connection.execute(groups.insert(), named)
    _describe(connection, row.id, description, author)
    newest = sa.select(sa.func.max(cells.c.last_step)).where(cells.c.stream_id == row.id)
    return PublishedReach(row.id, row.step, connection.execute(newest).scalar() or 0)


def _describe(
    connection: Connection, stream_id: int, description: Mapping[str, Any], author: str
) -> None:
    """Keep what is public of a stream, if it is not what stands there."""
    of = descriptions.c.stream_id == stream_id
    before = connection.execute(sa.select(descriptions.c.description).where(of)).scalar()
    text = json.dumps({"written_by": author, "description": description})
    if before is not None and _parse_description(before) == json.loads(text)["description"]:
        return
    connection.execute(descriptions.delete().where(of))
    connection.execute(descriptions.insert().values(stream_id=stream_id, description=text))


def _parse_description(text: str) -> Any:
    try:
        return parse_json(text)["description"]
    except (ValueError, LookupError, TypeError):
        return None


def write_cells(
    connection: Connection, stream_id: int, first: int, last: int, packed: Mapping[str, Any]
) -> None:
    """Add the cells of consecutive steps."""
    row = {"stream_id": stream_id, "first_step": first, "last_step": last}
    connection.execute(cells.insert().values(**row, cells=json.dumps(packed)))


def remove_cells(connection: Connection, stream_id: int) -> None:
    """Take the cells of a stream away, which are too many by now."""
    connection.execute(cells.delete().where(cells.c.stream_id == stream_id))


def write(
    connection: Connection,
    stream_id: int,
    first: int,
    last: int,
    window_rows: Iterable[Sequence[Any]],
    value_rows: Iterable[Sequence[Any]],
    reading_rows: Iterable[Sequence[Any]] = (),
) -> None:
    """Add the steps from ``first`` to ``last``: rows of windows, of values, and of readings."""
    moved = connection.execute(
        streams.update()
        .where(streams.c.id == stream_id, streams.c.step == first - 1)
        .values(step=last)
    )
    if moved.rowcount != 1:
        raise StreamConflict(
            f"another process is publishing the same stream, and has added step {first:,} already: "
            f"let one of them do it"
        )
    added = ((windows, window_rows), (values, value_rows), (readings, reading_rows))
    for table, rows in added:
        names = [f'"{column.name}"' for column in table.columns]
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        listed = ", ".join(names)
        places = ", ".join([mark] * len(names))
        given = [(stream_id, *row) for row in rows]
        if given:
            # Written as text, since the names are ours, and since a row costs ten times less so.
            connection.exec_driver_sql(
                f"INSERT INTO {table.name} ({listed}) VALUES ({places})",  # noqa: S608
                given,
            )


def remove(connection: Connection, stream: str) -> Row[Any] | None:
    """Take a stream's rows away; its row, if it was published."""
    row = find_row(connection, stream)
    if row is not None:
        for table in (values, readings, cells, descriptions, windows, groups):
            connection.execute(table.delete().where(table.c.stream_id == row.id))
        connection.execute(streams.delete().where(streams.c.id == row.id))
    return row


def moments(connection: Connection, times: Sequence[Any]) -> Sequence[Any]:
    """Aware datetimes as the database keeps them: text in UTC in SQLite, which has no times."""
    if connection.dialect.name != "sqlite":
        return times
    return [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times]


def local_moments(connection: Connection, times: Sequence[Any], zone: str) -> Sequence[Any]:
    """The same times as clocks of a zone show them, without an offset."""
    local = [time.astimezone(load_zone(zone)).replace(tzinfo=None) for time in times]
    return local if connection.dialect.name != "sqlite" else [time.isoformat() for time in local]


def read_rows(source: str, name: str | None = None) -> PublishedRows:
    """What is published of a stream, from a database that is not changed.

    Raises:
        StateError: a state, a database in which nothing is published or no such stream, one that
            cannot be read, or one that was published without a description.
    """
    with _reading(source) as (connection, place):
        if not sa.inspect(connection).has_table(streams.name):
            raise RequestMismatch(_nothing(connection, place))
        names = list(connection.execute(sa.select(streams.c.stream).order_by("stream")).scalars())
        chosen = names[0] if name is None and len(names) == 1 else name
        if chosen not in names:
            listed = ", ".join(map(repr, names))
            if not names:
                raise RequestMismatch(f"{place} has no stream published: counton publish adds one")
            if chosen is None:
                raise RequestMismatch(f"{place} has {listed}: say which with {field('name')}")
            raise RequestMismatch(
                f"{place} has no stream {chosen!r} published; it has {listed}: correct the name"
            )
        row = connection.execute(
            sa.select(streams.c.id, streams.c.step).where(streams.c.stream == chosen)
        ).one()
        text = connection.execute(
            sa.select(descriptions.c.description).where(descriptions.c.stream_id == row.id)
        ).scalar()
        if text is not None and len(text) > _MOST_TEXT:
            raise StateError(
                f"{place} has a description of {len(text):,} characters; at most {_MOST_TEXT:,} "
                f"are read: publish the stream anew"
            )
        if text is None or _parse_description(text) is None:
            raise StateError(
                f"{place} has no description of stream {chosen!r}, so its numbers alone cannot be "
                f"asked: it was removed; publish again (counton publish)"
            )
        facts = parse_json(text)
        stretches = connection.execute(
            sa.select(cells.c.first_step, cells.c.last_step, cells.c.cells)
            .where(cells.c.stream_id == row.id)
            .order_by(cells.c.first_step)
        ).all()
        plain = facts["description"].get("shown") is None
        listed = 'step, "group", estimate, window_estimate' if plain else "DISTINCT step"
        order = 'step, "group"' if plain else "step"
        found = connection.execute(
            sa.text(
                f"SELECT {listed} FROM counton_releases "  # noqa: S608  # names of ours
                f"WHERE stream = :stream ORDER BY {order} LIMIT {_MOST_ROWS + 1}"
            ),
            {"stream": chosen},
        )
        names = list(found.keys())
        rows = found.all()
        if len(rows) > _MOST_ROWS:
            raise RequestMismatch(
                f"{place} has more than {_MOST_ROWS:,} rows of stream {chosen!r}, which is the "
                f"most that is read at once: ask the database itself, or read files of parts"
            )
        columns = [list(column) for column in zip(*rows, strict=True)]
    return PublishedRows(
        place,
        facts,
        row.step,
        dict(zip(names, columns or [[] for _ in names], strict=True)),
        [(first, last, parse_json(packed)) for first, last, packed in stretches],
    )


def is_published(source: str) -> bool:
    """Whether a database is one of published releases and no state, or none that is readable."""
    url = database_url(source, "the database")
    if url.get_backend_name() == "sqlite" and is_state(Path(str(url.database))):
        return False
    with _reading(source) as (connection, _):
        if not sa.inspect(connection).has_table(streams.name):
            return False
        if not sa.inspect(connection).has_table(schema.streams.name):
            return True
        return not connection.execute(
            sa.select(sa.func.has_any_column_privilege(schema.streams.name, "SELECT"))
        ).scalar()


def _nothing(connection: Connection, place: str) -> str:
    """Why a database has nothing to read."""
    if sa.inspect(connection).has_table(schema.streams.name):
        return (
            f"{place} is a state, and nothing is published in it: publish its streams first "
            f"(counton publish), or ask the state (counton answer)"
        )
    return (
        f"{place} has no table {streams.name}, so nothing is published there: publish a stream of "
        f"a state there (counton publish)"
    )


def _connection_of(address: str) -> sqlite3.Connection:
    """A connection whose questions end, whatever views a file has."""
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT)
    left = iter(range(_MOST_WORK))
    connection.set_progress_handler(lambda: next(left, None) is None, _WORK)
    return connection


@contextmanager
def _reading(source: str) -> Iterator[tuple[Connection, str]]:
    """One look at a database, which neither makes nor changes it; and its name."""
    url = database_url(source, "the database")
    file = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
    place = label_of(url) if file is None else str(file)
    if file is None:
        require("psycopg")
        engine = sa.create_engine(url, isolation_level="REPEATABLE READ")
    else:
        if not file.is_file():
            raise RequestMismatch(f"{place} is no file: give a database that counton publish wrote")
        if is_state(file):
            raise RequestMismatch(
                f"{place} is a state, which is secret and not for readers: publish its streams in "
                f"a file of their own (counton publish), or ask the state (counton answer)"
            )
        address = f"{file.as_uri()}?mode=ro"
        engine = sa.create_engine("sqlite://", creator=lambda: _connection_of(address))
    try:
        with engine.connect() as connection:
            if file is not None:
                connection.exec_driver_sql("BEGIN")  # all that is read is of one moment
            yield connection, place
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StateUnavailable(
            f"{place} cannot be read ({cause}): check the path or address; a reader on a server is "
            f"granted SELECT on counton_releases, {streams.name}, {descriptions.name} and "
            f"{cells.name}"
        ) from error
    finally:
        engine.dispose()
