"""A chart is no reason to lose a release, nor to fill a nightly mail."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from programs import run_program

from counton import PureDP, release
from counton.base.errors import ChartWarning
from counton.charts import Caption, Curves, plot_totals, style
from counton.charts.style import save_figure
from counton.charts.totals import reach
from counton.cli.app import app

pytestmark = pytest.mark.slow  # most of it draws

VISITS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1 + n % 3, n) for n in range(24)],
        "page": [("home", "店舗 ☂")[n % 2] for n in range(24)],
        "x": [n % 7 for n in range(24)],
        "y": [n % 5 for n in range(24)],
    }
)
STREAM = "--time time --every 1d --start 2024-03-01 --windows 9 --until 2024-03-04 --epsilon 1"


def days(count: int) -> Any:
    return np.datetime64("2024-03-01", "us") + np.arange(count) * np.timedelta64(1, "D")


def counton(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words], prog_name="counton")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    VISITS.write_csv("visits.csv")
    return tmp_path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is drawn, something unforeseen goes wrong."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no room for an axis")

    monkeypatch.setattr(style, "heading_inches", fail)


def test_an_infinite_band_leaves_the_axis_to_the_numbers() -> None:
    estimates = np.linspace(4, 6, 20)[:, None]
    half = np.where(np.arange(20) < 5, np.inf, 1000.0 / 10.0 ** np.arange(20))[:, None]
    curves = Curves(days(20), ["mean"], estimates, estimates - half, estimates + half)
    low, high = reach(curves, [0])
    assert low == 0
    assert 6 < high < 10
    nothing = np.full((3, 1), np.nan)
    assert np.isfinite(reach(Curves(days(3), ["none"], nothing, nothing, nothing), [0])).all()


ASKED = f"release count visits.csv {STREAM} --state s.db --output t.csv --chart c.png".split()
NOT_DRAWN = "'c.png' was not drawn (ZeroDivisionError"


@pytest.mark.usefixtures("broken")
def test_release_is_kept_and_written_when_chart_fails(folder: Path) -> None:
    done = counton(*ASKED)
    assert done.exit_code == 1
    assert f"counton: {NOT_DRAWN}" in done.stderr
    assert "Released" in done.stdout
    assert "table written to t.csv" in done.stdout
    assert "c.png" not in done.stdout
    assert not (folder / "c.png").exists()
    assert pl.read_csv("t.csv").height


@pytest.mark.usefixtures("broken")
def test_json_report_names_chart_that_failed(folder: Path) -> None:
    done = counton(*ASKED, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert report["chart"] is None
    assert report["not_drawn"].startswith(NOT_DRAWN)


@pytest.mark.usefixtures("broken")
def test_export_of_chart_that_fails_ends_with_code_1(folder: Path) -> None:
    counton(*ASKED)
    done = counton("export", "s.db", "--output", "d.png")
    assert done.exit_code == 1
    assert done.stderr.startswith("counton: 'd.png' was not drawn (ZeroDivisionError")


@pytest.mark.usefixtures("broken", "folder")
def test_python_and_notebooks_get_their_release_though_the_chart_fails() -> None:
    with pytest.warns(ChartWarning, match="'c.png' was not drawn") as told:
        found = release(
            "count", VISITS, time="time", every="1d", start="2024-03-01", windows=9,
            until="2024-03-04", guarantee=PureDP(1), state="s.db", chart="c.png",
        )  # fmt: skip
    assert told[0].filename == __file__
    assert found.table().height == 3
    page = found._repr_html_()
    assert "<table" in page
    assert "no chart (ZeroDivisionError: no room for an axis)" in page


@pytest.mark.usefixtures("broken")
def test_one_chart_that_fails_stops_no_other_job(folder: Path) -> None:
    shared = 'events = "visits.csv"\ntime = "time"\nevery = "1d"\nstart = "2024-03-01"\n'
    shared += 'windows = 9\nuntil = "2024-03-04"\nepsilon = 1\n'
    jobs = f'[jobs.a]\nstatistic = "count"\nstate = "a.db"\nchart = "a.png"\n{shared}'
    jobs += f'[jobs.b]\nstatistic = "count"\nstate = "b.db"\noutput = "b.csv"\n{shared}'
    Path("jobs.toml").write_text(jobs)
    done = counton("run", "jobs.toml")
    assert done.exit_code == 1
    assert "counton: job a: 'a.png' was not drawn" in done.stderr
    assert pl.read_csv("b.csv").height == 3


def test_without_matplotlib_a_chart_is_refused_before_anything_is_released(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = counton(
        "release", "count", "visits.csv", *f"{STREAM} --state s.db --chart c.png".split()
    )
    assert done.exit_code == 1
    assert "charts need matplotlib" in done.stderr
    assert not (folder / "s.db").exists()


@pytest.mark.long
def test_chart_prints_no_warning_of_fonts_or_folders(folder: Path) -> None:
    (folder / "locked").mkdir()
    (folder / "locked").chmod(0o500)
    home = "/dev/null/home" if os.geteuid() == 0 else str(folder / "locked")
    words = f"{STREAM} --group-by page --groups".split()
    files = ["--state", "s.db", "--chart", "c.png"]
    program = "from counton.cli.__main__ import main; main()"
    done = run_program(
        [
            sys.executable,
            "-c",
            program,
            "release",
            "count",
            "visits.csv",
            *words,
            "home,店舗 ☂",
            *files,
        ],
        env={**os.environ, "HOME": home, "MPLCONFIGDIR": home, "XDG_CACHE_HOME": home},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (folder / "c.png").exists()


def test_letters_without_font_are_drawn_without_warning(tmp_path: Path) -> None:
    estimates = np.arange(6.0).reshape(3, 2)
    curves = Curves(days(3), ["東京", "🎪"], estimates, estimates - 1, estimates + 1)
    save_figure(plot_totals(curves, Caption("東京", "🎪", "ไทย")), tmp_path / "c.png")
    assert (tmp_path / "c.png").exists()
