"""The command that forgets a person, or all people of long ago."""

from __future__ import annotations

from counton.base.errors import InvalidInput, field
from counton.cli.command_options import ForgetOptions
from counton.cli.print_forms import Console, print_line
from counton.run.erasure import BUCKETS, Forgetting, forget, forget_older


def print_forgotten(options: ForgetOptions) -> None:
    """What was deleted, and what stays; the same words whether anybody was known or not."""
    state, name, key = options.state, options.name, options.key
    if (options.person is None) == (options.age is None):
        given = "both" if options.person is not None else "neither"
        raise InvalidInput(
            f"a person and {field('age')} are two ways to say who is forgotten, and {given} of "
            f"them is given: give one"
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
            confirmed=options.confirmed,
        )
    console = Console()
    for one in done:
        print_line(console, _outcome_in_words(one))
    print_line(
        console,
        "Not deleted: what was released, exact sums, the rows themselves, files of bad rows, and "
        "copies of the state.",
    )


def _outcome_in_words(one: Forgetting) -> str:
    if one.keeps == "sums":
        return f"Stream {one.name!r} keeps sums and nobody's rows: there is nothing to delete."
    whom = "this person"
    then = (
        f"So that nobody counts twice, it does not count one in {BUCKETS:,} of the people who are "
        f"new to it from now on."
    )
    if one.before is not None:
        whom = f"everybody in the periods that ended by {one.before:%Y-%m-%d %H:%M} UTC"
        then = "Rows of these periods do not count from now on, so that nobody counts twice."
    if one.over:
        then = "It is over, and counts nobody any more."
    return f"Stream {one.name!r} has forgotten {whom}. {then}"
