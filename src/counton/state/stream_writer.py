"""The one writer of a stream: commits first, answers afterwards, gives way to a later writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.errors import InvalidInput, ReplayMismatch, StateError, StreamConflict
from counton.base.exact import check_integer, name_alone, without_mask
from counton.base.private import Private, open_private
from counton.noise import Key
from counton.numbers import Counter, Releases
from counton.state import creation, journal, records
from counton.state import key_and_witness as keyfile
from counton.state.database import CommitHook, Database
from counton.state.sql import Connection
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.state.seen import Change
    from counton.state.shared import SharedEntry
    from counton.state.stream_facts import Facts
    from counton.statistics.statistic import Events
    from counton.statistics.tally_statistic import TallyStatistic


@name_alone
class Addition(NamedTuple):
    """What is released and kept together. Exact: rooms hand it on as `Private`.

    Attributes:
        inputs: totals of new steps, shape ``(n, *shape)``, in data units; None: none is released.
        observed: totals so far by window (counted from 1), integers of any shape; they replace
            what was kept. With them a later run tells late rows from vanished ones.
        sources: digests of files whose rows are now counted; counting one twice is refused.
        remembered: what becomes of the marks of users and ids.
        labels: of cells that come as they are needed, and the first one's cell; the ones before
            must be there.
        events: of new steps, and for each the number up to its end, instead of all these: a
            statistic takes them in their order.
    """

    inputs: ArrayLike | None = None
    observed: Mapping[int, ArrayLike] = MappingProxyType({})
    sources: Sequence[str] = ()
    remembered: Change | None = None
    labels: tuple[int, Sequence[str]] | None = None
    events: tuple[Events, NDArray[np.int64]] | None = None


class Writer:
    """Holds the counter of a stream between commits. Not public, and for one thread at a time.

    Two processes may open a stream; each opening raises the stream's writer epoch. A commit
    changes the row only where epoch and step are those this writer knows, so of two writers the
    earlier one changes nothing and raises. No lock outlives a killed process.
    """

    def __init__(
        self,
        database: Database,
        row: Any,
        key: Key,
        strategy: StreamStrategy | None,
        witness: keyfile.Witness,
        counter: Counter | None = None,
        shared: SharedEntry | None = None,
    ) -> None:
        self.database, self._shared = database, shared
        self.stream_id: int = row.id
        self.name: str = row.name
        self.step: int = row.step
        self._epoch: int = row.writer_epoch
        self.tallied: TallyStatistic | None = None  # what the cells are of, where rows add up
        self._std = 0.0
        self._released_last: int | None = None  # the last step that this writer has released
        self.key, self._strategy, self._witness = key, strategy, witness
        self._witnessed = keyfile.witness_key(key, row.name)
        self._fingerprint = key.fingerprint
        self._seal = records.Seal(key, row.name)
        # What the seal is of; how much is remembered is counted when it is first asked for.
        self._details, self._remembered = str(row.details), ""
        self._digest = journal.Digester(key.derive(b"journal digest", row.name.encode()))
        self.source_key = journal.source_key(key, row.name)
        self._counter: Counter | None = self._drawing_ahead(
            records.revive(row, key, strategy) if counter is None else counter
        )
        self._forgotten: int = row.forgotten  # how many times people were
        self._noted = 0, 0  # what witness and ledger know: the last step, how often people were
        if counter is None:
            self.settle()

    def settle(self) -> None:
        """Note the last release, if it is not: it is shown after that alone.

        Its process may have been killed before its note, or may have had another witness.
        """
        step, shared = self.step, self._shared
        if self._noted == (step, self._forgotten):
            return
        behind = shared is not None and bool(step) and shared.is_behind(step)
        if behind or self._witness.is_behind(self._fingerprint, self.name, step, self._forgotten):
            digest = self._released_digest(step) if step else ""
            if digest is not None:
                self._note(step, digest)
        self._noted = step, self._forgotten

    def _note(self, step: int, digest: str) -> None:
        """In the ledger first: whatever a witness knows, the ledger knows too."""
        if self._shared is not None and step:
            self._shared.note(step, digest, self._released_digest)
        self._witness.note(
            self._fingerprint,
            self.name,
            step,
            digest,
            self._released_digest,
            writer=self._epoch,
            forgotten=self._forgotten,
        )
        self._noted = step, self._forgotten

    def close(self) -> None:
        """Close the state, and the ledger that it shares with others."""
        self.database.close()
        if self._shared is not None:
            self._shared.close()

    def counter(self) -> Counter:
        """The counter at the last committed step, read again if a release failed half-way."""
        if self._counter is None:
            with self.database.transaction(write=False) as connection:
                row = records.find(connection, self.name)
            if row.writer_epoch != self._epoch:
                raise self._taken_over()
            if row.step != self.step:
                raise StateError(
                    f"stream {self.name!r} was interrupted while it committed and stands at step "
                    f"{row.step}, not {self.step}: open it again and look at its step"
                )
            self._counter = self._drawing_ahead(records.revive(row, self.key, self._strategy))
        return self._counter

    def _drawing_ahead(self, counter: Counter) -> Counter:
        """The same counter, which keeps noise in the state where that saves work."""
        if counter.noise_is_worth_keeping:
            from counton.state.noise_table import NoiseTable  # of many groups or steps alone

            counter.keep_noise(NoiseTable(self.database, self.stream_id))
        return counter

    def take(
        self,
        private: Private[Addition],
        first_step: int | None = None,
        also: CommitHook | None = None,
    ) -> Releases | None:
        """Add to the stream in one transaction; what is released with it, if anything is.

        Steps that were released are answered from the journal, the others are released.
        """
        addition, counter = open_private(private), self.counter()
        if addition.inputs is not None:
            return self._release(counter, addition.inputs, first_step, addition, also)
        self._commit(counter, [], addition, also)
        if addition.remembered is not None and addition.remembered.forgets:
            self._forgotten += 1
        self.settle()
        return None

    def _release(
        self,
        counter: Counter,
        xs: ArrayLike,
        first_step: int | None,
        addition: Addition,
        also: CommitHook | None,
    ) -> Releases:
        array, grid = self._inputs(counter, xs)
        first = self.step + 1 if first_step is None else first_step
        first = check_integer("first step", first, 0)
        if not 1 <= first <= self.step + 1:
            raise InvalidInput(
                f"first step is {first}; it must be within 1 and {self.step + 1}, the next step of "
                f"stream {self.name!r}: release the steps between first"
            )
        known = min(len(grid), self.step + 1 - first)
        if not known:
            return self._advance(counter, array, grid, addition, also)
        answer = self._answer(counter, first, grid[:known])
        if known < len(grid):
            fresh = self._advance(counter, array[known:], grid[known:], addition, also)
            answer = np.concatenate([answer, fresh.values])
        return Releases(range(first, first + len(grid)), answer, counter.design)

    def amend(self, details: Facts) -> None:
        """Keep other public facts."""
        with self.database.transaction(write=True) as connection:
            self._change(connection, "details", details.text)
            details.write(connection, self.stream_id, self._details)
            self._seal.write(connection, self.stream_id, self.step, details.text)
        self._details = details.text

    def _inputs(self, counter: Counter, xs: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Inputs as given, and as the exact integers which the counter will add."""
        xs = without_mask(xs, "the inputs")
        try:
            array = np.asarray(xs)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"inputs of type {type(xs).__name__} do not form an array ({error}): pass one "
                f"total for each step and declared cell"
            ) from error
        shape = counter.shape if counter.design.counters is None else array.shape[1:]
        if array.ndim == 0 or array.shape[1:] != shape or len(shape) != len(counter.shape):
            raise InvalidInput(
                f"inputs of stream {self.name!r} have shape {array.shape}; it must be "
                f"{('n', *counter.shape)}: pass one total for each step and declared cell"
            )
        return array, counter.design.contribution.grid_total(array)

    def _answer(self, counter: Counter, first: int, grid: NDArray[np.int64]) -> NDArray[Any]:
        """What the journal says of released steps, if these are their inputs."""
        stop = first + len(grid)
        with self.database.transaction(write=False) as connection:
            shape = grid.shape[1:] if counter.design.counters is None else (-1,)
            entries = journal.read(connection, self.stream_id, first, stop, shape)
        if entries.values.shape != grid.shape:
            raise ReplayMismatch(
                f"steps {first} to {stop - 1} had inputs of another number of cells: give those"
            )
        journal.check_inputs(entries.input_digests, first, grid, self._digest)
        return entries.values

    def _advance(
        self,
        counter: Counter,
        xs: NDArray[Any],
        grid: NDArray[np.int64],
        addition: Addition,
        also: CommitHook | None,
    ) -> Releases:
        if counter.design.counters is not None:
            self._counter = None  # with more cells it is ahead of the journal
            counter.widen(xs.shape[1], self.key)
        try:
            if self.tallied is not None:
                taken = open_private(counter.totals_taken)
                self.tallied.refuse_unreadable_cells(counter.design, taken, grid)
            releases = counter.release_many(xs)
            std = counter.std_of(releases) if len(releases) else np.empty(0)
            rows = [*journal.release_rows(self.stream_id, releases, std, grid, self._digest)]
            digest = ""
            if rows:
                last = releases.values[-1]
                digest = keyfile.release_digest(counter.step, last, self._witnessed)
                rows[-1]["digest"] = digest
            self._commit(counter, rows, addition, also)
        except BaseException:
            # A counter ahead of the journal is forgotten, and read again when needed.
            if counter.step != self.step:
                self._counter = None
            raise
        self._counter, self.step = counter, counter.step
        if len(releases):
            self._note(self.step, digest)
            self._released_last, self._std = self.step, float(std[-1])
        return releases

    def std(self, step: int) -> float | None:
        """Standard deviation of the last step's noise, if that is it."""
        return self._std if self._released_last == step else None

    def _released_digest(self, step: int) -> str | None:
        """Digest of what the state has released at a step by now, as the witness keeps it."""
        with self.database.transaction(write=False) as connection:
            return journal.digest_at(connection, self.stream_id, step)

    def _check_copy(self, connection: Connection, now: int) -> None:
        """Refuse to commit steps which another copy of the state has released, or may have.

        Raises:
            StateError: the witness knows what this state does not, or could not note the commit.
        """
        if not self.step:
            creation.refuse_forgotten(connection, self.database, self._witness, beginning=self.name)
            if not self.database.is_sqlite:
                self._witness.join(self._fingerprint, self.name, self._epoch)

        digest = cache(partial(journal.digest_at, connection, self.stream_id))
        self._witness.check(self._fingerprint, self.name, self.step, digest, self._forgotten)
        if self._shared is not None:
            self._shared.check(self.step, digest)
            self._shared.reserve(now)
        self._witness.reserve(self._fingerprint, self.name, now, self._epoch)

    def _commit(
        self,
        counter: Counter,
        rows: list[dict[str, Any]],
        addition: Addition,
        also: CommitHook | None,
    ) -> None:
        observed = journal.observed_rows(self.stream_id, addition.observed)
        _, _, sources, remembered, labels, _ = addition
        remembers = bool(sources) or labels is not None or remembered is not None
        with self.database.transaction(write=True) as connection:
            kept = self._remembered
            if not (kept or remembers):  # else it is sealed below
                kept = records.memory_digest(connection, self.stream_id)
            advanced = connection.run(
                "UPDATE counton_streams SET step = :now, checkpoint = :saved, seal = :sealed"
                " WHERE id = :stream AND writer_epoch = :epoch AND step = :before",
                stream=self.stream_id,
                epoch=self._epoch,
                before=self.step,
                now=counter.step,
                saved=counter.checkpoint(),
                sealed=self._seal.of(counter.step, self._details, kept),
            )
            if advanced != 1:
                raise self._taken_over()
            self.database.read_witnesses(connection)  # all of its places are told
            if rows:
                self._check_copy(connection, counter.step)
                connection.insert("counton_journal", *rows)
            journal.write_observed(connection, observed, self.step)
            journal.write_sources(
                connection, self.stream_id, sources, counter.step, self.source_key
            )
            if also is not None:
                also(connection)
            if labels is not None or remembered is not None:
                from counton.state import seen as marks  # only where rows are told apart
            if labels is not None:
                marks.write_labels(connection, self.stream_id, *labels)
            if remembered is not None:
                marks.write(
                    connection, self.stream_id, remembered, marks.subkey(self.key, self.name)
                )
                if remembered.forgets:
                    self._witness.reserve(self._fingerprint, self.name, self.step, self._epoch)
                    self._change(connection, "forgotten", self._forgotten + 1)
            if remembers:
                kept = self._seal.write(connection, self.stream_id, counter.step, self._details)
        self._remembered = kept

    def _change(self, connection: Connection, column: str, value: Any) -> None:
        """Change the stream's row, if this is still its writer."""
        said = (
            f"UPDATE counton_streams SET {column} = :value"
            " WHERE id = :stream AND writer_epoch = :epoch AND step = :step"
        )
        own = {"stream": self.stream_id, "epoch": self._epoch, "step": self.step}
        if connection.run(said, **own, value=value) != 1:
            raise self._taken_over()

    def _taken_over(self) -> StreamConflict:
        return StreamConflict(
            f"stream {self.name!r} was opened by another process, which now writes it; this one "
            f"(writer {self._epoch}) released nothing: end one of the two, then open the stream "
            f"again"
        )
