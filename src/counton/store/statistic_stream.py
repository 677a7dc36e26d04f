"""Durable statistics: what `Stream` is to `Counter`, for statistics and their events."""

from __future__ import annotations

import hmac
import json
import math
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Row

from counton.errors import InvalidInput, ReplayMismatch, StateError
from counton.exact import check_integer
from counton.mechanisms import Releases
from counton.noise import Key
from counton.privacy import Guarantee
from counton.statistics.readings import Reading, Readings
from counton.statistics.running import Running, statistic_of
from counton.store import creation, journal, keyfile, records
from counton.store.database import Closing, Database, reading
from counton.store.on_demand import OnDemand
from counton.store.saved import Saved
from counton.store.writer import Writer
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.statistics.base import Events, Exact, Statistic

#: Bytes of the digest of one step's events.
_DIGEST = 8
#: Whole numbers that are floats too, so that 5 and 5.0 are one event.
_WHOLE = 2**53


class StatisticStream(Closing, Running):
    """A running statistic in a database: what was released stays released, whatever is killed.

    Make one with `create`, continue it with `open`. As with `Stream`, one process writes at a time,
    a step is committed before it is shown, and a step given again is answered as it was, if its
    events are the same. Where cells are read on demand, what is committed are the events; an answer
    is a function of key, cell and step.

    The state holds what the statistic must know exactly (sums, letters, edges), as secret as data.

    >>> import tempfile
    >>> from counton import PureDP, StatisticStream
    >>> from counton.statistics import Distinct
    >>> folder = tempfile.TemporaryDirectory()
    >>> state = folder.name + "/users.db"
    >>> with StatisticStream.create(state, "users", Distinct(), 365, PureDP(1)) as stream:
    ...     first = stream.release("ann")
    >>> with StatisticStream.open(state, "users") as stream:
    ...     stream.step, stream.release("ann", step=1).users == first.users
    (1, True)
    >>> folder.cleanup()
    """

    def __init__(self, writer: Writer, key: Key, saved: Saved, details: Mapping[str, Any]) -> None:
        """Not for callers: use `create` or `open`."""
        counter = writer.counter()
        terms = counter.terms
        statistic, batched = statistic_of(terms)
        source = (terms, key) if isinstance(counter, OnDemand) else counter
        with reading(f"what statistic {terms.name!r} knows"):
            exact = statistic.restore(saved.exact)
        super().__init__(statistic, exact, batched, source, writer.step)
        self._open_writer: Writer | None = writer
        self._key, self._saved, self._details = key, saved, dict(details)
        self._subkey = key.derive(b"events of a statistic", terms.name.encode())

    @classmethod
    def create(
        cls,
        state: str | os.PathLike[str],
        name: str,
        statistic: Statistic,
        horizon: int | None = None,
        guarantee: Guarantee | None = None,
        *,
        strategy: StreamStrategy | None = None,
        batched: bool = False,
        key: keyfile.Kept = None,
        details: Mapping[str, Any] | None = None,
    ) -> Self:
        """Begin a statistic and enter its guarantee in the ledger of the database.

        Args:
            state: path of a SQLite file (made with mode 0600 if missing), or a database URL.
            name: of the stream within the database; it is part of the address of its noise.
            statistic: one of ``counton.statistics``.
            horizon, guarantee, strategy, batched: as of `Statistic.counter`.
            key: the secret, or where it is kept, as of `Stream.create`.
            details: public facts to keep with it (JSON values).

        Raises:
            StateError: the stream exists, the state has forgotten releases which its witness knows
                (it was lost, or restored from an old copy), or the database cannot be used.
            BudgetExceeded: the guarantee goes beyond the database's limit; nothing is created.
            WrongKey: ``STATE.key``, not named, holds a key that no stream of the state uses.
            InvalidInput: an argument is outside what is allowed; nothing is created.
        """
        public = records.to_json(dict(details or {}), "details")
        records.check_length(name)
        with creation.for_creation(state, key, name) as held:
            running = statistic.counter(
                horizon, guarantee, key=held, name=name, strategy=strategy, batched=batched
            )
            if statistic_of(running.terms)[0] != running.statistic:
                raise InvalidInput(
                    f"{statistic!r} is not what its parameters say, so that a state could not "
                    f"keep it: use a statistic of counton.statistics"
                )
            counter = running._counter or OnDemand(running.terms, held)
            saved = Saved(running._exact.save(), b"")
            database = Database(state, create=True)
            try:
                with database.transaction(write=True) as connection:
                    row = records.enter(connection, database, counter, held, public)
                    saved.write(connection, row.id, held, name, Saved(b"", b""))
                    records.write_seal(connection, row.id, held, name, 0, public)
                witness = keyfile.witness_beside(database, key)
                writer = Writer(database, row, held, counter.terms.strategy, witness, counter)
                return cls(writer, held, saved, json.loads(public))
            except BaseException:
                database.close()
                raise

    @classmethod
    def open(cls, state: str | os.PathLike[str], name: str, *, key: keyfile.Kept = None) -> Self:
        """Continue a statistic and become its writer.

        Args:
            state: path of a SQLite file, or a database URL.
            name: of the stream within the database.
            key: the secret, or where it is kept, as of `Stream.create`.

        Raises:
            StateError: no such statistic, or the state is damaged, of another format, missing, or
                restored from an old copy (the witness beside the key knows later releases).
            WrongKey: the key is not the one the stream was created with.
            StreamConflict: the database is locked by another process.
        """
        database = Database(state)
        try:
            with database.transaction(write=True) as connection:
                row, held = records.take_over(connection, database, name, key)
                witness = keyfile.witness_beside(database, key)
                writer = Writer(database, row, held, None, witness)
                statistic_of(writer.counter().terms)
                saved = known_at(connection, row, held)
                with reading(f"the details of stream {name!r}"):
                    return cls(writer, held, saved, json.loads(row.details))
        except BaseException:
            database.close()
            raise

    @property
    def details(self) -> dict[str, Any]:
        """Public facts given to `create`."""
        return dict(self._details)

    def release(self, event: Any, *, step: int | None = None) -> Reading:
        """Release a step with one event: committed, then returned.

        Args:
            event: as of `Running.release`.
            step: which step this is meant to be. A step that has been released is answered as it
                was, so a caller who does not know whether an earlier call came through may repeat
                it.

        Raises:
            InvalidInput: not an event of this statistic, or one that breaks its bounds; nothing is
                released.
            ReplayMismatch: ``step`` was released with another event.
            HorizonExceeded: the strategy serves no more steps.
            StreamConflict: another process took the stream over, or holds the lock.
            StateError: an earlier release was interrupted half-way: open the stream again.
        """
        return self.release_many([event], first_step=step)[0]

    def release_batch(self, events: Events, *, step: int | None = None) -> Reading:
        """Release a step with any number of events; see `Running.release_batch`.

        Raises:
            InvalidInput: as there.
            ReplayMismatch, HorizonExceeded, StreamConflict: as `release`.
        """
        return self.release_batches(events, [self._count(events)], first_step=step)[0]

    def release_many(self, events: Events, *, first_step: int | None = None) -> Readings:
        """Release consecutive steps of one event each, in one transaction: all, or none.

        Args:
            events: of the steps.
            first_step: which step the first is meant to be; see `release`.

        Raises:
            InvalidInput, ReplayMismatch, HorizonExceeded, StreamConflict: as `release`.
        """
        return self._committed(events, np.arange(1, self._count(events) + 1), first_step)

    def release_batches(
        self,
        events: Events,
        stops: Sequence[int] | NDArray[np.int64],
        *,
        first_step: int | None = None,
    ) -> Readings:
        """Release consecutive steps of any number of events each, in one transaction.

        Args:
            events: in the order in which they happened.
            stops: for each step the number of events up to its end.
            first_step: which step the first is meant to be; see `release`.

        Raises:
            InvalidInput: as `release_batch`, or stops that do not ascend to ``len(events)``.
            ReplayMismatch, HorizonExceeded, StreamConflict: as `release`.
        """
        return self._committed(events, self._ends(events, stops), first_step)

    def check(self, events: Events, stops: Sequence[int] | NDArray[np.int64]) -> None:
        """Whether the first steps were released with these events; releases nothing.

        Args:
            events: in the order in which they happened, from the first step on.
            stops: for each step, released ones, the number of events up to its end.

        Raises:
            InvalidInput: stops that do not ascend to ``len(events)``, or steps not released.
            ReplayMismatch: a step was released with other events.
        """
        ends = self._ends(events, stops)
        if len(ends) > self._step:
            raise InvalidInput(
                f"{len(ends):,} steps are given; statistic {self.terms.name!r} has released "
                f"{self._step:,}: give those alone"
            )
        self._check_known(1, event_digests(self._subkey, 1, events, ends))

    def exact(self) -> Exact:
        """A copy of what it knows of the events, to try some on. Secret."""
        return self.statistic.restore(self._exact.save())

    def readings(self, start: int = 1, stop: int | None = None) -> Readings:
        """What steps ``start..stop-1`` said, as it was released.

        Raises:
            InvalidInput: the steps are not all released.
        """
        start = check_integer("start", start, 0)
        stop = self._step + 1 if stop is None else check_integer("stop", stop, 0)
        if not 1 <= start <= stop <= self._step + 1:
            raise InvalidInput(
                f"steps {start} to {stop - 1} are not all released; statistic {self.terms.name!r} "
                f"has released steps 1 to {self._step}: ask for steps among them"
            )
        steps = range(start, stop)
        if self.statistic.on_demand:
            return Readings(self.statistic, steps, None, self)
        writer = self._writer()
        with writer.database.transaction(write=False) as connection:
            values = journal.read(
                connection, writer.stream_id, start, stop, self.terms.shape
            ).values
        return Readings(self.statistic, steps, Releases(steps, values, self.terms))

    def reading(self, step: int | None = None) -> Reading:
        """What a step said, as it was released; the last one unless stated.

        Raises:
            InvalidInput: a step that is not released.
        """
        step = self._step if step is None else check_integer("step", step, 1, self._step)
        return self.readings(step, step + 1)[0]

    def checkpoint(self) -> NoReturn:
        """Not here: the state is the checkpoint.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            f"statistic {self.terms.name!r} is kept in its state, and a second copy would release "
            f"the same noise over other data: open it with StatisticStream.open"
        )

    @classmethod
    def resume(cls, saved: bytes, *, key: Key) -> NoReturn:
        """Not here: use `open`.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            "a statistic in a state goes on from there: use StatisticStream.open; for a checkpoint "
            "of a Running use Running.resume"
        )

    def _committed(
        self, events: Events, stops: NDArray[np.int64], first_step: int | None
    ) -> Readings:
        with self._turn.take():
            writer, count = self._writer(), len(stops)
            first = self._step + 1 if first_step is None else first_step
            if not 1 <= check_integer("first step", first, 0) <= self._step + 1:
                raise InvalidInput(
                    f"first step is {first}; it must be within 1 and {self._step + 1}, the next "
                    f"step of statistic {self.terms.name!r}: release the steps between first"
                )
            digests = event_digests(self._subkey, first, events, stops)
            known = min(count, self._step + 1 - first)
            self._check_known(first, digests[: _DIGEST * known])
            if known < count:
                begin = int(stops[known - 1]) if known else 0
                self._advance(writer, events[begin:], stops[known:] - begin, digests, known)
        return self.readings(first, first + count)

    def _check_known(self, first: int, digests: bytes) -> None:
        """Refuse events of released steps that are not those they were released with."""
        kept = self._saved.events[_DIGEST * (first - 1) :][: len(digests)]
        if hmac.compare_digest(kept, digests):
            return
        known, given = (np.frombuffer(of, np.uint64) for of in (kept, digests))
        step = first + int(np.argmax(known != given))
        raise ReplayMismatch(
            f"step {step} of statistic {self.terms.name!r} was released with other events: "
            f"answering both would reveal their difference; give the events it had, or enter the "
            f"change at the next step"
        )

    def _advance(
        self,
        writer: Writer,
        events: Events,
        stops: NDArray[np.int64],
        digests: bytes,
        known: int,
    ) -> None:
        """Count, and commit what is released with what is known then."""
        writer.counter()  # before anything is counted, where a release failed half-way
        self._check_horizon(len(stops))
        before = writer.step
        changes = self._taken(events, stops)
        try:
            new = digests[_DIGEST * known :]
            if self.statistic.on_demand:
                changes = np.frombuffer(new, "<u8").astype(np.int64)[:, None]
            inputs = self.terms.contribution.exact_from_grid(changes)
            saved = Saved(self._exact.save(), self._saved.events + new)

            def also(connection: Connection) -> None:
                saved.write(connection, writer.stream_id, self._key, self.terms.name, self._saved)

            writer.release(inputs, None, {}, (), also=also)
        except BaseException:
            # A commit that the writer knows of counts, whatever failed after it. Of one that it
            # does not know of, `writer.counter` tells at the next release.
            if writer.step == before:
                self._undone()
                raise
            self._saved, self._step = saved, writer.step
            self._whole = True
            raise
        self._saved, self._step = saved, writer.step
        self._whole = True

    _remedy = "open it again with StatisticStream.open, which reads what was committed"

    def close(self) -> None:
        """Close the database. Everything released is already in it."""
        if self._open_writer is not None:
            self._open_writer.database.close()
        self._open_writer = None

    def __repr__(self) -> str:
        return f"StatisticStream(name={self.terms.name!r}, step={self._step})"

    def _writer(self) -> Writer:
        if self._open_writer is None:
            raise StateError(
                f"this handle on statistic {self.terms.name!r} is closed: open it again with "
                f"StatisticStream.open"
            )
        return self._open_writer


