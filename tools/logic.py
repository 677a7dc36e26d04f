"""Count lines of logic: no blanks, comments, docstrings and imports.

    python -m tools.logic [FOLDER [DEPTH]]

It prints logic, lines and files of each folder of ``src/counton``, or of another folder, and then
all logic and all lines.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.parsed_source import parsed

SOURCE = Path(__file__).parent.parent / "src/counton"


class Size(NamedTuple):
    """Lines of logic, all lines, and files."""

    logic: int
    lines: int
    files: int


def size_of(text: str) -> Size:
    """Return the size of a program.

    >>> size_of("import os\\n\\n# A path.\\nhere = os.curdir  # of paths\\n")
    Size(logic=1, lines=4, files=1)
    """
    skipped: set[int] = set()
    for node in ast.walk(parsed(text)):
        for one in _not_logic(node):
            skipped |= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines = text.splitlines()
    logic = (
        number not in skipped and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(lines, 1)
    )
    return Size(sum(logic), len(lines), 1)


def _not_logic(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the imports and docstrings that a node is or begins with."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str())) as docstring, *_]:
                yield docstring


def sizes(root: Path = SOURCE, depth: int = 1) -> dict[str, Size]:
    """Return the size of each folder in ``root``, named by ``depth`` parts of its path."""
    found: dict[str, Size] = defaultdict(lambda: Size(0, 0, 0))
    for file in sorted(root.rglob("*.py")):
        room = "/".join(file.relative_to(root).parts[:depth])
        own = size_of(file.read_text(encoding="utf-8"))
        found[room] = Size(*map(sum, zip(found[room], own, strict=True)))
    return dict(found)


def main(words: list[str]) -> None:
    """Print the table."""
    root, depth = (*words, *(str(SOURCE), "1")[len(words) :])[:2]
    found = sizes(Path(root), int(depth))
    for room, size in sorted(found.items(), key=lambda item: -item[1].logic):
        print(f"{size.logic:7,} {size.lines:8,} {size.files:4} {room}")  # noqa: T201
    logic, lines = (sum(getattr(one, of) for one in found.values()) for of in ("logic", "lines"))
    print(logic, lines)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
