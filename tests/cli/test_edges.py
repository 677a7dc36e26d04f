"""Names that cannot be shown as they are, values that look like others, and what is found late."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton import Counter, Key, PureDP
from counton.base.errors import InvalidInputError
from counton.base.exact import exact
from counton.base.outside_input import shown_name
from counton.cli import statistic_run
from counton.run import Job, run
from counton.strategies import SqrtToeplitz, WindowVersions

from .conftest import Workplace

NAMES = ["\u200b", "a\nb", "c\x1b[2Jd"]
ROWS = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T09:00"], "page": NAMES[:2]})
NEW: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 9}
NEW |= {"epsilon": 1, "until": "2024-03-03"}
PAGE = Path(counton.__file__).parent / "serve" / "page"


def test_a_name_is_shown_in_one_line_everywhere(place: Workplace) -> None:
    run(Job("count", ROWS, place.state, group_by="page", groups=NAMES, **NEW)).close()
    table = str(place.folder / "t.json")
    assert place("export", str(place.state), "--output", table).code == 0
    assert {row["group"] for row in pl.read_json(table).to_dicts()} == {*NAMES}
    shown = [place("inspect", source).out for source in (str(place.state), table)]
    shown += [counton.read(table)._repr_html_(), place("export", table).out]
    for text in shown:
        assert r"a\nb" in text
        assert r"\u200b" in text
        assert not {"\u200b", "\x1b"} & {*text}
        assert "a\nb" not in text


def test_the_page_shows_names_as_the_screen_does(tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("needs node")
    shutil.copy(PAGE / "format.js", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    names = [*NAMES, "Äpfel, 東京", "\u202ertl", "👩\u200d👩"]
    script = (
        'import { nameOf, noteOf, shownName } from "./format.js";\n'
        'const row = { group: "x", estimate: 1 }, marked = { ...row, note: "late" };\n'
        'if (nameOf(marked) + noteOf(marked) + noteOf(row) !== "xlatenull") throw 0;\n'
        f"console.log(JSON.stringify({names!r}.map(shownName)));"
    )
    (tmp_path / "ask.js").write_text(script)
    done = subprocess.run([node, "ask.js"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = pl.Series([done.stdout]).str.json_decode(pl.List(pl.String))[0].to_list()
    for one, name in zip(read, names, strict=True):
        assert one == shown_name(name).replace(r"\n", r"\u000a").replace(r"\x1b", r"\u001b")


def test_page_names_rolling_and_decayed_sums(tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("needs node")
    shutil.copy(PAGE / "format.js", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "ask.js").write_text(
        """\
import { nameOf, publishedSeries, seriesWords } from "./format.js";
const rolling = { series: "rolling", last: [1, 7] };
const decayed = { series: "decayed", half_life: "1.5" };
const streams = [rolling, decayed, { series: "both" }, { series: "cumulative", last: [7] }];
const row = { series: "rolling", group: "x", n_windows: 7, estimate: 1, is_complete: false };
console.log(JSON.stringify([
  streams.map(publishedSeries),
  [rolling, streams[3]].map((one) => seriesWords(one, "rolling")),
  seriesWords(decayed, "decayed"),
  [nameOf(row), nameOf({ ...row, n_windows: 1 }), nameOf({ ...row, series: "cumulative" })],
]));
"""
    )
    done = subprocess.run([node, "ask.js"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    published, words, decayed_words, names = json.loads(done.stdout)
    assert published == [
        ["rolling"],
        ["decayed"],
        ["cumulative", "per-window"],
        ["cumulative", "rolling"],
    ]
    assert words == ["In the last windows", "In the last 7 windows"]
    assert decayed_words == "Sums in which a window counts half after 1.5 windows"
    assert names == ["x · last 7 windows", "x · last window", "x"]


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"epsilon": "１"}, "epsilon=１ is not a number"),
        ({"timezone": ""}, "timezone='' is not a time zone"),
        ({"max_empty_windows": -1}, "max_empty_windows=-1 is below 0"),
        ({"user": "time", "max_contributions": 1}, "user=time and time=time name the same column"),
        ({"user": "", "max_contributions": 1}, "user='' is empty; give the name of a column"),
        ({"time": ""}, "time='' is empty; give the name of a column"),
        ({"group_by": "page", "groups": []}, "groups is not a list of groups"),
        ({"group_by": "page", "groups": ["a", "a"]}, "^groups names the group 'a' twice"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    tmp_path: Path, stated: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(Job("count", ROWS, tmp_path / "s.db", **{**NEW, **stated}))
    assert not (tmp_path / "s.db").exists()


def test_numbers_have_digits_of_one_script() -> None:
    for text in ("１", "1٫5", "½", "1/３"):
        with pytest.raises(InvalidInputError, match="write decimal text or a fraction"):
            exact(text, "epsilon")


JOB = """
[jobs.visits]
statistic = "count"
events = "e.csv"
state = "state.db"
time = "time"
every = "1d"
start = "2024-03-01"
windows = 9
until = "2024-03-03"
epsilon = 1
"""


def test_run_refuses_invalid_publish_target_before_release(place: Workplace) -> None:
    words = "is a file, but no SQLite database: give a file of its own"
    ROWS.write_csv(place.folder / "e.csv")
    file = place.folder / "jobs.toml"
    file.write_text(f'{JOB}[publish]\nto = "e.csv"\n')
    for more in ((), ("--dry-run",)):
        done = place.plain("run", str(file), *more)
        assert (done.code, words in done.err) == (2, True), done.err
    assert not place.state.exists()


def test_single_failing_job_raises_its_error(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("here")

    ROWS.write_csv(place.folder / "e.csv")
    file = place.folder / "jobs.toml"
    file.write_text(JOB)
    monkeypatch.setattr(statistic_run, "run_and_report", fail)
    done = place.plain("run", str(file))
    assert (done.code, "run this job with --only" in done.err) == (1, True)
    with pytest.raises(ZeroDivisionError, match="here"):
        place.plain("run", str(file), "--only", "visits")


def test_refusal_states_its_advice_once(place: Workplace) -> None:
    file = place.folder / "jobs.toml"
    file.write_text(JOB.replace('"e.csv"', '"e\\u0000.csv"'))
    said = place.plain("run", str(file)).err
    assert said.count("correct it") == 1


def test_versions_beyond_noise_addresses_are_refused_at_start() -> None:
    strategy = WindowVersions(2**22, SqrtToeplitz(2000))
    with pytest.raises(InvalidInputError, match=r"would measure .* plan fewer steps"):
        Counter(strategy, PureDP(1), key=Key.generate(), name="visits", shape=(2000, 2))
