"""The rollback guard: a small file away from a state that shows whether the state is an old copy.

A state that was restored from an old copy would add the noise of known releases to other data. The
rollback guard holds the last step of each stream and a digest of its release, so it shows which
releases are missing. A release is shown only after the rollback guard has recorded it; a state that
lacks what its rollback guard has recorded releases nothing.

The rollback guard is one file, named by the state's identity, in a folder that the state remembers:
the user's folder for program state (``$XDG_STATE_HOME/counton``, by default
``~/.local/state/counton``), or a folder that a run names. If a run names another folder, the new
folder takes the rollback guard, the earlier file is removed, and then the state remembers the new
folder. So an old copy of the state looks for a file that is gone. If the file is missing, nothing
is released until it is back, until a run names the folder that took it, or until the user says that
the state is the newest: the folder may be on a disk that is not mounted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import (
    CountonError,
    InvalidInputError,
    StateError,
    StateRolledBackError,
    StateUnavailableError,
    param,
)
from counton.base.outside_input import open_plain, read_plain
from counton.noise.guard_file import REMEMBERED_RELEASES, Entries, GuardFile, parse_entries
from counton.state import journal, ledger_rows
from counton.state.database import Database, parse_address
from counton.state.public_rows import PublicRow, public_row, public_rows
from counton.state.sql import Connection

#: Where a rollback guard is kept: a folder.
Folder = str | os.PathLike[str]
#: Given as the folder by a user who wants no rollback guard.
NO_FOLDER = "none"
#: Stands in place of a key's fingerprint in the entry that begins a file.
_BEGINNING_MARK = "beginning"
#: Exceptions raised if a rollback guard cannot be read or written.
_GUARD_ERRORS = (OSError, ValueError)
_NOTHING_RELEASED = (
    "nothing was released; make it writable (its mode, its folder, the space left), or name a "
    f"folder that is ({param('rollback_guard')}), or {NO_FOLDER!r} for no rollback guard"
)


def default_folder() -> str | None:
    """Return the user's folder for program state; None if the user has no home."""
    folder = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(folder):
        return os.path.join(folder, "counton")
    path = os.path.join(os.path.expanduser("~"), ".local", "state", "counton")
    return None if path.startswith("~") else path


def address_of(folder: Folder) -> str:
    """Return a rollback guard's folder as an absolute path; raise InvalidInputError for anything
    else.
    """
    value: object = folder
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "://" in text:
        raise InvalidInputError(
            f"{param('rollback_guard', folder)} is not the path of a folder: give a folder, which "
            f"may lie on a disk that several machines share, or {NO_FOLDER!r} for no rollback guard"
        )
    return text if text == NO_FOLDER else os.path.abspath(text)


class GuardPosition(NamedTuple):
    """The progress of a stream, with its key's fingerprint and number of forgettings."""

    key: str
    name: str
    step: int
    forgotten: int = 0

    @classmethod
    def from_row(cls, row: PublicRow) -> GuardPosition:
        """Return the progress of a stream from its database row."""
        return cls(row.key_fingerprint, row.name, row.step, row.forgotten)


