"""The command ``init``: it makes a job file for a file of events, by six questions."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import typer

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.exact import with_capital
from counton.base.options import MissingOptions
from counton.cli.command_options import command_line, option_names
from counton.cli.init_options import InitOptions
from counton.cli.print_forms import Console
from counton.cli.run_words import EXACT, notes_on_names, promise
from counton.job.job import NEWEST, Job
from counton.job.jobfile import last_date, save
from counton.run.definition import Definition
from counton.run.first_job import (
    BOUNDS,
    MOST_LATE,
    FirstFacts,
    FirstLook,
    JobValues,
    are_old,
    check_column,
    check_job,
    complete_job,
    days_of,
    default_state,
    errors_in_words,
    fitting_start,
    groups_to_add,
    holds_new_events,
    job_of,
    look_at,
    noun_of,
    person_column,
    refuse_state,
    required_options,
    some,
    states_no_loss,
    sufficient_wait,
    tells_arrival,
    usual_period,
    usual_start,
    usual_wait,
    with_free_files,
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
#: The usual bound on a person's rows in a period.
_MOST = 3
#: Most columns whose names, or times of arrival, are shown.
_COLUMNS = 3
#: Printed wherever names from the rows are shown.
_PUBLIC = (
    "  Do not copy these names: a name that only one person's rows have reveals that person. Take "
    "the names from a public list."
)


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
    look.refuse_other_encoding(job_of(values))
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if options.yes or not terminal:
        _refuse_missing(options, values, look)
    else:
        try:
            values = _Questions(console, look, values).ask_all()
        except (KeyboardInterrupt, typer.Abort):
            console.write_line("\nnothing is written")
            raise
    job, plan = check_job(values, look)
    job = with_free_files(job, values, options.save)
    runs = _check_rows(job, look, plan.definition, interactive=terminal and not options.yes)
    save(job, options.save, _comments(job, plan, options.save), anew=True)
    _print(console, job, plan, look, options.save, runs=runs)


def _refuse_missing(options: InitOptions, values: JobValues, look: FirstLook) -> None:
    """Refuse to continue if needed options are missing: name all of them, and show a command to
    edit.
    """
    left = required_options(values, look)
    if options.yes and not left:
        return
    example: dict[str, Any] = {name: value for one in left for name, value in one.example.items()}
    command = command_line("init", replace(options, yes=True, **example))
    lines = [f"  {one.line}" for one in left]
    if (job := job_of(values)).groups.by is None and job.groups.domain is None:
        lines.append(groups_to_add(job, look))
    whole = "" if look.has_all_rows else "; only the first rows were read"
    columns = f"its columns are {', '.join(look.columns)}{whole}"
    why = "the events do not tell some options" if options.yes else "there is no terminal to ask at"
    raise MissingOptions(
        "\n".join([f"{why}; {columns}; give a value for each:", *lines, "as in:", command]),
        [name for one in left for name in one.example],
    )


def _check_rows(job: Job, look: FirstLook, definition: Definition, *, interactive: bool) -> bool:
    """Read the first rows of events as a run does, and return whether a run would accept them.

    If the command asked no questions, also print how many rows are left out or late.

    Args:
        interactive: whether the command asked questions; a refusal is then printed, not raised.
    """
    errors = Console(stderr=True)
    try:
        found = look.read_as_run(job)
    except CountonError as error:
        if not interactive:
            raise
        message = error.translate(option_names(InitOptions))
        errors.write_line(f"A run would refuse these rows today: {message}")
        return False
    if interactive:
        return True
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
            of = "" if look.has_all_rows else " of the first rows"
            errors.write_line(f"{EXACT}: {what}{of}: {rows:,}{aside}")
        aside = ""
    for note in notes_on_names(found, definition):
        errors.write_line(f"{EXACT}: {note}")
    if job.lateness.revise is None:
        for by, late in _lateness(look, job).items():
            wait = job.lateness.watermark or "0s"
            if tells_arrival(by) and late.get(wait, 0) > MOST_LATE:
                errors.write_line(
                    f"{EXACT}: {late[wait]:.1%} of rows arrive{by} later than {wait} after their "
                    f"window's end; {option_names(InitOptions)['watermark']} "
                    f"{sufficient_wait(late, wait)} waits longer"
                )
    return True


def _fields_in(answer: str, names: Collection[str]) -> dict[str, str]:
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
        found[name] = value
    return found


def _as_answer(stated: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in stated.items())


def _names_in(answer: str) -> str | list[str]:
    """Read names of groups from an answer: return the answer if it is the path of a file, else the
    names that it lists, separated by commas.
    """
    if Path(answer).is_file():
        return answer
    if "," not in answer and Path(answer).suffix in _LISTS:
        raise InvalidInput(
            f"there is no file {answer!r}; correct its path, or list the names, A,B,C"
        )
    return [one.strip() for one in answer.split(",")]


def _whole_number(answer: str) -> int:
    if not answer.isdecimal():
        raise InvalidInput(f"{answer!r} is no whole number from 1 on, such as 3")
    return int(answer)


class _Questions:
    """The questions that the command ``init`` asks at a terminal. A question is left out if the
    command's options answer it.
    """

    def __init__(self, console: Console, look: FirstLook, values: JobValues) -> None:
        self.console, self.look, self.values = console, look, dict(values)
        self.stated = {*values}
        # A column without names is refused: it waits for the question of its names.
        named = "domain" in values or self.job.groups.unknown == "discover"
        self.by = None if named else self.values.pop("by", None)
        self.names = option_names(InitOptions)

    @property
    def time(self) -> str | None:
        """Name of the column that most likely holds the events' times; None if no column holds
        times in a known format.
        """
        return next((one.name for one in self.look.times), None)

    @property
    def job(self) -> Job:
        """The job, as far as options and answers have stated it so far."""
        return job_of(self.values)

    def ask_all(self) -> JobValues:
        """Ask all questions, and return the fields that options and answers state.

        Raises:
            InvalidInput: the stated options do not go together, whatever is answered.
        """
        found: dict[str, Any] = {"time": self.time or self.look.columns[0], "start": usual_start()}
        if self.by is not None:
            found |= {"by": self.by, "domain": ["A", "B"]}
        check_job(found | self.values, self.look)
        sample = "" if self.look.has_all_rows else "; only the first rows are read"
        self.say(f"columns: {', '.join(self.look.columns)}{sample}")
        self.say(
            "Numbers called exact are not private: they are for you alone, and written nowhere. "
            "Enter takes the answer in brackets; or write what differs, as in every=1h."
        )
        for question in (self.when, self.what, self.groups, self.whom, self.rows, self.error):
            self.console.write_line("")
            question()
        self.console.write_line("")
        return self.values

    def say(self, text: str, *, bold: bool = False) -> None:
        self.console.write_line(text, bold=bold)

    def exact(self, text: str) -> None:
        self.say(f"  exact: {text}")

    def facts(self, entered: str | None = None, **more: Any) -> FirstFacts:
        """Return exact facts about the first rows of the events, read by the job's options stated
        so far.

        Args:
            entered: column with the time at which each row arrived.
            more: further fields of the job, not accepted yet.
        """
        return self.look.for_operator(complete_job(self.values | more, self.look), entered)

    def ask(self, text: str, usual: str | None, take: Callable[[str], Any]) -> None:
        """Ask a question until its answer is accepted; after each refusal print the reason.

        Args:
            usual: answer that an empty line stands for; None if an answer must be typed.
            take: function that stores the answer, or raises an error that refuses it.
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

    def choose(
        self,
        text: str,
        usual: Mapping[str, Any],
        take: Callable[..., None] | None = None,
        also: Sequence[str] = (),
    ) -> None:
        """Ask one question for several fields at once; fields that are stated already are left out.
        An empty line takes the usual values.

        Args:
            usual: the fields, each with its usual value; None for a field without a usual value.
            take: function that stores the fields, or raises an error that refuses them; None: they
                are stored if a run would accept them.
            also: further fields that an answer may state.
        """
        left = {name: value for name, value in usual.items() if name not in self.values}
        if not left:
            return
        known = {name: value for name, value in left.items() if value is not None}

        def take_fields(answer: str) -> None:
            found = known | _fields_in(answer, [*left, *also])
            if lacking := [name for name in left if name not in found]:
                raise InvalidInput(f"{lacking[0]} has no usual value: write {lacking[0]}=...")
            (take or self.accept)(**found)

        self.ask(f"   {text}", _as_answer(known), take_fields)

    def accept(self, **more: Any) -> None:
        values = self.values | more
        check_job(values, self.look)
        self.values = values

    def when(self) -> None:
        self.say("1. When? Each row is counted in the window of its time.", bold=True)
        found, facts = self.time, self.facts()
        if "time" not in self.values and not facts.rows:
            self.say(f"  {self.job.events} has no rows yet: name the column of times.")
        elif "time" not in self.values and found is None:
            self.say("  No column holds times in a known format: name one.")
        if facts.first is not None:
            self.exact(_span(facts))
        self.say(
            "  The start is published: rows before it do not count, and windows before the first "
            "row are published, too."
        )
        usual = {"time": found, "timezone": _zone_here(), "every": "1d", "start": usual_start()}
        job = complete_job(usual | self.values, self.look)
        if "start" not in self.values and (start := fitting_start(job, self.look)) is not None:
            usual["start"] = start
            self.exact(
                f"no row is of this year, so start={start} is of the first row's, which Enter "
                "publishes; a day known without the rows is better"
            )
        if "until" not in self.values and are_old(job, self.look):
            usual["until"] = NEWEST
            self.say(
                f"  until={NEWEST} releases up to the newest row, whose window is not protected; "
                "until=now fits once rows come every night."
            )
        refused: list[str] = []
        self.choose(
            "column of times, zone of days, length of a window (15m, 1h, 1w, 1mo), start",
            usual,
            lambda **fields: self.take_times(fields, refused),
            ["time_format", "until"],
        )

    def take_times(self, fields: JobValues, refused: list[str]) -> None:
        """Store the answers on times; ask for the format of times if it is unknown.

        A start that lies after all rows is refused once; if it is given a second time, it is
        accepted.

        Args:
            refused: list of the starts refused so far, which is extended.
        """
        values = {**self.values, **fields}
        begins = check_job(values, self.look)[1].definition.windows.start
        if "time_format" in values:
            self.check_format(values)
        elif values["time"] not in {one.name for one in self.look.times}:
            formats = list[str]()
            text = "   how its times are written, as in %d.%m.%Y %H:%M, or epoch"
            usual = None if self.facts().rows else _ISO
            if usual is not None:
                text += f", or {_ISO} (2026-10-24 09:00)"
            self.ask(text, usual, lambda form: formats.append(self.check_format(values, form)))
            values |= {} if formats[0] == _ISO else {"time_format": formats[0]}
        start, newest = fields.get("start"), self.facts(**values).newest
        if start and newest is not None and newest < begins and start not in refused:
            refused.append(start)
            raise InvalidInput(
                f"no row would count: the newest is of {newest:%Y-%m-%d}, before {start}; give "
                f"an earlier day, or this day again if only later rows shall count"
            )
        self.values = values

    def check_format(self, values: JobValues, form: str | None = None) -> str:
        """Check that some time in the rows has the format ``form``, and return that format. None
        stands for the format that ``values`` state.

        Raises:
            InvalidInput: no time has the format.
        """
        form = values["time_format"] if form is None else form
        if not self.facts().rows:
            check_job(values if form == _ISO else {**values, "time_format": form}, self.look)
        elif self.facts(**{**values, "time_format": form}).first is None:
            raise InvalidInput(f"no time in column {values['time']!r} has the format {form!r}")
        return form

    def what(self) -> None:
        if (
            "release" in self.values
            or self.job.people.first
            or self.job.lateness.revise is not None
        ):
            return
        if complete_job(self.values, self.look).noise.release is None:
            kind = "whose groups are found" if self.job.times.around is None else "without an end"
            self.say(f"2. What? A stream {kind} publishes the total so far.", bold=True)
            return
        loss = {"epsilon": "1"} if states_no_loss(self.values) else {}
        given = "epsilon = 1 for one row" if loss else "the stated privacy loss"
        self.say(f"2. What? The noise depends on what is published. With {given}:", bold=True)
        for place, release in enumerate(_RELEASES, 1):
            plan = check_job(self.values | loss | {"release": release}, self.look)[1]
            both = "both: " if release == "both" else ""
            self.say(f"   {place}  {both}{'; '.join(errors_in_words(plan))}")
        self.ask("   which", "1", self.take_release)

    def take_release(self, answer: str) -> None:
        numbers = dict(zip("123", _RELEASES, strict=True))
        if answer not in numbers:
            raise InvalidInput(f"{answer!r} is none of 1, 2 and 3")
        self.accept(release=numbers[answer])

    def groups(self) -> None:
        self.say("3. Groups? Each has a number of its own, and its name is published.", bold=True)
        told: list[str] = []
        if self.by is not None:
            self.take_groups(self.by)
        elif self.job.groups.by is None:
            columns = [one for one in self.facts().repeated if one != person_column(self.look)]
            told += [name for name in columns[:_COLUMNS] if self.tell_names(name)]
            if told:
                self.say(_PUBLIC)
            column = told[0] if told else self.look.columns[0]
            text = f"   a column and its names, as in {column}=A,B,C or {column}=names.txt"
            self.ask(f"{text}; or {_NONE}", _NONE, self.take_groups)
        if self.job.groups.by is None or self.job.groups.unknown == "discover":
            return
        if "domain" not in self.values:
            if self.job.groups.by not in told:
                if not self.tell_names(self.job.groups.by):
                    self.exact("no names yet")
                self.say(_PUBLIC)
            text = "   names, A,B,C, or a file with one in each line"
            self.ask(text, None, lambda answer: self.accept(domain=_names_in(answer)))
        elif "domain" in self.stated:
            return
        self.compare_names()

    def tell_names(self, by: str) -> bool:
        """Show the exact names in a column; return whether there are any."""
        names = [*self.facts(by=by).names]
        if names:
            self.exact(f"{by} has {len(names):,} names: {some(names, 20)}")
        return bool(names)

    def take_groups(self, answer: str) -> None:
        """Store an answer such as ``page=home,shop``: the column of groups, with their names. Names
        that are missing are asked for.
        """
        if answer == _NONE:
            return
        by, _, names = answer.partition("=")
        for name in by.split(","):
            check_column(self.look, name)
        if names:
            self.accept(by=by, domain=_names_in(names))
        else:
            self.values["by"] = by

    def compare_names(self) -> None:
        """Show how the declared names of groups differ from the names in the rows; ask for the
        names again while some declared name occurs in no row.
        """
        kept = None
        while self.values["domain"] != kept:
            kept = self.values["domain"]
            definition, facts = check_job(self.values, self.look)[1].definition, self.facts()
            listed = {str(one): None for one in definition.roster.declared_groups}
            others = [one for one in facts.names if one not in listed]
            unused = [one for one in listed if one not in facts.names]
            if not facts.names or not (others or unused):
                return
            share = sum(facts.names[one] for one in others) / facts.rows
            differences = (
                [f"{share:.1%} of rows have other names: {some(others)}"] if others else []
            )
            differences += [f"no row has {some(unused)}"] if unused else []
            self.exact("; ".join(differences))
            if unused:
                text = "   keep these names, or write them again"
                self.ask(text, _KEEP, self.take_other_names)

    def take_other_names(self, answer: str) -> None:
        if answer != _KEEP:
            self.accept(domain=_names_in(answer))

    def whom(self) -> None:
        self.say(
            "4. Whom does it protect? One row, a person's day (per=1d), or a person with all rows "
            "(per=ever).",
            bold=True,
        )
        people = self.job.people
        if people.first or people.most is not None:
            return
        if people.user is None and self.job.promise.unit is not None:
            return
        usual, shown = f"{_NONE} {_as_answer({'unit': self.unit_of_rows()})}", dict[str, Any]()
        found = person_column(self.look)
        column = people.user or (None if found == self.job.rows.id else found)
        if column is not None:
            shown = {"user": column, "per": people.per or usual_period(self.job)}
            self.tell_bounds(shown)
            left = {one: value for one, value in shown.items() if one not in self.values}
            usual = _as_answer(left | {"most": _MOST})
        else:
            by = (self.job.groups.by or "").split(",")
            repeated = self.facts().repeated.items()
            columns = [f"{name} ({many:,})" for name, many in repeated if name not in by]
            if columns:
                self.exact(f"columns whose values repeat, as people's do: {some(columns)}")
        if people.user is None:
            self.say(
                f"  With {_NONE}, each single row is hidden, but no person: a person with 100 rows "
                f"loses 100 times as much."
            )
        text = "   column of people, and how many rows of one count in 1d, 1mo or ever"
        text += "" if people.user is not None else f"; or {_NONE}, and a row's name (published)"
        self.ask(text, usual, lambda answer: self.take_whom(answer, shown))

    def unit_of_rows(self) -> str | None:
        return complete_job(self.values, self.look).promise.unit

    def tell_shares(self, people: JobValues, *, shown: bool = False) -> None:
        """Show the fraction of rows that each bound on a person's rows leaves out, up to the first
        bound that leaves out none.

        Args:
            people: the column of people and the period.
            shown: True if the fractions for the usual bounds were shown already. Then only the
                fraction for the job's own bound is shown, or nothing if that bound is a usual one.
        """
        facts, told = self.facts(**people), list[str]()
        for most, share in facts.beyond.items():
            if shown and (most in BOUNDS or most != self.job.people.most):
                continue
            told.append(f"{share:.1%} with {most}")
            if not share:
                break
        if told:
            often = f"in {people['per']}" if "per" in people else "for ever"
            beyond = f"rows that a bound {often} leaves out, of the {_span(facts)}"
            self.exact(f"{beyond}: {', '.join(told)}")

    def tell_bounds(self, people: JobValues) -> None:
        """Show the fraction of rows that each bound on a person's rows leaves out, and a remark on
        noise, before the bound is asked for.
        """
        self.tell_shares(people)
        self.say("  The noise grows with the bound. The rows must not choose it alone.")

    def take_whom(self, answer: str, shown: JobValues) -> None:
        """Store an answer on the protected unit. The answer may state the column of people, the
        period, the bound on a person's rows and the name of the unit. If it states no bound, and
        another column or period than ``shown``, the fractions of rows that bounds leave out are
        shown first, and the bound is asked for.

        Args:
            shown: the column of people and the period whose bounds were shown; empty if there is no
                column.
        """
        if "user" not in self.values and (answer == _NONE or answer.startswith(f"{_NONE} ")):
            unit = _fields_in(answer.removeprefix(_NONE), ["unit"])
            self.accept(**({"unit": self.unit_of_rows()} | unit))
            return
        names = [one for one in ("user", "per", "most", "unit") if one not in self.values]
        given: dict[str, Any] = {**_fields_in(answer, names)}
        found = {"per": usual_period(self.job), **self.values, **shown, **given}
        if "user" not in found:
            raise InvalidInput(
                f"to protect a person, name the column of people, user=COLUMN; or write {_NONE}"
            )
        people = {name: found[name] for name in ("user", "per") if found[name] != "ever"}
        more = {name: value for name, value in given.items() if name == "unit"} | people
        if "most" in given:
            self.accept(**more, most=_whole_number(given["most"]))
            self.tell_shares(people, shown=people == shown)
            return
        check_job(self.values | more | {"most": _MOST}, self.look)  # refuses the other fields first
        if people == shown:
            self.accept(**more, most=_MOST)
            return
        self.tell_bounds(people)
        usual = str(_MOST) if "per" in people else None
        if usual is None:
            self.say("  No number is usual for ever: how many rows of one person may there be?")
        text = "   how many rows of one person count at most"
        self.ask(text, usual, lambda most: self.accept(**more, most=_whole_number(most)))
        self.tell_shares(people, shown=True)

    def rows(self) -> None:
        self.say("5. Rows without a value, and late ones?", bold=True)
        usual = {"missing": "skip"}
        if "missing" not in self.values:
            without, (unreadable, reason) = self.facts().without, self.facts().unreadable
            every = without.pop("", 0)
            if unreadable:
                self.exact(f"{unreadable:,} rows are set aside; the first: {reason}")
            each = ", ".join(f"{many:,} without {name}" for name, many in without.items() if many)
            self.exact(f"{each}: {every:,} rows in all" if each else "none lacks a value")
        if "domain" in self.values and "unknown" not in self.values:
            usual["other"] = self.job.groups.other or "other"
            self.say(
                f"  A row that lacks nothing but its {self.job.groups.by}, or has another name, "
                f"counts in the group {usual['other']}; {_NONE} leaves it out."
            )
        if "watermark" not in self.values:
            usual["watermark"] = self.usual_watermark()
            job = self.job
            late = _late_row(job)
            if job.lateness.revise is None:
                known = holds_new_events(job.events) or job.rows.append or job.rows.id is not None
                id_too = "" if known else f" {field('id')} COLUMN"
                late += (
                    "; to count it in its own, published anew for two days, begin init again with "
                    f"{field('revise', '2d')}{id_too}"
                )
            late = InvalidInput(late).translate(self.names)  # options as on the command line
            self.say(f"  A row that comes after its window is released {late}.")
        text = "rows that lack something (skip; refuse stops at bad rows), the wait for late ones"
        self.choose(text, usual, self.take_rows, ["domain"])

    def take_rows(self, **fields: Any) -> None:
        if fields.get("other") == _NONE:
            del fields["other"]
            fields["unknown"] = "drop"
        if "domain" in fields:
            fields["domain"] = _names_in(fields["domain"])
        self.accept(**fields)
        if "domain" in fields:
            self.compare_names()

    def usual_watermark(self) -> str:
        """Return the wait for late rows to suggest; before that, show which fraction of rows
        arrives after each waiting time.

        The fractions are shown for each column that may tell when a row arrived, or for the dates
        of files.
        """
        usual, known = usual_wait(self.job.times.every or "1d"), False
        for by, late in _lateness(self.look, complete_job(self.values, self.look)).items():
            shares = ", ".join(f"{share:.1%} after {wait}" for wait, share in late.items())
            self.exact(f"rows that arrive{by} later than this after their window's end: {shares}")
            if not tells_arrival(by):
                continue
            if not known and (wait := sufficient_wait(late, usual)) != usual:
                self.exact(
                    f"{wait} is suggested, because more than {MOST_LATE:.0%} of rows arrive{by} "
                    f"later than {usual}"
                )
                usual = wait
            known = True
        if not known:
            self.say(
                f"  Nothing tells when rows arrive: {usual} is a guess. A longer wait is safer."
            )
        return usual

    def error(self) -> None:
        if not states_no_loss(self.values):
            return
        self.say("6. How accurate? More accurate numbers hide less.", bold=True)
        for epsilon in ("1", "0.1"):
            plan = check_job(self.values | {"epsilon": epsilon}, self.look)[1]
            self.say(f"   epsilon = {epsilon}: {'; '.join(errors_in_words(plan))}")
        release = complete_job(self.values, self.look).noise.release
        of_windows = release == "windows" or self.job.lateness.revise is not None
        what = "it" if of_windows else "the total at the end"
        text = f"   how far off may {what} be, as in 15; or the privacy loss, as in epsilon=1"
        self.ask(text, "epsilon=1", self.take_error)
        if Fraction(str(self.values["epsilon"])) > _USUAL_EPSILON:
            self.say(f"  An epsilon of {self.values['epsilon']} hides little; at most 1 is usual.")

    def take_error(self, answer: str) -> None:
        name, is_named, value = answer.replace(" ", "").rpartition("=")
        if name == "epsilon":
            self.accept(epsilon=value)
        elif is_named and name != "within":
            raise InvalidInput(f"{answer!r} is neither an error, as in 15, nor epsilon=1")
        else:
            self.accept(epsilon=within(self.values, self.look, value))


