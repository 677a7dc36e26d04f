"""The journal of tables: what was released at one go, committed before anybody sees it.

A row holds the terms, a keyed digest of the input, the exact strategy and the released integers;
the ledger has its entry in the same transaction. Asked again, the row answers: without planning,
which might find another matrix on another machine, and without noise.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from counton.errors import InvalidInput, ReplayMismatch, StateError, WrongKey
from counton.mechanisms.tables import R, TableDraft
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy.contribution import ANY_UNIT, Contribution
from counton.store import creation, keyfile, ledger, records, schema, units
from counton.store.database import Database, reading
from counton.store.sqlite_file import NoState

State = str | os.PathLike[str]


class _Entered(Exception):
    """Another process has entered a release of this name in the meantime."""


class _Named(Exception):
    """Another process has said in the meantime what a unit is called."""


def released(draft: TableDraft[R], state: State, key: keyfile.Kept) -> R:
    """A draft's release by the journal of a state: the one it knows, or a new one, entered.

    Args:
        draft: what is to be released.
        state: path or database URL.
        key: the key, or where it is kept; a file is made if missing; ``STATE.key`` unless given.

    Raises:
        ReplayMismatch: the state has released other data, or on other terms, under this name; or
            the witness says so of a state that was restored from an old copy.
        StateError: the name is that of a stream, or the state cannot be used.
        BudgetExceeded: the guarantee goes beyond the limit; nothing is released.
        InvalidInput: it is not clear by which kind of unit it counts (`units.inherited`).
        WrongKey: the key is not the one of the release, or its file cannot be used.
    """
    records.check_length(draft.name)
    answer = _answer(draft, state, key)
    if answer is not None:
        return answer
    draft.prepare()  # takes time, and may be refused: before there is a key, and without a lock
    try:
        with creation.for_creation(state, key, draft.name) as held:
            return _enter(draft, state, held, key)
    except _Named:
        return released(draft, state, key)
    except _Entered:
        answer = _answer(draft, state, key)
        if answer is None:
            raise StateError(
                f"another process released {draft.name!r} and the state was then replaced: put the "
                f"state back, then try again"
            ) from None
        return answer


def _answer(draft: TableDraft[R], state: State, key: keyfile.Kept) -> R | None:
    """What the journal says; None if it knows no release of this name."""
    try:
        database = Database(state)
    except NoState:
        return None
    try:
        with database.transaction(write=False) as connection:
            row = find(connection, draft.name)
            if row is None:
                records.refuse_stream(connection, database, draft.name)
                draft.call_unit(_unit(connection, draft.contribution))
                return None
        held = keyfile.held(database, row.key_fingerprint, row.key_salt, key)
        if held.fingerprint != row.key_fingerprint:
            raise WrongKey(
                f"{draft.name!r} was released with the key {row.key_fingerprint}, this is the key "
                f"{held.fingerprint}: give the key file that was saved with it"
            )
        shown = _shown(draft, database, row, held)
        # Noted again, where a process was killed between its commit and the note.
        digest = bytes(row.input_digest).hex()
        witness = keyfile.witness_beside(database, key)
        witness.note(row.key_fingerprint, keyfile.noise_name(row.name, row.terms), 1, digest)
        return shown
    finally:
        database.close()


def _shown(draft: TableDraft[R], database: Database, row: Row[Any], key: Key) -> R:
    """The release of a row, if the draft asks for it."""
    with reading(f"the release {draft.name!r}"):
        terms = TableTerms.from_dict(json.loads(row.terms))
        asked = dict(json.loads(row.asked))
        fit = dict(asked.pop("fit", {}))
        digest = bytes(row.input_digest)
    if draft.contribution.unit == ANY_UNIT:
        draft.call_unit(terms.contribution.unit)
    other = draft.differences(terms, asked)
    if other:
        raise ReplayMismatch(
            f"state {database.label} has released {draft.name!r} before, on other terms "
            f"({', '.join(other)}): ask for the same as then, or choose another name, which spends "
            f"the guarantee again"
        )
    refuse_other_fit(draft.name, fit, draft.fit)
    draft.fit = draft.fit or fit
    present = draft.input_digest(key)
    if not hmac.compare_digest(bytes.fromhex(present), digest):
        raise ReplayMismatch(
            f"state {database.label} has released {draft.name!r} before, from other data; the same "
            f"noise on both would give the difference away: give the data it was released from, or "
            f"choose another name, which spends the guarantee again"
        )
    with reading(f"the release {draft.name!r}"):
        strategy, values = json.loads(row.strategy), json.loads(row.released)
        try:
            return draft.shown(terms, strategy, values, present)
        except InvalidInput as error:
            raise StateError(
                f"the release {draft.name!r} cannot be read ({error}): restore the state from a "
                f"copy, or pass a strategy of your own as it was"
            ) from error


def refuse_other_fit(name: str, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse to show a table with other numbers than it has been shown with.

    Args:
        name: of the release.
        kept: how its numbers were made to fit; empty if not at all.
        asked: how they are to be made to fit now; empty if nobody says.

    Raises:
        ReplayMismatch: another way than before.
    """
    if kept and asked and kept != asked:
        raise ReplayMismatch(
            f"the numbers of {name!r} were made to fit in another way ({', '.join(sorted(kept))}), "
            f"and one table has one number a cell; leave the options of the fit out, or state them "
            f"as they were"
        )


def _enter(draft: TableDraft[R], state: State, key: Key, kept: keyfile.Kept) -> R:
    release = draft.release(key)
    # Other terms have other noise; the same under the same key is for the same data only.
    terms = records.to_json(release.terms.to_dict(), "terms")
    noise = keyfile.noise_name(draft.name, terms)
    row = {
        "name": draft.name,
        "kind": draft.kind,
        "terms": terms,
        "asked": records.to_json({**draft.asked, "fit": draft.fit}, "terms"),
        "key_fingerprint": key.fingerprint,
        "key_salt": key.salt,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "input_digest": bytes.fromhex(release.input_digest),
        "strategy": records.to_json(release.saved_strategy(), "strategy"),
        "released": records.to_json(release.saved_values(), "values"),
    }
    database = Database(state, create=True)
    try:
        witness = keyfile.witness_beside(database, kept)
        with database.transaction(write=True) as connection:
            ledger.lock(connection)
            creation.refuse_forgotten(connection, database, witness, key)
            if find(connection, draft.name) is not None:
                raise _Entered
            records.refuse_stream(connection, database, draft.name)
            if _unit(connection, release.contribution) != release.contribution.unit:
                raise _Named
            ledger.enter(connection, draft.name, release.guarantee, release.contribution)
            witness.reserve(key.fingerprint, noise, 1)
            connection.execute(schema.tables.insert().values(**row))
        witness.note(key.fingerprint, noise, 1, release.input_digest)
    finally:
        database.close()
    return release


def _unit(connection: Connection, contribution: Contribution) -> str:
    """What a table's unit is called in its state."""
    stated = None if contribution.unit == ANY_UNIT else contribution.unit
    return units.inherited(units.known_in(connection), None, stated)


def find(connection: Connection, name: str) -> Row[Any] | None:
    """The row of a table, or None."""
    return connection.execute(
        sa.select(schema.tables).where(schema.tables.c.name == name)
    ).one_or_none()
