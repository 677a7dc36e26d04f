"""The command ``init``: it makes a job file for a file of events, by six questions."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import typer

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.options import MissingOptions
from counton.cli.command_options import command_line, option_names
from counton.cli.init_options import InitOptions
from counton.cli.print_forms import Console
from counton.cli.run_words import EXACT, promise
from counton.job.job import Job
from counton.job.jobfile import save
from counton.run.first_job import (
    FirstFacts,
    FirstLook,
    Said,
    check_column,
    check_job,
    complete_job,
    days_of,
    default_state,
    errors_in_words,
    first_until,
    holds_new_events,
    is_unpromised,
    job_of,
    look_at,
    noun_of,
    person_column,
    refuse_state,
    unsaid,
    usual_start,
    usual_wait,
    within,
)
from counton.run.job_plan import PlannedJob

#: Options of the job file, not of the job.
_OF_FILE = ("save", "force", "yes")
#: The answer for "nothing".
_NONE = "none"
#: Largest epsilon that `init` accepts without a remark.
_USUAL_EPSILON = 3
#: The answer for names that stay as they are.
_KEEP = "keep"
#: The answer for times that need no format.
_ISO = "ISO"
#: Endings of files of names.
_LISTS = {".txt", ".csv", ".tsv", ".lst", ".jsonl", ".parquet"}
_RELEASES = ("windows", "totals", "both")


def perform(options: InitOptions) -> None:
    """Ask the questions, write the job file, and print what the job does and how it runs every
    night.
    """
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
    said = _read_options(options)
    refuse_state(job_of(said))
    look = look_at(job_of(said))
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if options.yes or not terminal:
        _refuse_unsaid(options, said, look)
    else:
        try:
            said = _Questions(console, look, said).ask_all()
        except (KeyboardInterrupt, typer.Abort):
            console.write_line("\nnothing is written")
            raise
    job, plan = check_job(said, look)
    _check_rows(job, look, asked=terminal and not options.yes)
    save(job, options.save, _comments(job, plan), anew=True)
    _print(console, job, plan, look, options.save)


def _read_options(options: InitOptions) -> Said:
    """Return the fields of a job that the options of the command state."""
    found = {
        one.name: options.option(one.name)
        for one in fields(options)
        if one.name not in _OF_FILE and not _is_open(options.option(one.name))
    }
    return {"state": default_state(options.events)} | found


def _is_open(stated: object) -> bool:
    return stated is None or stated is False  # 0 is stated


def _refuse_unsaid(options: InitOptions, said: Said, look: FirstLook) -> None:
    """Refuse to go on without needed options: name all missing ones, and show a command to edit."""
    left = unsaid(said, look)
    if options.yes and not left:
        return
    example = {name: str(value) for one in left for name, value in one.example.items()}
    if "most" in example:
        example |= {"most": int(example["most"])}  # type: ignore[dict-item]
    command = command_line("init", replace(options, yes=True, **example))  # type: ignore[arg-type]
    lines = [
        f"  {' '.join(field(name, value) for name, value in one.example.items())}: {one.why}"
        for one in left
    ]
    whole = "" if look.whole else "; only the first rows were read"
    columns = f"its columns are {', '.join(look.columns)}{whole}"
    why = "events do not tell some options" if options.yes else "there is no terminal to ask at"
    raise MissingOptions(
        "\n".join([f"{why}; {columns}; state each of these:", *lines, "as in:", command]),
        [name for one in left for name in one.example],
    )


def _check_rows(job: Job, look: FirstLook, *, asked: bool) -> None:
    """Read the first rows of events as a run does; print how many rows it leaves out.

    Args:
        asked: whether questions have shown the operator these rows; then a refusal is printed, not
            raised.
    """
    errors = Console(stderr=True)
    try:
        found = look.read_as_run(job, first_until(job, look))
    except CountonError as error:
        if not asked:
            raise
        message = error.translate(option_names(InitOptions))
        errors.write_line(f"A run would refuse these rows today: {message}")
        return
    if asked:
        return
    counts = found.for_operator()
    aside = ""
    if found.refusal is not None and counts.quarantined:
        aside = f"; the first: {found.refusal.translate(option_names(InitOptions))}"
    for what, rows in (
        ("rows that cannot be read, set aside", counts.quarantined),
        ("rows with a missing value, not counted", counts.skipped),
        ("rows before the first window, not counted", counts.before),
    ):
        if rows:
            of = "" if look.whole else " of the first rows"
            errors.write_line(f"{EXACT}: {what}{of}: {rows:,}{aside}")
        aside = ""


#: Answers to an offer of several values: all of them, or a question for each.
_THESE, _EACH = "these", "each"
#: Words of an offer, by the field that gets the value.
_OFFERS = {
    "time": "times in {}",
    "timezone": "zone {}",
    "every": "windows of {}",
    "per": "protect each day ({}) of a person",
    "most": "count at most {} rows of it",
    "missing": "leave these rows out",
    "watermark": "wait {} for late rows",
}


def _takes_all(answer: str) -> bool:
    if answer not in (_THESE, _EACH):
        raise InvalidInput(f"{answer!r} is neither {_THESE!r} nor {_EACH!r}")
    return answer == _THESE


class _Questions:
    """The questions at a terminal, in their order, except those that options answer."""

    def __init__(self, console: Console, look: FirstLook, said: Said) -> None:
        self.console, self.look, self.said = console, look, dict(said)
        self.names = option_names(InitOptions)

    @property
    def job(self) -> Job:
        """The job that options and answers state so far."""
        return job_of(self.said)

    def ask_all(self) -> Said:
        """Ask all questions, and return the fields that options and answers state."""
        sample = "" if self.look.whole else "; only the first rows are read"
        self.say(f"columns: {', '.join(self.look.columns)}{sample}")
        self.say(
            "Numbers that are called exact are not private: they are for you alone, and written "
            "nowhere. Enter takes the answer in brackets."
        )
        for question in (self.when, self.what, self.groups, self.whom, self.rows, self.error):
            self.console.write_line("")
            question()
        self.console.write_line("")
        return self.said

    def say(self, text: str, *, bold: bool = False) -> None:
        self.console.write_line(text, bold=bold)

    def words(self, text: str) -> str:
        """Replace the names of fields in a text by the options of the command line."""
        return InvalidInput(text).translate(self.names)

    def exact(self, text: str) -> None:
        self.say(f"  exact: {text}")

    def facts(self, entered: str | None = None, **more: Any) -> FirstFacts:
        """Return exact facts about the sample of rows, as the job reads it so far.

        Args:
            entered: column that says when a row arrived.
            more: fields that are not settled yet.
        """
        return self.look.for_operator(complete_job(self.said | more, self.look), entered)

    def ask(self, text: str, usual: str | None, take: Callable[[str], Any]) -> None:
        """Ask a question until its answer is accepted; after each refusal print the reason.

        Args:
            usual: answer that an empty line stands for; None: there is none.
            take: takes the answer, or raises the refusal.
        """
        shown = text if usual is None else f"{text} [{usual}]"
        while True:
            try:
                if answer := self.console.ask_line(f"{shown}: ") or usual:
                    take(answer)
                    return
                raise InvalidInput("this question has no usual answer: type one")
            except EOFError:
                raise typer.Abort from None
            except CountonError as error:
                self.say(f"Error: {error.translate(self.names)}")

    def field(self, name: str, text: str, usual: str | None) -> None:
        """Ask for a field of the job unless it is stated, until a run would accept the answer."""
        if name not in self.said:
            self.ask(text, usual, lambda answer: self.having(**{name: answer}))

    def accepts(self, **usual: Any) -> bool:
        """Offer usual values of several fields in one question; return whether they are taken.

        Nothing is offered if fewer than two of the fields are open, or one has no usual value that
        a run would accept.
        """
        left = {name: value for name, value in usual.items() if name not in self.said}
        if len(left) < 2 or None in left.values():
            return False
        try:
            check_job(self.said | left, self.look)
        except CountonError:
            return False
        shown = ", ".join(_OFFERS[name].format(value) for name, value in left.items())
        taken: list[bool] = []
        text = f"   {shown}: {_THESE}, or {_EACH} by itself"
        self.ask(text, _THESE, lambda answer: taken.append(_takes_all(answer)))
        if taken[-1]:
            self.said |= left
        return taken[-1]

    def having(self, **more: Any) -> None:
        said = self.said | more
        check_job(said, self.look)
        self.said = said

    def when(self) -> None:
        self.say("1. When? Each row is counted in the window of its time.", bold=True)
        found = self.look.times[0].name if self.look.times else None
        if not self.accepts(time=found, timezone=_zone_here(), every="1d"):
            self.each_of_times(found)
        facts = self.facts()
        if facts.first is not None:
            self.exact(
                f"{_span(facts)}; rows before the first window do not count, and windows before "
                f"the first row are published, too"
            )
        text = "   the first window begins (published: a day that anybody may know)"
        if "start" not in self.said:
            refused: list[str] = []
            self.ask(text, usual_start(), lambda answer: self.take_start(answer, refused))

    def each_of_times(self, found: str | None) -> None:
        """Ask for the column of times, their zone and the length of a window."""
        if self.job.times.time is None:
            if not self.facts().rows:
                self.say(f"  {self.job.events} has no rows yet: name the column of times.")
            elif found is None:
                self.say("  No column holds times in a known format: name one, and its format.")
            self.ask("   column of times", found, self.take_time)
        column = next((one for one in self.look.times if one.name == self.job.times.time), None)
        if column is None or column.local:
            text = "zone of these local times" if column else "zone of times without a zone"
            self.field("timezone", f"   {text}", _zone_here())
        else:
            self.field("timezone", "   zone in which days begin", _zone_here())
        self.field("every", "   length of a window: 15m, 1h, 1d, 1w, 1mo", "1d")

    def take_start(self, answer: str, refused: list[str]) -> None:
        """Take the beginning of the first window, or refuse it if it is later than all rows.

        The same answer a second time is accepted.

        Args:
            refused: answers refused so far.
        """
        said, newest = self.said | {"start": answer}, self.facts().newest
        begins = check_job(said, self.look)[1].definition.windows.start
        if newest is not None and newest < begins and answer not in refused:
            refused.append(answer)
            raise InvalidInput(
                f"no row would count: the newest is of {newest:%Y-%m-%d}, before {answer}; give "
                f"an earlier day, or this day again if only later rows shall count"
            )
        self.said = said

    def take_time(self, name: str) -> None:
        check_column(self.look, name)
        if name not in {one.name for one in self.look.times}:
            text = "   how its times are written, as in %d.%m.%Y %H:%M, or epoch"
            usual = None if self.facts().rows else _ISO
            if usual is not None:
                text += f", or {_ISO} (2026-10-24 09:00)"
            self.ask(text, usual, lambda form: self.take_format(name, form))
            return
        self.said["time"] = name

    def take_format(self, name: str, form: str) -> None:
        if not self.facts().rows:
            self.having(**{"time": name} | ({} if form == _ISO else {"time_format": form}))
            return
        said = self.said | {"time": name, "time_format": form}
        if self.look.for_operator(job_of(said)).first is None:
            raise InvalidInput(f"no time in column {name!r} has the format {form!r}")
        self.said = said

    def what(self) -> None:
        if "release" in self.said or self.job.people.first or self.job.times.revise is not None:
            return
        self.say(
            "2. What? The noise depends on what is published. With epsilon = 1 for one row:",
            bold=True,
        )
        for place, release in enumerate(_RELEASES, 1):
            plan = check_job(self.said | {"release": release, "epsilon": "1"}, self.look)[1]
            both = "both: " if release == "both" else ""
            self.say(f"   {place}  {both}{'; '.join(errors_in_words(plan))}")
        self.ask("   which", "1", self.take_release)

    def take_release(self, answer: str) -> None:
        numbers = dict(zip("123", _RELEASES, strict=True))
        if answer not in numbers:
            raise InvalidInput(f"{answer!r} is none of 1, 2 and 3")
        self.having(release=numbers[answer])

    def groups(self) -> None:
        self.say("3. Groups? Each has a number of its own, and its name is published.", bold=True)
        if self.job.groups.by is None:
            self.ask("   column of groups, or none", _NONE, self.take_by)
        if (
            self.job.groups.by is None
            or self.job.groups.domain is not None
            or self.job.groups.unknown == "discover"
        ):
            return
        names = [*self.facts().names]
        self.exact(f"{len(names):,} names: {_some(names, 20)}" if names else "no names yet")
        self.say(
            "  Do not copy these names: a name that only one person's rows have reveals that "
            "person. Take the names from a public list."
        )
        text = "   names, A,B,C, or a file with one in each line"
        self.ask(text, None, self.take_domain)
        self.compare_names()
        if not {"other", "unknown"} & {*self.said}:
            text = f"   rows of other names, or without one: a group for them, or {_NONE}"
            self.ask(text, "other", self.take_other)

    def take_by(self, answer: str) -> None:
        if answer != _NONE:
            for name in answer.split(","):
                check_column(self.look, name)
            self.said["by"] = answer

    def take_domain(self, answer: str) -> None:
        if answer == _KEEP and "domain" in self.said:
            return
        if "," not in answer and Path(answer).suffix in _LISTS and not Path(answer).is_file():
            raise InvalidInput(
                f"there is no file {answer!r}; correct its path, or list the names, A,B,C"
            )
        names: Any = (
            answer if Path(answer).is_file() else [one.strip() for one in answer.split(",")]
        )
        self.having(domain=names)

    def compare_names(self) -> None:
        """Show declared group names that the rows lack, and the reverse; ask until an answer is
        kept.
        """
        kept = None
        while self.said["domain"] != kept:
            kept = self.said["domain"]
            definition, facts = check_job(self.said, self.look)[1].definition, self.facts()
            listed = {str(one): None for one in definition.declared_groups}
            others = [one for one in facts.names if one not in listed]
            unused = [one for one in listed if one not in facts.names]
            if not facts.names or not (others or unused):
                return
            share = sum(facts.names[one] for one in others) / facts.rows
            differences = (
                [f"{share:.1%} of rows have other names: {_some(others)}"] if others else []
            )
            differences += [f"no row has {_some(unused)}"] if unused else []
            self.exact("; ".join(differences))
            text = "   keep these names, or write them again"
            self.ask(text, _KEEP, self.take_domain)

    def take_other(self, answer: str) -> None:
        self.having(**({"unknown": "drop"} if answer == _NONE else {"other": answer}))

    def whom(self) -> None:
        self.say("4. Whom does it protect? One row, or a person with all rows.", bold=True)
        if self.job.people.user is None and self.job.promise.unit is None:
            if (column := person_column(self.look)) is None:
                by = (self.job.groups.by or "").split(",")
                repeated = self.facts().repeated.items()
                shown = [f"{name} ({many:,})" for name, many in repeated if name not in by]
                if shown:
                    self.exact(f"columns whose values repeat, as people's do: {_some(shown)}")
            self.say(
                f"  With {_NONE}, each single row is hidden, but no person: a person with 100 rows "
                f"loses 100 times as much."
            )
            text = f"   column that names the person, or {_NONE} to protect one row"
            self.ask(text, column or _NONE, self.take_user)
            if self.job.people.user is None:
                usual = complete_job(self.said, self.look).promise.unit
                self.field("unit", "   what one row is called (published)", usual)
        if self.job.people.user is None or self.job.people.first:
            return
        offered = {} if "per" in self.said or "most" in self.said else {"per": "1d"}
        if offered:
            self.tell_bounds(**offered)
            if self.accepts(**offered, most=3):
                return
            text = "   protect what a person does in each day (1d), month (1mo), ..., or for ever"
            self.ask(text, "1d", self.take_per)
        if self.job.people.most is not None:
            return
        if self.job.people.per != offered.get("per"):
            self.tell_bounds()
        usual = None if self.job.people.per is None else "3"
        if usual is None:
            self.say("  No number is usual for ever: how many rows of one person may there be?")
        self.ask("   how many rows of one person count at most", usual, self.take_most)

    def tell_bounds(self, **more: Any) -> None:
        """Show the share of rows beyond each bound, up to the first that no row exceeds."""
        facts, told = self.facts(**more), list[str]()
        for most, share in facts.beyond.items():
            told.append(f"{share:.1%} with {most}")
            if not share:
                break
        if told:
            beyond = f"rows beyond the bound, which do not count, of the {_span(facts)}"
            self.exact(f"{beyond}: {', '.join(told)}")
        self.say("  The noise grows with this number. The rows must not choose it alone.")

    def take_user(self, answer: str) -> None:
        if answer != _NONE:
            self.having(user=answer)

    def take_per(self, answer: str) -> None:
        if answer not in ("ever", "for ever"):
            self.having(per=answer)

    def take_most(self, answer: str) -> None:
        if not answer.isdecimal():
            raise InvalidInput(f"{answer!r} is no whole number from 1 on, such as 3")
        self.having(most=int(answer))

    def rows(self) -> None:
        self.say("5. Rows without a value, and late ones?", bold=True)
        if "missing" not in self.said:
            without, (unreadable, reason) = self.facts().without, self.facts().unreadable
            every = without.pop("", 0)
            if unreadable:
                self.exact(f"{unreadable:,} rows are set aside; the first: {reason}")
            each = ", ".join(f"{many:,} without {name}" for name, many in without.items() if many)
            self.exact(f"{each}: {every:,} rows in all" if each else "none lacks a value")
            if (other := complete_job(self.said, self.look).groups.other) is not None:
                self.say(
                    f"  A row that lacks nothing but its {self.job.groups.by} is not left out: it "
                    f"counts in the group {other}."
                )
        if "watermark" not in self.said:
            self.tell_late()
            late = self.words(_late_row(self.job))
            self.say(f"  A row that comes after its window is released {late}.")
        wait = usual_wait(self.job.times.every or "1d")
        if self.accepts(missing="skip", watermark=wait):
            return
        if "missing" not in self.said:
            self.ask("   leave them out, or stop", "leave out", self.take_missing)
        if "watermark" in self.said:
            return
        others = [one.name for one in self.look.times if one.name != self.job.times.time]
        if others:
            text = f"   column that says when a row arrived ({', '.join(others)}), or {_NONE}"
            self.ask(text, _NONE, self.take_entered)
        self.field("watermark", "   wait for late rows so long after a window's end", wait)

    def take_entered(self, name: str) -> None:
        if name != _NONE:
            check_column(self.look, name)
            self.tell_late(name)

    def tell_late(self, entered: str | None = None) -> None:
        """Show the share of rows that come after each wait, if something tells when they came.

        Args:
            entered: column that says when a row arrived; None: the dates of files may tell it.
        """
        if late := self.facts(entered).late:
            shares = ", ".join(f"{share:.1%} after {wait}" for wait, share in late.items())
            self.exact(f"rows that arrive later than this after their window's end: {shares}")

    def take_missing(self, answer: str) -> None:
        words = {"leave out": "skip", "leave": "skip", "stop": "refuse"}
        if answer not in words:
            raise InvalidInput(f"{answer!r} is neither 'leave out' nor 'stop'")
        self.said["missing"] = words[answer]

    def error(self) -> None:
        if not is_unpromised(self.said):
            return
        self.say("6. How accurate? More accurate numbers hide less.", bold=True)
        for epsilon in ("1", "0.1"):
            plan = check_job(self.said | {"epsilon": epsilon}, self.look)[1]
            self.say(f"   epsilon = {epsilon}: {'; '.join(errors_in_words(plan))}")
        release = complete_job(self.said, self.look).noise.release
        of_windows = release == "windows" or self.job.times.revise is not None
        what = "it" if of_windows else "the total at the end"
        text = f"   how far off may {what} be, as in 15; or the privacy loss, as in epsilon=1"
        self.ask(text, "epsilon=1", self.take_error)
        if Fraction(str(self.said["epsilon"])) > _USUAL_EPSILON:
            self.say(f"  An epsilon of {self.said['epsilon']} hides little; at most 1 is usual.")

    def take_error(self, answer: str) -> None:
        name, is_loss, loss = answer.replace(" ", "").partition("=")
        if is_loss and name == "epsilon":
            self.having(epsilon=loss)
        elif is_loss:
            raise InvalidInput(f"{answer!r} is neither an error, as in 15, nor epsilon=1")
        else:
            self.having(epsilon=within(self.said, self.look, answer))


def _span(facts: FirstFacts) -> str:
    """Say in words over which days the rows reach, from the earliest time to the newest."""
    if facts.first is None or facts.newest is None:
        return "events"
    return f"events from {facts.first:%Y-%m-%d} to {facts.newest:%Y-%m-%d}"


def _some(names: Sequence[str], most: int = 5) -> str:
    """Join the first names, and say how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} others" if rest > 0 else "")


