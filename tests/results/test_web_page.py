"""A release as a web page: readable numbers, provisional ones marked, nothing from elsewhere."""

import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from counton import PureDP, Release, release
from counton.base.errors import InvalidInputError
from counton.run import annotate
from counton.run.outputs.exports import export

#: A name that a page must not take for a tag.
NAME = "<b>shop & co</b>"
VISITS = pl.DataFrame(
    {
        "time": [f"2024-03-{day:02}T09:00" for day in range(1, 8) for _ in range(300 * day)],
        "page": [
            NAME if row % 3 == 0 else "home" for day in range(1, 8) for row in range(300 * day)
        ],
        "seconds": [20.0 for day in range(1, 8) for _ in range(300 * day)],
    }
)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "totals": ("count", {}),
    "both": ("count", {"series": "both", "group_by": "page", "groups": ["home", NAME]}),
    "revised": ("count", {"allowed_lateness": "2d", "group_by": "page", "groups": ["home", NAME]}),
    "other": ("count", {"group_by": "page", "groups": ["home"], "other_group": "elsewhere"}),
    "average": ("average", {"value": "seconds", "lower": 0, "upper": 60, "resolution": 1}),
}


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., tuple[str, Release]]:
    """Releases the visits, exports a page, and returns it with the release."""

    def made(kind: str, **look: Any) -> tuple[str, Release]:
        statistic, more = KINDS[kind]
        release(
            cast("Any", statistic), VISITS, time="time", every="1d", start="2024-03-01", windows=30,
            until="2024-03-08", guarantee=PureDP(1000), privacy_unit="visit",
            state=tmp_path / "s.db",
            stream=kind, **more,
        )  # fmt: skip
        found = export(tmp_path / "s.db", tmp_path / "page.html", stream=kind, **look)
        return (tmp_path / "page.html").read_text("utf-8"), found

    return made


