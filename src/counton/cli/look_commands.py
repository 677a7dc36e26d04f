"""The commands ``ledger``, ``show`` and ``verify``, which show a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from counton.base.errors import CountonError, InvalidInput, StateError, field
from counton.base.exact import figures
from counton.cli.command_options import option_names
from counton.cli.exits import ExitCode
from counton.cli.keep_options import LedgerOptions, VerifyOptions
from counton.cli.print_forms import (
    Console,
    print_json,
    tell_of_old_copies,
    warn_of_witness_beside,
)
from counton.cli.show_options import ShowOptions
from counton.privacy import Guarantee, Ledger, Limit, Spend
from counton.privacy.contribution import Relation, base_unit
from counton.privacy.guarantees import guarantee_from
from counton.privacy.ledger import APART, NEIGHBOURS
from counton.state.ledger_rows import record_in

if TYPE_CHECKING:
    from counton.numbers.design import Design
    from counton.released.description import Description
    from counton.released.release import Release
    from counton.released.released_numbers import ReleasedNumbers
    from counton.state import Store
    from counton.state.ledger_rows import LedgerEvent


def print_ledger(options: LedgerOptions) -> None:
    """Enter what options state (a privacy limit, the loss of another program); then print what is
    spent, and the limit.

    Raises:
        SystemExit: the spent fraction of the limit has reached ``--warn-at``.
    """
    with _enter(options) as store:
        ledger = store.ledger
        entries = _entries(store, ledger)
        totals, events = store.totals, store.ledger_history
    changes = [event for event in events if event.name is None]
    history = events if options.history else None
    share = None if ledger is None else _share_spent(ledger)
    warned = options.warn_at is not None and share is not None and share >= options.warn_at
    if options.json:
        found: dict[str, Any] = {"state": options.state, "share": share}
        if options.warn_at is not None:
            found["warned"] = warned
        found["spent"] = _entries_as_json(entries)
        found |= {"limit": None, "about": None, "age": None}
        if ledger is not None:
            found |= {"limit": _as_json(ledger.limit), "about": ledger.unit, "age": ledger.age}
        found["limit_changes"] = [change._asdict() for change in changes]
        if history is not None:
            found["history"] = [event._asdict() for event in history]
        print_json(found | _rest_as_json(ledger, totals))
    else:
        console = Console()
        columns = _columns(entries, ledger) if history is None else _history_columns(history)
        table = Table()
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in zip(*columns.values(), strict=True):
            table.add_row(*row)
        console.write_table(table)
        console.write_line(f"limit: {_limit_in_words(ledger)}")
        for change in changes[1:] if history is None else ():
            when = f"on {change.time[:10]} at {change.time[11:16]} UTC"
            by = f"by {change.user} at {change.host} {when}"
            console.write_line(f"{change.in_words()}, {by}")
        if ledger is None:
            _print_totals(console, totals)
        else:
            _print_rest(console, ledger)
        if warned:
            console.write_line(
                f"{share:.0%} of the limit is spent: --warn-at {options.warn_at:g} is reached"
            )
    if warned:
        raise SystemExit(int(ExitCode.ALARM))


@contextmanager
def _enter(options: LedgerOptions) -> Iterator[Store]:
    """Check what options state, enter it into the ledger of a state, and yield the open state."""
    from counton.state import Store

    limit = guarantee_from(options.epsilon, options.delta, options.rho)
    more: dict[str, Any] = {
        name: getattr(options, name) for name in ("age", "approximate_delta", "relation", "unit")
    }
    if limit is None:
        for name, value in more.items():
            if value is not None:
                raise InvalidInput(
                    f"{field(name, value)} describes a limit of the ledger, and no limit is given; "
                    f"give {field('epsilon')} or {field('rho')} too"
                )
    else:
        Ledger(limit, **{**more, "unit": more["unit"] or None})  # before a state is made for it
    if options.warn_at is not None and not 0 < options.warn_at <= 1:
        raise InvalidInput(
            f"{field('warn_at', options.warn_at)} is not a share of the limit; give a number above "
            "0 and at most 1, such as 0.8"
        )
    with _names_of_add():
        foreign = _foreign_spend(options)
    # A limit is set before the first release, so the state may be new.
    new = limit is not None or (foreign is not None and options.warn_at is None)
    with Store(options.state, create=new) as store:
        if limit is not None:
            store.set_limit(limit, **more, allow_raise=options.allow_raise)
        elif options.warn_at is not None and store.ledger is None:
            raise InvalidInput(
                f"{field('warn_at', options.warn_at)} is a share of the limit, but {options.state} "
                f"has no limit; set a limit with {field('epsilon')} or {field('rho')}"
            )
        if foreign is not None:
            with _names_of_add():
                store.add_spend(**foreign)
        yield store


class _ShownEntry(NamedTuple):
    """An entry of a ledger (the record of spent privacy loss), as it is shown.

    Attributes:
        spend: name, guarantee and protected unit of a release.
        entered: time of the entry, ISO 8601 in UTC.
        counts_as: guarantee that counts against the limit; None: nothing yet.
    """

    spend: Spend
    entered: str
    counts_as: Guarantee | None


def _entries(store: Store, ledger: Ledger | None) -> list[_ShownEntry]:
    """Return the entries of a state's ledger."""
    spends = store.spends
    costs: list[Guarantee | None] = [spend.guarantee for spend in spends]
    if ledger is not None:
        costs = [cost for _, cost in ledger.entries_with_costs()]
    return [*map(_ShownEntry, spends, store.entry_times, costs)]


