"""The database row of a stream: how it is made, gets its writer, and rebuilds its counter.

Its public facts are a JSON text, and group names in compressed blocks beside it. The text holds a
digest of the blocks, so a digest of the text also protects the names.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from counton.base.arrays import IntegersOrFloats
from counton.base.errors import InvalidInputError, NoiseKeyError, StateError, StreamMismatchError
from counton.base.exact import quote
from counton.continual import Counter, Design
from counton.continual.checkpoint import read_checkpoint
from counton.continual.design import check_name
from counton.noise import Key
from counton.privacy import LedgerEntry
from counton.privacy.contribution import ANY_UNIT
from counton.state import journal, ledger_rows, schema
from counton.state.authenticated_rows import AuthenticatedContents
from counton.state.database import Database, reading
from counton.state.public_rows import (
    OpenRow,
    PublicRow,
    StreamRow,
    check_row,
    checksum_of,
    public_row,
)
from counton.state.sql import Connection, MissingRowError
from counton.strategies import StreamStrategy
from counton.windowing.groups import GroupNames, digest_of

#: Key in the JSON text under which the facts whose values are lists of group names stand.
_NAMES = "names of groups"
#: Lists of group names that are in memory now, by the digest of their stored blocks.
_HELD: WeakValueDictionary[str, GroupNames] = WeakValueDictionary()


class PublicFacts(NamedTuple):
    """Public facts as stored: JSON (equal for equal facts), and lists of group names by fact."""

    text: str
    names: Mapping[str, GroupNames]

    @classmethod
    def from_values(cls, public_facts: Mapping[str, object]) -> PublicFacts:
        """Split public facts into a JSON text and the lists of group names."""
        if _NAMES in public_facts:
            raise InvalidInputError(
                f"public_facts have the key {_NAMES!r}, which the state uses itself: give it "
                "another name"
            )
        names = {
            name: value for name, value in public_facts.items() if isinstance(value, GroupNames)
        }
        json_values = {name: value for name, value in public_facts.items() if name not in names}
        if names:
            json_values[_NAMES] = {
                name: {"count": len(value), "digest": value.digest} for name, value in names.items()
            }
        try:
            return cls(json.dumps(json_values, sort_keys=True, allow_nan=False), names)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"public_facts must consist of JSON values ({error}): convert them"
            ) from None

    def values(self) -> dict[str, object]:
        """Return the public facts from which this object was made."""
        json_values: dict[str, object] = json.loads(self.text)
        json_values.pop(_NAMES, None)
        return {**json_values, **self.names}

    def write(self, connection: Connection, stream_id: int, before: str = "{}") -> None:
        """Write the group names that differ from those of ``before``, the former JSON text."""
        summaries_before = json.loads(before).get(_NAMES, {})
        for fact, names in self.names.items():
            if summaries_before.get(fact, {}).get("digest") == names.digest:
                continue
            connection.execute(f"DELETE {_FROM_NAMES_OF_FACT}", stream=stream_id, fact=fact)
            for part, block in enumerate(names.blocks()):
                row = {"stream_id": stream_id, "fact": fact, "part": part, "names": block}
                connection.insert("counton_names", row)


_FROM_NAMES_OF_FACT = "FROM counton_names WHERE stream_id = :stream AND fact = :fact"


def read_public_facts(connection: Connection, stream_id: int, text: str) -> dict[str, object]:
    """Return a stream's public facts from the JSON text and the stored names."""
    public_facts: dict[str, Any] = json.loads(text)
    for fact, summary in public_facts.pop(_NAMES, {}).items():
        names = _HELD.get(summary["digest"])
        if names is None:
            names = _read_names(connection, stream_id, fact, summary)
            _HELD[names.digest] = names
        public_facts[fact] = names
    return public_facts


def _read_names(
    connection: Connection, stream_id: int, fact: str, summary: Mapping[str, object]
) -> GroupNames:
    """Return the stored names of a public fact; refuse others than the stream was created with."""
    with reading("the names of groups"):
        names = GroupNames.from_blocks(_blocks(connection, stream_id, fact, summary))
        if len(names) != summary["count"]:
            raise ValueError(f"{len(names):,} names are stored instead of {summary['count']:,}")
    return names


def _blocks(
    connection: Connection, stream_id: int, fact: str, summary: Mapping[str, object]
) -> list[bytes]:
    every = f"SELECT names {_FROM_NAMES_OF_FACT} ORDER BY part"
    rows = connection.rows(every, stream=stream_id, fact=fact)
    blocks = [bytes(row.names) for row in rows]
    if digest_of(blocks) != summary["digest"]:
        raise StateError(
            f"the names of {summary['count']:,} groups are not those that the stream was created "
            "with: the state was altered; restore it from a copy"
        )
    return blocks


