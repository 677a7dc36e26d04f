"""A strategy broken on purpose breaks the law that is meant to catch it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from own_laws.arguments import check_arguments
from own_laws.errors import check_released_variance, check_window_variance
from own_laws.streams import check_node_law, check_noise_parts, check_reader, check_strategy

from counton.base.arrays import Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInput
from counton.laws import (
    LawBroken,
    check_causal,
    check_endless_sensitivity,
    check_factorisation,
    check_noise_is_rows,
    check_parameters,
    check_participation,
    check_sensitivity,
    check_shift,
    check_variance,
    check_windows,
)
from counton.strategies import (
    Binary,
    Epochs,
    GrowingCascade,
    HonakerOnline,
    KAry,
    LookAhead,
    Metric,
    Node,
    NodeNoise,
    Norm,
    SmoothBinary,
    StreamStrategy,
)
from counton.strategies.participation import Schedule, Stretch, Structure, largest_sum
from counton.strategies.strategy import WIDE, Reader, Steps, Workload, window_ends
from counton.strategies.streams.expiring import below_split


class ForgetsANode(Binary):
    """An item that should enter a node does not: it would go unprotected."""

    def column(self, step: int) -> tuple[Node, ...]:
        column = super().column(step)
        return column[1:] if step == 5 else column


class SaysUnitRows(HonakerOnline):
    """Its rows have fractions."""

    facts = replace(HonakerOnline.facts, unit_rows=True)


class CountsTwice(Binary):
    def column(self, step: int) -> tuple[Node, ...]:
        return tuple(node._replace(weight=2) for node in super().column(step))

    def row(self, step: int) -> tuple[Node, ...]:
        return tuple(node._replace(weight=Fraction(1, 2)) for node in super().row(step))


class ClaimsTooLittle(Binary):
    def l1_sensitivity(self) -> Fraction:
        return super().l1_sensitivity() - 1


class ClaimsTooMuch(Binary):
    def squared_sensitivity(self) -> Fraction:
        return super().squared_sensitivity() + Fraction(1, 10**9)


class ForgetsOtherSteps(Binary):
    """Units that act several times are protected as if they acted once."""

    @property
    def structure(self) -> Structure:
        return Structure(
            largest_sum=lambda norm, schedule: largest_sum(
                Binary(self.horizon), norm, schedule._replace(steps=1)
            )
        )


class ClaimsALittleTooLittle(Binary):
    @property
    def structure(self) -> Structure:
        return Structure(
            largest_sum=lambda norm, schedule: largest_sum(Binary(self.horizon), norm, schedule) - 1
        )


class SharesANodeLess(KAry):
    """Says of its last children that they are no nodes."""

    @property
    def structure(self) -> Structure:
        own = super().structure

        def divisions(part: Stretch | None) -> Sequence[tuple[Stretch, int]]:
            *others, (last, times) = own.divisions(part) or ((Stretch(0, 0, 1), 1),)
            return (
                (*others, (last._replace(nodes=0), times)) if part is None else own.divisions(part)
            )

        return own._replace(divisions=divisions)


class ForgetsStepsOfASchedule(Binary):
    """So many steps of a schedule count as one."""

    @property
    def structure(self) -> Structure:
        return Structure(
            largest_sum=lambda norm, schedule: largest_sum(
                Binary(self.horizon),
                norm,
                schedule._replace(steps=1) if schedule.fixed else schedule,
            )
        )


class Quiet(Epochs):
    """A tenth of the spread that it should have in all epochs but the first."""

    def _node_factor(self, level: int) -> Fraction:
        return super()._node_factor(level) / (10 if self._number(level) else 1)


class QuietGaussian(Quiet):
    """The same with one kind of noise only."""

    def l1_sensitivity(self) -> Fraction:
        raise InvalidInput("Gaussian noise alone")


class RefusedLate(Epochs):
    """Noise of later epochs is too wide, which nobody is told before."""

    def _check_law(self, law: NoiseDistribution) -> None:
        pass


class ForgetsWhereItWas(Binary):
    """Every part of a batch is the first."""

    def _reader(self, field: NodeNoise) -> Reader:
        own = Binary(self.horizon)

        def parts(field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
            for part in own._reader(field).parts(steps):
                yield own.noise(field, steps[: len(part)])

        return Reader(self, field, parts)


class ForgetsWhereNarrow(HonakerOnline):
    """From a thousand steps on, if nodes are narrow, and then only."""

    def _reader(self, field: NodeNoise) -> Reader:
        narrow = len(field.shape) > 0 and math.prod(field.shape) < WIDE

        def parts(field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
            for at in range(0, len(steps), 1000):
                yield self.noise(field, steps[: len(steps[at : at + 1000])])

        return Reader(self, field, parts if narrow else None)


class ClaimsFarTooMuch(SmoothBinary):
    @property
    def structure(self) -> Structure:
        def largest_sum(norm: Norm, schedule: Schedule) -> int:
            one = self.squared_sensitivity() if norm == 2 else self.l1_sensitivity()
            return int(one) * int(schedule.steps**norm)

        return super().structure._replace(largest_sum=largest_sum)


class ClaimsLessVariance(Binary):
    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        return super().variance(steps, since) * (1 - 1e-9)


class ClaimsLessError(Binary):
    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        return super().overall_variance(metric, of) * (1 - 1e-9)


class AddsVariances(Binary):
    """Ends share nodes: their noise is not independent."""

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        return np.asarray(np.bitwise_count(first) + np.bitwise_count(last), np.float64)


class ForgetsWhatIsShared(HonakerOnline):
    """The later end's estimate is made from nodes that the earlier end reads."""

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        shared = np.maximum(below_split(first, last), 1)
        return super().variance(last, first) + 2.0 * (first & shared) / shared


