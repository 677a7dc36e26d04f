"""Every claim of a strategy is in a law's list, and a wrong one breaks a law.

What a class says by a public name some mechanism believes. Each name of the classes from which
strategies derive stands here: beside wrong implementations, which the laws refuse; or among those
whose wrong value hurts nobody, with the reason. A new name that stands nowhere fails. Others stand
beside the one law that is meant to catch them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from own_laws.arguments import check_arguments
from own_laws.errors import check_released_variance, check_window_variance
from own_laws.streams import (
    check_node_distribution,
    check_noise_parts,
    check_reader,
    check_strategy,
)

from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError
from counton.base.expiry import Expiry
from counton.strategies import (
    Binary,
    EndlessStrategy,
    Epochs,
    Expiring,
    Factorisation,
    GrowingCascade,
    GrowingSquareRoot,
    HonakerOnline,
    KAry,
    LeastSquaresStrategy,
    LookAhead,
    Metric,
    MultiscaleStrategy,
    NodeNoise,
    Norm,
    NormalisedSqrt,
    SmoothBinary,
    SqrtToeplitz,
    StrategyFacts,
    StreamStrategy,
    noise_variance,
    sensitivities,
    sensitivity,
)
from counton.strategies.joint_errors import released_variance
from counton.strategies.participation import (
    Schedule,
    Stretch,
    Structure,
    largest_alternating,
    largest_sum,
    level_weights,
    pattern_sensitivity,
    sums_of_runs,
)
from counton.strategies.strategy import (
    FEWEST_WIDE_COORDINATES,
    Reader,
    Steps,
    StrategyReleaseForm,
    window_ends,
    window_rows,
)
from counton.strategies.streams.expiring import below_split
from counton.tables import Hats
from counton.testing import (
    PropertyViolationError,
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

HORIZON = 12


def claims_of(base: type[StreamStrategy], **claims: Any) -> type[StreamStrategy]:
    """A class with other claims."""
    return type(f"Wrong{base.__name__}", (base,), claims)


def wrong(base: type[StreamStrategy], *arguments: Any, **claims: Any) -> StreamStrategy:
    """An instance of a class with other claims; without arguments over the horizon."""
    cls: Any = claims_of(base, **claims)
    made: StreamStrategy = cls(*(arguments or (HORIZON,)))
    return made


def times(base: type[StreamStrategy], name: str, factor: Any) -> Any:
    """What a class says by this name, so many times."""
    held = next(vars(cls)[name] for cls in base.__mro__ if name in vars(cls))
    if isinstance(held, property):
        return property(lambda self: held.fget(self) * factor)  # type: ignore[misc]
    return lambda self, *args, **more: held(self, *args, **more) * factor


def halved(base: type[StreamStrategy], name: str, *arguments: Any) -> StreamStrategy:
    """An instance that claims half of it, in integers where it claims these."""
    held = next(vars(cls)[name] for cls in base.__mro__ if name in vars(cls))
    return wrong(base, *arguments, **{name: _half(held)})


def knows(base: type[StreamStrategy], *arguments: Any, **known: Any) -> StreamStrategy:
    """An instance that knows something else of its columns."""
    own: Any = base.structure
    return wrong(
        base, *arguments, structure=property(lambda self: own.fget(self)._replace(**known))
    )


def states(base: type[StreamStrategy], *arguments: Any, **stated: Any) -> StreamStrategy:
    """An instance that states other facts, and behaves as before."""
    own = base(*(arguments or (HORIZON,))).facts
    return wrong(base, *arguments, facts=fixed(own._replace(**stated)))


def _halves(function: Any) -> Callable[..., list[int]]:
    return lambda *args: [each // 2 for each in function(*args)]


def _half(function: Callable[..., Any]) -> Callable[..., Any]:
    """Half of what a function finds, in integers where it finds these."""

    def claim(*args: Any, **more: Any) -> Any:
        found = function(*args, **more)
        if isinstance(found, Sensitivity):
            return Sensitivity(max(found.l1 // 2, 1), max(found.l2_squared // 2, 1))
        return found // 2 if isinstance(found, int) else found / 2

    return claim


def _less_one(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)[:1]


def fixed(value: Any) -> property:
    """An attribute that no constructor changes."""
    return property(lambda self: value, lambda self, given: None)


class Silent(Reader):
    """A stream's running noise is zeros."""

    def noise(self, steps: range) -> NDArray[np.int64]:
        return np.zeros_like(super().noise(steps))


