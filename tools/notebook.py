"""The page "From Python" as a notebook: its text and its code, without outputs.

``make notebook`` writes ``docs/getting-started/from-python.ipynb``; a test compares both, and runs
the cells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "getting-started" / "from-python.md"
NOTEBOOK = DOCS / "getting-started" / "from-python.ipynb"
_FENCE = re.compile(r"^```(?:python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def code_of(block: str) -> str:
    """Return the statements of a code block, without prompts and printed results.

    The result is empty if the block shows an error, because a notebook would stop there.

    >>> code_of(">>> for i in (1, 2):\\n...     print(i)\\n1\\n2\\n>>> i\\n2\\n")
    'for i in (1, 2):\\n    print(i)\\ni'
    >>> code_of("i = 1\\nprint(i)\\n")
    'i = 1\\nprint(i)'
    """
    if not block.startswith(">>> "):
        return block.rstrip("\n")
    if "Traceback (most recent call last):" in block:
        return ""
    lines = block.splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))


def cells_of(page: str) -> list[tuple[str, str]]:
    """Divide a page of Markdown into cells: pairs of a kind, "markdown" or "code", and a text.

    >>> cells_of("# Title\\n\\n```python\\na = 1\\n```\\n\\nThen.\\n")
    [('markdown', '# Title'), ('code', 'a = 1'), ('markdown', 'Then.')]
    """
    parts = _FENCE.split(page)
    cells = []
    for number, part in enumerate(parts):
        kind = "code" if number % 2 else "markdown"
        text = code_of(part) if number % 2 else part.strip()
        if text:
            cells.append((kind, text))
    return cells


def notebook_of(page: str) -> str:
    """Convert a page of Markdown to the JSON text of a notebook (format 4.5), without outputs."""
    cells: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells_of(page)):
        links = re.sub(r"\]\(([\w/-]+)\.md(#[\w-]+)?\)", r"](\1.html\2)", text)
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        source = (text if kind == "code" else links).splitlines(keepends=True)
        cells.append(cell | {"source": source})
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook_of(PAGE.read_text("utf-8")), encoding="utf-8")
