"""Reading of releases from files, published tables or a service.

`counton.released` reads files and services. `counton.state` reads tables of a database, and only
those that were published.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInput, field
from counton.released import release_files as files
from counton.released.release_facts import TABLES
from counton.released.release_files import is_database

if TYPE_CHECKING:
    from counton.released.release import Release
    from counton.state.published import PublishedRows


def read(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    level: float | None = None,
    like: str | os.PathLike[str] | None = None,
) -> Release:
    """Read a release from a file or published tables, without state and key.

    A file may lack rows, or have them in another order; only a request for a missing row is
    refused. Changed values are not noticed.

    Args:
        source: a table that a run or an export wrote: Parquet, or CSV or JSON with the
            description beside it (``visits.csv.json``); or a pattern such as
            ``2024-*.parquet``. Or a database that ``counton
            publish`` wrote: a SQLite file, ``sqlite:///public.db`` or
            ``postgresql://USER@HOST/DATABASE``. Or several tables of one stream. Or a frame of
            Spark from `Release.to_spark`, or from a table that keeps the metadata of its columns.
        name: name of the stream, for a database that has several.
        level: probability with which each interval holds; None: the level of the file.
        like: for a file that another tool shortened, so that its description was lost: the original
            file, or another file of the same stream, whose description is used. The rows are
            checked against it.

    Raises:
        InvalidInput: the file or stream is missing or has no description, or files are of several
            streams.
        StateError: another version of counton wrote the file in an unknown form; the source is a
            state; or the database has no published stream, or not this one.

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
    return files.read(source, name=name, level=level, like=like, databases=_rows)


def _rows(place: str, name: str | None) -> PublishedRows:
    from counton.state.published import read_rows

    return read_rows(place, name)


def read_public(
    given: str | os.PathLike[str],
    *,
    name: str | None = None,
    level: float | None = None,
    like: str | os.PathLike[str] | None = None,
) -> Release | None:
    """Read released tables or a published database, as `read` does; None if the source is a state.

    Raises:
        InvalidInput, StateError: see `read`; or the source is a state and ``like`` is given.
    """
    places = public_places(given)
    if places is not None:
        return read(places, name=name, level=level, like=like)
    if like is not None:
        raise InvalidInput(
            f"{field('like', os.fspath(like))} is for released tables, but {os.fspath(given)!r} is "
            "a state: leave it out"
        )
    return None


def public_places(given: str | os.PathLike[str]) -> list[str] | None:
    """Return the addresses of public sources; None for a state."""
    source = os.fspath(given)
    if is_database(source):
        from counton.state.published import is_published

        return [source] if is_published(source) else None
    names = [source]
    if not Path(source).exists():
        names = [name.strip() for name in source.split(",")]
    return names if all(Path(name).suffix.lower() in TABLES for name in names) else None
