"""Rows that wait to be counted: batches as they were sent, committed before they are acknowledged.

The inbox lies in the state's own database, and is as secret as it. What waits is put into a *fold*
before a run is given it, so that a run that is killed is given the very same rows again. The rows
of a fold are removed in the transaction that counts them: they are there until they are counted and
never again, and nothing is kept of folds. Ids and digests of batches stay for a time, so that a
batch that is sent again is known.

Which batches are in a fold together hangs on the times alone at which they came, which are kept
with them. A stream that is closed takes no batch any more: that is decided in the transaction that
would commit the batch, so that none is acknowledged after the last fold.

Each sender fills a part of the stream that is his own (`counton.base.exact_sums.share_of`). Whether
a batch is taken hangs on what its own sender has sent, and never on rows of others: else he could
send more and more until he is refused, and would know their sum.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.base.errors import InvalidInput, OldCopy, RequestMismatch, StreamConflict
from counton.base.exact import name_alone, quote
from counton.base.exact_sums import share_of
from counton.base.private import Private, open_private
from counton.state import key_and_witness as keyfile
from counton.state import schema
from counton.state.database import Closing, Database
from counton.state.sql import PreparedStatement
from counton.state.store import position_of

#: Longest id of a batch.
LONGEST_ID = 200

metadata = sa.MetaData()
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

#: Batches that were accepted, by the ids that their senders gave them. Secret: digests of rows.
batches = sa.Table(
    "counton_inbox_batches",
    metadata,
    sa.Column("stream_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("batch", sa.String(LONGEST_ID), primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("arrived", sa.BigInteger, nullable=False, index=True),  # microseconds since 1970
    sa.Column("answer", sa.Text, nullable=False),  # JSON: what its sender was told
)
#: Secret: rows of batches that are not in the state yet.
waiting = sa.Table(
    "counton_inbox_waiting",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("stream_id", sa.BigInteger, nullable=False, index=True),
    sa.Column("digest", sa.LargeBinary, nullable=False),  # of the batch, its id and time
    sa.Column("fold", sa.BigInteger),  # null: in none yet
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("aside", sa.Text, nullable=False),  # JSON: rows that are set aside
    sa.Column("arrived", sa.BigInteger, nullable=False),  # microseconds since 1970
    sa.Column("sender", sa.String(LONGEST_ID)),  # id of a token; null: the operator put it back
)
#: Secret: batches that no run could count, and rows that could not be set aside in a file.
left_out = sa.Table(
    "counton_inbox_left_out",
    metadata,
    sa.Column("id", _ID, primary_key=True),
    sa.Column("stream_id", sa.BigInteger, nullable=False, index=True),
    sa.Column("batch", sa.String(LONGEST_ID)),  # null: its id is forgotten
    sa.Column("arrived", sa.BigInteger, nullable=False),  # microseconds since 1970
    sa.Column("rows", sa.BigInteger, nullable=False),  # that are not counted
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("aside", sa.Text, nullable=False),  # JSON: rows that no file holds yet
    sa.Column("why", sa.Text, nullable=False),
)
#: Streams that take no batch any more.
closed = sa.Table(
    "counton_inbox_closed",
    metadata,
    sa.Column("stream_id", sa.BigInteger, primary_key=True, autoincrement=False),
)

#: Secret: which part of what the sums of a stream can hold the acknowledged rows of each sender
#: come to, at most; by window where a release is of one, else under 0.
held_parts = sa.Table(
    "counton_inbox_shares",
    metadata,
    sa.Column("stream_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sender", sa.String(LONGEST_ID), primary_key=True),  # id of a token
    sa.Column("number", sa.BigInteger, nullable=False),  # of the sender
    sa.Column("part", sa.Double, nullable=False),
)

#: No rows that are set aside, as JSON.
_NONE = "[]"

_ENTER = PreparedStatement(
    "INSERT INTO counton_inbox_batches (stream_id, batch, digest, arrived, answer)"
    " VALUES (:stream_id, :batch, :digest, :arrived, :answer) ON CONFLICT DO NOTHING"
)
_WAIT = PreparedStatement(
    waiting.insert(), ["stream_id", "digest", "fold", "rows", "body", "aside", "arrived", "sender"]
)
_HOLD = PreparedStatement(
    "INSERT INTO counton_inbox_shares (stream_id, step, sender, number, part)"
    " VALUES (:stream_id, :step, :sender, :number, :part)"
    " ON CONFLICT (stream_id, step, sender) DO UPDATE SET part = excluded.part"
)


class Sender(NamedTuple):
    """Who sends rows.

    >>> Sender("6f0c11aa", 2).share
    0.03125

    Attributes:
        id: of the token that he sends with.
        number: of it, from 1: no other sender has it.
    """

    id: str
    number: int

    @property
    def share(self) -> float:
        """Which part of all that a stream's sums can hold he may fill."""
        return share_of(self.number)


