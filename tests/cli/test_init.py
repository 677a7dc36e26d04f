"""``counton init``: from a file to a job file that runs."""

import gzip
import re
import sqlite3
import subprocess
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from forked_commands import forked_python

import counton
from counton.job.statistics.count import CountJob
from counton.run import run
from counton.run.new_job import input_preview
from counton.run.spec.parsing import microseconds_of
from tests.cli.conftest import Result, Workplace

#: Loans on local clocks of Berlin: also in the hour that comes twice, and in one that is skipped.
LOANS = (
    "reader,branch,borrowed_at\n"
    "ann,north,2020-10-24 09:00\n"
    "ann,south,2020-10-24 10:00\n"
    "ann,north,2020-10-24 11:00\n"
    ",north,2020-10-24 12:00\n"
    "bob,,2020-10-24 13:00\n"
    "bob,north,2020-10-25 02:30\n"
    "cyd,east,2020-10-25 04:00\n"
    "dan,south,2020-03-29 02:30\n"
)
#: All that no file of loans tells.
SAID = (
    *("--timezone", "Europe/Berlin", "--start", "2020-10-24", "--until", "latest-event"),
    *("--user", "reader", "--max-contributions", "2"),
    *(
        "--contribution-period",
        "1d",
        "--epsilon",
        "100",
        "--group-by",
        "branch",
        "--groups",
        "north,south",
    ),
    *("--other-group", "other"),
)


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    (tmp_path / "loans.csv").write_text(LOANS)
    return tmp_path


