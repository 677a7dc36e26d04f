"""The command that forgets a person."""

from __future__ import annotations

from rich.console import Console

from counton.cli.options import ForgetOptions
from counton.cli.printing import print_line
from counton.jobs.forgetting import BUCKETS, forget


def print_forgotten(options: ForgetOptions) -> None:
    """What was deleted, and what stays; the same words whether the person was known or not."""
    done = forget(options.state, options.person, name=options.name, key=options.key)
    console = Console()
    for one in done:
        if one.keeps == "sums":
            print_line(console, f"stream {one.name!r} keeps sums and nobody's rows: nothing to do")
            continue
        print_line(
            console,
            f"stream {one.name!r} knows this person no more; of people who are new to it, one in "
            f"{BUCKETS:,} is not counted from now on, so that nobody counts twice",
        )
    print_line(
        console,
        "stays: what was released, and sums in which the person was counted; not touched: the rows "
        "themselves, files of bad rows, and copies of the state",
    )
