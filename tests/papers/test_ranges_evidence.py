"""Numbers and figures of "Range Queries with Correlated Input Perturbation"."""

from collections.abc import Callable

import numpy as np
import pytest

from papers import Evidence
from papers.ranges.figures import properties
from papers.ranges.mechanisms import MECHANISMS, choice, subsets
from papers.ranges.numbers import (
    cascade_variances,
    interval_variances,
    level_variances,
    sampled_ranges,
)
from papers.ranges.timing import Times

pytestmark = pytest.mark.xdist_group("ranges")

#: The rows that do not agree, each for the reason in its note; None for simulations.
EXPLAINED = [
    ("Theorem 3.9", 77.34), ("Theorem 3.9", 10924.45), ("Appendix E.2", 1.5933),
    ("Prop. 3.13", 2.179897), ("Figure 2(b)", 5), ("Figure 2(e)", 26999 / 10502),
    ("Figure 2(e)", 42881 / 7925), ("Figure 2(e)", 3), ("Cor. C.2", 0.98295), ("Figure 3", 6),
    ("Figure 3", None), ("Figure 3", None), ("Figure 4", 4), ("Appendix E.5", None),
]  # fmt: skip


@pytest.mark.slow
def test_ranges_rows_agree_or_are_explained(drawn: Callable[[str], Evidence]) -> None:
    evidence = drawn("ranges")
    assert evidence.wrong == ()
    assert all((row.recorded is None) == row.rounding for row in evidence.comparisons)
    assert sum(row.rounding for row in evidence.comparisons) == 6
    assert len(evidence.comparisons) >= 90
    found = [(r.place, r.computed) for r in evidence.comparisons if r.verdict == "explained"]
    assert [place for place, _ in found] == [place for place, _ in EXPLAINED]
    for (_, computed), (_, known) in zip(found, EXPLAINED, strict=True):
        assert known is None or computed == pytest.approx(known, rel=1e-4)
    names = {figure.path.name for figure in evidence.figures}
    assert {f"figure-{n}.png" for n in ("1", "2a", "2bc", "2de", "3", "4", "5")} <= names
    assert all(figure.path.exists() for figure in evidence.figures)
    rows = {(row.mechanism, row.horizon): row.std for row in evidence.errors}
    for (mechanism, cells), std in rows.items():
        assert std >= rows.get(("no strategy is below", cells), 0), mechanism


def test_variances_of_the_dense_matrix_are_those_of_the_tree() -> None:
    for height in (1, 3, 6):
        assert cascade_variances(height) == pytest.approx(interval_variances(height), rel=1e-10)


def test_level_variances_equal_those_of_drawn_noise() -> None:
    """Each level's mean square over draws, to within five standard errors."""
    from counton.noise import NoiseField
    from papers.ranges.mechanisms import key
    from papers.ranges.running_sums import running_sums

    for name in ("cascade", "wavelet", "identity"):
        best = choice(name, 32)
        (strategy,) = best.strategy.axes
        squares = np.zeros((200, 6))
        for run in range(200):
            field = NoiseField(key().derive(b"levels", run.to_bytes(4, "big")), best.distribution)
            sums, bits = running_sums(strategy, np.zeros(32, np.int64), field, 8)
            for level in range(6):
                nodes = np.diff(sums[:: 1 << level]) * 2.0**-bits
                squares[run, level] = (nodes**2).mean()
        away = squares.mean(axis=0) - level_variances(name, 32)
        assert (np.abs(away) < 5 * squares.std(axis=0) / np.sqrt(200)).all()


def test_queries_are_drawn_as_in_paper() -> None:
    matrix = subsets(64).matrix
    assert matrix.shape == (2500, 64)
    sizes = matrix.sum(axis=1)
    assert (sizes.min(), sizes.max()) == (16, 64)
    assert np.abs(matrix.mean(axis=0) - sizes.mean() / 64).max() < 0.05
    low, high = sampled_ranges(np.random.default_rng(5), 4, 20_000)
    counts = np.unique(low * 8 + high, return_counts=True)[1]
    assert len(counts) == 10
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(1800)


def test_only_tree_without_least_squares_gives_inconsistent_answers() -> None:
    said = dict(properties())
    for each in MECHANISMS:
        (strategy,) = choice(each.name, 16).strategy.axes
        assert said[each.label][1] == ("yes" if getattr(strategy, "consistent", True) else "no")


def test_times_are_compared_as_ratios() -> None:
    cascade = {2**k: 3.0 * 2 ** (1.05 * k) for k in range(3, 20)}
    whole = {("identity", 1024): 1.0, ("optimal", 1024): 900.0, ("cascade", 1024): 1.5}
    whole |= {("identity", 2048): 2.0, ("binary", 2048): 6.0, ("cascade", 2048): 3.0}
    times = Times(cascade, {64: 1.0, 128: 7.0}, whole)
    assert times.slope == pytest.approx(1.05)
    assert [row.verdict for row in times.rows()] == ["agrees"] * 6
    assert [row.computed for row in times.rows()][:3] == [3, 1.5, 0.5]
    whole |= {("optimal", 1024): 1.2, ("cascade", 2048): 6.1}
    slow = {cells: seconds * cells for cells, seconds in cascade.items()}
    late = Times(slow, {64: 1.0, 128: 70.0}, whole)
    assert [row.verdict for row in late.rows()] == ["DIFFERS"] * 6
    assert len(Times(slow, {64: 1.0, 128: 70.0}, {}).rows()) == 3