class SilentInParts(Reader):
    """That of large batches is."""

    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        for part in super().parts(steps):
            yield np.zeros_like(part)


class ReversedInParts(Reader):
    """That of large batches comes last step first."""

    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        yield self.noise(steps)[::-1]


class SilentWhenAskedAgain(Reader):
    """That of steps which it gave already is."""

    def __init__(self, strategy: StreamStrategy, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._given = 0

    def noise(self, steps: range) -> NDArray[np.int64]:
        found = super().noise(steps) * (not steps or steps.start > self._given)
        self._given = max(self._given, steps.stop - 1)
        return found


class SilentAfterARestart(Reader):
    """That of a reader which begins with a later step is."""

    def __init__(self, strategy: StreamStrategy, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._next = 1

    def noise(self, steps: range) -> NDArray[np.int64]:
        found = super().noise(steps) * (not steps or steps.start <= self._next)
        self._next = max(self._next, steps.stop)
        return found


class OfTheFirstStream(Reader):
    """All streams of one strategy have the noise of the first."""

    def noise(self, steps: range) -> NDArray[np.int64]:
        return self._strategy.noise(vars(self._strategy).setdefault("field", self._field), steps)


def read_by(cls: type[Reader]) -> StreamStrategy:
    return wrong(Binary, _reader=lambda self, field: cls(self, field))


def halved_factor(self: Epochs, level: int) -> Fraction:
    """Noise of later epochs is half as wide as it must be."""
    return Epochs._node_factor(self, level) / (2 if level else 1)


def forgets(base: type[StreamStrategy], name: str, at: int) -> Callable[..., Any]:
    """One node of a step less."""
    held: Any = getattr(base, name)

    def claim(self: StreamStrategy, step: int, *more: int) -> Any:
        return held(self, step, *more)[step == at :]

    return claim


def of_one_step(strategy: StreamStrategy, **more: Any) -> Sensitivity:
    """Units that act several times are protected as if they acted once."""
    return sensitivities(strategy)


def other_horizon(cls: type[StreamStrategy], horizon: int) -> StreamStrategy:
    return Binary(HORIZON + 1)


def uncoupled(part: Stretch | None) -> list[tuple[Stretch, int]]:
    """Steps that never meet in a node."""
    return [(Stretch(0, 1, 1), HORIZON)] if part is None else []


def only_differences(
    self: StreamStrategy, steps: Steps, since: Steps | None = None
) -> NDArray[np.float64]:
    """Differences of releases have a hundredth of their variance."""
    return Binary.variance(self, steps, since) * (0.01 if since is not None else 1)  # type: ignore[arg-type]


def less_with_a_law(
    self: Epochs, steps: Steps, since: Steps | None = None, distribution: Any = None
) -> NDArray[np.float64]:
    """Of drawn noise a hundredth of the variance."""
    return Epochs.variance(self, steps, since, distribution) * (
        0.01 if distribution is not None else 1
    )


def single_steps(metric: Metric, of: StrategyReleaseForm) -> float:
    """Half of what single steps have, and all of what totals have."""
    return Binary(HORIZON).overall_variance(metric, of) / (2 if of == "windows" else 1)


def rounds_releases(self: Any, field: NodeNoise, steps: range) -> NDArray[np.int64]:
    return Binary.noise(self, field, steps) // 2 * 2


def sensitive_to_one(strategy: StreamStrategy, p: Any, **more: Any) -> float:
    return sensitivity(strategy, p)


_LOOKS_AHEAD = (HORIZON, (2, 2, 2), (1, 1, 1, 1))
_FALLING = [[1.0, 0, 0], [-0.5, 1, 0], [0.25, -0.5, 1]]

#: For each name of `StreamStrategy`, and of what some have more, wrong strategies.
WRONG: dict[str, list[StreamStrategy]] = {
    "facts.attained": [
        states(
            claims_of(
                MultiscaleStrategy,
                squared_sensitivity=times(MultiscaleStrategy, "squared_sensitivity", 2),
            ),
            attained=True,
        )
    ],
    "facts.causal": [states(LookAhead, *_LOOKS_AHEAD, causal=True)],
    "column": [
        wrong(Epochs, 3, column=forgets(Epochs, "column", 5)),
    ],
    "facts.delay": [states(Binary, delay=1), states(Expiring, 1, delay=1)],
    "expiry": [
        wrong(
            Expiring,
            1,
            expiry=fixed(Expiry(1)),
            _node_factor=lambda self, level: Expiry(2).factor(level),
        ),
        wrong(Expiring, 1, expiry=fixed(Expiry(1, 1)), facts=fixed(StrategyFacts())),
        wrong(Expiring, 1, expiry=fixed(Expiry(1, 0, 2)), row=Expiring(1).row),
    ],
    "facts.fraction_bits": [
        states(Binary, fraction_bits=1),
        states(HonakerOnline, fraction_bits=9),
    ],
    "horizon": [wrong(Epochs, 3, horizon=HORIZON)],
    "l1_sensitivity": [halved(Binary, "l1_sensitivity"), halved(Epochs, "l1_sensitivity", 3)],
    "_largest_read": [
        wrong(Binary, _largest_read=1e-6),
        wrong(SqrtToeplitz, _largest_read=1e-6),
        wrong(SqrtToeplitz, _largest_read=1e6),
    ],
    "largest_reads": [
        wrong(cls, *args, largest_reads=lambda self, stops: np.full(np.shape(stops), 1e-6))
        for cls, args in ((Epochs, (3,)), (Expiring, (1,)))
    ],
    "largest_variance": [wrong(Epochs, 3, largest_variance=times(Epochs, "largest_variance", 0.5))],
    "facts.lattice_bits": [states(Binary, lattice_bits=1)],
    "mean_variance": [
        wrong(Epochs, 3, mean_variance=times(Epochs, "mean_variance", 0.5)),
        wrong(GrowingSquareRoot, mean_variance=times(GrowingSquareRoot, "mean_variance", 0.5)),
        wrong(Expiring, 1, mean_variance=times(Expiring, "mean_variance", 0.5)),
    ],
    "_node_factor": [
        wrong(Epochs, 3, _node_factor=halved_factor),
        wrong(Expiring, 1, _node_factor=lambda self, level: Fraction(1, 2)),
    ],
    "noise": [wrong(Binary, noise=rounds_releases)],
    "overall_variance": [
        wrong(Binary, overall_variance=lambda self, metric, of="totals": single_steps(metric, of)),
    ],
    "parameters": [wrong(Binary, parameters={"horizon": HORIZON + 1})],
    "_release_rounding": [wrong(HonakerOnline, _release_rounding=0.01)],
    "_reader": [
        read_by(cls)
        for cls in (
            ReversedInParts, Silent, SilentInParts, SilentWhenAskedAgain, SilentAfterARestart,
            OfTheFirstStream,
        )
    ],
    "facts.rounding_variance": [
        states(MultiscaleStrategy, HORIZON, "max", 12, True, rounding_variance=0.0)
    ],
    "row": [wrong(Binary, row=forgets(Binary, "row", 7))],
    "saved_name": [wrong(Binary, saved_name="KAry")],
    "sources": [wrong(Binary, sources=("nobody",))],
    "squared_sensitivity": [halved(Binary, "squared_sensitivity")],
    "structure": [wrong(Binary, structure=Structure(uncoupled))],
    "structure.aligned": [knows(Factorisation, _FALLING, aligned=lambda: True)],
    "structure.change_bound": [
        # So many steps that not every set of four is tried, and the bound is asked for.
        knows(NormalisedSqrt, 40, change_bound=lambda: 1),
        knows(LeastSquaresStrategy, Hats.examples(40)[1], change_bound=lambda: 1),
    ],
    "structure.divisions": [knows(Binary, divisions=uncoupled)],
    "structure.falling_series": [
        knows(SqrtToeplitz, falling_series=SqrtToeplitz(HORIZON).root.numerators // 2),
        knows(Binary, falling_series=np.eye(1, HORIZON, dtype=np.int64)[0]),
    ],
    "structure.largest_sum": [
        knows(cls, largest_sum=_half(partial(largest_sum, cls(HORIZON))))
        for cls in (SqrtToeplitz, Binary)
    ],
    "structure.nodes_by_level": [knows(Binary, nodes_by_level=lambda: [np.arange(HORIZON)])],
    "structure.overlaps": [
        knows(
            MultiscaleStrategy,
            overlaps=_halves(MultiscaleStrategy(HORIZON).structure.overlaps),
        )
    ],
    "to_dict": [
        wrong(Binary, _from_description=classmethod(other_horizon)),
        wrong(Binary, to_dict=lambda self: {"strategy": "Binary", "horizon": 3}),
    ],
    "facts.unit_columns": [states(SqrtToeplitz, unit_columns=True)],
    "facts.unit_rows": [states(HonakerOnline, unit_rows=True)],
    "variance": [
        wrong(Binary, variance=only_differences),
        wrong(Epochs, 3, variance=less_with_a_law),
    ],
    "_window_rounding": [
        wrong(HonakerOnline, _window_rounding=times(HonakerOnline, "_window_rounding", 0.01))
    ],
    "facts.release": [states(Binary, release="windows")],
}  # fmt: skip

#: Names whose wrong value costs time or memory, and neither privacy nor a right number.
NO_LAW = {
    "_check_distribution": "called before a stream begins, and it may only refuse; that whatever "
    "it lets through can draw its last step is the law of `test_last_release.py`, with wrong ones",
    "facts": "the record itself: each name in it stands here",
    "for_estimates": "read by a plan for the margin of error that it prints, never by a stream; "
    "that its variances are those of the strategy is held in `test_normalised_sqrt.py`",
    "facts.drawn_ahead": "read by the planner alone, to leave out what would take too long to "
    "begin: noise is drawn by nodes, however many are said to be drawn before",
    "examples": "called by these laws and by nothing else: over which instances they run",
    "facts.buffer_size": "read by the planner alone, to leave out what would not fit into memory, "
    "and by readers, as `local`: what they give is compared with the rows whatever it says",
    "facts.last_step": "steps beyond it are refused, and no number is other than without it; that "
    "this step can be drawn is the law of `test_last_release.py`",
    "facts.corrections": "read where a unit's contribution is stated; that the sensitivities are "
    "those of all that it does is brute-forced in `test_window_versions.py`",
    "facts.reads_another": "a counter refuses to begin with it; its errors are compared with "
    "rows in `test_window_versions.py`",
    "step_reader": "that of `_reader`, unless a step releases several windows; that each is its "
    "version, to the bit, is held in `test_window_versions.py`",
    "facts.versions": "how many numbers a step releases; that each is its version, to the bit, is "
    "held in `test_window_versions.py`",
    "facts.local": "in how many parts a batch's noise is computed; that parts are the whole, to "
    "the bit, is `check_noise_parts` and `check_reader`",
}


_TREE = Binary(HORIZON)

#: What is computed from what strategies say, where it is looked up, and what would be wrong of it.
WRONG_SUMS: list[tuple[str, Callable[..., Any], StreamStrategy]] = [
    (
        "counton.testing.stream_checks.matrices",
        lambda strategy, steps: (np.eye(2), np.eye(2)),
        _TREE,
    ),
    ("own_laws.errors.noise_variance", _half(noise_variance), _TREE),
    ("own_laws.errors.noise_variance", _half(noise_variance), Epochs(3)),
    ("own_laws.arguments.check_ends", lambda strategy, *ends: np.broadcast_arrays(*ends), _TREE),
    ("own_laws.arguments.check_step", lambda strategy, step: step, _TREE),
    ("own_laws.arguments.check_steps", lambda strategy, steps: np.minimum(steps, 3), _TREE),
    ("own_laws.arguments.check_window", lambda strategy, steps: steps, _TREE),
    (
        "counton.testing.pattern_checks.largest_alternating",
        _half(largest_alternating),
        SqrtToeplitz(HORIZON),
    ),
    *(
        (
            "counton.testing.pattern_checks.largest_alternating",
            lambda strategy, norm, changes: largest_alternating(strategy, norm, 1),
            KAry(horizon, 4),
        )
        for horizon in (HORIZON, 2000)
    ),
    (
        "counton.testing.pattern_checks.largest_alternating",
        lambda strategy, norm, changes: changes**norm * largest_alternating(strategy, norm, 1),
        Binary(14),
    ),
    (
        "own_laws.structures.level_weights",
        lambda strategy: dict.fromkeys(level_weights(strategy), 1),
        LookAhead(HORIZON, (3, 4), (4, 3, 7)),
    ),
    ("counton.testing.stream_checks.sensitivities", _half(sensitivities), _TREE),
    ("counton.testing.stream_checks.sensitivities", of_one_step, _TREE),
    ("counton.testing.stream_checks.sensitivities", _half(sensitivities), Epochs(3)),
    ("counton.testing.stream_checks.sensitivity", _half(sensitivity), _TREE),
    ("counton.testing.stream_checks.sensitivity", sensitive_to_one, _TREE),
    ("own_laws.errors.released_variance", _half(released_variance), Binary(HORIZON)),
    (
        "counton.testing.pattern_checks.pattern_sensitivity",
        _half(pattern_sensitivity),
        Binary(HORIZON),
    ),
    (
        "counton.testing.pattern_checks.pattern_sensitivity",
        lambda strategy, pattern: Sensitivity(1, 1),
        Binary(HORIZON),
    ),
    ("counton.strategies.participation.sums_of_runs", _half(sums_of_runs), SqrtToeplitz(HORIZON)),
    (
        "counton.strategies.strategy.window_rows",
        _less_one(window_rows),
        wrong(Binary, variance=StreamStrategy.variance),
    ),
]


@pytest.mark.parametrize(("name", "wrongly", "strategy"), WRONG_SUMS)
def test_check_strategy_rejects_wrong_sum(
    name: str, wrongly: Any, strategy: StreamStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name, wrongly)
    with pytest.raises(PropertyViolationError):
        check_strategy(strategy, strategy.horizon or HORIZON)


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(EndlessStrategy) if not name.startswith("_")}
    names |= {f"structure.{name}" for name in Structure._fields}
    names |= {f"facts.{name}" for name in StrategyFacts._fields}
    assert not WRONG.keys() & NO_LAW.keys()
    assert names <= WRONG.keys() | NO_LAW.keys(), "a claim without a law: see the module's text"


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        pytest.param(name, strategy, id=f"{name}-{type(strategy).__name__}-{number}")
        for name, strategies in WRONG.items()
        for number, strategy in enumerate(strategies)
    ],
)
def test_check_strategy_rejects_each_wrong_claim(name: str, strategy: StreamStrategy) -> None:
    with pytest.raises(PropertyViolationError):
        check_strategy(strategy, strategy.horizon or HORIZON)


