"""Names from files and data steer no terminal; job files that lie too deep are refused."""

import sys
from pathlib import Path

import polars as pl
import pytest
from rich.table import Table

from counton.base.errors import InvalidInputError
from counton.cli.__main__ import main
from counton.cli.print_forms import Console
from counton.job.job_file_tables import read_tables
from counton.results.terminal import text_table

NAME = "shop\x1b]0;x\x07\x9b2J\u202e"


def test_names_of_groups_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    events = tmp_path / "e.parquet"
    out = tmp_path / "t.parquet"
    pl.DataFrame({"time": ["2024-03-01T09:00"] * 3, "page": [NAME, NAME, "home"]}).write_parquet(
        events
    )
    (tmp_path / "pages.csv").write_text(f"page\n{NAME}\nhome\n")

    def counton(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["counton", *map(str, words)])
        with pytest.raises(SystemExit):
            main()
        return "".join(capsys.readouterr())

    stream = (*("--time", "time", "--every", "1d", "--start", "2024-03-01", "--windows", 9),)
    domain = ("--group-by", "page", "--groups", tmp_path / "pages.csv", "--epsilon", 1)
    state = ("--state", tmp_path / "s.db", "--until", "2024-03-02", "--output", out)
    for said in (
        counton("release", "count", events, *stream, *domain, *state),
        counton("export", out),
        counton("export", out, "--groups", f"{NAME},home"),
        counton("export", out, "--groups", "none"),
        counton("methods", out),
    ):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
    assert r"shop\x1b]0;x\x07\x9b2J\u202e" in counton("export", out)


def test_names_are_shown_letter_by_letter(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[b]:x:[/b] :smile:"
    console = Console()
    console.write_line(name)
    console.write_table(text_table(pl.DataFrame({"group": [name], "estimate": [3]})))
    table = Table(name)
    table.add_row(name)
    console.write_table(table)
    Console(stderr=True).write_line(name)
    out, errors = capsys.readouterr()
    assert (out.count(name), errors.count(name)) == (4, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("a = " + "[" * 10**5, "a = " + "9" * 5000, "a = " + "{b = " * 10**4, "a = \0"),
        ".".join(["a"] * 1000) + " = 1",
        "[" + ".".join(["jobs"] * 1000) + "]",
    ],
    ids=["lists", "digits", "tables", "NUL", "dotted keys", "dotted table"],
)
def test_a_job_file_that_no_reader_takes_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=r"job\.toml.*; (correct it|write text)"):
        read_tables(tmp_path / "job.toml")
