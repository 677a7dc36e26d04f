"""The commands that look and do not release: ``plan``, ``ledger``, ``show``."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from counton.cli.option_sets import PlanOptions
from counton.cli.printing import print_json, print_line, print_table, print_words
from counton.errors import InvalidInput
from counton.jobs.choices import guarantee_from, metric_from, needed_guarantee
from counton.jobs.expiring import CHOICE
from counton.privacy import guarantee_from_dict


def print_plan(options: PlanOptions) -> None:
    """Strategies and their errors, best first."""
    from counton.analysis import plan

    if options.steps is None:
        raise InvalidInput(
            "--steps is missing: how many windows will the stream ever have? for a stream without "
            "an end see --expire"
        )
    guarantee = needed_guarantee(options.epsilon, options.delta, options.rho)
    chosen = metric_from(options.metric)
    ranked = plan(options.steps, guarantee, chosen)
    if options.json:
        print_json(
            {
                "steps": options.steps,
                "guarantee": guarantee.to_dict(),
                "metric": chosen,
                "choices": ranked.table(),
                "notes": list(ranked.notes),
            }
        )
        return
    console = Console()
    error = "mean" if chosen == "mean" else "largest"
    print_line(
        console,
        f"{options.steps:,} steps, {guarantee}, one count added or removed; least {error} "
        f"variance first",
        bold=True,
    )
    table = Table()
    table.add_column("", justify="right")
    table.add_column("strategy", overflow="fold")
    table.add_column("noise")
    table.add_column("mean std", justify="right")
    table.add_column("max std", justify="right")
    table.add_column("why", overflow="fold")
    for row in ranked.table():
        table.add_row(
            str(row["rank"]),
            row["strategy"],
            row["noise"],
            f"{row['mean_std']:,.2f}",
            f"{row['max_std']:,.2f}",
            row["why"],
        )
    print_table(console, table)
    for note in ranked.notes:
        print_line(console, f"note: {note}")


def print_ledger(
    state: str,
    limit_epsilon: str | None,
    limit_delta: str | None,
    limit_rho: str | None,
    limit_age: int | None,
    as_json: bool,
) -> None:
    """What was spent, and the limit; a new limit is set first."""
    from counton.store import Store

    limit = guarantee_from(limit_epsilon, limit_delta, limit_rho, prefix="limit-")
    if limit is None and limit_age is not None:
        raise InvalidInput(
            f"--limit-age {limit_age} needs a limit to count against; give --limit-epsilon or "
            f"--limit-rho"
        )
    with Store(state) as store:
        if limit is not None:
            store.set_limit(limit, age=limit_age)
        spends, ledger = store.spends, store.ledger
    remaining = None if ledger is None else ledger.remaining()
    if as_json:
        print_json(
            {
                "state": state,
                "spent": [{"stream": name, **spend.to_dict()} for name, spend in spends],
                "limit": None if ledger is None else ledger.limit.to_dict(),
                "age": None if ledger is None else ledger.age,
                "remaining": None if remaining is None else remaining.to_dict(),
            }
        )
        return
    console = Console()
    table = Table()
    table.add_column("stream", overflow="fold")
    table.add_column("spent", overflow="fold")
    for name, spend in spends:
        table.add_row(name, str(spend))
    print_table(console, table)
    words = "none" if ledger is None else str(ledger.limit)
    if ledger is not None and ledger.age is not None:
        words += f", for events up to {ledger.age:,} windows old"
    left = "nothing" if remaining is None else str(remaining)
    print_line(console, f"limit: {words}")
    if ledger is not None:
        print_line(console, f"remaining: {left}")


def print_state(state: str, as_json: bool) -> None:
    """What a state holds, without secrets."""
    from counton.store import describe_state

    described = describe_state(state)
    if as_json:
        print_json(described)
        return
    console = Console()
    print_line(console, f"state {described['state']}, format {described['format']}")
    for stream in described["streams"]:
        _print_stream(console, stream)


def _print_stream(console: Console, stream: dict[str, Any]) -> None:
    spec, details = stream["spec"], stream["details"]
    strategy = {name: value for name, value in spec["strategy"].items() if name != "strategy"}
    parameters = ", ".join(f"{name}={value!r}" for name, value in strategy.items())
    rows = [
        ("created", stream["created"]),
        ("released", f"{stream['step']:,} steps"),
        ("guarantee", str(guarantee_from_dict(spec["guarantee"]))),
        ("strategy", f"{spec['strategy']['strategy']}({parameters})"),
        ("key", f"fingerprint {stream['key_fingerprint']}"),
    ]
    if "every" in details:
        groups = details["domain"]
        number = "no end:" if details["strategy"] == CHOICE else f"{details['steps']:,}"
        rows += [
            ("windows", f"{number} windows of {details['every']} from {details['from']}"),
            ("time zone", details["timezone"]),
            ("groups", "one total" if groups is None else f"{len(groups):,} by {details['by']}"),
            ("unit", details["unit"]),
        ]
    if stream["last"] is not None:
        rows.append(("noise", f"standard deviation {stream['last']['std']:,.4g} at the last step"))
    print_line(console, f"\nstream {stream['name']}", bold=True)
    print_words(console, rows)
