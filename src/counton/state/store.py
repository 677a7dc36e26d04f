"""A state database as a whole: its streams, the privacy they have spent, and its limit."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInput, OldCopy, StateError, hide_secrets
from counton.base.exact import Number, check_integer
from counton.base.groups import GroupNames
from counton.base.private import Private
from counton.numbers import Design, Releases
from counton.privacy import Ledger, Limit, Spend
from counton.privacy.contribution import Relation
from counton.state import journal, records, schema
from counton.state import key_and_witness as keyfile
from counton.state import ledger_rows as books
from counton.state import stream_facts as facts
from counton.state.database import Closing, Database, reading
from counton.state.ledger_rows import ForeignEntry, LimitChange
from counton.state.shared import entry_in
from counton.state.sql import Connection
from counton.state.unit_names import SpentUnit, known_in

if TYPE_CHECKING:
    from counton.noise import Key
    from counton.state.seen import Secret
    from counton.statistics.readings import Readings
    from counton.statistics.statistic import Statistic


class Position(NamedTuple):
    """Where a stream stands: how many steps are released, and who writes it."""

    step: int
    epoch: int


def position_of(
    connection: Connection, database: Database, name: str, witness: keyfile.Witness
) -> Position:
    """Where a stream stands, by the ledger, and a witness held before the state was read."""
    database.read_witnesses(connection)  # for who asks next: somebody may have given one up
    row = connection.first(
        "SELECT id, step, writer_epoch, key_fingerprint, forgotten FROM counton_streams"
        " WHERE name = :name",
        name=name,
    )
    if row is None:
        raise OldCopy(
            f"state {database.label} has no stream {name!r} any more; put the state back that was "
            f"used before"
        )
    digest = partial(journal.digest_at, connection, row.id)
    witness.check(row.key_fingerprint, name, row.step, digest, row.forgotten)
    with entry_in(connection, database, name) as entry:
        if entry is not None:
            entry.refuse_forgotten(row.step, digest)
    return Position(row.step, row.writer_epoch)


#: Numbers of some windows, and what was seen of each.
ObservedBlock = tuple[NDArray[np.int64], NDArray[np.int64]]


class StreamJournal(ABC):
    """What a stream has released and keeps, for its writer and for whoever reads beside it."""

    _details: Mapping[str, Any]

    @property
    def details(self) -> dict[str, Any]:
        """Public facts that the stream was created with, or that took their place."""
        return dict(self._details)

    @property
    @abstractmethod
    def design(self) -> Design:
        """Strategy, guarantee, contribution, shape and law."""

    @property
    @abstractmethod
    def step(self) -> int:
        """How many steps have been released."""

    @abstractmethod
    def _row(self) -> tuple[Database, int]:
        """The open state, and the number of the stream in it."""

    @abstractmethod
    def _held_key(self) -> Key:
        """Its key; refused where it is another one."""

    def releases(self, start: int = 1, stop: int | None = None) -> Releases:
        """What was released at steps ``start..stop-1``, from the journal, to the bit.

        Of a job that discovers its groups that is more than may be published: also groups that are
        not shown, whose number and labels are secret. Publish the job's own table.

        Raises:
            InvalidInput: the steps are not all released.
        """
        terms = self.design
        steps = released_steps(terms, self.step, start, stop)
        if terms.statistic is not None:
            from counton.statistics.live_statistic import statistic_of

            if statistic_of(terms)[0].card.on_demand:
                raise InvalidInput(
                    f"cells of {terms.name!r} are computed from its events and its key when they "
                    f"are asked for, and the journal holds none: open it with Stream.open, or run "
                    f"its command again"
                )
        database, number = self._row()
        with database.transaction(write=False) as connection:
            shape = terms.shape if terms.counters is None else (-1,)
            entries = journal.read(connection, number, steps.start, steps.stop, shape)
        return Releases(steps, entries.values, terms)

    def observed_blocks(self) -> Private[Iterator[ObservedBlock]]:
        """What was kept as seen of all windows, some at a time.

        Windows of many cells need less memory so. Nothing may be released meanwhile.
        """
        return Private(self._blocks(None))

    def _blocks(self, also: NDArray[np.int64] | None) -> Iterator[ObservedBlock]:
        database, number = self._row()
        with database.transaction(write=False) as connection:
            for seen in journal.read_observed(connection, number, self.step, also):
                yield seen.steps, seen.totals

    def labels(self) -> Private[tuple[str, ...]]:
        """Labels of cells that came as they were needed, in the order of these."""
        from counton.state import seen as marks

        database, number = self._row()
        with database.transaction(write=False) as connection:
            return Private(marks.read_labels(connection, number))

    def secret(self) -> Secret | None:
        """With what its users and ids are known again; None where none are yet. Needs the key.

        Raises:
            WrongKey: the key is not the stream's.
            StateError: the secret was altered.
        """
        from counton.state import seen as marks

        subkey = marks.subkey(self._held_key(), self.design.name)
        database, number = self._row()
        with database.transaction(write=False) as connection:
            return marks.read_secret(connection, number, subkey)

    def has_source(self, digest: str) -> bool:
        """Whether a source of this digest has been counted. Needs the key.

        Raises:
            WrongKey: the key is not the stream's.
        """
        database, number = self._row()
        with database.transaction(write=False) as connection:
            return journal.has_source(connection, number, digest, self._source_key)

    @cached_property
    def _source_key(self) -> bytes:
        return journal.source_key(self._held_key(), self.design.name)

    def beside(self, name: str) -> JournalReader:
        """Another stream of the same state, to read from.

        Raises:
            StateError: there is no such stream, or its terms cannot be read.
        """
        return reader_of(self._row()[0], name)


class JournalReader(StreamJournal):
    """A stream as its journal shows it: needs no key and disturbs no writer. See `Store.reader`.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> stream = Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1))
    >>> released = stream.release_many([3, 0, 5])
    >>> with Store("visits.db") as store:
    ...     bool((store.reader("visits").releases(2).values == released.values[1:]).all())
    True
    >>> stream.close()
    """

    def __init__(
        self, database: Database, connection: Connection, row: Any, key: keyfile.Kept
    ) -> None:
        self._database, self._stored, self._key, self._shown = database, row, key, False
        with reading(f"the terms of stream {row.name!r}"):
            self._design = Design.from_dict(json.loads(row.terms)).under(row.key_fingerprint)
            self._details = facts.read(connection, row.id, row.details)

    @property
    @override
    def design(self) -> Design:
        return self._design

    @property
    def key_fingerprint(self) -> str:
        """Of the stream's key; public."""
        return str(self._stored.key_fingerprint)

    @property
    @override
    def step(self) -> int:
        return int(self._stored.step)  # when the reader was made

    @override
    def _row(self) -> tuple[Database, int]:
        return self._database, self._stored.id

    def doubt(self) -> str | None:
        """Why the state may be an old copy, as its witness or its ledger says; or None."""
        witness = keyfile.witness_beside(self._database, self._key).snapshot()
        try:
            with self._database.transaction(write=False) as connection:
                position_of(connection, self._database, self.design.name, witness)
        except StateError as error:
            return str(error)
        return None

    @override
    def releases(self, start: int = 1, stop: int | None = None) -> Releases:
        if not self._shown:
            records.let_show(self._database, self.design.name, self._key)
            self._shown = True
        return super().releases(start, stop)

    def readings(
        self, start: int = 1, stop: int | None = None, read_as: Statistic | None = None
    ) -> Readings:
        """What steps ``start..stop-1`` said of the stream's statistic: see `Stream.readings`."""
        from counton.statistics.live_statistic import statistic_of
        from counton.statistics.readings import Readings

        statistic = statistic_of(self.design)[0] if read_as is None else read_as
        releases = self.releases(start, stop)
        return Readings(statistic, releases.steps, releases)

    @override
    def _held_key(self) -> Key:
        row = self._stored
        held = keyfile.key_for(self._database, row.key_fingerprint, row.key_salt, self._key)
        records.check_key_of(row, held)
        return held


