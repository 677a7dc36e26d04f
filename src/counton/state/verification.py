"""Verification of releases: every released value is recomputed from the key and the exact sums.

A release is exact sums plus noise, and noise depends only on the key, the step and the cell. So the
holder of the key can subtract the noise, which leaves the exact sums. The journal holds keyed
digests of the inputs, which prove that these sums are those that were counted. Every released value
is then computed again. This finds altered values, inputs or stored sums, and noise of another key
or distribution.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import distribution_to_dict
from counton.base.errors import (
    InputChangedError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    StateRolledBackError,
    StateUnavailableError,
    StreamMismatchError,
)
from counton.base.wording import counted
from counton.continual import Counter
from counton.continual.checkpoint import (
    StreamProgress,
    arrivals_of,
    read_checkpoint,
    write_checkpoint,
)
from counton.continual.design import Design
from counton.continual.node_distribution import distribution_for
from counton.noise import Key
from counton.privacy import LedgerEntry
from counton.state import journal, ledger_rows, stream_rows
from counton.state import keys as keyfile
from counton.state.database import Database, reading
from counton.state.ledger_rows import defining_options_in, unit_name_in_ledger
from counton.state.public_rows import PublicRow, StreamRow, check_row
from counton.state.rollback_guard import GuardPosition, RollbackGuard, latest_guard, position_of
from counton.state.sql import Connection

#: Values recomputed at once.
_VALUES_PER_CHUNK = 2**20


@dataclass(frozen=True)
class Verification:
    """Result of `verify` for one release.

    Attributes:
        name: name of the stream.
        kind: "stream"; or "forgotten" for a stream that the rollback guard (a record outside the
            state) has recorded and the state, an old copy, lacks.
        values: number of recomputed values.
        checks: facts that hold, in words.
        problems: facts that do not hold; empty if all is well.
        old_copy: whether ``problems`` say that the state is an old copy.
        skipped: reason why nothing could be recomputed; None if values were recomputed.

    >>> Verification("visits", "stream", 24, ("all values are right",), ()).right
    True
    """

    name: str
    kind: str
    values: int
    checks: tuple[str, ...]
    problems: tuple[str, ...]
    skipped: str | None = None
    old_copy: bool = False

    @property
    def right(self) -> bool:
        """True if the release was recomputed and no problem was found."""
        return not self.problems and self.skipped is None


def verify(
    state: str | os.PathLike[str],
    stream: str | None = None,
    *,
    key: keyfile.KeySource = None,
    rollback_guard: str | os.PathLike[str] | None = None,
) -> tuple[Verification, ...]:
    """Recompute every released value of a state, and compare. Nothing is changed.

    Args:
        state: path of a SQLite file, or a database URL.
        stream: name of one stream; None: all.
        key: the key, or its place; None: ``STATE.key`` beside a SQLite file. Releases under another
            key are ``skipped``.
        rollback_guard: folder of the rollback guard (a record of releases away from the state), if
            it is another one than the state remembers.

    Returns:
        The results, one for each release, by name.

    Raises:
        StateError: the state cannot be read, or has no release of this name.
        NoiseKeyError: the key of the only requested release cannot be read.

    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> with Stream.create("visits.db", "visits", Binary(horizon=100), PureDP(epsilon=1)) as stream:
    ...     _ = stream.release_many([3, 0, 5])
    >>> (found,) = verify("visits.db")
    >>> found.right, found.values
    (True, 3)
    """
    keyfile.state_files(state, key)  # refuses the text of a key in place of its place
    database = Database(state)
    try:
        database.check_pages()
        guard = _read(database, rollback_guard)  # before the state
        with database.transaction(write=False) as connection:
            every = connection.rows("SELECT * FROM counton_streams ORDER BY name")
            rows = [row for row in every if stream in (None, row.name)]
            spent = {spend.name: spend for spend in ledger_rows.entries(connection)}
            ledger_rows.ledger(connection)  # refuses a limit that cannot be read
            keys = {row.name: _key_or_error(database, row, key) for row in rows}
            guard_problems = {
                row.name: _guard_problem(connection, database, row, guard, keys[row.name])
                for row in rows
            }
            lost = [*_forgotten_releases(connection, database, guard, stream)]
        if stream is not None and not rows:
            raise StreamMismatchError(
                f"state {database.label} has no release {stream!r}: see which releases it has "
                "(counton inspect, or state_summary)"
            )
        verifications = []
        for row in rows:
            noise_key = keys[row.name]
            if isinstance(noise_key, NoiseKeyError) and stream is not None:
                raise noise_key
            verification = _verify_row(database, row, noise_key, spent.get(row.name))
            problem = guard_problems[row.name]
            # What is damaged is reported alone.
            if problem is not None and not isinstance(noise_key, StateError):
                problems = tuple(dict.fromkeys([*verification.problems, str(problem)]))
                old = isinstance(problem, StateRolledBackError | StateUnavailableError)
                verification = replace(verification, problems=problems, old_copy=old)
            verifications.append(verification)
        return (*verifications, *lost)
    finally:
        database.close()


def _verify_row(
    database: Database,
    row: StreamRow,
    key: Key | NoiseKeyError | StateError,
    spent: LedgerEntry | None,
) -> Verification:
    """Recompute the releases of one stream.

    Args:
        row: the row of the stream.
        key: the key of the stream, or why it cannot be used.
        spent: the entry of the stream in the ledger; None if it has none.
    """
    if isinstance(key, StateError):
        return Verification(row.name, "stream", 0, (), (str(key),))
    if isinstance(key, NoiseKeyError):
        return Verification(row.name, "stream", 0, (), (), skipped=str(key))
    try:
        with reading(f"what describes stream {row.name!r}"):
            return _Recomputation(database, row, key).check_all(spent)
    except StateError as error:  # its terms cannot be read
        return Verification(row.name, "stream", 0, (), (str(error),))


def _read(database: Database, place: str | os.PathLike[str] | None) -> RollbackGuard | StateError:
    """Read the rollback guard (the record outside the state); return the error if it cannot be
    read.
    """
    try:
        return latest_guard(database, place)
    except StateError as error:
        return error


def _guard_problem(
    connection: Connection,
    database: Database,
    row: StreamRow,
    guard: RollbackGuard | StateError,
    key: Key | NoiseKeyError | StateError,
) -> Exception | None:
    """Return the error with which the rollback guard refuses a release, or None."""
    if isinstance(guard, StateError):
        return guard
    try:
        position_of(connection, database, row.name, guard)
        if isinstance(key, Key):
            with reading(f"the terms of stream {row.name!r}"):
                stream_rows.check_digest(connection, row, key)
        lacking = guard.why_unreliable(connection, GuardPosition.from_row(row))
    except (StateError, InputChangedError) as error:
        return error
    return None if lacking is None else StateRolledBackError(lacking)


def _forgotten_releases(
    connection: Connection, database: Database, guard: RollbackGuard | StateError, of: str | None
) -> Iterator[Verification]:
    """Yield a result for each stream (or ``of``) that the guard has and the state lacks."""
    if isinstance(guard, StateError):  # each release reports it
        return
    entries = guard.forgotten_entries(connection)
    first = {(entry["key"], entry["stream"]): entry for entry in reversed(entries)}
    for entry in sorted(first.values(), key=lambda entry: str(entry["stream"])):
        name = entry["stream"]
        if of not in (None, name):
            continue
        problem = (
            f"{entry['where']} records that {name!r} under the key {entry['key']} was released, "
            f"but state {database.label} does not have it, so the state was restored from an old "
            "copy: restore the newest copy"
        )
        yield Verification(name, "forgotten", 0, (), (problem,), old_copy=True)


def _key_or_error(
    database: Database, row: PublicRow, key: keyfile.KeySource
) -> Key | NoiseKeyError | StateError:
    """Return a stream's key; or the error that it is another one, or that the row is damaged."""
    try:
        check_row(row)
        noise_key = keyfile.key_for(database, row.key_fingerprint, row.key_salt, key)
        stream_rows.check_key_of(row, noise_key)
    except (NoiseKeyError, StateError) as error:
        return error
    return noise_key