@pytest.fixture
def init(loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(loans)
    return lambda *words: place.plain("init", *words)


def job_of(folder: Path, file: str = "nightly.toml") -> dict[str, Any]:
    (job,) = tomllib.loads((folder / file).read_text())["jobs"].values()
    return dict(job)


def test_init_comments_each_key_and_writes_no_exact_number(
    init: Callable[..., Result], loans: Path
) -> None:
    done = init("loans.csv", *SAID)
    assert done.code == 0, done.err
    assert "Next: counton run nightly.toml --dry-run" in done.out
    assert "Each run must read all rows since start." in done.out
    assert re.search(r"in each window +±", done.out)
    assert job_of(loans) == {
        "statistic": "count", "events": "loans.csv", "state": "loans.counton.db", "windows": 3653,
        "time": "borrowed_at", "every": "1d", "start": "2020-10-24", "timezone": "Europe/Berlin",
        "until": "latest-event", "release-delay": "0s", "max-empty-windows": 0,
        "group-by": ["branch"], "groups": "north,south",
        "privacy-unit": "user",
        "epsilon": "100", "other-group": "other", "series": "per-window", "user": "reader",
        "max-contributions": 2,
        "contribution-period": "1d", "ambiguous": "earliest",
        "bad-rows": "quarantine:loans.unreadable.csv",
        "missing-values": "drop", "output": "loans.released.csv",
    }  # fmt: skip
    lines = (loans / "nightly.toml").read_text().partition("[jobs.loans]\n")[2].splitlines()
    assert all(line.startswith("# ") for line in lines[::2])
    assert not any(line.startswith("#") for line in lines[1::2])
    above = lines[lines.index("max-empty-windows = 0") - 1]
    assert above.endswith(
        " With 0, one such window stops a run. If no row is expected on some days, "
        "write the largest number of such days in a row."
    )
    assert "2020-10-25" not in "".join(lines)


#: What three nights' files say when they hold what is new, two days, or all rows.
NIGHTS = {
    "new": ["2024-03-01 1 2 3", "2024-03-02 4 5", "2024-03-03 6"],
    "2d": ["2024-03-01 1 2 3", "2024-03-01 1 2 3\n2024-03-02 4 5", "2024-03-02 4 5\n2024-03-03 6"],
    "all": [
        "2024-03-01 1 2 3",
        "2024-03-01 1 2 3\n2024-03-02 4 5",
        "2024-03-01 1 2 3\n2024-03-02 4 5\n2024-03-03 6",
    ],
}
LINES = {"new": {"append": True}, "2d": {"lookback": "2d"}, "all": {}}


@pytest.mark.parametrize("holds", [*NIGHTS])
def test_written_job_runs_each_night_on_any_form_of_file(
    loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    monkeypatch.chdir(loans)

    def written(night: int) -> None:
        lines = [line.split() for line in NIGHTS[holds][night].split("\n")]
        rows = [f"{day}T0{hour}:00Z" for day, *hours in lines for hour in hours]
        Path("visits.csv").write_text("\n".join(["at", *rows]) + "\n")

    written(0)
    words = [
        "--privacy-unit",
        "visit",
        "--timezone",
        "UTC",
        "--start",
        "2024-03-01",
        "--epsilon",
        "100",
    ]
    words += ["--release-delay", "0s", *([] if holds == "2d" else ["--until", "latest-event"])]
    words += {"new": ["--append"], "2d": ["--lookback", "2d"], "all": []}[holds]
    assert place.plain("init", "visits.csv", *words).code == 0
    job = job_of(loans)
    assert {key: job[key] for key in ("append", "lookback") if key in job} == LINES[holds]
    for night in range(3):
        written(night)
        ran = place.plain("run", "nightly.toml", "--until", f"2024-03-0{night + 2}").fine()
        assert "Released 1 new window" in ran.out
    counts = pl.read_csv("visits.released.csv")["estimate"].to_list()
    assert counts == [3, 2, 1]  # at epsilon 100 noise is 0 but once in e^100 times


@pytest.mark.parametrize(
    ("days_of_rows", "until", "is_released"),
    [
        ((), 3, False),
        ((), 4, False),
        ((2,), 3, True),
        ((2,), 4, False),
        ((3,), 4, False),
        ((2, 3), 4, True),
    ],
)
def test_new_rows_stop_at_empty_windows_as_their_job_file_says(
    loans: Path,
    place: Workplace,
    monkeypatch: pytest.MonkeyPatch,
    days_of_rows: tuple[int, ...],
    until: int,
    is_released: bool,
) -> None:
    """After 1 March, a file has rows of some days of March; two or three days are due."""
    monkeypatch.chdir(loans)
    Path("visits.csv").write_text("at\n2024-03-01T09:00Z\n")
    words = ["--privacy-unit", "visit", "--timezone", "UTC", "--start", "2024-03-01", "--append"]
    words += ["--release-delay", "0s", "--until", "2024-03-02"]
    assert place.plain("init", "visits.csv", *words).code == 0
    lines = Path("nightly.toml").read_text().splitlines()
    assert ("With 0, one such window stops a run.") in lines[
        lines.index("max-empty-windows = 0") - 1
    ]
    place.plain("run", "nightly.toml").fine()
    rows = [f"2024-03-0{day}T09:00Z" for day in days_of_rows]
    Path("visits.csv").write_text("\n".join(["at", *rows]) + "\n")
    done = place.plain("run", "nightly.toml", "--until", f"2024-03-0{until}")
    assert (done.code == 0) == is_released, done.err


@pytest.mark.parametrize("words", [(), ("--group-by", "branch"), ("--user", "reader")])
def test_init_leaves_unstated_keys_empty_and_run_names_them(
    loans: Path, init: Callable[..., Result], place: Workplace, words: tuple[str, ...]
) -> None:
    done = init("loans.csv", *words)
    assert done.code == 0, done.err
    empty = [key for key, value in job_of(loans).items() if value == ""]
    last = {
        (): ["user", "max-contributions", "contribution-period"],
        ("--group-by", "branch"): [
            "groups",
            "other-group",
            "user",
            "max-contributions",
            "contribution-period",
        ],
        ("--user", "reader"): ["max-contributions", "contribution-period"],
    }[words]
    assert empty == ["timezone", "start", "until", *last]
    assert f"before the first run: {', '.join(empty)}." in done.out
    text = (loans / "nightly.toml").read_text()
    assert ("the column that names the user (reader, branch)" in text) == ("user" in empty)
    said = place.plain("run", "nightly.toml").refused()
    assert f"these keys are empty: {', '.join(empty)}." in said
    assert not (loans / "loans.counton.db").exists()


@pytest.mark.parametrize(
    ("columns", "rows", "offered"),
    [
        (("reader", "fee"), (("ann", "1.5"), ("bob", "2")), "names the user (reader), with"),
        (("reader", "fee"), (("17.0", "1.50"), ("18.0", "2")), "names the user (reader), with"),
        (("fee",), (("1.5",), ("2",)), "names the user, with"),
    ],
)
def test_init_offers_no_column_of_fractions_as_user(
    columns: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    offered: str,
    loans: Path,
    init: Callable[..., Result],
) -> None:
    lines = [("time", *columns), *(("2026-03-01T09:00", *row) for row in rows)]
    (loans / "loans.csv").write_text("\n".join(map(",".join, lines)) + "\n")
    assert init("loans.csv").code == 0
    assert offered in (loans / "nightly.toml").read_text()


def test_init_chooses_no_user_column_by_its_name(
    loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    """Neither a device nor a visitor: the operator says it, at every door."""
    rows = ["time,device,visitor,email,user", *["2024-03-01T09:12Z,phone,ann,a@b,u1"] * 3]
    (loans / "visits.csv").write_text("\n".join(rows) + "\n")
    assert init("visits.csv").code == 0
    assert job_of(loans)["user"] == ""
    refused = place.plain("release", "count", "visits.csv")
    assert "to protect users: --user COLUMN --max-contributions N" in refused.err
    command = refused.err.partition("as in:")[2]
    assert "--user" not in command
    people = place.plain("release", "reach", "visits.csv")
    assert "--user COLUMN" in people.err
    with pytest.raises(counton.CountonError) as error:
        counton.release("reach", pl.read_csv(loans / "visits.csv"))
    assert "user=COLUMN" in str(error.value)
    for said in (people.err, str(error.value)):
        assert not any(f"user{sign}{name}" in said for sign in " =" for name in rows[0].split(","))


@pytest.mark.parametrize("year", ["2020", "2999"])
def test_init_leaves_start_empty_for_any_year(
    loans: Path, init: Callable[..., Result], year: str
) -> None:
    """Days before the first row would be released as noise alone."""
    (loans / "loans.csv").write_text(LOANS.replace("2020", year))
    assert init("loans.csv").code == 0
    assert job_of(loans)["start"] == ""


@pytest.mark.parametrize(
    ("column", "noticed"), [("count", True), ("N", True), ("Total", True), ("country", False)]
)
def test_init_notes_column_that_may_hold_counts(
    column: str, noticed: bool, loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    rows = [f"time,site,{column}", "2024-03-01T09:12Z,bridge,17", "2024-03-02T09:12Z,bridge,4"]
    (loans / "passages.csv").write_text("\n".join(rows) + "\n")
    note = f"each counted row is one event. If column {column!r} has the number of events of a row"
    assert (note in init("passages.csv").err) == noticed
    words = ["release", "count", "passages.csv", "--time", "time", "--every", "1d", "--start",
             "2024-03-01", "--windows", "9", "--epsilon", "1"]  # fmt: skip
    assert (note in place.plain(*words, "--until", "2024-03-02").err) == noticed
    assert note not in place.plain("release", "count", "passages.csv", "--until", "2024-03-03").err
    again = place.plain(*words, "--until", "2024-03-02", "--state", "by.db", "--group-by", column,
                        "--groups", "17,4")  # fmt: skip
    assert (again.code, note in again.err) == (0, False)  # it is used


def documented_schedules() -> dict[str, tuple[int, int]]:
    """Hour and minute of each nightly run in the pages and in the files for operators."""
    root = Path(__file__).parents[2]
    line = re.compile(
        r"OnCalendar=\*-\*-\* (\d\d):(\d\d)"
        r"|^ *(?:schedule: |\"schedule\": )?\"?(\d+) (\d+) \* \* \*",
        re.MULTILINE,
    )
    found = {}
    operated = (file for file in (root / "deploy").rglob("*.*") if file.suffix != ".pyc")
    for file in (*sorted((root / "docs").rglob("*.md")), *sorted(operated)):
        for hour, minute, cron_minute, cron_hour in line.findall(file.read_text("utf-8")):
            found[file.name] = (int(hour or cron_hour), int(minute or cron_minute))
    return found


def test_release_delay_of_daily_job_ends_before_documented_schedules(
    init: Callable[..., Result], loans: Path
) -> None:
    """Else each number would be published a night late."""
    assert init("loans.csv", *SAID).code == 0
    wait = microseconds_of(job_of(loans)["release-delay"]) / 60_000_000
    schedules = documented_schedules()
    assert {"scheduled-job.md", "counton.timer", "nightly.py", "nightly.yaml"} <= {*schedules}
    for name, (hour, minute) in schedules.items():
        is_after_change = hour >= 3  # clocks that go forward skip an hour before
        assert 60 * (hour - is_after_change) + minute >= wait, name


def test_init_of_counts_writes_job_that_sums_them(
    loans: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(loans)
    rows = ["day,site,count", "2024-03-01T09:12Z,bridge,17", "2024-03-02T09:12Z,bridge,4"]
    Path("passages.csv").write_text("\n".join(rows) + "\n")
    said = ["--time", "day", "--start", "2024-03-01", "--until", "latest-event", "--group-by",
    "site",
            "--groups", "bridge", "--other-group", "other", "--epsilon", "100"]  # fmt: skip
    left = place.plain("init", "passages.csv", *said, "--count-column", "count")
    assert "before the first run: privacy-unit." in left.out
    people = ["--count-column", "count", "--upstream-max-contributions", "3", "--force"]
    left = place.plain("init", "passages.csv", *said, *people)
    assert (left.code, "empty line" in left.out) == (0, False)  # a user is protected
    words = ["--count-column", "count", "--privacy-unit", "passage", "--force"]
    assert place.plain("init", "passages.csv", *said, *words).code == 0
    job = job_of(loans)
    assert (job["count-column"], job["privacy-unit"], "user" in job) == ("count", "passage", False)
    ran = place.plain("run", "nightly.toml", "--until", "2024-03-03T06:00").fine()
    assert "Number of passages" in ran.out
    assert pl.read_csv("passages.released.csv")["estimate"].to_list()[::2] == [17, 4]


def test_init_keeps_existing_job_file(loans: Path, init: Callable[..., Result]) -> None:
    assert init("loans.csv", *SAID).code == 0
    before = (loans / "nightly.toml").read_bytes()
    refused = init("loans.csv", *SAID, "--series", "cumulative")
    assert refused.code == 2
    assert "--save-job other.toml" in refused.err
    assert "--force" in refused.err
    assert (loans / "nightly.toml").read_bytes() == before
    assert init("loans.csv", *SAID, "--series", "cumulative", "--force").code == 0
    assert job_of(loans)["series"] == "cumulative"


def test_a_state_that_has_begun_is_not_taken(
    loans: Path, init: Callable[..., Result], place: Workplace
) -> None:
    assert init("loans.csv", *SAID).code == 0
    assert place.plain("run", "nightly.toml").code == 0
    refused = init("loans.csv", *SAID, "--force")
    assert refused.code == 2
    assert "--state other.db" in refused.err


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("none.csv", None, "'none.csv' is not a file"),
        ("empty.jsonl", b"", "no row that names a column, so there is nothing to look at. Give"),
        ("latin.csv", "at,branch\n2020-10-24T09:00Z,M\xfcnchen\n".encode("latin-1"), "not UTF-8"),
    ],
)
def test_init_refuses_files_that_run_refuses(
    loans: Path, init: Callable[..., Result], name: str, content: bytes | None, why: str
) -> None:
    if content is not None:
        (loans / name).write_bytes(content)
    refused = init(name)
    assert refused.code == 2
    assert why in refused.err, refused.err
    assert not (loans / "nightly.toml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("till.csv", "page,price\nhome,3\n"), ("two.csv", "sent,read\n2020-10-24,2020-10-25\n")],
)
def test_a_column_of_times_that_is_not_known_stays_open(
    loans: Path, init: Callable[..., Result], name: str, content: str
) -> None:
    (loans / name).write_text(content)
    assert init(name).code == 0
    assert job_of(loans)["time"] == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (("--max-contributions", "0"), "--max-contributions 0 is below 1"),
        (("--time", "branch"), "column 'branch' holds no times in a known format"),
        (("--state", "none/s.db"), "none/s.db cannot be created (its folder does not exist)"),
        (("--key", "none/key"), "key file none/key cannot be written (No such file or directory)"),
    ],
)
def test_a_bad_value_is_refused_and_nothing_is_written(
    loans: Path, init: Callable[..., Result], said: tuple[str, ...], why: str
) -> None:
    refused = init("loans.csv", *SAID, *said)
    assert refused.code in (2, 6)
    assert why in refused.err, refused.err
    assert [path.name for path in loans.iterdir()] == ["loans.csv"]


def test_semicolons_parquet_and_a_header_alone_are_read(
    loans: Path, init: Callable[..., Result]
) -> None:
    (loans / "semi.csv").write_text(LOANS.replace(",", ";"))
    pl.read_csv(loans / "loans.csv").write_parquet(loans / "loans.parquet")
    (loans / "header.csv").write_text(LOANS.partition("\n")[0] + "\n")
    assert init("semi.csv", *SAID, "--save-job", "semi.toml").code == 0
    assert job_of(loans, "semi.toml")["separator"] == ";"
    assert init("loans.parquet", *SAID, "--save-job", "parquet.toml").code == 0
    named = ("--time", "borrowed_at", "--save-job", "header.toml")
    done = init("header.csv", *SAID, *named)
    assert done.code == 0, done.err


def test_a_table_of_a_database_is_events_too(loans: Path, init: Callable[..., Result]) -> None:
    with closing(sqlite3.connect(loans / "library.db")) as database, database:
        database.execute("create table loans (reader text, branch text, borrowed_at text)")
        database.execute("insert into loans values ('ann', 'north', '2020-10-24 09:00')")
    database.close()
    due = "select * from loans where borrowed_at >= {since}"
    for query in ("select * from loans", due):
        words = ("--query", query, "--force", "--key", "env:COUNTON_KEY")
        done = init("sqlite:///library.db", *SAID, *words)
        assert done.code == 0, done.err
        assert job_of(loans)["query"] == query


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel counts no bytes read")
def test_init_reads_small_part_of_large_file(loans: Path) -> None:
    """Neither bytes that are read, nor memory, into which files are mapped, grow with the file."""
    rows = "ann,north,2020-10-24 09:00\n" * 1_000_000
    with (loans / "big.csv").open("w") as file:
        file.write("reader,branch,borrowed_at\n" + rows)
        file.truncate(10 * 2**30)
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from counton.cli.app import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "read = Path('/proc/self/io').read_text().split()[1]\n"
        "most = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"
        "print(read, most, file=sys.stderr)\n"
    )
    words = [forked_python(), "-c", program, "init", "big.csv", *SAID]
    done = subprocess.run(words, cwd=loans, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read, kilobytes = map(int, done.stderr.split())
    assert read < 2**27
    assert kilobytes < 2**20


def test_input_preview_hides_values_in_its_repr(loans: Path) -> None:
    job = counton.Job("count", str(loans / "loans.csv"), "s.db", time="borrowed_at")
    look = input_preview.look_at(job)
    assert "north" not in repr(look)
    assert "2020" not in repr(look)
    facts = look.confidential_counts(job)
    assert facts.newest == datetime(2020, 10, 25, 4, tzinfo=UTC)
    assert repr(facts) == "FirstFacts(secret)"


@pytest.mark.long
def test_init_writes_lengths_of_rolling_and_decayed_series(
    init: Callable[..., Result], loans: Path, place: Workplace
) -> None:
    assert init("loans.csv", *SAID, "--series", "rolling", "--last", "7d,28d").code == 0
    job = job_of(loans)
    assert (job["series"], job["last"]) == ("rolling", ["7d", "28d"])
    assert place.plain("run", "nightly.toml").code == 0
    decayed = (
        *("--series", "decayed", "--half-life", "7d", "--save-job", "decayed.toml"),
        *("--state", "decayed.db", "--output", "decayed.csv"),
    )
    assert init("loans.csv", *SAID, *decayed).code == 0
    assert job_of(loans, "decayed.toml")["half-life"] == "7d"
    refused = init("loans.csv", *SAID, "--series", "rolling", "--save-job", "other.toml")
    assert refused.code == 2
    assert not (loans / "other.toml").exists()


#: An export as a German spreadsheet writes it: months, and separators of thousands.
PANEL = "person;month;income\r\n" + "".join(
    f"{person};{month};{income}\r\n"
    for person in ("p1", "p2")
    for month, income in (("2024-01", "3.424,66"), ("2024-02", "812,5"), ("2024-03", "1.001,00"))
)


def test_init_names_columns_with_thousands_separators(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "panel.csv").write_bytes(b"\xef\xbb\xbf" + PANEL.encode())
    done = init("panel.csv")
    assert done.code == 0, done.err
    words = "confidential: column 'income' has thousands separators, as in 3.424,66."
    assert words in done.err
    said = " ".join(done.err.split())
    assert "cannot be read, except whole counts with points, as in 2.592, if decimal is" in said
    assert "Write numbers without thousands separators, as in 3424,66\n" in done.err
    assert "3424" not in (loans / "nightly.toml").read_text()


def test_init_shows_a_count_without_decimals(init: Callable[..., Result], loans: Path) -> None:
    """A count with decimals would be set aside."""
    (loans / "panel.csv").write_text(PANEL)
    done = init("panel.csv", "--count-column", "income")
    assert done.code == 0, done.err
    assert "Write numbers without thousands separators, as in 3424\n" in done.err


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("2.592", ",", 2592),
        ("3.424,00", ",", 3424),
        ("3.424,66", ",", None),
        ("2,592", ".", None),
        ("2.592", ".", None),
    ],
)
def test_counts_with_points_are_read_if_decimal_is_a_comma(
    text: str, decimal: Literal[".", ","], number: int | None, loans: Path
) -> None:
    """It is what ``init`` says of columns with thousands separators."""
    (loans / "counts.csv").write_text(f"day;n\n2024-03-01;{text}\n2024-03-01;1\n")
    job = CountJob(
        events=str(loans / "counts.csv"), state=str(loans / "counts.db"), time="day", every="1d",
        start="2024-03-01", windows=9, until="2024-03-02", epsilon=200, count_column="n",
        privacy_unit="visit", separator=";", decimal=decimal,
        bad_rows=f"quarantine:{loans}/bad.csv",
    )  # fmt: skip
    with run(job) as result:
        assert result.read().table()["estimate"].to_list() == [1 + (number or 0)]
        assert result.confidential_counts().rows.quarantined == (number is None)