class RollbackGuard:
    """The record, kept outside a state, of the last released step of each stream, with a digest of
    its release. It is read at one moment.

    Besides the file in the folder that the state remembers, the file of this state in the folder
    that the run names, and in the user's folder, is read if there is one: what it knows counts.

    Args:
        connection: a transaction of the state. A reader ends it before it reads the streams: a
            release is recorded only after its commit, so the state has every release that the
            rollback guard has.
        folder: the folder that this run names; None: none.

    Attributes:
        folder: the folder that the state remembers; "" before the first stream.
        file: the file in which every release is recorded; None if the user wants no rollback guard.
        entries: entries of streams, each with the path of its file, the latest steps first.

    Raises:
        StateError: a file cannot be read.
    """

    def __init__(
        self, database: Database, connection: Connection, folder: Folder | None = None
    ) -> None:
        self._database = database
        self._label = database.label
        self._named_folder = "" if folder is None else address_of(folder)
        self.folder = str(connection.value("SELECT witness FROM counton_database"))
        files = {
            folder: self._file(folder)
            for folder in dict.fromkeys((self.folder, self._named_folder, default_folder() or ""))
            if folder not in ("", NO_FOLDER)
        }
        # A user's folder may belong to somebody else, as under ``sudo``.
        entries_by_folder = {
            folder: self._read(file) if folder == self.folder or os.access(folder, os.X_OK) else []
            for folder, file in files.items()
        }
        entries_of_folder = entries_by_folder.get(self.folder)
        named_entries = entries_by_folder.get(self._named_folder, [])
        #: Steps and digests of recorded releases that the state has too.
        self._confirmed = set[tuple[int, str]]()
        #: Whether the file should exist and does not, nor in the folder that the run names.
        self.missing = entries_of_folder == [] and (
            not named_entries or any(entry.get("moving") for entry in named_entries)
        )
        is_folder_used = entries_of_folder != [] or self.missing
        used_folder = self.folder if is_folder_used else self._named_folder
        self._entries_of_file = entries_by_folder.get(used_folder, [])
        self.file = files.get(used_folder)
        self.entries = [
            {**entry, "where": str(files[folder].path)}
            for folder, entries in entries_by_folder.items()
            for entry in entries
            if entry["key"] != _BEGINNING_MARK
        ]
        self.entries.sort(key=lambda entry: -int(entry["step"]))

    def _file(self, folder: str) -> GuardFile:
        return GuardFile(Path(folder) / f"{self._database.identity}.witness")

    def _read(self, file: GuardFile) -> Entries:
        try:
            entries = parse_entries(read_plain(file.path))
            if any("past" not in entry for entry in entries):
                raise ValueError("an entry does not tell the stream's earlier releases")
            return entries
        except (FileNotFoundError, NotADirectoryError):
            return []
        except _GUARD_ERRORS as error:
            raise StateError(
                f"the rollback guard {file.path} of state {self._label} cannot be read "
                f"({_why(error)}). It records the last releases, and without it nobody can tell "
                "whether the state was restored from an old copy: make it readable, or restore it "
                f"from a copy; if it was moved, name its folder ({param('rollback_guard')}); or, "
                "if you know that the state is the newest, move the rollback guard away, and "
                f"confirm it ({param('accept_old_copy', True)})"
            ) from None

    def keep(self, connection: Connection, *, accept: bool = False) -> None:
        """Keep the rollback guard (the record of releases away from the state) in the folder that
        the run names, else where it was, at first in the user's folder.

        A new folder takes the entries, the earlier file is removed, and then the state remembers
        the folder.

        Args:
            connection: a transaction that writes the state. The earlier file is removed before it
                commits, so that no copy of the state finds it any more.
            accept: also record what the state has released, on the user's word.

        Raises:
            StateUnavailableError: a file cannot be written.
        """
        folder = self._named_folder or ("" if self.missing else self.folder) or default_folder()
        if folder is None:
            raise self._unwritten("", "the user has no home", _NOTHING_RELEASED)
        if folder == self.folder and not (accept and folder != NO_FOLDER):
            return
        new = None if folder == NO_FOLDER else self._file(folder)
        if new is not None:
            ledger_rows.lock(connection)
            old = None if self.missing or self.file == new else self.file
            self._begin(connection, old, new, rows=accept or self.folder == NO_FOLDER)
        connection.execute("UPDATE counton_database SET witness = :folder", folder=folder)
        self.folder = folder
        self.file = new

    def _begin(
        self, connection: Connection, old: GuardFile | None, new: GuardFile, *, rows: bool
    ) -> None:
        """Write the entries, and those of ``rows``, to a new file marked as moving; remove the old
        one.
        """
        entries = [
            {word: entry[word] for word in entry if word != "where"} for entry in self.entries
        ]
        if rows:
            positions = [
                (GuardPosition.from_row(row), journal.digest_at(connection, row.id, row.step) or "")
                for row in public_rows(connection)
            ]
            entries = [*(self._entry(position, digest) for position, digest in positions), *entries]
        first = self._entry(GuardPosition(_BEGINNING_MARK, "", 0), "")
        try:
            new.begin([{**first, "moving": old is not None}, *reversed(entries)])
            if old is not None:
                old.move_to(new)
                new.begin([{**first, "moving": False}])
        except _GUARD_ERRORS as error:
            raise self._unwritten(str(new.path), _why(error), _NOTHING_RELEASED) from None

    def refuse_missing(self) -> None:
        """Raise StateUnavailableError if the rollback guard is missing: its disk may not be
        mounted.
        """
        if self.missing:
            raise StateUnavailableError(
                f"the rollback guard {self._file(self.folder).path} of state {self._label} is "
                "missing. It records the last releases, and without it nobody can tell whether the "
                "state was restored from an old copy: mount its disk, or restore it; if it was "
                f"moved, name its folder ({param('rollback_guard')}), which all machines that use "
                "the state share; until then nothing is released. An old copy would release steps "
                "again from other rows. Only if the rollback guard is lost for good, and you know "
                f"that the state is the newest, confirm it ({param('accept_old_copy', True)})"
            )

    def forgotten_entries(self, connection: Connection) -> Entries:
        """Return the rollback guard's entries of released streams that the state lacks."""
        rows = connection.rows("SELECT key_fingerprint, name FROM counton_streams")
        present = {(row.key_fingerprint, row.name) for row in rows}
        return [
            entry
            for entry in self.entries
            if entry["step"] and (entry["key"], entry["stream"]) not in present
        ]

    def refuse_forgotten(self, connection: Connection, beginning: str = "") -> None:
        """Refuse a state that lacks streams which its rollback guard, the record outside the state,
        has recorded; or that has released something of which the rollback guard knows nothing.

        Called before a stream is created, and again at its first step: if two copies of a state
        created different streams, only one copy can release.

        Args:
            beginning: name of the stream that releases its first step, or "".
        """
        self.refuse_missing()
        for entry in self.forgotten_entries(connection):
            raise _lost_state(self._label, entry)
        for row in public_rows(connection):
            if row.name != beginning:
                self._refuse_unknown(connection, GuardPosition.from_row(row))

    def _refuse_unknown(self, connection: Connection, position: GuardPosition) -> None:
        if not position.step or self.folder == NO_FOLDER or self._entries_of(position):
            return
        # A stream is recorded before its first commit, perhaps after this rollback guard was read.
        # If its second step was recorded, too, it is refused this once.
        self.entries += RollbackGuard(
            self._database, connection, self._named_folder or None
        )._entries_of(position)
        if not self._entries_of(position):
            record_path = self._file(self.folder).path
            raise StateRolledBackError(
                f"stream {position.name!r} is at step {position.step:,} in state {self._label}, "
                f"and {record_path} has no record of it, so nobody here can tell whether the state "
                "was restored from an old copy. An old copy would release steps again, with equal "
                "noise, and reveal how the data differ: if the rollback guard was moved, name its "
                f"folder ({param('rollback_guard')}); else restore the newest copy with its "
                "rollback guard. Only if you know that this copy is the newest, confirm it "
                f"({param('accept_old_copy', True)})"
            )

    def check(
        self,
        connection: Connection,
        stream_id: int,
        position: GuardPosition,
        *,
        forgetting: bool = False,
        accept: bool = False,
    ) -> None:
        """Refuse a stream that is or may be an old copy: the rollback guard, the record outside the
        state, is missing, knows nothing of the stream, or has releases or deletions of people that
        the stream lacks.

        Args:
            connection: a transaction of the state.
            stream_id: id of the stream's database row.
            position: the stream's progress as the state has it.
            forgetting: the caller is going to delete a person's data; missing deletions are then
                allowed.
            accept: the user says that the state is the newest: only what the rollback guard knows
                counts.
        """
        if not accept:
            self.refuse_missing()
            self._refuse_unknown(connection, position)
        for entry in self._entries_of(position):
            if entry["step"] > position.step:
                raise StateRolledBackError(
                    f"state {self._label} is an old copy: stream {position.name!r} is at step "
                    f"{position.step:,}, but {entry['where']} records that step {entry['step']:,} "
                    "is released. Releasing it again would reveal data. Restore the newest copy. "
                    f"If it is lost, close the stream and begin another one ({param('stream')})"
                )
            step = entry["step"]
            if step and journal.digest_at(connection, stream_id, step) != entry["digest"]:
                raise self._other_release(position.name, step, entry["where"])
            self._confirmed.add((step, entry["digest"]))
            if not forgetting and entry["forgotten"] > position.forgotten:
                more = entry["forgotten"] - position.forgotten
                times = "once" if more == 1 else f"{more:,} times"
                raise StateRolledBackError(
                    f"state {self._label} is an old copy: {entry['where']} records that people "
                    f"were forgotten in stream {position.name!r} {times} since the copy was made, "
                    "and the copy still remembers them: restore the newest copy, or forget them "
                    f"again (counton erase-user), {times}; until then nothing is released"
                )

    def _entries_of(self, position: GuardPosition) -> Entries:
        """Return the rollback guard's entries of one stream, the latest steps first."""
        return [entry for entry in self.entries if (entry["key"], entry["stream"]) == position[:2]]

    def needs_recording(self, position: GuardPosition, digest: str) -> bool:
        """Return True if a stream's last release still has to be recorded in the rollback guard,
        the record outside the state, before it is shown. ``digest`` is that of the release.

        Nothing is recorded if the rollback guard is missing, knows nothing of the stream, or has
        later steps.

        Raises:
            StateRolledBackError: the rollback guard has recorded another release of this step, or a
                later step without this release.
        """
        entries = self._entries_of(position)
        is_known = False
        for entry in entries:
            past = {**dict(map(tuple, entry["past"])), entry["step"]: entry["digest"]}
            if past.get(position.step, digest) != digest:
                raise self._other_release(position.name, position.step, entry["where"])
            is_known |= position.step in past or (
                len(past) > REMEMBERED_RELEASES and position.step < min(past)
            )
        later = bool(entries) and entries[0]["step"] > position.step
        if later and not is_known:
            raise self._other_release(position.name, position.step, entries[0]["where"])
        return bool(entries) and not later and self.is_behind(position)

    def is_behind(self, position: GuardPosition) -> bool:
        """Return True if the rollback guard lacks a stream's last step, or deletions of people."""
        return (
            not self.missing
            and self.file is not None
            and all(
                (entry["key"], entry["stream"], entry["step"]) != position[:3]
                or entry["forgotten"] < position.forgotten
                for entry in self._entries_of_file
            )
        )

    def note(self, position: GuardPosition, digest: str, stream_id: int) -> None:
        """Record a committed release in the rollback guard (the record outside the state), before
        the release is shown to anybody.

        Args:
            position: the stream's progress after the release, whose digest is ``digest``.
            stream_id: id of the stream's database row.

        Raises:
            StateError: the release cannot be recorded; or the rollback guard knows another release
                of a step, so another copy of the state is in use, and the rollback guard stays
                unchanged.
        """

        def agrees(old: dict[str, Any]) -> bool:
            if old["step"] in (0, position.step):
                return not old["step"] or bool(old["digest"] == digest)
            if (old["step"], old["digest"]) in self._confirmed:
                return True
            with self._database.transaction(write=False) as connection:
                return bool(journal.digest_at(connection, stream_id, old["step"]) == old["digest"])

        self._write(
            lambda file: file.note(self._entry(position, digest), agrees),
            position.name,
            f"what {position.name!r} has released is kept in the state, but not shown yet; make "
            "the rollback guard writable, then run the same command again",
        )

    def check_writable_for(self, position: GuardPosition) -> None:
        """Check, before a commit, that the rollback guard can record the release afterwards.

        A stream without an entry gets one of step 0, which records no release.
        """
        entry = self._entry(position, "0" * 64)
        self._write(lambda file: file.check_writable_for(entry), position.name, _NOTHING_RELEASED)

    def _write(self, act: Callable[[GuardFile], int | None], name: str, consequence: str) -> None:
        if (file := self.file) is None:  # the user wants none
            return
        try:
            other = act(file)
        except _GUARD_ERRORS as error:
            raise self._unwritten(str(file.path), _why(error), consequence) from None
        if other is not None:
            raise self._other_release(name, other, str(file.path))

    def _entry(self, position: GuardPosition, digest: str) -> dict[str, object]:
        return {
            "key": position.key,
            "state": self._label,
            "stream": position.name,
            "step": position.step,
            "digest": digest,
            "past": [],
            "forgotten": position.forgotten,
        }

    def why_unreliable(self, connection: Connection, position: GuardPosition) -> str | None:
        """Return why the guard would not notice an old copy at ``position``; None if it would."""
        if not position.step or self.file is None:
            return None
        path = self.file.path
        try:
            os.close(open_plain(path, os.O_RDWR))
        except OSError as error:
            return (
                f"the rollback guard {path} cannot be written ({error.strerror}): make it writable"
            )
        for wait in (0, 0.05, 0.2, 1):  # a writer may just be noting its last commit
            time.sleep(wait)
            now = RollbackGuard(self._database, connection, self._named_folder or None)
            recorded_step = max((entry["step"] for entry in now._entries_of(position)), default=0)
            if recorded_step >= position.step:
                return None
        return (
            f"the state is at step {position.step:,}, but its rollback guard {path} records only "
            f"steps up to {recorded_step:,}, so it could not tell an old copy of the state from "
            "the newest: if you restored the rollback guard, restore its newest copy; if a run was "
            "interrupted, the next run records the missing steps"
        )

    def _unwritten(self, path: str, why: str, consequence: str) -> StateUnavailableError:
        return StateUnavailableError(
            f"the rollback guard {path} of state {self._label} cannot be written ({why}). It "
            "records the last releases, and without it nobody would notice an old copy of the "
            f"state: {consequence}"
        )

    def _other_release(self, name: str, step: int, record: str) -> StateRolledBackError:
        return StateRolledBackError(
            f"step {step:,} of stream {name!r} has another release in state {self._label} than "
            f"{record} records, so two copies of the state were continued; equal noise on two data "
            "sets reveals how they differ: go on with the recorded copy, and stop using the other"
        )


