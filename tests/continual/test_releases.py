"""What releases say: intervals, windows, tables, guarantee and unit."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton.base.errors import CountonError, InvalidInputError
from counton.continual import Counter, Releases, StepRelease
from counton.privacy import ZCDP, ContributionBound, ExpiringDP, Guarantee, PureDP
from counton.state import Stream
from counton.strategies import (
    Binary,
    Expiring,
    GrowingCascade,
    HonakerOnline,
    KAry,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)

KEY = chosen_key()
FAMILIES: list[tuple[StreamStrategy, Guarantee]] = [
    (Binary(20), PureDP(1)), (KAry(20, 5), PureDP(2)), (SmoothBinary.best(20), ZCDP(1)),
    (HonakerOnline(20), ZCDP(1)), (SqrtToeplitz(20), ZCDP(1)),
    (Expiring(2, delay=2), ExpiringDP(1)), (GrowingCascade(5), ZCDP(1)),
]  # fmt: skip


def counter_of(strategy: StreamStrategy, guarantee: Guarantee, **changed: Any) -> Counter:
    return Counter(strategy, guarantee, **{"key": KEY, "name": "visits", **changed})


@pytest.mark.parametrize(("strategy", "guarantee"), FAMILIES, ids=repr)
def test_windows_equal_differences_of_releases(
    strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    counts = np.random.default_rng(3).integers(0, 50, (20, 2, 3))
    counter = counter_of(strategy, guarantee, shape=(2, 3))
    releases = counter.release_many(counts)
    each = [releases[place] for place in range(len(releases))]
    assert np.array_equal([one.value for one in each], releases.values)
    assert [one.step for one in each] == [*range(1, 21)]
    assert [one.std for one in each] == releases.std().tolist()
    assert releases[-1].step == 20
    for start, stop in ((1, 20), (4, 4), (3, 9), (19, 20)):
        if strategy.facts.release == "windows":
            with pytest.raises(InvalidInputError, match="must be running totals"):
                releases[stop - 1].since(releases[start - 1])
            continue
        alone = releases[stop - 1].since(releases[start - 1])
        assert np.array_equal(alone.value, releases.values[stop - 1] - releases.values[start - 1])
        assert alone.std == float(counter.window_std(start, stop))
        low, high = alone.interval(0.5)
        assert np.shape(low) == np.shape(high) == (2, 3)
        assert (low <= alone.value).all()
        assert (alone.value <= high).all()


def test_unreleased_steps_and_wrong_levels_are_refused() -> None:
    counter = counter_of(Binary(20), PureDP(1), shape=(3,))
    counter.release_many(np.ones((4, 3), int))
    releases = counter.release_many(np.ones((5, 3), int))  # steps 5 to 9
    assert [releases[place].step for place in range(-5, 5)] == [5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
    with pytest.raises(IndexError):
        releases[5]
    with pytest.raises(InvalidInputError, match=r"no slices: give one index.*releases\[4\]\.since"):
        releases[1:3]
    with pytest.raises(InvalidInputError, match="step 9 cannot be subtracted from step 5"):
        releases[0].since(releases[4])
    levels: list[Any] = [0, 1, -0.1, math.nan, "0.95x", None]
    for level in levels:
        for asked in (releases.table_columns, releases.interval, releases[4].interval):
            with pytest.raises(InvalidInputError, match="level is"):
                asked(level)


def test_only_an_earlier_release_of_this_stream_is_subtracted() -> None:
    releases, same = (counter_of(Binary(20), PureDP(1)).release_many([1] * 9) for _ in range(2))
    window = releases[5].since(same[1])
    assert (window.ends, window.value) == ((2, 6), releases[5].value - releases[1].value)
    others = (
        counter_of(Binary(20), PureDP(1), shape=(9,)),
        counter_of(Binary(20), PureDP(1), name="others"),
        counter_of(Binary(20), PureDP(2)),
        counter_of(KAry(20, 5), PureDP(1)),
    )
    wrong = [
        (releases[5], other.release_many(np.ones((9, *other.shape), int))[1]) for other in others
    ]
    wrong += [(releases[5], releases[6]), (releases[8], window), (window, releases[1])]
    for later, earlier in wrong:
        with pytest.raises(InvalidInputError) as caught:
            later.since(earlier)
        assert str(caught.value) == (
            f"step {earlier.step} cannot be subtracted from step {later.step}: give an earlier "
            "release of this stream, whose releases must be running totals"
        )


def test_tables_have_a_row_for_each_step_and_cell() -> None:
    unit = ContributionBound.values(0, 10, resolution="0.5")
    for shape, names in (((), []), ((4,), ["cell"]), ((2, 3), ["cell_0", "cell_1"])):
        counter = counter_of(Binary(20), PureDP(1), shape=shape, contribution=unit)
        releases = counter.release_many(np.ones((5, *shape)))
        table = releases.table()
        assert table.columns == [
            "window_index",
            *names,
            "estimate",
            "noise_std",
            "lower",
            "upper",
            "confidence_level",
        ]
        assert table["window_index"].to_list() == np.repeat(range(1, 6), math.prod(shape)).tolist()
        if shape == (2, 3):
            picked = table.filter(window_index=3, cell_0=1, cell_1=2)
            assert picked["estimate"].item() == releases.values[2, 1, 2]
        assert (table["upper"] - table["lower"] > 2 * table["noise_std"]).all()
        release = counter.release(np.ones(shape) if shape else 1.0)
        assert release.table().columns == table.columns
        low, high = release.interval()
        assert np.shape(low) == np.shape(high) == shape
        window = releases[4].since(releases[1])
        assert window.table().columns == [
            "window_index",
            "first_window",
            *names,
            *table.columns[-5:],
        ]


def test_notebooks_show_guarantee_unit_and_escaped_names() -> None:
    counter = counter_of(Binary(20), PureDP(1), name="<b>visits</b>", shape=(3,))
    releases = counter.release_many(np.ones((5, 3), int))
    shown: list[StepRelease | Releases] = [
        releases,
        counter.release([1, 1, 1]),
        releases[3].since(releases[0]),
    ]
    for each in shown:
        page = each._repr_html_()
        assert "&lt;b&gt;visits" in page
        assert "<b>visits" not in page
        assert "epsilon = 1" in page
        assert "added or removed" in page
        assert "<td>" in page
        assert each.guarantee == PureDP(1)
        assert each.contribution == ContributionBound.add_remove()
    assert "and 7 more rows" in releases._repr_html_()


def test_wrong_steps_of_a_stream_are_one_kind_of_error(tmp_path: Path) -> None:
    with Stream.create(tmp_path / "state.db", "visits", Binary(30), ZCDP(0.5)) as stream:
        stream.release_many([1, 2, 3])
        for wrong in ("3", 1.5, None, [1], math.nan, True):
            with pytest.raises(CountonError):
                stream.releases(wrong)  # type: ignore[arg-type]
            with pytest.raises(CountonError):
                stream.replay(wrong, 1)  # type: ignore[arg-type]
        with pytest.raises(CountonError, match="stop is '3'"):
            stream.releases(1, "3")  # type: ignore[arg-type]
        assert len(stream.releases(np.int64(2))) == 2  # type: ignore[arg-type]
