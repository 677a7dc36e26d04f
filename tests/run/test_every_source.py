"""The same job over the same rows releases the same bits, wherever the rows come from.

Every statistic that is added up, events and people and ids, late rows, names that a format could
get wrong: from files, frames, databases and by request. A source has its own code to read columns,
and a statistic its own columns, so by default one case of each statistic comes from a third of the
sources, and each source is read for five statistics; ``COUNTON_FUZZ=300`` takes so many cases from
all sources, other ones each time (`make fuzz`). Spark has the same cases in
tests/spark/test_spark_among_sources.py.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from in_turn import in_turn
from inside import Inside
from services import tokens_for
from sources import (
    CHOICES,
    ENDS,
    PEOPLE,
    SOURCES,
    START,
    STATISTICS,
    Case,
    as_texts,
    case,
    in_postgresql,
    nights_of,
    odd_ends,
)

from counton.job.saved_job import save
from counton.run import export
from counton.statistics import AccumulatorStatistic
from counton.statistics.catalogue import keywords, statistic_named

LONG = int(os.environ.get("COUNTON_FUZZ", "0"))
DRAWN = secrets.token_bytes
#: By default each statistic has one of these in its turn, so that each is there.
TURNS = [*PEOPLE]


pytestmark = pytest.mark.usefixtures("one_key")


def cases(statistic: str) -> list[Case]:
    """The cases of a statistic: one that never changes, or many by chance."""
    place = list(STATISTICS).index(statistic)
    if not LONG:
        return [case(place, statistic, TURNS[place % len(TURNS)], append=place % 3 > 0)]
    kinds = [*PEOPLE, *(CHOICES if statistic == "groups" else ())]
    return [
        case(secrets.randbelow(10**9), statistic, secrets.choice(kinds), append=bool(turn % 2))
        for turn in range(LONG)
    ]


def sources(statistic: str) -> dict[str, Callable[[Path, pl.DataFrame], dict[str, Any]]]:
    """What is tried with a statistic beside a frame: two files, and a third of all sources."""
    place = list(STATISTICS).index(statistic)
    others = [name for name in SOURCES if name != "a frame"]
    turn = place + place // 3  # each source has statistics of all nights and of new ones
    chosen = others if LONG else others[turn % 3 :: 3]
    return {name: SOURCES[name] for name in ("two files", *chosen)}


def test_cases_cover_each_source_with_and_without_users() -> None:
    read: dict[str, list[Case]] = {name: [] for name in SOURCES if name != "a frame"}
    for statistic in STATISTICS:
        for name in sources(statistic):
            read[name] += cases(statistic)[:1]
    for name, found in read.items():
        assert len(found) >= 5, name
        assert {each.append for each in found} == {False, True}, name
        assert {"user" in each.own for each in found} == {False, True}, name
        assert {"row_id" in each.own for each in found} == {False, True}, name


def test_cases_cover_every_accumulator_statistic() -> None:
    here = {what for what, _ in STATISTICS.values()}
    missing = {
        name for name in keywords() if issubclass(statistic_named(name), AccumulatorStatistic)
    } - here
    assert not missing, f"add {sorted(missing)} to STATISTICS of tests/support/sources.py"
    assert "distinct" in here  # added up where it is not of windows


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_bits_do_not_depend_on_the_source(statistic: str, tmp_path: Path) -> None:
    for number, each in enumerate(cases(statistic)):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = list(nights_of(each, folder / "a frame", SOURCES["a frame"]))
        assert not any(isinstance(night, str) for night in expected), expected
        for name, given in sources(statistic).items():
            if name == "two files" and not (each.append or "row_id" in each.own):
                continue  # a file of all events is one
            assert list(nights_of(each, folder / name, given)) == expected, (name, each)
        if each.append:
            # A release has what came until its window's end: so each night is a window.
            own = (
                each.own
                | {"every": "8d"}
                | ({"contribution_period": "16d"} if "contribution_period" in each.own else {})
            )
            asked = each._replace(own=own)
            expected = list(nights_of(asked, folder / "8 days", SOURCES["a frame"]))
            assert by_request(asked, folder) == [night[-1] for night in expected], each


@pytest.mark.parametrize("people", ["events", "people"])
def test_unusual_rows_are_counted_alike_from_every_source(people: str, tmp_path: Path) -> None:
    expected = odd_ends(tmp_path / "a frame", people, SOURCES["a frame"])
    assert len(expected[1]) > 2
    for name, given in SOURCES.items():
        if name != "a frame":
            assert odd_ends(tmp_path / name, people, given) == expected, name


@pytest.mark.long
@pytest.mark.parametrize("statistic", in_turn(STATISTICS, 2, first=1))
def test_postgresql_has_the_bits_of_a_frame(statistic: str, tmp_path: Path, postgres: str) -> None:
    for number, each in enumerate(cases(statistic)):
        folder = tmp_path / str(number)
        folder.mkdir()
        expected = list(nights_of(each, folder / "a frame", SOURCES["a frame"]))
        there = nights_of(each, folder / "there", lambda _, rows: in_postgresql(postgres, rows))
        assert list(there) == expected, each
    if statistic in ("sum", "distinct"):
        people = {"sum": "events", "distinct": "people"}[statistic]
        here = odd_ends(tmp_path / "odd", people, SOURCES["a frame"])
        odd = odd_ends(tmp_path / "far", people, lambda _, rows: in_postgresql(postgres, rows))
        assert odd == here


def by_request(each: Case, folder: Path) -> list[Any]:
    """What a service has released after each night."""
    file = folder / "jobs.toml"
    job = each.job(folder, 0).derive(state=folder / "served.db", until=None)
    save(job.derive(append=False, allow_empty_windows=False), file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith("events")))
    found = []
    with patch("secrets.token_bytes", DRAWN):  # tokens must differ
        tokens = tokens_for(file)
    with patch("inside.tokens_for", lambda _: tokens):
        service = Inside(file)
    with closing(service.service):
        for night, rows in enumerate(each.nights):
            end = START + timedelta(days=ENDS[night] - 1)
            service.time = end - timedelta(seconds=1)
            answer = service.send(f"night{night}", as_texts(rows).write_ndjson().encode())
            assert answer.status_code == 202, answer.text
            service.time = end + timedelta(seconds=2)
            service.work()
            found.append(export(folder / "served.db", stream="it").table().rows())
    return found