def latest_guard(database: Database, folder: Folder | None = None) -> RollbackGuard:
    """Read the rollback guard of a state before the state's streams are read."""
    with database.transaction(write=False) as connection:
        return RollbackGuard(database, connection, folder)


def refuse_used(
    folder: str | None, identity: str | None, label: str, *, lost: bool, fingerprint: str | None
) -> None:
    """Refuse a new stream if a rollback guard in this folder, a record of the releases of another
    state, shows that the state at this address was lost, or that the key was used.

    Args:
        identity: identity of the state; None if the state does not exist yet.
        label: address of the state.
        lost: whether the state has no streams, and its key is not new.
        fingerprint: fingerprint of a key that is used as it is; None if the key is derived.
    """
    if folder in (None, NO_FOLDER):
        return
    for path in sorted(Path(str(folder)).glob("*.witness")):
        if path.stem == identity:
            continue
        try:
            entries = parse_entries(read_plain(path))
        except (OSError, ValueError):  # the state that it belongs to reports it
            continue
        for entry in entries:
            same = (lost and entry["state"] == label) or entry["key"] == fingerprint
            if entry["step"] and same:
                raise _lost_state(label, {**entry, "where": path})


def _lost_state(label: str, entry: Mapping[str, object]) -> StateRolledBackError:
    name = entry["stream"]
    steps = entry["step"]
    extent = "1 step" if steps == 1 else f"{steps:,} steps"
    return StateRolledBackError(
        f"state {label} has no release {name!r}, but {entry['where']} records {extent} of it as "
        "released, so the state was lost or restored from an old copy. The privacy loss of those "
        "releases remains, and the ledger does not count it any more: restore the newest copy of "
        f"the state; if it is lost for good, begin another {param('state')}, with a limit reduced "
        "by that loss"
    )


