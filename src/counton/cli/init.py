"""The command ``init``: it makes a job file for a file of events, by six questions."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any
from zoneinfo import ZoneInfo

import typer

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.exact import with_capital
from counton.base.lengths import PERIODS
from counton.cli.init_options import FirstOptions
from counton.cli.print_forms import Console
from counton.cli.run_words import EXACT, counted_column, promise
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
    errors_in_words,
    fitting_start,
    job_of,
    look_at,
    refuse_state,
    unsaid,
    usual_start,
)
from counton.run.job_plan import PlannedJob

#: Options of the job file, not of the job.
_OF_FILE = ("save", "force", "yes")
#: Fields that are whole numbers.
_WHOLE = ("most", "steps", "around")
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
    if (date := last_date(job_of(values))) is not None:
        raise InvalidInput(
            f"{field('until', date)} would stop every later night's run at this date, too: leave "
            f"it out, and give it to counton run; or give {field('until', NEWEST)}"
        )
    refuse_state(job_of(values))
    look = look_at(job_of(values))
    _tell_of_rows(look, job_of(values))
    if not options.yes and sys.stdin.isatty() and sys.stdout.isatty():
        try:
            values = _Questions(console, look, values).ask_all()
        except (KeyboardInterrupt, typer.Abort):
            console.write_line("\nnothing is written")
            raise
    empty = unsaid(values, look)
    plan = None if "time" in empty else check_job(values, look)[1]
    job = complete_job(values, look).having(**dict.fromkeys(empty))
    save(job, options.save, _comments(job, None if empty else plan) | empty, anew=True, empty=empty)
    _print(console, job, plan, options.save.name, empty)


def _tell_of_rows(look: FirstLook, job: Job) -> None:
    """Tell the operator of rows that cannot be read, and of a column that seems to hold counts."""
    errors, (unreadable, why) = Console(stderr=True), look.for_operator(job).unreadable
    if unreadable:
        errors.write_line(f"{EXACT}: rows that cannot be read: {unreadable:,}; the first: {why}")
    if (note := counted_column(look.columns, job)) is not None:
        errors.write_line(f"note: {note}")


def _fields_in(answer: str, names: Collection[str]) -> dict[str, Any]:
    """Read the fields that an answer states, such as ``every=1h start=2026-10-24``.

    Raises:
        InvalidInput: a word states none of the fields that may be named, or a quote has no end.
    """
    found = {}
    try:
        words = shlex.split(answer)
    except ValueError:
        raise InvalidInput(f"a quote has no end in {answer!r}; close it") from None
    for word in words:
        name, _, value = word.partition("=")
        if name not in names or not value:
            raise InvalidInput(
                f"{word!r} states none of {', '.join(f'{one}=...' for one in names)}; write "
                f"these fields as NAME=VALUE, and a value with spaces in quotes"
            )
        found[name] = int(value) if name in _WHOLE and value.isdecimal() else value
    return found


class _Questions:
    """The questions that the command ``init`` asks at a terminal. A question is left out if the
    command's options answer it.
    """

    def __init__(self, console: Console, look: FirstLook, values: JobValues) -> None:
        self.console, self.look, self.values = console, look, dict(values)

    def ask_all(self) -> JobValues:
        """Ask all questions, and return the fields that options and answers state.

        Raises:
            InvalidInput: the stated options do not go together, whatever is answered.
        """
        columns, stated = ", ".join(self.look.columns), {*self.values}
        time = next((one.name for one in self.look.times), self.look.columns[0])
        self.write(f"columns: {columns}")
        self.write("Enter takes the answer in brackets; or write what differs, as in every=1h.")
        usual: dict[str, Any] = {"time": time, "timezone": _zone_here(), "every": "1d"}
        job = complete_job(usual | self.values, self.look)
        facts = self.look.for_operator(job)
        if facts.first is not None and facts.newest is not None:
            span = f"{facts.first:%Y-%m-%d} to {facts.newest:%Y-%m-%d}"
            self.write(f"{EXACT}: the first rows are of {span}")
        usual["start"] = fitting_start(job, self.look) or usual_start()
        if are_old(job, self.look):
            usual["until"] = NEWEST
        self.ask(
            "1. When? The column of times, zone of days, length of a window, and the first window, "
            "which is published.",
            usual,
            ("time_format", "until", "steps", "around"),
        )
        if complete_job(self.values, self.look).noise.release is not None:
            self.ask(
                "2. What? Each window's own number (windows), totals so far (totals), or both.",
                {"release": "windows"},
            )
        if self.values.get("unknown") != "discover":
            self.ask(
                "3. Groups? Each has a number, and its name is published: take names from a public "
                f"list. As in by=COLUMN domain=A,B,C (or a file of names); or {_NONE}.",
                {"by": None, "domain": None},
                ("other", "unknown"),
                enter=_NONE if "by" not in stated else None,
            )
        if not {"user", "unit"} & stated:
            self.ask(
                f"4. Whom does it protect? A person: user=COLUMN (of {columns}), most=3 per=1d "
                "bound the rows of a person that count. Or a single row: unit=visit, its name.",
                {"user": None, "most": None, "unit": None},
                ("per",),
                one_of=("user", "unit"),
            )
        elif "user" in stated and "first" not in stated:
            self.ask("4. How many rows of a person count, as in most=3 per=1d?", {"most": None},
                     ("per",))  # fmt: skip
        wait = complete_job(self.values, self.look).lateness.watermark
        self.ask(
            "5. Late rows? How long after its end a window is released.",
            {"watermark": wait},
            ("revise", "id", "missing", "clock_change"),
        )
        if not {"epsilon", "rho", "within"} & stated:
            plan = check_job(self.values, self.look)[1]
            self.ask(
                f"6. How much may one lose? With epsilon=1 {'; '.join(errors_in_words(plan))}. Or "
                "within=15, the largest error.",
                {"epsilon": "1"},
                ("delta", "rho", "within"),
                one_of=("epsilon", "rho", "within"),
            )
        return self.values

    def write(self, text: str) -> None:
        self.console.write_line(text)

    def ask(
        self,
        text: str,
        usual: Mapping[str, Any],
        also: Collection[str] = (),
        *,
        one_of: Sequence[str] = (),
        enter: str | None = None,
    ) -> None:
        """Ask one question for several fields until its answer is accepted; after each refusal
        print the reason. Fields that are stated already are left out.

        Args:
            usual: the fields, each with its usual value; None for a field without a usual value.
            also: further fields that an answer may state.
            one_of: fields of which an answer must state one; the others of ``usual`` may be left
                out.
            enter: answer that states no field, and that an empty line stands for.
        """
        left = {name: value for name, value in usual.items() if name not in self.values}
        if not left:
            return
        known = {name: value for name, value in left.items() if value is not None}
        words = enter or " ".join(f"{name}={shlex.quote(str(it))}" for name, it in known.items())
        label = text[3:].partition("?")[0].lower()
        self.write(f"\n{text}")
        while True:
            try:
                answer = self.console.ask_line(f"   {label}{words and f' [{words}]'}: ").strip()
            except EOFError:
                raise typer.Abort from None
            if enter is not None and answer in ("", enter):
                return
            try:
                stated = _fields_in(answer, [*left, *also])
                found = stated if stated.keys() & {*one_of} else known | stated
                lacking = [name for name in left if name not in found]
                if lacking and not found.keys() & {*one_of}:
                    raise InvalidInput(
                        f"{' or '.join(one_of or lacking)} has no usual value: write "
                        f"{(one_of or lacking)[0]}=..."
                    )
                values = self.values | found
                if "user" in found and "most" not in values:
                    raise InvalidInput("how many rows of a person count? Write most=3 too")
                check_job(values, self.look)
                self.values = values
                return
            except CountonError as error:
                self.write(f"Error: {error.translate({name: name for name in [*left, *also]})}")


def _zone_here() -> str:
    """Return the name of the time zone of this machine's clock."""
    for found in (os.environ.get("TZ", ""), os.path.realpath("/etc/localtime")):
        name = found.rpartition("zoneinfo/")[2].removeprefix(":")
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, KeyError):
            continue
    return "UTC"


