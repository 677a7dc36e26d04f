"""Durable streams: a counter whose releases are committed before anybody sees them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from counton.base.arrays import IntegersOrFloats
from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InputChangedError,
    InvalidInputError,
    StateError,
    param,
)
from counton.base.exact import check_integer, name_alone, quote
from counton.base.private import Private, reveal
from counton.continual import Counter, Design, Releases, StepRelease
from counton.continual.counter import OneAtATime
from counton.continual.noise_cache import EncryptedNoise
from counton.noise import Key
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.ledger import totals_in_words
from counton.privacy.value_grid import number_array
from counton.state import journal, ledger_rows, stream_rows
from counton.state import keys as keyfile
from counton.state.authenticated_rows import AuthenticatedContents
from counton.state.commit_input import CommitInput, LateRowStats
from counton.state.database import Closing, CommitHook, Database, reading
from counton.state.public_rows import OPEN_COLUMNS, OpenRow, StreamRow, check_row, checksum_of
from counton.state.rollback_guard import GuardPosition, RollbackGuard
from counton.state.sql import Connection
from counton.state.store import Store
from counton.state.stream_reader import JournalReader
from counton.statistics.accumulator_statistic import refuse_unreadable_cells
from counton.statistics.resolved import describe_uncovered, refuse_wrong_contribution
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.statistics.statistic import Statistic


#: What to give in place of inputs of another shape.
_SHAPE_REMEDY = "pass one total for each step and declared cell"


@name_alone
class _Transaction(NamedTuple):
    """What one transaction of a stream writes. Secret.

    Attributes:
        counter: the counter after the new steps; without new steps, the counter of the last commit.
        journal_rows: rows of the journal for the new steps; none if nothing is released.
        commit_input: inputs of the new steps, and what else is stored.
        commit_hook: see `Stream.commit`.
    """

    counter: Counter
    journal_rows: Sequence[journal.NewJournalRow]
    commit_input: CommitInput
    commit_hook: CommitHook | None


@name_alone
class _NewReleases(NamedTuple):
    """Releases of new steps, before anybody has seen them. Secret until they are committed.

    Attributes:
        releases: the noisy values.
        std: standard deviation of the noise of each release.
        journal_rows: the rows of the journal that keep them.
        digest: digest of the last release, for the rollback guard; "" without a release.
    """

    releases: Releases
    std: NDArray[np.float64]
    journal_rows: Sequence[journal.NewJournalRow]
    digest: str


class Stream(JournalReader, Closing):
    """A series of releases kept in a database: what was released stays released, after any crash.

    A stream holds counts, or a statistic whose cells are counted. `release_many` takes the changes
    of a statistic's cells, as it takes counts, and `results` returns the results.

    Make a stream with `create`, continue it with `open`. One process writes at a time: the process
    that opens a stream takes it over, and the former writer gets ``ConcurrentWriterError`` at its
    next release. Each opening raises a number in the stream's row, the writer epoch. A commit
    changes the row only if epoch and step are those that this writer knows. No lock outlives a
    killed process. A process that is killed at any moment cannot show two values for one step:
    noise is a function of key and step, and the journal (the table of releases) is written before
    anything is shown.

    The state holds exact sums, and for some statistics users: it is as secret as the data. The key
    is not in it. An old copy of the state lacks later steps; the rollback guard, a file away from
    the state that records the last step, shows this, and the copy is refused.

    >>> from counton import PureDP
    >>> from counton.strategies import Binary
    >>> with Stream.create("visits.db", "visits", Binary(100), PureDP(epsilon=1.0)) as stream:
    ...     first = stream.release(3)
    >>> with Stream.open("visits.db", "visits") as stream:
    ...     stream.step, stream.replay(1, 3).value == first.value
    (1, True)
    """

    def __init__(
        self,
        database: Database,
        row: OpenRow,
        public_facts: Mapping[str, object],
        key: Key,
        guard: RollbackGuard,
        counter: Counter,
        contents: AuthenticatedContents,
        strategy: StreamStrategy | None = None,
    ) -> None:
        """Build a stream from its database row and its key; users call `create` or `open`."""
        self._key = key
        self._strategy = strategy
        self._guard = guard
        self._epoch = int(row.writer_epoch)
        self._forgotten = int(row.forgotten)
        self._late_row_stats = LateRowStats(int(row.arrived), int(row.late))
        # The standard deviation of the last step that this writer released, so that `release` need
        # not compute it again.
        self._last_std: dict[int, float] = {}
        # The last position that this writer had recorded; `record_release` below corrects step 0.
        self._recorded_in_guard = GuardPosition(row.key_fingerprint, row.name, 0)
        self._digest_key = key.derive(b"journal digest", row.name.encode())
        self._turn = OneAtATime(f"stream {row.name!r}", remedy="open it anew in each process")
        self._closed = False
        super().__init__(database, row, counter.design, public_facts, key)
        self._authenticated = contents
        # The text of `_public_facts` in the state, with which a changed text is compared.
        self._stored_public_facts = str(row.details)
        # None while the counter may be ahead of the journal: it is then rebuilt when needed.
        self._counter_at_commit: Counter | None = counter
        # The counter that has its table of noise: a rebuilt counter gets it at its next release.
        self._counter_with_noise_table: Counter | None = None
        self.record_release()

    @classmethod
    def create(
        cls,
        state: str | os.PathLike[str] | Store,
        name: str,
        strategy: StreamStrategy,
        guarantee: Guarantee,
        *,
        key: keyfile.KeySource = None,
        contribution: ContributionBound | None = None,
        shape: tuple[int, ...] = (),
        public_facts: Mapping[str, object] | None = None,
        noise_guarantee: Guarantee | None = None,
        statistic: Statistic | None = None,
        rollback_guard: str | os.PathLike[str] | None = None,
    ) -> Stream:
        """Begin a stream and enter its guarantee in the ledger of the database, the record of spent
        privacy loss.

        Args:
            state: path of a SQLite file (made with mode 0600 if missing), or a database URL; or an
                open `Store`, whose connection then belongs to the stream, which closes it.
            name: name of the stream within the database; it is part of the address of its noise.
            strategy: how the noise is correlated over time.
            guarantee: privacy guarantee for one protected unit over the whole stream.
            key: the secret, used as it is; or where it is kept: a file, ``env:NAME`` or
                ``command:...``. Without it ``STATE.key`` beside a SQLite file is used. A missing
                file is made. From an existing key a new key is derived for this state.
            contribution: how much one protected unit changes at most. Default: one count is added
                or removed, or what the statistic states. With a statistic, give this argument if
                the caller bounds a unit's events; compute it from
                ``statistic.resolve_parameters(guarantee, strategy.horizon)``, and give that
                statistic too.
            shape: shape of one step's input and output, () for a single number; a statistic uses
                the shape of its cells, and with ``noise_guarantee`` it is the shape of all groups
                together.
            public_facts: what anybody may know of the stream (JSON values), such as names of
                groups.
            noise_guarantee: for cells that are created only when needed: the guarantee that the
                noise alone keeps (see `Counter`). The caller must then choose the cells to show by
                a private rule, so that ``guarantee`` holds for the values and the choice together.
            statistic: the statistic that the cells count: one of ``counton.statistics``.
            rollback_guard: a folder, away from the state, for the rollback guard, a record of
                releases that shows old copies; None: its last place, at first
                ``$XDG_STATE_HOME/counton``. "none": no rollback guard, so that nobody notices an
                old copy.

        Raises:
            StateError: the stream exists; the state lacks releases that its rollback guard has
                recorded, because it was lost or restored from an old copy; or the database cannot
                be used.
            BudgetExceededError: the guarantee goes beyond the limit of the database; nothing is
                created.
            NoiseKeyError: ``key`` is None, and ``STATE.key`` holds a key that no stream of the
                state uses.
            InvalidInputError: an argument is outside what is allowed; nothing is created.
        """
        if statistic is not None:
            if shape != () and noise_guarantee is None:
                raise InvalidInputError(
                    f"shape {shape} cannot be given with {statistic!r}, which decides it itself: "
                    "leave it out"
                )
            statistic = _check_statistic(statistic, strategy, guarantee, contribution)
        if public_facts is not None and not isinstance(public_facts, Mapping):
            raise InvalidInputError(
                f"public_facts are {quote(public_facts)}; give a dictionary of JSON values"
            )
        stored_facts = stream_rows.PublicFacts.from_values(dict(public_facts or {}))
        stream_rows.check_length(name)
        address_or_database = state.database if isinstance(state, Store) else state
        with keyfile.key_of_new_stream(address_or_database, key, rollback_guard) as opened:
            noise_key, database = opened
            counter = _counter_of_new_stream(
                strategy,
                guarantee,
                key=noise_key,
                name=name,
                contribution=contribution,
                shape=shape,
                noise_guarantee=noise_guarantee,
                statistic=statistic,
            )
            if database is None:
                assert not isinstance(address_or_database, Database)
                database = Database(address_or_database, create=True)
            with ExitStack() as unless_made:
                unless_made.callback(database.close)
                stream = cls._enter(database, counter, noise_key, stored_facts, rollback_guard)
                unless_made.pop_all()
                return stream

    @classmethod
    def _enter(
        cls,
        database: Database,
        counter: Counter,
        key: Key,
        stored_facts: stream_rows.PublicFacts,
        rollback_guard: str | os.PathLike[str] | None,
    ) -> Stream:
        """Enter a new stream in a state and its ledger, in one transaction; see `create`."""
        with database.transaction(write=True) as connection:
            guard = RollbackGuard(database, connection, rollback_guard)
            guard.keep(connection)
            ledger_rows.lock(connection)
            stream_rows.refuse_existing_stream(connection, database, counter.design.name)
            # This precedes the first release, and no noise depends on the name of a unit.
            counter.design = stream_rows.with_unit(
                ledger_rows.spent_units_in(connection),
                counter.design,
                ledger_rows.defining_options_in(stored_facts.values()),
            )
            row = stream_rows.insert_stream(connection, database, counter, key, stored_facts)
        contents = AuthenticatedContents.empty(row.id, bytes(row.seal))
        return cls(database, row, stored_facts.values(), key, guard, counter, contents)

    @classmethod
    def open(
        cls,
        state: str | os.PathLike[str] | Store,
        name: str,
        *,
        key: keyfile.KeySource = None,
        strategy: StreamStrategy | None = None,
        rollback_guard: str | os.PathLike[str] | None = None,
        forgetting: bool = False,
    ) -> Stream:
        """Continue a stream and become its writer.

        Args:
            state: path of a SQLite file, or a database URL; or an open `Store`, whose connection
                then belongs to the stream, which closes it.
            name: name of the stream within the database.
            key: the secret, or where it is kept, as for `create`.
            strategy: needed only for strategies that are not part of counton.
            rollback_guard: as for `create`.
            forgetting: the caller is going to delete people's data: also open a state that lacks
                earlier deletions.

        Raises:
            StateError: no such stream, or the state is damaged, of another format, missing, or
                restored from an old copy (the rollback guard has recorded later releases).
            NoiseKeyError: the key is not the one the stream was created with.
            ConcurrentWriterError: the database is locked by another process.
        """
        database = state.database if isinstance(state, Store) else Database(state)
        with ExitStack() as unless_made:
            unless_made.callback(database.close)
            with database.transaction(write=True) as connection:
                row = _become_writer(connection, database, name)
                noise_key = keyfile.key_for(database, row.key_fingerprint, row.key_salt, key)
                stream_rows.check_key_of(row, noise_key)
                _check_end_of_journal(connection, row)
                # The MAC is checked before the rollback guard: the error of an altered state names
                # the alteration, also if the guard is missing.
                contents = stream_rows.check_mac(connection, database.identity, row, noise_key)
                guard = RollbackGuard(database, connection, rollback_guard)
                guard.check(connection, row.id, GuardPosition.from_row(row), forgetting=forgetting)
                stream_rows.check_digest(connection, row, noise_key)
                guard.keep(connection)
                with reading(f"the public facts of stream {name!r}"):
                    public_facts = stream_rows.read_public_facts(connection, row.id, row.details)
                counter = stream_rows.load_counter(row, noise_key, strategy)
                stream = cls(
                    database, row, public_facts, noise_key, guard, counter, contents, strategy
                )
                if not forgetting:
                    _refuse_wrong_bound(stream)
            unless_made.pop_all()
            return stream

    @property
    @override
    def database(self) -> Database:
        if self._closed:
            raise StateError(
                f"this object of stream {self.name!r} is closed: open the stream again with "
                "Stream.open"
            )
        return self._database

    @property
    def totals_apart(self) -> list[str]:
        """Lines on the total privacy loss of each kind of unit of the state, if it has several."""
        with self.database.transaction(write=False) as connection:
            if connection.value("SELECT COUNT(DISTINCT unit) FROM counton_ledger") < 2:
                return []
            return totals_in_words(ledger_rows.totals(connection))

    def describe(self) -> str:
        """Describe in words the protected unit of the stream and its privacy guarantee."""
        return self._committed_counter().describe()

    def release(self, x: ArrayLike, *, step: int | None = None) -> StepRelease:
        """Release one step: the release is committed to the journal (the stored table of releases),
        then returned.

        Args:
            x: this step's total, of the stream's shape, in data units.
            step: number that this step is meant to have. If it is released already, the answer
                comes from the journal; so a caller who does not know whether an earlier call
                succeeded may repeat it.

        Raises:
            InvalidInputError: x is outside what is allowed; nothing was released or changed.
            InputChangedError: ``step`` was released with another input.
            ConcurrentWriterError: another process took the stream over, or holds the lock.
        """
        batch: Any = x[None] if isinstance(x, np.ndarray) else [x]
        releases = self.release_many(batch, first_step=step)
        value = releases.values[0]
        released_step = releases.steps[0]
        std = self._last_std.get(released_step)
        number = value.item() if value.ndim == 0 else value
        return StepRelease(
            released_step,
            number,
            float(releases.std()[0]) if std is None else std,
            releases._design,
        )

    def release_many(
        self,
        xs: ArrayLike,
        *,
        first_step: int | None = None,
    ) -> Releases:
        """Release consecutive steps in one transaction: all of them, or none.

        Args:
            xs: totals, shape ``(n, *shape)``, in data units.
            first_step: number that the first of these steps is meant to have; steps that are
                released already are answered from the journal, the table of releases (see
                `release`).

        Raises:
            InvalidInputError: an input is outside what is allowed; nothing was released or changed.
            InputChangedError: a released step had another input.
            ConcurrentWriterError: another process took the stream over, or holds the lock.
        """
        with self._turn.take():
            array = number_array(xs, "inputs", _SHAPE_REMEDY)
            totals = self._committed_counter().design.contribution.grid_total(array)
            return self._answer_or_release(totals, first_step)

    def commit(
        self, commit_input: Private[CommitInput], commit_hook: CommitHook | None = None
    ) -> Releases | None:
        """Commit everything that a run adds, in one transaction: release its new steps, if it has
        any, and store the rest.

        Args:
            commit_input: inputs of new steps, and what else the run stores.
            commit_hook: function called in the same transaction, before the commit; its exception
                undoes all.

        Returns:
            The releases; None if nothing was released.

        Raises:
            InvalidInputError: an input is outside what is allowed; nothing was released or changed.
            InputChangedError: a file was counted before.
            ConcurrentWriterError: another process took the stream over, or holds the lock.
        """
        with self._turn.take():
            content = reveal(commit_input)
            counter = self._committed_counter()
            if content.inputs is not None:
                self._check_shape(content.inputs, counter.design)
                return self._release_new_steps(counter, content.inputs, content, commit_hook)
            self._write_transaction(
                _Transaction(
                    counter=counter, journal_rows=(), commit_input=content, commit_hook=commit_hook
                )
            )
            self.record_release()
            return None

    @property
    @override
    def late_row_stats(self) -> Private[LateRowStats]:
        """Numbers of rows received, and of those after their window's release. Exact: secret."""
        return Private(self._late_row_stats)

    def amend(self, public_facts: Mapping[str, object]) -> None:
        """Replace the public facts of the stream that `create` got.

        Nothing that is released depends on them.

        Args:
            public_facts: JSON values, such as names of groups. Facts that are left out are deleted.

        Raises:
            InvalidInputError: the facts are no dictionary of JSON values.
            ConcurrentWriterError: another process took the stream over, or holds the lock.
        """
        stored_facts = stream_rows.PublicFacts.from_values(dict(public_facts))
        with self._turn.take():
            self.record_release()
            with self.database.transaction(write=True) as connection:
                row = self._lock_row(connection, "*")
                stored_facts.write(connection, self._row.id, self._stored_public_facts)
                mac = self._write_row(
                    connection, {**row, "details": stored_facts.text}, self._authenticated
                )
            self._authenticated = self._authenticated._replace(mac=mac)
            self._take_public_facts(stored_facts)

    def replay(self, step: int, x: ArrayLike) -> StepRelease:
        """Return the release of a step from the journal, if ``x`` is the input of that release.

        Args:
            step: a released step, from 1.
            x: the exact total of the step, as in `release`.

        Raises:
            InvalidInputError: the step is not released, or x is outside what is allowed.
            InputChangedError: x differs from the step's input.
        """
        if not self.step:
            raise InvalidInputError(f"stream {self.name!r} has released no step yet; use release")
        remedy = f"later steps of stream {self.name!r} are not released yet; use release"
        return self.release(x, step=check_integer("step", step, 1, self.step, remedy))

    def close(self) -> None:
        """Close the stream's database. Everything released is already in it."""
        with self._turn.lock:
            if not self._closed:
                self._database.close()
            self._closed = True

    def __repr__(self) -> str:
        return f"Stream(name={self.name!r}, step={self.step})"

    @override
    def record_release(self) -> None:
        """Have the rollback guard record the last release, unless this writer has done so."""
        self._record_digest(None)

    def _record_digest(self, digest: str | None) -> None:
        """Have the rollback guard record the last release.

        Args:
            digest: digest of the release; None: read it, if a killed process did not record it.
        """
        step = self.step
        position = self._position()
        if position == self._recorded_in_guard:
            return
        if digest is None and self._guard.is_behind(position):
            with self._database.transaction(write=False) as connection:
                digest = journal.digest_at(connection, self._row.id, step) if step else ""
        if digest is not None:
            self._guard.note(position, digest, self._row.id)
        self._recorded_in_guard = position

    @override
    def _committed_counter(self) -> Counter:
        """Return the counter at the last commit, rebuilt after a failed release.

        The rollback guard first records the last release, if it has not.
        """
        with self._turn.lock:
            self.record_release()
            database = self.database
            if self._counter_at_commit is None:
                with database.transaction(write=False) as connection:
                    row = stream_rows.find(connection, self.name)
                if row.writer_epoch != self._epoch:
                    raise self._taken_over()
                if row.step != self.step:
                    raise StateError(
                        f"stream {self.name!r} was interrupted while it saved a step, and is at "
                        f"step {row.step}, not {self.step}: open it again and look at its step"
                    )
                self._counter_at_commit = stream_rows.load_counter(row, self._key, self._strategy)
            return self._counter_at_commit

    def _answer_or_release(self, grid: NDArray[np.int64], first_step: int | None) -> Releases:
        """Answer steps that were released from the journal, and release the new ones.

        Args:
            grid: exact inputs of the steps.
            first_step: number of the first one; None: the first that is not released.
        """
        counter = self._committed_counter()
        self._check_shape(grid, counter.design)
        following = self.step + 1
        remedy = f"release the steps of stream {self.name!r} before it first"
        first = following if first_step is None else first_step
        first = check_integer("first step", first, 1, following, remedy)
        n_known = min(len(grid), self.step + 1 - first)
        if not n_known:
            return self._release_new_steps(counter, grid, CommitInput(), None)
        values = self._released_values(first, grid[:n_known], counter.design)
        if n_known < len(grid):
            fresh = self._release_new_steps(counter, grid[n_known:], CommitInput(), None)
            values = np.concatenate([values, fresh.values])
        return Releases(range(first, first + len(grid)), values, counter.design)

    def _check_shape(self, grid: NDArray[np.int64], design: Design) -> None:
        """Refuse inputs that are not one array of the stream's shape for each step.

        The number of cells of a stream that finds its groups is not checked, because it grows.
        """
        step_shape = design.step_shape
        shape = grid.shape[1:] if design.finds_cells else step_shape
        if grid.ndim == 0 or grid.shape[1:] != shape or len(shape) != len(step_shape):
            raise InvalidInputError(
                f"inputs of stream {self.name!r} have shape {grid.shape}; it must be "
                f"{('n', *step_shape)}: {_SHAPE_REMEDY}"
            )

    def _released_values(
        self, first: int, old: NDArray[np.int64], design: Design
    ) -> IntegersOrFloats:
        """Return the journal's values of released steps, if their inputs are the same again.

        Args:
            first: number of the first of these steps.
            old: the inputs that the caller gives for them.
            design: the design of the stream at the last commit.

        Raises:
            InputChangedError: a step was released from another input.
        """
        stop = first + len(old)
        with self._database.transaction(write=False) as connection:
            entries = journal.read(connection, self._row.id, first, stop, design)
        if entries.values.shape != old.shape:
            raise InputChangedError(
                f"steps {first} to {stop - 1} were released from inputs of another shape than "
                f"{old.shape[1:]}: give the inputs of the first call again"
            )
        journal.check_inputs(entries.input_digests, first, old, self._digest_key)
        return entries.values

    def _release_new_steps(
        self,
        counter: Counter,
        grid: NDArray[np.int64],
        commit_input: CommitInput,
        commit_hook: CommitHook | None,
    ) -> Releases:
        """Add noise to the inputs of new steps, and commit the releases; nothing is shown before.

        Args:
            counter: the counter at the last commit.
            grid: exact inputs of the new steps.
            commit_input: what is stored in the same transaction.
            commit_hook: see `commit`.
        """
        self._prepare_counter(counter, grid)
        try:
            if (statistic := self.statistic) is not None:
                totals = reveal(counter.totals_taken)
                windows = reveal(counter.windows_with(grid))
                refuse_unreadable_cells(statistic, counter.design, totals, windows)
            fresh = self._make_releases(counter, grid)
            self._write_transaction(
                _Transaction(
                    counter=counter,
                    journal_rows=fresh.journal_rows,
                    commit_input=commit_input,
                    commit_hook=commit_hook,
                )
            )
        except BaseException:
            # Drop a counter that is ahead of the journal; it is read again when needed.
            if counter.step != self.step:
                self._counter_at_commit = None
            raise
        self._take_committed_steps(counter, fresh)
        return fresh.releases

    def _prepare_counter(self, counter: Counter, grid: NDArray[np.int64]) -> None:
        """Give the counter the cells of new groups, and the stored noise of its next steps."""
        if counter.design.finds_cells:
            self._counter_at_commit = None  # with new cells the counter is ahead of the journal
            counter.widen(grid.shape[1], self._key)
        if len(grid) and counter is not self._counter_with_noise_table:
            self._counter_with_noise_table = counter
            counter.keep_noise(NoiseTable(self._database, self._row.id))

    def _make_releases(self, counter: Counter, grid: NDArray[np.int64]) -> _NewReleases:
        """Advance the counter by new steps; return their releases, and what the journal keeps."""
        releases = counter.release_exact(grid)
        std = counter.std_of(releases) if len(grid) else np.empty(0)
        rows = [*journal.release_rows(self._row.id, releases, std, grid, self._digest_key)]
        digest = ""
        if rows:
            digest = stream_rows.release_digest(
                self._key, self.name, counter.step, releases.values[-1]
            )
            rows[-1]["digest"] = digest
        return _NewReleases(releases=releases, std=std, journal_rows=rows, digest=digest)

    def _take_committed_steps(self, counter: Counter, fresh: _NewReleases) -> None:
        """Go on from steps that are committed, and have the rollback guard record the last one."""
        self._counter_at_commit = counter
        self.step = counter.step
        self.design = counter.design
        if fresh.journal_rows:
            self._record_digest(fresh.digest)
            self._last_std = {self.step: float(fresh.std[-1])}

    def _write_transaction(self, transaction: _Transaction) -> None:
        """Commit releases, and all that is stored with them, in one transaction.

        Raises:
            StateError: another copy of the state may have released these steps: the rollback guard
                has recorded more than this state has, or cannot be written.
        """
        commit_input = transaction.commit_input
        stored_facts = None
        if commit_input.public_facts is not None:
            stored_facts = stream_rows.PublicFacts.from_values(dict(commit_input.public_facts))
        late_row_stats = commit_input.late_row_stats or self._late_row_stats
        remembered = commit_input.remembered
        forgotten = self._forgotten + (remembered is not None and remembered.forgets)
        contents = self._authenticated.copy()
        with self._database.transaction(write=True) as connection:
            row = self._lock_row(connection)
            # Another process may have moved it.
            self._guard = RollbackGuard(self._database, connection)
            if transaction.journal_rows:
                self._check_guard(connection, transaction.counter.step)
                journal.write(connection, transaction.journal_rows)
            if transaction.commit_hook is not None:
                transaction.commit_hook(connection)
            self._write_contents(connection, contents, commit_input)
            if stored_facts is not None:
                stored_facts.write(connection, self._row.id, self._stored_public_facts)
                row["details"] = stored_facts.text
            row |= {
                "step": transaction.counter.step,
                "checkpoint": transaction.counter.checkpoint(),
                "forgotten": forgotten,
                **late_row_stats._asdict(),
            }
            mac = self._write_row(connection, row, contents)
        self._authenticated = contents._replace(mac=mac)
        self._late_row_stats = late_row_stats
        self._forgotten = forgotten
        if stored_facts is not None:
            self._take_public_facts(stored_facts)

    def _take_public_facts(self, stored_facts: stream_rows.PublicFacts) -> None:
        """Go on with public facts that are committed."""
        self._stored_public_facts = stored_facts.text
        self._public_facts = stored_facts.values()

    def _position(self) -> GuardPosition:
        """Return the progress of the stream at the last commit."""
        return self._recorded_in_guard._replace(step=self.step, forgotten=self._forgotten)

    def _check_guard(self, connection: Connection, step: int) -> None:
        """Check that the rollback guard has no later release, and can record one of ``step``.

        Raises:
            StateError: the rollback guard has recorded more than this state has, or cannot be
                written.
        """
        if not self.step:
            self._guard.refuse_forgotten(connection, beginning=self.name)
        position = self._position()
        self._guard.check(connection, self._row.id, position)
        self._guard.check_writable_for(position._replace(step=step))

    def _write_contents(
        self, connection: Connection, contents: AuthenticatedContents, commit_input: CommitInput
    ) -> None:
        """Write what a run stores beside releases: totals, digests of files, users and groups."""
        totals_by_window = commit_input.totals_by_window
        journal.write_observed(connection, contents.observed, totals_by_window, self.step)
        if commit_input.sources:
            journal.write_sources(
                connection, contents.sources, commit_input.sources, self._source_key
            )
        if commit_input.labels is not None or commit_input.remembered is not None:
            self._write_memory(connection, contents, commit_input)
        if commit_input.input_sums is not None:  # last: they name the state of all others
            from counton.state import input_sums  # only for rows of files

            input_sums.write(connection, contents, commit_input.input_sums, self._sums_key)

    def _write_memory(
        self, connection: Connection, contents: AuthenticatedContents, commit_input: CommitInput
    ) -> None:
        """Write names of found groups, and digests of users and ids."""
        from counton.state import dedup  # only for rows with users or ids

        if commit_input.labels is not None:
            first, names = commit_input.labels
            dedup.write_labels(connection, contents.digests, first, names)
        if commit_input.remembered is not None:
            subkey = dedup.subkey(self._key, self.name)
            dedup.write(connection, contents.digests, commit_input.remembered, subkey)
            if commit_input.remembered.forgets:
                self._delete_input_sums(connection, contents)
                self._guard.check_writable_for(self._position())

    @staticmethod
    def _delete_input_sums(connection: Connection, contents: AuthenticatedContents) -> None:
        """Delete the sums of the last files: numbers and times of rows of those to forget."""
        from counton.state import input_sums  # only for rows of files

        input_sums.delete(connection, contents.digests)

    def _lock_row(self, connection: Connection, columns: str = OPEN_COLUMNS) -> dict[str, object]:
        """Lock the stream's database row for this writer, and return some of its cells by column.

        Raises:
            ConcurrentWriterError: another process took the stream over.
            StateError: the row is not the one that this writer wrote last.
        """
        sql = f"SELECT {columns} FROM counton_streams WHERE id = :stream"
        row = connection.first(f"{sql}{connection.for_update}", stream=self._row.id)
        if row is None or (row.writer_epoch, row.step) != (self._epoch, self.step):
            raise self._taken_over()
        if bytes(check_row(row).seal) != self._authenticated.mac:
            raise StateError(
                f"stream {self.name!r} was interrupted while it saved something: open it again"
            )
        cells: dict[str, object] = row._asdict()
        return cells

    def _write_row(
        self, connection: Connection, row: dict[str, object], contents: AuthenticatedContents
    ) -> bytes:
        """Write the changed cells of the stream's row with its checksum and MAC; return the MAC.

        It is the last act of a transaction: the MAC covers what the others have written.
        """
        mac = stream_rows.mac_of(self._key, self._database.identity, row, contents)
        connection.execute(
            "UPDATE counton_streams SET step = :step, details = :details, checksum = :checksum,"
            " seal = :seal, forgotten = :forgotten, arrived = :arrived, late = :late,"
            " checkpoint = :checkpoint WHERE id = :id",
            **{**row, "checksum": checksum_of(row), "seal": mac},
        )
        return mac

    @override
    def _contents_at(
        self, connection: Connection, now: bytes, *, checks_mac: bool
    ) -> AuthenticatedContents:
        if self._authenticated.mac != now:
            raise self._changed_meanwhile()
        return self._authenticated

    def _taken_over(self) -> ConcurrentWriterError:
        return ConcurrentWriterError(
            f"stream {self.name!r} was opened by another process, which writes it now; this "
            f"process (writer {self._epoch}) released nothing: end one of the two, then open the "
            "stream again"
        )


