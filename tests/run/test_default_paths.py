"""The state of a stream lies beside its events if nobody states it."""

from pathlib import Path

import polars as pl
import pytest

from counton.base.errors import MissingOptionError
from counton.run.new_job.default_paths import (
    default_state,
    has_default_state,
    is_named,
    path_beside,
    state_beside,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("events", "append", "path"),
    [
        ("loans.csv", False, "loans.counton.db"),
        ("a/loans.2024.jsonl.zst", False, "a/loans.2024.counton.db"),
        ("loans", False, "loans.counton.db"),
        (".csv", False, ".csv.counton.db"),
        (["loans.csv"], False, "loans.counton.db"),
        (Path("loans.parquet"), False, "loans.counton.db"),
        ("logs/*.csv", True, "logs.counton.db"),
        ("logs", True, "logs.counton.db"),
        ("*.csv", True, "../here.counton.db"),
    ],
)
def test_state_beside_is_found_by_each_run(
    events: object, append: bool, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "logs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert state_beside(events, append=append) == path
    assert has_default_state(path, events, append=append)


@pytest.mark.parametrize(
    ("events", "append", "words"),
    [
        ("-", False, "no file"),
        ("sqlite:///a.db", False, "no file"),
        (pl.DataFrame(), False, "no file"),
        ([], False, "no file"),
        (3, False, "no file"),
        (["a.csv", "b.csv"], False, "several files"),
        ("night-7.csv", True, "new events"),
    ],
    ids=lambda value: str(value)[:14],
)
def test_state_beside_refuses_events_without_file_name(
    events: object, append: bool, words: str, folder: Path
) -> None:
    with pytest.raises(MissingOptionError, match=words) as caught:
        state_beside(events, append=append)
    assert caught.value.names == ("state",)
    assert not has_default_state("a.counton.db", events, append=append)


def test_link_to_counted_file_needs_stated_state(folder: Path) -> None:
    (folder / "loans.csv").write_text("at\n")
    (folder / "newest.csv").symlink_to("loans.csv")
    assert state_beside("newest.csv", append=False) == "newest.counton.db"
    (folder / "loans.counton.db").write_text("")
    with pytest.raises(MissingOptionError, match=r"counted in state loans\.counton\.db already"):
        state_beside("newest.csv", append=False)
    (folder / "newest.counton.db").write_text("")
    assert state_beside("newest.csv", append=False) == "newest.counton.db"


def test_events_in_memory_have_no_name() -> None:
    assert [is_named(events) for events in ("a.csv", "-", pl.DataFrame(), "sqlite:///a.db")] == [
        True,
        True,
        False,
        False,
    ]
    assert path_beside(pl.DataFrame(), ".csv") == Path("counts.csv")
    assert default_state("..").endswith(".counton.db")