def _span(facts: FirstFacts) -> str:
    """Describe in words the days that the rows cover, from the earliest time to the newest."""
    if facts.first is None or facts.newest is None:
        return "events"
    return f"events from {facts.first:%Y-%m-%d} to {facts.newest:%Y-%m-%d}"


def _lateness(look: FirstLook, job: Job) -> dict[str, dict[str, float]]:
    """Measure how late rows arrive: return exact fractions of rows by waiting time, for several
    ways to tell when a row arrived.

    The keys are "" (the dates of the files tell it) and " by COLUMN" (a second column of times
    tells it). A way without a result is left out.
    """
    times = [one.name for one in look.times if one.name != job.times.time]
    ways = {"" if one is None else f" by {one}": one for one in (None, *times[:_COLUMNS])}
    found = {by: look.for_operator(job, entered).late for by, entered in ways.items()}
    return {by: late for by, late in found.items() if late}


def _late_row(job: Job) -> str:
    """Describe what happens to a row that comes after the release of its window: where it counts,
    or that it does not.
    """
    if job.lateness.revise is not None:
        return f"counts in its own, which is provisional for {job.lateness.revise}"
    new = holds_new_events(job.events) or job.rows.append
    if new or job.rows.id is not None or job.people.user is not None:
        return "counts in the next one"
    return "does not count: in a file of all events without ids late rows cannot be told apart"


