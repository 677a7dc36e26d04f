"""A running statistic of a stream."""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import (
    CountonError,
    HorizonExceededError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    StreamMismatchError,
    SumOverflowError,
)
from counton.base.exact import check_integer, refuse_overflow, shorten
from counton.base.private import reveal
from counton.continual import Counter, Design
from counton.continual.checkpoint import read_state, with_checksum
from counton.continual.counter import OneAtATime
from counton.continual.design import check_shape, design_for, largest_sum
from counton.continual.formulas import ClosedForm, TableNumbers
from counton.continual.node_distribution import check_addresses
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import ContributionBound, Guarantee
from counton.statistics.accumulator_statistic import refuse_unreadable_cells
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.event_steps import count_events, ends_of
from counton.statistics.results import StatisticResult, StatisticResults
from counton.statistics.statistic import NamedCells, restore
from counton.strategies import StreamStrategy
from counton.strategies.strategy import last_served_step, more_steps

if TYPE_CHECKING:
    from counton.continual.formulas import Estimate
    from counton.statistics.ranking import Ranking
    from counton.statistics.statistic import Events, Exact, Statistic

_FORMAT = "counton-statistic-1"


#: Largest number of values (steps times cells) computed at a time, and of draws of noise in memory.
_VALUES_PER_CHUNK = 2**16
_MOST_DRAWS_IN_MEMORY = 2**24
#: Largest number of cells in one table.
_MOST_LISTED_CELLS = 2**22
#: Requested cells whose indices differ by at most this much are computed together.
_LARGEST_GAP_OF_CELLS = 16


class _CellNoise:
    """Noise of requested cells, in their order: one draw for each cell and node."""

    def __init__(self, field: NoiseField, cells: NDArray[np.int64]) -> None:
        self.shape = (len(cells),)
        gaps = np.diff(cells)
        breaks = (np.flatnonzero((gaps < 1) | (gaps > _LARGEST_GAP_OF_CELLS)) + 1).tolist()
        self._parts: list[tuple[slice, NoiseField, NDArray[np.int64]]] = []
        for begin, stop in zip([0, *breaks], [*breaks, len(cells)], strict=True):
            first = int(cells[begin])
            last = int(cells[stop - 1])
            part = field.part(first, last - first + 1)
            self._parts.append((slice(begin, stop), part, cells[begin:stop] - first))

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        noise = np.empty((len(nodes), *self.shape), np.int64)
        for cells, part, places in self._parts:
            noise[:, cells] = part.run(level, nodes)[:, places]
        return noise


