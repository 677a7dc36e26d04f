"""The planner: it ranks candidate strategies and noise by their error.

If a unit changes several steps, sensitivities in both norms are computed for trees of every arity
and height, and for `SmoothBinary` every number of zeros. A strategy is left out if another one has
a smaller error and no larger norm.
"""

# If a unit changes one step, the sensitivity of a tree follows from its height. If a unit changes
# several steps, it depends on where these steps can lie.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from textwrap import shorten
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

import numpy as np
from typing_extensions import override

from counton import strategies as catalogue
from counton.base import strategy_names as names
from counton.base.columns import TextTable, align_lines, list_in_words
from counton.base.distributions import Family
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer, figures, figures_above, percent
from counton.base.expiry import ExpiringNoise
from counton.base.literature import origin_of, paper_of
from counton.base.strategy_names import StrategyFamily
from counton.base.wording import counted
from counton.continual.design import Design, check_shape, design_for
from counton.continual.intervals import Errors, ErrorsOf
from counton.continual.node_distribution import (
    check_addresses,
    check_contribution,
    check_guarantee,
    distribution_for,
)
from counton.privacy import ApproxDP, ContributionBound, Guarantee, PureDP
from counton.strategies import Metric, Norm, StreamStrategy
from counton.strategies.joint_errors import released_variance
from counton.strategies.participation import NORMS, sensitivities
from counton.strategies.strategy import (
    EndlessStrategy,
    ReleaseForm,
    check_metric,
)
from counton.strategies.streams.growing_root import EVEN
from counton.strategies.streams.shapes import strategies_of_shape

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths
    from counton.planning.lower_bounds import LowerBound
    from counton.strategies.workloads import RecentWorkload

#: Largest number of noise values, of all cells together, that a planned stream may hold while it
#: runs (128 MB), and that it may draw before its first release.
MOST_HELD = 2**24
MOST_DRAWN = 2**27
#: Horizon beyond which fewer trees are considered for units that count in several steps.
_LONG = 2**14
#: Horizon from which on families of strategies that are never better than all others are left out,
#: unless a plan compares all strategies.
_SHORT = 64
#: Least number of steps, and largest epsilon, with which the least-squares strategy is known to be
#: the best, if a unit counts in one step. A test compares them at this epsilon: any other strategy
#: has at least 1.1 times its variance. With a smaller epsilon all the more: a discrete Laplace
#: distribution on whole numbers has (x/2 / sinh(x/2))^2 of the variance of the continuous one,
#: where x is at most epsilon, and the least-squares strategy draws on a grid that is 2^16 times as
#: fine.
_SOLVED_FROM = 37
_SOLVED_UP_TO = 2
#: Families that are never better than another, for totals and units in one step. A test compares
#: both.
_BEATEN = {names.SQUARE_ROOT.words: names.NORMALISED.words}
#: Horizon beyond which the square root is not considered for Laplace noise.
_LONG_SERIES = 2**16
#: Horizon beyond which the square root is not considered for any noise.
_LONGEST_ROOT = 2**22
#: Kinds of strategies whose later candidates have coarser weights, for noise that is too wide for
#: the first candidate.
_EVER_COARSER = {
    family.words
    for family in (
        names.NORMALISED,
        names.MULTISCALE,
        names.WHOLE_MULTISCALE,
        names.GROWING_ROOT,
        names.BANDED_ROOT,
    )
}
#: Number of steps that is assumed if none is stated.
_EXPECTED_WINDOWS = 2**16
#: Least horizon of the multiscale strategy: its weights are known from here on.
_SHORTEST_OCTAVE = 512
#: Number of choices that are printed without ``full``.
_BRIEF = 3
#: Names of metrics in sentences.
_MEASURE = {"mean": "mean", "max": "largest"}


class AnyDesign(Protocol):
    """A strategy with noise that keeps a guarantee; ``row`` is its row in a plan's table."""

    @property
    def strategy(self) -> Any: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def row(self) -> dict[str, Any]: ...


D = TypeVar("D", bound=AnyDesign, covariant=True)