@pytest.mark.parametrize(
    ("texts", "is_asked"),
    [
        (["850", "1.204"], True),
        (["850", "1.204", "12.5"], True),  # 12.5 is a mistake, and shows no decimal sign
        (["12.000", "850.000"], True),
        (["850", "1204"], False),
        (["850.0", "1204.0"], False),
        (["850", '"1,204"'], False),  # no decimal sign makes it a count
    ],
)
def test_init_asks_for_decimal_sign_of_counts_with_points(
    texts: list[str], is_asked: bool, init: Callable[..., Result], loans: Path
) -> None:
    rows = "".join(f"2024-03-{day:02},A,{text}\n" for day, text in enumerate(texts, start=1))
    (loans / "meals.csv").write_text(f"day,canteen,meals\n{rows}")
    done = init("meals.csv", "--count-column", "meals", "--privacy-unit", "meal")
    assert done.code == 0, done.err
    assert ('decimal = ""\n' in (loans / "nightly.toml").read_text()) is is_asked
    words = "confidential: column 'meals' has numbers that can be read in two ways, as in "
    assert (words in done.err) is is_asked


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("1.204", '1.204. Write decimal = "," if it means 1204; else write decimal = "."'),
        ("1,204", '1,204. Write decimal = "." if it means 1204; else write decimal = ","'),
    ],
)
def test_init_names_both_lines_for_a_number_with_two_meanings(
    text: str, lines: str, init: Callable[..., Result], loans: Path
) -> None:
    (loans / "towns.csv").write_text(f"day;people\n2024-03-01;{text}\n2024-03-02;850\n")
    assert f"can be read in two ways, as in {lines}" in init("towns.csv").err


