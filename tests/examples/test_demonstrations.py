"""The demonstrations: what they print are commands, and the commands release what they say."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.cli.command_text import command_text
from examples.__main__ import main
from examples.departures import options_for


@pytest.mark.long
@pytest.mark.slow
def test_the_demonstration_counts_all_departures_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that it shows is tried beside it, and what it does in tests of counting."""
    folder = tmp_path / "demo"
    for said in ("Released 8,760 new windows", "No new window is due. Released: 8,760 of 8,760"):
        main(["--departures", "--folder", str(folder)])
        shown = capsys.readouterr()
        assert said in shown.out
        assert "not private" not in shown.err
    table = pl.read_parquet(folder / "releases.parquet")
    assert table.height == 8760 * 16
    last = table.tail(16)
    truth = pl.read_parquet(folder / "departures.parquet")["carrier"].value_counts()
    assert truth["count"].sum() == 336_776
    joined = last.join(truth, left_on="group", right_on="carrier")
    error = joined["estimate"] - joined["count"]
    assert joined.height == 16
    # Under a new key each time: even of a single Laplace noise, one of 10^8 draws is farther off.
    assert (error.abs() < 14 * joined["noise_std"]).all()
    bound = 8 * float(np.linalg.norm(joined["noise_std"]))
    assert abs(float(error.sum())) < bound < 500  # fewer than on a day
    assert (folder / "chart.png").stat().st_size > 50_000
    assert last["window_end"][0].isoformat() == "2014-01-01T00:00:00-05:00"


def test_demonstration_prints_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "departures.parquet").touch()
    (tmp_path / "carriers.csv").touch()
    options = options_for(str(tmp_path))
    shown = capsys.readouterr().out
    assert shown.startswith("$ counton release count ")
    assert command_text(options) in shown


def test_the_demonstration_without_an_end_is_a_command(tmp_path: Path) -> None:
    (tmp_path / "departures.parquet").touch()
    (tmp_path / "carriers.csv").touch()
    words = command_text(options_for(str(tmp_path), expire=True)).split()
    assert words[words.index("--expiration-growth") + 1] == "1.08"
    assert "--expiring" in words
    assert "--windows" not in words


@pytest.mark.long
@pytest.mark.slow
def test_cities_add_up_at_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hierarchy", "--folder", str(tmp_path)]
    main(words)
    table = pl.read_parquet(tmp_path / "populations.parquet")
    sums = table.group_by("tree_level").agg(pl.col("estimate").sum())["estimate"]
    assert sums.n_unique() == 1  # every level adds up to the same total, to the last bit
    capsys.readouterr()
    main(words)
    assert "Nothing new. Released before: " in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.slow
def test_statistics_of_departures_are_commands_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def only(*given: Any) -> None:
        ran.append(given[0].stream)

    monkeypatch.setattr("examples.departure_statistics.perform", only)
    main(["--statistics", "--folder", str(tmp_path)])
    shown = capsys.readouterr().out
    assert ran == ["top-k", "quantiles"]
    assert shown.count("$ counton release ") == 2
    assert "--shares 0.5,0.9" in shown
    for name in ("episodes", "triangles", "degrees"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    letters = pl.read_parquet(tmp_path / "letters.parquet")
    assert (len(letters), set(letters["airport"])) == (575, {"RDU", "CMH", "DTW", "other"})
    assert len(pl.read_parquet(tmp_path / "links.parquet")) == 1971
