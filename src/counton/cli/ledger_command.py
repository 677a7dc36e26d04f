"""The command ``counton ledger``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import click

from counton.base.errors import CountonError, InvalidInputError, param
from counton.cli.command_class import TwoPageCommand, option
from counton.cli.exits import ExitCode

if TYPE_CHECKING:
    from counton.cli.print_forms import Console
    from counton.privacy import AddableGuarantee, Guarantee, Ledger, LedgerEntry
    from counton.privacy.contribution import Relation
    from counton.state import Store
    from counton.state.ledger_rows import LedgerEvent

#: What arguments of the library are called where they are about ``--add``.
_OPTIONS_OF_ADD = {
    "epsilon": "--epsilon",
    "delta": "--delta",
    "rho": "--rho",
    "unit": "--privacy-unit",
    "relation": "--relation",
}


@dataclass(frozen=True)
class BudgetOptions:
    """The budget that a command sets, if it sets one.

    Attributes:
        guarantee: the budget; None: no budget is set.
        age: it holds for events up to this many windows old.
        approximate_delta: the part of delta for guarantees with a delta of their own.
        relation: what is protected of every unit.
        unit: whom the budget protects.
        allow_raise: whether the budget may be raised.
    """

    guarantee: AddableGuarantee | None
    age: int | None
    approximate_delta: str | None
    relation: str | None
    unit: str | None
    allow_raise: bool


@dataclass(frozen=True)
class AddedLoss:
    """The texts of ``--add`` and of the options that belong to it; None: not stated."""

    name: str | None
    epsilon: str | None
    delta: str | None
    rho: str | None
    unit: str | None
    relation: Relation


@dataclass(frozen=True)
class OtherProgram:
    """What another program spent, as ``--add`` states it."""

    name: str
    guarantee: AddableGuarantee
    unit: str
    relation: Relation


@click.command(
    "ledger", cls=TwoPageCommand, example=["counton ledger visits.db --budget-epsilon 3"]
)
@click.argument("state", help="SQLite file or database URL that keeps the streams. It is secret.")
@option(
    "--budget-epsilon",
    "epsilon",
    is_in_short_help=True,
    help="Most epsilon that all streams of the state may spend together.",
)
@option("--budget-delta", "delta", help="With --budget-epsilon: budget of delta.")
@option(
    "--budget-rho", "rho", help="Budget of rho (zero-concentrated privacy), instead of epsilon."
)
@option(
    "--budget-age",
    "age",
    type=int,
    metavar="N",
    help="For streams with --expiring: the budget holds for events up to this many windows old.",
)
@option(
    "--budget-approximate-delta",
    "approximate_delta",
    help="With --budget-delta: the part of it that guarantees with a delta of their own may spend.",
)
@option(
    "--budget-relation",
    "relation",
    help="What is protected of every unit: add_remove (whether its rows are there) or replace "
    "(what its rows hold). [default: as in the first release]",
)
@option(
    "--budget-unit",
    "unit",
    is_in_short_help=True,
    help="Whom the budget protects: reader, with all rows of a reader for ever, or \"reader's "
    'month", with the rows of one month (--contribution-period 1mo; for a year '
    "--contribution-period 12mo). A release that "
    "protects less is refused. [default: the unit of each release, each unit apart]",
)
@option(
    "--raise",
    "allow_raise",
    is_flag=True,
    is_in_short_help=True,
    help="Needed for each change of a budget but a lower one; the ledger notes who made it, and "
    "when.",
)
@option(
    "--add",
    metavar="NAME",
    help="Record what another program spent, under this name; needs --epsilon or --rho, and "
    "--privacy-unit.",
)
@option("--epsilon", "add_epsilon", help="With --add: its epsilon.")
@option("--delta", "add_delta", help="With --add: its delta.")
@option("--rho", "add_rho", help="With --add: its rho.")
@option(
    "--privacy-unit",
    "add_unit",
    help="With --add: unit that the other program protects, as in reader.",
)
@option(
    "--relation",
    "add_relation",
    type=click.Choice(["add_remove", "replace"]),
    default="add_remove",
    show_default=True,
    help="With --add: how its neighbouring data differ: a unit is added or removed, or it is "
    "exchanged.",
)
@option(
    "--history",
    is_flag=True,
    is_in_short_help=True,
    help="Show all entries and all changes of the budget by time, with users.",
)
@option(
    "--warn-at",
    type=float,
    metavar="NUMBER",
    is_in_short_help=True,
    help="End with exit code 10 if at least this share of the budget is spent, as in .8.",
)
@option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")
def ledger(
    *,
    state: str,
    epsilon: str | None,
    delta: str | None,
    rho: str | None,
    age: int | None,
    approximate_delta: str | None,
    relation: str | None,
    unit: str | None,
    allow_raise: bool,
    add: str | None,
    add_epsilon: str | None,
    add_delta: str | None,
    add_rho: str | None,
    add_unit: str | None,
    add_relation: Relation,
    history: bool,
    warn_at: float | None,
    as_json: bool,
) -> None:
    """Show the privacy loss of all streams of a state, and set its budget.

    A new stream that would exceed the budget is refused. Set the budget before anything is
    released: the state may be new.
    """
    from counton.privacy.guarantees import guarantee_from

    budget = BudgetOptions(
        guarantee_from(epsilon, delta, rho),
        age=age,
        approximate_delta=approximate_delta,
        relation=relation,
        unit=unit,
        allow_raise=allow_raise,
    )
    _check_budget(budget)
    _check_share(warn_at)
    with _naming_options_of_add():
        spent_elsewhere = _other_program(
            AddedLoss(
                name=add,
                epsilon=add_epsilon,
                delta=add_delta,
                rho=add_rho,
                unit=add_unit,
                relation=add_relation,
            )
        )
    with _opened(state, budget, spent_elsewhere, warn_at) as store:
        report = LedgerReport.of(store, with_history=history)
    is_alarm = warn_at is not None and report.share is not None and report.share >= warn_at
    if as_json:
        warned = {} if warn_at is None else {"warned": is_alarm}
        _print_json(state, report, warned)
    else:
        _print_report(report)
        if is_alarm:
            from counton.cli.print_forms import Console

            console = Console()
            console.write_line(
                f"{report.share:.0%} of the budget is spent: --warn-at {warn_at:g} is reached"
            )
    if is_alarm:
        raise SystemExit(int(ExitCode.BUDGET_WARNING))


# ------------------------------------------------------------------- what the options state
def _check_budget(budget: BudgetOptions) -> None:
    """Refuse a budget that no ledger takes, before a state is made for it."""
    from counton.privacy import Ledger

    if budget.guarantee is not None:
        Ledger(
            budget.guarantee,
            age=budget.age,
            approximate_delta=budget.approximate_delta,
            relation=cast("Relation | None", budget.relation),
            unit=budget.unit or None,
        )
        return
    described = {
        "age": budget.age,
        "approximate_delta": budget.approximate_delta,
        "relation": budget.relation,
        "unit": budget.unit,
    }
    if any(value is not None for value in described.values()):
        # Only here the command needs the table of options, whose imports take long.
        from counton.job.incompatible import NEEDS_OF_BUDGET, refuse_of_command

        refuse_of_command(described, needs=NEEDS_OF_BUDGET)


def _check_share(warn_at: float | None) -> None:
    if warn_at is not None and not 0 < warn_at <= 1:
        raise InvalidInputError(
            f"{param('warn_at', warn_at)} is not a share of the budget; give a number above 0 and "
            "at most 1, such as 0.8"
        )


@contextmanager
def _naming_options_of_add() -> Iterator[None]:
    """Let errors in a block name the options that this command has with ``--add``."""
    try:
        yield
    except CountonError as error:
        raise type(error)(error.translate({**ledger.words(), **_OPTIONS_OF_ADD})) from error


def _other_program(added: AddedLoss) -> OtherProgram | None:
    """Return what another program spent, as ``--add`` states it; None without ``--add``."""
    from counton.continual.design import check_name
    from counton.privacy.guarantees import guarantee_from

    described = {
        "add": added.name,
        "epsilon": added.epsilon,
        "delta": added.delta,
        "rho": added.rho,
        "unit": added.unit,
    }
    if any(value is not None for value in described.values()):
        from counton.job.incompatible import NEEDS_OF_ADDED_LOSS, refuse_of_command

        refuse_of_command(described, needs=NEEDS_OF_ADDED_LOSS)
    if added.name is None:
        return None
    check_name(added.name)
    guarantee = guarantee_from(added.epsilon, added.delta, added.rho)
    assert guarantee is not None
    assert added.unit is not None
    return OtherProgram(added.name, guarantee, unit=added.unit, relation=added.relation)


@contextmanager
def _opened(
    state: str, budget: BudgetOptions, spent_elsewhere: OtherProgram | None, warn_at: float | None
) -> Iterator[Store]:
    """Open a state, enter the budget and the loss of another program, and yield the state.

    The state may be new, since a budget is set before the first release.
    """
    from counton.state import Store

    may_be_new = budget.guarantee is not None or (spent_elsewhere is not None and warn_at is None)
    with Store(state, create=may_be_new) as store:
        if budget.guarantee is not None:
            store.set_budget(
                budget.guarantee,
                age=budget.age,
                approximate_delta=budget.approximate_delta,
                relation=cast("Relation | None", budget.relation),
                unit=budget.unit,
                allow_raise=budget.allow_raise,
            )
        elif warn_at is not None and store.ledger is None:
            raise InvalidInputError(
                f"{param('warn_at', warn_at)} is a share of the budget, but {state} has no budget; "
                f"set a budget with {param('epsilon')} or {param('rho')}"
            )
        if spent_elsewhere is not None:
            with _naming_options_of_add():
                store.add_spend(
                    spent_elsewhere.name,
                    spent_elsewhere.guarantee,
                    unit=spent_elsewhere.unit,
                    relation=spent_elsewhere.relation,
                )
        yield store


# ---------------------------------------------------------------------------- what a ledger shows
@dataclass(frozen=True)
class ShownEntry:
    """An entry of a ledger, as it is shown.

    Attributes:
        ledger_entry: name, guarantee and protected unit of a release.
        entered: time of the entry, ISO 8601 in UTC.
        counts_as: guarantee that counts against the budget; None: nothing yet.
    """

    ledger_entry: LedgerEntry
    entered: str
    counts_as: Guarantee | None


@dataclass(frozen=True)
class LedgerReport:
    """What a ledger holds.

    Attributes:
        budget: the budget, with what counts against it; None: no budget is set.
        entries: all entries.
        totals: by protected unit, its kind of neighbours and the total loss.
        changes: changes of the budget.
        history: all events; None if they are not wanted.
        share: largest fraction of the budget that is spent for any unit; None without a budget.
    """

    budget: Ledger | None
    entries: Sequence[ShownEntry]
    totals: Mapping[str, tuple[Relation, AddableGuarantee | None]]
    changes: Sequence[LedgerEvent]
    history: Sequence[LedgerEvent] | None
    share: float | None

    @classmethod
    def of(cls, store: Store, *, with_history: bool) -> LedgerReport:
        """Return the report of a state's ledger."""
        budget = store.ledger
        events = store.ledger_history
        return cls(
            budget=budget,
            entries=_entries(store, budget),
            totals=store.totals,
            changes=[event for event in events if event.name is None],
            history=events if with_history else None,
            share=None if budget is None else _share_spent(budget),
        )


