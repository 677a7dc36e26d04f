"""The examples of training run, and the page shows them as they are."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import run_program

ROOT = Path(__file__).parents[2]
EXAMPLES = {"train_torch.py": "torch opacus", "train_jax.py": "jax optax"}


def test_the_page_shows_one_example_and_names_the_other() -> None:
    first, second = EXAMPLES
    body = (ROOT / "examples" / first).read_text("utf-8")
    page = (ROOT / "docs" / "guides" / "training.md").read_text("utf-8")
    assert f"```py\n{body}```" in page
    assert f"`examples/{second}`" in page


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str) -> None:
    for package in EXAMPLES[name].split():
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-training")
    done = run_program([sys.executable, "-W", "ignore", str(ROOT / "examples" / name)])
    assert done.returncode == 0, done.stderr
    assert "60" in done.stdout
    assert "rho = 0.5" in done.stdout


def test_the_demonstration_with_digits_runs(tmp_path: Path) -> None:
    for package in ("sklearn", "matplotlib"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-training")
    program = (
        "import sys; sys.path.insert(0, 'examples'); from pathlib import Path\n"
        "import digits\n"
        "table = digits.measured((16.0,), (0.3,), 2)\n"
        "assert len(table) == 3 and all(0 <= row[0][1] <= 1 for row in table.values()), table\n"
        "digits.draw(table, Path(sys.argv[1]))"
    )
    done = run_program(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "digits.png")], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