def test_count_with_three_zeros_as_decimals_must_be_corrected_in_the_file(
    init: Callable[..., Result], loans: Path, place: Workplace
) -> None:
    """It is not read with a point as decimal sign. `init` and the run name this remedy."""
    (loans / "calls.csv").write_text("day,calls\n2024-03-01,4.000\n2024-03-02,12.000\n")
    words = ["--count-column", "calls", "--privacy-unit", "call", "--timezone", "UTC"]
    words += ["--start", "2024-03-01", "--until", "2024-03-03", "--bad-rows", "fail"]
    done = init("calls.csv", *words)
    assert (
        'in two ways, as in 4.000. Write decimal = "," if it means 4000; else write decimal = "."'
        ", and write whole counts into the file" in done.err
    )
    text = (loans / "nightly.toml").read_text()
    assert "counts such as 4.000 must be written as 4 in the file" in " ".join(text.split())
    (loans / "nightly.toml").write_text(text.replace('decimal = ""', 'decimal = "."'))
    refused = place.plain("run", "nightly.toml").refused()
    assert "else write counts without decimals, such as 4.000 as 4" in refused
    (loans / "calls.csv").write_text("day,calls\n2024-03-01,4\n2024-03-02,12\n")
    assert "Released 2 new windows" in place.plain("run", "nightly.toml").fine().out


