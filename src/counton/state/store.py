"""A state database as a whole: its streams, the privacy that they have spent, and its budget."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from counton.base.errors import InvalidInputError, StateError, param
from counton.base.exact import Number
from counton.base.private import Private
from counton.continual import Design
from counton.privacy import AddableGuarantee, Ledger, LedgerEntry
from counton.privacy.contribution import Relation
from counton.state import journal, ledger_rows, schema, stream_rows
from counton.state import keys as keyfile
from counton.state.commit_input import LateRowStats
from counton.state.database import Closing, Database, reading
from counton.state.ledger_rows import LedgerEvent, SpentUnit
from counton.state.public_rows import PublicRow, public_row, public_rows, write_checksum
from counton.state.rollback_guard import Position, confirm_release, latest_guard, position_of
from counton.state.sql import Connection
from counton.state.stream_reader import JournalReader
from counton.windowing.groups import GroupNames

_T = TypeVar("_T")


class Store(Closing):
    """The streams of one database, which share one data set and one privacy budget.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> with Store("visits.db", create=True) as store:
    ...     store.set_budget(PureDP(1))
    ...     Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(0.75)).close()
    ...     print(store.streams, store.ledger.remaining())
    ('visits',) pure differential privacy with epsilon = 0.25

    Args:
        state: path of a SQLite file, or a database URL.
        create: make the database if it is missing.

    Raises:
        StateError: the state is missing, damaged, not ours or of another format.
        ConcurrentWriterError: it is locked by another process.
    """

    def __init__(self, state: str | os.PathLike[str], *, create: bool = False) -> None:
        #: The open database; `Stream.open` goes on with it.
        self.database = Database(state, create=create)

    def find(self, name: str, key: keyfile.KeySource = None) -> JournalReader | None:
        """Return a reader of a stream; None if there is no such stream.

        Args:
            name: name of the stream.
            key: the key, or where it is kept; None: beside the state. A path such as
                ``visits.key``, or ``env:NAME``.
        """
        stream_rows.check_text_name(name)
        with self.database.transaction(write=False) as connection:
            row = public_row(connection, name)
            if row is None:
                return None
            with reading(f"the terms of stream {name!r}"):
                design = Design.from_dict(json.loads(row.terms)).bound_to_key(row.key_fingerprint)
                public_facts = stream_rows.read_public_facts(connection, row.id, row.details)
        return JournalReader(self.database, row, design, public_facts, key)

    def position(self, name: str) -> Position:
        """Return a stream's number of released steps, and its writer epoch.

        Each opening for writing raises this epoch. The stream's design is not read.

        Args:
            name: name of the stream.

        Raises:
            StateError: no such stream; its rollback guard shows that the state was restored from an
                old copy; or its last release cannot be recorded in the rollback guard.
        """
        guard = latest_guard(self.database)  # read before the state
        with self.database.transaction(write=False) as connection:
            row = position_of(connection, self.database, name, guard)
        confirm_release(self.database, name)
        return Position(row.step, row.writer_epoch)

    def reader(self, name: str, key: keyfile.KeySource = None) -> JournalReader:
        """Return a reader of a stream, without becoming its writer.

        Args:
            name: name of the stream.
            key: where the key is kept; it is read only where it is needed.

        Raises:
            StateError: there is no such stream, or its design cannot be read.
        """
        reader = self.find(name, key)
        if reader is None:
            raise self._read(partial(stream_rows.no_such_stream, database=self.database, name=name))
        return reader

    def late_row_stats(self, name: str) -> Private[LateRowStats]:
        """Return how many rows came, and how many after their window's release.

        The numbers are exact: only the operator may see them.

        Args:
            name: name of the stream.

        Raises:
            StreamMismatchError: there is no such stream.
            StateError: the state was altered.
        """
        sql = "SELECT arrived, late FROM counton_streams WHERE name = :name"
        with self.database.transaction(write=False) as connection:
            row = connection.first(sql, name=name)
            if row is None:
                raise stream_rows.no_such_stream(connection, self.database, name)
            if not 0 <= row.late <= row.arrived:
                raise StateError(
                    f"stream {name!r} has {row.late:,} late rows of {row.arrived:,}: the state was "
                    "altered; restore it from a copy"
                )
            return Private(LateRowStats(arrived=row.arrived, late=row.late))

    def amend(self, name: str, public_facts: Callable[[int], Mapping[str, object]]) -> int:
        """Replace a stream's public facts (JSON values, such as its options and names of groups);
        its current writer has to open it again. Needs no key.

        Args:
            name: name of the stream.
            public_facts: function that returns the new facts, given the number of released steps.

        Returns:
            The number of released steps.

        Raises:
            InvalidInputError: the facts are no dictionary of JSON values.
            StateError: there is no such stream.
            ConcurrentWriterError: another process holds the lock.
        """
        with self.database.transaction(write=True) as connection:
            if not connection.execute(stream_rows.TAKE_OVER_SQL, name=name, further=1).rowcount:
                raise stream_rows.no_such_stream(connection, self.database, name)
            row = stream_rows.find(connection, name)
            stored = stream_rows.PublicFacts.from_values(dict(public_facts(row.step)))
            stored.write(connection, row.id, row.details)
            sql = "UPDATE counton_streams SET details = :details WHERE id = :stream"
            connection.execute(sql, stream=row.id, details=stored.text)
            write_checksum(connection, row.id)
        return int(row.step)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of all streams of this state, sorted."""
        return tuple(self._read(stream_rows.names))

    @property
    def public_facts(self) -> dict[str, dict[str, Any]]:
        """Public facts (JSON values, such as options and names of groups) of all streams of this
        state, by name of the stream.

        Raises:
            StateError: they cannot be read.
        """
        with (
            self.database.transaction(write=False) as connection,
            reading("the public facts of streams"),
        ):
            rows = [*public_rows(connection)]
            return {
                row.name: stream_rows.read_public_facts(connection, row.id, row.details)
                for row in rows
            }

    @property
    def units(self) -> list[SpentUnit]:
        """Protected unit of each stream, in the order of the ledger."""
        return self._read(ledger_rows.spent_units_in)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The ledger entries of this state's own streams and tables, oldest first."""
        return self._read(ledger_rows.entries)

    @property
    def entry_times(self) -> tuple[str, ...]:
        """Times (ISO 8601, UTC) of the ledger entries `entries`."""
        return self._read(ledger_rows.entry_times)

    @property
    def ledger_history(self) -> tuple[LedgerEvent, ...]:
        """All entries of the ledger and changes of the budget by time, with user and host.

        Each entry and change names its user and host.

        >>> from counton import PureDP
        >>> with Store("visits.db", create=True) as store:
        ...     store.set_budget(PureDP(1))
        ...     store.add_spend("survey of 2023", PureDP("1/2"), unit="reader")
        ...     for event in store.ledger_history:
        ...         print(event.in_words())
        budget set to pure differential privacy with epsilon = 1
        spent by 'survey of 2023': pure differential privacy with epsilon = 0.5, reader
        """
        return self._read(ledger_rows.history)

    @property
    def ledger(self) -> Ledger | None:
        """A copy of the ledger, which can compute what is left; None if there is no budget."""
        return self._read(ledger_rows.ledger)

    @property
    def totals(self) -> dict[str, tuple[Relation, AddableGuarantee | None]]:
        """Total privacy loss for each kind of protected unit.

        Returns:
            For each kind of unit: how its neighbouring datasets differ, and the total loss.

            With a budget, losses are added up by the rules of the budget's kind of guarantee
            (`Ledger`). If the budget names an age of data at which no loss counts yet, the total is
            None.

            Without a budget, losses are added up by `counton.privacy.ledger.totals`. If the
            guarantees cannot be added, the total is None.
        """
        return self._read(ledger_rows.totals)

    def refuse_beyond(self, entry: LedgerEntry) -> None:
        """Refuse a new stream if its privacy loss goes beyond the budget.

        It can be called before rows are read. ``Stream.create`` checks again when it makes the
        entry.

        Args:
            entry: the stream's guarantee and protected unit, as the ledger would have them.

        Raises:
            BudgetExceededError: the remaining part of the budget does not cover the guarantee.
            InvalidInputError: this kind of guarantee cannot be counted against the budget.
        """
        with self.database.transaction(write=False) as connection:
            ledger_rows.with_entry(connection, entry)

    def set_budget(
        self,
        budget: AddableGuarantee | None,
        *,
        age: int | None = None,
        relation: Relation | None = None,
        approximate_delta: Number | None = None,
        unit: str | None = None,
        allow_raise: bool = False,
    ) -> None:
        """Set the most that all releases of the database may spend together; None: no budget.

        Set it before anything is released. The theorem on budgets (privacy filters) does not cover
        a budget that is chosen or changed after looking at releases. All spending still counts in
        full. The database notes each change (`ledger_history`).

        Args:
            budget: PureDP, ApproxDP or ZCDP.
            age: for guarantees that weaken with the age of data: the age, in steps, for which their
                loss is counted.
            relation: how neighbouring datasets differ, for all units; None keeps, for each unit,
                the relation of its first entry in the ledger.
            approximate_delta: the part of a budget's delta for ApproxDP guarantees; see
                `counton.privacy.Ledger`.
            unit: kind of unit that the budget protects, such as "reader" or "reader's month":
                streams that protect less are refused from then on. None keeps the former kind. If
                there was none, or for an empty text, each kind of unit has a total of its own.
            allow_raise: allow a change that may raise the budget. Without this permission only
                smaller numbers of the same kind of guarantee are accepted, because another kind,
                unit or age, or no budget, may allow more.

        Raises:
            BudgetExceededError: the existing streams have spent more; the budget stays as it was.
            InvalidInputError: the guarantees of the existing streams cannot be counted against this
                kind of budget; or the budget would be raised without permission.
        """
        proposed = None
        if budget is not None:
            proposed = Ledger(
                budget,
                age=age,
                relation=relation,
                approximate_delta=approximate_delta,
                unit=unit or None,
            )
        with self.database.transaction(write=True) as connection:
            ledger_rows.lock(connection)
            if proposed is not None:
                proposed = ledger_rows.enter_known(connection, proposed, keep_unit=unit is None)
            ledger_rows.set_budget(connection, proposed, allow_raise=allow_raise)

    def add_spend(
        self,
        name: str,
        guarantee: AddableGuarantee,
        *,
        unit: str,
        relation: Relation = "add_remove",
    ) -> None:
        """Enter in the ledger, the record of spent privacy loss, what another program's releases
        have spent about the units that this database protects.

        The new entry counts like a stream of this database and cannot be removed. No rollback guard
        (the record outside the database that shows old copies) records the entry, so an old copy of
        the database that lacks the entry is not noticed.

        Args:
            name: name of the entry; no other entry and no stream has this name.
            guarantee: the whole guarantee of what was published.
            unit: protected unit, such as "reader".
            relation: how neighbouring datasets differ.

        Raises:
            BudgetExceededError: the budget does not cover it; nothing is entered.
            InvalidInputError: the name is in use or is not allowed; the unit or the guarantee
                cannot be counted against the budget.

        >>> from counton import PureDP
        >>> with Store("visits.db", create=True) as store:
        ...     store.add_spend("survey of 2023", PureDP("1/2"), unit="reader")
        ...     print(store.totals["reader"][1])
        pure differential privacy with epsilon = 0.5
        """
        stream_rows.check_length(name)
        if not unit.strip():
            raise InvalidInputError(
                f"{param('privacy_unit', unit)} is not the name of a unit: give a word such as "
                "'reader'"
            )
        with self.database.transaction(write=True) as connection:
            ledger_rows.lock(connection)
            ledger_rows.record_spend(connection, LedgerEntry(name, guarantee, unit, relation))

    def summary(self) -> dict[str, Any]:
        """Describe the database as JSON values without secrets: no sums, no inputs, no keys."""
        with self.database.transaction(write=False) as connection, reading("the description"):
            budget = ledger_rows.budget_terms(connection)
            entries = ledger_rows.entries(connection)
            entry_times = ledger_rows.entry_times(connection)
            rows = [*public_rows(connection)]
            return {
                "state": self.database.label,
                "format": schema.FORMAT,
                "budget": None if budget is None else budget["limit"],
                "ledger": [
                    {**entry.to_dict(), "entered": time}
                    for entry, time in zip(entries, entry_times, strict=True)
                ],
                "streams": [_public(connection, self.database, row) for row in rows],
            }

    def _read(self, ask: Callable[[Connection], _T]) -> _T:
        """Call ``ask`` with a transaction of the state that writes nothing; return its result."""
        with self.database.transaction(write=False) as connection:
            return ask(connection)

    def close(self) -> None:
        """Close all connections to the state's database."""
        self.database.close()