def _check_statistic(
    statistic: Statistic,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    contribution: ContributionBound | None,
) -> Statistic:
    """Return a new stream's statistic with all parameters.

    Raises:
        InvalidInputError: a state cannot keep the statistic, or the contribution is not one of its.
    """
    resolved = _complete(statistic, strategy, guarantee)
    if contribution is not None:
        refuse_wrong_contribution(statistic, resolved, contribution)
    if resolved.ordered:
        raise InvalidInputError(
            f"{resolved!r} takes events in their order, which no state keeps: count them "
            "in memory, with counton.Running"
        )
    return resolved


def _complete(statistic: Statistic, strategy: StreamStrategy, guarantee: Guarantee) -> Statistic:
    """Return a new stream's statistic with all parameters; refuse one that cannot be stored."""
    from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict

    resolved = statistic.resolve_parameters(guarantee, strategy.horizon)
    if statistic_from_dict(statistic_to_dict(resolved)) != resolved:
        raise InvalidInputError(
            f"{statistic!r} cannot be built again from its parameters, so a state cannot keep it: "
            "use a statistic of counton.statistics"
        )
    return resolved


def _counter_of_new_stream(
    strategy: StreamStrategy,
    guarantee: Guarantee,
    *,
    key: Key,
    name: str,
    contribution: ContributionBound | None,
    shape: tuple[int, ...],
    noise_guarantee: Guarantee | None,
    statistic: Statistic | None,
) -> Counter:
    """Return the counter of a new stream, at step 0; see `Stream.create`."""
    if statistic is None:
        return Counter(
            strategy,
            guarantee,
            shape=shape,
            noise_guarantee=noise_guarantee,
            key=key,
            name=name,
            contribution=contribution,
        )
    from counton.statistics.live_statistic import counter_of

    return counter_of(
        statistic,
        strategy,
        guarantee,
        batched=True,
        shape_and_guarantee=None if noise_guarantee is None else (shape, noise_guarantee),
        key=key,
        name=name,
        contribution=contribution,
    )


