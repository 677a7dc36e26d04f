"""Charts and pages in other languages: every text has its places, and no file changes."""

from __future__ import annotations

import ast
import base64
import html
import io
import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Formatter
from typing import Any

import polars as pl
import pytest
from kinds_of_streams import make
from typer.testing import CliRunner

from counton import read
from counton.base.errors import InvalidInput
from counton.base.language_files import LANGUAGES, locale_named, texts
from counton.base.lengths import PERIODS
from counton.base.literature import REFERENCES, paper_of
from counton.base.locales import (
    ENGLISH,
    local_number,
    local_sentence,
    local_text,
    present,
    speaking,
)
from counton.base.windows import EachRow
from counton.charts.statistic_charts import heading
from counton.cli.app import app
from counton.job.jobfile import load, save
from counton.numbers.fit_request import Fit
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, ExpiringZCDP, PureDP
from counton.privacy.guarantees import CHANGED, parts_in_words, people_in_words
from counton.released.large_groups import large_only
from counton.released.web_page import web_page
from counton.run import Job, Release, export, methods, run
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
    "{count} declared groups",
    "means, variances and slopes",
    *("comings and goings beyond {count} of each {unit}", "periods beyond {count} of each {unit}"),
    EachRow.in_the_middle,
}


#: Streams of every statistic and every kind of windows.
STREAMS = (
    *("average", "both by group", "contingency", "corrected", "count", "cuts", "degrees"),
    *("distinct", "edges", "endless", "episodes", "expiring", "forest", "found groups"),
    *("hierarchy", "ids", "in order", "moments", "people", "quantiles", "ranges", "reach"),
    *("report", "revised", "rho", "stars", "substrings", "sum", "top-k", "triangles"),
    "windows by group",
)
#: Words in no language of their own: of the data, names of programs, files, strategies and papers.
NAMES = {
    *("UTC", "paid", "id", "page", "home", "shop", "user", "ann", "bob", "cy", "it", "rows"),
    *("aa", "ab", "ba", "bb", "counton", "csv", "json", "AES", "inf"),
    *("https", "doi", "org", "NIST", "SP", "Constant", "Matters", "Theorem", "Statements"),
    *("proofs", "AsOf", "Binary", "Epochs", "Expiring", "Independent", "KAry", "Solved"),
    *("identity", "margins", "optimal", "region", "city", "who"),
}


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
    make(folder)
    return folder


def in_greek(english: str) -> str:
    """An English text with other letters, whose placeholders are where they were."""
    parts = Formatter().parse(english)
    said = ((re.sub("[A-Za-z]", "ω", text), name) for text, name, *_ in parts)
    return "".join(text + ("" if name is None else f"{{{name}}}") for text, name in said)


