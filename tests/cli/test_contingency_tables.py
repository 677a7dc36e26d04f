"""Contingency tables as a command."""

import json
from typing import Any

import polars as pl
import pytest

from .conftest import Workplace


class Desk:
    """A folder with rows of people, and the command line called on it."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.folder = place.folder
        rows = ["f,no", "m,no", "f,yes", "m,no", "f,no"]
        self.write("people.csv", "sex,smokes\n" + "\n".join(rows) + "\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def contingency(self, *more: str, out: str = "out.parquet", **changed: str) -> Any:
        options = {
            "columns": "smokes,sex", "groups": "sex=m,f;smokes=yes,no", "rho": "0.5",
            "state": "s.db", **changed,
        }  # fmt: skip
        words = [
            word
            for name, value in options.items()
            for word in (f"--{name.replace('_', '-')}", value)
        ]
        return self.place("release", "contingency", "people.csv", *words, "--output", out, *more)

    def table(self, out: str = "out.parquet") -> pl.DataFrame:
        return pl.read_parquet(self.folder / out)


@pytest.fixture
def desk(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(place.folder)
    return Desk(place)


def test_a_contingency_table_has_every_margin_in_declared_order(desk: Desk) -> None:
    done = desk.contingency().fine()
    assert "Released 2 x 2 cells." in done.out
    table = desk.table()
    assert table.columns == [
        "smokes",
        "sex",
        "estimate",
        "noise_std",
        "lower",
        "upper",
        "confidence_level",
    ]
    assert table.select("smokes", "sex").rows() == [
        (None, None), ("yes", None), ("no", None), (None, "m"), (None, "f"),
        ("yes", "m"), ("yes", "f"), ("no", "m"), ("no", "f"),
    ]  # fmt: skip
    numbers = table["estimate"].to_list()
    assert numbers[0] == pytest.approx(numbers[1] + numbers[2])
    assert numbers[0] == pytest.approx(sum(numbers[5:]))
    assert numbers[4] == pytest.approx(numbers[6] + numbers[8])
    turned = desk.contingency(groups="sex=f,m;smokes=no,yes", out="turned.parquet")
    assert (turned.code, "exists with other options" in turned.err) == (2, True)
    ledger = json.loads(desk.place("ledger", "s.db", "--json").out)
    assert [spent["name"] for spent in ledger["spent"]] == ["contingency_of_smokes_sex"]


def test_contingency_accepts_groups_table_and_count_column(desk: Desk) -> None:
    desk.write("values.csv", "smokes,sex\nyes,m\nno,f\nunknown,\n")
    desk.write("counts.csv", "sex,smokes,n\nf,no,1000\nm,yes,500\n")
    desk.place(
        *(
            "release",
            "contingency",
            "counts.csv",
            "--columns",
            "sex,smokes",
            "--groups",
            "values.csv",
        ),
        *(
            "--count-column",
            "n",
            "--rho",
            "5",
            "--state",
            "s.db",
            "--output",
            "out.parquet",
            "--equal",
        ),
    ).fine()
    table = desk.table()
    assert len(table) == 3 * 4
    cell = table.filter((pl.col("sex") == "f") & (pl.col("smokes") == "no"))["estimate"].item()
    assert cell == pytest.approx(1000, abs=10)


CONTINGENCY = [
    ({"columns": "smokes,,sex"}, "--columns smokes,,sex has an empty name"),
    ({"columns": "smokes,sex,sex"}, "Name each column only once"),
    ({"columns": "smokes,age"}, "has no column 'age'. Its columns are sex, smokes"),
    ({"columns": "smokes,sex,age", "groups": "sex=m,f;smokes=yes,no;age=1"}, "no column 'age'"),
    ({"groups": "sex=m,f"}, "--groups does not list the values of 'smokes'"),
    ({"groups": "sex=m,f"}, "of all columns, as in --groups smokes=A,B;sex=A,B"),
    ({"groups": "none.csv"}, "--groups none.csv is neither a file nor a list of values"),
    ({"groups": "people.csv"}, "--groups people.csv is the file of the events"),
    ({"groups": "gaps.csv"}, "--groups gaps.csv has an empty cell among the values of 'sex'"),
    ({"groups": "sex=m,f;sex=m"}, "lists the values of 'sex' twice"),
    ({"groups": "sex=m,m;smokes=no,yes"}, "lists the value 'm' of 'sex' twice"),
    ({"groups": "combinations.csv"}, "combinations.csv lists the value 'yes' of 'smokes' twice"),
    ({"groups": "columns.csv"}, "--groups columns.csv has no value of 'smokes'"),
    (
        {"groups": "sex=m;smokes=no,yes"},
        "that are not listed: ('no', 'f') (the first such row is row 1)",
    ),
    ({"count_column": "n"}, "no column 'n'"),
]


@pytest.mark.parametrize(("changed", "words"), CONTINGENCY, ids=lambda value: str(value)[:40])
def test_contingency_refuses_invalid_groups(
    changed: dict[str, str], words: str, desk: Desk
) -> None:
    desk.write("gaps.csv", "smokes,sex\nyes,\nno,m\n")
    desk.write("combinations.csv", "smokes,sex\nyes,f\nyes,m\nno,f\n")
    desk.write("columns.csv", "smokes,sex\n")
    said = desk.contingency(**changed).refused()
    assert words in said
