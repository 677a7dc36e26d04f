"""The recipes ``page.py`` and ``metadata.py``: a released file is enough for both."""

import json
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from forked_commands import forked_python

from counton import PureDP, release

RECIPES = Path(__file__).parents[2] / "recipes"
NAME = "<script>alert(1)</script>"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    told: dict[str, Any] = {"time": "at", "every": "1d", "start": "2024-03-01", "windows": 9}
    release(
        "count", pl.DataFrame({"at": ["2024-03-01"], "page": [NAME]}), group_by="page",
        groups=[NAME, "home"], until="2024-03-03", guarantee=PureDP(1), privacy_unit="visit",
        state=tmp_path / "s.db", output=tmp_path / "t.csv", **told,
    )  # fmt: skip
    return tmp_path / "t.csv"


def test_a_page_holds_numbers_methods_and_file(file: Path) -> None:
    page = file.with_suffix(".html")
    words = [str(file), str(page), "--title", "Visits & pages"]
    subprocess.run([forked_python(), str(RECIPES / "page.py"), *words], check=True)
    text = page.read_text("utf-8")
    assert "<h1>Visits &amp; pages</h1>" in text
    assert NAME not in text
    assert "pure differential privacy with epsilon = 1" in text
    assert 'download="t.csv"' in text


def test_metadata_describes_columns_and_guarantee(file: Path) -> None:
    subprocess.run([forked_python(), str(RECIPES / "metadata.py"), str(file)], check=True)
    table = json.loads(Path(f"{file}-metadata.json").read_text("utf-8"))
    columns = [one["name"] for one in table["tableSchema"]["columns"]]
    assert columns == pl.read_csv(file).columns
    entry = json.loads(Path(f"{file}.dcat.jsonld").read_text("utf-8"))
    assert entry["dcat:distribution"]["dcat:downloadURL"] == "t.csv"
    assert "pure differential privacy with epsilon = 1" in entry["dct:description"]
