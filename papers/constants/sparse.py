"""Sparse streams: few ones over many steps, counted in segments that close when they hold enough.

"Constant matters" (Fichtenberger, Henzinger and Upadhyay), section 5, "On sparse streams", after
Dwork, Naor, Reingold and Rothblum 2015: AboveThreshold is restarted again and again, and each time
it answers it closes a segment of the stream; a counter then runs over the segments instead of the
steps, of which there are few. What is in the open segment is not counted yet.

The paper's constant, C (5 log T + Psi(n) sqrt(ln 6n)), is stated without a derivation. Here is one.

**Segments.** Segment j opens with rho_j = |X|, X a discrete Laplace variable of scale c / epsilon_1
for units that count by at most c. At each step t it closes if

    (count in the segment so far) + nu_t >= threshold + rho_j,        nu_t = |X'| of the same law.

*The sequence of answers is epsilon_1-private*, for streams that adapt to all answers too. Fix the
answers, hence the segments. Let x' have d <= c more than x in step i. Only the segment that holds i
is affected, and there only its counts from i on, which are larger by d. Let it close at k (or
never).

- From x to x': with rho + d for rho, all counts that stayed below the threshold still do (they
  rose by d or not at all), and that of k, since k >= i, is as far above it as before.
- From x' to x: with nu_k + d for nu_k, the count of k, which fell by d, is as far above as before;
  the others fell or stayed. If the segment never closes nothing has to move.

Either way one variable moves up by d, and P(|X| = r) <= e^(d epsilon_1 / c) P(|X| = r + d) for all
r >= 0. So both directions cost epsilon_1, not the sum of two parts; and since variables only move
up, those of one sign are enough, with half of the tails of Laplace noise. An adversary who chooses
the stream from the answers fixes, for each sequence of answers, two streams as above.

**Counter.** Given the answers, the segments' exact counts differ in one segment by at most d, so
any counter over the segments, with one unit in one step, has the rest of the budget: the joint
loss is epsilon_1 + epsilon_2 (basic composition; the answers do not depend on the counter).

**How many ones there are is a promise of accuracy and not of privacy.** Nothing above asks for it,
nothing is refused because of it, and so no refusal tells anything. There is room for a number of
segments; after the last one nothing is counted any more, which everybody sees (`full`), and which
is a function of the answers alone.

**Accuracy.** Let a and b be such that all nu_t <= a and all rho_j <= b, both but for a third of the
probability of failing. A segment that closes holds at least g = threshold - a ones, hence at most
floor(s / g) segments close, for which there is room. An open segment holds fewer than threshold +
b. So the total lies between E below and E + threshold + b - 1 above what is counted, if E is what
the counter's errors at all segments stay within.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from counton import plan
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import (
    HorizonExceededError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    SumOverflowError,
)
from counton.base.exact import check_integer, exact, text
from counton.base.private import Private, reveal
from counton.continual import Counter, Design
from counton.continual.checkpoint import (
    StreamProgress,
    Totals,
    read_checkpoint,
    write_checkpoint,
)
from counton.continual.counter import OneAtATime
from counton.continual.design import check_name, state_errors
from counton.continual.intervals import SMALLEST_TAIL, widest_halfwidth
from counton.continual.node_distribution import distribution_for
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import (
    ZCDP,
    ApproxDP,
    ContributionBound,
    Guarantee,
    PureDP,
    guarantee_from_dict,
)
from counton.privacy.value_grid import totals_and_extremes
from counton.strategies import StreamStrategy, strategy_from_dict
from papers.constants.error_quantiles import (
    ErrorQuantile,
    fewest_runs,
    largest_error_of_totals,
    quantile_of,
)

#: Raised when the same design would give other noise.
_FORMAT = 1
#: Levels of the noise that closes segments.
_OF_SEGMENTS = 0
_OF_STEPS = 1
#: Totals stay below this, as in a counter.
_LARGEST_SUM = 2**61
#: Shares of the budget that are tried for the closing of segments, in sixteenths.
_SIXTEENTHS = range(2, 15)
#: A plain counter is simulated over about so many steps, in no more runs than this, nor, where a
#: high probability asks for many, over more steps than that; and up to which horizon where noise
#: is a series over all of them.
_SIMULATED = 2**19
_MOST_RUNS = 24
_MOST_SIMULATED = 2**24
_QUICK_SERIES = 2**17
#: Draws of all noise of a sparse counter, which has few segments.
_RUNS = 500
#: Counts are looked through in parts that grow up to so many steps.
_FIRST = 2**8
_LARGEST = 2**20


def _tail_reach(scale: Fraction, missed: float) -> int:
    """Smallest a with P(|X| > a) <= missed for a discrete Laplace variable X.

    >>> _tail_reach(Fraction(2), 0.01)
    9
    """
    rate = 1 / float(scale)
    # P(|X| > a) = 2 q^(a + 1) / (1 + q), q = e^-rate
    return max(math.ceil((math.log(2 / missed) - math.log1p(math.exp(-rate))) / rate - 1), 0)


def _rest_of(guarantee: Guarantee, closing: Fraction) -> Guarantee:
    """What is left for the counter when closing segments is epsilon-private for ``closing``.

    Raises:
        InvalidInputError: nothing is left, or a guarantee of another kind.
    """
    if isinstance(guarantee, (PureDP, ApproxDP)):
        left = guarantee.epsilon - closing
        kind = "epsilon"
    elif isinstance(guarantee, ZCDP):
        # Bun and Steinke 2016, Prop. 1.4
        left = guarantee.rho - closing**2 / 2
        kind = "rho"
    else:
        raise InvalidInputError(
            f"guarantee is {guarantee!r}; give PureDP(epsilon), ApproxDP(epsilon, delta) or "
            f"ZCDP(rho)"
        )
    if left <= 0:
        raise InvalidInputError(
            f"closing segments takes epsilon = {text(closing)}, which leaves no {kind} of "
            f"{guarantee} to the counter: give it less"
        )
    if isinstance(guarantee, ApproxDP):
        return ApproxDP(left, guarantee.delta)
    return PureDP(left) if kind == "epsilon" else ZCDP(left)


def _check_contribution(contribution: ContributionBound) -> None:
    unit = contribution
    plain = unit.acts_once and unit.cells == 1 and unit.resolution is None
    if not plain or unit.relation != "add_remove":
        raise InvalidInputError(
            f"the unit is {unit}; a sparse counter protects one that counts in one step, added or "
            f"removed: give ContributionBound.add_remove(per_cell=...), or use a plain counter"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseDesign:
    """How a sparse stream is counted: all that is public of it, and what its errors stay within.

    Attributes:
        horizon: number of steps T.
        ones: s, what the stream is promised to add up to at most; no privacy depends on it.
        guarantee: for all releases together.
        contribution: the protected unit: it counts in one step.
        closing: epsilon_1, for the closing of segments.
        threshold: a segment closes when its noisy count is about this.
        segments: most that can close.
        strategy: of the counter over segments.
        probability: with which all errors together stay within what is stated.

    >>> design = plan_sparse(10**6, 500, PureDP(1)).design
    >>> design.segments, design.threshold, design.lag, design.counter_error
    (24, 58, 69, 27.0947265625)
    """

    horizon: int
    ones: int
    guarantee: Guarantee
    contribution: ContributionBound
    closing: Fraction
    threshold: int
    segments: int
    strategy: StreamStrategy
    probability: float = 2 / 3

    def __post_init__(self) -> None:
        check_integer("horizon", self.horizon, 1, 2**62)
        check_integer("ones", self.ones, 1, 2**61)
        check_integer("threshold", self.threshold, 1, 2**61)
        check_integer("segments", self.segments, 1, 2**31)
        _check_contribution(self.contribution)
        object.__setattr__(self, "closing", exact(self.closing, "closing"))
        if self.closing <= 0:
            raise InvalidInputError(f"closing is {text(self.closing)}; it must be above 0")
        _rest_of(self.guarantee, self.closing)
        served = self.strategy.horizon
        if served is None or served < self.segments or self.strategy.facts.release != "totals":
            raise InvalidInputError(
                f"strategy is {self.strategy!r}; it must release totals over at least "
                f"{self.segments} segments"
            )
        if not 0 < self.probability < 1:
            raise InvalidInputError(
                f"probability is {self.probability}; it must be between 0 and 1"
            )

    @property
    def rest(self) -> Guarantee:
        """What the counter over segments has."""
        return _rest_of(self.guarantee, self.closing)

    @property
    def closing_distribution(self) -> DiscreteLaplace:
        """Law of which the magnitudes close segments."""
        return DiscreteLaplace(self.contribution.per_cell / self.closing)

    @property
    def _missed(self) -> float:
        return (1 - self.probability) / 3

    @property
    def least_in_segment(self) -> int:
        """A segment that closes holds at least so many ones, with the stated probability."""
        return self.threshold - _tail_reach(
            self.closing_distribution.scale, self._missed / self.horizon
        )

    @property
    def lag(self) -> int:
        """Most ones that an open segment holds, with the stated probability."""
        reach = _tail_reach(self.closing_distribution.scale, self._missed / self.segments)
        return min(self.threshold + reach - 1, self.ones)

    @property
    def counter_error(self) -> float:
        """What the counter's errors at all segments stay within, with the stated probability."""
        distribution = distribution_for(
            self.strategy, self.rest, self.contribution, ()
        ).distribution
        return widest_halfwidth(self.strategy, distribution, 1 - self._missed / self.segments)

    @property
    def largest_error(self) -> float:
        """All errors of `SparseRelease.value` stay within this, with the stated probability.

        For streams that add up to no more than ``ones``. Infinite where segments may run out
        before these are counted: there has to be room for all that can close, each of which holds
        `least_in_segment`.

        >>> from dataclasses import replace
        >>> design = plan_sparse(10**6, 500, PureDP(1)).design
        >>> replace(design, segments=3).largest_error
        inf
        """
        if self.ones >= self.least_in_segment * (self.segments + 1):
            return math.inf
        return self.counter_error + math.ceil(self.lag / 2)

    def error_quantile(self, runs: int = _RUNS) -> ErrorQuantile:
        """What all errors of `SparseRelease.value` stay within, all noise taken together.

        For every stream that adds up to no more than ``ones``, as `largest_error`, and with the
        same probability; but simulated, with fixed draws, where that unites what may fail. After j
        segments have closed the released value is off by the counter's noise n_j, and by
        ``lag // 2`` less what waits, which is anything from 0 up to W_j = threshold - 1 + rho_j: so
        that all errors are within the largest |n_j + lag // 2| and |n_j + lag // 2 - W_j|, which
        depends on no data. What is left to fail is that segments close too early.

        Raises:
            InvalidInputError: runs that are no number of at least 1.

        >>> design = plan_sparse(10**5, 300, PureDP(1)).design
        >>> design.error_quantile().value < 0.85 * design.largest_error
        True
        """
        runs = check_integer("runs", runs, 1, 2**20)
        if math.isinf(self.largest_error):
            return ErrorQuantile(math.inf, math.inf, math.inf, 1.0, 0)
        distribution = distribution_for(
            self.strategy, self.rest, self.contribution, ()
        ).distribution
        strategy = self.strategy
        half = self.lag // 2
        said = f"{strategy!r} {distribution!r} {self.closing_distribution!r}".encode()
        of_counter = sha256(b"sparse counter: " + said).digest()
        of_segments = sha256(b"sparse segments: " + said).digest()
        noise = strategy.noise(
            NoiseField(of_counter, distribution, (runs,)), range(1, self.segments + 1)
        )
        after = np.zeros((self.segments + 1, runs))
        after[1:] = noise * 2.0**-strategy.facts.fraction_bits
        opened = NoiseField(of_segments, self.closing_distribution, (runs,)).run(
            0, range(len(after))
        )
        waits = np.minimum(self.threshold - 1 + np.abs(opened), self.ones)
        largest = np.maximum(np.abs(after + half), np.abs(after + half - waits)).max(axis=0)
        return quantile_of(largest, self.probability + self._missed)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without secrets."""
        return {
            "format": _FORMAT,
            "kind": "sparse stream",
            "horizon": self.horizon,
            "ones": self.ones,
            "guarantee": self.guarantee.to_dict(),
            "contribution": self.contribution.to_dict(),
            "closing": str(self.closing),
            "threshold": self.threshold,
            "segments": self.segments,
            "strategy": self.strategy.to_dict(),
            "probability": self.probability,
        }

    @classmethod
    def from_dict(cls, saved: Any) -> SparseDesign:
        """Inverse of `to_dict`.

        Raises:
            StateError: another format version, or a part is missing or invalid.
        """
        if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
            raise StateError(
                f"state has another format than {_FORMAT}, which this version reads: open it with "
                f"the version of counton that wrote it"
            )
        with state_errors("a sparse stream"):
            return cls(
                horizon=saved["horizon"],
                ones=saved["ones"],
                guarantee=guarantee_from_dict(saved["guarantee"]),
                contribution=ContributionBound.from_dict(saved["contribution"]),
                closing=Fraction(saved["closing"]),
                threshold=saved["threshold"],
                segments=saved["segments"],
                strategy=strategy_from_dict(saved["strategy"]),
                probability=saved["probability"],
            )

    def __str__(self) -> str:
        return (
            f"segments that close at about {self.threshold:,}, room for {self.segments:,} of them, "
            f"epsilon = {text(self.closing)} for closing, {self.rest} for {self.strategy!r} over "
            f"segments"
        )


@dataclass(frozen=True, slots=True)
class SparseRelease:
    """One step: nothing exact is in it.

    Attributes:
        step: from 1.
        counted: private total of all closed segments.
        closed: how many segments have closed.
        design: how it was made.

    >>> design = plan_sparse(10**6, 500, PureDP(1)).design
    >>> release = SparseRelease(step=4000, counted=118, closed=2, design=design)
    >>> release.value, release.interval(), release.full
    (152, (90.9052734375, 214.0947265625), False)
    """

    step: int
    counted: float
    closed: int
    design: SparseDesign

    @property
    def value(self) -> float:
        """The middle of what the total can be: half of the most that waits is added."""
        return self.counted + self.design.lag // 2

    @property
    def full(self) -> bool:
        """Whether all segments have closed, so that nothing is counted any more."""
        return self.closed >= self.design.segments

    def interval(self) -> tuple[float, float]:
        """Ends that hold the total, at all steps together with the design's probability.

        For streams that add up to no more than promised. When ``full``, the upper end is infinite,
        and the lower end holds for every stream.
        """
        error = self.design.counter_error
        high = math.inf if self.full else self.counted + error + self.design.lag
        return self.counted - error, high

    def describe(self) -> str:
        """Protected unit, guarantee and error, in words."""
        design = self.design
        full = (
            f"; all {design.segments:,} segments have closed, and nothing is counted any more"
            if self.full
            else ""
        )
        within = (
            f"all errors within {design.largest_error:,.6g} with probability "
            f"{design.probability:.3g} if the stream adds up to at most {design.ones:,}"
        )
        if math.isinf(design.largest_error):
            within = (
                f"errors without a bound: {design.segments:,} segments that close at about "
                f"{design.threshold:,} have no room for {design.ones:,}"
            )
        return (
            f"step {self.step:,}: {self.value:,.6g}, {within}{full}\n"
            f"guarantee: {design.guarantee}\nprotected: {design.contribution}"
        )


class SparseReleases(Sequence[SparseRelease]):
    """Consecutive steps.

    Attributes:
        steps: their numbers.
        counted: private totals of all closed segments, float64, shape ``(n,)``.
        closed: how many segments have closed, int64, shape ``(n,)``.
        design: how they were made.
    """

    def __init__(
        self,
        steps: range,
        counted: NDArray[np.float64],
        closed: NDArray[np.int64],
        design: SparseDesign,
    ) -> None:
        self.steps = steps
        self.counted = counted
        self.closed = closed
        self.design = design

    @property
    def values(self) -> NDArray[np.float64]:
        """`SparseRelease.value` of each step, shape ``(n,)``."""
        return self.counted + self.design.lag // 2

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, place: int) -> SparseRelease: ...
    @overload
    def __getitem__(self, place: slice) -> SparseReleases: ...
    def __getitem__(self, place: int | slice) -> SparseRelease | SparseReleases:
        """One of them, or some."""
        if isinstance(place, slice):
            return SparseReleases(
                self.steps[place], self.counted[place], self.closed[place], self.design
            )
        counted = float(self.counted[place])
        closed = int(self.closed[place])
        return SparseRelease(self.steps[place], counted, closed, self.design)


class _Done(NamedTuple):
    """How far a stream has come: exact, hence secret, but for the step and what is counted.

    The counter's progress is in it too, so that all of it moves on by one assignment: whatever
    interrupts a release, nothing is counted twice.
    """

    step: int
    taken: int
    waiting: int
    counted: float
    inner: Private[StreamProgress]

    def __repr__(self) -> str:
        return "_Done(secret)"


class SparseCounter:
    """Private totals of a stream with few ones. See the module for the proof.

    It is no statistic of a `Stream`. What a stream journals are linear measurements: terms say the
    standard deviation of every step before there are data, and `verify` finds the inputs by taking
    the noise away. Here the data choose when a segment closes, most steps say nothing of their
    input, and the budget is parted between two kinds of noise, so that neither holds. To go on
    after a crash, keep `checkpoint` before a release is shown: the answers are a function of the
    key and the inputs, and a release that nobody saw is made again, the same.

    Args:
        design: from `plan_sparse`, or one's own.
        key: the secret from which the noise is computed; never start a stream twice.
        name: of the stream.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> design = plan_sparse(10**6, 500, PureDP(1)).design
    >>> counter = SparseCounter(design, key=Key.generate(), name="alarms")
    >>> releases = counter.release_many([0] * 5000)
    >>> releases[-1].step, releases[-1].closed, releases[-1].full
    (5000, 0, False)
    """

    def __init__(self, design: SparseDesign, *, key: Key, name: str) -> None:
        check_name(name)
        address = design.to_dict()
        address["contribution"].pop("unit", None)  # what a unit is called changes no noise
        for promise in ("ones", "probability"):  # nor does what accuracy is stated for
            address.pop(promise)
        bound = json.dumps({"sparse": name, **address}, sort_keys=True, separators=(",", ":"))
        self.design = design
        self.name = name
        self.key_fingerprint = check_key(key).fingerprint
        self._field = NoiseField(key.derive(b"sparse", bound.encode()), design.closing_distribution)
        self._counter = Counter(
            design.strategy,
            design.rest,
            key=key.with_salt(bound),
            name=name,
            contribution=design.contribution,
        )
        self._bound = bound
        self._done = _Done(0, 0, 0, 0.0, self._counter._done)
        self._turn = OneAtATime(
            f"the sparse counter of stream {name!r}",
            remedy="hand it over by SparseCounter.checkpoint() and "
            "SparseCounter.resume(saved, key=key)",
        )

    @property
    def step(self) -> int:
        """Number of the last released step; 0 before the first."""
        return self._done.step

    def release(self, x: int) -> SparseRelease:
        """Release one step.

        Args:
            x: how many ones came in it.

        Raises:
            InvalidInputError, HorizonExceededError, SumOverflowError, ConcurrentWriterError: as
                `release_many`.
        """
        return self.release_many([x])[0]

    def release_many(self, xs: Totals) -> SparseReleases:
        """Release consecutive steps: the same values as one by one, much faster.

        Args:
            xs: ones of each step, shape ``(n,)``. More of them in all than were promised are no
                error: privacy holds, and accuracy may not.

        Raises:
            InvalidInputError: no integers, or negative ones.
            HorizonExceededError: more steps than the design has.
            SumOverflowError: the total would leave the exact range.
            ConcurrentWriterError: in a fork of the process, or in a handler within a release.
        """
        with self._turn.take():
            totals = self._checked(xs)
            done = self._done
            # Where an interrupted release took it further, nobody has seen what it said.
            self._counter._done = done.inner
            steps = range(done.step + 1, done.step + 1 + len(totals))
            noise = np.abs(self._field.run(_OF_STEPS, steps))
            running = np.cumsum(totals)
            closed = self._counter.step
            base = -done.waiting
            begin = 0
            ends: list[int] = []
            held: list[int] = []
            while closed + len(ends) < self.design.segments:
                place = self._closes(running, noise, begin, base, closed + len(ends) + 1)
                if place is None:
                    break
                ends.append(place)
                held.append(int(running[place]) - base)
                base = int(running[place])
                begin = place + 1
            counted = self._counter.release_many(held).values if held else np.empty(0)
            number = np.searchsorted(ends, np.arange(len(totals)), side="right")
            values = np.concatenate([[done.counted], counted])[number]
            added = int(running[-1]) if len(totals) else 0
            last = float(values[-1]) if len(totals) else done.counted
            releases = SparseReleases(steps, values, closed + number, self.design)
            inner = self._counter._done
            self._done = _Done(steps.stop - 1, done.taken + added, added - base, last, inner)
        return releases

    def _closes(
        self,
        running: NDArray[np.int64],
        noise: NDArray[np.int64],
        begin: int,
        base: int,
        segment: int,
    ) -> int | None:
        """Where the segment that is open closes; None if not yet."""
        (drawn,) = self._field.run(_OF_SEGMENTS, range(segment, segment + 1)).tolist()
        wanted = self.design.threshold + abs(drawn) + base
        width = _FIRST
        while begin < len(running):
            part = slice(begin, begin + width)
            reached = running[part] + noise[part] >= wanted
            if reached.any():
                return begin + int(np.argmax(reached))
            begin = begin + width
            width = min(2 * width, _LARGEST)
        return None

    def _checked(self, xs: Totals) -> NDArray[np.int64]:
        totals, smallest, _ = totals_and_extremes(xs, None)
        if totals.ndim != 1:
            raise InvalidInputError(
                f"input has shape {totals.shape}; a sparse stream takes one number for each step"
            )
        if smallest < 0:
            raise InvalidInputError(f"input {smallest} is below 0: a sparse stream counts ones")
        if self._done.step + len(totals) > self.design.horizon:
            raise HorizonExceededError(
                f"step {self._done.step + len(totals):,} is beyond the horizon of "
                f"{self.design.horizon:,} steps: start a new stream with a larger horizon"
            )
        if self._done.taken + float(np.sum(totals, dtype=np.float64)) > _LARGEST_SUM * (1 - 1e-9):
            raise SumOverflowError(
                f"the total would be beyond {_LARGEST_SUM:,}, up to which sums are exact: count in "
                f"larger units"
            )
        return totals

    def checkpoint(self) -> bytes:
        """State from which `resume` continues. Holds exact counts: keep it as secret as data."""
        now = self._done
        counter = self._counter
        inner = write_checkpoint(counter.design.text, counter.key_fingerprint, reveal(now.inner))
        terms = {
            "design": self.design.to_dict(),
            "name": self.name,
            "counter": inner.decode("latin-1"),
            "counted": now.counted,
        }
        sums = np.array([now.taken, now.waiting], np.int64)
        done = StreamProgress(now.step, sums, np.zeros(0, np.int64))
        return write_checkpoint(json.dumps(terms, sort_keys=True), self.key_fingerprint, done)

    @classmethod
    def resume(cls, saved: bytes, *, key: Key) -> SparseCounter:
        """Continue where `checkpoint` stood: the same values as if never stopped.

        Raises:
            StateError: truncated, altered, of another format version, or its counter holds other
                segments than those that have closed.
            NoiseKeyError: the key is not the one the stream was started with.
        """
        state = read_checkpoint(saved)
        with state_errors("a sparse stream"):
            design = SparseDesign.from_dict(state.design["design"])
            name = state.design["name"]
            counted = float(state.design["counted"])
            inner = state.design["counter"].encode("latin-1")
            taken, waiting = state.sums.tolist()
        counter = cls(design, key=key, name=name)
        if counter.key_fingerprint != state.key_fingerprint:
            raise NoiseKeyError(
                f"key {counter.key_fingerprint} is not the key {state.key_fingerprint} of stream "
                f"{name!r}: load the key that was saved with it"
            )
        resumed = Counter.resume(inner, key=key.with_salt(counter._bound))
        held = int(resumed._progress().sums)
        if resumed.design.to_dict() != counter._counter.design.to_dict() or held != taken - waiting:
            raise StateError(
                f"the checkpoint of stream {name!r} counts {taken - waiting:,} in closed segments, "
                f"and its counter {held:,} under {resumed.design.guarantee}: it was altered, or "
                f"taken after an interrupted release; use another one"
            )
        counter._counter = resumed
        counter._done = _Done(state.step, taken, waiting, counted, resumed._done)
        return counter

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "counters are never copied or pickled, since a copy would release the same noise over "
            "other data: use SparseCounter.checkpoint() and SparseCounter.resume(saved, key=key)"
        )

    def __repr__(self) -> str:
        return f"SparseCounter({self.name!r}, step {self.step:,} of {self.design.horizon:,})"


# ------------------------------------------------------------------------------------ planning


@dataclass(frozen=True)
class SparsePlan:
    """Three ways to count a stream of few ones, by what all their errors together stay within.

    That of the sparse counter holds for every stream that keeps the promise. Both are simulated
    with fixed draws, the plain one where that is quick: union bounds are up to half as much again.

    Attributes:
        design: the best one of a sparse counter.
        constant_error: what all errors stay within if half of the most that was promised is
            released at every step: no privacy is lost and nothing is learnt.

    >>> found = plan_sparse(365, 200, PureDP(1))
    >>> found.best, found.wins
    ('plain', (51, 71))
    >>> print(found.plain_quantile)
    25.08 (24 runs; between 21.04 and 31.44 with 95% confidence)
    """

    design: SparseDesign
    constant_error: float
    _search: _Search = field(repr=False, compare=False)

    @property
    def plain(self) -> Design:
        """The best plain counter."""
        return self._search.plain[0]

    @property
    def plain_quantile(self) -> ErrorQuantile:
        """What all errors of it stay within, with the design's probability, and how well known."""
        return self._search.plain[1]

    @property
    def plain_error(self) -> float:
        """The same as a number."""
        return self.plain_quantile.value

    @property
    def sparse_quantile(self) -> ErrorQuantile:
        """What all errors of a sparse counter stay within: `SparseDesign.error_quantile`."""
        return self._search.quantile(self.design)

    @property
    def sparse_error(self) -> float:
        """The same as a number."""
        return self.sparse_quantile.value

    @property
    def wins(self) -> tuple[int, int] | None:
        """About the least and largest promise for which the sparse counter is the best of all.

        At this horizon and guarantee; None if there is none. Errors are whole numbers in part, so
        that single promises near either end may be otherwise: ask for the `best` of them.
        """
        return self._search.wins

    @property
    def best(self) -> str:
        """Which errs least: "sparse", "plain" or "constant"."""
        errors = (self.plain_error, self.constant_error, self.sparse_error)
        return ("plain", "constant", "sparse")[errors.index(min(errors))]

    def describe(self) -> str:
        """All three in words and numbers, and when which of them is better."""
        design = self.design
        said = {
            "sparse": f"all errors within {self.sparse_quantile}; proven: within "
            f"{design.largest_error:,.4g}: {design}",
            "plain": f"all errors within {self.plain_quantile}: {self.plain.strategy!r}",
            "constant": f"all errors within {self.constant_error:,.4g}: {design.ones // 2:,} at "
            f"every step, whatever the data",
        }
        if self.wins is None:
            when = (
                "the sparse counter is never the best here: its segments have to close at "
                f"{design.horizon:,} steps without a false alarm; longer streams, or a larger "
                "epsilon, may make it so"
            )
        else:
            least, most = self.wins
            when = (
                f"the sparse counter is the best for a promise of about {least:,} to {most:,} "
                f"ones; for fewer a constant is, for more the plain counter"
            )
        lines = [
            f"{name:9}{'(best) ' * (name == self.best)}{words}" for name, words in said.items()
        ]
        return "\n".join(
            [
                f"{design.horizon:,} steps with at most {design.ones:,} ones, with probability "
                f"{design.probability:.3g}",
                f"guarantee: {design.guarantee}",
                f"protected: {design.contribution}",
                *lines,
                when,
            ]
        )

    def __str__(self) -> str:
        return self.describe()


