"""Sums of rows are refused in one place, whichever room adds them up."""

import ast
import traceback
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import counton
from counton import Counter, Key, PureDP
from counton.base.errors import SumOverflowError
from counton.strategies import Binary
from tools.parsed_source import parsed

SOURCE = Path(counton.__file__).parent

#: What else refuses numbers that are too large, none of them a sum of rows.
OTHERS = {
    "local/": "sums of messages that clients have hidden",
    "privacy/value_grid.py": "one number that a program gives",
    "strategies/": "noise, or what was released",
    "tables/tree_measurement.py": "noise, or what was released",
}


@pytest.mark.xdist_group("source")
def test_no_other_function_refuses_sums() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "SumOverflowError" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Raise | ast.Call) and "SumOverflowError" in _names(node)
    }
    rest = {path for path in found if not path.startswith(tuple(OTHERS))}
    assert rest == {"base/exact.py"}


def _names(node: ast.Raise | ast.Call) -> list[str]:
    """What is raised, or called, or given to be raised."""
    given = [node.exc] if isinstance(node, ast.Raise) else [node.func, *node.args]
    return [one.id for one in given if isinstance(one, ast.Name)]


def _of_a_program(_: Path) -> None:
    Counter(Binary(9), PureDP(1), key=Key.generate(), name="it").release(2**62 - 1)


def _of_rows(days: int) -> Callable[[Path], None]:
    """Rows that add up to 3 * 2^60 of the largest values that a job takes, on these days."""

    def add_up(folder: Path) -> None:
        most = 2**40
        at = pl.Series([f"2024-03-0{1 + day}T10:00" for day in range(days)])
        rows = pl.DataFrame({"at": at.sample(3 * 2**20, with_replacement=True, seed=1)})
        rows = rows.with_columns(paid=pl.lit(most))
        counton.release(
            "sum", rows, state=folder / "s.db", time="at", every="1d", start="2024-03-01",
            until=f"2024-03-0{1 + days}", windows=9, value="paid", lower=0, upper=most,
            resolution=1,
            guarantee=PureDP(1),
        )  # fmt: skip

    return add_up


ROOMS: dict[str, Callable[[Path], None]] = {
    "continual/checkpoint.py": _of_a_program,
    "run/counting/exactness.py": _of_rows(2),
    "io/aggregation.py": _of_rows(1),
}


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_every_room_refuses_by_the_one_function(room: str, tmp_path: Path) -> None:
    """With the value, the bound and the remedy; and nothing is released."""
    with pytest.raises(
        SumOverflowError, match=r"(at most|more than) .*: give a (coarser|larger)"
    ) as refused:
        ROOMS[room](tmp_path)
    frames = traceback.extract_tb(refused.tb)
    assert frames[-1].name == "refuse_overflow"
    assert frames[-2].filename.endswith(room)
