"""Totals beside revised windows, through whole jobs: neighbours, mistakes, and what is read.

The privacy loss of a unit's rows is added up over windows and totals by the noise of each
(`revised_jobs.share_used`): nothing there knows how the budget is divided.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from revised_jobs import Nights, Row, frame, released, share_used
from typer.testing import CliRunner

from counton import ZCDP, ApproxDP, PureDP, Release, read, release
from counton.base.errors import InvalidInput, RequestMismatch
from counton.cli.app import app
from counton.numbers.accounted_event import dp_event
from counton.numbers.intervals import halfwidths
from counton.run import Job, export, new_stream, publish, run
from counton.run.definition import Definition
from counton.state import verify
from counton.strategies.streams import windows_and_totals
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf

OTHERS: list[list[Row]] = [
    [(1, "a", "u1", "1", 3)],
    [(2, "a", "u2", "2", 1), (1, "b", "u3", "3", 2)],
    [(3, "b", "u2", "4", 5), (1, "a", "u4", "5", 0)],
    [(4, "a", "u1", "6", 2), (3, "a", "u3", "7", 4)],
    [(5, "b", "u5", "8", 1)],
    [(6, "a", "u1", "9", 1)],
]
BESIDE: dict[str, Any] = {"by": "group", "domain": "a,b", "also_totals": "1/10", "steps": 8}
EPSILON: dict[str, Any] = {"epsilon": 1}
RHO: dict[str, Any] = {"rho": 0.5}
DELTA: dict[str, Any] = {"epsilon": 1, "delta": "1e-4"}


def with_rows(*more: tuple[int, Row]) -> list[Any]:
    """The nights of others, and a unit's rows in some of them."""
    found = [[*rows] for rows in OTHERS]
    for night, row in more:
        found[night - 1].append(row)
    return found


@pytest.fixture(scope="module")
def without() -> dict[str, Nights]:
    """What is released without the unit, under epsilon and under rho."""
    return {next(iter(one)): released(OTHERS, **BESIDE, **one) for one in (EPSILON, RHO)}


@pytest.mark.parametrize("guarantee", [EPSILON, RHO], ids=str)
def test_a_row_moves_what_is_promised_at_every_lag(
    guarantee: dict[str, Any], without: dict[str, Nights]
) -> None:
    base, used = without[next(iter(guarantee))], []
    for lag in range(4):
        row = (2, "a", "someone", "new", 1.0)
        with_it = released(with_rows((2 + lag, row)), **BESIDE, **guarantee)
        known = np.zeros_like(base.values)
        if lag <= 2:
            for night in range(2 + lag, 5):  # in its window until that is final
                known[night - 1, 0, night - 2] = 1
            known[1 + lag :, 0, 3] = 1  # in the totals from the night of its arrival on
        assert np.allclose(with_it.values - base.values, known, atol=1e-9), lag
        assert with_it.told[1 + lag].closed - base.told[1 + lag].closed == (lag > 2)
        used.append(share_used(base, with_it))
    assert max(used) == pytest.approx(1.0, abs=1e-4)
    assert used[3] == 0.0


def test_totals_are_those_of_all_rows_that_count() -> None:
    exact = released(OTHERS, **BESIDE, epsilon=10**8)
    assert exact.values[:, 0, 3].round().tolist() == [1, 2, 3, 5, 5, 6]
    assert exact.values[:, 1, 3].round().tolist() == [0, 1, 2, 2, 3, 3]


def test_an_attacker_chooses_day_and_night_by_what_was_released(
    without: dict[str, Nights],
) -> None:
    def chosen(values: np.ndarray[Any, Any]) -> list[Row]:
        odd = int(abs(values.sum())) % 2
        return [(len(values) + 1 - odd, "ab"[odd], "someone", "new", 1.0)]

    for night in (3, 5):
        nights: list[Any] = with_rows()
        nights[night - 1] = lambda values, rows=nights[night - 1]: [*rows, *chosen(values)]
        other = released(nights, **BESIDE, **EPSILON)
        one = without["epsilon"]
        assert (one.values[: night - 1] == other.values[: night - 1]).all()
        assert share_used(one, other) == pytest.approx(1.0)