def test_run_names_the_line_decimal_for_counts_with_points(
    init: Callable[..., Result], loans: Path, place: Workplace
) -> None:
    (loans / "meals.csv").write_text("day,meals\n2024-03-01,850\n2024-03-02,1.204\n")
    words = ["--count-column", "meals", "--privacy-unit", "meal", "--timezone", "UTC"]
    dates = ["--start", "2024-03-01", "--until", "2024-03-03"]
    assert init("meals.csv", *words, *dates, "--decimal", ".", "--bad-rows", "fail").code == 0
    refused = place.plain("run", "nightly.toml").refused()
    assert 'if points group thousands in this file, give decimal = ","' in refused


def test_init_asks_for_no_decimal_sign_that_it_is_given(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "meals.csv").write_text("day,meals\n2024-03-01,1.204\n2024-03-02,850\n")
    done = init("meals.csv", "--count-column", "meals", "--decimal", ",")
    assert "decimal" not in done.out + done.err
    assert 'decimal = ","\n' in (loans / "nightly.toml").read_text()


def test_init_asks_for_no_decimal_sign_of_columns_of_users_and_groups(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "e.csv").write_text("day,card,place\n2024-03-01,1.204,1.001\n2024-03-02,850,7\n")
    init("e.csv", "--user", "card", "--group-by", "place", "--groups", "1.001,7")
    assert "decimal" not in (loans / "nightly.toml").read_text()


