"""Workbooks hold what the other tables hold, as a spreadsheet can show it."""

from __future__ import annotations

import json
import re
import zipfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import InvalidInput
from counton.released import workbooks
from counton.run import export
from counton.run.written_files import write_table

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Each sheet's rows; cells by the letter of their column. Times are days since 1899-12-30."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = ET.fromstring(archive.read("xl/workbook.xml")).iter(f"{MAIN}sheet")
        return {
            sheet.attrib["name"]: _rows(archive.read(f"xl/worksheets/sheet{number}.xml"))
            for number, sheet in enumerate(names, 1)
        }


def _rows(xml: bytes) -> list[dict[str, Any]]:
    assert b"<f>" not in xml  # no formulas
    assert b"<hyperlink" not in xml
    return [
        {_letter(cell): _value(cell) for cell in row.iter(f"{MAIN}c")}
        for row in ET.fromstring(xml).iter(f"{MAIN}row")
    ]


def _letter(cell: ET.Element) -> str:
    return re.sub(r"\d", "", cell.attrib["r"])


def _value(cell: ET.Element) -> Any:
    value = cell.find(f"{MAIN}v")
    if cell.attrib.get("t") == "inlineStr":
        return "".join(text.text or "" for text in cell.iter(f"{MAIN}t"))
    assert value is not None
    assert value.text is not None
    return bool(int(value.text)) if cell.attrib.get("t") == "b" else float(value.text)


def at(days: float) -> datetime:
    return datetime(1899, 12, 30) + timedelta(seconds=round(days * 86_400))


def test_a_run_and_an_export_write_the_released_numbers(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"time": [datetime(2024, 3, 30 + n % 2, n) for n in range(20)], "page": ["=a", "b"] * 10}
    )
    run = release(
        "count",
        frame,
        time="time",
        by="page",
        domain=["=a", "b"],
        every=timedelta(days=1),
        start=date(2024, 3, 30),
        steps=10,
        until=date(2024, 4, 1),
        timezone="Europe/Berlin",
        guarantee=PureDP(1),
        state=tmp_path / "s.db",
        out=tmp_path / "t.xlsx",
    )
    table = run.table()
    export(tmp_path / "s.db", tmp_path / "again.XLSX")
    for path in (tmp_path / "t.xlsx", tmp_path / "again.XLSX"):
        (name, (header, *rows)), *others = sheets(path).items()
        assert (name, [one for one, _ in others]) == ("table", ["about", "counton"])
        zoned = ("window_start", "window_end")
        assert [*header.values()] == [
            f"{column} (Europe/Berlin)" if column in zoned else column for column in table.columns
        ]
        assert len(rows) == table.height == 4
        for row, known in zip(rows, table.iter_rows(named=True), strict=True):
            for value, (column, exact) in zip(row.values(), known.items(), strict=True):
                if column in zoned:
                    assert at(value) == exact.replace(tzinfo=None)
                else:
                    assert value == exact, column
        promised = json.loads((tmp_path / f"{path.name}.json").read_text())
        assert promised["guarantee"] == "pure differential privacy with epsilon = 1"


def test_every_value_is_as_a_spreadsheet_can_show_it(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "whole": [10**15, 10**15 - 1, -(10**15)],
            "real": [0.1, float("inf"), None],
            "text": ["https://counton.example", "{=1+1}", ""],
            "flag": [True, None, False],
            "day": [date(2024, 2, 29), date(1900, 1, 1), date(1815, 6, 18)],
            "time": [datetime(2024, 7, 1, 12, tzinfo=UTC), None, datetime(1800, 1, 1, tzinfo=UTC)],
        }
    )
    write_table(table, tmp_path / "t.xlsx")
    (header, *rows) = sheets(tmp_path / "t.xlsx")["table"]
    assert [*header.values()][-1] == "time (UTC)"
    assert [row["A"] for row in rows] == [str(10**15), 10**15 - 1, str(-(10**15))]
    assert [row.get("B") for row in rows] == [0.1, "inf", None]
    assert [row["C"] for row in rows] == ["https://counton.example", "{=1+1}", ""]
    assert [row.get("D") for row in rows] == [True, None, False]
    assert at(rows[0]["E"]) == datetime(2024, 2, 29)
    assert [rows[1]["E"], rows[2]["E"]] == [1, "1815-06-18"]
    assert at(rows[0]["F"]) == datetime(2024, 7, 1, 12)
    assert rows[2]["F"] == "1800-01-01 00:00:00"


