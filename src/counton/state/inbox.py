"""The inbox of a state: batches of rows that were sent to a service and wait to be counted.

A batch is committed before its sender gets an answer. The inbox lies in the state's database and is
as secret as the state. Waiting batches are put together into a *drain*, a group that one run
counts. A run that was killed gets the same drain again, with the same rows. The transaction that
counts a drain also removes its rows, so each row stays until it is counted, and is never counted
again. Nothing is kept of a counted drain. Ids and digests of batches stay for a time, so that a
batch that is sent again is recognised.

Only the times of arrival, which are kept with the batches, decide which batches share a drain. A
closed stream takes no more batches. The transaction that would commit a batch decides this, so no
batch is acknowledged after the last drain.

Batches may fill a fixed part of the largest sums that the stream can hold
(`counton.base.exact.MOST_SENT`), so that a run can always count what was acknowledged. The
refusal of a batch beyond it depends on all batches before; all come from the one who has the token
to write.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

from counton.base.errors import ConcurrentWriterError, StateError, StateRolledBackError
from counton.base.exact import LARGEST_SENT_SHARE, name_alone
from counton.base.private import Private, reveal
from counton.state import schema
from counton.state.database import Closing, Database, reading
from counton.state.rollback_guard import latest_guard, position_of
from counton.state.sql import Connection

#: Longest id of a batch.
LONGEST_ID = schema.LONGEST_NAME

#: SQL conditions: all waiting batches of a stream, and those in one drain.
_FROM_WAITING = "FROM counton_inbox_waiting WHERE stream_id = :stream"
_FROM_DRAINED = f"{_FROM_WAITING} AND fold = :fold"


@name_alone
class Batch(NamedTuple):
    """Checked rows that a client has sent at once.

    Attributes:
        stream: name of the stream.
        id: id of the batch, chosen by its sender.
        digest: digest of the sent bytes.
        arrived: time of arrival, in microseconds since 1970.
        answer: the service's answer to the sender, as JSON values.
        rows: number of rows.
        body: the readable rows, encoded.
        shares: how much of the largest sums that the stream can hold the rows take up, as a
            fraction (0 or more), by the number of a window. If a release counts several windows,
            there is one fraction for all, under key 0. None: nothing is taken up.
        first_open_window: number of the first window that still takes rows; earlier windows are
            released.
    """

    stream: str
    id: str
    digest: bytes
    arrived: int
    answer: dict[str, object]
    rows: int
    body: Private[bytes]
    shares: Private[Mapping[int, float]] | None = None
    first_open_window: int = 0


class BatchStatus(NamedTuple):
    """The inbox's decision about a batch that was sent.

    Attributes:
        outcome: "accepted"; "known", if the same batch was accepted before; "other", if a different
            batch with this id was accepted; "closed", if the stream takes no more rows; or "full",
            if its sums exceed what may still be filled (`MOST_SENT`).
        answer: the service's answer when the batch was accepted, as JSON values.
    """

    outcome: Literal["accepted", "known", "other", "closed", "full"]
    answer: dict[str, object]


@name_alone
class InboxDrain(NamedTuple):
    """Batches that one run counts together. Secret.

    Attributes:
        stream: name of the stream.
        number: number of the drain; a later drain may get the same number.
        digest: digest of everything in the drain.
        batches: numbers of its batches in the inbox.
        bodies: encoded rows, batch by batch.
        first, last: arrival of its first and last batch, in microseconds since 1970.
    """

    stream: str
    number: int
    digest: bytes
    batches: tuple[int, ...]
    bodies: tuple[Private[bytes], ...]
    first: int
    last: int


class Load(NamedTuple):
    """Numbers of batches, rows and bytes that wait in an inbox. Exact: only for the operator."""

    batches: int
    rows: int
    bytes: int


def waiting_batches(database: Database, stream: str) -> frozenset[tuple[int, bytes, int]]:
    """Return number, digest and time of arrival of a stream's waiting batches."""
    with database.transaction(write=False) as connection:
        if not connection.has_table("counton_inbox_waiting"):
            return frozenset()
        number = connection.value("SELECT id FROM counton_streams WHERE name = :name", name=stream)
        rows = connection.rows(f"SELECT id, digest, arrived {_FROM_WAITING}", stream=number)
        return frozenset((int(id), bytes(digest), int(came)) for id, digest, came in rows)


