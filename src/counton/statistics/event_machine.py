"""Base class of running statistics: exact counts of the events of whole steps, and cells on
request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import CountonError, HorizonExceeded, InvalidInput, StateError, SumOverflow
from counton.base.exact import quote, shorten, without_mask
from counton.base.exact_sums import refuse_overflow
from counton.noise import Key, NoiseField
from counton.numbers import Design
from counton.numbers.design import largest_sum
from counton.statistics.statistic import neighbours_differ
from counton.strategies.strategy import last_served_step

if TYPE_CHECKING:
    from counton.statistics.statistic import Events, Exact, Statistic

#: Largest number of values (steps times cells) computed at a time, and of draws of noise in memory.
_CHUNK, _DRAWS = 2**16, 2**24
#: Requested cells whose indices differ by at most this much are computed together.
_NEAR = 16


class _CellNoise:
    """Integer noise of requested cells: one draw for each cell and each node of the strategy.

    A node is a sum over steps that gets independent noise. Cells are in the requested order.
    """

    def __init__(self, field: NoiseField, cells: NDArray[np.int64]) -> None:
        self.shape = (len(cells),)
        gaps = np.diff(cells)
        breaks = (np.flatnonzero((gaps < 1) | (gaps > _NEAR)) + 1).tolist()
        self._parts: list[tuple[slice, NoiseField, NDArray[np.int64]]] = []
        for begin, stop in zip([0, *breaks], [*breaks, len(cells)], strict=True):
            first, last = int(cells[begin]), int(cells[stop - 1])
            part = field.part(first, last - first + 1)
            self._parts.append((slice(begin, stop), part, cells[begin:stop] - first))

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        found = np.empty((len(nodes), *self.shape), np.int64)
        for where, part, places in self._parts:
            found[:, where] = part.run(level, nodes)[:, places]
        return found


class Machine:
    """Base class of running statistics: a statistic with its exact counts, which must be kept
    secret.

    For each step the caller passes the events to `_take`, releases numbers, and then keeps the new
    counts, or undoes them if the release failed.

    Attributes:
        statistic: the statistic.
        batched: True if a step may have any number of events.
        design: the public parameters of the releases: strategy, guarantee, noise distribution and
            shape.
        listed: indices of the cells that a table has if nobody requests cells by name; None: all
            cells. It is used only if cells are computed on request.
    """

    listed: NDArray[np.int64] | None = None

    def __init__(
        self,
        statistic: Statistic,
        exact: Exact,
        batched: bool,
        terms: Design,
        key: Key | None,
        step: int,
    ) -> None:
        """Store the statistic, its exact counts, and the design of its stream, which has released
        ``step`` steps so far.

        Users call `Running.start` instead. The key is used only for statistics whose cells are
        computed on request.
        """
        self.statistic, self.batched, self.design = statistic, batched, terms
        self._exact = exact
        if key is not None and statistic.card.on_demand:
            self._field = terms.noise_field(key)
        self._step = step
        self._whole = True  # releases, exact state and step agree

    @property
    def step(self) -> int:
        """Number of the last step that this stream has released; 0 before the first."""
        return self._step

    def _ends(
        self, events: Events, stops: Sequence[int] | NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return, for each step, the number of events up to its end: int64 of shape ``(steps,)``.

        This is ``stops``, after checking it. If ``stops`` is None, all events form one step in a
        batched stream, otherwise each event is a step.
        """
        count = self._count(events)
        if stops is None:
            stops = [count] if self.batched else range(1, count + 1)
        ends = np.asarray(stops)
        if ends.ndim == 1 and not len(ends):
            ends = ends.astype(np.int64)
        if (
            ends.ndim != 1
            or ends.dtype.kind not in "iu"
            or (np.diff(ends.astype(np.int64), prepend=0) < 0).any()
            or (ends[-1] if len(ends) else 0) != count
        ):
            raise InvalidInput(
                f"stops are {quote(ends.tolist())} for {count:,} events; give ascending integers, "
                "the last equal to the number of events"
            )
        ends = ends.astype(np.int64)
        each = np.diff(ends, prepend=0)
        exactly = self.statistic.card.of_letters
        if not self.batched and ((each != 1) if exactly else (each > 1)).any():
            raise InvalidInput(
                f"a step has {int(each[each != 1 if exactly else each > 1][0]):,} events, but the "
                f"noise of {self.design.name!r} was made for {'' if exactly else 'at most '}one "
                f"{self.statistic.card.event} a step: start it with batched=True"
            )
        return ends

    def _count(self, events: Events) -> int:
        """Return the number of events; a value that is no sequence raises an error."""
        text = isinstance(events, str) and self.statistic.card.of_letters
        if not text and (
            isinstance(events, (str, bytes, bytearray, Mapping, Set))
            or not hasattr(events, "__len__")
            or np.ndim(events if isinstance(events, np.ndarray) else ()) < 1
        ):
            raise InvalidInput(
                f"events are {quote(events)}, of type {type(events).__name__}; give a list or an "
                f"array of each {self.statistic.card.event}, in order: put a single one in brackets"
            )
        if isinstance(events, np.ma.MaskedArray):
            without_mask(events, "the events")
        return len(events)

    def _take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add events to the exact counts, and return the change of each cell in each step.

        The caller must then release, and afterwards keep the counts or undo them. If an
        interruption prevents both, all further releases are refused, because a unit must not be
        counted twice.
        """
        self._check_whole()
        self._whole = False
        try:
            changes = self._exact.take(events, stops)
            if self.statistic.card.on_demand:
                largest, most = self._exact.largest, largest_sum(self.design.strategy)
                try:
                    refuse_overflow(
                        largest,
                        most,
                        lambda: (
                            f"a count is {shorten(largest)} times the resolution, but sums are "
                            f"exact only up to {most:,} times: give a coarser resolution, or split "
                            "the stream"
                        ),
                    )
                except SumOverflow:
                    self._exact.undo()
                    raise
        except CountonError:
            self._whole = True  # refused, and nothing has changed
            raise
        return changes

    def _undone(self) -> None:
        self._exact.undo()
        self._whole = True

    def _check_whole(self, counted: int | None = None) -> None:
        if not self._whole or counted not in (None, self._step):
            raise StateError(
                f"statistic {self.design.name!r} is in the middle of a release, or was interrupted "
                f"in one, so perhaps only some events of step {self._step + 1:,} are counted: "
                f"{self._remedy}"
            )

    #: The remedy after an interruption, in words.
    _remedy = "go on from the checkpoint of the last step that was published"

    def _check_horizon(self, count: int) -> range:
        steps = range(self._step + 1, self._step + 1 + count)
        horizon = last_served_step(self.design.strategy)
        if horizon is not None and steps.stop - 1 > horizon:
            raise HorizonExceeded(
                f"step {steps.stop - 1:,} is after the last of the {horizon:,} steps: start a new "
                "stream with more steps"
            )
        return steps

    def values(self, cells: NDArray[np.int64], step: int) -> NDArray[Any]:
        """Return the released values of the cells with these indices at a step, of shape
        ``(cells,)``.

        A value is a function of key, cell and step, so it is the same each time.
        """
        # Cells with numbers close to each other cost one call of the noise.
        alone: NDArray[Any] = self.history(cells, range(step, step + 1))[0]
        return alone

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """Return the released values of the cells with these indices, of shape ``(steps,
        cells)``.
        """
        strategy, values = self.design.strategy, np.zeros((len(steps), len(cells)), np.int64)
        # If a release reads all earlier steps, this many numbers are in memory for each cell.
        most = max(_NEAR, _DRAWS // max(1, steps.stop))
        chunk = max(1, min(_CHUNK // max(1, len(steps)), most))
        for at in range(0, len(cells), chunk):
            some = slice(at, at + chunk)
            values[:, some] = strategy.noise(_CellNoise(self._field, cells[some]), steps)
        for place, step in enumerate(steps if len(cells) else ()):
            values[place] += self._exact.counts(cells, step) << strategy.facts.fraction_bits
        return self.design.to_data(values)

    def describe(self) -> str:
        """Describe the statistic, the protected unit, neighbouring datasets, the guarantee and the
        strategy.
        """
        terms = self.design
        return (
            f"{terms.name}: {self.statistic!r}\nprotected: {terms.contribution}\n"
            f"neighbours: differ {neighbours_differ(self.statistic)}\n"
            f"guarantee: {terms.guarantee}, {terms.guarantee.scope}\nstrategy: {terms.strategy!r}"
        )
