"""Files and addresses that counton does not read: what they are, and what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from counton.base.errors import InvalidInputError, param

#: An address such as duckdb:///visits.db, and its scheme.
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
#: A user and a password in an address, which no message shows.
_PASSWORD: Final = re.compile(r"//[^/]*@")
#: Schemes of stores of files.
_FILE_STORES: Final = (
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
    "hdfs",
    "http",
    "https",
    "ftp",
)
#: Other words for schemes that counton reads.
_SPELLINGS: Final = {"postgres": "postgresql", "sqlite3": "sqlite", "file": ""}

_WORKBOOK: Final = (
    "a workbook of a spreadsheet",
    "save its sheet as CSV in UTF-8, or read it in Python: polars.read_excel({path!r})",
)
_SQLITE: Final = (
    "a file of a database",
    f"if it is SQLite, name it in a job file, with {param('events', 'sqlite:///{path}')} and "
    f"{param('query', 'select ...')}; else write its rows into a file",
)
_DUCKDB: Final = (
    "a DuckDB database",
    "write its rows into a file: duckdb {path} -c \"COPY (SELECT ...) TO 'visits.parquet'\"",
)
_ARROW: Final = ("a file of Arrow", "read it in Python: polars.read_ipc({path!r})")
_TABS: Final = (
    "a table whose columns are separated by tabs",
    f"give {param('file_format', 'csv')} and {param('separator', 'tab')}",
)
#: What a file is by its ending, and what to do; {path} is its path.
_BY_ENDING: Final = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), _WORKBOOK),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), _SQLITE),
    **dict.fromkeys((".duckdb", ".ddb"), _DUCKDB),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), _ARROW),
    ".tab": _TABS,
    ".json": (
        "JSON",
        "write JSON lines, an object on each line: jq -c '.[]' {path} > {stem}.jsonl; if it has "
        f"such lines, give {param('file_format', 'jsonl')}",
    ),
    ".avro": ("an Avro file", "read it in Python: polars.read_avro({path!r})"),
    ".orc": ("an ORC file", "read it in Python: pyarrow.orc.read_table({path!r})"),
    ".zip": ("a zip archive", "unpack it: unzip {path}"),
    ".tar": ("a tar archive", "unpack it: tar -xf {path}"),
    ".tgz": ("a tar archive", "unpack it: tar -xf {path}"),
    ".7z": ("a 7-Zip archive", "unpack it: 7z x {path}"),
    ".bz2": ("compressed by bzip2", "unpack it: bunzip2 -k {path}"),
    ".xz": ("compressed by xz", "unpack it: unxz -k {path}"),
    ".lz4": ("compressed by lz4", "unpack it: unlz4 {path}"),
    ".br": ("compressed by Brotli", "unpack it: brotli -d {path}"),
    ".z": ("compressed by compress", "unpack it: gunzip -k {path}"),
}
#: Matches the first bytes of files that may have the name of another format, and what they are.
_BY_FIRST_BYTES: Final = (
    (
        rb"PK\x03\x04",
        "a zip archive, such as a workbook (.xlsx)",
        "save its sheet as CSV, or unzip it",
    ),
    (rb"\xd0\xcf\x11\xe0", "a workbook of an old spreadsheet (.xls)", "save its sheet as CSV"),
    (rb"BZh[1-9]1AY&SY", "compressed by bzip2", "unpack it: bunzip2 -k"),
    (rb"\xfd7zXZ\0", "compressed by xz", "unpack it: unxz -k"),
    (rb"PAR1[\x00-\x1f]", "a Parquet file", f"give {param('file_format', 'parquet')}"),
    (rb"ARROW1\0\0", "a file of Arrow", "read it in Python: polars.read_ipc"),
    (
        rb"(?s:.{8})DUCK(?s:.{2})\0\0",
        _DUCKDB[0],
        "write its rows into a file: COPY (SELECT ...) TO 'visits.parquet'",
    ),
)


def refuse_address(path: str) -> None:
    """Refuse the address of a database or a store that counton does not read.

    Args:
        path: events as a job names them.

    Raises:
        InvalidInputError: It is such an address, and no file of this name exists.

    >>> refuse_address("duckdb:///visits.db")
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: events 'duckdb:///visits.db' are the address of a ...
    """
    match = _ADDRESS.match(path)
    if match is None or os.path.exists(path):
        return
    scheme = match[1].lower()
    rest = path[match.end() :]
    spelling = _SPELLINGS.get(scheme.partition("+")[0], scheme)
    kind = "a database or store"
    remedy = "write its rows into a file"
    if spelling in ("sqlite", "postgresql"):
        right = (
            f"{spelling}:///FILE" if spelling == "sqlite" else f"{spelling}://USER@HOST/DATABASE"
        )
        kind = "a database in another spelling"
        remedy = f"write {right}"
    elif spelling == "":
        kind = "a file"
        remedy = f"give its path, {rest!r}"
    elif scheme == "duckdb":
        kind = _DUCKDB[0]
        remedy = _DUCKDB[1].format(path=rest.removeprefix("/"))
    elif scheme in _FILE_STORES:
        kind = "a file elsewhere"
        remedy = "copy the file to this machine first"
    shown = _PASSWORD.sub("//", path)
    raise InvalidInputError(
        f"{param('events')} {shown!r} are the address of {kind}, and counton reads files, "
        f"sqlite:///FILE and postgresql://USER@HOST/DATABASE; {remedy}"
    )


def other_format(path: str) -> str | None:
    """Return what a file with this ending is and what to do, in words that follow its name.

    >>> other_format("visits.zip")
    'is a zip archive, which counton does not read as it is; unpack it: unzip visits.zip'
    """
    entry = _BY_ENDING.get(Path(path.lower()).suffix)
    if entry is None:
        return None
    kind, remedy = entry
    advice = remedy.replace("{path!r}", repr(path)).replace("{path}", path)
    shown_advice = advice.replace("{stem}", Path(path).stem)
    return f"is {kind}, which counton does not read as it is; {shown_advice}"


def content_of(beginning: bytes) -> str | None:
    """Return what a file with these first bytes is and what to do, in words after its name."""
    for mark, kind, remedy in _BY_FIRST_BYTES:
        if re.match(mark, beginning):
            return f"is {kind}, whatever its name; {remedy}"
    return None
