"""Tables of a state database. Rows marked secret hold exact data or what reveals it."""

from __future__ import annotations

import secrets
from typing import Any, Final

#: Version of the tables below and of the bytes in their blobs.
FORMAT: Final = 14

#: SQLite's ``application_id`` of our files: "cntn" in ASCII.
APPLICATION_ID: Final = int.from_bytes(b"cntn", "big")

#: Longest name of a stream, in characters.
LONGEST_NAME: Final = 200

#: All tables that every state has, in an order in which they can be made.
TABLES: Final = """
-- One row. Locked while a release is created, so that two cannot pass the limit together.
CREATE TABLE counton_database (
    id INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    budget_limit TEXT,  -- JSON: what Ledger.terms says, null: no limit
    identity VARCHAR(32) NOT NULL,  -- drawn once: copies have it too
    witnesses TEXT NOT NULL  -- JSON: places of its second witness, and how kept
);
CREATE TABLE counton_streams (
    id {serial} PRIMARY KEY,
    name VARCHAR(200) NOT NULL UNIQUE,
    terms TEXT NOT NULL,  -- JSON: Design.to_dict()
    details TEXT NOT NULL,  -- JSON: public facts of the caller's
    key_fingerprint VARCHAR(64) NOT NULL,
    key_salt VARCHAR(64),  -- where the key is one that other states may use: Key.with_salt
    created VARCHAR(32) NOT NULL,  -- UTC, ISO 8601
    step BIGINT NOT NULL,
    writer_epoch BIGINT NOT NULL,  -- grows with each opening for writing
    checkpoint {bytes} NOT NULL,  -- secret: exact sums
    seal {bytes} NOT NULL,  -- keyed digest of details and marks: records.Seal
    forgotten BIGINT NOT NULL  -- how many times people were forgotten
);
-- Names of groups, among the public facts of a stream, in blocks. Its details have their digest.
CREATE TABLE counton_names (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    fact VARCHAR(40) NOT NULL,
    part BIGINT NOT NULL,
    names {bytes} NOT NULL,  -- see GroupNames.blocks
    PRIMARY KEY (stream_id, fact, part)
);
-- What was released: rows of consecutive steps, written before the release is returned.
CREATE TABLE counton_journal (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    step BIGINT NOT NULL,  -- the last of the row
    steps BIGINT NOT NULL,  -- how many it holds
    input_digests {bytes} NOT NULL,  -- keyed: say nothing without the key
    unit TEXT,  -- estimates are multiples of it, null: integers, empty: bits of floats
    estimates {bytes} NOT NULL,  -- see journal.pack
    std DOUBLE PRECISION NOT NULL,  -- of the last step
    digest VARCHAR(64),  -- keyed, of the last step, null: others were committed with it
    PRIMARY KEY (stream_id, step)
);
-- Secret: noise of the next steps, drawn ahead. Whatever is missing here is drawn again.
CREATE TABLE counton_noise (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    cell BIGINT NOT NULL,  -- the first of the row
    step BIGINT NOT NULL,  -- the first of the row
    cells BIGINT NOT NULL,  -- how many it holds
    steps BIGINT NOT NULL,
    noise {bytes} NOT NULL,  -- see journal.pack
    seal {bytes} NOT NULL,  -- keyed digest: see SealedNoise
    PRIMARY KEY (stream_id, cell, step)
);
-- Secret: what the caller has seen so far of each window, to find late and vanished rows. A row
-- holds the windows of one shape in a block of consecutive ones.
CREATE TABLE counton_observed (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    step BIGINT NOT NULL,  -- with which it begins
    shape VARCHAR(200) NOT NULL,  -- JSON: of one window
    last BIGINT NOT NULL,  -- the last of them that is in it
    written BIGINT NOT NULL,  -- step of the stream until the row was written
    steps {bytes} NOT NULL,  -- the windows: see journal.pack
    totals {bytes} NOT NULL,
    PRIMARY KEY (stream_id, step, shape)
);
-- Keyed digests of source files that have been ingested: see journal.source_key.
CREATE TABLE counton_sources (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    digest VARCHAR(200) NOT NULL,
    step BIGINT NOT NULL,
    PRIMARY KEY (stream_id, digest)
);
-- Secret: digests of users and ids that have been counted, and where. See state/seen.py.
CREATE TABLE counton_marks (
    stream_id BIGINT NOT NULL REFERENCES counton_streams (id),
    kind VARCHAR(8) NOT NULL,
    period BIGINT NOT NULL,
    part BIGINT NOT NULL,
    marks {bytes} NOT NULL,
    PRIMARY KEY (stream_id, kind, period, part)
);
-- Privacy that releases of this data have spent.
CREATE TABLE counton_ledger (
    id {serial} PRIMARY KEY,
    name VARCHAR(200) NOT NULL UNIQUE,
    guarantee TEXT NOT NULL,  -- JSON
    unit TEXT NOT NULL,  -- what one protected unit is called
    relation VARCHAR(20) NOT NULL,  -- of neighbours: "add_remove" or "replace"
    entered VARCHAR(32) NOT NULL  -- UTC, ISO 8601
);
-- Who set which limit, and when. Rows are added, and none is ever taken away.
CREATE TABLE counton_limits (
    id {serial} PRIMARY KEY,
    time VARCHAR(32) NOT NULL,  -- UTC, ISO 8601
    who TEXT NOT NULL,  -- user of the machine on which it was set
    host TEXT NOT NULL,
    before TEXT,  -- JSON: what was stated of the limit, null: there was none
    after TEXT,
    higher BOOLEAN NOT NULL  -- it allows more than before
)
"""

