"""The commands that look and do not release: ``plan``, ``ledger``, ``show``."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from counton.errors import InvalidInput
from counton.jobs.choices import guarantee_from, metric_from, needed_guarantee
from counton.jobs.expiring import CHOICE
from counton.privacy import guarantee_from_dict


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_plan(
    steps: int | None,
    epsilon: str | None,
    delta: str | None,
    rho: str | None,
    metric: str | None,
    as_json: bool,
) -> None:
    """Strategies and their errors, best first."""
    from counton.analysis import plan

    if steps is None:
        raise InvalidInput(
            "--steps is missing: how many windows will the stream ever have? for a stream without "
            "an end see --expire"
        )
    guarantee, chosen = needed_guarantee(epsilon, delta, rho), metric_from(metric)
    ranked = plan(steps, guarantee, chosen)
    if as_json:
        _print_json(
            {
                "steps": steps,
                "guarantee": guarantee.to_dict(),
                "metric": chosen,
                "choices": ranked.table(),
                "notes": list(ranked.notes),
            }
        )
        return
    console = Console()
    error = "mean" if chosen == "mean" else "largest"
    console.print(
        f"{steps:,} steps, {guarantee}, one count added or removed; least {error} variance first",
        style="bold",
        highlight=False,
        soft_wrap=True,
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
    console.print(table, highlight=False, markup=False)
    for note in ranked.notes:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


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
        _print_json(
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
    console.print(table, highlight=False, markup=False)
    words = "none" if ledger is None else str(ledger.limit)
    if ledger is not None and ledger.age is not None:
        words += f", for events up to {ledger.age:,} windows old"
    left = "nothing" if remaining is None else str(remaining)
    console.print(f"limit: {words}", highlight=False, markup=False, soft_wrap=True)
    if ledger is not None:
        console.print(f"remaining: {left}", highlight=False, markup=False, soft_wrap=True)


def print_state(state: str, as_json: bool) -> None:
    """What a state holds, without secrets."""
    from counton.store import describe_state

    described = describe_state(state)
    if as_json:
        _print_json(described)
        return
    console = Console()
    console.print(f"state {described['state']}, format {described['format']}", highlight=False)
    for stream in described["streams"]:
        _print_stream(console, stream)


def _print_stream(console: Console, stream: dict[str, Any]) -> None:
    spec, details = stream["spec"], stream["details"]
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
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
    for name, text in rows:
        words.add_row(name, text)
    console.print(f"\nstream {stream['name']}", style="bold", highlight=False, markup=False)
    console.print(words, highlight=False, markup=False)
