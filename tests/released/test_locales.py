"""Charts and pages in other languages: every text has its places, and no file changes."""

from __future__ import annotations

import ast
import base64
import io
import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from corpus import CORPUS, unpack
from typer.testing import CliRunner

from counton import read
from counton.base.errors import InvalidInput
from counton.base.language_files import LANGUAGES, locale_named, texts
from counton.base.lengths import PERIODS
from counton.base.locales import ENGLISH, local_number, local_text, present, speaking
from counton.base.windows import EachRow
from counton.charts.statistic_charts import heading
from counton.cli.app import app
from counton.job.jobfile import load, save
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, PureDP
from counton.privacy.guarantees import CHANGED, parts_in_words, people_in_words
from counton.run import Job, export, methods, run
from counton.run.outputs import Outputs
from counton.strategies import Expiring

SOURCE = Path(__file__).parents[2] / "src" / "counton"
#: Texts that are put together from parts, or stand in a table.
COMPOSED = {
    *PERIODS.values(),
    *(f"{period}s" for period in PERIODS.values()),
    *("in each {period}", "in each {period} so far"),
    *("added or removed", "replaced by another", "final", "provisional"),
    *("estimate", "in this window"),
    *("number of distinct {units}", "number of {units}", "sum of {value}"),
    *(
        f"{kind} differential privacy with {names}"
        for kind, names in (
            ("pure", "epsilon = {epsilon}"),
            ("approximate", "epsilon = {epsilon} and delta = {delta}"),
            ("zero-concentrated", "rho = {rho}"),
        )
    ),
    "{what} so far, {until} (window {number}, {zone})",
    "{what} in the window {until} (window {number}, {zone})",
    "{what} by window, as known {until} (window {number}, {zone})",
    "{table}, with intervals of {level}%; {facts} says what they promise.",
    *(one for one in texts() if one.startswith("counted by arrival: a row that came after")),
    "{count} groups, named beforehand",
    *(f"at most {kind} = {{loss}} in {{groups}}" for kind in ("epsilon", "rho")),
    "expiring differential privacy with epsilon = {epsilon}",
    "expiring zero-concentrated differential privacy with rho = {rho}",
    *(
        f"{begin} {rest}"
        for begin in CHANGED.values()
        for rest in (
            "makes no output more than {factor} times as likely or as unlikely",
            "makes no output more than {factor} times as likely or as unlikely, plus a "
            "probability of {delta}",
            "changes what is released, in Renyi divergences of whole order (means of how much "
            "likelier outcomes get), by no more than moving a bell curve by {count} standard "
            "deviations does",
            "changes what is released, in Renyi divergences of whole order (means of how much "
            "likelier outcomes get), by no more than moving a bell curve by {count} standard "
            "deviation does",
            "changes the probability of everything released so far by a factor that starts small "
            "and grows slowly as it gets older",
        )
    ),
    *(
        f"With a probability of {{level}}% each, {error}."
        for error in (
            "the newest numbers are off by at most {far}",
            "the numbers are off by at most {far}",
            "true numbers are in published ranges",
        )
    ),
    *(
        f"The {{what}}{which} was published {times}{row}."
        for which in ("", " so far")
        for times in ("once", "{count} times")
        for row in ("", ", after each row")
    ),
    *("total {name}", "number {name}"),
    *("values", "weights", "a cut", "the sum", "the average", "the number"),
    "means, variances and slopes",
    *("comings and goings beyond {count} of each {unit}", "periods beyond {count} of each {unit}"),
    EachRow.in_the_middle,
}


