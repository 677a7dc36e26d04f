"""Tables made to fit: brute force on small instances, and laws on many."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from once import hierarchy

from counton import ZCDP, Key, PureDP
from counton.base.errors import InvalidInput
from counton.tables import Tree
from counton.tables.whole_numbers import bounds_of, whole_numbers

DOMAIN = {
    "state": ["CA", "CA", "CA", "NY", "NY", "DC"],
    "county": ["Alpine", "Kings", "Napa", "Kings", "Queens", None],
}
#: Of Alpine, Kings, Napa, Kings, Queens.
COUNTS = {("CA", "Alpine"): 0, ("CA", "Kings"): 152, ("CA", "Napa"): 138, ("NY", "Kings"): 273,
          ("NY", "Queens"): 240, ("DC",): 6}  # fmt: skip


def released(rho: float = 0.005, guarantee: Any = None) -> Any:
    tree = Tree.from_leaves(DOMAIN, ["state", "county"])
    paths = [tree.path(level, node) for level, of in enumerate(tree.leaves) for node in of.tolist()]
    counts = [COUNTS[path] for path in paths]  # type: ignore[index]
    return hierarchy(counts, tree, guarantee or ZCDP(rho), Key.generate())


def adds_up(tree: Tree, levels: Any) -> None:
    for level, parents in enumerate(tree.parents):
        inner = tree.children[level] > 0
        sums = np.bincount(parents, weights=levels[level + 1], minlength=tree.sizes[level])
        np.testing.assert_array_equal(sums[inner], np.asarray(levels[level], float)[inner])


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(
    "known", [{}, {(): 809}, {"CA": 290, "NY": 513, "DC": 6}, {"NY": 513, ("CA", "Napa"): 138}]
)
def test_numbers_add_up_and_are_as_asked(
    integers: bool, nonnegative: bool, known: dict[Any, int]
) -> None:
    for guarantee in (ZCDP(0.0005), PureDP(0.05), ZCDP(2)):
        release = released(guarantee=guarantee)
        fitted = release.adjust(known=known, integers=integers, nonnegative=nonnegative)
        adds_up(fitted.tree, fitted.estimates)
        everything = np.concatenate(fitted.estimates)
        assert not integers or everything.dtype == np.int64
        assert not nonnegative or everything.min() >= 0
        for path, total in known.items():
            level, place = fitted.tree.find(path)
            assert fitted.estimates[level][place] == total
            assert fitted.std[level][place] == 0
        table = fitted.table_columns(level=0.9)
        assert list(table) == ["level", "state", "county", "estimate", "std", "lower", "upper"]
        assert (table["lower"] <= table["upper"]).all()


def test_known_totals_are_least_squares_with_the_exact_covariance() -> None:
    release = released()
    tree = release.statistic.tree
    law = release.statistic.measuring.strategy.joint_law(release.release.std**2)
    places = [(level, node) for level in range(3) for node in range(tree.sizes[level])]
    whole = np.array([np.concatenate(law.covariances(place)) for place in places])
    cuts, units = np.cumsum(tree.sizes)[:-1], np.eye(len(places))
    for row, one in enumerate(units):
        for column, other in enumerate(units):
            of = [law.functional(np.split(one + sign * other, cuts)) for sign in (1, -1)]
            assert whole[row, column] == pytest.approx((of[0] - of[1]) / 4, abs=1e-12)
    flat = np.concatenate(release.estimates)
    for known in (
        {(): 809},
        {"CA": 290},
        {"CA": 290, "NY": 513, "DC": 6},
        {("NY", "Kings"): 273, "DC": 6},
        {(): 809, "CA": 290, "NY": 513, "DC": 6},
        {("CA", "Kings"): 152, ("CA", "Napa"): 138, ("CA", "Alpine"): 0, "CA": 290},
    ):
        index = [places.index(tree.find(path)) for path in known]
        off = np.array(list(known.values())) - flat[index]
        inverse = np.linalg.pinv(whole[np.ix_(index, index)], rcond=1e-10)
        wanted = flat + whole[:, index] @ inverse @ off
        left = whole - whole[:, index] @ inverse @ whole[index]
        fitted = release.adjust(known=known)
        np.testing.assert_allclose(np.concatenate(fitted.estimates), wanted, atol=0.01)
        std = np.sqrt(np.maximum(np.diag(left), 0))
        np.testing.assert_allclose(np.concatenate(fitted.std), std, atol=1e-4)


def nearest(estimates: list[float], total: int, low: list[int]) -> float:
    """Least squared distance of integers with this sum and these bounds, by enumeration."""
    ranges = [range(bound, total - sum(low) + bound + 1) for bound in low[:-1]]
    best = np.inf
    for part in itertools.product(*ranges):
        last = total - sum(part)
        if last >= low[-1]:
            best = min(
                best, sum((a - b) ** 2 for a, b in zip([*part, last], estimates, strict=True))
            )
    return best


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-2000, 3000), min_size=2, max_size=4),
    st.integers(0, 12),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
def test_children_are_close_to_the_nearest_integers(
    grains: list[int], total: int, bounds: list[int]
) -> None:
    estimates = [grain / 256 for grain in grains]
    low = [min(bound, 1) for bound in bounds[: len(estimates)]]
    if total < sum(low):
        return
    parents = [np.zeros(len(estimates), np.int64)]
    known = [np.array([float(total)]), np.full(len(estimates), np.nan)]
    found, wrong = bounds_of(parents, known, nonnegative=True)
    assert wrong is None
    found.lowest[1][:] = low
    _, children = whole_numbers([known[0], np.array(estimates)], parents, found)
    assert children.sum() == total
    assert (children >= low).all()
    # Rounding the real solution may miss the best integers, by less than 1 in each of them.
    cost = float(((children - estimates) ** 2).sum())
    best = nearest(estimates, total, low)
    assert best - 1e-9 <= cost <= best + 2 * len(estimates)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_any_tree_any_estimates(seed: int, nonnegative: bool) -> None:
    rng = np.random.default_rng(seed)
    parents, size = [], 1
    for _ in range(rng.integers(1, 4)):
        below = np.sort(rng.integers(0, size, rng.integers(1, 12)))
        parents.append(below)
        size = len(below)
    sizes = [1, *(len(part) for part in parents)]
    estimates = [rng.normal(0, 10.0 ** rng.integers(0, 8), count) for count in sizes]
    nothing = [np.full(count, np.nan) for count in sizes]
    bounds, _ = bounds_of(parents, nothing, nonnegative=nonnegative)
    found = whole_numbers(estimates, parents, bounds)
    for level, above in enumerate(parents):
        sums = np.bincount(above, weights=found[level + 1], minlength=sizes[level])
        inner = np.bincount(above, minlength=sizes[level]) > 0
        np.testing.assert_array_equal(sums[inner], found[level][inner])
    assert not nonnegative or all((part >= 0).all() for part in found)


def test_rounding_alone_moves_nothing_by_one_or_more() -> None:
    release = released(2.0)
    fitted = release.adjust(integers=True)
    for level, own in zip(fitted.estimates, release.estimates, strict=True):
        # Each is rounded from its share of the parent's integer, which is off by less than one too.
        assert np.abs(level - own).max() < 3


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({(): 9, "CA": 4, "NY": 3, "DC": 1}, "of everything is 9, but the sum of its parts"),
        ({"CA": 4, ("CA", "Napa"): 5}, "of CA is 4, but its parts add up to at least 5"),
        ({"CA": -1}, "a known total is -1, which is below 0"),
        ({"CA": 1.5}, "the known total of 'CA' is 1.5; it must be a whole number"),
        ({"CA": True}, "is True; it must be a whole number"),
        ({"CA": 2**60}, "must be below 2"),
        ({"TX": 4}, "node .'TX',. is not in the domain"),
    ],
)
def test_known_totals_that_cannot_be_are_refused(known: dict[Any, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        released().adjust(known=known, nonnegative=True)


def test_too_many_known_totals_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.tables.table_fit._MOST_COVARIANCES", 17)
    release = released()
    release.adjust(known={"CA": 290, "NY": 513, "DC": 6})  # all of a level
    with pytest.raises(InvalidInput, match="2 known totals among 9 nodes are too many"):
        release.adjust(known={"CA": 290, "NY": 513})


def test_intervals_hold_and_the_bias_is_as_stated() -> None:
    """Zeros are too large by at most 0.4 of std; intervals hold the truth as often as they say."""
    tree = Tree.from_leaves({"leaf": list(range(40))}, ["leaf"])
    truth = np.array([0] * 30 + [1000] * 10)
    held, zeros, others, std = 0, 0.0, 0.0, 0.0
    rounds = 60
    for _ in range(rounds):
        release = hierarchy(truth, tree, ZCDP(0.005), Key.generate())
        fitted = release.adjust(integers=True, nonnegative=True)
        table = fitted.level_columns("leaf")
        held += int(((table["lower"] <= truth) & (truth <= table["upper"])).sum())
        zeros += float(table["estimate"][:30].mean()) / rounds
        others += float((table["estimate"][30:] - 1000).mean()) / rounds
        std = float(table["std"][0])
    assert held / (40 * rounds) > 0.93
    assert 0.05 * std < zeros < 0.45 * std
    assert others < 0
    assert "by up to 0.4 of the standard deviation" in fitted.notes()[0]


@pytest.mark.parametrize("guarantee", [ZCDP(0.005), PureDP(0.2)])
def test_intervals_hold_as_often_as_they_say_where_totals_are_known(guarantee: Any) -> None:
    exact = {"CA": 290, "NY": 513, "DC": 6}
    truth = {("CA", "Alpine"): 0, ("CA", "Kings"): 152, ("CA", "Napa"): 138, ("NY", "Kings"): 273}
    held, rounds = 0, 300
    for _ in range(rounds):
        fitted = released(guarantee=guarantee).adjust(known=exact, integers=True)
        table = fitted.level_columns("county", level=0.9)
        low, high = (
            dict(zip(_paths(table), table[end], strict=True)) for end in ("lower", "upper")
        )
        held += sum(low[path] <= count <= high[path] for path, count in truth.items())
    share = held / (rounds * len(truth))
    assert 0.87 < share < 0.96


def _paths(table: dict[str, Any]) -> list[tuple[str, str]]:
    return list(zip(table["state"].tolist(), table["county"].tolist(), strict=True))
