"""The border: all that users build on, as one listing.

``python tests/support/border.py`` records it, at a release alone.

What stands in ``tests/project/border.json`` is the border of the last release. What has come, gone
or changed since is named in the CHANGELOG above that release.
"""

import inspect
import json
import re
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from every_statistic import OWN, TABLES, made

from counton.cli.app import app
from counton.cli.exits import ExitCode
from counton.cli.release_command import release as release_group
from counton.job.json_schema import schema
from counton.run import run

RECORD = Path(__file__).parents[1] / "project" / "border.json"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def options() -> dict[str, list[str]]:
    """The options of every command, and arguments by their names."""

    def of(command: Any) -> list[str]:
        helps = {"-h", "--help"}
        return sorted({word for one in command.params for word in one.opts} - helps)

    found: dict[str, list[str]] = {}
    for group, before in ((app, ""), (release_group, "release ")):
        context = click.Context(group)
        for name in group.list_commands(context):
            found[f"{before}{name}"] = of(group.get_command(context, name))
    return found


def job_keys() -> dict[str, list[str]]:
    """Keys of job files: of jobs of any statistic, and of the statistics of a report."""
    told = schema()
    keys: dict[str, set[str]] = {"job": set(), "statistic": set()}
    for name, table in told["$defs"].items():
        kind = "statistic" if name.endswith(" of a report") else "job"
        keys[kind] |= {*table["properties"]}
    parts = {name: sorted(of_kind) for name, of_kind in keys.items()}
    return {**parts, "report": parts["job"], "tables": sorted(told["properties"])}


def python_names() -> dict[str, str]:
    """Names of Python on the pages of the reference, with the signatures of functions."""
    found = {}
    for package in sorted(_packages()):
        module = import_module(package)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            told = ""
            if inspect.isfunction(thing) or inspect.isclass(thing):
                try:
                    told = str(inspect.signature(thing))
                except ValueError:
                    told = ""
            found[f"{package}.{name}"] = ", ".join(re.findall(r"(\w+):", told))
    return found


def _packages() -> Iterator[str]:
    yield "counton"
    for page in REFERENCE.glob("*.md"):
        for named in re.findall(r"^::: (counton[\w.]*)$", page.read_text("utf-8"), re.MULTILINE):
            if hasattr(import_module(named), "__all__"):
                yield named


def columns() -> dict[str, list[str]]:
    """Columns of released tables, by statistic."""
    found = {}
    for name in (*OWN, *TABLES):
        with tempfile.TemporaryDirectory() as folder, run(made(name, Path(folder))) as outcome:
            found[name] = outcome.read().table().columns
    for label, series in (("windows", "per-window"), ("both", "both")):
        with tempfile.TemporaryDirectory() as folder:
            job = made("count", Path(folder)).derive(
                series=series, group_by="page", groups="home,shop", strategy="auto"
            )
            with run(job) as outcome:
                found[f"count, {label}, by group"] = outcome.read().table().columns
    return found


def exit_codes() -> dict[str, int]:
    """What a command returns."""
    return {code.name: int(code) for code in ExitCode}


def of_service() -> dict[str, list[str]]:
    """Paths and metrics of a service that serves one job."""
    from inside import inside

    with tempfile.TemporaryDirectory() as folder, inside(Path(folder)) as served:
        told = served("GET", "/openapi.json").json()["paths"]
        metrics = served("GET", "/metrics", "write").text
        return {
            "paths": sorted(f"{way.upper()} {path}" for path, ways in told.items() for way in ways),
            "metrics": sorted({*re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE)}),
        }


def border() -> dict[str, Any]:
    """All of it."""
    return {
        "commands": options(), "job files": job_keys(), "python": python_names(),
        "columns": columns(), "exit codes": exit_codes(), **of_service(),
    }  # fmt: skip


def changes(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Names that have come, gone or changed between two borders, each by its last word."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            if name not in before or name not in now:
                yield name
            else:
                yield from changes(before[name], now[name], name)
    elif isinstance(before, list) and isinstance(now, list):
        yield from sorted({*before} ^ {*now})
    elif before != now:
        yield place


if __name__ == "__main__":
    RECORD.write_text(json.dumps(border(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
