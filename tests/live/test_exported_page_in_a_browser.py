"""The page that `counton export` writes, at the widths of a desk and of a telephone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from counton.run import Job, export, run
from tools.browser import browsing, chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("playwright") is None or chromium() is None, reason="needs a browser"
    ),
]

#: Pixels by which the table of the newest numbers exceeds its place, and a text the window.
BEYOND = """() => {
  const table = document.querySelector(".wide"), page = document.documentElement;
  return [table.scrollWidth - table.clientWidth, page.scrollWidth - window.innerWidth];
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_column_of_provisional_numbers_is_beyond_the_edge(tmp_path: Path, width: int) -> None:
    rows = [
        {"at": f"2026-10-{day:02}T10:00", "site": site}
        for day in range(1, 13)
        for site in ("north", "south", "east")
    ]
    job = Job(
        "count", pl.DataFrame(rows), tmp_path / "visits.db", time="at", every="1d", by="site",
        domain=["north", "south", "east"], start="2026-10-01", steps=365, until="2026-10-13",
        revise="5d", append=True, unit="visit", epsilon=1,
    )  # fmt: skip
    with run(job) as done:
        assert done.after == 12
    export(tmp_path / "visits.db", out=tmp_path / "page.html")
    with browsing() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "page.html").as_uri())
        assert page.locator("td", has_text="provisional").first.is_visible()
        assert page.evaluate(BEYOND) == [0, 0]
