"""The commands ``export`` and ``publish``, which write existing releases once more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from counton.base.errors import InvalidInput
from counton.cli.print_forms import Console, print_json, print_json_rows, tell_of_old_copies
from counton.cli.show_options import ExportOptions, MethodsOptions, PublishOptions
from counton.released.read_options import LOOK
from counton.released.release_facts import facts_of
from counton.released.release_files import read_public
from counton.released.released_numbers import ReleasedNumbers
from counton.released.screen import text_table
from counton.released.stream_words import promise_in_words
from counton.run.exports import export, methods, publish
from counton.run.written_files import PAGES, PICTURES

#: Largest number of rows on the screen.
_ROWS = 40


def perform(options: ExportOptions) -> None:
    """Read a release from its state, and write it to a file, or print its description."""
    ending = "" if options.out is None else options.out.suffix.lower()
    arguments = dict(vars(options))
    for own in ("state", "out", "json"):
        del arguments[own]
    for given in LOOK:
        if ending not in (*PICTURES, *PAGES) and arguments[given] is not None:
            raise InvalidInput(
                f"--{given} is for charts, and no chart is written: give --out with "
                f"{', '.join((*PICTURES, *PAGES))} too, or leave --{given} out"
            )
    found = export(options.state, options.out, **arguments).numbers
    if options.json:
        report = {"about": facts_of(found), "steps": _reach(found)}
        if options.out is not None:
            print_json({**report, "out": str(options.out)})
        else:
            print_json_rows(report, found.table())
        return
    console = Console()
    head = f"{found.design.name}: {_what(found)}"
    console.write_line(head, bold=True)
    console.write_line(f"promise: {promise_in_words(found.definition)}")
    console.write_line(f"intervals: {100 * found.level:g}%, for one number at a time")
    for note in found.facts().get("notes", ()):
        console.write_line(f"note: {note}")
    if options.out is not None:
        kind = "chart" if ending in PICTURES else "page" if ending in PAGES else "table"
        console.write_line(f"{kind} written to {options.out}")
        return
    console.write_line("")
    table = found.table()
    console.write_table(text_table(table.tail(_ROWS)))
    if table.height > _ROWS:
        console.write_line(
            f"the last {_ROWS} of {table.height:,} rows; all of them: --out FILE, or --json"
        )


def _reach(found: ReleasedNumbers) -> list[int] | None:
    steps = found.shown_steps
    return [steps.start, steps.stop - 1] if found.definition.cut.goes_on else None


def _what(found: ReleasedNumbers) -> str:
    if not found.definition.cut.goes_on:
        return f"{found.definition.what}, released at one go"
    return f"steps {found.shown_steps.start:,} to {found.shown_steps.stop - 1:,}"


def print_methods(options: MethodsOptions) -> None:
    """Print the text for a publication: for each release of a state (database), or for one."""
    chosen: Any = {"name": options.name, "level": options.level}
    if (one := read_public(options.state, **chosen)) is not None:
        found = {one.numbers.design.name: one.methods(full=options.full)}
    else:
        from counton.state import Store

        with Store(options.state) as store:
            found = methods(store, **chosen, full=options.full)
            tell_of_old_copies(store, found)
    if options.json:
        print_json({"state": options.state, "methods": found})
        return
    console = Console()
    for place, (name, paragraph) in enumerate(found.items()):
        if place:
            console.write_line("")
        if len(found) > 1:
            console.write_line(f"{name}", bold=True)
        console.write_line(paragraph)


def print_published(options: PublishOptions) -> None:
    """Publish a release in a database, or remove it; print the number of steps and the database."""
    done = publish(**{name: value for name, value in vars(options).items() if name != "json"})
    if options.json:
        print_json(asdict(done))
        return
    console = Console()
    if options.remove:
        console.write_line(f"stream {done.stream!r}: {done.before:,} steps removed, {done.place}")
        return
    new = done.after - done.before
    steps = "step" if new == 1 else "steps"
    console.write_line(
        f"stream {done.stream!r}: {new:,} new {steps}, {done.after:,} in all, in the view "
        f"counton_releases of {done.place}"
    )
