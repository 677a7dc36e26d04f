"""Plans of designs, best first, with their errors in words and in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from typing_extensions import override

from counton.base.columns import TextTable, align_lines, list_in_words
from counton.base.distributions import NoiseKind
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, figures, figures_above, percent
from counton.base.literature import origin_of, paper_of
from counton.base.wording import counted
from counton.continual.design import Design
from counton.continual.node_distribution import distribution_for
from counton.continual.stream_errors import Errors
from counton.privacy import ContributionBound, Guarantee
from counton.strategies import Metric

if TYPE_CHECKING:
    from counton.base.columns import DataFrame
    from counton.planning.least_privacy import ReachedHalfwidths
    from counton.planning.lower_bounds import LowerBound
    from counton.strategies.strategy import Steps
    from counton.strategies.workloads import RecentWorkload

#: Number of choices that are printed without ``full``.
_BRIEF_CHOICES = 3
#: Metrics in sentences.
METRIC_WORDS = {"mean": "mean", "max": "largest"}


class AnyDesign(Protocol):
    """A strategy with noise that keeps a guarantee; ``row`` is its row in a plan's table."""

    @property
    def strategy(self) -> Any: ...
    @property
    def guarantee(self) -> Guarantee: ...
    def row(self) -> dict[str, object]: ...


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

    def table(self) -> DataFrame:
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
        rows = self.rows() if full else self.rows()[:_BRIEF_CHOICES]
        column_names = self.shown if full else self.brief or self.shown
        cells = []
        for row in rows:
            values = [row[name] for name in column_names]
            texts = [value if isinstance(value, str) else figures(value) for value in values]
            cells.append([str(row["rank"]), *texts])
        heads = [("", True)]
        for name in column_names:
            is_number = not isinstance(rows[0][name], str)
            heads.append((name.replace("_", " "), is_number))
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
        column_names = ("rank", *(self.brief or self.shown))
        columns = {name: np.array([row[name] for row in rows]) for name in column_names}
        return html_table("\n".join(self.head()), columns, _BRIEF_CHOICES)


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

    >>> from counton import ApproxDP
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
            f"published: {best.strategy_family} with {best.noise_kind.title()} noise has a "
            f"{METRIC_WORDS[self.metric]} error of {figures(std)}{more} ({figures(least)}); "
            f"{paper_of(best.strategy.sources)}"
        )

    def std(self, steps: Steps | None = None) -> Any:
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
        from counton.strategies.workloads import Decayed

        if self.own_halfwidths is None:
            halfwidths_by_name = self.best.errors.recent_halfwidths([step], confidence_level)
            return {name: float(half[0]) for name, half in halfwidths_by_name.items()}
        if isinstance(self.workload, Decayed):
            size = {} if step == self.steps else {"rows": None}
            decay = self.workload
            return self.own_halfwidths(self, step, confidence_level, decay=decay, **size)
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
            verb = "has" if len(self.workload.parts) == 1 else "have"
            margin = "a margin" if len(halfwidths) == 1 else "margins"
            return (
                f"{loss_of(self.guarantee)}: {self.workload.words} {verb} {margin} of error of "
                f"{largest} in step {self.steps:,}{last} ({percent(confidence_level)}% confidence)"
            )
        estimated = self
        strategy = self.best.strategy.for_estimates()
        if strategy is not self.best.strategy:
            estimated = replace(self, choices=(replace(self.best, strategy=strategy),))
        over = 1 if self._steps_from_totals else None
        forms = [estimated._margin_text(confidence_level, over=over)]
        if self.best.errors.release == "both":
            forms.append(estimated._margin_text(confidence_level, over=1))
        confidence = f"({percent(confidence_level)}% confidence)"
        return f"{loss_of(self.guarantee)}: {'; '.join(forms)}{last} {confidence}"

    @property
    def _steps_from_totals(self) -> bool:
        """True if a step's own number is a difference of two released totals."""
        best = self.best
        return best.errors.release == "windows" and best.strategy.facts.release == "totals"

    def _margin_text(self, confidence_level: float, over: int | None = None) -> str:
        windows = over is not None or self.best.errors.release == "windows"
        counts = "a total" if self.own_halfwidths is None else "a number"
        all_numbers = "the number of one step" if windows else counts
        worst = worst_step(self.best.errors, self.steps, confidence_level, over=over)
        steps = {1, self.steps, worst or 1}
        ends = {step: self.halfwidths(step, confidence_level, over=over) for step in steps}
        margins = []
        for name in ends[self.steps]:
            subject = name or all_numbers
            if name and windows:
                subject = f"{name} of one step"
            halfwidths = {step: end[name] for step, end in ends.items() if name in end}
            margins.append(
                margin_in_words(subject, halfwidths, worst=worst, ends=self.horizon is not None)
            )
        return "; ".join(margins)

    def least_std(self, metric: Metric | None = None) -> dict[NoiseKind, float]:
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
        return distribution_for(
            choice.strategy, choice.guarantee, choice.contribution, choice.shape
        ).reason

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
