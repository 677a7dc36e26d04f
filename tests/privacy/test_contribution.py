"""The claimed shift is the largest that enumeration of all neighbours finds."""

import math
from collections import Counter
from datetime import UTC, datetime
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from counton.base.distributions import BoundedChange
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.privacy import ContributionBound, Ledger, PureDP, Sensitivity
from counton.privacy.contribution_rules import UserLevel
from counton.privacy.unit_changes import EventsPerStep
from counton.strategies import Binary, Independent, KAry, SqrtToeplitz, matrices, sensitivities
from counton.windowing.windows import Windows


def unit_vectors(cells: int, size: int, values: range) -> set[tuple[int, ...]]:
    """All vectors of one unit: `values` in at most `cells` of `size` cells; zero is absence."""
    vectors = set()
    for places in combinations(range(size), min(cells, size)):
        for chosen in product(values, repeat=len(places)):
            vector = [0] * size
            for place, value in zip(places, chosen, strict=True):
                vector[place] = value
            vectors.add(tuple(vector))
    return vectors


def changes(contribution: ContributionBound, size: int, values: range) -> set[tuple[int, ...]]:
    units = unit_vectors(contribution.cells, size, values)
    if contribution.relation == "add_remove":
        return units | {tuple(-x for x in unit) for unit in units}
    return {tuple(a - b for a, b in zip(u, v, strict=True)) for u in units for v in units}


def assert_exact(
    sensitivity: Sensitivity, found: set[tuple[int, ...]], column: tuple[int, ...]
) -> None:
    nodes = [tuple(c * x for c in column for x in d) for d in found]
    assert sensitivity.l1 == max(sum(map(abs, d)) for d in nodes)
    assert sensitivity.l2_squared == max(sum(x * x for x in d) for d in nodes)
    if sensitivity.entries is None:
        return
    worst = sorted((m for m, count in sensitivity.entries for _ in range(count)), reverse=True)
    for d in nodes:
        sizes = sorted((abs(x) for x in d if x), reverse=True)
        assert len(sizes) <= len(worst) == sensitivity.most_affected
        assert all(size <= bound for size, bound in zip(sizes, worst, strict=False))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("per_cell", [1, 3])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_counts(size: int, cells: int, per_cell: int, relation: Any) -> None:
    contribution = getattr(ContributionBound, relation)(cells=cells, per_cell=per_cell)
    sensitivity = contribution.sensitivities(Sensitivity(2, 2, ((1, 2),)), cells=size)
    assert_exact(sensitivity, changes(contribution, size, range(per_cell + 1)), (1, -1))
    assert sensitivity.entries is not None


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("bounds", [(0, 3), (-3, 0), (-2, 3), (-3, 3), (1, 3), (-5, -2)])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_clipped_values(size: int, bounds: tuple[int, int], relation: Any) -> None:
    low, high = bounds
    contribution = ContributionBound.values(Fraction(low, 2), Fraction(high, 2), "0.5", relation)
    # An added unit always has a value within its bounds; in its absence the cell gets nothing.
    units = {
        tuple(value if cell == place else 0 for cell in range(size))
        for place in range(size)
        for value in range(low, high + 1)
    }
    found = units
    if relation == "replace":
        found = {tuple(a - b for a, b in zip(u, v, strict=True)) for u in units for v in units}
    sensitivity = contribution.sensitivities(Sensitivity(3, 3, ((1, 3),)), cells=size)
    assert_exact(sensitivity, found, (1, 1, 1))


@pytest.mark.parametrize("strategy", [Independent(4), Binary(4), KAry(4, 2, False)], ids=repr)
@pytest.mark.parametrize(
    ("most", "a_step"), [(1, 1), (3, 1), (3, 2), (4, 2), (5, 2), (5, 3), (7, 4)]
)
def test_events_of_which_few_stand_in_one_step(strategy: Any, most: int, a_step: int) -> None:
    """All ways to spread them: where the bound of a step does not divide all, one step more."""
    contribution = ContributionBound.events(most, most_a_step=a_step)
    assert contribution.steps == len(range(0, most, a_step))
    claimed = contribution.sensitivities(sensitivities(strategy, steps=contribution.steps), 1)
    columns = np.asarray(matrices(strategy)[1], float)
    ways = np.array([way for way in product(range(a_step + 1), repeat=4) if sum(way) <= most])
    moved = np.abs(ways @ columns.T)
    assert moved.sum(axis=1).max() <= claimed.l1
    assert (moved**2).sum(axis=1).max() <= claimed.l2_squared