def test_more_rows_than_a_sheet_holds_go_on_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbooks, "_ROWS", 4)
    for height, held in ((0, [0]), (3, [3]), (7, [3, 3, 1])):
        write_table(pl.DataFrame({"n": range(height)}), tmp_path / "t.xlsx")
        found = sheets(tmp_path / "t.xlsx")
        assert [len(rows) - 1 for rows in found.values()] == held
        assert [row["A"] for rows in found.values() for row in rows[1:]] == [*range(height)]
    assert [*found] == ["table", "table 2", "table 3"]


def test_a_text_too_long_for_a_cell_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    write_table(pl.DataFrame({"text": ["a" * 32_767]}), path)
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"32768 characters .* write \.csv"):
        write_table(pl.DataFrame({"text": ["a" * 32_768]}), path)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_workbooks_are_not_read_and_old_ones_not_written(tmp_path: Path) -> None:
    from counton.run.written_files import check_output

    check_output(tmp_path / "t.xlsx")
    with pytest.raises(InvalidInput, match=r"must end in one of .*\.xlsx; rename it"):
        check_output(tmp_path / "t.xls")
    (tmp_path / "t.xlsx.json").write_text("{}")
    with pytest.raises(InvalidInput, match="which the run reads or keeps"):
        check_output(tmp_path / "t.xlsx", inputs=[tmp_path / "t.xlsx.json"])


def test_what_is_no_workbook_of_ours_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.xlsx"
    file.write_bytes(b"no archive")
    with pytest.raises(InvalidInput, match="it is not a workbook that counton wrote"):
        read(file)
    workbooks.write_workbook(pl.DataFrame({"step": [1]}), str(file))
    with pytest.raises(InvalidInput, match="no description of its stream in its hidden sheet"):
        read(file)


def test_a_workbook_carries_what_its_table_promises(tmp_path: Path) -> None:
    """In words for people, and whole in a sheet that nobody stumbles on."""
    described = {"format": 1, "long": "x" * 70_000, "odd": " _x0041_ \u00e9"}
    noise = {"family": "discrete Laplace", "std": 1.5, "step": 3}
    facts = {"guarantee": "pure", "level": 0.95, "noise": noise, "notes": ["a", "b"]}
    file = tmp_path / "t.xlsx"
    workbooks.write_workbook(
        pl.DataFrame({"step": [1]}), str(file), {**facts, "description": described}
    )
    told = sheets(file)["about"]
    assert [tuple(row.values()) for row in told] == [
        ("guarantee", "pure"),
        ("level", 0.95),
        ("noise", "discrete Laplace of standard deviation 1.5"),
        ("notes", "a"),
        ("notes", "b"),
    ]
    assert states(file) == {"table": None, "about": None, "counton": "veryHidden"}
    assert workbooks.read_workbook(file, ())[1] == {**facts, "description": described}


def states(path: Path) -> dict[str, str | None]:
    """Which sheets are hidden."""
    with zipfile.ZipFile(path) as archive:
        book = ET.fromstring(archive.read("xl/workbook.xml"))
    return {one.attrib["name"]: one.attrib.get("state") for one in book.iter(f"{MAIN}sheet")}


