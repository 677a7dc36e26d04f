"""Sums and averages of groups that nobody declared: what shows a group, and what its rows move."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from altered_journal import alter_values
from by_reference import state_by_reference
from found_groups import FOUND, chance_of_being_shown, job_of, night_of, shown_by_numbers_alone
from keys import chosen_key
from revised_jobs import Row, released, share_used
from some_cases import long

from counton import Average, ContributionBound
from counton.base.distributions import BoundedChange, DiscreteLaplace
from counton.base.errors import InvalidInputError, StreamMismatchError
from counton.results.metadata_codec import facts_of
from counton.run import export, methods, read, run
from counton.state import verify
from counton.statistics.discovery import ComparedCells, Discovery
from counton.strategies import Binary, KAry, StreamStrategy, WindowVersions

#: Values from -20 to 40, so that one is below 0, and those outside count as a bound.
VALUES: dict[str, Any] = {"value": "value", "lower": -20, "upper": 40, "resolution": 1}
EACH = (-1e9, -20.0, -1.0, 0.0, 7.0, 40.0, 1e9)


def rows_of(day: int, group: str, values: list[float], user: str = "") -> list[Row]:
    """A row for each value, each of a user of its own unless one is named."""
    return [(day, group, user or f"{group}{day}-{n}", "", one) for n, one in enumerate(values)]


def some_nights(last: int = 5) -> list[list[Row]]:
    """Home is shown from the first night on, shop from the third and mostly by late rows."""
    nights: list[list[Row]] = []
    for day in range(1, last + 1):
        rows = rows_of(day, "home", [float(n % 30 - 10) for n in range(90)])
        rows += rows_of(day, f"hush{day}", [40.0])
        rows += rows_of(day - 1, "home", [30.0] * 5) if day > 1 else []
        rows += rows_of(day - 1, "shop", [-1e9] * 80) if day > 2 else []
        nights.append(rows)
    return nights


# ------------------------------------------------------------------------- the exact probability


@pytest.mark.parametrize("inner", [Binary(2), KAry(2, 3, subtraction=False)], ids=repr)
@pytest.mark.parametrize("row", [1, 3])
def test_delta_from_every_value_of_every_node(inner: StreamStrategy, row: int) -> None:
    distribution = DiscreteLaplace(Fraction(3, 2))
    delta = Fraction(1, 20)
    windows = WindowVersions(6, inner)
    unit = ContributionBound.of_pattern(
        BoundedChange(row, row**2, single_step=True), "whose value counts"
    )
    told: dict[str, Any] = {"compared": ComparedCells(2, row)}
    found = Discovery.with_least_thresholds(windows, distribution, 6, unit, delta, **told)
    chances = [chance_of_being_shown(found, windows, distribution, 6, night) for night in (1, 2, 6)]
    assert chances == sorted(chances, reverse=True)
    assert delta / 5 < chances[0] <= delta
    several = Discovery.with_least_thresholds(windows, distribution, 6, unit, delta, rows=3, **told)
    assert (several.groups, several.change) == (3, 3)
    assert 3 * chance_of_being_shown(several, windows, distribution, 6, 1) <= delta


@pytest.mark.parametrize("what", ["average", long("sum")])
@pytest.mark.long
def test_discovery_depends_only_on_number_of_rows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole jobs: the same groups of one row are shown, and as often as computed, whatever its
    value; and by what is released alone.
    """
    monkeypatch.setattr("counton.privacy.guarantees.LARGEST_DELTA", 1)
    options = {"allowed_lateness": "1d", "delta": "0.2", "epsilon": 2, "windows": 3, **VALUES,
    "lower": -1,
               "upper": 1}  # fmt: skip
    shown = []
    for value in (-9.0, 0.0, 1.0):
        folder = tmp_path / str(value)
        folder.mkdir()
        for night in (1, 2, 3):
            rows = [row for n in range(400) for row in rows_of(night, f"{night}-{n}", [value])]
            with run(job_of(folder, rows, night, what, **options)) as outcome:
                result = outcome.read()
                if night == 3:
                    expected = shown_by_numbers_alone(outcome, 3)
                    assert outcome.spec.metadata().cells.compared == (2, 2)
        shown.append(result.numbers.since)
    assert shown[0] == shown[1] == shown[2] == expected


# ------------------------------------------------------------------------------ neighbours


def test_row_changes_sums_by_claimed_amount_at_every_lag() -> None:
    """The cells of a sum are those of an average."""
    nights = some_nights()
    options = {**FOUND, **VALUES}
    without = released(nights, "sum", **options)
    for lag, value in enumerate(EACH[::2]):
        row = rows_of(2, "home", [value], "someone")
        with_it = [[*rows, *row * (night == 2 + lag)] for night, rows in enumerate(nights, 1)]
        change = released(with_it, "sum", **options)
        moved = change.values - without.values
        above = int(min(max(value, -20), 40)) + 20
        known = np.zeros_like(moved)
        for night in range(2 + lag, 5) if lag < 3 else ():
            known[night - 1, :2, night - 2] = above, 60 - above
        assert (moved == known).all()
        used = share_used(without, change)
        assert used == 1.0 if lag == 0 else used <= (lag < 3)


