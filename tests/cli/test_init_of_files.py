"""``counton init`` reads files in the style of public exports: their times, numbers and totals."""

import csv
import io
import json
import tomllib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from tests.cli.conftest import Workplace

#: The first moments of forty days, each at an hour and minute of its own.
MOMENTS = [
    datetime(2024, 3, 1) + timedelta(days=day, hours=day % 24, minutes=7 * day % 60, seconds=day)
    for day in range(40)
]
DAYS = [datetime(2024, 3, 1) + timedelta(days=day) for day in range(40)]
#: What is asked of every file of the past.
PAST = ["start", "until", "user", "max-contributions", "contribution-period"]


class Export(NamedTuple):
    """A file, and what ``init`` has to find in it.

    Attributes:
        name: Name of the file.
        content: Its bytes.
        empty: Lines that stay empty.
        lines: Some lines of the job file that do not.
    """

    name: str
    content: bytes
    empty: Sequence[str]
    lines: dict[str, Any]


def written(
    head: str, rows: Sequence[Sequence[object]], *, separator: str = ",", encoding: str = "utf-8"
) -> bytes:
    """Write CSV with lines as programs on Windows end them."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator)
    writer.writerow(head.split(separator))
    writer.writerows(rows)
    return file.getvalue().encode(encoding)


def parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


def json_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def stamps(moments: Sequence[datetime], form: str) -> list[str]:
    return [moment.strftime(form) for moment in moments]


def rows_of(form: str, moments: Sequence[datetime] = MOMENTS) -> list[list[str]]:
    """Rows of a time, a person and a page."""
    return [[text, f"p{number % 7}", "home"] for number, text in enumerate(stamps(moments, form))]


def epochs(factor: float) -> list[int]:
    start = datetime(1970, 1, 1)
    return [int((moment - start).total_seconds() * factor) for moment in MOMENTS]


def numbered(values: Sequence[object]) -> list[list[object]]:
    """Rows of a local time, a meter and a value."""
    times = stamps(MOMENTS, "%Y-%m-%d %H:%M")
    return [[time, "m", value] for time, value in zip(times, values, strict=True)]


LOCAL = ["timezone", *PAST]
UTC = PAST
FORMATS = {
    "%Y-%m-%d": (LOCAL, None),
    "%Y-%m-%d %H:%M": (LOCAL, None),
    "%Y-%m-%dT%H:%M:%S.000": (LOCAL, None),
    "%Y-%m-%dT%H:%M:%SZ": (UTC, None),
    "%Y-%m-%d %H:%M:%S+01:00": (LOCAL, None),
    "%Y-%m-%d %H:%M:%S UTC": (UTC, None),
    "%Y%m%d": (LOCAL, None),
    "%d.%m.%Y": (LOCAL, "%d.%m.%Y"),
    "%d.%m.%Y %H:%M": (LOCAL, "%d.%m.%Y %H:%M"),
    "%d/%m/%Y": (LOCAL, "%d/%m/%Y"),
    "%d/%m/%Y %H:%M:%S": (LOCAL, "%d/%m/%Y %H:%M:%S"),
    "%m/%d/%Y": (LOCAL, "%m/%d/%Y"),
    "%m/%d/%Y %I:%M:%S %p": (LOCAL, "%m/%d/%Y %I:%M:%S %p"),
    "%m/%d/%Y %I:%M%p": (LOCAL, "%m/%d/%Y %I:%M%p"),
    "%d-%m-%Y %H:%M": (LOCAL, "%d-%m-%Y %H:%M"),
    "%Y/%m/%d %H:%M:%S": (LOCAL, "%Y/%m/%d %H:%M:%S"),
    "%Y.%m.%d": (LOCAL, "%Y.%m.%d"),
    "%d %b %Y": (LOCAL, "%d %b %Y"),
    "%d-%b-%Y %H:%M": (LOCAL, "%d-%b-%Y %H:%M"),
    "%b %d, %Y": (LOCAL, "%b %d, %Y"),
    "%d/%b/%Y:%H:%M:%S +0000": (UTC, "%d/%b/%Y:%H:%M:%S %z"),
}
#: A format that no day decides; those of which none is known; and of years of two digits.
UNDECIDED = ["time-format", *LOCAL]
UNKNOWN = ["time", *UNDECIDED]

EXPORTS = [
    *(
        Export(
            f"time-{number}.csv",
            written("time,person,page", rows_of(form)),
            empty,
            {"time": "time", "time-format": known},
        )
        for number, (form, (empty, known)) in enumerate(FORMATS.items())
    ),
    Export(
        "early.csv",
        written("date,person,page", rows_of("%d/%m/%Y", MOMENTS[:9])),
        UNDECIDED,
        {"time": "date"},
    ),
    *(
        Export(f"unknown-{number}.csv", written("time,person,page", rows_of(form)), UNKNOWN, {})
        for number, form in enumerate(("%d.%m.%y", "%H:%M", "week %V"))
    ),
    # Separators, marks of byte order, and signs of decimals.
    Export(
        "semicolons.csv",
        written("Datum;Kunde;Seite", rows_of("%d.%m.%Y"), separator=";", encoding="utf-8-sig"),
        LOCAL,
        {"time": "Datum", "separator": ";", "decimal": None},
    ),
    Export(
        "tabs.csv",
        written("lent\treader\tbranch", rows_of("%Y-%m-%d %H:%M"), separator="\t"),
        LOCAL,
        {"time": "lent", "separator": "tab"},
    ),
    Export(
        "pipes.csv",
        written("at|who|what", rows_of("%Y-%m-%dT%H:%M:%SZ"), separator="|"),
        UTC,
        {"time": "at", "separator": "|"},
    ),
    Export(
        "meters.csv",
        written(
            "Zeit;Zähler;kWh",
            numbered([f"{number},{number % 10}25" for number in range(40)]),
            separator=";",
        ),
        LOCAL,
        {"separator": ";", "decimal": ","},
    ),
    Export(
        "money.csv",
        written("time;till;paid", numbered(["1.204,50", "7,00"] * 20), separator=";"),
        LOCAL,
        {"decimal": ","},
    ),
    Export(
        "quoted.csv",
        written("time,meter,kwh", numbered(["1,5", "0,25"] * 20)),
        LOCAL,
        {"separator": None, "decimal": ","},
    ),
    Export(
        "points.csv",
        written("time;meter;kwh", numbered(["1.5", "0.125"] * 20), separator=";"),
        LOCAL,
        {"decimal": None},
    ),
    Export(
        "doubtful.csv",
        written("time;town;people", numbered(["1.204", "3.100"] * 20), separator=";"),
        [*LOCAL[:3], "decimal", *LOCAL[3:]],
        {},
    ),
    *(
        Export(
            f"mixed-{name}.csv",
            written(f"time{separator}town{separator}people", numbered(texts), separator=separator),
            [*LOCAL[:3], "decimal", *LOCAL[3:]],
            {},
        )
        for name, separator, texts in (
            ("commas", ",", ["1.204", "850"] * 20),
            ("semicolons", ";", ["1.204", "850"] * 20),
            ("long", ",", ["1.204", "3.100"] * 20),
            ("once", ",", ["850"] * 39 + ["1.204"]),
        )
    ),
    *(
        Export(
            f"decimals-{number}.csv", written("time,meter,kwh", numbered(texts)), LOCAL,
            {"decimal": None},
        )
        for number, texts in enumerate((
            ["1.5", "2.25", "0.333", "1.204"] * 10,
            ["1.204", "0.850"] * 20,
            ["1204.500", "1.204"] * 20,
            ["12.0", "850.0"] * 20,
        ))
    ),
    Export(
        "fuel.csv",  # the price shows that the litres have three decimals
        written(
            "time,price,litres",
            [[*row[:1], "12.50", row[2]] for row in numbered(["1.204"] * 40)],
        ),
        LOCAL,
        {"decimal": None},
    ),
    Export(
        "towns.csv",  # the price does not show what 1.204 means in a column with 850
        written(
            "time,price,people",
            [[*row[:1], "12.50", row[2]] for row in numbered(["1.204", "850"] * 20)],
        ),
        [*LOCAL[:3], "decimal", *LOCAL[3:]],
        {},
    ),
    Export(
        "english.csv",
        written("time,town,people", numbered(["1,204", "3,100"] * 20)),
        LOCAL,
        {"decimal": None},
    ),
    # Numbers since 1970, and numbers that look like them.
    *(
        Export(
            f"{form}.csv",
            written("created_at,user", [[value, "u"] for value in epochs(factor)]),
            UTC,
            {"time": "created_at", "time-format": form},
        )
        for form, factor in (("epoch", 1), ("epoch_ms", 10**3), ("epoch_us", 10**6))
    ),
    Export(
        "log.jsonl",
        json_lines([{"ts": value + 0.25, "host": "a"} for value in epochs(1)]),
        UTC,
        {"time": "ts", "time-format": "epoch"},
    ),
    Export(
        "ride.csv",
        written(
            "timestamp,position_lat,position_long",
            [[value, 1_020_000_000 + value % 997, 1_106_000_000] for value in epochs(1)],
        ),
        UTC,
        {"time": "timestamp", "time-format": "epoch"},
    ),
    Export(
        "world.csv",
        written("counted,country,population", numbered([1_412_000_000] * 40)),
        LOCAL,
        {"time": "counted", "time-format": None},
    ),
    Export(
        "orders.csv",
        written("order_no,amount", [[1_700_000_000 + number, 3] for number in range(40)]),
        UNKNOWN,
        {},
    ),
    Export(
        "views.csv",  # hours such as 2024030100 would be seconds of the year 2034
        written("timestamp,views", [[text, 3] for text in stamps(DAYS, "%Y%m%d00")]),
        UNKNOWN,
        {},
    ),
    # Parquet and JSON.
    Export(
        "floats.parquet",
        parquet({"time": MOMENTS, "person": ["a"] * 40, "value": [1.5, 2.5] * 20}),
        LOCAL,
        {"time": "time"},
    ),
    Export(
        "taxi.parquet",
        parquet({"pickup_datetime": MOMENTS, "fare": [9.5] * 40, "zone": [1_200_000_000] * 40}),
        LOCAL,
        {"time": "pickup_datetime"},
    ),
    Export(
        "seconds.parquet",
        parquet({"timestamp": [value + 0.5 for value in epochs(1)], "degrees": [20.5] * 40}),
        UTC,
        {"time": "timestamp", "time-format": "epoch"},
    ),
    Export(
        "nanoseconds.parquet",
        parquet({"ts_ns": epochs(10**9), "host": ["a"] * 40}),
        UTC,
        {"time": "ts_ns", "time-format": "epoch_ns"},
    ),
    Export(
        "nested.parquet",
        parquet({"day": [day.date() for day in DAYS], "tags": [["a"]] * 40}),
        LOCAL,
        {"time": "day"},
    ),
    Export(
        "pushes.jsonl",
        json_lines(
            [
                {"id": "40000000001", "actor": {"row_id": 7}, "created_at": text}
                for text in stamps(MOMENTS, "%Y-%m-%dT%H:%M:%SZ")
            ]
        ),
        UTC,
        {"time": "created_at"},
    ),
    # Several columns of times, and lines that are no rows.
    Export(
        "stays.csv",
        written(
            "birth_date,admission_date,discharge_date,ward",
            [[text, text, text, "A"] for text in stamps(MOMENTS, "%d/%m/%Y")],
        ),
        ["time", *LOCAL],
        {"time-format": "%d/%m/%Y"},
    ),
    Export(
        "mixed.csv",
        written(
            "seen,entered",
            list(
                zip(stamps(MOMENTS, "%Y-%m-%d"), stamps(MOMENTS, "%m/%d/%Y %H:%M"), strict=True)
            ),
        ),
        ["time", *UNDECIDED],
        {},
    ),
    Export(
        "survey.csv",
        written("StartDate,Q1", [["Start Date", "How are you?"], ["row_id", "row_id"], *(
            [text, "4"] for text in stamps(MOMENTS, "%m/%d/%Y %H:%M")
        )]),
        LOCAL,
        {"time": "StartDate", "time-format": "%m/%d/%Y %H:%M"},
    ),
    Export(
        "gaps.csv",
        written("time,ward", [["" if number % 5 == 0 else text, "NA"] for number, text in
                              enumerate(stamps(MOMENTS, "%Y-%m-%d %H:%M"))]),
        LOCAL,
        {"time": "time"},
    ),
]  # fmt: skip


@pytest.fixture
def job_of_file(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[dict[str, Any], str]]:
    """Writes a file, calls ``init`` with it, and returns the job and what standard error says."""
    monkeypatch.chdir(tmp_path)

    def made(name: str, content: bytes, *words: str) -> tuple[dict[str, Any], str]:
        Path(name).write_bytes(content)
        done = place.plain("init", name, *words)
        assert done.code == 0, done.err
        (job,) = tomllib.loads(Path("nightly.toml").read_text("utf-8"))["jobs"].values()
        return dict(job), done.err

    return made


@pytest.mark.parametrize("export", EXPORTS, ids=[export.name for export in EXPORTS])
def test_init_of_export_detects_times_and_leaves_rest_empty(
    export: Export, job_of_file: Callable[..., tuple[dict[str, Any], str]]
) -> None:
    job, _ = job_of_file(export.name, export.content)
    assert [key for key, value in job.items() if value == ""] == list(export.empty)
    assert {key: job.get(key) for key in export.lines} == export.lines


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (
            "excel.csv",
            b"sep=;\nday;page\n2024-03-01;home\n",
            "names a separator (sep=;) and no columns. Remove that line",
        ),
        (
            "preamble.csv",
            b"Visits of 2024\nday,page,person\n" + b"2024-03-01,home,ann\n" * 9,
            "Remove the lines above the names of the columns",
        ),
        ("wide.csv", "day;page\n2024-03-01;home\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    ],
)
def test_init_refuses_file_that_is_no_table_with_advice(
    name: str,
    content: bytes,
    why: str,
    tmp_path: Path,
    place: Workplace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert why in place.plain("init", name).refused()
    assert not Path("nightly.toml").exists()


@pytest.mark.parametrize("total", ["Total", "TOTAL ", "Gesamt", "Ensemble", "all"])
def test_init_warns_of_rows_of_totals_and_run_refuses_them(
    total: str, place: Workplace, job_of_file: Callable[..., tuple[dict[str, Any], str]]
) -> None:
    rows = [[day, group] for day in ("2024-03-01", "2024-03-02") for group in ("A", "B", total)]
    words = [
        "--group-by",
        "region",
        "--groups",
        "A,B",
        "--privacy-unit",
        "visit",
        "--timezone",
        "UTC",
    ]
    words += ["--start", "2024-03-01", "--until", "latest-event", "--epsilon", "50"]
    job, said = job_of_file("visits.csv", written("day,region", rows), *words)
    assert [key for key, value in job.items() if value == ""] == ["other-group"]
    assert f"confidential: column 'region' has rows named {total!r}" in said
    assert "these keys are empty: other-group" in place.plain("run", "nightly.toml").refused()
    text = Path("nightly.toml").read_text("utf-8")
    assert "# Name of one more group, for rows of groups that are not listed, also for" in text
    Path("nightly.toml").write_text(text.replace('other-group = ""\n', ""), "utf-8")
    assert total.strip() in place.plain("run", "nightly.toml").refused()


def test_init_names_columns_that_may_hold_counts(
    job_of_file: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    rows = [
        [f"2024-03-{day:02}", 4200 + site, 31 * day + site]
        for day in range(1, 29)
        for site in range(2)
    ]
    _, said = job_of_file("bikes.csv", written("day,site_id,passed", rows))
    assert (
        "each counted row is one event. If a column of integers (passed) has the number of events"
        in said
    )
    _, said = job_of_file(
        "visits.csv", written("day,page,age", [["2024-03-01", "home", 40]] * 9), "--force"
    )
    assert "each counted row is one event" not in said


def test_init_reads_stated_column_of_numbers_as_epoch(
    job_of_file: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    content = written("x,user", [[value, "u"] for value in epochs(1)])
    job, _ = job_of_file("numbers.csv", content, "--time", "x")
    assert (job["time"], job["time-format"]) == ("x", "epoch")


def test_init_with_stated_time_format_reads_dates_by_it(
    job_of_file: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    content = written("date,person,page", rows_of("%d/%m/%Y", MOMENTS[:9]))
    job, said = job_of_file("early.csv", content, "--time-format", "%d/%m/%Y")
    assert [key for key, value in job.items() if value == ""] == LOCAL
    assert "the rows are from 2024-03-01 to 2024-03-09" in said


def test_init_with_user_writes_job_with_contribution_period(
    place: Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The visits of the repository: without a period 3,530 of 4,000 rows would not count."""
    monkeypatch.chdir(tmp_path)
    visits = Path(__file__).parents[2] / "examples/visits.csv"
    Path("visits.csv").write_bytes(visits.read_bytes())
    done = place.plain("init", "visits.csv", "--user", "visitor", "--max-contributions", "10")
    assert done.code == 0
    text = Path("nightly.toml").read_text("utf-8")
    answers = {
        "timezone": "UTC",
        "start": "2024-03-01",
        "until": "latest-event",
        "contribution-period": "1d",
    }
    assert f"before the first run: {', '.join(answers)}." in done.out
    for key, answer in answers.items():
        text = text.replace(f'{key} = ""', f'{key} = "{answer}"')
    text = text.replace('epsilon = "1"', 'epsilon = "1e4"')
    Path("nightly.toml").write_text(text, "utf-8")
    place.plain("run", "nightly.toml").fine()
    released = pl.read_csv("visits.released.csv")
    rows = pl.read_csv(visits).with_columns(day=pl.col("time").str.head(10))
    daily = rows.group_by("day", "visitor").len().with_columns(pl.col("len").clip(upper_bound=10))
    wanted = daily.group_by("day").agg(pl.col("len").sum()).sort("day")["len"].to_list()
    assert released["estimate"].to_list() == wanted[:30]


@pytest.mark.parametrize(
    ("moments", "is_open"),
    [
        (["2024-03-30T23:30+01:00", "2024-03-31T12:00+02:00"], True),
        (["2024-03-30T23:30Z", "2024-03-31T12:00+02:00"], True),
        (["2024-03-30T23:30Z", "2024-03-31T12:00+00:00"], False),
    ],
)
def test_init_leaves_zone_of_times_with_other_offsets_empty(
    place: Workplace, moments: list[str], is_open: bool
) -> None:
    """Days in UTC are not those of the file: 56 of 60 daily numbers were wrong without a word."""
    events = place.folder / "visits.csv"
    events.write_text("at,who\n" + "".join(f"{moment},a\n" for moment in moments))
    job_file = place.folder / "visits.toml"
    done = place.plain("init", str(events), "--save-job", str(job_file), "--state", "v.db").fine()
    written_zone = tomllib.loads(job_file.read_text())["jobs"]["visits"]["timezone"]
    assert written_zone == ("" if is_open else "UTC")
    assert ("before the first run: timezone, " in done.out + done.err) == is_open
