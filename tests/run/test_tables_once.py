"""Tables of rows without times: a stream of one step, under every guard of the one run."""

import hashlib
import itertools
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from once import released
from run_results import counts_of

import counton
from counton import ZCDP, Contingency, Hierarchy, PureDP, Ranges
from counton.base.distributions import BoundedChange
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.job.stream_name import usual_name
from counton.privacy import Guarantee
from counton.privacy.unit_changes import PatternOverSteps
from counton.run import Job, RunResult, export, methods, publish, run
from counton.run.close_stream import close_stream
from counton.run.plan_job import planned_job
from counton.state import Store, verify
from counton.tables import Tree
from counton.tables.line_catalogue import NAMES as LINES
from counton.tables.workloads import NAMED_WORKLOADS

ROWS = ["N,a,u1,1,i1", "N,a,u1,2,i2", "S,,u2,3,i3", "N,b,u3,4,i4", "S,,u1,5,i5"]
TABLES = ("hierarchy", "ranges", "contingency")


def written(folder: Path, rows: list[str] = ROWS, name: str = "e.csv") -> Path:
    (folder / name).write_text("\n".join(["region,city,who,number,id", *rows, ""]))
    (folder / "places.csv").write_text("region,city\nN,a\nN,b\nS,\n")
    return folder / name


def table(what: str, folder: Path, rows: list[str] = ROWS, **more: Any) -> Job:
    """With noise that is 0 almost surely."""
    if not (folder / "key").exists():
        chosen_key().save(folder / "key")
    own: dict[str, dict[str, Any]] = {
        "hierarchy": {"levels": "region,city", "groups": folder / "places.csv"},
        "ranges": {"label": "region", "groups": "N,S,T"},
        "contingency": {"columns": "region,who", "groups": "region=N,S;who=u1,u2,u3"},
    }
    asked = {**own[what], "epsilon": 3000, "key": folder / "key", **more}
    return Job(what, asked.pop("events", written(folder, rows)), folder / "s.db", **asked)


@pytest.fixture(params=TABLES)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    return table(request.param, tmp_path)


def numbers(job: Job) -> list[float]:
    with run(job) as outcome:
        return estimates(outcome)


def estimates(result: RunResult) -> list[float]:
    """Return the released counts; a table of ranges has running totals, too."""
    table = result.read().table()
    if result.spec.terms.statistic.name == "ranges":
        table = table.filter(measure="count")
    rounded: list[float] = table["estimate"].round().to_list()
    return rounded


WHOLE = {
    "hierarchy": [5, 3, 2, 2, 1],
    "ranges": [3, 2, 0],
    "contingency": [5, 3, 2, 3, 1, 1, 2, 0, 1, 1, 1, 0],
}


def test_single_table_is_released_once_without_time_columns(job: Job) -> None:
    assert numbers(job) == WHOLE[job.statistic]
    with run(job) as outcome:
        assert (outcome.before, outcome.after, counts_of(outcome).late) == (1, 1, 0)
        assert not outcome.spec.metadata().windows.is_recurring
        assert outcome.spec.metadata().strategy.horizon == 1
        shown = outcome.read().table()
        assert not {"window_index", "window_start", "window_end"} & {*shown.columns}
    assert all(one.right for one in verify(str(job.state), key=job.key))


def test_later_rows_of_single_table_are_reported_without_effect(job: Job, tmp_path: Path) -> None:
    first = numbers(job)
    others: list[tuple[list[str], int, int]] = [
        ([*ROWS, "N,a,u1,2,i9"], 0, 1), (ROWS[1:], 1, 0), ([ROWS[2], *ROWS[1:]], 1, 1),
        (["S,,u2,1,i1", *ROWS[1:]], 1, 1), ([], 5, 0),
    ]  # fmt: skip
    for rows, missing, late_ignored in others:
        with run(job.derive(events=written(tmp_path, rows))) as outcome:
            counts = counts_of(outcome)
            assert estimates(outcome) == first
        # Of a line alone a row says its label and nothing else: others' labels may be the same.
        expected = (missing, late_ignored)
        same = (counts.missing, counts.late_ignored) == expected
        assert same or job.statistic == "ranges", rows
    assert all(one.right for one in verify(str(job.state), key=job.key))
    assert numbers(job.derive(events=written(tmp_path, ROWS[::-1]))) == first
    assert numbers(Job(job.statistic, job.events, job.state, key=job.key)) == first
    with Store(str(job.state)) as store:
        assert len(store.entries) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"row_id": "id"},
        {"user": "who", "max_contributions": 9},
        {"user": "who", "max_contributions": 9, "row_id": "id"},
    ],
    ids=str,
)
def test_other_rows_of_ids_and_users_change_nothing_too(
    job: Job, more: dict[str, Any], tmp_path: Path
) -> None:
    people = job.derive(**more)
    first = numbers(people)
    changed = ["S,,u1,1,i1", *ROWS[1:]]
    for rows in (ROWS[1:], [], [*ROWS, "N,a,u1,2,i9"], changed):
        assert numbers(people.derive(events=written(tmp_path, rows))) == first
    again = written(tmp_path, [*ROWS[::-1], *([ROWS[0]] if "row_id" in more else [])])
    assert numbers(people.derive(events=again)) == first
    assert all(one.right for one in verify(str(job.state), key=job.key))