def event_digests(subkey: bytes, first: int, events: Events, stops: NDArray[np.int64]) -> bytes:
    """Keyed digests of the events of consecutive steps, one after the other.

    As little as 62 bits of each, so that they are counts to whoever keeps counts.

    >>> two = event_digests(bytes(32), 1, [("a", 1), ("b", 2)], np.array([1, 2]))
    >>> one = event_digests(bytes(32), 2, np.array([["b", "2"]]), np.array([1]))
    >>> len(two), two[8:] == one
    (16, False)
    """
    plain = _plain(events.tolist() if isinstance(events, np.ndarray) else list(events))
    found, begin = [], 0
    for step, stop in enumerate(stops.tolist(), first):
        try:
            said = json.dumps([step, plain[begin:stop]], separators=(",", ":"))
        except ValueError:  # Python refuses to write integers of more than 4,300 digits
            raise InvalidInput(
                f"an event of step {step:,} has an integer of thousands of digits: give a text"
            ) from None
        found.append(blake2b(said.encode(), key=subkey, digest_size=_DIGEST).digest())
        begin = stop
    digests = np.frombuffer(b"".join(found), "<u8") >> np.uint64(2)
    return digests.astype("<u8").tobytes()


def _plain(values: list[Any]) -> list[Any]:
    """Events as JSON values; equal ones as equal texts."""
    kinds = set(map(type, values))
    if kinds <= {str}:
        return values
    if kinds <= {float, int} and all(abs(value) < _WHOLE for value in values):
        return list(map(float, values))
    return [_plain_one(value) for value in values]


def _plain_one(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, int | float):
        if isinstance(value, int) and abs(value) >= _WHOLE:
            return int(value)
        return repr(value) if math.isnan(value) or math.isinf(value) else float(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return _plain(list(value))
    raise InvalidInput(
        f"an event is {value!r}, of type {type(value).__name__}; events are texts, numbers, or "
        f"tuples of them"
    )


def known_at(connection: Connection, row: Row[Any], key: Key) -> Saved:
    """What a statistic knows, where it belongs to its row.

    Raises:
        StateError: it was altered, or is of another step.
    """
    saved = Saved.read(connection, row.id, key, row.name)
    if len(saved.events) != _DIGEST * row.step:
        raise StateError(
            f"statistic {row.name!r} is at step {row.step} and keeps digests of the events of "
            f"{len(saved.events) // _DIGEST} steps: the state was altered; restore it from a copy"
        )
    return saved
