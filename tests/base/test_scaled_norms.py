"""Squared norms: they are named so, and one function knows how they grow with a change."""

import ast
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import counton
from counton.base.distributions import BoundedChange, scaled_norms
from tools.parsed_source import parsed

SOURCE = Path(counton.__file__).parent
#: A squared norm times a square, as in ``most**2 * pattern.l2_squared``.
SCALED = re.compile(r"\*\*\s?2\s\*\s(int\(|[\w.]*squared\b)|\bl2_squared\s\*\s[\w.]+\*\*2")
#: What is no change of counts: columns that are not aligned, of which the 1-norm bounds the other
#: one, and noise that is so many times as wide.
OTHERS = {
    ("strategies/participation.py", "l2_squared * pattern.l1**2"),
    ("strategies/participation.py", "l2_squared * changes**2"),
    ("privacy/gaussian.py", "l2_squared * sigma**2"),
    ("privacy/gaussian.py", "**2 * tau_squared"),
}


def test_they_are_those_of_the_multiplied_change() -> None:
    for by, change in product((1, 2, 5), ((1,), (1, -1), (3, 0, -2))):
        found = np.array(change)
        moved = by * np.array(change)
        l1 = int(abs(found).sum())
        l2_squared = int(found @ found)
        true = (int(abs(moved).sum()), int(moved @ moved))
        assert scaled_norms(l1, l2_squared, by) == true
        pattern = BoundedChange(l1, l2_squared, single_step=True).scaled_by(by)
        assert pattern == BoundedChange(*true, single_step=True)


def test_nobody_else_multiplies_a_squared_norm() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), one[0])
        for path in SOURCE.rglob("*.py")
        if "testing" not in path.parts  # they say it once more
        for one in SCALED.finditer(path.read_text(encoding="utf-8"))
    }
    assert found - OTHERS == {("base/distributions.py", "**2 * l2_squared")}


def squares(node: ast.AST) -> bool:
    """Whether an expression is a squared 2-norm, or a part or a multiple of one."""
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id) == "l2_squared"
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return node.func.attr == "squared_sensitivity"
        kept = isinstance(node.func, ast.Name) and node.func.id in ("int", "float", "min", "max")
        return kept and any(map(squares, node.args))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return squares(node.left) or squares(node.right)
    return False


def misnamed(source: str) -> set[str]:
    """Names that a squared norm is given, and that do not say so."""
    found = set()
    for node in ast.walk(parsed(source)):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.NamedExpr):
            pairs = [(node.target, node.value)]
        for target, value in pairs:
            each: list[tuple[ast.expr, ast.expr]] = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                each += zip(target.elts, value.elts, strict=False)
            names = [ast.unparse(name) for name, of in each if squares(of)]
            found |= {name for name in names if "squared" not in name}
    return found


@pytest.mark.xdist_group("source")
def test_a_squared_norm_is_named_so() -> None:
    for wrong in ("norm = one.l2_squared", "a, norm = one.l1, 3 * int(one.l2_squared)",
                  "if (norm := strategy.squared_sensitivity()) > 3: pass"):  # fmt: skip
        assert misnamed(wrong) == {"norm"}
    assert misnamed("l1, l2_squared = one.l1, 3 * one.l2_squared") == set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "l2_squared" in text or "squared_sensitivity" in text:
            assert misnamed(text) == set(), path
