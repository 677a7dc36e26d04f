"""What an option names may be a pipe, a folder, a device, or no name at all: nothing waits."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from in_turn import in_turn
from patience import HANGS

from counton.base.errors import InvalidInputError
from counton.base.outside_input import open_plain, read_plain
from counton.cli.app import app
from counton.cli.statistic_commands import model_option, statistic_command
from counton.job.job_file import load
from counton.job.messages import parse_options
from counton.job.statistics import all_models

from .conftest import Workplace

#: What the help of an option says that names a file.
_FILE = re.compile(r"\b(files?|folder|path|database|table|state)\b|\.(png|toml)")
#: Of a command, so that it comes to what it names: all words, of which one is replaced or added.
COMMANDS = {
    "init": "e.csv --save-job n.toml", "run": "n.toml", "serve": "n.toml --listen nowhere",
    "plan": "n.toml", "ledger": "s.db", "inspect": "s.db", "erase-user": "s.db ann",
    "close": "s.db --stream none", "annotate": "s.db --window 2024-03-01 --note wrong",
    "backup": "s.db --output b.db", "export": "s.db --output x.csv", "methods": "s.db",
    "publish": "s.db --to p.db", "verify": "s.db",
}  # fmt: skip
COUNT = (
    "e.csv --state new.db --time time --every 1d --start 2024-03-01 --windows 9 --epsilon 1 "
    "--until 2024-03-02"
)
#: How the name ends of what an option takes by its ending.
ENDINGS = {
    "events": ".csv", "out": ".csv", "plot": ".png", "strategy": ".json", "statistics": ".toml",
    "file": ".toml", "save": ".toml", "asked": ".toml", "source": ".parquet",
}  # fmt: skip

#: Fields of a job that name files.
FILES = {
    "events",
    "state",
    "key",
    "rollback_guard",
    "groups",
    "output",
    "chart",
    "strategy",
    "bad_rows",
}


def _named() -> Iterator[tuple[str, str, str]]:
    """Of all commands the options that name files: command, option, and its name in Python."""
    context = click.Context(app)
    names = app.list_commands(context)
    assert {*names} == {*COMMANDS, "release"}
    commands: dict[str, Any] = {name: app.get_command(context, name) for name in names}
    for name in ("count", "hierarchy", "contingency", "ranges", "report"):
        commands[name] = statistic_command(name)
    for command, of in commands.items():
        for item in of.params:
            text = not getattr(item, "is_flag", False) and item.name != "help"
            argument = item.param_type_name == "argument"
            if text and (item.name in FILES or argument or _FILE.search(item.help or "")):
                yield command, "" if argument else item.opts[0], item.name


NAMED = [*_named()]


@pytest.fixture
def waits_for_nobody() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(HANGS))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


EVENTS = "time,page,who\n2024-03-01T09:00,home,ann\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(tmp_path)
    Path("e.csv").write_text(EVENTS)
    return Workplace(tmp_path)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state and a file of a count, and in a folder ``home`` what the user's home has of it."""
    folder = tmp_path_factory.mktemp("counted")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("XDG_STATE_HOME", str(folder / "home"))
        Path("e.csv").write_text(EVENTS)
        words = COUNT.replace("new.db", "s.db").split()
        done = Workplace(folder).plain("release", "count", *words, "--output", "t.parquet")
        assert not done.code, done.err
        Path("e.csv").unlink()
    return folder


def test_all_options_that_name_files_are_tried() -> None:
    tried = {name for _command, _option, name in NAMED}
    assert {"key", "state", "rollback_guard", "groups", "strategy", "output"} <= tried
    assert {"chart", "job_file", "bad_rows", "statistics", "file"} <= tried


@pytest.mark.parametrize(
    ("kind", "command", "option", "name"),
    [
        (kind, *named)
        for turn, kind in enumerate(("pipe", "folder"))
        for named in in_turn(NAMED, 2, first=turn)
    ],
)
def test_commands_refuse_pipes_and_folders_without_waiting(
    place: Workplace,
    counted: Path,
    waits_for_nobody: None,
    command: str,
    option: str,
    name: str,
    kind: str,
) -> None:
    if kind == "pipe" and (name == "count" or (command, name) == ("report", "events")):
        pytest.skip("rows may come through a pipe, as standard input does")
    if "n.toml" in COMMANDS.get(command, ""):
        Path("n.toml").write_text('[jobs.n]\nevents = "e.csv"\nstate = "s.db"\n')
    elif "t.parquet" in COMMANDS.get(command, "") or "s.db" in COMMANDS.get(command, ""):
        home = os.environ["XDG_STATE_HOME"]
        for known, there in ((counted, "."), (counted / "home", home)):
            shutil.copytree(known, there, ignore=shutil.ignore_patterns("home"), dirs_exist_ok=True)
    odd = f"odd{ENDINGS.get(name, '')}"
    os.mkfifo(odd) if kind == "pipe" else os.mkdir(odd)
    shown = f"quarantine:{odd}" if name == "bad_rows" else odd
    words = COMMANDS.get(command, COUNT).split()
    if option in words:
        words[words.index(option) + 1] = shown
    elif option:
        words += [option, shown]
    else:
        words[1 if name == "user" else 0] = shown
    first = [command] if command in COMMANDS else ["release", command]
    if command == "report" and name != "statistics":
        first = ["release", "count"]
    place.plain(*first, *words)  # which raises what is no error made on purpose
    assert not Path(odd).is_file()


#: Options whose values are texts, or lists of them.
_TEXTS = sorted(
    name
    for model in all_models().values()
    for name in model.model_fields
    if name != "statistic" and model_option(model, name).metavar == "TEXT"
)


@pytest.mark.parametrize("name", _TEXTS)
def test_nul_is_refused_in_every_option(tmp_path: Path, name: str) -> None:
    model = next(model for model in all_models().values() if name in model.model_fields)
    with pytest.raises(InvalidInputError):
        parse_options(model, {name: "a\0b"})
    key = model.model_fields[name].alias
    (tmp_path / "n.toml").write_text(f'[jobs.n]\n{key} = "a\\u0000b"\n')
    with pytest.raises(InvalidInputError, match=rf"jobs\.n\.{key} is .*NUL"):
        load(tmp_path / "n.toml")


@pytest.mark.parametrize("table", ["publish", "limit", "serve", "report.n.mean"])
def test_nul_is_refused_in_every_table_of_a_job_file(tmp_path: Path, table: str) -> None:
    (tmp_path / "n.toml").write_text(f'[{table}]\nto = ["a", "a\\u0000b"]\n')
    with pytest.raises(InvalidInputError, match="NUL"):
        load(tmp_path / "n.toml")


def test_rollback_guard_that_is_a_pipe_is_not_read(tmp_path: Path, waits_for_nobody: None) -> None:
    os.mkfifo(tmp_path / "w")
    with pytest.raises(OSError, match="no plain file"):
        read_plain(tmp_path / "w")
    with pytest.raises(OSError, match="no plain file"):
        open_plain("/dev/zero")


def test_statistics_of_a_report_are_read_within_bounds(tmp_path: Path) -> None:
    for name, text in {"deep.toml": "a = " + "[" * 10**5, "deep.json": "{" * 10**5}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInputError, match="is no table of statistics"):
            parse_options(all_models()["report"], {"statistics": str(tmp_path / name)})