@pytest.mark.parametrize(
    ("what", "more", "compared"), [("count", {}, (1, 1)), ("average", VALUES, (2, 60))]
)
@pytest.mark.long
def test_user_changes_at_most_claimed_amount_and_groups(
    what: str, more: dict[str, Any], compared: tuple[int, int]
) -> None:
    """Rows of one user in several windows and groups, with several lags; rows of final days too."""
    nights = some_nights()
    options = {**FOUND, **more, "user": "user", "max_contributions": 3}
    without = released(nights, what, **options)
    used = []
    for own in (
        [(2, rows_of(2, "home", [1e9] * 5, "someone"))],
        [(2, rows_of(2, "home", [-5.0], "someone")), (3, rows_of(2, "shop", [9.0] * 4, "someone"))],
        [(4, rows_of(day, "home", [3.0], "someone")) for day in (4, 3, 2, 1)],
    ):
        with_it = [[*rows] for rows in nights]
        for night, rows in own:
            with_it[night - 1] += rows
        used.append(share_used(without, released(with_it, what, **options)))
    assert 0.9 < max(used) <= 1
    cells = without.metadata.cells
    terms = without.design
    assert (cells.groups, cells.change, cells.compared) == (3, 3, compared)
    of_one = Discovery.with_least_thresholds(
        terms.strategy, terms.distribution, 30, ContributionBound.add_remove(), Fraction(1, 10**6),
        compared=cells.compared,
    )  # fmt: skip
    assert Fraction(cells.margin) > Fraction(of_one.margin)


@pytest.mark.parametrize(
    ("what", "more"),
    [
        *(("count", {}), ("average", {}), ("sum", {"allowed_lateness": None})),
        ("count", {"allowed_lateness": None, "series": "per-window"}),
    ],
)
def test_released_values_are_independent_of_hidden_group(
    what: str, more: dict[str, Any], tmp_path: Path
) -> None:
    """Files and words are the same but for the identity of the noise."""
    said = []
    made = random.Random(4)
    for place in (0, 1):
        folder = tmp_path / str(place)
        folder.mkdir()
        for night, rows in enumerate(some_nights(3), 1):
            # In the order of cells it is behind the others, whose noise stays as it is.
            rare = place and night == 3
            hidden = rows_of(2, f"zz{place}", [made.choice(EACH)]) if rare else []
            options = more if what == "count" else VALUES | more
            found = night_of(folder, [*rows, *hidden], night, what, **options)
        out = folder / "out.csv"
        export(folder / "s.db", out)
        own = facts_of(found.numbers)["description"]
        versions = [] if "allowed_lateness" in more else found.versions().rows()
        said.append(
            (own, found.table().rows(), versions, out.read_text(), methods(folder / "s.db"))
        )
    assert said[0] == said[1]
    assert said[0][0]["since"] == {"home": 1, "shop": 3}


# ----------------------------------------------------------------------- what readers get


@pytest.mark.parametrize(("what", "revise"), [("average", "2d"), ("sum", None)])
def test_numbers_are_those_of_the_group_and_are_read_back(
    what: str, revise: str | None, tmp_path: Path
) -> None:
    shown = []
    for night, rows in enumerate([*some_nights(), []], 1):
        own = night_of(tmp_path, rows, night, what, allowed_lateness=revise, **VALUES)
        table = own.table()
        shown.append(table.filter(group="shop")["window_index"].unique().sort().to_list())
        if night % 3:
            continue
        place = tmp_path / f"out{night}.{('csv', 'parquet')[night % 2]}"
        assert export(tmp_path / "s.db", place).table().equals(table)
        again = read(place)
        assert again.table().equals(table)
        assert facts_of(again.numbers) == facts_of(own.numbers)
        if revise:
            assert again.versions().equals(own.versions())
    first = [] if revise is None else [1, 2]
    assert shown == [[], [], *([*first, *range(3, night + 1)] for night in range(3, 7))]
    names = ("mean", "sum", "count") if what == "average" else ("sum", "count")
    assert set(table["measure"]) == set(names)
    exact = {"mean": -20, "sum": -1600, "count": 80} if revise else {"sum": -4800, "count": 240}
    step = 3 if revise else 5
    for name, lower, upper in (
        table.filter(group="shop", window_index=step).select("measure", "lower", "upper").rows()
    ):
        assert name not in exact or lower - 30 <= exact[name] <= upper + 30
    only = own.only(range(1, 3))
    assert set(only.table()["group"]) == ({"home", "shop"} if revise else {"home"})
    assert set(own.only(groups=["shop"]).table()["group"]) == {"shop"}
    with pytest.raises(InvalidInputError, match="found in the data are each shown only"):
        own.total("home", of="sum")
    if revise:
        by_then = own.versions().filter(pl.col("window_index") + pl.col("lag_windows") <= 2)
        assert set(by_then["group"]) == {"home"}