def test_counts_are_rows_so_many_times(tmp_path: Path) -> None:
    for what in TABLES:
        folder = tmp_path / what
        folder.mkdir()
        found = table(what, folder, count_column="number")
        assert numbers(found)[0] == (15 if what != "ranges" else 7)
        first = numbers(found)
        other = found.derive(events=written(folder, ["N,a,u1,2,i1", *ROWS[1:]]))
        assert numbers(other) == first
        with run(other) as outcome:
            assert (counts_of(outcome).missing, counts_of(outcome).late_ignored) == (1, 1)
    for more in ({"user": "who", "max_contributions": 3}, {"row_id": "id"}):
        with pytest.raises(
            InvalidInputError, match=r"count_column=number cannot be used with (user=who|row_id=id)"
        ):
            run(table("hierarchy", tmp_path, count_column="number", **more))


def test_user_counts_in_single_table_up_to_bound(job: Job, tmp_path: Path) -> None:
    people = job.derive(user="who", max_contributions=1)
    with run(people) as outcome:
        assert counts_of(outcome).beyond_bound == 2
        assert outcome.spec.metadata().contribution.unit == "user"
    first = numbers(people)
    assert first[0] <= 3
    with run(people.derive(events=written(tmp_path, [*ROWS, ROWS[0]], "more.csv"))) as again:
        assert counts_of(again).beyond_bound == 3
    assert numbers(people) == first
    one: Any = run(job.derive(stream="rows")).spec.contribution.pattern
    many: Any = run(
        job.derive(stream="three", user="who", max_contributions=3)
    ).spec.contribution.pattern
    assert (many.l1, many.l2_squared) == (3 * one.l1, 9 * one.l2_squared)


def test_single_table_refuses_groups_copied_from_events(tmp_path: Path) -> None:
    """Distinct rows of the events stood for a public tree."""
    distinct = [row for number, row in enumerate(ROWS) if number in (0, 2, 3)]
    copied = written(tmp_path, distinct, "copied.csv")
    table("hierarchy", tmp_path)
    given: list[tuple[pl.DataFrame, dict[str, Any], str]] = [
        (pl.read_csv(copied), {}, "has all columns of the events"),
        (
            pl.read_csv(copied).drop("number", "id"),
            {"user": "who", "max_contributions": 2},
            "'who', a column of the events",
        ),
        (
            pl.read_csv(copied).drop("number", "who"),
            {"row_id": "id"},
            "'id', a column of the events",
        ),
    ]
    for frame, more, words in given:
        frame.write_csv(tmp_path / "public.csv")
        with pytest.raises(
            InvalidInputError, match=f"{words}.*the groups must be public knowledge"
        ):
            run(table("hierarchy", tmp_path, groups=tmp_path / "public.csv", **more))
        assert not (tmp_path / "s.db").exists()
    for events in (pl.read_csv(tmp_path / "e.csv").select("region", "city"), tmp_path / "e.csv"):
        frame.select("region", "city", people=pl.lit(9)).write_csv(tmp_path / "public.csv")
        numbers(table("hierarchy", tmp_path, events=events, groups=tmp_path / "public.csv"))
    frame = pl.DataFrame({"region": ["N", "S", None], "who": ["u1", "u2", "u3"]})
    frame.write_csv(tmp_path / "values.csv")  # users are public where they are a part of the table
    people: dict[str, Any] = {
        "user": "who",
        "max_contributions": 2,
        "groups": tmp_path / "values.csv",
    }
    run(table("contingency", tmp_path, **people)).close()
    run(table("contingency", tmp_path, **people)).close()