def test_a_row_that_comes_twice_counts_once() -> None:
    row, options = (2, "a", "someone", "new", 1.0), {**BESIDE, **EPSILON, "id": "id"}
    once, twice = (
        released(with_rows(*((night, row) for night in nights)), **options)
        for nights in ((2,), (2, 4))
    )
    assert (once.values == twice.values).all()


@pytest.mark.parametrize("people", [{"most": 2}, {"most": 3, "per": "1w"}], ids=str)
def test_a_user_moves_what_is_promised(people: dict[str, Any]) -> None:
    options = {**BESIDE, **EPSILON, **people, "user": "user"}
    base, used = released(OTHERS, **options), []
    for rows in ([(4, 4, "a")] * 4, [(4, 4, "a"), (5, 4, "a"), (6, 6, "a")], [(5, 4, "a")] * 3):
        more = [
            (night, (day, group, "someone", f"{night}{day}", 1.0)) for night, day, group in rows
        ]
        used.append(share_used(base, released(with_rows(*more), **options)))
    assert max(used) == pytest.approx(1.0)


def slowly(*given: object) -> Any:
    return pytest.param(*given, marks=pytest.mark.slow)


#: A unit's row, and those that take its place: in which nights, of which day, group and value.
CORRECTED = [
    [(2, 2, "a", 2), (3, 2, "b", 2)],
    [(2, 2, "a", 2), (4, 4, "b", 2)],
    [(2, 1, "a", 2), (3, 3, "a", 2)],
    [(4, 4, "a", 2), (5, 4, "a", -2), (6, 6, "a", 2)],
    [(2, 2, "a", 2), (3, 2, "b", 2), (4, 3, "a", 2), (5, 4, "b", 2), (6, 5, "a", 2)],
    [(4, 4, "a", -2), (5, 4, "b", 2), (6, 6, "b", -2)],
]
VALUES: dict[str, Any] = {"value": "value", "lower": -2, "upper": 2, "resolution": 1}


@pytest.mark.parametrize("corrections", [1, slowly(2)])
@pytest.mark.parametrize(
    ("what", "guarantee", "least"),
    [
        ("count", EPSILON, 0.75),
        slowly("count", RHO, 0.65),
        ("sum", RHO, 0.65),
        slowly("sum", EPSILON, 0.75),
    ],
)
def test_a_corrected_row_moves_what_is_promised(
    what: str, guarantee: dict[str, Any], least: float, corrections: int
) -> None:
    options = {**BESIDE, **guarantee, "id": "id", "corrections": corrections}
    if what == "sum":
        options |= VALUES
    base, used = released(OTHERS, what, **options), []
    for told in CORRECTED:
        rows = [(night, (day, group, "u", "new", value)) for night, day, group, value in told]
        used.append(share_used(base, released(with_rows(*rows), what, **options)))
    assert least < max(used) <= 1 + 1e-9


