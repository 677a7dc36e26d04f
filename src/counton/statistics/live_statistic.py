"""Statistics of a stream as it runs: events in, readings out, and a checkpoint in between."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, RequestMismatch, StateError, WrongKey
from counton.base.exact import check_integer
from counton.base.private import open_private
from counton.noise import Key
from counton.noise.key import check_key
from counton.numbers import Counter, Design
from counton.numbers.counter import OneAtATime
from counton.numbers.counter_state import read_state, write_state
from counton.numbers.design import check_shape, design_for
from counton.numbers.node_law import check_addresses
from counton.privacy import Contribution, Guarantee
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.event_machine import Machine
from counton.statistics.readings import Reading, Readings
from counton.statistics.statistic import restore
from counton.statistics.tally_statistic import is_tallied, refuse_unreadable_cells
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.statistics.statistic import Events, Exact, Statistic

_FORMAT = "counton-statistic-1"


class Running(Machine):
    """A statistic of a stream: what a `Counter` is to counts. Made by `Running.start`.

    Releases are private together under one guarantee. What it holds is exact, hence secret.

    Attributes:
        statistic: which.
        batched: whether a step may have any number of events.
        design: all that is stated of the releases; public.

    >>> from counton import Key, PureDP, Running
    >>> from counton.statistics import Distinct
    >>> key = Key.generate()
    >>> running = Running.start(Distinct(), 365, PureDP(1), key=key, name="users")
    >>> readings = running.release_many(["ann", "bob", "ann"])
    >>> running.step, readings[2].step, Running.resume(running.checkpoint(), key=key).step
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
        """Not for callers: use `start` or `resume`."""
        self._counter = source if isinstance(source, Counter) else None
        if isinstance(source, Counter):
            terms, key, self.key_fingerprint = source.design, None, source.key_fingerprint
        else:
            (plain, key), self.key_fingerprint = source, source[1].fingerprint
            terms = plain.under(key.fingerprint)
        super().__init__(statistic, exact, batched, terms, key, step)
        self._turn = OneAtATime(
            f"statistic {self.design.name!r}",
            elsewhere="hand it over by Running.checkpoint() and Running.resume(saved, key=key)",
        )

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
    ) -> Running:
        """Begin a running statistic: events go in, readings come out.

        Args:
            statistic: what is read.
            horizon: number of steps.
            guarantee: for all releases together.
            key: the secret from which the noise is computed; never start a stream twice.
            name: of the stream.
            strategy: how the noise is correlated over time; the planner's unless given.
            batched: a step may have any number of events (`release_batch`); else at most one, and
                exactly one where events are letters. Then an event that comes or goes before
                others moves all later ones to other steps, and nothing is promised of it: let
                `None` stand where one is left out.

        Raises:
            InvalidInput: an argument is missing or out of range.
        """
        if guarantee is None or (strategy is None and horizon is None):
            raise InvalidInput(
                "horizon or guarantee is missing: state how many steps there will be, and what is "
                "promised, such as PureDP(1)"
            )
        statistic = statistic.settle(guarantee, horizon if strategy is None else strategy.horizon)
        if strategy is None:
            from counton.statistics.statistic_plan import plan_statistic

            found = plan_statistic(statistic, horizon, guarantee, batched=batched)
            strategy = found.best.strategy
        begun = counter_of(statistic, strategy, guarantee, key=key, name=name, batched=batched)
        source = begun if isinstance(begun, Counter) else (begun, check_key(key))
        return cls(statistic, statistic.begin(), batched, source, 0)

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
        return self._release(events, np.arange(1, self._count(events) + 1))

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
        return self._release(events, self._ends(events, stops))

    def _release(self, events: Events, stops: NDArray[np.int64]) -> Readings:
        with self._turn.take():
            counter, releases = self._counter, None
            before = None if counter is None else counter._done
            steps = self._check_horizon(len(stops))
            changes = self._take(events, stops)
            try:
                if counter is not None:
                    if is_tallied(self.statistic):
                        taken = open_private(counter.totals_taken)
                        refuse_unreadable_cells(self.statistic, self.design, taken, changes)
                    in_data = self.design.contribution.exact_from_grid(changes)
                    releases = counter.release_many(in_data)
                readings = Readings(self.statistic, steps, releases, self)
            except BaseException:
                # Nobody has seen what the counter may have released already: it is put back too.
                if counter is not None and before is not None:
                    counter._done = before
                self._undone()
                raise
            self._step = steps.stop - 1
            self._whole = True
        return readings

    def reading(self, step: int | None = None) -> Reading:
        """What an earlier step said, where cells are read on demand: the same values as then.

        Raises:
            InvalidInput: a step that is not released, or a statistic whose cells were all released:
                keep its readings.
        """
        if not self._step:
            raise InvalidInput(
                f"statistic {self.design.name!r} has released no step: release one first"
            )
        step = self._step if step is None else check_integer("step", step, 1, self._step)
        if self._counter is not None:
            raise InvalidInput(
                f"{type(self.statistic).__name__} releases all of its cells at each step and keeps "
                f"none: keep what release returned"
            )
        found: Reading = self.statistic.card.reading(self, step)
        return found

    def checkpoint(self) -> bytes:
        """State from which `resume` continues. Holds exact counts: keep it as secret as data.

        Raises:
            StateError: within a release, or after an interruption that left events half counted.
        """
        self._check_whole(None if self._counter is None else self._counter.step)
        counter = None if self._counter is None else self._counter.checkpoint().decode("latin-1")
        return write_state(
            _FORMAT,
            {
                "statistic": statistic_to_dict(self.statistic),
                "batched": self.batched,
                "step": self._step,
                "exact": b64encode(self._exact.save()).decode("ascii"),
                "counter": counter,
                "terms": self.design.to_dict(),
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
        exact = restore(statistic, b64decode(state["exact"]))
        source: Counter | tuple[Design, Key]
        if state["counter"] is None:
            source = Design.from_dict(state["terms"]), key
        else:
            source = Counter.resume(state["counter"].encode("latin-1"), key=key)
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


def counter_of(
    statistic: Statistic,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    *,
    key: Key,
    name: str,
    batched: bool = False,
    contribution: Contribution | None = None,
) -> Counter | Design:
    """What counts the cells of a statistic; where they are read on demand, their terms alone.

    Args:
        strategy, guarantee, key, name, batched: as of `Running.start`.
        contribution: what one protected unit changes in the cells, where somebody bounds it in
            another way than the statistic says.
    """
    if contribution is None:
        contribution = statistic.contribution(batched=batched, horizon=strategy.horizon)
    said = statistic_terms(statistic, batched)
    if not statistic.card.on_demand:
        return Counter(
            strategy,
            guarantee,
            key=key,
            name=name,
            contribution=contribution,
            shape=statistic.cells,
            statistic=said,
        )
    if strategy.facts.delay or strategy.facts.workload != "totals":
        raise InvalidInput(
            f"strategy is {strategy!r}; cells on demand are totals without a delay: use another one"
        )
    shape = check_shape(statistic.cells)
    design = design_for(strategy, guarantee, contribution, shape, name=name, statistic=said)
    check_addresses(strategy, shape)
    return design


def statistic_terms(statistic: Statistic, batched: bool) -> dict[str, Any]:
    """What stands in the terms of a stream: part of the address of its noise."""
    return {**statistic_to_dict(statistic), "batched": batched}


def statistic_of(terms: Design) -> tuple[Statistic, bool]:
    """The statistic that the cells of a stream are of, and whether steps are batches."""
    if terms.statistic is None:
        raise RequestMismatch(
            f"stream {terms.name!r} releases counts and no statistic: open it as a Stream"
        )
    saved = dict(terms.statistic)
    batched = saved.pop("batched", False)
    return statistic_from_dict(saved), bool(batched)


def noise_at(terms: Design, step: int, since: int | None = None) -> tuple[float, str | None]:
    """How large the noise of a step is, in data units, and of what, where that is not a cell.

    Args:
        since: of what came after this step; None: of what is released.

    Returns:
        A standard deviation, and the words of `ErrorScale` of its statistic; None of plain counts
        and sums.
    """
    std = float(terms.std(step) if since is None else terms.window_std(since, step))
    if terms.statistic is None:
        return std, None
    error = statistic_of(terms)[0].error_of
    return std * error.mean, error.what