def rows_of(page: str) -> list[list[str]]:
    """The cells of all rows of a page's table, the heading first."""
    rows: Sequence[str] = re.findall(r"<tr[^>]*>(.*?)</tr>", page)
    return [
        [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in rows
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_page_loads_nothing_and_has_title_and_methods(
    kind: str, exported: Callable[..., tuple[str, Release]]
) -> None:
    page, found = exported(kind)
    assert NAME not in page
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page
    addresses = re.findall(r'(?:src|srcset|href|action)="([^"]{0,40})', page)
    assert all(address.startswith("data:image/png;base64,") for address in addresses)
    assert len(addresses) == {"both": 4, "average": 0}.get(kind, 2)
    assert "<script" not in page
    (title,) = re.findall("<h1>(.*?)</h1>", page)
    assert title == {
        "totals": "Number of visits",
        "average": "Average of seconds, each value clipped to [0, 60]",
    }.get(kind, "Number of visits, by page")
    assert html.escape(found.methods()) in page


def test_page_of_totals_has_readable_numbers_newest_first(
    exported: Callable[..., tuple[str, Release]],
) -> None:
    head, *rows = rows_of(exported("totals")[0])
    assert head == ["day", "cumulative", "95% interval"]
    assert rows[0][:2] == ["7 March 2024", "8,400"]
    assert [row[0] for row in rows] == [f"{day} March 2024" for day in range(7, 0, -1)]
    assert re.fullmatch(r"8,400 to 8,400|8,399 to 8,401", rows[0][2])


def test_page_of_both_series_has_totals_and_windows(
    exported: Callable[..., tuple[str, Release]],
) -> None:
    head, *rows = rows_of(exported("both")[0])
    assert head == ["day", "page", "cumulative", "95% interval", "in this day", "95% interval"]
    assert [row[:3] + row[4:5] for row in rows[:2]] == [
        ["7 March 2024", "home", "5,600", "1,400"],
        ["7 March 2024", NAME, "2,800", "700"],
    ]


def test_page_of_a_revised_stream_marks_provisional_numbers(
    exported: Callable[..., tuple[str, Release]],
) -> None:
    page, found = exported("revised")
    head, *rows = rows_of(page)
    assert head == ["day", "page", "estimate", "95% interval", "state"]
    final = (
        found.table()
        .sort("window_index", descending=True, maintain_order=True)["is_final"]
        .to_list()
    )
    assert [row[-1] for row in rows] == ["final" if one else "provisional" for one in final]
    assert page.count('<tr class="provisional">') == final.count(False) == 4
    assert "<p>Provisional numbers may change until 2 days after the end of their day.</p>" in page


@pytest.mark.long
def test_page_of_annotated_stream_shows_notes_without_withdrawn_numbers(
    exported: Callable[..., tuple[str, Release]], tmp_path: Path
) -> None:
    exported("both")
    marked: dict[str, Any] = {"stream": "both", "group": "home"}
    annotate(tmp_path / "s.db", "2024-03-06", "counter <broken>", **marked)
    annotate(tmp_path / "s.db", "2024-03-05", "twice", withdraw=True, **marked)
    export(tmp_path / "s.db", tmp_path / "again.html", stream="both")
    page = (tmp_path / "again.html").read_text("utf-8")
    assert '<p class="note">6 March 2024, home: counter &lt;broken&gt;</p>' in page
    head, *rows = rows_of(page)
    assert head[-1] == "note"
    assert {(row[0], row[-1]) for row in rows if row[1] == "home"} == {
        *((f"{day} March 2024", "") for day in (1, 2, 3, 4, 7)),
        ("6 March 2024", "counter <broken>"),
    }
    assert '<p class="note">5 March 2024, home, withdrawn: twice</p>' in page


def test_page_of_many_windows_states_number_shown(tmp_path: Path) -> None:
    release(
        "count", VISITS, time="time", every="1m", start="2024-03-01", windows=9000,
        until="2024-03-05", guarantee=PureDP(1), privacy_unit="visit", state=tmp_path / "s.db",
        group_by="page", groups=["home", NAME], series="per-window",
    )  # fmt: skip
    export(tmp_path / "s.db", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert len(rows_of(page)) == 1001
    assert "<p>The table has the newest 500 of 5,760 windows.</p>" in page


def test_page_with_a_title_has_it_as_heading(
    exported: Callable[..., tuple[str, Release]],
) -> None:
    page, _ = exported("totals", title="Visits & more")
    assert "<title>Visits &amp; more</title>" in page
    assert "<h1>Visits &amp; more</h1>" in page


def test_page_of_single_table_names_label_of_all_rows(tmp_path: Path) -> None:
    release(
        "contingency", VISITS, columns="page", groups={"page": ["home", NAME]},
        guarantee=PureDP(1000), privacy_unit="visit", state=tmp_path / "s.db",
    )  # fmt: skip
    export(tmp_path / "s.db", tmp_path / "page.html")
    head, *rows = rows_of((tmp_path / "page.html").read_text("utf-8"))
    assert head == ["page", "estimate", "95% interval"]
    assert ["all", "8,400"] in [row[:2] for row in rows]


def test_page_of_a_released_table_is_that_of_its_state(
    exported: Callable[..., tuple[str, Release]], tmp_path: Path
) -> None:
    page, _ = exported("revised")
    export(tmp_path / "s.db", tmp_path / "t.parquet", stream="revised")
    export(tmp_path / "t.parquet", tmp_path / "again.html")
    assert rows_of((tmp_path / "again.html").read_text("utf-8")) == rows_of(page)


@pytest.mark.parametrize("from_table", [False, True])
def test_page_explains_group_of_unlisted_groups(
    from_table: bool, exported: Callable[..., tuple[str, Release]], tmp_path: Path
) -> None:
    page, _ = exported("other")
    if from_table:
        export(tmp_path / "s.db", tmp_path / "t.csv", stream="other")
        export(tmp_path / "t.csv", tmp_path / "again.html")
        page = (tmp_path / "again.html").read_text("utf-8")
    sentence = (
        "Group 'elsewhere' has the rows of groups that are not listed, and rows without a group. "
        "If there are none, its numbers are only noise."
    )
    assert sentence in html.unescape(page)


def test_table_with_another_group_of_unlisted_groups_is_refused(
    exported: Callable[..., tuple[str, Release]], tmp_path: Path
) -> None:
    exported("other")
    export(tmp_path / "s.db", tmp_path / "t.csv", stream="other")
    description = tmp_path / "t.csv.json"
    text = description.read_text("utf-8")
    assert text.count('"other_group": "elsewhere"') == 1
    description.write_text(text.replace('"other_group": "elsewhere"', '"other_group": "home"'))
    with pytest.raises(InvalidInputError, match="other_group in the description of the table"):
        export(tmp_path / "t.csv", tmp_path / "again.html")
