"""A file of released numbers answers what the run answers, to the bit, without state or key."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from in_turn import in_turn
from recalled import recall
from short_methods import check_short_methods

from counton import Release, read
from counton.base.errors import InvalidInputError, StateError
from counton.results import error_text
from counton.results import text as wording
from counton.results.charts import totals_curves, window_curves
from counton.results.metadata_codec import facts_of
from counton.results.release_data import ReleaseData
from counton.results.released_table import last_rows
from counton.run import Job, export, run

ENDINGS = ("parquet", "csv", "json")
COUNT: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop", "far"]}
PAID: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}
USERS = "page=home,shop,far;user=" + ",".join(f"u{n}" for n in range(11))
FOUND: dict[str, Any] = {
    "what": "top-k", "group_by": "page", "unlisted_groups": "discover", "epsilon": 9,
    "delta": "1e-3",
}  # fmt: skip
ONCE: dict[str, Any] = dict.fromkeys(("time", "every", "start", "windows", "until", "timezone"))
#: Jobs by what they are: every statistic whose cells are all released, and forms of release.
JOBS: dict[str, dict[str, Any]] = {
    "count": {},
    "count by group": COUNT,
    "windows": {**COUNT, "series": "per-window"},
    "both": {**COUNT, "series": "both", "rho": "0.3"},
    "both, trees": {**COUNT, "series": "both", "epsilon": 1},
    "found": {"group_by": "page", "unlisted_groups": "discover", "epsilon": 9, "delta": "1e-3"},
    "sum": {"what": "sum", **PAID, **COUNT, "resolution": 0.5},
    "sum, noise of floats": {"what": "sum", **PAID, "strategy": "sqrt", "rho": "0.2"},
    "expected_windows": {**COUNT, "windows": None, "expected_windows": 30, "rho": 1},
    "expiring": {**COUNT, "windows": None, "expiring": True, "epsilon": 1},
    "people": {**COUNT, "user": "user", "max_contributions": 2},
    "average": {"what": "average", **PAID},
    "average by group": {"what": "average", **PAID, **COUNT, "over": 2},
    "quantiles": {"what": "quantiles", "value": "paid", "edges": "0,4,9", "shares": "0.5"},
    "top-k": {"what": "top-k", **COUNT, "top": 2},
    "distinct": {"what": "distinct", "user": "user"},
    "reach": {"what": "reach", "user": "user", "at_least": "1,3"},
    "reach of weeks": {"what": "reach", "user": "user", "at_least": "1,3",
    "contribution_period": "1w"},
    "moments": {"what": "moments", "columns": "paid,more", "bounds": "0:9,0:9"},
    "hierarchy": {"what": "hierarchy", "levels": "page", "groups": "domain.csv"},
    "ranges": {"what": "ranges", "label": "paid", "groups": [str(n) for n in range(9)]},
    "contingency": {"what": "contingency", "columns": "page,user", "groups": USERS},
    "ranking": {**FOUND, "top": 2, "room": 50},
    "hierarchy once": {"what": "hierarchy", "levels": "page", "groups": "domain.csv", **ONCE},
    "ranges once": {
        "what": "ranges", "label": "paid", "groups": [str(n) for n in range(9)], **ONCE,
    },
    "contingency once": {
        "what": "contingency", "columns": "page,user", "groups": USERS, **ONCE,
    },
}  # fmt: skip
ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1) + timedelta(hours=7 * n) for n in range(40)],
        "page": [("home", "shop", "home", "far")[n % 4] for n in range(40)],
        "paid": [n % 9 for n in range(40)],
        "more": [n % 5 for n in range(40)],
        "user": [f"u{n % 11}" for n in range(40)],
        "from": [f"n{n % 5}" for n in range(40)],
        "to": [f"m{n % 7}" for n in range(40)],
        "letter": ["ab"[n % 3 % 2] for n in range(40)],
    }
)


def made(kind: str, folder: Path, **more: Any) -> Job:
    pl.DataFrame({"page": ["home", "shop", "far"]}).write_csv(folder / "domain.csv")
    events = folder / "events.parquet"
    ROWS.write_parquet(events)
    own = dict(JOBS[kind])
    if own.get("groups") == "domain.csv":
        own["groups"] = folder / "domain.csv"
    terms: dict[str, Any] = {
        "events": events, "state": folder / "s.db", "time": "time", "every": "1d",
        "start": "2024-03-01", "windows": 30, "until": "2024-03-11", "stream": "it",
        "timezone": "Europe/Berlin",
    }  # fmt: skip
    if "rho" not in own and "epsilon" not in own:
        own["epsilon"] = 1
    return Job(own.pop("what", "count"), **{**terms, **own, **more})


def released(job: Job) -> Release:
    """What the run gives, and the run's files."""
    return released_at(job)[0]