#: Statistics whose numbers are drawn over time or side by side.
CURVES = (
    *("average", "quantiles", "report", "top-k", "distinct", "reach", "substrings", "degrees"),
    *("edges", "cuts", "hierarchy", "contingency", "ranges"),
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A stream of 40 days of two places."""
    start = datetime(2024, 3, 1, tzinfo=UTC)
    rows = [
        (start + timedelta(days=day, hours=2), place)
        for day in range(40)
        for place, many in (("shore", 900), ("museum", 40))
        for _ in range(many)
    ]
    events = pl.DataFrame(rows, schema=["time", "place"], orient="row")
    run(Job(
        "count", events, tmp_path / "v.db", time="time", every="1d", start=start, steps=100,
        until="newest", by="place", domain="shore,museum", epsilon="0.5", unit="visitor",
        release="both", witness="none",
    )).close()  # fmt: skip
    return tmp_path / "v.db"


#: Words of which a German text has none.
ENGLISH_WORDS = re.compile(
    r"\b(running|number|with|the|of|by|so far|intervals?|mean|all|group|each|at|is|and|not)\b",
    re.IGNORECASE,
)


def texts_of_charts() -> set[str]:
    """Titles of all statistics, of numbers so far and of some steps, and what their axes say."""
    found = {"count"}  # the axis that none states
    for path in (SOURCE / "statistics").rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "ChartSpec" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ChartSpec":
                said = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
                found |= {heading(one, running) for one in said[:1] for running in (True, False)}
                found |= {*said[1:2]}
    return found - {""}


def texts_of_phrases() -> set[str]:
    """What each statistic is called in a sentence."""
    found = set[str]()
    for path in (SOURCE / "statistics").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "phrase":
                assert isinstance(node.value, ast.Constant)
                found.add(str(node.value.value))
    return found


def written_on(figure: Any) -> list[str]:
    """All words of a chart, as they are drawn."""
    from matplotlib.text import Text

    figure.savefig(io.BytesIO(), format="png")
    found = [one.get_text() for one in figure.findobj(Text)]
    return [" ".join(text.split("\n")).strip() for text in found if text.strip()]


def test_every_text_of_the_source_is_in_every_language() -> None:
    said = set[str]()
    callers = ("local_text", "number_ticks")
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if any(one in text for one in callers) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in callers and node.args:
                texts_of = node.args[0]
                both = [texts_of.body, texts_of.orelse] if isinstance(texts_of, ast.IfExp) else []
                for one in both or [texts_of]:
                    if isinstance(one, ast.Constant):
                        said.add(str(one.value))
    assert said | COMPOSED | texts_of_charts() | texts_of_phrases() == texts()
    for language in LANGUAGES:
        assert set(locale_named(language).words) == texts()


def test_a_chart_in_german(state: Path) -> None:
    figures = export(state).figures(locale="de", source="Kiel")
    words = written_on(figures["totals"])
    assert "Anzahl der Besucher, laufend, nach place" in words
    assert any(one.startswith("seit 1. März 2024; mit 95-%-Intervallen") for one in words)
    assert any(re.fullmatch(r"3\d\.\d{3} ± \d+", one) for one in words)
    assert sum(re.fullmatch(r"\d+\.000", one) is not None for one in words) > 2
    assert any(one.startswith("1. Apr") for one in words)
    (foot,) = (one for one in words if one.startswith("Quelle: Kiel. Rauschen"))
    assert "mit Epsilon = 0,5; hinzugefügt oder entfernt); Zeiten: UTC; nach Ankunft" in foot
    assert not [one for one in words if re.search(r"\b(number|with|the|since|of)\b", one)]
    windows = written_on(figures["windows"])
    assert any("je Tag" in one for one in windows)
    assert present() is ENGLISH


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Released files of all statistics, in a folder each."""
    folder = tmp_path_factory.mktemp("kept")
    unpack(max(CORPUS.iterdir()) / "states.tar.xz", folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", CURVES)
def test_a_chart_of_a_statistic_in_german(name: str, kept: Path) -> None:
    (figure,) = read(kept / name / "released.parquet").figures(locale="de").values()
    words = written_on(figure)
    assert any("95-%-Intervall" in one for one in words)
    assert not [one for one in words if ENGLISH_WORDS.search(one)]
    said = read(kept / name / "released.parquet").methods(locale="de")
    assert not ENGLISH_WORDS.search(said), said


def test_methods_in_german(state: Path, tmp_path: Path) -> None:
    said = {}
    for locale in ("en", "de"):
        done = CliRunner().invoke(app, ["methods", str(state), "--locale", locale])
        assert done.exit_code == 0, done.output
        said[locale] = " ".join(done.output.split())
    ((name, plain),) = methods(state).items()
    assert said["en"] == plain
    assert said["de"] == methods(state, locale="de")[name] == export(state).methods(locale="de")
    assert said["de"].startswith(
        "Veröffentlicht wurde nach jedem Zeitraum (Tag), 1. März bis 8. April 2024 (Zeitzone UTC): "
        "Anzahl der Besucher nach place (2 Gruppen, vorab benannt), bisher und je Tag. Vor der "
        "Veröffentlichung wurde zufälliges Rauschen beigemischt: Es begrenzt, wie gut jemand aus "
        "allen veröffentlichten Zahlen zusammen erkennen kann, ob eine einzelne Einheit (Besucher) "
        "dabei ist."
    )
    assert not ENGLISH_WORDS.search(said["de"])
    with pytest.raises(InvalidInput, match="whole account is in English: leave out locale or full"):
        methods(state, full=True, locale="de")
    with pytest.raises(InvalidInput, match="locale=xx is not a known language"):
        methods(state, locale="xx")


@pytest.mark.parametrize("relation", CHANGED)
def test_promises_in_german(relation: Any) -> None:
    growing = Expiring(growth=1, delay=2)
    promises = [
        *(PureDP("0.5"), ApproxDP(1, "1e-6"), ZCDP("0.5"), ZCDP(2)),
        *(ExpiringDP(1).bound_to(growing), ExpiringZCDP("0.25").bound_to(growing)),
    ]
    with speaking(locale_named("de")):
        for promise in promises:
            said = f"{promise} {promise.loss_in_words} "
            said += promise.meaning_for("visit", relation)
            said += people_in_words(promise, "visit") + parts_in_words(promise, "reader's day")
            assert "Einheit (Besuch)" in said
            assert "jede Einheit (Leser-Tag)" in said
            assert not ENGLISH_WORDS.search(said), said


def test_english_is_as_it_was(state: Path) -> None:
    found = export(state)
    plain, english = (
        [written_on(figure) for figure in found.figures(locale=locale).values()]
        for locale in (None, "en")
    )
    assert plain == english
    assert "Running number of visitors, by place" in plain[0]


def test_a_file_replaces_some_words(state: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'language = "de"\nthousands = "\u202f"\n'
        '[names]\n"place" = "Ort"\n"shore" = "Strand"\n'
        '[words]\n"Running {what}" = "{what} bisher"\n',
        encoding="utf-8",
    )
    words = written_on(export(state).plot(locale=own))
    assert "Anzahl der Besucher bisher, nach Ort" in words
    assert {"Strand", "museum"} <= {*words}
    assert sum(re.fullmatch("\\d+\u202f000", one) is not None for one in words) > 2
    french = tmp_path / "fr.TOML"
    french.write_text('language = "fr"\ndecimal = ","\nthousands = " "', encoding="utf-8")
    assert "Running number of visitors, by place" in written_on(export(state).plot(locale=french))
    with speaking(locale_named(french)):
        assert local_number("1,234.5") == "1 234,5"
        assert local_text("step {number}", number="3") == "step 3"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("language = ", "is not valid TOML"),
        ('decimal = ","', "does not say its language"),
        (
            'language = "de"\nmonth = []',
            "'month', which no file of a language has: did you mean months?",
        ),
        ('language = "de"\nmonths = ["Januar"]', "give a list of all 12 names"),
        ('language = "de"\ndecimal = ";"', "decimal = ';'"),
        ('language = "de"\ndecimal = "."', "for both decimal and thousands"),
        ('language = "de"\nwords = 3', "begins with the line [words]"),
        ('language = "de"\n[words]\n"step {numbers}" = "x"', "writes no such text: did you mean"),
        ('language = "de"\n[words]\n"step {number}" = "Schritt"', "each name in braces"),
        ('language = "de"\n[words]\n"step {number}" = "{number.real}"', "each name in braces"),
        ('language = "de"\n[words]\n"step {number}" = "{number!r}"', "each name in braces"),
        ('language = "de"\n[words]\n"step {number}" = "{number"', "each name in braces"),
    ],
)
def test_a_file_that_is_wrong_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        locale_named(tmp_path / "own.toml")
    assert why in str(refused.value)
    assert "own.toml" in str(refused.value)


