"""Tables for statisticians: whole numbers, known totals, and contingency tables as a command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

Contents = Callable[[], dict[str, bytes]]


class Desk:
    """A folder with a small hierarchy and rows of people, and the command line called on it."""

    def __init__(self, place: Any) -> None:
        self.place, self.folder = place, place.folder
        self.write("places.csv", "state,county\nCA,Kings\nCA,Napa\nNY,Kings\nDC,\n")
        self.write("leaves.csv", "state,county,people\nNY,Kings,700\nDC,,90\n")
        self.write("totals.csv", "state,total\nCA,40\nNY,700\n")
        rows = ["f,no", "m,no", "f,yes", "m,no", "f,no"]
        self.write("people.csv", "sex,smokes\n" + "\n".join(rows) + "\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def hierarchy(self, *more: str, out: str = "out.parquet", leaves: str = "leaves.csv") -> Any:
        return self.place(
            *("hierarchy", leaves, "--levels", "state,county", "--value", "people"),
            *("--domain", "places.csv", "--state", "s.db", "--out", out, "--rho", "0.05", *more),
        )

    def contingency(self, *more: str, out: str = "out.parquet", **changed: str) -> Any:
        options = {
            "columns": "smokes,sex",
            "domain": "sex=m,f;smokes=yes,no",
            "rho": "0.5",
            "state": "s.db",
            **changed,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return self.place("contingency", "people.csv", *words, "--out", out, *more)

    def table(self, out: str = "out.parquet") -> pl.DataFrame:
        return pl.read_parquet(self.folder / out)


@pytest.fixture
def desk(place: Any, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(place.folder)
    return Desk(place)


def test_whole_numbers_add_up_and_known_totals_are_kept(desk: Desk) -> None:
    fit = ("--integers", "--nonnegative", "--known", "totals.csv")
    done = desk.hierarchy(*fit)
    assert done.code == 0, done.err
    assert "note: non-negative: where little is counted" in done.out
    table = desk.table()
    assert table["estimate"].dtype == table["lower"].dtype == pl.Int64
    assert table["estimate"].min() >= 0  # type: ignore[operator]
    states = table.filter(pl.col("level") == "state")
    total = table.filter(pl.col("level") == "total")["estimate"].item()
    assert states["estimate"].sum() == total
    known = dict(states.select("state", "estimate").rows())
    assert (known["CA"], known["NY"]) == (40, 700)
    assert dict(states.select("state", "std").rows())["CA"] == 0
    counties = table.filter((pl.col("level") == "county") & (pl.col("state") == "CA"))
    assert counties["estimate"].sum() == 40
    assert table.filter(pl.col("level") == "county").filter(pl.col("state") == "NY")[
        "estimate"
    ].to_list() == [700]
    notes = json.loads(pl.read_parquet_metadata(desk.folder / "out.parquet")["counton"])["notes"]
    assert len(notes) == 2


def test_one_table_has_one_number_a_cell_everywhere(desk: Desk) -> None:
    fit = ("--integers", "--nonnegative", "--known", "totals.csv")
    first = desk.hierarchy(*fit)
    assert first.code == 0, first.err
    numbers = desk.table().select("level", "state", "county", "estimate")
    total = numbers.filter(pl.col("level") == "total")["estimate"].item()
    states = dict(numbers.filter(pl.col("level") == "state").select("state", "estimate").rows())
    for node, number in {"total": total, **states}.items():
        (line,) = [one for one in first.out.splitlines() if node in one.split()][-1:]
        assert f"{number:,.0f}" in line.split()
    # Asked again without a word, and from the state alone: the same numbers.
    again = desk.hierarchy("--json", out="again.parquet")
    assert json.loads(again.out)["last"]["rows"][0]["estimate"] == total
    done = desk.place("export", "s.db", "--out", "export.parquet")
    assert done.code == 0, done.err
    for out in ("again.parquet", "export.parquet"):
        assert desk.table(out).select(numbers.columns).equals(numbers), out
    desk.write("others.csv", "state,total\nCA,41\n")
    for words in (
        desk.hierarchy("--known", "others.csv", out="other.parquet"),
        desk.place("export", "s.db", "--out", "other.parquet", "--integers"),
    ):
        assert (words.code, "made to fit other conditions before" in words.err) == (2, True)
    assert not (desk.folder / "other.parquet").exists()


def test_a_contingency_table_keeps_its_whole_numbers(desk: Desk) -> None:
    done = desk.contingency("--integers", "--nonnegative")
    assert done.code == 0, done.err
    numbers = desk.table()["estimate"].to_list()
    desk.contingency(out="again.parquet")
    desk.place("export", "s.db", "--out", "export.parquet")
    for out in ("again.parquet", "export.parquet"):
        assert desk.table(out)["estimate"].to_list() == numbers


def test_a_contingency_table_has_every_margin_in_declared_order(desk: Desk) -> None:
    done = desk.contingency()
    assert done.code == 0, done.err
    assert "Released 2 x 2 cells." in done.out
    table = desk.table()
    assert table.columns == ["smokes", "sex", "estimate", "std", "lower", "upper"]
    assert table.select("smokes", "sex").rows() == [
        (None, None), ("yes", None), ("no", None), (None, "m"), (None, "f"),
        ("yes", "m"), ("yes", "f"), ("no", "m"), ("no", "f"),
    ]  # fmt: skip
    numbers = table["estimate"].to_list()
    assert numbers[0] == pytest.approx(numbers[1] + numbers[2])
    assert numbers[0] == pytest.approx(sum(numbers[5:]))
    assert numbers[4] == pytest.approx(numbers[6] + numbers[8])
    turned = desk.contingency(domain="sex=f,m;smokes=no,yes", out="turned.parquet")
    assert (turned.code, "in another order" in turned.err) == (2, True)
    ledger = json.loads(desk.place("ledger", "s.db", "--json").out)
    assert [spent["name"] for spent in ledger["spent"]] == ["contingency_of_smokes_sex"]


def test_whole_cells_give_whole_margins(desk: Desk) -> None:
    done = desk.contingency("--integers", "--nonnegative", "--json")
    assert done.code == 0, done.err
    named = [["smokes", ["yes", "no"]], ["sex", ["m", "f"]]]
    assert json.loads(done.out)["statistic"]["columns"] == named
    table = desk.table()
    numbers = table["estimate"].to_list()
    assert table["estimate"].dtype == pl.Int64
    assert min(numbers) >= 0
    assert numbers[0] == numbers[1] + numbers[2] == numbers[3] + numbers[4] == sum(numbers[5:])


def test_a_contingency_table_is_exported_and_verified_from_the_state(desk: Desk) -> None:
    desk.contingency()
    done = desk.place("export", "s.db", "--out", "again.parquet")
    assert done.code == 0, done.err
    assert desk.table("again.parquet").equals(desk.table())
    assert desk.place("verify", "s.db").code == 0


def test_what_is_exported_can_be_made_to_fit_too(desk: Desk) -> None:
    fit = ("--integers", "--nonnegative", "--known", "totals.csv")
    assert desk.hierarchy(*fit).code == 0
    assert desk.contingency("--integers").code == 0
    for name, more in (
        ("hierarchy_of_people", fit),
        ("contingency_of_smokes_sex", ("--integers",)),
    ):
        out = f"{name.partition('_')[0]}.parquet"
        done = desk.place("export", "s.db", "--name", name, "--out", out, *more)
        assert done.code == 0, done.err
    assert desk.table("contingency.parquet").equals(desk.table())
    desk.hierarchy(*fit)
    assert desk.table("hierarchy.parquet").equals(desk.table())
    refused = desk.place("export", "s.db", "--name", "contingency_of_smokes_sex", *fit)
    assert (refused.code, "made to fit other conditions before" in refused.err) == (2, True)


def test_a_domain_may_be_a_table_and_counts_a_column(desk: Desk) -> None:
    desk.write("values.csv", "smokes,sex\nyes,m\nno,f\nunknown,\n")
    desk.write("counts.csv", "sex,smokes,n\nf,no,1000\nm,yes,500\n")
    done = desk.place(
        *("contingency", "counts.csv", "--columns", "sex,smokes", "--domain", "values.csv"),
        *("--value", "n", "--rho", "5", "--state", "s.db", "--out", "out.parquet", "--equal"),
    )
    assert done.code == 0, done.err
    table = desk.table()
    assert len(table) == 3 * 4
    cell = table.filter((pl.col("sex") == "f") & (pl.col("smokes") == "no"))["estimate"].item()
    assert cell == pytest.approx(1000, abs=10)


HIERARCHY = [
    (["--known", "none.csv"], "none.csv"),
    (["--known", "leaves.csv"], "--known leaves.csv is the file of the private rows"),
    (["--known", "places.csv"], "give the level columns from the coarsest on (state, county)"),
    (["--known", "county.csv"], "give the level columns from the coarsest on"),
    (["--known", "half.csv"], "row 1 of half.csv: total is '1.5', which is not a whole number"),
    (["--known", "twice.csv"], "row 2 of twice.csv repeats a node"),
    (
        ["--known", "gap.csv"],
        "row 1 of gap.csv has a level that is named, below a level that is empty",
    ),
    (["--known", "texas.csv"], "node ('TX',) is not in the domain"),
    (["--known", "sums.csv"], "the known total of everything is 9, but the sum of its parts"),
    (["--known", "parts.csv"], "of CA is 4, but the sum of its parts, which are all known, is 7"),
    (["--known", "below.csv", "--nonnegative"], "a known total is -3, which is below 0"),
    (["--known", "large.csv"], "must be below 2^53"),
]


@pytest.mark.parametrize(("options", "words"), HIERARCHY, ids=lambda value: str(value)[:40])
def test_known_totals_that_cannot_be_are_refused_before_a_release(
    options: list[str], words: str, desk: Desk, contents: Contents
) -> None:
    for name, text in {
        "county": "county,total\nNapa,3\n",
        "half": "state,total\nCA,1.5\n",
        "twice": "state,total\nCA,1\nCA,1\n",
        "gap": "state,county,total\n,Napa,1\n",
        "texas": "state,total\nTX,1\n",
        "sums": "state,total\n,9\nCA,4\nNY,3\nDC,1\n",
        "parts": "state,county,total\nCA,,4\nCA,Napa,3\nCA,Kings,4\n",
        "below": "state,total\nCA,-3\n",
        "large": f"state,total\nCA,{2**60}\n",
    }.items():
        desk.write(f"{name}.csv", text)
    before = contents()
    done = desk.hierarchy(*options)
    assert done.code in (1, 2)
    assert words in " ".join(done.err.split()), done.err
    assert contents() == before


CONTINGENCY = [
    ({"columns": "smokes,,sex"}, "--columns smokes,,sex contains an empty name"),
    ({"columns": "smokes,sex,sex"}, "name another column for each"),
    ({"columns": "smokes,age"}, "has no column 'age'; its columns are sex, smokes"),
    ({"columns": "smokes,sex,age", "domain": "sex=m,f;smokes=yes,no;age=1"}, "no column 'age'"),
    ({"domain": "sex=m,f"}, "--domain does not list the values of 'smokes'"),
    ({"domain": "sex=m,f"}, "of all columns, as in --domain 'smokes=A,B;sex=A,B'"),
    ({"domain": "none.csv"}, "--domain none.csv is neither a file nor a list of values"),
    ({"domain": "people.csv"}, "--domain people.csv is the file of the events"),
    ({"domain": "gaps.csv"}, "--domain gaps.csv has an empty cell among the values of 'sex'"),
    ({"domain": "sex=m,f;sex=m"}, "lists the values of 'sex' twice"),
    ({"domain": "sex=m,m;smokes=no,yes"}, "the labels of 'sex' are"),
    ({"domain": "sex=m;smokes=no,yes"}, "that are not listed: ('no', 'f') (first in row 1)"),
    ({"value": "n"}, "no column 'n'"),
    ({"rho": "0"}, "rho"),
    ({"rho": "-1"}, "rho"),
    ({"epsilon": "1"}, "state the privacy loss in two ways"),
    ({"plot": "chart.csv"}, "must end in one of .png, .svg, .pdf"),
    ({"out": "t.txt"}, "must end in one of"),
    ({"level": "2"}, "level is 2.0"),
    ({"key": "s.db"}, "is also a file of the state"),
]


@pytest.mark.parametrize(("changed", "words"), CONTINGENCY, ids=lambda value: str(value)[:40])
def test_what_cannot_be_a_contingency_table_is_refused(
    changed: dict[str, str], words: str, desk: Desk, contents: Contents
) -> None:
    desk.write("gaps.csv", "smokes,sex\nyes,\nno,m\n")
    before = contents()
    out = changed.pop("out", "out.parquet")
    done = desk.contingency(out=out, **changed)
    assert done.code == 2, done.err
    assert words in " ".join(done.err.split()), done.err
    assert contents() == before


def test_rows_outside_the_domain_and_changed_data_are_refused(desk: Desk) -> None:
    assert desk.contingency().code == 0
    desk.write("people.csv", "sex,smokes\nf,no\n")
    done = desk.contingency()
    assert (done.code, "which stay counted" in done.err) == (0, True)
    done = desk.contingency(rho="1")
    assert (done.code, "the guarantee is" in done.err) == (2, True)
    assert Path("out.parquet").exists()


def test_an_export_of_a_count_refuses_constraints_of_tables(desk: Desk) -> None:
    desk.write("visits.csv", "at,shop\n2024-03-01 09:00,north\n")
    desk.place(
        "count", "visits.csv", "--time", "at", "--every", "1d", "--start", "2024-03-01",
        "--steps", "3", "--until", "2024-03-02", "--epsilon", "1", "--state", "s.db",
    )  # fmt: skip
    for more in ([], ["--out", "count.csv"]):
        done = desk.place("export", "s.db", "--integers", *more)
        assert done.code == 2
        assert "leave them out" in done.err
    assert not (desk.folder / "count.csv").exists()
