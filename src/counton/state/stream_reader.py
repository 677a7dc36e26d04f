"""Reading of a stream from its state: by its writer, and by others while somebody writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import extremes
from counton.base.errors import ConcurrentWriterError, InvalidInputError, StateError
from counton.base.exact import check_integer, name_alone
from counton.base.private import Private, reveal
from counton.continual import Counter, Design, Releases
from counton.state import journal, stream_rows
from counton.state import keys as keyfile
from counton.state.authenticated_rows import AuthenticatedContents
from counton.state.commit_input import LateRowStats
from counton.state.database import Database
from counton.state.public_rows import PublicRow
from counton.state.rollback_guard import confirm_release, latest_guard, position_of
from counton.state.sql import Connection

if TYPE_CHECKING:
    from counton.noise import Key
    from counton.state.dedup import DigestSet, Secret
    from counton.state.input_sums import InputSums
    from counton.statistics.results import StatisticResults
    from counton.statistics.statistic import Statistic

#: Numbers of some windows, and the exact totals of the rows seen in each, shape (windows, *shape).
ObservedBlock = tuple[NDArray[np.int64], NDArray[np.int64]]

_Found = TypeVar("_Found")
#: Attempts to read rows that another process changes meanwhile.
_ATTEMPTS = 5


@name_alone
class Amounts(NamedTuple):
    """The size of a stream's sums so far. Secret.

    Attributes:
        largest: largest total of any cell so far, as an integer multiple of the stream's
            resolution.
        whole: sum of the totals of all cells, for a stream with a statistic; 0 for plain counts.
    """

    largest: int
    whole: float


class JournalReader:
    """A stream opened for reading only: it needs no key and does not disturb the writer. See
    `Store.reader`.

    >>> from counton import PureDP, Stream
    >>> from counton.state import Store
    >>> from counton.strategies import Binary
    >>> stream = Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1))
    >>> released = stream.release_many([3, 0, 5])
    >>> with Store("visits.db") as store:
    ...     bool((store.reader("visits").releases(2).values == released.values[1:]).all())
    True
    >>> stream.close()
    """

    def __init__(
        self,
        database: Database,
        row: PublicRow,
        design: Design,
        public_facts: Mapping[str, object],
        key: keyfile.KeySource,
    ) -> None:
        """Build a reader from a stream's database row."""
        #: Name of the stream in its database, and public fingerprint of the stream's key.
        self.name = str(row.name)
        self.key_fingerprint = str(row.key_fingerprint)
        #: Number of released steps: by this writer, or when the reader was made.
        self.step = int(row.step)
        #: Strategy, guarantee, contribution bound, shape, and noise distribution of the stream.
        self.design = design
        self._database = database
        self._row = row
        self._key_source = key
        self._public_facts = dict(public_facts)
        #: Whether the rollback guard has recorded the last release.
        self._is_recorded = False
        #: Lists of the rows that decide what counts, checked against the MAC.
        self._contents: AuthenticatedContents | None = None

    @property
    def database(self) -> Database:
        """The open database that holds the stream's state."""
        return self._database

    @property
    def public_facts(self) -> dict[str, Any]:
        """Current public facts of the stream, such as its options, as JSON values by name."""
        return dict(self._public_facts)

    def record_release(self) -> None:
        """Have the rollback guard record the last release, which comes before it is shown.

        Raises:
            StateError: the release cannot be recorded, or another release of its step is recorded.
        """
        if not self._is_recorded:
            confirm_release(self._database, self.name)
            self._is_recorded = True

    @cached_property
    def statistic(self) -> Statistic | None:
        """Statistic that the stream's cells count; None for plain counts."""
        if self.design.statistic is None:
            return None
        from counton.statistics.live_statistic import statistic_of

        return statistic_of(self.design.statistic)[0]

    def releases(self, start: int = 1, stop: int | None = None) -> Releases:
        """Return the releases of steps ``start..stop-1`` exactly as they were released.

        Found groups that are not shown are included, and secret: publish the job's own table
        instead.

        Raises:
            InvalidInputError: the steps are not all released.
        """
        self.record_release()
        design = self.design
        step = self.step
        start = check_integer("start", start, 0)
        stop = step + 1 if stop is None else check_integer("stop", stop, 0)
        if not 1 <= start <= stop <= step + 1:
            raise InvalidInputError(
                f"steps {start} to {stop - 1} are not all released; stream {design.name!r} has "
                f"released steps 1 to {step}: ask only for these"
            )
        with self.database.transaction(write=False) as connection:
            values = journal.read(connection, self._row.id, start, stop, design).values
        return Releases(range(start, stop), values, design)

    def results(
        self, start: int = 1, stop: int | None = None, read_as: Statistic | None = None
    ) -> StatisticResults:
        """Return the statistic's results at steps ``start..stop-1``, computed from the released
        noisy cells.

        Args:
            start, stop: steps to read; by default all released ones.
            read_as: another form of the statistic for the same cells, such as `TopK` of another k.

        Raises:
            InvalidInputError: the steps are not all released, or the stream holds plain counts.
        """
        from counton.statistics.results import StatisticResults

        statistic = self.statistic
        if statistic is None:
            raise InvalidInputError(
                f"stream {self.design.name!r} has counts and no statistic, so it has no results: "
                "ask for its releases"
            )
        if read_as is not None and not read_as.allows(statistic):
            raise InvalidInputError(
                f"read_as is another statistic than {statistic!r}, the statistic of stream "
                f"{self.design.name!r}: give a statistic with the same numbers"
            )
        releases = self.releases(start, stop)
        return StatisticResults(statistic if read_as is None else read_as, releases.steps, releases)

    def observed_blocks(
        self, further_windows: Private[NDArray[np.int64]] | None = None
    ) -> Private[Iterator[ObservedBlock]]:
        """Yield the exact totals of the rows read in each window, some windows at a time.

        No step may be released while this iterates.

        Args:
            further_windows: windows that are read in addition to those with rows after the last
                release; None reads all windows.
        """
        return Private(self._blocks(None if further_windows is None else reveal(further_windows)))

    def _blocks(self, further_windows: NDArray[np.int64] | None) -> Iterator[ObservedBlock]:
        with self._open_contents(checks_mac=False) as (connection, contents):
            for seen in journal.read_observed(
                connection, contents.observed, self.step, further_windows
            ):
                yield seen.steps, seen.totals

    def digest_sets(self, kind: str) -> Private[Iterator[DigestSet]]:
        """Return keyed digests of the counted users ("user") or row ids ("id"), by period.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the digests were altered.
        """
        return Private(self._digest_sets(kind))

    def _digest_sets(self, kind: str) -> Iterator[DigestSet]:
        from counton.state import dedup

        with self._open_contents() as (connection, contents):
            yield from dedup.read(connection, contents.digests, kind)

    def input_sums(self) -> Private[InputSums | None]:
        """Return the sums of the last input; None if there are none. Secret.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the sums were altered.
        """
        from counton.state import input_sums

        return Private(self._read_contents(input_sums.read))

    def is_unchanged_since(self, sums: InputSums) -> bool:
        """Return whether all that decides what counts is as the run has left it that kept sums.

        Args:
            sums: sums that the stream keeps.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the lists of what decides were altered.
        """
        from counton.state import input_sums

        def digest(_connection: Connection, contents: AuthenticatedContents) -> str:
            return input_sums.digest_of_others(contents)

        return self._read_contents(digest) == sums.others

    def digest_of_sums(self, digest: str) -> str:
        """Return the digest under which the stream keeps the sums of an input.

        Args:
            digest: digest of all on which the sums depend.

        Raises:
            NoiseKeyError: the key is not the stream's.
        """
        from counton.state import input_sums

        return input_sums.keyed_digest(digest, self._sums_key)

    def labels(self) -> Private[tuple[str, ...]]:
        """Return the labels of found groups, in the order of their cells. Secret."""
        from counton.state import dedup

        def read(connection: Connection, contents: AuthenticatedContents) -> tuple[str, ...]:
            return dedup.read_labels(connection, contents.digests)

        return Private(self._read_contents(read, checks_mac=False))

    def secret(self) -> Secret | None:
        """Return the secret key of the digests of users and row ids; None if there are none.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the secret was altered.
        """
        from counton.state import dedup

        subkey = dedup.subkey(self._key, self.design.name)

        def read(connection: Connection, contents: AuthenticatedContents) -> Secret | None:
            return dedup.read_secret(connection, contents.digests, subkey)

        return self._read_contents(read)

    @property
    def amounts(self) -> Private[Amounts]:
        """The sizes of the stream's exact sums so far. Secret.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the sums were altered.
        """
        totals = reveal(self._committed_counter().totals_taken)
        statistic = self.statistic
        smallest, most = extremes(totals)
        whole = 0.0
        if statistic is not None and totals.size:
            whole = float(statistic.total(totals[None])[0])
        return Private(Amounts(max(-smallest, most), whole))

    @property
    def late_row_stats(self) -> Private[LateRowStats]:
        """Numbers of rows received, and of those after their window's release. Exact: secret.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the numbers were altered.
        """

        def read(connection: Connection, contents: AuthenticatedContents) -> LateRowStats:
            del contents  # which checks the row that is read here
            row = stream_rows.find(connection, self.name)
            return LateRowStats(int(row.arrived), int(row.late))

        return Private(self._read_contents(read))

    def _committed_counter(self) -> Counter:
        """Return the counter at the last commit, rebuilt from the state."""

        def read(connection: Connection, contents: AuthenticatedContents) -> Counter:
            del contents  # which checks the row that is read here
            row = stream_rows.find(connection, self.name)
            if row.step != self.step:
                raise self._changed_meanwhile()
            return stream_rows.load_counter(row, self._key, None)

        return self._read_contents(read)

    def has_source(self, digest: str) -> bool:
        """Return True if the stream has counted a file with this digest.

        Raises:
            NoiseKeyError: the key is not the stream's.
            StateError: the record of counted files was altered.
        """

        def read(connection: Connection, contents: AuthenticatedContents) -> bool:
            return journal.has_source(connection, contents.sources, digest, self._source_key)

        return self._read_contents(read)

    def _read_contents(
        self,
        read: Callable[[Connection, AuthenticatedContents], _Found],
        *,
        checks_mac: bool = True,
    ) -> _Found:
        """Call a function that reads rows which decide what counts; see `_open_contents`."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._open_contents(checks_mac=checks_mac) as (connection, contents):
                    return read(connection, contents)
            except ConcurrentWriterError:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _open_contents(
        self, *, checks_mac: bool = True
    ) -> Iterator[tuple[Connection, AuthenticatedContents]]:
        """Open a transaction, with the lists of the rows that decide what counts.

        Args:
            checks_mac: check the lists against the MAC, which needs the key. Otherwise only damage
                is noticed.

        Raises:
            StateError: the lists, or rows that are read in the ``with`` block, were altered.
            ConcurrentWriterError: another process has changed the rows meanwhile.
        """
        with self.database.transaction(write=False) as connection:
            now = self._mac_in(connection)
            try:
                yield connection, self._contents_at(connection, now, checks_mac=checks_mac)
            except StateError:
                # On a server, statements of one transaction may see different commits.
                if self._mac_in(connection) == now:
                    raise
                raise self._changed_meanwhile() from None

    def _contents_at(
        self, connection: Connection, now: bytes, *, checks_mac: bool
    ) -> AuthenticatedContents:
        """Return the lists of rows of a state whose MAC is ``now``; see `_open_contents`."""
        if self._contents is not None and self._contents.mac == now:
            return self._contents
        if not checks_mac:
            return AuthenticatedContents.read_lists(connection, self._row.id, now)
        row = stream_rows.find(connection, self.name)
        identity = self._database.identity
        self._contents = stream_rows.check_mac(connection, identity, row, self._key)
        return self._contents

    def _changed_meanwhile(self) -> ConcurrentWriterError:
        return ConcurrentWriterError(
            f"another process has released in stream {self.name!r} in the meantime, so nothing was "
            "released here: run the same command again"
        )

    def _mac_in(self, connection: Connection) -> bytes:
        """Return the MAC that the state has now."""
        sql = "SELECT seal FROM counton_streams WHERE id = :stream"
        return bytes(connection.value(sql, stream=self._row.id))

    @property
    def epoch(self) -> int:
        """Number of the last writer; each opening for writing raises it."""
        return int(self._row.writer_epoch)

    def rollback_suspicion(self) -> str | None:
        """Return the rollback guard's reason to suspect an old copy of the state; None without a
        sign of that.
        """
        try:
            guard = latest_guard(self._database)
            with self._database.transaction(write=False) as connection:
                position_of(connection, self._database, self.design.name, guard)
        except StateError as error:
            return str(error)
        return None

    @cached_property
    def _key(self) -> Key:
        """The key of the stream. A key with another fingerprint than the stream's is refused."""
        row = self._row
        noise_key = keyfile.key_for(
            self._database, row.key_fingerprint, row.key_salt, self._key_source
        )
        stream_rows.check_key_of(row, noise_key)
        return noise_key

    @cached_property
    def _source_key(self) -> bytes:
        """The stream's key for digests of counted files."""
        return self._key.derive(b"sources", self._row.name.encode())

    @cached_property
    def _sums_key(self) -> bytes:
        """The stream's key for the digest of the last input."""
        return self._key.derive(b"sums of input", self._row.name.encode())
