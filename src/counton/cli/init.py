"""The command ``init``: it asks what a count needs, and writes a job file."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any
from zoneinfo import ZoneInfo

import typer

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.lengths import LENGTH
from counton.cli.init_options import FirstOptions
from counton.cli.job_plan_command import write_plan
from counton.cli.print_forms import Console
from counton.cli.run_words import EXACT, counted_column
from counton.job.job import NEWEST, Job
from counton.job.jobfile import last_date, save
from counton.job.stated_options import options_of_job
from counton.run.default_state import default_state
from counton.run.first_job import (
    FirstLook,
    JobValues,
    are_old,
    check_job,
    complete_job,
    fitting_start,
    job_of,
    look_at,
    refuse_state,
    unsaid,
    usual_start,
)
from counton.run.job_plan import PlannedJob

#: Options of the job file, not of the job.
_OF_FILE = ("save", "force", "yes", "holds")
#: Options that say how much may be lost.
_LOSS = {"epsilon", "rho", "within"}
#: The answer for "no groups".
_NONE = "none"


def perform(options: FirstOptions) -> None:
    """Ask the questions, write the job file, and print what the job does."""
    console = Console()
    if options.save.exists() and not options.force:
        raise InvalidInput(
            f"{str(options.save)!r} exists, and may define a stream: write another file "
            f"({field('save', 'other.toml')}), or overwrite it ({field('force', True)})"
        )
    if options.events == "-":
        raise InvalidInput(
            "standard input can be read only once, but a job runs every night: name a file"
        )
    values: JobValues = {"state": default_state(options.events)} | {
        one.name: stated
        for one in fields(options)
        if one.name not in _OF_FILE
        and (stated := options.option(one.name)) is not None
        and stated is not False  # 0 is stated
    }
    if options.holds is not None:
        values = {**values, **_rows_of_files(options.holds)}
    if (date := last_date(job_of(values))) is not None:
        raise InvalidInput(
            f"{field('until', date)} would stop every later night's run at this date, too: leave "
            f"it out, and give it to counton run; or give {field('until', NEWEST)}"
        )
    refuse_state(job_of(values))
    look = look_at(job_of(values))
    if (note := counted_column(look.columns, job_of(values))) is not None:
        Console(stderr=True).write_line(f"note: {note}")
    if not options.yes and sys.stdin.isatty() and sys.stdout.isatty():
        try:
            values = _Questions(console, look, values).ask_all(options.holds)
        except (KeyboardInterrupt, typer.Abort):
            console.write_line("\nnothing is written")
            raise
    empty = unsaid(values, look)
    plan = None if "time" in empty else check_job(values, look)[1]
    job = complete_job(values, look).having(**dict.fromkeys(empty))
    save(job, options.save, _comments(job) | empty, anew=True, empty=empty)
    _print(console, job, plan, options.save.name, empty)


def _rows_of_files(answer: str) -> dict[str, Any]:
    """Return the fields that say what a file holds: all rows, those of some windows, or new ones.

    >>> _rows_of_files("all"), _rows_of_files("7d"), _rows_of_files("new")
    ({'append': False}, {'covers': '7d'}, {'append': True})
    """
    if answer not in ("all", "new"):
        if not LENGTH.fullmatch(answer):
            raise InvalidInput(f"{field('holds', answer)}: give all, new, or a length such as 7d")
        return {"covers": answer}
    return {"append": answer == "new"}


def _whole(answer: str) -> dict[str, Any]:
    return {"most": int(answer) if answer.isdecimal() else answer}


class _Questions:
    """The questions that the command ``init`` asks at a terminal. A question is left out if the
    command's options answer it.
    """

    def __init__(self, console: Console, look: FirstLook, values: JobValues) -> None:
        self.console, self.look, self.values = console, look, dict(values)

    def ask_all(self, held: str | None) -> JobValues:
        """Ask all questions, and return the fields that options and answers state.

        Args:
            held: what a file holds; None: nobody said.

        Raises:
            InvalidInput: the stated options do not go together, whatever is answered.
        """
        columns, whom = ", ".join(self.look.columns), {"user", "unit"} & {*self.values}
        self.console.write_line(f"columns: {columns}. Enter takes the answer in brackets.")
        time = next((one.name for one in self.look.times), self.look.columns[0])
        self.ask("time", "Which column holds the times?", time)
        self.ask("timezone", "In which zone does a day begin?", _zone_here())
        self.ask("every", "How long is a window?", "1d")
        job = complete_job(self.values, self.look)
        if held is None:
            self.ask(
                "holds",
                "Does a file hold whole days, or only what is new? all: all rows since the start; "
                "7d: all rows of the last seven days; new: only new rows.",
                "new" if job.rows.append else "all",
                _rows_of_files,
            )
        job = complete_job(self.values, self.look)
        facts = self.look.for_operator(job)
        if facts.first is not None and facts.newest is not None:
            span = f"{facts.first:%Y-%m-%d} to {facts.newest:%Y-%m-%d}"
            self.console.write_line(f"{EXACT}: the first rows are of {span}")
        begin = fitting_start(job, self.look) or usual_start(job)
        self.ask("start", "When does the first window begin? It is published.", begin)
        if counted_column(self.look.columns, job) is not None:
            text = "Which column says how many a row stands for?"
            self.ask("counts", text, _NONE, lambda it: {} if it == _NONE else {"counts": it})
        if "counts" in self.values:
            self.protects = "rows"
        elif not whom:
            text = f"Whom does it protect: people (one of {columns} names them), or single rows?"
            self.ask("protects", text, None, self._whom)
        if whom != {"unit"} and self.protects != "rows":
            self.ask("user", "Which column names the person?")
            if "first" not in self.values:
                self.ask("most", "How many rows of a person count?", None, _whole)
                text = "In each period, as in 1d; or all: in the whole stream?"
                self.ask("per", text, None, lambda it: {} if it == "all" else {"per": it})
        elif not whom:
            self.ask("unit", "What is counted, in one word, as in visit?")
        if are_old(job, self.look) and "covers" not in self.values:
            self.ask("until", "What ends the last window: newest row, or clock (now)?", NEWEST)
        if not {"by", "unknown"} & {*self.values}:
            text = "Which column has the groups, whose names are published?"
            self.ask("by", text, _NONE, lambda it: {} if it == _NONE else {"by": it})
        if "by" in self.values and self.values.get("unknown") != "discover":
            self.ask("domain", "Their names, from a public list? As in A,B,C, or a file of names.")
        if not _LOSS & {*self.values}:
            write_plan(self.console, check_job(self.values, self.look)[1])
            text = "Keep this loss of privacy, or which error at most, as in 15?"
            loss = "epsilon=1"
            self.ask("within", text, loss, lambda it: {} if it == loss else {"within": it})
        return self.values

    protects = "people"

    def _whom(self, answer: str) -> dict[str, Any]:
        if answer not in ("people", "rows"):
            raise InvalidInput(f"{answer!r} is neither: write people or rows")
        self.protects = answer
        return {}

    def ask(
        self,
        name: str,
        text: str,
        usual: str | None = None,
        convert: Callable[[str], dict[str, Any]] | None = None,
    ) -> None:
        """Ask for one field until its answer is accepted; after each refusal print the reason. A
        field that is stated already is left out.

        Args:
            usual: answer that an empty line stands for; None: there is none.
            convert: function that makes fields of the answer; None: it is the value of ``name``.
        """
        if name in self.values:
            return
        self.console.write_line(f"\n{text}")
        while True:
            try:
                brackets = "" if usual is None else f" [{usual}]"
                answer = self.console.ask_line(f"   {name}{brackets}: ").strip() or usual
            except EOFError:
                raise typer.Abort from None
            try:
                if not answer:
                    raise InvalidInput("this has no usual answer: write one")
                values = self.values | (convert(answer) if convert else {name: answer})
                new = values.keys() - self.values.keys()
                for column in new & {"time", "by", "user", "counts"}:
                    self.look.check_column(values[column])
                check_job(values, self.look)
            except CountonError as error:
                self.console.write_line(f"Error: {error.translate({name: name})}")
            else:
                self.values = values
                return


def _zone_here() -> str:
    """Return the name of the time zone of this machine's clock."""
    for found in (os.environ.get("TZ", ""), os.path.realpath("/etc/localtime")):
        name = found.rpartition("zoneinfo/")[2].removeprefix(":")
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, KeyError):
            continue
    return "UTC"


def _comments(job: Job) -> dict[str, str]:
    """Return the comments of the job file: each key's comment stands above it in the file; "" is
    the file's heading.

    The comments contain no exact numbers.
    """
    found = {item.key: item.help for item in options_of_job(job).values()}
    return found | {
        "": "Change anything before the first run. After it, options that define the stream are\n"
        "fixed. Paths are relative to the folder of this file.",
        "statistic": "how many there are",
    }


def _print(
    console: Console, job: Job, plan: PlannedJob | None, file: str, empty: Collection[str]
) -> None:
    """Print the plan in words, what is still to be filled in, and how the job is run."""
    console.write_line(f"{file} is written.", bold=True)
    if empty:
        said = ", ".join(empty)
        console.write_line(f"Fill in before the first run, which refuses an empty line: {said}.")
    elif plan is not None:
        write_plan(console, plan)
    run = shlex.join(["counton", "run", file])
    console.write_line(f"the first time, and every night: {run} (with --dry-run nothing is spent)")
    if job.times.until == NEWEST:
        console.write_line(f"Once rows come every night, take until = {NEWEST!r} out of {file}.")