def released_at(job: Job, level: float = 0.5) -> tuple[Release, pl.DataFrame]:
    """The same, and its table at another level."""
    job = recall(job)
    with run(job) as outcome:
        other = outcome.read(level).table()
        found = outcome.read()
        return Release(found.numbers), other


@pytest.mark.parametrize("name", JOBS)
def test_short_methods_have_correct_numbers(name: str, tmp_path: Path) -> None:
    own = released(made(name, tmp_path))
    check_short_methods(own)
    check_short_methods(own.at(0.5) if name not in ("ranking", "found") else own)


@pytest.mark.parametrize("wrong", ["half", "terms", "long"])
def test_check_short_methods_rejects_wrong_text(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = released(made("average by group", tmp_path))
    right = error_text._margin_text, wording.besides_as_sentence
    if wrong == "half":  # in both accounts
        monkeypatch.setattr(error_text, "_margin_text", lambda far: right[0](far / 2))
    more = ["Noise is of each cell."] if wrong == "terms" else ["It is so."] * 3
    if wrong != "half":
        monkeypatch.setattr(wording, "besides_as_sentence", lambda of: [*right[1](of), *more])
    with pytest.raises(AssertionError):
        check_short_methods(own)


def endings_of(name: str) -> tuple[str, ...]:
    """Parquet, whose columns have types, and in turn one of the formats of texts."""
    return ("parquet", ("csv", "json")[[*JOBS].index(name) % 2])


@pytest.mark.parametrize("name", JOBS)
def test_read_file_gives_answers_of_run(name: str, tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    own, wide = released_at(made(name, tmp_path, output=out))
    endings = endings_of(name)
    files = [out, *(tmp_path / f"again.{one}" for one in endings)]
    for file in files[1:]:
        assert export(tmp_path / "s.db", file).table().equals(own.table())
    for file in files:
        found: Any = read(file)
        assert found.table().equals(own.table()), file
        assert found.describe() == own.describe()
        assert found.numbers.level == own.numbers.level
        if file != files[0]:  # another reader of the same table and description
            continue
        assert found.methods() == own.methods()
        assert found.methods(full=True) == own.methods(full=True)
        assert read(file, confidence_level=0.5).table().equals(wide), file
        if own.numbers.metadata.statistic.additive and own.numbers.since is None:
            _answers_alike(found, own)


@pytest.mark.parametrize("name", in_turn([name for name in JOBS if "once" not in name], 2))
def test_export_of_some_windows_is_independent_of_later_ones(name: str, tmp_path: Path) -> None:
    """Neither its table nor all that its file carries."""
    found = []
    for until in ("2024-03-06", "2024-03-11"):
        released(made(name, tmp_path, until=until))
        some = export(tmp_path / "s.db", tmp_path / "some.parquet", windows="2:4")
        found.append((facts_of(some.numbers), some.table().to_dicts()))
    assert found[0] == found[1]


def _answers_alike(found: Release, own: Release) -> None:
    one = own.numbers.groups[0]
    other = own.numbers.groups[-1]
    for steps in (None, "2:4"):
        assert found.difference(one, other, steps=steps) == own.difference(one, other, steps=steps)
        assert found.ratio(one, other, steps=steps) == own.ratio(one, other, steps=steps)
    assert [found.share(name) for name in own.numbers.groups] == [
        own.share(name) for name in own.numbers.groups
    ]
    if not own.numbers.metadata.strategy.facts.delay:
        assert found.sums("1w").equals(own.sums("1w"))
    for kind in ("totals", "windows"):
        mine = getattr(found.numbers.series, kind)
        theirs = getattr(own.numbers.series, kind)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert (mine.estimates == theirs.estimates).all()
            assert (mine.half == theirs.half).all()


def test_cut_or_shuffled_file_gives_numbers_of_remaining_rows(tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    own = released(made("count by group", tmp_path, output=out))
    rows = pl.read_csv(out)
    rows.sample(fraction=1, shuffle=True, seed=1).write_csv(out)
    assert read(out).table().equals(own.table())
    rows.filter(pl.col("window_index").is_between(3, 6) & (pl.col("group") != "far")).write_csv(out)
    found = read(out)
    assert found.numbers.groups == ("home", "shop")
    there = own.table().filter(pl.col("window_index").is_between(3, 6) & (pl.col("group") != "far"))
    assert found.table().equals(there)
    assert found.difference("home", "shop", steps="4:6") == own.difference(
        "home", "shop", steps="4:6"
    )
    with pytest.raises(InvalidInputError, match="step 2 of 'home' is not in the file"):
        found.difference("home", "shop", steps="3:6")
    with pytest.raises(InvalidInputError, match="'far'"):
        found.difference("home", "far", steps="4:6")
    rows.filter((pl.col("window_index") != 4) | (pl.col("group") != "shop")).write_csv(out)
    found = read(out)
    assert found.table().height == own.table().height - 1
    assert found.difference("home", "far") == own.difference("home", "far")
    with pytest.raises(InvalidInputError, match="step 4 of 'shop' is not in the file"):
        found.difference("home", "shop", steps="1:4")


@pytest.mark.parametrize("name", ["count by group", "both", "windows"])
def test_chart_has_gap_for_omitted_row(name: str, tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    own = released(made(name, tmp_path, output=out))
    rows = pl.read_csv(out)
    rows.filter((pl.col("window_index") != 4) | (pl.col("group") != "shop")).write_csv(out)
    found = read(out)
    drawn = (
        [] if name == "windows" else [(totals_curves(found.numbers), totals_curves(own.numbers))]
    )
    if name != "count by group":
        drawn.append((window_curves(found.numbers)[0], window_curves(own.numbers)[0]))
    for windows, whole in drawn:
        for one in ("estimates", "lower", "upper"):
            given = getattr(windows, one)
            assert np.argwhere(np.isnan(given)).tolist() == [[3, 1]]
            assert np.array_equal(np.delete(given, 3, 0), np.delete(getattr(whole, one), 3, 0))


@pytest.mark.parametrize("name", ["count by group", "both", "windows"])
def test_numbers_of_omitted_steps_are_refused_with_their_names(name: str, tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    own = released(made(name, tmp_path, output=out))
    rows = pl.read_csv(out)
    gone = pl.col("window_index").is_in([1, 2, 5]) & (pl.col("group") == "shop")
    rows.filter(~gone).write_csv(out)
    found = read(out)
    kinds = [
        kind for kind in ("totals", "windows") if getattr(own.numbers.series, kind) is not None
    ]
    asked: dict[str, Callable[[ReleaseData], Any]] = {
        kind: attrgetter(f"series.{kind}") for kind in (*kinds, "released")
    }
    for of in asked.values():
        for number in ("estimates", "lower", "upper"):
            with pytest.raises(InvalidInputError, match=r"steps 1 to 2, 5 are not in the file"):
                getattr(of(found.numbers), number)
            one = getattr(of(found.numbers.only(groups=["far", "home"])), number)
            assert (one == getattr(of(own.numbers), number)[:, [2, 0]]).all()
        assert (of(found.numbers).std == of(own.numbers).std).all()
    last = own.steps[-1:]
    pairs = zip(
        found.numbers.series.published(last), own.numbers.series.published(last), strict=True
    )
    for (series, mine), (own_series, theirs) in pairs:
        assert series == own_series
        assert (mine.estimates == theirs.estimates).all()
    rows.filter(pl.col("window_index") != 10).write_csv(out)
    windows = read(out)
    for kind in kinds:
        assert (
            getattr(windows.numbers.series, kind).estimates
            == getattr(own.numbers.series, kind).estimates[:9]
        ).all()


@pytest.mark.parametrize("ending", ENDINGS)
def test_file_without_displayed_group_states_its_steps(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"t.{ending}"
    own = released(made("found", tmp_path, output=out, epsilon=1, delta="1e-300"))
    assert not own.table().height
    found = read(out)
    assert found.steps == own.steps == range(1, 11)
    assert found.describe() == own.describe()
    assert not found.table().height


CUT = (
    *("average by group", "quantiles", "top-k", "hierarchy", "contingency"),
    *("ranking", "hierarchy once", "ranges once", "contingency once"),
)


@pytest.mark.parametrize("name", CUT)
def test_rows_removed_from_file_stay_removed_in_table(name: str, tmp_path: Path) -> None:
    """Tables once too: their description holds the cells, and the rows are those that are left."""
    out = tmp_path / "t.csv"
    own = released(made(name, tmp_path, output=out)).table()
    rows = pl.read_csv(out, infer_schema=False)
    kept = pl.int_range(own.height).map_elements(lambda n: n % 3 != 1, return_dtype=pl.Boolean)
    left = own.filter(pl.select(kept).to_series())
    rows.filter(pl.select(kept).to_series()).sample(fraction=1, shuffle=True, seed=1).write_csv(out)
    found = read(out)
    assert found.table().equals(left)
    assert f"{own.height - left.height:,} of {own.height:,} rows" in found.describe()
    if "once" in name:
        assert not last_rows(found.numbers).is_empty()


def test_a_table_without_the_names_of_its_rows_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    released(made("hierarchy once", tmp_path, output=out))
    pl.read_csv(out).drop("page").write_csv(out)
    with pytest.raises(
        InvalidInputError, match="no column 'page' any more, which tells its rows apart"
    ):
        read(out)


def test_read_refuses_damaged_released_table(tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    released(made("count", tmp_path, output=out))
    beside = tmp_path / "t.csv.json"
    facts = json.loads(beside.read_text())
    for other in (2, 9, None):
        description = facts["description"] | {"format": other}
        beside.write_text(json.dumps(facts | {"description": description}))
        with pytest.raises(
            StateError, match=f"format {other}; this version reads format 4.*wrote it"
        ):
            read(out)
    beside.unlink()
    with pytest.raises(InvalidInputError, match=r"has no description .*t\.csv\.json beside it"):
        read(out)
    with pytest.raises(InvalidInputError, match="is not a file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InvalidInputError, match="is not a kind of table that can be read back"):
        read(tmp_path / "s.db")
    with pytest.raises(InvalidInputError, match=r"'postgresql://ann:[*]{3}@db/x' is not a file"):
        read("postgresql://ann:9f9f@db/x")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InvalidInputError, match="cannot be read as a released table"):
        read(tmp_path / "bad.parquet")


@pytest.mark.parametrize("name", ["count by group", "average by group", "hierarchy", "found"])
def test_a_description_holds_nothing_exact(name: str, tmp_path: Path) -> None:
    """The same file comes of other rows, but for what is released: noise hides nothing here."""
    out = tmp_path / "t.parquet"
    released(made(name, tmp_path, output=out))
    described = json.loads(pl.read_parquet_metadata(out)["counton"])["description"]
    known = {"format", "terms", "what", "by", "value", "windows", "groups", "unit", "people",
             "series", "metric", "discovery", "confidence_level", "since", "steps", "shown",
             "cells", "changes"}  # fmt: skip
    assert set(described) <= known
    text = json.dumps(described)
    assert str(tmp_path) not in text
    assert "user" not in text


@pytest.mark.parametrize("name", ["sum, noise of floats", "count by group"])
def test_files_state_noise_in_data_units(name: str, tmp_path: Path) -> None:
    """The law of one draw is in units of its own, which say nothing to who reads the facts."""
    out = tmp_path / "t.parquet"
    released(made(name, tmp_path, output=out))
    facts = json.loads(pl.read_parquet_metadata(out)["counton"])
    rows = pl.read_parquet(out)
    last = rows.filter(pl.col("window_index") == rows["window_index"].max())
    assert facts["noise"]["step"] == last["window_index"][0]
    assert facts["noise"]["std"] == last["noise_std"][0]
    assert set(facts["noise"]) == {"family", "reads", "std", "step"}
    assert "law" not in facts["terms"]
    distribution = facts["description"]["terms"]["law"]
    (width,) = [
        Fraction(distribution[name]) for name in ("scale", "sigma_squared") if name in distribution
    ]
    # no units of 2^-16, which are thousands of it
    assert float(width) < 4 * last["noise_std"][0] ** 2
    assert 0 < Fraction(distribution["grid"]) <= 1


# --------------------------------------------------------------------------- what was shown


def test_display_options_of_run_hold_for_read_and_export(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    job = made("quantiles", tmp_path, output=out, over=1, shares="0.5", confidence_level=0.9)
    released(job)
    written = pl.read_parquet(out)
    assert written["n_windows"].unique().to_list() == [1]
    found = export(str(job.state))
    assert found.table().equals(written)
    assert found.numbers.level == 0.9
    assert facts_of(found.numbers)["counted"] == "the last 1 windows"
    facts = json.loads(pl.read_parquet_metadata(out)["counton"])
    assert facts["description"] == facts_of(found.numbers)["description"]
    with run(Job("quantiles", job.events, job.state, stream="it", until="2024-03-11")) as outcome:
        assert outcome.read().table().equals(written)  # and a call that says nothing of it
    again = Job(
        "quantiles", job.events, job.state, stream="it", until="2024-03-12", confidence_level=0.5
    )
    own = released(again.derive(output=out))
    assert own.numbers.shown.over == 1  # one word said anew leaves the others as they were
    assert export(str(job.state)).table().equals(pl.read_parquet(out))
    released(again.derive(output=out, over=0))  # back to all so far
    assert "over" not in pl.read_parquet(out).columns
    assert facts_of(export(str(job.state)).numbers)["counted"] == "all windows to date"