@pytest.mark.parametrize("words", [["--count-column", "meals"], []])
def test_init_names_thousands_separators_of_numbers_with_commas(
    words: list[str], init: Callable[..., Result], loans: Path
) -> None:
    (loans / "meals.csv").write_text('day,meals\n2024-03-01,"1,204"\n2024-03-02,850\n')
    done = init("meals.csv", *words)
    assert "confidential: column 'meals' has thousands separators, as in 1,204." in done.err
    assert "Write numbers without thousands separators, as in 1204\n" in done.err


@pytest.mark.parametrize("until", ["2020-10-26", "2020-01-01", "2019-12-31", "0001-01-01"])
def test_init_leaves_start_empty_for_an_until_of_an_earlier_year(
    until: str, init: Callable[..., Result], loans: Path
) -> None:
    """No start is stated, so that none can be after it."""
    done = init("loans.csv", "--timezone", "UTC", "--until", until)
    assert done.code == 0, done.err
    lines = (loans / "nightly.toml").read_text()
    assert 'start = ""\n' in lines
    assert f'until = "{until}"\n' in lines


def test_init_names_no_start_that_is_not_stated(init: Callable[..., Result], loans: Path) -> None:
    words = ["--timezone", "UTC", "--until", "2020-01-15", "--every", "1mo"]
    assert init("loans.csv", *words).code == 0
    refused = init("loans.csv", *words, "--start", "2020-01-01", "--save-job", "other.toml")
    assert refused.code == 2
    assert "releases no window: the first one is 1 January to 31 January 2020" in refused.err


@pytest.mark.parametrize(
    ("days", "until"),
    [
        (["2024-03-01", "2024-03-04"], "2024-03-05"),
        (["2024-03-06", "2024-03-13", "2024-03-20"], "2024-03-27"),  # weeks begin on Wednesday
        (["2024-01-01", "2024-02-01", "2024-04-01"], "2024-05-01"),
    ],
)
def test_init_names_the_until_of_a_complete_file_without_a_start(
    days: list[str], until: str, init: Callable[..., Result], loans: Path
) -> None:
    (loans / "old.csv").write_text("day,n\n" + "".join(f"{day},7\n" for day in days))
    done = init("old.csv", "--timezone", "UTC", "--count-column", "n", "--privacy-unit", "visit")
    assert done.code == 0, done.err
    assert f'none follow, write until = "{until}" and release-delay = "0s"' in done.err
    remark = "For a complete file, the day after its last day, week or month"
    assert remark in (loans / "nightly.toml").read_text()


def test_init_names_no_until_for_weeks_whose_first_day_is_not_known(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "old.csv").write_text("day,n\n2024-03-05,7\n2024-03-06,7\n2024-03-07,7\n")
    words = ["--timezone", "UTC", "--every", "1w", "--count-column", "n"]
    assert "write until" not in init("old.csv", *words).err


def test_init_does_not_call_plain_numbers_or_addresses_thousands(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "e.csv").write_text("day;paid;ip\n2024-03-01;1234,5;10.0.0.17\n")
    assert "thousands" not in init("e.csv").err


def test_init_says_to_write_first_days_of_months(init: Callable[..., Result], loans: Path) -> None:
    (loans / "panel.csv").write_text(PANEL)
    done = init("panel.csv", "--time", "month")
    assert done.code == 0, done.err
    remark = "Column month has months without a day. Write their first day, as in 2024-03-01"
    assert remark in (loans / "nightly.toml").read_text()


