"""The examples of docs/guides/spark.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"


def test_examples_run(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        # The session of the tests, which is there already.
        exec(compile(block, str(PAGE), "exec"), names)
    assert pl.read_parquet(tmp_path / "visits.parquet")["window_index"].to_list() == [1, 1, 2, 2]
    assert pl.read_parquet(tmp_path / "streamed.parquet")["window_index"].to_list() == [1, 1]
