"""Statistics of files of events: releases that go on, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from letters import Letters, LettersOnDemand, letters_are_known

from counton.base.errors import HorizonExceeded, InvalidInput, ReplayMismatch, StateError
from counton.run import Job, Outcome, View, run
from counton.state import Stream, verify
from counton.statistics import Distinct
from counton.statistics import catalogue as known

__all__ = ["letters_are_known"]  # a fixture
pytestmark = pytest.mark.usefixtures("letters_are_known")

KINDS = [Letters(), LettersOnDemand()]
ROWS = ["01:10,a", "00:20,b", "01:30,b", "03:05,a", "03:10,a"]


def written(folder: Path, rows: list[str]) -> Path:
    lines = "".join(f"2024-03-01T{row}\n" for row in rows)
    (folder / "e.csv").write_text(f"at,letter\n{lines}")
    return folder / "e.csv"


def hours(folder: Path, statistic: Letters, rows: list[str] = ROWS) -> Job:
    return Job(
        statistic,
        written(folder, rows),
        folder / "s.db",
        columns=["letter"],
        time="at",
        every="1h",
        start="2024-03-01",
        steps=24,
        until="newest",
        epsilon=50,
    )


def totals(outcome: Outcome) -> list[list[int]]:
    ask = ("a", "b") if outcome.definition.statistic.card.on_demand else None
    table = outcome.read(shown=View(ask)).table()
    return table["estimate"].reshape((-1, 2)).to_list()


@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_windows_are_released_once(statistic: Letters, tmp_path: Path) -> None:
    first = hours(tmp_path, statistic)
    with run(first) as outcome:
        assert (outcome.before, outcome.after, outcome.for_operator().before) == (0, 3, 0)
        assert totals(outcome) == [[0, 1], [1, 2], [1, 2]]
        starts = outcome.read().table()["window_start"].dt.hour().unique().sort().to_list()
        assert starts == ([2] if statistic.card.on_demand else [0, 1, 2])
    later = Job(statistic, first.events, first.keeping.state, until="2024-03-01T05:00")
    written(tmp_path, [*ROWS, "04:59,b"])
    with run(later) as outcome:
        assert (outcome.before, outcome.after) == (3, 5)
        assert totals(outcome) == [[0, 1], [1, 2], [1, 2], [3, 2], [3, 3]]
    for rows, step in (([*ROWS[1:], "04:59,b"], 2), ([*ROWS, "00:00,a", "04:59,b"], 1)):
        written(tmp_path, rows)
        with pytest.raises(ReplayMismatch, match=f"step {step} .*late rows"):
            run(later)
    (found,) = verify(first.keeping.state)
    assert found.right


@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_letters_of_a_text_are_steps(statistic: Letters, tmp_path: Path) -> None:
    text = tmp_path / "s.txt"
    text.write_text("abba\nb")
    request = Job(statistic, text, tmp_path / "s.db", steps=20, epsilon=50)
    with run(request) as outcome:
        assert totals(outcome)[-1] == [2, 3]
        assert outcome.read().table()["step"].to_list()[-1] == 5
    text.write_text("abba\nbbb")
    with run(Job(statistic, text, request.keeping.state)) as outcome:
        assert (outcome.before, outcome.after) == (5, 7)
        assert totals(outcome)[-1] == [2, 5]
    text.write_text("abb")
    with pytest.raises(ReplayMismatch, match="events are missing"):
        run(Job(statistic, text, request.keeping.state))
    text.write_text("abbab" + "b" * 20)
    with pytest.raises(HorizonExceeded):
        run(Job(statistic, text, request.keeping.state))
    text.write_text("abbabbbc")
    with pytest.raises(InvalidInput, match="must be a or b"):
        run(Job(statistic, text, request.keeping.state))
    few = request.having(name="few", steps=4)
    text.write_text("abbab")
    with pytest.raises(
        HorizonExceeded, match="5 rows, each a step, but the stream has only 4 steps"
    ):
        run(few)
    text.write_text("abb")
    run(few).close()  # so it was not made before
    text.write_text("abbab")
    with pytest.raises(HorizonExceeded, match="give only the first 4 rows"):
        run(few)
    text.write_text("abba")
    run(few).close()
    text.write_text("abbab")
    with run(few) as outcome:  # what was released is shown, for ever
        assert (outcome.before, outcome.after, outcome.for_operator().beyond) == (4, 4, 1)
        assert totals(outcome)[-1] == [2, 2]
    text.write_text("ab")
    with run(request.having(events=[text], name="other")) as outcome:
        assert totals(outcome)[-1] == [1, 1]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"steps": None}, InvalidInput, "needs steps"),
        ({"epsilon": None}, InvalidInput, "privacy loss is missing"),
        ({"every": None}, InvalidInput, "needs every"),
        ({"time": None}, InvalidInput, "every=1h needs time"),
        ({"columns": ()}, InvalidInput, "name the column of letters"),
        ({"until": "2999-01-01"}, InvalidInput, "in the future"),
        ({"until": "2024-04-01"}, HorizonExceeded, "after the end of the stream's last step, 24"),
        ({"start": "2024-02-28"}, HorizonExceeded, "newest event"),
        ({"clock_change": "guess"}, InvalidInput, "clock_change"),
    ],
)
def test_what_is_refused_makes_no_state(
    changed: dict[str, object], error: type[Exception], words: str, tmp_path: Path
) -> None:
    request = hours(tmp_path, Letters())
    with pytest.raises(error, match=words):
        run(request.having(**changed))
    assert not (tmp_path / "s.db").exists()


def test_a_later_run_with_a_bad_event_commits_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counton.run.changes._CHUNK", 2)  # a step in each transaction
    request = hours(tmp_path, Letters())
    run(request).close()
    written(tmp_path, [*ROWS, "05:10,b", "06:10,c"])
    with pytest.raises(InvalidInput, match="must be a or b"):
        run(request.having(until="2024-03-01T08:00"))
    with Stream.open(request.keeping.state, request.keeping.name) as stream:
        assert stream.step == 3
    written(tmp_path, [*ROWS, "05:10,b", "06:10,a"])
    with run(request.having(until="2024-03-01T08:00")) as outcome:
        assert totals(outcome)[3:] == [[3, 2], [3, 2], [3, 3], [4, 3], [4, 3]]


def test_the_order_of_rows_of_one_time_matters_to_letters_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(known.KNOWN, "Distinct", "counton.statistics.distinct")
    rows = ["00:10,b", "00:10,a", "00:10,a", "01:10,a"]
    letters = hours(tmp_path, Letters(), rows)
    groups = letters.having(what=Distinct(window=2), name="groups")
    for request in (letters, groups):
        run(request).close()
    written(tmp_path, [*rows[::-1], "02:10,b"])
    with run(groups) as outcome:
        assert (outcome.before, outcome.after) == (1, 2)
    written(tmp_path, [rows[1], rows[0], *rows[2:]])
    with pytest.raises(ReplayMismatch, match="rows with equal times must keep their order"):
        run(letters)
    written(tmp_path, ["00:10,a", *rows[1:]])
    with pytest.raises(ReplayMismatch, match=r"other events.*\(late rows"):
        run(groups.having(until="2024-03-01T02:00"))


def test_a_later_run_contradicts_nothing(tmp_path: Path) -> None:
    request = hours(tmp_path, Letters())
    run(request).close()
    with run(request) as outcome:
        assert (outcome.before, outcome.after) == (3, 3)
        with pytest.raises(InvalidInput, match="releases all its numbers"):
            outcome.read(shown=View(("a",)))
    for changed in (
        {"what": LettersOnDemand()},
        {"columns": ["at"]},
        {"every": "1d"},
        {"start": "2024-03-02"},
        {"steps": 25},
        {"epsilon": 1},
        {"timezone": "Europe/Paris"},
    ):
        with pytest.raises(StateError, match=r"was created with|cannot be continued"):
            run(request.having(**changed))


@pytest.mark.parametrize("timed", [False, True])
def test_a_release_says_that_rows_in_the_middle_are_not_protected(
    tmp_path: Path, timed: bool
) -> None:
    """Where each row is a step: one more moves all later ones."""
    events = tmp_path / "calls.csv"
    events.write_text("at,one,two\n2024-03-01T00:10,ann,bob\n2024-03-01T01:10,bob,cy\n")
    asked: dict[str, Any] = {"edge": "one,two", "steps": 8, "epsilon": 1, "yes": True}
    if timed:
        asked |= {"time": "at", "every": "1h", "start": "2024-03-01", "until": "2024-03-01T02:00"}
    job = Job("edges", events, tmp_path / "s.db", **asked)
    with run(job) as outcome:
        result = outcome.read()
        for said in (str(result), result.methods(full=True)):
            assert ("comes or goes before others" in said) is not timed, said