def plan_sparse(
    horizon: int,
    ones: int,
    guarantee: Guarantee,
    *,
    probability: float = 2 / 3,
    contribution: ContributionBound | None = None,
) -> SparsePlan:
    """Whether a sparse counter pays off, and with which segments, threshold and shares.

    Its largest error depends on the stream only through what is promised. Designs are ranked by a
    union bound over exact tails, and the best of them is simulated (`SparseDesign.error_quantile`).
    So is the plain counter, which depends on no data at all, where that is quick: union bounds
    overstate both by up to half. Typical
    errors are another matter: those of a plain counter are a quarter of its largest, those of a
    sparse one nearly half, as what waits in its open segment is anything between nothing and
    ``lag``.

    Args:
        horizon: number of steps.
        ones: what the stream adds up to at most, which is promised and not enforced.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``.
        probability: with which all errors are to stay within what is stated.
        contribution: the protected unit; default: one count, present or absent.

    Raises:
        InvalidInputError: an argument is out of range, or so many steps that tails are not known (a
            horizon beyond 10^9 times 1 - probability, over 3).

    >>> print(plan_sparse(10**5, 300, PureDP(1)))
    100,000 steps with at most 300 ones, with probability 0.667
    guarantee: pure differential privacy with epsilon = 1
    protected: one unit added or removed, counted in one cell of one step by at most 1
    sparse   (best) all errors within 44.82 (500 runs; between 44.35 and 45.54 with 95% confidence);
    proven: within 53.69: segments that close at about 61, room for 8 of ...
    plain    all errors within 80.53 (10 runs; between 77.3 and 90.44 with 95% confidence): ...
    constant all errors within 150: 150 at every step, whatever the data
    the sparse counter is the best for a promise of about 67 to 10,009 ones; for fewer a ...
    """
    horizon = check_integer("horizon", horizon, 1, 2**62)
    ones = check_integer("ones", ones, 1, 2**50)
    unit = ContributionBound.add_remove() if contribution is None else contribution
    _check_contribution(unit)
    if not 0 < probability < 1:
        raise InvalidInputError(f"probability is {probability}; it must be between 0 and 1")
    if (1 - probability) / 3 / horizon < SMALLEST_TAIL:
        raise InvalidInputError(
            f"horizon is {horizon:,}; tails are known for at most "
            f"{int((1 - probability) / 3 / SMALLEST_TAIL):,} steps with probability "
            f"{probability:.3g}: lower one of them"
        )
    search = _searched(horizon, guarantee, unit, probability)
    return SparsePlan(
        design=search.best(ones),
        constant_error=math.ceil(ones / 2),
        _search=search,
    )


