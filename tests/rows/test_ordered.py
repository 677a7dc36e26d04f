"""Events in the order in which they happened, for statistics."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInput
from counton.base.private import open_private
from counton.base.windows import Once, Windows
from counton.rows.files import open_source
from counton.rows.ordered_events import letters_of, ordered_rows
from counton.rows.window_marks import Columns, KeptPart, RowReading

HOURS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 3)


def kept(*columns: str, numbers: str = "", flags: str = "", time: str = "") -> RowReading:
    kinds = [
        "number" if name in numbers else "flag" if name in flags else "text" for name in columns
    ]
    return RowReading(
        Columns(time, several=columns),
        HOURS if time else Once(),
        kept=[KeptPart(name, kind) for name, kind in zip(columns, kinds, strict=True)],
    )


def test_rows_stand_by_time_and_equal_times_as_they_came() -> None:
    rows: dict[str, list[Any]] = {
        "at": [f"2024-03-01T{at}" for at in ("02:00", "00:59", "02:00", "01:00", "03:00")],
        "u": ["a", "b", "c", "d", "e"],
        "w": [1, 2, 3, 4, 5],
    }
    rows["at"].append("2024-02-29T23:59")
    rows["u"].append("f")
    rows["w"].append(6)
    found = open_private(
        ordered_rows(open_source(pl.DataFrame(rows)), kept("u", "w", numbers="w", time="at"))
    )
    assert found.events == [("b", 2.0), ("d", 4.0), ("a", 1.0), ("c", 3.0)]
    assert found.stops.tolist() == [1, 2, 4]
    assert (found.before, found.beyond) == (1, 1)
    assert found.until(2).events == [("b", 2.0), ("d", 4.0)]
    assert found.until(0).events == []
    untimed = open_private(ordered_rows(open_source(pl.DataFrame(rows)), kept("u")))
    assert untimed.events == list("abcdef")
    assert untimed.stops.tolist() == [1, 2, 3, 4, 5, 6]


def test_steps_without_events_are_written_out_where_they_are_asked_for() -> None:
    """A stream without a last step has 70 million hours until the calendar ends."""
    rows = pl.DataFrame({"at": ["2024-03-01T00:59", "2024-03-01T02:00"], "u": ["a", "b"]})
    endless = replace(kept("u", time="at"), windows=Windows.endless(HOURS.start, "1h"))
    found = open_private(ordered_rows(open_source(rows), endless))
    assert found.stops.tolist() == [1, 1, 2]
    assert (found.until(5).stops.tolist(), found.until(5).events) == ([1, 1, 2, 2, 2], ["a", "b"])
    assert (found.until(2).stops.tolist(), found.until(2).events) == ([1, 1], ["a"])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("x,a,1", r"row 2 .* a time that cannot be read in column 'at' \('x'\)"),
        ("2024-03-01T00:00,,1", "row 2 .* no value in column 'u'"),
        ("2024-03-01T00:00,a,b", r"row 2 .* not a finite number in column 'w' \('b'\)"),
        ("2024-03-01T00:00,a,nan", "row 2 .* not a finite number in column 'w'"),
    ],
)
def test_a_row_that_is_no_event_is_named(row: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text(f"at,u,w\n2024-03-01T00:30,a,2\n{row}\n")
    with pytest.raises(InvalidInput, match=problem):
        ordered_rows(open_source(file), kept("u", "w", numbers="w", time="at"))
    with pytest.raises(InvalidInput, match="no column 'v'"):
        ordered_rows(open_source(file), kept("v"))


def test_flags_are_true_or_false(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("u,comes\na,true\nb,0\nc,Yes\n")
    source = open_source(file)
    assert open_private(ordered_rows(source, kept("u", "comes", flags="comes"))).events == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]
    file.write_text("u,comes\na,perhaps\n")
    with pytest.raises(InvalidInput, match=r"row 1 .* neither true nor false in column 'comes'"):
        ordered_rows(open_source(file), kept("u", "comes", flags="comes"))


def test_letters_are_read_from_texts_and_fasta(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.fa", tmp_path / "a.fa.gz"
    text = ">chr1 a name\nACG T\r\n;comment\nAA\n"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in plain, packed:
        found = open_private(letters_of(path))
        assert "".join(found.events) == "ACGTAA"
        assert found.stops[-1] == 6
    plain.write_bytes(b"AC\xff")
    for path in plain, tmp_path / "none":
        with pytest.raises(InvalidInput, match=r"UTF-8|not a file"):
            letters_of(path)


def test_signs_of_comments_are_letters_where_the_alphabet_says_so(tmp_path: Path) -> None:
    path = tmp_path / "moves.txt"
    path.write_text("<>\n><\n;>\n >;\n")
    assert "".join(open_private(letters_of(path, "<>;")).events) == "<>><;>>;"
    assert "".join(open_private(letters_of(path, "<>")).events) == "<>><>;"
    assert "".join(open_private(letters_of(path, "<")).events) == "<>"
    assert "".join(open_private(letters_of(path, "<>; ")).events) == "<>><;> >;"
