"""Plays a situation night by night, and checks every line that its commands print."""

import copy
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import pytest
from line_checks import LineChecker
from line_oracle import Oracle, UntrueError
from nightly_situations import LISTED, Night, Situation, draw

#: Modules of counton that read the clock for ``counton run``.
_MODULES_WITH_CLOCK = ("counton.run.run_job", "counton.run.dry_run", "counton.run.plan_job")


class SetClock(datetime):
    """A clock that a test sets."""

    moment: ClassVar[datetime] = datetime(2024, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return cls.moment.astimezone(tz)


def set_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands of a test read the clock `SetClock`."""
    for module in _MODULES_WITH_CLOCK:
        monkeypatch.setattr(f"{module}.datetime", SetClock)


class Output(Protocol):
    """What a command printed."""

    exit_code: int
    stdout: str
    stderr: str


#: Calls ``counton`` with some words.
Command = Callable[..., Output]


class FalseLine(NamedTuple):
    """A line that is not true."""

    seed: int
    night: int
    where: str
    line: str
    why: str


@dataclass
class Player:
    """Plays one situation in a folder.

    Attributes:
        seed: of the situation.
        folder: an empty folder, in which commands run.
        command: calls ``counton``.
    """

    seed: int
    folder: Path
    command: Command

    def play(self) -> list[FalseLine]:
        """Return the lines of all nights that are not true."""
        situation = draw(self.seed)
        oracle = Oracle(situation)
        problems: list[FalseLine] = []
        todo: list[tuple[str, str, str]] = []
        last_night: Night | None = None
        for number, night in enumerate(situation.nights):
            here = (self.seed, number)
            dry = self.run(situation, night, self.folder, "--dry-run")
            real = self.run(situation, night, self.folder)
            if dry.exit_code != real.exit_code:
                codes = f"{dry.exit_code}, {real.exit_code}"
                problems.append(FalseLine(*here, "exit codes", dry.stderr + real.stderr, codes))
            if real.exit_code:
                problems += self.check_refusal(here, oracle, night, real)
                continue
            oracle.work_out(night)
            problems += self.check(here, LineChecker(oracle, self.folder, True, []), dry)
            oracle.commit(night)
            checker = LineChecker(oracle, self.folder, False, [])
            problems += self.check(here, checker, real)
            todo = checker.todo
            last_night = night
        if last_night is not None:
            here = (self.seed, len(situation.nights) - 1)
            prover = Prover(self, oracle, last_night)
            for name, argument, line in todo:
                try:
                    getattr(prover, f"prove_{name}")(argument)
                except UntrueError as error:
                    problems.append(FalseLine(*here, f"proof of {name}", line, str(error)))
        return problems

    def run(self, situation: Situation, night: Night, folder: Path, *more: str) -> Output:
        """Write the files of a night, and run the job with its clock."""
        SetClock.moment = night.now
        (folder / "job.toml").write_text(situation.job_text(night.until))
        situation.write(folder / situation.options["events"], night.rows)
        before = contents(folder)
        allowed = ["--allow-empty-windows"] if night.allows_empty else []
        done = self.command(folder, "run", "job.toml", *allowed, *more)
        if "--dry-run" in more and contents(folder) != before:
            raise AssertionError("a dry run wrote a file")
        return done

    def check(self, here: tuple[int, int], checker: LineChecker, done: Output) -> list[FalseLine]:
        """Return the lines of a command that are not true."""
        problems = []
        where = "dry run" if checker.is_dry else "run"
        for line in f"{done.stdout}\n{done.stderr}".splitlines():
            try:
                checker.check(line)
            except UntrueError as error:
                problems.append(FalseLine(*here, where, line, str(error)))
        return problems

    def check_refusal(
        self, here: tuple[int, int], oracle: Oracle, night: Night, done: Output
    ) -> list[FalseLine]:
        """Return the lines of a refused run that are not true."""
        oracle = copy.deepcopy(oracle)
        oracle.work_out(night)
        checker = LineChecker(oracle, self.folder, False, [])
        problems = self.check(here, checker, done)
        prover = Prover(self, oracle, night)
        for name, argument, line in checker.todo:
            try:
                getattr(prover, f"prove_{name}")(argument)
            except UntrueError as error:
                problems.append(FalseLine(*here, f"proof of {name}", line, str(error)))
        return problems


def contents(folder: Path) -> dict[str, bytes]:
    """Return all that a folder has."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@dataclass
class Prover:
    """Does what a line says, in a copy of the folder."""

    player: Player
    oracle: Oracle
    night: Night
    n_copies: int = 0

    def attempt(
        self, night: Night, *, changes: dict[str, Any] | None = None
    ) -> tuple[int | None, str]:
        """Run a night in a copy; return the number of released windows, or None and the refusal."""
        self.n_copies += 1
        folder = self.player.folder.with_name(f"{self.player.folder.name}-copy-{self.n_copies}")
        shutil.copytree(self.player.folder, folder)
        situation = self.oracle.situation
        if changes:
            situation = replace(situation, options={**situation.options, **changes})
        with self.kept_guard():
            done = self.player.run(situation, night, folder)
        shutil.rmtree(folder)
        if done.exit_code:
            return None, done.stderr
        released = re.search(
            r"Released (?:\d+ new windows \(\d+ to (\d+)|1 new window \((\d+))", done.stdout
        )
        if released is None:
            return self.oracle.book.released, ""
        return int(released[1] or released[2]), ""

    @contextmanager
    def kept_guard(self) -> Iterator[None]:
        """Restore the guards against old copies of states, which are outside the folder."""
        home = Path(os.environ["XDG_STATE_HOME"])
        saved = home.with_name(f"{home.name}-saved")
        if home.exists():
            shutil.copytree(home, saved)
        yield
        if home.exists():
            shutil.rmtree(home)
        if saved.exists():
            saved.rename(home)

    def row_at(self, moment: datetime) -> dict[str, str]:
        """Return the cells of a row that can be read."""
        cells = {"time": f"{self.oracle.local(moment):%Y-%m-%dT%H:%M}"}
        others = {"who": "eve", "street": LISTED[0], "number": "1", "id": f"new-{moment}"}
        cells |= {name: others[name] for name in self.oracle.situation.columns if name != "time"}
        return {name: cells[name] for name in self.oracle.situation.columns}

    def old_rows(self) -> list[dict[str, str]]:
        """Return what the next file has if nothing happened."""
        return [] if self.oracle.situation.mode == "append" else [*self.night.rows]

    def prove_next(self, words: str) -> None:
        """Prove at which time, and with which rows, the next window is released."""
        oracle = self.oracle
        window = oracle.book.released + 1
        due = oracle.edges[window] + oracle.delay
        if due <= self.night.now or self.is_ambiguous(due):
            return
        minute = timedelta(minutes=1)
        begin = oracle.edges[window - 1]
        rows = self.old_rows()
        condition = re.search(
            r"once ((?:it|there is a row).*?)(?:, by a run with a new file)?"
            r"(, or with --allow-empty-windows)?$",
            words,
        )
        if words.startswith("once there is an event"):
            for moment, is_due in ((due - minute, False), (due, True)):
                more = [*rows, self.row_at(moment)]
                self.expect(replace(self.night, now=due + minute, rows=more), window, is_due)
            return
        early = replace(self.night, now=due - minute, rows=[*rows, self.row_at(begin)])
        late = replace(self.night, now=due, rows=[*rows, self.row_at(begin)])
        empty = replace(self.night, now=due, rows=rows)
        if words.startswith("with until"):
            early = replace(early, now=due, until=self.text(due - minute))
            late = replace(late, until=self.text(due))
            empty = replace(empty, until=self.text(due))
        self.expect(early, window, is_due=False)
        self.expect(late, window, is_due=True)
        if "or later" in words.partition(", ")[0]:
            later = replace(late, now=due + minute, until=self.text(due + minute))
            self.expect(later, window, is_due=True)
        if condition is None or condition[2] is not None:  # this job allows empty windows
            self.expect(empty, window, is_due=True)
            return
        is_met = self.is_met(condition[1], window)
        if is_met is not None:
            self.expect(empty, window, is_due=is_met)
        self.expect_least_row(condition[1], late, window)

    def is_met(self, condition: str, window: int) -> bool | None:
        """Return whether the rows meet a condition; None if only a row does that may not count.

        Of files of new rows, only those that count are known later.
        """
        is_append = self.oracle.situation.mode == "append"
        rows = self.oracle.book.earlier_rows if is_append else self.oracle.facts.rows
        if condition == "there is a row" and rows and all(row.at is None for row in rows):
            return None
        rows = [row for row in rows if row.at is not None and row.at.year != 2062]
        met = [row for row in rows if self.meets(condition, row.window, row.at, window)]
        has_limit = is_append and self.oracle.situation.kind == "users"
        if met and (has_limit or all(row.flaws for row in met)):
            return None
        return bool(met)

    def meets(self, condition: str, window_of_row: int, at: datetime | None, window: int) -> bool:
        """Return whether a row meets a condition on the next window."""
        if condition == "there is a row":
            return True
        if condition in ("it has rows", "it has a row"):
            return window_of_row == window
        before = re.fullmatch(
            r"it or (?:the window|one of the (\d+) windows) before it has a row", condition
        )
        if before is not None:
            return window - int(before[1] or 1) <= window_of_row <= window
        later = re.fullmatch(r"there is a row of (\S+) or later", condition)
        if later is None or at is None:
            raise UntrueError(f"unknown condition: {condition}")
        begin = datetime.fromisoformat(later[1])
        if begin.tzinfo is None:
            begin = begin.replace(tzinfo=self.oracle.zone)
        return at >= begin.astimezone(UTC)

    def expect_least_row(self, condition: str, late: Night, window: int) -> None:
        """Run with the earliest row that meets a condition, and with one just before it."""
        oracle = self.oracle
        starts = oracle.edges[:window]
        meeting = [
            begin
            for number, begin in enumerate(starts, 1)
            if self.meets(condition, number, begin, window)
        ]
        holds_least = replace(late, rows=[*self.old_rows(), self.row_at(meeting[0])])
        self.expect(holds_least, window, is_due=True)
        before = meeting[0] - timedelta(minutes=1)
        if meeting[0] > oracle.edges[0] and self.is_met(condition, window) is False:
            lacks = replace(late, rows=[*self.old_rows(), self.row_at(before)])
            self.expect(lacks, window, is_due=False)

    def is_ambiguous(self, moment: datetime) -> bool:
        local = self.oracle.local(moment)
        zone = self.oracle.zone
        offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}
        return len(offsets) > 1

    def text(self, moment: datetime) -> str:
        return f"{self.oracle.local(moment):%Y-%m-%dT%H:%M}"

    def expect(self, night: Night, window: int, is_due: bool) -> None:
        """Run a night, and see whether a window is released."""
        released, refusal = self.attempt(night)
        if is_due and released != window:
            raise UntrueError(f"released {released}, not {window}: {refusal}")
        if not is_due and released == window:
            raise UntrueError(
                f"window {window} is released already: until {night.until}, {night.now}"
            )

    def prove_until(self, words: str) -> None:
        """Prove that a date in the job file ends the stream, and that without it it goes on."""
        oracle = self.oracle
        window = oracle.book.released + 1
        if window > oracle.steps or window >= len(oracle.edges):
            return
        now = max(oracle.edges[window] + oracle.delay, self.night.now) + timedelta(minutes=1)
        if now - oracle.edges[min(oracle.steps, len(oracle.edges) - 1)] > timedelta(days=31):
            return  # nothing follows a stream that ended so long ago
        ended = min(oracle.ended_by(now), oracle.steps)
        rows = self.old_rows()
        rows += [self.row_at(begin) for begin in oracle.edges[window - 1 : ended]]
        later = replace(self.night, now=now, rows=rows)
        self.expect(later, window, is_due=False)
        released, refusal = self.attempt(replace(later, until=None))
        if released is None or released < window:
            raise UntrueError(f"without the line, {released} are released: {refusal}")

    def prove_delay(self, delay: str) -> None:
        """Prove that a release delay is accepted, and that rows would have been in time."""
        length = self.attempt(self.night, changes={"release-delay": delay})
        if length[0] is None and "not a length" in length[1]:
            raise UntrueError(f"refused: {length[1]}")

    def prove_complete(self, until: str) -> None:
        """Prove that a stated end of a complete file releases its windows."""
        released, refusal = self.attempt(replace(self.night, until=until))
        if released is None or released <= self.oracle.book.released:
            raise UntrueError(f"released {released}: {refusal}")

    def prove_lookback(self, lookback: str) -> None:
        """Prove that a longer lookback, with a row in each window, releases the windows."""
        oracle = self.oracle
        starts = oracle.edges[oracle.book.released : oracle.facts.after]
        rows = [*self.night.rows, *map(self.row_at, starts)]
        night = replace(self.night, rows=rows)
        released, refusal = self.attempt(night, changes={"lookback": lookback})
        if released != oracle.facts.after and "less than half" not in refusal:
            raise UntrueError(f"released {released}, not {oracle.facts.after}: {refusal}")

    def prove_held(self, setting: str) -> None:
        """Prove that an option releases the windows that are held back."""
        name, value, window = setting.split("=")
        changes = {} if name == "until" else {name: value}
        night = self.night if changes else replace(self.night, until=value)
        released, refusal = self.attempt(night, changes=changes)
        if released != int(window):
            raise UntrueError(f"released {released}, not {window}: {refusal}")

    def prove_differs(self, remedy: str) -> None:
        """Prove what the next release does with an input that differs."""
        oracle = self.oracle
        is_last = oracle.book.released >= oracle.steps
        if "next release" in remedy and is_last:
            raise UntrueError("there is no next release")

    def prove_without_other(self, _words: str) -> None:
        """Do nothing: the line about the group is checked by the rows."""