def test_totals_of_a_corrected_row_are_those_of_what_counts() -> None:
    options = {**BESIDE, "epsilon": 10**8, "id": "id", "corrections": 1}
    rows = [(2, (2, "a", "u", "new", 1.0)), (4, (3, "b", "u", "new", 1.0))]
    base, with_it = (released(each, **options) for each in (OTHERS, with_rows(*rows)))
    change = (with_it.values - base.values).round().astype(int)[..., 3]
    assert change[:, 0].tolist() == [0, 1, 1, 0, 0, 0]
    assert change[:, 1].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_delta_is_divided_and_no_more_is_lost(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By epsilon without delta, or by a rho that implies both; Laplace is better here."""
    both = new_stream._families(ApproxDP(1, "1e-4"))
    assert both == ("laplace", "gaussian")
    if family == "gaussian":
        monkeypatch.setattr(new_stream, "_families", lambda of: both[1:])
    base = released(OTHERS, **BESIDE, **DELTA)
    assert base.design.law.family == base.design.strategy.law.family == family
    used = []
    for lag in range(3):
        row = (2, "a", "someone", "new", 1.0)
        with_it = released(with_rows((2 + lag, row)), **BESIDE, **DELTA)
        used.append(share_used(base, with_it))
    assert max(used) == pytest.approx(1.0, abs=1e-4)


def test_wanted_half_widths_are_kept_by_every_version(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "revise": "2d", "append": True,
        **BESIDE, "within": "first=4,final=6", "state": tmp_path / "s.db",
    }  # fmt: skip
    for night, rows in enumerate(OTHERS, 1):
        found = release("count", frame(rows, night), until=f"2024-03-{night + 1:02}", **told)
    versions = found.versions()
    half = ((versions["window_upper"] - versions["window_lower"]) / 2).to_numpy()
    final = versions["final"].to_numpy()
    assert half[versions["lag"].to_numpy() == 0].max() <= 4
    assert 5.5 < half[final].max() <= 6


@pytest.mark.parametrize(
    "told",
    [
        {"steps": 32, "revise": "3d", "also_totals": 0.5, "within": "first=8,final=9"},
        {"steps": 8, "revise": "7d", "also_totals": 0.9, "within": "first=4", "least": "rho"},
        {"steps": 2, "revise": "3d", "also_totals": 0.5, "within": 9},  # no window is final
    ],
    ids=str,
)
def test_wanted_half_widths_are_kept_on_all_nights(told: dict[str, Any]) -> None:
    """The widest night is neither the first with a final window nor the last.

    No later table has a final window whose interval is wider.
    """
    job = Job("count", "v.csv", "v.db", time="at", every="1d", start="2024-03-01", **told)
    definition = new_stream.define(job)
    terms = new_stream.design_of(definition, ())
    both: Any = terms.strategy
    lags, last = both.windows.lags, both.horizon
    first, final = list[float](), list[float]()
    for night in range(1, last + 1):
        read = LeastSquaresAsOf(both, night, terms.law)
        half = halfwidths(read, terms.law, range(1, night + 1))
        first.append(half[-1])
        final.extend(half[: max(night - lags, int(night == last))])  # all that are final by then
    wanted = new_stream.reached_halfwidths(definition, job)
    assert wanted.factor == max(
        max(first if name == "first" else final) / bound for name, bound in wanted.wanted.items()
    )
    assert 0.97 < wanted.factor <= 1


def test_a_promise_that_was_checked_is_not_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nights are looked at once for each statement, by the run that makes it first."""
    asked, one = list[object](), new_stream.reached_halfwidths

    def counted(definition: Definition, job: Job, **more: Any) -> Any:
        asked.append((job.promise.within, job.view.level))
        return one(definition, job, **more)

    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "revise": "2d", "append": True,
        **BESIDE, "state": tmp_path / "s.db",
    }  # fmt: skip

    def night(number: int, within: str, **more: Any) -> None:
        events, until = frame(OTHERS[number - 1], number), f"2024-03-{number + 1:02}"
        release("count", events, until=until, within=within, **told, **more)

    night(1, "first=4,final=6")
    monkeypatch.setattr(new_stream, "reached_halfwidths", counted)
    night(2, "final=6, first=4.0")
    assert asked == []
    night(3, "first=4,final=7")
    night(4, "first=4,final=7")
    assert asked == [("first=4,final=7", None)]
    with pytest.raises(RequestMismatch, match="asks for another error"):
        night(5, "first=4,final=7", level=0.99)
    with pytest.raises(RequestMismatch, match="asks for another error"):
        night(5, "first=3,final=7")
    assert len(asked) == 3
    night(5, "first=4,final=7")
    assert len(asked) == 3


# ------------------------------------------------------------------- what must not be, is seen


def test_totals_as_if_no_row_were_corrected_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    one = windows_and_totals.totals_moved
    monkeypatch.setattr(windows_and_totals, "totals_moved", lambda of, often, signed: one(of, 0))
    options = {**BESIDE, **EPSILON, "id": "id", "corrections": 1}
    base = released(OTHERS, **options)
    rows = [(night, (2, group, "u", "new", 1.0)) for night, group in ((2, "a"), (3, "b"))]
    with pytest.raises(AssertionError, match="a unit moves"):
        share_used(base, released(with_rows(*rows), **options))


def test_a_budget_that_is_not_divided_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("counton.numbers.node_law", "counton.run.new_stream"):
        monkeypatch.setattr(f"{place}.part_of", lambda guarantee, share, family: guarantee)
    base = released(OTHERS, **BESIDE, **EPSILON)
    with pytest.raises(AssertionError, match="a unit moves"):
        share_used(base, released(with_rows((2, (2, "a", "x", "new", 1.0))), **BESIDE, **EPSILON))


