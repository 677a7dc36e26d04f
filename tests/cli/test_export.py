"""The command `export`: what was released, again, from the state alone."""

import io
import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import ContributionBound, Key, PureDP, Stream
from counton.base.errors import InvalidInputError
from counton.cli.print_forms import Console
from counton.results.terminal import text_table
from counton.run import Job, export, run
from counton.strategies import Binary

from .conftest import Workplace

Contents = Callable[[], dict[str, bytes]]
ROWS = ["00:10,a", "00:20,b", "01:10,a", "02:30,a", "03:30,b", "04:05,b"]


@pytest.fixture
def counted(place: Workplace) -> Workplace:
    """Four steps of two groups, in a state without its key: export needs none."""
    place.count(place.write("e.csv", ROWS), "--output", str(place.folder / "run.parquet")).fine()
    os.rename(f"{place.state}.key", place.folder / "elsewhere")
    return place


def read(path: Path) -> pl.DataFrame:
    ending = path.suffix
    if ending == ".csv":
        return pl.read_csv(path, try_parse_dates=True)
    return pl.read_json(path) if ending == ".json" else pl.read_parquet(path)


def test_a_table_is_that_of_the_run_byte_for_byte(counted: Workplace) -> None:
    out = counted.folder / "again.parquet"
    done = counted("export", str(counted.state), "--output", str(out)).fine()
    assert "Privacy: epsilon = 100 for each event" in " ".join(done.out.split())
    assert out.read_bytes() == (counted.folder / "run.parquet").read_bytes()


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".json"])
def test_each_export_format_has_numbers_and_guarantee(counted: Workplace, ending: str) -> None:
    out = counted.folder / f"table{ending}"
    assert counted("export", str(counted.state), "--output", str(out)).code == 0
    columns = [
        "window_index",
        "group",
        "estimate",
        "noise_std",
        "lower",
        "upper",
        "confidence_level",
    ]
    whole = pl.read_parquet(counted.folder / "run.parquet")
    assert read(out).select(columns).equals(whole.select(columns))
    beside = out.with_name(out.name + ".json")
    if ending == ".parquet":
        facts = json.loads(pl.read_parquet_metadata(out)["counton"])
        assert not beside.exists()
    else:
        facts = json.loads(beside.read_text())
    assert facts["guarantee"] == "pure differential privacy with epsilon = 100"
    assert (facts["unit"], facts["confidence_level"], facts["name"]) == ("event", 0.95, "count")
    assert "horizon=6" in facts["strategy"]


def test_any_steps_any_groups_and_any_level(counted: Workplace) -> None:
    middle = pl.col("window_index").is_between(2, 3)
    whole = pl.read_parquet(counted.folder / "run.parquet")
    cases: list[tuple[dict[str, Any], pl.Expr]] = [
        ({"windows": "2:3"}, middle),
        ({"windows": ":2"}, pl.col("window_index") <= 2),
        ({"windows": "4:"}, pl.col("window_index") == 4),
        (
            {"windows": range(2, 4), "groups": ["b"]},
            (pl.col("group") == "b") & pl.col("window_index").is_between(2, 3),
        ),
        (
            {"windows": "2013-01-01T01:00:2013-01-01T03:00"},
            pl.col("window_index").is_between(2, 3),
        ),
        (
            {"windows": "2013-01-01T00:30:", "groups": "a"},
            (pl.col("window_index") > 1) & (pl.col("group") == "a"),
        ),
    ]
    for options, kept in cases:
        assert export(counted.state, **options).table().equals(whole.filter(kept))
    turned = export(counted.state, groups="b,a", windows="1:1").table()
    assert turned["group"].to_list() == ["b", "a"]
    wide = export(counted.state, confidence_level=0.999).table()
    assert (wide["upper"] >= whole["upper"]).all()
    assert wide["estimate"].equals(whole["estimate"])