def released_steps(terms: Design, step: int, start: int, stop: int | None) -> range:
    """Steps ``start..stop-1`` of a stream at ``step``."""
    start = check_integer("start", start, 0)
    stop = step + 1 if stop is None else check_integer("stop", stop, 0)
    if not 1 <= start <= stop <= step + 1:
        raise InvalidInput(
            f"steps {start} to {stop - 1} are not all released; stream {terms.name!r} has "
            f"released steps 1 to {step}: ask for steps among them"
        )
    return range(start, stop)


def reader_of(database: Database, name: str, key: keyfile.Kept = None) -> JournalReader:
    """A stream of an open state to read from; see `Store.reader`."""
    found = _find(database, name, key)
    if found is None:
        with database.transaction(write=False) as connection:
            raise records.no_such_stream(connection, database, name)
    return found


def _find(database: Database, name: str, key: keyfile.Kept) -> JournalReader | None:
    records.check_text_name(name)
    with database.transaction(write=False) as connection:
        row = records.public_row(connection, name)
        return None if row is None else JournalReader(database, connection, row, key)


class Store(Closing):
    """The streams of one database, which share one data set and one privacy budget.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> with Store("visits.db", create=True) as store:
    ...     store.set_limit(PureDP(1))
    ...     Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(0.75)).close()
    ...     print(store.streams, store.ledger.remaining())
    ('visits',) pure differential privacy with epsilon = 0.25

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
    def database(self) -> Database:
        """The open database; `Stream.open` goes on with it."""
        return self._database

    def find(self, name: str, key: keyfile.Kept = None) -> JournalReader | None:
        """As `reader`; None if there is no such stream."""
        return _find(self._database, name, key)

    def position(self, name: str, key: keyfile.Kept = None) -> Position:
        """Where a stream stands, without reading its terms.

        Args:
            key: where it is kept; what it holds is not read.

        Raises:
            StateError: no such stream; or the state was restored from an old copy, as its witness
                says; or its last release cannot be noted, as of `records.let_show`.
        """
        witness = keyfile.witness_beside(self._database, key).snapshot()  # before the state is read
        with self._database.transaction(write=False) as connection:
            found = position_of(connection, self._database, name, witness)
        records.let_show(self._database, name, key)
        return found

    def reader(self, name: str, key: keyfile.Kept = None) -> JournalReader:
        """A stream to read from, without becoming its writer.

        Args:
            key: where it is kept; what it holds is not read. Its witness says how new the state is.

        Raises:
            StateError: there is no such stream, or its terms cannot be read.
        """
        return reader_of(self._database, name, key)

    def amend(self, name: str, details: Callable[[int], Mapping[str, Any]]) -> int:
        """Replace the public facts of a stream, and stop whoever is writing it. Needs no key.

        Args:
            details: the new facts, from the step at which the stream is.

        Returns:
            That step.

        Raises:
            InvalidInput: no dictionary of JSON values.
            StreamConflict: another process holds the lock.
        """
        with self._database.transaction(write=True) as connection:
            connection.run(records.TAKE, name=name, further=1)
            row = records.find(connection, name)
            public = facts.Facts.of(dict(details(row.step)))
            public.write(connection, row.id, row.details)
            said = "UPDATE counton_streams SET details = :details WHERE id = :stream"
            connection.run(said, stream=row.id, details=public.text)
        return int(row.step)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of its streams, sorted."""
        with self._database.transaction(write=False) as connection:
            return tuple(records.names(connection))

    @property
    def details(self) -> dict[str, dict[str, Any]]:
        """Public facts of its streams, by name.

        Raises:
            StateError: they cannot be read.
        """
        with self._database.transaction(write=False) as connection, reading("the streams' details"):
            rows = [*connection.rows("SELECT id, name, details FROM counton_streams")]
            return {row.name: facts.read(connection, row.id, row.details) for row in rows}

    @property
    def units(self) -> list[SpentUnit]:
        """What is protected by each release, in the order in which they were entered."""
        with self._database.transaction(write=False) as connection:
            return known_in(connection)

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Every entry of this state, in order."""
        with self._database.transaction(write=False) as connection:
            return books.entries(connection)

    @property
    def entry_times(self) -> tuple[str, ...]:
        """When each of `spends` was entered, ISO 8601 in UTC."""
        with self._database.transaction(write=False) as connection:
            return books.entry_times(connection)

    @property
    def limit_changes(self) -> tuple[LimitChange, ...]:
        """Who set, raised or lowered the limit, when, and from what."""
        with self._database.transaction(write=False) as connection:
            return books.limit_changes(connection)

    @property
    def shared_entries(self) -> tuple[ForeignEntry, ...]:
        """What other states have entered, which share the limit of this one."""
        with self._database.transaction(write=False) as connection:
            return books.of_others(connection)

    @property
    def shared_ledger(self) -> str | None:
        """Where the ledger is whose limit this state shares; None where it counts by itself."""
        with self._database.transaction(write=False) as connection:
            ties = books.ties(connection)
        return hide_secrets(ties[0].address) if ties else None

    @property
    def ledger(self) -> Ledger | None:
        """What is spent and what remains under the limit; None without a limit.

        With what other states have entered, after the state's own (`shared_entries`).

        A copy: entries are made by ``Stream.create``.
        """
        with self._database.transaction(write=False) as connection:
            return books.ledger(connection)

    @property
    def totals(self) -> dict[str, tuple[Relation, Limit | None]]:
        """The sum that this state and others under its limit have spent, by unit.

        Returns:
            For each unit its relation, and the total: against the limit, or
            without one as `counton.privacy.ledger.totals` adds up. None: nothing yet at the age
            of the limit; or without a limit, guarantees that have no one sum.
        """
        with self._database.transaction(write=False) as connection:
            return books.totals(connection)

    def refuse_beyond(self, entry: Spend) -> None:
        """Refuse a release that goes beyond the limit, before anything is read for it.

        Entered it is with ``Stream.create``, which asks again.

        Raises:
            BudgetExceeded: what remains does not cover the guarantee.
            InvalidInput: this kind of guarantee cannot be counted against the limit.
        """
        with self._database.transaction(write=False) as connection:
            books.with_entry(connection, entry)

    def set_limit(
        self,
        limit: Limit | None,
        *,
        age: int | None = None,
        relation: Relation | None = None,
        approximate_delta: Number | None = None,
        unit: str | None = None,
        allow_raise: bool = False,
    ) -> None:
        """Set the most that all releases of the database may spend together; None: no limit.

        Set it before anything is released. A limit that is chosen or changed by what was released
        is one more choice, about which the filter's theorem says nothing: what was spent still
        counts in full. The database notes each change (`limit_changes`).

        Args:
            limit: PureDP, ApproxDP or ZCDP.
            age: for guarantees that weaken as data ages: the age, in steps, at which they count.
            relation: by which all units are counted; None for that of each unit's first entry.
            approximate_delta: the part of a limit's delta for ApproxDP guarantees; see
                `counton.privacy.Ledger`.
            unit: the subject of the limit, such as "reader" or "reader's month": releases that
                protect less are refused from then on. None: what the limit is about already, or
                that of each release, in totals apart; empty: that of each release.
            allow_raise: a limit that stands may be raised: anything but smaller numbers of the
                same guarantee raises it, as another subject, age or kind, or none at all.

        Raises:
            BudgetExceeded: the streams there are have spent more; the limit stays as it was.
            InvalidInput: their guarantees cannot be counted against this kind of limit; or it would
                be raised without a word.
        """
        proposed = None
        if limit is not None:
            proposed = Ledger(
                limit,
                age=age,
                relation=relation,
                approximate_delta=approximate_delta,
                unit=unit or None,
            )
        with self._database.transaction(write=True) as connection:
            books.lock(connection)
            if proposed is not None:
                proposed = books.enter_known(connection, proposed, keep_unit=unit is None)
            books.set_limit(connection, proposed, allow_raise=allow_raise)

    def ledger_within(self, limit: Limit, unit: str | None = None) -> Ledger:
        """The ledger as `set_limit` would make it; nothing is set.

        Raises:
            BudgetExceeded, InvalidInput: as of `set_limit`.
        """
        with self._database.transaction(write=False) as connection:
            return books.enter_known(connection, Ledger(limit, unit=unit))

    def summary(self) -> dict[str, Any]:
        """What the database holds, as JSON values without secrets: no sums, no inputs, no keys."""
        with self._database.transaction(write=False) as connection, reading("the description"):
            terms = books.terms(connection)
            rows = [*connection.rows(f"{records.PUBLIC} ORDER BY name")]
            return {
                "state": self._database.label,
                "format": schema.FORMAT,
                "limit": None if terms is None else terms["limit"],
                "ledger": [
                    {**entry.to_dict(), "entered": time}
                    for entry, time in zip(
                        books.entries(connection), books.entry_times(connection), strict=True
                    )
                ],
                "streams": [self._public(connection, row) for row in rows],
            }

    def _public(self, connection: Connection, row: Any) -> dict[str, Any]:
        try:
            records.let_show(self._database, row.name)
        except StateError as error:
            return {**_public(connection, row, shown=False), "refused": str(error)}
        return _public(connection, row)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def state_summary(state: str | os.PathLike[str]) -> dict[str, Any]:
    """What a state holds, as JSON values without secrets. Needs no key and disturbs no writer.

    Returns:
        ``state``, ``format``, ``limit``, ``ledger`` (entries) and ``streams``: for each its
        ``name``, ``terms``, ``details``, ``key_fingerprint``, ``created``, ``step`` and ``last``
        (step, values and std of the last release, or None; where it may not be shown, ``refused``
        says why).

    Raises:
        StateError: the state is missing, damaged, not ours or of another format.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1.0)).close()
    >>> [(stream["name"], stream["step"]) for stream in state_summary("visits.db")["streams"]]
    [('visits', 0)]
    """
    with Store(state) as store:
        return store.summary()


def _in_data_units(terms: dict[str, Any]) -> dict[str, Any]:
    """Terms of a stream for readers, who are told of noise in units of the data."""
    try:
        return Design.from_dict(terms).public()
    except StateError:  # of a strategy that is somebody's own: how wide it is, is not said
        return {**terms, "law": {"law": terms["law"]["law"]}}


def _noise_of_readings(terms: dict[str, Any], step: int) -> dict[str, Any]:
    """The deviation of what is read of a statistic's cells, which may have units of their own."""
    from counton.statistics.live_statistic import noise_at

    try:
        std, of = noise_at(Design.from_dict(terms), step)
    except (InvalidInput, StateError):  # of a strategy or statistic that is somebody's own
        return {"std": None}
    return {"std": std, "of": of}


def _public(connection: Connection, row: Any, *, shown: bool = True) -> dict[str, Any]:
    terms = json.loads(row.terms)
    public = _in_data_units(terms)
    last = None
    if row.step and shown:
        hidden = "counters" in terms  # of which cells are shown, it says nothing
        hidden |= "statistic" in terms  # which says what its cells are
        shape = journal.shape_of(terms)
        released = journal.read(connection, row.id, row.step, row.step + 1, shape)
        last = {
            "step": row.step,
            "values": None if hidden else np.asarray(released.values[0]).tolist(),
            "std": released.std,
        }
        if "statistic" in terms:
            last |= _noise_of_readings(terms, row.step)
    return {
        "name": row.name,
        "terms": public,
        "details": {
            name: list(value) if isinstance(value, GroupNames) else value
            for name, value in facts.read(connection, row.id, row.details).items()
        },
        "key_fingerprint": row.key_fingerprint,
        "created": row.created,
        "step": row.step,
        "last": last,
    }