def _late_row(job: Job) -> str:
    """Say in which window a late row counts, and which option lets it count in its own."""
    if job.times.revise is not None:
        return f"counts in its own, which is provisional for {job.times.revise}"
    new, known = holds_new_events(job.events) or job.rows.append, job.rows.id is not None
    option = field("revise", "2d")
    if not (new or known):
        option += f" with {field('id')}"
    revised = f"; {option} counts it in its own, which is published anew for two days"
    if new or known or job.people.user is not None:
        return f"counts in the next one{revised}"
    why = "in a file of all events without ids late rows cannot be told apart"
    return f"does not count: {why}{revised}"


def _zone_here() -> str:
    """Return the zone of this machine's clock."""
    for found in (os.environ.get("TZ", ""), os.path.realpath("/etc/localtime")):
        name = found.rpartition("zoneinfo/")[2].removeprefix(":")
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, KeyError):
            continue
    return "UTC"


def _comments(job: Job, plan: PlannedJob) -> dict[str, str]:
    """Return the comments for the job file, by the key above which each stands; no exact
    numbers.
    """
    errors = "; ".join(errors_in_words(plan))
    noun = noun_of(job.times.every or "1d")
    heading = (
        "Run every night by: counton run. Change anything before the first run. After it, options\n"
        "that define the stream are fixed. Paths are relative to the folder of this file."
    )
    whose = "one row" if job.people.user is None else f"one {plan.definition.unit}"
    return {
        "": heading,
        "statistic": "how many rows there are",
        "events": "one row each",
        "state": "keeps the stream, with exact sums and beside it the key: secret",
        "time": "column of the times",
        "every": f"length of a window: a {noun}" if noun != "window" else "length of a window",
        "steps": "how many windows there will ever be",
        "around": "how many windows there may be: the noise is least for so many",
        "start": "beginning of the first window: published, so not taken from rows",
        "watermark": "how long after its end a window is released, so that late rows count",
        "revise": "how long late rows count in their own window, which is published anew",
        "quiet": "more windows than this without a row stop a run (is a file missing?); if single "
        "rows are days apart, yes = true releases such windows too",
        "timezone": "zone of local times, and of days",
        "by": "column of the groups",
        "domain": "the groups, published: from a public list, not from the rows",
        "other": "one more group, for rows of other names or of none",
        "unknown": "rows of other groups",
        "first": "these groups of a person count: the earliest ones",
        "epsilon": f"what {whose} may lose by all releases together: {errors}",
        "unit": "name of what is protected",
        "row": "what one row is called",
        "release": {
            "windows": f"each {noun}'s own number",
            "totals": "the total so far",
            "both": f"each {noun}'s own number, and the total so far",
        }.get(
            job.noise.release or ("totals" if job.times.revise is None else "windows"),
            "what is published",
        ),
        "user": "column that names the person, who is protected",
        "most": "how many rows of one person count at most",
        "per": "length of a period: most holds in each, and one period of a person is protected",
        "delta": f"the chance that {whose} may lose more than epsilon",
        "rho": f"what {whose} may lose by all releases together: {errors}",
        "within": f"how far off a number may be; it decides what {whose} may lose: {errors}",
        "id": "column that tells one row from another: each counts once, in whatever file",
        "query": "the question whose answer holds the rows",
        "format": "what kind of file it is",
        "append": "each file holds new rows only, and counts once",
        "clock-change": "local times that come twice when clocks go back",
        "bad-rows": "rows that cannot be read are set aside in this file, which is secret",
        "missing": "rows without a time, group, person or id: skip leaves them out",
        "separator": "character between fields",
        "time-format": "how times are written",
        "name": "name of the stream",
        "key": "the key of the noise: secret",
        "witness": "a second place that remembers how far the stream is",
        "out": "the numbers, which may be published",
    }