@dataclass(frozen=True, repr=False, kw_only=True)
class Plan(Generic[D]):
    """A plan: a list of designs, best first, made without data.

    Attributes:
        words: what is compared, the guarantee and the protected unit.
        shown, brief: columns that are printed, in full and in short.

    >>> from counton import PureDP, plan
    >>> ranked = plan(365, PureDP(1))
    >>> [choice.strategy_family for choice in ranked][:3], ranked.best is ranked.choices[0]
    (['least-squares', 'look-ahead tree', 'k-ary with subtraction'], True)
    """

    choices: tuple[D, ...]
    words: tuple[str, ...]
    shown: tuple[str, ...]
    brief: tuple[str, ...] = ()

    @property
    def best(self) -> D:
        """The design with the least error, or loss."""
        return self.choices[0]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the best design."""
        return self.best.guarantee

    def __iter__(self) -> Iterator[D]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each design: its rank and its numbers."""
        return [{"rank": rank, **design.row()} for rank, design in enumerate(self.choices, 1)]

    def table(self) -> Any:
        """Return `rows` as a polars data frame.

        Raises:
            MissingDependencyError: polars is not installed; `rows` needs none.
        """
        from counton.base.columns import data_frame_of_rows

        return data_frame_of_rows(self.rows())

    def head(self, *, full: bool = False) -> Sequence[str]:
        """Return the lines above the printed table.

        Args:
            full: whether all designs are printed below. Subclasses then add lines.
        """
        return self.words

    def foot(self) -> Sequence[str]:
        """Return the lines below it: strategies left out, and lower bounds."""
        return ()

    def describe(self, *, full: bool = False) -> str:
        """Return the best errors in words, and a table of the best three designs.

        Args:
            full: whether to add all designs and columns, lower bounds, and the strategies that were
                left out.

        >>> from counton import PureDP, plan
        >>> print(plan(52, PureDP("0.5")))
        epsilon = 0.5: a total has a margin of error of 12 in step 1 and 25 in step 52 (95%
        confidence)
        protected: one unit added or removed, counted in one cell of one step by at most 1
        ...
        """
        rows = self.rows() if full else self.rows()[:_BRIEF]
        names = self.shown if full else self.brief or self.shown
        cells = [
            [
                str(row["rank"]),
                *(
                    row[name] if isinstance(row[name], str) else figures(row[name])
                    for name in names
                ),
            ]
            for row in rows
        ]
        heads = [
            ("", True),
            *((name.replace("_", " "), not isinstance(rows[0][name], str)) for name in names),
        ]
        lines = align_lines(TextTable(heads, cells))
        more = len(self) - len(rows)
        others = f"{counted(more, 'more choice')}, " if more else ""
        below = self.foot() if full else [f"{others}parameters, lower bounds: describe(full=True)"]
        return "\n".join([*self.head(full=full), *lines, *below])

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        best = self.best.strategy
        return f"<{type(self).__name__} of {len(self)} choices, {self.guarantee!r}, best {best!r}>"

    def _repr_html_(self) -> str:
        from counton.continual.html_table import html_table

        rows = self.rows()
        names = ("rank", *(self.brief or self.shown))
        columns = {name: np.array([row[name] for row in rows]) for name in names}
        return html_table("\n".join(self.head()), columns, _BRIEF)


def margin_in_words(
    number_name: str,
    halfwidths: Mapping[int, float],
    *,
    worst: int | None = None,
    ends: bool = True,
) -> str:
    """Return a clause with the margin of error of ``number_name``, such as "a total".

    ``worst`` is the step with the largest error; ``ends``: the stream ends with the last step.

    >>> margin_in_words("a total", {1: 11.2, 52: 24.9}, worst=52)
    'a total has a margin of error of 12 in step 1 and 25 in step 52'
    """
    last = max(halfwidths)
    largest = figures_above(max(halfwidths.values()))
    named = {step: figures_above(halfwidths[step]) for step in (1, last) if step in halfwidths}
    if ends and worst in halfwidths and len(named) > 1 and {*named.values()} == {largest}:
        return f"{number_name} has a margin of error of {largest}"
    texts = [f"{half} in step {step:,}" for step, half in named.items()]
    if largest not in named.values():
        texts.append(f"{largest} in the worst step{'' if ends else f' up to {last:,}'}")
    return f"{number_name} has a margin of error of {list_in_words(texts)}"


#: Largest number of steps whose errors are all computed, to find the worst one.
_MOST_SEARCHED = 2**16


def worst_step(
    errors: Errors, steps: int, confidence_level: float, *, over: int | None = None
) -> int | None:
    """Return the step with the largest half-width, and of several that with the largest standard
    deviation; None if there are too many to compare.

    With ``over``, errors are of the sum over so many latest steps.

    >>> from counton import PureDP, plan
    >>> errors = plan(22, PureDP(1), strategies=["sqrt"]).best.errors
    >>> worst_step(errors, 22, 0.95), 1 + int(errors.std().argmax())
    (19, 22)
    """
    if steps > _MOST_SEARCHED:
        return None
    stops = np.arange(1, steps + 1)
    if over is None:
        half = errors.halfwidths(stops, confidence_level)
        std = errors.std(stops)
    else:
        starts = np.maximum(stops - over, 0)
        half = errors.window_halfwidths(starts, stops, confidence_level)
        std = errors.window_std(starts, stops)
    return 1 + int(np.lexsort((std, half))[-1])


def loss_of(guarantee: Guarantee) -> str:
    """Return the parameters of a guarantee as text.

    >>> loss_of(ApproxDP(1, "1e-6"))
    'epsilon = 1 and delta = 1e-6'
    """
    return str(guarantee).partition(" with ")[2]