class Inbox(Closing):
    """The inbox of a state: batches of rows, sent to a service for any of the state's streams, that
    wait to be counted. Threads may share it.

    >>> from counton import PureDP, Stream
    >>> from counton.base.private import Private
    >>> from counton.state.commit_input import CommitInput
    >>> from counton.strategies import Binary
    >>> Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1)).close()
    >>> with Inbox("visits.db") as inbox:
    ...     batch = Batch("visits", "one", b"digest", 0, {"rows": 3}, 3, Private(b"rows"))
    ...     [status.outcome for status in inbox.put([batch]) + inbox.put([batch])]
    ...     drain = inbox.drain("visits", lambda arrived: arrived + 10, by=20)
    ...     again = inbox.drain("visits", lambda arrived: arrived + 10, by=20)
    ...     drain.bodies, again.digest == drain.digest
    ...     with Stream.open("visits.db", "visits") as stream:
    ...         remove = lambda connection: inbox.remove(connection, drain)
    ...         stream.commit(Private(CommitInput()), remove)
    ...     inbox.drain("visits", lambda arrived: arrived + 10, by=20) is None
    ['accepted', 'known']
    ((Private[bytes],), True)
    True

    Args:
        state: path of a SQLite file, or a database URL; it holds the streams already.

    Raises:
        StateError: the state cannot be used.
    """

    def __init__(self, state: str | os.PathLike[str]) -> None:
        self._database = Database(state, short_transactions=True)
        self._streams: dict[str, int] = {}
        self._ended: dict[int, tuple[int, bool]] = {}
        try:
            with self._database.transaction(write=True) as connection:
                connection.lock(_MAKING_LOCK)
                if connection.has_table("counton_inbox_aside"):
                    raise StateError(
                        f"the inbox of state {self._database.label} was made by an earlier version "
                        "that set bad rows aside: let that version count the rows that wait, end "
                        "its streams (counton close), and begin new ones in another state"
                    )
                if not connection.has_table("counton_inbox_waiting"):
                    connection.script(schema.INBOX)
                elif connection.first(_NEVER_COUNTED_SQL, latest=_LATEST_ARRIVAL) is not None:
                    raise StateError(
                        "rows that wait in the inbox (table counton_inbox_waiting) belong to no "
                        "stream, or came at an impossible time: the state was altered; restore it "
                        "from a copy"
                    )
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the database of the inbox."""
        self._database.close()

    def find(self, stream: str, id: str, digest: bytes) -> BatchStatus | None:
        """Return "known" for an accepted batch, "other" for another digest, None for a new id."""
        with self._database.transaction(write=False) as connection:
            return self._status_if_known(connection, self._stream(connection, stream), id, digest)

    def put(self, batches: Sequence[Batch]) -> list[BatchStatus]:
        """Store batches in one transaction; return for each whether it is accepted or why not.

        Raises:
            StateError: the state cannot be used, or is an old copy; no batch is kept.
        """
        statuses: list[BatchStatus] = []
        with self._taking_in(batch.stream for batch in batches) as connection:
            entered: list[tuple[int, Batch]] = []
            filled = self._filled_sums(connection, batches)
            is_closed: dict[int, bool] = {}
            for batch in batches:
                stream = self._stream(connection, batch.stream)
                if stream not in is_closed:
                    is_closed[stream] = self._is_closed(connection, stream)
                status = self._status_if_known(connection, stream, batch.id, batch.digest)
                if status is None and is_closed[stream]:
                    status = BatchStatus("closed", {})
                if status is None and not filled.has_room_for(stream, batch):
                    status = BatchStatus("full", {})
                if status is None and not _enter(connection, stream, batch):
                    # Another server has entered a batch with this id meanwhile.
                    status = self._status_if_known(connection, stream, batch.id, batch.digest)
                if status is None:
                    entered.append((stream, batch))
                    filled.add(stream, batch)
                    status = BatchStatus("accepted", batch.answer)
                statuses.append(status)
            if entered:
                rows = [_waiting_row(stream, batch) for stream, batch in entered]
                connection.insert("counton_inbox_waiting", *rows)
                filled.store(connection)
        return statuses

    def _filled_sums(self, connection: Connection, batches: Sequence[Batch]) -> _FilledSums:
        """Return how far the sums are filled to which batches add; lock their streams."""
        windows_by_stream: dict[int, set[int]] = {}
        for batch in batches:
            shares = _shares_by_window(batch)
            if shares:
                stream = self._stream(connection, batch.stream)
                windows_by_stream.setdefault(stream, set()).update(shares)
        filled = _FilledSums()
        sql = (
            "SELECT step, part FROM counton_inbox_parts WHERE stream_id = :stream"
            " AND step BETWEEN :first AND :last"
        )
        for stream, windows in sorted(windows_by_stream.items()):
            connection.lock(_FILLING_LOCK, stream)  # no two servers may add at once
            rows = connection.rows(sql, stream=stream, first=min(windows), last=max(windows))
            for window, share in rows:
                filled.shares[stream, window] = share
        return filled

    @contextmanager
    def _taking_in(self, streams: Iterable[str]) -> Iterator[Connection]:
        """Open a transaction that adds waiting batches; refuse an old copy of the state."""
        guard = latest_guard(self._database)
        with self._database.transaction(write=True) as connection:
            connection.lock(_CLOSING_LOCK, shared=True)  # no stream is closed meanwhile
            for name in set(streams):
                position_of(connection, self._database, name, guard)
            yield connection

    def drain(self, stream: str, end: Callable[[int], int], by: int) -> InboxDrain | None:
        """Return the next drain, a group of batches to count together; None if no drain has ended.
        A drain that an earlier call returned and nobody counted comes first.

        Args:
            end: maps a batch's time of arrival, in microseconds, to the end of its drain; batches
                that arrive at this end or later go into later drains. The result must depend on
                that time alone.
            by: current time in microseconds; drains that end after it are not returned yet.
        """
        waiting = reading("what waits in the inbox (table counton_inbox_waiting)")
        with self._database.transaction(write=True) as connection, waiting:
            connection.lock(
                _DRAINING_LOCK
            )  # otherwise rows of another server's drain may join this one
            mine = {"stream": self._stream(connection, stream)}
            # By its name the type of the column is checked.
            number = connection.value(f"SELECT min(fold) AS fold {_FROM_WAITING}", **mine)
            if number is None:
                none_yet = f"{_FROM_WAITING} AND fold IS NULL"
                first = connection.value(f"SELECT min(arrived) {none_yet}", **mine)
                if first is None or end(int(first)) > by:
                    return None
                mine["before"] = end(int(first))
                number = connection.value(
                    f"SELECT max(id) {none_yet} AND arrived < :before", **mine
                )
                connection.execute(
                    "UPDATE counton_inbox_waiting SET fold = :fold WHERE stream_id = :stream"
                    " AND fold IS NULL AND arrived < :before",
                    **mine,
                    fold=number,
                )
            sql = f"SELECT id, digest, rows, body, arrived, checksum {_FROM_DRAINED} ORDER BY id"
            stored = connection.rows(sql, stream=mine["stream"], fold=number)
            rows = [_undamaged(row, mine["stream"]) for row in stored]
        return InboxDrain(
            stream,
            number=int(number),
            digest=_digest(row.digest for row in rows),
            batches=tuple(int(row.id) for row in rows),
            bodies=tuple(Private(bytes(row.body)) for row in rows),
            first=min(int(row.arrived) for row in rows),
            last=max(int(row.arrived) for row in rows),
        )

    def close_stream(self, stream: str) -> bool:
        """Close a stream to all further batches; return False if one still waits to be counted."""
        with self._database.transaction(write=True) as connection:
            connection.lock(_CLOSING_LOCK)
            stream_id = self._stream(connection, stream)
            if connection.first(f"SELECT id {_FROM_WAITING} LIMIT 1", stream=stream_id) is not None:
                return False
            if connection.first(_CLOSED_SQL, stream=stream_id) is None:
                connection.insert("counton_inbox_closed", {"stream_id": stream_id})
            return True

    def _is_closed(self, connection: Connection, stream_id: int) -> bool:
        """Return True if `close_stream` was called or the operator ended the stream."""
        if connection.first(_CLOSED_SQL, stream=stream_id) is not None:
            return True
        from_stream = "FROM counton_streams WHERE id = :stream"
        epoch = connection.value(f"SELECT writer_epoch {from_stream}", stream=stream_id)
        cached = self._ended.get(stream_id)
        if cached is None or cached[0] != epoch:  # the end of a stream begins another epoch
            details = connection.value(f"SELECT details {from_stream}", stream=stream_id)
            with reading("the public facts of a stream"):
                is_ended = json.loads(details).get("ended") is not None
            cached = self._ended[stream_id] = epoch, is_ended
        return cached[1]

    def remove(self, connection: Connection, drain: InboxDrain) -> None:
        """Remove a drain's rows from the inbox in ``connection``, the transaction that counts them.

        Raises:
            ConcurrentWriterError: the drain was counted or changed meanwhile; nothing may be
                counted now.
        """
        mine = {"stream": self._stream(connection, drain.stream), "fold": drain.number}
        rows = connection.rows(f"SELECT digest {_FROM_DRAINED} ORDER BY id", **mine)
        if _digest(row.digest for row in rows) != drain.digest:
            raise _taken_by_another(drain)
        if connection.execute(f"DELETE {_FROM_DRAINED}", **mine).rowcount != len(drain.batches):
            raise _taken_by_another(drain)  # another process took them meanwhile

    def drop_waiting(self, stream: str) -> int:
        """Delete an ended stream's waiting batches; return their number of rows, never counted."""
        with self._database.transaction(write=True) as connection:
            parameters = {"stream": self._stream(connection, stream)}
            rows = connection.value(f"SELECT sum(rows) {_FROM_WAITING}", **parameters)
            connection.execute(f"DELETE {_FROM_WAITING}", **parameters)
            return int(rows or 0)

    def load(self, stream: str | None = None) -> Load:
        """Return how many batches, rows and bytes wait to be counted. Only for the operator."""
        sql = "SELECT count(*), sum(rows), sum(length(body)) FROM counton_inbox_waiting"
        with self._database.transaction(write=False) as connection:
            parameters = {}
            if stream is not None:
                sql += " WHERE stream_id = :stream"
                parameters["stream"] = self._stream(connection, stream)
            batches, rows, n_bytes = connection.first(sql, **parameters)
            return Load(batches=int(batches), rows=int(rows or 0), bytes=int(n_bytes or 0))

    def part_filled(self, stream: str) -> float:
        """Return the fraction that batches fill, of the fullest window. Only for the operator."""
        sql = "SELECT max(part) FROM counton_inbox_parts WHERE stream_id = :stream"
        with self._database.transaction(write=False) as connection:
            part = connection.value(sql, stream=self._stream(connection, stream))
            return (part or 0.0) / LARGEST_SENT_SHARE

    def forget(self, before: int) -> int:
        """Delete batch ids older than this time in microseconds; resent batches count again."""
        with self._database.transaction(write=True) as connection:
            sql = "DELETE FROM counton_inbox_batches WHERE arrived < :before"
            return int(connection.execute(sql, before=before).rowcount)

    def _status_if_known(
        self, connection: Connection, stream: int, id: str, digest: bytes
    ) -> BatchStatus | None:
        row = connection.first(_BATCH_SQL, stream=stream, batch=id)
        if row is None:
            return None
        with reading("the answer to a batch"):
            answer = dict(json.loads(row.answer))
        return BatchStatus("known" if bytes(row.digest) == digest else "other", answer)

    def _stream(self, connection: Connection, name: str) -> int:
        if name not in self._streams:
            row = connection.first("SELECT id FROM counton_streams WHERE name = :name", name=name)
            if row is None:
                raise StateRolledBackError(
                    f"state {self._database.label} has no stream {name!r} any more; restore the "
                    "state that the service was started with, or start the service again"
                )
            self._streams[name] = int(row.id)
        return self._streams[name]


