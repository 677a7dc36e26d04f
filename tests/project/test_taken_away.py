"""What stands on top of the core can be taken away: the rest imports, counts and reads back."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from programs import run_program

from tools.parsed_source import parsed

SRC = Path(__file__).parents[2] / "src"
#: By what it is for, modules with all below them.
ON_TOP: dict[str, tuple[str, ...]] = {
    "service": ("counton.serve",),
    "Spark": ("counton.spark",),
    "training": ("counton.training",),
    "local model": ("counton.local",),
    "charts": ("counton.charts",),
    "laws": ("counton.testing",),
    "published strategies": ("counton.strategies.published",),
    "graphs": ("counton.statistics.graphs",),
    "letters": ("counton.statistics.sequences",),
}  # fmt: skip
#: Imports what others made, and forks for each that is taken away: counton is imported anew.
PROGRAM = """
import json, os, sys
import numpy, polars, rich.table, sqlite3, click
from importlib.abc import MetaPathFinder

for gone, folder in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        break
    if os.waitpid(child, 0)[1]:
        sys.exit(f"failed without {gone}")
else:
    sys.exit()
assert not any(name.partition(".")[0] == "counton" for name in sys.modules)

class Gone(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in gone):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Gone())
import counton
from counton.cli.__main__ import main
sys.argv = [
    "counton", "release", "count", f"{folder}/e.csv", "--time", "time", "--every", "1h",
    "--group-by", " ""group",
    "--groups", "a,b", "--windows", "6", "--start", "2013-01-01", "--epsilon", "1", "--until",
    "latest-event", "--state", f"{folder}/s.db", "--output", f"{folder}/out.parquet",
]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert counton.read(f"{folder}/out.parquet").table().height == 4
users = counton.statistics.Distinct(changes=4)
assert len(counton.plan(6, counton.PureDP(1), of=users, compare=False).choices) > 1
"""


def below(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in modules)


@cache
def imported() -> dict[str, frozenset[str]]:
    """Of every module what is imported with it, other modules or names in them."""
    return {
        ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): frozenset(
            _at_once(parsed(file.read_text("utf-8")))
        )
        for file in SRC.rglob("*.py")
    }


def _at_once(node: ast.AST) -> Iterator[str]:
    """What is imported when a module is: not within functions, nor for type checkers alone."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Import):
            yield from (alias.name for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom):
            yield from (f"{inner.module}.{alias.name}" for alias in inner.names)
            yield str(inner.module)
        elif isinstance(inner, ast.If) and ast.unparse(inner.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _at_once(inner)


@pytest.mark.xdist_group("source")
@pytest.mark.parametrize("what", ON_TOP)
def test_removable_packages_are_imported_by_no_other(what: str) -> None:
    for module, names in imported().items():
        if not below(module, ON_TOP[what]):
            assert not [name for name in names if below(name, ON_TOP[what])], module


def test_check_detects_import_of_removable_package() -> None:
    found = {*_at_once(ast.parse("class A:\n    from counton.charts import plot_loss"))}
    assert any(below(name, ON_TOP["charts"]) for name in found)


@pytest.mark.long
@pytest.mark.slow
def test_counton_runs_without_removable_packages(tmp_path: Path) -> None:
    some = ("service", "charts", "training", "letters")
    others = ("Spark", "laws", "graphs")
    given: list[tuple[list[str], str]] = []
    for gone in (some, (*others, "published strategies"), tuple(ON_TOP)):
        modules = [module for what in gone for module in ON_TOP[what]]
        folder = tmp_path / str(len(given))
        folder.mkdir()
        (folder / "e.csv").write_text("time,group\n2013-01-01T00:10,a\n2013-01-01T02:10,b\n")
        given.append((modules, str(folder)))
    done = run_program([sys.executable, "-c", PROGRAM, json.dumps(given)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert all((Path(folder) / "out.parquet").exists() for _, folder in given)