def _zone_here() -> str:
    """Return the name of the time zone of this machine's clock."""
    for found in (os.environ.get("TZ", ""), os.path.realpath("/etc/localtime")):
        name = found.rpartition("zoneinfo/")[2].removeprefix(":")
        try:
            return ZoneInfo(name).key
        except (ValueError, OSError, KeyError):
            continue
    return "UTC"


def _comments(job: Job, plan: PlannedJob, file: Path) -> dict[str, str]:
    """Return the comments of the job file: each key's comment stands above it in the file; "" is
    the file's heading.

    The comments contain no exact numbers.
    """
    errors = "; ".join(errors_in_words(plan))
    noun = noun_of(job.times.every or "1d")
    name = shlex.quote(file.name) if file.name.isprintable() else "FILE"
    heading = (
        f"Run every night by: counton run {name}\n"
        "Change anything before the first run. After it, options that define the stream are\n"
        "fixed. Paths are relative to the folder of this file."
    )
    whose = "one row" if job.people.user is None else f"one {plan.definition.unit}"
    lacking = "group, " if job.groups.other is None else ""  # other counts rows without a group
    return {
        "": heading,
        "statistic": "how many rows there are",
        "events": "one row each",
        "state": "keeps the stream, with exact sums: secret"
        if job.keeping.key is not None
        else "keeps the stream, with exact sums and beside it the key: secret",
        "time": "column of the times",
        "every": f"length of a window: a {noun}" if noun != "window" else "length of a window",
        "steps": "how many windows there will ever be",
        "around": "how many windows there may be: the noise is least for so many",
        "start": "beginning of the first window: published",
        "until": "which windows a run releases: those that ended by now, or by the newest event, "
        "whose time is then not protected; without this line the clock decides",
        "watermark": "how long after its end a window is released, so that late rows count",
        "revise": "how long late rows count in their own window, which is published anew",
        "quiet": "a run stops if more windows than this have ended since the newest event, its own "
        "window among them (is a file missing?); if single rows are days apart, yes = true "
        "releases them all",
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
            job.noise.release or ("totals" if job.lateness.revise is None else "windows"),
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
        "missing": f"rows without a time, {lacking}person or id: skip leaves them out",
        "separator": "character between fields",
        "time-format": "how times are written",
        "name": "name of the stream",
        "key": "the key of the noise: secret",
        "witness": "a second place that remembers how far the stream is",
        "out": "the numbers, which may be published",
    }


