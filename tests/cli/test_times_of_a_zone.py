"""Whatever is told of a stream has its times as clocks show them where the stream is."""

import json
import re
from pathlib import Path

import pytest

from .conftest import Workplace

#: A time of another zone: in Berlin it is one hour later in winter, two in summer.
_ELSEWHERE = re.compile(r"\d:\d\d[\d:.]*(\+00:00|Z\b)|\bUTC\b|T23:00|T22:00")


@pytest.fixture
def berlin(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(place.folder)
    rows = "".join(
        f"2024-03-{day:02d}T{hour:02d}:30,x\n" for day in range(1, 9) for hour in (9, 23)
    )
    Path("e.csv").write_text(f"at,g\n2024-02-29T12:00,x\n{rows}")
    return place


def asked(more: str) -> list[str]:
    words = "release count e.csv --time at --every 1d --start 2024-03-01 --timezone Europe/Berlin"
    return f"{words} --epsilon 1 --state s.db {more}".split()


TOLD = ["export s.db", "export s.db --json", "methods s.db", "inspect s.db", "inspect s.db --json"]


def test_outputs_have_times_of_stream_timezone(berlin: Workplace) -> None:
    first = berlin.plain(*asked("--windows 40 --until 2024-03-08 --output t.csv"))
    assert first.code == 0, first.err
    assert "before the first window (2024-03-01T00:00:00+01:00)" in first.err
    assert "(windows 1 to 7 of 40, Europe/Berlin)" in first.out
    report = berlin.plain(*asked("--windows 40 --until 2024-03-09 --output t.json --json"))
    found = json.loads(report.out)
    assert found["until"] == found["last"]["window_end"] == "2024-03-09T00:00:00+01:00"
    assert found["last"]["counted_until"] == "2024-03-09T00:00:00+01:00"
    assert "2024-03-02T00:00:00+01:00" in Path("t.csv").read_text()
    assert "2024-03-02T00:00:00+01:00" in Path("t.json").read_text()
    files = "".join(file.read_text() for file in berlin.folder.glob("t.*"))
    for said in (first.out, first.err, report.out, files):
        assert not _ELSEWHERE.findall(said)
    for words in TOLD:
        done = berlin.plain(*words.split())
        assert done.code == 0, done.err
        # When the ledger was entered is a time of the ledger, which streams of all zones share.
        said = re.sub(r'"(entered|time)": "[^"]*"', "", done.out + done.err)
        assert not _ELSEWHERE.findall(said), words


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            "--windows 3 --until latest-event",
            "after the last window of the stream, 3, which ends at 2024-03-04T00:00:00+01:00",
        ),
        (
            "--windows 3 --until 2024-03-05",
            "the last window of the stream, 3, which is released at 2024-03-04T00:00:00+01:00",
        ),
        ("--windows 3", "The last window ended at 2024-03-04T00:00:00+01:00"),
        ("--windows 40 --until 2024-02-28", "is not after 2024-03-01T00:00:00+01:00"),
        ("--windows 40 --until 2924-03-01", "lies in the future"),
        (
            "--windows 40 --until 2024-04-08",
            "would release 38 windows, but the newest readable row is of 2024-03-08 23:30+01:00",
        ),
    ],
)
def test_errors_have_times_of_stream_timezone(berlin: Workplace, more: str, words: str) -> None:
    done = berlin.plain(*asked(more))
    assert done.code == 2
    assert words in done.err
    assert not _ELSEWHERE.findall(done.err)


def test_later_runs_and_exports_have_times_of_stream(berlin: Workplace) -> None:
    assert berlin.plain(*asked("--windows 40 --until 2024-03-08")).code == 0
    changed = [word.replace("2024-03-01", "2024-03-02") for word in asked("--until 2024-03-08")]
    done = berlin.plain(*changed)
    assert done.code == 2
    assert "--start (here 2024-03-02T00:00:00+01:00" in done.err
    assert "there 2024-03-01T00:00:00+01:00" in done.err
    Path("e.csv").write_text("at,g\n2024-03-03T09:30,x\n2024-03-07T12:00,x\n")
    gone = berlin.plain(*asked("--until 2024-03-08"))
    assert gone.code == 0
    assert "rows that were counted before and are missing now, still counted" in gone.err
    none = berlin.plain("export", "s.db", "--windows", "2025-01-01:")
    assert none.code == 2
    assert "between 2024-03-01T00:00:00+01:00 and 2024-03-08T00:00:00+01:00" in none.err
    assert not _ELSEWHERE.findall(done.err + gone.err + none.err)