def _entries_as_json(entries: Sequence[_ShownEntry]) -> list[dict[str, Any]]:
    found = []
    for one in entries:
        found.append({**one.spend.to_dict(), "entered": one.entered})
        if one.counts_as != one.spend.guarantee:
            found[-1]["counts_as"] = _as_json(one.counts_as)
    return found


def _columns(entries: Sequence[_ShownEntry], ledger: Ledger | None) -> dict[str, list[str]]:
    """Return the entries of a ledger as columns to print."""
    spends = [one.spend for one in entries]
    columns = {
        "release": [spend.name for spend in spends],
        "spent": [str(spend.guarantee) for spend in spends],
        "date": [one.entered[:10] for one in entries],
    }
    if len({(spend.unit, spend.relation) for spend in spends}) > 1:
        columns["for one"] = [f"{spend.unit} {NEIGHBOURS[spend.relation]}" for spend in spends]
    if ledger is not None and any(one.counts_as != one.spend.guarantee for one in entries):
        at_age = f" at age {ledger.age:,}" if ledger.age else ""
        columns[f"counts{at_age} as"] = [str(one.counts_as or "nothing yet") for one in entries]
    return columns


def _limit_in_words(ledger: Ledger | None) -> str:
    if ledger is None:
        return "none"
    words = str(ledger.limit)
    if ledger.unit is not None:
        longer = "each release must protect this time or a longer one (--per), else it is refused"
        if base_unit(ledger.unit) == ledger.unit:
            longer = "a release that protects only a period (--per) is refused"
        words += f", for one {ledger.unit}; {longer}"
    elif len(ledger.units) == 1:
        ((unit, relation),) = ledger.units.items()
        words += f" for one {unit} {NEIGHBOURS[relation]}"
    return words + ("" if ledger.age is None else f", for events up to {ledger.age:,} windows old")


def _remaining(ledger: Ledger) -> dict[str, Limit | None]:
    """Return what is left of the limit for each kind of unit; before the first entry all of it."""
    return {unit: ledger.remaining(unit=unit) for unit in ledger.units} or {"": ledger.limit}


def _print_rest(console: Console, ledger: Ledger) -> None:
    """Print what is left of the limit, for each kind of unit."""
    remaining = _remaining(ledger)
    for unit, rest in remaining.items():
        whom = f" for one {unit} {NEIGHBOURS[ledger.units[unit]]}" if len(remaining) > 1 else ""
        console.write_line(f"remaining{whom}: {rest or 'nothing'}")
    if len(remaining) > 1:
        console.write_line(APART)