class _Recomputation:
    """The check of one stream's releases: they are computed again and compared."""

    def __init__(self, database: Database, row: StreamRow, key: Key) -> None:
        self._database = database
        self._row = row
        self._key = key
        with reading(f"the terms of stream {row.name!r}"):
            self._design = Design.from_dict(json.loads(row.terms))
        self._digest_key = key.derive(b"journal digest", row.name.encode())
        self._checks: list[str] = []
        self._problems: list[str] = []

    def check_all(self, spent: LedgerEntry | None) -> Verification:
        """Run all checks; ``spent`` is the ledger's row of the stream, if there is one."""
        row = self._row
        design = self._design
        self._check_promise(spent)
        if design.strategy.horizon is None or row.step < design.strategy.horizon:
            try:
                design.strategy._check_distribution(design.distribution)
            except InvalidInputError as error:
                self._problems.append(
                    f"it can release no further step ({error}), though its promise still holds; "
                    "end it, and begin another stream"
                )
        try:
            self._check_mac()
            self._check_std()
        except StateError as error:
            self._problems.append(str(error))
        else:
            self._checks.append(
                "public metadata and the records of counted users, ids, windows and files carry a "
                "valid MAC"
            )
        # The number of cells of found groups would tell how many are hidden.
        values = row.step * (1 if design.finds_cells else max(design.cells, 1))
        try:
            self._recompute()
        except (InvalidInputError, StateError, InputChangedError) as error:
            self._problems.append(str(error))
        return Verification(row.name, "stream", values, tuple(self._checks), tuple(self._problems))

    def _check_mac(self) -> None:
        """Refuse what was altered without the key: public facts, sums, and all rows that decide
        what counts. Read again if another process writes.
        """
        is_checked = False
        while not is_checked:
            with self._database.transaction(write=False) as connection:
                is_checked = self._has_checked_rows(connection)

    def _has_checked_rows(self, connection: Connection) -> bool:
        """Refuse altered rows; return False if another process wrote while they were read."""
        name = self._row.name
        before = stream_rows.find(connection, name)
        try:
            contents = stream_rows.check_mac(connection, self._database.identity, before, self._key)
            contents.check_every_row(connection)
        except StateError:
            # On a server, statements of one transaction may see different commits.
            if stream_rows.find(connection, name).seal == before.seal:
                raise
            return False
        return True

    def _check_std(self) -> None:
        """Refuse a journal whose noise deviation differs from the design's."""
        row = self._row
        every = self._design.errors.std(range(1, self._row.step + 1))
        sql = (
            "SELECT step, std FROM counton_journal WHERE stream_id = :stream AND step <= :last"
            " ORDER BY step"
        )
        with self._database.transaction(write=False) as connection:
            for step, std in connection.rows(sql, stream=row.id, last=row.step):
                if step < 1:
                    raise self._alteration(
                        f"the journal of stream {row.name!r} has a row of step {step:,}"
                    )
                right = float(every[step - 1])
                if not math.isclose(std, right, rel_tol=1e-9):
                    raise self._alteration(
                        f"the journal states that the noise of step {step} of stream {row.name!r} "
                        f"has the standard deviation {std:.6g}, but the stream's options give "
                        f"{right:.6g}"
                    )

    def _recompute(self) -> None:
        """Recompute all released values; check that the stored sums for the next release fit."""
        design = self._design
        row = self._row
        nothing_yet = StreamProgress.start(design)
        start = write_checkpoint(design.text, self._key.fingerprint, nothing_yet)
        noise_alone, replayed = (Counter.resume(start, key=self._key) for _ in range(2))
        delay = design.strategy.facts.delay
        last = row.step
        previous_sums = np.zeros(nothing_yet.waiting.shape[1:], np.int64)
        with reading(f"the checkpoint of stream {row.name!r}"):
            saved = read_checkpoint(bytes(row.checkpoint))
            progress = saved.progress(design)
        for steps in self._parts(last):
            released = self._read_values(steps).values
            if design.finds_cells:  # groups may have been found with the first of them
                for counter in (noise_alone, replayed):
                    counter.widen(released.shape[1], self._key)
                wider = np.zeros(released.shape[1:], np.int64)  # new cells have no sums yet
                wider[: len(previous_sums)] = previous_sums
                previous_sums = wider
            nothing = np.zeros(released.shape, np.int64)
            noise = noise_alone.release_exact(nothing).values
            sums = np.rint((released - noise) / float(design.units.exact)).astype(np.int64)
            inputs = self._inputs_of(sums, previous_sums)
            previous_sums = sums[-1]
            first = max(steps.start - delay, 1)
            self._compare(replayed, inputs[first + delay - steps.start :])
        if delay and last:  # waiting inputs are in the checkpoint and in no release yet
            self._compare(replayed, progress.waiting[-min(delay, last) :])
        number = max(design.cells, 1)
        values_text = f"of {counted(number, 'value')}"
        if design.finds_cells:
            values_text = "of all discovered groups, including hidden ones"
        self._checks.append(
            f"{counted(last, 'step')} {values_text}: each value is the exact sum, which matches "
            "the stored input digests, plus the noise from the key"
        )
        if not read_checkpoint(replayed.checkpoint()).agrees_with(saved):
            raise self._alteration(
                f"the checkpoint of stream {row.name!r} has other sums than its journal"
            )
        self._checks.append("the stored sums for the next release match the earlier releases")

    def _inputs_of(
        self, sums: NDArray[np.int64], previous_sums: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the inputs of some steps.

        Args:
            sums: the exact sum of each released value of these steps.
            previous_sums: those of the step before; zeros before the first step. Strategies for
                single windows do not use them.
        """
        facts = self._design.strategy.facts
        if facts.release == "totals":
            return np.diff(sums, axis=0, prepend=previous_sums[None])
        if facts.versions > 1:
            return arrivals_of(sums, previous_sums)
        return sums

    def _parts(self, last: int) -> Iterator[range]:
        """Yield ranges of steps with equally many cells that fit into memory."""
        design = self._design
        begin = 1
        if not design.finds_cells:
            size = max(1, _VALUES_PER_CHUNK // max(math.prod(design.step_shape), 1))
            for begin in range(1, last + 1, size):
                yield range(begin, min(begin + size, last + 1))
            return
        with self._database.transaction(write=False) as connection:
            rows = [*journal.widths(connection, self._row.id, last)]
        for (steps, width), (before, width_before) in zip(rows[1:], rows, strict=False):
            if width != width_before or steps.stop - begin > _VALUES_PER_CHUNK // max(width, 1):
                yield range(begin, before.stop)
                begin = before.stop
        if begin <= last:
            yield range(begin, last + 1)

    def _read_values(self, steps: range) -> journal.Entries:
        """Return the journal's values of these steps, shape (steps, *shape of a step)."""
        with self._database.transaction(write=False) as connection:
            return journal.read(connection, self._row.id, steps.start, steps.stop, self._design)

    def _compare(self, again: Counter, inputs: NDArray[np.int64]) -> None:
        """Release ``inputs`` (shape (steps, *shape)) with ``again``; compare with the journal."""
        if not len(inputs):
            return
        steps = range(again.step + 1, again.step + 1 + len(inputs))
        name = self._row.name
        entries = self._read_values(steps)
        digests = journal.input_digests(self._digest_key, steps, inputs)
        step = journal.first_other(entries.input_digests, steps.start, digests)
        if step is not None:
            raise StateError(
                f"step {step} of stream {name!r} is not the sum of its inputs and the noise of its "
                "key, so the release, or the record of its input, was altered; restore the state "
                "from a copy"
            )
        values = again.release_exact(inputs).values
        wrong = (values != entries.values).reshape(len(steps), -1).any(axis=1)
        if wrong.any():
            raise self._alteration(
                f"step {steps[int(np.argmax(wrong))]} of stream {name!r} has another value "
                "than its inputs and its key give"
            )

    def _check_promise(self, spent: LedgerEntry | None) -> None:
        """Check that the ledger has the guarantee, and that noise and thresholds satisfy it."""
        design = self._design
        name = self._row.name
        if spent is None or spent.guarantee != design.guarantee:
            had = "no entry" if spent is None else str(spent.guarantee)
            self._problems.append(
                f"the ledger has {had} for {name!r}, which promises {design.guarantee}"
            )
        else:
            self._checks.append(f"the privacy ledger states its guarantee: {design.guarantee}")
        options: Mapping[str, object] = {}
        with suppress(ValueError):  # altered details are reported elsewhere
            options = defining_options_in(json.loads(self._row.details))
        window = (design.statistic or {}).get("window")
        unit = unit_name_in_ledger(design.contribution.unit, options, window)
        relation = design.contribution.relation
        if spent is not None and (spent.unit, spent.relation) != (unit, relation):
            self._problems.append(
                f"the ledger counts {name!r} by {spent.unit!r} ({spent.relation}), but the stream "
                f"protects {unit!r} ({relation}): the state was altered; restore it from a copy"
            )
        self._check_width_of_noise()
        if design.finds_cells:
            self._check_thresholds()

    def _check_width_of_noise(self) -> None:
        """Check that the noise is as wide as the guarantee requires."""
        design = self._design
        promised = design.noise_guarantee or design.guarantee
        needed = distribution_for(
            design.strategy, promised, design.contribution, design.shape
        ).distribution
        distribution = design.distribution
        word = distribution_to_dict(design.distribution)["law"]
        if distribution.variance >= needed.variance * (1 - 1e-9):
            self._checks.append(f"the noise ({word}) is as large as the guarantee requires")
        else:
            part = math.sqrt(distribution.variance / needed.variance)
            self._problems.append(
                f"the noise ({word}) is only {part:.3g} times as wide as the guarantee needs: the "
                f"state was altered; restore it from a copy"
            )

    def _check_thresholds(self) -> None:
        """Check the probability with which a group of a single unit is shown."""
        from counton.statistics.discovery import cells_from_dict

        design = self._design
        cells = cells_from_dict(json.loads(self._row.details).get("discovery"))
        chance = cells.chance(design)
        if chance is None:
            return
        delta = Fraction(design.guarantee.to_dict()["delta"])
        if chance <= delta:
            self._checks.append(
                f"all thresholds together show a group of one {design.contribution.unit} with a "
                f"probability of at most delta = {float(delta):g}"
            )
        else:
            self._problems.append(
                f"the thresholds show a group of one {design.contribution.unit} with a probability "
                f"of up to {chance:.3g}, and the guarantee allows delta = {float(delta):g}: "
                "end this stream, and begin another"
            )

    def _alteration(self, subject: str) -> StateError:
        return StateError(f"{subject}: the state was altered; restore it from a copy")
