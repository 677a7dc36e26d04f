"""What may be loaded when: `import counton` is cheap, and `--help` cheaper still."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from forked_commands import forked_python
from programs import run_program

import counton
from counton.job.statistics import MODELS
from tools.parsed_source import parsed

HEAVY = {"scipy", "dp_accounting", "polars", "matplotlib", "psycopg", "pandas", "rich", "click"}


def loaded_by(program: str) -> set[str]:
    """Top-level packages in a fresh interpreter after ``program`` has run."""
    report = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = run_program([sys.executable, "-c", f"{program}\n{report}"], check=True)
    return set(done.stdout.splitlines()[-1].split())


def command(*words: object) -> str:
    """A program that is the command line with these words."""
    return (
        "import sys\n"
        "from counton.cli.__main__ import main\n"
        f"sys.argv = {['counton', *map(str, words)]!r}\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code"
    )


def test_importing_counton_loads_nothing_heavy() -> None:
    assert not loaded_by("import counton") & (HEAVY | {"numpy", "cryptography"})


def test_public_names_without_jobs_import_no_optional_package() -> None:
    """One after the other in one interpreter: what any of them brings is there at the end."""
    names = sorted({*counton.__all__} - {"Stream", "read", "release"})
    assert not loaded_by("\n".join(f"from counton import {name}" for name in names)) & HEAVY


def test_counting_loads_nothing_heavy() -> None:
    program = (
        "from counton import ZCDP, Counter, Key, PureDP\n"
        "from counton.strategies import KAry\n"
        "Counter(KAry.best(100), ZCDP(1), key=Key.generate(), name='r').release(1)\n"
        "counter = Counter(KAry.best(100), PureDP(epsilon=1), key=Key.generate(), name='s')\n"
        "counter.release_many([0, 1, 5])"
    )
    assert not loaded_by(program) & HEAVY


@pytest.mark.parametrize("words", ["plan --windows 365 --epsilon 1", "release ranges a.csv --help"])
def test_a_command_without_a_database_loads_none(words: str) -> None:
    loaded = loaded_by(command(*words.split()))
    assert not loaded & {"polars", "psycopg", "matplotlib", "scipy"}


@pytest.mark.long
def test_run_with_nothing_new_imports_no_unneeded_modules(tmp_path: Path) -> None:
    """Rooms that such a run does not enter: each costs every night of every job."""
    (tmp_path / "e.csv").write_text("time,page\n2024-03-01T09:00,home\n")
    (tmp_path / "n.toml").write_text(
        f'[jobs.visits]\nstatistic = "count"\nevents = "{tmp_path / "e.csv"}"\n'
        'group-by = "page"\ngroups = ["home", "shop"]\n'
        f'state = "{tmp_path / "s.db"}"\ntime = "time"\nevery = "1d"\nstart = "2024-03-01"\n'
        'until = "2024-03-02"\nwindows = 365\nepsilon = 1\n'
    )
    report = "print(*sorted({'.'.join(name.split('.')[:3]) for name in sys.modules}))"
    for night in range(2):
        program = f"{command('run', tmp_path / 'n.toml')}\n{report}"
        done = run_program([sys.executable, "-c", program], check=True)
        loaded = {*done.stdout.splitlines()[-1].split()}
        assert ("counton.planning" in loaded) == (night == 0)
    assert "No new window is due. Released: 1 of 365 windows." in done.stdout
    rooms = {
        "counton.charts",
        "counton.planning",
        "counton.training",
        "counton.run.outputs.exports",
    }
    rooms |= {"counton.run.spec.plan_spec", "counton.run.plan_job", "counton.cli.terminal"}
    rooms |= {
        "counton.cli.init_command",
        "counton.cli.plan_command",
        "counton.run.new_job.job_template",
    }
    assert not loaded & rooms
    assert not loaded & {"matplotlib", "scipy", "pandas", "dp_accounting", "ssl"}
    assert "rich.console" not in loaded
    assert "polars" not in loaded_by(command("ledger", tmp_path / "s.db"))  # which reads no rows


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_run_with_unchanged_files_does_not_import_polars(kind: str, tmp_path: Path) -> None:
    visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:00"], "page": ["a", "b"]})
    events = tmp_path / f"visits.{kind}"
    match kind:
        case "csv":
            visits.write_csv(events)
        case "parquet":
            visits.write_parquet(events)
        case _:
            visits.write_ndjson(events)
    (tmp_path / "pages.txt").write_text("a\nb\n")
    words = ["release", "count", events, "--state", tmp_path / "s.db", "--time", "time"]
    words += ["--every", "1d", "--start", "2024-03-01", "--until", "latest-event"]
    words += ["--group-by", "page", "--groups", tmp_path / "pages.txt"]
    words += ["--windows", 365, "--epsilon", 1]
    program = f"{command(*words)}\nimport json; print(json.dumps(list(sys.modules)))"
    for is_first in (True, False):
        done = run_program([sys.executable, "-c", program], check=True)
        loaded = {*json.loads(done.stdout.splitlines()[-1])}
        assert loaded & {"polars", "numpy.ma"} == ({"polars", "numpy.ma"} if is_first else set())


@pytest.mark.parametrize(
    "options",
    [
        'group-by = "page"\ngroups = ["a", "b"]\n',
        'group-by = "page"\ngroups = ["a", "b"]\nother-group = "others"\n',
        'user = "page"\nmax-contributions = 1\ncontribution-period = "1d"\n',
        'user = "page"\nmax-contributions = 1\ncontribution-period = "1w"\n'
        'timezone = "Europe/Berlin"\n',
    ],
    ids=["groups", "other group", "users of days", "users of weeks"],
)
def test_run_with_unchanged_table_does_not_import_polars(options: str, tmp_path: Path) -> None:
    """The policies for bad rows are those of jobs that `counton init` writes."""
    rows = "2024-03-01T09:00,a\n2024-03-02T10:00,b\n2024-03-02T10:00,b\n"
    (tmp_path / "visits.csv").write_text(f"time,page\n{rows}")
    (tmp_path / "n.toml").write_text(
        '[jobs.visits]\nstatistic = "count"\nevents = "visits.csv"\nstate = "s.db"\n'
        'time = "time"\nevery = "1d"\nstart = "2024-03-01"\nuntil = "2024-03-03"\n'
        f"windows = 365\nepsilon = 1\n{options}"
        'missing-values = "drop"\nbad-rows = "quarantine:bad.csv"\noutput = "released.csv"\n'
    )
    assert "polars" in loaded_by(command("run", tmp_path / "n.toml"))
    table = (tmp_path / "released.csv").read_bytes()
    assert "polars" not in loaded_by(command("run", tmp_path / "n.toml"))
    assert (tmp_path / "released.csv").read_bytes() == table


def models_loaded_by(*words: object) -> set[str]:
    """Modules with models of options that a command loads: each takes milliseconds."""
    program = f"{command(*words)}\nimport json; print(json.dumps(list(sys.modules)))"
    done = run_program([sys.executable, "-c", program], check=True)
    modules = {location.partition(":")[0] for location in MODELS.values()}
    modules.add("counton.job.custom_statistic")
    return modules & {*json.loads(done.stdout.splitlines()[-1])}


def test_release_loads_options_of_its_statistic_alone(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    events.write_text("time,page\n2024-03-01T09:00,home\n")
    words = ["release", "count", events, "--state", tmp_path / "s.db", "--time", "time"]
    words += ["--every", "1d", "--start", "2024-03-01", "--until", "2024-03-02"]
    words += ["--windows", 365, "--epsilon", 1]
    for _ in range(2):  # a first run, and one with nothing new
        assert models_loaded_by(*words) == {"counton.job.statistics.count"}


@pytest.mark.long
def test_run_loads_options_of_its_statistics_alone(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("time,paid\n2024-03-01T09:00,3\n")
    (tmp_path / "n.toml").write_text(
        '[defaults]\nevents = "e.csv"\nstate = "s.db"\ntime = "time"\nevery = "1d"\n'
        'start = "2024-03-01"\nuntil = "2024-03-02"\nwindows = 365\nepsilon = 1\n'
        '[jobs.visits]\nstatistic = "count"\n'
        '[jobs.sales]\nstatistic = "sum"\nvalue = "paid"\nlower = 0\nupper = 9\nresolution = 1\n'
    )
    expected = {"counton.job.statistics.count", "counton.job.statistics.sum"}
    for _ in range(2):
        assert models_loaded_by("run", tmp_path / "n.toml") == expected


def test_help_of_releases_loads_all_options() -> None:
    everything = {location.partition(":")[0] for location in MODELS.values()}
    assert everything == models_loaded_by("release", "--help")


def test_help_of_the_command_line_does_not_load_numpy() -> None:
    loaded = loaded_by(command("--help"))
    assert not loaded & {"numpy", "scipy", "polars", "psycopg", "matplotlib"}


@pytest.mark.parametrize("stated", [None, "26"])
def test_threads_of_linear_algebra_wait_for_work_asleep(
    stated: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenBLAS reads the variable when numpy is imported; a value that somebody stated stays."""
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if stated is not None:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", stated)
    program = (
        "import counton.cli.__main__, os, sys\n"
        "assert 'numpy' not in sys.modules\n"
        f"{command('plan', '--windows', 9, '--epsilon', 1)}\n"
        "assert 'numpy' in sys.modules\n"
        "print(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    done = run_program([sys.executable, "-c", program], check=True)
    assert done.stdout.splitlines()[-1] == (stated or "4")


def test_every_public_name_can_be_had() -> None:
    for name in counton.__all__:
        assert getattr(counton, name).__name__ == name
        assert name in dir(counton)


def test_public_names_are_no_modules_after_all_imports() -> None:
    program = """
import importlib, pkgutil, types
import counton

found = [m for m in pkgutil.walk_packages(counton.__path__, "counton.") if "__main__" not in m.name]
loaded = [importlib.import_module(m.name) for m in found]
for package in (counton, *loaded):
    for name in getattr(package, "__all__", ()):
        assert not isinstance(getattr(package, name), types.ModuleType), (package.__name__, name)
"""
    done = run_program([forked_python(), "-c", program])
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Countre'"):
        counton.Countre  # noqa: B018 - reading the attribute is what is tested


def test_first_count_imports_no_heavy_package(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    state = tmp_path / "state.db"
    events.write_text("time,group\n2013-01-01T00:10,a\n2013-01-01T02:10,b\n")
    words = [
        *(
            "release",
            "count",
            str(events),
            "--time",
            "time",
            "--every",
            "1h",
            "--group-by",
            "group",
        ),
        *("--groups", "a,b", "--windows", "100", "--start", "2013-01-01", "--epsilon", "1"),
        *("--state", str(state), "--output", str(tmp_path / "out.csv"), "--until", "latest-event"),
    ]
    program = f"{command(*words)}\nimport json; print(json.dumps(list(sys.modules)))"
    done = run_program([sys.executable, "-c", program], check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert not {"scipy", "dp_accounting", "matplotlib", "pandas"} & set(loaded)
    assert "counton.cli.statistic_run" in loaded


# --------------------------------------------------------------------------- circular imports

SOURCE = Path(counton.__file__).parent
MODULES = {
    ".".join(("counton", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in SOURCE.rglob("*.py")
}


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Yield modules of counton that a module imports when it runs, also within functions."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                yield part if part in MODULES else node.module


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements but those for type checkers; no expression has an import."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.If):
            test = node.test
            if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
                continue
        yield node
        yield from statements(node)


def tree_of(module: str) -> ast.Module:
    return parsed(MODULES[module].read_text(encoding="utf-8"))


def knots(graph: dict[str, set[str]]) -> list[set[str]]:
    """Modules that reach each other, two or more of them."""

    def reached(begin: str) -> set[str]:
        found: set[str] = set()
        waiting = [*graph[begin]]
        while waiting:
            if (module := waiting.pop()) not in found:
                found.add(module)
                waiting += graph[module]
        return found

    ways = {module: reached(module) for module in graph}
    found = [{other for other in ways[one] if one in ways[other]} for one in sorted(graph)]
    return [knot for at, knot in enumerate(found) if len(knot) > 1 and knot not in found[:at]]


@pytest.mark.xdist_group("source")
def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: set(imports_of(tree_of(module))) for module in MODULES}
    assert sum(map(len, graph.values())) > 3 * len(graph) > 300
    assert knots(graph) == []