def test_export_works_while_writer_has_stream_open(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    with Stream.create(state, "visits", Binary(30), PureDP(1), shape=(2,)) as stream:
        stream.release_many([[1, 2], [3, 4], [5, 6]])
        found = export(state, windows="2:3", confidence_level=0.9)
        assert found.table().columns == [
            "window_index",
            "cell",
            "estimate",
            "noise_std",
            "lower",
            "upper",
            "confidence_level",
        ]
        assert found.table()["estimate"].to_list() == stream.releases(2).values.ravel().tolist()
        assert stream.release([7, 8]).step == 4
        with pytest.raises(InvalidInputError, match=r"was not made from events|a chart shows"):
            found.figures()


def test_the_screen_and_json_show_the_same_rows(counted: Workplace) -> None:
    shown = counted("export", str(counted.state), "--windows", "4:4", "--groups", "a")
    asked = counted("export", str(counted.state), "--windows", "4:4", "--groups", "a", "--json")
    report = json.loads(asked.out)
    (row,) = report["rows"]
    assert report["steps"] == [4, 4]
    assert row["group"] == "a"
    assert str(row["estimate"]) in shown.out
    assert report["about"]["guarantee"].partition(" with ")[2] in " ".join(shown.out.split())


BAD = [
    (["--windows", "0:3"], 2, "--windows 0:3 is not within the released steps 1:4"),
    (["--windows", "3:9"], 2, "--windows 3:9 is not within the released steps 1:4"),
    (["--windows", "3:2"], 2, "the first before the last"),
    (["--windows", "x"], 2, "--windows x cannot be read as steps; write 25:48"),
    (
        ["--groups", "c"],
        2,
        "--groups names 'c', which is not a group of this release. Choose from a, b",
    ),
    (["--groups", "a,a"], 2, "--groups names 'a', twice"),
    (["--groups", ""], 2, "names '', which is not a group of this release"),
    (["--confidence-level", "1"], 2, "level is 1.0; it is the probability of an interval"),
    (["--confidence-level", "nan"], 2, "level is nan"),
    (["--confidence-level", "high"], 2, "'high' is not a number"),
    (["--windows", "2014-01-01:"], 2, "no released window lies between the times of --windows"),
    (["--windows", ":2013-01-01T00:30"], 2, "give times between 20"),
    (["--windows", "yesterday"], 2, "--windows yesterday cannot be read as steps"),
    (["--stream", "visits"], 2, "has no stream 'visits'; it has 'count'"),
    (
        ["--output", "t.xls"],
        2,
        "Give .parquet, .csv, .json for a table, .png, .svg, .pdf for a chart",
    ),
    (["--output", "no/t.csv"], 2, "the folder of 'no/t.csv' does not exist"),
    (["--title", "x"], 2, "--title x needs --output, because it"),
    (
        ["--title", "x", "--output", "t.csv"],
        2,
        "--title x needs --output, because it",
    ),
]


@pytest.mark.parametrize(("options", "code", "words"), BAD, ids=lambda value: str(value)[:40])
def test_export_refuses_invalid_options(
    options: list[str], code: int, words: str, counted: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(counted.folder)
    said = counted("export", str(counted.state), *options).refused(code)
    assert words in said


def test_export_refuses_output_whose_metadata_would_overwrite_state(counted: Workplace) -> None:
    (counted.folder / "state.db.json").write_text("{}")
    os.rename(counted.state, counted.folder / "x.csv.json")
    said = counted(
        *("export", str(counted.folder / "x.csv.json")),
        *("--output", str(counted.folder / "x.csv")),
    ).refused()
    assert "x.csv.json' is a file which the run reads or keeps" in said


def test_export_of_unreleasable_stream_states_reason(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a version that began streams whose noise their strategy cannot add up."""
    state = str(tmp_path / "s.db")
    Stream.create(state, "one", Binary(3), PureDP(1)).close()

    def refuse(self: Binary, distribution: object) -> None:
        raise InvalidInputError("sums of noise are not exact")

    monkeypatch.setattr(Binary, "_check_distribution", refuse)
    said = place("export", state).refused()
    assert "has released no step, and cannot release any" in said
    assert "(sums of noise are not exact), so there is nothing to export; end it" in said


def test_export_refuses_empty_state_and_needs_stream_name(tmp_path: Path, place: Workplace) -> None:
    state = str(tmp_path / "s.db")
    key = Key.generate()
    Stream.create(state, "one", Binary(3), PureDP(1), key=key).close()
    done = place("export", state)
    assert (done.code, "has released no step yet" in done.err) == (2, True)
    unit = ContributionBound.add_remove(unit="unit")
    Stream.create(state, "two", Binary(3), PureDP(1), key=key, contribution=unit).close()
    done = place("export", state)
    assert (done.code, "has 'one', 'two': choose with --stream" in done.err) == (2, True)
    assert place("export", str(tmp_path / "none.db")).code == 2
    done = place("export", state, "--stream", "one", "--groups", "a")
    assert "has released no step yet" in done.err
    with Stream.open(state, "one", key=key) as stream:
        stream.release(3)
    done = place("export", state, "--stream", "one", "--groups", "a")
    assert "--groups a does not apply to stream 'one', which was not made from events" in done.err


def test_exported_file_is_read_without_state(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    state = tmp_path / "s.db"
    events.write_text("time,seconds\n2024-03-01T09:00,3\n2024-03-02T09:00,4\n")
    windows: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 9}
    values: dict[str, Any] = {"value": "seconds", "lower": 0, "upper": 9, "resolution": 1}
    run(Job("average", events, state, until="latest-event", epsilon=1, **windows, **values)).close()
    found = export(state)
    shown = export(state).table()
    state.rename(tmp_path / "elsewhere.db")
    assert found.table().equals(shown)
    assert shown.height > 1
    assert not state.exists()


def test_table_for_pipe_has_one_line_per_row() -> None:
    """Also where lines are far wider than a screen: a frame would break each row into blocks."""
    names = [f"column {number}" for number in range(24)]
    rows = pl.DataFrame({name: ["a long name of a group", "b"] for name in names})
    written = io.StringIO()
    Console(width=80, file=written).write_table(text_table(rows))
    lines = written.getvalue().splitlines()
    assert [re.split(" {2,}", line) for line in lines] == [names, *map(list, rows.rows())]


def test_a_screen_breaks_no_date_and_no_number() -> None:
    rows = {
        "step": [1, 2],
        "window_start": [datetime(2024, 3, 1), datetime(2024, 3, 2)],
        "window_end": [datetime(2024, 3, 2), datetime(2024, 3, 3)],
        "estimate": [1234567, 7],
        "std": [2.0, 2.0],
    }
    for width in (100, 60, 25):
        screen = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
        screen.write_table(text_table(pl.DataFrame(rows)))
        shown = screen.terminal.export_text()
        if width == 25:
            assert shown.splitlines()[2].split() == ["window_end", "2024-03-02"]
        else:
            assert re.findall("[a-z_]+", shown.splitlines()[1]) == [*rows]
            assert "│ 2024-03-01 " in shown
            assert " 1,234,567 │" in shown


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_released_file_alone_is_exported_as_its_state_is(place: Workplace, ending: str) -> None:
    file = place.folder / f"run{ending}"
    assert place.count(place.write("e.csv", ROWS), "--output", str(file)).code == 0
    asked = ("--windows", "2:3", "--groups", "b,a", "--confidence-level", "0.9")
    tables = []
    for number, source in enumerate((str(place.state), str(file))):
        out = place.folder / f"again{number}.csv"
        assert place("export", source, *asked, "--output", str(out)).code == 0
        tables.append(
            [out.read_text(), place.folder.joinpath(f"again{number}.csv.json").read_text()]
        )
        chart = place.folder / f"c{number}.svg"
        assert place("export", source, "--output", str(chart)).code == 0
        assert "Running number of events" in chart.read_text()
    assert tables[0] == tables[1]
    assert len(tables[0][0].splitlines()) == 5
    third = place.folder / "third.json"  # what a file says of itself is said again
    assert place("export", str(place.folder / "again1.csv"), "--output", str(third)).code == 0
    assert json.loads(third.with_name("third.json.json").read_text()) == json.loads(tables[1][1])
    for words in (("--output", str(file)), ("--fit", "integers"), ("--windows", "9:9")):
        assert place("export", str(file), *words).code == 2


_ASKS = ("export",), ("publish",), ("publish", "--remove"), ("close",)
_OF_ALL = (("methods",), ("verify",), ("erase-user", "ann", "--yes"))


@pytest.mark.parametrize("words", [*_ASKS, *_OF_ALL], ids=" ".join)
def test_missing_or_wrong_stream_name_is_refused_without_change(
    place: Workplace, words: tuple[str, ...]
) -> None:
    state, (command, *more) = str(place.state), words
    for name in ("count", "second", "third"):
        assert place.count(place.write("e.csv", ROWS), "--stream", name).code == 0
    before = place.state.read_bytes()
    if words in _ASKS:
        done = place(command, state, *more)
        assert done.code == 2, done.err
        assert "the state has 'count', 'second', 'third': choose with --stream" in done.err
    said = place(command, state, *more, "--stream", "none").refused()
    assert "'none'" in said
    assert place.state.read_bytes() == before


def test_the_only_stream_is_ended_without_its_name(place: Workplace) -> None:
    assert place.count(place.write("e.csv", ROWS), "--stream", "visits").code == 0
    done = place("close", str(place.state), "--drop-waiting")
    assert (done.code, "stream 'visits' is closed" in done.out) == (0, True), done.err


def test_export_to_html_writes_page_and_release_refuses_html(counted: Workplace) -> None:
    out = counted.folder / "page.html"
    done = counted("export", str(counted.state), "--output", str(out), "--title", "Events").fine()
    assert f"page written to {out}" in " ".join(done.out.split())
    assert "<h1>Events</h1>" in out.read_text("utf-8")
    events = str(counted.folder / "e.csv")
    said = counted.count(events, "--output", "page.html", "--until", "2013-01-01T04:00").refused()
    assert "Export it afterwards: counton export STATE --output page.html" in said


def test_export_to_html_lists_steps_of_stream_without_windows(
    tmp_path: Path, place: Workplace
) -> None:
    state = str(tmp_path / "s.db")
    page = tmp_path / "page.html"
    with Stream.create(state, "one", Binary(3), PureDP(1), key=Key.generate()) as stream:
        stream.release(3)
    place("export", state, "--output", str(page)).fine()
    assert "<td>step 1</td>" in page.read_text("utf-8")


def test_group_that_is_misspelt_is_refused_with_the_nearest(
    tmp_path: Path, place: Workplace
) -> None:
    rows = "\n".join(["time,page", "2024-03-01T09:00,Zürich", "2024-03-02T09:00,home"])
    (tmp_path / "visits.csv").write_text(rows + "\n", "utf-8")
    state = str(tmp_path / "visits.db")
    words = ["--time", "time", "--every", "1d", "--start", "2024-03-01", "--windows", "9"]
    words += [
        "--group-by",
        "page",
        "--groups",
        "home,shop,Zürich",
        "--epsilon",
        "1",
        "--state",
        state,
    ]
    place("release", "count", str(tmp_path / "visits.csv"), *words).fine()
    said = place(
        "annotate", state, "--window", "2024-03-01", "--note", "wrong", "--group", "zurich"
    ).refused()
    assert "Did you mean 'Zürich'? Give one of home, shop, Zürich, or leave --group out" in said
    said = place("export", state, "--groups", "home,shopp").refused()
    assert "Did you mean 'shop'? Choose from home, shop, Zürich" in said
