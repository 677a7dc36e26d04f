"""A page of ``counton export`` in a browser, on a desk and a telephone: `make test-live`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, release
from counton.run.outputs.exports import export
from tools.browser import browsing, chromium

MISSING = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
if chromium() is None:
    MISSING.append("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: make test-live"),
    pytest.mark.xdist_group("browser"),
]

#: What a reader sees of the chart and of the table.
SEEN = """(() => {
  const picture = document.querySelector('img');
  const table = document.querySelector('table');
  const provisional = document.querySelector('.provisional td:last-child').getBoundingClientRect();
  return {
    wide: document.documentElement.scrollWidth,
    drawn: picture.complete && picture.naturalWidth,
    shown: picture.getBoundingClientRect().width,
    rows: table.rows.length,
    right: provisional.right,
  };
})()"""


@pytest.mark.parametrize(("width", "drawn"), [(1280, 1440), (390, 768)])
def test_exported_page_fits_window_and_has_no_accessibility_problems(
    width: int, drawn: int, tmp_path: Path
) -> None:
    rows = [f"2024-03-{day:02}T09:00" for day in range(1, 8) for _ in range(100 * day)]
    events = pl.DataFrame({"time": rows, "page": "home"})
    release(
        "count", events, time="time", every="1d", start="2024-03-01", windows=30,
        allowed_lateness="2d",
        until="2024-03-08", group_by="page", groups=["home", "shop"], guarantee=PureDP(1),
        privacy_unit="visit", state=tmp_path / "s.db",
    )  # fmt: skip
    export(tmp_path / "s.db", tmp_path / "page.html")
    with browsing() as browser:
        window = browser.new_context(viewport={"width": width, "height": 900})
        page = window.new_page()
        complaints: list[Any] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_load_state()
        seen = page.evaluate(SEEN)
        assert complaints == []
        assert seen["wide"] <= width  # nothing is beside the window
        assert seen["right"] <= width
        assert (seen["drawn"], seen["rows"]) == (drawn, 15)
        assert seen["shown"] <= width
        window.close()
        # The page forbids scripts, also those of this checker.
        window = browser.new_context(viewport={"width": width, "height": 900}, bypass_csp=True)
        page = window.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        found_spec = find_spec("axe_playwright_python")
        assert found_spec is not None
        page.evaluate(Path(str(found_spec.origin)).with_name("axe.min.js").read_text("utf-8"))
        problems = page.evaluate("axe.run()")["violations"]
        assert [(one["id"], one["nodes"][0]["html"]) for one in problems] == []
        window.close()
