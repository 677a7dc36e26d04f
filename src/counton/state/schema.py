"""Tables of a state database. Rows marked secret hold exact data or what reveals it."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_mock_engine,
    make_url,
)

#: Version of the tables below and of the bytes in their blobs.
FORMAT: Final = 14

#: SQLite's ``application_id`` of our files: "cntn" in ASCII.
APPLICATION_ID: Final = int.from_bytes(b"cntn", "big")

#: Longest name of a stream, in characters.
LONGEST_NAME: Final = 200

metadata = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER keys by itself


def _stream_reference() -> Column[int]:
    return Column("stream_id", _ID, ForeignKey("counton_streams.id"), primary_key=True)


#: One row. Locked while a release is created, so that two creations cannot pass the limit together.
database = Table(
    "counton_database",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("budget_limit", Text),  # JSON: what Ledger.terms says; null: no limit
    Column("identity", String(32), nullable=False),  # drawn once: copies have it too
    Column("witnesses", Text, nullable=False),  # JSON: places of its second witness, and how kept
)


def first_row() -> dict[str, Any]:
    """What stands in the database's one row when it is made."""
    drawn = secrets.token_hex(16)
    return {"id": 1, "format": FORMAT, "identity": drawn, "witnesses": "{}"}


streams = Table(
    "counton_streams",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(LONGEST_NAME), nullable=False),
    Column("terms", Text, nullable=False),  # JSON: Design.to_dict()
    Column("details", Text, nullable=False),  # JSON: public facts of the caller's
    Column("key_fingerprint", String(64), nullable=False),
    Column(
        "key_salt", String(64)
    ),  # where the key is one that other states may use: see Key.with_salt
    Column("created", String(32), nullable=False),  # UTC, ISO 8601
    Column("step", BigInteger, nullable=False),
    Column("writer_epoch", BigInteger, nullable=False),  # grows with each opening for writing
    Column("checkpoint", LargeBinary, nullable=False),  # secret: exact sums
    Column("seal", LargeBinary, nullable=False),  # keyed digest of details, marks: records.seal
    Column("forgotten", BigInteger, nullable=False),  # how many times people were forgotten
    UniqueConstraint("name", name="counton_stream_name"),
)

#: Names of groups, among the public facts of a stream, in blocks; its details have their digest.
names = Table(
    "counton_names",
    metadata,
    _stream_reference(),
    Column("fact", String(40), primary_key=True),
    Column("part", BigInteger, primary_key=True, autoincrement=False),
    Column("names", LargeBinary, nullable=False),  # see GroupNames.blocks
)

#: What was released: rows of consecutive steps, written before the release is returned.
journal = Table(
    "counton_journal",
    metadata,
    _stream_reference(),
    Column("step", BigInteger, primary_key=True, autoincrement=False),  # the row's last
    Column("steps", BigInteger, nullable=False),  # how many it holds
    Column("input_digests", LargeBinary, nullable=False),  # keyed: say nothing without the key
    Column("unit", Text),  # estimates are multiples of it; null: integers; empty: bits of floats
    Column("estimates", LargeBinary, nullable=False),  # see journal.pack
    Column("std", Double, nullable=False),  # of the last step
    Column("digest", String(64)),  # keyed, of the last step; null: others were committed with it
)

#: Secret: noise of the next steps, drawn ahead. Whatever is missing here is drawn again.
noise = Table(
    "counton_noise",
    metadata,
    _stream_reference(),
    Column("cell", BigInteger, primary_key=True, autoincrement=False),  # the row's first
    Column("step", BigInteger, primary_key=True, autoincrement=False),  # the row's first
    Column("cells", BigInteger, nullable=False),  # how many it holds
    Column("steps", BigInteger, nullable=False),
    Column("noise", LargeBinary, nullable=False),  # see journal.pack
    Column("seal", LargeBinary, nullable=False),  # keyed digest: see SealedNoise
)

#: Secret: what the caller has seen so far of each window, to find late and vanished rows. A row
#: holds the windows of one shape in a block of consecutive ones.
observed = Table(
    "counton_observed",
    metadata,
    _stream_reference(),
    Column("step", BigInteger, primary_key=True, autoincrement=False),  # with which it begins
    Column("shape", String(200), primary_key=True),  # JSON: of one window
    Column("last", BigInteger, nullable=False),  # the last of them that is in it
    Column("written", BigInteger, nullable=False),  # the stream's step until the row was written
    Column("steps", LargeBinary, nullable=False),  # the windows; see journal.pack
    Column("totals", LargeBinary, nullable=False),
)

#: Keyed digests of source files that have been ingested: see `journal.source_key`.
sources = Table(
    "counton_sources",
    metadata,
    _stream_reference(),
    Column("digest", String(200), primary_key=True),
    Column("step", BigInteger, nullable=False),
)

#: Secret: digests of users and ids that have been counted, and where; see ``store.marks``.
marks = Table(
    "counton_marks",
    metadata,
    _stream_reference(),
    Column("kind", String(8), primary_key=True),
    Column("period", BigInteger, primary_key=True, autoincrement=False),
    Column("part", BigInteger, primary_key=True, autoincrement=False),
    Column("marks", LargeBinary, nullable=False),
)

#: Privacy that releases of this data have spent.
ledger = Table(
    "counton_ledger",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(LONGEST_NAME), nullable=False, unique=True),
    Column("guarantee", Text, nullable=False),  # JSON
    Column("unit", Text, nullable=False),  # what one protected unit is called
    Column("relation", String(20), nullable=False),  # of neighbours: "add_remove" or "replace"
    Column("entered", String(32), nullable=False),  # UTC, ISO 8601
)

#: Who set which limit, and when. Rows are added, and none is ever taken away.
limits = Table(
    "counton_limits",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("time", String(32), nullable=False),  # UTC, ISO 8601
    Column("who", Text, nullable=False),  # user of the machine on which it was set
    Column("host", Text, nullable=False),
    Column("before", Text),  # JSON: what was stated of the limit; null: there was none
    Column("after", Text),
    Column("higher", Boolean, nullable=False),  # it allows more than before
)


@cache
def script(driver: str) -> str:
    """SQL that makes the tables, for databases of a driver."""
    made: list[str] = []
    dialect = make_url(f"{driver}://").get_dialect()()
    engine = create_mock_engine(
        f"{driver}://", lambda table, *_, **__: made.append(str(table.compile(dialect=dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    return ";".join(made)
