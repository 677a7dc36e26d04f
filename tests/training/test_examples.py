"""The examples of training run, and the page shows them as they are."""

import os
import re
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
    assert ("rho = 0.5" if "jax" in name else "epsilon = 1") in done.stdout


def test_the_example_of_pytorch_has_ten_lines_of_counton() -> None:
    """Three imports and seven statements; what comes before them is any training."""
    body = (ROOT / "examples" / "train_torch.py").read_text("utf-8").splitlines()
    imports = [line for line in body if line.startswith("from counton")]
    first = body.index("key = Key.generate()")
    statements = [line for line in body[first:] if line and not line.startswith("print")]
    assert len(imports) + len(statements) == 10


def test_the_batches_of_equal_shapes_of_the_page_run() -> None:
    """The lines stand after the example of JAX, whose names they use."""
    for package in EXAMPLES["train_jax.py"].split():
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-training")
    page = (ROOT / "docs" / "guides" / "training.md").read_text("utf-8")
    _, shown = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = "\n".join(
        [
            (ROOT / "examples" / "train_jax.py").read_text("utf-8"),
            'loss = lambda w, x, y: optax.sigmoid_binary_cross_entropy(x @ w["w"], y)',
            'noise = best.noise(key=Key.generate(), name="filled", sampler=sampler)',
            shown,
            'assert each["w"].shape == (64, 20) and weights.sum() == 50',
            'assert not each["w"][50:].any()',
        ]
    )
    done = run_program([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT)
    assert done.returncode == 0, done.stderr


def blocks_of_pytorch_page() -> tuple[list[str], str]:
    """Return the code of the page of PyTorch, and its program for several processes."""
    page = (ROOT / "docs" / "guides" / "training-pytorch.md").read_text("utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    titled = re.findall(r'^```py title="train_ddp.py"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    return blocks, titled[0]


#: Bounds by moments that compare at few points, so that the page's plans take no minutes.
COARSE = """from counton.training import moment_bound

moment_bound._PROGRAM_POINTS = 600
moment_bound._PROGRAM_KNOTS = 30
"""


def test_the_page_of_pytorch_runs(tmp_path: Path) -> None:
    for package in ("torch", "opacus"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-training")
    blocks, processes = blocks_of_pytorch_page()
    assert len(blocks) == 5
    (tmp_path / "page.py").write_text("\n".join([COARSE, *blocks]), "utf-8")
    done = run_program([sys.executable, "-W", "ignore", "page.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step 24: epsilon 0." in done.stdout
    (tmp_path / "train_ddp.py").write_text(COARSE + processes, "utf-8")
    launcher = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]
    done = run_program(
        [*launcher, "--nproc-per-node=2", "--master-addr=127.0.0.1", "train_ddp.py"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "60 1.0" in done.stdout


def test_the_demonstration_with_digits_runs(tmp_path: Path) -> None:
    for package in ("sklearn", "matplotlib"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make test-training")
    program = (
        "import sys; sys.path.insert(0, 'examples'); from pathlib import Path\n"
        "import digits\n"
        "table = digits.measured((4.0,), (0.3,), 2)\n"
        "assert len(table) == 4 and all(0 <= row[0][1] <= 1 for row in table.values()), table\n"
        "digits.draw(table, Path(sys.argv[1]))"
    )
    done = run_program(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "digits.png")], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
