"""What may be loaded when: `import counton` is cheap, and `--help` cheaper still."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import counton

HEAVY = {"scipy", "dp_accounting", "polars", "matplotlib", "sqlalchemy", "pandas", "rich", "typer"}


def loaded_by(program: str) -> set[str]:
    """Top-level packages in a fresh interpreter after ``program`` has run."""
    report = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_report_of_loaded_packages_can_show_a_heavy_one() -> None:
    assert "scipy" in loaded_by("import scipy")


def test_importing_counton_loads_nothing_heavy() -> None:
    assert not loaded_by("import counton") & (HEAVY | {"numpy", "cryptography"})


@pytest.mark.parametrize("name", sorted({*counton.__all__} - {"Stream"}))
def test_a_public_name_brings_no_optional_package(name: str) -> None:
    assert not loaded_by(f"from counton import {name}") & HEAVY


def test_counting_with_a_pure_guarantee_loads_nothing_heavy() -> None:
    program = (
        "from counton import Counter, Key, PureDP\n"
        "from counton.strategies import KAry\n"
        "counter = Counter(KAry.best(100), PureDP(epsilon=1), key=Key.generate(), name='s')\n"
        "counter.release_many([0, 1, 5])"
    )
    assert not loaded_by(program) & HEAVY


@pytest.mark.parametrize("words", ["plan --steps 9 --epsilon 1", "ranges a.csv --help"])
def test_a_command_without_a_database_loads_none(words: str) -> None:
    program = (
        "import sys\n"
        "from counton.cli.__main__ import main\n"
        f"sys.argv = ['counton', *{words.split()}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code"
    )
    assert not loaded_by(program) & {"polars", "sqlalchemy", "matplotlib"}


def test_help_of_the_command_line_does_not_load_numpy() -> None:
    program = (
        "import sys\n"
        "from counton.cli.__main__ import main\n"
        "sys.argv = ['counton', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code"
    )
    assert not loaded_by(program) & {"numpy", "scipy", "polars", "sqlalchemy", "matplotlib"}


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    source = ast.parse(Path(counton.__file__).read_text(encoding="utf-8"))
    shown = {
        alias.name: node.module
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert shown == counton._HOME


def test_every_public_name_can_be_had() -> None:
    for name in counton._HOME:
        assert getattr(counton, name).__name__ == name
        assert name in dir(counton)


def test_a_star_brings_all_public_names() -> None:
    assert sorted(counton.__all__) == sorted(counton._HOME)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Countre'"):
        counton.Countre  # noqa: B018 - reading the attribute is what is tested