@pytest.mark.parametrize("strategy", [Binary(8), Independent(8), KAry(8, 2, False)], ids=repr)
def test_unit_counted_twice_has_bound_for_twice_the_steps(strategy: Any) -> None:
    """It is in two steps, far apart, and once more in two others, which may be beside them."""
    again = ContributionBound.add_remove(steps=2, separation=3).in_steps(2)
    moved = again.sensitivities(
        sensitivities(strategy, steps=again.steps, separation=again.separation), 1
    )
    columns = np.asarray(matrices(strategy)[1], float)
    once = [one for one in combinations(range(8), 2) if one[1] - one[0] >= 3]
    ways = [np.eye(8)[[*one, *other]].sum(axis=0) for one, other in combinations(once, 2)]
    ways = [way for way in ways if way.max() == 1]  # each time in other steps
    assert moved.l1 >= max(np.abs(columns @ way).sum() for way in ways)
    few = ContributionBound.events(3).in_steps(2)
    assert few.occurrences == EventsPerStep(6, 3)


def test_events_counted_twice_may_all_count_in_one_step() -> None:
    """Of four events, two in a step, each counts once more, and all may do so in one step."""
    again = ContributionBound.events(4, most_a_step=2).in_steps(2)
    assert again.occurrences == EventsPerStep(8, 4)


@pytest.mark.parametrize("strategy", [Binary(8), Independent(8), KAry(8, 2, False)], ids=repr)
def test_replaced_unit_on_schedule_changes_cells_of_both(strategy: Any) -> None:
    """Two cells of the old unit, and two of the new one, in every second step."""
    bound = ContributionBound.replace(2, every=2)
    claimed = bound.sensitivities(sensitivities(strategy, every=2), cells=5)
    columns = np.asarray(matrices(strategy)[1], float)
    moved = [columns @ (np.arange(8) % 2 == first) for first in range(2)]
    assert claimed.l1 >= 4 * max(np.abs(change).sum() for change in moved)
    assert claimed.l2_squared >= 4 * max((change**2).sum() for change in moved)


@pytest.mark.parametrize(
    ("bound", "in_one_step"),
    [
        (ContributionBound.add_remove(cells=3), True),
        (ContributionBound.values(0, 9, 1, neighbours="replace"), True),
        (ContributionBound.events(1), True),
        (ContributionBound.add_remove(steps=2), False),
        (ContributionBound.add_remove(every=7), False),
        (ContributionBound.events(2), False),
        (ContributionBound.events(2, most_a_step=2), False),
        (ContributionBound.events(2, once="group"), False),
    ],
    ids=str,
)
def test_bound_says_whether_unit_is_in_one_step(bound: Any, in_one_step: bool) -> None:
    assert (bound.in_one_step, bound.acts_once) == (in_one_step, in_one_step)


def test_pattern_of_one_step_has_norms_of_change_and_column() -> None:
    """One row changes a cell by 2 and another by -1."""
    bound = ContributionBound.of_pattern(BoundedChange(3, 5, single_step=True), "which changes two")
    column = np.array([4, 2, 1])
    moved = np.outer(column, [2, -1])
    claimed = bound.sensitivities(Sensitivity(7, 21), cells=2)
    assert claimed.l1 >= np.abs(moved).sum()
    assert claimed.l2_squared >= (moved**2).sum()


def test_pattern_that_counts_twice_has_norms_of_both_changes() -> None:
    """Both changes may be of one cell, and they may be in two steps."""
    once = ContributionBound.of_pattern(BoundedChange(3, 5, single_step=True), "which changes two")
    again = once.in_steps(2)
    assert again.pattern == BoundedChange(6, 20)
    assert again.change_in_words() == "which changes two, up to 2 times"
    assert (once.in_one_step, again.in_one_step) == (True, False)
    assert not once.acts_once


@pytest.mark.parametrize("lower", [-5, 0, 3])
def test_replaced_value_changes_its_cell_by_at_most_per_cell(lower: int) -> None:
    bound = ContributionBound.values(lower, 10, 1, neighbours="replace")
    alone = bound.to_grid([lower, 10]).tolist()  # in a cell that the other unit does not change
    values = bound.to_grid(range(lower, 11)).tolist()
    apart = [abs(one - other) for one, other in product(values, repeat=2)]
    assert bound.per_cell == max(map(abs, [*alone, *apart]))


def test_columns_of_other_weights() -> None:
    column = (4, 2, 1)
    sensitivity = ContributionBound.replace(2).sensitivities(Sensitivity(7, 21), cells=3)
    assert sensitivity == Sensitivity(7 * 3, 21 * 3)
    assert_exact(sensitivity, changes(ContributionBound.replace(2), 3, range(2)), column)


