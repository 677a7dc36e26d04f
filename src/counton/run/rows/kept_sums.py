"""Sums of an input, kept in the state: a run whose files have the same bytes reads no row again.

What `aggregate_rows` returns depends on the bytes of the files and on how they are read, apart from
the clock, which `_are_past` covers. So its result can be kept by a digest of these, and all
later steps of a run are the same, whether rows were read or not: which windows are released, what
is refused, and what the operator is told. Nothing is kept if reading does more than adding up:

- rows that count are chosen by their ids, or of users with a bound on windows or groups;
- names of groups are found in the rows, or undeclared ones are listed;
- bad rows are set aside, or left out beside a file for those that are set aside, which each run
  writes anew;
- rows are no files: a data frame, a query, an inbox, or rows on a cluster.

Of users no sums are kept, but only numbers and times of rows. A run finds them if it releases
nothing, and if the state is as the run has left it that kept them. Such a run counts no row of
users: see `counton.run.counting.chosen_rows`.

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
from counton.run.counting.contribution_choice import ChoiceCounts
from counton.run.prepared_run import PreparedRun
from counton.run.rows.row_numbers import RowNumbers
from counton.run.rows.window_sums import KeptColumns, RepeatedRows, WindowSums
from counton.run.spec.terms import Snapshot, SnapshotRecognition
from counton.run.windows.due_windows import ReleaseClock, RowTimes
from counton.state.input_sums import InputSums
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import microseconds

#: Largest number of sums that are kept: about 1 MB in the state.
MOST_SUMS = 2**18
#: Number of the form in which sums are kept; sums of another form are not found.
_FORMAT = 2


def may_keep(prepared: PreparedRun, source: Source) -> bool:
    """Return whether the result of reading depends on the bytes of files alone."""
    spec = prepared.spec
    return (
        type(source) is Source
        and all(type(input_part) is EventFile for input_part in source.parts)
        and (not spec.terms.chooses_rows or _has_all_rows(prepared))
        and not spec.discovers_groups
    )


def _has_all_rows(prepared: PreparedRun) -> bool:
    """Return whether each input of users has all rows since the first window."""
    spec = prepared.spec
    is_snapshot = isinstance(spec.terms.recognition, SnapshotRecognition)
    is_whole = prepared.options.input == Snapshot()
    return is_snapshot and is_whole and not spec.takes_whole_windows


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
    if not _are_past(sums, prepared.now):
        return None
    if prepared.spec.terms.chooses_rows and not _repeats_last_run(prepared, saved, kept, sums):
        return None
    return Private(sums)


def _repeats_last_run(
    prepared: PreparedRun, saved: JournalReader, kept: InputSums, sums: WindowSums
) -> bool:
    """Return whether a run with rows of users releases nothing, and has the rows and the state of
    the last run.

    Args:
        saved: the stream.
        kept: what the last run has kept.
        sums: the same, unpacked.
    """
    released = prepared.state.released
    if kept.numbers["released"] != released or not saved.is_unchanged_since(kept):
        return False
    clock = ReleaseClock(
        windows=prepared.windows,
        options=prepared.options,
        times=sums.times,
        released=released,
        now=prepared.now,
        is_new_stream=False,
    )
    if clock.ended_windows(allows_missing_rows=True).last > released:
        return False
    return not _has_waiting_rows(saved, released)


def _has_waiting_rows(saved: JournalReader, released: int) -> bool:
    """Return whether late rows of released windows wait for the next step that counts them."""
    no_others = Private(np.zeros(0, np.int64))
    for windows, totals in reveal(saved.observed_blocks(no_others)):  # window, seen or counted
        of_released = totals[windows <= released]
        if (of_released[:, 0] != of_released[:, 1]).any():
            return True
    return False


@dataclass(frozen=True, repr=False)
class ReadSums:
    """Sums of files that a run has read, which the state may keep.

    Attributes:
        source: the files, of which `may_keep` is true.
    """

    prepared: PreparedRun
    source: Private[Source]
    sums: Private[WindowSums]

    def to_keep(self, if_repeated: ChoiceCounts | None, released: int) -> Private[InputSums] | None:
        """Return the sums to keep with the digest of the files; None if they cannot be kept.

        The files are hashed here, so only a run that releases something takes time for it.

        Args:
            if_repeated: which rows of users do not count in a run that repeats this one; None:
                unknown, or no rows are chosen.
            released: number of steps that are released after this run.
        """
        source = reveal(self.source)
        sums = reveal(self.sums)
        chooses_rows = self.prepared.spec.terms.chooses_rows
        if sums.numbers.unlisted_names or (chooses_rows and if_repeated is None):
            return None
        if sums.numbers.users_like_missing:  # the state holds no name of a user
            return None
        if not chooses_rows and not _can_be_packed(sums.frame):
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
        packed = _pack(sums, digest, _sizes(source))
        return Private(packed if if_repeated is None else _of_users(packed, if_repeated, released))


def _can_be_packed(frame: pl.DataFrame) -> bool:
    return frame.height <= MOST_SUMS and frame.schema == dict.fromkeys(
        KeptColumns._fields, pl.Int64
    )


def _are_past(sums: WindowSums, now: datetime) -> bool:
    """Return whether no row lies in the future: of the others, the newest one stays the same."""
    newest = sums.times.newest
    return newest is None or newest <= microseconds(now)


def _digest(prepared: PreparedRun, source: Source) -> str:
    """Return a digest of the bytes of all files, and of how they are read."""
    options = prepared.options
    how = {
        "format": _FORMAT,
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
    del rows["users_like_missing"]  # there are none: `ReadSums.to_keep`
    has_sums = sums.buffer is None
    columns = (sums.frame[name].to_numpy() for name in KeptColumns._fields if has_sums)
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
        columns=tuple(columns) or (np.zeros(0, np.int64),) * len(KeptColumns._fields),
        windows=np.asarray(times.windows_with_rows, np.int64),
    )


def _of_users(packed: InputSums, if_repeated: ChoiceCounts, released: int) -> InputSums:
    """Return what is kept of rows of users; see `ReadSums.to_keep`."""
    choice = {"duplicates": if_repeated.duplicates, "after_final": if_repeated.after_final}
    return packed._replace(numbers={**packed.numbers, "released": released, "if_repeated": choice})


def _unpack(kept: InputSums) -> WindowSums:
    numbers = kept.numbers
    rows = {**numbers["rows"], "unlisted_names": ()}
    choice = numbers.get("if_repeated")
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
        repeated=None if choice is None else RepeatedRows(ChoiceCounts(**choice), kept),
    )