@name_alone
class Batch(NamedTuple):
    """Rows that a client has sent, checked.

    Attributes:
        stream: its name.
        id: of the batch, by its sender.
        digest: of what was sent.
        arrived: microseconds since 1970.
        answer: what the sender is told, JSON values.
        rows: how many there are.
        body: the rows that can be counted.
        aside: rows that are set aside, as JSON values; None: there are none.
        parts: which part of what the stream's sums can hold its rows come to; by window where a
            release is of one, else under 0.
        sender: whose share of the stream they fill.
        over: windows before this one are released, and nothing comes into them any more.
    """

    stream: str
    id: str
    digest: bytes
    arrived: int
    answer: dict[str, Any]
    rows: int
    body: Private[bytes]
    aside: Private[Sequence[Sequence[Any]]] | None = None
    parts: Private[Mapping[int, float]] | None = None
    sender: Sender = Sender("", 1)
    over: int = 0


class Verdict(NamedTuple):
    """What became of a batch.

    Attributes:
        what: accepted; known, where the same was accepted before; other, where another one of
            this id was; closed, where the stream takes nothing any more; or full, where it comes to
            more than is left of its sender's share.
        answer: what the sender was told at first.
    """

    what: Literal["accepted", "known", "other", "closed", "full"]
    answer: dict[str, Any]


@name_alone
class Fold(NamedTuple):
    """Batches that are counted together. Secret.

    Attributes:
        stream: its name.
        number: of the fold, which another one may have had before.
        digest: of all that is in it.
        batches: their numbers in the inbox.
        bodies: rows, batch by batch.
        has_aside: whether there are rows to set aside.
        first, last: when the first and the last of its batches came, microseconds since 1970.
    """

    stream: str
    number: int
    digest: bytes
    batches: tuple[int, ...]
    bodies: tuple[Private[bytes], ...]
    has_aside: bool
    first: int
    last: int


@name_alone
class LeftOut(NamedTuple):
    """A batch that was acknowledged and that no run could count. Secret.

    Attributes:
        id: by which it is asked for: of what it holds.
        stream: its name.
        batch: its id by its sender; None where that is forgotten.
        arrived: microseconds since 1970.
        rows: how many it has.
        body: the rows.
        why: what the run said of them.
    """

    id: str
    stream: str
    batch: str | None
    arrived: int
    rows: int
    body: Private[bytes]
    why: str


class Load(NamedTuple):
    """What waits in an inbox. Exact: only for the operator."""

    batches: int
    rows: int
    bytes: int


class HeldBatches(NamedTuple):
    """Batches of a stream whose rows an inbox holds.

    Attributes:
        waiting: those that wait to be counted, each by its number, its digest and when it came.
        left_out: whether there are others, which no run could count.
    """

    waiting: frozenset[tuple[int, bytes, int]]
    left_out: bool


