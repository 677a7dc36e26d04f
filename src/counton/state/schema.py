"""Tables of a state database. Rows marked secret hold exact data or what reveals it.

Names of tables, columns and JSON keys stay as they were, so that states can be read. The code uses
these words for them, where they differ. Keys of JSON follow their column, after a colon:

======================================  ========================================================
in the database                         in the code
======================================  ========================================================
``terms``                               design (`Design`)
``terms``: ``law``, ``counters``        ``Design.distribution``, ``Design.noise_guarantee``
``details``                             public facts (`stream_rows.PublicFacts`)
``details``: ``what``                   name of the statistic (``StreamSpec.job.statistic``)
``details``: ``record``                 options that define the stream (``StreamSpec.job``)
``details``: ``groups``                 declared groups (``StreamTerms.groups``)
``details``: ``discovery``              ``StreamSpec.cells``
``details``: ``marks``                  notes on windows (``StreamSpec.notes``)
``details``: ``ended``                  ``StreamSpec.closed_at_step``
``arrived``, ``late``                   late-row statistics (`commit_input.LateRowStats`)
``seal``                                MAC (`stream_rows.mac_of`)
``witness``                             rollback guard (`rollback_guard`)
``counton_marks``, ``marks``            keyed digests of users and ids (`dedup`)
``counton_observed``                    totals by window (`journal.WindowTotals`)
``counton_observed.step``               the first window of the row
``counton_limits``, ``budget_limit``    changes of the budget, and the budget
``counton_turns``                       leases (`lease`)
``fold``                                drain: the waiting batches that one run takes (`inbox`)
======================================  ========================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

#: Version of the tables below and of the bytes in their blobs. Whoever changes it also changes the
#: version of counton, and writes its state for ``tests/corpus``: ``python -m tools.corpus``.
FORMAT: Final = 21


def writer_of(number: int) -> str:
    """Return which versions of counton wrote states of an earlier format.

    From 0.3.0 on, a change of the format changes the version.

    >>> writer_of(19)
    '0.2.0, or a development version with this number'
    """
    return "0.1.0" if number < 16 else "0.2.0, or a development version with this number"


#: SQLite's ``application_id`` of our files: "cntn" in ASCII.
APPLICATION_ID: Final = int.from_bytes(b"cntn", "big")

#: Longest name of a stream, in characters.
LONGEST_NAME: Final = 200

#: All tables of every state, in an order in which they can be made.
TABLES: Final = (
    # One row. Locked while a release is created, so that two cannot pass the limit together. The
    # limit is JSON of Ledger.terms. The identity is drawn once, so that copies share it. The
    # witness is the folder of the rollback guard, or "none"; "" before the first
    # stream.
    """CREATE TABLE counton_database (
    id INTEGER PRIMARY KEY, format INTEGER NOT NULL, budget_limit TEXT,
    identity VARCHAR(32) NOT NULL, witness TEXT NOT NULL
);"""
    f"INSERT INTO counton_database VALUES (1, {FORMAT}, NULL, {{identity}}, '');"
    # Terms are JSON of Design.to_dict(), details JSON of public facts of the caller. The salt is
    # set if other states may use the key: Key.with_salt. The epoch grows with each opening for
    # writing. Secret: the checkpoint, exact sums; how many rows have come for its windows, and how
    # many of them after the release of their window. The seal is a keyed digest:
    # stream_rows.mac_of. The checksum is of the public columns, and has no key:
    # public_rows.checksum_of. Forgotten counts how many times people were forgotten.
    """CREATE TABLE counton_streams (
    id {serial} PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE,
    terms TEXT NOT NULL, details TEXT NOT NULL,
    key_fingerprint VARCHAR(64) NOT NULL, key_salt VARCHAR(64), created VARCHAR(32) NOT NULL,
    step BIGINT NOT NULL, writer_epoch BIGINT NOT NULL,
    checksum VARCHAR(64) NOT NULL, seal {bytes} NOT NULL, forgotten BIGINT NOT NULL,
    arrived BIGINT NOT NULL, late BIGINT NOT NULL, checkpoint {bytes} NOT NULL
);"""
    # Names of groups, among the public facts of a stream, in blocks: GroupNames.blocks. The details
    # hold their digest.
    """CREATE TABLE counton_names (
    {of_stream}, fact VARCHAR(40) NOT NULL, part BIGINT NOT NULL, names {bytes} NOT NULL,
    PRIMARY KEY (stream_id, fact, part)
);"""
    # Releases: rows of consecutive steps, written before the release is returned. A row ends with
    # its step and holds as many steps as it says. Digests are keyed: they say nothing without the
    # key. Estimates are multiples of the unit; a null unit means integers, an empty one the bits of
    # floats. Standard deviation and digest belong to the last step; no digest: not the last row of
    # its commit. The checksum is of the whole row, and has no key: journal.checksum_of.
    """CREATE TABLE counton_journal (
    {of_stream}, step BIGINT NOT NULL, steps BIGINT NOT NULL, input_digests {bytes} NOT NULL,
    unit TEXT, estimates {bytes} NOT NULL, std DOUBLE PRECISION NOT NULL, digest VARCHAR(64),
    checksum {bytes} NOT NULL,
    PRIMARY KEY (stream_id, step)
);"""
    # Noise of the next steps, drawn ahead and encrypted, by first cell and first step:
    # EncryptedNoise. A missing row is drawn again.
    """CREATE TABLE counton_noise (
    {of_stream}, cell BIGINT NOT NULL, step BIGINT NOT NULL, cells BIGINT NOT NULL,
    steps BIGINT NOT NULL, noise {bytes} NOT NULL,
    PRIMARY KEY (stream_id, cell, step)
);"""
    # Secret: totals that the caller has seen so far in each window, to find late and vanished
    # rows. A row holds windows of one shape (JSON) in a block of consecutive ones, from a step to
    # the last, and the stream's step when it was written. Digests of this table and the next two:
    # authenticated_rows.AuthenticatedTable.
    """CREATE TABLE counton_observed (
    {of_stream}, step BIGINT NOT NULL, shape VARCHAR(200) NOT NULL, last BIGINT NOT NULL,
    written BIGINT NOT NULL, digest {bytes} NOT NULL, steps {bytes} NOT NULL,
    totals {bytes} NOT NULL,
    PRIMARY KEY (stream_id, step, shape)
);"""
    # Keyed digests of counted source files, in 64 parts: see journal.has_source.
    """CREATE TABLE counton_sources (
    {of_stream}, part BIGINT NOT NULL, digest {bytes} NOT NULL, digests {bytes} NOT NULL,
    PRIMARY KEY (stream_id, part)
);"""
    # Secret: digests of counted users and ids, and where they counted (state/dedup.py); labels of
    # found groups; and sums of the last files (state/input_sums.py).
    """CREATE TABLE counton_marks (
    {of_stream}, kind VARCHAR(8) NOT NULL, period BIGINT NOT NULL, part BIGINT NOT NULL,
    digest {bytes} NOT NULL, marks {bytes} NOT NULL,
    PRIMARY KEY (stream_id, kind, period, part)
);"""
    # Privacy that releases of this data have spent: the guarantee as JSON, the name of the
    # protected unit, and the relation of neighbours. Who made the entry, on which machine.
    """CREATE TABLE counton_ledger (
    id {serial} PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE, guarantee TEXT NOT NULL,
    unit TEXT NOT NULL, relation VARCHAR(20) NOT NULL, entered VARCHAR(32) NOT NULL,
    who TEXT NOT NULL, host TEXT NOT NULL
);"""
    # Changes of the limit: user, machine, time, and whether it allows more than before. Limits
    # are JSON; null means no limit. Rows are only ever added.
    """CREATE TABLE counton_limits (
    id {serial} PRIMARY KEY, time VARCHAR(32) NOT NULL, who TEXT NOT NULL, host TEXT NOT NULL,
    before TEXT, after TEXT, higher BOOLEAN NOT NULL
);"""
)

#: Rows that wait to be counted by a service: see `counton.state.inbox`. Times are microseconds
#: since 1970.
INBOX: Final = (
    # Accepted batches by their senders' ids, with the answers to the senders. Secret: digests of
    # rows.
    """CREATE TABLE counton_inbox_batches (
    stream_id BIGINT NOT NULL, batch VARCHAR(200) NOT NULL, digest {bytes} NOT NULL,
    arrived BIGINT NOT NULL, answer TEXT NOT NULL,
    PRIMARY KEY (stream_id, batch)
);"""
    """CREATE INDEX counton_inbox_batches_arrived ON counton_inbox_batches (arrived);"""
    # Secret: rows of batches that wait. No fold: in none yet. The checksum is of the other columns.
    """CREATE TABLE counton_inbox_waiting (
    id {serial} PRIMARY KEY, stream_id BIGINT NOT NULL, digest {bytes} NOT NULL, fold BIGINT,
    rows BIGINT NOT NULL, body {bytes} NOT NULL, arrived BIGINT NOT NULL,
    checksum {bytes} NOT NULL
);"""
    """CREATE INDEX counton_inbox_waiting_stream ON counton_inbox_waiting (stream_id);"""
    # Closed streams, which take no more batches.
    """CREATE TABLE counton_inbox_closed (stream_id BIGINT PRIMARY KEY);"""
    # Secret: the part of a stream's largest sums that acknowledged rows fill. By window if a
    # release is of one window, else under 0.
    """CREATE TABLE counton_inbox_parts (
    stream_id BIGINT NOT NULL, step BIGINT NOT NULL, part DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (stream_id, step)
)"""
)

#: Leases of services for streams on a server: see `counton.state.lease`.
TURNS: Final = """
CREATE TABLE counton_turns (
    id BIGINT PRIMARY KEY, holder VARCHAR(32) NOT NULL, until TIMESTAMP WITH TIME ZONE NOT NULL
)
"""

#: Python types of the values of a column, by its type in a statement.
_TYPES: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {
        "{serial}": (int,),
        "INTEGER": (int,),
        "BIGINT": (int,),
        "VARCHAR": (str,),
        "TEXT": (str,),
        "{bytes}": (bytes,),
        "DOUBLE": (float, int),
        "BOOLEAN": (bool, int),
    }
)
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n?\)(?:;|$)", re.DOTALL)
_COLUMN = re.compile(r"(\w+) (\{?\w+\}?)(.*)")


@cache
def types_of(table: str) -> Mapping[str, frozenset[type]]:
    """Return the Python types that each column of a table may hold; empty for other tables.

    A SQLite file may hold a value of any type in any column, if somebody altered it.

    >>> sorted(kind.__name__ for kind in types_of("counton_journal")["unit"])
    ['NoneType', 'str']
    """
    types = {}
    for name, body in _TABLE.findall(TABLES + INBOX):
        if name != table:
            continue
        columns = body.replace("{of_stream}", "stream_id BIGINT NOT NULL")
        for part in re.split(r",\s+(?![^(]*\))", columns.strip()):
            column, kind, rest = _COLUMN.match(part).groups()  # type: ignore[union-attr]
            if kind not in _TYPES:  # PRIMARY KEY (...)
                continue
            required = "NOT NULL" in rest or "PRIMARY KEY" in rest
            types[column] = frozenset(_TYPES[kind]) | (set() if required else {type(None)})
    return types