@pytest.fixture(scope="module")
def greek(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language with all texts, in which none has an English letter."""
    german, lines = locale_named("de"), ['language = "xx"', 'decimal = ","', 'thousands = "."']
    for key in ("months", "long_months", "weekdays"):
        lines.append(f"{key} = {['ω' for _ in getattr(german, key)]}")
    for key in ("words", "sentences", "names"):
        known = [one.replace('"', '\\"') for one in getattr(german, key)]
        lines += [f"[{key}]", *(f'"{one}" = "{in_greek(one)}"' for one in known)]
    path = tmp_path_factory.mktemp("greek") / "xx.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def not_translated(text: str) -> set[str]:
    """English words of a text in `greek`, but for those of papers and of the data."""
    for name in REFERENCES:
        text = text.replace(paper_of([name]) or name, "")
    return {*re.findall(r"[A-Za-z]{2,}", text)} - NAMES


def read_aloud(page: str) -> str:
    """What a page says, without what it contains for browsers and for download."""
    page = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    pictures = re.findall(r'alt="([^"]*)"', page)
    return html.unescape(" ".join([*pictures, re.sub("<[^>]*>", " ", page)]))


def everything_said(released: Release, locale: Path) -> dict[str, str]:
    """All that is said of a release in a language, by the place."""
    found = {f"{full=}": released.methods(full=full, locale=locale) for full in (False, True)}
    if released.numbers.drawable:
        figures = released.figures(locale=locale).values()
        found["charts"] = " ".join(text for one in figures for text in written_on(one))
    return found | {"page": read_aloud(web_page(released.numbers, "", locale=locale))}


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_no_text_passes_the_table_by(name: str, kept: Path, greek: Path) -> None:
    released = read(kept / name / "released.parquet")
    for place, said in everything_said(released, greek).items():
        assert not not_translated(said), (place, said)


#: Tables that are released once, with options of their own.
ONCE: dict[str, dict[str, Any]] = {
    "hierarchy": {"levels": "region,city", "domain": "places.csv", "integers": True},
    "ranges": {"label": "region", "domain": "N,S,T"},
    "contingency": {"columns": "region,who", "domain": "region=N,S;who=u1,u2", "nonnegative": True},
    "quantiles": {"value": "paid", "lower": 0, "upper": 10, "cells": 10},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", ONCE)
def test_no_text_of_a_table_passes_the_table_of_texts_by(
    what: str, tmp_path: Path, greek: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("places.csv").write_text("region,city\nN,a\nN,b\nS,\n")
    rows = pl.DataFrame({"region": ["N", "S"], "city": ["a", ""], "who": "u1", "paid": [1.0, 4.0]})
    job = Job(what, rows, "s.db", epsilon=1, name="it", witness="none", **ONCE[what])
    with run(job) as outcome:
        for place, said in everything_said(outcome.read(), greek).items():
            assert not not_translated(said), (place, said)


def test_a_text_that_passes_the_table_by_is_found(kept: Path, greek: Path) -> None:
    released = read(kept / "count" / "released.parquet").numbers.with_note("May has no visits")
    for said in everything_said(Release(released), greek).values():
        assert not_translated(said) == {"May", "has", "no", "visits"}


def test_notes_are_said_in_every_language(kept: Path, greek: Path) -> None:
    found = read(kept / "both by group" / "released.parquet").numbers
    both = [*large_only(found, above=2).notes, *large_only(found, surely_above=-2.5).notes]
    own = "'a' and 'b' publish the same numbers of all rows, each with noise of its own: the noise "
    own += "of 'a' is smallest (standard deviations: 'a' 2.5, 'b' 4)"
    withdrawn = ["WITHDRAWN: 'a'", "WITHDRAWN: 'a', which goes on here: 'b'"]
    with speaking(locale_named(greek)):
        for note in (*both, *Fit(True, True).notes(), own, *withdrawn):
            assert not not_translated(local_sentence(note)), note


def test_what_one_unit_changes_is_said_in_every_language(greek: Path) -> None:
    every = (
        Contribution.add_remove(steps=3, separation=2, cells=2),
        Contribution.replace(steps=3),
        Contribution.events(1),
        Contribution.events(5, most_a_step=2),
    )
    with speaking(locale_named(greek)):
        for one in every:
            assert not not_translated(local_sentence(one.change_in_words())), one


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
    whole = methods(state, full=True, locale="de")[name]
    assert "Die Zusicherung ist reine Differential Privacy mit Epsilon = 0,5, für alle" in whole
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


def test_a_german_sentence_has_german_numbers_and_dates() -> None:
    share = "bounds leave out an estimated {} of the rows ({} to {}, with probability 95%; {})"
    with speaking(locale_named("de")):
        for when, said in (
            ("1 March to 7 March 2024", "1. März bis 7. März 2024"),
            ("31 December 2024", "31. Dezember 2024"),
            ("1 May 2024, 08:00 to 12:30", "1. Mai 2024, 08:00 Uhr bis 12:30"),
            ("31 Smarch 2024", "31 Smarch 2024"),
        ):
            found = local_sentence(share.format("1.5%", "0.2%", "2.75%", when))
            assert found == (
                "Schranken lassen geschätzt 1,5% der Zeilen weg (0,2% bis 2,75%, mit einer "
                f"Wahrscheinlichkeit von 95 %; {said})"
            )