def _entries(store: Store, budget: Ledger | None) -> list[ShownEntry]:
    entries = store.entries
    costs: list[Guarantee | None] = [entry.guarantee for entry in entries]
    if budget is not None:
        costs = [cost for _, cost in budget.entries_with_costs()]
    return [
        ShownEntry(entry, entered, cost)
        for entry, entered, cost in zip(entries, store.entry_times, costs, strict=True)
    ]


def _share_spent(ledger: Ledger) -> float:
    """Return the largest fraction of the budget's epsilon or rho that is spent for any unit."""
    loss, most = next(iter(ledger.budget.losses.items()))
    shares = [0.0]
    for unit in ledger.units:
        cost = ledger.cost(unit=unit)
        if cost is not None:
            shares.append(float(cost.losses[loss] / most))
    return max(shares)


def _remaining(ledger: Ledger) -> dict[str, AddableGuarantee | None]:
    """Return what is left of the budget for each unit; before the first entry all of it."""
    return {unit: ledger.remaining(unit=unit) for unit in ledger.units} or {"": ledger.budget}


# -------------------------------------------------------------------------------------- as text
def _print_report(report: LedgerReport) -> None:
    from rich.table import Table

    from counton.cli.print_forms import Console
    from counton.cli.privacy_words import print_totals

    console = Console()
    columns = _entry_columns(report) if report.history is None else _event_columns(report.history)
    table = Table()
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.write_table(table)
    console.write_line(f"budget: {_budget_in_words(report.budget)}")
    later_changes = report.changes[1:] if report.history is None else ()
    for change in later_changes:
        when = f"on {change.time[:10]} at {change.time[11:16]} UTC"
        console.write_line(f"{change.in_words()}, by {change.user} at {change.host} {when}")
    if report.budget is None:
        print_totals(console, report.totals)
    else:
        _print_remaining(console, report.budget)


