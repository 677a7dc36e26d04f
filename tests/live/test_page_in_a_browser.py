"""The page of a service in a real browser: `make test-live`; skipped where there is none."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from counton.base.exact import quantity
from examples.live import service
from tools.browser import PATIENT, Page, browsing, chromium, sending, serving, told, watching

NEEDED = ("fastapi", "uvicorn", "playwright", "axe_playwright_python")
MISSING = [name for name in NEEDED if find_spec(name) is None]
if chromium() is None:
    MISSING.append("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: make test-live"),
    pytest.mark.xdist_group("browser"),  # one service and one browser for all
]

#: Where the page has its module about numbers and times.
FORMATS = "document.querySelector('script[type=module]').src.replace('app.js', 'format.js')"
PAGES = ["home", "shop", "news", "help", "about"]
MANY = [f"shelf {number:03}" for number in range(200)]
JOBS = """\
[serve]
public = {public}
fold = "1s"

[defaults]
state = "live.db"
time = "time"
every = "5s"
windows = 20000
start = "{recent}"
epsilon = 1
privacy-unit = "visit"
timezone = "Europe/Copenhagen"

[jobs.visits]
statistic = "count"
every = "1s"
group-by = "page"
groups = ["home", "shop", "news", "help", "about"]
series = "both"

[jobs.shelves]
statistic = "count"
group-by = "shelf"
groups = {many}

[jobs.alone]
statistic = "count"

[jobs.revised]
statistic = "count"
group-by = "page"
groups = ["home", "shop"]
allowed-lateness = "20s"

[jobs.long]
statistic = "count"
group-by = "page"
groups = ["home", "shop"]
start = "{long_ago}"

[jobs.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 100
resolution = 1

[jobs.spent]
statistic = "average"
value = "paid"
group-by = "page"
groups = ["home", "shop"]
lower = 0
upper = 100
resolution = 1
confidence-level = 0.8

[jobs.waits]
statistic = "quantiles"
value = "paid"
lower = 0
upper = 100
cells = 10
windows = 1000

[jobs.best]
statistic = "top-k"
group-by = "page"
groups = ["home", "shop", "news", "help", "about"]
top = 3

[jobs.later]
statistic = "count"
group-by = "page"
groups = ["home", "shop"]
every = "1h"
start = "{tomorrow}"
"""


def jobs(public: str = "true") -> str:
    now = datetime.now(UTC).replace(microsecond=0)
    moments = {
        "recent": now - timedelta(seconds=150),
        "long_ago": now - timedelta(seconds=50_000),
        "tomorrow": now + timedelta(days=1),
    }
    texts = {name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in moments.items()}
    return JOBS.format(public=public, many=json.dumps(MANY), **texts)


ROWS: dict[str, list[dict[str, object]]] = {
    "visits": [{"page": page} for n, page in enumerate(PAGES) for _ in range(90 - 20 * n)],
    "shelves": [{"shelf": name} for name in MANY[:50]],
    "alone": [{}] * 5,
    "best": [{"page": page} for n, page in enumerate(PAGES) for _ in range(90 - 20 * n)],
    "paid": [{"paid": amount} for amount in (20, 30, 40)],
    "spent": [{"paid": 20, "page": "home"}] * 400 + [{"paid": 70, "page": "shop"}] * 200,
    "waits": [{"paid": amount} for amount in (5, 25, 45, 65, 85)],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("live")
    with serving(folder, jobs()) as (url, tokens), sending(url, tokens.write, ROWS):
        _wait_for_rows(url)
        yield url


def _wait_for_rows(url: str) -> None:
    """Wait until groups differ by more than noise: whichever test is first, the largest are known.

    A sending has 20 more rows of each page than of the next one; the noise has a standard deviation
    of 13.
    """
    end = time.monotonic() + PATIENT
    while not any(
        row["group"] == "home" and row["estimate"] > 20 * 90
        for row in told(url, "streams/best/series?last=1")["rows"]
    ):
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def watched(served: str, browser: Any) -> Iterator[Page]:
    """A page on a desk; whatever a test does with it, it has nothing to complain of."""
    with watching(browser, served, reduced_motion="reduce") as page:
        yield page
        assert page.complaints == []


#: How many windows the page says are released.
_STEPS = (
    "Number(document.querySelector('#facts').textContent"
    ".match(/released([0-9,]+)/)[1].replace(',', ''))"
)


def steps(page: Any) -> int:
    """How many windows the page says are released."""
    found: int = page.evaluate(_STEPS)
    return found


def texts(page: Any, selector: str) -> list[str]:
    """Texts of all elements, as of one moment."""
    found: list[str] = page.evaluate(
        "selector => [...document.querySelectorAll(selector)].map(one => one.innerText)", selector
    )
    return found


def history(page: Any) -> list[list[str]]:
    """The rows of the table of figures, as of one moment."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#history tbody tr')].map("
        "row => [...row.cells].map(cell => cell.innerText))"
    )
    return found


