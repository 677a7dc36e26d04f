"""Answers to questions about released numbers: estimates with all their noise, and their words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from counton.base.errors import InvalidInputError, param
from counton.base.exact import some_of, suggest
from counton.base.outside_input import shown_name
from counton.continual import Design
from counton.continual.comparisons import Answer, answer
from counton.continual.formulas import Estimate, Formula, Ratio, Term, shifted_ratio
from counton.results.cell_series import refuse_incomparable
from counton.results.metadata import ReleaseMetadata, counted_anew
from counton.results.release_data import Groups, ReleaseData, Steps
from counton.statistics import Grouped
from counton.windowing.groups import GroupNames

if TYPE_CHECKING:
    from counton.statistics.by_group import GroupedResult


class Question(NamedTuple):
    """A question about a number of one release.

    Attributes:
        numbers: the released numbers.
        groups, steps, of: as in `Release.difference`.
    """

    numbers: ReleaseData
    groups: Groups
    steps: Steps = None
    of: str | None = None

    @property
    def estimate(self) -> Estimate:
        """The number with all its noise."""
        return number_of(self.numbers, self.groups, self.steps, self.of)

    @property
    def subject(self) -> str:
        """Words for the number without its times, such as "mean of home"."""
        groups = self.groups if isinstance(self.groups, str) else " and ".join(self.groups)
        name = shown_name(groups)
        words = name if self.of is None else f"{self.of} of {name}"
        return words + _several_groups(self.numbers, self.groups)

    @property
    def times(self) -> str:
        """The times of the number in parentheses; "" for all."""
        return _times_in_words(self.numbers, self.steps)


def compare(
    first: Question,
    second: Question,
    operation: Callable[[Estimate, Estimate], Estimate],
    operator: str,
    at_once: int = 1,
) -> Answer:
    """Answer how the number of one question compares with that of another.

    Args:
        first: the first question.
        second: the other one, about the same release or that of another stream.
        operation: makes one estimate of the two.
        operator: the word between the two subjects, such as "minus".
        at_once: number of answers whose intervals hold together.

    Raises:
        InvalidInputError: a question cannot be answered.
    """
    estimate = operation(first.estimate, second.estimate)
    n_answers = at_once * max(n_comparisons(first.numbers), n_comparisons(second.numbers))
    subject = first.subject
    other_subject = second.subject
    times = first.times
    if second.numbers is not first.numbers:
        subject = f"{subject} of {first.numbers.design.name}"
        other_subject = f"{other_subject} of {second.numbers.design.name}"
    elif first.steps == second.steps:  # the times stand only once, at the end
        times = ""
    words = f"{subject}{times} {operator} {other_subject}{second.times}"
    return answer(estimate, first.numbers.level, at_once=n_answers, what=words)


def total_of(question: Question, at_once: int = 1) -> Answer:
    """Answer what the number of one or several groups together is.

    Args:
        question: the question.
        at_once: number of answers whose intervals hold together.
    """
    numbers = question.numbers
    estimate = question.estimate
    words = f"{question.subject}{question.times}"
    n_answers = at_once * n_comparisons(numbers)
    return answer(estimate, numbers.level, at_once=n_answers, what=words)


def share_of(question: Question, at_once: int = 1) -> Answer:
    """Answer which share of all groups some groups have; that of a count is between 0 and 1.

    Args:
        question: the question.
        at_once: number of answers whose intervals hold together.
    """
    numbers = question.numbers
    estimate = shifted_ratio(question.estimate, whole_of(numbers, question.steps, question.of))
    are_counts = numbers.has_cells and numbers.design.contribution.resolution is None
    is_weighted = isinstance(question.groups, Mapping)
    if are_counts and not is_weighted and isinstance(estimate, Ratio):
        estimate = replace(estimate, least=0.0, most=1.0)
    words = f"{question.subject}, of all groups{question.times}"
    n_answers = at_once * n_comparisons(numbers)
    share = answer(estimate, numbers.level, at_once=n_answers, what=words)
    return replace(share, per_cent=True)


def weighted_sum_of(
    numbers: ReleaseData,
    weights: Mapping[str, float],
    steps: Steps = None,
    of: str | None = None,
    at_once: int = 1,
) -> Answer:
    """Answer what a weighted sum over groups is; see `Release.combine`.

    Args:
        numbers: the released numbers.
        weights, steps, of, at_once: as in `Release.combine`.
    """
    words = " + ".join(
        f"{weight:g} {Question(numbers, group, steps, of).subject}"
        for group, weight in weights.items()
    )
    words = words.replace("+ -", "- ") + _several_groups(numbers, weights)
    words += _times_in_words(numbers, steps)
    estimate = number_of(numbers, weights, steps, of)
    return answer(estimate, numbers.level, at_once=at_once, what=words)


def number_of(
    numbers: ReleaseData, groups: Groups, steps: Steps = None, of: str | None = None
) -> Estimate:
    """Return a number of one or several groups in some steps, with all its noise.

    Args:
        numbers: the released numbers.
        groups, steps, of: as in `Release.difference`.

    Raises:
        InvalidInputError: a group, step or number is unknown; or the statistic has no such
            number.
    """
    refuse_incomparable(
        numbers.metadata, numbers.design.name, is_undeclared=numbers.since is not None
    )
    weights = {groups: 1.0} if isinstance(groups, str) else groups
    if not isinstance(weights, Mapping):
        weights = dict.fromkeys(weights, 1.0)
    if numbers.has_cells:
        return _sum_of_cells(numbers, weights, steps, of)
    if not weights:
        raise InvalidInputError(f"{param('groups')} is empty; give at least one group")
    estimates = [_number(numbers, name, steps, of) for name in weights]
    if isinstance(groups, str):
        return estimates[0]
    parts = []
    for estimate, weight in zip(estimates, weights.values(), strict=True):
        formula = estimate.formula
        if formula is None:
            raise InvalidInputError(
                f"{of or repr(numbers.metadata.statistic_name)} of several groups together cannot "
                "be read, because it is not the sum of its values in these groups: ask for a "
                "single group"
            )
        parts.append(formula * float(weight))
    return Formula.total(parts)


def _sum_of_cells(
    numbers: ReleaseData, weights: Mapping[str, float], steps: Steps, of: str | None
) -> Formula:
    """Return a weighted sum over groups, with its noise."""
    from counton.continual.comparisons import sum_formula

    if of is not None:
        raise InvalidInputError(
            f"{param('of', of)} chooses among the numbers of a statistic, but "
            f"{numbers.design.name!r} has only the {numbers.metadata.subject}: leave it out"
        )
    names = list(weights)
    all_groups = numbers.metadata.groups
    cells = GroupNames(all_groups).places(names).tolist()
    if -1 in cells or not names:
        wrong = names[cells.index(-1)] if names else None
        raise InvalidInputError(
            f"{param('groups')} names {wrong!r}, which is not a group of this release; "
            f"{suggest(wrong, all_groups)}choose from {some_of(all_groups)}"
        )
    places = GroupNames(numbers.groups).places(names)
    if (places < 0).any():
        raise InvalidInputError(
            f"{param('groups')} lacks {names[int(np.argmin(places))]!r}, which the question is "
            f"about; leave {param('groups')} out, or add it"
        )
    start, stop = numbers.ends(steps)
    numbers.series.refuse_withdrawn((start, stop), names)
    totals = {
        end: dict(zip(cells, total.tolist(), strict=True))
        for end, total in zip(
            (start, stop), numbers.series.totals_after(np.array([start, stop]), places), strict=True
        )
    }
    parts = [
        Term(float(weight), start, stop, cell)
        for cell, weight in zip(cells, weights.values(), strict=True)
    ]
    return sum_formula(numbers.design, parts, lambda cell, step: totals[step][cell])


def _number(numbers: ReleaseData, name: str, steps: Steps, of: str | None) -> Estimate:
    """Return a number of another statistic, with its noise."""
    start, stop = numbers.ends(steps)
    statistic = numbers.metadata.statistic
    if isinstance(statistic, Grouped):
        result = cast("GroupedResult", numbers.result_between(start, stop))
        return result.of(name).number_of(of)
    if of is not None and name != "all":
        raise InvalidInputError(
            f"{param('of', of)} names a number of each group, but {numbers.design.name!r} has no "
            f"groups: give {of!r} in place of {name!r}"
        )
    return numbers.result_between(start, stop).number_of(of if name == "all" else name)


def whole_of(numbers: ReleaseData, steps: Steps = None, of: str | None = None) -> Estimate:
    """Return the number of all groups together, the divisor of shares.

    Args:
        numbers: the released numbers.
        steps, of: as in `Release.share`.

    Raises:
        InvalidInputError: one user may count in several groups, so that the sum of all groups
            is not the number of users.
    """
    _refuse_shares_of_users(numbers.metadata)
    if numbers.has_cells:
        return number_of(numbers, numbers.metadata.groups, steps, of)
    if isinstance(numbers.metadata.statistic, Grouped):
        return number_of(numbers, numbers.metadata.statistic.groups, steps, of)
    return numbers.result_between(*numbers.ends(steps)).whole()


def _refuse_shares_of_users(metadata: ReleaseMetadata) -> None:
    """Refuse the number of users of all groups, where one user may count in several groups."""
    groups = metadata.groups_of_user
    if groups > 1:
        unit = metadata.privacy_unit
        raise InvalidInputError(
            f"shares of distinct users cannot be computed, because one {unit} may count in "
            f"{groups:,} groups, and the number of users of all groups together is not "
            f"released. Ask for the ratio of two groups; or begin a stream with "
            f"{param('max_contributions', 1)}"
        )


def n_comparisons(numbers: ReleaseData) -> int:
    """Return the number of comparisons among which a reader may have chosen.

    They are the pairs of groups if groups are shown because of their size, otherwise 1.

    Args:
        numbers: the released numbers.
    """
    statistic = numbers.metadata.statistic
    count = math.prod(statistic.cells) if statistic.ranks else 1
    return max(count * (count - 1) // 2, 1)


def _times_in_words(numbers: ReleaseData, steps: Steps) -> str:
    """Return the times of some steps in parentheses; "" for all."""
    metadata = numbers.metadata
    again = metadata.users_again
    covers_all = steps is None and again is None and metadata.series != "rolling"
    if not metadata.windows.is_recurring or covers_all:
        return ""
    start, stop = numbers.ends(steps)
    words = metadata.windows.span_text(range(start + 1, stop + 1))
    words += _users_in_words(numbers, start, stop)
    return f" ({words})" if metadata.windows.timed else f" in {words}"


def _users_in_words(numbers: ReleaseData, start: int, stop: int) -> str:
    """Return a note on users whom the number of some steps counts several times, or not at all.

    Args:
        numbers: the released numbers.
        start: the step before the first of these steps.
        stop: the last of them.
    """
    metadata = numbers.metadata
    if not metadata.counts_users:
        return ""
    again = metadata.users_again
    begin = 0 if again is None else int(numbers.users_begin[stop - 1])
    if begin > start:
        return f", {counted_anew(again or 'period')}"
    if begin < start:
        since = "before" if again is None else f"before in the {again}"
        return f", without users who were counted {since}"
    return ""


def refuse_shared_noise(design: Design, other: Design) -> None:
    """Refuse to compare numbers of two releases whose noise may be the same.

    Args:
        design: the design of one stream.
        other: that of the other.

    Raises:
        InvalidInputError: the streams may be one stream, or parts of one.
    """
    if _may_share_noise(design, other):
        raise InvalidInputError(
            f"{param('beside')} seems to be the same stream, {other.name!r}, or its "
            "copy, whose noise is the same, so errors of differences cannot be stated: give "
            f"another stream, or leave {param('beside')} out to compare numbers of one stream"
        )


def _may_share_noise(design: Design, other: Design) -> bool:
    """Return True if two designs may have the same noise, of one stream or its parts."""
    if design.noise_id is not None and other.noise_id is not None:
        return design.noise_id == other.noise_id
    mine = design.name, design.guarantee, design.strategy
    return mine == (other.name, other.guarantee, other.strategy)


def _several_groups(numbers: ReleaseData, groups: Groups) -> str:
    """Return a note that one user may count in several of the groups that are added up, if so."""
    if isinstance(groups, str) or numbers.metadata.groups_of_user == 1:
        return ""
    weights = groups.values() if isinstance(groups, Mapping) else [1.0] * len(groups)
    added = max(sum(weight > 0 for weight in weights), sum(weight < 0 for weight in weights))
    return ", users counted in each of these groups" if added > 1 else ""