def _print(
    console: Console, job: Job, plan: PlannedJob, look: FirstLook, file: Path, *, runs: bool
) -> None:
    """Print the plan in words, and how to run the job now and every night.

    Args:
        runs: whether a run would accept the rows; otherwise no first run is recommended.
    """
    definition = plan.definition
    of = (
        ""
        if job.groups.by is None
        else f" of each of {len(definition.groups):,} groups ({job.groups.by})"
    )
    noun = noun_of(job.times.every or "1d")
    what = _comments(job, plan, file)["release"]
    console.write_line(
        f"{file} is written. It publishes {what}{of}, from {job.times.start} on.", bold=True
    )
    for error in errors_in_words(plan):
        console.write_line(f"  {with_capital(error)}.")
    console.write_line(f"  promise: {promise(definition)}")
    wait = job.lateness.watermark or "0s"
    console.write_line(f"  A row that comes later than {wait} after its {noun} {_late_row(job)}.")
    if not look.has_all_rows:
        console.write_line("  Only the first rows were read.")
    if job.times.steps:
        console.write_line(f"  For {job.times.steps:,} windows at most. No {noun} is released yet.")
    console.write_line("")
    if not runs:
        console.write_line("before the first run:", bold=True)
        console.write_line(
            "  Mend what a run refuses, or begin init again with --force and other options. It "
            "then prints the lines for every night."
        )
        return
    console.write_line("the first time:", bold=True)
    console.write_line(f"  {shlex.join(['counton', 'run', str(file)])}")
    if job.times.until == NEWEST:
        console.write_line(f"  Once rows come every night, take until = {NEWEST!r} out of {file}.")
    here = os.path.abspath(sys.argv[0])  # crontab and systemd search few folders for programs
    program = here if os.path.basename(here) == "counton" else "counton"
    folder, command = str(file.resolve().parent), shlex.join([program, "run", file.name])
    console.write_line("every night, a line for crontab -e:", bold=True)
    line = f"cd {shlex.quote(folder)} && {command}".replace("%", r"\%")  # cron ends a line at %
    console.write_line(f"  {_crontab(job)} {line}")
    name = f"counton-{file.stem}"
    console.write_line(
        f"or two files in ~/.config/systemd/user, then systemctl --user enable --now {name}.timer:",
        bold=True,
    )
    for line in _systemd(job, name, folder, command):
        console.write_line(f"  {line}".rstrip())