def shown(row: dict[str, Any]) -> str:
    """A released row as the page writes it."""
    half = (row["upper"] - row["lower"]) / 2
    whole = all(number == int(number) for number in (row["estimate"], half))
    return f"{quantity(row['estimate'], half, whole)} ± {quantity(half, half, whole)}"


def test_numbers_move_and_are_the_released_ones(watched: Page) -> None:
    page = watched.open("visits", "&line=shop")
    before = steps(page)
    first = history(page)[0]
    watched.until(f"document.querySelector('#history tbody th').textContent !== {first[0]!r}")
    watched.until(f"{_STEPS} > {before}")
    # Read before it is asked for, since more is released meanwhile.
    written = history(page)
    newest = texts(page, "#newest tbody td")
    for series in ("cumulative", "per-window"):
        released = watched.api(f"streams/visits/series?last=10000&series={series}")["rows"]
        told = [shown(row) for row in released if row["group"] == "shop"]
        assert ",".join(one[1] for one in reversed(written)) in ",".join(told), series
        rows = [
            [shown(row) for row in released if row["window_index"] == step]
            for step in range(1, 10000)
        ]
        assert newest in rows
        if series == "cumulative":
            page.get_by_role("radio", name="Windows").check()
            watched.drawn("visits")
            assert texts(page, "#chart-title") == ["In each window: shop"]
            written = history(page)
            newest = texts(page, "#newest tbody td")


def test_chosen_series_is_part_of_address(watched: Page) -> None:
    page = watched.open("visits")
    assert texts(page, "#chart-title") == ["Running totals: home"]
    page.get_by_role("radio", name="news").focus()
    page.keyboard.press("ArrowUp")  # by keys alone
    watched.drawn("visits")
    assert texts(page, "#chart-title") == ["Running totals: shop"]
    page.reload()
    watched.drawn("visits")
    assert texts(page, "#chart-title") == ["Running totals: shop"]
    assert page.locator("#newest input:checked").input_value() == "shop"


def test_notes_are_shown_with_their_windows(served: str, browser: Any) -> None:
    with watching(browser, served) as watched:
        page = watched.open("revised", windows=6)
        assert [row[2] for row in history(page)[:6]] == ["provisional"] * 4 + [""] * 2
        assert "still take late rows" in texts(page, "#chart-note")[0]
        page.route("**/series?**", _with_a_note)
        watched.open("revised", windows=6)
        assert history(page)[0][2] == "provisional; counter broken"
        assert "(counter broken)" in texts(page, "#newest td")[0]
        assert "Hollow" in texts(page, "#chart-note")[0]
        assert page.locator("#history .plain").count() == 0
        plain = watched.open("visits")
        assert "late rows" not in texts(plain, "#chart-note")[0]


def _with_a_note(route: Any) -> None:
    """Answer as a service does whose newest window has a note."""
    told = route.fetch().json()
    newest = max(row["window_index"] for row in told["rows"])
    for row in told["rows"]:
        row["note"] = "counter broken" if row["window_index"] == newest else None
    route.fulfill(json=told)


@pytest.mark.parametrize("stream", ["visits", "alone", "best"])
def test_a_withdrawn_newest_window_hides_nothing(watched: Page, stream: str) -> None:
    page = watched.open(stream)
    named = texts(page, "#newest tbody th")
    page.route("**/series?**", _without_the_newest)
    watched.open(stream)
    found = texts(page, "#newest tbody th")
    # By noise alone another group may be among the largest in another window.
    assert len(found) == len(named) if stream == "best" else {*found} == {*named}
    assert history(page)
    for part in ("#chart", "#history-card", "#downloads"):
        assert page.locator(part).is_visible()
    assert page.locator("#nothing").is_hidden()


def _without_the_newest(route: Any) -> None:
    """Answer as a service does whose newest window was withdrawn."""
    told = route.fetch().json()
    newest = max((row["window_index"] for row in told["rows"]), default=0)
    told["rows"] = [row for row in told["rows"] if row["window_index"] < newest]
    route.fulfill(json=told)


def test_a_browser_that_blocks_storage_shows_the_page(watched: Page) -> None:
    watched.page.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', {get() { throw new Error('blocked'); }});"
    )
    assert history(watched.open("visits"))