def save_again(old: Path, new: Path) -> None:
    """As spreadsheets do: texts in a pool, and a hidden sheet that is no longer very hidden."""
    pool: list[str] = []
    with zipfile.ZipFile(old) as before, zipfile.ZipFile(new, "w") as after:
        for name in before.namelist():
            data = before.read(name)
            if name.startswith("xl/worksheets/"):
                root = ET.fromstring(data)
                for cell in root.iter(f"{MAIN}c"):
                    if cell.attrib.get("t") == "inlineStr":
                        pool.append("".join(text.text or "" for text in cell.iter(f"{MAIN}t")))
                        cell.attrib["t"] = "s"
                        cell[:] = [ET.Element(f"{MAIN}v")]
                        cell[0].text = str(len(pool) - 1)
                data = ET.tostring(root)
            after.writestr(name, data.replace(b"veryHidden", b"hidden"))
        texts = ET.Element(f"{MAIN}sst")
        for one in pool:
            ET.SubElement(ET.SubElement(texts, f"{MAIN}si"), f"{MAIN}t").text = one
        after.writestr("xl/sharedStrings.xml", ET.tostring(texts))


def test_a_workbook_that_was_saved_again_is_read_back(tmp_path: Path) -> None:
    frame = pl.DataFrame({"time": [datetime(2024, 3, 1 + n % 3) for n in range(9)]})
    released = release(
        "count", frame, time="time", every="1d", start="2024-03-01", steps=9, until="2024-03-04",
        guarantee=PureDP(1), state=tmp_path / "s.db", out=tmp_path / "t.xlsx",
    )  # fmt: skip
    save_again(tmp_path / "t.xlsx", tmp_path / "again.xlsx")
    assert states(tmp_path / "again.xlsx")["counton"] == "hidden"
    for name in ("t.xlsx", "again.xlsx"):
        back = read(tmp_path / name)
        assert back.table().equals(released.table())
        assert back.describe() == released.describe()


def shown_as(path: Path) -> list[dict[str, str]]:
    """How the cells of the table's rows are shown, by the letter of their column."""
    with zipfile.ZipFile(path) as archive:
        styles = ET.fromstring(archive.read("xl/styles.xml"))
        sheet = ET.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    formats = {
        one.attrib["numFmtId"]: one.attrib["formatCode"] for one in styles.iter(f"{MAIN}numFmt")
    }
    (kinds,) = styles.iter(f"{MAIN}cellXfs")
    return [
        {
            _letter(cell): formats.get(kinds[int(cell.attrib.get("s", 0))].attrib["numFmtId"], "")
            for cell in row.iter(f"{MAIN}c")
        }
        for row in [*sheet.iter(f"{MAIN}row")][1:]
    ]


def test_days_have_no_midnight(tmp_path: Path) -> None:
    """A column shows dates where every time is midnight in its zone, and times otherwise."""
    zone = "Europe/Berlin"
    days = pl.Series([datetime(2024, 3, 30, 23, tzinfo=UTC), datetime(2024, 3, 31, 22, tzinfo=UTC)])
    table = pl.DataFrame({"day": days.dt.convert_time_zone(zone), "utc": days})
    write_table(table, tmp_path / "t.xlsx")
    assert shown_as(tmp_path / "t.xlsx") == [{"A": "yyyy-mm-dd", "B": "yyyy-mm-dd hh:mm:ss"}] * 2
    with_none = table.vstack(table.clear(1)).select("day")
    write_table(with_none, tmp_path / "t.xlsx")
    assert shown_as(tmp_path / "t.xlsx")[:2] == [{"A": "yyyy-mm-dd"}] * 2


def test_the_rows_of_a_table_can_be_filtered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbooks, "_ROWS", 4)
    write_table(pl.DataFrame({"n": range(5), "m": range(5)}), tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        sheets_ = [archive.read(f"xl/worksheets/sheet{number}.xml") for number in (1, 2)]
    assert b'<autoFilter ref="A1:B4"/>' in sheets_[0]
    assert b'<autoFilter ref="A1:B3"/>' in sheets_[1]
