"""Synthetic graphs: any cut, with its exact error."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from brute_force import check_exact, check_sensitivity
from some_cases import long
from started import started

from counton import ZCDP, Cuts, Key, PureDP, RunningStatistic
from counton.base.errors import InvalidInputError, StateError, SumOverflowError
from counton.statistics import unit_sensitivities
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.statistic import restore
from counton.strategies import Binary, KAry, LookAhead, SmoothBinary, sensitivities


def test_a_sighting_moves_as_much_as_claimed() -> None:
    """1 for a weight in [0, 1], 2 if the edge may change, 4 if the weight is in [-1, 1]."""
    edges: list[Any] = [(0, 1, 1), (1, 2, 1), (0, 2, 0.5), (0, 1, -1), (1, 2, -1), None]
    smooth = SmoothBinary.best(3)
    for statistic, squared in (
        (Cuts(3, resolution=0.5), 4),
        (Cuts(3, resolution=0.5, neighbours="replace"), 8),
        (Cuts(3, lower=-1, resolution=0.5), 4),
        (Cuts(3, lower=-1, resolution=0.5, neighbours="replace"), 16),
    ):
        assert statistic.bounds.value_bounds is not None
        lowest, _, _ = statistic.bounds.value_bounds
        kept = [edge for edge in edges if edge is None or edge[2] >= lowest]
        others = [None] if statistic.neighbours == "add_remove" else [e for e in kept if e]
        before = edges[2]
        after = edges[1]
        pairs: Any = [
            tuple([*[before] * own, event, *[after] * (2 - own)] for event in (one, other))
            for own, one, other in itertools.product(range(3), kept, others)
            if one is not None
        ]
        check_sensitivity(statistic, 3, pairs)
        assert (
            unit_sensitivities(statistic, smooth).l2_squared
            == squared * sensitivities(smooth).l2_squared
        )


def test_cuts_of_any_node_sets_are_answered() -> None:
    labels = ["a", "b", 3, "d", "e"]
    cuts = Cuts(labels)
    sure: Any = {"guarantee": ZCDP(10**9), "name": "s", "strategy": KAry(6, 3, True)}
    events = [("a", "b"), (3, "a"), ("d", "e"), ("b", "a"), None, ("e", "b")]
    readings: Any = RunningStatistic.start(cuts, **sure, key=Key.generate()).release_many(events)
    weights = {frozenset(edge): 0 for edge in itertools.combinations(labels, 2)}
    for event, reading in zip(events, readings, strict=True):
        if event is not None:
            weights[frozenset(event)] += 1
        for size in (1, 2):
            for one in itertools.combinations(labels, size):
                rest = [label for label in labels if label not in one]
                across = [weights[frozenset(pair)] for pair in itertools.product(one, rest)]
                cut = reading.cut(one)
                assert (cut.value, cut.lower, cut.upper) == (sum(across),) * 3
        assert (
            reading.cut(["a"], ["b", 3]).value
            == weights[frozenset("ab")] + weights[frozenset(["a", 3])]
        )
    assert readings[3]["b", "a"] == 2
    table = readings[3].table_columns()
    assert table["cell"].tolist()[:4] == ["a b", "a 3", "a d", "a e"]
    pairs = list(itertools.combinations(range(40), 2))
    many = Cuts(40)
    assert [many.cell(pair) for pair in pairs] == list(range(len(pairs)))
    assert [many.name_of(cell) for cell in range(len(pairs))] == [f"{u} {v}" for u, v in pairs]


def test_cut_intervals_have_normal_width_and_replacement_doubles_sensitivity() -> None:
    sure: Any = {"guarantee": ZCDP("1/900"), "name": "s", "strategy": KAry(6, 3, True)}
    reading: Any = RunningStatistic.start(Cuts(5), **sure, key=Key.generate()).release((0, 1))
    cut = reading.cut([0, 1], [2, 3, 4])
    # Whole numbers: what lies within half of one more is in it too.
    assert 1.9599 <= ((cut.upper - cut.lower) / 2 + 0.5) / cut.std <= 2.1
    one, other = (
        unit_sensitivities(Cuts(3, neighbours=n), Binary(7)) for n in ("add_remove", "replace")
    )
    assert (other.l1, other.l2_squared) == (2 * one.l1, 2 * one.l2_squared)


def test_cut_sum_beyond_exact_range_is_refused_without_change() -> None:
    """Released integers must not wrap: with 16 bits of fractions 2^45 is the end of the range."""
    cuts = Cuts(4, lower=-(2**40), upper=2**40, resolution=1)
    strategy = LookAhead.best(9)
    most = 2**61 >> strategy.facts.fraction_bits
    assert most < 2**61
    counter: Any = started(cuts, guarantee=ZCDP(10**9), strategy=strategy, batched=True)
    for weight in 2**40, -(2**40):
        counter.release_batch([(0, 1, weight)] * (most // 2**40 - 1))
        last = counter.release_batch([(0, 1, weight)])
        assert abs(last[0, 1] / most - np.sign(weight)) < 0.01
        saved = counter.checkpoint()
        # Refused also if the sum is back within the range at the end of the step.
        with pytest.raises(SumOverflowError, match="exact"):
            counter.release_batch([(0, 1, np.sign(weight)), (0, 1, -np.sign(weight))])
        assert counter.checkpoint() == saved
        counter.release_batch([(0, 1, -weight)] * (most // 2**40))


def test_numbers_of_numpy_are_nodes() -> None:
    labels: Any = np.arange(5)
    for cuts in Cuts(labels), Cuts(np.int64(5)):
        assert statistic_from_dict(json.loads(json.dumps(statistic_to_dict(cuts)))) == cuts
        counter: Any = started(cuts, 3, ZCDP(1))
        reading = counter.release_many(np.array([[0, 3], [1, 2]]))[-1]
        assert reading.cut(np.array([0, 3])) == reading.cut({0, 3}) == reading.cut([0, 3])
        assert reading[np.int64(0), 1] == reading[0, 1]
    texts: Any = started(Cuts(["ab", "a", "b"]), 3, ZCDP(1))
    reading = texts.release(("ab", "a"))
    assert reading.cut(["ab"], ["a"]) == reading.cut(np.array(["ab"]), ("a",))
    for one, other in (
        ("ab", None),
        ("a", "b"),
        (["a"], "b"),
        (None, None),
        (3, None),
        (b"a", None),
    ):
        with pytest.raises(InvalidInputError, match="list or set of nodes"):
            reading.cut(one, other)
    with pytest.raises(InvalidInputError, match="node is"):
        reading.cut([["a"]])


@pytest.mark.parametrize("runs", [100, long(500)])
def test_noise_of_a_cut_is_as_stated(runs: int) -> None:
    """In standard deviations: variance 1 within what so many cuts of two sizes tell."""
    found = []
    for number in range(runs):
        counter: Any = RunningStatistic.start(
            Cuts(7), guarantee=PureDP(1), key=Key.generate(), name=str(number), strategy=Binary(3)
        )
        reading = counter.release_many([(0, 1), (2, 3), (0, 4)])[-1]
        small = reading.cut([5], [6])
        large = reading.cut([0, 2, 5])
        assert large.std == pytest.approx(12**0.5 * small.std)
        found.append([small.value / small.std, (large.value - 3) / large.std, small.std])
    scores = np.array(found)
    assert np.abs(scores[:, :2].mean(axis=0)).max() * runs**0.5 < 4.5
    assert np.abs((scores[:, :2] ** 2).mean(axis=0) - 1).max() < 4.5 * (5 / runs) ** 0.5
    half = (large.upper - large.lower) / 2
    assert (np.abs(scores[:, 1]) * large.std <= half).mean() > 0.9


def test_state_is_whole() -> None:
    stream: list[Any] = [
        [("a", "b", 1), ("b", "c", 0.5)],
        [None],
        [("c", "a", 0.25), ("a", "b", 1)],
    ]
    check_exact(Cuts(["a", "b", "c"], resolution=0.25), stream)
    with pytest.raises(StateError, match="copy"):
        restore(Cuts(3), b"[]")


def test_cuts_refuse_invalid_edges_without_change() -> None:
    counter: Any = started(Cuts(4, resolution=0.5), 9, ZCDP(1))
    saved = counter.checkpoint()
    for wrong in ((0, 4, 1), (0, 1), (0, 0, 1), (0, 1, "heavy"), (0, 1, float("nan"))):
        with pytest.raises(InvalidInputError):
            counter.release(wrong)
    assert counter.checkpoint() == saved
    reading = counter.release((0, 1, 1))
    for one, other in (([0], [0]), ([], None), ([0, 0], [1]), ([9], None), ([0, 1, 2, 3], None)):
        with pytest.raises(InvalidInputError):
            reading.cut(one, other)
    wrongs: list[tuple[Any, dict[str, Any]]] = [
        (1, {}), ("ab", {}), (["a", "a"], {}), ([], {}), (3, {"neighbours": "nodes"}),
        (3, {"lower": 2, "resolution": 1}), (4, {"lower": -1, "upper": 5}), (4, {"upper": 2}),
        (2.5, {}), (True, {}), (None, {}), ({"a", "b"}, {}), (np.array([[0, 1], [2, 3]]), {}),
        (["a", 10**5000], {}),
    ]  # fmt: skip
    for nodes, more in wrongs:
        with pytest.raises(InvalidInputError):
            Cuts(nodes, **more)
    assert "one sighting of an edge" in reading.describe()
    weighted: Any = statistic_from_dict(statistic_to_dict(Cuts(9, lower=-1, resolution="0.5")))
    assert weighted.weighted