@pytest.mark.parametrize(
    ("days", "every", "windows"),
    [
        (["2024-01-01", "2024-02-01", "2024-04-01"], "1mo", 120),
        (["2024-01-05", "2024-01-12", "2024-02-02"], "1w", 522),
        (["2024-01-01", "2024-02-01"], "1d", 3653),
        (["2024-01-01", "2024-02-01", "2024-03-02"], "1d", 3653),
        (["2024-01-01", "2024-02-01", "2024-03-01T09:00"], "1d", 3653),
    ],
)
def test_init_proposes_windows_of_months_or_weeks(
    days: list[str], every: str, windows: int, init: Callable[..., Result], loans: Path
) -> None:
    (loans / "panel.csv").write_text("day,income\n" + "".join(f"{day},1\n" for day in days * 2))
    assert init("panel.csv").code == 0
    job = job_of(loans)
    assert (job["every"], job["windows"]) == (every, windows)
    words = {"1mo": "first days of months alone", "1w": "one day of the week alone"}
    text = (loans / "nightly.toml").read_text()
    assert [length for length, remark in words.items() if remark in text] == (
        [every] if every in words else []
    )


@pytest.mark.parametrize(
    ("days", "every"),
    [
        (["2025-01-06", "2025-01-13"], "1w"),
        (["2024-01-01", "2024-02-01"], "1mo"),
        (["2025-01-06", "2025-01-14"], None),
        (["2025-01-06", "2025-01-13T09:00"], None),
        (["2025-01-06"], None),
        (["2025-01-06", "2025-01-13", "2025-01-20"], None),
    ],
)
def test_init_says_that_two_days_may_be_weeks_or_months(
    days: list[str], every: str | None, init: Callable[..., Result], loans: Path
) -> None:
    (loans / "panel.csv").write_text("day,income\n" + "".join(f"{day},1\n" for day in days * 5))
    done = init("panel.csv")
    assert ("confidential: the rows are of two days alone" in done.err) == (every is not None)
    if every is not None:
        assert f'set every = "{every}" in the job file' in " ".join(done.err.split())
    (loans / "nightly.toml").unlink()
    assert "two days" not in init("panel.csv", "--every", "1d").err


@pytest.mark.parametrize(("every", "lookback"), [("1d", "7d"), ("1w", "3w"), ("1mo", "3mo")])
def test_init_proposes_a_lookback_of_whole_windows(
    every: str, lookback: str, init: Callable[..., Result], loans: Path
) -> None:
    (loans / "panel.csv").write_text("day,income\n2024-01-01,1\n")
    assert f'set lookback = "{lookback}".' in " ".join(
        init("panel.csv", "--every", every).out.split()
    )


WEEKS = "week,loans\n" + "".join(f"2025-01-{day:02},5\n" for day in (6, 13, 20, 27))


def test_init_refuses_start_within_a_week_of_the_file(
    init: Callable[..., Result], loans: Path
) -> None:
    """1 January 2025 is a Wednesday, and the rows are of Mondays, from 6 January on."""
    (loans / "panel.csv").write_text(WEEKS)
    done = init("panel.csv", "--start", "2025-01-15")
    assert "give a Monday, as in --start 2025-01-13" in done.err
    done = init("panel.csv", "--start", "2025-01-01")
    assert "--start 2025-01-01 is a Wednesday" in done.err
    assert "give a Monday, as in --start 2025-01-06" in done.err
    assert done.code == 2
    assert not (loans / "nightly.toml").exists()
    assert init("panel.csv", "--start", "2024-12-30").code == 0


def test_init_takes_the_weekday_of_start_in_the_zone_of_the_windows(
    init: Callable[..., Result], loans: Path
) -> None:
    """23:00 UTC on Sunday is the beginning of Monday in Berlin."""
    (loans / "panel.csv").write_text(WEEKS)
    words = ("panel.csv", "--timezone", "Europe/Berlin", "--start")
    assert init(*words, "2024-12-29T23:00Z").code == 0
    (loans / "nightly.toml").unlink()
    done = init(*words, "2024-12-30T23:00Z")
    assert done.code == 2
    assert "--start 2024-12-31 is a Tuesday" in done.err


def test_init_takes_any_start_of_days(init: Callable[..., Result], loans: Path) -> None:
    (loans / "panel.csv").write_text(WEEKS)
    assert init("panel.csv", "--start", "2025-01-01", "--every", "1d").code == 0


def test_init_says_on_which_day_weeks_begin(init: Callable[..., Result], loans: Path) -> None:
    (loans / "panel.csv").write_text(WEEKS)
    assert init("panel.csv").code == 0
    assert "count, a Monday, on which weeks begin; it is" in (loans / "nightly.toml").read_text()


def test_init_says_to_run_a_job_after_its_empty_lines_are_filled(
    init: Callable[..., Result], loans: Path
) -> None:
    (loans / "panel.csv").write_text(WEEKS)
    out = init("panel.csv").out
    assert "Fill in these empty lines before the first run:" in out
    assert "Then: counton run nightly.toml --dry-run" in out
    assert "Next:" not in out


