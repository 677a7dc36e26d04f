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
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, RequestMismatch, StateError, WrongKey
from counton.base.exact import quote
from counton.frame.groups import GroupNames, digest_of
from counton.noise import Key
from counton.numbers import Counter, Design
from counton.numbers.counter_state import read_checkpoint
from counton.numbers.design import check_name
from counton.privacy import Spend
from counton.privacy.contribution import ANY_UNIT
from counton.state import journal, schema
from counton.state import ledger_rows as ledger
from counton.state.database import Database, reading
from counton.state.sql import Connection, MissingRow
from counton.strategies import StreamStrategy

#: Key in the JSON text under which the facts whose values are lists of group names stand.
_NAMES = "names of groups"
#: Lists of group names that are in memory now, by the digest of their stored blocks.
_HELD: WeakValueDictionary[str, GroupNames] = WeakValueDictionary()


class Facts(NamedTuple):
    """Public facts as stored: JSON (equal for equal facts), and lists of group names by fact."""

    text: str
    names: Mapping[str, GroupNames]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Facts:
        """Split public facts into a JSON text and the lists of group names."""
        if _NAMES in facts:
            raise InvalidInput(
                f"details have the key {_NAMES!r}, which the state uses itself: give it another "
                "name"
            )
        names = {name: value for name, value in facts.items() if isinstance(value, GroupNames)}
        kept = {name: value for name, value in facts.items() if name not in names}
        if names:
            kept[_NAMES] = {
                name: {"count": len(value), "digest": value.digest} for name, value in names.items()
            }
        try:
            return cls(json.dumps(kept, sort_keys=True, allow_nan=False), names)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"details must consist of JSON values ({error}): convert them"
            ) from None

    def values(self) -> dict[str, Any]:
        """Return the public facts from which this object was made."""
        kept: dict[str, Any] = json.loads(self.text)
        kept.pop(_NAMES, None)
        return {**kept, **self.names}

    def write(self, connection: Connection, stream_id: int, before: str = "{}") -> None:
        """Write the group names that differ from those of ``before``, the former JSON text."""
        kept = json.loads(before).get(_NAMES, {})
        for fact, names in self.names.items():
            if kept.get(fact, {}).get("digest") == names.digest:
                continue
            connection.execute(f"DELETE {_OF_FACT}", stream=stream_id, fact=fact)
            for part, block in enumerate(names.blocks()):
                row = {"stream_id": stream_id, "fact": fact, "part": part, "names": block}
                connection.insert("counton_names", row)


_OF_FACT = "FROM counton_names WHERE stream_id = :stream AND fact = :fact"


def read_facts(connection: Connection, stream_id: int, text: str) -> dict[str, Any]:
    """Return a stream's public facts from the JSON text and the stored names."""
    facts: dict[str, Any] = json.loads(text)
    for fact, said in facts.pop(_NAMES, {}).items():
        names = _HELD.get(said["digest"])
        if names is None:
            with reading("the names of groups"):
                names = GroupNames.from_blocks(_blocks(connection, stream_id, fact, said))
                if len(names) != said["count"]:
                    raise ValueError(
                        f"{len(names):,} names are stored instead of {said['count']:,}"
                    )
            _HELD[names.digest] = names
        facts[fact] = names
    return facts


def _blocks(
    connection: Connection, stream_id: int, fact: str, said: Mapping[str, Any]
) -> list[bytes]:
    every = f"SELECT names {_OF_FACT} ORDER BY part"
    rows = connection.rows(every, stream=stream_id, fact=fact)
    blocks = [bytes(row.names) for row in rows]
    if digest_of(blocks) != said["digest"]:
        raise StateError(
            f"the names of {said['count']:,} groups are not those that the stream was created "
            "with: the state was altered; restore it from a copy"
        )
    return blocks


#: Public columns of a stream's row: a reader of releases may have no right to see the sums.
PUBLIC = (
    "SELECT id, name, terms, details, key_fingerprint, key_salt, created, step, writer_epoch,"
    " forgotten FROM counton_streams"
)


def find(connection: Connection, name: str) -> Any:
    """Return the database row of an existing stream, including its secret columns."""
    row = connection.first("SELECT * FROM counton_streams WHERE name = :name", name=name)
    if row is None:
        raise MissingRow("a row is missing")
    return row