def _become_writer(connection: Connection, database: Database, name: str) -> StreamRow:
    """Raise the writer epoch of a stream, so that the former writer stops; return its row.

    Raises:
        StreamMismatchError: the state has no such stream.
    """
    stream_rows.check_text_name(name)
    # Drawn at random, so that two processes that begin from one number differ.
    further = 1 + secrets.randbelow(2**32)
    if not connection.execute(stream_rows.TAKE_OVER_SQL, name=name, further=further).rowcount:
        raise stream_rows.no_such_stream(connection, database, name)
    return stream_rows.find(connection, name)


def _check_end_of_journal(connection: Connection, row: StreamRow) -> None:
    """Refuse a stream whose journal has more or fewer steps than its row states."""
    sql = "SELECT max(step) FROM counton_journal WHERE stream_id = :stream"
    last = connection.value(sql, stream=row.id) or 0
    if last != row.step:
        raise StateError(
            f"stream {row.name!r} is at step {row.step} but its journal ends at {last}: "
            "the state was altered; restore it from a copy"
        )


def _refuse_wrong_bound(stream: Stream) -> None:
    """Refuse to continue a stream whose noise hides less than its statistic lets a row change.

    Earlier versions created such streams: jobs with ``expire``, ``rho`` and a measured table.

    Raises:
        StateError: the stream's contribution bound is too small for its statistic.
    """
    if stream.statistic is None:
        return
    uncovered = describe_uncovered(stream.statistic, stream.design.contribution)
    if uncovered is not None:
        raise StateError(
            f"stream {stream.name!r} cannot go on, because its noise is too small for its "
            f"guarantee: {uncovered}. Withdraw its numbers and end it "
            f"({param('close_stream(state, name)')}), and begin another stream"
        )