def _print(console: Console, job: Job, plan: PlannedJob, look: FirstLook, file: Path) -> None:
    """Print the plan in words, and how to run the job now and every night."""
    definition = plan.definition
    of = (
        ""
        if job.groups.by is None
        else f" of each of {len(definition.groups):,} groups ({job.groups.by})"
    )
    noun = noun_of(job.times.every or "1d")
    what = _comments(job, plan)["release"]
    console.write_line(
        f"{file} is written. It publishes {what}{of}, from {job.times.start} on.", bold=True
    )
    for error in errors_in_words(plan):
        console.write_line(f"  {error[0].upper()}{error[1:]}.")
    console.write_line(f"  promise: {promise(definition)}")
    if not look.whole:
        console.write_line("  Only the first rows were read.")
    if job.times.steps:
        console.write_line(f"  For {job.times.steps:,} windows at most. No {noun} is released yet.")
    run = shlex.join(["counton", "run", str(file)])
    console.write_line("")
    console.write_line("the first time:", bold=True)
    if first_until(job, look) is not None:
        console.write_line(f"  {run} --until newest")
        console.write_line(
            "  The newest row is some windows old: the clock would release empty windows. Its "
            "time is not protected."
        )
    else:
        console.write_line(f"  {run}")
    folder, command = str(file.resolve().parent), f"{_program()} run {shlex.quote(file.name)}"
    console.write_line("every night, a line for crontab -e:", bold=True)
    console.write_line(f"  {_crontab(job)} cd {shlex.quote(folder)} && {command}")
    name = f"counton-{file.stem}"
    console.write_line(
        f"or two files in ~/.config/systemd/user, then systemctl --user enable --now {name}.timer:",
        bold=True,
    )
    for line in _systemd(job, name, folder, command):
        console.write_line(f"  {line}".rstrip())


