"""The command ``counton inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from counton.base.wording import counted
from counton.cli.command_class import CountonCommand, option
from counton.cli.parameters import json_option, state_or_table_argument

if TYPE_CHECKING:
    from counton.cli.print_forms import Console
    from counton.continual.design import Design
    from counton.results.metadata import ReleaseMetadata
    from counton.results.release import Release
    from counton.results.release_data import ReleaseData
    from counton.state import Store

#: Largest number of rows of the last step in JSON.
_MOST_SHOWN_ROWS = 20
#: Most characters of a program's values.
_LONGEST_VALUES = 200


@click.command("inspect", cls=CountonCommand)
@state_or_table_argument
@option("--stream", help="Which stream to show. [default: all]")
@json_option
def inspect(*, state: str, stream: str | None, as_json: bool) -> None:
    """Show what a state or a released table holds: last numbers, guarantees, strategies.

    Shows no secrets and needs no key. A released table carries all that is public about its stream.
    Details of each guarantee: counton methods --full.
    """
    from counton.results.release_files import read_public

    release = read_public(state, stream=stream)
    if release is None:
        _show_state(state, stream, as_json=as_json)
    elif as_json:
        _print_table_as_json(release)
    else:
        _print_table(release)


# ---------------------------------------------------------------------------------- released tables
@dataclass(frozen=True)
class _Steps:
    """The steps of a released table; a table that is released once has none."""

    steps: tuple[int, ...]

    @property
    def missing(self) -> int:
        """Number of steps between the first and the last that the table does not have."""
        if not self.steps:
            return 0
        return self.steps[-1] - self.steps[0] + 1 - len(self.steps)


def _steps_of(numbers: ReleaseData) -> _Steps:
    from counton.results.released_table import table_of

    if not numbers.metadata.windows.is_recurring:
        return _Steps(())
    return _Steps(tuple(table_of(numbers)["window_index"].unique().sort().to_list()))


def _print_table_as_json(release: Release) -> None:
    from polars import selectors

    from counton.base.literature import origin_of
    from counton.cli.print_forms import print_json
    from counton.continual.strategy_text import mechanism_sources
    from counton.results.metadata_codec import guarantee_of_stream
    from counton.results.released_table import last_rows

    numbers = release.numbers
    metadata = numbers.metadata
    public = metadata.public()
    facts: dict[str, object] = {
        **guarantee_of_stream(numbers),
        **{fact: public[fact] for fact in ("what", "by", "value", "windows", "groups")},
        "publishes": metadata.series,
        **metadata.recent_sums(),
    }
    if metadata.windows.is_recurring:
        covered = _steps_of(numbers)
        steps = covered.steps
        facts["paper"] = origin_of(mechanism_sources(numbers.design.strategy))
        facts["first"] = steps[0] if steps else None
        facts["last"] = steps[-1] if steps else None
        facts["missing_steps"] = covered.missing
    rows = last_rows(numbers, _MOST_SHOWN_ROWS)
    times_as_text = selectors.temporal().dt.to_string("iso:strict")
    facts["rows"] = rows.with_columns(times_as_text).to_dicts()
    print_json(facts)


def _print_table(release: Release) -> None:
    from counton.cli.print_forms import Console

    numbers = release.numbers
    metadata = numbers.metadata
    covered = _steps_of(numbers)
    steps = covered.steps
    contents = "nothing" if metadata.windows.is_recurring else "once"
    if steps:
        n_windows = counted(len(steps), metadata.windows.noun)
        contents = f"{n_windows} ({steps[0]:,} to {steps[-1]:,})"
        if covered.missing:
            contents += f", {covered.missing:,} between them missing"
    console = Console()
    title = f"Released table of stream {numbers.design.name}: {contents}"
    _print_job_stream(console, title, numbers.design, metadata, numbers if numbers.steps else None)
    console.write_line("Next: counton methods --full prints the full privacy statement")


# ------------------------------------------------------------------------------- streams of states
def _show_state(state: str, name: str | None, *, as_json: bool) -> None:
    """Print the streams of a state, or one of them, without secrets."""
    from counton.cli.print_forms import Console, print_json, tell_of_old_copies
    from counton.cli.privacy_words import print_totals
    from counton.state import Store
    from counton.state.database import reading

    with Store(state) as store:
        summary = store.summary()
        if name is not None:
            store.reader(name)  # refused if it is missing
            summary["streams"] = [stream for stream in summary["streams"] if stream["name"] == name]
        streams = summary["streams"]
        tell_of_old_copies(store, [stream["name"] for stream in streams])
        if as_json:
            summary["streams"] = [_with_local_time(stream) for stream in streams]
            print_json(summary)
            return
        console = Console()
        for stream in streams:
            # No MAC is checked here, and whoever alters a state can compute its checksums.
            with reading(f"what describes stream {stream['name']!r}"):
                _print_stream(console, stream, store)
            _tell_of_late_rows(store, stream["name"])
        if len(streams) > 1:  # the promises above hold for one stream each
            print_totals(console, store.totals)
        console.write_line(f"State: {summary['state']} (format {summary['format']})")
        if streams:
            console.write_line("Next: counton methods --full prints the full privacy statement")


def _tell_of_late_rows(store: Store, name: str) -> None:
    """Print on stderr the fraction of a stream's rows that came late, if this process may read
    exact numbers.
    """
    from counton.base.errors import StateError
    from counton.cli.print_forms import CONFIDENTIAL, Console
    from counton.run.close_stream import confidential_late_rows

    try:
        arrived, late = confidential_late_rows(store, name)
    except StateError:  # whoever reads releases alone may not see it
        return
    if late:
        Console(stderr=True).write_line(
            f"{CONFIDENTIAL}: {name}: {late:,} of {arrived:,} rows came late, {late / arrived:.1%}"
        )


def _with_local_time(stream: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the public facts of a stream, with its time of creation in the stream's time zone."""
    from counton.state.ledger_rows import defining_options_in
    from counton.windowing.windows import load_zone, parse_time

    zone = defining_options_in(stream["details"]).get("timezone")
    if zone is None:
        return stream
    created = parse_time(stream["created"], zone).astimezone(load_zone(zone)).isoformat()
    return {**stream, "created": created}


