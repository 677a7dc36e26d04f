"""The command line: it parses, calls and prints. Everything heavy is imported when needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counton.cli.beside import BESIDE
from counton.cli.exits import epilogue, explained
from counton.cli.options import (
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

app = typer.Typer(
    name="counton",
    cls=Commands,
    help="Private running totals: differential privacy under continual observation.",
    epilog=epilogue(),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich's help would take most of the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    """Private running totals: differential privacy under continual observation."""


#: Commands whose words the command of a statistic takes: its options are loaded when it is called.
_PASSED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


def _beside(name: str, says: str) -> None:
    """The command of a statistic that stands beside ``statistic``."""

    def command(context: typer.Context) -> None:
        from counton.cli.statistic import perform

        perform(name, context.args)

    command.__doc__ = says
    app.command(name=name, **_PASSED_ON)(command)


for _name, _says in BESIDE.items():
    _beside(_name, _says)


@app.command(name="statistic", **_PASSED_ON)
def statistic(context: typer.Context) -> None:
    """Release a statistic: top-k, average, quantiles, distinct, words of letters, graphs.

    counton statistic lists them; each has options of its own: counton statistic top-k --help.
    """
    from counton.cli.statistic import commands

    commands()(context.args, prog_name="counton statistic")


@app.command(name="run")
@takes(RunOptions)
def run_jobs(options: RunOptions) -> None:
    """Carry out the jobs of a file, one after the other, as every night.

    A job that fails is reported and ends nothing but itself; the exit code is that of the first.
    counton count ... --save nightly.toml writes such a file; --schema says what it may hold.
    """
    from counton.cli.jobs import perform

    perform(options)


@app.command(name="serve")
@takes(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve the jobs of a file: rows come in by HTTP, releases happen at their time.

    Released series are read as JSON, CSV or Arrow, or live. Tokens are made by serve-token. Several
    servers may serve one PostgreSQL database: one of them releases.
    """
    from counton.cli.serving import perform

    perform(options)


@app.command(name="serve-token")
@takes(TokenOptions)
def serve_token(options: TokenOptions) -> None:
    """List the tokens of a service, make one, or revoke one, while it runs.

    ingest: to send rows; read: to read released series; operate: to see the operator's numbers,
    which are exact and secret. Only digests of tokens are kept.
    """
    from counton.cli.serving import perform_token

    perform_token(options)


@app.command(name="serve-left-out")
@takes(LeftOutOptions)
def serve_left_out(options: LeftOutOptions) -> None:
    """List the batches that a service has acknowledged and could not count, and why.

    Put one back when what was wrong is mended, or drop it, while the service runs. What is printed
    is about exact data: for the operator alone.
    """
    from counton.cli.serving import perform_left_out

    perform_left_out(options)


@app.command()
@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Rank strategies by their exact error under a guarantee, best first.

    With --within: under the least guarantee with which the last release is so accurate. With
    --expire: the endless stream of least error whose losses by age stay within targets. Of a job
    file: how far off every number of its jobs will be, and what they cost; nothing is read.
    """
    if options.asked is not None and options.asked.endswith(".toml"):
        from counton.cli.job_plan import print_job_plan

        print_job_plan(options)
        return
    from counton.cli.inspection import print_plan, with_steps

    options = with_steps(options)
    if options.expire is not None:
        from counton.cli.expiring_plan import print_expiring_plan

        print_expiring_plan(options)
        return
    print_plan(options)


@app.command()
@takes(InspectOptions)
def inspect(options: InspectOptions) -> None:
    """Ask privately how many events users have, to choose --most; or for bounds of values.

    The answer is one release: it protects users, and is entered in the ledger of the state. What
    bounds keep and cost follows from it and from a plan (--plan). --exact shows exact numbers
    instead, of data that is public: nothing of that is protected.
    """
    from counton.cli.people import print_inspection

    print_inspection(options)


@app.command()
@takes(LedgerOptions)
def ledger(options: LedgerOptions) -> None:
    """Show what the streams of a state have spent; set a limit that creating streams obeys.

    With a limit the state may be new: set it before anything is released.
    """
    from counton.cli.inspection import print_ledger

    print_ledger(options)


@app.command()
@takes(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show what a state or a released table holds: streams, guarantees, last releases, no secrets.

    Needs no key. A table that was written and a published database are described by what is public
    of their stream, which they carry.
    """
    from counton.cli.answer import public_places
    from counton.cli.inspection import print_release, print_state
    from counton.errors import InvalidInput, field

    if (public := public_places(options.state)) is not None:
        print_release(public, options.name, options.json)
        return
    if options.name is not None:
        raise InvalidInput(
            f"{field('name', options.name)} is for published streams, and {options.state} is "
            f"a state, which is shown as a whole: leave it out"
        )
    print_state(options.state, options.json)


