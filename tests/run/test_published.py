"""Who wants no mechanism of counton's own has the best that a refereed paper describes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from counton import PureDP, Release, plan, read, release
from counton.base.errors import InvalidInputError
from counton.base.literature import REFERENCES, THEOREMS, VENUES, origin_of, paper_of
from counton.cli.app import app
from counton.job.incompatible import IncompatibleOptionsError
from counton.privacy import ZCDP, Guarantee
from counton.strategies import KAry, public_strategies
from tools.proof import FOLDER, STATEMENTS, theorems

ROWS = "day,page\n2024-03-01,home\n2024-03-03,home\n"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def count(rows: Path, guarantee: Guarantee, **more: Any) -> Release:
    when: dict[str, Any] = {
        "time": "day", "every": "1d", "start": "2024-03-01", "until": "2024-03-04",
    }  # fmt: skip
    state = rows.with_name(f"{len([*rows.parent.iterdir()])}.db")
    steps: dict[str, Any] = {} if "expected_windows" in more else {"windows": 365}
    out = rows.with_name(f"{state.stem}.json")
    release("count", rows, state=state, guarantee=guarantee, output=out, **when, **steps, **more)
    return read(out)


def test_published_strategy_is_best_under_each_guarantee(rows: Path) -> None:
    for guarantee, name in ((PureDP(1), "KAry"), (ZCDP("0.5"), "NormalisedSqrt")):
        found = count(rows, guarantee, strategy="published")
        assert found.numbers.design.strategy.saved_name == name
        best = plan(365, guarantee).best_published
        assert best is not None
        assert found.numbers.design.strategy == best.strategy
        ranked = plan(365, guarantee, strategies=["published"])
        assert ranked.best.strategy == best.strategy
        assert all(paper_of(one.strategy.sources) for one in ranked)
        assert "(FORC 202" in found.methods(full=True)
    own = count(rows, PureDP(1))
    assert own.numbers.design.strategy.saved_name == "Solved"
    assert origin_of(["a_floor_estimates"]) in own.methods(full=True)
    assert REFERENCES["a_floor_estimates"] in own.methods(full=True)


def test_windows_and_numbers_of_their_own_are_published_too(rows: Path) -> None:
    found = count(rows, PureDP(1), strategy="published", series="per-window")
    assert found.numbers.design.strategy.saved_name == "Independent"
    assert "has noise of its own (C. Dwork" in found.methods(full=True)
    assert "(TCC 2006)" in found.methods(full=True)


def test_streams_without_an_end_have_none(rows: Path) -> None:
    with pytest.raises(
        IncompatibleOptionsError, match=r"strategy=published cannot .* has a last window"
    ):
        count(rows, PureDP(1), strategy="published", expected_windows=365)
    with pytest.raises(InvalidInputError, match=r"published can give .* without a last step: none"):
        plan(None, PureDP(1), strategies=["published"])


def test_plans_state_paper_of_each_strategy() -> None:
    of = plan(365, PureDP(1))
    rows = {row["strategy"]: row["paper"] for row in of.rows()}
    assert {one for one in rows.values() if one.startswith("ours")} == {
        "ours: theorem a_floor_estimates (proofs/Statements.v of the source code); that B C = A is "
        "tested, not proved",
        "ours: theorems trees_estimate_from_below and families_estimate_from_above "
        "(proofs/Statements.v of the source code)",
    }
    assert any("FORC 2025" in paper for paper in rows.values())
    assert "TCC 2006" in rows[repr(KAry(365, 366, subtraction=False))]
    assert "10.29, 31% above the best (7.871); J. D. Andersson" in of.published_in_words
    assert of.published_in_words in of.foot()
    done = CliRunner().invoke(app, ["plan", "--windows", "365", "--epsilon", "1", "--full"])
    said = " ".join(done.output.split())
    assert "10.29, 31% above the best (7.871)" in said
    done = CliRunner().invoke(
        app, ["plan", "365", "--epsilon", "1", "--strategy", "published", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert all("ours" not in row["paper"] for row in json.loads(done.output)["choices"])
    assert "scale l1 / epsilon; ours: theorem a_floor_estimates (proofs/Statements.v of the" in said


@pytest.mark.parametrize("kind", public_strategies(), ids=lambda kind: kind.__name__)
def test_each_published_strategy_names_paper_or_checked_theorem(kind: Any) -> None:
    for strategy in kind.examples(9):
        own = {*strategy.sources} & {*THEOREMS}
        assert (paper_of(strategy.sources) is None) == bool(own)
        assert origin_of(strategy.sources).startswith("ours: theorem") == bool(own)
        assert "own" not in strategy.sources


def test_blocks_of_steps_rest_on_theorems_about_trees() -> None:
    single, blocks = (plan(steps, PureDP(1)).best.strategy for steps in (365, 8760))
    assert {*blocks.sources} - {*single.sources} == {*THEOREMS} - {
        *("a_floor_estimates", "a_rounded_quotient_estimates")
    }


def test_theorems_are_those_of_the_proofs() -> None:
    checked = theorems((FOLDER / STATEMENTS).read_text("utf-8"))
    assert {*THEOREMS} <= {*checked}
    assert all(
        REFERENCES[name].endswith(f"theorem {name} (proofs/{STATEMENTS} of the source code)")
        for name in THEOREMS
    )


def test_strategy_without_source_names_no_paper() -> None:
    assert origin_of(()) == "its author names no paper"
    assert origin_of(["own"]).startswith("ours: its proof of privacy")


def test_each_venue_is_of_a_reference() -> None:
    assert VENUES.keys() < REFERENCES.keys()
    assert REFERENCES.keys() - VENUES.keys() == {"own", "fluctuating", *THEOREMS}