def _print_stream(console: Console, stream: Mapping[str, Any], store: Store) -> None:
    """Print a stream's last numbers, guarantee and strategy."""
    from counton.cli.print_forms import with_option_words
    from counton.run.outputs.read_journal import read_release
    from counton.run.spec.stream_spec import STREAM_FORMAT, StreamSpec

    name = stream["name"]
    step = stream["step"]
    ending = _ending_of(stream, store)
    if stream["details"].get("kind") == STREAM_FORMAT:
        reader = store.reader(name)
        spec = StreamSpec.of_stream(reader)
        metadata = spec.metadata()
        progress = metadata.windows.progress_text(step) if step else "nothing released yet"
        is_shown = step and "refused" not in stream
        numbers = read_release(reader, spec).numbers if is_shown else None
        title = f"Stream {name}: {progress}{ending}"
        _print_job_stream(console, title, reader.design, metadata, numbers)
    else:
        _print_program_stream(console, stream, store, ending)
    if "refused" in stream:
        console.write_line(f"Not shown: {with_option_words(stream['refused'])}")


def _ending_of(stream: Mapping[str, Any], store: Store) -> str:
    """Return words on the end of a stream; "" while it goes on."""
    from counton.strategies.strategy import last_served_step

    step = stream["step"]
    strategy = store.reader(stream["name"]).design.strategy
    ended = stream["details"].get("ended")
    if strategy.horizon is None and step == last_served_step(strategy):
        ended = step
    return "" if ended is None else f"; closed at window {ended:,}"


def _print_program_stream(
    console: Console, stream: Mapping[str, Any], store: Store, ending: str
) -> None:
    """Print a stream to which a program gives the inputs of each step directly."""
    from counton.base.exact import figures
    from counton.continual.strategy_text import mechanism_in_words

    design = store.reader(stream["name"]).design
    step = stream["step"]
    last = stream["last"]
    progress = f"{counted(step, 'step')}{ending}"
    if stream["details"].get("once"):
        progress = "once"
    console.write_line(f"Stream {stream['name']}: {progress}", bold=True)
    if last is not None and last["values"] is not None:
        values = shorten(str(last["values"]), _LONGEST_VALUES, placeholder=" ...")
        console.write_line(f"Step {last['step']:,}: {values}")
    if last is not None and last["std"] is not None:
        subject = f" of {last['of']}" if last.get("of") else ""
        console.write_line(f"Accuracy: noise standard deviation {figures(last['std'])}{subject}")
    protected = design.contribution.describe(stream["details"].get("unit"))
    console.write_line(f"Privacy: {protected} ({design.guarantee.loss_in_words})")
    console.write_line(f"Mechanism: {mechanism_in_words(design, 'step')}")


def _print_job_stream(
    console: Console,
    title: str,
    design: Design,
    metadata: ReleaseMetadata,
    numbers: ReleaseData | None,
) -> None:
    """Print a stream's last numbers, guarantee and strategy, and the errors other than noise."""
    from counton.cli.privacy_words import privacy_line
    from counton.continual.strategy_text import mechanism_in_words
    from counton.results.terminal import screen_of

    console.write_line(title, bold=True)
    if numbers is not None:
        screen = screen_of(numbers)
        if screen.heading:
            console.write_line(screen.heading.lstrip("\n"))
        for table in screen.tables:
            console.write_table(table)
        if screen.left_out:
            console.write_line(f"Shown: {screen.left_out}. All: counton export")
        for note in screen.notes:
            console.write_line(note)
    console.write_line(f"Privacy: {privacy_line(metadata)}")
    if metadata.windows.is_recurring:
        console.write_line(f"Mechanism: {mechanism_in_words(design)}")
