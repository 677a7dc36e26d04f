"""The package for R: from a file alone it says the numbers that Python says, to 12 digits."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import ZCDP, PureDP, read, release
from counton.job.keywords import StatisticName
from counton.run import export

PACKAGE = Path(__file__).parents[2] / "r" / "counton"
R = shutil.which("R")
pytestmark = pytest.mark.skipif(R is None, reason="R is not installed")
#: Twelve digits of each number.
DIGITS = 1e-12


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """Run R once with the package installed, and read each of the answers it prints as JSON."""
    library = tmp_path_factory.mktemp("library")
    assert R is not None
    subprocess.run(
        [R, "CMD", "INSTALL", "--no-test-load", f"--library={library}", str(PACKAGE)],
        check=True, capture_output=True,
    )  # fmt: skip
    begin = f"""
    .libPaths(c({str(library)!r}, .libPaths()))
    library(counton)
    answer <- function(asked) tryCatch(unclass(asked), error = conditionMessage)
    say <- function(x) cat("\n", jsonlite::toJSON(x, digits = NA, auto_unbox = TRUE), sep = "")
    """

    def run(words: str, asked: Sequence[str]) -> list[Any]:
        given = [f"said[{i}] <- list(answer({each}))" for i, each in enumerate(asked, 1)]
        lines = [begin, words, "said <- list()", *given, "say(said)"]
        done = subprocess.run(
            [R, "--vanilla", "--slave", "-e", "\n".join(lines)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout.rsplit("\n", 1)[-1]))

    return run


ROWS = pl.DataFrame(
    {
        "time": [
            f"2024-03-{1 + day:02}T09:{minute:02}" for day in range(9) for minute in range(30)
        ],
        "branch": (["north", "south", "=east", "'-", "'plain"] * 54),
        "paid": [(7 * i) % 50 for i in range(270)],
    }
)
GROUPS = ["north", "south", "=east", "'-", "'plain"]
STREAM: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "until": "2024-03-10",
    "by": "branch", "domain": GROUPS, "yes": True, "timezone": "Europe/Zurich",
}  # fmt: skip
SUM: dict[str, Any] = {"value": "paid", "lower": "0", "upper": "50", "resolution": "0.5"}
STREAMS: dict[str, tuple[StatisticName, dict[str, Any]]] = {
    "tree, Laplace": ("count", {"guarantee": PureDP(1), "steps": 9, "strategy": "binary"}),
    "tree, Gaussian": ("count", {"guarantee": ZCDP("1/9"), "steps": 9, "strategy": "binary"}),
    "wide": ("count", {"guarantee": PureDP("1/900"), "steps": 365, "release": "both"}),
    "root": ("count", {"guarantee": ZCDP(2), "steps": 8760, "release": "both"}),
    "narrow": ("count", {"guarantee": ZCDP(8), "steps": 9, "strategy": "binary"}),
    "windows": ("sum", {"guarantee": PureDP(1), "steps": 99, "release": "windows", **SUM}),
    "sum": ("sum", {"guarantee": PureDP(3), "steps": 99, "release": "both", **SUM}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_r_says_what_python_says(
    name: str, answered: Callable[..., list[Any]], tmp_path: Path
) -> None:
    what, more = STREAMS[name]
    release(what, ROWS, state=tmp_path / "s.db", **STREAM, **more)
    file = tmp_path / "visits.csv"
    export(tmp_path / "s.db", file)
    of = more.get("release", "totals")
    checks = [
        check
        for one in (["totals", "windows"] if of == "both" else [of])
        for check in (*of_intervals(file, one), *of_answers(file, one))
    ]
    said = answered(f"x <- read_release({str(file)!r})", [words for words, _ in checks])
    for (words, known), found in zip(checks, said, strict=True):
        assert not isinstance(found, str), (words, found)
        for column, expected in known.items():
            assert found[column] == pytest.approx(expected, rel=DIGITS, abs=DIGITS), (words, column)


def of_intervals(file: Path, of: str) -> Iterator[tuple[str, dict[str, Any]]]:
    prefix = "window_" if of == "windows" else ""
    for level in (0.95, 0.5, 0.999):
        table = read(file, level=level).table()
        known = {x: table[f"{prefix}{x}"].to_list() for x in ("estimate", "std", "lower", "upper")}
        yield f"as.list(intervals(x, {level}, {of!r}))", known


def of_answers(file: Path, of: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for step, level in ((9, 0.95), (1, 0.95), (4, 0.8)):
        steps = f"1:{step}" if of == "totals" else f"{step}:{step}"
        told = f"step = {step}, of = {of!r}, level = {level}"
        one = read(file, level=level)
        for words, known in (
            (f"difference(x, 'north', c('south', '=east'), {told})",
             one.difference("north", ["south", "=east"], steps=steps)),
            (f'combine(x, c("\'-" = 2, north = -0.25, "\'plain" = 1), {told})',
             one.combine({"'-": 2, "north": -0.25, "'plain": 1}, steps=steps)),
        ):  # fmt: skip
            yield words, {x: getattr(known, x) for x in ("value", "std", "lower", "upper")}


def test_what_a_file_does_not_say_is_refused(
    answered: Callable[..., list[Any]], tmp_path: Path
) -> None:
    endless, ended = tmp_path / "endless.csv", tmp_path / "ended.csv"
    for file, more in ((endless, {"expire": True}), (ended, {"steps": 9})):
        release("count", ROWS, state=f"{file}.db", **STREAM, guarantee=PureDP(1), **more)
        export(f"{file}.db", file)
    said = answered(
        f"x <- read_release({str(endless)!r}); y <- read_release({str(ended)!r})",
        [
            "intervals(x, 0.5)", "nrow(intervals(x))", "intervals(x, 2)",
            "intervals(x, of = 'windows')", "read_release('gone.csv')",
            "difference(y, 'north', 'west')", "combine(y, c(north = 1), 10)",
            "combine(y, c(north = 1, north = 1))",
        ],
    )  # fmt: skip
    for found, expected in zip(said, (
        "its noise differs from step to step: use 'counton answer'", 45, "level is 2",
        "has no windows", "'gone.csv' is not there", "there is no group 'west': choose from ",
        "step is 10; released steps are 1 to 9", "group 'north' is named twice",
    ), strict=True):  # fmt: skip
        assert found == expected if isinstance(expected, int) else expected in found


def test_files_with_semicolons_and_commas_say_the_same(
    answered: Callable[..., list[Any]], tmp_path: Path
) -> None:
    what, more = STREAMS["root"]
    release(what, ROWS, state=tmp_path / "s.db", **STREAM, **more)
    export(tmp_path / "s.db", tmp_path / "plain.csv")
    export(tmp_path / "s.db", tmp_path / "comma.csv", separator=";", decimal=",")
    (same,) = answered(
        f"x <- read_release({str(tmp_path / 'plain.csv')!r});"
        f"y <- read_release({str(tmp_path / 'comma.csv')!r})",
        ["identical(x$table, y$table)"],
    )
    assert same is True


def test_a_release_is_printed_and_drawn(answered: Callable[..., list[Any]], tmp_path: Path) -> None:
    release("count", ROWS, state=tmp_path / "s.db", **STREAM, guarantee=PureDP(1), steps=9)
    file = tmp_path / "visits.csv"
    export(tmp_path / "s.db", file)
    text, at, drawn = answered(
        f"x <- read_release({str(file)!r})",
        [
            "capture.output(print(x))", "format(as.data.frame(x)$window_start[1])",
            f"{{pdf({str(tmp_path / 'x.pdf')!r}); plot(x); dev.off(); 0}}",
        ],
    )  # fmt: skip
    assert any("pure differential privacy with epsilon = 1" in line for line in text)
    assert at == "2024-02-29 23:00:00"  # UTC
    assert drawn == 0
    assert (tmp_path / "x.pdf").stat().st_size > 3000