def test_page_adds_new_streams_and_removes_lost_ones(watched: Page) -> None:
    page = watched.open("visits")
    page.route("**/v1/streams", lambda route: route.fulfill(json={"streams": [{"name": "paid"}]}))
    page.route("**/v1/streams/visits**", lambda route: route.fulfill(status=404, json={}))
    watched.drawn("paid")
    assert texts(page, "#streams option") == ["paid"]
    assert all("404" in one for one in watched.complaints)
    watched.complaints.clear()  # the browser tells of what is lost


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        ("alone", []),
        ("paid", ["mean", "sum", "count"]),
        ("waits", ["10% below", "25% below", "median", "75% below", "90% below"]),
        ("best", ["home", "shop", "news"]),
        ("shelves", MANY),
    ],
)
def test_every_statistic_has_its_lines(watched: Page, stream: str, lines: list[str]) -> None:
    page = watched.open(stream)
    found = page.evaluate("[...document.querySelectorAll('#newest tr[data-line]')].length")
    assert page.locator("#newest-card").is_hidden() == (not lines)
    named = texts(page, "#newest tbody th") if lines else []
    assert sorted(named) == sorted(lines)
    assert found == max(1, len(lines))
    assert page.locator("#of").is_hidden()
    assert history(page)


@pytest.mark.parametrize(
    ("stream", "line", "unit"),
    [
        *(("visits", "home", "visits"), ("paid", "mean", "paid"), ("best", "home", "visits")),
        *(("spent", "shop · mean", "paid"), ("spent", "shop · count", "visits")),
    ],
)
def test_every_number_has_unit_and_confidence_level(
    watched: Page, stream: str, line: str, unit: str
) -> None:
    page = watched.open(stream, f"&line={line}")
    assert texts(page, "#facts dd")[0].endswith(f" {unit}")
    assert texts(page, "#facts dt")[0] == line
    assert texts(page, "#what") == [f"Number ({unit})"]
    level = "80%" if stream == "spent" else "95%"
    assert level in texts(page, "#chart-note")[0]


def test_page_of_new_stream_states_that_nothing_is_released(watched: Page) -> None:
    page = watched.open("later", windows=0)
    page.get_by_text("Nothing has been released yet").wait_for()
    assert steps(page) == 0


def test_page_states_guarantee_and_budget(watched: Page) -> None:
    page = watched.open("visits")
    about = watched.api("streams/visits")
    said, people, budget = (texts(page, place)[0] for place in ("#protected", "#people", "#budget"))
    assert said == about["protects"]
    assert "whether one visit is there" in said
    assert people == "Users are not protected: a user with 100 visits loses 100 times the epsilon."
    assert about["budget"]["spent"] in budget
    lines = [one.rstrip(".").lower() for one in texts(page, "#besides li")]
    assert lines == about["systematic_errors"]
    assert lines
    facts = texts(page, "#facts")[0]
    assert "Planned error at the end\n± " in facts
    assert about["planned_error"] in facts
    page.get_by_text("In terms of the field").click()
    whole = texts(page, "#guarantee")[0]
    assert about["guarantee"] in whole
    assert about["protected"][1:] in whole


def test_downloads_equal_released_series(watched: Page) -> None:
    page = watched.open("visits")
    read = {}
    for form in ("csv", "json"):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=form.upper()).click()
        read[form] = Path(waiting.value.path()).read_bytes()
    everything = json.loads(read["json"])["rows"]  # of both series; CSV has the one that is shown
    assert {row["series"] for row in everything} == {"cumulative", "per-window"}
    rows = [row for row in everything if row["series"] == "cumulative"]
    again = watched.api(f"streams/visits/series?series=cumulative&last={10_000}")["rows"]
    facts = ("window_index", "group", "estimate", "lower", "upper")
    for row, same in zip(rows, again, strict=False):
        assert [row[fact] for fact in facts] == [same[fact] for fact in facts]
    lines = list(csv.DictReader(io.StringIO(read["csv"].decode())))
    assert [int(line["window_index"]) for line in lines] == [row["window_index"] for row in rows][
        : len(lines)
    ]


@pytest.mark.parametrize("width", [360, 390])
def test_on_a_phone_everything_is_in_one_column(served: str, browser: Any, width: int) -> None:
    parts = ["chart", "newest", "history", "protected"]
    with watching(browser, served, viewport={"width": width, "height": 844}) as watched:
        for stream in ("visits", "spent", "waits"):
            page = watched.open(stream)
            tops = page.evaluate(
                "parts => parts.map(part =>"
                " document.querySelector(`#${part}-card`).getBoundingClientRect().top)",
                parts,
            )
            assert tops == sorted(tops)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.documentElement.scrollHeight") < 2800
            for table in ("#newest", "#history"):
                assert page.evaluate(
                    "place => document.querySelector(place).parentElement.scrollWidth"
                    " <= document.querySelector(place).parentElement.clientWidth + 1",
                    table,
                ), (stream, table)
        assert watched.complaints == []