#: Latest time at which a batch may have come: in the year 2255.
_LATEST_ARRIVAL = 2**53
_NEVER_COUNTED_SQL = (
    "SELECT id FROM counton_inbox_waiting WHERE arrived NOT BETWEEN 0 AND :latest"
    " OR stream_id NOT IN (SELECT id FROM counton_streams)"
)
_CLOSED_SQL = "SELECT stream_id FROM counton_inbox_closed WHERE stream_id = :stream"
_BATCH_SQL = "SELECT * FROM counton_inbox_batches WHERE stream_id = :stream AND batch = :batch"
_INSERT_SQL = (
    "INSERT INTO counton_inbox_batches (stream_id, batch, digest, arrived, answer)"
    " VALUES (:stream, :batch, :digest, :arrived, :answer) ON CONFLICT DO NOTHING"
)

#: Lock of PostgreSQL under which the tables are made.
_MAKING_LOCK = schema.APPLICATION_ID + 1
#: Lock of PostgreSQL under which rows are put into a drain. Without it, a server that was paused
#: just before would add rows to a drain that another server is counting.
_DRAINING_LOCK = schema.APPLICATION_ID + 3
#: Lock of PostgreSQL that all who commit batches share, and that closing a stream takes alone.
_CLOSING_LOCK = schema.APPLICATION_ID + 4
#: Lock of PostgreSQL, one for each stream, under which streams are filled.
_FILLING_LOCK = (schema.APPLICATION_ID + 5) % 2**31