class _Search:
    """The plain counter and the designs of least largest error, for any promise of ones."""

    def __init__(
        self,
        horizon: int,
        guarantee: Guarantee,
        contribution: ContributionBound,
        probability: float,
    ) -> None:
        self._asked = (horizon, guarantee, contribution, probability)
        self._missed = (1 - probability) / 3
        self._strategies: dict[int, StreamStrategy] = {}
        self._errors: dict[tuple[int, Fraction], float] = {}
        self._quantiles: dict[SparseDesign, ErrorQuantile] = {}
        self._closing = [_closing_share(guarantee, Fraction(n, 16)) for n in _SIXTEENTHS]

    @cached_property
    def plain(self) -> tuple[Design, ErrorQuantile]:
        """A plain counter, and what its errors stay within.

        The one of least largest standard deviation of those that are quick to simulate; or, where
        none is or its union bound is less, the one of the least union bound.
        """
        horizon, guarantee, contribution, probability = self._asked
        ranked = plan(horizon, guarantee, "max", contribution=contribution, compare=False)
        found = []
        for choice in ranked:
            error = choice.errors.largest_error(probability)
            if math.isfinite(error):
                found.append((choice, ErrorQuantile(error, 0.0, error, 1.0, 0)))
        runs = max(min(_SIMULATED // horizon, _MOST_RUNS), fewest_runs(probability))
        for choice in ranked:
            strategy = choice.strategy
            facts = choice.strategy.facts
            quick = facts.local or facts.buffer_size > 0 or horizon <= _QUICK_SERIES
            if quick and runs * horizon <= _MOST_SIMULATED:
                distribution = choice.distribution
                seen = largest_error_of_totals(
                    strategy, distribution, horizon, probability, runs=runs
                )
                found.append((choice, seen))
                break
        return min(found, key=lambda pair: pair[1].value)

    @property
    def plain_error(self) -> float:
        """Of `plain`."""
        return self.plain[1].value

    def _least(self, ones: int) -> tuple[float, Fraction, int, int]:
        """Least largest error; closing, threshold and segments with which it is reached."""
        horizon, _, contribution, _ = self._asked
        found: tuple[float, Fraction, int, int] | None = None
        for closing in self._closing:
            scale = contribution.per_cell / closing
            of_steps = _tail_reach(scale, self._missed / horizon)
            for segments in _numbers_of_segments(ones):
                in_segment = ones // (segments + 1) + 1  # so that no more than these can close
                threshold = in_segment + of_steps
                lag = threshold + _tail_reach(scale, self._missed / segments) - 1
                half = math.ceil(min(lag, ones) / 2)
                if found is not None and half >= found[0]:
                    continue
                error = half + self._error(segments, closing)
                if found is None or error < found[0]:
                    found = error, closing, threshold, segments
        assert found is not None, "there are shares and numbers of segments"
        return found

    def best(self, ones: int) -> SparseDesign:
        """The one with the least largest error."""
        horizon, guarantee, contribution, probability = self._asked
        _, closing, threshold, segments = self._least(ones)
        return SparseDesign(
            horizon=horizon,
            ones=ones,
            guarantee=guarantee,
            contribution=contribution,
            closing=closing,
            threshold=threshold,
            segments=segments,
            strategy=self._strategies[segments],
            probability=probability,
        )

    def quantile(self, design: SparseDesign) -> ErrorQuantile:
        """What all errors of a design stay within."""
        if design not in self._quantiles:
            self._quantiles[design] = design.error_quantile()
        return self._quantiles[design]

    def _error(self, segments: int, closing: Fraction) -> float:
        """What the errors of a counter over so many segments stay within."""
        _, guarantee, contribution, _ = self._asked
        if segments not in self._strategies:
            ranked = plan(segments, guarantee, "max", contribution=contribution, compare=False)
            self._strategies[segments] = ranked.best.strategy
        if (segments, closing) not in self._errors:
            strategy = self._strategies[segments]
            distribution = distribution_for(
                strategy, _rest_of(guarantee, closing), contribution, ()
            ).distribution
            error = widest_halfwidth(strategy, distribution, 1 - self._missed / segments)
            self._errors[segments, closing] = error
        return self._errors[segments, closing]

    @cached_property
    def wins(self) -> tuple[int, int] | None:
        """About the least and largest promise for which it errs less than both others."""
        plain_error = self.plain_error

        def error(ones: int) -> float:
            return self.quantile(self.best(ones)).value

        # A constant's error grows with every one, that of a sparse counter by less.
        least = _first(
            lambda ones: error(ones) < math.ceil(ones / 2), 1, math.ceil(2 * plain_error)
        )
        if error(least) >= plain_error:
            return None
        most = least
        while error(2 * most) < plain_error:
            most *= 2
        return least, _first(lambda ones: error(ones) >= plain_error, most, 2 * most) - 1


_searched = lru_cache(maxsize=16)(_Search)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from ``low`` on that ``holds``; ``high`` if none before it does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _numbers_of_segments(ones: int) -> list[int]:
    """Powers of two, and in between; no more than there are ones, nor than a thousand."""
    numbers = [1, *(n << e for e in range(9) for n in (2, 3))]
    return [number for number in numbers if number <= ones]


def _closing_share(guarantee: Guarantee, share: Fraction) -> Fraction:
    """Epsilon of closing segments that takes this share of a guarantee."""
    if isinstance(guarantee, (PureDP, ApproxDP)):
        return guarantee.epsilon * share
    assert isinstance(guarantee, ZCDP), "planned already"
    return Fraction(math.sqrt(2 * share * guarantee.rho)).limit_denominator(2**20)