def _clock(job: Job) -> tuple[str, str]:
    """Return the hour and minute, in the job's time zone, at which a nightly run can first release
    the day before.
    """
    wait = job.lateness.watermark or "0s"
    seconds = int(wait[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[wait[-1]]
    minutes = seconds // 60 % 1440 + 5
    return f"{minutes // 60 % 24:02}", f"{minutes % 60:02}"


def _crontab(job: Job) -> str:
    """Return the times of runs in the form of a crontab, by this machine's clock.

    Runs come each quarter of an hour for windows shorter than an hour, each hour for windows
    shorter than a day, else each night. If the night's time differs between winter and summer, the
    later one is taken.
    """
    every = job.times.every or "1d"
    if days_of(every) < 1:
        return "*/15 * * * *" if days_of(every) < 1 / 24 else "5 * * * *"
    hour, minute = _clock(job)
    zone, here = ZoneInfo(job.times.timezone or "UTC"), ZoneInfo(_zone_here())
    year = datetime.now(zone).year
    days = [datetime(year, month, 15, int(hour), int(minute), tzinfo=zone) for month in (1, 7)]
    local = [day.astimezone(here) for day in days]
    at = max(local, key=lambda day: (day - day.replace(hour=0, minute=0)).seconds)
    return f"{at.minute} {at.hour} * * *"


def _systemd(job: Job, name: str, folder: str, command: str) -> list[str]:
    """Return the lines of a systemd service, and of its timer, for the user's own systemd."""
    hour, minute = _clock(job)
    every = days_of(job.times.every or "1d")
    at = f"*-*-* {hour}:{minute} {job.times.timezone or 'UTC'}"
    if every < 1:
        at = "*:0/15" if every < 1 / 24 else "*:05"
    return [
        f"# {name}.service",
        "[Service]",
        "Type=oneshot",
        f"WorkingDirectory={folder}".replace("%", "%%"),  # otherwise a specifier
        f"ExecStart={command}".replace("%", "%%"),
        f"# {name}.timer",
        "[Timer]",
        f"OnCalendar={at}",
        "Persistent=true",
        "[Install]",
        "WantedBy=timers.target",
    ]
