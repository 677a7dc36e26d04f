"""The command line: it parses, calls and prints. Everything heavy is imported when needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counton.cli.command_list import BESIDE, KEEP, PLAN, READ, RELEASE
from counton.cli.command_options import (
    BARE,
    AnswerOptions,
    BackupOptions,
    Commands,
    DemoOptions,
    EndOptions,
    ExportOptions,
    FitOptions,
    ForgetOptions,
    InspectOptions,
    LedgerOptions,
    LeftOutOptions,
    MethodsOptions,
    PlanOptions,
    PublishOptions,
    RunOptions,
    ServeOptions,
    ShowOptions,
    TokenOptions,
    VerifyOptions,
    takes,
)
from counton.cli.exits import epilogue, explain_errors
from counton.spec.job import RowFormat

app = typer.Typer(
    name="counton",
    cls=Commands,
    help="Private running totals: counts published again and again, which hide every single row.",
    epilog=epilogue(),
    no_args_is_help=True,
    **BARE,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"counton {version('counton')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Private running totals: counts published again and again, which hide every single row."""


#: Commands whose words the command of a statistic takes: its options are loaded when it is called.
_PASSED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


def _beside(name: str, says: str) -> None:
    """The command of a statistic that stands beside ``statistic``."""

    def command(context: typer.Context) -> None:
        from counton.cli.statistic_command import perform

        perform(name, context.args)

    command.__doc__ = says
    app.command(name=name, rich_help_panel=RELEASE, **_PASSED_ON)(command)


for _name, _says in BESIDE.items():
    _beside(_name, _says)


@app.command(name="statistic", rich_help_panel=RELEASE, **_PASSED_ON)
def statistic(context: typer.Context) -> None:
    """Release another statistic: average, quantiles, top-k, distinct users, words, graphs.

    counton statistic lists them all. Each has its own options: counton statistic top-k --help.
    """
    from counton.cli.statistic_command import commands

    commands()(context.args, prog_name="counton statistic")


@app.command(name="run", rich_help_panel=RELEASE)
@takes(RunOptions)
def run_jobs(options: RunOptions) -> None:
    """Run the jobs of a file, one after the other, as every night.

    A job that fails is reported, and the others run all the same; the exit code is that of the
    first failure. counton count ... --save nightly.toml writes such a file; --schema says what it
    may hold.
    """
    from counton.cli.run_command import perform

    perform(options)


