"""The commands that look and do not release: ``plan``, ``ledger``, ``show``."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from counton.cli.option_sets import PlanOptions
from counton.cli.printing import print_json, print_line, print_table, print_words
from counton.errors import InvalidInput
from counton.jobs.definition import EXPIRING, guarantee_from, metric_from, needed_guarantee
from counton.privacy import Contribution, Guarantee, guarantee_from_dict
from counton.strategies import StreamStrategy


def print_plan(options: PlanOptions) -> None:
    """Strategies and their errors, best first."""
    from counton.plans import plan

    if options.steps is None:
        raise InvalidInput(
            "--steps is missing: how many windows will the stream ever have? for a stream without "
            "an end see --expire"
        )
    _refuse_expiring(options)
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
        f"{options.steps:,} step{'s' * (options.steps > 1)}, {guarantee}, one count added or "
        f"removed; least {error} variance first",
        bold=True,
    )
    table = Table()
    table.add_column("strategy", overflow="fold")
    table.add_column("noise")
    table.add_column("mean std", justify="right")
    table.add_column("max std", justify="right")
    least = ranked.best.std(chosen)
    table.add_column("above", justify="right")
    for choice in ranked:
        above = choice.std(chosen) / least - 1 if least else 0.0
        table.add_row(
            _without_horizon(choice.strategy),
            choice.family,
            f"{choice.mean_std:,.2f}",
            f"{choice.max_std:,.2f}",
            f"{above:.1%}" if choice.rank > 1 else "",
        )
    print_table(console, table)
    print_line(console, f"best: {ranked.best.strategy!r}, {ranked.best.why}")
    for note in ranked.notes:
        print_line(console, f"note: {note}")


def _refuse_expiring(options: PlanOptions) -> None:
    """Options that only a plan with --expire reads would be ignored in silence."""
    given = {
        "--every": options.every,
        "--rmse": options.rmse,
        "--largest-error": options.largest_error,
        "--largest-growth": options.largest_growth,
        "--concentrated": options.concentrated or None,
        "--plot": options.plot,
    }
    for option, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{option} {value} needs --expire, losses by age such as 1d:1,365d:3: leave it "
                f"out, or plan a stream without an end"
            )


def _without_horizon(strategy: StreamStrategy) -> str:
    """A strategy in a table whose heading says the number of steps."""
    shown = {name: value for name, value in strategy.parameters.items() if name != "horizon"}
    arguments = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    return f"{type(strategy).__name__}({arguments})"


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

    limit = guarantee_from(limit_epsilon, limit_delta, limit_rho)
    if limit is None and limit_age is not None:
        raise InvalidInput(
            f"--limit-age {limit_age} needs a limit to count against; give --limit-epsilon or "
            f"--limit-rho"
        )
    with Store(state) as store:
        if limit is not None:
            store.set_limit(limit, age=limit_age)
        spends, ledger = store.spends, store.ledger
    aged = ledger is not None and ledger.age is not None
    counted = dict(enumerate(ledger.counted())) if ledger is not None and aged else {}
    remaining = None if ledger is None else ledger.remaining()
    if as_json:
        print_json(
            {
                "state": state,
                "spent": [
                    {"stream": name, **spend.to_dict(), **_counts_as(counted, number)}
                    for number, (name, spend) in enumerate(spends)
                ],
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
    if ledger is not None and ledger.age is not None:
        table.add_column(f"counts as, {ledger.age:,} windows old", overflow="fold")
    for number, (name, spend) in enumerate(spends):
        present = [str(counted[number][1] or "nothing yet")] if aged else []
        table.add_row(name, str(spend), *present)
    print_table(console, table)
    words = "none" if ledger is None else str(ledger.limit)
    if ledger is not None and ledger.age is not None:
        words += f", for events up to {ledger.age:,} windows old"
    left = "nothing" if remaining is None else str(remaining)
    print_line(console, f"limit: {words}")
    if ledger is not None:
        print_line(console, f"remaining: {left}")


def _counts_as(
    counted: dict[int, tuple[str, Guarantee | None]], number: int
) -> dict[str, dict[str, Any] | None]:
    """For JSON: what a spend counts as at the ledger's age, where it has one."""
    if number not in counted:
        return {}
    guarantee = counted[number][1]
    return {"counts_as": None if guarantee is None else guarantee.to_dict()}


def print_state(state: str, as_json: bool) -> None:
    """What a state holds, without secrets."""
    from counton.store import state_summary

    described = state_summary(state)
    if as_json:
        print_json(described)
        return
    console = Console()
    print_line(console, f"state {described['state']}, format {described['format']}")
    for stream in described["streams"]:
        _print_stream(console, stream)


def _print_stream(console: Console, stream: dict[str, Any]) -> None:
    terms, details = stream["terms"], stream["details"]
    guarantee = guarantee_from_dict(terms["guarantee"])
    contribution = Contribution.from_dict(terms["contribution"])
    strategy = {name: value for name, value in terms["strategy"].items() if name != "strategy"}
    parameters = ", ".join(f"{name}={value!r}" for name, value in strategy.items())
    rows = [
        ("created", stream["created"]),
        ("released", f"{stream['step']:,} steps"),
        ("protected", contribution.describe(details.get("unit", "unit"))),
        ("guarantee", f"{guarantee}, {guarantee.scope}"),
        ("strategy", f"{terms['strategy']['strategy']}({parameters})"),
        ("key", f"fingerprint {stream['key_fingerprint']}"),
    ]
    if "every" in details:
        from counton.events.windows import load_zone, parse_time

        groups = details["domain"]
        number = "no end:" if details["strategy"] == EXPIRING else f"{details['steps']:,}"
        start = parse_time(details["from"], details["timezone"])
        local = start.astimezone(load_zone(details["timezone"])).isoformat()
        rows += [
            ("windows", f"{number} windows of {details['every']} from {local}"),
            ("time zone", details["timezone"]),
            ("groups", "one total" if groups is None else f"{len(groups):,} by {details['by']}"),
            ("unit", details["unit"]),
        ]
    if stream["last"] is not None:
        rows.append(("noise", f"standard deviation {stream['last']['std']:,.4g} at the last step"))
    print_line(console, f"\nstream {stream['name']}", bold=True)
    print_words(console, rows)
