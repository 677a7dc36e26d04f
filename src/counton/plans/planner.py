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
from functools import lru_cache
from textwrap import shorten
from typing import Any

import numpy as np

from counton import strategies as known
from counton.errors import InvalidInput
from counton.exact import Number, check_integer
from counton.laws import Family, Law
from counton.mechanisms.calibration import check_contribution, law_for
from counton.mechanisms.terms import check_shape
from counton.privacy import ApproxDP, Calibration, Contribution, Guarantee
from counton.strategies import Metric, StreamStrategy
from counton.strategies.base import ReleaseForm, check_metric, check_release_form

#: Exponents of ten between which the crossing is looked for.
_LOWEST, _HIGHEST = -60.0, -1.0
#: How a metric is called in sentences.
_MEASURE = {"mean": "mean", "max": "largest"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One strategy with the noise it needs.

    Attributes:
        rank: 1 for the least error.
        kind: of strategies it is the best of.
        strategy: to be given to ``Counter``.
        calibration: its noise law, and which other laws were considered.
        mean_std, max_std: standard deviation of a released cell in data units, root of the mean
            and of the largest variance over all numbers that are released.
        why: in words.

    >>> from counton.privacy import PureDP
    >>> best = plan(365, PureDP(1)).best
    >>> best.strategy, best.family, round(best.mean_std, 2), round(best.max_std, 2)
    (KAry(horizon=365, arity=28, subtraction=True), 'laplace', 10.29, 14.27)
    """

    rank: int
    kind: str
    strategy: StreamStrategy
    calibration: Calibration = field(repr=False)
    mean_std: float
    max_std: float
    why: str

    @property
    def noise_law(self) -> Law:
        """Law of one node's noise, in units of the strategy's lattice."""
        return self.calibration.law

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.noise_law.family

    def std(self, metric: Metric) -> float:
        """``mean_std`` or ``max_std``."""
        return self.mean_std if metric == "mean" else self.max_std


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Strategies in order of their exact error.

    Attributes:
        horizon, guarantee, metric, contribution, shape, release: what was asked.
        choices: best first.
        notes: what was left out, and why.

    >>> from counton.privacy import PureDP
    >>> ranked = plan(365, PureDP(1))
    >>> [choice.kind for choice in ranked][:2], ranked.best is ranked.choices[0]
    (['k-ary with subtraction', 'k-ary'], True)
    """

    horizon: int
    guarantee: Guarantee
    metric: Metric
    contribution: Contribution
    shape: tuple[int, ...]
    release: ReleaseForm
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Choice:
        """The choice with the least error."""
        return self.choices[0]

    def __repr__(self) -> str:
        return (
            f"Plan(horizon={self.horizon}, guarantee={self.guarantee!r}, metric={self.metric!r}, "
            f"best={self.best.strategy!r}, choices={len(self)})"
        )

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def table(self) -> list[dict[str, Any]]:
        """One row a choice: rank, strategy, noise, mean_std, max_std (data units), why."""
        return [
            {
                "rank": choice.rank,
                "strategy": repr(choice.strategy),
                "noise": choice.family,
                "mean_std": choice.mean_std,
                "max_std": choice.max_std,
                "why": choice.why,
            }
            for choice in self.choices
        ]

    def describe(self) -> str:
        """All choices in words, best first, with the guarantee and the protected unit."""
        cells = f" of {math.prod(self.shape):,} cells" if self.shape else ""
        head = (
            f"{self.horizon:,} steps{cells}, least {_MEASURE[self.metric]} error first\n"
            f"guarantee: {self.guarantee}\nprotected: {self.contribution}"
        )
        rows = [("", "strategy", "noise", "mean std", "max std")] + [
            (
                str(row["rank"]),
                row["strategy"],
                row["noise"],
                f"{row['mean_std']:,.4g}",
                f"{row['max_std']:,.4g}",
            )
            for row in self.table()
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(
                cell.ljust(width) if i in (1, 2) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([head, *lines, *notes])

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.columns import html  # for notebooks only

        rows = self.table()
        return html(
            f"guarantee: {self.guarantee}\nprotected: {self.contribution}",
            {name: np.array([row[name] for row in rows]) for name in rows[0]},
        )


def plan(
    horizon: int,
    guarantee: Guarantee,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy] | None = None,
    *,
    release: ReleaseForm = "totals",
    simple: bool = False,
) -> Plan:
    """Strategies ranked by the exact variance of their releases.

    Every kind of strategy takes part with the parameters that suit this horizon, guarantee and
    contribution best, once for each noise family in which its best parameters differ.

    Args:
        horizon: number of steps.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``.
        metric: rank by the mean of the variance over all steps, or by its maximum.
        contribution: what one protected unit can change; default: one count, present or absent.
        shape: shape of one step's input.
        strategies: rank these instead.
        release: what is to be accurate: "totals" so far; "windows", each step's own count, with a
            strategy that releases nothing else; or "both", as many counts, the differences of
            totals, as totals.
        simple: only strategies that release integers.

    Raises:
        InvalidInput: an argument is out of range, or no strategy can give the guarantee.

    >>> from counton.privacy import PureDP
    >>> result = plan(8760, PureDP(1))
    >>> result.best.strategy, result.best.family, round(result.best.mean_std, 2)
    (KAry(horizon=8760, arity=26, subtraction=True), 'laplace', 18.64)

    A visitor who comes in up to 30 different hours is protected as a whole:

    >>> visits = Contribution.add_remove(steps=30, unit="visitor")
    >>> plan(8760, ApproxDP(1, 1e-6), contribution=visits).best.kind
    'square root'
    """
    horizon = check_integer("horizon", horizon, 1)
    check_metric(metric)
    check_release_form(release)
    if not isinstance(guarantee, Guarantee):
        raise InvalidInput(
            f"guarantee is {guarantee!r}; give PureDP(epsilon), ApproxDP(epsilon, delta) or "
            f"ZCDP(rho)"
        )
    contribution = Contribution.add_remove() if contribution is None else contribution
    check_contribution(contribution)
    cells = check_shape(shape)
    if strategies is None:
        kinds, left_out = candidate_strategies(
            horizon,
            metric,
            contribution.steps,
            contribution.separation,
            contribution.every,
            release=release,
            simple=simple,
        )
    else:
        kinds = tuple((type(s).__name__, (s,)) for s in strategies)
        left_out = ()
    notes = list(left_out)
    choices: list[Choice] = []
    for kind, members in kinds:
        least: dict[str, Choice] = {}
        for strategy in members:
            if strategy.horizon is not None and strategy.horizon < horizon:
                notes.append(f"{strategy!r}: left out, it serves fewer than {horizon:,} steps")
                continue
            if strategy.workload == "windows" != release:
                notes.append(f"{strategy!r}: left out, it releases no totals")
                continue
            try:
                choice = _choice(kind, strategy, guarantee, contribution, cells, release)
            except InvalidInput as error:
                notes.append(shorten(f"{strategy!r}: left out, {error}", 240, placeholder=" ..."))
                continue
            known = least.get(choice.family)
            if known is None or choice.std(metric) < known.std(metric):
                least[choice.family] = choice
        known_already = {(choice.strategy, choice.family) for choice in choices}
        choices += [
            choice
            for choice in least.values()
            if (choice.strategy, choice.family) not in known_already
        ]
    if not choices:
        raise InvalidInput(
            f"no strategy can give {guarantee} over {horizon:,} steps: {'; '.join(notes)}"
        )
    other: Metric = "max" if metric == "mean" else "mean"
    choices.sort(key=lambda choice: (choice.std(metric), choice.std(other)))
    ranked = tuple(
        replace(choice, rank=i + 1, why=_why(choice, choices, metric))
        for i, choice in enumerate(choices)
    )
    return Plan(horizon, guarantee, metric, contribution, cells, release, ranked, tuple(notes))


def _choice(
    kind: str,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
    release: ReleaseForm,
) -> Choice:
    calibration = law_for(strategy, guarantee, contribution, shape)
    node_variance = calibration.law.variance / 4.0**strategy.lattice_bits
    resolution = 1.0 if contribution.resolution is None else float(contribution.resolution)
    mean_std, max_std = (
        math.sqrt(strategy.released_variance(metric, release) * node_variance) * resolution
        for metric in ("mean", "max")
    )
    return Choice(0, kind, strategy, calibration, mean_std, max_std, "")


def _why(choice: Choice, choices: Sequence[Choice], metric: Metric) -> str:
    best, std = choices[0], choice.std(metric)
    if choice is not best:
        least = best.std(metric)  # 0 where a huge epsilon needs no noise that float64 can tell
        above = f"{std / least - 1:.1%} above the best" if least else "no better than the best"
        return f"{above}; {choice.calibration.reason}"
    rivals = [other for other in choices if other.kind != best.kind and other.std(metric) > std]
    ahead = f", {1 - std / rivals[0].std(metric):.1%} below {rivals[0].kind}" if rivals else ""
    return f"least {_MEASURE[metric]} error{ahead}; {choice.calibration.reason}"


# ---------------------------------------------------------------------------------- candidates


@lru_cache(maxsize=64)
def candidate_strategies(
    horizon: int,
    metric: Metric,
    steps: int | None = 1,
    separation: int = 1,
    every: int | None = None,
    *,
    release: ReleaseForm = "totals",
    simple: bool = False,
) -> tuple[tuple[tuple[str, tuple[StreamStrategy, ...]], ...], tuple[str, ...]]:
    """Strategies by kind, and notes on kinds which cannot serve the horizon.

    Within a kind, parameters appear only if no others have both smaller sensitivities and a
    smaller error: which of them is best depends on the guarantee. ``steps``, ``separation`` and
    ``every`` say how often a unit counts, as in `Contribution`.

    >>> kinds, notes = candidate_strategies(1000, "mean")
    >>> [name for name, _ in kinds]
    ['binary', 'Honaker online', 'k-ary', 'k-ary with subtraction', 'smooth binary',
     'smooth binary, even height', 'square root']
    """

    def trees(subtraction: bool) -> Iterable[StreamStrategy]:
        if steps == 1 and release == "totals":
            return known.KAry.undominated(horizon, metric, subtraction)
        return undominated(known.KAry.candidates(horizon, subtraction))

    def smooth() -> Iterable[StreamStrategy]:
        if steps == 1 and release == "totals":
            return known.SmoothBinary.undominated(horizon)
        return undominated(known.SmoothBinary.candidates(horizon))

    def undominated(candidates: Iterable[StreamStrategy]) -> list[StreamStrategy]:
        """In order of error: those that no other of less error moves less, in either norm."""
        front: list[StreamStrategy] = []
        moved: list[tuple[int, int]] = []
        for strategy in sorted(candidates, key=lambda one: one.released_variance(metric, release)):
            shift = strategy.shift(steps=steps, separation=separation, every=every)
            if all(l1 > shift.l1 or l2 > shift.l2_squared for l1, l2 in moved):
                front.append(strategy)
                moved.append((shift.l1, shift.l2_squared))
        return front

    sources: dict[str, Callable[[], Iterable[StreamStrategy]]] = (
        {
            "one draw a step": lambda: [known.Independent(horizon)],
            "growing cascade": lambda: [known.GrowingCascade((horizon - 1).bit_length())],
        }
        if release == "windows"
        else {
            "binary": lambda: [known.Binary(horizon)],
            "Honaker online": lambda: [known.HonakerOnline(horizon)],
            "k-ary": lambda: trees(subtraction=False),
            "k-ary with subtraction": lambda: trees(subtraction=True),
            "smooth binary": smooth,
            "smooth binary, even height": lambda: [known.SmoothBinary.even(horizon)],
            "square root": lambda: [known.SqrtToeplitz(horizon)],
        }
    )
    kinds, notes = [], []
    for name, source in sources.items():
        try:
            members = tuple(source())
            if not simple or not any(strategy.fraction_bits for strategy in members):
                kinds.append((name, members))
        except InvalidInput as error:
            notes.append(f"{name}: left out, {error}")
    return tuple(kinds), tuple(notes)


# ------------------------------------------------------------------------------------ crossing


def crossing_delta(horizon: int, epsilon: Number, metric: Metric = "mean") -> float:
    """Delta below which the best plan under (epsilon, delta) has Laplace noise; to three digits.

    0 if Gaussian noise is better down to 1e-60, 0.1 if Laplace noise is better up to there.
    Found by ranking all strategies at each delta. With odd arities only and Laplace noise as in
    Theorem 1.3 of "Count on Your Elders" (Andersson, Pagh, Steiner and Torkamani) the crossing at
    epsilon = 1 for the mean error over 2^10 steps lies at 1.13e-6.

    >>> f"{crossing_delta(2**10, 1):.3g}"
    '1.24e-06'
    """

    def laplace_wins(exponent: float) -> bool:
        guarantee = ApproxDP(epsilon, Fraction(10**exponent))
        return plan(horizon, guarantee, metric).best.family == "laplace"

    low, high = _LOWEST, _HIGHEST
    if not laplace_wins(low):
        return 0.0
    if laplace_wins(high):
        return 0.1
    while high - low > 2e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if laplace_wins(middle) else (low, middle)
    return float(10 ** ((low + high) / 2))
