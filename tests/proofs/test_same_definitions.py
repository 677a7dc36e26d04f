"""Rows and columns that theorems are about are those of the package: Coq computes some of them."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counton.strategies import Binary, Expiring, KAry, SmoothBinary
from counton.strategies.strategy import Node, column_until
from counton.tables import Nodes
from papers.ranges.dyadic import Dyadic
from tools.proof import FOLDER, in_order

pytestmark = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")
#: So much of each stream is compared.
STEPS = 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled definitions."""
    made = tmp_path_factory.mktemp("proofs")
    for path in in_order(FOLDER):
        if path.stem in ("Definitions", "Strategies"):
            coq(made, Path(shutil.copy(path, made)))
    return made


def coq(folder: Path, path: Path) -> str:
    """What Coq prints of a file."""
    return subprocess.run(
        ["coqc", "-q", "-Q", ".", "Counton", path.name],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def computed(folder: Path, *asked: Iterable[str]) -> list[list[Any]]:
    """Values of terms, as Python has them: of each argument a list, all by one run of Coq."""
    terms = [[*some] for some in asked]
    lines = [f"Compute {term}.\n" for some in terms for term in some]
    path = folder / "Asked.v"
    path.write_text(
        "From Coq Require Import ZArith List Bool.\n"
        "From Counton Require Import Definitions Strategies.\n"
        "Import ListNotations.\nOpen Scope Z_scope.\nSet Printing Width 100000.\n"
        "Set Printing Depth 100000.\n" + "".join(lines)
    )
    found = []
    for line in re.findall(r"^\s+= (.*)$", coq(folder, path), re.MULTILINE):
        plain = re.sub(r"%\w+", "", line).replace(";", ",")
        found.append(ast.literal_eval(plain.replace("true", "True").replace("false", "False")))
    assert len(found) == len(lines)
    values = iter(found)
    return [[next(values) for _ in some] for some in terms]


def steps(term: str) -> Iterator[str]:
    """The term with each step for ``t``."""
    for step in range(1, STEPS + 1):
        yield re.sub(r"\bt\b", str(step), term)


def nodes(row: Iterable[Node]) -> set[tuple[int, tuple[int, int]]]:
    return {(int(weight), (level, index)) for level, index, weight in row}


def weighted(row: list[Any]) -> set[tuple[int, tuple[int, int]]]:
    """Of Coq, which prints a pair of a pair as three."""
    return {(one[0], (one[1][0], one[1][1])) for one in row}


@pytest.mark.long
def test_kary(folder: Path) -> None:
    kinds = ((2, False), (3, True), (4, True), (5, True), (5, False))
    trees = [KAry(STEPS, arity, subtraction) for arity, subtraction in kinds]
    asked = list[Iterable[str]]()
    for tree, (arity, subtraction) in zip(trees, kinds, strict=True):
        below = (arity - 1) // 2 if subtraction else 0
        asked += [
            steps(f"tree_row {arity} {below} 0 {tree.height} t"),
            steps(f"tree_column {arity} {below} {tree.height} t"),
            [f"tree_horizon {arity} {below} {tree.height - one}" for one in (0, 1)],
        ]
    found = iter(computed(folder, *asked))
    for tree, rows, columns, horizons in zip(trees, found, found, found, strict=True):
        for step, (row, column) in enumerate(zip(rows, columns, strict=True), start=1):
            assert weighted(row) == nodes(tree.row(step)), tree
            assert {(1, one) for one in column} == nodes(tree.column(step)), tree
        assert horizons[1] < STEPS <= horizons[0], tree


@pytest.mark.long
def test_binary(folder: Path) -> None:
    tree = Binary(STEPS)
    rows, columns = computed(
        folder, steps(f"binary_row {tree.height} t"), steps(f"binary_column {tree.height} t")
    )
    for step, (row, column) in enumerate(zip(rows, columns, strict=True), start=1):
        assert weighted(row) == nodes(tree.row(step))
        # No release reads a left child that would end after the last step.
        assert {(1, one) for one in column} >= nodes(tree.column(step))


@pytest.mark.long
def test_smooth_binary(folder: Path) -> None:
    """Nodes have other names: the same one stands for the same bits, everywhere."""
    trees = [SmoothBinary(STEPS, height, zeros) for height, zeros in ((6, 2), (6, 3), (14, 1))]
    asked = list[Iterable[str]]()
    for tree in trees:
        asked += [
            steps(f"smooth_row {tree.height} {tree.zeros} t"),
            steps(f"smooth_column {tree.height} {tree.zeros} t"),
        ]
    found = iter(computed(folder, *asked))
    for tree, rows, columns in zip(trees, found, found, strict=True):
        names = dict[Any, Any]()
        for step, (row, column) in enumerate(zip(rows, columns, strict=True), start=1):
            for mine, theirs in (
                ([bits for _, bits in row], tree.row(step)),
                (column, tree.column(step)),
            ):
                assert len(mine) == len(theirs), tree
                for bits, node in zip(mine, theirs, strict=True):
                    assert (node.level, node.weight) == (tree.height - 1 - len(bits), 1), tree
                    assert names.setdefault(tuple(bits), node) == node, tree
        assert len({*names.values()}) == len(names), tree


@pytest.mark.long
def test_dyadic_intervals(folder: Path) -> None:
    tree = Expiring(1)
    rows, columns = computed(folder, steps("expiring_row t"), steps(f"expiring_column t {STEPS}"))
    for step, (row, column) in enumerate(zip(rows, columns, strict=True), start=1):
        assert weighted(row) == nodes(tree.row(step))
        assert {(1, one) for one in column} == nodes(column_until(tree, step, STEPS))


@pytest.mark.long
def test_ranges(folder: Path) -> None:
    """Of a binary tree over eight cells; columns of a tree whose radices differ."""
    line = Dyadic(8)
    cells = 8
    names = [(level, at) for level, rows in enumerate(line._rows) for at in range(len(rows))]
    ends = [(low, high) for high in range(1, cells + 1) for low in range(high)]
    asked = [f"range_row [2;2;2] 0 {low} {high}" for low, high in ends]
    rows, columns = computed(folder, asked, [f"range_column [3;2;2] 0 {cell}" for cell in range(7)])
    for (low, high), row in zip(ends, rows, strict=True):
        inside = (np.arange(cells) >= low) & (np.arange(cells) < high)
        (read,) = line.reads(inside[None].astype(float))
        found = {(int(weight), names[at]) for at, weight in enumerate(read) if weight}
        assert weighted(row) == found
    wide = Nodes(7, (3, 2, 2), (1, 1, 1, 1))
    names = [(level, at) for level, rows in enumerate(wide.rows()) for at in range(len(rows))]
    for column, theirs in zip(columns, wide.matrix().T, strict=True):
        assert {*column} == {names[at] for at, weight in enumerate(theirs) if weight}


@pytest.mark.long
def test_rounding(folder: Path) -> None:
    from proofs.reference import nearest

    pairs = [(top, bottom) for top in range(-9, 10) for bottom in (1, 2, 3, 6)]
    (found,) = computed(folder, [f"nearest ({top}) {bottom}" for top, bottom in pairs])
    assert found == [nearest(*pair) for pair in pairs]
