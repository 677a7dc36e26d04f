"""The page of a service in a real browser: `make test-live`; skipped where there is none."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from counton.base.exact import quantity
from examples.live import service
from tools.browser import Page, browsing, chromium, sending, serving, watching

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
steps = 20000
start = "{recent}"
epsilon = 1
unit = "visit"
timezone = "Europe/Copenhagen"

[jobs.visits]
statistic = "count"
every = "1s"
by = "page"
domain = ["home", "shop", "news", "help", "about"]
release = "both"

[jobs.shelves]
statistic = "count"
by = "shelf"
domain = {many}

[jobs.alone]
statistic = "count"

[jobs.revised]
statistic = "count"
by = "page"
domain = ["home", "shop"]
revise = "20s"

[jobs.long]
statistic = "count"
by = "page"
domain = ["home", "shop"]
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
by = "page"
domain = ["home", "shop"]
lower = 0
upper = 100
resolution = 1
level = 0.8

[jobs.waits]
statistic = "quantiles"
value = "paid"
lower = 0
upper = 100
cells = 10
steps = 1000

[jobs.best]
statistic = "top-k"
by = "page"
domain = ["home", "shop", "news", "help", "about"]
top = 3

[jobs.later]
statistic = "count"
by = "page"
domain = ["home", "shop"]
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
        yield url


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


#: That the page says of more windows than so many that they are released.
_MORE_STEPS = (
    "Number(document.querySelector('#facts').textContent"
    ".match(/released([0-9,]+)/)[1].replace(',', '')) > {}"
)


def steps(page: Any) -> int:
    """How many windows the page says are released."""
    found: int = page.evaluate(
        "Number([...document.querySelectorAll('#facts div')]"
        ".find(fact => fact.textContent.startsWith('Windows released'))"
        ".lastChild.textContent.split(' of ')[0].replaceAll(',', ''))"
    )
    return found


def texts(page: Any, selector: str) -> list[str]:
    """Texts of all elements, as of one moment."""
    found: list[str] = page.evaluate(
        "selector => [...document.querySelectorAll(selector)].map(one => one.innerText)", selector
    )
    return found


def groups(watched: Page, number: int) -> None:
    """Wait until so many groups are listed."""
    watched.until(f"document.querySelectorAll('#groups li').length === {number}")


def table(page: Any) -> list[list[str]]:
    """All that stands in the table, as of one moment."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#table tr')].map("
        "row => [...row.querySelectorAll('th, td')].map(cell => cell.innerText))"
    )
    return found


def newest(page: Any) -> list[str]:
    return texts(page, "#table tbody tr:first-child :is(th, td)")


def shown(row: dict[str, Any]) -> str:
    """A released row as the page writes it."""
    half = (row["upper"] - row["lower"]) / 2
    whole = all(number == int(number) for number in (row["estimate"], half))
    return f"{quantity(row['estimate'], half, whole)} ± {quantity(half, half, whole)}"


def test_provisional_windows_are_marked_until_they_are_final(watched: Page) -> None:
    page = watched.open("revised", windows=6)
    open_rows = [["provisional" in cell for cell in row[1:]] for row in table(page)[1:]]
    assert open_rows[:5] == [[True, True]] * 4 + [[False, False]]
    assert not any(map(any, open_rows[5:]))
    assert "still take late rows" in texts(page, "#chart-note")[0]
    last = newest(page)[0]
    watched.until(
        f"[...document.querySelectorAll('#table tbody tr')].findIndex("
        f"row => row.innerText.startsWith({last!r})) === 4"
    )
    row = next(row for row in table(page)[1:] if row[0] == last)
    assert "provisional" not in row[1]  # by news alone: nothing was asked anew
    plain = watched.open("visits")
    assert "late rows" not in texts(plain, "#chart-note")[0]