#: Words of an axis of times of a chart so wide over so many seconds.
_CHART = """(async ([width, every]) => {
  const page = document.querySelector('script[type=module]').src;
  const [{ Chart }, { Clock }] = await Promise.all(
    ["chart.js", "format.js"].map((name) => import(page.replace("app.js", name))),
  );
  const place = document.createElement("div");
  place.style.width = `${width}px`;
  document.body.append(place);
  const rows = [...Array(200).keys()].map((step) => ({
    window_end: new Date(1000 * every * (step + 1)).toISOString(),
    estimate: step, lower: step - 1, upper: step + 1,
  }));
  const chart = new Chart(place);
  chart.draw(rows, new Clock("UTC", "1s"), { stepped: false, fromZero: true });
  await new Promise((done) => setTimeout(done, 50));
  const [low, high] = [chart.plot.scales.x.min, chart.plot.scales.x.max];
  const { _splits, _values } = chart.plot.axes[0];
  const times = _values.filter((text, at) => text && _splits[at] >= low && _splits[at] <= high);
  place.remove();
  return times;
})"""


@pytest.mark.parametrize("every", [1, 7, 60, 100, 3600, 10_000, 86_400, 604_800])
def test_a_chart_on_a_phone_names_times(watched: Page, every: int) -> None:
    page = watched.open("visits")
    for width in (290, 330):
        times = page.evaluate(f"{_CHART}([{width}, {every}])")
        assert len(times) >= 2, (width, every)


