"""Sums of rows are refused in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import counton

SOURCE = Path(counton.__file__).parent

#: What else refuses numbers that are too large, none of them a sum of rows.
OTHERS = {
    "numbers/whole_numbers.py": "released estimates",
    "privacy/value_grid.py": "one number that a program gives",
    "strategies/": "noise, or what was released",
}


def test_no_other_function_refuses_sums() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise | ast.Call) and "SumOverflow" in _names(node)
    }
    rest = {path for path in found if not path.startswith(tuple(OTHERS))}
    assert rest == {"base/exact_sums.py"}


def _names(node: ast.Raise | ast.Call) -> list[str]:
    """What is raised, or called, or given to be raised."""
    given = [node.exc] if isinstance(node, ast.Raise) else [node.func, *node.args]
    return [one.id for one in given if isinstance(one, ast.Name)]