def public_row(connection: Connection, name: str) -> Any:
    """Return a stream's row without secret columns; None if there is no such stream."""
    return connection.first(f"{PUBLIC} WHERE name = :name", name=name)


def names(connection: Connection) -> list[str]:
    """Return the names of all streams of a state, sorted."""
    return sorted(row.name for row in connection.rows("SELECT name FROM counton_streams"))


def no_such_stream(connection: Connection, database: Database, name: str) -> RequestMismatch:
    """Build the error for a name that no stream has."""
    return RequestMismatch(
        f"state {database.label} has no stream {name!r}; it has "
        f"{', '.join(map(repr, names(connection))) or 'none'}: correct the name, or give the state "
        f"of that stream"
    )


def check_length(name: str) -> None:
    """Refuse a stream's name that is invalid or too long."""
    check_name(name)
    if len(name) > schema.LONGEST_NAME:
        raise InvalidInput(
            f"name has {len(name)} characters; it may have at most {schema.LONGEST_NAME}: choose a "
            f"shorter one"
        )


def enter(
    connection: Connection,
    database: Database,
    counter: Counter,
    key: Key,
    details: Facts,
) -> Any:
    """Create a stream's database row, and enter its guarantee in the ledger, the record of spent
    privacy loss.

    Raises:
        StateError: the stream exists.
        BudgetExceeded: the guarantee goes beyond the limit.
        InvalidInput: the kind of protected unit is unclear.
    """
    name = counter.design.name
    ledger.lock(connection)
    if public_row(connection, name) is not None:
        raise RequestMismatch(
            f"state {database.label} has a stream {name!r} already: continue it (run the same "
            f"command again, or Stream.open), or choose another name"
        )
    # This precedes the first release, and no noise depends on the name of a unit.
    record = ledger.record_in(json.loads(details.text))
    counter.design = with_unit(ledger.known_in(connection), counter.design, record)
    terms = counter.design
    window = (terms.statistic or {}).get("window")
    unit = ledger.by_its_clock(terms.contribution.unit, record, window)
    spend = Spend(name, terms.guarantee, unit, terms.contribution.relation)
    ledger.enter(connection, spend)
    connection.insert(
        "counton_streams",
        {
            "name": name,
            "terms": terms.text,
            "details": details.text,
            "key_fingerprint": key.fingerprint,
            "key_salt": key.salt,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "step": 0,
            "writer_epoch": 1,
            "checkpoint": counter.checkpoint(),
            "seal": seal_of(key, name, 0, details.text, _NO_MEMORY),
            "forgotten": 0,
            "arrived": 0,
            "late": 0,
        },
    )
    row: Any = find(connection, name)
    details.write(connection, row.id)
    return row


def with_unit(
    known: Iterable[ledger.SpentUnit], terms: Design, record: Mapping[str, Any]
) -> Design:
    """Return a new stream's design with the ledger's name of its protected unit."""
    given = default = terms.contribution.unit
    stated = None if given == ANY_UNIT else given
    if terms.statistic is not None:
        from counton.statistics.live_statistic import statistic_of

        statistic, batched = statistic_of(terms.statistic)
        default = statistic.contribution(batched=batched).unit
        if given == default and "unit" not in statistic.parameters:
            stated = None
    unit = ledger.unit_word(known, ledger.kind_of(terms.statistic, record), stated, default)
    return replace(terms, contribution=replace(terms.contribution, unit=unit))


def seal_of(key: Key, name: str, step: int, details: str, remembered: str) -> bytes:
    """Return one keyed digest (HMAC) of a stream's last step, public facts and `memory_digest`.

    It shows whether somebody without the key changed the facts, or deleted the record of counted
    users, ids and files. The facts decide which column is the group, where windows begin, and how
    many events of a user count. Without the record, users, ids or files could count twice. The
    digest does not cover the end of a stream and the words of its withdrawal, because a stream can
    be ended without its key.
    """
    text = json.dumps([step, _public_digest(details), remembered])
    return hmac.digest(key.derive(b"seal", name.encode()), text.encode(), "sha256")


def write_seal(connection: Connection, row: Any, key: Key, step: int, details: str) -> str:
    """Write a stream's seal as the last act of a transaction; return its `memory_digest`."""
    remembered = memory_digest(connection, row.id)
    sealed = seal_of(key, row.name, step, details, remembered)
    said = "UPDATE counton_streams SET seal = :sealed WHERE id = :stream"
    connection.execute(said, stream=row.id, sealed=sealed)
    return remembered