def test_an_unknown_language_is_refused_before_anything_is_released(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="locale=xx is not a known language: give one of en, de"):
        locale_named("xx")
    with pytest.raises(InvalidInput, match="cannot be read"):
        locale_named(tmp_path / "none.toml")
    events = pl.DataFrame({"time": [datetime(2024, 3, 1, 5, tzinfo=UTC)]})
    job = Job("count", events, tmp_path / "v.db", time="time", every="1d", start="2024-03-01",
              steps=9, until="2024-03-02", epsilon=1, plot=tmp_path / "v.png")  # fmt: skip
    with pytest.raises(InvalidInput, match="not a known language"):
        Outputs.of(job.having(locale="xx"))
    with pytest.raises(InvalidInput, match="is for a chart"):
        Outputs.of(job.having(locale="de", plot=None))
    assert not (tmp_path / "v.db").exists()


def test_a_page_in_german_holds_the_same_files(state: Path, tmp_path: Path) -> None:
    pages = {}
    for locale in ("en", "de"):
        path = tmp_path / f"{locale}.html"
        done = CliRunner().invoke(
            app, ["export", str(state), "--out", str(path), "--locale", locale]
        )
        assert done.exit_code == 0, done.output
        pages[locale] = path.read_text("utf-8")
    files = {
        locale: [base64.b64decode(one) for one in re.findall(r'<a [^>]*base64,([^"]+)"', page)]
        for locale, page in pages.items()
    }
    assert len(files["de"]) == 2
    assert files["de"] == files["en"]
    page = pages["de"]
    assert '<html lang="de">' in page
    assert "<p>Veröffentlicht wurde nach jedem Zeitraum (Tag), 1. März bis 8. April 2024" in page
    assert "<p>Zusicherung: eine Einheit (Besucher) mehr oder weniger" in page
    assert "(Epsilon = 0,5)" in page
    own = tmp_path / "fr.toml"  # without sentences, which stay English
    own.write_text('language = "fr"\n[words]\n"All numbers" = "Tous les nombres"\n')
    done = CliRunner().invoke(
        app, ["export", str(state), "--out", str(tmp_path / "fr.html"), "--locale", str(own)]
    )
    assert done.exit_code == 0, done.output
    assert '<p lang="en">The number of visitors' in (tmp_path / "fr.html").read_text("utf-8")
    assert "<h1>Anzahl der Besucher, nach place</h1>" in page
    assert "<h2>Alle Zahlen</h2>" in page
    assert re.search(r'<td class="number">3\d\.\d{3} bis 3\d\.\d{3}</td>', page)
    assert '<html lang="en">' in pages["en"]
    assert ' lang="en">The' not in pages["en"]