def test_larger_units_make_larger_entries() -> None:
    sensitivity = ContributionBound.add_remove(per_cell=3).sensitivities(
        Sensitivity(48, 3 * 256, ((16, 3),)), 1
    )
    assert sensitivity == Sensitivity(144, 9 * 3 * 256, ((48, 3),))


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "1", 2**41])
def test_counts_and_sizes_must_be_positive_integers(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"cells is .* integer between 1"):
        ContributionBound.add_remove(cells=bad)
    with pytest.raises(InvalidInputError, match=r"per_cell is .* integer between 1"):
        ContributionBound.replace(per_cell=bad)


def test_clipped_refuses_impossible_bounds() -> None:
    with pytest.raises(InvalidInputError, match=r"give 0\.9 or 1\.2"):
        ContributionBound.values(0, 1, 0.3)
    with pytest.raises(InvalidInputError, match="lower must be below upper"):
        ContributionBound.values(1, 1, 0.5)
    with pytest.raises(InvalidInputError, match="resolution is 0; it must be above 0"):
        ContributionBound.values(0, 1, 0)
    with pytest.raises(InvalidInputError, match="upper is 'inf'"):
        ContributionBound.values(0, float("inf"), 1)
    with pytest.raises(InvalidInputError, match=r"2\^40"):
        ContributionBound.values(0, 10**6, 1e-9)
    with pytest.raises(InvalidInputError, match="neighbours is 'swap'"):
        ContributionBound.values(0, 1, 1, "swap")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "contribution",
    [
        ContributionBound.add_remove(),
        ContributionBound.replace(3, 2),
        ContributionBound.values(-1, "2.5", 0.1, "replace"),
        ContributionBound.values(0, 1, "1/3"),
        ContributionBound.add_remove(steps=3),
        ContributionBound.replace(2, steps=3, separation=7, unit="visitor"),
        ContributionBound.values(0, 1, "1/3", every=24),
        ContributionBound.add_remove(every=7, steps=4, unit="household"),
    ],
)
def test_saved_and_read_back(contribution: ContributionBound) -> None:
    assert ContributionBound.from_dict(contribution.to_dict()) == contribution


@pytest.mark.parametrize(
    "saved",
    [
        {},
        {"neighbours": "replace"},
        {"neighbours": "swap", "cells": 1, "per_cell": 1},
        {"resolution": "1"},
    ],
)
def test_incomplete_saved_contributions_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ContributionBound.from_dict(saved)


def test_words_name_unit_and_relation() -> None:
    assert str(ContributionBound.replace(3, 2)) == (
        "one unit, counted in up to 3 cells of one step by at most 2 each, replaced by another"
    )
    assert ContributionBound.values(0, 10, 0.5).describe("order") == (
        "one order added or removed, whose value, clipped to [0, 10] and rounded to multiples of "
        "0.5, is added to one cell of one step"
    )
    assert ContributionBound.add_remove().describe("visit", steps=False) == (
        "one visit added or removed, counted in one cell by at most 1"
    )


def test_clip_returns_data_units() -> None:
    values = ContributionBound.values(-1, 1, 0.1).clip(np.array([[0.31, -7.0], [1.04, 0.3]]))
    assert values.tolist() == [[0.3, -1.0], [1.0, 0.3]]


def test_contribution_dict_omits_default_values() -> None:
    """Addresses of noise are built from it: those of units that act once must not change."""
    assert ContributionBound.add_remove(2).to_dict() == {
        "neighbours": "add_remove",
        "cells": 2,
        "per_cell": 1,
    }
    assert ContributionBound.add_remove(steps=1, separation=5) == ContributionBound.add_remove()
    assert ContributionBound.add_remove(every=7).to_dict()["every"] == 7
    assert "steps" not in ContributionBound.add_remove(every=7).to_dict()


