"""The evidence bites: a mistake of 3 per cent turns rows red, whatever room a row leaves."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from forked_commands import forked_python

from papers import Comparison, Evidence, recorded
from papers.__main__ import main

ROOT = Path(__file__).parents[2]
QUICK = ("elders", "smooth", "expiration", "constants", "less_noise", "flights")


@pytest.mark.evidence  # which the fixture computes: it has another name for each paper
@pytest.mark.parametrize(
    "paper",
    [pytest.param(name, marks=pytest.mark.xdist_group(name.replace("_", "-"))) for name in QUICK],
)
def test_rows_differ_when_number_is_3_percent_off(
    paper: str, request: pytest.FixtureRequest
) -> None:
    found: Evidence = request.getfixturevalue(paper)
    assert all(row.recorded is not None for row in found.comparisons), "python -m papers --record"
    for row in found.comparisons:
        for factor in (0.97, 1.03):
            wrong = replace(row, computed=row.computed * factor)
            assert wrong.verdict == "DIFFERS" or row.computed == 0, row
        assert replace(row, computed=row.computed + 0.1 + row.computed).verdict == "DIFFERS"
    # Without the record a third of the rows and more leave room for it.
    alone = [replace(row, recorded=None, computed=row.computed * 0.97) for row in found.comparisons]
    if paper in ("elders", "constants"):
        assert sum(row.verdict != "DIFFERS" for row in alone) > 20


#: A mistake in a mechanism, and the paper whose evidence must see it.
MISTAKES = {
    "a variance of the smooth mechanism": (
        "smooth",
        "from counton.strategies import SmoothBinary as S; old = S.variance\n"
        "S.variance = lambda self, *asked: 1.03 * old(self, *asked)",
    ),
    "its sensitivity": (
        "smooth",
        "from counton.strategies import SmoothBinary as S; old = S.squared_sensitivity\n"
        "S.squared_sensitivity = lambda self: old(self) * 103 / 100",
    ),
    "a law of node noise": (
        "smooth",
        "from counton.strategies import SmoothBinary as S; old = S.noise\n"
        "S.noise = lambda self, field, steps: (old(self, field, steps) * 103) // 100",
    ),
    "coefficients of the square root": (
        "smooth",
        "from counton.strategies.streams import square_root as m\n"
        "old = m.square_root_coefficients\n"
        "def wrong(count):\n"
        "    found = old(count); found[1:] *= 1.03; return found\n"
        "m.square_root_coefficients = wrong",
    ),
    "noise of expiring streams": (
        "expiration",
        "from counton.strategies import Expiring as S; old = S.variance\n"
        "S.variance = lambda self, *asked: 1.03 * old(self, *asked)",
    ),
}


@pytest.mark.evidence
@pytest.mark.parametrize("mistake", MISTAKES)
def test_comparisons_detect_wrong_mechanism(mistake: str) -> None:
    """In a process of its own: what papers have computed stays in their caches."""
    paper, change = MISTAKES[mistake]
    program = (
        f"{change}\nfrom papers import reproduce\n"
        f"print(len(reproduce({paper!r}, quick=True).wrong))"
    )
    done = subprocess.run(
        [forked_python(), "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 0


def test_record_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Comparison("Lemma 5", "distance", "1", 0.5, at_most=True)
    monkeypatch.setattr(recorded, "_FILE", tmp_path / "recorded.json")
    recorded._recorded.cache_clear()
    try:
        assert recorded.held_to_record("smooth", Evidence("A paper", (row,))).wrong == ()
        recorded.record({"smooth": Evidence("A paper", (row,))})
        off = replace(row, computed=0.515)
        (held,) = recorded.held_to_record("smooth", Evidence("A paper", (off,))).wrong
        assert held.recorded == 0.5
        assert json.loads((tmp_path / "recorded.json").read_text()) == {
            "smooth": {"Lemma 5: distance": 0.5}
        }
    finally:
        recorded._recorded.cache_clear()
    with pytest.raises(SystemExit) as end:
        main(["smooth", "--record"])
    assert end.value.code == 2
    assert "--quick" in capsys.readouterr().err
