"""One privacy limit for several states: a shared ledger, in which each state makes an entry before
it releases.

The ledger is a state database with a limit; it needs no streams of its own. Two transactions make
an entry. The first reserves it in the ledger, under the state's identity and the stream's name. The
second makes the stream in the state, with a token that is drawn for it. Then the stream claims the
entry with its token, once and for all, and only then does it release. A process that is killed
between the two transactions leaves a reservation. It counts against the limit, and the same stream
takes it up when it is begun again. If one stream was begun in two copies of a state, the ledger
knows the token of one copy, and the other copy releases nothing.

Old copies of either side are noticed. Like a witness, the ledger remembers the last step of each
stream and a digest of its last release. A state remembers the number of the ledger's last entry and
a digest of all entries up to it, and refuses a ledger that has lost or changed some. A ledger in a
file has a witness beside it, which remembers its last entry and the last step of each stream.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import (
    BudgetExceeded,
    InvalidInput,
    OldCopy,
    RequestMismatch,
    StateError,
    StateUnavailable,
    StreamConflict,
    field,
)
from counton.noise.witness import WitnessFile
from counton.privacy import Ledger, Limit, Spend
from counton.privacy.contribution import ANY_UNIT, Relation
from counton.state import ledger_rows as books
from counton.state import unit_names as units
from counton.state.database import (
    Closing,
    Database,
    given_address,
    kept_address,
    reading,
    state_file,
)
from counton.state.key_and_witness import other_release
from counton.state.sql import Connection
from counton.state.sqlite_file import NoState, files_of

#: Place of a shared ledger: path of a SQLite file, or a database URL.
Place = str | os.PathLike[str]

_TWO = "two ledgers about the same people would allow twice the loss"
#: Stands in place of a key's fingerprint where a ledger's witness records the ledger's last entry.
_ENTRIES = "entries of a ledger"


class _End(NamedTuple):
    """The end of a shared ledger (a record of spent privacy loss): the number of its last entry (0
    if it has none), and a digest of all entries up to it.
    """

    number: int
    chain: str


class SharedBook(NamedTuple):
    """A copy of the entries of a ledger, the record of spent privacy loss, that several states
    share.

    Attributes:
        label: address of the ledger, for messages.
        ledger: the ledger with its entries and its limit.
        entered: whether the stream for which the copy was made has an entry or a reservation
            already.
    """

    label: str
    ledger: Ledger
    entered: bool = False

    def spend(self, spend: Spend) -> None:
        """Add the spending of a stream to this copy of a shared ledger (the record of spent privacy
        loss), unless the stream has an entry already.

        Spending that goes beyond the limit is refused.
        """
        if self.entered:
            return
        unit, relation = spend.unit, spend.relation
        try:
            self.ledger.spend(
                spend.name, spend.guarantee, unit=unit, relation=relation, party=spend.party
            )
        except BudgetExceeded as error:
            raise BudgetExceeded(f"in the shared ledger {self.label}, {error.template}") from None


class SharedLedger(Closing):
    """A ledger (record of spent privacy loss) in one state database, with a privacy limit for the
    streams of several states together.

    Args:
        place: path of a SQLite file, or a database URL.

    Attributes:
        witness: file beside the ledger's file that records its last entry, so that an old copy of
            the ledger is noticed; None on a server.
    """

    def __init__(self, place: Place) -> None:
        self._address = kept_address(place)
        try:
            self._database = Database(place)
        except NoState:
            raise RequestMismatch(
                f"{field('ledger', self._address)} does not exist: correct it, or make it and set "
                "its limit first (counton ledger); a run never makes a ledger by itself, because "
                f"{_TWO}"
            ) from None
        file = self._database.path
        self.witness = None if file is None else WitnessFile(Path(f"{file}.witness"))

    @property
    def label(self) -> str:
        """Path or URL of the shared ledger's database, for messages; without a password."""
        return self._database.label

    @property
    def identity(self) -> str:
        """Random identifier of this shared ledger (of spent privacy loss), which is the same in all
        of its copies.
        """
        return self._database.identity

    def __str__(self) -> str:
        return f"ledger {self.label}"

    def close(self) -> None:
        """Close the database of the ledger."""
        self._database.close()

    def book(self, database: Database | None, name: str) -> SharedBook:
        """Return a copy of the entries of this shared ledger, the record of spent privacy loss,
        against which the stream ``name`` can check its spending.

        Args:
            database: the stream's state; None if it does not exist yet.
        """
        entered = database is not None and self.row(database.identity, name) is not None
        with self._database.transaction(write=False) as connection:
            return SharedBook(self.label, self._ledger(connection), entered)

    def known_units(self) -> list[units.SpentUnit]:
        """Return the protected unit of each entry (stream or table) of this shared ledger, as the
        ledger names it.
        """
        with self._database.transaction(write=False) as connection:
            return known_to(connection)

    def check_fits(self, spend: Spend) -> None:
        """Refuse spending that goes beyond the privacy limit of this shared ledger; enter nothing.

        This check is for a stream whose state does not exist yet.
        """
        self.refuse_as_ledger()
        end = self.refuse_forgotten([])
        with self._database.transaction(write=True) as connection:
            books.lock(connection)  # fails if the ledger cannot be written
            self._spend(connection, spend)
        self._note(end)

    def enter(self, connection: Connection, database: Database) -> None:
        """Reserve an entry in this shared ledger for each stream of a state that has no entry yet.

        The ledger is the record of spent privacy loss. Each new entry is noted in the state too.

        Args:
            connection: a transaction that writes the state. It is committed after the ledger's
                transaction.

        Raises:
            BudgetExceeded: the limit does not allow it; nothing is entered.
            InvalidInput: the ledger cannot count a stream's guarantee or unit.
            StateError: the ledger is an old copy that lacks entries; or an entry belongs to another
                copy of this state.
        """
        books.lock(connection)
        known = {row.name: row for row in books.ties(connection)}
        end = self.refuse_forgotten([*known.values()])
        spends = [one for one in books.entries(connection) if one.name not in known]
        if not spends:
            return
        kinds = {one.name: one.kind for one in units.known_in(connection)}
        self._note(end)  # from the first entry on, so that a copy without it is noticed
        with self._database.transaction(write=True) as ledger:
            books.lock(ledger)
            numbers = [self._reserve(ledger, database, one, kinds.get(one.name)) for one in spends]
            end = _end(ledger)
        self._note(end)
        same: dict[str, Any] = {"ledger": self.identity, "address": self._address}
        same |= {"newest": end.number, "chain": end.chain}
        for spend, number in zip(spends, numbers, strict=True):
            own = {"name": spend.name, "number": number, "token": secrets.token_hex(16)}
            connection.insert("counton_shared_ledgers", own | same)

    def join(self, database: Database, name: str) -> SharedEntry | None:
        """Return the entry that an existing stream has in this shared ledger (the record of spent
        privacy loss); None if there is no such stream. If the state has not shared a ledger so far,
        entries for all its streams are made.
        """
        with database.transaction(write=True) as connection:
            self.enter(connection, database)
            if all(row.name != name for row in books.ties(connection)):
                return None
            return self.entry(connection, database, name)

    def entry(self, connection: Connection, database: Database, name: str) -> SharedEntry:
        """Return the entry of a stream in this shared ledger (the record of spent privacy loss).

        The state must have noted the entry before. The newest entry of the ledger is noted in the
        state too, so that an old copy of the ledger is noticed later.
        """
        rows = books.ties(connection)
        end = self.refuse_forgotten(rows)
        connection.run(
            "UPDATE counton_shared_ledgers SET newest = :newest, chain = :chain, address = :address"
            " WHERE newest < :newest OR address <> :address",
            newest=end.number,
            chain=end.chain,
            address=self._address,
        )
        (token,) = [row.token for row in rows if row.name == name]
        return SharedEntry(self, database.identity, database.label, name, token)

    def refuse_forgotten(self, ties: list[Any]) -> _End:
        """Refuse this shared ledger if it lacks entries that were noted elsewhere: in a state, or
        in the ledger's witness, a file beside the ledger that records the last entry. A ledger with
        entries and without its witness is refused too.

        Return the ledger's last entry. ``ties`` are the state's database rows (`ledger_rows.ties`)
        that note its entries in the ledger.

        Raises:
            StateError: the ledger was restored from an old copy, or two copies of it are in use, or
                the state shares another ledger.
        """
        # Read before the ledger, which has every entry that its witness had then.
        marks = self.witness_ends(_ENTRIES, self.identity)
        noted = bool(marks)
        with self._database.transaction(write=False) as connection:
            for tie in ties:
                if tie.ledger != self.identity:
                    raise self._other(tie)
                marks.append(_End(tie.newest, tie.chain))
                marks.append(_End(tie.number, ""))
            end = _end(connection)
            if end.number and self.witness is not None and not noted:
                raise OldCopy(
                    f"ledger {self.label} has entries, but its witness {self.witness}, which "
                    "records the newest entry, is missing, so the ledger is a copy, or was moved "
                    "without its witness: give the ledger itself, or restore its witness, because "
                    f"{_TWO}; nothing was released"
                )
            said = "SELECT chain FROM counton_shared_entries WHERE number = :number"
            for number, known in marks:
                if not number:  # the ledger was empty then
                    continue
                found = connection.first(said, number=number)
                chain = None if found is None else str(found.chain)
                if chain is None or known not in ("", chain):
                    end_words = f"ends at entry {end.number:,}"
                    has = end_words if chain is None else f"has another entry {number:,}"
                    raise OldCopy(
                        f"ledger {self.label} {has}, but entry {number:,} was seen here before, so "
                        "the ledger was restored from an old copy, and the losses that it lacks "
                        "would be spent again: restore its newest copy; nothing was released"
                    )
        return end

    def _reserve(
        self, connection: Connection, database: Database, spend: Spend, kind: str | None
    ) -> int:
        stated = None if spend.unit == ANY_UNIT else spend.unit
        found = connection.first(_ENTRY, state=database.identity, name=spend.name)
        known = known_to(connection, but=None if found is None else found.number)
        spend = spend._replace(unit=units.unit_word(known, kind, stated, spend.unit))
        promised = json.dumps(spend.guarantee.to_dict(), sort_keys=True)
        if found is not None and found.token is not None:
            raise OldCopy(
                f"ledger {self.label} has an entry for stream {spend.name!r} of state "
                f"{database.label}, but the state has no such stream, so the state was restored "
                "from an old copy, or is a copy of another state; restore the newest copy, or give "
                f"another {field('name')}: that stream spends the loss again"
            )
        if found is not None:  # reserved by a process that was killed before it made the stream
            with reading("the ledger"):
                reserved = books.spend_of(found).guarantee
            same = (found.guarantee, found.unit, found.relation, found.party)
            if same != (promised, spend.unit, spend.relation, spend.party):
                of, wants = (
                    "" if party is None else f" for party {party!r}"
                    for party in (found.party, spend.party)
                )
                raise RequestMismatch(
                    f"ledger {self.label} has a reservation of {reserved} for one {found.unit}"
                    f"{of}, for stream {spend.name!r} of state {database.label}, by a run that was "
                    f"interrupted, but this run states {spend.guarantee} for one {spend.unit}"
                    f"{wants}: state what is reserved, or give another {field('name')}; the "
                    "reservation stays counted"
                )
            return int(found.number)
        books.write_terms(connection, self._spend(connection, spend))
        end = _end(connection)
        facts = {
            "number": end.number + 1,
            "state": database.identity,
            "place": database.label,
            "name": spend.name,
            "guarantee": promised,
            "unit": spend.unit,
            "relation": spend.relation,
            "kind": kind,
            "party": spend.party,
            **books.stamp("entered"),
        }
        text = json.dumps([end.chain, facts], sort_keys=True)
        chain = hashlib.sha256(text.encode()).hexdigest()
        own = {"chain": chain, "token": None, "step": 0, "digest": ""}
        connection.insert("counton_shared_entries", facts | own)
        return end.number + 1

    def _spend(self, connection: Connection, spend: Spend) -> Ledger:
        present = self._ledger(connection)
        SharedBook(self.label, present).spend(spend)
        return present

    def _ledger(self, connection: Connection) -> Ledger:
        present = books.ledger(connection)
        if present is None:
            raise InvalidInput(
                f"{field('ledger', self._address)} has no limit, so it would refuse nothing: set "
                f"its limit first (counton ledger), or correct {field('ledger')}"
            )
        return present

    def refuse_as_ledger(self) -> None:
        """Refuse to use a state as the shared ledger (record of spent privacy loss) if it enters
        its own spending into another ledger.
        """
        with self._database.transaction(write=False) as connection:
            ties = books.ties(connection)
        if ties:
            raise InvalidInput(
                f"{field('ledger', self._address)} is itself counted in the ledger "
                f"{ties[0].address}: give that ledger, because {_TWO}"
            )

    def _other(self, tie: Any) -> StateError:
        return RequestMismatch(
            f"stream {tie.name!r} is counted in the ledger {tie.address}, but "
            f"{field('ledger', self._address)} is another ledger: give the first, or leave it out, "
            f"because {_TWO}"
        )

    def witness_ends(self, of: str, name: str) -> list[_End]:
        """Return the steps of a stream that the ledger's witness (a file beside the ledger) has
        recorded, each with a digest.

        ``of`` is the identity of the stream's state. If ``of`` is `_ENTRIES`, the numbers of the
        ledger's last entries are returned in place of steps. A ledger on a server has no witness,
        so the result is empty.
        """
        if self.witness is None:
            return []
        with self._using_witness():
            found = self.witness.read()
        return [
            _End(one["step"], one["digest"])
            for one in found
            if (one["key"], one["stream"]) == (of, name)
        ]

    def _note(self, end: _End) -> None:
        def note(witness: WitnessFile, entry: dict[str, Any]) -> None:
            witness.note(entry, lambda _: True)

        self.write_witness(note, _ENTRIES, self.identity, end.number, end.chain)

    def write_witness(
        self,
        write: Callable[[WitnessFile, dict[str, Any]], None],
        of: str,
        name: str,
        step: int,
        digest: str,
    ) -> None:
        """Write a step of a stream to the witness of the ledger, a file beside it. A ledger on a
        server has no witness; then nothing is done.

        Args:
            write: function that writes an entry to a witness file.
            of: identity of the stream's state; `_ENTRIES` if ``step`` is the number of the ledger's
                last entry.
        """
        if self.witness is None:
            return
        entry = {"key": of, "state": self.label, "stream": name, "step": step, "digest": digest}
        with self._using_witness():
            write(self.witness, entry)

    @contextmanager
    def _using_witness(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it was altered, or written only in part"
            raise StateUnavailable(
                f"the witness {self.witness} of ledger {self.label}, which records the newest "
                f"entry, cannot be read or written ({why}), and without it nobody would notice an "
                "old copy of the ledger: make it readable and writable; nothing was released"
            ) from None

    def row(self, state: str, name: str) -> Any | None:
        """Return the database row of a stream's entry in this shared ledger; None if the stream has
        no entry.

        ``state`` is the identity of the stream's state.
        """
        with self._database.transaction(write=False) as connection:
            return connection.first(_ENTRY, state=state, name=name)

    def names_of(self, state: str) -> frozenset[str]:
        """Return the names of the streams that exist in a state and have an entry in this shared
        ledger, the record of spent privacy loss.

        ``state`` is the identity of the state. An entry without a stream, which an interrupted run
        leaves, is not counted.
        """
        with self._database.transaction(write=False) as connection:
            every = books.of_others(connection)
        return frozenset(one.spend.name for one in every if one.state == state and one.begun)

    def change(self, number: int, change: Callable[[Any], dict[str, Any]]) -> None:
        """Change an entry of this shared ledger in a transaction of its own; an exception undoes
        the change.

        ``change`` returns new values by column, given the entry's row.
        """
        one = "FROM counton_shared_entries WHERE number = :number"
        with self._database.transaction(write=True) as connection:
            locked = "" if connection.is_sqlite else " FOR UPDATE"
            values = change(connection.one(f"SELECT * {one}{locked}", number=number))
            if values:
                written = ", ".join(f"{name} = :{name}" for name in values)
                said = f"UPDATE counton_shared_entries SET {written} WHERE number = :number"
                connection.run(said, **values, number=number)


class SharedEntry:
    """The entry of one stream in a shared ledger, the record of privacy loss spent by several
    states. It also shows whether the stream's state is an old copy.

    Args:
        state: identity of the stream's state.
        token: random text drawn when the stream was made. If the stream was made in two copies of a
            state, their tokens differ.
    """

    def __init__(self, ledger: SharedLedger, state: str, label: str, name: str, token: str) -> None:
        self._ledger, self._state, self._label = ledger, state, label
        self._name, self._token = name, token

    def close(self) -> None:
        """Close the database of the shared ledger that has this entry."""
        self._ledger.close()

    def check(self, step: int, digest: Callable[[int], str | None]) -> None:
        """Claim the stream's entry in the shared ledger (of spent privacy loss) for this copy of
        the state before a release; refuse an old copy.

        ``digest`` returns the digest of a step's release in the state.

        Raises:
            StateError: the entry is missing, or belongs to another copy of the state.
        """
        if (row := self._row()).token is None:
            claim = {"token": self._token}
            self._ledger.change(row.number, lambda now: {} if now.token else claim)
        self.refuse_forgotten(step, digest)

    def refuse_forgotten(self, step: int, digest: Callable[[int], str | None]) -> None:
        """Refuse a state that is an old copy, or whose entry in the shared ledger (of spent privacy
        loss) belongs to another copy of the state.

        Nothing is changed. Called before releases are shown and before rows are accepted. ``step``
        is the state's last step; ``digest`` returns the digest of a step's release in the state.
        """
        row = self._row()
        if row.token is not None:
            self._refuse_other(row)
        if row.step > step:
            raise OldCopy(
                f"stream {self._name!r} is at step {step:,} in state {self._label}, but ledger "
                f"{self._ledger.label} records that step {row.step:,} is released, so the state "
                "was restored from an old copy. Releasing a step again from other data, with equal "
                "noise, would reveal the difference of the data: restore the newest copy"
            )
        if row.step and digest(row.step) != row.digest:
            raise other_release(self._name, self._label, row.step, str(self._ledger))

    def reserve(self, step: int) -> None:
        """Check, before a release is committed, that the shared ledger (of spent privacy loss) can
        record it afterwards.

        The check writes to the ledger, and to the witness file beside it.

        Raises:
            StateError: ledger or witness cannot be written, or the entry belongs to another copy of
                the state.
        """

        def touch(row: Any) -> dict[str, Any]:
            self._refuse_other(row)
            return {"token": self._token}  # written to test that it can be

        self._ledger.change(self._row().number, touch)
        self._ledger.write_witness(WitnessFile.reserve, self._state, self._name, step, "0" * 64)

    def note(self, step: int, digest: str, released: Callable[[int], str | None]) -> None:
        """Record a committed release in the shared ledger (of spent privacy loss), before anybody
        is shown it.

        ``digest`` is the digest of this release; ``released`` returns the digest of an earlier
        step's release in the state.

        Raises:
            StateError: the ledger has recorded another release of a step, so another copy of the
                state is in use.
        """

        def further(row: Any) -> dict[str, Any]:
            self._refuse_other(row)
            known = digest if row.step == step else released(row.step) if row.step else None
            if row.step and known != row.digest:
                raise other_release(self._name, self._label, row.step, str(self._ledger))
            return {} if row.step >= step else {"step": step, "digest": digest}

        def agrees(old: dict[str, Any]) -> bool:
            known = digest if old["step"] == step else released(old["step"]) if old["step"] else ""
            return bool(known == old["digest"])

        def write(witness: WitnessFile, entry: dict[str, Any]) -> None:
            if (other := witness.note(entry, agrees)) is not None:
                raise other_release(self._name, self._label, other, str(self._ledger))

        try:
            self._ledger.change(self._row().number, further)
            self._ledger.write_witness(write, self._state, self._name, step, digest)
        except OldCopy:
            raise
        except (StateError, StreamConflict) as error:
            raise StateUnavailable(
                f"ledger {self._ledger.label} could not record that step {step:,} of stream "
                f"{self._name!r} is released ({error}); the release is kept in the state, but not "
                "shown yet: run the same command again"
            ) from error

    def is_behind(self, step: int) -> bool:
        """Return True if the shared ledger (of spent privacy loss), or the witness file beside it,
        has not recorded this step yet.
        """
        marks = self._ledger.witness_ends(self._state, self._name)
        noted = self._ledger.witness is None or any(mark.number >= step for mark in marks)
        return bool(self._row().step < step) or not noted

    def _row(self) -> Any:
        # Read before the ledger, which knows every step that its witness knew then.
        marks = self._ledger.witness_ends(self._state, self._name)
        row = self._ledger.row(self._state, self._name)
        if row is None:
            raise OldCopy(
                f"ledger {self._ledger.label} has no entry for stream {self._name!r} of state "
                f"{self._label}, though the stream was entered there, so the ledger was restored "
                "from an old copy; restore its newest copy; nothing was released"
            )
        for mark in marks:
            if mark.number > row.step or (mark.number == row.step and mark.chain != row.digest):
                raise OldCopy(
                    f"ledger {self._ledger.label} has step {row.step:,} of stream {self._name!r} "
                    f"of state {self._label}, but its witness records step {mark.number:,}, so the "
                    "ledger was restored from an old copy: restore its newest copy; nothing was "
                    "released"
                )
        return row

    def _refuse_other(self, row: Any) -> None:
        if row.token != self._token:
            raise OldCopy(
                f"the entry for stream {self._name!r} in ledger {self._ledger.label} belongs to "
                f"another copy of state {self._label}, which began a stream of this name: go on "
                f"with that copy, or give another {field('name')}: that stream spends the loss "
                "again"
            )


@contextmanager
def entry_in(connection: Connection, database: Database, name: str) -> Iterator[SharedEntry | None]:
    """Yield a stream's entry in the ledger (record of spent privacy loss) that its state shares
    with other states; None if it shares none.

    The state is not changed.
    """
    rows = books.ties(connection)
    tie = next((row for row in rows if row.name == name), None)
    if tie is None:
        yield None
        return
    with SharedLedger(given_address(tie.address)) as found:
        found.refuse_forgotten(rows)
        yield SharedEntry(found, database.identity, database.label, name, tie.token)


def names_in_ledger(connection: Connection, database: Database) -> frozenset[str]:
    """Return the names of all streams ever made in a state, according to the ledger (of spent
    privacy loss) that the state shares with other states; empty if it shares none.

    A state that was restored from an old copy may lack some of these streams.
    """
    ties = books.ties(connection)
    if not ties:
        return frozenset()
    with SharedLedger(given_address(ties[0].address)) as found:
        return found.names_of(database.identity)


def ledger_of(database: Database | None, given: Place | None) -> SharedLedger | None:
    """Return the ledger (record of spent privacy loss) that a state shares with other states, from
    the address ``given`` or from the address in the state.

    Returns:
        The open ledger; None if the state shares no ledger, or is itself the ledger at ``given``.

    Raises:
        StateError: the ledger cannot be used, or the state already shares another ledger.
        InvalidInput: the given database cannot be the ledger of this state.
    """
    tie, serves = None, False
    if database is not None:
        with database.transaction(write=False) as connection:
            tie = next(iter(books.ties(connection)), None)
            serves = tie is None and bool(books.of_others(connection))
    if given is None:
        if tie is None:
            return None
        given = given_address(tie.address)
    shared = SharedLedger(given)
    try:
        if database is not None and shared.identity == database.identity and tie is None:
            shared.close()
            return None
        if tie is not None and tie.ledger != shared.identity:
            raise shared._other(tie)
        if tie is None and serves:
            raise InvalidInput(
                f"{field('ledger', kept_address(given))} cannot count this state, because this "
                f"state is itself the ledger of other states: leave {field('ledger')} out, because "
                f"{_TWO}"
            )
        shared.refuse_as_ledger()
    except BaseException:
        shared.close()
        raise
    return shared


def ledger_files(place: Place) -> list[Path]:
    """List the files of a shared ledger (of spent privacy loss) and of its witness, which records
    its last entry; empty for a ledger on a server.

    >>> [path.name for path in ledger_files("team.db")][-1]
    'team.db.witness'
    """
    file = state_file(place)
    return [] if file is None else [*files_of(file), Path(f"{file}.witness")]


def totals_of(database: Database) -> Mapping[str, tuple[Relation, Limit | None]]:
    """Return the total loss for each kind of protected unit, over all states that share this
    state's ledger, the record of spent privacy loss.

    Without a shared ledger these are the totals of the state alone.
    """
    found = ledger_of(database, None)
    with nullcontext() if found is None else found:
        book = database if found is None else found._database
        with book.transaction(write=False) as connection:
            return books.totals(connection)


def known_units(database: Database | None, given: Place | None) -> list[units.SpentUnit]:
    """Return the protected units in the ledger (of spent privacy loss) that a state shares with
    other states, as the ledger names them.

    The ledger is found at the address ``given``, or at the address in the state. Without a ledger
    the result is empty.
    """
    found = ledger_of(database, given)
    if found is None:
        return []
    with found:
        return found.known_units()


def known_to(connection: Connection, *, but: int | None = None) -> list[units.SpentUnit]:
    """Return the protected units of a database's own streams, and of ledger entries (spent privacy
    loss) that other states made.

    Units have the names that this database uses for them.

    Args:
        but: number of a ledger entry to leave out; None: leave out none.
    """
    found = units.known_in(connection)
    rows = connection.rows("SELECT * FROM counton_shared_entries ORDER BY number")
    found += [units.SpentUnit(row.name, row.unit, row.kind) for row in rows if row.number != but]
    return found


_ENTRY = "SELECT * FROM counton_shared_entries WHERE state = :state AND name = :name"


def _end(connection: Connection) -> _End:
    said = "SELECT number, chain FROM counton_shared_entries ORDER BY number DESC LIMIT 1"
    last = connection.first(said)
    return _End(0, "") if last is None else _End(last.number, last.chain)
