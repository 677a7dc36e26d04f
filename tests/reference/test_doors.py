"""Jobs of every door: what they released is what the reference computes, to the last bit."""

import json
from pathlib import Path

import pytest
from by_reference import state_by_reference, sums_of
from in_turn import in_turn
from inside import inside, visit
from witnesses import without_witness

from proofs import reference
from tests.net import nights

#: Statistics whose cells nobody publishes: answers are sums of them.
ON_DEMAND = ("substrings", "episodes", "cuts")
NIGHTS = dict(nights.cases())
#: Every statistic, line and strategy; where people are crossed with guarantees, a fourth of both.
TRIED = [
    *(name for name, night in NIGHTS.items() if not night.late),
    *in_turn([name for name, night in NIGHTS.items() if night.late], 4),
]


def by_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """The same, of a table and a file of sums, by the program that runs alone."""
    out = folder / "out.json"
    sums = sums_of(folder / "s.db", out)
    code = reference.main(["check", str(out), str(folder / "s.db.key"), str(sums)])
    said = capsys.readouterr()
    assert code == 0, said
    return int(said.out.split()[0])


@pytest.mark.parametrize("name", TRIED)
def test_reference_recomputes_states_of_commands(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A night's job by the command line: its state, and its table with sums."""
    case = NIGHTS[name]
    monkeypatch.chdir(tmp_path)
    without_witness(monkeypatch)
    monkeypatch.setitem(nights.PLACED, "output", "out.json")
    columns = zip(*nights.PLACES.values(), strict=True)
    places = "\n".join([",".join(nights.PLACES), *map(",".join, columns)]) + "\n"
    (tmp_path / "places.csv").write_text(places)
    for night in range(case.nights):
        (tmp_path / f"{night}.csv").write_text(nights.events(case, night))
        (tmp_path / "jobs.toml").write_text(nights.job_file(case, night))
        nights.counton("run", "jobs.toml")
    released = state_by_reference(tmp_path / "s.db")
    if case.asked.get("statistic") in ON_DEMAND:
        assert released == 0
    elif case.asked.get("unlisted_groups") == "discover":  # all cells, of shown groups some
        assert (released, by_program(tmp_path, capsys)) == (4, 9)
    elif {"last", "half_life"} & {*case.asked}:  # rows of sums over recent windows
        rows = json.loads((tmp_path / "out.json").read_text())
        compared = [row for row in rows if row["series"] != "per-window"]
        assert by_program(tmp_path, capsys) == len(compared) > 0 < released
    else:
        assert by_program(tmp_path, capsys) == released > 0


@pytest.mark.parametrize("name", ["rolling, over time", "decayed, over time"])
def test_reference_rejects_changed_sum_of_recent_windows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = NIGHTS[name]
    monkeypatch.chdir(tmp_path)
    without_witness(monkeypatch)
    monkeypatch.setitem(nights.PLACED, "output", "out.json")
    (tmp_path / "0.csv").write_text(nights.events(case, 0))
    (tmp_path / "jobs.toml").write_text(nights.job_file(case, 0))
    nights.counton("run", "jobs.toml")
    rows = json.loads((tmp_path / "out.json").read_text())
    rows[-1]["estimate"] += 1e-6
    (tmp_path / "out.json").write_text(json.dumps(rows))
    sums = sums_of(tmp_path / "s.db", tmp_path / "out.json")
    assert reference.main(["check", "out.json", "s.db.key", str(sums)]) == 1
    assert f"step {rows[-1]['window_index']} of" in capsys.readouterr().out


def test_reference_recomputes_state_of_service(tmp_path: Path) -> None:
    with inside(tmp_path, windows=60) as service:
        for minute in range(1, 5):
            service.post(f"b{minute}", [visit(minute - 0.5), visit(minute - 0.4, "shop")])
            service.at(minute)
        assert len(service.rows()) == 8
    assert state_by_reference(tmp_path / "visits.db", tmp_path / "visits.key") == 8
