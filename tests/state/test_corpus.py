"""States and files of every released format are read, go on, are verified and carried over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import CORPUS, MORE, NAMES, job_of, rows_of, unpack
from every_statistic import HEADER

from counton import read
from counton.run import Job, run
from counton.state import Store
from counton.state.backup import upgrade
from counton.state.verification import verify

FORMATS = sorted(path.name for path in CORPUS.iterdir()) if CORPUS.exists() else []
#: Kinds whose table is of the last step, or of windows that are revised.
ON_DEMAND = ("cuts", "episodes", "substrings", "revised", "corrected")
#: Kinds whose files hold new events alone.
NEW_EVENTS = {name for name, more in MORE.items() if more.get("append")}


@pytest.fixture(scope="module", params=FORMATS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a version wrote, in a folder."""
    folder = tmp_path_factory.mktemp(f"format{request.param}")
    unpack(CORPUS / request.param / "states.tar.xz", folder)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


def numbers(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "numbers.json").read_text())
    return found


def assert_same(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> None:
    """Compare what was released exactly, and errors but for a processor's rounding."""
    assert len(now) == len(before)
    for was, row in zip(before, now, strict=True):
        assert list(row) == list(was)
        for name, value in was.items():
            if name in ("std", "lower", "upper") and value is not None:
                assert row[name] == pytest.approx(value, rel=1e-12, abs=0, nan_ok=True), name
            else:
                assert row[name] == value, name


def next_night(name: str, folder: Path) -> Job:
    """The job of the next night, with one row more."""
    job, row = job_of(name, folder), "2024-03-01T03:30,home,ann,3,u,v,1,a,9\n"
    events = folder / "e.csv"
    if name in NEW_EVENTS:
        events = folder / "next.csv"
        events.write_text(HEADER + row)
    else:
        events.write_text((folder / "e.csv").read_text() + row)
    return job.having(events=events, until="2024-03-01T05:00")


@pytest.mark.every_case
@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_files_are_read_states_verified_and_streams_go_on(name: str, written: Path) -> None:
    folder = written / name
    before = numbers(folder)
    assert_same(before, rows_of(read(folder / "released.parquet")))
    with run(next_night(name, folder)) as outcome:
        assert outcome.after > outcome.before
        now = rows_of(outcome.read())
    (found,) = verify(folder / "s.db")
    assert found.right, found.problems
    assert upgrade(folder / "s.db").after == upgrade(folder / "s.db").before
    if name not in ON_DEMAND:
        assert_same(before, [row for row in now if row["step"] <= outcome.before])


def test_rows_with_another_number_or_error_are_not_the_same() -> None:
    row = {"step": 1, "estimate": 3.953125, "std": 1.425781137549086, "lower": 1.5, "upper": None}
    assert_same([row], [row | {"std": 1.4257811375490863}])
    for other in ({"estimate": 3.953125000000001}, {"std": 1.42578113}, {"upper": 7.0}):
        with pytest.raises(AssertionError):
            assert_same([row], [row | other])
    with pytest.raises(AssertionError):
        assert_same([row], [])


def test_a_ledger_knows_what_was_spent(written: Path) -> None:
    ledger = written / "ledger" / "ledger.db"
    with Store(ledger) as store:
        assert [entry.spend.name for entry in store.shared_entries] == ["it"]
        assert store.ledger is not None
        party = None if written.name.startswith(("format15", "format16")) else "sales"
        assert [one.party for one in store.ledger_history if one.name is not None] == [party]
    with run(next_night("count", written / "ledger").having(ledger=ledger)) as outcome:
        assert outcome.after > outcome.before


def test_a_corpus_of_each_format_is_there() -> None:
    from counton.state import schema, upgrades

    assert {int(name) for name in FORMATS} == set(range(upgrades.OLDEST, schema.FORMAT + 1))
