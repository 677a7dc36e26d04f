"""Reading of the header of a SQLite file, through SQLite itself.

If a process opens and closes a SQLite file itself, POSIX drops all locks of its connections on that
file, and others then delete a log that is in use. So only SQLite opens the file.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Header(NamedTuple):
    """Application number of a SQLite file, and the size of its pages."""

    application_id: int
    page_bytes: int


def sqlite_header(path: Path) -> Header | None:
    """Read the header of a SQLite file; None for any other. No lock is taken, no file is made.

    Raises:
        OSError: the file is missing or unreadable, or is a folder.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, "Is a directory")
    if not stat.S_ISREG(found.st_mode) or found.st_size < 100:  # SQLite takes 0 bytes for 0 rows
        return None
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as file:
            # The file may be shorter than its header says: the rest may be in its log.
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