def test_page_follows_dark_scheme_of_system(served: str, browser: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    found = set()
    for scheme in ("light", "dark"):
        with watching(browser, served, color_scheme=scheme) as watched:
            found.add(watched.open("visits").evaluate(ground))
            assert watched.complaints == []
    assert len(found) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_violation_is_found_by_axe(served: str, browser: Any, width: int, scheme: str) -> None:
    axe = Path(find_spec("axe_playwright_python").origin).with_name("axe.min.js").read_text()  # type: ignore[union-attr, arg-type]
    size = {"width": width, "height": 900}
    options: dict[str, Any] = {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
    with watching(browser, served, **options) as watched:
        for stream in ("visits", "shelves", "later", "paid", "revised"):
            page = watched.open(stream, windows=int(stream != "later"))
            page.evaluate(axe)
            found = page.evaluate("axe.run(document)")
            said = {one["id"]: one["nodes"][0]["html"] for one in found["violations"]}
            assert said == {}, stream
            # What axe cannot judge is text that is scrolled out of sight, or a single letter.
            unsure = {
                check["data"]["messageKey"] if isinstance(check["data"], dict) else one["id"]
                for one in found["incomplete"]
                for node in one["nodes"]
                for check in node["any"] + node["none"]
            }
            assert unsure <= {"elmPartiallyObscured", "shortTextContent"}, stream
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.complaints == []


def test_a_day_is_called_by_its_own_name(watched: Page) -> None:
    """And not by the midnight at which it ends, which is the next day's; nor is an hour changed."""
    page = watched.open("visits")
    said = page.evaluate(
        """async () => {
          const page = document.querySelector('script[type=module]').src;
          const { Clock } = await import(page.replace("app.js", "format.js"));
          const at = (text) => Date.parse(text);
          const [days, hours] = ["1d", "1h"].map((every) => new Clock("Europe/Copenhagen", every));
          const [begin, end] = [at("2024-03-28T23:00Z"), at("2024-03-29T23:00Z")];
          return [days.end(end), days.window(begin, end),
                  days.window(at("2024-03-24T23:00Z"), at("2024-03-31T22:00Z")),
                  hours.end(end), hours.window(begin, at("2024-03-29T00:00Z"))];
        }"""
    )
    assert said == [
        "29 Mar 2024", "29 Mar 2024", "25 Mar 2024 to 31 Mar 2024",
        "30 Mar 2024, 00:00", "29 Mar 2024, 00:00 to 01:00",
    ]  # fmt: skip


def test_numbers_are_written_as_elsewhere(watched: Page) -> None:
    page = watched.open("visits")
    # Ties too: an estimate is a multiple of 2^-10, so that one of 1,024 lies between two numbers.
    ties = [whole + part / 1024 for whole in (-1719, -2, 0, 1, 1718) for part in (64, 512, 640)]
    numbers = [0.0, -0.004, 12345.678, -58_650.4, 1e7, 0.12345, 99.5, 100.0, *ties]
    errors = [0.021, 0.4, 3.7, 9.99, 10.0, 53.2, 1e-4]
    asked = [[number, error] for number in numbers for error in errors]
    module = page.evaluate(FORMATS)
    written = page.evaluate(
        "async ([module, asked]) => { const { quantity } = await import(module);"
        " return asked.map(([number, error]) => quantity(number, error)); }",
        [module, asked],
    )
    assert written == [quantity(number, error) for number, error in asked]


def test_series_are_named_by_columns_without_numbers(watched: Page) -> None:
    module = watched.open("visits").evaluate(FORMATS)
    when = {
        "window_index": 3,
        "series": "cumulative",
        "window_start": "2026-01-01T00:00Z",
        "window_end": "2026-01-01T01:00Z",
    }
    numbers = {
        "estimate": 5.0, "noise_std": 1.0, "lower": 3, "upper": 7, "confidence_level": 0.95,
    }  # fmt: skip
    for columns, name in (
        ({"group": "home"}, "home"),
        ({}, "all"),
        ({"group": "home", "measure": "mean"}, "home · mean"),
        ({"rank": 1, "group": "home", "is_certain": True}, "home"),
        ({"degree": 4}, "degree 4"),
        ({"quantile": 0.5}, "median"),
        ({"quantile": 0.9}, "90% below"),
        ({"tree_level": "city", "country": "DK", "city": None}, "city · DK"),
        ({"age": 30, "measure": "running total"}, "age 30 · running total"),
    ):
        found = watched.page.evaluate(
            "async ([module, row]) => (await import(module)).nameOf(row)",
            [module, {**when, **columns, **numbers, "note": "broken"}],
        )
        assert found == name


def test_page_requests_only_its_own_service(watched: Page) -> None:
    page = watched.open("visits")
    watched.until(f"{_STEPS} > {steps(page) + 1}")
    others = [address for address in watched.asked if not address.startswith(watched.url)]
    assert set(others) <= {"about:blank"}


def test_the_stream_that_was_chosen_last_is_shown(served: str, browser: Any) -> None:
    names = ["paid", "waits", "best", "spent", "alone", "shelves", "visits"]
    choose = """names => names.forEach((name) => {
      const field = document.querySelector("#streams");
      field.value = name;
      field.dispatchEvent(new Event("change"));
    })"""
    with watching(browser, served, late=1000) as watched:
        page = watched.open("long")
        for first in range(3):  # so that another answer comes last each time
            page.evaluate(choose, names[first:])
            watched.drawn("visits")
            page.wait_for_timeout(3000)  # all answers are there
            watched.drawn(
                "visits", int(page.evaluate("document.querySelector('#numbers').dataset.step")) + 1
            )
            assert texts(page, "h1") == ["visits"]
            assert page.evaluate("document.querySelector('#streams').value") == "visits"
        assert watched.complaints == []


def test_page_reports_lost_connection_and_reconnects(tmp_path: Path, browser: Any) -> None:
    state = "document.querySelector('#state').dataset.state"
    running = ExitStack()
    url, _ = running.enter_context(serving(tmp_path, jobs()))
    with running, watching(browser, url) as watched:
        page = watched.open("visits")
        before = steps(page)
        running.close()
        watched.until(f"{state} === 'lost'")
        assert "connection lost" in texts(page, "#state")[0]
        assert history(page)  # what was there stays
        running.enter_context(service(tmp_path, "--listen", url.removeprefix("http://")))
        watched.until(f"{state} === 'live'")
        watched.until(f"{_STEPS} > {before + 1}")


def test_token_is_requested_and_kept_in_tab(tmp_path: Path, browser: Any) -> None:
    with serving(tmp_path, jobs("false")) as (url, tokens), watching(browser, url) as watched:
        page = watched.page
        page.goto(f"{url}/#stream=visits")
        field = page.get_by_role("textbox", name="Token")
        field.fill("counton_wrong")
        page.keyboard.press("Enter")
        page.get_by_text("Paste a token that may read", exact=False).wait_for()
        field.fill(tokens.read)
        page.keyboard.press("Enter")
        watched.drawn("visits")
        assert page.evaluate("sessionStorage.length") == 1
        assert page.evaluate("Object.values(localStorage).join()") == ""
        assert tokens.read not in page.url
        page.reload()
        watched.drawn("visits")