def held_batches(database: Database, stream: str) -> HeldBatches:
    """Batches of a stream whose rows an inbox holds."""
    with database.transaction(write=False) as connection:
        if not sa.inspect(connection).has_table(waiting.name):
            return HeldBatches(frozenset(), left_out=False)
        which = sa.select(schema.streams.c.id).where(schema.streams.c.name == stream)
        number, table = connection.execute(which).scalar_one(), waiting.c
        rows = connection.execute(
            sa.select(table.id, table.digest, table.arrived).where(table.stream_id == number)
        )
        found = frozenset((int(id), bytes(digest), int(came)) for id, digest, came in rows)
        others = sa.select(left_out.c.id).where(left_out.c.stream_id == number)
        return HeldBatches(found, left_out=connection.execute(others).first() is not None)


class Inbox(Closing):
    """The inbox of a state, of all its streams. Threads may share it.

    >>> from counton import PureDP, Stream
    >>> from counton.base.private import Private
    >>> from counton.state.stream_writer import Addition
    >>> from counton.strategies import Binary
    >>> Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1)).close()
    >>> with Inbox("visits.db") as inbox:
    ...     batch = Batch("visits", "one", b"digest", 0, {"rows": 3}, 3, Private(b"rows"))
    ...     [verdict.what for verdict in inbox.put([batch]) + inbox.put([batch])]
    ...     fold = inbox.fold("visits", lambda arrived: arrived + 10, by=20)
    ...     again = inbox.fold("visits", lambda arrived: arrived + 10, by=20)
    ...     fold.bodies, again.digest == fold.digest
    ...     with Stream.open("visits.db", "visits") as stream:
    ...         stream.take(Private(Addition()), lambda connection: inbox.take(connection, fold))
    ...     inbox.fold("visits", lambda arrived: arrived + 10, by=20) is None
    ['accepted', 'known']
    ((Private[bytes],), True)
    True

    Args:
        state: path of a SQLite file, or a database URL; it holds the streams already.
        keys: where the streams' keys are kept, beside which stands what was released. A state that
            has forgotten some of it takes no batch.

    Raises:
        StateError: the state cannot be used.
    """

    def __init__(
        self, state: str | os.PathLike[str], keys: Mapping[str, keyfile.Kept] | None = None
    ) -> None:
        self._database = Database(state, brief=True)
        self._witnesses = {
            name: keyfile.witness_beside(self._database, key) for name, key in (keys or {}).items()
        }
        self._streams: dict[str, int] = {}
        self._ended: dict[int, tuple[int, bool]] = {}
        try:
            with self._database.transaction(write=True) as connection:
                if not self._database.is_sqlite:
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
                metadata.create_all(connection)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def find(self, stream: str, id: str, digest: bytes) -> Verdict | None:
        """What becomes of a batch whose id was there before; None where it was not."""
        with self._database.transaction(write=False) as connection:
            return self._known_verdict(connection, self._stream(connection, stream), id, digest)

    def put(self, given: Sequence[Batch]) -> list[Verdict]:
        """Commit batches, all in one transaction; what becomes of each.

        Raises:
            StateError: the state cannot be used, or is an old copy; none of them is kept.
        """
        verdicts: list[Verdict] = []
        with self._taking_in(batch.stream for batch in given) as connection:
            entered: list[tuple[int, Batch]] = []
            is_closed: dict[int, bool] = {}
            held, added = self._held_parts(connection, given), dict[_HeldPart, float]()
            over: dict[int, int] = {}
            for batch in given:
                stream = self._stream(connection, batch.stream)
                known = self._known_verdict(connection, stream, batch.id, batch.digest)
                if stream not in is_closed:
                    is_closed[stream] = self._is_closed(connection, stream)
                if known is None and is_closed[stream]:
                    known = Verdict("closed", {})
                parts = {
                    _HeldPart(stream, step, batch.sender): part
                    for step, part in _parts(batch).items()
                }
                # What its own sender has sent alone decides.
                if known is None and any(
                    held.get(place, 0.0) + part > batch.sender.share
                    for place, part in parts.items()
                ):
                    known = Verdict("full", {})
                if known is None and not _ENTER.run(connection, _entry(stream, batch)):
                    known = self._known_verdict(connection, stream, batch.id, batch.digest)
                if known is not None:
                    verdicts.append(known)
                    continue
                entered.append((stream, batch))
                over[stream] = max(batch.over, over.get(stream, 0))
                for place, part in parts.items():
                    added[place] = held[place] = held.get(place, 0.0) + part
                verdicts.append(Verdict("accepted", batch.answer))
            if entered:
                _WAIT.run(connection, *(_waits(stream, batch) for stream, batch in entered))
                self._hold(connection, added, over)
        return verdicts

    def _held_parts(self, connection: Connection, given: Sequence[Batch]) -> dict[_HeldPart, float]:
        """What the senders of batches have filled by now, where these would add to it."""
        wanted: dict[int, set[int]] = {}
        senders = {batch.sender.id: batch.sender for batch in given}
        for batch in given:
            if parts := _parts(batch):
                wanted.setdefault(self._stream(connection, batch.stream), set()).update(parts)
        if wanted and not self._database.is_sqlite:  # no two servers add to it at once
            for stream in sorted(wanted):
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_HOLDING, stream)))
        table, found = held_parts.c, dict[_HeldPart, float]()
        for stream, steps in wanted.items():
            query = sa.select(table.step, table.sender, table.part).where(
                table.stream_id == stream,
                table.sender.in_(senders),
                table.step.between(min(steps), max(steps)),
            )
            found |= {
                _HeldPart(stream, step, senders[sender]): part
                for step, sender, part in connection.execute(query)
            }
        return found

    def _hold(
        self, connection: Connection, held: Mapping[_HeldPart, float], over: Mapping[int, int]
    ) -> None:
        """Keep what senders have filled, and forget it of windows that are over."""
        rows = [
            {
                **place._asdict(),
                "sender": place.sender.id,
                "number": place.sender.number,
                "part": part,
            }
            for place, part in held.items()
        ]
        if rows:
            _HOLD.run(connection, *rows)
        table = held_parts.c
        for stream, step in over.items():
            gone = sa.and_(table.stream_id == stream, table.step > 0, table.step < step)
            if step > 1:
                connection.execute(held_parts.delete().where(gone))

    def add(self, name: str, key: keyfile.Kept) -> None:
        """Take batches of one stream more, whose key is kept there."""
        self._witnesses[name] = keyfile.witness_beside(self._database, key)

    @contextmanager
    def _taking_in(self, streams: Iterable[str]) -> Iterator[Connection]:
        """A transaction that lets batches of streams wait."""
        names = set(streams) & self._witnesses.keys()
        held = {name: self._witnesses[name].snapshot() for name in names}
        with self._database.transaction(write=True) as connection:
            if not self._database.is_sqlite:  # no stream is closed meanwhile
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_CLOSING)))
            for name, witness in held.items():
                position_of(connection, self._database, name, witness)
            yield connection

    def fold(self, stream: str, end: Callable[[int], int], by: int) -> Fold | None:
        """What is to be counted next: a fold that was not taken yet, or the next one that is over.

        Args:
            end: of the fold that a batch belongs to which came at a microsecond: later ones are
                not in it. A function of the time alone.
            by: microseconds; folds that end later are not over.
        """
        table = waiting.c
        with self._database.transaction(write=True) as connection:
            if not self._database.is_sqlite:  # else rows of another server's fold may join this one
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_FOLDING)))
            stream_id = self._stream(connection, stream)
            mine = table.stream_id == stream_id
            number = connection.execute(sa.select(sa.func.min(table.fold)).where(mine)).scalar()
            if number is None:
                none_yet = sa.and_(mine, table.fold.is_(None))
                first = connection.execute(
                    sa.select(sa.func.min(table.arrived)).where(none_yet)
                ).scalar()
                if first is None or end(int(first)) > by:
                    return None
                these = sa.and_(none_yet, table.arrived < end(int(first)))
                number = connection.execute(
                    sa.select(sa.func.max(table.id)).where(these)
                ).scalar_one()
                connection.execute(waiting.update().where(these).values(fold=number))
            rows = connection.execute(
                sa.select(table.id, table.digest, table.body, table.aside, table.arrived)
                .where(mine, table.fold == number)
                .order_by(table.id)
            ).all()
        return Fold(
            stream,
            int(number),
            _digest(row.digest for row in rows),
            tuple(int(row.id) for row in rows),
            tuple(Private(bytes(row.body)) for row in rows),
            any(row.aside != _NONE for row in rows),
            min(int(row.arrived) for row in rows),
            max(int(row.arrived) for row in rows),
        )

    def close_stream(self, stream: str) -> bool:
        """Take no batch of a stream any more, unless some wait; whether it is closed now."""
        with self._database.transaction(write=True) as connection:
            if not self._database.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLOSING)))
            stream_id = self._stream(connection, stream)
            waits = sa.select(waiting.c.id).where(waiting.c.stream_id == stream_id).limit(1)
            if connection.execute(waits).first() is not None:
                return False
            found = sa.select(closed.c.stream_id).where(closed.c.stream_id == stream_id)
            if connection.execute(found).first() is None:
                connection.execute(closed.insert().values(stream_id=stream_id))
            return True

    def _is_closed(self, connection: Connection, stream_id: int) -> bool:
        """Whether a stream takes nothing any more: it is closed, or was ended by a command."""
        found = sa.select(closed.c.stream_id).where(closed.c.stream_id == stream_id)
        if connection.execute(found).first() is not None:
            return True
        table = schema.streams.c
        epoch = connection.execute(
            sa.select(table.writer_epoch).where(table.id == stream_id)
        ).scalar_one()
        known = self._ended.get(stream_id)
        if known is None or known[0] != epoch:  # ending a stream begins another epoch
            details = connection.execute(
                sa.select(table.details).where(table.id == stream_id)
            ).scalar_one()
            known = self._ended[stream_id] = epoch, json.loads(details).get("ended") is not None
        return known[1]

    def take(self, connection: Connection, fold: Fold, *, keep_aside: bool = False) -> None:
        """Remove the rows of a fold, in the transaction in which the stream counts them.

        Args:
            keep_aside: rows that are to be set aside are kept until a file holds them: see
                `unwritten`.

        Raises:
            StreamConflict: it is not there any more, or not as it was; nothing is to be counted.
        """
        mine = self._refuse_taken(connection, fold)
        if keep_aside and fold.has_aside:
            aside = sa.and_(mine, waiting.c.aside != _NONE)
            for row in connection.execute(sa.select(waiting).where(aside)).all():
                self._keep(connection, row, 0, b"", str(row.aside), "no file holds them yet")
        if connection.execute(waiting.delete().where(mine)).rowcount != len(fold.batches):
            raise _taken_by_another(fold)  # meanwhile

    def _refuse_taken(self, connection: Connection, fold: Fold) -> sa.ColumnElement[bool]:
        """Which rows are those of a fold, if it is there as it was."""
        stream_id = self._stream(connection, fold.stream)
        mine = sa.and_(waiting.c.stream_id == stream_id, waiting.c.fold == fold.number)
        found = connection.execute(sa.select(waiting.c.digest).where(mine).order_by(waiting.c.id))
        if _digest(found.scalars()) != fold.digest:
            raise _taken_by_another(fold)
        return mine

    def unwritten(self, stream: str) -> list[tuple[int, Private[list[Sequence[Any]]]]]:
        """Rows that are to be set aside and that no file holds yet, with their numbers."""
        return [(number, Private(lines)) for number, lines in self._unwritten(stream)]

    def rows_unwritten(self, stream: str) -> int:
        """How many rows no file holds yet that are to be set aside. Only for the operator."""
        return sum(len(lines) for _, lines in self._unwritten(stream))

    def _unwritten(self, stream: str) -> list[tuple[int, list[Sequence[Any]]]]:
        with self._database.transaction(write=False) as connection:
            mine = left_out.c.stream_id == self._stream(connection, stream)
            query = sa.select(left_out.c.id, left_out.c.aside).where(
                mine, left_out.c.aside != _NONE
            )
            found = connection.execute(query.order_by(left_out.c.id))
            return [(int(row.id), json.loads(row.aside)) for row in found]

    def mark_written(self, numbers: Sequence[int]) -> None:
        """A file holds the rows of these numbers that were to be set aside."""
        with self._database.transaction(write=True) as connection:
            for number in numbers:
                this = left_out.c.id == number
                connection.execute(left_out.update().where(this).values(aside=_NONE))
                connection.execute(left_out.delete().where(this, left_out.c.rows == 0))

    def leave_out(self, fold: Fold, why: Mapping[int, str]) -> int:
        """Take batches out of their fold that no run can count; they are kept for the operator.

        Raises:
            StreamConflict: the fold is not there any more, or not as it was.
        """
        rows = 0
        with self._database.transaction(write=True) as connection:
            mine = self._refuse_taken(connection, fold)
            for number, reason in why.items():
                this = sa.and_(mine, waiting.c.id == number)
                row = connection.execute(sa.select(waiting).where(this)).first()
                if row is None:  # pragma: no cover  # meanwhile
                    raise _taken_by_another(fold)
                self._keep(connection, row, int(row.rows), bytes(row.body), str(row.aside), reason)
                if connection.execute(waiting.delete().where(this)).rowcount != 1:
                    raise _taken_by_another(fold)  # meanwhile
                rows += int(row.rows)
        return rows

    def _keep(
        self, connection: Connection, row: Any, rows: int, body: bytes, aside: str, why: str
    ) -> None:
        """Keep what is not counted of a batch that waits, with the id that its sender gave it."""
        came = sa.and_(batches.c.stream_id == row.stream_id, batches.c.arrived == row.arrived)
        ids = [
            one.batch
            for one in connection.execute(sa.select(batches.c.batch, batches.c.digest).where(came))
            if _batch_digest(row.arrived, one.batch, bytes(one.digest)) == bytes(row.digest)
        ]
        kept = {"stream_id": row.stream_id, "batch": ids[0] if ids else None, "why": why}
        kept |= {"arrived": row.arrived, "rows": rows, "body": body, "aside": aside}
        connection.execute(left_out.insert().values(**kept))

    def left_out(self, stream: str) -> list[LeftOut]:
        """Batches of a stream that no run could count. Secret."""
        with self._database.transaction(write=False) as connection:
            rows = self._left_out(connection, stream)
        return [
            LeftOut(
                *(_id_of(row), stream, row.batch, int(row.arrived), int(row.rows)),
                *(Private(bytes(row.body)), row.why),
            )
            for row in rows
        ]

    def _left_out(self, connection: Connection, stream: str) -> Sequence[Any]:
        mine = left_out.c.stream_id == self._stream(connection, stream)
        query = sa.select(left_out).where(mine, left_out.c.rows > 0)
        return connection.execute(query.order_by(left_out.c.id)).all()

    def put_back(self, stream: str, id: str, arrived: int) -> int:
        """Let a batch that was left out wait again, as if it came now; how many rows it has.

        Raises:
            InvalidInput: no such batch is left out.
            StateError: the stream takes no rows any more, or the state is an old copy.
        """
        with self._taking_in([stream]) as connection:
            row = self._found_left_out(connection, stream, id)
            if self._is_closed(connection, row.stream_id):
                raise RequestMismatch(
                    f"stream {stream!r} has ended and counts no rows any more: batch {id} cannot "
                    f"be put back; drop it, or send its rows to the stream that follows"
                )
            digest = hashlib.sha256(bytes(row.body)).digest()
            if row.batch is not None:  # its sender may still ask, and it may be left out again
                entry = sa.and_(batches.c.stream_id == row.stream_id, batches.c.batch == row.batch)
                known = connection.execute(sa.select(batches.c.digest).where(entry)).scalar()
                digest = digest if known is None else bytes(known)
                connection.execute(batches.update().where(entry).values(arrived=arrived))
            waits = {"digest": _batch_digest(arrived, row.batch or "", digest), "arrived": arrived}
            waits |= {"rows": row.rows, "body": bytes(row.body), "aside": _NONE, "fold": None}
            waits |= {"sender": None}
            _WAIT.run(connection, {"stream_id": row.stream_id, **waits})
            self._let_go(connection, row)
        return int(row.rows)

    def drop(self, stream: str, id: str) -> int:
        """Forget a batch that was left out, whose rows count nowhere; how many it has."""
        with self._database.transaction(write=True) as connection:
            row = self._found_left_out(connection, stream, id)
            self._let_go(connection, row)
        return int(row.rows)

    def _found_left_out(self, connection: Connection, stream: str, id: str) -> Any:
        found = {_id_of(row): row for row in self._left_out(connection, stream)}
        if id in found:
            return found[id]
        raise InvalidInput(
            f"no batch {quote(id)} of stream {stream!r} is left out; there is "
            f"{', '.join(found) or 'none'}"
        )

    def _let_go(self, connection: Connection, row: Any) -> None:
        """Keep no more of a batch that was left out than rows that no file holds yet."""
        this = left_out.c.id == row.id
        if row.aside != _NONE:
            nothing = left_out.update().where(this).values(rows=0, body=b"")
            connection.execute(nothing)
        else:
            connection.execute(left_out.delete().where(this))

    def rows_left_out(self, stream: str) -> int:
        """How many rows of acknowledged batches no run could count. Only for the operator."""
        with self._database.transaction(write=False) as connection:
            mine = left_out.c.stream_id == self._stream(connection, stream)
            many = sa.func.coalesce(sa.func.sum(left_out.c.rows), 0)
            return int(connection.execute(sa.select(many).where(mine)).scalar_one())

    def load(self, stream: str | None = None) -> Load:
        """How much waits, of one stream or of all. Exact: only for the operator."""
        size = sa.func.coalesce(sa.func.sum(sa.func.length(waiting.c.body)), 0)
        rows = sa.func.coalesce(sa.func.sum(waiting.c.rows), 0)
        query = sa.select(sa.func.count(), rows, size)
        with self._database.transaction(write=False) as connection:
            if stream is not None:
                query = query.where(waiting.c.stream_id == self._stream(connection, stream))
            return Load(*(int(number) for number in connection.execute(query).one()))

    def waiting_bytes(self) -> dict[str, int]:
        """How many bytes wait of each sender, by the id of his token."""
        table = waiting.c
        size = sa.func.sum(sa.func.length(table.body))
        query = sa.select(table.sender, size).where(table.sender.is_not(None))
        with self._database.transaction(write=False) as connection:
            found = connection.execute(query.group_by(table.sender))
            return {sender: int(many) for sender, many in found}

    def shares_filled(self, stream: str) -> dict[str, float]:
        """Which part of his share each sender has filled, by the id of his token.

        Where a release is of one window, in the window with most. Only for the operator.
        """
        table = held_parts.c
        with self._database.transaction(write=False) as connection:
            mine = table.stream_id == self._stream(connection, stream)
            query = sa.select(table.sender, table.number, sa.func.max(table.part)).where(mine)
            found = connection.execute(query.group_by(table.sender, table.number))
            return {sender: part / share_of(number) for sender, number, part in found}

    def forget(self, before: int) -> int:
        """Forget ids of batches that arrived before a microsecond; how many there were."""
        with self._database.transaction(write=True) as connection:
            return connection.execute(batches.delete().where(batches.c.arrived < before)).rowcount

    def _known_verdict(
        self, connection: Connection, stream: int, id: str, digest: bytes
    ) -> Verdict | None:
        row = connection.execute(
            sa.select(batches.c.digest, batches.c.answer).where(
                batches.c.stream_id == stream, batches.c.batch == id
            )
        ).first()
        if row is None:
            return None
        same = bytes(row.digest) == digest
        return Verdict("known" if same else "other", json.loads(row.answer))

    def _stream(self, connection: Connection, name: str) -> int:
        if name not in self._streams:
            query = sa.select(schema.streams.c.id).where(schema.streams.c.name == name)
            found = connection.execute(query).scalar()
            if found is None:
                raise OldCopy(
                    f"state {self._database.label} has no stream {name!r} any more; put the state "
                    f"back that the service began with, or start the service again"
                )
            self._streams[name] = int(found)
        return self._streams[name]


