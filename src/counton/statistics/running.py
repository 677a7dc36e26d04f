"""Statistics of a stream as it runs: events in, readings out, and a checkpoint in between."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from counton.errors import (
    CountonError,
    HorizonExceeded,
    InvalidInput,
    StateError,
    SumOverflow,
    WrongKey,
)
from counton.exact import check_integer, quoted, shown, unmasked
from counton.mechanisms import Counter, StreamTerms
from counton.mechanisms.calibration import law_for, promised
from counton.mechanisms.counter import OneAtATime
from counton.mechanisms.state import read_state, write_state
from counton.mechanisms.terms import check_shape
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import Guarantee
from counton.statistics.known import statistic_from_dict
from counton.statistics.readings import Reading, Readings
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.statistics.base import Events, Exact, Statistic

#: Cells of one step that are computed at a time, and steps times cells.
_CHUNK, _DRAWS = 2**16, 2**24
#: Cells that are at most so far apart are computed together.
_NEAR = 16
_FORMAT = "counton-statistic-1"


class _Picked:
    """The noise of some cells of every node, in the order in which they are asked for."""

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
        """See `counton.strategies.base.NodeNoise`."""
        found = np.empty((len(nodes), *self.shape), np.int64)
        for where, part, places in self._parts:
            found[:, where] = part.run(level, nodes)[:, places]
        return found


class Running:
    """A statistic of a stream: what a `Counter` is to counts. Made by `Statistic.counter`.

    Releases are private together under one guarantee. What it holds is exact, hence secret.

    Attributes:
        statistic: which.
        batched: whether a step may have any number of events.
        terms: all that is stated of the releases; public.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Distinct
    >>> key = Key.generate()
    >>> running = Distinct().counter(365, PureDP(1), key=key, name="users")
    >>> readings = running.release_many(["ann", "bob", "ann"])
    >>> running.step, readings[2].step, Running.resume(running.checkpoint(), key=key).step
    (3, 3, 3)
    """

    def __init__(
        self,
        statistic: Statistic,
        exact: Exact,
        batched: bool,
        source: Counter | tuple[StreamTerms, Key],
        step: int,
    ) -> None:
        """Not for callers: use `Statistic.counter` or `resume`."""
        self.statistic, self.batched = statistic, batched
        self._exact = exact
        if isinstance(source, Counter):
            self._counter: Counter | None = source
            self.terms, self.key_fingerprint = source.terms, source.key_fingerprint
        else:
            self._counter = None
            self.terms, key = source
            self._field = self.terms.noise_field(key)
            self.key_fingerprint = key.fingerprint
        self._step = step
        self._whole = True  # counter, exact state and step are those of one moment
        self._turn = OneAtATime(
            f"statistic {self.terms.name!r}",
            elsewhere="hand it over by Running.checkpoint() and Running.resume(saved, key=key)",
        )

    @classmethod
    def start(
        cls,
        statistic: Statistic,
        strategy: StreamStrategy,
        guarantee: Guarantee,
        *,
        key: Key,
        name: str,
        batched: bool = False,
    ) -> Running:
        """Begin; see `Statistic.counter`."""
        statistic = statistic.settled(guarantee, strategy.horizon)
        contribution = statistic.contribution_within(strategy.horizon, batched=batched)
        said = described(statistic, batched)
        if not statistic.on_demand:
            counter = Counter(
                strategy,
                guarantee,
                key=key,
                name=name,
                contribution=contribution,
                shape=statistic.cells,
                statistic=said,
            )
            return cls(statistic, statistic.begin(), batched, counter, 0)
        if strategy.delay or strategy.workload != "totals":
            raise InvalidInput(
                f"strategy is {strategy!r}; cells on demand are totals without a delay: use "
                f"another one"
            )
        guarantee = promised(strategy, guarantee)
        terms = StreamTerms(
            name=name,
            strategy=strategy,
            guarantee=guarantee,
            contribution=contribution,
            shape=check_shape(statistic.cells),
            law=law_for(strategy, guarantee, contribution, statistic.cells).law,
            statistic=said,
        )
        return cls(statistic, statistic.begin(), batched, (terms, check_key(key)), 0)

    @property
    def step(self) -> int:
        """Number of the last released step; 0 before the first."""
        return self._step

    def release(self, event: Any) -> Reading:
        """Release a step with one event.

        What interrupts it, as Ctrl-C or a lack of memory, leaves all as it was before; where that
        cannot be, since events are half counted, everything more is refused.

        Raises:
            InvalidInput: not an event of this statistic, or one that breaks its bounds; nothing is
                released.
            HorizonExceeded: the strategy serves no more steps.
            SumOverflow: a count would leave the exact range.
            StreamConflict: in a fork, or in a handler within a release.
            StateError: an earlier release was interrupted while it counted its events.
        """
        return self.release_many([event])[0]

    def release_batch(self, events: Events) -> Reading:
        """Release a step with any number of events; without ``batched`` with one or none.

        A step without events is an empty step, ``release_batch([])``.

        Raises:
            InvalidInput: as `release`, or more events than a step of this stream may have, or none
                where each has one letter.
            HorizonExceeded, StreamConflict, StateError: as `release`.
        """
        return self.release_batches(events, [self._count(events)])[0]

    def release_many(self, events: Events) -> Readings:
        """Release consecutive steps of one event each: all of them, or none.

        Raises:
            InvalidInput, HorizonExceeded, StreamConflict, StateError: as `release`.
        """
        return self._released(events, np.arange(1, self._count(events) + 1))

    def release_batches(self, events: Events, stops: Sequence[int] | NDArray[np.int64]) -> Readings:
        """Release consecutive steps of any number of events each: all of them, or none.

        Args:
            events: in the order in which they happened.
            stops: for each step the number of events up to its end; without ``batched`` a step has
                one event or none (of letters exactly one).

        Raises:
            InvalidInput: as `release_batch`, or stops that do not ascend to ``len(events)``.
            HorizonExceeded, StreamConflict, StateError: as `release`.
        """
        return self._released(events, self._ends(events, stops))

    def _ends(self, events: Events, stops: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends of steps within events, checked."""
        count, ends = self._count(events), np.asarray(stops)
        if ends.ndim == 1 and not len(ends):
            ends = ends.astype(np.int64)
        if (
            ends.ndim != 1
            or ends.dtype.kind not in "iu"
            or (np.diff(ends.astype(np.int64), prepend=0) < 0).any()
            or (ends[-1] if len(ends) else 0) != count
        ):
            raise InvalidInput(
                f"stops are {quoted(ends.tolist())} for {count:,} events; they must be integers "
                f"that ascend, and the last must be the number of events"
            )
        ends = ends.astype(np.int64)
        each = np.diff(ends, prepend=0)
        exactly = self.statistic.of_letters
        if not self.batched and ((each != 1) if exactly else (each > 1)).any():
            raise InvalidInput(
                f"a step has {int(each[(each != 1) if exactly else (each > 1)][0]):,} events; the "
                f"noise of {self.terms.name!r} is for {'' if exactly else 'at most '}one "
                f"{self.statistic.event} a step: start it with batched=True"
            )
        return ends

    def _count(self, events: Events) -> int:
        """How many events these are, if they are a sequence."""
        text = isinstance(events, str) and self.statistic.of_letters
        if not text and (
            isinstance(events, (str, bytes, bytearray, Mapping, Set))
            or not hasattr(events, "__len__")
            or np.ndim(events if isinstance(events, np.ndarray) else ()) < 1
        ):
            raise InvalidInput(
                f"events are {quoted(events)}, of type {type(events).__name__}; they must be a "
                f"list or an array, in order, with each {self.statistic.event} by itself: put a "
                f"single one in brackets"
            )
        if isinstance(events, np.ma.MaskedArray):
            unmasked(events, "the events")
        return len(events)

    def _released(self, events: Events, stops: NDArray[np.int64]) -> Readings:
        with self._turn.take():
            counter, releases = self._counter, None
            before = None if counter is None else counter._done
            steps = self._check_horizon(len(stops))
            changes = self._taken(events, stops)
            try:
                if counter is not None:
                    in_data = self.terms.contribution.exact_from_grid(changes)
                    releases = counter.release_many(in_data)
                readings = Readings(self, steps, releases)
            except BaseException:
                # Nobody has seen what the counter may have released already: it is put back too.
                if counter is not None and before is not None:
                    counter._done = before
                self._undone()
                raise
            self._step = steps.stop - 1
            self._whole = True
        return readings

    def _taken(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count events exactly; what is known is not whole before the release is done, or undone.

        Whatever interrupts in between leaves it so: a unit must not be counted twice.
        """
        self._check_whole()
        self._whole = False
        try:
            changes = self._exact.take(events, stops)
            if self.statistic.on_demand:
                self._check_range()
        except CountonError:
            self._whole = True  # refused, and nothing is changed
            raise
        return changes

    def _check_range(self) -> None:
        """Undo what was taken if a count on demand may now leave the exact range."""
        largest, most = self._exact.largest, self.terms.largest_sum
        if largest > most:
            self._exact.undo()
            raise SumOverflow(
                f"a count of {shown(largest)} grid units is beyond {most:,}, up to which sums are "
                f"exact: coarsen the resolution or split the stream"
            )

    def _undone(self) -> None:
        self._exact.undo()
        self._whole = True

    def _check_whole(self, counted: int | None = None) -> None:
        if not self._whole or counted not in (None, self._step):
            raise StateError(
                f"statistic {self.terms.name!r} is within a release, or was interrupted in one, so "
                f"that events of step {self._step + 1:,} may be counted and others not: "
                f"{self._remedy}"
            )

    #: What to do after an interruption.
    _remedy = "go on from the checkpoint of the last step that was published"

    def _check_horizon(self, count: int) -> range:
        """The next steps, if the strategy serves them."""
        steps = range(self._step + 1, self._step + 1 + count)
        horizon = self.terms.strategy.horizon
        if horizon is not None and steps.stop - 1 > horizon:
            raise HorizonExceeded(
                f"step {steps.stop - 1:,} is beyond the horizon of {horizon:,} steps: start a "
                f"new stream with a larger horizon"
            )
        return steps

    def reading(self, step: int | None = None) -> Reading:
        """What an earlier step said, where cells are read on demand: the same values as then.

        Raises:
            InvalidInput: a step that is not released, or a statistic whose cells were all released:
                keep its readings.
        """
        if not self._step:
            raise InvalidInput(
                f"statistic {self.terms.name!r} has released no step: release one first"
            )
        step = self._step if step is None else check_integer("step", step, 1, self._step)
        if self._counter is not None:
            raise InvalidInput(
                f"{type(self.statistic).__name__} releases all of its cells at each step and keeps "
                f"none: keep what release returned"
            )
        return self.statistic.asked(self, step)

    def values(self, cells: NDArray[np.int64], step: int) -> NDArray[Any]:
        """What is released of some cells at a step, where cells are read on demand.

        Numbers close to each other cost one call of the noise; a value is a function of key, cell
        and step.
        """
        alone: NDArray[Any] = self.history(cells, range(step, step + 1))[0]
        return alone

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """The same of consecutive steps, in one call of the noise: shape (steps, cells)."""
        strategy, values = self.terms.strategy, np.zeros((len(steps), len(cells)), np.int64)
        # Where a release reads all steps before it, so many numbers are in memory for each cell.
        most = max(_NEAR, _DRAWS // max(1, steps.stop))
        chunk = max(1, min(_CHUNK // max(1, len(steps)), most))
        for at in range(0, len(cells), chunk):
            some = slice(at, at + chunk)
            values[:, some] = strategy.noise(_Picked(self._field, cells[some]), steps)
        for place, step in enumerate(steps if len(cells) else ()):
            values[place] += self._exact.counts(cells, step) << strategy.fraction_bits
        return self.terms.to_data(values)

    def describe(self) -> str:
        """What is protected, and how, in words."""
        terms = self.terms
        return (
            f"{terms.name}: {self.statistic!r}\nprotected: {terms.contribution}\n"
            f"neighbours: differ {self.statistic.neighbours_differ}\n"
            f"guarantee: {terms.guarantee}, {terms.guarantee.scope}\nstrategy: {terms.strategy!r}"
        )

    def checkpoint(self) -> bytes:
        """State from which `resume` continues. Holds exact counts: keep it as secret as data.

        Raises:
            StateError: within a release, or after an interruption that left events half counted.
        """
        self._check_whole(None if self._counter is None else self._counter.step)
        counter = None if self._counter is None else self._counter.checkpoint().decode()
        return write_state(
            _FORMAT,
            {
                "statistic": self.statistic.to_dict(),
                "batched": self.batched,
                "step": self._step,
                "exact": b64encode(self._exact.save()).decode("ascii"),
                "counter": counter,
                "terms": self.terms.to_dict(),
                "key_fingerprint": self.key_fingerprint,
            },
        )

    @classmethod
    def resume(cls, saved: bytes, *, key: Key) -> Running:
        """Continue where `checkpoint` stood: the same values as if never stopped.

        Raises:
            StateError: truncated, altered, or written by another format version.
            WrongKey: the key is not the one the stream was started with.
        """
        state = read_state(saved, _FORMAT, "Running.checkpoint()")
        check_key(key)
        if key.fingerprint != state["key_fingerprint"]:
            raise WrongKey(
                f"key {key.fingerprint} is not the key {state['key_fingerprint']} of the stream: "
                f"load the key that was saved with it"
            )
        statistic = statistic_from_dict(state["statistic"])
        exact = statistic.restore(b64decode(state["exact"]))
        source: Counter | tuple[StreamTerms, Key]
        if state["counter"] is None:
            source = StreamTerms.from_dict(state["terms"]), key
        else:
            source = Counter.resume(state["counter"].encode(), key=key)
        if isinstance(source, Counter) and source.step != state["step"]:
            raise StateError(
                f"the checkpoint is of step {state['step']} and its counter of step {source.step}: "
                f"it was taken within a release; use another one"
            )
        return cls(statistic, exact, state["batched"], source, state["step"])

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "running statistics are never copied or pickled, since a copy would release the same "
            "noise over other data: use Running.checkpoint() and Running.resume(saved, key=key)"
        )


def described(statistic: Statistic, batched: bool) -> dict[str, Any]:
    """What stands in the terms of a stream: part of the address of its noise."""
    return {**statistic.to_dict(), "batched": batched}


def statistic_of(terms: StreamTerms) -> tuple[Statistic, bool]:
    """The statistic that the cells of a stream are of, and whether steps are batches.

    Raises:
        StateError: they are no statistic's.
        InvalidInput: one that is not known.
    """
    if terms.statistic is None:
        raise StateError(
            f"stream {terms.name!r} releases counts and no statistic: open it as a Stream"
        )
    saved = dict(terms.statistic)
    batched = saved.pop("batched", False)
    return statistic_from_dict(saved), bool(batched)
