"""The first command over a file: one refusal says all that is missing, and what to type instead."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import polars as pl
import pytest
from forked_commands import forked_counton

from counton.results.terminal import shown_rows
from counton.run.new_job.default_paths import state_beside
from counton.statistics.catalogue import keywords

from .conftest import Result, Workplace

HEADER = "borrowed_at,branch,reader_id,pages,shelf\n"
ROWS = ["2026-03-01T09:12Z,north,r1,3,a", "2026-03-02T09:40Z,south,r2,5,b"]


@pytest.fixture
def loans(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A folder with loans.csv, in which commands run."""
    monkeypatch.chdir(place.folder)
    (place.folder / "loans.csv").write_text(HEADER + "\n".join(ROWS) + "\n")
    return place


def refused(done: Result) -> list[str]:
    assert done.code == 2, done.out
    return str(done.err).replace(" \\\n   ", "").splitlines()


def command_in(lines: list[str]) -> list[str]:
    """The words of the command that a refusal shows."""
    return shlex.split(lines[lines.index("as in:") + 1])[1:]


def test_refusal_names_all_missing_options(loans: Workplace) -> None:
    lines = refused(
        loans.plain("release", "count", "loans.csv", "--group-by", "branch", "--user", "reader_id")
    )
    assert re.findall("--[a-z-]+", lines[0]) == [
        "--time", "--every", "--start", "--windows", "--epsilon", "--rho", "--groups",
        "--max-contributions",
        "--state", "--stream",
    ]  # fmt: skip
    assert lines[1].endswith("loans.csv: borrowed_at, branch, reader_id, pages, shelf")
    assert "  --windows 365: Number of windows of the stream." in lines
    words = command_in(lines)
    stated = dict(zip(words[3::2], words[4::2], strict=True))
    assert (words[:3], stated["--time"]) == (["release", "count", "loans.csv"], "borrowed_at")
    assert (stated["--group-by"], stated["--state"]) == ("branch", "loans.counton.db")
    assert not (loans.folder / "loans.counton.db").exists()
    stated["--groups"] = "north,south"
    stated["--start"] = "2026-03-01"
    edited = [word for pair in stated.items() for word in pair]
    assert (
        loans.plain("release", "count", "loans.csv", *edited, "--until", "latest-event").code == 0
    )


def test_refusal_lists_streams_of_existing_state(loans: Workplace) -> None:
    whole = ["--time", "borrowed_at", "--every", "1d", "--start", "2026-03-01", "--windows", "9"]
    named = ["release", "count", "loans.csv", "--stream", "loans"]
    assert loans.plain(*named, *whole, "--epsilon", "1", "--until", "latest-event").code == 0
    lines = refused(loans.plain("release", "count", "loans.csv", "--until", "latest-event"))
    kept, _, command = lines[1].partition("; to go on: counton ")
    assert kept == "loans.counton.db keeps stream loans"
    assert loans.plain(*shlex.split(command)).out.startswith("No new window is due")
    other = loans.plain(*named, "--every", "1h")
    assert "exists with other options: --every" in other.err


def test_link_to_counted_file_is_refused_without_stated_state(loans: Workplace) -> None:
    (loans.folder / "newest.csv").symlink_to("loans.csv")
    assert state_beside("newest.csv", append=False) == "newest.counton.db"
    whole = ["--time", "borrowed_at", "--every", "1d", "--start", "2026-03-01", "--windows", "9"]
    end = ["--epsilon", "1", "--until", "latest-event"]
    assert loans.plain("release", "count", "loans.csv", *whole, *end).code == 0
    line = refused(loans.plain("release", "count", "newest.csv", *whole, *end))[0]
    assert "link to a file that is counted in state loans.counton.db already" in line
    going_on = loans.plain(
        "release", "count", "newest.csv", "--state", "loans.counton.db", "--until", "latest-event"
    )
    assert going_on.out.startswith("No new window is due")


