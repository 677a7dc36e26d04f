"""What the laws try on short streams, on longer ones: errors, far windows, draws, horizons."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counton.base.errors import InvalidInput
from counton.laws import HashedNoise
from counton.strategies import (
    Binary,
    HonakerOnline,
    KAry,
    LookAhead,
    MultiscaleInterpolation,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)

FAR = 10**18
PLAIN = st.one_of(
    st.builds(Binary, st.integers(1, 5000)),
    st.builds(KAry, st.integers(1, 3000), st.integers(2, 40), st.booleans()),
)
OTHERS = [
    *(HonakerOnline(horizon) for horizon in (1, 2, 3, 6, 7, 8, 100, 1000, 4095)),
    LookAhead(10**5, (7, 5, 11, 13), (16, 13, 14, 15, 12)),
]


def read_at(table: HashedNoise, strategy: StreamStrategy, step: int) -> Any:
    """The noise of a release whose row has integers."""
    return sum(table.at(level, node) * int(weight) for level, node, weight in strategy.row(step))


@given(PLAIN)
def test_errors_of_trees_are_those_of_all_steps(tree: StreamStrategy) -> None:
    variance = tree.variance(range(1, (tree.horizon or 0) + 1))
    assert tree.overall_variance("mean") == int(variance.sum()) / len(variance)
    assert tree.overall_variance("max") == variance.max()


@pytest.mark.parametrize("strategy", OTHERS, ids=repr)
def test_errors_are_those_of_all_steps(strategy: StreamStrategy) -> None:
    variance = strategy.variance(range(1, (strategy.horizon or 0) + 1))
    assert strategy.overall_variance("mean") == pytest.approx(variance.mean(), rel=1e-12)
    assert strategy.overall_variance("max") == pytest.approx(variance.max(), rel=1e-12)


@given(
    strategy=st.one_of(
        st.just(Binary(FAR)),
        st.sampled_from(SmoothBinary.examples(FAR)),
        st.builds(KAry, st.just(FAR), st.integers(2, 30), st.booleans()),
    ),
    start=st.integers(1, FAR - 100),
    length=st.integers(1, 100),
    wide=st.booleans(),
)
def test_windows_anywhere_up_to_1e18(
    strategy: StreamStrategy, start: int, length: int, wide: bool
) -> None:
    table = HashedNoise((40,) if wide else ())
    noise = strategy.noise(table, range(start, start + length))
    for step in (start, start + length // 2, start + length - 1):
        np.testing.assert_array_equal(noise[step - start], read_at(table, strategy, step))
        widths = [float(node.weight) ** 2 for node in strategy.row(step)]
        assert strategy.variance([step])[0] == sum(widths)


@pytest.mark.parametrize(
    "strategy",
    [KAry(200_000, 19), KAry(200_000, 2), KAry(200_000, 5, False), SmoothBinary.best(140_000)],
    ids=repr,
)
def test_parts_of_long_streams_join(strategy: StreamStrategy) -> None:
    table, last = HashedNoise(), strategy.horizon or 0
    whole = strategy.noise(table, range(1, last + 1))
    for step in np.random.default_rng(1).integers(1, last + 1, 300).tolist():
        assert whole[step - 1] == read_at(table, strategy, step)
    cuts = (1, 7, 100_003, 131_000, last + 1)
    parts = [strategy.noise(table, range(*ends)) for ends in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


class Counted(HashedNoise):
    drawn = 0

    def run(self, level: int, nodes: range) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        self.drawn += len(nodes)
        return super().run(level, nodes)


@pytest.mark.parametrize("strategy", [Binary(1000), *SmoothBinary.examples(1000)], ids=repr)
def test_a_wide_stream_draws_what_its_rows_read_anew(strategy: StreamStrategy) -> None:
    table, rows = Counted((40,)), [set(strategy.row(step)) for step in range(1, 1001)]
    strategy.noise(table, range(1, 1001))
    assert table.drawn == sum(len(now - before) for before, now in pairwise([set(), *rows]))


def test_a_wide_step_draws_only_what_it_reads() -> None:
    tree, table = KAry(1000, 13), Counted((100,))
    for step in range(1, 1001):
        tree.noise(table, range(step, step + 1))
    assert table.drawn == tree.variance(range(1, 1001)).sum()


@pytest.mark.parametrize("horizon", [0, -1, True, 3.0, None, "8", 2**62 + 1])
@pytest.mark.parametrize(
    "kind",
    [
        Binary, HonakerOnline, KAry.best, LookAhead, MultiscaleInterpolation, SmoothBinary.even,
        SqrtToeplitz,
    ],
)  # fmt: skip
def test_bad_horizons(kind: Any, horizon: Any) -> None:
    with pytest.raises(InvalidInput, match=f"horizon is {horizon!r}"):
        kind(horizon)
