"""Commands and classes print every message that the pages of statistics explain."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from counton import read, release
from counton.base.errors import CountonError
from counton.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = {
    path.stem: path.read_text("utf-8") for path in sorted((ROOT / "docs/statistics").glob("*.md"))
}
#: A message in the first column of a table.
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
VISITS = "visits.csv"
WINDOWS = (
    "--time time --every 1w --start 2024-03-04 --windows 52 --until 2024-03-11 "
    "--epsilon 1 --privacy-unit visit --state state.db"
)
BOUNDS = "--value seconds --lower 0 --upper 600 --resolution"


def refuse(options: str, events: str = VISITS) -> str:
    """Release a statistic with options that are refused; return the message in one line."""
    statistic, _, own = options.partition(" ")
    words = ["release", statistic, events, *own.split(), *WINDOWS.split()]
    result = CliRunner().invoke(app, words, prog_name="counton")
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def refuse_file(*lines: str) -> str:
    """Run a job file that is refused; return the message in one line."""
    Path("job.toml").write_text("\n".join(lines), "utf-8")
    result = CliRunner().invoke(app, ["run", "job.toml"], prog_name="counton")
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def refuse_call(question: Callable[[], object]) -> str:
    """Ask a question that is refused; return the message."""
    with pytest.raises(CountonError) as refused:
        question()
    return str(refused.value)


def weekly_counts() -> str:
    """Release counts of two pages to a file; return its name."""
    release(
        "count", VISITS, group_by="page", groups=["home", "shop"], time="time", every="1w",
        start="2024-03-04", windows=52, until="2024-03-18", epsilon=1, privacy_unit="visit",
        state="counts.db", output="counts.parquet",
    )  # fmt: skip
    return "counts.parquet"


def file_of_another_program() -> object:
    pl.read_parquet(weekly_counts()).write_parquet("other.parquet")
    return read("other.parquet")


def half_a_cell() -> object:
    quantiles = release(
        "quantiles", VISITS, value="seconds", lower=0, upper=600, cells=60, epsilon=1,
        privacy_unit="visit", state="quantiles.db",
    )  # fmt: skip
    result: Any = quantiles.result
    return result.between(305, None)


HIERARCHY = "hierarchy --levels page,device --groups"
REPORT = ("[report.shop]", "events = 'visits.csv'", "state = 'report.db'")
MESSAGES: dict[str, dict[str, Callable[[], str]]] = {
    "averages": {
        "a new stream of average needs": lambda: refuse("average --value seconds"),
        "is not a multiple of the resolution": lambda: refuse(f"average {BOUNDS} 7"),
    },
    "contingency-tables": {
        "has rows of 'page', 'device' that are not listed": lambda: refuse(
            "contingency --columns page,device --groups page=home;device=phone,desk"
        ),
    },
    "counts-and-sums": {
        "has groups in column 'page' that are not listed": lambda: refuse(
            "count --group-by page --groups home"
        ),
        "has a value that is not a finite number": lambda: refuse(
            f"sum {BOUNDS.replace('seconds', 'page')} 1"
        ),
        "is not a multiple of the resolution": lambda: refuse(f"sum {BOUNDS} 7"),
    },
    "distinct-users": {
        "needs --max-contributions, because noise must hide all groups": lambda: refuse(
            "distinct --user visitor --group-by page --groups home,shop"
        ),
    },
    "hierarchies": {
        "has rows of 'page', 'device' that are not listed": lambda: refuse(f"{HIERARCHY} part.csv"),
        "the wanted accuracy is impossible": lambda: refuse(
            f"{HIERARCHY} pages.csv --target total=30,page=30,device=6"
        ),
        "is no table; the groups of a hierarchy are a file": lambda: refuse(
            f"{HIERARCHY} page=home;device=desk"
        ),
    },
    "moments": {
        "must be two numbers for each of --columns": lambda: refuse(
            "moments --columns seconds --bounds 0"
        ),
    },
    "quantiles": {"is not an edge of a cell": lambda: refuse_call(half_a_cell)},
    "questions": {
        "is not within the released steps": lambda: refuse_call(
            lambda: read(weekly_counts()).total("home", steps="7:7")
        ),
        "is not a group of this release": lambda: refuse_call(
            lambda: read(weekly_counts()).share("hom")
        ),
        "has no description of its stream": lambda: refuse_call(file_of_another_program),
    },
    "ranges": {
        "has rows of 'seconds' that are not listed": lambda: refuse(
            "ranges --label seconds --groups 1,2,3"
        ),
        "is not an interval": lambda: refuse("ranges --label seconds --groups 1,2,3 --ask 2:"),
        "would be a single group of this name": lambda: refuse(
            "ranges --label seconds --groups 0:599"
        ),
    },
    "reports": {
        "has the unknown section": lambda: refuse_file("[reports.shop]"),
        "it contains no statistic": lambda: refuse_file(*REPORT),
        "gives ... windows of its own": lambda: refuse_file(
            *REPORT, "[report.shop.visits]", "statistic = 'count'", "every = '1d'"
        ),
    },
    "top-k": {
        "has groups in column ... that are not listed": lambda: refuse(
            "top-k --group-by page --groups home"
        ),
        "No such option '--count-column'": lambda: refuse("top-k --group-by page --count-column n"),
    },
}  # fmt: skip


def explained(page: str) -> list[str]:
    """Return the messages of a page's table of what can go wrong."""
    return ROW.findall(PAGES[page].partition("\n## What can go wrong\n")[2])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "visits.csv", VISITS)
    leaves = ["page,device", "home,phone", "home,desk", "shop,phone", "shop,desk"]
    Path("pages.csv").write_text("\n".join(leaves), "utf-8")
    Path("part.csv").write_text("\n".join(leaves[:3]), "utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_messages_of_a_page_have_commands_that_print_them(page: str) -> None:
    assert set(explained(page)) == set(MESSAGES.get(page, {}))


@pytest.mark.parametrize(
    ("page", "message"), [(page, message) for page in MESSAGES for message in MESSAGES[page]]
)
@pytest.mark.slow
def test_message_of_a_statistics_page_is_printed(page: str, message: str) -> None:
    pattern = re.escape(message).replace(re.escape("..."), ".*")
    output = MESSAGES[page][message]()
    assert re.search(pattern, output), output
