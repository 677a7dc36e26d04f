"""Durable streams: a counter whose releases are committed before anybody sees them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray
from sqlalchemy.engine import Connection, Row

from counton.errors import InvalidInput, StateError, StreamConflict, WrongKey
from counton.mechanisms import Counter, Release, Releases
from counton.noise import Key
from counton.privacy import Contribution
from counton.privacy.guarantees import Guarantee
from counton.store import budget, journal, keyfile, schema
from counton.store.database import Database
from counton.strategies import Strategy


class Stream:
    """A running total in a database: what was released stays released, whatever is killed.

    Make one with :meth:`create`, continue it with :meth:`open`. One process writes at a time: the
    latest to open a stream takes it over, and the one before gets ``StreamConflict`` at its next
    release. Noise is a function of key and step, and the journal is written first, so a process
    killed at any moment cannot show two values for one step.

    The state holds exact sums: it is as secret as the data. The key is not in it.

    >>> import tempfile
    >>> from counton import PureDP
    >>> from counton.strategies import Binary
    >>> folder = tempfile.TemporaryDirectory()
    >>> state = folder.name + "/visits.db"
    >>> with Stream.create(state, "visits", Binary(horizon=100), PureDP(epsilon=1.0)) as stream:
    ...     first = stream.release(3)
    >>> with Stream.open(state, "visits") as stream:
    ...     stream.step, stream.replay(1, 3).value == first.value
    (1, True)
    >>> folder.cleanup()
    """

    def __init__(
        self, database: Database, row: Row[Any], key: Key, strategy: Strategy | None
    ) -> None:
        """Not for callers: use :meth:`create` or :meth:`open`."""
        self._database: Database | None = database
        self._key = key
        self._id: int = row.id
        self._epoch: int = row.writer_epoch
        self._name: str = row.name
        self._details: dict[str, Any] = json.loads(row.details)
        self._digest = journal.Digester(key.derive(b"journal digest", row.name.encode()))
        self._lock = threading.RLock()
        self._step: int = row.step
        self._strategy = strategy
        self._counter: Counter | None = _revive(row, key, strategy)
        self._shape = self._counter.shape
        self._contribution = self._counter.specification.contribution

    @classmethod
    def create(
        cls,
        state: str | os.PathLike[str],
        name: str,
        strategy: Strategy,
        guarantee: Guarantee,
        *,
        key: Key | None = None,
        contribution: Contribution | None = None,
        shape: tuple[int, ...] = (),
        details: Mapping[str, Any] | None = None,
    ) -> Stream:
        """Begin a stream and enter its guarantee in the ledger of the database.

        Args:
            state: path of a SQLite file (made with mode 0600 if missing), or a database URL.
            name: of the stream within the database; it is part of the address of its noise.
            strategy: how the noise is arranged.
            guarantee: what one protected unit is promised over the whole stream.
            key: the secret; without one, ``STATE.key`` beside a SQLite file is used, and made anew
                together with the file.
            contribution: what one protected unit can change; default: add or remove one.
            shape: of one step's input and output, () for a single number.
            details: public facts to keep with the stream (JSON values), as the names of groups.

        Raises:
            StateError: the stream exists, or the database cannot be used.
            BudgetExceeded: the guarantee goes beyond the database's limit; nothing is created.
            InvalidInput: an argument is outside what is allowed; nothing is created.
        """
        contribution = Contribution.add_remove() if contribution is None else contribution
        public = _to_json(dict(details or {}), "details")
        with keyfile.for_creation(state, key) as held:
            counter = Counter(
                strategy, guarantee, key=held, stream=name, contribution=contribution, shape=shape
            )
            database = Database(state, create=True)
            try:
                with database.transaction(write=True) as connection:
                    budget.lock(connection)
                    known = sa.select(schema.streams.c.id).where(schema.streams.c.name == name)
                    if connection.execute(known).first() is not None:
                        raise StateError(
                            f"state {database.label} has a stream {name!r} already: continue it "
                            f"with Stream.open, or choose another name"
                        )
                    budget.enter(connection, name, guarantee)
                    connection.execute(
                        schema.streams.insert().values(
                            name=name,
                            spec=_to_json(counter.spec, "spec"),
                            details=public,
                            key_fingerprint=held.fingerprint,
                            created=datetime.now(UTC).isoformat(timespec="seconds"),
                            step=0,
                            writer_epoch=1,
                            checkpoint=counter.checkpoint(),
                        )
                    )
                    return cls(database, _row(connection, name), held, strategy)
            except BaseException:
                database.close()
                raise

    @classmethod
    def open(
        cls,
        state: str | os.PathLike[str],
        name: str,
        *,
        key: Key | None = None,
        strategy: Strategy | None = None,
    ) -> Stream:
        """Continue a stream and become its writer.

        Args:
            state: path of a SQLite file, or a database URL.
            name: of the stream within the database.
            key: the secret; without one, ``STATE.key`` beside a SQLite file is used.
            strategy: needed only for strategies which are not part of counton.

        Raises:
            StateError: no such stream, or the state is damaged, of another format or missing.
            WrongKey: the key is not the one the stream was created with.
            StreamConflict: the database is locked by another process.
        """
        database = Database(state)
        try:
            with database.transaction(write=True) as connection:
                taken = connection.execute(
                    schema.streams.update()
                    .where(schema.streams.c.name == name)
                    .values(writer_epoch=schema.streams.c.writer_epoch + 1)
                )
                if taken.rowcount == 0:
                    names = connection.execute(sa.select(schema.streams.c.name)).scalars().all()
                    raise StateError(
                        f"state {database.label} has no stream {name!r}; it has "
                        f"{', '.join(map(repr, sorted(names))) or 'none'}: correct the name, or "
                        f"give the state of that stream"
                    )
                # Whatever is wrong below undoes the line above: the present writer goes on.
                row = _row(connection, name)
                held = key or keyfile.load(state, row.key_fingerprint)
                if row.key_fingerprint != held.fingerprint:
                    raise WrongKey(
                        f"stream {name!r} was created with the key {row.key_fingerprint}, this is "
                        f"the key {held.fingerprint}: give the key file that was saved with it"
                    )
                last = connection.execute(
                    sa.select(sa.func.max(schema.journal.c.step)).where(
                        schema.journal.c.stream_id == row.id
                    )
                ).scalar_one()
                if (last or 0) != row.step:
                    raise StateError(
                        f"stream {name!r} is at step {row.step} but its journal ends at "
                        f"{last or 0}: the state was altered; restore it from a copy"
                    )
                return cls(database, row, held, strategy)
        except BaseException:
            database.close()
            raise

    @property
    def name(self) -> str:
        """Its name in the database."""
        return self._name

    @property
    def step(self) -> int:
        """How many steps have been released."""
        return self._step

    @property
    def spec(self) -> dict[str, Any]:
        """Strategy, guarantee, contribution, shape and law, as JSON values."""
        return dict(self._ready().spec)

    @property
    def details(self) -> dict[str, Any]:
        """Public facts given to :meth:`create`."""
        return dict(self._details)

    def describe(self) -> str:
        """What is protected and how, in words."""
        return self._ready().describe()

    def release(self, x: ArrayLike, *, step: int | None = None) -> Release:
        """Release one step: committed to the journal, then returned.

        Args:
            x: this step's total, of the stream's shape, in data units.
            step: which step this is meant to be. A step that has been released is answered from
                the journal, so a caller who does not know whether an earlier call came through may
                repeat it.

        Raises:
            InvalidInput: x is outside what is allowed; nothing was released or changed.
            ReplayMismatch: ``step`` was released with another input.
            StreamConflict: another process took the stream over, or holds the lock.
        """
        many = self.release_many(np.asarray(x)[np.newaxis], first_step=step)
        return _only(many)

    def release_many(
        self,
        xs: ArrayLike,
        *,
        first_step: int | None = None,
        observed: Mapping[int, ArrayLike] | None = None,
        sources: Sequence[str] = (),
    ) -> Releases:
        """Release consecutive steps in one transaction: all of them, or none.

        Args:
            xs: totals, shape ``(n, *shape)``, in data units.
            first_step: which step the first is meant to be; steps that have been released are
                answered from the journal (see :meth:`release`).
            observed: see :meth:`observe`; written in the same transaction.
            sources: see :meth:`observe`; written in the same transaction.

        Raises:
            InvalidInput: an input is outside what is allowed; nothing was released or changed.
            ReplayMismatch: a released step had another input, or a source was counted before.
            StreamConflict: another process took the stream over, or holds the lock.
        """
        with self._lock:
            counter = self._ready()
            array, grid = self._inputs(xs)
            first = self._step + 1 if first_step is None else int(first_step)
            if not 1 <= first <= self._step + 1:
                raise InvalidInput(
                    f"first_step is {first}; it must be within 1 and {self._step + 1}, the next "
                    f"step of stream {self._name!r}: release the steps between first"
                )
            known = min(len(grid), self._step + 1 - first)
            if known:
                answer = self._answer(first, grid[:known])
                if known == len(grid):
                    return answer
                fresh = self._advance(array[known:], grid[known:], observed or {}, sources)
                values = np.concatenate([answer.values, fresh.values])
                return Releases(range(first, self._step + 1), values, counter)
            return self._advance(array, grid, observed or {}, sources)

    def observe(self, observed: Mapping[int, ArrayLike], *, sources: Sequence[str] = ()) -> None:
        """Keep what has been seen of some windows, without a release.

        Args:
            observed: totals so far by window (counted from 1), integers of any shape; they replace
                what was kept. With them a later run tells late rows from vanished ones.
            sources: digests of files whose rows are now counted; counting one twice is refused.

        Raises:
            ReplayMismatch: a source was counted before.
            StreamConflict: another process took the stream over, or holds the lock.
        """
        with self._lock:
            checkpoint = self._ready().checkpoint()
            self._commit([], checkpoint, self._step, observed, sources)

    def observed(self, start: int = 1, stop: int | None = None) -> dict[int, NDArray[np.int64]]:
        """What :meth:`observe` kept of windows ``start..stop-1``. As secret as the data."""
        with self._open_database().transaction(write=False) as connection:
            return journal.read_observed(connection, self._id, start, stop)

    def has_source(self, digest: str) -> bool:
        """Whether a source of this digest has been counted."""
        with self._open_database().transaction(write=False) as connection:
            return journal.source_step(connection, self._id, digest) is not None

    def releases(self, start: int = 1, stop: int | None = None) -> Releases:
        """What was released at steps ``start..stop-1``, from the journal, to the bit.

        Raises:
            InvalidInput: the steps are not all released.
        """
        stop = self._step + 1 if stop is None else stop
        if not 1 <= start <= stop <= self._step + 1:
            raise InvalidInput(
                f"steps {start} to {stop - 1} are not all released; stream {self._name!r} has "
                f"released steps 1 to {self._step}: ask for steps among them"
            )
        counter = self._ready()
        with self._open_database().transaction(write=False) as connection:
            values = journal.read(connection, self._id, start, stop, self._shape).values
        return Releases(range(start, stop), values, counter)

    def replay(self, step: int, x: ArrayLike) -> Release:
        """The journal's answer for a released step, if ``x`` is the input it was released with.

        Raises:
            InvalidInput: the step is not released, or x is outside what is allowed.
            ReplayMismatch: x differs from the step's input.
        """
        if not 1 <= step <= self._step:
            raise InvalidInput(
                f"step {step} is not released; stream {self._name!r} has released steps 1 to "
                f"{self._step}: use release"
            )
        return self.release(x, step=step)

    def close(self) -> None:
        """Close the database. Everything released is already in it."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = self._counter = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Stream(name={self._name!r}, step={self._step})"

    def _open_database(self) -> Database:
        if self._database is None:
            raise StateError(
                f"this handle on stream {self._name!r} is closed: open the stream with Stream.open"
            )
        return self._database

    def _ready(self) -> Counter:
        """The counter at the last committed step, read again if a release failed half-way."""
        with self._lock:
            database = self._open_database()
            if self._counter is None:
                with database.transaction(write=False) as connection:
                    row = _row(connection, self._name)
                if row.writer_epoch != self._epoch:
                    raise self._taken_over()
                if row.step != self._step:
                    self.close()
                    raise StateError(
                        f"stream {self._name!r} was interrupted while it committed and stands at "
                        f"step {row.step}, not {self._step}: open it again and look at .step"
                    )
                self._counter = _revive(row, self._key, self._strategy)
            return self._counter

    def _inputs(self, xs: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Inputs as given, and as the exact integers which the counter will add."""
        array = np.asarray(xs)
        if array.ndim == 0 or array.shape[1:] != self._shape:
            raise InvalidInput(
                f"inputs of stream {self._name!r} have shape {array.shape}; they must have shape "
                f"(n, {', '.join(map(str, self._shape))}): one entry per step"
            )
        return array, self._contribution.grid_total(array)

    def _answer(self, first: int, grid: NDArray[np.int64]) -> Releases:
        """What the journal says of released steps, if these are their inputs."""
        stop = first + len(grid)
        with self._open_database().transaction(write=False) as connection:
            entries = journal.read(connection, self._id, first, stop, self._shape)
        journal.check_inputs(entries.input_digests, first, grid, self._digest)
        return Releases(range(first, stop), entries.values, self._ready())

    def _advance(
        self,
        xs: NDArray[Any],
        grid: NDArray[np.int64],
        observed: Mapping[int, ArrayLike],
        sources: Sequence[str],
    ) -> Releases:
        counter = self._ready()
        releases = counter.release_many(xs)
        try:
            rows = journal.rows(self._id, releases, grid, self._digest)
            self._commit(rows, counter.checkpoint(), counter.step, observed, sources)
        except BaseException:
            # The counter is ahead of the journal: forget it, and read it again when needed.
            self._counter = None
            raise
        self._step = counter.step
        return releases

    def _commit(
        self,
        rows: list[dict[str, Any]],
        checkpoint: bytes,
        step: int,
        observed: Mapping[int, ArrayLike],
        sources: Sequence[str],
    ) -> None:
        table = schema.streams
        with self._open_database().transaction(write=True) as connection:
            moved = connection.execute(
                table.update()
                .where(
                    table.c.id == self._id,
                    table.c.writer_epoch == self._epoch,
                    table.c.step == self._step,
                )
                .values(step=step, checkpoint=checkpoint)
            )
            if moved.rowcount != 1:
                raise self._taken_over()
            if rows:
                connection.execute(schema.journal.insert(), rows)
            journal.write_observed(connection, self._id, observed)
            journal.write_sources(connection, self._id, sources, step)

    def _taken_over(self) -> StreamConflict:
        return StreamConflict(
            f"stream {self._name!r} was opened by another process, which now writes it; this one "
            f"(writer {self._epoch}) released nothing: end one of the two, then open the stream "
            f"again"
        )


def _row(connection: Connection, name: str) -> Row[Any]:
    return connection.execute(sa.select(schema.streams).where(schema.streams.c.name == name)).one()


def _revive(row: Row[Any], key: Key, strategy: Strategy | None) -> Counter:
    counter = Counter.resume(bytes(row.checkpoint), key=key, strategy=strategy)
    if counter.step != row.step or _to_json(counter.spec, "spec") != row.spec:
        raise StateError(
            f"the checkpoint of stream {row.name!r} (step {counter.step}) does not belong to its "
            f"row (step {row.step}): the state was altered; restore it from a copy"
        )
    return counter


def _to_json(value: Mapping[str, Any], name: str) -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must consist of JSON values ({error}): convert them") from None


def _only(many: Releases) -> Release:
    value = many.values[0]
    return Release(many.steps[0], value.item() if value.ndim == 0 else value, float(many.std[0]))