def test_rows_that_totals_count_twice_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Definition.measure

    def wrong(self: Definition, sums: Any) -> Any:
        found = right(self, sums)
        found[..., -1] += found[..., 1:-1].sum(axis=-1)  # late rows once more
        return found

    monkeypatch.setattr(Definition, "measure", wrong)
    base = released(OTHERS, **BESIDE, **EPSILON)
    with pytest.raises(AssertionError, match="a unit moves"):
        share_used(base, released(with_rows((3, (2, "a", "x", "new", 1.0))), **BESIDE, **EPSILON))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"revise": None}, "also_totals=0.1 needs revise"),
        ({"also_totals": 1}, "also_totals is 1; it is the part"),
        ({"also_totals": 0}, "also_totals is 0; it is the part"),
        ({"steps": None}, "also_totals=0.1 needs steps"),
        ({"steps": 4097}, "also_totals=0.1 needs steps, at most 4,096"),
        ({"release": "both"}, "release=both does not go with revise"),
    ],
    ids=str,
)
def test_what_does_not_go_with_it_is_refused(
    more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "steps": 9, "revise": "2d",
        "epsilon": 1, "append": True, "also_totals": 0.1, **more,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=why):
        run(Job("count", frame(OTHERS[0], 1), tmp_path / "s.db", **told))
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("average", {"value": "value", "lower": 0, "upper": 5, "resolution": 1}),
        ("quantiles", {"value": "value", "edges": "0,1,2,4,8"}),
    ],
)
def test_statistics_that_do_not_add_up_are_refused(
    what: str, options: dict[str, Any], tmp_path: Path
) -> None:
    job = Job(
        what, frame(OTHERS[0], 1), tmp_path / "s.db", time="at", every="1d", start="2024-03-01",
        steps=9, revise="2d", rho=1, append=True, also_totals=0.1, **options,
    )  # fmt: skip
    with pytest.raises(
        InvalidInput, match="adds up windows, which is possible for counts and sums"
    ):
        run(job)


# ------------------------------------------------------------------------------- what is read


