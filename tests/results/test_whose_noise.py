"""Whose noise a number has is an identity: like descriptions are not like noise, doors are."""

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from some_cases import long

import counton
from counton import ZCDP, PureDP, Release
from counton.base.errors import InvalidInputError, StateError
from counton.continual import Answer, jointly
from counton.privacy import Guarantee
from counton.results.questions import number_of
from counton.run import export

LEVEL = 0.8
PAGES = ["home", "shop"]
ROWS = pl.DataFrame(
    {
        "time": [f"2024-03-0{day}T10:00" for day in (1, 2) for _ in range(300)],
        "page": PAGES * 300,
        "paid": [float(number % 7) for number in range(600)],
    }
)
SUM = {"statistic": "sum", "value": "paid", "lower": 0, "upper": 9, "resolution": 1}


def run_of(what: Any, state: Path, guarantee: Guarantee, **options: Any) -> Release:
    groups = {} if what == "report" else {"group_by": "page", "groups": PAGES}
    terms: dict[str, Any] = {"stream": "visits", "confidence_level": LEVEL, **groups, **options}
    return counton.release(
        what, ROWS, time="time", every="1d", start="2024-03-01", windows=30, until="2024-03-03",
        guarantee=guarantee, state=str(state), **terms,
    )  # fmt: skip


def wider(one: Answer, other: Answer) -> float:
    """By how much two intervals that hold together are wider than one alone, on average."""
    both = jointly([one, other])
    alone = (one.upper - one.lower, other.upper - other.lower)
    return sum((a.upper - a.lower) / w for a, w in zip(both, alone, strict=True)) / 2


#: Of a normal law: two together, where they are independent, the same, and by the union bound.
APART = 1.26
SAME = 1.0
BONFERRONI = 1.28


def asked(found: Release) -> Answer:
    return found.difference("home", "shop", steps="2:2")


@pytest.mark.parametrize(
    "guarantee", [PureDP("0.1"), long(ZCDP("0.01"))], ids=["laplace", "gaussian"]
)
def test_two_shops_with_one_job_have_noise_of_their_own(
    guarantee: Guarantee, tmp_path: Path
) -> None:
    states = [tmp_path / name for name in ("one.db", "two.db")]
    runs = [run_of("count", state, guarantee) for state in states]
    assert runs[0].numbers.design.to_dict() == runs[1].numbers.design.to_dict()
    assert runs[0].numbers.design.noise_id != runs[1].numbers.design.noise_id
    by_door = {"run": runs, "state": [export(state) for state in states]}
    for ending in ("parquet", "csv", "json"):
        files = [state.with_suffix(f".{ending}") for state in states]
        for state, file in zip(states, files, strict=True):
            export(state, file)
        by_door[ending] = [counton.read(file) for file in files]
    for door, (one, other) in by_door.items():
        # Of one stream it is the same noise, by whatever door: widths hang on the id alone.
        ids = [each.numbers.design.noise_id for each in (one, other)]
        assert ids == [each.numbers.design.noise_id for each in runs], door
        if door in ("run", "parquet"):
            assert wider(asked(one), asked(other)) > 1.15, door
            assert wider(asked(runs[0]), asked(one)) < 1.06, door
        beside = one.difference("home", "home", other_release=other)
        alone = [number_of(each.numbers, "home").std for each in (one, other)]
        assert beside.std == pytest.approx(math.hypot(*alone)), door
        with pytest.raises(InvalidInputError, match="whose noise is the same"):
            one.difference("home", "home", other_release=runs[0])


def test_files_without_noise_id_are_compared_by_union_bound(
    tmp_path: Path,
) -> None:
    files = [tmp_path / name for name in ("one.csv", "two.csv")]
    for file in files:
        run_of("count", file.with_suffix(".db"), ZCDP("0.01"), output=str(file))
        beside = file.with_name(f"{file.name}.json")
        facts = json.loads(beside.read_text())
        del facts["description"]["terms"]["noise_id"]  # as it was written once
        beside.write_text(json.dumps(facts))
    one, other = map(counton.read, files)
    assert one.numbers.design.noise_id is None
    assert wider(asked(one), asked(other)) == pytest.approx(BONFERRONI, rel=0.02)
    with pytest.raises(InvalidInputError, match="whose noise is the same"):
        one.difference("home", "home", other_release=other)


@pytest.mark.parametrize("changed", [[], {"a": 1}, 5, "", "x" * 32, "\x1b[31m"])
def test_file_identifies_its_noise_by_digest(tmp_path: Path, changed: object) -> None:
    file = tmp_path / "one.csv"
    run_of("count", file.with_suffix(".db"), ZCDP("0.01"), output=str(file))
    beside = file.with_name(f"{file.name}.json")
    facts = json.loads(beside.read_text())
    facts["description"]["terms"]["noise_id"] = changed
    beside.write_text(json.dumps(facts))
    with pytest.raises(
        StateError, match=r"one\.csv.* cannot be read: .*noise_id must be 32 hexadecimal"
    ):
        counton.read(file)


@pytest.mark.parametrize(
    "guarantee", [long(PureDP("0.1")), ZCDP("0.01")], ids=["laplace", "gaussian"]
)
def test_like_sums_of_a_report_have_noise_of_their_own(
    guarantee: Guarantee, tmp_path: Path
) -> None:
    groups = {"group_by": "page", "groups": PAGES}
    for options in ({}, groups):
        found = run_of(
            "report", tmp_path / f"r{len(options)}.db", guarantee, **options,
            statistics={"paid": SUM, "again": SUM, "rows": {"statistic": "count"}},
        )  # fmt: skip
        group = "home" if options else "all"
        paid, again = (found.part(name) for name in ("paid", "again"))
        one, other = (part.combine({group: 1.0}) for part in (paid, again))
        assert wider(one, other) > 1.12
        assert wider(one, found.part("paid").combine({group: -1.0})) < 1.06
        if options:
            assert wider(one, paid.combine({"shop": 1.0})) > 1.12
            same = found.combine({group: 1.0}, of="paid")
        else:
            same = found.combine({"paid": 1.0})
        assert wider(one, same) < 1.06  # the report, and its part