def test_numbers_move_and_are_the_released_ones(watched: Page) -> None:
    page = watched.open("visits")
    before = steps(page)
    rows = newest(page)
    watched.until(f"document.querySelector('#table tbody th').textContent !== {rows[0]!r}")
    watched.until(_MORE_STEPS.format(before))
    assert steps(page) > before
    # Everything that stands in the table was released as it stands there: read before it is asked
    # for, since more is released meanwhile.
    heads, *written = table(page)
    released = watched.api("streams/visits/series?last=10000&of=totals")["rows"]
    told: dict[int, dict[str, str]] = {row["step"]: {} for row in released}
    for row in released:
        told[row["step"]][row["group"]] = shown(row)
    for each in written[:50]:
        assert dict(zip(heads[1:], each[1:], strict=True)) in told.values()
    assert set(heads[1:]) == set(PAGES)


def test_groups_are_picked_and_the_address_says_which(watched: Page) -> None:
    page = watched.open("visits", "&group=home&group=news")
    assert texts(page, "#legend b") == ["home", "news"]
    page.get_by_role("checkbox", name="shop").check()
    page.get_by_role("checkbox", name="home").uncheck()
    watched.drawn("visits")
    assert texts(page, "#legend b") == ["news", "shop"]
    assert table(page)[0][1:] == ["news", "shop"]
    assert "group=news&group=shop" in page.url
    page.reload()
    watched.drawn("visits")
    assert texts(page, "#legend b") == ["news", "shop"]


def test_windows_by_themselves(watched: Page) -> None:
    page = watched.open("visits")
    page.get_by_role("radio", name="Windows").check()
    page.get_by_role("heading", name="In each window").wait_for()
    watched.drawn("visits")
    heads, *written = table(page)
    released = watched.api("streams/visits/series?last=10000&of=windows")["rows"]
    told = {shown(row) for row in released if row["group"] == "home"}
    column = heads.index("home")
    assert {each[column] for each in written[1:10]} <= told


def test_the_keyboard_alone(watched: Page) -> None:
    page = watched.open("visits", windows=20)
    page.get_by_role("radio", name="Totals").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "checkbox":
            break
    before = texts(page, "#legend b")
    page.keyboard.press("Space")
    watched.until(f"document.querySelectorAll('#legend b').length !== {len(before)}")


def test_dark_as_the_system_has_it(served: str, browser: Any) -> None:
    ground, found = "getComputedStyle(document.body).backgroundColor", set()
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
        for stream in ("visits", "shelves", "later", "paid"):
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


def test_nothing_is_released_yet(watched: Page) -> None:
    page = watched.open("later", windows=0)
    page.get_by_text("Nothing has been released yet").wait_for()
    assert steps(page) == 0


def test_one_group_and_no_list_of_groups(watched: Page) -> None:
    page = watched.open("alone")
    assert page.locator("#groups-card").is_hidden()
    assert texts(page, "#facts .large dt") == ["So far"]


def test_two_hundred_groups_are_listed(watched: Page) -> None:
    page = watched.open("shelves")
    groups(watched, 200)
    page.get_by_role("checkbox", name="shelf 199").check()
    watched.until("document.querySelector('#legend').textContent.includes('shelf 199')")


@pytest.mark.parametrize(
    ("stream", "line"), [("paid", "mean"), ("waits", "median"), ("best", "home")]
)
def test_other_statistics_have_a_chart_and_a_table(watched: Page, stream: str, line: str) -> None:
    page = watched.open(stream)  # by itself, if nothing was released yet
    page.get_by_role("heading", name="Up to the end of each window").wait_for()
    assert line in table(page)[0]
    assert page.locator("#of").is_hidden()


def test_the_measures_of_an_average_are_not_mixed(watched: Page) -> None:
    page = watched.open("spent")
    names = "#groups li label > span:not([class])"
    assert "Largest mean: " in texts(page, "#facts")[0]
    assert sorted(texts(page, names)) == ["home", "shop"]
    assert sorted(table(page)[0][1:]) == ["home", "shop"]
    page.get_by_role("radio", name="Count").check()
    page.get_by_role("heading", name="Count up to the end of each window").wait_for()
    assert "Largest count: home" in texts(page, "#facts")[0]
    assert sorted(table(page)[0][1:]) == ["home", "shop"]
    page.reload()  # the address says which
    page.get_by_role("heading", name="Count up to the end of each window").wait_for()