def state_summary(state: str | os.PathLike[str]) -> dict[str, Any]:
    """Describe a state as JSON values without secrets. Needs no key and disturbs no writer.

    Args:
        state: path of a SQLite file, or a database URL.

    Returns:
        ``state``, ``format``, ``budget``, ``ledger`` (the guarantees given so far) and ``streams``:
        for each stream its ``name``, ``terms``, ``details``, ``key_fingerprint``, ``created``,
        ``step`` and ``last`` (step, values and std of the last release, or None; if it may not be
        shown, ``refused`` says why).

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


def _public(connection: Connection, database: Database, row: PublicRow) -> dict[str, object]:
    """Return a stream's public facts; ``refused`` says why the last release is left out.

    The parameters of a user's own strategy are not included.
    """
    saved_design = json.loads(row.terms)
    last: dict[str, object] | None = None
    refused = dict[str, str]()
    try:
        confirm_release(database, row.name)
    except StateError as error:
        refused["refused"] = str(error)
    design: Design | None = None
    with suppress(StateError):  # the strategy may be the user's own
        design = Design.from_dict(saved_design)
    if row.step and not refused:
        released = journal.read(connection, row.id, row.step, row.step + 1, saved_design)
        last = _last_release(row.step, released, saved_design, design)
    public_terms = {**saved_design, "law": {"law": saved_design["law"]["law"]}}
    return {
        "name": row.name,
        "terms": public_terms if design is None else design.public(),
        "details": {
            name: list(value) if isinstance(value, GroupNames) else value
            for name, value in stream_rows.read_public_facts(
                connection, row.id, row.details
            ).items()
        },
        "key_fingerprint": row.key_fingerprint,
        "created": row.created,
        "step": row.step,
        "last": last,
        **refused,
    }


def _last_release(
    step: int, released: journal.Entries, saved_design: Mapping[str, object], design: Design | None
) -> dict[str, object]:
    """Return the public numbers of the last release, as JSON values.

    Args:
        step: its step.
        released: the numbers of this step.
        saved_design: the design of the stream, as it is saved.
        design: the same as an object; None: the strategy is the user's own.
    """
    # The values of found cells do not say which cells are shown; the cells of a statistic mean
    # nothing without its results.
    hidden = "counters" in saved_design or "statistic" in saved_design
    last = {
        "step": step,
        "values": None if hidden else released.values[0].tolist(),
        "std": released.std,
    }
    if "statistic" in saved_design:  # its numbers may have units of their own
        from counton.statistics.live_statistic import noise_at

        last["std"] = None
        if design is not None:
            with suppress(InvalidInputError, StateError):  # the statistic may be the user's own
                last["std"], last["of"] = noise_at(design, step)
    return last
