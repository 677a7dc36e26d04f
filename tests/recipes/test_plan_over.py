"""The recipe ``recipes/plan_over.py`` compares strategies at several numbers of windows."""

import sys
from pathlib import Path

from programs import run_program

from counton import plan

RECIPE = Path(__file__).parents[2] / "recipes" / "plan_over.py"


def test_errors_are_those_of_plans(tmp_path: Path) -> None:
    picture = tmp_path / "over.png"
    words = ["16", "300", "--rho", "0.5", "--strategies", "kary,smooth-paper", "--plot", picture]
    done = run_program([sys.executable, str(RECIPE), *map(str, words)])
    assert done.returncode == 0, done.stderr
    head, *rows = (line.split() for line in done.stdout.splitlines())
    assert head == ["windows", "auto", "kary", "smooth-paper"]
    for many, *errors in rows:
        for name, error in zip(head[1:], errors, strict=True):
            named = None if name == "auto" else [name]
            best = plan(int(many), rho="0.5", strategies=named).best
            assert error == f"{best.errors.mean_std:.4g}"
    assert picture.stat().st_size > 10_000


def test_a_name_that_is_not_known_is_refused() -> None:
    words = [sys.executable, str(RECIPE), "16", "--strategies", "smoth"]
    done = run_program(words)
    assert done.returncode != 0
    assert "smoth" in done.stderr
