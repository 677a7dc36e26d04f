"""The state of a job's stream, opened for one run: first to read, then to write."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    StateRolledBackError,
    StreamClosedError,
    param,
)
from counton.base.private import reveal
from counton.job.common_options import Job
from counton.job.stream_name import usual_name
from counton.noise import Key
from counton.privacy import LedgerEntry
from counton.run.spec.stream_spec import StreamSpec, without_public_notes
from counton.state import Store, Stream
from counton.state.database import reading
from counton.state.dedup import Secret
from counton.state.keys import KeySource
from counton.state.ledger_rows import SpentUnit
from counton.state.sqlite_file import NoStateError
from counton.state.stream_reader import JournalReader


class OpenedState:
    """The state of a job: closed at the end of a ``with`` block.

    Args:
        job: the job.
        key: the key itself, in place of where the job says it is.

    Attributes:
        name: name of the job's stream.
        saved: the stream, open for reading; None if the job begins it.
    """

    def __init__(self, job: Job, key: Key | None = None) -> None:
        if job.state is None:
            raise InvalidInputError(
                f"{param('state')} is missing. Give the path of a file or a database URL"
            )
        self.saved: JournalReader | None = None
        self._address = job.state
        self._key: KeySource = job.key if key is None else key
        self._rollback_guard = job.rollback_guard
        self._store: Store | None = None
        self._stream: Stream | None = None
        self._secret: Secret | None = None
        try:
            self._store = Store(job.state)
        except NoStateError:
            self.name = job.stream or usual_name(job)
            return
        try:
            self.name = name_in(self._store, job)
            self.saved = self._store.find(self.name, self._key)
        except BaseException:
            self._store.close()
            raise

    @property
    def released(self) -> int:
        """Number of steps that the stream has released when the state was opened."""
        return 0 if self.saved is None else self.saved.step

    @property
    def names_of_groups(self) -> tuple[str, ...]:
        """Names of found groups, in the order of their cells. Secret."""
        return () if self.saved is None else _names_of_groups(self.saved)

    @property
    def units(self) -> list[SpentUnit]:
        """Protected units in the ledger of the state."""
        return [] if self._store is None else self._store.units

    @property
    def noise_id(self) -> str | None:
        """Identity of the stream's noise; None for a new stream."""
        return None if self.saved is None else self.saved.design.noise_id

    def secret(self) -> Secret:
        """Return the key of the digests of users and ids; a fresh one if the stream has none."""
        if self._secret is None:
            saved_secret = None if self.saved is None else self.saved.secret()
            self._secret = Secret.fresh() if saved_secret is None else saved_secret
        return self._secret

    def is_counted(self, digest: str) -> bool:
        """Return whether the stream has counted the file with a digest."""
        return self.saved is not None and self.saved.has_source(digest)

    def refuse_unwritable(self) -> None:
        """Refuse a stream that a run could not write: an old copy, or one without its key.

        Raises:
            StateRolledBackError: notes of the rollback guard say that the state is an old copy.
            NoiseKeyError: the key is missing, or another one.
        """
        if self.saved is None:
            return
        suspicion = self.saved.rollback_suspicion()
        if suspicion is not None:
            raise StateRolledBackError(suspicion)
        self.saved.secret()  # this asks for the key

    def refuse_closed(self, spec: StreamSpec) -> None:
        """Refuse a stream that was closed.

        Raises:
            StreamClosedError: it was.
        """
        if spec.closed_at_step is not None:
            raise StreamClosedError(
                f"stream {self.name!r} was closed at window {spec.closed_at_step:,} and releases "
                f"nothing more; begin another {param('stream')}, or export what was released",
                spec.closed_at_step,
            )

    def refuse_beyond_budget(self, spec: StreamSpec) -> None:
        """Refuse a new stream for which the state's privacy budget has no room.

        Raises:
            BudgetExceededError: there is none.
        """
        if self._store is not None:
            self._store.refuse_beyond(self.ledger_entry_of(spec))

    def ledger_entry_of(self, spec: StreamSpec) -> LedgerEntry:
        """Return the entry of the stream in the ledger of the state."""
        return LedgerEntry(
            self.name, spec.terms.loss, spec.unit_in_ledger, spec.contribution.relation
        )

    def open_writer(self) -> Stream | None:
        """Become the writer of the stream; None if the job begins it.

        Raises:
            ConcurrentWriterError: another process has written the stream since the state was
                opened, or has closed it. Notes on windows and a withdrawal change nothing that a
                run counts, so they may have been written.
        """
        if self.saved is None or self._store is None:
            return None
        names = self.names_of_groups
        public_facts = without_public_notes(self.saved.public_facts)
        self._stream = Stream.open(
            self._store, self.name, key=self._key, rollback_guard=self._rollback_guard
        )
        is_changed = self._stream.step != self.released
        is_changed |= without_public_notes(self._stream.public_facts) != public_facts
        is_changed |= _names_of_groups(self._stream) != names
        if is_changed:
            raise ConcurrentWriterError(
                f"another process has counted in stream {self.name!r} in the meantime, so nothing "
                "was released here: run the same command again"
            )
        return self._stream

    def create(self, spec: StreamSpec) -> Stream:
        """Begin the stream, and enter its guarantee in the ledger.

        Raises:
            ConcurrentWriterError: another process has just created the stream.
        """
        terms = spec.terms
        additive = spec.accumulator_statistic.additive
        noise_guarantee = spec.cells.noise_guarantee(terms.loss)
        try:
            self._stream = Stream.create(
                self._address if self._store is None else self._store,
                self.name,
                spec.strategy,
                terms.loss,
                key=self._key,
                rollback_guard=self._rollback_guard,
                contribution=spec.contribution,
                shape=spec.shape if additive or noise_guarantee is not None else (),
                noise_guarantee=noise_guarantee,
                public_facts=spec.public_facts(),
                statistic=None if additive else spec.accumulator_statistic,
            )
        except (StateError, NoiseKeyError) as error:
            if not self._was_created_by_another():
                raise
            raise ConcurrentWriterError(
                f"another process has just created stream {self.name!r} of this state, so nothing "
                "was released here: run the same command again, and it goes on with that stream"
            ) from error
        return self._stream

    def _was_created_by_another(self) -> bool:
        with suppress(CountonError, OSError), Store(self._address) as store:
            return store.find(self.name) is not None
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the state."""
        opened = self._stream or self._store  # the stream closes the state that it was opened with
        if opened is not None:
            opened.close()


def _names_of_groups(stream: JournalReader) -> tuple[str, ...]:
    finds_groups = stream.design.finds_cells
    return reveal(stream.labels()) if finds_groups else ()


def name_in(store: Store, job: Job) -> str:
    """Return the name of a job's stream in an existing state.

    Without a name, and without what a new stream states, it is the only stream of the statistic
    that began without a name.
    """
    name = job.stream or usual_name(job)
    begins_a_stream = any(
        map(job.has_stated, ("stream", "value", "columns", "count_column", "start"))
    )
    if begins_a_stream or name in store.streams:
        return name
    usual_names = [
        name
        for name, public_facts in store.public_facts.items()
        if public_facts.get("what") == job.statistic and name == _usual_name_of(public_facts)
    ]
    return usual_names[0] if len(usual_names) == 1 else name


def _usual_name_of(public_facts: Mapping[str, Any]) -> str:
    from counton.job.messages import parse_options
    from counton.job.statistics import model_of

    with reading("the public facts of a stream"):
        return usual_name(parse_options(model_of(public_facts["what"]), public_facts["record"]))