@pytest.mark.parametrize(
    "left_out",
    ["decimal", "until", "start", "timezone", "other-group", "privacy-unit", "groups"],
)
def test_init_shows_margin_with_empty_lines_that_do_not_change_it(
    left_out: str, init: Callable[..., Result], loans: Path
) -> None:
    counts = "day;garage;cars\n2024-03-01;north;1.204\n2024-03-02;south;1.100\n"
    (loans / "garages.csv").write_text(counts)
    answers = {
        "decimal": ",", "until": "2024-03-03", "start": "2024-03-01", "timezone": "Europe/Berlin",
        "other-group": "other", "privacy-unit": "car", "groups": "north,south",
        "group-by": "garage", "count-column": "cars",
    }  # fmt: skip
    depends_on_it = {"groups": "other-group", "start": "until"}
    left = {left_out, depends_on_it.get(left_out, left_out)}
    outputs = []
    for file, empty in (("whole.toml", set[str]()), ("part.toml", left)):
        words = [f"--{key}={value}" for key, value in answers.items() if key not in empty]
        outputs.append(init("garages.csv", *words, "--save-job", file).fine().out)
    whole, part = outputs
    assert "Fill in these empty lines" not in whole
    assert left_out in part.partition("before the first run: ")[2].partition(".\n")[0]
    margins = [[line for line in out.splitlines() if "±" in line] for out in outputs]
    assert margins[0] == margins[1]
    assert [line.split() for line in margins[1]] == [["in", "each", "window", *["±3"] * 3]]


def test_init_names_the_empty_lines_on_which_the_margin_depends(
    init: Callable[..., Result],
) -> None:
    shows = "filled in, counton plan nightly.toml shows the margin of error"
    out = init("loans.csv").fine().out
    assert f"{shows}, which depends on user and max-contributions." in out
    assert "±" not in out
    out = init("loans.csv", "--user", "reader", "--force").fine().out
    assert f"{shows}, which depends on max-contributions." in out
    out = init("loans.csv", "--user", "reader", "--max-contributions", "4", "--force").fine().out
    assert "±12 " in out


def test_init_keeps_stated_windows_of_monthly_rows(
    init: Callable[..., Result], loans: Path
) -> None:
    rows = "".join(f"2024-0{month}-01\n" for month in range(1, 7))
    (loans / "panel.csv").write_text(f"day\n{rows}")
    assert init("panel.csv", "--every", "1d").code == 0
    assert job_of(loans)["every"] == "1d"
    assert "first days of months" not in (loans / "nightly.toml").read_text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--contribution-period", "1w"),
            "For a number of each week, give --every 1w, and a Monday as --start",
        ),
        (
            ("--contribution-period", "1mo"),
            "For a number of each month, give --every 1mo, and the first day of a month",
        ),
        (("--contribution-period", "1w", "--every", "1w", "--start", "2024-03-04"), ""),
        (("--contribution-period", "1d"), ""),
    ],
)
def test_longer_period_of_users_brings_a_note_on_windows(
    options: tuple[str, ...], told: str, init: Callable[..., Result], loans: Path
) -> None:
    days = "".join(f"2024-03-{day:02}T09:00,ann\n" for day in range(1, 20))
    (loans / "e.csv").write_text(f"time,who\n{days}")
    users = ("--user", "who", "--max-contributions", "3", *options)
    done = init("e.csv", *users)
    assert done.code == 0
    assert told in done.err
    assert ("note: windows are days" in done.err) == bool(told)


@pytest.mark.parametrize(
    ("every", "start", "note"),
    [
        ("1w", "2024-03-05", "each window begins on a Tuesday, as the first one does. For weeks"),
        ("2w", "2024-03-10", "each window begins on a Sunday, as the first one does. For weeks"),
        ("1mo", "2024-03-05", "each window begins on day 5 of a month, as the first one does."),
        ("1w", "2024-03-04", None),
        ("1mo", "2024-03-01", None),
        ("1d", "2024-03-05", None),
    ],
)
def test_unusual_first_day_of_weeks_or_months_is_noted(
    every: str, start: str, note: str | None, init: Callable[..., Result]
) -> None:
    done = init("loans.csv", "--every", every, "--start", start)
    assert done.code == 0
    assert ("note: each window begins on" in done.err) == (note is not None)
    assert (note or "") in done.err


def test_margins_of_a_job_of_groups_are_those_of_the_job_as_it_is_written(
    init: Callable[..., Result], loans: Path
) -> None:
    """A note below them names lines that make the margins larger."""
    (loans / "e.csv").write_text("time,who,place\n2024-03-01T09:00,ann,home\n")
    users = ("--user", "who", "--max-contributions", "1", "--contribution-period", "1d")
    groups = ("--group-by", "place", "--groups", "home,shop", "--other-group", "other")
    times = ("--timezone", "UTC", "--start", "2024-03-01", "--until", "2024-03-02")
    done = init("e.csv", *users, *groups, *times, "--privacy-unit", "who").fine()
    assert done.out.count("Margins of error (95%) of the job as it is written:") == 1
    assert "Each further group makes the margins of error larger" in done.out


@pytest.mark.parametrize("name", ["loans.tsv", "loans.tsv.gz"])
def test_file_of_tabs_needs_no_option(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(place.folder)
    content = b"at\tbranch\n2024-03-01T09:00\tnorth\n2024-03-01T10:00\tsouth\n"
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    words = ["--timezone", "UTC", "--start", "2024-03-01", "--until", "2024-03-02"]
    place.plain("init", name, *words, "--privacy-unit", "loan", "--epsilon", "100").fine()
    job = tomllib.loads(Path("nightly.toml").read_text())["jobs"]["loans"]
    assert job["separator"] == "tab"
    place.plain("run", "nightly.toml").fine()
    assert pl.read_csv("loans.released.csv")["estimate"].to_list() == [2]
