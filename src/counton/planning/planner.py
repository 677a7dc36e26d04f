"""The planner: it ranks candidate strategies and noise by their error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

from counton.base import strategy_names as names
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer
from counton.base.expiry import ExpiringNoise
from counton.base.literature import paper_of
from counton.base.strategy_names import StrategyFamily
from counton.continual.design import Design, check_shape, design_for
from counton.continual.node_distribution import (
    check_addresses,
    check_contribution,
    check_guarantee,
)
from counton.continual.stream_errors import ErrorsOf
from counton.planning.families import (
    EXPECTED_WINDOWS,
    FamilyMembers,
    FamilyRequest,
    candidates,
    considers_published,
    endless_families,
    known_best,
    published_family,
    without_early_ends,
    workload_families,
)
from counton.planning.plans import METRIC_WORDS, StreamPlan
from counton.privacy import ApproxDP, ContributionBound, Guarantee
from counton.strategies import Metric, Norm, StreamStrategy
from counton.strategies.participation import NORMS
from counton.strategies.strategy import EndlessStrategy, ReleaseForm, check_metric

if TYPE_CHECKING:
    from counton.strategies.workloads import RecentWorkload

#: Largest number of noise values, of all cells together, that a planned stream may hold while it
#: runs (128 MB), and that it may draw before its first release.
MOST_HELD_NUMBERS = 2**24
MOST_NUMBERS_DRAWN_FIRST = 2**27
#: Families that are never better than another, for totals and units in one step. A test compares
#: both.
_BETTER_FAMILIES = {names.SQUARE_ROOT.words: names.NORMALISED.words}
#: Kinds of strategies whose later candidates have coarser weights, for noise that is too wide for
#: the first candidate.
_EVER_COARSER = {
    family.words
    for family in (
        names.NORMALISED,
        names.MULTISCALE,
        names.WHOLE_MULTISCALE,
        names.GROWING_ROOT,
        names.GROWING_BLOCKS,
        names.BANDED_ROOT,
    )
}


class StreamOptions(TypedDict, total=False):
    """Options of every plan for a stream; `counton.plan` describes them."""

    metric: Metric
    strategies: Iterable[StreamStrategy | str] | None
    release: ReleaseForm
    simple: bool
    compare: bool
    expected_windows: int | None
    also: Iterable[StreamStrategy]
    workload: RecentWorkload | None


@dataclass(frozen=True, kw_only=True)
class RankingRequest:
    """A request to rank strategies for a stream; `counton.plan` describes its parts.

    Attributes:
        contribution: the bound on one unit's change; None: one count, added or removed.
        strategies: strategies or names of families to rank; None: all families.
        release: what is released, in place of `counton.plan`'s ``series``.
        also: strategies that are ranked in addition to these.
    """

    horizon: int | None
    guarantee: Guarantee
    contribution: ContributionBound | None = None
    shape: Sequence[int] = ()
    metric: Metric = "mean"
    strategies: Iterable[StreamStrategy | str] | None = None
    release: ReleaseForm = "totals"
    simple: bool = False
    compare: bool = True
    expected_windows: int | None = None
    also: Iterable[StreamStrategy] = ()
    workload: RecentWorkload | None = None


def plan_stream(
    horizon: int | None,
    guarantee: Guarantee,
    *,
    contribution: ContributionBound | None = None,
    shape: Sequence[int] = (),
    **options: Unpack[StreamOptions],
) -> StreamPlan:
    """Plan a stream; the arguments are those of `counton.plan`."""
    request = RankingRequest(
        horizon=horizon, guarantee=guarantee, contribution=contribution, shape=shape, **options
    )
    choices, notes = ranked_designs(request)
    last = None if horizon is None else int(horizon)
    if last is None:
        expected_windows = request.expected_windows or EXPECTED_WINDOWS
        length = f"no last step, errors of the first {int(expected_windows):,} steps"
    else:
        length = f"{last:,} steps"
    cells = f" of {math.prod(shape):,} cells" if shape else ""
    protected = ContributionBound.add_remove() if contribution is None else contribution
    return StreamPlan(
        choices=tuple(choices),
        words=(
            f"{length}{cells}, least {METRIC_WORDS[request.metric]} error first",
            f"guarantee: {guarantee}",
            f"protected: {protected}",
        ),
        shown=("strategy", "noise", "mean_std", "max_std"),
        brief=("kind", "noise", "mean_std", "max_std"),
        horizon=last,
        metric=request.metric,
        notes=tuple(notes),
        workload=request.workload,
    )


def ranked_designs(request: RankingRequest) -> tuple[list[Design], list[str]]:
    """Return the designs of `counton.plan`, best first, and notes on families that were left
    out."""
    listed = _ListedStrategies.of(request.strategies, request.also)
    _check_names(listed.names, _families_by_name(request.workload))
    check_metric(request.metric, request.release)
    checked = _CheckedRequest.of(request)
    finds_best = request.strategies is None and not listed.objects and not checked.compare
    if finds_best:
        best = _design_of_known_best(checked)
        if best is not None:
            return [best], []
    beaten: dict[str, str] = {}
    releases_totals = checked.release == "totals" and checked.workload is None
    if finds_best and releases_totals and checked.contribution.in_one_step:
        beaten = _BETTER_FAMILIES
    families = _families_to_rank(checked, listed)
    choices, notes = _best_designs(families, checked.design, checked.metric, beaten)
    if not choices:
        raise _no_strategy(checked, listed, notes)
    return choices, notes


class _ListedStrategies(NamedTuple):
    """The strategies that a request lists.

    Attributes:
        names: names of families, "auto" and "published" included.
        objects: strategies as objects.
        ranks_all: whether all families are compared, listed or not.
    """

    names: frozenset[str]
    objects: tuple[StreamStrategy, ...]
    ranks_all: bool

    @classmethod
    def of(
        cls, strategies: Iterable[StreamStrategy | str] | None, also: Iterable[StreamStrategy]
    ) -> _ListedStrategies:
        """Divide the strategies of a request.

        Raises:
            InvalidInputError: one of them is neither a name nor a strategy.
        """
        listed: list[object] = [] if strategies is None else [*strategies]
        names_asked = frozenset(strategy for strategy in listed if isinstance(strategy, str))
        objects = []
        for strategy in (*listed, *also):
            if isinstance(strategy, str):
                continue
            if not isinstance(strategy, StreamStrategy):
                raise InvalidInputError(
                    f"a strategy is {strategy!r}; give strategy objects, such as KAry.best(8760)"
                )
            objects.append(strategy)
        ranks_all = strategies is None or "auto" in names_asked
        return cls(names_asked, tuple(objects), ranks_all)

    def families(self, workload: RecentWorkload | None) -> set[str]:
        """Return the words for the listed families."""
        families_by_name = _families_by_name(workload)
        return {family.words for name in self.names for family in families_by_name.get(name, ())}


class _CheckedRequest(NamedTuple):
    """The checked parts of a request that each design depends on."""

    horizon: int | None
    guarantee: Guarantee
    contribution: ContributionBound
    shape: tuple[int, ...]
    metric: Metric
    release: ReleaseForm
    simple: bool
    compare: bool
    expected_windows: int | None
    workload: RecentWorkload | None

    @classmethod
    def of(cls, request: RankingRequest) -> _CheckedRequest:
        """Check a request, and fill in what is not stated."""
        horizon = request.horizon
        expected_windows = request.expected_windows
        if horizon is None:
            if expected_windows is None:
                expected_windows = EXPECTED_WINDOWS
            expected_windows = check_integer("expected_windows", expected_windows, 1)
        else:
            horizon = check_integer("horizon", horizon, 1)
            if expected_windows is not None:
                raise InvalidInputError(
                    f"horizon is {horizon} and expected_windows is {expected_windows}; "
                    "expected_windows is only for streams without a last step: leave it out, or "
                    "give None as the horizon"
                )
        check_guarantee(request.guarantee)
        contribution = request.contribution
        if contribution is None:
            contribution = ContributionBound.add_remove()
        check_contribution(contribution)
        return cls(
            horizon=horizon,
            guarantee=request.guarantee,
            contribution=contribution,
            shape=check_shape(request.shape),
            metric=request.metric,
            release=request.release,
            simple=request.simple,
            compare=request.compare,
            expected_windows=expected_windows,
            workload=request.workload,
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """The norms of the kinds of noise that can give the guarantee."""
        return tuple(NORMS[noise_kind] for noise_kind in self.guarantee.families)

    def design(self, strategy_family: str, strategy: StreamStrategy) -> Design:
        """Return the design with a strategy.

        Raises:
            InvalidInputError: the strategy cannot serve the stream, or not with this guarantee.
        """
        release = self.release if self.workload is None else None
        _check_serves(strategy, self.horizon, release, self.shape)
        return design_for(
            strategy,
            self.guarantee,
            self.contribution,
            self.shape,
            errors_of=ErrorsOf(self.release, self.expected_windows, workload=self.workload),
            strategy_family=strategy_family,
        )


def _design_of_known_best(request: _CheckedRequest) -> Design | None:
    """Return the design that is best without a comparison; None if none is known to be."""
    if request.horizon is None or request.workload is not None:
        return None
    family_request = FamilyRequest(request.horizon, request.metric, request.release)
    best = known_best(
        family_request, request.guarantee, request.contribution, simple=request.simple
    )
    for strategy in best.members:
        # Noise that is too wide for this strategy may not be for another one.
        with suppress(InvalidInputError):
            return request.design(best.strategy_family, strategy)
    return None


def _families_to_rank(request: _CheckedRequest, listed: _ListedStrategies) -> list[FamilyMembers]:
    """Return all strategies to compare, by family."""
    families_asked = listed.families(request.workload)
    published = names.PUBLISHED in listed.names
    families: Sequence[FamilyMembers] = ()
    if listed.ranks_all or families_asked or published:
        families = _all_families(request, everything=request.compare or not listed.ranks_all)
    if listed.ranks_all:
        families = without_early_ends(families, request.expected_windows)
    else:
        families = [
            family
            for family in families
            if family.strategy_family in families_asked or (published and _is_published(family))
        ]
    return [
        *families,
        *(published_family(name, request.horizon) for name in names.PAPERS if name in listed.names),
        *(FamilyMembers(strategy.saved_name, (strategy,)) for strategy in listed.objects),
    ]


def _is_published(family: FamilyMembers) -> bool:
    return any(paper_of(member.sources) is not None for member in family.members)


def _all_families(request: _CheckedRequest, *, everything: bool) -> Sequence[FamilyMembers]:
    """Return the candidates of all families; ``everything``: those that are never best, too."""
    contribution = request.contribution
    if request.workload is not None:
        return workload_families(
            request.workload,
            request.horizon,
            request.norms,
            contribution,
            metric=request.metric,
            simple=request.simple,
            expected_windows=request.expected_windows,
        )
    if request.horizon is None:
        return endless_families(
            request.release, request.norms, request.metric, request.expected_windows
        )
    # Only causal strategies have the better calibration of units in several steps. So families may
    # be best here that never are otherwise.
    may_differ = not contribution.in_one_step and isinstance(request.guarantee, ApproxDP)
    return candidates(
        FamilyRequest.of(request.horizon, request.metric, request.release, contribution),
        simple=request.simple,
        published=everything or considers_published(contribution),
        unlikely=everything or may_differ,
        norms=request.norms,
    )


def _no_strategy(
    request: _CheckedRequest, listed: _ListedStrategies, notes: Sequence[str]
) -> InvalidInputError:
    """Return the error that no strategy can serve a request."""
    horizon = request.horizon
    steps = "without a last step" if horizon is None else f"over {horizon:,} steps"
    several = f"; nor can {len(notes) - 1:,} others" if len(notes) > 1 else ""
    reason = notes[0].partition(": ")[2] if notes else f"none is made for {request.release}"
    named = f" of {param('strategy', ','.join(sorted(listed.names)))}" if listed.names else ""
    return InvalidInputError(
        f"no strategy{named} can give {request.guarantee} {steps}: {reason}{several}; allow "
        "another guarantee, or fewer steps, or give auto to compare all families"
    )


def _families_by_name(
    workload: RecentWorkload | None,
) -> Mapping[str, tuple[StrategyFamily, ...]]:
    return names.FAMILIES if workload is None else {**names.FAMILIES, **names.RECENT_FAMILIES}


def _check_names(
    names_asked: frozenset[str], families: Mapping[str, tuple[StrategyFamily, ...]]
) -> None:
    known_names = (*families, names.PUBLISHED, *names.PAPERS)
    if unknown := sorted(names_asked - {"auto", *known_names}):
        raise InvalidInputError(
            f"{param('strategy', unknown[0])} is not known; give one of "
            f"{', '.join(known_names)}, or auto to compare all families"
        )


def _best_designs(
    families: Sequence[FamilyMembers],
    design: Callable[[str, StreamStrategy], Design],
    metric: Metric,
    beaten: Mapping[str, str],
) -> tuple[list[Design], list[str]]:
    """Return each family's best design by noise, least error first, and notes on refusals.

    Args:
        families: the candidates by family.
        design: function that returns the design of a family's strategy.
        metric: which error is compared.
        beaten: families that are left out if there is a design of another one, which is named.
    """
    other: Metric = "max" if metric == "mean" else "mean"
    notes: list[str] = []
    choices: list[Design] = []
    for strategy_family, members, note in families:
        notes += [note] * bool(note)
        if beaten.get(strategy_family) in {choice.strategy_family for choice in choices}:
            continue
        least: dict[str, Design] = {}  # by the kind of noise
        refused: list[str] = []
        for strategy in members:
            if least and strategy_family in _EVER_COARSER:
                break
            try:
                choice = design(strategy_family, strategy)
                _check_errors(choice, (metric, other))
            except InvalidInputError as refusal:
                message = f"{strategy_family}: {strategy!r} left out, {refusal}"
                refused.append(shorten(message, 220, placeholder=" ..."))
                continue
            noise_kind = choice.noise_kind
            better = least.get(noise_kind)
            if better is None or choice.errors.by(metric) < better.errors.by(metric):
                least[noise_kind] = choice
        if not least:
            notes += refused
        known_already = [(choice.strategy, choice.noise_kind) for choice in choices]
        choices += [
            choice
            for choice in least.values()
            if (choice.strategy, choice.noise_kind) not in known_already
        ]
    choices.sort(key=lambda choice: (choice.errors.by(metric), choice.errors.by(other)))
    return choices, notes


def _check_errors(design: Design, metrics: tuple[Metric, Metric]) -> None:
    """Refuse a design whose mean or largest error cannot be computed."""
    for metric in metrics:
        design.errors.by(metric)


def _check_serves(
    strategy: StreamStrategy,
    horizon: int | None,
    release: ReleaseForm | None,
    shape: tuple[int, ...],
) -> None:
    fades = isinstance(strategy, ExpiringNoise)
    if horizon is None and (fades or not isinstance(strategy, EndlessStrategy)):
        raise InvalidInputError("it has a last step, or its protection fades")
    if horizon is not None and strategy.horizon is not None and strategy.horizon < horizon:
        raise InvalidInputError(f"it serves fewer than {horizon:,} steps")
    releases_windows = strategy.facts.release == "windows"
    needs_totals = release is not None and release != "windows"
    if needs_totals and releases_windows:
        raise InvalidInputError("it releases no totals")
    check_addresses(strategy, shape)
    cells = math.prod(shape)
    held = strategy.facts.buffer_size
    drawn = strategy.facts.drawn_ahead
    if held * cells > MOST_HELD_NUMBERS:
        raise InvalidInputError(
            f"a run would keep {held * cells:,} numbers in memory, more than "
            f"{MOST_HELD_NUMBERS:,}: name the strategy in strategies= to plan it nevertheless"
        )
    if drawn * cells > MOST_NUMBERS_DRAWN_FIRST:
        raise InvalidInputError(
            f"it would draw {drawn * cells:,} numbers before the first release, more than "
            f"{MOST_NUMBERS_DRAWN_FIRST:,}: name the strategy in strategies= to plan it "
            "nevertheless"
        )
