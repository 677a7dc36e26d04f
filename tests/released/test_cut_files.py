"""Tables that other tools cut and wrote again, so that their description was lost."""

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from counton import read
from counton.base.errors import InvalidInput
from counton.cli.app import app
from counton.released.release_facts import ATTRS

from .test_files import CUT, made, released

KINDS = ("count by group", "both", "found", "sum, noise of floats", "around", *CUT)


@pytest.mark.parametrize("name", KINDS)
def test_what_polars_cut_is_read_by_the_uncut_table(name: str, tmp_path: Path) -> None:
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    released(made(name, tmp_path, out=out))
    facts = pl.read_parquet_metadata(out)["counton"]
    rows = pl.read_parquet(out)
    rows = rows.filter(pl.int_range(rows.height) % 3 != 1).sample(fraction=1, shuffle=True, seed=1)
    rows.write_parquet(cut, metadata={"counton": facts})
    own = read(cut)
    rows.write_parquet(cut)
    with pytest.raises(InvalidInput, match="give that table with like; or export it again"):
        read(cut)
    found = read(cut, like=out)
    assert found.table().equals(own.table())
    assert found.describe() == own.describe()
    rows.write_json(tmp_path / "cut.json")
    assert read(tmp_path / "cut.json", like=out).table().equals(own.table())


def test_what_duckdb_cut_is_read_by_the_uncut_table(tmp_path: Path) -> None:
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    own = released(made("count by group", tmp_path, out=out))
    late = duckdb.read_parquet(str(out)).filter("step > 3 AND \"group\" != 'far'")
    late.write_parquet(str(cut))
    assert "counton" not in pl.read_parquet_metadata(cut)
    assert read(cut, like=out).table().equals(own.only(range(4, 11), ["home", "shop"]).table())


CHANGED: dict[str, tuple[pl.Expr, str]] = {
    "no step of it": (pl.col("step") + 30, "a row of step 40, but the stream ends with step 30"),
    "no group of it": (pl.lit("x").alias("group"), "has a group 'x', which its description"),
    "off the grid": (pl.col("estimate") + 0.25, "an estimate that is not a multiple of 0.5"),
    "another step's noise": (pl.col("std").reverse(), "its step .* has the std .*, but what '"),
    "other noise": (pl.col("std") * 2, "its step 1 has the std .*, but what '.*t.parquet' desc"),
}


@pytest.mark.parametrize("change", CHANGED)
def test_rows_that_do_not_fit_the_description_are_refused(change: str, tmp_path: Path) -> None:
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    released(made("sum", tmp_path, out=out, strategy="binary"))
    expression, said = CHANGED[change]
    pl.read_parquet(out).with_columns(expression).write_parquet(cut)
    with pytest.raises(InvalidInput, match=said):
        read(cut, like=out)


def test_readings_that_are_not_of_the_description_are_refused(tmp_path: Path) -> None:
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    released(made("average by group", tmp_path, out=out))
    rows = pl.read_parquet(out)
    rows.with_columns(pl.col("estimate") + 0.01).write_parquet(cut)
    with pytest.raises(InvalidInput, match=r"has the estimate .*: give the table from"):
        read(cut, like=out)
    pl.concat([rows, rows.head(1).with_columns(group=pl.lit("x"))]).write_parquet(cut)
    with pytest.raises(InvalidInput, match=r"has a row .*x.* does not have"):
        read(cut, like=out)


def test_the_description_is_in_the_schema_that_pandas_and_pyarrow_keep(tmp_path: Path) -> None:
    """As `tests/spark/test_cut_by_pandas.py` has it of these two themselves."""
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    own = released(made("both", tmp_path, out=out))
    facts = pl.read_parquet_metadata(out)["counton"]
    kept = json.dumps({"counton": facts})
    pl.read_parquet(out).filter(pl.col("step") > 3).write_parquet(cut, metadata={ATTRS: kept})
    assert read(cut).table().equals(own.only(range(4, 11)).table())


def test_the_command_line_takes_the_uncut_table(tmp_path: Path) -> None:
    out, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    released(made("count by group", tmp_path, out=out))
    pl.read_parquet(out).filter(pl.col("step") > 3).write_parquet(cut)

    def told(*words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--json"])

    for command in (["methods", str(cut)], ["show", str(cut)], ["export", str(cut)]):
        assert told(*command).exit_code == 2, command
        assert "--like" in told(*command).stderr
        done = told(*command, "--like", str(out))
        assert done.exit_code == 0, (command, done.stderr)
        assert json.loads(done.stdout)
