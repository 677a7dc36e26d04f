"""The counter, which releases private totals or counts of a stream step by step."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats, extremes
from counton.base.errors import (
    ConcurrentWriterError,
    InvalidInputError,
    NoiseKeyError,
)
from counton.base.exact import figures
from counton.base.private import Private, reveal
from counton.continual.checkpoint import (
    Checkpoint,
    StreamProgress,
    Totals,
    add_arrivals,
    check_totals,
    read_checkpoint,
    write_checkpoint,
)
from counton.continual.design import Design, check_shape, design_for, largest_sum
from counton.continual.node_distribution import check_addresses, guarantee_of_stream
from counton.continual.noise_cache import NoiseCache, NoiseStore
from counton.continual.releases import Releases, StepRelease
from counton.noise import Key
from counton.noise.key import check_key
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.value_grid import totals_and_extremes
from counton.strategies import StreamStrategy
from counton.strategies.strategy import Steps, add_up, last_served_step


class OneAtATime:
    """A lock on a stream, which one thread at a time holds, in the process that made it."""

    def __init__(self, action: str, *, remedy: str) -> None:
        self._what = action
        self._remedy = remedy
        self._process = os.getpid()
        # The lock is reentrant, since a signal handler in its own thread would wait for ever.
        self.lock = threading.RLock()
        self._taken = False

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for the lock, and hold it during the ``with`` block."""
        if os.getpid() != self._process:
            raise ConcurrentWriterError(
                f"{self._what} was made by process {self._process}, and the forked process "
                f"{os.getpid()} uses it too, which would release other data with equal noise: let "
                f"one process release, or {self._remedy}"
            )
        with self.lock:
            if self._taken:
                raise ConcurrentWriterError(
                    f"{self._what} is in the middle of a release, further up in this thread: "
                    "release again after that call has returned, not from a signal handler"
                )
            try:
                self._taken = True
                yield
            finally:
                self._taken = False