#: What other states have entered into this one, each entry for a whole stream. Rows are added, and
#: none is ever taken away. A ledger that no other state uses has no such table.
SHARED_ENTRIES: Final = """
CREATE TABLE counton_shared_entries (
    number BIGINT PRIMARY KEY,  -- 1, 2, 3 ...
    state VARCHAR(32) NOT NULL,  -- identity of the state
    place TEXT NOT NULL,  -- where it was
    name VARCHAR(200) NOT NULL,
    guarantee TEXT NOT NULL,  -- JSON
    unit TEXT NOT NULL,
    relation VARCHAR(20) NOT NULL,
    kind VARCHAR(8),  -- see SpentUnit
    entered VARCHAR(32) NOT NULL,  -- UTC, ISO 8601
    chain VARCHAR(64) NOT NULL,  -- digest of this entry and all before it
    token VARCHAR(32),  -- of the one stream that has it, null: reserved
    step BIGINT NOT NULL,  -- how far that stream was
    digest VARCHAR(64) NOT NULL,  -- of its release there, keyed
    UNIQUE (state, name)
)
"""

#: What a state remembers of the ledger into which its streams are entered.
SHARED_LEDGERS: Final = """
CREATE TABLE counton_shared_ledgers (
    name VARCHAR(200) PRIMARY KEY,  -- of the stream
    ledger VARCHAR(32) NOT NULL,  -- its identity
    address TEXT NOT NULL,  -- without a password
    token VARCHAR(32) NOT NULL,
    number BIGINT NOT NULL,  -- of the entry
    newest BIGINT NOT NULL,  -- number of the last entry that was seen
    chain VARCHAR(64) NOT NULL  -- and its digest
)
"""

#: What others remember here of a state of theirs: its second witness.
WITNESS: Final = """
CREATE TABLE counton_witness (
    state VARCHAR(32) NOT NULL,  -- its identity
    key VARCHAR(64) NOT NULL,  -- its fingerprint
    stream VARCHAR(200) NOT NULL,
    entry TEXT NOT NULL,  -- JSON
    PRIMARY KEY (state, key, stream)
)
"""

#: Rows that wait to be counted, of a service: see `counton.state.inbox`.
INBOX: Final = """
-- Batches that were accepted, by the ids that their senders gave them. Secret: digests of rows.
CREATE TABLE counton_inbox_batches (
    stream_id BIGINT NOT NULL,
    batch VARCHAR(200) NOT NULL,
    digest {bytes} NOT NULL,
    arrived BIGINT NOT NULL,  -- microseconds since 1970
    answer TEXT NOT NULL,  -- JSON: what its sender was told
    PRIMARY KEY (stream_id, batch)
);
CREATE INDEX counton_inbox_batches_arrived ON counton_inbox_batches (arrived);
-- Secret: rows of batches that are not in the state yet.
CREATE TABLE counton_inbox_waiting (
    id {serial} PRIMARY KEY,
    stream_id BIGINT NOT NULL,
    digest {bytes} NOT NULL,  -- of the batch, its id and time
    fold BIGINT,  -- null: in none yet
    rows BIGINT NOT NULL,
    body {bytes} NOT NULL,
    aside TEXT NOT NULL,  -- JSON: rows that are set aside
    arrived BIGINT NOT NULL,  -- microseconds since 1970
    sender VARCHAR(200)  -- id of a token, null: the operator put it back
);
CREATE INDEX counton_inbox_waiting_stream ON counton_inbox_waiting (stream_id);
-- Secret: batches that no run could count, and rows that could not be set aside in a file.
CREATE TABLE counton_inbox_left_out (
    id {serial} PRIMARY KEY,
    stream_id BIGINT NOT NULL,
    batch VARCHAR(200),  -- null: its id is forgotten
    arrived BIGINT NOT NULL,  -- microseconds since 1970
    rows BIGINT NOT NULL,  -- that are not counted
    body {bytes} NOT NULL,
    aside TEXT NOT NULL,  -- JSON: rows that no file holds yet
    why TEXT NOT NULL
);
CREATE INDEX counton_inbox_left_out_stream ON counton_inbox_left_out (stream_id);
-- Streams that take no batch any more.
CREATE TABLE counton_inbox_closed (stream_id BIGINT PRIMARY KEY);
-- Secret: which part of what the sums of a stream can hold the acknowledged rows of each sender
-- come to, at most. By window where a release is of one, else under 0.
CREATE TABLE counton_inbox_shares (
    stream_id BIGINT NOT NULL,
    step BIGINT NOT NULL,
    sender VARCHAR(200) NOT NULL,  -- id of a token
    number BIGINT NOT NULL,  -- of the sender
    part DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (stream_id, step, sender)
)
"""

#: Whose turn it is at a stream of a server: see `counton.state.service_turn`.
TURNS: Final = """
CREATE TABLE counton_turns (
    id BIGINT PRIMARY KEY,
    holder VARCHAR(32) NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL
)
"""


def first_row() -> dict[str, Any]:
    """What stands in the database's one row when it is made."""
    drawn = secrets.token_hex(16)
    return {"id": 1, "format": FORMAT, "identity": drawn, "witnesses": "{}"}