def find(connection: Connection, name: str) -> StreamRow:
    """Return the database row of an existing stream, including its secret columns."""
    row: StreamRow | None = connection.first(
        "SELECT * FROM counton_streams WHERE name = :name", name=name
    )
    if row is None:
        raise MissingRowError("a row is missing")
    return check_row(row)


def names(connection: Connection) -> list[str]:
    """Return the names of all streams of a state, sorted."""
    return sorted(row.name for row in connection.rows("SELECT name FROM counton_streams"))


def no_such_stream(connection: Connection, database: Database, name: str) -> StreamMismatchError:
    """Build the error for a name that no stream has."""
    return StreamMismatchError(
        f"state {database.label} has no stream {name!r}; it has "
        f"{', '.join(map(repr, names(connection))) or 'none'}: correct the name, or give the state "
        f"of that stream"
    )


def check_length(name: str) -> None:
    """Refuse a stream's name that is invalid or too long."""
    check_name(name)
    if len(name) > schema.LONGEST_NAME:
        raise InvalidInputError(
            f"name has {len(name)} characters; it may have at most {schema.LONGEST_NAME}: choose a "
            f"shorter one"
        )


def refuse_existing_stream(connection: Connection, database: Database, name: str) -> None:
    """Refuse the name of a stream that the state has.

    Raises:
        StreamMismatchError: the stream exists.
    """
    if public_row(connection, name) is not None:
        raise StreamMismatchError(
            f"state {database.label} has a stream {name!r} already: continue it (run the same "
            f"command again, or Stream.open), or choose another name"
        )


def insert_stream(
    connection: Connection,
    database: Database,
    counter: Counter,
    key: Key,
    public_facts: PublicFacts,
) -> StreamRow:
    """Create a stream's database row, and enter its guarantee in the ledger, the record of spent
    privacy loss.

    Args:
        connection: a transaction that holds the lock of the ledger.
        database: the state, which has no stream of this name.
        counter: the counter, whose design has the ledger's name of its unit (`with_unit`).
        key: the key of the stream.
        public_facts: what anybody may know of the stream.

    Raises:
        BudgetExceededError: the guarantee goes beyond the limit.
    """
    design = counter.design
    name = design.name
    options = ledger_rows.defining_options_in(json.loads(public_facts.text))
    window = (design.statistic or {}).get("window")
    unit = ledger_rows.unit_name_in_ledger(design.contribution.unit, options, window)
    spend = LedgerEntry(name, design.guarantee, unit, design.contribution.relation)
    ledger_rows.record_spend(connection, spend)
    # `state/schema.py` says what the columns hold: the terms are the design, the details are the
    # public facts.
    stored = {
        "name": name,
        "terms": design.text,
        "details": public_facts.text,
        "key_fingerprint": key.fingerprint,
        "key_salt": key.salt,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "step": 0,
        "writer_epoch": 1,
        "checkpoint": counter.checkpoint(),
        "forgotten": 0,
        "arrived": 0,
        "late": 0,
    }
    stored["checksum"] = checksum_of(stored)
    stored["seal"] = mac_of(key, database.identity, stored, AuthenticatedContents.empty(0))
    connection.insert("counton_streams", stored)
    row = find(connection, name)
    public_facts.write(connection, row.id)
    return row


def with_unit(
    spent_units: Iterable[ledger_rows.SpentUnit], design: Design, options: Mapping[str, object]
) -> Design:
    """Return a new stream's design with the ledger's name of its protected unit.

    Raises:
        InvalidInputError: the kind of protected unit is unclear.
    """
    contribution_unit = default = design.contribution.unit
    stated_unit = None if contribution_unit == ANY_UNIT else contribution_unit
    if design.statistic is not None:
        from counton.statistics.live_statistic import statistic_of

        statistic, batched = statistic_of(design.statistic)
        default = statistic.contribution(batched=batched).unit
        if contribution_unit == default and "unit" not in statistic.parameters:
            stated_unit = None
    unit = ledger_rows.unit_word(
        spent_units, ledger_rows.protected_kind(design.statistic, options), stated_unit, default
    )
    return replace(design, contribution=replace(design.contribution, unit=unit))


def mac_of(
    key: Key, identity: str, row: Mapping[str, Any], contents: AuthenticatedContents
) -> bytes:
    """Return one keyed digest (HMAC) of a stream's row, and of all rows that decide what counts.

    It shows whether somebody without the key changed them. The public facts decide which column is
    the group, where windows begin, and how many events of a user count. Without the records of
    users, ids, files and windows, rows could count twice. The sums in the checkpoint are in every
    later release.

    The digest does not cover the end of a stream, the words of its withdrawal and the notes of its
    windows, because these can be changed without its key.

    Args:
        key: the key of the stream.
        identity: the identity of the state, by which its rollback guard is found.
        row: the stream's database row, by column.
        contents: the rows of the stream in other tables.
    """
    # The first line of a checkpoint has the checksum of the rest, which is checked when it is read.
    checkpoint = bytes(row["checkpoint"]).split(b"\n", 1)[0]
    covered = [
        identity,
        *(row[column] for column in ("name", "terms", "key_salt", "step", "forgotten")),
        *(row[column] for column in ("arrived", "late")),
        _public_digest(row["details"]),
        checkpoint.hex(),
        *contents.roots,
    ]
    subkey = key.derive(b"seal", row["name"].encode())
    return hmac.digest(subkey, json.dumps(covered).encode(), "sha256")


