import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from once import kept_line, kept_margins, kept_tree
from short_methods import check_short_methods

from counton import ZCDP, Stream, statistics, tables
from counton.base.literature import REFERENCES
from counton.results.subject_text import statistic_in_words
from counton.run.outputs.exports import export, methods
from counton.statistics.catalogue import MODULES
from counton.strategies import Binary, StreamStrategy, public_strategies
from counton.strategies.strategy import exported_classes
from counton.tables import LineStrategy, TreeStrategy

from .conftest import Workplace

#: What a reader of a publication asks, and where the paragraph answers.
PARTS = (
    "The privacy unit is one", "Neighbouring data sets differ in one", "The guarantee is",
    "against an attacker who", "Each measurement has discrete", "standard deviation",
    "Not protected are", "Constants and sources\n", "\nsource ", " counton 0",
)  # fmt: skip


@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
def test_every_strategy_names_its_sources(cls: type[StreamStrategy]) -> None:
    for strategy in cls.examples(100):
        assert strategy.sources
        assert {*strategy.sources} <= {*REFERENCES}


def class_of(name: str) -> Any:
    return getattr(import_module(MODULES[name]), name)


def test_statistics_name_papers_that_are_listed() -> None:
    for name in MODULES:
        assert {*class_of(name).sources} <= {*REFERENCES}


def test_table_strategies_name_their_sources() -> None:
    every = exported_classes(tables, LineStrategy)  # type: ignore[type-abstract]
    assert {*TreeStrategy.sources} <= {*REFERENCES}
    for cls in every:
        assert cls.sources
        assert {*cls.sources} <= {*REFERENCES}


@pytest.fixture
def visits(place: Workplace) -> Workplace:
    """Release three windows of visits."""
    place.count(
        place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"]), "--privacy-unit", "visit"
    ).fine()
    return place


def full_methods(place: Workplace) -> str:
    return place("methods", str(place.state), "--full").fine().out


def test_methods_state_unit_guarantee_and_limits(visits: Workplace) -> None:
    text = full_methods(visits)
    for part in (*PARTS, "number of visits", "one visit", "up to 6 windows of 1h"):
        assert part in text


def test_methods_in_json_equal_printed_text(visits: Workplace) -> None:
    report = json.loads(visits("methods", str(visits.state), "--full", "--json").out)
    assert report["methods"]["count"] == full_methods(visits).strip()


def test_short_methods_end_with_reference_to_evaluation_guide(visits: Workplace) -> None:
    short = visits("methods", str(visits.state)).out
    assert short.rstrip().endswith("https://doi.org/10.6028/NIST.SP.800-226.")
    assert len(short) < len(full_methods(visits))


def test_full_methods_have_eight_short_paragraphs(visits: Workplace) -> None:
    *paragraphs, _ = full_methods(visits).strip().split("\n\n")
    assert len(paragraphs) == 8
    for paragraph in paragraphs:
        assert "\n" not in paragraph
        assert len(paragraph.split()) < 120
    assert not re.search(r"\d\.\d{3}|\de[+-]\d", paragraphs[4])  # no digits of noise


def test_full_methods_end_with_table_of_constants(visits: Workplace) -> None:
    text = full_methods(visits)
    table = text.strip().split("\n\n")[-1]
    head, *rows = table.split("\n")
    assert head == "Constants and sources"
    assert {"strategy", "source", "software"} <= {row.split()[0] for row in rows}
    assert "=" not in table  # constants in words, not the call that makes the strategy
    assert "\nleast of any mechanism " in text


def test_methods_of_file_equal_those_of_state(place: Workplace) -> None:
    file = place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"])
    place.count(file, "--privacy-unit", "visit", "--output", str(place.folder / "t.csv"))
    calls = [(), ("--full",), ("--confidence-level", "0.5")]
    own = [place("methods", str(place.state), *more).out for more in calls]
    assert len({*own}) == 3
    place.state.unlink()
    for more, said in zip(calls, own, strict=True):
        done = place("methods", str(place.folder / "t.csv"), *more)
        assert (done.code, done.out) == (0, said)


def test_methods_of_stream_without_events_needs_state(place: Workplace) -> None:
    with Stream.create(place.state, "visits", Binary(9), ZCDP("0.5")) as stream:
        stream.release_many([3, 0, 5])
    check_short_methods(export(place.state))
    said = place("methods", str(place.state)).out
    assert said.startswith("The cumulative total 'visits' was published 3 times. ")
    assert "zero-concentrated differential privacy with a parameter of 0.5" in said
    out = place.folder / "t.csv"
    assert place("export", str(place.state), "--output", str(out)).code == 0
    told = place("methods", str(out)).refused()
    assert "states a guarantee ('visits'), but has no description" in told
    assert "give the state instead" in told


def test_methods_state_clipping_and_bound_of_users(place: Workplace) -> None:
    events = place.write("a.csv", ["00:30,a,u,5", "01:30,b,u,7", "02:10,a,v,1"], "time,g,user,paid")
    place(
        "release", "sum", events, *place.new(group_by=None, groups=None), "--user", "user",
        "--max-contributions", "1",
        "--value", "paid", "--lower", "0", "--upper", "6", "--resolution", "1",
    )  # fmt: skip
    short = place("methods", str(place.state)).out
    lines = (
        "rows beyond 1 of each user are not counted, so that numbers are too low by an unknown",
        "values outside 0 to 6 are counted as the nearer bound, which biases the sum by an unknown",
    )
    said = place("methods", str(place.state), "--full").out
    assert (
        "The intervals do not include these errors: rows that arrive after their hour was released "
        "are counted" in short
    )
    for line in lines:
        assert line in short
        assert line in said
    assert "clipped to [0, 6]" in said
    assert "one user" in said