@pytest.mark.parametrize("timed", [True, False])
def test_a_private_frame_is_no_public_list(timed: bool, tmp_path: Path) -> None:
    """Its distinct rows stood for a public tree, and a lazy one ended in its reader's error."""
    rows = pl.DataFrame({"at": ["2024-03-01"] * 2, "region": ["N", "S"], "who": ["u1", "u2"]})
    times = {
        "time": "at",
        "every": "1d",
        "start": "2024-03-01",
        "windows": 2,
        "until": "2024-03-02",
    }
    asked: dict[str, Any] = {"epsilon": 1, "levels": "region", **(times if timed else {})}
    job = Job("hierarchy", rows, tmp_path / "s.db", **asked)
    private: list[tuple[Any, dict[str, Any]]] = [
        *((rows, {}), (rows[:1], {}), (rows.lazy(), {}), (rows.to_dict(as_series=False), {})),
        (rows.select("region", "who"), {"user": "who", "max_contributions": 1}),
    ]
    for domain, more in private:
        with pytest.raises(InvalidInputError, match="the groups must be public knowledge"):
            run(job.derive(groups=domain, **more))
    for what, own in (("ranges", {"label": "region"}), ("contingency", {"columns": "region"})):
        frame: Any = pl.DataFrame({"region": ["N", "S"]})
        wrong = Job(what, rows, job.state, groups=frame, **{**asked, "levels": None, **own})
        with pytest.raises(InvalidInputError, match="groups is of type DataFrame"):
            run(wrong)
    assert not Path(str(job.state)).exists()
    for number, domain in enumerate((frame, frame.lazy(), {"region": ["N", "S"]})):
        run(job.derive(groups=domain, stream=f"{number}")).close()
    if not timed:  # events may have no other columns than a public list has
        run(job.derive(events=frame, groups={"region": ["N", "S"]}, stream="all")).close()


@pytest.mark.parametrize("what", TABLES)
def test_no_column_is_called_as_one_that_the_table_adds(what: str, tmp_path: Path) -> None:
    """Released tables lacked it, or had other numbers under its name."""
    own = {"hierarchy": ("tree_level",), "ranges": ("measure",)}
    for name in (
        "estimate",
        "noise_std",
        "note",
        "series",
        "window_index",
        "window_start",
        "window_end",
        *own.get(what, ()),
    ):
        tables: dict[str, dict[str, Any]] = {
            "hierarchy": {"levels": name, "groups": {name: ["N", "S"]}},
            "ranges": {"label": name, "groups": "N,S"},
            "contingency": {"columns": name, "groups": {name: ["N", "S"]}},
        }
        rows = pl.DataFrame({name: ["N"], "at": ["2024-03-01"]})
        times = {"time": "at", "every": "1d", "start": "2024-03-01", "windows": 2}
        choices: tuple[dict[str, Any], ...] = ({}, times)
        for more in choices:
            with pytest.raises(
                InvalidInputError, match=f"a column of the events is called '{name}'.*rename"
            ):
                run(Job(what, rows, tmp_path / "s.db", epsilon=1, **tables[what], **more))
    assert not (tmp_path / "s.db").exists()


def test_single_table_cannot_be_closed(job: Job) -> None:
    """It said that another stream could go on from there, and the journal answered no more."""
    first = numbers(job)
    with pytest.raises(InvalidInputError, match="is released once, so it needs no end"):
        close_stream(str(job.state), usual_name(job))
    assert numbers(job) == first


def test_single_table_beyond_budget_is_refused(job: Job) -> None:
    with Store(str(job.state), create=True) as store:
        store.set_budget(PureDP(1))
    with pytest.raises(BudgetExceededError):
        run(job)
    assert numbers(job.derive(epsilon="0.9"))