def test_bands_are_those_of_the_streams_files(watched: Page) -> None:
    page = watched.open("spent")
    assert "80%" in texts(page, "#chart-note")[0]
    assert "level=" not in page.url
    asked = sum("/series?" in address for address in watched.asked)
    before = newest(page)[0]
    watched.until(f"document.querySelector('#table tbody th').textContent !== {before!r}")
    # News brought the rows as they are shown: nobody asked for them again.
    assert sum("/series?" in address for address in watched.asked) == asked


#: Where cards begin, where the cells of the newest row end, and where their table does.
_PLACES = """(() => {
  const place = (one) => one.getBoundingClientRect();
  const cards = ["protected", "download"];
  return [
    cards.map((name) => place(document.querySelector(`#${name}-card`)).top),
    [...document.querySelectorAll("#table tbody tr:first-child td")].map((one) => place(one).right),
    place(document.querySelector("#table-scroll")).right,
  ];
})()"""


@pytest.mark.parametrize("width", [360, 390])
def test_on_a_phone_protection_and_downloads_come_last(
    served: str, browser: Any, width: int
) -> None:
    with watching(browser, served, viewport={"width": width, "height": 844}) as watched:
        for stream in ("visits", "spent", "waits"):
            page = watched.open(stream)
            tops, edges, right = page.evaluate(_PLACES)
            assert tops == sorted(tops)
            assert sum(edge <= right + 1 for edge in edges) >= 2, stream
            assert page.evaluate("document.documentElement.scrollWidth") <= width
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
  const windows = [...Array(200).keys()].map((step) => ({
    start: 1000 * every * step, end: 1000 * every * (step + 1),
  }));
  const rows = windows.map((_, step) => ({ estimate: step, lower: step - 1, upper: step + 1 }));
  const lines = ["first", "second"].map((name, colour) => ({ name, colour, rows }));
  const chart = new Chart(place);
  chart.draw({ clock: new Clock("UTC", every), windows, lines, stepped: false, fromZero: true });
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


def test_on_a_phone_all_of_a_few_groups_are_seen(served: str, browser: Any) -> None:
    with watching(browser, served, viewport={"width": 390, "height": 844}) as watched:
        page = watched.open("visits", windows=20)
        assert page.evaluate("document.documentElement.scrollHeight") < 2600
        assert page.evaluate(
            "(list => list.scrollHeight <= list.clientHeight)(document.querySelector('#groups'))"
        )
        assert watched.complaints == []


def test_downloads_are_what_was_released(watched: Page) -> None:
    page = watched.open("visits")
    read = {}
    for form in ("csv", "json"):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=form.upper()).click()
        read[form] = Path(waiting.value.path()).read_bytes()
    rows = json.loads(read["json"])["rows"]
    again = watched.api(f"streams/visits/series?of=totals&last={10_000}")["rows"]
    assert rows == again[: len(rows)]
    lines = list(csv.DictReader(io.StringIO(read["csv"].decode())))
    assert [int(line["step"]) for line in lines] == [row["step"] for row in rows][: len(lines)]


def test_what_is_protected_stands_there_in_words(watched: Page) -> None:
    page = watched.open("visits")
    about = watched.api("streams/visits")
    said, people, budget = (texts(page, place)[0] for place in ("#protected", "#people", "#budget"))
    assert said == about["protects"]
    assert "whether one visit is there" in said
    assert not re.search(r"\bcell|\bstep|added or removed|epsilon", said)
    assert (
        people == "People are not protected: a person with 100 visits loses 100 times the epsilon."
    )
    assert about["budget"]["spent"] in budget
    lines = [one.rstrip(".").lower() for one in texts(page, "#besides li")]
    assert lines == about["besides_noise"]
    assert lines
    page.get_by_text("In terms of the field").click()
    whole = texts(page, "#guarantee")[0]
    assert about["guarantee"] in whole
    assert about["protected"][1:] in whole


