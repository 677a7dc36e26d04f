"""Commands as text: what messages call options, examples of help, and jobs as commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from counton.base.errors import hide_secrets
from counton.cli.command_class import COMMAND_WORDS
from counton.job.common_options import Job
from counton.job.option_fields import FILE_ONLY, has_mark
from counton.job.statistics import all_models, model_of

#: Options of every example: 365 windows of a day.
_EXAMPLE = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "windows": "365",
    "epsilon": "1",
    "until": "latest-event",
}
#: Most characters in a line of an example.
_EXAMPLE_WIDTH = 74
#: Most characters in a line of a command to copy.
_COMMAND_WIDTH = 94


@dataclass(frozen=True)
class CommandActions:
    """What a command does besides the job, or in its place.

    Attributes:
        plan: show a plan, and release nothing.
        save: job file into which the options are written.
        json: print one JSON object.
    """

    plan: bool = False
    save: Path | None = None
    json: bool = False


@cache
def command_words() -> Mapping[str, str]:
    """Return what messages of commands call the options of all statistics.

    >>> command_words()["output"], command_words()["metric"]
    ('--output', 'metric =')
    """
    return words_of_options(all_models().values())


def words_of_options(models: Iterable[type[Job]]) -> Mapping[str, str]:
    """Return what messages of commands call options: ``--output``, or ``metric =`` of job files.

    Args:
        models: models that have the options.
    """
    words = dict(COMMAND_WORDS)
    for model in models:
        for name, field in model.model_fields.items():
            is_in_files_only = has_mark(field, FILE_ONLY)
            words[name] = f"{field.alias} =" if is_in_files_only else f"--{field.alias}"
    words["events"] = "EVENTS"
    words["save_job"] = "--save-job"
    return words


def command_of(statistic: str) -> str:
    """Return the words of a statistic's command.

    >>> command_of("count"), command_of("top-k")
    ('counton release count', 'counton release top-k')
    """
    return f"counton release {statistic}"


def example_lines(statistic: str) -> list[str]:
    """Return an example of a statistic's command, after a command that makes the file it needs."""
    model = model_of(statistic)
    lines = []
    if model.example_file is not None:
        path, text = model.example_file
        line = text.removesuffix("\n")
        written = f"echo {shlex.quote(line)}"
        if "\n" in line:
            escaped = text.replace("\n", r"\n")
            written = f"printf {shlex.quote(escaped)}"
        lines = [f"{written} \\", f"    > {path}"]
    words = [
        f"--{key} {shlex.quote(value)}" for key, value in {**model.example, **_EXAMPLE}.items()
    ]
    return lines + _wrapped(f"{command_of(statistic)} visits.csv", words, _EXAMPLE_WIDTH)


def command_text(job: Job, actions: CommandActions | None = None) -> str:
    r"""Return a job as a command to copy, in lines that fit a page.

    >>> from counton.job.statistics.count import CountJob
    >>> job = CountJob(events="my visits.csv", group_by=["page", "day"], epsilon="0.5")
    >>> print(command_text(job, CommandActions(json=True)))
    counton release count 'my visits.csv' --epsilon 0.5 --group-by page,day --json
    """
    actions = CommandActions() if actions is None else actions
    fields = type(job).model_fields
    options = job.stated_options()
    events = options.pop("events", ())
    paths: Sequence[object] = events if isinstance(events, list) else [events]
    command = " ".join([command_of(job.statistic), *(shlex.quote(str(path)) for path in paths)])
    words = []
    for name, value in options.items():
        if has_mark(fields[name], FILE_ONLY):
            continue
        key = f"--{fields[name].alias}"
        words.append(key if value is True else f"{key} {shlex.quote(_as_typed(value))}")
    if actions.plan:
        words.append("--plan")
    if actions.save is not None:
        words.append(f"--save-job {shlex.quote(str(actions.save))}")
    if actions.json:
        words.append("--json")
    return hide_secrets("\n".join(_wrapped(command, words, _COMMAND_WIDTH)))


def _wrapped(command: str, words: Sequence[str], width: int) -> list[str]:
    """Return a command in lines that a shell takes as one, with as many words on a line as fit."""
    lines = [command]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines


def _as_typed(value: object) -> str:
    """Return a value as a person types it."""
    if isinstance(value, tuple):
        return ",".join(_as_typed(part) for part in value)
    if isinstance(value, Mapping):
        has_lists = any(isinstance(part, tuple) for part in value.values())
        parts = [f"{name}={_as_typed(part)}" for name, part in value.items()]
        return (";" if has_lists else ",").join(parts)
    if isinstance(value, Fraction):
        from counton.base.exact import text

        return text(value)
    return str(value)