def _comments(job: Job, plan: PlannedJob | None) -> dict[str, str]:
    """Return the comments of the job file: each key's comment stands above it in the file; "" is
    the file's heading.

    The comments contain no exact numbers.
    """
    found = {item.key: item.help for item in options_of_job(job).values()}
    errors = "" if plan is None else f"; {'; '.join(errors_in_words(plan))}"
    return found | {
        "": "Change anything before the first run. After it, options that define the stream are\n"
        "fixed. Paths are relative to the folder of this file.",
        "statistic": "how many rows there are",
        "epsilon": f"{found['epsilon']}{errors}",
        "rho": f"{found['rho']}{errors}",
        "within": f"{found['within']}{errors}",
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
        groups = "" if job.groups.by is None else f" of each of {len(plan.definition.groups):,} "
        groups += "" if job.groups.by is None else f"groups ({job.groups.by})"
        noun = PERIODS.get(job.times.every or "1d", "window")
        what = {
            "windows": f"each {noun}'s own number",
            "both": f"each {noun}'s own number, and the total so far",
        }.get(plan.definition.release, "the total so far")
        console.write_line(f"It publishes {what}{groups}, from {job.times.start} on.")
        for error in errors_in_words(plan):
            console.write_line(f"  {with_capital(error)}.")
        console.write_line(f"  promise: {promise(plan.definition)}")
    run = shlex.join(["counton", "run", file])
    console.write_line(f"the first time, and every night: {run} (with --dry-run nothing is spent)")
    if job.times.until == NEWEST:
        console.write_line(f"Once rows come every night, take until = {NEWEST!r} out of {file}.")
