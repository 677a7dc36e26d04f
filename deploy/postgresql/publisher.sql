-- What counton_publisher may read of a state: run as counton_writer in the database counton, once the
-- first stream is there. Of the streams not their sums, and not what was seen of rows and users.

GRANT SELECT ON counton_database, counton_journal, counton_ledger, counton_names
    TO counton_publisher;
GRANT SELECT (id, name, terms, details, key_fingerprint, key_salt, created, step, writer_epoch,
    forgotten, checksum) ON counton_streams TO counton_publisher;