def _entry_columns(report: LedgerReport) -> dict[str, list[str]]:
    """Return the entries of a ledger as columns to print."""
    from counton.privacy.ledger import NEIGHBOURS

    entries = report.entries
    columns = {
        "release": [entry.ledger_entry.name for entry in entries],
        "spent": [str(entry.ledger_entry.guarantee) for entry in entries],
        "date": [entry.entered[:10] for entry in entries],
    }
    if len({(entry.ledger_entry.unit, entry.ledger_entry.relation) for entry in entries}) > 1:
        columns["for one"] = [
            f"{entry.ledger_entry.unit} {NEIGHBOURS[entry.ledger_entry.relation]}"
            for entry in entries
        ]
    budget = report.budget
    if budget is not None and any(
        entry.counts_as != entry.ledger_entry.guarantee for entry in entries
    ):
        at_age = f" at age {budget.age:,}" if budget.age else ""
        columns[f"counts{at_age} as"] = [str(entry.counts_as or "nothing yet") for entry in entries]
    return columns


def _event_columns(history: Sequence[LedgerEvent]) -> dict[str, list[str]]:
    """Return the history of a ledger as columns to print, ordered by time."""
    return {
        "time (UTC)": [event.time[:19].replace("T", " ") for event in history],
        "event": [event.in_words() for event in history],
        "by": [f"{event.user} at {event.host}" for event in history],
    }


