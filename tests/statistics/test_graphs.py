"""Statistics of graphs: what an edge moves, by trying; enforced bounds; two ways to count."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from brute_force import (
    changes_of,
    check_exact,
    check_sensitivity,
    largest_norms,
    small_strategies,
)
from some_cases import long
from started import started

from counton import (
    ZCDP,
    Degrees,
    Edges,
    ExpiringDP,
    Forest,
    Key,
    RunningStatistic,
    Stars,
    Triangles,
)
from counton.base.errors import InvalidInputError, StateError
from counton.statistics import Statistic, unit_sensitivities
from counton.statistics.graphs import graph_statistic as graphs
from counton.statistics.statistic import place_of_name, restore
from counton.strategies import Expiring, Independent, KAry

Neighbours = Iterator[tuple[list[Any], list[Any]]]
ALL = list(itertools.combinations(range(4), 2))


def in_batches(steps: int) -> Neighbours:
    """All streams of a graph with four nodes, with and without the edge (0, 1)."""
    for own in range(steps):
        for at in itertools.product(range(steps + 1), repeat=len(ALL) - 1):
            rest = [[e for e, k in zip(ALL[1:], at, strict=True) if k == s] for s in range(steps)]
            yield [[ALL[0], *r] if s == own else r for s, r in enumerate(rest)], rest


def one_by_one(steps: int) -> Neighbours:
    """The same with at most one edge in a step."""
    for own in range(steps):
        for rest in itertools.permutations([*ALL[1:], *[None] * (steps - 1)], steps - 1):
            yield [*rest[:own], ALL[0], *rest[own:]], [*rest[:own], None, *rest[own:]]


def some(nodes: int, steps: int, tries: int) -> Neighbours:
    """Random streams in batches, in any order, with and without one edge."""
    chance = random.Random(7)
    edges = list(itertools.combinations(range(nodes), 2))
    for _ in range(tries):
        told = chance.sample(edges, chance.randint(3, len(edges)))
        cuts = sorted(chance.randrange(len(told) + 1) for _ in range(steps - 1))
        stream = [told[i:j] for i, j in itertools.pairwise([0, *cuts, len(told)])]
        less = chance.choice(told)
        yield stream, [[edge for edge in step if edge != less] for step in stream]


@pytest.mark.parametrize("statistic", [Edges(), Triangles(3), Stars(3, 2), Stars(3, 3)])
def test_no_edge_moves_more_than_claimed_and_one_as_much(statistic: Any) -> None:
    check_sensitivity(statistic, 2, in_batches(2), batched=True)
    check_sensitivity(statistic, 4, one_by_one(4), slack=math.inf)


@pytest.mark.parametrize("nodes", [long(None), 4])
def test_no_edge_moves_a_histogram_more_than_claimed(nodes: int | None) -> None:
    ratios = check_sensitivity(Degrees(1, nodes=nodes), 2, perfect_matchings(), batched=True)
    np.testing.assert_allclose(ratios, 1)
    degrees = Degrees(2, nodes=nodes)
    ratios = check_sensitivity(degrees, 3, legal(degrees, in_batches(3)), slack=2, batched=True)
    assert ratios[3] == pytest.approx((1, 1))  # the smooth mechanism, whose columns are alike


def perfect_matchings() -> Neighbours:
    for own, other in itertools.product(range(2), repeat=2):
        rest: list[list[Any]] = [[], []]
        rest[other].append((2, 3))
        yield [[(0, 1), *r] if s == own else r for s, r in enumerate(rest)], rest


def legal(statistic: Statistic, neighbours: Neighbours) -> Neighbours:
    for one, other in neighbours:
        try:
            changes_of(statistic, one)
            changes_of(statistic, other)
        except InvalidInputError:
            continue
        yield one, other


@pytest.mark.parametrize(
    "statistic",
    [Triangles(2, beyond="drop"), Stars(2, 2, beyond="drop"), Degrees(2, beyond="drop")],
)
def test_dropping_moves_no_more_than_three_edges(statistic: Any) -> None:
    """An edge decides about one more at each of its nodes."""
    check_sensitivity(statistic, 3, some(5, 3, 400), slack=math.inf, batched=True)


def streams_of(*ways: Sequence[tuple[tuple[int, int], int | None]]) -> Iterator[list[list[Any]]]:
    """Two steps each, with every edge in the step that is stated; None: in none."""
    for way in ways:
        yield [[edge for edge, at in way if at == step] for step in range(2)]


@pytest.mark.parametrize("nodes", [None, 6])
def test_dropped_edges_change_histogram_of_degrees_by_three_edges(nodes: int | None) -> None:
    """Norms are three times those of one edge, and squares nine times: an edge early, two late."""
    rest = [((0, 2), 1), ((1, 3), 1)]
    pairs = (tuple(streams_of([((0, 1), at), *rest], rest)) for at in range(2))
    degrees = Degrees(1, nodes=nodes, beyond="drop")
    one = Degrees(1, nodes=nodes)
    for strategy, (l1, l2) in zip(
        strategies := [Independent(2), *small_strategies(2)],
        largest_norms(degrees, strategies, pairs),  # type: ignore[arg-type]
        strict=True,
    ):
        alone = unit_sensitivities(one, strategy)
        claimed = unit_sensitivities(degrees, strategy)
        assert (claimed.l1, claimed.l2_squared) == (3 * alone.l1, 9 * alone.l2_squared)
        unit = 2.0**strategy.facts.lattice_bits
        assert unit * l1 <= claimed.l1
        assert (unit * l2) ** 2 <= claimed.l2_squared * (1 + 1e-12)
        if isinstance(strategy, Independent):
            assert l2**2 > 3 * alone.l2_squared


def test_dropping_moves_more_than_one_edge() -> None:
    """So that it is not free: with one edge less, two are kept that were not."""
    one = [[(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 5), (1, 6)]]
    other = [[], one[1]]
    found = changes_of(Edges(), one) - changes_of(Edges(), other)
    dropping = Stars(1, 1, beyond="drop")
    with_edge = [[(0, 1)], [(0, 5), (1, 6)]]
    found = changes_of(dropping, with_edge) - changes_of(dropping, [[], with_edge[1]])
    assert found.ravel().tolist() == [2, -4]


@pytest.mark.parametrize("heaviest", [1, 3])
def test_no_edge_moves_a_forest_more_than_claimed(heaviest: int) -> None:
    """Exactly as much: what comes, and goes when its nodes are connected otherwise."""

    def weighted() -> Neighbours:
        weights = set(itertools.product((1, heaviest), repeat=3))
        for own, others in itertools.product({1, heaviest}, weights):
            cycle = [(0, 2, others[0]), (1, 2, others[1]), (1, 3, others[2])]
            for order in {*itertools.permutations([None, None, *cycle], 4)}:
                for place in range(3):
                    without = [*order[:place], None, *order[place + 1 :]]
                    yield [*without[:place], (0, 1, own), *without[place + 1 :]], without

    check_sensitivity(Forest(heaviest), 4, weighted(), slack=1.0)


def test_graph_statistics_describe_bounds_and_refuse_invalid_sizes() -> None:
    def words(statistic: Statistic) -> str:
        return statistic.contribution().change_in_words()

    assert words(Stars(3, 2)) == "which changes the number of stars by up to 4 in all"
    assert words(Degrees(1)) == "whose two nodes have up to 1 edge each"
    assert Stars(2**20, 3).most <= 2**40
    for given in ({"leaves": 4}, {"leaves": 3, "beyond": "drop"}):
        with pytest.raises(InvalidInputError, match="at most 2\\^40 can be counted"):
            Stars(2**20, **given)


def test_a_stream_of_edges_is_counted() -> None:
    stream: list[Any] = [("a", "b"), None, ("b", "c"), ("c", "a"), ("b", "a"), ("c", 1), (1, "1")]
    assert changes_of(Edges(), stream).cumsum().tolist() == [1, 1, 2, 3, 3, 4, 5]
    assert changes_of(Triangles(3), stream).cumsum().tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert changes_of(Stars(3, 2), stream).cumsum().tolist() == [0, 0, 1, 3, 3, 5, 6]
    degrees = changes_of(Degrees(3, nodes=6), stream).cumsum(axis=0)
    assert degrees[[0, 3, 6]].tolist() == [[4, 2, 0, 0], [3, 0, 3, 0], [1, 1, 3, 1]]
    weighted: list[Any] = [("a", "b", 5), ("b", "c", 5), ("c", "a", 1), ("a", "b", 1), None]
    assert changes_of(Forest(5), weighted).ravel().tolist() == [5, 5, -4, 0, 0]


def heaviest_first(edges: list[tuple[int, int, int]]) -> int:
    """Weight of the forest by Kruskal's algorithm."""
    part = {node: node for edge in edges for node in edge[:2]}
    total = 0
    for one, other, weight in sorted(edges, key=lambda edge: edge[2]):
        first = part[one]
        second = part[other]
        if first != second:
            total += weight
            part = {node: first if p == second else p for node, p in part.items()}
    return total


