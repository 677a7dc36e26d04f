"""The largest groups: what an event, or a user, changes; rankings that hold all at once."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from brute_force import changes_of, check_exact, check_sensitivity, simulated
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from some_cases import long
from started import started

from counton import ZCDP, ExpiringDP, PureDP, release
from counton.base.errors import InvalidInputError
from counton.statistics import Cuts, Substrings, TopK, rank_largest
from counton.statistics.ranking import checked_ranking_levels, ranking_levels
from counton.strategies import Binary, Expiring, SqrtToeplitz

HORIZON = 4
GROUPS = ("a", "b", "c")


def events_of(choices: Sequence[Any], *, replaced: bool) -> Iterator[tuple[list[Any], list[Any]]]:
    """Streams of one event a step; one of them absent, or another one."""
    for stream in itertools.product(choices, repeat=HORIZON):
        for step in range(HORIZON):
            for instead in [[event] for event in choices] if replaced else [[]]:
                yield list(stream), [*stream[:step], instead, *stream[step + 1 :]]


def test_no_unit_moves_more_than_claimed() -> None:
    one = list(GROUPS)
    two = [["a"], ["b", "c"], ["a", "c"], []]
    check_sensitivity(TopK(GROUPS), HORIZON, events_of(one, replaced=False))
    check_sensitivity(TopK(GROUPS, neighbours="replace"), HORIZON, events_of(one, replaced=True))
    pairs = [[list(pair)] for pair in two]
    check_sensitivity(
        TopK(GROUPS, cells=2),
        HORIZON,
        ((list(a), list(b)) for a, b in events_of(pairs, replaced=False)),
    )


def test_group_counts_are_independent_of_batches() -> None:
    sets = TopK(GROUPS, cells=2)
    check_exact(sets, [[["a", "b"]], [], [["c"], ["a"]]])
    assert sets.begin().take([["a", "b"], ["c"], []], np.array([2, 3])).tolist() == [
        [1, 1, 1],
        [0, 0, 0],
    ]
    check_exact(TopK(GROUPS), list("abcab"))


def test_wrong_groups_change_nothing() -> None:
    running = started(TopK(GROUPS), guarantee=ZCDP(1), strategy=Binary(9), batched=True)
    running.release_batch(["a", "b"])
    saved = running.checkpoint()
    with pytest.raises(InvalidInputError, match="group is 'd', which is not listed"):
        running.release_batch(["a", "b", "d"])
    with pytest.raises(InvalidInputError, match="give a list of up to 2 groups"):
        TopK(GROUPS, cells=2).begin().take(["a"], np.array([1]))
    for event in (["a", "a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInputError, match="up to 2 different"):
            TopK(GROUPS, cells=2).begin().take([event], np.array([1]))
    assert running.checkpoint() == saved
    for wrong in (
        {"groups": "abc"},
        {"groups": ["a", "a"]},
        {"groups": ["a"], "neighbours": "both"},
    ):
        with pytest.raises(InvalidInputError):
            TopK(**wrong)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.integers(1, 5),
    st.floats(0, 4),
    st.data(),
)
def test_certain_ranks_follow_from_intervals(
    values: list[int], k: int, half: float, data: st.DataObject
) -> None:
    """Among all true values within the intervals: surely in, or never in."""
    found = rank_largest(range(len(values)), np.array(values), half, k)
    shifts = data.draw(st.lists(st.floats(-1, 1), min_size=len(values), max_size=len(values)))
    true = np.array(values) + half * np.array(shifts)
    larger = (true[None, :] > true[:, None] + 1e-9).sum(axis=1)
    belongs = set(np.flatnonzero(larger < k).tolist())
    assert {
        name for name, sure in zip(found.names, found.group_is_certain, strict=True) if sure
    } <= belongs
    assert belongs <= {*found.names, *found.others}
    assert found.is_certain or found.others


def test_uncertain_ranks_change_within_intervals() -> None:
    """At the ends of the intervals those who are not sure fall out, and others come in."""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 60, 4000)
    half = 6
    k = 7
    found = rank_largest(range(4000), values, half, k)
    assert found.names == tuple(np.argsort(-values, kind="stable")[:k].tolist())
    for place in found.others:
        true = values - half
        true[place] += 2 * half
        assert (true > true[place]).sum() < k
    for place, sure in zip(found.names, found.group_is_certain, strict=True):
        true = values + half
        true[place] -= 2 * half
        assert ((true > true[place]).sum() < k) == sure


#: A law of noise, and all that three groups can have of it.
DRAWS = np.arange(-4, 5)
MASS = np.exp(-np.abs(DRAWS) / 1.5)
MASS /= MASS.sum()
THREE = np.array(list(itertools.product(DRAWS, repeat=3)))
CHANCES = np.array([math.prod(each) for each in itertools.product(MASS, repeat=3)])


def holds(truth: NDArray[Any], k: int, down: int, up: int, hidden: int | None = None) -> float:
    """How likely all is true that a ranking says, by trying all noise there is.

    It is wherever no noise is above ``down``, and that of the largest none below ``-up``. Where
    some are hidden, those whose estimate is below, unless they were seen before: the first.
    """
    largest = set(np.argsort(-truth, kind="stable")[:k].tolist())
    belong = set(np.flatnonzero((truth[None] > truth[:, None]).sum(axis=1) < k).tolist())
    held = np.zeros(len(THREE), bool)
    for place, noise in enumerate(THREE):
        values = truth + noise
        there = [0, 1, 2]
        if hidden is not None:
            there = [one for one in there if one == 0 or values[one] >= hidden]
        found = rank_largest(there, values[there], down, k, upward=up, hidden=hidden)
        own = truth[list(found.names)]
        sure = {
            name
            for name, is_sure in zip(found.names, found.group_is_certain, strict=True)
            if is_sure
        }
        held[place] = (
            ((found.lower <= own) & (own <= found.upper)).all()
            and sure <= belong
            and (largest & {*there}) <= {*found.names, *found.others}
        )
    as_stated = (down >= THREE).all(axis=1) & (THREE[:, list(largest)] >= -up).all(axis=1)
    assert held[as_stated].all()
    return float(CHANCES @ held)


@pytest.mark.parametrize(("k", "down", "up"), [(1, 3, 1), long(1, 2, 0), long(2, 3, 2)])
def test_upper_ends_need_to_allow_for_the_largest_alone(k: int, down: int, up: int) -> None:
    """Whatever the truth is, also where groups are hidden, by all noise there is."""
    too_high = MASS[down < DRAWS].sum()
    too_low = MASS[-up > DRAWS].sum()
    stated = (1 - too_high - too_low) ** k * (1 - too_high) ** (3 - k)
    truths = [(0, 0, 0), (3, 0, 0), (0, 3, 3), (7, 8, 8), (2, 9, 9), (0, 6, 12), (0, 20, 20)]
    found = [holds(np.array(truth), k, down, up) for truth in truths]
    assert min(found) >= stated - 1e-12
    assert min(found) <= stated + 0.1
    assert min(holds(np.array(truth), k, down, up, 8) for truth in truths[2:5]) >= stated - 1e-12


def test_ranking_levels_cover_all_groups_below_and_shown_groups_above() -> None:
    """With the half-widths of one group as good as all would fail."""
    once = MASS[DRAWS > 2].sum()
    assert holds(np.array([0, 0, 0]), 1, 2, 3) < 1 - 2 * once
    assert holds(np.array([0, 20, 20]), 2, 4, 2) < 1 - 1.9 * once
    for groups, k, level in ((40, 3, 0.9), (10**6, 10, 0.95), (5, 1, 0.5)):
        down, up = ((1 - one) / 2 for one in ranking_levels(groups, k, level))
        assert down < up
        held = k * math.log1p(-down - up) + (groups - k) * math.log1p(-down)
        assert math.exp(held) == pytest.approx(level, abs=1e-8)
    assert ranking_levels(7, 9, 0.9) == (0.9 ** (1 / 7),) * 2


def test_intervals_hold_for_all_groups_at_once() -> None:
    """Independent groups: seldom wrong, as often as stated, while single intervals often are."""
    groups = [f"g{number}" for number in range(40)]
    statistic = TopK(groups, k=3)
    level = 0.9
    keys = 400
    truth = np.array([50, 40, 38, *range(37)])
    events = np.repeat(groups, truth)
    held = alone = right = 0
    running = started(statistic, guarantee=PureDP("1/4"), strategy=SqrtToeplitz(4), batched=True)
    for reading in simulated(running, changes_of(statistic, [events.tolist()])[0], 3, keys):
        found = reading.ranking(k=40, confidence_level=level)
        place = np.array([int(name[1:]) for name in found.names])
        held += bool(((found.lower <= truth[place]) & (truth[place] <= found.upper)).all())
        low, high = reading.release.interval(level)
        alone += bool(((low <= truth) & (truth <= high)).all())
        top = reading.ranking(confidence_level=level)
        sure = {
            name for name, is_sure in zip(top.names, top.group_is_certain, strict=True) if is_sure
        }
        right += sure <= {"g0", "g1", "g2"} <= {*top.names, *top.others}
    spread = 4 * np.sqrt(level * (1 - level) / keys)
    assert level - spread <= held / keys <= level + spread + 0.01
    assert right >= held - 1
    assert alone < keys / 4


def test_a_table_of_ranks_and_of_a_window() -> None:
    running = started(TopK(GROUPS, k=2), guarantee=ExpiringDP(epsilon=10**4), strategy=Expiring(1))
    readings: Any = running.release_many(list("abbacccc"))
    columns = readings[7].table_columns()
    assert columns["group"].tolist() == ["c", "a"]
    assert columns["estimate"].tolist() == [4, 2]
    assert columns["is_certain"].tolist() == [True, True]
    assert readings[7].ranking().others == ("b",)
    window: Any = readings[7].since(readings[3])
    assert window.ranking().names[0] == "c"
    assert window["a"] == 0


def test_groups_have_an_order_and_can_be_shown() -> None:
    made: Any = TopK, Cuts, lambda letters: Substrings(letters, 1)
    wrong: Any = {"a", "b"}, {"a": 1, "b": 2}, frozenset("ab"), ["a\0", "b"]
    for make in made:
        make(["a", "b"])
        for groups in wrong:
            with pytest.raises(InvalidInputError, match=r"in order|alphabet is|NUL"):
                make(groups)


@pytest.mark.parametrize("groups", [7, 1000, 10**6, 10**8])
def test_the_level_that_a_refusal_names_is_known(groups: int) -> None:
    least = float(f"{1.1e-9 * groups:.2g}")
    for k in (1, 10, groups):
        assert max(checked_ranking_levels(groups, min(k, groups), 1 - least)) <= 1 - 1e-9
        with pytest.raises(InvalidInputError, match=re.escape(f"give at most 1 - {least:.2g}")):
            checked_ranking_levels(groups, k, 1 - least / 5)


@pytest.mark.parametrize(
    ("what", "own"),
    [
        ("top-k", {"group_by": "page", "groups": "a,b,c", "confidence_level": 0.999999999}),
        ("top-k", {
            "group_by": "page", "unlisted_groups": "discover", "delta": "1e-6",
            "confidence_level": 0.9999,
        }),
        ("report", {
            "statistics": {
                "pages": {"statistic": "top-k", "group_by": "page", "groups": ["a", "b"]},
            },
            "confidence_level": 0.999999999,
        }),
    ],
)  # fmt: skip
def test_confidence_level_too_high_for_ranking_is_refused_before_release(
    what: Any, own: dict[str, Any], tmp_path: Path
) -> None:
    events = pl.DataFrame({"at": ["2024-03-01T09:00"], "page": ["a"]})
    with pytest.raises(InvalidInputError, match="groups at once, so that each of them needs more"):
        release(
            what, events, state=tmp_path / "s.db", time="at", every="1d", start="2024-03-01",
            windows=3, until="2024-03-02", epsilon=1, **own,
        )  # fmt: skip
    assert not (tmp_path / "s.db").exists()