def nights_of(folder: Path, what: Any = "count", until: int = 6, **options: Any) -> Release:
    """Nights of a statistic, published after the third and the last."""
    found = None
    for night, rows in enumerate(OTHERS[:until], 1):
        found = release(
            what, frame(rows, night), time="at", every="1d", start="2024-03-01", revise="2d",
            append=True, until=f"2024-03-{night + 1:02}", guarantee=ZCDP(2), **BESIDE,
            state=folder / "s.db", **options,
        )  # fmt: skip
        if night in (3, until):
            publish(folder / "s.db", folder / "public.db")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("what", "options"),
    [("count", {}), ("sum", {"value": "value", "lower": 0, "upper": 5, "resolution": 0.5})],
)
def test_all_that_is_written_comes_back(what: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = nights_of(tmp_path, what, **options)
    table, versions = found.table(), found.versions()
    own = table["window_estimate"].to_numpy().reshape(6, 2)
    assert (table["estimate"].to_numpy().reshape(6, 2) == np.cumsum(own, axis=0)).all()
    assert table["final"].to_list()[::2] == [True] * 4 + [False] * 2
    assert versions.height == 2 * (3 * 4 + 2 + 1)
    for ending in ("csv", "parquet", "xlsx"):
        export(tmp_path / "s.db", tmp_path / f"t.{ending}")
        back = read(tmp_path / f"t.{ending}")
        assert back.table().equals(table), ending
        assert back.versions().equals(versions), ending
        assert back.only(groups=["b"]).table().equals(found.only(groups=["b"]).table())
    public = read(str(tmp_path / "public.db"))
    assert public.table().equals(table)
    said = 'SELECT step, "group", estimate, window_estimate FROM counton_releases ORDER BY 1, 2'
    with closing(sqlite3.connect(tmp_path / "public.db")) as connection, connection:
        rows = connection.execute(said).fetchall()
    assert rows == table.select("step", "group", "estimate", "window_estimate").rows()
    assert all(one.right for one in verify(tmp_path / "s.db"))


def test_numbers_between_whole_ones_come_back(tmp_path: Path) -> None:
    """Trees release whole numbers, and what is read from them by least squares has fractions."""
    whole: dict[str, Any] = {"steps": 3, "until": "2024-03-04", "guarantee": PureDP(4)}
    found = release(
        "count", frame(OTHERS[1], 3), time="at", every="1d", start="2024-03-01", revise="2d",
        append=True, state=tmp_path / "s.db", also_totals="9/10", **whole,
    )  # fmt: skip
    publish(tmp_path / "s.db", tmp_path / "public.db")
    strategy: Any = found.numbers.design.strategy
    assert strategy.both.facts.fraction_bits == 0
    assert (found.table()["estimate"] % 1 != 0).any()
    for ending in ("csv", "parquet", "xlsx"):
        export(tmp_path / "s.db", tmp_path / f"t.{ending}")
        assert read(tmp_path / f"t.{ending}").table().equals(found.table()), ending
    assert read(str(tmp_path / "public.db")).table().equals(found.table())


def test_sums_add_up_and_know_their_noise(tmp_path: Path) -> None:
    found = nights_of(tmp_path)
    table, weeks = found.table().filter(group="a"), found.sums("1w").filter(group="a")
    assert weeks["sum"].sum() == table["estimate"][-1]
    of = found.numbers.number_of("a", "1:6")
    assert (of.value, of.std) == pytest.approx((table["estimate"][-1], table["std"][-1]))
    one, other = found.numbers.number_of("a", "1:3"), found.numbers.number_of("a", "4:6")
    assert one.formula is not None
    assert other.formula is not None
    assert (one.formula + other.formula).std == pytest.approx(of.std)
    apart = (one.std**2 + other.std**2) ** 0.5
    assert (one.formula - other.formula).std == pytest.approx((2 * apart**2 - of.std**2) ** 0.5)
    low, high = of.interval(0.95)
    assert high - low == pytest.approx(table["upper"][-1] - table["lower"][-1], rel=0.02)


def test_readers_are_told(tmp_path: Path) -> None:
    found = nights_of(tmp_path)
    assert "each total is the sum of its days" in found.describe()
    assert "in the totals from the window on in which it arrives" in found.describe()
    methods = " ".join(found.methods(full=True).split())
    assert "with a part 9/10 of the budget" in methods
    assert "with a part 1/10 (strategy" in methods
    with pytest.raises(InvalidInput, match="divides its guarantee between windows and totals"):
        dp_event(found.numbers.design)


def test_the_screen_shows_numbers_of_windows(tmp_path: Path) -> None:
    """The total so far is not the number of a window that is final."""
    table = nights_of(tmp_path).table().filter(group="a").tail(3)
    export(tmp_path / "s.db", tmp_path / "t.csv")
    done = CliRunner().invoke(app, ["show", str(tmp_path / "s.db")])
    assert done.exit_code == 0, done.output
    said = re.findall(r"^\d March 2024  a +([\u2212\d.]+) ", done.output, re.MULTILINE)
    own = [float(one.replace("\u2212", "-")) for one in said]
    assert own == pytest.approx(table["window_estimate"].to_list(), abs=0.06)
    assert own != pytest.approx(table["estimate"].to_list(), abs=0.06)


def test_a_later_run_may_not_say_another_share(tmp_path: Path) -> None:
    nights_of(tmp_path, until=1)
    job = Job("count", frame(OTHERS[1], 2), tmp_path / "s.db", append=True, yes=True)
    with run(job.having(also_totals=0.1)) as outcome:
        assert outcome.stream.step >= 1
    with pytest.raises(RequestMismatch, match="also_totals is 1/5, but stream"):
        run(job.having(also_totals="0.2"))


def test_the_plan_says_what_is_gained(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        '[jobs.v]\nevents = "n-*.csv"\nappend = true\ntime = "t"\nevery = "1d"\nsteps = 64\n'
        'start = "2024-03-01"\nrevise = "7d"\nalso-totals = 0.1\nrho = 0.5\nstate = "v.db"\n'
    )
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "p.toml")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert re.search(r"totals have 0.1 of the budget 1.66\d? 3.8\d* 6.1\d*", said)
    assert re.search(r"windows alone, with all of it 1.61\d? 4.27\d* 12.8\d*", said)
    least = "more noise than the least that is possible beside windows as accurate"
    assert f"on the last night; all totals have at most 9% {least}" in said