@pytest.mark.long
def test_windows_are_shown_each_by_itself(tmp_path: Path) -> None:
    """Without revisions too: from the window on that shows the group; a row is in one window."""
    told = {**FOUND, **VALUES, "allowed_lateness": None, "series": "per-window"}
    for night, rows in enumerate([*some_nights(), []], 1):
        found = night_of(tmp_path, rows, night, "average", **told)
    assert found.numbers.since == {"home": 1, "shop": 3}
    counts = (
        found.table().filter(group="shop", measure="count").select("window_index", "lower", "upper")
    )
    exact = {3: 80, 4: 80, 5: 80, 6: 0}
    assert [step for step, *_ in counts.rows()] == [*exact]
    assert all(low - 3 <= exact[step] <= high + 3 for step, low, high in counts.rows())
    nights = some_nights()
    without = released(nights, "average", **told)
    for value in EACH[::4]:
        more = [*nights[:2], [*nights[2], *rows_of(2, "home", [value], "someone")], *nights[3:]]
        moved = released(more, "average", **told).values - without.values
        assert (np.abs(moved).sum(), np.abs(moved[2, :2]).sum()) == (60, 60)


def test_sums_from_0_need_no_noise_for_row_count(tmp_path: Path) -> None:
    """The sum is one of the two cells, whose noise is that of a sum alone."""
    told = {**VALUES, "lower": 0}
    alone = {"unlisted_groups": "error", "groups": ["home"], "delta": None, "windows": 30}
    stds = []
    for place, more in enumerate(({}, alone)):
        folder = tmp_path / str(place)
        folder.mkdir()
        rows = rows_of(1, "home", [20.0] * 80)
        table = night_of(folder, rows, 1, "sum", **{**told, **more}).table()
        stds.append(float(table["noise_std"][0]))
    assert stds[0] == stds[1]


def test_table_without_displayed_group_is_empty(tmp_path: Path) -> None:
    for what, revise in (("count", "2d"), ("average", "2d"), ("average", None)):
        folder = tmp_path / f"{what}{revise}"
        folder.mkdir()
        options = {} if what == "count" else VALUES
        for night in (1, 2):
            rows = rows_of(night, "hush", [3.0])
            found = night_of(folder, rows, night, what, allowed_lateness=revise, **options)
        export(folder / "s.db", folder / "out.csv")
        for one in (found, read(folder / "out.csv")):
            assert one.table().height == 0
            assert one.numbers.groups == ()
            assert not revise or one.versions().height == 0


@pytest.mark.parametrize(("what", "revise"), [("count", "2d"), ("average", "1d"), ("sum", None)])
def test_all_values_are_computed_again_also_of_hidden_groups(
    what: str, revise: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the release's own code and by the reference; nothing tells how many groups are hidden."""
    said = []
    for place in range(2):
        folder = tmp_path / str(place)
        folder.mkdir()
        options = {} if what == "count" else VALUES
        for night, rows in enumerate(some_nights(3), 1):
            more = [row for n in range(3 * place) for row in rows_of(night, f"zz{n}", [1.0])]
            night_of(folder, rows + more, night, what, allowed_lateness=revise, **options)
        (found,) = verify(folder / "s.db", key=chosen_key())
        assert found.right, found
        assert state_by_reference(folder / "s.db", chosen_key())
        said.append(found)
    assert said[0] == said[1]
    alter_values(monkeypatch, slice(-1, None), -1)  # the last cell of a step: of a hidden group
    (found,) = verify(folder / "s.db", key=chosen_key())
    assert "is not the sum of its inputs" in found.problems[0]


# ----------------------------------------------------------------------------- what is refused


def test_discovery_of_sums_refuses_incompatible_options(tmp_path: Path) -> None:
    rows = rows_of(1, "home", [1.0])
    known = Average(-20, 40, resolution=1, number=5)
    for what, more, why in (
        (
            known,
            {"value": "value", "allowed_lateness": None},
            "unlisted_groups=discover is not possible for custom",
        ),
        (
            "sum",
            {**VALUES, "series": "both", "allowed_lateness": None},
            "unlisted_groups=discover cannot be used with series=both",
        ),
        (
            "moments",
            {"columns": "value", "bounds": "0:5"},
            "unlisted_groups=discover is not possible for moments",
        ),
    ):
        with pytest.raises(InvalidInputError, match=why):
            night_of(tmp_path, rows, 1, what, **more)
        assert not (tmp_path / "s.db").exists()
    night_of(tmp_path, rows, 1, "sum", **VALUES)
    with pytest.raises(StreamMismatchError, match=r"'sum_of_value' .* lower .here 0, there -20."):
        night_of(tmp_path, rows, 2, "sum", **{**VALUES, "lower": 0})