@pytest.mark.parametrize(
    ("stream", "unit"),
    [("visits", "visits"), ("paid", "paid"), ("spent", "paid"), ("best", "visits")],
)
def test_every_number_says_what_it_is_of(watched: Page, stream: str, unit: str) -> None:
    page = watched.open(stream)
    watched.until("document.querySelector('#axis').textContent !== ''")  # the chart comes last
    assert texts(page, "#axis") == [unit]
    assert texts(page, "#facts .large dd")[0].endswith(f" {unit}")
    assert texts(page, "#table-note")[0].startswith(f"In {unit}.")
    if stream == "spent":
        page.get_by_role("radio", name="Count").check()
        watched.until("document.querySelector('#axis').textContent === 'visits'")


def test_a_day_is_called_by_its_own_name(watched: Page) -> None:
    """And not by the midnight at which it ends, which is the next day's; nor is an hour changed."""
    page = watched.open("visits")
    said = page.evaluate(
        """async () => {
          const page = document.querySelector('script[type=module]').src;
          const { Clock } = await import(page.replace("app.js", "format.js"));
          const at = (text) => Date.parse(text);
          const [days, hours] = [86400, 3600].map((every) => new Clock("Europe/Copenhagen", every));
          const [begin, end] = [at("2024-03-28T23:00Z"), at("2024-03-29T23:00Z")];
          return [days.end(end), days.until(end), days.window(begin, end),
                  days.window(at("2024-03-24T23:00Z"), at("2024-03-31T22:00Z")),
                  hours.until(end), hours.window(begin, at("2024-03-29T00:00Z"))];
        }"""
    )
    assert said == [
        "29 Mar 2024", "the end of 29 Mar 2024", "29 Mar 2024", "25 Mar 2024 to 31 Mar 2024",
        "30 Mar 2024, 00:00", "29 Mar 2024, 00:00 to 01:00",
    ]  # fmt: skip


def test_it_asks_nobody_else(watched: Page) -> None:
    page = watched.open("visits")
    watched.until(_MORE_STEPS.format(steps(page) + 1))
    others = [address for address in watched.asked if not address.startswith(watched.url)]
    assert set(others) <= {"about:blank"}


#: Keeps what the page says and shows after each time that it draws its table.
_SEEN = """(() => {
  const text = (place) => document.querySelector(place).innerText;
  const draw = () => window.seen.push([
    text("#chart-title"), text("#chart-note"),
    [...document.querySelectorAll("#table thead th")].slice(1).map((one) => one.innerText),
    [...document.querySelectorAll("#table tbody tr:nth-child(-n+3)")].map(
      (row) => [...row.querySelectorAll("td")].map((cell) => cell.innerText)),
  ]);
  window.seen = [];
  new MutationObserver(draw).observe(document.querySelector("#table tbody"), { childList: true });
})()"""


def test_what_answers_one_question_never_stands_below_another(served: str, browser: Any) -> None:
    with watching(browser, served, late=1500) as watched:
        page = watched.open("visits", windows=20)
        page.evaluate(_SEEN)
        for of, heading in (("Windows", "In each window"), ("Totals", "Running totals")) * 2:
            page.get_by_role("radio", name=of).check()
            page.get_by_role("heading", name=heading).wait_for()
        page.get_by_role("checkbox", name="help").uncheck()
        page.get_by_role("checkbox", name="help").check()
        watched.drawn("visits")
        seen = page.evaluate("window.seen")
        assert watched.complaints == []
    told: dict[str, list[dict[str, str]]] = {}
    for title, of in (("Running totals", "totals"), ("In each window", "windows")):
        steps: dict[int, dict[str, str]] = {}
        for row in watched.api(f"streams/visits/series?last=10000&of={of}")["rows"]:
            steps.setdefault(row["step"], {})[row["group"]] = shown(row)
        told[title] = list(steps.values())
    for title, _, heads, rows in seen:
        for cells in rows:
            row = dict(zip(heads, cells, strict=True))
            assert any(row.items() <= each.items() for each in told[title]), title
    assert {title for title, *_ in seen} == {"Running totals", "In each window"}