def test_forests_are_the_least() -> None:
    chance = random.Random(5)
    for _ in range(30):
        pairs = list(itertools.combinations(range(8), 2))
        told = [(*edge, chance.randint(1, 6)) for edge in chance.sample(pairs, 20)]
        found = changes_of(Forest(6), told).cumsum().tolist()
        assert found == [heaviest_first(told[: k + 1]) for k in range(20)]


def test_batched_and_single_edges_give_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    edges = chance.integers(0, 60, (1500, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    listed = [tuple(edge) for edge in edges.tolist()]
    stops = np.append(np.arange(3, len(edges), 5), len(edges))
    half = len(stops) // 2
    for statistic in (
        Edges(),
        Triangles(59),
        Stars(59, 3),
        Degrees(59, nodes=70),
        Triangles(20, beyond="drop"),
        Stars(20, 2, beyond="drop"),
        Degrees(20, beyond="drop"),
    ):
        at_once = statistic.begin()
        later = statistic.begin()
        whole = at_once.take(edges, stops)
        with monkeypatch.context() as patched:
            patched.setattr(graphs, "_FEWEST_ARRAY_EVENTS", 10**9)
            first = later.take(listed[: stops[half - 1]], stops[:half])
        with monkeypatch.context() as patched:
            patched.setattr(graphs, "_FEWEST_ARRAY_EVENTS", 0)
            for _ in range(2):
                second = later.take(listed[stops[half - 1] :], stops[half:] - stops[half - 1])
                assert later.save() == at_once.save()
                later.undo()
                assert len(later.save()) < len(at_once.save())
        np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    assert int(changes_of(Triangles(59), listed).sum()) == triangles_of(listed)


def triangles_of(edges: list[tuple[int, int]]) -> int:
    adjacent = np.zeros((60, 60), np.int64)
    for one, other in edges:
        adjacent[one, other] = adjacent[other, one] = 1
    return int(np.trace(adjacent @ adjacent @ adjacent)) // 6


def test_state_is_whole() -> None:
    stream: list[Any] = [[("a", "b"), (1, "b")], [None], [("a", 1), ("a", "b")], [("c", "a")]]
    for statistic in (
        Edges(),
        Triangles(3),
        Stars(3, 2),
        Degrees(3, nodes=4),
        Triangles(2, beyond="drop"),
        Degrees(1, beyond="drop"),
    ):
        check_exact(statistic, stream)
    weighted = [[("a", "b", 3), ("c", "b", 2)], [("a", "c", 1)], [("d", "a", "0.5")]]
    check_exact(Forest(3, resolution="0.5"), weighted)
    for broken in Edges(), Forest(3):
        with pytest.raises(StateError, match="copy"):
            restore(broken, b"{}")


def test_edge_beyond_bound_is_refused_without_change() -> None:
    running = started(Triangles(2), 9, ZCDP(1), batched=True)
    running.release_batch([("a", "b"), ("a", "c")])
    saved = running.checkpoint()
    many = [(f"x{i}", f"y{i}") for i in range(2000)]
    for wrong, match in (
        ([("b", "c"), ("a", "d")], "node 'a' more than 2 edges"),
        ([*many, ("d", "a")], "node 'a' more than 2 edges"),
        ([("b", "c"), ("d", "d")], "itself"),
        (["ab"], "two nodes"),
        ([("b", "c"), ("a", 1.5)], "node is 1.5"),
        ([(True, "a")], "node is True"),
        ([("b", "c"), ("a", 10**5000)], "node is a value"),
        ([(2**63, "a")], "node is 9223372036854775808"),
        ([("a", "b", 1)], "two nodes"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            running.release_batch(wrong)
        assert running.checkpoint() == saved
    with pytest.raises(InvalidInputError, match="4 nodes, but nodes is 3"):
        Degrees(2, nodes=3).begin().take([("a", "b"), ("c", "d")], np.array([2]))
    for weight in (2.5, 0.1, -1, "heavy", float("nan")):
        with pytest.raises(InvalidInputError, match="weight"):
            Forest(2, resolution="0.5").begin().take([("a", "b", weight)], np.array([1]))
    assert changes_of(Forest(2, resolution="0.5"), [("a", "b", 0.8)]).tolist() == [[2]]
    for make in (
        lambda: Triangles(1),
        lambda: Stars(2, 3),
        lambda: Degrees(0),
        lambda: Triangles(3, beyond="keep"),  # type: ignore[arg-type]
        lambda: Forest("0.3", resolution="0.2"),
    ):
        with pytest.raises(InvalidInputError):
            make()


def test_results_of_graphs_equal_released_values() -> None:
    sure: Any = {
        "guarantee": ZCDP(10**9), "key": Key.generate(), "name": "s", "strategy": KAry(4, 3, True),
    }  # fmt: skip
    degrees: Any = RunningStatistic.start(Degrees(2, nodes=5), **sure).release(("a", "b"))
    assert [degrees[degree] for degree in (0, 1, 2)] == [3, 2, 0]
    assert degrees.table_columns()["degree"].tolist() == [0, 1, 2]
    assert "privacy unit: one edge added or removed, whose two nodes" in degrees.describe()
    with pytest.raises(InvalidInputError, match="not among the 3 names"):
        degrees[3]
    forest: Any = RunningStatistic.start(Forest(3, resolution="0.25"), **sure).release(
        ("a", "b", 0.75)
    )
    assert forest["weight"] == 0.75
    assert forest.interval() == (0.75, 0.75)
    assert forest.table_columns()["estimate"].tolist() == [0.75]
    assert forest.std() < 1e-3
    triangles: Any = RunningStatistic.start(Triangles(2), **sure).release(("a", "b"))
    assert triangles["triangles"] == 0
    growing: Any = started(Edges(), guarantee=ExpiringDP(epsilon=1), strategy=Expiring(1))
    assert growing.release(("a", "b"))["edges"] < 50


@pytest.mark.parametrize(
    "statistic", [Degrees(4), Degrees(4, nodes=9), Edges(), Forest(3), Triangles(5)], ids=repr
)
def test_graph_cells_are_found_by_name_or_text(statistic: Statistic) -> None:
    """Of degrees it was not, as texts had no cell."""
    names = [statistic.counted or name for name in statistic.number_names]
    for given in (names, map(str, names)):
        assert [place_of_name(statistic, name) for name in given] == [*range(len(names))]


def test_degrees_have_names_of_their_own() -> None:
    degrees = Degrees(4)
    assert place_of_name(degrees, "3") == place_of_name(degrees, 3) == 2
    for name in ("03", "0", "5", "-1", "3.0", "", "9" * 5000, 3.0, True):
        with pytest.raises(InvalidInputError, match="not among the 4 names"):
            place_of_name(degrees, name)
