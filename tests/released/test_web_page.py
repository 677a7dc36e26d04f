"""A page for a website: whole in one file, its files read back, and no name in it is markup."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInput
from counton.released import web_page
from counton.run import Job, export, read, run
from counton.run.outputs import Outputs

START = datetime(2024, 3, 1, tzinfo=UTC)
NAMES = ["<script>alert(1)</script>", 'a" onload="x', "=1+1", "north & south"]
DAYS = 5


class Found(HTMLParser):
    """Elements of a page with their attributes, and all its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.elements if name == tag]


def loans() -> pl.DataFrame:
    rows = [
        (START + timedelta(days=day, hours=1), name, f"reader {day}")
        for day in range(DAYS)
        for place, name in enumerate(NAMES)
        for _ in range(10 * place + 5)
    ]
    return pl.DataFrame(rows, schema=["time", "branch", "reader"], orient="row")


def page_of(folder: Path, **more: Any) -> str:
    asked: dict[str, Any] = {
        "time": "time", "every": "1d", "start": START, "steps": 365, "until": "newest",
        "by": "branch", "domain": NAMES, "epsilon": 1, "release": "both", "user": "reader",
        "most": 3, "row": "loan", "out": folder / "page.html",
    }  # fmt: skip
    job = Job("count", loans(), folder / "loans.db", **(asked | more))
    with run(job) as outcome:
        Outputs.of(job).write(outcome)
    return (folder / "page.html").read_text()


def test_a_page_needs_nothing_else_and_runs_nothing(tmp_path: Path) -> None:
    text = page_of(tmp_path, title="Loans <of> all branches")
    found = Found(text)
    assert not {"script", "iframe", "link", "object"} & {tag for tag, _ in found.elements}
    for _, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "srcset", "href"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "url(" not in text
    assert "@import" not in text
    policy = next(one for one in found.all("meta") if "http-equiv" in one)
    assert policy["content"].startswith("default-src 'none'")
    words = "".join(found.words)
    assert {*NAMES} <= {one.strip() for one in found.words}
    assert "Loans <of> all branches" in words
    assert "number of loans" in words
    assert "Random noise was mixed in before publication" in words
    assert (len(found.all("img")), len(found.all("source"))) == (2, 2)  # totals and windows


def test_files_of_a_page_are_read_back(tmp_path: Path) -> None:
    found = Found(page_of(tmp_path))
    for link in found.all("a"):
        held = base64.b64decode(link["href"].partition("base64,")[2])
        (tmp_path / link["download"]).write_bytes(held)
    with pytest.raises(
        InvalidInput, match=r"'.*page.html' is not a kind of table that can be read back"
    ):
        read(tmp_path / "page.html")
    there, stated = read(tmp_path / "page.csv"), export(tmp_path / "loans.db")
    assert there.table().equals(stated.table())
    assert there.numbers.groups == tuple(NAMES)


def test_a_page_holds_what_was_chosen_and_not_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_of(tmp_path)
    state, out = tmp_path / "loans.db", tmp_path / "some.html"
    export(state, out, steps="2:3", groups=NAMES[3], level=0.9)
    text = out.read_text()
    assert "90% interval" in text
    assert "=1+1" not in text
    assert len(re.findall("<tr>", text)) == 2 + 3  # the newest, and two steps, each with a head
    monkeypatch.setattr(web_page, "_MOST_BYTES", 50)
    with pytest.raises(InvalidInput, match="choose fewer steps or groups"):
        export(state, out)
    assert out.read_text() == text


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("distinct", {"user": "reader", "by": None, "domain": None}),
        ("contingency", {"columns": "branch", "domain": {"branch": NAMES}, "by": None}),
    ],
)
def test_other_statistics_have_pages_too(tmp_path: Path, what: str, more: Any) -> None:
    out = tmp_path / "page.html"
    common = {"epsilon": 1, "out": out}
    if what == "distinct":
        common |= {"time": "time", "every": "1d", "start": START, "steps": 9, "until": "newest"}
    job = Job(what, loans(), tmp_path / "s.db", **(common | more))
    with run(job) as outcome:
        Outputs.of(job).write(outcome)
    found = Found(out.read_text())
    assert found.all("img")
    assert len(found.all("a")) == 2
    assert "<script>" not in out.read_text()