@app.command()
@takes(ForgetOptions)
def forget(options: ForgetOptions) -> None:
    """Delete what a state keeps of a person: digests of whose rows have counted, and which.

    What was released stays, and what was added to sums stays in them. Nobody may write the state
    meanwhile. The person's rows, and copies of the state, are yours to delete.
    """
    from counton.cli.forgetting import print_forgotten

    print_forgotten(options)


@app.command()
@takes(EndOptions)
def end(options: EndOptions) -> None:
    """End a stream: it releases nothing more. What it has spent stays spent.

    Another stream goes on from there with --continues, under a new guarantee, and a new key if you
    give one. Refused while rows wait in it that are not counted yet; --yes drops them.
    """
    from counton.jobs.succession import end_stream
    from counton.store import Store

    step, dropped = end_stream(options.state, options.name, confirmed=options.confirmed)
    if dropped:
        typer.echo(
            f"not private, for the operator: rows that waited and are counted nowhere: {dropped:,}",
            err=True,
        )
    typer.echo(
        f"stream {options.name!r} has ended at step {step:,}; another one goes on from there with "
        f"--continues {options.name}"
    )
    with Store(options.state) as store:
        doubt = store.reader(options.name).doubt()
    if doubt is not None:
        typer.echo(f"note: {doubt}")


@app.command()
@takes(BackupOptions)
def backup(options: BackupOptions) -> None:
    """Copy a state that is a SQLite file, also while it is served or a run is at work.

    The copy is complete by itself. The key and its witness are not in it: keep them elsewhere.
    """
    from counton.store.backup import back_up

    copy = back_up(options.state, options.out)
    typer.echo(
        f"copied to {copy}, which is as secret as the state: it holds exact sums; a copy that is "
        f"restored is refused where the state has released more since"
    )


@app.command()
def key(
    file: Annotated[str, typer.Argument(help="a new file; it is never overwritten")],
) -> None:
    """Draw a key and write it to a new file, for a vault or for --key; never shown.

    A state that is given a key which was there before derives one of its own from it.
    """
    with explained():
        from counton.noise import Key

        drawn = Key.generate()
        drawn.save(file)
        typer.echo(f"key written to {file}, fingerprint {drawn.fingerprint}")


@app.command()
@takes(ExportOptions, FitOptions)
def export(options: ExportOptions, fit: FitOptions) -> None:
    """Write what was released again, from the state alone: a table or a chart. Needs no key.

    Any steps, any groups, intervals of any level. It disturbs nobody who is writing the stream.
    """
    from counton.cli.export import perform

    perform(options, fit)


@app.command()
@takes(AnswerOptions)
def answer(options: AnswerOptions) -> None:
    """Ask a released table, a state or a service: differences, ratios, shares, sums over periods.

    A table that was written is enough: it carries what is public of its stream. Needs no key. The
    address of a stream of a service does as well; a token in an option is seen by all who list the
    machine's processes, and one in the environment is not.
    """
    from counton.cli.answer import perform

    perform(options)


@app.command()
@takes(MethodsOptions)
def methods(options: MethodsOptions) -> None:
    """Say in paragraphs what a publication needs: unit, guarantee, attacker, error, mechanism.

    Also where the mechanism is described, and what was not protected. From the state alone, or a
    table that was written, a published database or a service.
    """
    from counton.cli.export import print_methods

    print_methods(options)


@app.command()
@takes(PublishOptions)
def publish(options: PublishOptions) -> None:
    """Write releases into plain tables and a view, counton_releases, for Grafana, Metabase, psql.

    Run it after each release; within the state's own database every later run does it by itself.
    """
    from counton.cli.export import print_published

    print_published(options)


@app.command()
@takes(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Compute every released value again, from sums and key, and compare with the journal.

    Changes nothing of the state. Exit code 0: all is right; 3: something differs; 6: a key is
    missing.
    """
    from counton.cli.inspection import print_verification

    print_verification(options)


@app.command()
@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Count a year of departures from New York's airports, hour by hour for 16 carriers.

    Writes the events, a table and a chart into a folder, and shows the command that does it. The
    data come with counton's extra demo.
    """
    from counton.cli.demo import perform

    perform(options)
