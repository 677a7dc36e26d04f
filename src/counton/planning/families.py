"""Families of strategies that plans consider, and the members of each for a request.

If a unit changes one step, the sensitivity of a tree follows from its height. If a unit changes
several steps, it depends on where these steps can lie: sensitivities in both norms are computed for
trees of every arity and height, and for `SmoothBinary` every number of zeros. A strategy is left
out if another one has a smaller error and no larger norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from counton import strategies as catalogue
from counton.base import strategy_names as names
from counton.base.errors import InvalidInputError
from counton.base.strategy_names import StrategyFamily
from counton.privacy import ZCDP, ContributionBound, Guarantee, PureDP
from counton.strategies import Metric, Norm, StreamStrategy
from counton.strategies.joint_errors import released_variance
from counton.strategies.participation import sensitivities
from counton.strategies.strategy import ReleaseForm
from counton.strategies.streams.growing_root import EVEN, STEPS
from counton.strategies.streams.shapes import strategies_of_shape

if TYPE_CHECKING:
    from counton.strategies.workloads import RecentWorkload

#: Horizon beyond which fewer trees are considered for units that count in several steps.
_LONGEST_HORIZON_OF_ALL_TREES = 2**14
#: Horizon from which on families of strategies that are never better than all others are left out,
#: unless a plan compares all strategies.
_SHORTEST_REDUCED_HORIZON = 64
#: Least number of steps, and largest epsilon, with which the least-squares strategy is known to be
#: the best, if a unit counts in one step. A test compares them at this epsilon: any other strategy
#: has at least 1.1 times its variance. With a smaller epsilon all the more: a discrete Laplace
#: distribution on whole numbers has (x/2 / sinh(x/2))^2 of the variance of the continuous one,
#: where x is at most epsilon, and the least-squares strategy draws on a grid that is 2^16 times as
#: fine.
_FEWEST_LEAST_SQUARES_STEPS = 37
_LARGEST_LEAST_SQUARES_EPSILON = 2
#: Numbers of steps, and largest rho, with which the normalised square root with its finest weights
#: is known to be the best for totals, if a unit counts in one step. A test compares them: any other
#: strategy has at least 1.02 times its variance, because the noise is wide.
_NORMALISED_STEPS = range(2**17, 2**20 + 1)
_LARGEST_NORMALISED_RHO = 1
#: Horizon beyond which the square root is not considered for Laplace noise.
_LONGEST_LAPLACE_ROOT = 2**16
#: Horizon beyond which the square root is not considered for any noise.
_LONGEST_ROOT = 2**22
#: Number of steps that is assumed if none is stated.
EXPECTED_WINDOWS = 2**16
#: If more steps are expected, the growing square root alone is not considered: its streams end
#: after 2^20 - 1 steps, about four times as many.
_MOST_EXPECTED_WINDOWS = 2**18


class FamilyRequest(NamedTuple):
    """What decides the candidates; the steps of a unit are as in `ContributionBound`."""

    horizon: int
    metric: Metric = "mean"
    release: ReleaseForm = "totals"
    steps: int | None = 1
    separation: int = 1
    every: int | None = None

    @classmethod
    def of(
        cls, horizon: int, metric: Metric, release: ReleaseForm, contribution: ContributionBound
    ) -> FamilyRequest:
        """Return the request for a unit whose contribution is bounded."""
        return cls(
            horizon=horizon,
            metric=metric,
            release=release,
            steps=contribution.steps,
            separation=contribution.separation,
            every=contribution.every,
        )

    @property
    def plain(self) -> bool:
        """True if classes know their best parameters: one step of a unit, and totals."""
        return self.steps == 1 and self.release == "totals"

    def norms_moved(self, strategy: StreamStrategy) -> tuple[int, int]:
        """Return the largest 1-norm and squared 2-norm of one unit's change of all measurements.

        They are in 2^-lattice_bits of a count, the unit in which integer noise is drawn.
        """
        sensitivity = sensitivities(
            strategy, steps=self.steps, separation=self.separation, every=self.every
        )
        return sensitivity.l1, sensitivity.l2_squared

    def without_dominated(self, candidates: Iterable[StreamStrategy]) -> list[StreamStrategy]:
        """Return the strategies in order of error, without those for which another has no larger
        error and no larger sensitivity in either norm.
        """
        front: list[StreamStrategy] = []
        front_norms: list[tuple[int, int]] = []
        for strategy in sorted(
            candidates, key=lambda strategy: released_variance(strategy, self.metric, self.release)
        ):
            norms = self.norms_moved(strategy)
            if all(l1 > norms[0] or l2 > norms[1] for l1, l2 in front_norms):
                front.append(strategy)
                front_norms.append(norms)
        return front


def _kary(request: FamilyRequest, subtraction: bool) -> Iterable[StreamStrategy]:
    if request.plain:
        return catalogue.KAry.undominated_trees(request.horizon, request.metric, subtraction)
    return request.without_dominated(_kary_trees(request.horizon, subtraction))


@lru_cache(maxsize=16)
def _kary_trees(horizon: int, subtraction: bool) -> list[catalogue.KAry]:
    """Return the k-ary trees to compare, cached with the norms that they have computed."""
    return catalogue.KAry.candidates(
        horizon, subtraction, of_each=3 if horizon > _LONGEST_HORIZON_OF_ALL_TREES else 8
    )


def _smooth(request: FamilyRequest, norm: Norm) -> Iterable[StreamStrategy]:
    if request.plain:
        return catalogue.SmoothBinary.candidates(request.horizon, of_each=1)
    trees = _smooth_trees(request.horizon)
    if request.horizon > _LONGEST_HORIZON_OF_ALL_TREES and request.every is None:
        # In all cases examined, the best tree for either norm had no more zeros than ones
        # (`SmoothBinary`).
        trees = [tree for tree in trees if 6 * tree.zeros >= tree.height - tree.zeros >= tree.zeros]
    return request.without_dominated(trees)


@lru_cache(maxsize=8)
def _smooth_trees(horizon: int) -> list[catalogue.SmoothBinary]:
    if horizon > _LONGEST_HORIZON_OF_ALL_TREES:
        return catalogue.SmoothBinary.candidates(horizon, of_each=1)
    return catalogue.SmoothBinary.candidates(horizon)


def _square_root(request: FamilyRequest, norm: Norm) -> Iterable[StreamStrategy]:
    if norm == 1 and request.horizon > _LONGEST_LAPLACE_ROOT:
        raise InvalidInputError(
            f"with Laplace noise it is not planned beyond {_LONGEST_LAPLACE_ROOT:,} steps: it "
            f"needs many times the noise of a tree"
        )
    if request.horizon > _LONGEST_ROOT:
        raise InvalidInputError(
            "it is not planned beyond 2^22 steps: each run computes the noise of all steps"
        )
    return [catalogue.SqrtToeplitz(request.horizon)]


class FamilyRule(NamedTuple):
    """How plans consider a family of strategies.

    Attributes:
        make: returns the strategies for a `FamilyRequest` and a norm.
        contends: the norms with which it may be the best from 64 steps on.
        published: papers describe it, and it is never the best for units that count in one step:
            plans include it for comparison only.
    """

    family: StrategyFamily
    make: Callable[[FamilyRequest, Norm], Iterable[StreamStrategy]]
    contends: tuple[Norm, ...] = (1, 2)
    published: bool = False

    def norms_wanted(
        self, requested: tuple[Norm, ...], *, published: bool, unlikely: bool
    ) -> tuple[Norm, ...]:
        """Return the requested norms for which this family is a candidate.

        Args:
            requested: the norms of the guarantee's noise.
            published: whether families that are only compared with are candidates.
            unlikely: whether families that are hardly ever the best are candidates.
        """
        if self.published and not published:
            return ()
        possible = self.family.norms
        norms = possible if unlikely else self.contends
        return tuple(norm for norm in requested if norm in possible and norm in norms)


class FamilyMembers(NamedTuple):
    """The candidates of one family, or a note why there are none."""

    strategy_family: str
    members: tuple[StreamStrategy, ...]
    note: str = ""


_LEAST_SQUARES = FamilyRule(
    names.LEAST_SQUARES,
    lambda request, norm: strategies_of_shape(
        request.horizon, norm, request.metric, request.release
    ),
)
#: Families for totals. Among equally good strategies the first is chosen.
TOTALS_FAMILIES: tuple[FamilyRule, ...] = (
    _LEAST_SQUARES,
    FamilyRule(
        names.LOOK_AHEAD,
        lambda request, norm: catalogue.LookAhead.candidates(
            request.horizon,
            request.metric,
            request.release,
            steps=request.steps,
            separation=request.separation,
            every=request.every,
        ),
    ),
    FamilyRule(names.SUBTRACTING, lambda request, norm: _kary(request, subtraction=True)),
    FamilyRule(
        names.NORMALISED,
        # With fine weights, sums of wide noise may overflow; the plan then leaves the strategy out.
        lambda request, norm: [
            catalogue.NormalisedSqrt(request.horizon),
            catalogue.NormalisedSqrt(request.horizon, 8),
        ],
    ),
    FamilyRule(
        names.MULTISCALE,
        lambda request, norm: [
            catalogue.MultiscaleStrategy(request.horizon, request.metric, bits)
            for bits in (16, 12)
            if request.horizon >= names.MULTISCALE.fewest_steps
        ],
    ),
    FamilyRule(
        names.WHOLE_MULTISCALE,
        lambda request, norm: [
            catalogue.MultiscaleStrategy(request.horizon, request.metric, bits, whole=True)
            for bits in (16, 12)
        ],
    ),
    FamilyRule(names.SQUARE_ROOT, _square_root, contends=(2,)),
    FamilyRule(names.KARY, lambda request, norm: _kary(request, subtraction=False), contends=()),
    FamilyRule(names.SMOOTH, _smooth, contends=(), published=True),
    FamilyRule(
        names.EVEN_SMOOTH,
        lambda request, norm: [catalogue.SmoothBinary.even(request.horizon)],
        contends=(),
        published=True,
    ),
    FamilyRule(
        names.HONAKER,
        lambda request, norm: [catalogue.HonakerOnline(request.horizon)],
        contends=(),
        published=True,
    ),
    FamilyRule(
        names.BINARY,
        lambda request, norm: [catalogue.Binary(request.horizon)],
        contends=(),
        published=True,
    ),
    # Each step's count has its own noise, and totals add these up: a tree of one level. A tree of
    # one level with subtraction has as much noise, so this family is never better.
    FamilyRule(
        names.EACH_STEP,
        lambda request, norm: [catalogue.KAry(request.horizon, request.horizon + 1, False)],
        contends=(),
        published=True,
    ),
)
#: Families for numbers of single steps.
WINDOWS_FAMILIES: tuple[FamilyRule, ...] = (
    FamilyRule(names.INDEPENDENT, lambda request, norm: [catalogue.Independent(request.horizon)]),
    FamilyRule(
        names.CASCADE,
        lambda request, norm: [catalogue.GrowingCascade((request.horizon - 1).bit_length())],
        contends=(),
        published=True,
    ),
)


def endless_families(
    release: ReleaseForm, norms: tuple[Norm, ...], metric: Metric, expected_windows: int | None
) -> list[FamilyMembers]:
    """Return the candidates for a stream without a last step, by family."""
    if release != "totals":
        raise InvalidInputError(
            f"release is {release!r}, but a stream without a last step can only be planned for "
            "totals: give a horizon, as large as you need"
        )
    families = []
    if 2 in norms:
        steps = EXPECTED_WINDOWS if expected_windows is None else expected_windows
        even = _best_even(metric, steps)
        # With fewer bits, sums of wider noise do not overflow.
        roots = tuple(catalogue.GrowingSquareRoot(bits, even) for bits in (18, 14, 8, 4))
        families.append(FamilyMembers(names.GROWING_ROOT.words, roots))
        blocks = tuple(catalogue.GrowingBlocks(bits) for bits in (18, 14, 8, 4))
        families.append(FamilyMembers(names.GROWING_BLOCKS.words, blocks))
    families.append(FamilyMembers(names.EPOCHS.words, (catalogue.Epochs(),)))
    return families


def without_early_ends(
    families: Sequence[FamilyMembers], expected_windows: int | None
) -> list[FamilyMembers]:
    """Leave out families whose streams would end too soon after the expected number of steps.

    Their notes come last, because the first note is the reason if no strategy is possible.
    """
    early = names.GROWING_ROOT.words
    if expected_windows is None or expected_windows <= _MOST_EXPECTED_WINDOWS:
        return [*families]
    later = [family for family in families if family.strategy_family != early]
    if len(later) == len(families):
        return later
    note = f"{early}: left out, its streams end after {STEPS:,} steps"
    return [*later, FamilyMembers(early, (), note)]


def workload_families(
    workload: RecentWorkload,
    horizon: int | None,
    norms: tuple[Norm, ...],
    contribution: ContributionBound,
    *,
    metric: Metric,
    simple: bool,
    expected_windows: int | None,
) -> list[FamilyMembers]:
    """Return the candidates for sums over recent steps, by family."""
    from counton.planning.recent_sums import compares_totals

    families = [] if simple else _families_of_recent_sums(workload, horizon, norms, metric)
    if horizon is not None:
        independent = (catalogue.Independent(horizon),)
        families.append(FamilyMembers(names.INDEPENDENT.words, independent))
    if horizon is None and norms == (1,):
        families.append(FamilyMembers(names.EPOCHS.words, (catalogue.Epochs(),)))
    elif compares_totals(workload, horizon, expected_windows):
        if horizon is None:
            families += endless_families("totals", norms, metric, expected_windows)
        else:
            # A strategy for both totals and single steps may be the best for sums of many steps.
            forms: tuple[ReleaseForm, ...] = ("totals", "both")
            requests = [FamilyRequest.of(horizon, metric, form, contribution) for form in forms]
            families += _families_of_requests(requests, norms, contribution, simple=simple)
    return families


def _families_of_recent_sums(
    workload: RecentWorkload, horizon: int | None, norms: tuple[Norm, ...], metric: Metric
) -> list[FamilyMembers]:
    """Return the families whose strategies are made for sums over recent steps."""
    from counton.planning.recent_sums import banded_roots, hats_of

    makers: list[tuple[Norm, StrategyFamily, Callable[..., tuple[StreamStrategy, ...]]]] = [
        (2, names.BANDED_ROOT, banded_roots),
        (1, names.RECENT_HATS, partial(hats_of, metric=metric)),
    ]
    families = []
    for norm, family, make in makers:
        if norm not in norms:
            continue
        try:
            families.append(FamilyMembers(family.words, make(workload, horizon)))
        except InvalidInputError as error:
            note = f"{family.words}: left out, {error}"
            families.append(FamilyMembers(family.words, (), note))
    return families


def _families_of_requests(
    requests: Iterable[FamilyRequest],
    norms: tuple[Norm, ...],
    contribution: ContributionBound,
    *,
    simple: bool,
) -> list[FamilyMembers]:
    """Return the candidates for several requests, each strategy once."""
    members: dict[str, tuple[StreamStrategy, ...]] = {}
    for request in requests:
        for family in candidates(
            request,
            simple=simple,
            published=considers_published(contribution),
            unlikely=False,
            norms=norms,
        ):
            there = members.get(family.strategy_family, ())
            more = tuple(member for member in family.members if member not in there)
            members[family.strategy_family] = (*there, *more)
    return [FamilyMembers(words, strategies) for words, strategies in members.items()]


def considers_published(contribution: ContributionBound) -> bool:
    """Return whether published strategies may be the best, and are installed.

    They may be if a unit changes several steps. The package that has them is optional.
    """
    if contribution.in_one_step:
        return False
    try:
        import_module("counton.strategies.published")
    except ModuleNotFoundError:
        return False
    return True


@lru_cache(maxsize=64)
def _best_even(metric: Metric, expected_windows: int) -> int | None:
    """Return the best number of first nodes of `GrowingSquareRoot`; None: its default."""

    def error(even: int | None) -> float:
        root = catalogue.GrowingSquareRoot(even=even)
        variance_of_stream = root.mean_variance if metric == "mean" else root.largest_variance
        return variance_of_stream(expected_windows)

    near = [even for even in EVEN if even <= expected_windows <= 8 * even]
    return min([None, *near], key=error) if near else None


def published_family(name: str, horizon: int | None) -> FamilyMembers:
    """Return a published strategy as its paper states it, or a note that it is left out."""
    if horizon is None:
        return FamilyMembers(name, (), f"{name}: left out, it has a last step")
    strategy: StreamStrategy
    if name == "kary-paper":  # Algorithm 2 with k = 19, which is the best in the limit
        strategy = catalogue.KAry(horizon, 19, subtraction=True)
    else:
        rule = next(rule for rule in TOTALS_FAMILIES if rule.family == names.PAPERS[name])
        (strategy,) = rule.make(FamilyRequest(horizon), 2)
    return FamilyMembers(name, (strategy,))


@lru_cache(maxsize=128)
def _members_of(request: FamilyRequest, rule: FamilyRule, norms: tuple[Norm, ...]) -> FamilyMembers:
    members: list[StreamStrategy] = []
    note = ""
    try:
        for norm in reversed(norms):
            members += [
                strategy for strategy in rule.make(request, norm) if strategy not in members
            ]
    except InvalidInputError as error:
        note = f"{rule.family.words}: left out, {error}"
    return FamilyMembers(rule.family.words, tuple(members), note)


def known_best(
    request: FamilyRequest, guarantee: Guarantee, contribution: ContributionBound, *, simple: bool
) -> FamilyMembers:
    """Return the strategy that is known to be the best, so that none need be compared, if any."""
    if request.horizon == 1 and simple and request.release != "windows":
        # The strategies differ in how releases share noise, and there is only one release.
        return FamilyMembers(names.SUBTRACTING.words, (catalogue.KAry(1, 2),))
    if simple or not contribution.in_one_step:
        return FamilyMembers("", ())
    # Tests compare all families at some horizons and losses.
    small_epsilon = (
        isinstance(guarantee, PureDP) and guarantee.epsilon <= _LARGEST_LEAST_SQUARES_EPSILON
    )
    if small_epsilon and request.horizon >= _FEWEST_LEAST_SQUARES_STEPS:
        one_step = FamilyRequest(request.horizon, request.metric, request.release)
        return _members_of(one_step, _LEAST_SQUARES, (1,))
    small_rho = isinstance(guarantee, ZCDP) and guarantee.rho <= _LARGEST_NORMALISED_RHO
    if small_rho and request.horizon in _NORMALISED_STEPS and request.release == "totals":
        normalised = catalogue.NormalisedSqrt(request.horizon)
        return FamilyMembers(names.NORMALISED.words, (normalised,))
    return FamilyMembers("", ())


def candidates(
    request: FamilyRequest,
    *,
    simple: bool = False,
    published: bool = True,
    unlikely: bool = True,
    norms: tuple[Norm, ...] = (1, 2),
) -> tuple[FamilyMembers, ...]:
    """Return the candidates by family, with a note for each family that cannot serve the horizon.

    Which one of a family is best depends on the guarantee; those with another of smaller
    sensitivities in both norms and a smaller error are left out.

    Args:
        request: what decides the members of a family.
        simple: whether releases must be integers.
        published, unlikely: as in `FamilyRule.norms_wanted`; streams with few steps always have
            unlikely families.
        norms: the norms of the guarantee's noise.

    >>> [family.strategy_family for family in candidates(FamilyRequest(1000), simple=True)]
    ['k-ary with subtraction', 'multiscale, whole numbers', 'k-ary', 'smooth binary',
     'smooth binary, even height', 'binary', 'noise for each step']
    """
    unlikely = unlikely or request.horizon < _SHORTEST_REDUCED_HORIZON
    families = []
    for rule in WINDOWS_FAMILIES if request.release == "windows" else TOTALS_FAMILIES:
        is_possible = rule.family.is_simple if simple else not rule.family.only_simple
        norms_wanted = rule.norms_wanted(norms, published=published, unlikely=unlikely)
        if is_possible and norms_wanted:
            families.append(_members_of(request, rule, norms_wanted))
    return tuple(families)