def _rest_as_json(ledger: Ledger | None, totals: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of the limit, and, for each kind of unit, how neighbouring datasets
    differ, what is spent, and what is left.
    """
    units = {
        unit: {"relation": of, "spent": _as_json(spent)} for unit, (of, spent) in totals.items()
    }
    if ledger is None:
        return {"remaining": None, "units": units}
    for unit in units:
        units[unit]["remaining"] = _as_json(ledger.remaining(unit=unit))
    rests = _remaining(ledger).values()
    return {"remaining": _as_json(*rests) if len(rests) == 1 else None, "units": units}


def _history_columns(history: Sequence[LedgerEvent]) -> dict[str, list[str]]:
    """Return the history of a ledger as columns to print, ordered by time.

    A ledger is the record of spent privacy loss. Its history has the guarantees that were entered
    and the limits that were changed.
    """
    return {
        "time (UTC)": [event.time[:19].replace("T", " ") for event in history],
        "event": [event.in_words() for event in history],
        "by": [f"{event.user} at {event.host}" for event in history],
    }


@contextmanager
def _names_of_add() -> Iterator[None]:
    """Within the ``with`` block, let errors refer to the options that this command has with
    ``--add``, such as ``--epsilon``.
    """
    try:
        yield
    except CountonError as error:
        names = option_names(LedgerOptions)
        own = {
            name.removeprefix("add_"): option
            for name, option in names.items()
            if name.startswith("add_")
        }
        raise type(error)(error.translate(names | own)) from error


def _foreign_spend(options: LedgerOptions) -> dict[str, Any] | None:
    """Return the arguments with which `Store.add_spend` records the privacy loss of another
    program, as ``--add`` states it; None without ``--add``.
    """
    if options.add is None:
        for name in ("add_epsilon", "add_delta", "add_rho", "add_unit"):
            if (value := getattr(options, name)) is not None:
                raise InvalidInput(
                    f"{field(name, value)} describes a loss to add to the ledger, and the name of "
                    f"that entry is missing; give {field('add')} too"
                )
        return None
    from counton.numbers.design import check_name

    check_name(options.add)
    guarantee = guarantee_from(options.add_epsilon, options.add_delta, options.add_rho)
    if guarantee is None or options.add_unit is None:
        lacking = "add_unit" if guarantee is not None else "add_epsilon"
        raise InvalidInput(
            f"{field('add', options.add)} adds an entry to the ledger, and {field(lacking)} is "
            "missing; give it too"
        )
    return {
        "name": options.add,
        "guarantee": guarantee,
        "unit": options.add_unit,
        "relation": options.add_relation,
    }


def _share_spent(ledger: Ledger) -> float:
    """Return the largest fraction of the limit's epsilon or rho that is spent for any kind of
    unit.
    """
    number, most = next(iter(ledger.limit.losses.items()))
    costs = [ledger.cost(unit=unit) for unit in ledger.units]
    return max(
        (float(getattr(cost, number) / most) for cost in costs if cost is not None), default=0.0
    )


def _print_totals(console: Console, found: Mapping[str, tuple[Relation, Limit | None]]) -> None:
    """Print the privacy loss of all streams together, for a state (database) without a limit."""
    for unit, (relation, total) in found.items():
        words = "no one sum; against a limit (--limit-epsilon and --limit-delta) they add up"
        words = words if total is None else str(total)
        console.write_line(f"total for one {unit} {NEIGHBOURS[relation]}: {words}")
    if len(found) > 1:
        console.write_line(APART)


def _as_json(guarantee: Guarantee | None) -> dict[str, Any] | None:
    return None if guarantee is None else guarantee.to_dict()


def print_held(options: ShowOptions) -> None:
    """Print what a state or a released table contains."""
    from counton.released.release_files import read_public

    public = read_public(options.state, name=options.name)
    if public is not None:
        print_release(public, options.json)
        return
    print_state(options.state, options.name, options.json)


def print_state(state: str, name: str | None, as_json: bool) -> None:
    """Print the streams of a state (database), or one of them, without secrets."""
    from counton.state import Store
    from counton.state.database import reading

    with Store(state) as store:
        described = store.summary()
        if name is not None:
            store.reader(name)  # refused if it is missing
            described["streams"] = [one for one in described["streams"] if one["name"] == name]
        tell_of_old_copies(store, [one["name"] for one in described["streams"]])
        if not as_json:
            console = Console()
            for stream in described["streams"]:
                # No seal is checked here, and whoever alters a state can compute its checksums.
                with reading(f"what describes stream {stream['name']!r}"):
                    _print_stream(console, stream, store)
                _tell_of_late_rows(store, stream["name"])
            if len(described["streams"]) > 1:  # the promises above hold for one stream each
                _print_totals(console, store.totals)
            account = f"state {described['state']}, file format {described['format']}"
            if described["streams"]:
                account += f"; {_ACCOUNT}"
            console.write_line(account)
            return
    described["streams"] = [_in_zone(stream) for stream in described["streams"]]
    print_json(described)


#: Where the account of a promise is: who is protected, from whom, and at what cost.
_ACCOUNT = "the account of each promise: counton methods --full"


def _tell_of_late_rows(store: Store, name: str) -> None:
    """Print on stderr the fraction of a stream's rows that came late, if this process may read
    exact numbers.
    """
    from counton.cli.run_words import EXACT
    from counton.run.stream_end import late_rows_for_operator

    try:
        arrived, late = late_rows_for_operator(store, name)
    except StateError:  # whoever reads releases alone may not see it
        return
    if late:
        message = f"{name}: {late:,} of {arrived:,} rows came late, {late / arrived:.1%}"
        Console(stderr=True).write_line(f"{EXACT}: {message}")


#: Largest number of rows of the last step in JSON.
_ROWS = 20


def print_release(released: Release, as_json: bool) -> None:
    """Print what is public about a release (guarantee, numbers, columns), read from a table."""
    numbers = released.numbers
    definition, shown = numbers.definition, numbers.table()
    once = not definition.cut.goes_on
    steps = [] if once else shown["step"].unique().sort().to_list()
    gone = steps[-1] - steps[0] + 1 - len(steps) if steps else 0
    if as_json:
        from polars import selectors

        from counton.base.literature import origin_of
        from counton.numbers.strategy_words import mechanism_sources
        from counton.released.release_facts import promise_of

        public, last = definition.public(), numbers.last_rows(_ROWS)
        paper = origin_of(mechanism_sources(numbers.design.strategy))
        first, newest = (steps[0], steps[-1]) if steps else (None, None)
        there = {"paper": paper, "first": first, "last": newest, "missing_steps": gone}
        described = {
            **promise_of(numbers),
            **{fact: public[fact] for fact in ("what", "by", "value", "windows", "groups")},
            "publishes": definition.release,
            **({} if once else there),
            "rows": last.with_columns(selectors.temporal().dt.to_string("iso:strict")).to_dicts(),
        }
        print_json(described)
        return
    covers = "once" if once else "none"
    if steps:
        covers = f"{len(steps):,} {definition.cut.noun}s, {steps[0]:,} to {steps[-1]:,}"
        covers += f"; missing between them: {gone:,}" if gone else ""
    head = f"stream {numbers.design.name}, as it was released: {covers}"
    console = Console()
    _write_stream(console, head, numbers.design, definition, numbers if numbers.steps else None)
    console.write_line(_ACCOUNT)


def _write_stream(
    console: Console,
    head: str,
    design: Design,
    definition: Description,
    released: ReleasedNumbers | None,
) -> None:
    """Print a stream's last numbers, why they differ from the truth besides noise, its promise and
    its strategy.
    """
    from counton.cli.run_words import promise
    from counton.released.screen import screen_of

    console.write_line(head, bold=True)
    if released is not None:
        screen = screen_of(released)
        if screen.heading:
            console.write_line(screen.heading.lstrip("\n"))
        for table in screen.tables:
            console.write_table(table)
        if screen.left_out:
            console.write_line(f"{screen.left_out}: counton export has them all")
        for note in screen.notes:
            console.write_line(note)
    console.write_line(f"promise: {promise(definition)}")
    if definition.cut.goes_on:
        console.write_line(f"strategy: {_strategy(design, definition.cut.noun)}")


def _strategy(design: Design, noun: str = "step") -> str:
    """Describe a design's strategy in one line: its name, its noise, and its paper or theorem.

    Args:
        noun: the word for a step, such as "window".
    """
    from counton.base.literature import origin_of
    from counton.numbers.strategy_words import mechanism_sources, strategy_in_words

    named = strategy_in_words(design.strategy, noun)
    noise = f"with {design.family.capitalize()} noise"
    return f"{named}, {noise}; {origin_of(mechanism_sources(design.strategy))}"


def _in_zone(stream: dict[str, Any]) -> dict[str, Any]:
    """Return the public facts of a stream with its time of creation converted to the stream's time
    zone.
    """
    zone = record_in(stream["details"]).get("timezone")
    if zone is None:
        return stream
    from counton.frame.windows import load_zone, parse_time

    created = parse_time(stream["created"], zone).astimezone(load_zone(zone)).isoformat()
    return {**stream, "created": created}


def _print_stream(console: Console, stream: dict[str, Any], store: Store) -> None:
    """Print a stream's last numbers, guarantee and strategy."""
    from counton.run.definition import KIND, Definition
    from counton.run.journal_values import read_released
    from counton.strategies.strategy import last_served_step

    details, reader, step = stream["details"], store.reader(stream["name"]), stream["step"]
    design, ended = reader.design, details.get("ended")
    if design.strategy.horizon is None and step == last_served_step(design.strategy):
        ended = step
    end = "" if ended is None else f"; ended at step {ended:,}"
    if details.get("kind") == KIND:
        definition = Definition.reopen(design, reader.details)
        there = (definition.cut.progress(step) if step else "nothing released yet") + end
        known = step and "refused" not in stream
        released = read_released(reader, definition, None) if known else None
        _write_stream(console, f"stream {stream['name']}: {there}", design, definition, released)
    else:  # a program gives the inputs of each step directly
        unit, last = details.get("unit"), stream["last"]
        there = "once" if details.get("once") else f"{step:,} step{'s' * (step != 1)}{end}"
        console.write_line(f"stream {stream['name']}: {there}", bold=True)
        if last is not None and last["values"] is not None:
            values = shorten(str(last["values"]), 200, placeholder=" ...")
            console.write_line(f"step {last['step']:,}: {values}")
        if last is not None and last["std"] is not None:
            of = f" of {last['of']}" if last.get("of") else ""
            console.write_line(f"error: standard deviation {figures(last['std'])}{of}")
        protected = design.contribution.describe(unit)
        console.write_line(f"promise: {protected} ({design.guarantee.loss_in_words})")
        console.write_line(f"strategy: {_strategy(design)}")
    if "refused" in stream:
        console.write_line(f"not shown: {_in_words(stream['refused'])}")


def _in_words(reason: str) -> str:
    """Rewrite a message of the library for the command line: names of Python fields become
    options.
    """
    reason = reason.replace("name its folder (witness)", "name its folder (--witness)")
    return reason.replace("accept_old_copy=True", "counton verify --accept-old-copy")


def print_verification(options: VerifyOptions) -> None:
    """Print how many values were recomputed and which differ; exit with the code of the result.

    With ``--accept-old-copy`` the state is first recorded as the newest copy.
    """
    from counton.state import verify

    if options.accept_old_copy:
        from counton.state.state_witness import accept_old_copy

        for name in accept_old_copy(options.state, options.witness):
            Console(stderr=True).write_line(
                f"the witness now holds this copy of {name!r} for the newest, on your word"
            )
    asked: dict[str, Any] = {"key": options.key, "witness": options.witness}
    found = verify(options.state, options.name, **asked)
    warn_of_witness_beside(Console(stderr=True), (options.state, options.witness))
    wrong = any(one.problems for one in found)
    skipped = any(one.skipped for one in found)
    if options.json:
        releases = [{**asdict(one), "right": one.right} for one in found]
        print_json({"state": options.state, "right": not wrong and not skipped, "found": releases})
    else:
        console = Console()
        for one in found:
            console.write_line(f"{one.kind} {one.name}", bold=True)
            for words in one.checks:
                console.write_line(f"  holds: {words}")
            for words in one.problems:
                console.write_line(f"  WRONG: {_in_words(words)}")
            if one.skipped is not None:
                console.write_line(f"  not computed again: {one.skipped}")
        right = sum(one.right for one in found)
        values = sum(one.values for one in found if one.right)
        console.write_line(
            f"{right} of {len(found)} release{'s' * (len(found) != 1)} "
            f"{'is' if right == 1 else 'are'} right: {values:,} value{'s' * (values != 1)} "
            f"computed again"
        )
    if wrong:
        old = any(one.old_copy for one in found)
        raise SystemExit(int(ExitCode.OLD_COPY if old else ExitCode.STATE))
    if skipped:
        raise SystemExit(int(ExitCode.KEY))