def test_methods_of_state_without_release_are_refused(place: Workplace) -> None:
    place("ledger", str(place.state), "--budget-epsilon", "3")
    said = place("methods", str(place.state)).refused()
    assert "released nothing yet" in said


def test_methods_of_single_tables_state_required_parts(tmp_path: Path) -> None:
    for make in (partial(kept_line, [3, 1, 4]), kept_tree, kept_margins):
        make(tmp_path / "s.db", rho=2)
    for paragraph in methods(tmp_path / "s.db", full=True).values():
        for part in PARTS:
            assert part in paragraph
        assert "was released once." in paragraph
        assert "steps" not in paragraph


AGES = "--time time --every 1h --start 2013-01-01 --windows 6 --state s.db --epsilon 1"
WORDS = [
    (
        "average --value age --lower 0 --upper 90 --resolution 1 --group-by group --groups a,b",
        "The running average of age, each value clipped to [0, 90], by group (2 declared groups)",
    ),
    (
        "quantiles --value age --edges 0,10,90",
        "The running distribution of age over ranges from 0 to 90, with its quantiles, was",
    ),
    (
        "average --value age --lower 0 --upper 90 --resolution 1 --over 2",
        "The numbers shown at each window are of the last 2 windows.",
    ),
    (
        "top-k --group-by group --groups a,b,c --top 2",
        "The running ranking of the 2 largest groups by",
    ),
    (
        "moments --columns age,size --bounds 0:90,0:9",
        "covariances of age and size was released after each of up to 6 windows of 1h",
    ),
    (
        "count --group-by group --unlisted-groups discover --delta 1e-9",
        "The cumulative number of events by group (each group shown once it is large enough) was",
    ),
]


@pytest.mark.parametrize(("asked", "words"), WORDS, ids=[asked.split()[0] for asked, _ in WORDS])
def test_a_paragraph_calls_a_statistic_by_words(
    asked: str, words: str, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)
    place.write("a.csv", ["00:30,a,7,1", "01:30,b,30,2", "02:10,a,8,3"], "time,group,age,size")
    name, *more = asked.split()
    command = ["release", name]
    place(*command, "a.csv", *more, *AGES.split(), "--until", "2013-01-01T03:00").fine()
    told = place("methods", "s.db", "--full").fine()
    assert words in told.out
    assert not re.search(r"Grouped\(|Average\(|TopK\(|=['\"]", told.out.partition("Noise is")[0])
    for part in PARTS:
        assert part in told.out


def test_every_statistic_has_words() -> None:
    wordless = {name for name in MODULES if not class_of(name).phrase}
    assert wordless <= {"Count", "Sum", "Grouped", "GroupedRows"}
    for statistic, words in (
        (statistics.Degrees(degree=3), "number of nodes of each degree up to 3 of a growing graph"),
        (statistics.Stars(degree=3, leaves=2), "number of stars with 2 leaves of a growing graph"),
        (statistics.Triangles(degree=3), "number of triangles of a growing graph"),
        (statistics.Forest(largest=9), "weight of a minimum spanning forest of a growing graph"),
        (statistics.Cuts(["a", "b"]), "weight of the cuts of a growing graph"),
        (statistics.Distinct(), "number of distinct users"),
        (statistics.Distinct(changes=2), "number of users who are there"),
        (statistics.Reach([1, 5]), "number of users by how many rows each has"),
        (statistics.Substrings("ab", 2), "number of times that each word came in a stream of"),
        (statistics.Contingency({"sex": ["f", "m"]}), "contingency table of sex"),
    ):
        described: Any = SimpleNamespace(
            inner=statistic, value=None, counting_period_in_words=lambda: None
        )
        assert statistic_in_words(described).startswith(words)


def test_noise_of_each_step_is_called_no_correlated_one(place: Workplace) -> None:
    """In the whole account as on the screen, which says it of the same strategies."""
    events = place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"])
    kinds = {"windows": ("--series", "per-window"), "totals": ("--strategy", "binary")}
    for name, release in kinds.items():
        state = place.folder / f"{name}.db"
        place("release", "count", events, *place.new(state=str(state)), *release).fine()
        said = place("methods", str(state), "--full").out
        independent = "Noise is independent over time" in said
        assert independent is (name == "windows")
        assert ("Noise is correlated" in said) is not independent


def test_a_contingency_table_names_the_error_of_each_margin(place: Workplace) -> None:
    (place.folder / "t.csv").write_text("sex,smokes\nf,no\nm,no\nf,yes\n")
    place("release", "contingency", str(place.folder / "t.csv"), "--columns", "sex,smokes",
                 "--groups", "sex=f,m;smokes=no,yes", "--epsilon", "1",
                 "--state", str(place.state), "--stream", "t").fine()  # fmt: skip
    said = " ".join(place("methods", str(place.state), "--stream", "t").out.split())
    assert re.search(r"at most \S+ \(total\), \S+ \(sex\), \S+ \(smokes\) and \S+ \(sex x sm", said)
