"""Tables of events over time, through the one run: late rows, new files, ids, people, counts."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from keys import chosen_key
from run_results import counts_of

from counton.base.errors import InvalidInputError, StateError, SumOverflowError
from counton.run import DisplaySelection, Job, RunResult, annotate, export, publish, run
from counton.state import verify

ROWS = [
    "2024-01-03,N,a,u1,1", "2024-01-09,N,a,u1,2", "2024-01-20,S,,u2,3", "2024-02-02,N,b,u3,4",
    "2024-02-03,S,,u1,5",
]  # fmt: skip
NODES = [(), ("N",), ("S",), ("N", "a"), ("N", "b")]


def written(folder: Path, rows: list[str] = ROWS, name: str = "e.csv") -> Path:
    (folder / name).write_text("\n".join(["at,region,city,who,number", *rows, ""]))
    (folder / "places.csv").write_text("region,city\nN,a\nN,b\nS,\n")
    return folder / name


def months(folder: Path, rows: list[str] = ROWS, **more: Any) -> Job:
    """With noise that is 0 almost surely."""
    chosen_key().save(folder / "key") if not (folder / "key").exists() else None
    asked: dict[str, Any] = {
        "levels": "region,city", "groups": folder / "places.csv", "time": "at", "every": "1mo",
        "start": "2024-01-01", "windows": 6, "until": "2024-03-01", "epsilon": 2000,
        "key": folder / "key",
    }  # fmt: skip
    what = more.pop("what", "hierarchy")
    if what != "hierarchy":
        del asked["levels"]
    return Job(what, written(folder, rows), folder / "s.db", **{**asked, **more})


def nodes(outcome: RunResult) -> list[list[int]]:
    """Of each step the total, N, S, N a and N b."""
    table = outcome.read().table()
    away = (table["estimate"] - table["estimate"].round()).abs()
    assert away.is_between(0, 0.25).all()
    return table["estimate"].round().cast(pl.Int64).reshape((-1, len(NODES))).to_list()


def test_all_levels_are_released_after_each_window(tmp_path: Path) -> None:
    with run(months(tmp_path)) as outcome:
        assert nodes(outcome) == [[3, 2, 1, 2, 0], [5, 3, 2, 2, 1]]
        table = outcome.read().table()
        assert table.columns[3:] == [
            "series",
            "tree_level",
            "region",
            "city",
            "estimate",
            "noise_std",
            "lower",
            "upper",
            "confidence_level",
        ]
        last = outcome.read(shown=DisplaySelection(over=1)).table()
        assert last["estimate"].tail(5).round().to_list() == [2, 1, 1, 0, 1]
        whole = [Fraction(one) for one in table["estimate"].to_list()]
        window = [Fraction(one) for one in last["estimate"].to_list()]
        assert [a - b for a, b in zip(whole[5:], whole[:5], strict=True)] == window[-5:]
        assert whole[5] == whole[6] + whole[7] == whole[7] + whole[8] + whole[9]
        assert outcome.name == "hierarchy"
    late = ["2024-01-30,N,b,u9,9"]
    again = Job("hierarchy", written(tmp_path, [*ROWS, *late]), tmp_path / "s.db")
    with run(again.derive(key=tmp_path / "key", until="2024-04-01")) as outcome:
        counts = counts_of(outcome)
        assert (outcome.before, outcome.after, counts.late, counts.late_ignored) == (2, 3, 0, 1)
        assert nodes(outcome)[2] == [5, 3, 2, 2, 1]
    assert all(one.right for one in verify(tmp_path / "s.db", key=tmp_path / "key"))


def test_new_files_are_added_and_ids_count_once(tmp_path: Path) -> None:
    with run(months(tmp_path, ROWS[:3], append=True, row_id="number")) as outcome:
        assert nodes(outcome)[0] == [3, 2, 1, 2, 0]
    more = months(tmp_path, ROWS[1:], append=True, row_id="number", until="2024-04-01")
    with run(more) as outcome:
        assert nodes(outcome)[2] == [5, 3, 2, 2, 1]
        assert counts_of(outcome).duplicates + counts_of(outcome).after_final == 2


def test_rows_may_count_several_times(tmp_path: Path) -> None:
    with run(months(tmp_path, count_column="number")) as outcome:
        assert nodes(outcome) == [[6, 3, 3, 3, 0], [15, 7, 8, 3, 4]]
        one = outcome.spec.metadata().contribution
    with run(months(tmp_path, stream="rows")) as outcome:
        assert outcome.spec.metadata().contribution == one  # a row of 5 is five units


@pytest.mark.parametrize("bad", ["2.5", "-1", "nan", "", "many"])
def test_invalid_count_is_refused_or_quarantined(bad: str, tmp_path: Path) -> None:
    rows = [*ROWS, f"2024-02-09,S,,u1,{bad}"]
    with pytest.raises(InvalidInputError, match=r"row 6 of .* in column 'number'"):
        run(months(tmp_path, rows, count_column="number"))
    assert not (tmp_path / "s.db").exists()
    aside = tmp_path / "bad.csv"
    with run(
        months(tmp_path, rows, count_column="number", bad_rows=f"quarantine:{aside}")
    ) as outcome:
        assert nodes(outcome)[1] == [15, 7, 8, 3, 4]
        assert counts_of(outcome).quarantined == 1
    assert aside.read_text().count("\n") == 2


@pytest.mark.parametrize("many", [2**32, 2**32 + 1, 2**33 - 1, 2**33, 10**10])
def test_one_additional_event_changes_sum_by_at_most_one(many: int, tmp_path: Path) -> None:
    """A wrong example: to set a row aside whose count is too large, with all its events."""
    rows = [*ROWS, f"2024-02-09,S,,u1,{many}"]
    if many > 2**32:
        with pytest.raises(InvalidInputError, match=r"row 6 of .* in column 'number'"):
            run(months(tmp_path, rows, count_column="number"))
    aside = tmp_path / "bad.csv"
    with run(
        months(tmp_path, rows, count_column="number", bad_rows=f"quarantine:{aside}")
    ) as outcome:
        assert nodes(outcome)[1][0] == 15 + max(2**32 - abs(2**32 - many), 0)
        assert counts_of(outcome).quarantined == (many >= 2**33)


@pytest.mark.parametrize("row", ["Q,a", "N,", "N,c", ",a", ",", "S,a"])
def test_row_of_unlisted_leaf_is_refused_or_dropped(row: str, tmp_path: Path) -> None:
    rows = [*ROWS, f"2024-02-09,{row},u1,3"]
    with pytest.raises(InvalidInputError, match=r"'region', 'city' that are not listed: .* row 6"):
        run(months(tmp_path, rows))
    dropped = months(tmp_path, rows, unlisted_groups="drop")
    with run(dropped) as outcome:
        assert nodes(outcome)[1] == [5, 3, 2, 2, 1]
        assert counts_of(outcome).unlisted == 1


def test_row_without_leaf_uses_no_slot_of_user(tmp_path: Path) -> None:
    rows = ["2024-01-01,Q,q,u1,1", *ROWS]
    job = months(
        tmp_path, rows, user="who", max_contributions=2, unlisted_groups="drop", epsilon=4000
    )
    with run(job) as outcome:
        assert nodes(outcome)[-1] == [4, 3, 1, 2, 1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"levels": None}, "hierarchy needs levels"),
        ({"groups": None}, "hierarchy needs groups"),
        ({"group_by": "who"}, "hierarchy has no option .group_by."),
        ({"other_group": "rest"}, "hierarchy has no option .other."),
        ({"unlisted_groups": "discover"}, "unlisted_groups=discover is not possible for hierarchy"),
        ({"levels": "region,region"}, "names the column .region. twice"),
        ({"target": "street=3"}, "not a level"),
        ({"count_column": "city"}, "a column has one meaning"),
    ],
)
def test_tables_over_time_refuse_invalid_options_before_release(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(months(tmp_path, **more))
    assert not (tmp_path / "s.db").exists()


def test_a_stream_keeps_its_table(tmp_path: Path) -> None:
    run(months(tmp_path)).close()
    (tmp_path / "other.csv").write_text("region,city\nN,a\nN,b\nS,\nT,\n")
    with pytest.raises(StateError, match=r"hierarchy. exists with other options: groups"):
        run(months(tmp_path, groups=tmp_path / "other.csv"))
    with pytest.raises(StateError, match=r"hierarchy. exists with other options: target"):
        run(months(tmp_path, target="city=3"))
    with run(months(tmp_path, ROWS[1:], until="2024-04-01")) as outcome:
        assert outcome.after == 3
        assert counts_of(outcome).missing == 1
        assert nodes(outcome)[1:] == [[5, 3, 2, 2, 1]] * 2


def test_any_statistic_may_be_handed_over(tmp_path: Path) -> None:
    written(tmp_path)
    named = months(tmp_path)
    with run(named) as outcome:
        statistic = outcome.spec.metadata().statistic
        values = outcome.read().table()["estimate"]
    other = named.derive(levels=None, groups=None, what=statistic, columns="region,city")
    with run(other.derive(state=tmp_path / "t.db")) as outcome:
        assert nodes(outcome) == [[3, 2, 1, 2, 0], [5, 3, 2, 2, 1]]
        assert outcome.spec.metadata().strategy.horizon == 6
        assert len(values) == 10


def other(folder: Path, what: str, **more: Any) -> Job:
    asked: dict[str, Any] = {"levels": None, "groups": None, **more}
    return months(folder, **asked, what=what, stream=what)


def whole(outcome: RunResult, shown: DisplaySelection | None = None) -> list[tuple[Any, ...]]:
    """The last step: names, and estimates as whole numbers."""
    table = outcome.read(shown=shown).table()
    last = table.filter(window_index=outcome.after)
    last = last.drop("window_index", "window_start", "window_end", "series")
    names = [
        name
        for name in last.columns
        if name not in ("noise_std", "lower", "upper", "confidence_level")
    ]
    return last.select(pl.col(names[:-1]), pl.col(names[-1]).round().cast(pl.Int64)).rows()


def test_lines_are_released_after_each_window(tmp_path: Path) -> None:
    line = {"label": "number", "groups": "1,2,3,4,5"}
    job = other(tmp_path, "ranges", **line, value=None)
    with run(job) as outcome:
        asked = whole(outcome, DisplaySelection(("0:3", "3:5")))
        assert asked == [(0, 3, 3), (3, 5, 2)]
        table = outcome.read().table()
        last = table.filter(window_index=outcome.after)
        cells = last.filter(measure="count")["estimate"]
        assert last.filter(measure="running total")["estimate"][-1] == cells.sum()
        with pytest.raises(InvalidInputError, match="is not an interval"):
            outcome.read(shown=DisplaySelection(("x",)))
    with run(Job("ranges", job.events, job.state, key=job.key, until="2024-04-01")) as outcome:
        assert (outcome.before, outcome.after) == (2, 3)
    with pytest.raises(InvalidInputError, match="'number' that are not listed: '5'"):
        run(job.derive(groups="1,2,3,4", state=tmp_path / "t.db"))


def test_tables_are_released_after_each_window(tmp_path: Path) -> None:
    job = other(tmp_path, "contingency", columns="region,who", groups="region=N,S;who=u1,u2,u3")
    with run(job) as outcome:
        found = whole(outcome)
        assert found[:6] == [
            (None, None, 5), ("N", None, 3), ("S", None, 2), (None, "u1", 3), (None, "u2", 1),
            (None, "u3", 1),
        ]  # fmt: skip
        assert found[6:] == [("N", "u1", 2), ("N", "u2", 0), ("N", "u3", 1),
                             ("S", "u1", 1), ("S", "u2", 1), ("S", "u3", 0)]  # fmt: skip
    with run(job.derive(count_column="number", stream="counts")) as outcome:
        assert whole(outcome)[:3] == [(None, None, 15), ("N", None, 7), ("S", None, 8)]
    assert all(one.right for one in verify(tmp_path / "s.db", key=tmp_path / "key"))


def test_several_columns_of_numbers_are_added_up(tmp_path: Path) -> None:
    rows = ["2024-01-03,1,6,u1,1", "2024-01-04,5,18,u2,2", "2024-02-05,9,30,u3,3"]
    asked: dict[str, Any] = {"columns": "region,city", "bounds": "0:16,0:64", "epsilon": 1e5}
    job = other(tmp_path, "moments", **asked).derive(events=written(tmp_path, rows))
    with run(job) as outcome:
        table = outcome.read().table().filter(window_index=2)
        found = dict(zip(table["measure"], table["estimate"], strict=True))
    assert found["count"] == pytest.approx(3, abs=0.01)
    assert found["mean city"] == pytest.approx(18, abs=0.1)
    assert found["covariance region city"] == pytest.approx(32, abs=0.5)
    late = [*rows, "2024-01-09,1,6,u4,4"]
    later = job.derive(events=written(tmp_path, late), until="2024-04-01")
    with run(later) as outcome:
        assert counts_of(outcome).late_ignored == 1
    with pytest.raises(InvalidInputError, match=r"row 5 of .* in column 'city' \('x'\)"):
        run(later.derive(events=written(tmp_path, [*late, "2024-03-01,1,x,u,1"])))
    with pytest.raises(InvalidInputError, match="two numbers for each"):
        run(job.derive(bounds="0:16", state=tmp_path / "t.db"))


def test_counts_that_cannot_be_added_up_are_refused_before_anything(tmp_path: Path) -> None:
    """Measured are counts times weights, and strategies over time add up finer units still."""
    rows = [*ROWS, *["2024-02-09,N,a,u1,4294967296"] * 2100]
    with pytest.raises(SumOverflowError, match="count in larger units"):
        run(months(tmp_path, rows, count_column="number", rho="1/2", epsilon=None, strategy="sqrt"))
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("what", ["hierarchy", "contingency"])
def test_counts_that_could_not_be_read_are_refused_before_anything(
    what: str, tmp_path: Path
) -> None:
    many = ["2024-01-09,N,a,u1,4294967296"] * 12
    table = {"levels": None, "columns": "region,who", "groups": "region=N,S;who=u1,u2,u3"}

    def job(rows: list[str], until: str) -> Job:
        made = months(tmp_path, rows, append=True, count_column="number", epsilon=1e6, until=until)
        kind = {"what": what, "stream": what, **(table if what == "contingency" else {})}
        return made.derive(**kind)

    with pytest.raises(SumOverflowError, match=r"are exact only up to .*: count in larger units"):
        run(job([*ROWS, *many * 3], "2024-03-01"))
    assert not (tmp_path / "s.db").exists()
    with run(job([*ROWS[:3], *many], "2024-02-01")) as outcome:
        before = outcome.read().table()
    later = [row.replace("01-09", "02-09") for row in many]
    with pytest.raises(SumOverflowError, match="with this noise"):
        run(job(later * 2, "2024-03-01"))
    with run(job(later[:2], "2024-03-01")) as outcome:
        assert outcome.read().table().head(len(before)).equals(before)


@pytest.mark.long
def test_tables_are_published_by_the_names_of_their_cells(tmp_path: Path) -> None:
    line = {"label": "number", "groups": "1,2,3,4,5"}
    table = {"columns": "region,who", "groups": "region=N,S;who=u1,u2,u3"}
    paid: dict[str, Any] = {
        "value": "number", "lower": 0, "upper": 5, "resolution": 1, "group_by": "region",
        "groups": "N,S",
    }  # fmt: skip
    jobs = {
        "hierarchy": months(tmp_path),
        "ranges": other(tmp_path, "ranges", **line),
        "contingency": other(tmp_path, "contingency", **table),
        "average": other(tmp_path, "average", **paid),
        "revised": other(tmp_path, "average", **paid, allowed_lateness="1mo").derive(
            stream="revised"
        ),
    }
    found = {}
    for name, job in jobs.items():
        run(job).close()
        publish(tmp_path / "s.db", stream=name)
        with closing(sqlite3.connect(tmp_path / "s.db")) as database:
            asked = """
                select "group", measure, round(estimate) from counton_releases
                where stream = ? and window_index = 2
            """
            found[name] = {
                (group, measure): number
                for group, measure, number in database.execute(asked, (name,))
            }
    assert found.pop("revised").keys() == found["average"].keys()
    assert found["hierarchy"] == {("all", None): 5, ("N", None): 3, ("S", None): 2,
                                  ("N / a", None): 2, ("N / b", None): 1}  # fmt: skip
    assert [found["ranges"][cell, "count"] for cell in "12345"] == [1] * 5
    assert found["ranges"]["5", "running total"] == 5
    assert found["contingency"]["total", None] == 5
    assert found["contingency"]["region N, who u1", None] == 2
    assert found["average"] == {("N", "mean"): 2, ("N", "sum"): 7, ("N", "count"): 3,
                                ("S", "mean"): 4, ("S", "sum"): 8, ("S", "count"): 2}  # fmt: skip


@pytest.mark.parametrize("columns", ["final,running_total", "over,window_std"])
def test_columns_with_names_of_released_numbers(columns: str, tmp_path: Path) -> None:
    one, two = columns.split(",")
    job = other(tmp_path, "contingency", columns=columns, groups=f"{one}=N,S;{two}=a,b")
    text = (tmp_path / "e.csv").read_text().replace("region,city", columns)
    (tmp_path / "e.csv").write_text(text.replace("S,,", "S,a,"))
    run(job).close()
    place = str(tmp_path / "s.db")
    before = export(place).table()
    annotate(place, "2024-01-03", "wrong")
    assert export(place).table().select(before.columns).equals(before)
    publish(place, stream="contingency")
    with closing(sqlite3.connect(place)) as database:
        found = database.execute('select distinct "group", note from counton_releases').fetchall()
    assert {(f"{one} N, {two} a", note) for note in (None, "wrong")} <= {*found}
    assert len(found) == 18
    names: Any = [f"{a} / {b}" for a in "NS" for b in "ab"]
    run(
        job.derive(what="count", stream="groups", columns=None, group_by=columns, groups=names)
    ).close()
    before = export(place, stream="groups").table()
    annotate(place, "2024-01-03", "wrong", stream="groups")
    assert export(place, stream="groups").table().select(before.columns).equals(before)


def test_a_number_may_be_called_as_a_revised_number_is(tmp_path: Path) -> None:
    job = other(tmp_path, "moments", columns="lag", bounds="0:5", allowed_lateness="1mo")
    (tmp_path / "e.csv").write_text((tmp_path / "e.csv").read_text().replace("number", "lag"))
    with run(job) as outcome:
        assert "mean lag" in outcome.read().table()["measure"].to_list()