@pytest.mark.parametrize(
    ("contribution", "words"),
    [
        (
            ContributionBound.add_remove(steps=3),
            "in one cell of each of up to 3 steps by at most 1",
        ),
        (
            ContributionBound.add_remove(steps=3, separation=7, cells=2),
            "in up to 2 cells of each of up to 3 steps, at least 7 apart, by at most 1 each",
        ),
        (ContributionBound.add_remove(every=7), "in one cell of every 7th step from any one on by"),
        (
            ContributionBound.add_remove(every=7, steps=5),
            "in one cell of every 7th step from any one on, 5 scheduled steps in a row of which it "
            "may miss some, by at most 1",
        ),
        (ContributionBound.add_remove(every=1), "in one cell of every step from any one on by"),
        (
            ContributionBound.add_remove(unit="visitor"),
            "one visitor added or removed, counted in one",
        ),
        (
            ContributionBound.values(0, 1, 1, steps=4),
            "is added to one cell of each of up to 4 steps",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_steps_in_words(contribution: ContributionBound, words: str) -> None:
    assert words in str(contribution)
    assert "step" not in contribution.describe(steps=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, r"steps is 0; .* integer between 1 and 2\^40"),
        ({"steps": 2.0}, r"steps is 2\.0"),
        ({"steps": 2, "separation": 0}, "separation is 0"),
        ({"every": True}, "every is True"),
        ({"every": 7, "separation": 2}, "leave separation out"),
        ({"every": 7, "steps": 1}, "a schedule needs at least 2 steps"),
    ],
)
def test_impossible_participation_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ContributionBound.add_remove(**arguments)


def test_units_written_otherwise_are_the_same() -> None:
    for word in (" caf\u00e9 ", "cafe\u0301", "\tcafe\u0301\n"):
        assert ContributionBound.add_remove(unit=word) == ContributionBound.add_remove(
            unit="caf\u00e9"
        )
    ledger = Ledger(PureDP(1))
    ledger.spend("a", PureDP(1), unit="caf\u00e9")
    with pytest.raises(BudgetExceededError):
        ledger.spend("b", PureDP(1), unit=" cafe\u0301 ")
    assert list(ledger.units) == ["caf\u00e9"]


@pytest.mark.parametrize(
    ("unit", "match"),
    [
        (" ", "give a word"),
        ("a\x00b", "control characters"),
        ("a\nb", "control characters"),
        ("x" * 201, "201 characters; it may have at most 200"),
        (7, "is 7; it is the name of the protected unit: give a word"),
    ],
)
def test_invalid_privacy_unit_is_refused(unit: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        ContributionBound.add_remove(unit=unit)
    with pytest.raises(InvalidInputError, match=match):
        Ledger(PureDP(1)).spend("a", PureDP(1), unit=unit)
    assert ContributionBound.add_remove(unit="x" * 200).unit == "x" * 200


def test_event_bound_equals_brute_force_with_events_in_any_step() -> None:
    """Brute force: every multiset of steps and cells, on strategies of every kind."""
    for strategy in (Binary(5), KAry(5, 3, subtraction=True), SqrtToeplitz(4)):
        horizon = strategy.horizon
        assert horizon is not None
        one = sensitivities(strategy)
        unit = 1 << strategy.facts.lattice_bits
        columns = [
            {node[:2]: int(node.weight * unit) for node in strategy.column(step)}
            for step in range(1, horizon + 1)
        ]
        places = list(product(range(horizon), range(2)))
        for most, once in product((1, 2, 3), (None, "group")):
            contribution = ContributionBound.events(most, once=once)  # type: ignore[arg-type]
            claimed = contribution.sensitivities(one, cells=2)
            l1 = l2 = 0
            kept = min(most, 2) if once else most  # no two events in one of two cells
            for events in combinations_with_replacement(places, kept):
                cells = [cell for _, cell in events]
                if once and len(set(cells)) < kept:
                    continue
                moved: Counter[tuple[object, int]] = Counter()
                for step, cell in events:
                    for node, weight in columns[step].items():
                        moved[node, cell] += weight
                l1 = max(l1, sum(map(abs, moved.values())))
                l2 = max(l2, sum(value**2 for value in moved.values()))
            assert (claimed.l1, claimed.l2_squared) == (l1, l2)
            assert (claimed.entries is None) == (one.entries is None or (once is None and most > 1))


def test_events_are_no_steps_and_cells() -> None:
    with pytest.raises(InvalidInputError, match="so cells and steps cannot be bounded too"):
        ContributionBound.events(3, bounds=ContributionBound.add_remove(cells=2))
    with pytest.raises(InvalidInputError, match="once is 'day'"):
        ContributionBound.events(3, once="day")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="most is 0"):
        ContributionBound.events(0)
    for bounds in (None, ContributionBound.values(-1, 10, 0.5)):
        given = ContributionBound.events(4, once="group", bounds=bounds, unit="visitor")
        assert ContributionBound.from_dict(given.to_dict()) == given
        assert not given.acts_once


@pytest.mark.parametrize(("n_windows", "is_noted"), [(12, False), (13, True)])
def test_note_on_late_windows_needs_windows_beyond_the_limit(
    n_windows: int, is_noted: bool
) -> None:
    """One row per window of twelve windows cannot exceed a limit of twelve."""
    windows = Windows(datetime(2024, 1, 1, tzinfo=UTC), "1mo", n_windows)
    rule = UserLevel(12, max_contributions_per_window=1)
    note = rule.late_note(windows, "person", None, most_windows=math.inf)
    assert (note is not None) == is_noted