def test_its_file_answers_as_the_run_does(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    names = [name for name in ("levels", "label", "columns", "value") if job.has_stated(name)]
    own: dict[str, Any] = {name: job.value_of(name) for name in names}
    own |= {name: job.value_of(name) for name in ("edges", "line") if job.has_stated(name)}
    done = counton.release(
        cast("Any", job.statistic), job.events, state=job.state, output=out,
        groups=job.value_of("groups"), key=job.key, epsilon=1, **own,
    )  # fmt: skip
    read: Any = counton.read(out)
    assert read.table().equals(done.table())
    assert read.methods() == done.methods()
    assert counton.read(out, confidence_level=0.5).table().equals(done.at(0.5).table())
    assert read.result.total == done.table()["estimate"][0] or job.statistic == "ranges"
    assert export(str(job.state)).table().equals(done.table())
    assert "was published once" in methods(str(job.state))[usual_name(job)]
    assert "was released once" in methods(str(job.state), full=True)[usual_name(job)]
    assert done._repr_html_()


def test_single_table_is_published_for_sql(job: Job) -> None:
    numbers(job)
    assert publish(str(job.state), key=job.key).after == 1
    with closing(sqlite3.connect(str(job.state))) as database:
        found = database.execute(
            'select "group", round(estimate), window_end from counton_releases '
            "where measure is not 'running total'"
        ).fetchall()
    assert [estimate for _, estimate, _ in found] == WHOLE[job.statistic]
    assert {end for *_, end in found} == {None}


def test_targets_of_single_table_determine_least_rho(tmp_path: Path) -> None:
    """The least rho by which one release has them; of a user as often as rows count."""
    wanted = table("hierarchy", tmp_path, target="region=20,city=40", epsilon=None)
    with run(wanted) as outcome:
        shown = outcome.read().table()
        rho: Any = outcome.spec.metadata().guarantee
        stds = shown.group_by("tree_level", maintain_order=True).agg(pl.col("noise_std").max())[
            "noise_std"
        ]
        assert stds.to_list() == pytest.approx([20, 20, 40], rel=1e-5)
        assert (stds <= np.array([20, 20, 40]) * (1 + 1e-12)).all()
    with run(wanted.derive(stream="people", user="who", max_contributions=3)) as outcome:
        people: Any = outcome.spec.metadata().guarantee
        assert people.rho == 9 * rho.rho
        assert planned_job(wanted).spend.guarantee == rho
        assert outcome.read().table()["noise_std"].to_list() == shown["noise_std"].to_list()
    with pytest.raises(InvalidInputError, match="needs epsilon or rho"):
        run(wanted.derive(stream="none", target=None))


def check_moved(statistic: Any) -> None:
    """No event moves what is measured by more than is claimed; where none is replaced, by that."""
    cells = statistic.measure(np.eye(statistic.n_accumulators, dtype=np.int64))
    columns = cells.reshape(statistic.n_accumulators, -1).astype(object)
    moves = [*columns]
    if statistic.neighbours == "replace":  # into another cell, or away
        moves += [one - other for one, other in itertools.combinations(columns, 2)]
    l1 = max(abs(one).sum() for one in moves)
    l2_squared = max((one**2).sum() for one in moves)
    claimed = statistic.contribution(batched=True).pattern
    assert l1 <= claimed.l1
    assert l2_squared <= claimed.l2_squared
    if statistic.neighbours != "replace":
        assert (l1, l2_squared) == (claimed.l1, claimed.l2_squared)


TREE = Tree.from_leaves({"region": ["N", "N", "S"], "city": ["a", "b", None]}, ["region", "city"])
WIDE = Tree.from_leaves({"a": [*map(str, range(40))]}, ["a"])
UNEVEN = Tree.from_leaves(
    {"a": [*"xxxxxxxy"], "b": [*"12345671"], "c": [*"uuuuuu", "v", "w"]}, ["a", "b", "c"]
)
ONE_PATH = Tree.from_leaves({"a": ["x"], "b": ["y"]}, ["a", "b"])


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5"), ZCDP(20)], ids=str)
def test_event_changes_single_table_by_at_most_claimed_amount(
    guarantee: Guarantee, neighbours: Any
) -> None:
    made: list[Any] = [
        Ranges(cells, line=line, workload=workload, neighbours=neighbours)
        for cells in (1, 5)
        for line in (None, *LINES)
        for workload in NAMED_WORKLOADS
    ]
    shapes = ((1,), (1, 1), (2, 3), (4, 1, 2))
    for shape, equal in itertools.product(shapes, (False, True)):
        columns = {f"c{axis}": [*map(str, range(size))] for axis, size in enumerate(shape)}
        made.append(Contingency(columns, equal=equal, neighbours=neighbours))
    for tree in (TREE, WIDE, UNEVEN, ONE_PATH):
        for targets in (None, {tree.levels[1]: 3}, {tree.levels[-1]: 1}):
            made.append(Hierarchy(tree, targets=targets, neighbours=neighbours))
    seen = 0
    for statistic in made:
        try:
            stream_exists = statistic.resolve_parameters(guarantee, 1)
        except InvalidInputError:  # a line for one kind of noise, or for other sums
            if statistic.line is None:
                raise
            continue
        check_moved(stream_exists)
        seen += 1
    assert seen > len(made) // 2


def test_check_detects_claim_below_single_table_change(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Ranges(5, line="haar").resolve_parameters(PureDP(1), 1)
    right = line.contribution()
    assert isinstance(right.pattern, BoundedChange)
    small = replace(right.pattern, l1=right.pattern.l1 - 1)
    occurrences = PatternOverSteps(small, right.change_in_words())
    wrong = replace(right, occurrences=occurrences)
    monkeypatch.setattr(Ranges, "contribution", lambda _, batched: wrong)
    with pytest.raises(AssertionError):
        check_moved(line)


@pytest.mark.parametrize("timed", [True, False])
def test_counts_refuse_users_and_row_ids(timed: bool, tmp_path: Path) -> None:
    """A statistic that was handed over took a row of a thousand for one of a user's few."""
    rows = pl.DataFrame({"at": ["2024-03-01"], "region": ["N"], "number": [1000], "who": ["u1"]})
    times = {
        "time": "at",
        "every": "1d",
        "start": "2024-03-01",
        "windows": 2,
        "until": "2024-03-02",
    }
    given: dict[str, Any] = {"columns": "region,number", "epsilon": 1, **(times if timed else {})}
    tables = (
        Ranges(["N", "S"], counts=True),
        Contingency({"region": ["N", "S"]}, counts=True),
        Hierarchy(Tree.from_leaves({"region": ["N", "S"]}, ["region"]), counts=True),
    )
    words = (
        r"cannot be used with (user|row_id)=who|^(user|row_id)=who cannot be used with .* of counts"
    )
    bounds: tuple[dict[str, Any], ...] = (
        *(
            {"user": "who", "max_contributions": 1},
            {"user": "who", "distinct_users": True},
            {"row_id": "who"},
        ),
    )
    for statistic in tables:
        job = Job(statistic, rows, tmp_path / "s.db", **given)
        for bound in bounds:
            with pytest.raises(InvalidInputError, match=words):
                run(job.derive(**bound))
        assert not (tmp_path / "s.db").exists()


def test_weights_are_as_fine_as_one_step_leaves_room_for(tmp_path: Path) -> None:
    with run(table("hierarchy", tmp_path, epsilon=None, rho="0.5")) as outcome:
        once: Any = outcome.spec.metadata().statistic
        assert once.measuring.strategy.total >= 2**20
        assert outcome.spec.metadata().strategy.facts.lattice_bits == 0
    over: Any = Hierarchy(once.tree).resolve_parameters(PureDP(1), 12)
    assert over.measuring.strategy.total < 2**12
    line = Ranges(64).resolve_parameters(PureDP(1), 1).grid.axes[0]
    assert line.to_dict() == Ranges(64).lines(PureDP(1)).best.strategy.axes[0].to_dict()


#: SHA-256 of what is released, under a key that everybody knows: another address, law or strategy
#: shows.
KNOWN: dict[str, str] = {
    "0 pure": "fa72bc49f5d18f0d", "0 zero-concentrated": "8d1c835fe2768557",
    "1 pure": "483647e64385c5c9", "1 zero-concentrated": "8e1fd0b85c7ee19c",
    "2 pure": "45926c1dd55d68a7", "2 zero-concentrated": "89fdfb5febf7106c",
    "3 pure": "d4b59689c0cc89b8", "3 zero-concentrated": "24c3a57018f6e6cb",
    "4 pure": "5778f985db754c66", "4 zero-concentrated": "d3ac14e8d21b1304",
    "5 pure": "343f7eabfd75aaa8", "5 zero-concentrated": "9ccfbfd67c0ad9a9",
}  # fmt: skip
OF: list[Any] = [
    Hierarchy(TREE),
    Hierarchy(TREE, targets={"region": 5, "city": 10}, neighbours="replace"),
    Ranges(16),
    Ranges(9, line="square_root", workload="prefixes"),
    Contingency({"sex": ["f", "m"], "smokes": ["no", "yes"]}),
    Contingency({"sex": ["f", "m"], "smokes": ["no", "yes"]}, equal=True),
]


def answer(statistic: Any, guarantee: Guarantee) -> str:
    """Of a table of nothing: its noise alone."""
    values = released(statistic, [], guarantee, chosen_key(), "known").release.value
    return hashlib.sha256(np.ascontiguousarray(values, "<i8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("place", range(len(OF)))
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")], ids=str)
def test_single_tables_equal_known_answers(place: int, guarantee: Guarantee) -> None:
    assert answer(OF[place], guarantee) == KNOWN[f"{place} {guarantee.kind}"]
