"""The message about missing options of a new stream, with a whole command to edit."""

from __future__ import annotations

from collections.abc import Sequence

from counton.base.errors import CountonError, InvalidInputError, MissingOptionError
from counton.cli.command_text import (
    CommandActions,
    command_text,
    command_words,
)
from counton.job.common_options import Job
from counton.run.new_job.job_template import look_at, with_examples
from counton.state import Store, state_file


def explain_missing_options(error: MissingOptionError, job: Job, actions: CommandActions) -> str:
    """Return the message about missing options, with what the user needs to give them.

    It has the columns of the rows, an example of each option, and a whole command to edit. If the
    rows cannot be read, it says so first.

    Args:
        error: the error, which names the missing options.
        job: the job that lacks them.
        actions: what the command does besides.
    """
    words = command_words()
    message = error.translate(words)
    try:
        look = look_at(job)
    except CountonError as unreadable:
        return f"{unreadable.translate(words)}\n{message}"
    except OSError as unreadable:
        return f"{unreadable}\n{message}"
    examples, whole_job = with_examples(job, error.names, look)
    lines = [message]
    streams = _streams_of(job)
    if streams:
        going_on = command_text(job.with_options(stream=streams[0]), actions)
        lines.append(f"{job.state} keeps stream {', '.join(streams)}; to go on: {going_on}")
    lines.append(f"the columns of {_events_in_words(job)}: {', '.join(look.columns)}")
    lines += [InvalidInputError(f"  {example}").translate(words) for example in examples]
    may_bound_users = "user" in type(job).model_fields and "user" not in type(job).needs
    if may_bound_users and not job.has_stated("user"):
        period = "" if job.is_single_table() else " --contribution-period 1w"
        lines.append(
            "single rows are protected; to protect users: --user COLUMN --max-contributions "
            f"N{period}"
        )
    lines += ["as in:", command_text(whole_job, actions)]
    if job.statistic == "count":
        lines.append("counton init writes a job file with these options to fill in")
    return "\n".join(lines)


def _events_in_words(job: Job) -> str:
    return ", ".join(map(str, job.events)) if isinstance(job.events, list) else str(job.events)


def _streams_of(job: Job) -> Sequence[str]:
    """Return the streams of a job's statistic in its state, one of which the user may have meant to
    continue.
    """
    assert job.state is not None, "a command has a state"
    file = state_file(job.state)
    if file is None or not file.exists():
        return ()
    with Store(job.state) as store:
        return [
            name
            for name, public_facts in sorted(store.public_facts.items())
            if public_facts.get("what") == job.statistic
        ]