def remark_on_guard(
    state: Folder | None, folder: Folder | None = None, *, opened: Database | None = None
) -> str | None:
    """Return a warning if the rollback guard of a state (the record of releases outside it) lies in
    the folder of the state, so that an old copy of the whole folder goes unnoticed; None elsewhere.

    Args:
        folder: the folder of the rollback guard that this run names.
        opened: the state, if the caller has it open; None also if it does not exist yet.
    """
    if state is None:
        return None
    folder_of_state = ""
    address = parse_address(state)
    if opened is not None:
        with opened.transaction(write=False) as connection:
            folder_of_state = str(connection.value("SELECT witness FROM counton_database"))
    named = "" if folder is None else address_of(folder)
    used_folder = named or folder_of_state or default_folder()
    if used_folder in (None, NO_FOLDER) or address.file is None:
        return None
    folder_path = Path(os.path.realpath(str(used_folder)))
    if not folder_path.is_relative_to(address.file.resolve().parent):
        return None
    return (
        f"the rollback guard {folder_path} lies in the folder of the state {address.label}: if the "
        "whole folder were restored from a copy, nobody would notice that the state is old; give a "
        f"place elsewhere, {param('rollback_guard')}"
    )


class Position(NamedTuple):
    """Number of a stream's released steps, and its writer epoch."""

    step: int
    epoch: int


