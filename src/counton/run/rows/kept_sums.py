"""Sums of an input, kept in the state: a run whose files have the same bytes reads no row again.

What `aggregate_rows` returns depends on the bytes of the files and on how they are read, apart from
the clock, which `_are_past` covers. So its result can be kept by a digest of these, and all
later steps of a run are the same, whether rows were read or not: which windows are released, what
is refused, and what the operator is told. Nothing is kept if reading does more than adding up:

- rows that count are chosen one by one, of users or by ids;
- names of groups are found in the rows, or undeclared ones are listed;
- bad rows are set aside, or left out beside a file for those that are set aside, which each run
  writes anew;
- rows are no files: a data frame, a query, an inbox, or rows on a cluster.

The sums are kept in a transaction that releases something, so a run without new windows writes
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from typing import cast

import numpy as np

from counton.base.errors import InvalidInputError
from counton.base.private import Private, reveal
from counton.io.error_policy import Policies
from counton.io.files import EventFile
from counton.io.sources import Source
from counton.run.prepared_run import PreparedRun
from counton.run.rows.row_numbers import RowNumbers
from counton.run.rows.window_sums import KeptColumns, WindowSums
from counton.run.windows.due_windows import RowTimes
from counton.state.input_sums import InputSums
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import microseconds

#: Largest number of sums that are kept: about 1 MB in the state.
MOST_SUMS = 2**18


def may_keep(prepared: PreparedRun, source: Source) -> bool:
    """Return whether the result of reading depends on the bytes of files alone."""
    spec = prepared.spec
    return (
        type(source) is Source
        and all(type(input_part) is EventFile for input_part in source.parts)
        and not spec.terms.chooses_rows
        and not spec.discovers_groups
    )


def _writes_bad_rows(numbers: RowNumbers, policies: Policies) -> bool:
    """Return whether a run with these rows writes the file of bad rows."""
    return policies.quarantine is not None and bool(numbers.missing or numbers.quarantined)


def find_sums(prepared: PreparedRun, source: Source) -> Private[WindowSums] | None:
    """Return the sums of files that an earlier run has kept; None if there are none.

    Args:
        source: the files, of which `may_keep` is true.
    """
    saved = prepared.state.saved
    kept = None if saved is None else reveal(saved.input_sums())
    if saved is None or kept is None or kept.numbers.get("sizes") != _sizes(source):
        return None
    if kept.digest != saved.digest_of_sums(_digest(prepared, source)):
        return None
    sums = _unpack(kept)  # of this version: the digest says so
    return Private(sums) if _are_past(sums, prepared.now) else None


@dataclass(frozen=True, repr=False)
class ReadSums:
    """Sums of files that a run has read, which the state may keep.

    Attributes:
        source: the files, of which `may_keep` is true.
    """

    prepared: PreparedRun
    source: Private[Source]
    sums: Private[WindowSums]

    def to_keep(self) -> Private[InputSums] | None:
        """Return the sums to keep with the digest of the files; None if they cannot be kept.

        The files are hashed here, so only a run that releases something takes time for it.
        """
        source = reveal(self.source)
        sums = reveal(self.sums)
        frame = sums.frame
        has_names = bool(sums.numbers.unlisted_names)
        schema = dict.fromkeys(KeptColumns._fields, pl.Int64)
        if has_names or frame.height > MOST_SUMS or frame.schema != schema:
            return None
        if _writes_bad_rows(sums.numbers, self.prepared.options.policies):
            return None
        if not _are_past(sums, self.prepared.now):
            return None
        try:
            digest = _digest(self.prepared, source)
            is_other = any(input_part.has_changed() for input_part in source.parts)
        except (InvalidInputError, OSError):  # a file that was read whole is gone by now
            return None
        if is_other:
            return None
        return Private(_pack(sums, digest, _sizes(source)))


def _are_past(sums: WindowSums, now: datetime) -> bool:
    """Return whether no row lies in the future: of the others, the newest one stays the same."""
    newest = sums.times.newest
    return newest is None or newest <= microseconds(now)


def _digest(prepared: PreparedRun, source: Source) -> str:
    """Return a digest of the bytes of all files, and of how they are read."""
    options = prepared.options
    how = {
        "versions": [version("counton"), version("polars")],
        "record": prepared.spec.public_facts()["record"],
        "unlisted groups": options.unlisted_groups,
        "missing values": options.policies.missing,
        "sets bad rows aside": options.policies.quarantine is not None,
        "files": [
            [file.digest(), file.kind, file.form, {**file.together}] for file in _files(source)
        ],
    }
    return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()


def _sizes(source: Source) -> list[int]:
    return [file.size for file in _files(source)]


def _files(source: Source) -> Sequence[EventFile]:
    return cast("Sequence[EventFile]", source.parts)


def _pack(sums: WindowSums, digest: str, sizes: Sequence[int]) -> InputSums:
    times = sums.times
    rows = asdict(sums.numbers)
    del rows["users_like_missing"]  # there are none: rows of users are chosen one by one
    return InputSums(
        digest,
        numbers={
            "sizes": list(sizes),
            "rows": rows,
            "newest": times.newest,
            "newest_within": times.newest_within,
            "any_beyond": times.any_beyond,
            "any_rows": times.any_rows,
        },
        columns=tuple(sums.frame[name].to_numpy() for name in KeptColumns._fields),
        windows=np.asarray(times.windows_with_rows, np.int64),
    )


def _unpack(kept: InputSums) -> WindowSums:
    numbers = kept.numbers
    rows = {**numbers["rows"], "unlisted_names": ()}
    return WindowSums(
        KeptColumns(*(column.astype(np.int64) for column in kept.columns)),
        RowTimes(
            newest=numbers["newest"],
            newest_within=numbers["newest_within"],
            any_beyond=numbers["any_beyond"],
            any_rows=numbers["any_rows"],
            windows_with_rows=kept.windows,
        ),
        RowNumbers(**rows),
    )
