"""Which strategy and noise answer a stream best: computed for every candidate, not by rule.

With units that act once, both sensitivities of a tree follow from its height. With more steps they
follow from where a unit's steps can lie, so every arity, height and number of zeros is weighed by
what such a unit moves it; of those that are worse than another in both norms and in error, none can
be the best for any guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from textwrap import shorten
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, cast, runtime_checkable

import numpy as np

from counton import strategies as known
from counton.errors import InvalidInput
from counton.exact import Number, check_integer, figures, quote
from counton.laws import Family, Law, Shift
from counton.mechanisms.calibration import check_addresses, check_contribution, law_for
from counton.mechanisms.design import Design, check_shape, std_at
from counton.mechanisms.intervals import SMALLEST_TAIL, halfwidths, widest_halfwidth
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP, Calibration, Contribution, Guarantee, PureDP, calibrate
from counton.strategies import Metric, Norm, StreamStrategy
from counton.strategies.base import ReleaseForm, check_metric, check_release_form
from counton.strategies.joint_errors import released_variance
from counton.strategies.streams.growing_root import EVEN

if TYPE_CHECKING:
    from counton.plans.bounds import Factor, LowerBound
    from counton.plans.least import ReachedHalfwidths

#: Exponents of ten between which the crossing is looked for.
_LOWEST, _HIGHEST = -60.0, -1.0
#: More numbers than this, of all cells together, no stream is planned to hold while it runs (128
#: MB), or to draw before its first release: strategies that solve for the whole horizon.
MOST_HELD, MOST_DRAWN = 2**24, 2**27
#: Beyond this horizon fewer trees are weighed for units that act several times.
_LONG = 2**14
#: Releases over which the time of one is measured, and most numbers that are drawn for it.
_MEASURED, _MOST_MEASURED = 2**12, 2**21
#: From here on kinds that are only compared with are left out where nobody looks at them.
_SHORT = 64
#: Beyond this horizon the square root is not weighed for Laplace noise.
_LONG_SERIES = 2**16
_NORMALISED, _OCTAVE, _GROWING = "normalised square root", "octave", "growing square root"
_WHOLE = "octave, whole numbers"
#: Steps that are in mind where nothing is said of them.
_AROUND = 2**16
#: From this many steps on it is weighed: weights are known there.
_SHORTEST_OCTAVE = 512
#: Fraction bits of a lattice on which noise is as good as continuous.
_FINE = 12
#: By which part a bound on standard deviations stays below what the finest lattice needs.
_COARSER = 1e-5
#: How a metric is called in sentences.
_MEASURE = {"mean": "mean", "max": "largest"}


@runtime_checkable
class Endless(Protocol):
    """A strategy without a last step, whose protection never fades and whose errors are known."""

    def mean_variance(self, steps: int, law: Law | None = None) -> float:
        """Mean of the variances of the first so many releases."""
        ...

    def largest_variance(self, steps: int, law: Law | None = None) -> float:
        """Largest of them."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """One strategy with the noise it needs.

    Attributes:
        rank: 1 for the least error.
        kind: of strategies it is the best of.
        strategy: to be given to ``Counter``.
        calibration: its noise law, and which other laws were considered.
        mean_std, max_std: standard deviation of what is released in data units, root of the mean
            and of the largest variance over all numbers: of a cell, and of a statistic whose errors
            are not those of a cell (`Statistic.error_of`) of the statistic.
        why: in words.
        planning_seconds: how long finding it and weighing it took; no part of a comparison.
        held: numbers that a running stream keeps beside its sums, all cells together.
        resolution: one unit of the exact sums, in data units.
        each: what a step's error is, in standard deviations of a cell: 1, or of a statistic what
            `Statistic.error_of` says of the mean.

    >>> from counton import PureDP, plan
    >>> best = plan(365, PureDP(1)).best
    >>> best.kind, best.family, round(best.mean_std, 1), round(best.max_std)
    ('solved', 'laplace', 7.9, 9)
    """

    rank: int
    kind: str
    strategy: StreamStrategy
    calibration: Calibration = field(repr=False)
    mean_std: float
    max_std: float
    why: str
    planning_seconds: float = field(default=0.0, compare=False, repr=False)
    held: int = 0
    resolution: Fraction = field(default=Fraction(1), repr=False)
    each: float = field(default=1.0, repr=False)

    @property
    def noise_law(self) -> Law:
        """Law of one node's noise, in units of the strategy's lattice."""
        return self.calibration.law

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.noise_law.family

    def std(self, steps: Any = None) -> Any:
        """Standard deviation of what is released at each of ``steps``, as `Counter.std` says it.

        In data units, of what ``mean_std`` is of: the root of the mean of their squares over all
        steps is ``mean_std``.

        Args:
            steps: one step, whose error is a float; or several, a range or a list; None: all.

        Raises:
            InvalidInput: not steps, such as the name of a metric: see `by`; or none where there is
                no last one.
            HorizonExceeded: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> best = plan(365, PureDP(1)).best
        >>> best.std([5, 365]).round(2).tolist()[0] == round(best.std(5), 2)
        True
        """
        return std_at(self.strategy, self.noise_law, self.resolution, steps) * self.each

    def halfwidth(self, step: int, level: float = 0.95) -> float:
        """Half-width of the interval at a step, of what ``mean_std`` is of, in data units.

        Args:
            step: which, from 1.
            level: probability with which the interval holds.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
            HorizonExceeded: a step beyond the horizon.

        >>> from counton import PureDP, plan
        >>> plan(365, PureDP(1)).best.halfwidth(365)
        18.64...
        """
        found = halfwidths(self.strategy, self.noise_law, range(step, step + 1), level)
        return float(found[0]) * float(self.resolution) * self.each

    def by(self, metric: Metric) -> float:
        """``mean_std`` or ``max_std``.

        Raises:
            InvalidInput: an unknown metric.
        """
        check_metric(metric)
        return self.mean_std if metric == "mean" else self.max_std


class Restatement(NamedTuple):
    """How a plan of one cell became one of what a statistic reads.

    Attributes:
        mean, largest: what errors of a cell were multiplied with.
        bounds: lower bounds that are known of the statistic itself.
        words: what the errors are of, in a sentence.
    """

    mean: float
    largest: float
    bounds: tuple[LowerBound, ...]
    words: str = ""


@dataclass(frozen=True, repr=False)
class Plan:
    """Strategies in order of their exact error.

    Attributes:
        horizon, guarantee, metric, contribution, shape, release: what was asked; a horizon of None
            is a stream without a last step.
        choices: best first.
        notes: what was left out, and why.
        restated: of a statistic, whose errors are not those of a cell; None of counts.
        around: where there is no last step, how many first steps the errors are of.
        reached: half-widths for which the guarantee was found; None where it was stated.

    >>> from counton import PureDP, plan
    >>> ranked = plan(365, PureDP(1))
    >>> [choice.kind for choice in ranked][:3], ranked.best is ranked.choices[0]
    (['solved', 'look-ahead tree', 'k-ary with subtraction'], True)
    """

    horizon: int | None
    guarantee: Guarantee
    metric: Metric
    contribution: Contribution
    shape: tuple[int, ...]
    release: ReleaseForm
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    restated: Restatement | None = None
    around: int | None = None
    reached: ReachedHalfwidths | None = None

    @property
    def steps(self) -> int:
        """Steps over which errors are means and maxima: the horizon, or ``around``."""
        steps = self.around if self.horizon is None else self.horizon
        assert steps is not None
        return steps

    @property
    def best(self) -> Choice:
        """The choice with the least error."""
        return self.choices[0]

    def std(self, steps: Any = None) -> Any:
        """`Choice.std` of the best choice."""
        return self.best.std(steps)

    def __repr__(self) -> str:
        return (
            f"Plan(horizon={self.horizon}, guarantee={self.guarantee!r}, metric={self.metric!r}, "
            f"best={self.best.strategy!r}, choices={len(self)})"
        )

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    @cached_property
    def lower_bounds(self) -> dict[Family, float]:
        """Standard deviations that no strategy with one family of noise is below, where known.

        Of the mean or the largest variance, in data units, as the ranking; see
        ``counton.plans.bounds``. For units that count once: Laplace noise under `PureDP`, Gaussian
        noise under `ZCDP` and `ApproxDP`.
        """
        return self.least_std(self.metric)

    def least_std(self, metric: Metric) -> dict[Family, float]:
        """`lower_bounds` of the root of the mean variance, or of the largest.

        >>> from counton import ZCDP, plan
        >>> {name: round(std, 2) for name, std in plan(1024, ZCDP(0.5)).least_std("max").items()}
        {'gaussian': 2.91}
        """
        from counton.plans.bounds import least_variance

        if not self.contribution.acts_once:
            return {}
        family: Family = "laplace" if isinstance(self.guarantee, PureDP) else "gaussian"
        # Laplace noise needs least on integers: of twice the scale it has at least four times the
        # variance. Gaussian noise that is calibrated with care for integers needs least on the
        # finest lattice, where it is as good as continuous.
        one = self.contribution.shift(Shift(1, 1, ((1, 1),)), cells=math.prod(self.shape))
        fine = Shift(one.l1 << _FINE, one.l2_squared << 2 * _FINE)
        unit = min(
            calibrate(self.guarantee, one, family).law.variance,
            calibrate(self.guarantee, fine, family).law.variance / 4.0**_FINE,
        )
        least = least_variance(self.steps, metric, self.release)
        if isinstance(self.guarantee, ApproxDP):
            # A coarser lattice may do with a little less than the finest: by 7e-7 where measured.
            least *= (1 - _COARSER) ** 2
        resolution = self.contribution.resolution
        scale = float(1 if resolution is None else resolution)
        if self.restated is not None:
            scale *= self.restated.mean if metric == "mean" else self.restated.largest
        return {family: math.sqrt(least * unit) * scale}

    @cached_property
    def bounds(self) -> tuple[LowerBound, ...]:
        """Every lower bound of the papers, beside what the best choice achieves in its quantity.

        Those that say nothing of what was asked are there too, and say why. See
        ``counton.plans.bounds``.

        >>> from counton import PureDP, plan
        >>> for bound in plan(8760, PureDP(1)).bounds:
        ...     print(bound)
        mean std: at least 4.874 (here 13.39); any strategy with Laplace noise; Constant Matters...
        max std: at least 4.874 (here 14.91); any strategy with Laplace noise; Constant Matters...
        mean std: at least 4.874 (here 13.39); any mechanism, over all streams of counts; ...
        max std: at least 4.874 (here 14.91); any mechanism, over all streams of counts; ...
        largest of all errors: at least 3 (here 76.29); any mechanism, probability 2/3; ...
        the same, on coin flips: at least 2 (here 77.98); any mechanism, probability 3/4; ...
        minimum cut or degree: vacuous; of graphs, not of totals; Constant Matters, Theorem 5
        counts of letters: vacuous; of several cells, not of one; Constant Matters, Theorem 6
        """
        from counton.plans.bounds import bounds_beside

        return bounds_beside(self)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """How far the best choice is from what is possible: two factors, as far as theorems go.

        To the least of any matrix mechanism with the same noise, for units that count in one step;
        and to what any mechanism at all must have on some stream. Each with its source. For units
        that count more often the second is that of units which count once: true, and loose.

        >>> from counton import PureDP, plan
        >>> [round(factor.factor, 2) for factor in plan(8760, PureDP(1)).factors]
        [2.75, 2.75]
        """
        from counton.plans.bounds import factors_of

        return factors_of(self)

    def largest_error(self, choice: Choice, probability: float) -> float | None:
        """All errors of a choice's totals, at all steps and cells, are within this together.

        With the stated probability; in data units. A union bound over the half-width of the widest
        release, `widest_halfwidth`. None for more numbers than tails are known for (10^9 times
        1 - probability), and where totals are not released or no step is the last.

        Raises:
            InvalidInput: a probability outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InvalidInput(f"probability is {probability}; it must be between 0 and 1")
        missed = (1 - probability) / (self.steps * math.prod(self.shape))
        if missed < SMALLEST_TAIL or self.release == "windows" or self.horizon is None:
            return None
        resolution = self.contribution.resolution
        wide = widest_halfwidth(choice.strategy, choice.noise_law, 1 - missed)
        return wide * float(1 if resolution is None else resolution)

    def terms(self, choice: Choice) -> Design:
        """Those of a stream that is planned so, and has no name of its own yet."""
        return Design(
            name="planned",
            strategy=choice.strategy,
            guarantee=self.guarantee,
            contribution=self.contribution,
            shape=self.shape,
            law=choice.noise_law,
        )

    def release_seconds(self, choice: Choice) -> float | None:
        """Time of one release of all cells, measured here and now over up to 4,096 of the first.

        None where that takes more than two million draws. A strategy that solves for the whole
        horizon is measured with that.
        """
        cells = math.prod(self.shape)
        steps = min(self.steps, _MEASURED, max(_MOST_MEASURED // cells, 1))
        if max(choice.strategy.drawn_ahead, steps) * cells > _MOST_MEASURED:
            return None
        noise_field = self.terms(choice).noise_field(Key.generate())
        choice.strategy.noise(noise_field, range(1, 2))  # tables and series that are made once
        begin = perf_counter()
        choice.strategy.noise(noise_field, range(1, steps + 1))
        return (perf_counter() - begin) / steps

    def table(self) -> Any:
        """The same rows as `rows`, as a polars data frame.

        Raises:
            MissingExtra: polars is not installed; `rows` needs none.
        """
        from counton.columns import data_frame_of_rows

        return data_frame_of_rows(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One row a choice: rank, strategy, noise, mean_std, max_std (data units), cost, why.

        The cost is planning_seconds, and held, numbers of 8 bytes that a running stream keeps.
        """
        return [
            {
                "rank": choice.rank,
                "strategy": repr(choice.strategy),
                "noise": choice.family,
                "mean_std": choice.mean_std,
                "max_std": choice.max_std,
                "planning_seconds": choice.planning_seconds,
                "held": choice.held,
                "why": choice.why,
            }
            for choice in self.choices
        ]

    def describe(self) -> str:
        """All choices in words, best first, with the guarantee and the protected unit."""
        cells = f" of {math.prod(self.shape):,} cells" if self.shape else ""
        steps = f"{self.steps:,} steps"
        if self.horizon is None:
            steps = f"no last step, errors of the first {steps}"
        head = (
            f"{steps}{cells}, least {_MEASURE[self.metric]} error first\n"
            f"guarantee: {self.guarantee}\nprotected: {self.contribution}"
        )
        if self.reached is not None:
            head += f"\n{self.reached}"
        rows = [("", "strategy", "noise", "mean std", "max std")] + [
            (
                str(row["rank"]),
                row["strategy"],
                row["noise"],
                f"{figures(row['mean_std'])}",
                f"{figures(row['max_std'])}",
            )
            for row in self.rows()
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(
                cell.ljust(width) if i in (1, 2) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines += [f"how far from possible: {factor}" for factor in self.factors]
        lines += [f"bound: {bound}" for bound in self.bounds if not bound.vacuous]
        about = [] if self.restated is None or not self.restated.words else [self.restated.words]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([head, *about, *lines, *notes])

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.columns import html  # for notebooks only

        rows = self.rows()
        return html(
            f"guarantee: {self.guarantee}\nprotected: {self.contribution}",
            {name: np.array([row[name] for row in rows]) for name in rows[0]},
        )


class StreamOptions(TypedDict, total=False):
    """What may be said of a plan for a stream: see `counton.plan`."""

    metric: Metric
    strategies: Iterable[StreamStrategy] | None
    release: ReleaseForm
    simple: bool
    compare: bool
    around: int | None
    also: Iterable[StreamStrategy]


def plan_stream(
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy] | None = None,
    *,
    release: ReleaseForm = "totals",
    simple: bool = False,
    compare: bool = True,
    around: int | None = None,
    also: Iterable[StreamStrategy] = (),
) -> Plan:
    """`counton.plan` of a stream."""
    check_metric(metric)
    check_release_form(release)
    if horizon is None:
        around = check_integer("around", _AROUND if around is None else around, 1)
    else:
        horizon = check_integer("horizon", horizon, 1)
        if around is not None:
            raise InvalidInput(
                f"horizon is {horizon} and around {around}; a stream with a last step is planned "
                f"for that: leave around out, or give None as the horizon"
            )
    if not isinstance(guarantee, Guarantee):
        raise InvalidInput(
            f"guarantee is {quote(guarantee)}; give PureDP(epsilon), ApproxDP(epsilon, delta) or "
            f"ZCDP(rho)"
        )
    contribution = Contribution.add_remove() if contribution is None else contribution
    check_contribution(contribution)
    cells = check_shape(shape)
    if strategies is None and horizon is None:
        found = _endless(release, _norms(guarantee), metric, around)
    elif strategies is None:
        assert horizon is not None
        found = candidates(
            horizon,
            metric,
            contribution.steps,
            contribution.separation,
            contribution.every,
            release=release,
            simple=simple,
            compare=compare,
            # Only what is causal keeps the better calibration of units in several steps: there
            # kinds may be the best that never are otherwise.
            everything=isinstance(guarantee, ApproxDP) and not contribution.in_one_step,
            norms=_norms(guarantee),
        )
    else:
        found = tuple(_Contenders(type(s).__name__, (s,), "", 0.0) for s in strategies)
    found = (*found, *(_Contenders(type(s).__name__, (s,), "", 0.0) for s in also))
    for one in found if strategies is not None or also else ():
        for given in cast("tuple[object, ...]", one.members):
            if not isinstance(given, StreamStrategy):
                raise InvalidInput(
                    f"a strategy is {given!r}; give instances, such as KAry.best(8760)"
                )
    notes: list[str] = []
    choices: list[Choice] = []
    for kind, members, note, seconds in found:
        notes += [note] * bool(note)
        begin = perf_counter() - seconds
        least: dict[str, Choice] = {}
        refused: list[str] = []
        for strategy in members:
            if least and kind in (_NORMALISED, _OCTAVE, _WHOLE, _GROWING):
                break  # the others are coarser, for noise too wide for this one
            try:
                _check_serves(strategy, horizon, release, cells)
                choice = _choice(kind, strategy, guarantee, contribution, cells, release, around)
            except InvalidInput as error:
                said = f"{kind}: {strategy!r} left out, {error}"
                refused.append(shorten(said, 240, placeholder=" ..."))
                continue
            better = least.get(choice.family)
            if better is None or choice.by(metric) < better.by(metric):
                least[choice.family] = choice
        if not least:
            notes += refused
        seconds = perf_counter() - begin
        known_already = {(choice.strategy, choice.family) for choice in choices}
        choices += [
            replace(choice, planning_seconds=seconds)
            for choice in least.values()
            if (choice.strategy, choice.family) not in known_already
        ]
    if not choices:
        steps = "without a last step" if horizon is None else f"over {horizon:,} steps"
        several = f"; nor can {len(notes) - 1:,} others" if len(notes) > 1 else ""
        reason = f"{notes[0].partition(': ')[2]}" if notes else "there is none"
        raise InvalidInput(f"no strategy can give {guarantee} {steps}: {reason}{several}")
    other: Metric = "max" if metric == "mean" else "mean"
    choices.sort(key=lambda choice: (choice.by(metric), choice.by(other)))
    ranked = tuple(
        replace(choice, rank=i + 1, why=_why(choice, choices, metric))
        for i, choice in enumerate(choices)
    )
    asked = horizon, guarantee, metric, contribution, cells, release
    return Plan(*asked, ranked, tuple(notes), around=around)


def _choice(
    kind: str,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
    release: ReleaseForm,
    around: int | None,
) -> Choice:
    calibration = law_for(strategy, guarantee, contribution, shape)
    node_variance = calibration.law.variance / 4.0**strategy.lattice_bits
    resolution = 1.0 if contribution.resolution is None else float(contribution.resolution)
    if isinstance(strategy, Endless) and around is not None:
        mean = strategy.mean_variance(around, calibration.law)
        largest = strategy.largest_variance(around, calibration.law)
    else:
        # Of a difference both totals are rounded; the largest variances are of totals.
        rounding = strategy.rounding_variance
        times = 1.5 - 0.5 / (strategy.horizon or 1) if release == "both" else 1.0
        mean = released_variance(strategy, "mean", release) * node_variance + times * rounding
        largest = released_variance(strategy, "max", release) * node_variance + rounding
    mean_std, max_std = math.sqrt(mean) * resolution, math.sqrt(largest) * resolution
    held = strategy.buffer_size * math.prod(shape)
    unit = Fraction(1) if contribution.resolution is None else contribution.resolution
    return Choice(0, kind, strategy, calibration, mean_std, max_std, "", held=held, resolution=unit)


def _norms(guarantee: Guarantee) -> tuple[Norm, ...]:
    """Norms to which noise under a guarantee may be calibrated with profit."""
    if isinstance(guarantee, PureDP):
        return (1,)
    return (2,) if isinstance(guarantee, ZCDP) else (1, 2)


def _check_serves(
    strategy: StreamStrategy, horizon: int | None, release: ReleaseForm, shape: tuple[int, ...]
) -> None:
    """Refuse what cannot do what is asked, or would need too much memory or time to begin.

    Raises:
        InvalidInput: in words.
    """
    if horizon is None and not isinstance(strategy, Endless):
        raise InvalidInput("it has a last step, or protection that fades")
    if horizon is not None and strategy.horizon is not None and strategy.horizon < horizon:
        raise InvalidInput(f"it serves fewer than {horizon:,} steps")
    if strategy.workload == "windows" != release:
        raise InvalidInput("it releases no totals")
    check_addresses(strategy, shape)
    cells = math.prod(shape)
    held, drawn = strategy.buffer_size, strategy.drawn_ahead
    if held * cells > MOST_HELD:
        raise InvalidInput(
            f"a running stream would hold {held * cells:,} numbers, more than "
            f"{MOST_HELD:,}: give it to strategies= if that is no matter"
        )
    if drawn * cells > MOST_DRAWN:
        raise InvalidInput(
            f"it would draw {drawn * cells:,} numbers before the first release, more than "
            f"{MOST_DRAWN:,}: give it to strategies= if that is no matter"
        )


def _why(choice: Choice, choices: Sequence[Choice], metric: Metric) -> str:
    best, std = choices[0], choice.by(metric)
    if choice is not best:
        least = best.by(metric)  # 0 where a huge epsilon needs no noise that float64 can tell
        above = f"{std / least - 1:.1%} above the best" if least else "no better than the best"
        return f"{above}; {choice.calibration.reason}"
    rivals = [other for other in choices if other.kind != best.kind and other.by(metric) > std]
    ahead = f", {1 - std / rivals[0].by(metric):.1%} below {rivals[0].kind}" if rivals else ""
    return f"least {_MEASURE[metric]} error{ahead}; {choice.calibration.reason}"


# ---------------------------------------------------------------------------------- candidates


class _Question(NamedTuple):
    """What decides which strategies can be the best: everything but the size of the budget."""

    horizon: int
    metric: Metric
    release: ReleaseForm
    steps: int | None
    separation: int
    every: int | None

    @property
    def plain(self) -> bool:
        """Units count once, and totals are what is released: what ``best`` of each family finds."""
        return self.steps == 1 and self.release == "totals"

    def norms_moved(self, strategy: StreamStrategy) -> tuple[int, int]:
        """Norm and squared norm by which a unit moves a strategy."""
        shift = strategy.shift(steps=self.steps, separation=self.separation, every=self.every)
        return shift.l1, shift.l2_squared

    def without_dominated(self, candidates: Iterable[StreamStrategy]) -> list[StreamStrategy]:
        """In order of error: those that no other of less error moves less, in either norm."""
        front: list[StreamStrategy] = []
        moved: list[tuple[int, int]] = []
        for strategy in sorted(
            candidates, key=lambda one: released_variance(one, self.metric, self.release)
        ):
            shift = self.norms_moved(strategy)
            if all(l1 > shift[0] or l2 > shift[1] for l1, l2 in moved):
                front.append(strategy)
                moved.append(shift)
        return front


def _kary(asked: _Question, subtraction: bool) -> Iterable[StreamStrategy]:
    if asked.plain:
        return known.KAry.undominated_trees(asked.horizon, asked.metric, subtraction)
    few = asked.horizon > _LONG
    return asked.without_dominated(
        known.KAry.candidates(asked.horizon, subtraction, of_each=3 if few else 8)
    )


def _smooth(asked: _Question) -> Iterable[StreamStrategy]:
    if asked.plain:
        return known.SmoothBinary.candidates(asked.horizon, of_each=1)
    if asked.horizon <= _LONG:
        return asked.without_dominated(known.SmoothBinary.candidates(asked.horizon))
    trees = known.SmoothBinary.candidates(asked.horizon, of_each=1)
    if asked.every is None:
        # In all cases examined the best for either norm had no fewer ones than zeros.
        trees = [one for one in trees if 6 * one.zeros >= one.height - one.zeros >= one.zeros]
    return asked.without_dominated(trees)


def _look_ahead(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    return known.LookAhead.candidates(
        asked.horizon,
        asked.metric,
        asked.release,
        steps=asked.steps,
        separation=asked.separation,
        every=asked.every,
    )


def _square_root(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    if norm == 1 and asked.horizon > _LONG_SERIES:
        raise InvalidInput(
            f"with Laplace noise it is not weighed beyond {_LONG_SERIES:,} steps: it needs many "
            f"times the noise of a tree"
        )
    return [known.SqrtToeplitz(asked.horizon)]


def _normalised_sqrt(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    # Fine weights leave less room for wide noise: what cannot have it is left out.
    return [known.NormalisedSqrt(asked.horizon), known.NormalisedSqrt(asked.horizon, 8)]


def _octave(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    if asked.horizon < _SHORTEST_OCTAVE:
        return ()
    return [known.Octave(asked.horizon, asked.metric, bits) for bits in (16, 12)]


def _whole_octave(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    return [known.Octave(asked.horizon, asked.metric, bits, whole=True) for bits in (16, 12)]


def _solved_shapes(asked: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    from counton.strategies.streams.shapes import strategies_of_shape

    if asked.release == "windows":
        return ()
    return strategies_of_shape(asked.horizon, norm, asked.metric, asked.release)


class _StrategyKind(NamedTuple):
    """A kind of strategies: those that may be best, for noise calibrated to one norm or to both.

    Attributes:
        kind: as it is called.
        make: its strategies.
        norms: of noise for which it is worth weighing.
        contends: those with which it may be the best of all from 64 steps on.
        simple: what is released are integers.
        only_simple: another kind is better where fractions may be released.
        published: known to all, and no better than another kind for any horizon, guarantee or unit
            that was tried: what is chosen is compared with it.
    """

    kind: str
    make: Callable[[_Question, Norm], Iterable[StreamStrategy]]
    norms: tuple[Norm, ...] = (1, 2)
    contends: tuple[Norm, ...] = (1, 2)
    simple: bool = True
    only_simple: bool = False
    published: bool = False

    def norms_wanted(
        self, asked: tuple[Norm, ...], *, compare: bool, everything: bool
    ) -> tuple[Norm, ...]:
        """Norms among those asked for with which to weigh it."""
        if self.published and not compare:
            return ()
        of = self.norms if compare or everything else self.contends
        return tuple(norm for norm in asked if norm in of)


#: Of strategies that are equally good the first is the best.
_BOTH: tuple[_StrategyKind, ...] = (
    _StrategyKind("solved", _solved_shapes, simple=False),
    _StrategyKind("look-ahead tree", _look_ahead, simple=False),
    _StrategyKind("k-ary with subtraction", lambda asked, norm: _kary(asked, subtraction=True)),
    _StrategyKind(_NORMALISED, _normalised_sqrt, norms=(2,), contends=(2,), simple=False),
    _StrategyKind(_OCTAVE, _octave, norms=(2,), contends=(2,), simple=False),
    _StrategyKind(_WHOLE, _whole_octave, (2,), (2,), only_simple=True),
    _StrategyKind("square root", _square_root, contends=(2,), simple=False),
    _StrategyKind("k-ary", lambda asked, norm: _kary(asked, subtraction=False), contends=()),
    _StrategyKind("smooth binary", lambda asked, norm: _smooth(asked), published=True),
    _StrategyKind(
        "smooth binary, even height",
        lambda asked, norm: [known.SmoothBinary.even(asked.horizon)],
        published=True,
    ),
    _StrategyKind(
        "Honaker online",
        lambda asked, norm: [known.HonakerOnline(asked.horizon)],
        simple=False,
        published=True,
    ),
    _StrategyKind("binary", lambda asked, norm: [known.Binary(asked.horizon)], published=True),
    # Totals of numbers that are each released with noise of their own: a tree of one level.
    _StrategyKind(
        "noise for each step",
        lambda asked, norm: [known.KAry(asked.horizon, asked.horizon + 1, False)],
        published=True,
    ),
)
_WINDOWS: tuple[_StrategyKind, ...] = (
    _StrategyKind("one draw a step", lambda asked, norm: [known.Independent(asked.horizon)]),
    _StrategyKind(
        "growing cascade",
        lambda asked, norm: [known.GrowingCascade((asked.horizon - 1).bit_length())],
        simple=False,
        published=True,
    ),
)


def _endless(
    release: ReleaseForm, norms: tuple[Norm, ...], metric: Metric, around: int | None
) -> tuple[_Contenders, ...]:
    """Strategies without a last step whose protection never fades."""
    if release != "totals":
        raise InvalidInput(
            f"release is {release!r} and the stream has no last step; only totals are planned "
            f"without one: state a horizon, far away if need be"
        )
    found = []
    if 2 in norms:
        # Fewer bits leave room for wider noise.
        even = _even(metric, _AROUND if around is None else around)
        roots = tuple(known.GrowingSquareRoot(bits, even) for bits in (18, 14, 8, 4))
        found.append(_Contenders(_GROWING, roots, "", 0.0))
    found.append(_Contenders("epochs", (known.Epochs(),), "", 0.0))
    return tuple(found)


@lru_cache(maxsize=64)
def _even(metric: Metric, around: int) -> int | None:
    """How many first nodes of a growing root have the same noise, for the least error."""

    def error(even: int | None) -> float:
        root = known.GrowingSquareRoot(even=even)
        of = root.mean_variance if metric == "mean" else root.largest_variance
        return of(around)

    near = [even for even in EVEN if even <= around <= 8 * even]
    return min([None, *near], key=error)


class _Contenders(NamedTuple):
    """Strategies of a kind, why there are none, and how long finding them took."""

    kind: str
    members: tuple[StreamStrategy, ...]
    note: str
    seconds: float


@lru_cache(maxsize=128)
def _contenders(asked: _Question, family: _StrategyKind, norms: tuple[Norm, ...]) -> _Contenders:
    begin = perf_counter()
    members: list[StreamStrategy] = []
    note = ""
    try:
        for norm in reversed(norms):
            members += [one for one in family.make(asked, norm) if one not in members]
    except InvalidInput as error:
        note = f"{family.kind}: left out, {error}"
    return _Contenders(family.kind, tuple(members), note, perf_counter() - begin)


def candidates(
    horizon: int,
    metric: Metric = "mean",
    steps: int | None = 1,
    separation: int = 1,
    every: int | None = None,
    *,
    release: ReleaseForm = "totals",
    simple: bool = False,
    compare: bool = True,
    everything: bool = False,
    norms: tuple[Norm, ...] = (1, 2),
) -> tuple[_Contenders, ...]:
    """Strategies by kind, and why others cannot serve the horizon.

    Within a kind, parameters appear only if no others have both smaller sensitivities and a
    smaller error: which of them is best depends on the guarantee. ``steps``, ``separation`` and
    ``every`` say how often a unit counts, as in `Contribution`. With ``everything`` no kind that
    may be the best is left out; with ``compare`` none at all.

    >>> [found.kind for found in candidates(1000, simple=True)]
    ['k-ary with subtraction', 'octave, whole numbers', 'k-ary', 'smooth binary',
     'smooth binary, even height', 'binary', 'noise for each step']
    """
    asked = _Question(horizon, metric, release, steps, separation, every)
    return tuple(
        _contenders(asked, family, wanted)
        for family in (_WINDOWS if release == "windows" else _BOTH)
        if (family.simple if simple else not family.only_simple)
        and (
            wanted := family.norms_wanted(
                norms, compare=compare, everything=everything or horizon < _SHORT
            )
        )
    )


# ------------------------------------------------------------------------------------ crossing


def crossing_delta(
    horizon: int,
    epsilon: Number,
    metric: Metric = "mean",
    strategies: Iterable[StreamStrategy] | None = None,
) -> float:
    """Delta below which the best plan under (epsilon, delta) has Laplace noise; to three digits.

    0 if Gaussian noise is better down to 1e-60, 0.1 if Laplace noise is better up to there.
    Found by ranking all strategies, or those given, at each delta. With k-ary trees of odd arity
    and the square root alone, and Laplace noise as in Theorem 1.3 of "Count on Your Elders"
    (Andersson, Pagh, Steiner and Torkamani), the crossing at epsilon = 1 for the mean error over
    2^10 steps lies at 1.13e-6.

    >>> 1e-5 < crossing_delta(2**10, 1) < 1e-3
    True
    """

    given = None if strategies is None else tuple(strategies)

    def laplace_wins(exponent: float) -> bool:
        guarantee = ApproxDP(epsilon, Fraction(10**exponent))
        return plan_stream(horizon, guarantee, metric, strategies=given).best.family == "laplace"

    low, high = _LOWEST, _HIGHEST
    if not laplace_wins(low):
        return 0.0
    if laplace_wins(high):
        return 0.1
    while high - low > 2e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if laplace_wins(middle) else (low, middle)
    return float(10 ** ((low + high) / 2))