#: Row id of a stream, and the number of a window; 0 stands for all windows together.
_StreamWindow = tuple[int, int]


class _FilledSums:
    """How far the largest sums of some streams are filled, while batches are put into the inbox.

    Attributes:
        shares: the filled part of the largest sums, as a fraction, by stream and window.
        changed: those windows to which accepted batches have added.
        first_open_window: number of the first window that still takes rows, by stream.
    """

    def __init__(self) -> None:
        self.shares: dict[_StreamWindow, float] = {}
        self.changed: set[_StreamWindow] = set()
        self.first_open_window: dict[int, int] = {}

    def has_room_for(self, stream: int, batch: Batch) -> bool:
        """Return whether a batch may still be added in all its windows."""
        return not any(
            self.shares.get((stream, window), 0.0) + share > LARGEST_SENT_SHARE
            for window, share in _shares_by_window(batch).items()
        )

    def add(self, stream: int, batch: Batch) -> None:
        """Add what an accepted batch fills."""
        first_open = self.first_open_window.get(stream, 0)
        self.first_open_window[stream] = max(batch.first_open_window, first_open)
        for window, share in _shares_by_window(batch).items():
            key = (stream, window)
            self.shares[key] = self.shares.get(key, 0.0) + share
            self.changed.add(key)

    def store(self, connection: Connection) -> None:
        """Store the changed shares; delete those of released windows."""
        for stream, window in sorted(self.changed):
            connection.execute(
                "INSERT INTO counton_inbox_parts (stream_id, step, part)"
                " VALUES (:stream, :step, :part)"
                " ON CONFLICT (stream_id, step) DO UPDATE SET part = excluded.part",
                stream=stream,
                step=window,
                part=self.shares[stream, window],
            )
        delete_sql = "DELETE FROM counton_inbox_parts WHERE stream_id = :stream AND step > 0"
        for stream, window in self.first_open_window.items():
            if window > 1:
                connection.execute(f"{delete_sql} AND step < :step", stream=stream, step=window)