#: Lock of PostgreSQL under which the tables are made.
_MAKING = schema.APPLICATION_ID + 1
#: Lock of PostgreSQL under which rows are put into a fold: a server that was paused before it had
#: done so would add rows to a fold that another one is counting.
_FOLDING = schema.APPLICATION_ID + 3
#: Lock of PostgreSQL that all share who commit batches, and that closing a stream takes alone.
_CLOSING = schema.APPLICATION_ID + 4
#: Lock of PostgreSQL of each stream, under which is added to what its sums hold.
_HOLDING = (schema.APPLICATION_ID + 5) % 2**31


class _HeldPart(NamedTuple):
    """Where rows of a sender come to something: a window of a stream, or 0 of all of them."""

    stream_id: int
    step: int
    sender: Sender


def _parts(batch: Batch) -> Mapping[int, float]:
    return {} if batch.parts is None else open_private(batch.parts)


def _id_of(row: Any) -> str:
    """Of a batch that is left out: of what it holds, since numbers of rows come again."""
    told = f"{row.stream_id} {row.id} {row.arrived} {row.batch}\n".encode()
    return hashlib.sha256(told + bytes(row.body)).hexdigest()[:8]


def _digest(batches: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(map(bytes, batches))).digest()


def _taken_by_another(fold: Fold) -> StreamConflict:
    return StreamConflict(
        f"another process has taken rows of stream {fold.stream!r} that this one was to count, so "
        f"nothing was counted here: end one of the two"
    )


def _entry(stream: int, batch: Batch) -> dict[str, Any]:
    return {
        "stream_id": stream,
        "batch": batch.id,
        "digest": batch.digest,
        "arrived": batch.arrived,
        "answer": json.dumps(batch.answer),
    }


def _waits(stream: int, batch: Batch) -> dict[str, Any]:
    aside = _NONE
    if batch.aside is not None:
        aside = json.dumps(list(open_private(batch.aside)), default=str)
    return {
        "stream_id": stream,
        "digest": _batch_digest(batch.arrived, batch.id, batch.digest),
        "fold": None,
        "rows": batch.rows,
        "body": open_private(batch.body),
        "aside": aside,
        "arrived": batch.arrived,
        "sender": batch.sender.id,
    }


def _batch_digest(arrived: int, id: str, digest: bytes) -> bytes:
    """Digest of a batch, its id and its time.

    With its time: once an id is forgotten, the same rows are another batch, and count again.
    """
    entry = arrived.to_bytes(8, "big", signed=True) + len(id).to_bytes(4, "big")
    return hashlib.sha256(entry + id.encode() + digest).digest()