def sums_by(horizon: int, rule: Callable[[Norm, Schedule], Schedule], less: int = 0) -> Any:
    """A tree that says the largest sum of another schedule, or less."""

    def largest(self: Any) -> Structure:
        tree = Binary(self.horizon)
        return Structure(
            largest_sum=lambda norm, schedule: largest_sum(tree, norm, rule(norm, schedule)) - less
        )

    return wrong(Binary, horizon, structure=property(largest))


def forgets_other_steps(norm: Norm, schedule: Schedule) -> Schedule:
    """Units that act several times are protected as if they acted once."""
    return schedule._replace(steps=1)


def forgets_steps_of_a_schedule(norm: Norm, schedule: Schedule) -> Schedule:
    """So many steps of a schedule count as one."""
    return schedule._replace(steps=1) if schedule.fixed else schedule


def shares_a_node_less(self: Any) -> Structure:
    """Says of its last children that they are no nodes."""
    own = KAry.structure.fget(self)  # type: ignore[attr-defined]

    def divisions(part: Stretch | None) -> Sequence[tuple[Stretch, int]]:
        *others, (last, times) = own.divisions(part) or ((Stretch(0, 0, 1), 1),)
        return (*others, (last._replace(nodes=0), times)) if part is None else own.divisions(part)

    replaced: Structure = own._replace(divisions=divisions)
    return replaced