class RunningStatistic:
    """A running statistic, made by `RunningStatistic.start`: it takes the events of each step.

    All releases together satisfy one guarantee. The object holds exact counts: keep it secret.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Distinct
    >>> key = Key.generate()
    >>> running = RunningStatistic.start(Distinct(), 365, PureDP(1), key=key, name="users")
    >>> results = running.release_many(["ann", "bob", "ann"])
    >>> running.step, results[2].step, RunningStatistic.resume(running.checkpoint(), key=key).step
    (3, 3, 3)
    """

    def __init__(
        self,
        statistic: Statistic,
        exact: Exact,
        batched: bool,
        source: Counter | tuple[Design, Key],
        step: int,
    ) -> None:
        self._counter = source if isinstance(source, Counter) else None
        if isinstance(source, Counter):
            self.design = source.design
            self.key_fingerprint = source.key_fingerprint
        else:
            design, key = source
            self.key_fingerprint = key.fingerprint
            self.design = design.bound_to_key(key.fingerprint)
            self._field = self.design.noise_field(key)
        self.statistic = statistic
        self.batched = batched
        self._exact = exact
        self._step = step
        self._whole = True  # releases, exact state and step agree
        self._turn = OneAtATime(
            f"statistic {self.design.name!r}",
            remedy="hand it over by RunningStatistic.checkpoint() and "
            "RunningStatistic.resume(saved, key=key)",
        )

    @property
    def step(self) -> int:
        """Number of the last released step; 0 before the first."""
        return self._step

    @classmethod
    def start(
        cls,
        statistic: Statistic,
        horizon: int | None = None,
        guarantee: Guarantee | None = None,
        *,
        key: Key,
        name: str,
        strategy: StreamStrategy | None = None,
        batched: bool = False,
    ) -> RunningStatistic:
        """Begin a stream of a statistic.

        Args:
            statistic: what is counted.
            horizon: number of steps; needed only without ``strategy``, which has its own.
            guarantee: for all releases together.
            key: never start two streams with one key and one name.
            name: name of the stream.
            strategy: None: the planner's choice.
            batched: True if a step may have any number of events (`release_batch`). Otherwise it
                has at most one, and exactly one letter. Call `release_batch` with no events for a
                missing one, because all others must stay in their steps. Graphs also take `None`.

        Raises:
            InvalidInputError: an argument is missing or out of range.
        """
        if guarantee is None or (strategy is None and horizon is None):
            raise InvalidInputError(
                "horizon or guarantee is missing: give the number of steps, and a guarantee such "
                "as PureDP(1)"
            )
        statistic = statistic.resolve_parameters(
            guarantee, horizon if strategy is None else strategy.horizon
        )
        if strategy is None:
            from counton.statistics.statistic_plan import plan_statistic

            plan = plan_statistic(statistic, horizon, guarantee, batched=batched)
            strategy = plan.best.strategy
        source: Counter | tuple[Design, Key]
        if statistic.on_demand:
            design = _design_on_demand(statistic, strategy, guarantee, name=name, batched=batched)
            source = (design, check_key(key))
        else:
            source = counter_of(statistic, strategy, guarantee, key=key, name=name, batched=batched)
        return cls(statistic, statistic.begin(), batched, source, 0)

    def release(self, event: Any) -> StatisticResult:
        """Take one event as a step, and release the statistic's numbers.

        An interruption leaves everything as it was before. If that is impossible, because events
        are half counted, all further releases are refused.

        Args:
            event: one event as the statistic takes it, such as a user for `Distinct`. For a step
                without an event, call `release_batch` with no events.

        Raises:
            InvalidInputError: not an event of this statistic, or an event that breaks its bounds;
                nothing is released.
            HorizonExceededError: the strategy serves no more steps.
            SumOverflowError: a count would leave the exact range.
            ConcurrentWriterError: called in a forked process, or in a signal handler during another
                release.
            StateError: an earlier release was interrupted while it counted its events.
        """
        return self.release_many([event])[0]

    def release_batch(self, events: Events) -> StatisticResult:
        """Take any number of events as one step, and release the statistic's numbers.

        If the stream is not ``batched``, a step has one event or none.

        Args:
            events: the events of the step, in the order in which they happened; empty for none.

        Raises:
            InvalidInputError: as `release`, or a wrong number of events.
            HorizonExceededError, ConcurrentWriterError, StateError: as `release`.
        """
        return self.release_batches(events, [count_events(self.statistic, events)])[0]

    def release_many(self, events: Events) -> StatisticResults:
        """Take each event as a step, and release all these steps, or none.

        Args:
            events: one event for each step, in order.

        Raises:
            InvalidInputError, HorizonExceededError, ConcurrentWriterError, StateError: as
                `release`.
        """
        return self._release(events, np.arange(1, count_events(self.statistic, events) + 1))

    def release_batches(
        self, events: Events, stops: Sequence[int] | NDArray[np.int64]
    ) -> StatisticResults:
        """Take consecutive steps with any number of events, and release all of them, or none.

        Args:
            events: in the order in which they happened.
            stops: for each step the number of events up to its end, as in `release_batch`.

        Raises:
            InvalidInputError: as `release_batch`, or stops that do not ascend to ``len(events)``.
            HorizonExceededError, ConcurrentWriterError, StateError: as `release`.
        """
        batched = self.batched
        name = self.design.name
        return self._release(
            events, ends_of(self.statistic, events, stops, batched=batched, name=name)
        )

    def _release(self, events: Events, stops: NDArray[np.int64]) -> StatisticResults:
        with self._turn.take():
            counter = self._counter
            releases = None
            before = None if counter is None else counter._done
            steps = self._check_horizon(len(stops))
            changes = self._take(events, stops)
            try:
                if counter is not None:
                    totals = reveal(counter.totals_taken)
                    refuse_unreadable_cells(self.statistic, self.design, totals, changes)
                    releases = counter.release_exact(changes)
                results = StatisticResults(
                    self.statistic, steps, releases, self._read if counter is None else None
                )
            except BaseException:
                # Nobody has seen the counter's releases of this call: restore the counter too.
                if counter is not None and before is not None:
                    counter._done = before
                self._undone()
                raise
            self._step = steps.stop - 1
            self._whole = True
        return results

    def _take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count events, and return the change of each cell in each step.

        The caller must then release, and keep the counts or undo them; if an interruption prevents
        both, further releases are refused, because a unit must not be counted twice.
        """
        self._check_whole()
        self._whole = False
        try:
            changes = self._exact.take(events, stops)
            if self.statistic.on_demand:
                largest = self._exact.largest
                most = largest_sum(self.design.strategy)
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
                except SumOverflowError:
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
                "go on from the checkpoint of the last step that was published"
            )

    def _check_horizon(self, count: int) -> range:
        steps = range(self._step + 1, self._step + 1 + count)
        horizon = last_served_step(self.design.strategy)
        if horizon is not None and steps.stop - 1 > horizon:
            raise HorizonExceededError(
                f"step {steps.stop - 1:,} is after the last of the {horizon:,} steps: "
                f"{more_steps(self.design.strategy)}"
            )
        return steps

    def values(self, cells: NDArray[np.int64], step: int) -> NDArray[Any]:
        """Return the released values of some cells at a step: a function of key, cell and step.

        Args:
            cells: indices of cells, in any order.
            step: a released step, from 1.

        Returns:
            One value for each cell, in data units.
        """
        # Cells with numbers close to each other cost one call of the noise.
        values: NDArray[Any] = self.history(cells, range(step, step + 1))[0]
        return values

    def history(self, cells: NDArray[np.int64], steps: range) -> NDArray[Any]:
        """Return the released values of some cells at consecutive steps.

        Args:
            cells: indices of cells, in any order.
            steps: released steps.

        Returns:
            Values in data units, of shape ``(len(steps), len(cells))``.
        """
        strategy = self.design.strategy
        values = np.zeros((len(steps), len(cells)), np.int64)
        # If a release reads all earlier steps, this many numbers are in memory for each cell.
        most = max(_LARGEST_GAP_OF_CELLS, _MOST_DRAWS_IN_MEMORY // max(1, steps.stop))
        chunk = max(1, min(_VALUES_PER_CHUNK // max(1, len(steps)), most))
        for start in range(0, len(cells), chunk):
            part = slice(start, start + chunk)
            values[:, part] = strategy.noise(_CellNoise(self._field, cells[part]), steps)
        for place, step in enumerate(steps if len(cells) else ()):
            values[place] += self._exact.counts(cells, step) << strategy.facts.fraction_bits
        return self.design.to_data(values)

    def describe(self) -> str:
        """Describe the statistic, the protected unit, the guarantee and the strategy."""
        design = self.design
        return (
            f"{design.name}: {self.statistic!r}\nprotected: {design.contribution}\n"
            f"neighbours: differ {self.statistic.neighbours_differ()}\n"
            f"guarantee: {design.guarantee}, {design.guarantee.scope}\n"
            f"strategy: {design.strategy!r}"
        )

    def result(self, step: int | None = None) -> StatisticResult:
        """Return the numbers of an earlier step, for statistics computed on request.

        Args:
            step: a released step, from 1; None: the last one.

        Raises:
            InvalidInputError: the step is not released, or all cells of the statistic were.
        """
        if not self._step:
            raise InvalidInputError(
                f"statistic {self.design.name!r} has released no step yet: release a step first"
            )
        step = self._step if step is None else check_integer("step", step, 1, self._step)
        if self._counter is not None:
            raise InvalidInputError(
                f"{type(self.statistic).__name__} releases all its numbers at each step and does "
                "not keep them: keep what release returned"
            )
        return self._read(step)

    def _read(self, step: int) -> StatisticResult:
        result_type = self.statistic.result_type
        assert result_type is not None
        return result_type(self, step)

    def checkpoint(self) -> bytes:
        """Return the state, from which `resume` continues. It holds exact counts: keep it secret.

        Raises:
            StateError: within a release, or after an interruption that left events half counted.
        """
        self._check_whole(None if self._counter is None else self._counter.step)
        counter = None if self._counter is None else self._counter.checkpoint().decode("latin-1")
        fields = {
            "statistic": statistic_to_dict(self.statistic),
            "batched": self.batched,
            "step": self._step,
            "exact": b64encode(self._exact.save()).decode("ascii"),
            "counter": counter,
            "terms": self.design.to_dict(),
            "key_fingerprint": self.key_fingerprint,
        }
        return with_checksum(_FORMAT, json.dumps(fields, sort_keys=True).encode())

    @classmethod
    def resume(cls, saved: bytes, *, key: Key) -> RunningStatistic:
        """Continue from `checkpoint`; releases equal those without an interruption.

        Args:
            saved: the bytes that `checkpoint` returned. They are secret.
            key: the key with which the stream was started.

        Raises:
            StateError: the state is truncated, altered, or of another format version.
            NoiseKeyError: the stream was started with another key.
        """
        state = read_state(saved, _FORMAT)
        check_key(key)
        if key.fingerprint != state["key_fingerprint"]:
            raise NoiseKeyError(
                f"the stream was saved under the key {state['key_fingerprint']}, but the given key "
                f"is {key.fingerprint}: load the key that was saved with it"
            )
        statistic = statistic_from_dict(state["statistic"])
        exact = restore(statistic, b64decode(state["exact"]))
        source: Counter | tuple[Design, Key]
        if state["counter"] is None:
            source = Design.from_dict(state["terms"]), key
        else:
            source = Counter.resume(state["counter"].encode("latin-1"), key=key)
        if isinstance(source, Counter) and source.step != state["step"]:
            raise StateError(
                f"the checkpoint is of step {state['step']}, but its counter of step "
                f"{source.step}, so it was taken in the middle of a release; use another checkpoint"
            )
        return cls(statistic, exact, state["batched"], source, state["step"])

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "running statistics cannot be copied or pickled, because a copy would release other "
            "data with equal noise: use RunningStatistic.checkpoint() and "
            "RunningStatistic.resume(saved, key=key)"
        )


def counter_of(
    statistic: Statistic,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    *,
    key: Key,
    name: str,
    batched: bool = False,
    contribution: ContributionBound | None = None,
    shape_and_guarantee: tuple[tuple[int, ...], Guarantee] | None = None,
) -> Counter:
    """Return a counter that adds noise to the statistic's cells.

    Args:
        contribution: None: the statistic's bound.
        shape_and_guarantee: if groups are found in the rows, the shape of all possible groups'
            cells, and the guarantee of the noise. (The choice of groups spends the rest.)
    """
    if contribution is None:
        contribution = statistic.contribution(batched=batched)
    shape, noise_guarantee = (
        (statistic.cells, None) if shape_and_guarantee is None else shape_and_guarantee
    )
    return Counter(
        strategy,
        guarantee,
        key=key,
        name=name,
        contribution=contribution,
        shape=shape,
        noise_guarantee=noise_guarantee,
        statistic={**statistic_to_dict(statistic), "batched": batched},
    )


def _design_on_demand(
    statistic: Statistic,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    *,
    name: str,
    batched: bool,
) -> Design:
    """Return the design of a stream whose cells are computed on request."""
    if strategy.facts.delay or strategy.facts.release != "totals":
        raise InvalidInputError(
            f"strategy {strategy!r} does not release totals without delay, but numbers computed on "
            "demand need such totals: use another strategy"
        )
    shape = check_shape(statistic.cells)
    contribution = statistic.contribution(batched=batched)
    saved = {**statistic_to_dict(statistic), "batched": batched}
    design = design_for(strategy, guarantee, contribution, shape, name=name, statistic=saved)
    check_addresses(strategy, shape)
    return design


def statistic_of(saved: Mapping[str, object] | None) -> tuple[Statistic, bool]:
    """Rebuild a statistic, and whether it is batched, from its entry in a `Design`; None, as of
    plain counts, raises an error.
    """
    if saved is None:
        raise StreamMismatchError(
            "the stream releases counts and no statistic: open it with Stream.open"
        )
    parameters = dict(saved)
    batched = parameters.pop("batched", False)
    return statistic_from_dict(parameters), bool(batched)


def noise_at(design: Design, step: int, since: int | None = None) -> tuple[float, str | None]:
    """Return the standard deviation of a released number in data units, and words for it.

    The words are such as "the number of values"; None for plain counts and sums. ``since``: the
    step after which events count; None: all so far count.
    """
    std = float(design.errors.std(step) if since is None else design.errors.window_std(since, step))
    if design.statistic is None:
        return std, None
    error = statistic_of(design.statistic)[0].error_of
    return std * error.mean, error.meaning


class OnDemandResult(StatisticResult):
    """The numbers of a statistic whose cells are computed on request.

    It can reach exact counts: keep it as secret as the data. Noise depends on key, cell and step
    alone, so the same question gets the same number again.
    """

    statistic: NamedCells

    def __init__(self, machine: RunningStatistic, step: int) -> None:
        self.statistic = cast(NamedCells, machine.statistic)
        self.step = step
        self._machine = machine
        self._design = machine.design

    @override
    def number_of(self, name: Any = None) -> Estimate:
        return self._estimate(np.array([self.statistic.cell(name)], dtype=np.int64)).selected(0)

    @override
    def std(self, name: Any = None) -> float:
        """Return the standard deviation, the same for all cells."""
        if name is not None:
            self.statistic.cell(name)
        return float(self._machine.design.errors.std(range(self.step, self.step + 1))[0])

    def since(self, earlier: StatisticResult) -> Self:
        """Raise `InvalidInputError`: cells on request have no difference."""
        raise InvalidInputError(
            "numbers that are computed on request cannot be subtracted as a whole (here of steps "
            f"{self.step} and {earlier.step}): subtract single numbers"
        )

    def ranking(
        self, k: int = 10, among: Sequence[object] | None = None, confidence_level: float = 0.95
    ) -> Ranking:
        """Rank the largest cells; `rank_largest` describes the result.

        Args:
            among: cells that may be shown; None: all. Choose them without looking at releases,
                because the intervals hold together only for a fixed set.

        Raises:
            InvalidInputError: the level is out of range, a cell is unknown, or ``among`` is None
                and there are over 2^22 cells.
        """
        from counton.statistics.ranking import ranking_of

        cells = self._cells(among)
        if not len(cells):
            raise InvalidInputError("among is empty: name at least one cell that may be shown")
        names = [self.statistic.name_of(cell) for cell in cells.tolist()]
        values = self._machine.values(cells, self.step)
        return ranking_of(names, values, self._half, k, confidence_level)

    def _cells(self, names: Sequence[object] | None) -> NDArray[np.int64]:
        if names is not None:
            cells = np.array([self.statistic.cell(name) for name in names], dtype=np.int64)
            return np.unique(cells) if len(set(cells.tolist())) < len(cells) else cells
        count = math.prod(self.statistic.cells)
        if count > _MOST_LISTED_CELLS:
            raise InvalidInputError(
                f"there are {count:,} cells, and at most {_MOST_LISTED_CELLS:,} can be listed: ask "
                "for single cells by name"
            )
        return np.arange(count)

    def _half(self, confidence_level: float) -> float:
        design = self._machine.design
        steps = range(self.step, self.step + 1)
        half = float(design.errors.halfwidths(steps, confidence_level)[0])
        return int(half) if half == int(half) and not design.strategy.facts.fraction_bits else half

    def describe(self) -> str:
        """Describe the stream, the protected unit and the guarantee."""
        return self._machine.describe()

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the numbers of all, or of the requested cells.

        Raises:
            InvalidInputError: a cell is unknown, or no cells are requested and there are over 2^22.
        """
        cells = self._cells(request.ask)
        names = np.array([self.statistic.name_of(cell) for cell in cells.tolist()])
        return TableNumbers({"cell": names}, self._estimate(cells))

    def _estimate(self, cells: NDArray[np.int64]) -> ClosedForm:
        """Return the released values of some cells with their intervals."""
        return ClosedForm.symmetric(self._machine.values(cells, self.step), self._half, self.std())
