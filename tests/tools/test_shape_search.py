"""The search for shapes: its variances and slopes, and that it finds what is shipped."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from calls import calls_of

from counton.strategies.strategy import Metric, Norm
from counton.strategies.streams.shapes import Shape, shapes
from tools import shape_search
from tools.shape_search import (
    Levels,
    Problem,
    Slots,
    inside,
    run,
    search,
    search_again,
    search_rows,
    variances,
)


def hats(rng: np.random.Generator, cells: int, levels: int) -> tuple[Slots, np.ndarray]:
    """Slots with random weights and turns, and the rows of H that they stand for."""
    slots = 2 * levels
    weights = rng.random((cells, slots))
    turns = []
    rows = [np.zeros(cells) for _ in range(slots)]
    alive = list(range(slots))
    for cell in range(cells):
        for slot in range(slots):
            if cell and rng.random() < 0.3:
                turns.append((cell, slot))
                alive[slot] = len(rows)
                rows.append(np.zeros(cells))
            rows[alive[slot]][cell] = weights[cell, slot]
    return Slots(weights, turns), np.array(rows)


def test_variances_and_slopes_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    for levels in (1, 2, 3):
        slots, rows = hats(rng, 12, levels)
        squares = 0.2 + rng.random(12)
        inverse = np.linalg.inv(rows.T @ rows + np.diag(squares))
        totals, own, slopes = variances(slots, squares)
        np.testing.assert_allclose(own, inverse.diagonal(), rtol=1e-10)
        prefixes = np.tri(12)
        np.testing.assert_allclose(totals, (prefixes @ inverse @ prefixes.T).diagonal(), rtol=1e-10)
        by_totals = rng.random(12)
        by_own = rng.random(12)
        by_weights, by_squares = slopes(by_totals, by_own)

        def value(weights: np.ndarray, squares: np.ndarray, slots: Slots = slots) -> float:
            found = variances(Slots(weights, slots.turns), squares)
            return float(found[0] @ by_totals + found[1] @ by_own)  # noqa: B023

        for array, slope in ((slots.weights, by_weights), (squares, by_squares)):
            for place in itertools.islice(np.ndindex(array.shape), 0, None, 5):
                ends = []
                for change in (-1e-6, 1e-6):
                    moved = array.copy()
                    moved[place] += change
                    of_weights = array is slots.weights
                    ends.append(
                        value(moved, squares) if of_weights else value(slots.weights, moved)
                    )
                assert (ends[1] - ends[0]) / 2e-6 == pytest.approx(slope[place], rel=1e-5, abs=1e-6)


def test_inside_a_cell_is_least_squares_over_its_tree() -> None:
    shares = (0.3, 0.45, 0.25)
    gram = np.eye(24) * shares[0] ** 2
    size = 1
    for radix, share in zip((3, 4), shares[1:], strict=True):
        size *= radix
        gram += share**2 * np.kron(np.eye(24 // size), np.ones((size, size)))
    inverse = np.linalg.inv(gram)
    total = float(inverse.sum())
    part = inverse.sum(axis=1).cumsum() / total  # of the total, in each prefix
    added = np.tri(24) @ inverse @ np.tri(24).T
    left = added.diagonal() - part**2 * total
    found = inside((3, 4, 2), shares)
    assert found.information == pytest.approx(1 / total)
    assert found.before == pytest.approx(1 - part.mean())
    assert found.own == pytest.approx((part**2 - part).mean())
    assert found.added == pytest.approx(left.mean())
    steps = inverse.sum(axis=1) / total
    assert found.step_added == pytest.approx((inverse.diagonal() - steps**2 * total).mean())
    assert found.step_own == pytest.approx((steps**2).mean())


@pytest.mark.parametrize(
    ("norm", "metric"),
    [
        (2, "mean"),
        *(
            pytest.param(norm, metric, marks=pytest.mark.long)
            for norm, metric in ((1, "mean"), (1, "max"), (2, "max"))
        ),
    ],
)
def test_descents_follow_the_slope(norm: Norm, metric: Metric) -> None:
    # With a wrong slope L-BFGS stops where it began, or nearly.
    problem = Problem(200, norm, metric)
    uniform = Levels.uniform(problem, (12.0, 90.0))
    start = uniform.error
    heights = uniform.improve(100).error
    knots = uniform.improve(200, move=True).error
    assert heights < 0.95 * start
    assert knots < 0.995 * heights


@pytest.mark.parametrize(
    ("metric", "cells"),
    [
        ("mean", 4),
        *(
            pytest.param(metric, cells, marks=pytest.mark.long)
            for metric, cells in (("mean", 8), ("max", 10), ("max", 8))
        ),
    ],
)
def test_small_search_finds_shipped_shape(metric: Metric, cells: int) -> None:
    shipped = next(one for one in shapes(1, metric) if one.horizon == cells)
    found, shape = search(Problem(cells, 1, metric))
    ours, theirs = (one.serving(cells).overall_variance(metric) for one in (shape, shipped))
    assert ours == pytest.approx(theirs, rel=2e-3)
    assert found.error <= theirs * 1.001  # the largest variance is smoothed, to a little less


@pytest.mark.parametrize("cells", [10, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.long
def test_rows_of_any_form_are_found_again_from_hats(cells: int) -> None:
    problem = Problem(cells)
    hats, start = search(problem)
    assert problem.of_rows
    assert not start.rows.size
    shipped = next(one for one in shapes() if one.horizon == cells)
    ours, theirs = (
        one.serving(cells).overall_variance("mean")
        for one in (search_rows(problem, [start]), shipped)
    )
    assert ours == pytest.approx(theirs, rel=5e-4)
    assert ours < 0.998 * hats.error


def test_a_weak_shape_is_mended_from_its_neighbours() -> None:
    """The shape of 76 steps, all of whose hats are lower than they should be."""
    known = {one.horizon: one for one in shapes(1, "max") if 63 < one.horizon < 92}
    weak = known[76]._replace(amplitudes=tuple(row * 3 // 4 for row in known[76].amplitudes))
    problem = Problem(76, metric="max")
    assert Levels.of(weak, problem).error > 1.01 * Levels.of(known[76], problem).error
    found = search_again(problem, [weak, known[64], known[91]], trials=3)
    assert Levels.of(found, problem).error < 1.002 * Levels.of(known[76], problem).error
    assert search_again(problem, [*known.values()], trials=0) is known[76]


def test_search_resumes_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shapes.json"
    wanted = [Problem(2), Problem(3), Problem(4)]
    monkeypatch.setattr(shape_search, "problems", lambda: wanted[:2])
    run(path)
    first = json.loads(path.read_text())
    assert [Shape.from_json(line).horizon for line in first] == [2, 3]
    monkeypatch.setattr(shape_search, "problems", lambda: wanted)
    searched = calls_of(monkeypatch, shape_search, "search")
    run(path)
    assert [problem for problem, _ in searched] == wanted[2:]
    assert json.loads(path.read_text())[:2] == first
    assert "3/3 4: mean" in capsys.readouterr().err