def test_a_group_that_is_shown_again_has_what_came_meanwhile(served: str, browser: Any) -> None:
    with watching(browser, served) as watched:
        page = watched.open("visits", windows=20)
        page.get_by_role("checkbox", name="help").uncheck()
        watched.drawn("visits")
        before = int(page.evaluate("document.querySelector('#numbers').dataset.step"))
        watched.drawn("visits", before + 2)
        page.get_by_role("checkbox", name="help").check()
        watched.drawn("visits")
        assert not [row for row in table(page) if "–" in row]


def test_no_window_is_lost_between_an_answer_and_the_news(served: str, browser: Any) -> None:
    with watching(browser, served, late=2500) as watched:
        page = watched.open("visits", windows=20)
        for of in ("Windows", "Totals", "Windows"):
            page.get_by_role("radio", name=of).check()
            watched.drawn("visits")
            before = page.evaluate("document.querySelector('#numbers').dataset.step")
            watched.drawn("visits", int(before) + 2)
        ends = [
            datetime.strptime(" ".join(row[0].split()), "%d %b %Y, %H:%M:%S")
            for row in table(page)[1:]
        ]
        assert {one - other for one, other in pairwise(ends)} == {timedelta(seconds=1)}


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
            page.wait_for_timeout(1000)  # all answers are there
            watched.drawn(
                "visits", int(page.evaluate("document.querySelector('#numbers').dataset.step")) + 1
            )
            assert texts(page, "h1") == ["visits"]
            assert page.evaluate("document.querySelector('#streams').value") == "visits"
        assert watched.complaints == []


def test_nothing_moves_for_readers_who_do_not_want_it(served: str, browser: Any) -> None:
    name = "getComputedStyle(document.querySelector('.dot')).animationName"
    for wish, found in (("reduce", "none"), ("no-preference", "breathe")):
        with watching(browser, served, reduced_motion=wish) as watched:
            assert watched.open("visits").evaluate(name) == found


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


def test_lines_are_named_by_what_is_no_measure(watched: Page) -> None:
    module = watched.open("visits").evaluate(FORMATS).replace("format.js", "series.js")
    when = {"step": 3, "window_start": "2026-01-01T00:00Z", "window_end": "2026-01-01T01:00Z"}
    numbers = {"estimate": 5.0, "std": 1.0, "lower": 3, "upper": 7}
    for columns, name in (
        ({"group": "home"}, "home"),
        ({}, "all"),
        ({"group": "home", "name": "mean"}, "home · mean"),
        ({"rank": 1, "group": "home", "sure": True}, "home"),
        ({"degree": 4}, "degree 4"),
        ({"share": 0.5}, "median"),
        ({"share": 0.9}, "90% below"),
        ({"level": "city", "country": "DK", "city": None}, "city · DK"),
        ({"age": 30, "running_total": 9, "running_total_std": 1.5}, "age 30"),
    ):
        found = watched.page.evaluate(
            "async ([module, row]) => (await import(module)).Series.nameOf(row)",
            [module, {**when, **columns, **numbers}],
        )
        assert found == name


def test_a_lost_connection_is_told_and_found_again(tmp_path: Path, browser: Any) -> None:
    state = "document.querySelector('#state').dataset.state"
    running = ExitStack()
    url, _ = running.enter_context(serving(tmp_path, jobs()))
    with running, watching(browser, url) as watched:
        page = watched.open("visits")
        before = steps(page)
        running.close()
        watched.until(f"{state} === 'lost'")
        assert "connection lost" in texts(page, "#state")[0]
        assert len(table(page)) > 1  # what was there stays
        running.enter_context(service(tmp_path, "--listen", url.removeprefix("http://")))
        watched.until(f"{state} === 'live'")
        watched.until(_MORE_STEPS.format(before + 1))


def test_a_token_is_asked_for_and_kept_in_this_tab(tmp_path: Path, browser: Any) -> None:
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
