"""The command ``counton forget``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counton.base.errors import InvalidInputError, field
from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import key_option, state_argument

if TYPE_CHECKING:
    from counton.run.erasure import UserErasure


@click.command("forget", cls=CountonCommand)
@state_argument
@click.argument("person", required=False, help="The user to forget, as written in the rows.")
@option(
    "--older",
    "age",
    help="Instead of one user: forget all users of periods that ended this long ago, as in 90d or "
    "12w.",
)
@option("--name", help="Forget in this stream only. [default: all streams of the state]")
@key_option
@option(
    "--wait",
    type=int,
    default=0,
    metavar="SECONDS",
    help="While a service runs: how long to wait until it has counted the rows it has.",
)
@option(
    "--yes",
    is_flag=True,
    help="Forget the user even if, as a result, a thousandth of all new users no longer counts.",
)
def forget(
    state: str,
    person: str | None,
    age: str | None,
    name: str | None,
    key: str | None,
    wait: int,
    yes: bool,
) -> None:
    """Delete what a state keeps of a person, or of all people of long ago (--older).

    A state keeps digests of the people whose rows have counted. Released numbers and sums stay as
    they are. A service may run meanwhile: give --wait 60. The rows themselves, and copies of the
    state, are yours to delete.
    """
    from counton.cli.print_forms import Console
    from counton.run import erasure

    if person is not None and age is None:
        done = erasure.forget(state, person, name=name, key=key, wait=wait, yes=yes)
    elif age is not None and person is None:
        done = erasure.forget_older(state, age, name=name, key=key, wait=wait)
    else:
        stated = "neither is" if person is None else "both are"
        raise InvalidInputError(
            f"the command needs to know whom to forget: give either a person or {field('age')}; "
            f"{stated} given"
        )
    console = Console()
    for forgetting in done:
        console.write_line(_report(forgetting, new_users_apart=erasure.NEW_USERS_APART))
    console.write_line(
        "Not deleted: what was released, exact sums, the rows themselves, files of bad rows, and "
        "copies of the state."
    )


def _report(forgetting: UserErasure, *, new_users_apart: int) -> str:
    """Return what was deleted in a stream; the words do not reveal whether the user was known.

    Args:
        forgetting: what was deleted.
        new_users_apart: of so many new users one is not counted any more.
    """
    stream = f"Stream {forgetting.name!r}"
    if forgetting.keeps == "sums":
        return f"{stream} keeps sums and no rows of persons: there is nothing to delete."
    whom = "this person"
    consequence = (
        f"From now on, one in {new_users_apart:,} of all people who are new to the stream is not "
        "counted, so that a forgotten person is not counted twice."
    )
    if forgetting.before is not None:
        whom = f"everybody in the periods that ended by {forgetting.before:%Y-%m-%d %H:%M} UTC"
        consequence = (
            "From now on, rows of these periods are not counted, so that nobody is counted twice."
        )
    if forgetting.over:
        consequence = "The stream has ended, and counts nobody any more."
    return f"{stream} has forgotten {whom}. {consequence}"