class Counter:
    """A counter of a stream, which releases private totals at every step under one guarantee.

    With a strategy for windows, such as `GrowingCascade`, a release is the count of the step. With
    `WindowVersions` a release has the present count of each of the last windows; the input of a
    step is then the items that arrived, by window, with the newest first on the last axis.

    Args:
        strategy: the correlation of the noise over time, e.g. ``KAry.best(horizon)``.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP`` for all releases together; with `Expiring`
            ``ExpiringDP`` or ``ExpiringZCDP``, which grow with the age of a unit.
        key: the secret of the noise. Two counters with one key and equal other arguments have the
            same noise: the difference of their releases is that of their data. Continue with
            `resume`; never start a stream twice.
        name: name of the stream. One key may serve several streams of different names.
        contribution: the bound on how much one protected unit changes the input; default: one count
            in one cell, added or removed.
        shape: shape of one step's input; ``()`` for scalars, ``(16,)`` for a histogram of 16 cells.
        noise_guarantee: for cells added when needed (`widen`), the guarantee of the noise alone;
            the choice of cells to show costs the rest. ``shape`` is then the largest number of
            cells.
        statistic: the statistic of ``counton.statistics`` that the cells belong to, as JSON values.

    Raises:
        InvalidInputError: an argument is out of range, or the strategy cannot give the guarantee.

    Threads may share a counter; a forked process may not.

    Privacy: releases are ``A x + round(B z)``, where A = B C sums the input x, and z is the noise.
    They are a function of the measurements ``C x + z`` alone (Andersson and Pagh; Andersson et
    al.). The guarantee holds against an attacker who chooses all inputs, and the steps and cells in
    which neighbouring datasets differ, after seeing earlier releases: see
    docs/guarantees/verification.md.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import KAry
    >>> counter = Counter(KAry.best(1000), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> release = counter.release(3)
    >>> release.step, round(release.std, 1)
    (1, 4.2)
    """

    def __init__(
        self,
        strategy: StreamStrategy,
        guarantee: Guarantee,
        *,
        key: Key,
        name: str,
        contribution: ContributionBound | None = None,
        shape: tuple[int, ...] = (),
        noise_guarantee: Guarantee | None = None,
        statistic: Mapping[str, object] | None = None,
    ) -> None:
        contribution = ContributionBound.add_remove() if contribution is None else contribution
        shape = check_shape(shape)
        guarantee = guarantee_of_stream(strategy, guarantee)
        if strategy.facts.reads_another:
            raise InvalidInputError(
                f"strategy {strategy!r} only describes how the releases of another strategy are "
                "read: begin the stream with that other strategy, which is among its parameters"
            )
        if noise_guarantee is not None and (len(shape) != 1 or strategy.facts.delay):
            raise InvalidInputError(
                "cells that are added later need a single axis and a strategy without delay; the "
                f"shape is {shape} and the delay {strategy.facts.delay}: give a shape such as "
                "(1000,)"
            )
        design = design_for(
            strategy, guarantee, contribution, shape, noise_guarantee=noise_guarantee, name=name,
            statistic=statistic,
        )  # fmt: skip
        check_addresses(strategy, shape)
        self._begin(design, key, StreamProgress.start(design))

    @classmethod
    def from_design(cls, design: Design, key: Key) -> Counter:
        """Return a new counter of the stream with this design, before its first step.

        Args:
            design: strategy, guarantee and all other public parameters of the stream.
            key: the secret of the noise.
        """
        counter = cls.__new__(cls)
        counter._begin(design, key, StreamProgress.start(design))
        return counter

    def _begin(self, design: Design, key: Key, done: StreamProgress) -> None:
        check_key(key)
        self.key_fingerprint = key.fingerprint
        # A plan's errors may be of sums over recent steps; those of the counter are of releases.
        released = design.errors_of._replace(workload=None)
        self.design = replace(design.bound_to_key(self.key_fingerprint), errors_of=released)
        width = len(done.sums) if design.finds_cells else None
        #: The noise of the next steps, computed when a step is released.
        self._lookahead = NoiseCache(design.strategy, design.noise_field(key, width))
        self._std_window = range(0)
        self._stds = np.empty(0)
        self._done = Private(done)
        self._last_step = last_served_step(design.strategy)
        self._largest_sum = largest_sum(design.strategy)
        facts = design.strategy.facts
        #: Whether a step is one count, released as an integer running total.
        self._is_one_count = (
            not design.step_shape
            and not design.finds_cells
            and facts.release == "totals"
            and not facts.fraction_bits
            and design.contribution.resolution is None
            and design.units.released == 1
        )
        self._turn = OneAtATime(
            f"the counter of stream {design.name!r}",
            remedy="hand it over by Counter.checkpoint() and Counter.resume(saved, key=key)",
        )

    @property
    def step(self) -> int:
        """Number of the last released step, from 1; 0 before the first."""
        return self._progress().step

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input of one step: () for one number, (16,) for 16 cells."""
        return self.design.step_shape

    @property
    def totals_taken(self) -> Private[NDArray[np.int64]]:
        """Exact running totals of all input, in multiples of the resolution; secret.

        Empty if releases are counts of single windows, because no totals are kept.
        """
        done = self._progress()
        if self.design.strategy.facts.versions > 1:
            return Private(np.zeros(0, np.int64))
        # If a release is a window's own count, no total is carried on.
        return Private(done.totals_taken if done.sums.size else done.sums)

    def windows_with(self, changes: NDArray[np.int64]) -> Private[NDArray[np.int64]]:
        """Return the exact counts that the next steps would release with noise.

        They are secret, and nothing is released.

        Args:
            changes: exact totals of the next n steps, in multiples of the resolution: shape ``(n,
                *self.shape)``.

        Returns:
            A row for each version (`WindowVersions`): shape ``(n * versions, *cells)``.
        """
        if self.design.strategy.facts.versions == 1:
            return Private(changes)
        sums_with_changes = np.empty_like(changes)
        add_arrivals(self._progress().sums, changes, sums_with_changes)
        return Private(np.moveaxis(sums_with_changes, -1, 1).reshape(-1, *changes.shape[1:-1]))

    def _progress(self) -> StreamProgress:
        """Return the last step and the exact sums to which the next step is added; secret."""
        return reveal(self._done)

    def keep_noise(self, store: NoiseStore) -> None:
        """Store the noise of later steps if that saves later processes work; releases stay equal.

        Args:
            store: a store for this stream alone. The noise in it is encrypted.
        """
        if not self.design.finds_cells:  # else cells may be added at any step
            self._lookahead.keep(self.step + 1, store, self.design.largest_noise_std)

    def release(self, x: Totals) -> StepRelease:
        """Add the total of one step, and release the private running total.

        Args:
            x: the exact total of this step alone, shape ``self.shape``: integers, or multiples of
                the contribution's resolution.

        Raises:
            InvalidInputError: a total is NaN, infinite, a negative count, a float without a
                resolution, or of a wrong shape.
            HorizonExceededError: the strategy serves no more steps.
            SumOverflowError: an exact sum would leave its range.
            ConcurrentWriterError: called in a forked process, or by a signal handler during a
                release.
        """
        batch: Any = x[None] if isinstance(x, np.ndarray) else [x]
        with self._turn.take():
            if self._is_one_count and type(batch[0]) is int and self._can_add(batch[0]):
                return self._release_count(batch[0])
            totals, lowest, highest = totals_and_extremes(
                batch, self.design.contribution.resolution
            )
            check_totals(self.design, self._progress(), totals, lowest, highest)
            values, done = self._compute(totals)
            value = values[0] if self.shape else values[0].item()
            release = StepRelease(done.step, value, self._std_at(done.step), self.design)
            self._done = Private(done)
        return release

    def _can_add(self, count: int) -> bool:
        """Return whether a count can be released as the next step, without a reason if not."""
        done = self._progress()
        if self._last_step is not None and done.step >= self._last_step:
            return False
        return 0 <= count <= self._largest_sum - int(done.totals_taken)

    def _release_count(self, count: int) -> StepRelease:
        """Release one count as `_compute` and `release` do, without arrays: twice as fast."""
        done = self._progress()
        step = done.step + 1
        due = count
        waiting = done.waiting
        if len(waiting):  # releases have a delay
            due = int(waiting[0])
            waiting = np.append(waiting[1:], count)
        total = int(done.sums) + due
        (noise,) = self._lookahead.parts(range(step, step + 1))
        release = StepRelease(step, total + int(noise[0]), self._std_at(step), self.design)
        self._done = Private(StreamProgress(step, np.asarray(total, np.int64), waiting))
        return release

    def widen(self, cells: int, key: Key) -> None:
        """Set the number of cells from the next step on, if cells are added when needed.

        A new cell follows the present ones, with the noise it would have if it had counted 0
        always.

        Args:
            cells: the new number of cells, from the present one to that of ``shape``.
            key: the key of this stream.

        Raises:
            InvalidInputError: fewer cells than now, more than ``shape`` allows, or the cells are
                fixed.

        >>> from counton import ApproxDP, Counter, Key, PureDP
        >>> from counton.strategies import Binary
        >>> key = Key.generate()
        >>> open_to = {"shape": (1000,), "noise_guarantee": PureDP(1), "name": "pages"}
        >>> counter, wide = (
        ...     Counter(Binary(31), ApproxDP(1, "1e-9"), key=key, **open_to) for _ in range(2)
        ... )
        >>> counter.widen(1, key)
        >>> wide.widen(2, key)
        >>> bool(counter.release([5]).value[0] == wide.release([5, 0]).value[0])
        True
        """
        with self._turn.take():
            there = len(np.atleast_1d(self._progress().sums))
            most = self.design.cells
            if not self.design.finds_cells or not there <= cells <= most:
                raise InvalidInputError(
                    f"stream {self.design.name!r} cannot have {cells:,} cells: it has {there:,} "
                    f"now, and may have at most {most:,}; give a number from {there:,} to {most:,}"
                )
            if cells == there:
                return
            field = self.design.noise_field(key, cells)
            self._lookahead = NoiseCache(self.design.strategy, field)
            self._std_window = range(0)
            self._stds = np.empty(0)
            self._done = Private(self._progress().wider(cells))

    def release_many(self, xs: Totals) -> Releases:
        """Release consecutive steps, much faster than one by one.

        Args:
            xs: the exact total of each step, of shape ``(n, *self.shape)``; see `release`.

        Raises:
            InvalidInputError, HorizonExceededError, SumOverflowError, ConcurrentWriterError: as
                `release`; nothing is released.
        """
        totals, *ends = totals_and_extremes(xs, self.design.contribution.resolution)
        return self.release_exact(totals, ends)

    def release_exact(
        self, totals: NDArray[np.int64], ends: Sequence[int] | None = None
    ) -> Releases:
        """Release consecutive steps whose totals are integer multiples of the resolution.

        Args:
            totals: int64 multiples of the resolution, of shape ``(n, *self.shape)``.
            ends: the smallest and the largest total, if they are known; None: they are computed.

        Raises:
            InvalidInputError: another data type, a negative count, or a wrong shape.
            HorizonExceededError, SumOverflowError, ConcurrentWriterError: as `release`.
        """
        if totals.dtype != np.int64:  # floats would be cut to integers
            raise InvalidInputError(
                f"totals have type {totals.dtype}; give integer multiples of the resolution, int64"
            )
        with self._turn.take():
            before = self._progress()
            first = before.step + 1
            check_totals(self.design, before, totals, *(ends or extremes(totals)))
            values, done = self._compute(totals)
            self._done = Private(done)
        return Releases(range(first, done.step + 1), values, self.design)

    def _std_at(self, step: int) -> float:
        """Return the standard deviation of one step's noise, and cache those of the next steps."""
        window = self._lookahead.window
        if step not in window:
            window = range(step, step + 1)
        if self._std_window != window:
            self._std_window, self._stds = window, self.design.errors.std(window)
        return float(self._stds[step - window.start])

    def std_of(self, releases: Releases) -> NDArray[np.float64]:
        """Return the standard deviation of each release; quick for releases made just now.

        Args:
            releases: releases of this counter.

        Returns:
            float64, one for each step, in data units.
        """
        if len(releases.steps) == 1:
            return np.array([self._std_at(releases.steps[0])])
        return np.asarray(self.design.errors.std(releases.steps), np.float64)

    def std(self, steps: Any = None) -> Any:
        """Return the standard deviation at ``steps``, in data units; see `Errors.std`.

        Args:
            steps: one step for a float, several for an array; None: all up to the horizon.
        """
        return self.design.errors.std(steps)

    def window_std(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Return the exact standard deviation of the sum over the steps start + 1 to stop.

        It is for one cell, in data units; for the sum of m cells sqrt(m) times as large.

        Args:
            starts: the steps after which sums begin, from 0.
            stops: the last steps of the sums. The shapes of both are broadcast.

        Raises:
            InvalidInputError: ends that are not integers, below 0, or in the wrong order.
            HorizonExceededError: an end beyond the horizon.

        >>> from counton import Counter, Key, ZCDP
        >>> from counton.strategies import Binary, GrowingCascade
        >>> ends = [0, 8, 15], [8, 16, 16]
        >>> for strategy in Binary(31), GrowingCascade(doublings=5):
        ...     counter = Counter(strategy, ZCDP(0.5), key=Key.generate(), name="visits")
        ...     counter.window_std(*ends).round(2).tolist()
        [2.24, 3.16, 5.0]
        [1.63, 1.63, 1.63]
        """
        return self.design.errors.window_std(starts, stops)

    def _compute(self, totals: NDArray[np.int64]) -> tuple[IntegersOrFloats, StreamProgress]:
        """Add noise to totals of shape ``(n, *self.shape)``; return releases and new progress."""
        design = self.design
        facts = self.design.strategy.facts
        step, sums, waiting = self._progress()
        count = len(totals)
        if facts.delay:
            queue = np.concatenate([waiting, totals])
            totals = queue[:count]
            waiting = queue[count:]
        if count == 1 and self._lookahead.by_cells:
            released_cells, sums = self._compute_by_cells(totals, sums, step + 1)
            return released_cells, StreamProgress(step + 1, sums, waiting)
        values = np.empty(totals.shape, np.int64)
        released: IntegersOrFloats = values
        start = 0
        for noise in self._lookahead.parts(range(step + 1, step + 1 + count)):
            block = slice(start, start + len(noise))
            exact = values[block]
            sums = self._add_up(totals[block], sums, exact)
            # Compute in blocks that fit into the cache, each in place of its input.
            shown = self._add_noise(exact, noise)
            if shown is not exact:
                released = values.view(shown.dtype)
                released[block] = shown
            start = block.stop
        if not count:
            released = design.to_data(values)
        return released, StreamProgress(step + count, sums, waiting)

    def _compute_by_cells(
        self, totals: NDArray[np.int64], sums: NDArray[np.int64], step: int
    ) -> tuple[IntegersOrFloats, NDArray[np.int64]]:
        """Add noise to one step, ``(1, *self.shape)``, for some cells at a time to save memory."""
        values = np.empty(totals.shape, np.int64)
        released: IntegersOrFloats = values
        sums_after = np.empty_like(sums)
        totals_by_cell = totals.reshape(1, -1)
        values_by_cell = values.reshape(1, -1)
        for cells, noise in self._lookahead.cells_of(step):
            exact = values_by_cell[:, cells]
            sums_before = sums.reshape(-1)[cells]
            sums_after.reshape(-1)[cells] = self._add_up(
                totals_by_cell[:, cells], sums_before, exact
            )
            shown = self._add_noise(exact, noise)
            if shown is not exact:
                released = values.view(shown.dtype)
                released.reshape(1, -1)[:, cells] = shown
        return released, sums_after

    def _add_up(
        self, totals: NDArray[np.int64], sums: NDArray[np.int64], exact: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Write what consecutive steps release without noise to ``exact``; return the sums after.

        Args:
            totals: totals of the steps, of all cells or of some.
            sums: the sums before the steps, of these cells.
            exact: where the exact numbers are written, in the shape of ``totals``.
        """
        facts = self.design.strategy.facts
        if facts.versions > 1:
            return add_arrivals(sums, totals, exact)
        if facts.release == "totals":
            return add_up(totals, sums, exact).copy()
        exact[...] = totals
        return sums

    def _add_noise(self, exact: NDArray[np.int64], noise: NDArray[np.int64]) -> IntegersOrFloats:
        """Add noise to exact numbers, in their place, and return the sums in data units."""
        fraction_bits = self.design.strategy.facts.fraction_bits
        if fraction_bits:
            exact <<= fraction_bits
        exact += noise
        return self.design.to_data(exact)

    def checkpoint(self) -> bytes:
        """Return the state as bytes, from which `resume` continues.

        It holds exact sums: keep it as secret as the data. Of the key it holds the fingerprint.
        """
        return write_checkpoint(self.design.text, self.key_fingerprint, self._progress())

    @classmethod
    def resume(cls, saved: bytes, *, key: Key, strategy: StreamStrategy | None = None) -> Counter:
        """Continue the stream of ``saved``, the bytes of `checkpoint`, as if never interrupted.

        Args:
            saved: the bytes that `checkpoint` returned. They are secret.
            key: the key with which the stream was started.
            strategy: only if it is not one of counton's own.

        Raises:
            StateError: the state is truncated, altered, of another version, or of another strategy.
            NoiseKeyError: the stream was started with another key.
        """
        return cls.resume_from(read_checkpoint(saved), key, strategy)

    @classmethod
    def resume_from(cls, state: Checkpoint, key: Key, strategy: StreamStrategy | None) -> Counter:
        """Continue the stream of a checkpoint that is read already; see `resume`.

        Args:
            state: the checkpoint.
            key: the key with which the stream was started.
            strategy: only if it is not one of counton's own; otherwise None.

        Raises:
            StateError: the checkpoint is of another version, or of another strategy.
            NoiseKeyError: the stream was started with another key.
        """
        design = Design.from_dict(state.design, strategy)
        counter = cls.__new__(cls)
        counter._begin(design, key, state.progress(design))
        if counter.key_fingerprint != state.key_fingerprint:
            raise NoiseKeyError(
                f"stream {design.name!r} was saved under the key {state.key_fingerprint}, but the "
                f"given key is {counter.key_fingerprint}: load the key that was saved with it"
            )
        return counter

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "counters cannot be copied or pickled, because a copy would release other data with "
            "equal noise: use Counter.checkpoint() and Counter.resume(saved, key=key)"
        )

    def describe(self) -> str:
        """Describe protected unit, neighbouring relation, guarantee, strategy and noise."""
        design = self.design
        last = design.strategy.horizon or max(self.step, 1 + design.strategy.facts.delay)
        deviation = float(self.std(range(last, last + 1))[0])
        windows = design.strategy.facts.release == "windows"
        released = ", which releases each step's own count" if windows else ""
        return (
            f"Protected: {design.contribution}. "
            f"Guarantee: {design.guarantee}, {design.guarantee.scope}. "
            f"Strategy: {design.strategy!r}{released}. "
            f"Noise: standard deviation {figures(deviation)} at step {last:,}."
        )

    def __repr__(self) -> str:
        design = self.design
        return (
            f"Counter(name={design.name!r}, strategy={design.strategy!r}, "
            f"guarantee={design.guarantee!r}, shape={design.shape}, step={self.step})"
        )