def position_of(connection: Connection, database: Database, name: str, guard: RollbackGuard) -> Any:
    """Return the public columns of a stream's database row; refuse an old copy.

    An old copy lacks steps, or deletions of people, that its rollback guard (a record outside the
    state) has recorded.

    Raises:
        StateError: the stream is missing, or the rollback guard has recorded more than the state
            has, or another release; or the rollback guard is missing.
    """
    row = public_row(connection, name)
    if row is None:
        raise StateRolledBackError(
            f"state {database.label} has no stream {name!r} any more; restore the state that was "
            "used before"
        )
    guard.check(connection, row.id, GuardPosition.from_row(row))
    return row


def confirm_release(database: Database, name: str) -> None:
    """Allow a process to show the last release of a stream; record the release first, if only
    earlier releases are recorded.

    The record is the stream's rollback guard, outside the state. The process that made the release
    may have been killed, or may have failed, before it recorded the release.

    Every process that shows a stream and is not its writer calls this function first. No key is
    needed.

    Raises:
        StateError: the release cannot be recorded; or another release of the step is recorded, so
            this one comes from another copy of the state.
    """
    guard = latest_guard(database)  # read before the state
    with database.transaction(write=False) as connection:
        row = public_row(connection, name)
        assert row is not None, "the stream is open"
        digest = journal.digest_at(connection, row.id, row.step)
        position = GuardPosition.from_row(row)
    # A damaged journal, without a digest, is reported by its reader.
    if row.step and digest is not None and guard.needs_recording(position, digest):
        guard.note(position, digest, row.id)


def accept_old_copy(state: Folder, rollback_guard: Folder | None = None) -> tuple[str, ...]:
    """Accept a state as the newest on the user's word, and record its streams in the rollback guard
    (a record outside the state).

    A missing file is given up. A state stays refused if an existing one shows that it is old.

    Args:
        state: path of a SQLite file, or a database URL.
        rollback_guard: folder of the rollback guard; None: where it is, or the user's folder if it
            is missing.

    Returns:
        The names of the streams that the rollback guard could not confirm as the newest.

    Raises:
        StateError: a stream lacks releases that the rollback guard has recorded; or the rollback
            guard cannot be read or written.
    """
    database = Database(state)
    try:
        with database.transaction(write=True) as connection:
            guard = RollbackGuard(database, connection, rollback_guard)
            rows = [*public_rows(connection)]
            for row in rows:
                guard.check(connection, row.id, GuardPosition.from_row(row), accept=True)
            guard.keep(connection, accept=True)
        return tuple(
            row.name
            for row in rows
            if row.step and not guard._entries_of(GuardPosition.from_row(row))
        )
    finally:
        database.close()


def _why(error: Exception) -> str:
    if isinstance(error, CountonError):
        return str(error)
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or "it was altered, or written only in part"
