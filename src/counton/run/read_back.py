"""What was released, read back from files, published tables or a service.

Files and services are read by `counton.released`; tables of a database by the store, which hands
out nothing but what was published there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInput, field
from counton.released import release_files as files
from counton.released.release_facts import TABLES
from counton.released.release_files import ADDRESSES, is_database

if TYPE_CHECKING:
    from counton.released.release import Release
    from counton.state.published import PublishedRows


def read(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    level: float | None = None,
    token: str | None = None,
    like: str | os.PathLike[str] | None = None,
) -> Release:
    """Read a release from a file, published tables or a service, without state and key.

    The reader does not miss rows that were left out or put in another order, until somebody asks
    for them. It cannot notice changed values.

    Args:
        source: a table that a run or an export wrote: Parquet, a workbook, or CSV, JSON, JSON lines
            or Arrow with the description beside it (``visits.csv.json``); a pattern such as
            ``2024-*.parquet``; or a folder of such files by step. Or the address of a stream of a
            service: ``https://counts.example/v1/streams/visits``. Or a database that
            ``counton publish`` wrote: a SQLite file, ``sqlite:///public.db`` or ``postgresql://USER@HOST/DATABASE``.
            Several, if they are of one stream. Or a frame of Spark from `Release.to_spark`, or
            from a table that keeps the metadata of its columns.
        name: name of the stream, for a database that has several.
        level: probability with which each interval holds; None: as the file has it.
        token: the token of a service, or ``env:NAME``, the environment variable that holds it;
            None: COUNTON_TOKEN, if there is one.
        like: for a file that lost its description, since some tool cut it and wrote it again: the
            file from which it was cut, or another of the same stream. Its rows are checked.

    Raises:
        InvalidInput: no such file or stream, one without a description, files of several streams,
            or a token that the service refuses.
        StateError: another version of counton wrote the file, in a form that this one does not
            know; a state; or a database in which nothing, or no such stream, is published.

    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"]})
    >>> run = release(
    ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest", guarantee=PureDP(1), state="visits.db",
    ...     out="visits.parquet",
    ... )
    >>> read("visits.parquet").table().equals(run.table())
    True
    """
    return files.read(source, name=name, level=level, token=token, like=like, databases=_rows)


def _rows(place: str, name: str | None) -> PublishedRows:
    from counton.state.published import read_rows

    return read_rows(place, name)


def read_public(
    given: str | os.PathLike[str],
    *,
    name: str | None = None,
    level: float | None = None,
    token: str | None = None,
    like: str | os.PathLike[str] | None = None,
) -> Release | None:
    """As `read`, of tables, a published database or a service; None: it is a state.

    Raises:
        InvalidInput, StateError: as `read`; or a state where ``like`` is given.
    """
    places = public_places(given)
    if places is not None:
        return read(places, name=name, level=level, token=token, like=like)
    if like is not None:
        raise InvalidInput(
            f"{field('like', os.fspath(like))} is for released tables, and {os.fspath(given)!r} is "
            f"a state: leave it out"
        )
    return None


def public_places(given: str | os.PathLike[str]) -> list[str] | None:
    """What `counton.read` reads: tables, a published database, a service; None: it is a state."""
    source = os.fspath(given)
    if source.startswith(ADDRESSES):
        return [source]
    if is_database(source):
        from counton.state.published import is_published

        return [source] if is_published(source) else None
    if Path(source).is_dir():
        return [source]
    names = [source]
    if not Path(source).exists():
        names = [name.strip() for name in source.split(",")]
    return names if all(Path(name).suffix.lower() in TABLES for name in names) else None
