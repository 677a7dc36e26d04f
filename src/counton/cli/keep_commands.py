"""Commands that maintain a state: ``forget``, ``end``, ``mark`` and ``backup``."""

from __future__ import annotations

from typing import Any

import typer

from counton.base.errors import InvalidInput, field
from counton.cli.keep_options import (
    BackupOptions,
    EndOptions,
    ForgetOptions,
    MarkOptions,
)


def print_end(options: EndOptions) -> None:
    """End a stream, and print its last step."""
    from counton.cli.run_words import EXACT
    from counton.run.exports import only_name
    from counton.run.stream_end import end_stream
    from counton.state import Store

    with Store(options.state) as store:
        name = only_name(store.streams) if options.name is None else options.name
    end = end_stream(
        options.state, name, drop_waiting=options.drop_waiting, withdrawn=options.withdrawn
    )
    if dropped := end.for_operator():
        typer.echo(f"{EXACT}: rows that waited and are not counted: {dropped:,}", err=True)
    if options.withdrawn is not None:
        typer.echo(
            f"{name!r} is withdrawn, and releases nothing more; publish its tables and pages once "
            f"more: counton export {options.state} --name {name} --out FILE; readers see it on the "
            f"page, in the methods text and in the description beside a table, not in a CSV itself"
        )
        return
    with Store(options.state) as store:
        doubt = store.reader(name).doubt()
    typer.echo(f"stream {name!r} has ended at step {end.step:,}; begin another one by --name")
    if doubt is not None:
        typer.echo(f"note: {doubt}")


def print_mark(options: MarkOptions) -> None:
    """Put a note beside the numbers of a window, and print it."""
    from counton.run.window_notes import mark

    told: dict[str, Any] = {
        "name": options.name,
        "group": options.group,
        "withdraw": options.withdraw,
    }
    found = mark(options.state, options.window, options.note, **told)
    said = "withdrawn" if found.withdrawn else "marked"
    typer.echo(
        f"window {found.step:,} is {said} in all later tables and texts; what was published "
        "stays as it is: publish it once more"
    )


def print_backup(options: BackupOptions) -> None:
    """Copy a state (database), and print the place of the copy."""
    from counton.state.backup import back_up

    copy = back_up(options.state, options.out)
    typer.echo(
        f"copied to {copy}; the copy holds exact sums, so it is as secret as the state; once the "
        f"state has released more, a restored copy is refused",
    )


def print_forgotten(options: ForgetOptions) -> None:
    """Delete what a state (database) keeps of a person; print what was deleted and what stays.

    The printed words do not reveal whether the person was known.
    """
    from counton.cli.print_forms import Console
    from counton.run.erasure import BUCKETS, forget, forget_older

    state, name, key = options.state, options.name, options.key
    if (options.person is None) == (options.age is None):
        given = "both are" if options.person is not None else "neither is"
        raise InvalidInput(
            f"the command needs to know whom to forget: give either a person or {field('age')}; "
            f"{given} given"
        )
    if options.age is not None:
        done = forget_older(state, options.age, name=name, key=key, wait=options.wait)
    else:
        assert options.person is not None
        done = forget(
            *(state, options.person),
            name=name,
            key=key,
            wait=options.wait,
            yes=options.yes,
        )
    console = Console()
    for one in done:
        stream = f"Stream {one.name!r}"
        if one.keeps == "sums":
            console.write_line(
                f"{stream} keeps sums and no rows of persons: there is nothing to delete."
            )
            continue
        whom = "this person"
        then = (
            f"From now on, one in {BUCKETS:,} of all people who are new to the stream is not "
            "counted, so that a forgotten person is not counted twice."
        )
        if one.before is not None:
            whom = f"everybody in the periods that ended by {one.before:%Y-%m-%d %H:%M} UTC"
            then = (
                "From now on, rows of these periods are not counted, so that nobody is counted "
                "twice."
            )
        if one.over:
            then = "The stream has ended, and counts nobody any more."
        console.write_line(f"{stream} has forgotten {whom}. {then}")
    console.write_line(
        "Not deleted: what was released, exact sums, the rows themselves, files of bad rows, and "
        "copies of the state."
    )