_FROM_NOISE_OF_CELL = "FROM counton_noise WHERE stream_id = :stream AND cell = :cell"
_FIND_NOISE_SQL = (
    f"SELECT step, steps, cell, cells, noise {_FROM_NOISE_OF_CELL}"
    " AND step <= :step ORDER BY step DESC LIMIT 1"
)


@dataclass(frozen=True)
class NoiseTable:
    """Encrypted noise of a stream's next steps; rows may be deleted: it can be drawn again."""

    database: Database
    stream_id: int

    def find(self, step: int, cell: int) -> EncryptedNoise | None:
        """Return the newest noise of the block at ``cell`` from ``step`` or before, or None."""
        with suppress(CountonError), self.database.transaction(write=False) as connection:
            row = connection.first(_FIND_NOISE_SQL, stream=self.stream_id, cell=cell, step=step)
            if row is not None:
                return EncryptedNoise._make(row)
        return None

    def replace(self, cell: int, rows: Sequence[EncryptedNoise]) -> None:
        """Replace the noise of the block at ``cell``; if that fails, silently keep the old one."""
        mine = {"stream_id": self.stream_id}
        with suppress(CountonError), self.database.transaction(write=True) as connection:
            connection.execute(f"DELETE {_FROM_NOISE_OF_CELL}", stream=self.stream_id, cell=cell)
            connection.insert("counton_noise", *(row._asdict() | mine for row in rows))
