"""What a run says of itself, in words: what is protected, what was released, what it left out."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from counton.bounds import read_plain
from counton.exact import figures
from counton.jobs.job import EXPIRING
from counton.privacy import Guarantee, PureDP
from counton.privacy.guarantees import loss_of_many, plural
from counton.privacy.ledger import totals_in_words
from counton.statistics import TallyStatistic

if TYPE_CHECKING:
    from counton.jobs import Definition, Job, Outcome
    from counton.jobs.definition import Continuation
    from counton.mechanisms.discovery import Discovery


#: Before exact numbers, which go to standard error.
EXACT = "exact, not to be published"


class SetAside(NamedTuple):
    """Rows that were set aside by the run before, which are not told again every night.

    Attributes:
        file: into which rows are set aside; None: they are not.
        before: its lines, before this run.
    """

    file: Path | None
    before: frozenset[bytes]

    @classmethod
    def of(cls, job: Job) -> SetAside:
        """What is set aside before a job runs.

        Raises:
            InvalidInput: no such policy.
        """
        from counton.events.policies import Policies

        file = Policies.read(job.bad_rows, job.bad_rows_most, job.missing).quarantine
        return cls(file, _lines(file))

    def new(self, now: int) -> int:
        """How many of this many rows were not there before."""
        return min(now, len(_lines(self.file) - self.before))


def _lines(file: Path | None) -> frozenset[bytes]:
    if file is None:
        return frozenset()
    try:
        return frozenset(read_plain(file).splitlines())
    except OSError:
        return frozenset()


def operator_notes(outcome: Outcome, aside: int) -> list[str]:
    """Exact facts about the input, for the operator's eyes only.

    Args:
        outcome: of the run.
        aside: how many of the rows that it set aside are new.
    """
    counts, windows = outcome.for_operator(), outcome.definition.cut
    if outcome.definition.once:
        notes = [
            ("rows of undeclared cells, not counted", counts.unknown),
            ("rows with a missing value, not counted", counts.skipped),
            (_aside(aside, counts.quarantined), aside),
            ("rows beyond their user's limit, not counted", counts.beyond_most),
        ]
        return [f"{EXACT}: {what}: {rows:,}" for what, rows in notes if rows]
    if windows is None:
        notes = [("rows after the last step, not counted", counts.beyond)]
        return [f"{EXACT}: {what}: {rows:,}" for what, rows in notes if rows]
    start = windows.at(windows.start)
    end = windows.at(windows.end)
    if outcome.after > outcome.before:
        counted_at = f"counted at step {outcome.before + 1:,}"
    elif outcome.after < windows.steps:
        counted_at = "to be counted at the next release"
    else:
        counted_at = "not counted: the stream has had its last release"
    before = outcome.definition.continues  # which has counted them, unless they came late
    nowhere = "not counted" if before is None else "counted in no window of this stream"
    unnamed = "" if outcome.definition.discovery is None else " (no label that can be shown)"
    notes = [
        (f"rows that arrived late for windows released before, {counted_at}", counts.late),
        (f"rows before the first window ({start}), {nowhere}", counts.before),
        (f"rows after the last window ({end}), not counted", counts.beyond),
        (f"rows of undeclared groups{unnamed}, not counted", counts.unknown),
        ("rows with a missing value, not counted", counts.skipped),
        (_aside(aside, counts.quarantined), aside),
        ("rows beyond their user's limit, not counted", counts.beyond_most),
        ("rows that an earlier run had counted, not counted again", counts.known),
        ("rows that came too late, not counted", counts.closed),
        ("rows of files that look counted, not counted again", counts.kept),
        ("rows that were counted and are gone, which stay counted", counts.gone),
        ("rows that still waited in the stream that has ended, not counted here", counts.dropped),
    ]
    return [f"{EXACT}: {what}: {rows:,}" for what, rows in notes if rows]


def _aside(new: int, now: int) -> str:
    others = f" (beside {now - new:,} that were there before)" if now > new else ""
    return f"rows that cannot be read, set aside{others}"


#: Whom every guarantee holds against.
_AGAINST = (
    "against",
    "readers who know or choose all other rows, and who see each release before they choose in "
    "which later steps and cells the protected unit counts",
)


def protection(outcome: Outcome) -> list[tuple[str, str]]:
    """What is protected, in words: unit, relation, guarantee, cost, strategy, noise, until."""
    from counton.results.wording import cost_in_words, hidden_in_words, strategy_in_words

    definition = outcome.definition
    if definition.ordered:
        return _of_statistic(definition) + _until(outcome)
    unit = definition.contribution.describe(definition.unit)
    people, columns = definition.people, definition.columns
    if people is None:
        where = " in one group (cell) of one window (step)" if definition.statistic.additive else ""
        one = f"each row is one {definition.unit}{where}; {hidden_in_words(definition)}"
        if isinstance(definition.statistic, TallyStatistic) and definition.statistic.counts_units:
            one = f"each row stands for as many {plural(definition.unit)} as it counts"
        if columns.id is not None:
            from counton.jobs.guards import LATE_DAYS

            one = (
                f"all rows with the same id are one {definition.unit}, until {LATE_DAYS} days "
                f"after the first of them was counted; an id that comes again later counts as "
                f"another {definition.unit}, with a loss of its own"
            )
        lines = [
            ("protected", unit),
            ("", one),
            (
                "",
                f"{definition.people_note}; to protect people, name their column and how many of "
                f"their events count: --user COLUMN --most N",
            ),
        ]
    else:
        counts = definition.statistic.additive
        cells = "; a cell is one group, a step is one window" if counts else ""
        lines = [
            ("protected", unit),
            (
                "",
                f"the column {columns.user!r} names the user of each event{cells}; "
                f"{hidden_in_words(definition)}",
            ),
        ]
        if people.per is not None:
            loss = loss_of_many(definition.guarantee, 10)
            words = f"each is protected by itself: somebody with 10 of these loses {loss}"
            lines.append(("", words))
        if definition.late_note is not None:
            lines.append(("", definition.late_note))
    if definition.once:
        return [*lines, *_of_table(definition, outcome)]
    lines += [
        ("guarantee", f"{definition.guarantee}, {definition.guarantee.scope}"),
        ("", definition.guarantee.meaning_for(definition.unit)),
        *_surest(definition.guarantee),
        ("cost", cost_in_words(definition)),
        _AGAINST,
        ("strategy", strategy_in_words(definition.strategy)),
    ]
    if definition.choice == EXPIRING:
        from counton.cli.ages import loss_in_words

        losses = loss_in_words(definition.guarantee, definition.strategy, definition.windows.every)
        lines.insert(len(lines) - 2, ("", f"loss by age: {losses}"))
    if definition.discovery is not None:
        lines.append(("groups", _discovery_in_words(definition, definition.discovery)))
    if definition.strategy.delay:
        windows = f"{definition.strategy.delay:,} window{'s' * (definition.strategy.delay > 1)}"
        lines.append(("delay", f"each release counts up to {windows} before its own"))
    if definition.continues is not None:
        lines += _succession(definition, definition.continues)
    if not definition.statistic.additive:
        lines.insert(0, ("statistic", _statistic_in_words(definition)))
    return lines + _until(outcome)


def totals_apart(outcome: Outcome) -> list[tuple[str, str]]:
    """The total of each kind of unit, where there are several and no limit names one."""
    lines = totals_in_words(outcome.stream.totals)
    return list(zip(["spent", *[""] * len(lines)], lines, strict=False))


def _surest(guarantee: Guarantee) -> list[tuple[str, str]]:
    """How sure a reader can become of what is protected, where epsilon alone says so; rounded up.

    >>> [_surest(PureDP(epsilon))[0][1].split()[11] for epsilon in (0.2, 1, 20)]
    ['54.99%', '73.11%', '100%']
    """
    if not isinstance(guarantee, PureDP):
        return []
    sure = figures(math.ceil(1e4 / (1 + math.exp(-float(guarantee.epsilon)))) / 100)
    words = f"finds both equally likely before can be at most {sure}% sure after all releases"
    return [("", f"somebody who {words}, without exception (that is: pure)")]


def _of_table(definition: Definition, outcome: Outcome) -> list[tuple[str, str]]:
    """What is promised of a table that is released once."""
    from counton.results.wording import cost_in_words

    unit, law = definition.contribution, outcome.stream.terms.law
    of = getattr(definition.statistic, "mechanism", "")
    return [
        ("guarantee", f"{definition.guarantee}"),
        ("", definition.guarantee.meaning_for(unit.unit, unit.relation)),
        ("cost", cost_in_words(definition)),
        ("against", "readers who know or choose all other rows"),
        ("noise", f"{law.family}. {of}" if of else law.family),
    ]


def _statistic_in_words(definition: Definition) -> str:
    """A statistic other than counts and sums, in words."""
    from counton.results.wording import statistic_in_words

    what = statistic_in_words(definition).removesuffix(",")
    return what if definition.by is None else f"{what}, by {definition.by}"


def _of_statistic(definition: Definition) -> list[tuple[str, str]]:
    """What is protected where rows are taken in their order."""
    from counton.results.wording import cost_in_words, strategy_in_words

    unit, guarantee = definition.contribution, definition.guarantee
    people = [] if definition.people_note is None else [("", definition.people_note)]
    return [
        ("statistic", _statistic_in_words(definition)),
        ("protected", str(unit)),
        *people,
        ("neighbours", f"differ {definition.statistic.neighbours_differ}"),
        ("guarantee", f"{guarantee}, {guarantee.scope}"),
        ("", guarantee.meaning_for(unit.unit, unit.relation)),
        ("cost", cost_in_words(definition)),
        _AGAINST,
        ("strategy", strategy_in_words(definition.strategy)),
    ]


def _until(outcome: Outcome) -> list[tuple[str, str]]:
    """Which windows are released, and who says so."""
    cut = outcome.definition.cut
    if outcome.definition.once:
        return []
    if cut is None:
        said = f"each row is a step: how many there are is public, {outcome.after:,}"
        return [("released", said)]
    assert outcome.until is not None
    last = 0
    if outcome.after:
        last = int(cut.ends(range(outcome.after, outcome.after + 1))[0])
    until = f"windows that ended by {cut.at(max(outcome.until, last))}"
    if outcome.until < last:
        return [("released", f"{until}, by an earlier run")]
    if outcome.until_stated:
        return [("released", until)]
    return [
        (
            "released",
            f"{until}, the time of the newest event; this time is not protected: leave --until "
            f"newest out, and the clock decides",
        )
    ]


def _discovery_in_words(definition: Definition, discovery: Discovery) -> str:
    """How groups are found that nobody declared."""
    margin = float(Fraction(discovery.margin))
    return (
        f"found in the events; a group is shown once its estimate reaches {discovery.change:,} "
        f"plus {margin:.2f} standard deviations; a group with only one {definition.unit} is ever "
        f"shown with probability below delta = {float(Fraction(discovery.delta)):g}"
    )


def _succession(definition: Definition, before: Continuation) -> list[tuple[str, str]]:
    """Which stream this one goes on from, and what both together cost."""
    totals = (
        "totals go on from its last release, and contain its noise too"
        if before.totals
        else "totals begin again at 0"
    )
    if before.apart:
        cost = (
            f"nobody's part of the data is in both streams, so that of their guarantees the larger "
            f"one counts in the ledger, not the sum; rows that come late for {before.name!r} are "
            f"counted nowhere"
        )
    elif definition.people is not None:
        cost = "a person who is in both streams loses in both: the ledger adds the losses up"
    elif definition.columns.id is not None:
        cost = "an id with rows in both streams loses in both: the ledger adds the losses up"
    else:
        cost = (
            f"the ledger adds both guarantees up; each event lies in the windows of one stream, "
            f"and has the guarantee of that stream; rows that come late for {before.name!r} are "
            f"counted nowhere; if the state is an old copy, events of the steps that it lacks are "
            f"in both streams, and lose in both"
        )
    return [
        ("continues", f"{before.name!r}, which ended at step {before.step:,}; {totals}"),
        ("", cost),
    ]


def progress_line(outcome: Outcome) -> str:
    """How many steps are new."""
    new = outcome.after - outcome.before
    if outcome.again:
        return (
            f"An earlier run has counted these events, so nothing was done. The numbers below come "
            f"from the journal of {outcome.after:,} windows."
        )
    forever = outcome.definition.strategy.horizon is None
    cut = outcome.definition.cut
    if outcome.definition.once:
        what = getattr(outcome.definition.statistic, "size", outcome.definition.what)
        again = f"Nothing new: these {what} were released before, and are shown again."
        return f"Released {what}." if new else again
    if cut is None:
        new, after = outcome.after - outcome.before, outcome.after
        steps = f"{after:,} step{'s' * (after != 1)}"
        return (
            f"Released {new:,} new; {steps} in all." if new else f"Nothing new: {steps} released."
        )
    of = "" if forever else f" of {cut.steps:,}"
    if new == 0 and outcome.after == 0:
        return "Nothing released: no window has ended yet."
    if new == 0:
        return f"Nothing new to release: {outcome.after:,}{of} windows are released."
    if new == 1:
        return f"Released 1 new window (step {outcome.after:,}{of})."
    return f"Released {new:,} new windows (steps {outcome.before + 1:,} to {outcome.after:,}{of})."
