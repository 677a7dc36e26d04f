"""The first page of a SQLite file, read by SQLite itself.

A process that opens such a file by itself and closes it loses all locks that its connections have
on that file (POSIX). Others then take it for unused, and delete a log that is in use. So only
SQLite opens one.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Header(NamedTuple):
    """The program that a file belongs to, and the size of its pages."""

    application_id: int
    page_bytes: int


def sqlite_header(path: Path) -> Header | None:
    """The header of a SQLite file; None of any other file. Takes no lock, and makes no file.

    Raises:
        OSError: there is none that may be read, or it is a folder.

    >>> with closing(sqlite3.connect("visits.db")) as made:
    ...     _ = made.execute("PRAGMA application_id = 7")
    >>> sqlite_header(Path("visits.db")).application_id
    7
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, "Is a directory")
    if not stat.S_ISREG(found.st_mode) or found.st_size < 100:  # SQLite takes no bytes for no rows
        return None
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as file:
            # Also of a file that is shorter than it says: the rest may be in its log.
            file.execute("PRAGMA writable_schema = ON").close()
            values = [
                file.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "page_size")
            ]
    except sqlite3.OperationalError as error:
        raise PermissionError(13, str(error)) from None
    except sqlite3.DatabaseError:
        return None
    return Header(*values)
