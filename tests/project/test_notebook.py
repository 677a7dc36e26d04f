"""The notebook is the page "From Python", and its cells run from top to bottom."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.notebook import NOTEBOOK, PAGE, cells_of, notebook_of


def test_notebook_equals_its_page() -> None:
    written = NOTEBOOK.read_text("utf-8")
    assert written == notebook_of(PAGE.read_text("utf-8")), "run: python -m tools.notebook"


@pytest.mark.slow
def test_the_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    for number, text in enumerate(code):
        exec(compile(text, f"cell {number}", "exec"), namespace)
    assert namespace["counts"].steps == range(1, 336)


def test_cells_of_page_omit_block_with_error() -> None:
    page = "Text.\n\n```pycon\n>>> 1 / 0\nTraceback (most recent call last):\n...\n```\n"
    assert cells_of(page) == [("markdown", "Text.")]
