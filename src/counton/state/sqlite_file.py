"""A state as a SQLite file: created whole or not at all, on disk at each commit, checked."""

from __future__ import annotations

import glob
import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from counton.base.atomic_file import remove_left, sync_folder, try_lock
from counton.base.errors import (
    StateError,
    StateUnavailableError,
    StreamMismatchError,
)
from counton.base.outside_input import sqlite_header
from counton.noise.key import give_name
from counton.state import schema
from counton.state.sql import Connection


class NoStateError(StreamMismatchError):
    """The error that a state is missing: no file or database is at its address yet."""


#: Suffixes of the files that SQLite makes beside a database.
_SUFFIXES_BESIDE = ("-wal", "-shm", "-journal")
#: Suffix of a state's name while the state is being made.
_TEMPORARY_SUFFIX = re.compile(r"\.[a-z0-9_]{8}")


def files_of(path: Path) -> list[Path]:
    """List a SQLite file and the files that SQLite makes beside it, existing or not."""
    return [Path(f"{path}{suffix}") for suffix in ("", *_SUFFIXES_BESIDE)]


def connect(path: Path, timeout_seconds: float) -> Any:
    """Open a connection to an existing state; transactions begin only by explicit statements."""
    connection = sqlite3.connect(
        path, timeout=timeout_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        # With a write-ahead log, FULL syncs the log at each commit, before commit returns: a power
        # cut cannot take back what has been shown. NORMAL would sync only now and then.
        connection.execute("PRAGMA synchronous=FULL").close()
        connection.execute("PRAGMA foreign_keys=ON").close()
        # Digests of forgotten people are overwritten, however SQLite was built.
        connection.execute("PRAGMA secure_delete=ON").close()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def copy_of(path: Path, target: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Copy a SQLite file as it is at one moment; the copy appears whole, or not at all.

    Yields a connection to the copy. The copy gets its name when the block ends.

    Args:
        target: path of the copy, made with mode 0600; a file there is not replaced.
        timeout: seconds to wait for a lock of the file.

    Raises:
        sqlite3.Error, OSError: the file could not be copied; no copy is left.
    """
    # Unfinished copies that killed processes left are as secret as the file.
    remove_left(target.parent, f".{target.name}.", _SUFFIXES_BESIDE)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
    try:
        try_lock(handle)  # held while this process writes: an unlocked file is a leftover
        with os.fdopen(handle):  # closed before the copy has a name that others may lock
            with (
                closing(connect(path, timeout)) as source,
                closing(sqlite3.connect(name)) as whole,
            ):
                source.backup(whole)  # its log included, in one step, under one snapshot
                yield whole
            os.fsync(handle)
        os.link(name, target)
        sync_folder(target.parent)
    finally:
        for file in reversed(files_of(Path(name))):
            file.unlink(missing_ok=True)


def check(path: Path) -> None:
    """Refuse a damaged or foreign file, which SQLite would notice too late or never.

    A file that other users may read is refused too.

    Args:
        path: path of a SQLite state.

    Raises:
        NoStateError: there is no such file.
        StateUnavailableError: the file cannot be read, has several hard links or may be read by
            others; or its folder cannot be written.
        StateError: the file is truncated or no counton database.
        StreamMismatchError: it is a database of another program.
    """
    try:
        header = sqlite_header(path)
        # The order matters: another process may merge its log meanwhile, and delete it after that.
        log = path.with_name(path.name + "-wal").exists()
        size = path.stat().st_size
    except FileNotFoundError:
        raise NoStateError(
            f"state {path} does not exist. Correct the path, or create a stream with counton "
            "release or Stream.create"
        ) from None
    except OSError as error:
        raise StateUnavailableError(
            f"state {path} cannot be read ({error.strerror}): check its path and permissions"
        ) from None
    if header is None:
        raise StateError(
            f"state {path} ({size} bytes) is truncated or not a counton database: restore it from "
            f"a copy, or give another path"
        )
    if header.application_id != schema.APPLICATION_ID:
        raise StreamMismatchError(
            f"{path} is a SQLite file of another program (application_id {header.application_id}), "
            "not a state: give another path"
        )
    if not os.access(path.parent, os.W_OK):  # SQLite could not lock it, nor read its log
        raise StateUnavailableError(
            f"state {path} is in a place where this process may not write, so it cannot be locked "
            "against other processes: use it where it may be written; to read it, copy it there "
            "together with its log (cp STATE STATE-wal)"
        )
    identity(path)  # SQLite's opening might merge a log
    # While a log waits to be merged the file may be short: its pages are in the log. SQLite itself
    # notices missing whole pages.
    if size % header.page_bytes and not log:
        raise StateError(
            f"state {path} is truncated, because its {size} bytes are not a multiple of the page "
            f"size {header.page_bytes}; restore it from a copy"
        )
    mode = stat.S_IMODE(path.stat().st_mode)  # keys follow the same rule
    if os.name == "posix" and mode & 0o077:
        raise StateUnavailableError(
            f"state {path} has mode {mode:04o}, which lets others read the exact sums in it: make "
            "it 0600 (chmod 600), and find out who may have read it"
        )


def identity(path: Path) -> tuple[int, int] | None:
    """Return numbers that are equal for all paths to the same file; None if there is no file.
    Refuse a file with several hard links.

    SQLite looks for its log beside the name under which the file was opened. Releases made under
    one name would be unknown under another until the log is merged.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if status.st_nlink > 1:
        _remove_temporary_links(path, status)
        status = path.stat()
    if status.st_nlink > 1:
        raise StateUnavailableError(
            f"state {path} has {status.st_nlink} names (hard links), and a release under one name "
            "may be unknown under another: remove the other names, but keep the name that has a "
            "log (NAME-wal) beside it; symbolic links do no harm"
        )
    return status.st_dev, status.st_ino


def _remove_temporary_links(path: Path, status: os.stat_result) -> None:
    """Remove temporary names of a state file.

    A process that makes the state links its name before it removes the temporary name. A process
    that was killed between the two left both.

    Args:
        path: the file.
        status: its status.
    """
    for other in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if _TEMPORARY_SUFFIX.fullmatch(other.name.removeprefix(f".{path.name}")) is None:
            continue
        with suppress(OSError):
            if os.path.samestat(other.lstat(), status):
                other.unlink()


def create(path: Path) -> None:
    """Make an empty state file in one act: a killed process leaves no file, or a whole one."""
    log = path.with_name(path.name + "-wal")
    # SQLite would read it into the new file; a faster process makes the file before its log.
    if log.exists() and not path.exists():
        raise StateError(
            f"state {path} is missing, but its log {log.name} exists: restore the state beside it, "
            "or remove the log if the state was deleted on purpose"
        )
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    except OSError as error:
        raise StateUnavailableError(
            f"state {path} cannot be created ({error.strerror}): check that its folder exists and "
            f"may be written"
        ) from None
    try:
        with os.fdopen(descriptor) as file:  # closed before the file gets the name others lock
            with closing(sqlite3.connect(name, isolation_level=None)) as connection:
                created = Connection(connection, is_sqlite=True)
                # Nobody sees the file before it is synced as a whole, and it keeps the last mode.
                created.script("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
                created.script(f"PRAGMA application_id={schema.APPLICATION_ID}")
                created.script(f"PRAGMA user_version={schema.FORMAT}; BEGIN")
                created.script(schema.TABLES)
                created.script("COMMIT; PRAGMA journal_mode=WAL")
            os.fsync(file.fileno())
        give_name(Path(name), path)  # a file that a faster process made serves as well
    except (sqlite3.Error, OSError) as error:
        raise StateUnavailableError(
            f"state {path} cannot be created ({error}): check the space left and its folder's "
            f"permissions"
        ) from error
    finally:
        for leftover in files_of(Path(name)):
            leftover.unlink(missing_ok=True)


def is_state(path: Path) -> bool:
    """Return True if a file is a counton state, by its header."""
    try:
        header = sqlite_header(path)
    except OSError:
        return False
    return header is not None and header.application_id == schema.APPLICATION_ID
