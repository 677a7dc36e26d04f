"""What is printed on a screen of 40 columns, and what is said when the machine gives out."""

import re
import resource
import subprocess
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import rich.console

from counton import PureDP, Stream, plan
from counton.base.errors import ConcurrentWriterError, InvalidInputError, StateError
from counton.run import Job, run
from counton.strategies import Binary

from .conftest import Workplace


def test_export_prints_row_by_row_on_narrow_terminal(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.count(place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"]))
    monkeypatch.setenv("COLUMNS", "40")
    plain = " ".join(place("export", str(place.state)).out.split())  # no terminal
    columns = "window_index window_start window_end series group estimate noise_std lower upper"
    assert f"{columns} confidence_level 1 2013" in plain
    begin = rich.console.Console.__init__
    terminal = partialmethod(begin, force_terminal=True, color_system=None)
    monkeypatch.setattr(rich.console.Console, "__init__", terminal)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    shown = place("export", str(place.state))
    assert re.search("window_start +2013-01-01 00:00", shown.out)
    ranked = place("plan", "--windows", "100", "--epsilon", "1", "--full")
    assert "strategy  least-squares" in ranked.out
    assert "k-ary with subtraction" in ranked.out
    monkeypatch.setenv("COLUMNS", "100")
    assert (
        "strategy  least-squares"
        not in place("plan", "--windows", "100", "--epsilon", "1", "--full").out
    )


def test_plan_with_tiny_epsilon_is_refused_briefly(place: Workplace) -> None:
    done = place("plan", "--windows", "100", "--epsilon", "1e-300")
    assert done.code == 2
    assert len(done.err) < 400
    assert "others" in done.err
    with pytest.raises(InvalidInputError, match="nor can"):
        plan(100, PureDP("1e-300"))


def test_losing_race_for_new_stream_raises_error_and_allows_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e.csv").write_text("time\n2024-03-01T09:00\n")
    job = Job(
        "count", tmp_path / "e.csv", tmp_path / "s.db", time="time", every="1d",
        start="2024-03-01", windows=30, until="2024-03-02", epsilon=1,
    )  # fmt: skip
    mine = Stream.create

    def second(*given: Any, **more: Any) -> Stream:
        mine(*given, **more).close()  # another process, a moment earlier
        return mine(*given, **more)

    monkeypatch.setattr(Stream, "create", second)
    with pytest.raises(ConcurrentWriterError, match="another process has just created"):
        run(job)
    monkeypatch.undo()
    with run(job) as outcome:
        assert outcome.after == 1


class Mine(Binary):
    """A strategy that is not counton's."""


def test_opening_stream_of_own_strategy_names_required_argument(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    Stream.create(state, "visits", Mine(15), PureDP(1)).close()
    with pytest.raises(StateError, match=r"strategy=Mine\(horizon=15\)"):
        Stream.open(state, "visits")
    Stream.open(state, "visits", strategy=Mine(15)).close()


@pytest.mark.slow
def test_full_disk_fails_run_and_allows_repetition(tmp_path: Path, forked_commands: Path) -> None:
    (tmp_path / "e.csv").write_text(
        "time,group\n" + "".join(f"2024-03-01T09:00,g{n}\n" for n in range(300))
    )
    (tmp_path / "d.txt").write_text("\n".join(f"g{n}" for n in range(300)))
    words = [
        *(str(forked_commands / "counton"), "release", "count", str(tmp_path / "e.csv")),
        *("--time", "time"),
        *("--every", "1h", "--start", "2024-03-01", "--windows", "1000", "--until", "2024-03-20"),
        *(
            "--group-by",
            "group",
            "--groups",
            str(tmp_path / "d.txt"),
            "--epsilon",
            "1",
            "--allow-empty-windows",
        ),
        *("--state", str(tmp_path / "s.db")),
    ]
    limit = 200_000

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=small, check=False)
    assert done.returncode == 9, done.stderr
    assert "disk is full" in done.stderr
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
