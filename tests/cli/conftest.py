import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from counton.cli.app import app
from counton.cli.statistic_commands import model_option
from counton.job.messages import parse_options
from counton.job.statistics import model_of
from counton.job.stream_name import usual_name


class Result(NamedTuple):
    code: int
    out: str
    err: str
    changed: bool
    """Whether a file of the folder is another one, or has other bytes."""

    def fine(self) -> "Result":
        """The same, of a command that did its work."""
        assert self.code == 0, self.err
        return self

    def refused(self, code: int = 2) -> str:
        """What is said, in one line. Besides names of jobs nothing is printed; no file changes."""
        assert self.code == code, self
        assert re.fullmatch(r"(job \w+\n)*", self.out), self
        assert not self.changed
        return " ".join(self.err.split())


class Workplace:
    """A folder with events, and the command line called on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state.db"

    def __call__(self, *arguments: str) -> Result:
        """What a command does; the newest event tells which windows have ended, unless stated."""
        cuts = arguments[1:2] in (("count",), ("sum",)) or "--time" in arguments[2:]
        if cuts and not {"--until", "--help", "-h"} & {*arguments}:
            arguments = (*arguments, "--until", "latest-event")
        return self.plain(*arguments)

    def plain(self, *arguments: str) -> Result:
        """What a command does, as it is typed."""
        before = self.contents()
        done = CliRunner().invoke(app, [*map(str, arguments)], prog_name="counton")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Result(done.exit_code, done.stdout, done.stderr, self.contents() != before)

    def contents(self) -> dict[str, bytes]:
        """All that the folder holds, to compare before and after."""
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}

    def by_file(self, *words: str) -> Result:
        """What ``counton run`` does with a job file that says what this command's words say.

        A job file has options that no command has. The report of ``--json`` is that of the job.
        """
        _, statistic, events, *stated = words
        model = model_of(statistic)
        name = usual_name(parse_options(model, {}))
        known = {
            str(field.alias): model_option(model, option)
            for option, field in model.model_fields.items()
        }
        lines = [f"statistic = {json.dumps(statistic)}", f"events = {json.dumps(events)}"]
        told = iter(one for one in stated if one != "--json")
        as_json = "--json" in stated
        for word in told:
            key = word.removeprefix("--")
            option = known.get(key)  # None: the file is refused
            is_flag = option is not None and option.is_flag
            value = "true" if is_flag else json.dumps(next(told, "true"))
            whole = option is not None and option.metavar in ("N", "NUMBER")
            lines.append(f"{key} = {value.strip(chr(34)) if whole else value}")
        file = self.folder / "typed.toml"
        file.write_text("\n".join([f"[jobs.{name}]", *lines, ""]))
        done = self.plain("run", str(file), *(["--json"] if as_json else []))
        if as_json and done.code == 0:
            return done._replace(out=json.dumps(json.loads(done.out)["jobs"][name]))
        return done

    def shown(self, *more: str) -> str:
        """What is said of the state, and its account of promises, their lines put together."""
        state = str(self.state)
        done = [self.plain("inspect", state, *more), self.plain("methods", state, "--full", *more)]
        assert [one.code for one in done] == [0, 0], done
        return " ".join(" ".join(one.out for one in done).split())

    def write(self, name: str, rows: Sequence[str], header: str = "time,group") -> str:
        """Events of 1 January 2013, each as ``HH:MM,group``."""
        lines = "".join(f"2013-01-01T{row}\n" for row in rows)
        (self.folder / name).write_text(f"{header}\n{lines}")
        return str(self.folder / name)

    def count(self, events: str, *more: str) -> Result:
        """Count by hour into six windows, with noise that is 0 almost surely."""
        return self("release", "count", events, *self.new(), *more)

    def new(self, **changed: str | None) -> list[str]:
        """Options of a new stream; a change to None leaves one out."""
        options: dict[str, str | None] = {
            "time": "time", "every": "1h", "group_by": "group", "groups": "a,b", "windows": "6",
            "start": "2013-01-01T00:00", "epsilon": "100", "state": str(self.state),
        }  # fmt: skip
        options |= changed
        return [
            word
            for name, value in options.items()
            if value is not None
            for word in (f"--{name.replace('_', '-')}", value)
        ]

    @property
    def again(self) -> list[str]:
        """Options of a later run."""
        return ["--state", str(self.state)]

    def estimates(self, *more: str) -> list[list[int]]:
        """All released estimates: a row a step, from a run's table."""
        import polars as pl

        table = pl.read_parquet(self.folder / "out.parquet")
        return [list(row) for row in table["estimate"].reshape((-1, 2)).to_list()]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def contents(place: Workplace) -> Callable[[], dict[str, bytes]]:
    """All that the folder holds, to compare before and after."""
    return place.contents