def test_a_job_file_names_a_language_or_a_file_beside_it(tmp_path: Path) -> None:
    job = Job("count", tmp_path / "e.csv", tmp_path / "v.db", name="v", time="time", every="1d",
              start="2024-03-01", steps=9, epsilon=1, plot=tmp_path / "v.png")  # fmt: skip
    for locale, said in (("de", '"de"'), (str(tmp_path / "own.toml"), '"own.toml"')):
        save(job.having(locale=locale), tmp_path / "jobs.toml", anew=True)
        assert f"locale = {said}" in (tmp_path / "jobs.toml").read_text()
        (found,) = load(tmp_path / "jobs.toml").values()
        assert found.option("locale") == locale
        (tmp_path / "jobs.toml").unlink()


@pytest.mark.parametrize("width", [4, 6, 7.5])
@pytest.mark.parametrize("locale", ["en", "de"])
def test_names_of_days_do_not_overlap(state: Path, locale: str, width: float) -> None:
    found = export(state, steps="10:16", groups="shore")
    figure = found.figures(locale=locale, width=width)["windows"]
    figure.savefig(io.BytesIO(), format="png")
    ax = figure.axes[-1]
    boxes = [one.get_window_extent() for one in ax.get_xticklabels() if one.get_text().strip()]
    assert len(boxes) > 1
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
