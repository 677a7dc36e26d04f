"""Public facts of a stream: a JSON text, and group names in compressed blocks beside it.

The text holds a digest of the blocks, so a digest of the text also protects the names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from counton.base.errors import InvalidInput, StateError
from counton.frame.groups import GroupNames, digest_of
from counton.state.database import reading
from counton.state.sql import Connection

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


def record_in(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a stream of events from its public facts; else none."""
    record = details.get("record")
    return record if isinstance(record, Mapping) else {}


def read(connection: Connection, stream_id: int, text: str) -> dict[str, Any]:
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


def refuse_altered(connection: Connection, stream_id: int, text: str) -> None:
    """Refuse stored group names that do not match their digest in the JSON text."""
    for fact, said in json.loads(text).get(_NAMES, {}).items():
        _blocks(connection, stream_id, fact, said)


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