def _program() -> str:
    """Return the path of the program ``counton``, since crontab and systemd search few folders."""
    here = os.path.abspath(sys.argv[0])
    return shlex.quote(here if os.path.basename(here) == "counton" else "counton")


def _clock(job: Job) -> tuple[str, str]:
    """Return the hour and minute, in the job's zone, from which a run can release the last day."""
    wait = job.times.watermark or "0s"
    seconds = int(wait[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[wait[-1]]
    minutes = seconds // 60 % 1440 + 5
    return f"{minutes // 60 % 24:02}", f"{minutes % 60:02}"


def _crontab(job: Job) -> str:
    """Return the time of the job for a crontab, by this machine's clock.

    If clocks change during the year, it is the later of two times.
    """
    every = job.times.every or "1d"
    if days_of(every) < 1:
        return "*/15 * * * *" if days_of(every) < 1 / 24 else "5 * * * *"
    hour, minute = _clock(job)
    zone, here = ZoneInfo(job.times.timezone or "UTC"), ZoneInfo(_zone_here())
    year = datetime.now(zone).year
    days = [datetime(year, month, 15, int(hour), int(minute), tzinfo=zone) for month in (1, 7)]
    late = max(days, key=lambda day: (day.astimezone(here) - _midnight(day, here)).seconds)
    at = late.astimezone(here)
    return f"{at.minute} {at.hour} * * *"


def _midnight(day: datetime, here: ZoneInfo) -> datetime:
    return day.astimezone(here).replace(hour=0, minute=0)


def _systemd(job: Job, name: str, folder: str, command: str) -> list[str]:
    """Return the lines of a systemd service and its timer, which a user owns."""
    hour, minute = _clock(job)
    every = days_of(job.times.every or "1d")
    at = f"*-*-* {hour}:{minute} {job.times.timezone or 'UTC'}"
    if every < 1:
        at = "*:0/15" if every < 1 / 24 else "*:05"
    return [
        f"# {name}.service",
        "[Service]",
        "Type=oneshot",
        f"WorkingDirectory={folder}",
        f"ExecStart={command}",
        f"# {name}.timer",
        "[Timer]",
        f"OnCalendar={at}",
        "Persistent=true",
        "[Install]",
        "WantedBy=timers.target",
    ]