def claims_far_too_much(self: Any) -> Structure:
    def largest(norm: Norm, schedule: Schedule) -> int:
        one = self.squared_sensitivity() if norm == 2 else self.l1_sensitivity()
        return int(one) * int(schedule.steps**norm)

    held: Any = SmoothBinary.structure
    replaced: Structure = held.fget(self)._replace(largest_sum=largest)
    return replaced


def forgets_where_it_was(self: Any, field: NodeNoise) -> Reader:
    """Every part of a batch is the first."""
    own = Binary(self.horizon)

    def parts(field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        for part in own._reader(field).parts(steps):
            yield own.noise(field, steps[: len(part)])

    return Reader(self, field, parts)


def forgets_where_narrow(self: Any, field: NodeNoise) -> Reader:
    """From a thousand steps on, if nodes are narrow, and then only."""
    narrow = len(field.shape) > 0 and math.prod(field.shape) < FEWEST_WIDE_COORDINATES

    def parts(field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        for at in range(0, len(steps), 1000):
            yield self.noise(field, steps[: len(steps[at : at + 1000])])

    return Reader(self, field, parts if narrow else None)


def adds_variances(self: Any, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
    """Ends share nodes: their noise is not independent."""
    first, last = window_ends(self, steps, since)
    return np.asarray(np.bitwise_count(first) + np.bitwise_count(last), np.float64)


def forgets_the_shared(self: Any, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
    """The later end's estimate is made from nodes that the earlier end reads."""
    first, last = window_ends(self, steps, since)
    shared = np.maximum(below_split(first, last), 1)
    return HonakerOnline.variance(self, last, first) + 2.0 * (first & shared) / shared


def adds_up_alone(self: Any, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
    """Takes the noise of single steps for independent."""
    first, last = window_ends(self, steps, since)
    return np.asarray((last - first) * self.overall_variance("max"), dtype=np.float64)


def redraws_every_window(self: Any, field: NodeNoise, steps: range) -> NDArray[np.int64]:
    """The safety erratum of the square-root paper: z must be drawn once and kept."""
    return Binary.noise(self, field, steps) + field.run(200, range(1, 1 + len(steps)))


def leaves_a_level_out(self: Any, field: NodeNoise, steps: range) -> NDArray[np.int64]:
    """Releases of even steps miss the lowest level."""
    noise = KAry.noise(self, field, steps)
    for row, step in enumerate(steps):
        for level, index, weight in self.row(step):
            if step % 2 == 0 and level == 0:
                noise[row] -= field.run(0, range(index, index + 1))[0] * int(weight)
    return noise


def looks_ahead(self: Any, field: NodeNoise, steps: range) -> NDArray[np.int64]:
    """Its rows are those of the binary tree; its noise reads the node of the next odd step."""
    ahead = [field.run(0, range(step // 2, step // 2 + 1))[0] for step in steps]
    total: NDArray[np.int64] = Binary.noise(self, field, steps) + np.array(ahead) % 2
    return total


def rounds(base: Any, to: int) -> Callable[..., NDArray[np.int64]]:
    """Rounds after weighing, not before: the change of an item no longer passes through whole."""

    def noise(self: Any, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        found: NDArray[np.int64] = base.noise(self, field, steps)
        return found - found // to

    return noise


#: An item that should enter a node does not: it would go unprotected.
FORGETS = wrong(Binary, 20, column=forgets(Binary, "column", 5))
LEAVES_A_DIFFERENCE_OUT = wrong(GrowingCascade, 4, column=forgets(GrowingCascade, "column", 7))
COUNTS_TWICE = wrong(
    Binary, 20,
    column=lambda self, step: tuple(node._replace(weight=2) for node in Binary.column(self, step)),
    row=lambda self, step: tuple(
        node._replace(weight=Fraction(1, 2)) for node in Binary.row(self, step)
    ),
)  # fmt: skip
#: Says that it adds up, and does not.
RELEASES_TOTALS = states(GrowingCascade, 4, release="totals")
LEAVES_A_LEVEL_OUT = wrong(KAry, 20, 5, noise=leaves_a_level_out)

#: Wrong strategies beside the law that catches each.
BY_DISTRIBUTION: list[tuple[Callable[[StreamStrategy], None], StreamStrategy]] = [
    *((check, FORGETS) for check in (check_factorisation, check_shift)),
    *((check, COUNTS_TWICE) for check in (check_factorisation, check_sensitivity)),
    # Subtracts nodes of steps to come, and says that it does not.
    (check_causal, states(KAry, 20, 3, causal=True)),
    (check_causal, wrong(Binary, 19, noise=looks_ahead)),
    (
        check_sensitivity,
        wrong(Binary, 20, l1_sensitivity=lambda self: Binary.l1_sensitivity(self) - 1),
    ),
    (
        check_sensitivity,
        wrong(
            Binary, 20,
            squared_sensitivity=lambda self: Binary.squared_sensitivity(self) + Fraction(1, 10**9),
        ),
    ),
    *(
        (check_participation, sums_by(horizon, rule))
        for rule in (forgets_other_steps, forgets_steps_of_a_schedule)
        for horizon in (12, 200)
    ),
    (check_participation, sums_by(12, lambda norm, schedule: schedule, less=1)),
    (check_participation, wrong(KAry, 12, 20, structure=property(shares_a_node_less))),
    (check_participation, wrong(SmoothBinary, 14, 7, 3, structure=property(claims_far_too_much))),
    (check_noise_parts, wrong(Binary, 12, _reader=forgets_where_it_was)),
    (check_noise_parts, wrong(HonakerOnline, 2000, _reader=forgets_where_narrow)),
    (check_variance, wrong(Binary, 20, variance=times(Binary, "variance", 1 - 1e-9))),
    (check_window_variance, wrong(Binary, 20, variance=adds_variances)),
    (check_window_variance, wrong(HonakerOnline, 20, variance=forgets_the_shared)),
    (check_window_variance, wrong(GrowingCascade, 4, variance=adds_up_alone)),
    *((check, RELEASES_TOTALS) for check in (check_factorisation, check_shift)),
    *((check, LEAVES_A_DIFFERENCE_OUT) for check in (check_factorisation, check_shift)),
    (check_shift, wrong(GrowingCascade, 4, noise=rounds(GrowingCascade, 10**3))),
    (
        check_released_variance,
        wrong(Binary, 20, overall_variance=times(Binary, "overall_variance", 1 - 1e-9)),
    ),
    *(
        (check, wrong(Binary, 20, noise=redraws_every_window))
        for check in (check_windows, check_noise_is_rows)
    ),
    # A batch's noise is overridden, its parts are not.
    (
        check_reader,
        wrong(LookAhead, 20, (5,), noise=lambda *given: LookAhead.noise(*given) + 1),
    ),
    *((check, LEAVES_A_LEVEL_OUT) for check in (check_noise_is_rows, check_shift)),
    # Half a unit, although estimates of several levels are rounded.
    (
        check_noise_is_rows,
        wrong(
            HonakerOnline, 20, _window_rounding=times(HonakerOnline, "_window_rounding", 0.01)
        ),
    ),
    (check_shift, wrong(HonakerOnline, 20, noise=rounds(HonakerOnline, 10**6))),
    (
        check_arguments,
        wrong(Binary, 20, row=lambda self, step: Binary.row(self, min(step, self.horizon))),
    ),
    (
        check_parameters,
        wrong(
            KAry, 20, 5, False,
            parameters=property(lambda self: {"horizon": self.horizon, "arity": self.arity}),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "strategy"),
    BY_DISTRIBUTION,
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_single_check_rejects_wrong_strategy(
    check: Callable[[StreamStrategy], None], strategy: StreamStrategy
) -> None:
    with pytest.raises(PropertyViolationError, match=type(strategy).__name__):
        check(strategy)


def quiet(self: Any, level: int) -> Fraction:
    """A tenth of the spread that it should have in all epochs but the first."""
    return Epochs._node_factor(self, level) / (10 if self._number(level) else 1)


def gaussian_alone(self: Any) -> Fraction:
    raise InvalidInputError("Gaussian noise alone")


@pytest.mark.parametrize(
    ("check", "strategy"),
    [
        (check_endless_sensitivity, wrong(Epochs, 3, _node_factor=quiet)),
        # The same with one kind of noise only.
        (
            check_endless_sensitivity,
            wrong(Epochs, 3, _node_factor=quiet, l1_sensitivity=gaussian_alone),
        ),
        # Noise of later epochs is too wide, which nobody is told before.
        (
            check_node_distribution,
            wrong(Epochs, 3, _check_distribution=lambda self, distribution: None),
        ),
    ],
)
def test_checks_reject_wrong_noise_of_endless_stream(check: Any, strategy: Any) -> None:
    for distribution in (check, check_strategy):
        with pytest.raises(PropertyViolationError, match="WrongEpochs"):
            distribution(strategy, 24)


def test_an_honest_subclass_passes() -> None:
    check_strategy(wrong(Binary, 20))
