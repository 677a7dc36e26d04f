"""Which strategy and noise answer a stream best: computed for every candidate, not by rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Any

from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.laws import Family, Law
from counton.mechanisms import law_for
from counton.mechanisms.calibration import check_contribution
from counton.mechanisms.terms import check_shape
from counton.plans.contenders import contenders
from counton.privacy import Calibration, Contribution, Guarantee
from counton.strategies import Metric, StreamStrategy
from counton.strategies.base import check_metric

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
            and of the largest variance over all steps.
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
        horizon, guarantee, metric, contribution, shape: what was asked.
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

    def __str__(self) -> str:
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


def plan(
    horizon: int,
    guarantee: Guarantee,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy] | None = None,
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

    Raises:
        InvalidInput: an argument is out of range, or no strategy can give the guarantee.

    >>> from counton.privacy import PureDP
    >>> result = plan(8760, PureDP(1))
    >>> result.best.strategy, result.best.family, round(result.best.mean_std, 2)
    (KAry(horizon=8760, arity=26, subtraction=True), 'laplace', 18.64)
    """
    horizon = check_integer("horizon", horizon, 1)
    check_metric(metric)
    if not isinstance(guarantee, Guarantee):
        raise InvalidInput(
            f"guarantee is {guarantee!r}; give PureDP(epsilon), ApproxDP(epsilon, delta) or "
            f"ZCDP(rho)"
        )
    contribution = Contribution.add_remove() if contribution is None else contribution
    check_contribution(contribution)
    cells = check_shape(shape)
    if strategies is None:
        kinds, left_out = contenders(horizon, metric)
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
            try:
                choice = _choice(kind, strategy, guarantee, contribution, cells)
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
    return Plan(horizon, guarantee, metric, contribution, cells, ranked, tuple(notes))


def _choice(
    kind: str,
    strategy: StreamStrategy,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
) -> Choice:
    calibration = law_for(strategy, guarantee, contribution, shape)
    node_variance = calibration.law.variance / 4.0**strategy.lattice_bits
    resolution = 1.0 if contribution.resolution is None else float(contribution.resolution)
    mean_std, max_std = (
        math.sqrt(strategy.overall_variance(metric) * node_variance) * resolution
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