def _budget_in_words(ledger: Ledger | None) -> str:
    from counton.privacy.contribution import base_unit
    from counton.privacy.ledger import NEIGHBOURS

    if ledger is None:
        return "none"
    words = str(ledger.budget)
    if ledger.unit is not None:
        condition = (
            "each release must protect this time or a longer one (--contribution-period), "
            "else it is refused"
        )
        if base_unit(ledger.unit) == ledger.unit:
            condition = "a release that protects only a period (--contribution-period) is refused"
        words += f", for one {ledger.unit}; {condition}"
    elif len(ledger.units) == 1:
        ((unit, relation),) = ledger.units.items()
        words += f" for one {unit} {NEIGHBOURS[relation]}"
    if ledger.age is not None:
        words += f", for events up to {ledger.age:,} windows old"
    return words


def _print_remaining(console: Console, ledger: Ledger) -> None:
    """Print what is left of the budget, for each unit."""
    from counton.privacy.ledger import CAUTION_BELOW_TOTALS, NEIGHBOURS

    remaining = _remaining(ledger)
    for unit, rest in remaining.items():
        whom = ""
        if len(remaining) > 1:
            whom = f" for one {unit} {NEIGHBOURS[ledger.units[unit]]}"
        console.write_line(f"remaining{whom}: {rest or 'nothing'}")
    if len(remaining) > 1:
        console.write_line(CAUTION_BELOW_TOTALS)


# -------------------------------------------------------------------------------------- as JSON
def _print_json(state: str, report: LedgerReport, warned: Mapping[str, bool]) -> None:
    from counton.cli.print_forms import print_json

    budget = report.budget
    values: dict[str, object] = {
        "state": state,
        "share": report.share,
        **warned,
        "spent": [_entry_to_dict(entry) for entry in report.entries],
        "budget": None if budget is None else budget.budget.to_dict(),
        "about": None if budget is None else budget.unit,
        "age": None if budget is None else budget.age,
        "budget_changes": [change._asdict() for change in report.changes],
    }
    if report.history is not None:
        values["history"] = [event._asdict() for event in report.history]
    print_json({**values, **_remaining_to_dict(report)})


def _entry_to_dict(entry: ShownEntry) -> dict[str, object]:
    values = {**entry.ledger_entry.to_dict(), "entered": entry.entered}
    if entry.counts_as != entry.ledger_entry.guarantee:
        values["counts_as"] = _to_dict(entry.counts_as)
    return values


def _remaining_to_dict(report: LedgerReport) -> dict[str, object]:
    """Return what is left of the budget, and of each unit.

    For each unit there are its kind of neighbours, what is spent and what is left.
    """
    budget = report.budget
    units: dict[str, dict[str, object]] = {}
    for unit, (relation, spent) in report.totals.items():
        units[unit] = {"relation": relation, "spent": _to_dict(spent)}
        if budget is not None:
            units[unit]["remaining"] = _to_dict(budget.remaining(unit=unit))
    remaining: dict[str, object] | None = None
    if budget is not None:
        rests = list(_remaining(budget).values())
        remaining = _to_dict(rests[0]) if len(rests) == 1 else None
    return {"remaining": remaining, "units": units}


def _to_dict(guarantee: Guarantee | None) -> dict[str, object] | None:
    return None if guarantee is None else guarantee.to_dict()
