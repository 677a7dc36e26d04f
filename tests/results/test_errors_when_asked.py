"""Errors of counts and sums, which a release computes when it is asked for them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counton
from counton.base.errors import InvalidInputError
from counton.continual import halfwidths
from counton.continual.stream_errors import Errors
from counton.results.release_data import ReleaseData
from counton.results.terminal import screen_of


def released(folder: Path, days: int, **more: Any) -> counton.Release:
    lines = [f"2024-03-{day:02}T09:15" for day in range(1, days + 1)]
    (folder / "visits.csv").write_text("\n".join(["time", *lines, ""]))
    options: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01"}
    options |= {"windows": 365, "epsilon": 1}
    until = f"2024-03-{days:02}"
    events = folder / "visits.csv"
    state = folder / "visits.db"
    return counton.release("count", events, state=state, until=until, **options | more)


@pytest.mark.parametrize(
    "stream",
    [
        {},
        {
            "windows": None,
            "expected_windows": 30,
        },  # without a last step: the strategy grows with the stream
        {"strategy": "sqrt", "epsilon": None, "rho": 0.5},
    ],
    ids=["solved", "endless", "fractional"],
)
def test_later_computed_errors_belong_to_steps_of_release(
    tmp_path: Path, stream: dict[str, Any]
) -> None:
    first = released(tmp_path, 6, **stream)
    asked_at_once = copy.deepcopy(first).table()
    released(tmp_path, 12, **stream)
    assert first.table().equals(asked_at_once)
    design = first.numbers.design
    assert first.table()["noise_std"].to_list() == design.errors.std(range(1, 6)).tolist()
    expected = halfwidths(design.strategy, design.distribution, range(1, 6)).tolist()
    width = first.table().select((pl.col("upper") - pl.col("lower")) / 2).to_series()
    assert width.to_list() == expected
    assert first.only(range(2, 4)).table().equals(asked_at_once[1:3])


@pytest.mark.parametrize(
    "stream",
    [{}, {"series": "both"}, {"strategy": "sqrt", "epsilon": None, "rho": 0.5}],
    ids=["totals", "both", "fractional"],
)
def test_screen_computes_errors_of_shown_windows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: dict[str, Any]
) -> None:
    release = released(tmp_path, 30, **stream)
    with_all = copy.deepcopy(release).numbers
    assert with_all.series.totals is not None  # computes all errors
    asked = set[int]()
    halfwidths_of = Errors.halfwidths

    def recorded(self: Errors, steps: range, level: float) -> np.ndarray[Any, Any]:
        asked.update(steps)
        return halfwidths_of(self, steps, level)

    monkeypatch.setattr(Errors, "halfwidths", recorded)
    new_steps = range(27, 30)
    assert screen_of(release.numbers, new_steps) == screen_of(with_all, new_steps)
    assert asked == {*new_steps}


def test_errors_are_computed_in_copies_and_threads(tmp_path: Path) -> None:
    first = released(tmp_path, 6)
    sent = pickle.loads(pickle.dumps(first))  # noqa: S301 - its own bytes
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda _: first.table(), range(8)))
    assert all(table.equals(sent.table()) for table in tables)
    with pytest.raises(ValueError, match="read-only"):
        first.numbers.series.released.half[0] = 0


def test_another_level_computes_its_own_errors(tmp_path: Path) -> None:
    first = released(tmp_path, 6)
    wide = first.at(0.999)
    assert (wide.numbers.series.released.half > first.numbers.series.released.half).all()
    assert (wide.numbers.series.released.std == first.numbers.series.released.std).all()


def test_confidence_level_out_of_range_is_refused_before_release(tmp_path: Path) -> None:
    numbers = released(tmp_path, 3).numbers
    with pytest.raises(InvalidInputError, match="level"):
        ReleaseData.of(numbers.metadata, numbers.design, np.zeros((2, 1), np.int64), 1.5)
    with pytest.raises(InvalidInputError, match="level"):
        released(tmp_path, 3, confidence_level=1.5)
    with pytest.raises(InvalidInputError, match="level"):
        counton.release(
            "count", tmp_path / "visits.csv", state=tmp_path / "new.db", time="time", every="1d",
            start="2024-03-01", windows=9, until="2024-03-03", epsilon=1, confidence_level=1.5,
        )  # fmt: skip
    assert not (tmp_path / "new.db").exists()