@lru_cache(maxsize=1)  # facts are slow to digest, and rarely change
def _public_digest(details: str) -> str:
    public = json.loads(details)
    public.pop("ended", None)
    public.pop("withdrawn", None)
    public.pop("marks", None)
    return hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()


def check_mac(
    connection: Connection, identity: str, row: OpenRow, key: Key
) -> AuthenticatedContents:
    """Refuse a stream whose public facts, sums, or records of users, ids, windows and files were
    changed without the key; return the lists of these records.

    The records themselves are checked when they are read.
    """
    with reading(f"the public facts of stream {row.name!r}"):
        contents = AuthenticatedContents.read_lists(connection, row.id, bytes(row.seal))
        right = mac_of(key, identity, row._asdict(), contents)
        for fact, summary in json.loads(row.details).get(_NAMES, {}).items():
            _blocks(connection, row.id, fact, summary)  # refuses names that were altered
    if not hmac.compare_digest(right, contents.mac):
        raise StateError(
            f"stream {row.name!r} is not what was written under its key (its public facts, its "
            "sums, or the records of counted users, ids, windows and files): the state was "
            "altered; restore it from a copy"
        )
    return contents


def check_text_name(name: object) -> None:
    """Refuse a value that cannot be the name of a stream."""
    if not isinstance(name, str):
        raise InvalidInputError(f"name is {quote(name)}; give the name of the stream, a text")


#: SQL statement that makes this process the writer of a stream.
TAKE_OVER_SQL = (
    "UPDATE counton_streams SET writer_epoch = writer_epoch + :further WHERE name = :name"
)


def release_digest(key: Key, name: str, step: int, value: IntegersOrFloats) -> str:
    """Return a keyed digest (HMAC-SHA256) of the values released at a step, for the rollback guard,
    the record of releases outside the state.

    ``name`` is the name of the stream, and ``value`` has one number per cell. The digest has a key
    because some cells are never shown, such as those of undeclared groups. Without a key, one could
    find their values by trying, and learn how many such cells there are.

    >>> released = "visits", 3, np.array([12])
    >>> one, other = (release_digest(Key.generate(), *released) for _ in range(2))
    >>> len(one), one == other
    (64, False)
    """
    data = np.ascontiguousarray(value)
    plain = data.astype(data.dtype.newbyteorder("<"), copy=False)
    subkey = key.derive(b"witness", name.encode())
    digest = hmac.new(subkey, step.to_bytes(8, "little"), "sha256")
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_digest(connection: Connection, row: PublicRow, key: Key) -> None:
    """Refuse a stream whose last journal entry does not match the digest in its row."""
    if not row.step:
        return
    digest = None
    with suppress(StateError):  # the reading of that step raises it again
        saved_design = json.loads(row.terms)
        released = journal.read(connection, row.id, row.step, row.step + 1, saved_design)
        digest = release_digest(key, row.name, row.step, released.values[0])
    if digest not in (None, journal.digest_at(connection, row.id, row.step)):
        raise StateError(
            f"step {row.step:,} of stream {row.name!r} is not the release that was written under "
            "its key: the state was altered; restore it from a copy"
        )


def check_key_of(row: PublicRow, key: Key) -> None:
    """Refuse a key whose fingerprint is not the stream's."""
    if row.key_fingerprint != key.fingerprint:
        raise NoiseKeyError(
            f"stream {row.name!r} was created with the key {row.key_fingerprint}, but the given "
            f"key is {key.fingerprint}: give the key file that was saved with the stream"
        )


def load_counter(row: StreamRow, key: Key, strategy: StreamStrategy | None) -> Counter:
    """Rebuild a stream's counter at its last step; ``strategy`` only if not part of counton."""
    with reading(f"the checkpoint of stream {row.name!r}"):
        state = read_checkpoint(bytes(row.checkpoint))
        saved_design = json.loads(row.terms)
        counter = Counter.resume_from(state, key, strategy)
    if state.step != row.step or state.design != saved_design:
        raise StateError(
            f"the checkpoint of stream {row.name!r} is of step {state.step}, but the stream is "
            f"at step {row.step}: the state was altered; restore it from a copy"
        )
    return counter