@lru_cache(maxsize=1)  # facts are slow to digest, and rarely change
def _public_digest(details: str) -> str:
    public = json.loads(details)
    public.pop("ended", None)
    public.pop("withdrawn", None)
    public.pop("marks", None)
    return hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()


def memory_digest(connection: Connection, stream_id: int) -> str:
    """Return one digest of the sizes of the sets of users and ids, and the number of files."""
    sizes = connection.rows(
        "SELECT kind, period, part, length(marks) FROM counton_marks"
        " WHERE stream_id = :stream AND kind <> 'exact'",
        stream=stream_id,
    )
    files = "SELECT count(*) FROM counton_sources WHERE stream_id = :stream"
    counted = connection.value(files, stream=stream_id)
    return json.dumps([sorted([*size] for size in sizes), counted])


#: The `memory_digest` of a new stream.
_NO_MEMORY = json.dumps([[], 0])


def check_seal(connection: Connection, row: Any, key: Key) -> None:
    """Refuse public facts, records of users, ids and files, or labels changed without the key."""
    with reading(f"the details of stream {row.name!r}"):
        known = memory_digest(connection, row.id)
        right = seal_of(key, row.name, row.step, row.details, known)
        for fact, said in json.loads(row.details).get(_NAMES, {}).items():
            _blocks(connection, row.id, fact, said)  # refuses names that were altered
    if not hmac.compare_digest(right, bytes(row.seal)):
        raise StateError(
            f"the public facts of stream {row.name!r} (groups and their order, first window, "
            "bounds), or its numbers of counted users, ids or files, are not those that were "
            "written under its key: the state was altered; restore it from a copy"
        )
    if '"labels"' in known:  # a kind of memory; few streams have it
        from counton.state import seen

        cell = seen.first_altered(connection, row.id, key, row.name)
        if cell is not None:
            raise StateError(
                f"the names of groups that stream {row.name!r} has found, from number {cell} on, "
                "are not those that were written under its key: the state was altered; restore it "
                "from a copy"
            )


def check_text_name(name: object) -> None:
    """Refuse a value that cannot be the name of a stream."""
    if not isinstance(name, str):
        raise InvalidInput(f"name is {quote(name)}; give the name of the stream, a text")


#: SQL statement that makes this process the writer of a stream.
TAKE = "UPDATE counton_streams SET writer_epoch = writer_epoch + :further WHERE name = :name"


def release_digest(key: Key, name: str, step: int, value: NDArray[Any]) -> str:
    """Return a keyed digest (HMAC-SHA256) of the values released at a step, for the witness, the
    record of releases outside the state.

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


def check_digest(connection: Connection, row: Any, key: Key) -> None:
    """Refuse a stream whose last journal entry does not match the digest in its row."""
    if not row.step:
        return
    digest = None
    with suppress(StateError):  # the reading of that step raises it again
        terms = json.loads(row.terms)
        released = journal.read(connection, row.id, row.step, row.step + 1, terms)
        digest = release_digest(key, row.name, row.step, released.values[0])
    if digest not in (None, journal.digest_at(connection, row.id, row.step)):
        raise StateError(
            f"step {row.step:,} of stream {row.name!r} is not the release that was written under "
            "its key: the state was altered; restore it from a copy"
        )


def check_key_of(row: Any, key: Key) -> None:
    """Refuse a key whose fingerprint is not the stream's."""
    if row.key_fingerprint != key.fingerprint:
        raise WrongKey(
            f"stream {row.name!r} was created with the key {row.key_fingerprint}, but the given "
            f"key is {key.fingerprint}: give the key file that was saved with the stream"
        )


def revive(row: Any, key: Key, strategy: StreamStrategy | None) -> Counter:
    """Rebuild a stream's counter at its last step; ``strategy`` only if not part of counton."""
    with reading(f"the checkpoint of stream {row.name!r}"):
        state, terms = read_checkpoint(bytes(row.checkpoint)), json.loads(row.terms)
        counter = Counter.resume_from(state, key, strategy)
    if state.step != row.step or state.design != terms:
        raise StateError(
            f"the checkpoint of stream {row.name!r} is of step {state.step}, but the stream is "
            f"at step {row.step}: the state was altered; restore it from a copy"
        )
    return counter