@pytest.mark.parametrize("name", keywords())
def test_the_command_of_a_refusal_lacks_nothing(name: str, loans: Workplace) -> None:
    bare = loans.plain("release", name, "loans.csv")
    lines = refused(bare)
    assert "loans.csv: borrowed_at, branch" in lines[1]
    again = loans.plain(*command_in(lines))
    assert "as in:" not in again.err  # the values may be wrong, and none is missing


def test_events_that_cannot_be_read_are_named_too(loans: Workplace) -> None:
    lines = refused(loans.plain("release", "count", "nowhere.csv"))
    assert len(lines) == 2
    assert "'nowhere.csv' is not a file" in lines[0]
    assert lines[1].startswith("a new stream of count needs --time, --every")


NEW = [
    "--time", "borrowed_at", "--every", "1d", "--start", "2026-03-01", "--windows", "9",
    "--epsilon", "1", "--until", "latest-event",
]  # fmt: skip


def test_later_command_finds_default_state(loans: Workplace) -> None:
    first = loans.plain("release", "count", "loans.csv", *NEW, "--save-job", "nightly.toml")
    assert first.code == 0, first.err
    kept = "Keep secret: loans.counton.db and loans.counton.db.key"
    assert kept in " ".join(first.out.split())
    assert "Otherwise a new stream begins and spends the privacy loss again" in " ".join(
        first.out.split()
    )
    state = loans.folder / "loans.counton.db"
    assert state.exists()
    again = loans.plain(
        "release", "count", str(loans.folder / "loans.csv"), "--until", "latest-event"
    )
    assert (again.code, "No new window is due" in again.out) == (0, True)
    assert kept not in " ".join(again.out.split())
    assert 'state = "loans.counton.db"' in (loans.folder / "nightly.toml").read_text()
    assert (
        "No new window is due" in loans.plain("run", "nightly.toml", "--until", "latest-event").out
    )
    assert sorted(one.name for one in loans.folder.glob("*.db")) == [state.name]
    other = loans.plain("release", "count", "loans.csv", *NEW, "--state", "other.db")
    assert "kept beside" not in other.out


@pytest.mark.parametrize("is_written", [False, True])
def test_file_of_bad_rows_is_named_as_secret(loans: Workplace, is_written: bool) -> None:
    """Nobody looks for a file that does not exist."""
    if is_written:
        with (loans.folder / "loans.csv").open("a") as file:
            file.write("soon\n")
    first = loans.plain("release", "count", "loans.csv", *NEW, "--bad-rows", "quarantine:bad.csv")
    assert (loans.folder / "bad.csv").exists() == is_written
    which = "the file of rows that cannot be read" if is_written else "if rows cannot be read"
    assert (
        f"Keep secret: loans.counton.db, loans.counton.db.key and bad.csv ({which}). "
    ) in " ".join(first.out.split())


def test_state_path_with_space_is_printed_quoted(loans: Workplace) -> None:
    (loans.folder / "all loans.csv").write_bytes((loans.folder / "loans.csv").read_bytes())
    spaced = loans.plain(
        "release", "count", "all loans.csv", *NEW
    )  # its name is quoted for a shell
    assert "Keep secret: 'all loans.counton.db' and" in " ".join(spaced.out.split())


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (["-"], "the events are no file, so the state has no usual name"),
        (["loans.csv", "--append"], "each file has new events"),
        (["loans.csv", "more.csv"], "there are several files, so the state has no usual name"),
        (
            ["sqlite:///loans.db", "--query", "SELECT 1"],
            "the events are no file, so the state has no usual name",
        ),
    ],
)
def test_events_without_a_name_that_stays_need_a_state(
    events: list[str], why: str, loans: Workplace
) -> None:
    (loans.folder / "more.csv").write_text(HEADER)
    (line,) = refused(loans.plain("release", "count", *events, *NEW))
    assert line.startswith("counton: --state is missing: ")
    assert why in line
    assert not list(loans.folder.glob("*.counton.db*"))


