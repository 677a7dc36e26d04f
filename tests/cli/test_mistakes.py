"""Mistakes that look like ordinary runs: counted twice, groups from the data, a wrong date."""

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.run import Job, run

from .conftest import Workplace

EVENTS = ["00:10,a", "00:50,b", "01:30,a", "03:00,b"]
TOTALS = [[1, 1], [2, 1], [2, 1]]


def again(place: Workplace, events: str, *more: str) -> Any:
    return place(
        "release",
        "count",
        events,
        *place.again,
        "--output",
        str(place.folder / "out.parquet"),
        *more,
    )


# ----------------------------------------------------------------------------- counted twice


@pytest.mark.parametrize("copied", [False, True])
def test_complete_file_is_refused_as_append(copied: bool, place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    place.count(events)
    if copied:
        events = shutil.copy(events, f"{place.folder}/copy.csv")
    done = again(place, events, "--append")
    assert done.code != 0
    assert "exists with other options: --append (here with it, there without it)" in done.err
    assert again(place, events, "--until", "2013-01-01T04:00").code == 0
    assert place.estimates() == [*TOTALS, [2, 2]]


def test_a_file_of_new_events_is_known_by_its_bytes(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    place.count(events, "--append")
    done = again(place, shutil.copy(events, f"{place.folder}/copy.csv"), "--append")
    assert (done.code, place.estimates()) == (0, TOTALS)
    assert "an earlier run has counted this input" in done.err
    done = again(place, events, "--append", "--until", "2013-01-01T05:00")
    assert done.code == 2
    assert "has been counted already" in done.err
    done = again(place, events, "--until", "2013-01-01T05:00")
    assert "--append (here without it, there with it)" in done.err


def test_standard_input_counted_twice_is_refused(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    def piped() -> str:
        data = Path(place.write("e.csv", EVENTS)).read_bytes()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return "-"

    request = {"time": "time", "every": "1h", "start": "2013-01-01", "windows": 6, "epsilon": 100}
    request |= {"until": "latest-event", "append": True}
    run(Job("count", piped(), place.state, **request)).close()  # type: ignore[arg-type]
    with run(Job("count", piped(), place.state, append=True, until="latest-event")) as outcome:
        assert (outcome.is_duplicate_input, outcome.before, outcome.after) == (True, 3, 3)
    with pytest.raises(InvalidInputError, match="standard input has been counted already"):
        run(Job("count", piped(), place.state, append=True, until="2013-01-01T05:00"))


@pytest.mark.parametrize("what", ["row_reading.aggregate_rows", "uncounted_files._by_digest"])
def test_events_changed_during_reading_are_refused(
    what: str,
    place: Workplace,
    contents: Callable[[], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two rows, and between the rows and the bytes by which the file is known again."""
    module, _, name = what.partition(".")
    events = place.write("e.csv", EVENTS)
    right = vars(importlib.import_module(f"counton.run.rows.{module}"))[name]

    def grows(*arguments: Any, **more: Any) -> Any:
        found = right(*arguments, **more)
        place.write("e.csv", [*EVENTS, "04:10,a"])
        return found

    monkeypatch.setattr(f"counton.run.rows.{what}", grows)
    done = place.count(events, *["--append"] * (name == "_by_digest"))
    assert done.code == 2
    assert "changed while it was read" in done.err
    assert set(contents()) == {"e.csv"}


# ----------------------------------------------------------------------- groups from the data


@pytest.mark.parametrize("how", ["path", "link", "hard link", "copy", "other format"])
def test_the_events_themselves_declare_no_groups(how: str, place: Workplace) -> None:
    events = place.write("e.csv", ["00:10,a", "00:50,b"])  # each group once: a list like any other
    domain = {
        "path": f"{place.folder}/../{place.folder.name}/e.csv",
        "other format": str(place.folder / "e.parquet"),
    }.get(how, str(place.folder / "d.csv"))
    if how == "link":
        Path(domain).symlink_to(events)
    elif how == "hard link":
        os.link(events, domain)
    elif how == "copy":
        shutil.copy(events, domain)
    elif how == "other format":
        pl.read_csv(events).write_parquet(domain)
    said = place("release", "count", events, *place.new(groups=domain)).refused()
    assert "--groups" in said
    assert "must be public knowledge, because groups from the data reveal" in said
    place.count(events)
    assert place("release", "count", events, *place.again, "--groups", domain).code == 2


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("d.txt", ["time,group", "2013-01-01T00:50,b", "2013-01-01T00:10,a"]),
        ("d.txt", ["2013-01-01T00:50,b", "2013-01-01T00:10,a", "time,group"]),
        ("d.txt", ["2013-01-01T00:50,b", "2013-01-01T00:10,a"]),
        ("d", ["2013-01-01T00:50,b", "2013-01-01T00:10,a"]),
        ("d.txt", ['{"time": "2013-01-01T00:10", "group": "a"}']),
        ("d.CSV", ["time,group", "2013-01-01T00:50,b", "2013-01-01T00:10,a"]),
    ],
)
def test_rows_of_events_in_another_order_declare_no_groups(
    name: str, lines: list[str], place: Workplace
) -> None:
    events = place.write("e.csv", ["00:10,a", "00:50,b", "01:10,a"])
    (place.folder / name).write_text("".join(f"{line}\n" for line in lines))
    new = place.new(groups=str(place.folder / name))
    said = place("release", "count", events, *new, "--unlisted-groups", "drop").refused()
    assert "must be public knowledge, because groups from the data reveal" in said


@pytest.mark.parametrize("name", ["GROUPS.CSV", "groups.Jsonl", "groups.txt", "groups.csv.gz"])
def test_groups_file_is_read_with_extension_in_capitals(name: str, place: Workplace) -> None:
    import gzip

    text = '{"group": "a"}\n{"group": "b, c"}\n' if "Json" in name else 'group\na\n"b, c"\n'
    text = "a\nb, c\n" if name.endswith("txt") else text
    data = gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
    (place.folder / name).write_bytes(data)
    events = place.write("e.csv", ["00:10,a", '00:50,"b, c"', "01:10,a"])
    done = place(
        "release", "count", events, *place.new(groups=str(place.folder / name)), "--json"
    ).fine()
    assert '"b, c"' in done.out


def test_tables_that_are_not_read_are_no_text_either(place: Workplace) -> None:
    (place.folder / "groups.TAB").write_text("group\na\nb\n")
    new = place.new(groups=str(place.folder / "groups.TAB"))
    said = place("release", "count", place.write("e.csv", EVENTS), *new).refused()
    assert "is a kind of table that cannot be read; write it as .csv, .parquet" in said


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ({"group": ["a", "b"]}, "is of type dict, which is a table: give its 'group' only"),
        (pl.DataFrame({"group": ["a", "b"]}), "is of type DataFrame, which is a table"),
        ({"a", "b"}, "groups is not a list of groups"),
        (["a", "b\udc80"], "is not valid UTF-8"),
        (("a", None), "a group of groups is of type"),
        (7, "groups=7 is not a list of groups; give a file"),
    ],
)
def test_a_table_in_memory_is_no_list_of_groups(domain: Any, words: str, place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    with pytest.raises(InvalidInputError, match=words):
        run(
            Job(
                "count", events, place.state, time="time", every="1h", group_by="group",
                groups=domain, start="2013-01-01", windows=6, epsilon=100, until="latest-event",
            )
        )  # fmt: skip
    assert not place.state.exists()


# --------------------------------------------------------------------------------- a wrong date


def test_events_before_the_first_window_create_nothing(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    said = place("release", "count", events, *place.new(start="2023-01-01T00:00")).refused()
    assert "when the first window begins. Correct --start or the rows" in said


# ------------------------------------------------------------------------------ wrong types


@pytest.mark.parametrize("loss", [("--epsilon", "1e9"), ("--rho", "21"), ("--epsilon", "20")])
def test_large_privacy_loss_gives_a_warning(place: Workplace, loss: tuple[str, str]) -> None:
    new = place.new(epsilon=None)
    done = place(
        "release", "count", place.write("e.csv", ["00:10,a", "01:10,b"]), *new, *loss
    ).fine()
    said = "is above 20" in done.err
    assert said == (loss[1] != "20")
    again = place("release", "count", str(place.folder / "e.csv"), *place.again)
    assert (again.code, again.err) == (0, "")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("release", "mean"), "counton release average"),
        (("mean", "e.csv"), "counton release average"),
        (("average",), "counton release average"),
        (("count",), "counton release count"),
        (("unique",), "counton release distinct"),
        (("exprt",), "counton export"),
    ],
)
def test_misspelt_statistic_suggests_command(
    typed: tuple[str, ...], meant: str, place: Workplace
) -> None:
    said = place(*typed).refused()
    assert f"Did you mean {meant!r}?" in said


def test_unknown_statistic_suggests_nearest_name_in_job_files(place: Workplace) -> None:
    (place.folder / "j.toml").write_text('[jobs.a]\nevents = "e.csv"\nstatistic = "mean"\n')
    asked: tuple[tuple[str, ...], ...] = (
        ("run", str(place.folder / "j.toml")),
        ("plan", str(place.folder / "j.toml")),
    )
    for words in asked:
        assert "did you mean average?" in place(*words).err