@app.command(name="serve", rich_help_panel=RELEASE)
@takes(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Run the jobs of a file as a service: it takes rows by HTTP and publishes on time.

    Readers get the released series as JSON, CSV or Arrow, or live. serve-token makes the tokens.
    Several servers may share one PostgreSQL database: one of them releases.
    """
    from counton.cli.serve_commands import perform

    perform(options)


@app.command(name="serve-token", rich_help_panel=KEEP)
@takes(TokenOptions)
def serve_token(options: TokenOptions) -> None:
    """List, make or revoke the tokens of a service, while it runs.

    A token is for ingest (sending rows), read (reading released series) or operate (seeing the
    numbers that only who runs it may see: they are exact). Only digests of tokens are kept.
    """
    from counton.cli.serve_commands import perform_token

    perform_token(options)


@app.command(name="serve-left-out", rich_help_panel=KEEP)
@takes(LeftOutOptions)
def serve_left_out(options: LeftOutOptions) -> None:
    """List the batches of rows that a service accepted and could not count, and why.

    Put a batch back once its fault is mended, or drop it, while the service runs. The list is
    exact: it is for you alone, and not to be published.
    """
    from counton.cli.serve_commands import perform_left_out

    perform_left_out(options)


@app.command(rich_help_panel=PLAN)
@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Show how accurate a release would be, before you spend anything: the exact error.

    Strategies are ranked, best first. --within finds the smallest epsilon for an accuracy that you
    want. --expire plans a stream without an end, whose protection fades with age. A job file is
    planned whole: the error of every number of its jobs, and what they cost; --simulate shows what
    readers would see if the true numbers were those of a file. No rows are read.
    """
    if options.asked is not None and options.asked.endswith(".toml"):
        from counton.cli.job_plan_command import print_job_plan

        print_job_plan(options)
        return
    from counton.base.errors import InvalidInput, field
    from counton.cli.plan_command import print_plan, with_steps

    for name in ("simulate", "out"):
        if getattr(options, name) is not None:
            raise InvalidInput(
                f"{field(name, str(getattr(options, name)))} belongs to a plan of a job file: "
                f"counton plan nightly.toml --simulate true.csv"
            )

    options = with_steps(options)
    if options.expire is not None:
        from counton.cli.expiring_plan import print_expiring_plan

        print_expiring_plan(options)
        return
    print_plan(options)


@app.command(rich_help_panel=PLAN)
@takes(InspectOptions, RowFormat)
def inspect(options: InspectOptions, rows: RowFormat) -> None:
    """Ask privately how many events users have, to choose --most, or for bounds of values.

    The answer is a release of its own: it protects users, and the ledger of the state records it.
    The answer and a plan (--plan) show what each bound keeps and costs. --exact shows exact numbers
    instead, and protects nobody: use it only for data that is public.
    """
    from counton.cli.inspect_command import print_inspection

    print_inspection(options, rows)


@app.command(rich_help_panel=KEEP)
@takes(LedgerOptions)
def ledger(options: LedgerOptions) -> None:
    """Show what the streams of a state have spent of privacy, and set a limit.

    A new stream that would exceed the limit is refused. Set the limit before anything is released:
    the state may be new.
    """
    from counton.cli.look_commands import print_ledger

    print_ledger(options)


@app.command(rich_help_panel=READ)
@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show what a state or a released table holds: streams, guarantees and last releases.

    Shows no secrets and needs no key. A released table or a published database carries all that
    is public about its stream.
    """
    from counton.cli.look_commands import print_release, print_state
    from counton.run.read_back import read_public

    public = read_public(options.state, name=options.name, like=options.like)
    if public is not None:
        print_release(public, options.json)
        return
    print_state(options.state, options.name, options.json)


@app.command(rich_help_panel=KEEP)
@takes(ForgetOptions)
def forget(options: ForgetOptions) -> None:
    """Delete what a state keeps of a person, or of all people of long ago (--older).

    A state keeps digests of whose rows have counted. What was released stays, and sums stay as they
    are. A service may run meanwhile: give --wait 60. The rows themselves, and copies of the state,
    are yours to delete.
    """
    from counton.cli.forget_command import print_forgotten

    print_forgotten(options)


@app.command(rich_help_panel=KEEP)
@takes(EndOptions)
def end(options: EndOptions) -> None:
    """End a stream: it releases nothing more, and what it has spent stays spent.

    Another stream can go on from there (--continues) under a new guarantee, and a new key if you
    give one. The command refuses while rows wait to be counted; --drop-waiting drops them.
    """
    from counton.cli.run_words import EXACT
    from counton.run.continuation import end_stream
    from counton.run.exports import only_name
    from counton.state import Store

    with Store(options.state) as store:
        name = only_name(store.streams) if options.name is None else options.name
    step, dropped = end_stream(options.state, name, drop_waiting=options.drop_waiting)
    if dropped:
        typer.echo(f"{EXACT}: rows that waited and are not counted: {dropped:,}", err=True)
    typer.echo(
        f"stream {name!r} has ended at step {step:,}; another one can go on from there with "
        f"--continues {name}"
    )
    with Store(options.state) as store:
        doubt = store.reader(name).doubt()
    if doubt is not None:
        typer.echo(f"note: {doubt}")


@app.command(rich_help_panel=KEEP)
@takes(BackupOptions)
def backup(options: BackupOptions) -> None:
    """Copy a state that is a SQLite file, even while a run or a service writes it.

    The copy is complete, but for the key and its witness: keep those elsewhere.
    """
    from counton.state.backup import back_up

    copy = back_up(options.state, options.out)
    typer.echo(
        f"copied to {copy}; the copy holds exact sums, so it is as secret as the state; once the "
        f"state has released more, a restored copy is refused"
    )


@app.command(rich_help_panel=KEEP)
def key(
    file: Annotated[str, typer.Argument(help="a new file; it is never overwritten")],
) -> None:
    """Draw a key and write it to a new file, for a vault or for --key.

    The key is never shown. A new state derives a key of its own from the key that you give it.
    """
    with explain_errors():
        from counton.noise import Key

        drawn = Key.generate()
        drawn.save(file)
        typer.echo(f"key written to {file}, fingerprint {drawn.fingerprint}")


@app.command(rich_help_panel=READ)
@takes(ExportOptions, FitOptions)
def export(options: ExportOptions, fit: FitOptions) -> None:
    """Write what was released again, as a table or a chart, from a state or a released table.

    Choose any steps, any groups and intervals of any level. No key is needed, and nobody who
    writes the stream is disturbed.
    """
    from counton.cli.export_commands import perform

    perform(options, fit)


@app.command(rich_help_panel=READ)
@takes(AnswerOptions)
def answer(options: AnswerOptions) -> None:
    """Answer questions from what was released: differences, ratios, shares, sums.

    A released table is enough, since it carries all that is public about its stream; no key is
    needed. A state, or the address of a stream of a service, does as well. Put a service's token
    into the environment: everyone on the machine can see the options of a running command.
    """
    from counton.cli.answer_command import perform

    perform(options)


@app.command(rich_help_panel=READ)
@takes(MethodsOptions)
def methods(options: MethodsOptions) -> None:
    """Write the text that a website prints with the numbers: subject, time, protection, error.

    Some five sentences for everybody; the whole account (attacker, mechanism, what is not
    protected, sources) is --full. A state is enough, or a released table, a published database or
    a service.
    """
    from counton.cli.export_commands import print_methods

    print_methods(options)


@app.command(rich_help_panel=READ)
@takes(PublishOptions)
def publish(options: PublishOptions) -> None:
    """Write releases into plain database tables, for Grafana, Metabase or psql.

    The view counton_releases shows them. Run the command after each release; within the state's own
    database every later run publishes by itself.
    """
    from counton.cli.export_commands import print_published

    print_published(options)


@app.command(rich_help_panel=KEEP)
@takes(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Compute every released value again, from sums and key, and compare with the journal.

    The state does not change. Exit code 0: all is right; 3: something differs; 6: a key is
    missing; 7: the state is an old copy.
    """
    from counton.cli.look_commands import print_verification

    print_verification(options)


@app.command(rich_help_panel=RELEASE)
@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Run an example: a year of departures from New York's airports, hour by hour.

    Writes the events, a table and a chart into a folder, and shows the command that made them. The
    data come with counton's extra demo.
    """
    from counton.cli.demo import perform

    perform(options)