@dataclass(frozen=True, repr=False, kw_only=True)
class StreamPlan(Plan[Design]):
    """A plan of a stream: strategies in order of their exact error.

    Attributes:
        horizon, metric: of the request.
        notes: families of strategies that were left out, and why.
        reached: wanted and planned half-widths, if the guarantee was found from them.
        own_halfwidths: half-widths of a statistic's numbers by name.
        workload: sums over recent steps, to which the errors refer; None: releases.
    """

    horizon: int | None
    metric: Metric
    notes: tuple[str, ...] = ()
    reached: ReachedHalfwidths | None = None
    own_halfwidths: Callable[..., dict[str, float]] | None = field(default=None, compare=False)
    workload: RecentWorkload | None = None

    @property
    def contribution(self) -> ContributionBound:
        """Bound on one unit's change, for all designs of the plan."""
        return self.best.contribution

    @property
    def steps(self) -> int:
        """Number of steps of the errors: the horizon, or ``expected_windows`` of `counton.plan`."""
        return self.best.errors.steps if self.horizon is None else self.horizon

    @cached_property
    def best_published(self) -> Design | None:
        """The best design that refereed papers describe, if any.

        >>> from counton import PureDP, plan
        >>> ranked = plan(365, PureDP(1))
        >>> for design in (ranked.best, ranked.best_published):
        ...     print(design.strategy_family, round(design.errors.mean_std, 2))
        least-squares 7.87
        k-ary with subtraction 10.29
        """
        described = (
            design for design in self.choices if paper_of(design.strategy.sources) is not None
        )
        return next(described, None)

    @property
    def published_in_words(self) -> str:
        """Sentence that compares it with the best, and names the paper."""
        best = self.best_published
        if best is None:
            return "published: none of these strategies is in a refereed paper"
        std = best.errors.by(self.metric)
        least = self.best.errors.by(self.metric)
        more = f", {std / least - 1:.0%} above the best" if std > least > 0 else ""
        return (
            f"published: {best.strategy_family} with {best.family.title()} noise has a "
            f"{_MEASURE[self.metric]} error of {figures(std)}{more} ({figures(least)}); "
            f"{paper_of(best.strategy.sources)}"
        )

    def std(self, steps: Any = None) -> Any:
        """Return the standard deviation of the best design's releases; see `Errors.std`.

        Args:
            steps: one step for a float, several for an array. Default: all up to the horizon.
        """
        return self.best.errors.std(steps)

    def halfwidths(
        self, step: int, confidence_level: float = 0.95, *, over: int | None = None
    ) -> dict[str, float]:
        """Return half-widths at a step with the best design, by name of the number.

        They are in data units.

        Args:
            step: step of the release, from 1.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.
            over: number of the latest steps whose sum is released. Default: what the plan releases.

        Raises:
            InvalidInputError: the step or the level is out of range.
        """
        step = check_integer("step", step, 1)
        if over is None and self.workload is not None:
            return self._recent_halfwidths(step, confidence_level)
        if over is None and self._steps_from_totals:
            over = 1
        if self.own_halfwidths is not None:
            # The number of rows is stated for the last step alone.
            size = {} if step == self.steps else {"rows": None}
            return self.own_halfwidths(self, step, confidence_level, over=over, **size)
        if over is None:
            return {"": self.best.errors.halfwidth(step, confidence_level)}
        begin = max(step - check_integer("over", over, 1), 0)
        return {
            "": float(
                np.ravel(self.best.errors.window_halfwidths([begin], [step], confidence_level))[0]
            )
        }

    def _recent_halfwidths(self, step: int, confidence_level: float) -> dict[str, float]:
        """Return half-widths of the workload's numbers at a step, by name."""
        if self.own_halfwidths is None:
            by_name = self.best.errors.recent_halfwidths([step], confidence_level)
            return {name: float(half[0]) for name, half in by_name.items()}
        halfwidths: dict[str, float] = {}
        for part in () if self.workload is None else self.workload.parts:
            over = step if part.width is None else part.width
            for name, half in self.halfwidths(step, confidence_level, over=over).items():
                halfwidths[" of ".join(filter(None, (name, part.name)))] = half
        return halfwidths

    def halfwidth(self, step: int, confidence_level: float = 0.95, name: str = "") -> float:
        """Return the half-width of one number at a step, with the best design, in data units.

        Args:
            step: step of the release, from 1.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.
            name: name of the number, a key of `halfwidths`. Default: that of a single number.

        Raises:
            InvalidInputError: the step or the level is out of range, or there is no number of this
                name.

        >>> from counton import PureDP, plan
        >>> round(plan(365, PureDP(1)).halfwidth(365), 1)
        18.7
        """
        halfwidths = self.halfwidths(step, confidence_level)
        if name not in halfwidths:
            allowed = ", ".join(filter(None, halfwidths)) or "one number, without a name"
            raise InvalidInputError(
                f"there is no number {name!r}; the numbers are {allowed}: give one of these"
            )
        return halfwidths[name]

    def in_words(self, confidence_level: float = 0.95) -> str:
        """Return a sentence with the errors at the first, the last, and a worse step.

        Up to 65,536 steps are searched for the largest error.

        Args:
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        >>> from counton import ZCDP, plan
        >>> plan(365, ZCDP(0.5), series="per-window").in_words()
        'rho = 0.5: the number of one step has a margin of error of 2 (95% confidence)'
        """
        last = "" if self.horizon is not None else " (there is no last step)"
        if self.workload is not None:
            halfwidths = self.halfwidths(self.steps, confidence_level)
            largest = list_in_words(
                [
                    f"{figures_above(half)}{f' ({name})' if name else ''}"
                    for name, half in halfwidths.items()
                ]
            )
            held = f"in {percent(confidence_level)} of 100"
            verb = "is" if len(self.workload.parts) == 1 else "are"
            return (
                f"{loss_of(self.guarantee)}: {self.workload.words} {verb} off by at most {largest} "
                f"in step {self.steps:,}{last}, {held}"
            )
        forms = [self._margin_text(confidence_level, over=1 if self._steps_from_totals else None)]
        if self.best.errors.release == "both":
            forms.append(self._margin_text(confidence_level, over=1))
        confidence = f"({percent(confidence_level)}% confidence)"
        return f"{loss_of(self.guarantee)}: {'; '.join(forms)}{last} {confidence}"

    @property
    def _steps_from_totals(self) -> bool:
        """True if a step's own number is a difference of two released totals."""
        best = self.best
        return best.errors.release == "windows" and best.strategy.facts.workload == "totals"

    def _margin_text(self, confidence_level: float, over: int | None = None) -> str:
        windows = over is not None or self.best.errors.release == "windows"
        counts = "a total" if self.own_halfwidths is None else "a number"
        all_numbers = "the number of one step" if windows else counts
        worst = worst_step(self.best.errors, self.steps, confidence_level, over=over)
        steps = {1, self.steps, worst or 1}
        ends = {step: self.halfwidths(step, confidence_level, over=over) for step in steps}
        return "; ".join(
            margin_in_words(
                f"{name} of one step" if name and windows else name or all_numbers,
                {step: end[name] for step, end in ends.items() if name in end},
                worst=worst,
                ends=self.horizon is not None,
            )
            for name in ends[self.steps]
        )

    def least_std(self, metric: Metric | None = None) -> dict[Family, float]:
        """Return lower bounds on the standard deviation of releases, by kind of noise.

        They hold for every strategy. They are in data units, of the plan's or another metric, and
        known if a unit counts in one step alone: for Laplace noise under `PureDP`, for Gaussian
        noise under `ZCDP` and `ApproxDP`.

        Args:
            metric: "mean" for the root of the mean variance, "max" for the largest standard
                deviation. Default: the metric of the plan.

        >>> from counton import ZCDP, plan
        >>> {name: round(std, 2) for name, std in plan(1024, ZCDP(0.5)).least_std("max").items()}
        {'gaussian': 2.91}
        """
        from counton.planning.lower_bounds import least_std

        return least_std(self.best, self.metric if metric is None else metric)

    @cached_property
    def factors(self) -> tuple[LowerBound, ...]:
        """Two lower bounds whose ``factor`` is the best design's error divided by the bound.

        The first holds for every matrix mechanism with this kind of noise, if a unit counts in one
        step. The second holds for every mechanism, on some stream; it is loose if a unit counts in
        several steps. A bound that no theorem proves is left out.

        >>> from counton import PureDP, plan
        >>> [round(factor.factor, 2) for factor in plan(8760, PureDP(1)).factors]
        [2.75, 2.75]
        """
        from counton.planning.lower_bounds import factors_of_design

        return factors_of_design(self.best, self.metric)

    def why(self, choice: Design) -> str:
        """Return how a design's noise was chosen, in words.

        Args:
            choice: one of the designs of this plan.
        """
        of = choice.strategy, choice.guarantee, choice.contribution, choice.shape
        return distribution_for(*of).reason

    @override
    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each design; mean_std and max_std are in data units.

        ``held`` is the number of 8-byte numbers that a stream keeps in memory. ``paper`` names the
        refereed paper; it begins with "ours" for strategies of counton, and names theorems whose
        proofs a machine has checked.
        """
        return [
            {
                **row,
                "kind": choice.strategy_family,
                "why": self.why(choice),
                "paper": origin_of(choice.strategy.sources),
            }
            for row, choice in zip(super().rows(), self.choices, strict=True)
        ]

    @override
    def head(self, *, full: bool = False) -> list[str]:
        return [self.in_words(), *self.words[0 if full else 2 :]]

    @override
    def foot(self) -> list[str]:
        return [
            *([] if self.best_published is None else [self.published_in_words]),
            *(f"how far from possible: {factor.distance}" for factor in self.factors),
            *(f"note: {note}" for note in self.notes),
        ]


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


def plan_stream(
    horizon: int | None,
    guarantee: Guarantee,
    *,
    contribution: ContributionBound | None = None,
    shape: Sequence[int] = (),
    **options: Unpack[StreamOptions],
) -> StreamPlan:
    """Plan a stream; the arguments are those of `counton.plan`."""
    choices, notes = ranked_designs(
        horizon, guarantee, contribution=contribution, shape=shape, **options
    )
    metric = options.get("metric", "mean")
    last = None if horizon is None else int(horizon)
    if last is None:
        expected_windows = options.get("expected_windows") or _EXPECTED_WINDOWS
        length = f"no last step, errors of the first {int(expected_windows):,} steps"
    else:
        length = f"{last:,} steps"
    cells = f" of {math.prod(shape):,} cells" if shape else ""
    protected = ContributionBound.add_remove() if contribution is None else contribution
    return StreamPlan(
        choices=tuple(choices),
        words=(
            f"{length}{cells}, least {_MEASURE[metric]} error first",
            f"guarantee: {guarantee}",
            f"protected: {protected}",
        ),
        shown=("strategy", "noise", "mean_std", "max_std"),
        brief=("kind", "noise", "mean_std", "max_std"),
        horizon=last,
        metric=metric,
        notes=tuple(notes),
        workload=options.get("workload"),
    )


def ranked_designs(
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric = "mean",
    contribution: ContributionBound | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy | str] | None = None,
    *,
    release: ReleaseForm = "totals",
    simple: bool = False,
    compare: bool = True,
    expected_windows: int | None = None,
    also: Iterable[StreamStrategy] = (),
    workload: RecentWorkload | None = None,
) -> tuple[list[Design], list[str]]:
    """Return the designs of `counton.plan`, best first, and notes on families that were left
    out."""
    listed = None if strategies is None else [*strategies]
    names_asked = {strategy for strategy in listed or () if isinstance(strategy, str)}
    families = names.FAMILIES if workload is None else {**names.FAMILIES, **names.RECENT_FAMILIES}
    _check_names(names_asked, families)
    check_metric(metric, release)
    if horizon is None:
        if expected_windows is None:
            expected_windows = _EXPECTED_WINDOWS
        expected_windows = check_integer("expected_windows", expected_windows, 1)
    else:
        horizon = check_integer("horizon", horizon, 1)
        if expected_windows is not None:
            raise InvalidInputError(
                f"horizon is {horizon} and expected_windows is {expected_windows}; "
                "expected_windows is only for streams without a last step: leave it out, or give "
                "None as the horizon"
            )
    check_guarantee(guarantee)
    contribution = ContributionBound.add_remove() if contribution is None else contribution
    check_contribution(contribution)
    cells = check_shape(shape)

    def design(strategy_family: str, strategy: StreamStrategy) -> Design:
        _check_serves(strategy, horizon, release if workload is None else None, cells)
        errors_of = ErrorsOf(release, expected_windows, workload=workload)
        return design_for(
            strategy,
            guarantee,
            contribution,
            cells,
            errors_of=errors_of,
            strategy_family=strategy_family,
        )

    if listed is None and horizon is not None and workload is None and not (compare or also):
        best = _best_known(horizon, metric, release, guarantee, contribution, simple=simple)
        for strategy in best.members:
            # Noise that is too wide for this strategy may not be for another one.
            with suppress(InvalidInputError):
                return [design(best.strategy_family, strategy)], []
    families_asked = {family.words for name in names_asked for family in families.get(name, ())}
    ranks = listed is None or "auto" in names_asked
    published = names.PUBLISHED in names_asked
    norms = tuple(NORMS[family] for family in guarantee.families)
    if not (ranks or families_asked or published):
        contenders: tuple[_Contenders, ...] = ()
    elif workload is not None:
        contenders = _for_workload(
            workload,
            horizon,
            norms,
            contribution,
            metric=metric,
            simple=simple,
            expected_windows=expected_windows,
        )
    elif horizon is None:
        contenders = _endless(release, norms, metric, expected_windows)
    else:
        often = not contribution.in_one_step
        contenders = candidates(
            horizon,
            metric,
            contribution.steps,
            contribution.separation,
            contribution.every,
            release=release,
            simple=simple,
            compare=compare or not ranks,
            several=often,
            # Only causal strategies have the better calibration of units in several steps. So
            # families may be best here that never are otherwise.
            everything=often and isinstance(guarantee, ApproxDP),
            norms=norms,
        )
    if not ranks:
        contenders = tuple(
            group
            for group in contenders
            if group.strategy_family in families_asked
            or (published and any(paper_of(member.sources) is not None for member in group.members))
        )
    contenders = (
        *contenders,
        *(_published_contender(name, horizon) for name in names.PAPERS if name in names_asked),
    )
    given_strategies = tuple(
        strategy for strategy in (*(listed or ()), *also) if not isinstance(strategy, str)
    )
    for candidate in cast("tuple[object, ...]", given_strategies):
        if not isinstance(candidate, StreamStrategy):
            raise InvalidInputError(
                f"a strategy is {candidate!r}; give strategy objects, such as KAry.best(8760)"
            )
    contenders = (
        *contenders,
        *(_Contenders(strategy.saved_name, (strategy,)) for strategy in given_strategies),
    )
    beaten: dict[str, str] = {}
    if not (compare or also or workload) and release == "totals" and contribution.in_one_step:
        beaten = _BEATEN
    choices, notes = _best_designs(contenders, design, metric, beaten)
    if not choices:
        steps = "without a last step" if horizon is None else f"over {horizon:,} steps"
        several = f"; nor can {len(notes) - 1:,} others" if len(notes) > 1 else ""
        reason = notes[0].partition(": ")[2] if notes else f"none is made for {release}"
        named = f" of {param('strategy', ','.join(sorted(names_asked)))}" if names_asked else ""
        raise InvalidInputError(
            f"no strategy{named} can give {guarantee} {steps}: {reason}{several}; allow another "
            "guarantee, or fewer steps, or give auto to compare all families"
        )
    return choices, notes


def _check_names(names_asked: set[str], families: Mapping[str, tuple[StrategyFamily, ...]]) -> None:
    known_names = (*families, names.PUBLISHED, *names.PAPERS)
    if unknown := sorted(names_asked - {"auto", *known_names}):
        raise InvalidInputError(
            f"{param('strategy', unknown[0])} is not known; give one of "
            f"{', '.join(known_names)}, or auto to compare all families"
        )


def _best_designs(
    contenders: Sequence[_Contenders],
    design: Callable[[str, StreamStrategy], Design],
    metric: Metric,
    beaten: Mapping[str, str],
) -> tuple[list[Design], list[str]]:
    """Return each family's best design by noise, least error first, and notes on refusals.

    Args:
        contenders: the candidates of each family.
        design: function that returns the design of a family's strategy.
        metric: which error is compared.
        beaten: families that are left out if there is a design of another one, which is named.
    """
    other: Metric = "max" if metric == "mean" else "mean"
    notes: list[str] = []
    choices: list[Design] = []
    for strategy_family, members, note in contenders:
        notes += [note] * bool(note)
        if beaten.get(strategy_family) in {choice.strategy_family for choice in choices}:
            continue
        least: dict[str, Design] = {}
        refused: list[str] = []
        for strategy in members:
            if least and strategy_family in _EVER_COARSER:
                break
            try:
                choice = design(strategy_family, strategy)
                error = choice.errors.by(metric)
                _ = choice.errors.by(other)
            except InvalidInputError as refusal:
                message = f"{strategy_family}: {strategy!r} left out, {refusal}"
                refused.append(shorten(message, 220, placeholder=" ..."))
                continue
            better = least.get(choice.family)
            if better is None or error < better.errors.by(metric):
                least[choice.family] = choice
        if not least:
            notes += refused
        known_already = [(choice.strategy, choice.family) for choice in choices]
        choices += [
            choice
            for choice in least.values()
            if (choice.strategy, choice.family) not in known_already
        ]
    choices.sort(key=lambda choice: (choice.errors.by(metric), choice.errors.by(other)))
    return choices, notes


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
    if release is not None and strategy.facts.workload == "windows" != release:
        raise InvalidInputError("it releases no totals")
    check_addresses(strategy, shape)
    cells = math.prod(shape)
    held = strategy.facts.buffer_size
    drawn = strategy.facts.drawn_ahead
    if held * cells > MOST_HELD:
        raise InvalidInputError(
            f"a run would keep {held * cells:,} numbers in memory, more than {MOST_HELD:,}: name "
            "the strategy in strategies= to plan it nevertheless"
        )
    if drawn * cells > MOST_DRAWN:
        raise InvalidInputError(
            f"it would draw {drawn * cells:,} numbers before the first release, more than "
            f"{MOST_DRAWN:,}: name the strategy in strategies= to plan it nevertheless"
        )


# ---------------------------------------------------------------------------------- candidates


class _Question(NamedTuple):
    """What decides the candidates; the steps of a unit are as in `ContributionBound`."""

    horizon: int
    metric: Metric
    release: ReleaseForm
    steps: int | None
    separation: int
    every: int | None

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
        moved: list[tuple[int, int]] = []
        for strategy in sorted(
            candidates, key=lambda strategy: released_variance(strategy, self.metric, self.release)
        ):
            sensitivity = self.norms_moved(strategy)
            if all(l1 > sensitivity[0] or l2 > sensitivity[1] for l1, l2 in moved):
                front.append(strategy)
                moved.append(sensitivity)
        return front


def _kary(question: _Question, subtraction: bool) -> Iterable[StreamStrategy]:
    if question.plain:
        return catalogue.KAry.undominated_trees(question.horizon, question.metric, subtraction)
    return question.without_dominated(_kary_trees(question.horizon, subtraction))


@lru_cache(maxsize=16)
def _kary_trees(horizon: int, subtraction: bool) -> list[catalogue.KAry]:
    """Return the k-ary trees to compare, cached with the norms that they have computed."""
    return catalogue.KAry.candidates(horizon, subtraction, of_each=3 if horizon > _LONG else 8)


def _smooth(question: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    if question.plain:
        return catalogue.SmoothBinary.candidates(question.horizon, of_each=1)
    trees = _smooth_trees(question.horizon)
    if question.horizon > _LONG and question.every is None:
        # In all cases examined, the best tree for either norm had no more zeros than ones
        # (`SmoothBinary`).
        trees = [tree for tree in trees if 6 * tree.zeros >= tree.height - tree.zeros >= tree.zeros]
    return question.without_dominated(trees)


@lru_cache(maxsize=8)
def _smooth_trees(horizon: int) -> list[catalogue.SmoothBinary]:
    if horizon > _LONG:
        return catalogue.SmoothBinary.candidates(horizon, of_each=1)
    return catalogue.SmoothBinary.candidates(horizon)


def _square_root(question: _Question, norm: Norm) -> Iterable[StreamStrategy]:
    if norm == 1 and question.horizon > _LONG_SERIES:
        raise InvalidInputError(
            f"with Laplace noise it is not planned beyond {_LONG_SERIES:,} steps: it needs many "
            f"times the noise of a tree"
        )
    if question.horizon > _LONGEST_ROOT:
        raise InvalidInputError(
            "it is not planned beyond 2^22 steps: each run computes the noise of all steps"
        )
    return [catalogue.SqrtToeplitz(question.horizon)]


class _FamilyCandidates(NamedTuple):
    """A family of strategies that plans consider.

    Attributes:
        make: returns the strategies for a `_Question` and a norm.
        norms: 1 for Laplace, 2 for Gaussian noise, with which errors can be computed.
        contends: those with which it may be the best from 64 steps on.
        simple: its releases are integers.
        only_simple: another family is better when fractions may be released.
        published: papers describe it, and it is never the best for units that count in one step:
            plans include it for comparison only.
    """

    family: StrategyFamily
    make: Callable[[_Question, Norm], Iterable[StreamStrategy]]
    norms: tuple[Norm, ...] = (1, 2)
    contends: tuple[Norm, ...] = (1, 2)
    simple: bool = True
    only_simple: bool = False
    published: bool = False

    def norms_wanted(
        self, requested: tuple[Norm, ...], *, compare: bool, several: bool, everything: bool
    ) -> tuple[Norm, ...]:
        """Return the requested norms for which this family is a candidate.

        ``compare`` and ``everything`` include families that are hardly ever the best, and
        ``compare``, or a unit that changes ``several`` steps, published ones.
        """
        if self.published and not compare and not several:
            return ()
        return tuple(
            norm
            for norm in requested
            if norm in self.norms and (compare or everything or norm in self.contends)
        )


#: Kinds of strategies for totals. Among equally good strategies the first is chosen.
_BOTH: tuple[_FamilyCandidates, ...] = (
    _FamilyCandidates(
        names.LEAST_SQUARES,
        lambda question, norm: strategies_of_shape(
            question.horizon, norm, question.metric, question.release
        ),
        simple=False,
    ),
    _FamilyCandidates(
        names.LOOK_AHEAD,
        lambda question, norm: catalogue.LookAhead.candidates(
            question.horizon,
            question.metric,
            question.release,
            steps=question.steps,
            separation=question.separation,
            every=question.every,
        ),
        simple=False,
    ),
    _FamilyCandidates(names.SUBTRACTING, lambda question, norm: _kary(question, subtraction=True)),
    _FamilyCandidates(
        names.NORMALISED,
        # With fine weights, sums of wide noise may overflow; the plan then leaves the strategy out.
        lambda question, norm: [
            catalogue.NormalisedSqrt(question.horizon),
            catalogue.NormalisedSqrt(question.horizon, 8),
        ],
        norms=(2,),
        simple=False,
    ),
    _FamilyCandidates(
        names.MULTISCALE,
        lambda question, norm: [
            catalogue.MultiscaleStrategy(question.horizon, question.metric, bits)
            for bits in (16, 12)
            if question.horizon >= _SHORTEST_OCTAVE
        ],
        norms=(2,),
        simple=False,
    ),
    _FamilyCandidates(
        names.WHOLE_MULTISCALE,
        lambda question, norm: [
            catalogue.MultiscaleStrategy(question.horizon, question.metric, bits, whole=True)
            for bits in (16, 12)
        ],
        norms=(2,),
        only_simple=True,
    ),
    _FamilyCandidates(names.SQUARE_ROOT, _square_root, contends=(2,), simple=False),
    _FamilyCandidates(
        names.KARY, lambda question, norm: _kary(question, subtraction=False), contends=()
    ),
    _FamilyCandidates(names.SMOOTH, _smooth, contends=(), published=True),
    _FamilyCandidates(
        names.EVEN_SMOOTH,
        lambda question, norm: [catalogue.SmoothBinary.even(question.horizon)],
        contends=(),
        published=True,
    ),
    _FamilyCandidates(
        names.HONAKER,
        lambda question, norm: [catalogue.HonakerOnline(question.horizon)],
        simple=False,
        contends=(),
        published=True,
    ),
    _FamilyCandidates(
        names.BINARY,
        lambda question, norm: [catalogue.Binary(question.horizon)],
        contends=(),
        published=True,
    ),
    # Each step's count has its own noise, and totals add these up: a tree of one level. A tree of
    # one level with subtraction has as much noise, so this family is never better.
    _FamilyCandidates(
        names.EACH_STEP,
        lambda question, norm: [catalogue.KAry(question.horizon, question.horizon + 1, False)],
        contends=(),
        published=True,
    ),
)
_WINDOWS: tuple[_FamilyCandidates, ...] = (
    _FamilyCandidates(
        names.INDEPENDENT, lambda question, norm: [catalogue.Independent(question.horizon)]
    ),
    _FamilyCandidates(
        names.CASCADE,
        lambda question, norm: [catalogue.GrowingCascade((question.horizon - 1).bit_length())],
        simple=False,
        contends=(),
        published=True,
    ),
)


def _endless(
    release: ReleaseForm, norms: tuple[Norm, ...], metric: Metric, expected_windows: int | None
) -> tuple[_Contenders, ...]:
    """Return the candidates for a stream without a last step, by family."""
    if release != "totals":
        raise InvalidInputError(
            f"release is {release!r}, but a stream without a last step can only be planned for "
            "totals: give a horizon, as large as you need"
        )
    contenders = []
    if 2 in norms:
        # With fewer bits, sums of wider noise do not overflow.
        even = _even(metric, _EXPECTED_WINDOWS if expected_windows is None else expected_windows)
        roots = tuple(catalogue.GrowingSquareRoot(bits, even) for bits in (18, 14, 8, 4))
        contenders.append(_Contenders(names.GROWING_ROOT.words, roots))
    contenders.append(_Contenders(names.EPOCHS.words, (catalogue.Epochs(),)))
    return tuple(contenders)


def _for_workload(
    workload: RecentWorkload,
    horizon: int | None,
    norms: tuple[Norm, ...],
    contribution: ContributionBound,
    *,
    metric: Metric,
    simple: bool,
    expected_windows: int | None,
) -> tuple[_Contenders, ...]:
    """Return the candidates for sums over recent steps, by family."""
    from counton.planning.recent_sums import banded_roots, compares_totals, hats_of

    contenders: list[_Contenders] = []
    families: list[tuple[Norm, StrategyFamily, Callable[..., tuple[StreamStrategy, ...]]]] = [
        (2, names.BANDED_ROOT, banded_roots),
        (1, names.RECENT_HATS, hats_of),
    ]
    for norm, family, make in families:
        if norm in norms and not simple:
            try:
                contenders.append(_Contenders(family.words, make(workload, horizon)))
            except InvalidInputError as error:
                note = f"{family.words}: left out, {error}"
                contenders.append(_Contenders(family.words, (), note))
    if horizon is not None:
        alone = (catalogue.Independent(horizon),)
        contenders.append(_Contenders(names.INDEPENDENT.words, alone))
    if horizon is None and norms == (1,):
        # Laplace noise without a last step has no strategy for these sums: they are derived.
        contenders.append(_Contenders(names.EPOCHS.words, (catalogue.Epochs(),)))
    elif compares_totals(workload, horizon, expected_windows):
        if horizon is None:
            contenders += _endless("totals", norms, metric, expected_windows)
        else:
            # A strategy for both totals and single steps may be the best for sums of many steps.
            forms: tuple[ReleaseForm, ...] = ("totals", "both")
            members: dict[str, tuple[StreamStrategy, ...]] = {}
            for form in forms:
                for group in candidates(
                    horizon,
                    metric,
                    contribution.steps,
                    contribution.separation,
                    contribution.every,
                    release=form,
                    simple=simple,
                    compare=False,
                    several=not contribution.in_one_step,
                    norms=norms,
                ):
                    there = members.get(group.strategy_family, ())
                    more = tuple(member for member in group.members if member not in there)
                    members[group.strategy_family] = (*there, *more)
            contenders += [_Contenders(family, some) for family, some in members.items()]
    return tuple(contenders)


@lru_cache(maxsize=64)
def _even(metric: Metric, expected_windows: int) -> int | None:
    """Return the best number of first nodes of `GrowingSquareRoot`; None: its default."""

    def error(even: int | None) -> float:
        root = catalogue.GrowingSquareRoot(even=even)
        of = root.mean_variance if metric == "mean" else root.largest_variance
        return of(expected_windows)

    near = [even for even in EVEN if even <= expected_windows <= 8 * even]
    return min([None, *near], key=error) if near else None


def _published_contender(name: str, horizon: int | None) -> _Contenders:
    """Return a published strategy as its paper states it, or a note that it is left out."""
    if horizon is None:
        return _Contenders(name, (), f"{name}: left out, it has a last step")
    strategy: StreamStrategy
    if name == "kary-paper":  # Algorithm 2 with k = 19, which is the best in the limit
        strategy = catalogue.KAry(horizon, 19, subtraction=True)
    else:
        members = next(group for group in _BOTH if group.family == names.PAPERS[name])
        (strategy,) = members.make(_Question(horizon, "mean", "totals", 1, 1, None), 2)
    return _Contenders(name, (strategy,))


class _Contenders(NamedTuple):
    """The candidates of one family, or a note why there are none."""

    strategy_family: str
    members: tuple[StreamStrategy, ...]
    note: str = ""


@lru_cache(maxsize=128)
def _contenders(
    question: _Question, group: _FamilyCandidates, norms: tuple[Norm, ...]
) -> _Contenders:
    members: list[StreamStrategy] = []
    note = ""
    try:
        for norm in reversed(norms):
            members += [
                strategy for strategy in group.make(question, norm) if strategy not in members
            ]
    except InvalidInputError as error:
        note = f"{group.family.words}: left out, {error}"
    return _Contenders(group.family.words, tuple(members), note)


def _best_known(
    horizon: int,
    metric: Metric,
    release: ReleaseForm,
    guarantee: Guarantee,
    contribution: ContributionBound,
    *,
    simple: bool,
) -> _Contenders:
    """Return the strategy that is known to be the best, so that none need be compared, if any."""
    if horizon == 1 and simple and release != "windows":
        # The strategies differ in how releases share noise, and there is only one release.
        return _Contenders(names.SUBTRACTING.words, (catalogue.KAry(1, 2),))
    small = isinstance(guarantee, PureDP) and guarantee.epsilon <= _SOLVED_UP_TO
    if small and horizon >= _SOLVED_FROM and contribution.in_one_step and not simple:
        return _contenders(_Question(horizon, metric, release, 1, 1, None), _BOTH[0], (1,))
    return _Contenders("", ())


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
    several: bool = False,
    everything: bool = False,
    norms: tuple[Norm, ...] = (1, 2),
) -> tuple[_Contenders, ...]:
    """Return the candidates by family, with a note for each family that cannot serve the horizon.

    Which one of a family is best depends on the guarantee; those with another of smaller
    sensitivities in both norms and a smaller error are left out. ``compare``, ``several`` and
    ``everything`` are as in `_FamilyCandidates.norms_wanted`; streams with few steps always have
    ``everything``.

    >>> [group.strategy_family for group in candidates(1000, simple=True)]
    ['k-ary with subtraction', 'multiscale, whole numbers', 'k-ary', 'smooth binary',
     'smooth binary, even height', 'binary', 'noise for each step']
    """
    question = _Question(horizon, metric, release, steps, separation, every)
    if several:
        try:
            import_module("counton.strategies.published")
        except ModuleNotFoundError:  # it is an optional part
            several = False
    return tuple(
        _contenders(question, group, norms_tried)
        for group in (_WINDOWS if release == "windows" else _BOTH)
        if (group.simple if simple else not group.only_simple)
        and (
            norms_tried := group.norms_wanted(
                norms, compare=compare, several=several, everything=everything or horizon < _SHORT
            )
        )
    )
