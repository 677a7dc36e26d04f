"""What every statistic has in common: guards, policies and late rows, since there is one run."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from every_statistic import HEADER, ONCE, OWN, ROWS, TABLES, TALLIED, made, written
from recalled import recall
from run_results import counts_of, releases_of

from counton.base.errors import CountonError, HorizonExceededError, InvalidInputError, StateError
from counton.job.statistics import model_of
from counton.run import Job, run
from counton.statistics import Average
from counton.statistics.catalogue import keywords


@pytest.fixture(
    params=[*(name for name in keywords() if name in OWN), *(f"{name} once" for name in ONCE)]
)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    return made(request.param, tmp_path)


def table(job: Job) -> pl.DataFrame:
    with run(job) as outcome:
        return outcome.read().table()


def test_cases_cover_every_statistic() -> None:
    remedy = "add it to OWN or TABLES of tests/support/every_statistic.py"
    assert set(keywords()) == {*OWN, *TABLES}, remedy
    assert {name for name in keywords() if model_of(name).may_be_single_table} == {*ONCE}


def test_noise_too_wide_is_refused_before_anything_is_spent(job: Job) -> None:
    """With every way to plan: 105,120 steps, the least budgets, and no last step."""
    plans: tuple[dict[str, Any], ...] = (
        *({"strategy": None}, {"strategy": "binary"}, {"strategy": None, "windows": 105_120}),
    )
    for plan in [{}] if job.is_single_table() else plans:
        with pytest.raises(InvalidInputError, match="epsilon"):
            run(job.derive(epsilon="0.000000000000001", **plan))
        assert not Path(str(job.state)).exists()


def test_average_over_year_of_minutes_is_released_at_epsilon_1(tmp_path: Path) -> None:
    """Its noise is wide on the grid of its sums, and those of the best strategy are exact."""
    job = made("average", tmp_path).derive(windows=105_120, strategy=None, upper=100)
    assert table(job.derive(resolution="0.5")).height


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"until": "2999-01-01"}, InvalidInputError),  # in the future
        ({"until": "2024-03-01T09:00"}, HorizonExceededError),  # beyond the last window
        ({"until": None}, InvalidInputError),  # data of the past, without a time
        ({"start": "2024-03-01T04:00", "until": "2024-03-01T05:00"}, InvalidInputError),  # no row
        ({"delta": "0.5"}, InvalidInputError),
        ({"ambiguous": "guess"}, InvalidInputError),
        ({"release_delay": "soon", "until": "latest-event"}, InvalidInputError),
        ({"bad_rows": "quarantine:"}, InvalidInputError),
        ({"epsilon": None}, InvalidInputError),
        ({"every": None}, InvalidInputError),
        ({"start": None}, InvalidInputError),
        ({"windows": None}, InvalidInputError),
        ({"name": "no\x00name"}, InvalidInputError),
    ],
    ids=str,
)
def test_every_guard_stands_before_every_statistic(
    job: Job, changed: dict[str, Any], error: type[Exception] | None
) -> None:
    if job.is_single_table():  # all times are refused, and there are none to leave out
        of_times = {*changed} <= {"until", "start", "every", "windows"}
        error = None if of_times and {*changed.values()} == {None} else InvalidInputError
    if error is None:
        run(job.derive(**changed)).close()
        return
    with pytest.raises(error):
        run(job.derive(**changed))
    assert not Path(str(job.state)).exists()


def test_a_later_job_contradicts_nothing_and_remembers_all(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    policy = {"missing_values": "drop"} if job.is_single_table() else {"release_delay": "1h"}
    first = table(job.derive(output=out, **policy))
    again = Job(job.statistic, job.events, job.state, stream="it", until=job.until)
    assert table(again).equals(first)
    assert recall(again).output == str(out)
    assert {name: recall(again).value_of(name) for name in policy} == policy
    others: tuple[dict[str, Any], ...] = (
        *({"epsilon": 2}, {"every": "1d"}, {"windows": 7}, {"timezone": "Europe/Paris"}),
    )
    for changed in others:
        with pytest.raises(StateError):
            run(job.derive(**changed))
    other = "average" if job.statistic != "average" else "count"
    with pytest.raises(StateError, match=f"{job.statistic}.*{other}|{other}.*{job.statistic}"):
        run(made(other, tmp_path).derive(state=job.state))


def test_no_row_stops_a_release_where_policies_are_set(job: Job, tmp_path: Path) -> None:
    bad = ["never,home,ann,3,u,w,1,a,9", "01:10,,,,,,,,", "01:20,moon,cy,x,u,w,maybe,z,"]
    policies: dict[str, Any] = {
        "bad_rows": f"quarantine:{tmp_path / 'bad.csv'}", "missing_values": "drop",
        "unlisted_groups": "drop",
    }  # fmt: skip
    lenient = job.derive(**policies)
    if job.is_single_table():
        whole = job.derive(stream="whole", epsilon=10**9)
        seen = table(whole)
        written(tmp_path, [*ROWS[:1], *bad[1:], *ROWS[1:]])
        again = table(lenient.derive(stream="more", epsilon=10**9))
        assert again["estimate"].round().equals(seen["estimate"].round())
        return
    before = table(lenient)
    written(tmp_path, [*ROWS[:1], *bad, *ROWS[1:], "01:50,shop,bob,1,v,w,1,b,10"])
    later = lenient.derive(until="2024-03-01T04:00")
    with run(later) as outcome:
        assert outcome.after == 4
        shown = outcome.read().table()
    assert shown.filter(pl.col("window_index") <= 3).select(before.columns).equals(before)


@pytest.mark.parametrize("name", TALLIED)
def test_late_rows_new_files_and_ids_count_once(name: str, tmp_path: Path) -> None:
    job = made(name, tmp_path).derive(row_id="id", append=True, epsilon=10**6)
    with run(job) as outcome:
        assert outcome.after == 3
    late = "00:50,shop,cy,2,v,w,1,b,4"
    written(tmp_path, [ROWS[1], late])  # one row again, one late
    with run(job.derive(until="2024-03-01T05:00")) as outcome:
        assert (outcome.after, counts_of(outcome).duplicates) == (5, 1)
        together = releases_of(outcome)[-1]
    folder = tmp_path / "whole"
    folder.mkdir()
    whole = made(name, folder, [*ROWS, late]).derive(until="2024-03-01T05:00", epsilon=10**6)
    with run(whole) as outcome:
        assert (releases_of(outcome)[-1] == together).all()


def test_empty_events_raise_only_counton_errors(job: Job, tmp_path: Path) -> None:
    for events in ("at\n", HEADER, "", "no,columns\n1,2\n"):
        (tmp_path / "e.csv").write_text(events)
        try:
            run(job).close()
        except CountonError:
            assert not Path(str(job.state)).exists()
        else:
            Path(str(job.state)).unlink()
            Path(f"{job.state}.key").unlink()


def test_users_in_several_groups_are_described_in_text_and_methods(tmp_path: Path) -> None:
    each = (("00:10", "home", "ann"), ("00:20", "shop", "ann"), ("01:30", "shop", "bob"))
    rows = [f"{','.join(row)},3,u,v,1,a,{number}" for number, row in enumerate(each)]
    job = made("distinct", tmp_path, rows).derive(group_by="page", groups="home,shop", epsilon=1000)
    for name in ("distinct", "reach"):  # in how many groups is for the operator to say
        asked = made(name, tmp_path, rows).derive(group_by="page", groups="home,shop")
        with pytest.raises(InvalidInputError, match="needs max_contributions"):
            run(asked)
        assert not Path(str(asked.state)).exists()
    for most, words, counted in ((1, "(each in the first group alone)", [1, 1]), (2, "", [1, 2])):
        with run(job.derive(max_contributions=most, stream=f"{most}")) as outcome:
            assert outcome.spec.metadata().subject == f"number of distinct users {words}".strip()
            released = outcome.read()
            assert released.numbers.series.released.estimates[-1].tolist() == counted
            assert ("each in the first" in released.methods()) == bool(words)


@pytest.mark.parametrize("name", [*keywords(), *(f"{name} once" for name in ONCE)])
def test_later_job_may_repeat_any_option_that_defines_stream(name: str, tmp_path: Path) -> None:
    """Each part alone, and all but each; of what streams have in common one part in its turn."""
    place = [*keywords()].index(name) if name in keywords() else 0
    name, _, once = name.partition(" ")
    end = None if once else "2024-03-01T03:00"
    common: dict[str, Any] = {"time": "at", "every": "1h", "start": "2024-03-01", "windows": 6}
    first = Job(name, written(tmp_path, ROWS), tmp_path / "s.db", until=end, stream="it")
    whole = {**({} if once else common), "epsilon": 1, **{**OWN, **TABLES}[name]}
    run(first.derive(**whole)).close()
    parts = [part for part in whole if part not in common]
    shared = [*common]
    if not once:
        parts += shared if name in ("count", "distinct", "report") else [shared[place % 4]]
    for part in parts:
        for said in ({part: whole[part]}, {key: whole[key] for key in whole if key != part}):
            with run(first.derive(**said)) as outcome:
                steps = 1 if once else 3
                assert (outcome.before, outcome.after) == (steps, steps), said


def test_levels_that_are_not_those_of_the_tree(tmp_path: Path) -> None:
    events = written(tmp_path, ROWS)
    first = Job("hierarchy", events, tmp_path / "s.db", until="2024-03-01T03:00", stream="it")
    run(first.derive(time="at", every="1h", start="2024-03-01", windows=6, epsilon=1,
                **TABLES["hierarchy"])).close()  # fmt: skip
    with pytest.raises(CountonError, match=r"levels.*user,page.*page, ?user"):
        run(first.derive(levels="user,page"))


@pytest.mark.parametrize("grouped", [False, True])
def test_stream_of_statistic_object_continues_by_name(grouped: bool, tmp_path: Path) -> None:
    by: dict[str, Any] = {"group_by": "page", "groups": "home,shop"} if grouped else {}
    first = made("average", tmp_path).derive(**{**dict.fromkeys(OWN["average"]), **by})
    first = first.derive(what=Average(0, 9, resolution=1), value="paid")
    run(first).close()
    later = Job("average", first.events, first.state, until=first.until, stream="it")
    said: dict[str, Any]
    wrong: dict[str, Any]
    for said in ({}, {"value": "paid"}, {"lower": 0}, OWN["average"], {**by, "value": "paid"}):
        with run(later.derive(**said)) as outcome:
            assert (outcome.before, outcome.after) == (3, 3), said
    with run(later.derive(what=Average(0, 9, resolution=1))) as outcome:
        assert outcome.before == 3
    for wrong in ({"lower": 1}, {"value": "id"}):
        with pytest.raises(StateError):
            run(later.derive(**wrong))


@pytest.mark.parametrize("first", [True, False])
def test_ranking_with_users_continues_without_options(first: bool, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"user": "user", "max_contributions": 2, "distinct_users": first}
    job = made("top-k", tmp_path).derive(**asked)
    run(job).close()
    written(tmp_path, [*ROWS, "03:30,shop,cy,2,u,v,1,b,4"])
    until = "2024-03-01T04:00"
    for more in ({}, {"group_by": "page"}, {"top": 1}, asked):
        again = Job("top-k", job.events, job.state, stream="it")
        with run(again.derive(**{**more, "until": until})) as outcome:
            assert outcome.after == 4