def _shares_by_window(batch: Batch) -> Mapping[int, float]:
    return {} if batch.shares is None else reveal(batch.shares)


def _enter(connection: Connection, stream: int, batch: Batch) -> bool:
    """Enter the id of a batch; return False if the stream has a batch with this id."""
    result = connection.execute(
        _INSERT_SQL,
        stream=stream,
        batch=batch.id,
        digest=batch.digest,
        arrived=batch.arrived,
        answer=json.dumps(batch.answer),
    )
    return bool(result.rowcount)


def _digest(batches: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(map(bytes, batches))).digest()


def _taken_by_another(drain: InboxDrain) -> ConcurrentWriterError:
    return ConcurrentWriterError(
        f"another process has taken the rows of stream {drain.stream!r} that this one was about to "
        "count, so nothing was counted here: end one of the two"
    )


def _waiting_row(stream: int, batch: Batch) -> dict[str, object]:
    # The digest is of contents, id and arrival, so rows resent after a deletion count anew.
    entry = batch.arrived.to_bytes(8, "big", signed=True) + len(batch.id).to_bytes(4, "big")
    row = {
        "stream_id": stream,
        "digest": hashlib.sha256(entry + batch.id.encode() + batch.digest).digest(),
        "fold": None,
        "rows": batch.rows,
        "body": reveal(batch.body),
        "arrived": batch.arrived,
    }
    return {**row, "checksum": _checksum_of(row)}


def _checksum_of(row: Mapping[str, Any]) -> bytes:
    """Return the checksum of waiting rows, which shows damage.

    It has no key: the rows are input, and files of events have no key either.
    """
    head = f"{row['stream_id']} {row['rows']} {row['arrived']} ".encode()
    return hashlib.sha256(head + row["digest"] + row["body"]).digest()


class WaitingRow(Protocol):
    """A row of waiting batches; `counton.state.schema` says what its columns hold."""

    id: int
    digest: bytes
    rows: int
    body: bytes
    arrived: int
    checksum: bytes

    def _asdict(self) -> dict[str, object]: ...


def _undamaged(row: WaitingRow, stream: int) -> WaitingRow:
    """Return waiting rows of a stream; refuse them if they are damaged."""
    if _checksum_of({**row._asdict(), "stream_id": stream}) != bytes(row.checksum):
        raise StateError(
            "rows that wait in the inbox (table counton_inbox_waiting) do not fit their checksum: "
            "the state was altered; restore it from a copy"
        )
    if not 0 <= row.arrived <= _LATEST_ARRIVAL:
        raise StateError(
            f"rows that wait in the inbox came {row.arrived:,} microseconds after 1970: the state "
            "was altered; restore it from a copy"
        )
    return row
