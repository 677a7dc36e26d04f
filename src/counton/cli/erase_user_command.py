"""The command ``counton erase-user``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from counton.base.errors import InvalidInputError, param
from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import key_option, state_argument

if TYPE_CHECKING:
    from counton.run.erasure import UserErasure


@click.command("erase-user", cls=CountonCommand)
@state_argument
@click.argument("user", required=False, help="The user to erase, as written in the rows.")
@option(
    "--older",
    "age",
    help="Instead of one user: erase all users of periods that ended this long ago, as in 90d.",
)
@option("--stream", help="Erase in this stream only. [default: all streams of the state]")
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
    help="Confirm that, as a result, about one in 1,000 new users does not count.",
)
def erase_user(
    *,
    state: str,
    user: str | None,
    age: str | None,
    stream: str | None,
    key: str | None,
    wait: int,
    yes: bool,
) -> None:
    """Delete what a state keeps of a user, or of all users of old periods (--older).

    A state keeps digests of the users whose rows have counted. Released numbers and sums stay as
    they are. A service may run meanwhile: give --wait 60. You delete the rows themselves and copies
    of the state.
    """
    from counton.cli.print_forms import Console
    from counton.job.incompatible import EXCLUSIONS_OF_ERASURE, refuse_of_command
    from counton.run import erasure

    # The name of a user is in no message.
    refuse_of_command({"user": user is not None, "age": age}, exclusions=EXCLUSIONS_OF_ERASURE)
    if user is not None:
        erasures = erasure.erase_user(
            state, user, stream=stream, key=key, wait=wait, accepts_bucket_refusal=yes
        )
    elif age is not None:
        erasures = erasure.erase_older(state, age, stream=stream, key=key, wait=wait)
    else:
        raise InvalidInputError(
            f"{param('user')} is missing. Give it, or {param('age')} for all users of old periods"
        )
    console = Console()
    for erasure_of_stream in erasures:
        line = _report(erasure_of_stream, new_users_per_refused=erasure.NEW_USERS_PER_REFUSED)
        console.write_line(line)
    console.write_line(
        "Not deleted: released numbers, exact sums, the rows themselves, files of bad rows, and "
        "copies of the state."
    )


def _report(erasure: UserErasure, *, new_users_per_refused: int) -> str:
    """Return what was deleted in a stream; the text does not reveal whether the user was known.

    Args:
        erasure: what was deleted.
        new_users_per_refused: of so many new users one is not counted any more.
    """
    stream = f"Stream {erasure.name!r}"
    if erasure.keeps == "sums":
        return f"{stream} keeps sums and no rows of users: there is nothing to delete."
    erased = "this user"
    consequence = (
        f"From now on, one in {new_users_per_refused:,} of all users who are new to the stream is "
        "not counted, so that an erased user is not counted twice."
    )
    if erasure.before is not None:
        erased = f"all users of the periods that ended by {erasure.before:%Y-%m-%d %H:%M} UTC"
        consequence = (
            "From now on, rows of these periods are not counted, so that no user is counted twice."
        )
    if erasure.is_closed:
        consequence = "The stream is closed and counts no more users."
    return f"{stream} has erased {erased}. {consequence}"