@pytest.mark.parametrize("events", [".", "./", "../logs", "*.csv", "sub/.."])
def test_default_state_of_folder_is_independent_of_working_directory(
    events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    wanted = tmp_path / state_beside("logs", append=True)
    assert wanted == tmp_path / "logs.counton.db"
    monkeypatch.chdir("logs")
    assert Path(state_beside(events, append=True)).resolve() == wanted
    monkeypatch.chdir("sub")
    assert Path(state_beside("..", append=True)).resolve() == wanted


def test_plan_option_creates_no_file(loans: Workplace) -> None:
    before = sorted(one.name for one in loans.folder.iterdir())
    said = loans.plain("release", "count", "loans.csv", *NEW, "--plan").out
    assert "Privacy: epsilon = 1 for each event" in said
    assert "Published: the cumulative total" in said
    assert sorted(one.name for one in loans.folder.iterdir()) == before


def test_plan_of_existing_stream_is_that_of_stream(loans: Workplace) -> None:
    assert loans.plain("release", "count", "loans.csv", *NEW).code == 0
    kept = (loans.folder / "loans.counton.db").read_bytes()
    done = loans.plain("release", "count", "loans.csv", "--plan", "--json")
    assert [*json.loads(done.out)["plans"]] == ["cumulative"]
    assert (loans.folder / "loans.counton.db").read_bytes() == kept


PAST = ["2024-03-01T09:12,home", "2024-03-03T08:05,home"]


@pytest.mark.parametrize("steps", ["9", "365", "3650"])
def test_command_suggested_for_past_data_is_accepted(steps: str, loans: Workplace) -> None:
    """A year that is over, one day of which has rows: the clock knows nothing of them."""
    (loans.folder / "past.csv").write_text("time,page\n" + "\n".join(PAST) + "\n")
    asked = [
        "release", "count", "past.csv", "--time", "time", "--every", "1d", "--start", "2024-03-01",
        "--windows", steps, "--epsilon", "1",
    ]  # fmt: skip
    (line,) = refused(loans.plain(*asked))
    found = re.findall(r"--until ([\w:+-]+)((?: with)? --allow-empty-windows)?", line)
    suggested = [(time, bool(yes)) for time, yes in found if time != "now"]
    assert ("latest-event", False) in suggested
    for number, (time, yes) in enumerate(suggested):
        words = ["--until", time, *["--allow-empty-windows"] * yes, "--state", f"{number}.db"]
        assert loans.plain(*asked, *words).code == 0, (line, words)


def test_a_unit_with_its_period_is_the_unit(loans: Workplace) -> None:
    people = (
        *NEW,
        "--user",
        "reader_id",
        "--max-contributions",
        "3",
        "--contribution-period",
        "1d",
    )
    done = loans.plain("release", "count", "loans.csv", *people, "--privacy-unit", "reader's day")
    assert done.code == 0, done.err
    assert "for each reader's day" in done.out
    assert "day's day" not in done.out
    again = loans.plain(
        "release", "count", "loans.csv", "--until", "latest-event", "--privacy-unit", "reader's day"
    )
    assert again.code == 0, again.err
    (line,) = refused(
        loans.plain(
            "release",
            "count",
            "loans.csv",
            *people,
            "--privacy-unit",
            "reader's week",
            "--state",
            "o.db",
        )
    )
    assert "give --privacy-unit reader" in line


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--windows", "9", "--epsilon", "1"),
        ("release", "count", "loans.csv", *NEW, "--save-job", "nightly.toml"),
        ("release", "count", "loans.csv", *NEW, "--json"),
    ],
)
def test_closed_output_pipe_is_no_error(words: tuple[str, ...], loans: Workplace) -> None:
    """As with ``| head -1``: nobody reads any more, and all is done all the same."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [forked_counton(), *words], stdout=write, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert ("--save-job" in words) == (loans.folder / "nightly.toml").exists()


def test_a_group_that_looks_like_a_range_is_refused(loans: Workplace) -> None:
    done = loans.plain(
        "release", "ranges", "loans.csv", "--label", "pages", "--groups", "0:99", "--rho", "1"
    )
    (line,) = refused(done)
    assert "--groups 0:99 would be a single group" in line
    assert "--lower, --upper and --cells" in line


def test_privacy_unit_person_is_described_as_one_row(loans: Workplace) -> None:
    asked = ("release", "ranges", "loans.csv", "--label", "shelf", "--groups", "a,b", "--rho", "1")
    out = loans.plain(*asked, "--privacy-unit", "person").out
    assert "100 people" not in out
    assert "Each event is treated as one person: a person with 100 events" in " ".join(out.split())


def test_help_describes_use_of_value_column(place: Workplace) -> None:
    for name, said in (
        ("quantiles", "whose quantiles are shown"),
        ("average", "whose mean or sum is"),
    ):
        assert said in " ".join(place.plain("release", name, "-h").out.split())


def test_average_without_time_is_refused_with_required_options(loans: Workplace) -> None:
    asked = ["release", "average", "loans.csv", "--value", "borrowed_at", "--lower", "0"]
    asked += ["--upper", "3", "--resolution", "1", "--group-by", "branch", "--groups", "a,b"]
    done = loans.plain(*asked, "--epsilon", "1", "--state", "s.db")
    assert done.code == 2
    assert "a new stream of average needs --time, --every, --start and --windows" in done.err


def test_a_level_that_equals_the_default_is_stated(loans: Workplace) -> None:
    run = ["release", "count", "loans.csv", *NEW, "--json"]
    for stated, level in (
        (["--confidence-level", "0.9"], 0.9),
        ([], 0.9),
        (["--confidence-level", "0.95"], 0.95),
    ):
        assert json.loads(loans.plain(*run, *stated).out)["confidence_level"] == level
    assert json.loads(loans.plain(*run).out)["confidence_level"] == 0.95


def test_screen_shows_requested_measures_first() -> None:
    rows = {"group": [*"abcdefgh"] * 3, "measure": [*["sum"] * 8, *["count"] * 8, *["mean"] * 8]}
    table = pl.DataFrame({**rows, "estimate": [float(number) for number in range(24, 0, -1)]})
    shown, said = shown_rows(table, ["mean"])
    assert [row[1] for row in shown.rows] == ["mean"] * 8 + ["sum"] * 8 + ["count"] * 4
    assert said == "the first 20 of 24 rows, mean first"


def test_hierarchy_refuses_list_of_groups_with_example_of_table(place: Workplace) -> None:
    events = place.folder / "e.csv"
    events.write_text("country,region\nA,B\n")
    said = place(
        "release", "hierarchy", str(events), "--levels", "country,region", "--groups",
        "north,south", "--epsilon", "1", "--state", str(place.state),
    ).refused(2)  # fmt: skip
    assert "--groups north,south is no table" in said
    assert "'country,region' and 'country A,region A'" in " ".join(said.split())


def test_a_revised_series_states_its_first_and_its_final_errors(place: Workplace) -> None:
    """Nobody stated a number of windows, so none is printed."""
    asked = shlex.split(
        "--time time --every 1d --allowed-lateness 2d --start 2024-03-01 --epsilon .1 "
        "--privacy-unit x"
    )
    for night, end, last in (("02", "03", "of the oldest"), ("05", "06", "when final")):
        file = place.folder / f"{night}.csv"
        file.write_text(f"time\n2024-03-{night}\n")
        words = ["--append", "--state", str(place.folder / "s.db"), "--until", f"2024-03-{end}"]
        done = place.plain("release", "count", str(file), *asked, *words).fine()
        assert "40,000" not in done.out
        text = " ".join(place.plain("methods", str(place.folder / "s.db")).out.split())
        said = (
            r"noise changes the numbers by at most (\S+) .when first published. "
            r"and (\S+) .([a-z ]+).\."
        )
        far = re.search(said, text)
        assert far is not None, text
        assert far[3] == last
        assert float(far[1]) < float(far[2])
