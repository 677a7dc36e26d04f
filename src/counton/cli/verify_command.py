"""The command ``counton verify``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from counton.cli.command_class import CountonCommand, option
from counton.cli.exits import ExitCode
from counton.cli.parameters import json_option, key_option

if TYPE_CHECKING:
    from counton.state.verification import Verification


@click.command("verify", cls=CountonCommand)
@click.argument("state", help="SQLite file or database URL that keeps the streams. It is secret.")
@option("--stream", help="Verify only this stream or table. [default: all]")
@key_option
@option("--rollback-guard", help="Folder of the state's rollback guard, if it was moved.")
@option(
    "--accept-old-copy",
    is_flag=True,
    help="Accept this state as the newest, although its rollback guard cannot confirm it. If it is "
    "an old copy, exact differences leak.",
)
@json_option
def verify(
    *,
    state: str,
    stream: str | None,
    key: str | None,
    rollback_guard: str | None,
    accept_old_copy: bool,
    as_json: bool,
) -> None:
    """Recompute every released value from sums and key, and compare with the journal.

    The state does not change. Exit code 0: all is right; 3: something differs; 6: a key is
    missing; 7: the state is an old copy.
    """
    from counton.cli.print_forms import Console, print_json, warn_of_guard_beside_state
    from counton.state import verify as verify_state

    errors = Console(stderr=True)
    if accept_old_copy:
        from counton.state.rollback_guard import accept_old_copy as accept

        for accepted in accept(state, rollback_guard):
            errors.write_line(
                f"the rollback guard now accepts this copy of {accepted!r} as the newest"
            )
    releases = verify_state(state, stream, key=key, rollback_guard=rollback_guard)
    warn_of_guard_beside_state(errors, [(state, rollback_guard)])
    is_wrong = any(release.problems for release in releases)
    is_skipped = any(release.skipped for release in releases)
    if as_json:
        verified = [{**asdict(release), "right": release.right} for release in releases]
        is_right = not is_wrong and not is_skipped
        print_json({"state": state, "right": is_right, "found": verified})
    else:
        _print_releases(releases)
    if is_wrong:
        is_old_copy = any(release.old_copy for release in releases)
        raise SystemExit(int(ExitCode.STATE_ROLLED_BACK if is_old_copy else ExitCode.CORRUPT_STATE))
    if is_skipped:
        raise SystemExit(int(ExitCode.NOISE_KEY))


def _print_releases(releases: Sequence[Verification]) -> None:
    from counton.base.wording import counted
    from counton.cli.print_forms import Console, with_option_words

    console = Console()
    for release in releases:
        outcome = "verified" if release.right else "FAILED"
        if release.skipped is not None:
            outcome = "not verified"
        console.write_line(f"{release.kind.capitalize()} {release.name}: {outcome}", bold=True)
        for check in release.checks:
            console.write_line(f"  ok: {check}")
        for problem in release.problems:
            console.write_line(f"  WRONG: {with_option_words(problem)}")
        if release.skipped is not None:
            console.write_line(f"  skipped: {release.skipped}")
    right = [release for release in releases if release.right]
    # The numbers of an old copy were recomputed, if nothing else is wrong with it.
    values = sum(
        release.values
        for release in releases
        if release.right or (release.old_copy and len(release.problems) == 1)
    )
    verified_share = f"{len(right):,} of {counted(len(releases), 'release')} verified"
    console.write_line(f"{verified_share}: {counted(values, 'value')} recomputed")
