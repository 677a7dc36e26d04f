"""What each command of the command line is called with on the state of a service.

A command that is new is among them by itself, with the state or the job file for what it must have.

Run as ``python state_commands.py FOLDER``, it carries all of them out in one process, and a service
beside them, and prints how often each one opened a file of the state, as JSON.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
from services import START, job_file, rows

from counton.cli.app import app
from counton.job.statistics import STATISTIC_NAMES

#: Releases of a statistic into the state, beside its options for the state and its windows.
_RELEASES = {
    "count": "--group-by page --groups home,shop",
    "sum": "--value cost --lower 0 --upper 9 --resolution 1",
    "hierarchy": "--levels page --groups {pages}",
    "contingency": "--columns page --groups {pages}",
    "ranges": "--label cost --groups {costs}",
    "average": "--value cost --lower 0 --upper 9 --resolution 1",
    "quantiles": "--value cost --lower 0 --upper 9 --cells 9",
    "top-k": "--group-by page --groups home,shop",
    "distinct": "--user page --privacy-unit reader",
}
#: Words of other commands, and with what they end if not with 0.
_OTHERS = {
    "plan": "{night}", "inspect": "{state}", "export": "{state} --stream visits",
    "methods": "{state}",
    "publish": "{state} --key {key} --stream visits", "ledger": "{state}",
    "erase-user": "{state} ann --key {key} --wait 60 --yes",
    "close": "{state} --stream count --drop-waiting", "backup": "{state} --output {folder}/copy.db",
    "verify": "{state} --key {key}", "run": "{night}", "serve": "{job} --listen 127.0.0.1:0",
}  # fmt: skip
#: Further words.
_MORE = {
    "publish in a file": "publish {state} --stream visits --to {folder}/public.db",
}
#: With what a command ends, if not with 0: the state has a service.
CODES = {"serve": 5}
#: Commands that the tests must see succeed, or end as above.
KNOWN = (*(f"release {statistic}" for statistic in _RELEASES), *_OTHERS, *_MORE)


def words_by_command(folder: Path) -> dict[str, list[str]]:
    """The words of each command; the job file of the service is in the folder."""
    moment = START.strftime("%Y-%m-%dT%H:%M")
    windows = {
        "time": "time",
        "every": "1m",
        "windows": 5,
        "start": moment,
        "until": "latest-event",
    }
    texts = {
        "events.csv": f"time,page,cost\n{moment}:10,home,2\n{moment}:20,shop,5\n",
        "pages.csv": "page\nhome\nshop\n",
        "costs.csv": "cost\n2\n5\n",
        "night.toml": "[jobs.night]\nstatistic = 'count'\nevents = 'events.csv'\nepsilon = 1\n"
        "privacy-unit = 'visit'\nstate = 'visits.db'\nkey = 'visits.key'\n"
        + "".join(
            f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in windows.items()
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    state = folder / "visits.db"
    job = folder / "jobs.toml"
    places = {Path(name).stem: folder / name for name in texts}
    places |= {"state": state, "place": state, "source": state, "file": job, "job": job}
    places |= {"key": folder / "visits.key", "folder": folder}
    kept = f"--epsilon 1 --state {state} --key {places['key']} --privacy-unit visit "
    kept += " ".join(f"--{name.replace('_', '-')} {value}" for name, value in windows.items())
    context = click.Context(app)
    names = app.list_commands(context)
    released = {f"release {name}" for name in STATISTIC_NAMES}
    found: dict[str, list[str]] = {}
    for name in (*sorted(released), *names):
        if name == "release":  # of several commands
            continue
        if name in _OTHERS:
            said = _OTHERS[name]
        elif name in released:
            statistic = name.removeprefix("release ")
            said = f"{{events}} {kept} --stream {statistic} {_RELEASES.get(statistic, '')}"
        else:  # a new one
            command = app.get_command(context, name)
            assert command is not None
            required = [str(one.name) for one in command.params if one.required]
            said = " ".join(str(places.get(one, "1")) for one in required)
        found[name] = [*name.split(), *said.format(**places).split()]
    return found | {name: said.format(**places).split() for name, said in _MORE.items()}


def _count_opens(folder: Path) -> dict[str, Any]:
    from click.testing import CliRunner
    from inside import Inside

    ends = ("", "-wal", "-shm", "-journal")
    databases = [os.path.realpath(folder / name) for name in ("visits.db", "public.db", "copy.db")]
    files = {f"{database}{end}" for database in databases for end in ends}
    opened: list[str] = []

    def heard(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(given[0]))
            if path in files:
                opened.append(path)

    service = Inside(job_file(folder))
    sys.addaudithook(heard)
    found: dict[str, Any] = {}

    def note(name: str, code: int, said: str = "") -> None:
        found[name] = {"code": code, "opened": [*opened], "said": said[-300:]}
        opened.clear()

    assert service.send("first", rows(0, ["home", "shop"])).status_code == 202
    service.at(1)
    for path in ("/v1/streams", "/v1/streams/visits", "/v1/streams/visits/series", "/ready", "/"):
        note(path, service("GET", path).status_code)
    for name, words in words_by_command(folder).items():
        done = CliRunner().invoke(app, words, prog_name="counton")
        note(name, done.exit_code, done.output + repr(done.exception or ""))
    answer = service.send("second", rows(1, ["home"]))
    note("POST", answer.status_code)
    service.at(2)
    service.service.close()
    note("service", 0)
    return found


if __name__ == "__main__":
    print(json.dumps(_count_opens(Path(sys.argv[1]))))
