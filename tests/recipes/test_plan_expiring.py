"""The recipe ``recipes/plan_expiring.py`` prints a plan, and options of a command."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from forked_commands import forked_python
from programs import run_program

from counton.cli.app import app

RECIPE = Path(__file__).parents[2] / "recipes" / "plan_expiring.py"


def test_plan_expiring_recipe_takes_epsilon_at_a_delta() -> None:
    done = run_program([forked_python(), str(RECIPE), "24:1", "8760:2", "--delta", "1e-6"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rho at most 0.0243")
    assert "--expiring --expiration-growth 1.46 --expiration-delay 1 --rho 0.00567" in done.stdout


@pytest.mark.parametrize(
    "loss",
    [("24:1", "8760:3"), pytest.param(("24:0.01", "8760:0.03", "--rho"), marks=pytest.mark.long)],
)
@pytest.mark.long
def test_plan_expiring_recipe_uses_its_options(loss: tuple[str, ...], tmp_path: Path) -> None:
    picture = tmp_path / "loss.png"
    done = run_program([forked_python(), str(RECIPE), *loss, "--chart", str(picture)])
    assert done.returncode == 0, done.stderr
    *_, newest, day, year, ten, _, said = done.stdout.splitlines()
    assert [line.split()[1] for line in (newest, day, year, ten)] == ["0", "24", "8,760", "87,600"]
    for line, limit in ((day, loss[0]), (year, loss[1])):
        own, paper = map(float, line.split()[3:5])
        assert own <= paper
        assert own <= float(limit.partition(":")[2])
    assert picture.stat().st_size > 20_000
    (tmp_path / "e.csv").write_text("time\n2024-03-01T00:10\n2024-03-01T03:10\n")
    words = (
        f"--time time --every 1h --start 2024-03-01 --state {tmp_path}/s.db --until latest-event"
    )
    options = said.removeprefix("options for counton release count: ").split()
    counted = CliRunner().invoke(
        app, ["release", "count", f"{tmp_path}/e.csv", *words.split(), *options]
    )
    assert counted.exit_code == 0, counted.output