class RedrawsEveryWindow(Binary):
    """The safety erratum of the square-root paper: z must be drawn once and kept."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        noise = super().noise(field, steps)
        np.add(noise, field.run(200, range(1, 1 + len(steps))), out=noise)
        return noise


class LeavesALevelOut(KAry):
    """Releases of even steps miss the lowest level."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        noise = super().noise(field, steps)
        for row, step in enumerate(steps):
            if step % 2 == 0:
                lowest = (n for n in self.row(step) if n.level == 0)
                for _, index, weight in lowest:
                    noise[row] -= field.run(0, range(index, index + 1))[0] * int(weight)
        return noise


class SpeaksOtherwiseInParts(LookAhead):
    """A batch's noise is overridden, its parts are not."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        return super().noise(field, steps) + 1


class RoundsTheRelease(HonakerOnline):
    """Rounds after weighing, not before: the change of an item no longer passes through whole."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        noise = super().noise(field, steps)
        return noise - noise // 10**6


class RoundsABlock(GrowingCascade):
    """Rounds releases, not nodes: the change of an item no longer passes through whole."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        noise = super().noise(field, steps)
        return noise - noise // 10**3


class ClaimsToRoundLess(HonakerOnline):
    """Half a unit, although estimates of several levels are rounded."""

    def _window_rounding(self, starts: Integers, stops: Integers) -> NDArray[np.float64]:
        return super()._window_rounding(starts, stops) / 100


class ReleasesTotals(GrowingCascade):
    """Says that it adds up, and does not."""

    def __init__(self, doublings: int) -> None:
        super().__init__(doublings)
        self.facts = replace(self.facts, workload="totals")


class LeavesADifferenceOut(GrowingCascade):
    """An item enters one node less than its release reads."""

    def column(self, step: int) -> tuple[Node, ...]:
        column = super().column(step)
        return column[1:] if step == 7 else column


class AddsUpAlone(GrowingCascade):
    """Takes the noise of single steps for independent."""

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        return np.asarray((last - first) * self.overall_variance("max"), dtype=np.float64)


class ClaimsToBeCausal(KAry):
    """Subtracts nodes of steps to come, and says that it does not."""

    def __init__(self, horizon: int, arity: int) -> None:
        super().__init__(horizon, arity)
        self.facts = replace(self.facts, causal=True)


class LooksAhead(Binary):
    """Its rows are those of the binary tree; its noise reads the node of the next odd step."""

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        ahead = [field.run(0, range(step // 2, step // 2 + 1))[0] for step in steps]
        total: NDArray[np.int64] = super().noise(field, steps) + np.array(ahead) % 2
        return total


class ServesBeyondTheHorizon(Binary):
    def row(self, step: int) -> tuple[Node, ...]:
        return super().row(min(step, self.horizon))


class ForgetsAParameter(KAry):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"horizon": self.horizon, "arity": self.arity}


def test_an_honest_subclass_passes() -> None:
    check_strategy(type("Honest", (Binary,), {})(20))


@pytest.mark.parametrize(
    ("check", "strategy"),
    [
        (check_factorisation, ForgetsANode(20)),
        (check_shift, ForgetsANode(20)),
        (check_factorisation, CountsTwice(20)),
        (check_causal, ClaimsToBeCausal(20, 3)),
        (check_causal, LooksAhead(19)),
        (check_sensitivity, ClaimsTooLittle(20)),
        (check_sensitivity, ClaimsTooMuch(20)),
        (check_sensitivity, CountsTwice(20)),
        (check_participation, ForgetsOtherSteps(12)),
        (check_participation, ForgetsOtherSteps(200)),
        (check_participation, ClaimsALittleTooLittle(12)),
        (check_participation, SharesANodeLess(12, 20)),
        (check_participation, ClaimsFarTooMuch(14, 7, 3)),
        (check_participation, ForgetsStepsOfASchedule(12)),
        (check_participation, ForgetsStepsOfASchedule(200)),
        (check_noise_parts, ForgetsWhereItWas(12)),
        (check_noise_parts, ForgetsWhereNarrow(2000)),
        (check_variance, ClaimsLessVariance(20)),
        (check_window_variance, AddsVariances(20)),
        (check_window_variance, SaysUnitRows(20)),
        (check_window_variance, ForgetsWhatIsShared(20)),
        (check_window_variance, AddsUpAlone(4)),
        (check_factorisation, ReleasesTotals(4)),
        (check_shift, ReleasesTotals(4)),
        (check_factorisation, LeavesADifferenceOut(4)),
        (check_shift, LeavesADifferenceOut(4)),
        (check_shift, RoundsABlock(4)),
        (check_released_variance, ClaimsLessError(20)),
        (check_windows, RedrawsEveryWindow(20)),
        (check_noise_is_rows, RedrawsEveryWindow(20)),
        (check_reader, SpeaksOtherwiseInParts(20, (5,))),
        (check_noise_is_rows, LeavesALevelOut(20, 5)),
        (check_noise_is_rows, ClaimsToRoundLess(20)),
        (check_shift, LeavesALevelOut(20, 5)),
        (check_shift, RoundsTheRelease(20)),
        (check_arguments, ServesBeyondTheHorizon(20)),
        (check_parameters, ForgetsAParameter(20, 5, False)),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_broken_strategy_is_caught(
    check: Callable[[StreamStrategy], None], strategy: StreamStrategy
) -> None:
    with pytest.raises(LawBroken, match=type(strategy).__name__):
        check(strategy)


@pytest.mark.parametrize(
    ("check", "cls"),
    [
        (check_endless_sensitivity, Quiet),
        (check_endless_sensitivity, QuietGaussian),
        (check_node_law, RefusedLate),
    ],
)
def test_broken_noise_of_an_endless_stream_is_caught(check: Any, cls: type[Epochs]) -> None:
    for law in (check, check_strategy):
        with pytest.raises(LawBroken, match=cls.__name__):
            law(cls(3), 24)


@pytest.mark.parametrize("cls", [ForgetsStepsOfASchedule])
def test_the_laws_together_catch_them_too(cls: type[Binary]) -> None:
    with pytest.raises(LawBroken, match=cls.__name__):
        check_strategy(cls(12))
