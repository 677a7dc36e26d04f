"""Words for whom noise protects, how much each unit may change, and what each unit loses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from counton.base.exact import with_capital
from counton.base.wording import counted, plural
from counton.privacy.guarantees import AgesWithData, difference, parts_in_words, users_note
from counton.results.metadata import ReleaseMetadata

#: What a change of a row is.
_CHANGE = "in later inputs (it disappears, returns, or moves to another window or group)"


def guarantee_in_words(metadata: ReleaseMetadata, loss: str | None = None) -> str:
    """Return sentences on the privacy loss of each unit, and on whom it does not protect.

    Args:
        metadata: the release.
        loss: the loss in words; None: the parameters of the guarantee.
    """
    is_recurring = metadata.windows.is_recurring
    together = (
        f", for all {metadata.windows.noun}s together" if loss is None and is_recurring else ""
    )
    loss = metadata.guarantee.loss_in_words if loss is None else loss
    is_replaced = metadata.contribution.relation == "replace"
    replaced = " that is replaced by another" if is_replaced else ""
    notes = [users_note_of(metadata)]
    if metadata.windows.n_revisions or metadata.max_corrections:
        notes.append(changes_note(metadata))
    sentences = notes_as_sentences([note for note in notes if note is not None])
    return " ".join([f"{loss} for each {metadata.privacy_unit}{replaced}{together}.", *sentences])


def protection_in_words(metadata: ReleaseMetadata) -> str:
    """Return sentences on whom noise protects, and whom less."""
    unit = metadata.privacy_unit
    hidden = difference(unit, metadata.contribution.relation)
    fades = isinstance(metadata.guarantee, AgesWithData)
    protects_rows = (
        not metadata.contribution_rule.bounds_users
        and metadata.contribution_rule.upstream_max_contributions is None
    )
    scope = "event-level privacy" if protects_rows else "user-level privacy"
    if metadata.contribution_rule.contribution_period is not None:
        scope = f"privacy of each {unit}"
    sentence = (
        "Random noise was added before publication: it limits how well anyone can tell, from all "
        f"published numbers together, {hidden}{', and less so as it gets older' * fades} ({scope})."
    )
    if protects_rows:
        less = f"A user with several {plural(unit)} is protected less."
        may_change = metadata.windows.n_revisions or metadata.max_corrections
        changes = _as_sentence(changes_note(metadata)) if may_change else []
        return " ".join([sentence, less, *changes])
    return " ".join([sentence, *_user_notes(metadata)])


def _user_notes(metadata: ReleaseMetadata) -> list[str]:
    """Return sentences on users whose rows are not all protected together."""
    return [*_as_sentence(users_note_of(metadata)), *_as_sentence(changes_note(metadata))]


def protected_in_words(metadata: ReleaseMetadata) -> str:
    """Return words for the protected unit and how much it counts, in groups and windows if cells
    are.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, group_by="page", groups="home,shop", privacy_unit="visit", epsilon=1)
    >>> protected_in_words(plan_spec(job).metadata())
    'one visit more or less, counted in one group of one window by at most 1'
    """
    unit = metadata.privacy_unit
    change = change_in_words(metadata)
    if metadata.contribution.relation == "replace":
        return f"one {unit}, {change}, {metadata.contribution.neighbours}"
    return f"one {unit} more or less, {change}"


def change_in_words(metadata: ReleaseMetadata) -> str:
    """Return the most that one unit of privacy changes, in groups and windows if cells are."""
    words = metadata.contribution.change_in_words(steps=metadata.windows.is_recurring)
    # Values are clipped "in steps of" their resolution, which are no windows.
    words = re.sub(r"(?<!in )\bstep(s?)\b(?! of)", rf"{metadata.windows.noun}\1", words)
    if metadata.windows.n_revisions and metadata.series == "both":
        words += ", and in the totals from the window on in which it arrives"
    if metadata.statistic.additive and metadata.groups_apart is None:
        words = words.replace("one cell of ", "")
    if metadata.statistic.additive:
        return re.sub(r"\bcell(s?)\b", r"group\1", words)
    if re.search(r"\bcells?\b", words) is not None:
        words += "; a cell is one of the counts behind the numbers"
    return words


def loss_in_words(metadata: ReleaseMetadata) -> str:
    """Return the privacy loss of each unit."""
    guarantee = metadata.guarantee
    unit = metadata.privacy_unit
    if isinstance(guarantee, AgesWithData):
        return f"grows with the age of each {unit}"
    loss = f"{guarantee.loss_in_words} for each {unit}, once"
    if not metadata.windows.is_recurring:
        return loss
    return (
        f"{loss} for the whole stream, which is this series of releases: later releases "
        f"add nothing; the losses of other streams about the same {unit} add up"
    )


def users_note_of(metadata: ReleaseMetadata) -> str | None:
    """Return a note on the privacy loss of a user, or on who has bounded a user's rows."""
    contribution_rule = metadata.contribution_rule
    if (
        contribution_rule.upstream_max_contributions is not None
        and contribution_rule.event_name is not None
    ):
        noun = contribution_rule.event_name
        if contribution_rule.upstream_max_contributions != 1:
            noun = plural(noun)
        rows = f"{contribution_rule.upstream_max_contributions:,} {noun}"
        bounded_by = "as bounded before, by whoever made the table"
        return f"the table counts at most {rows} of one {metadata.privacy_unit}, {bounded_by}"
    if not contribution_rule.bounds_users:
        return users_note(metadata.guarantee, metadata.privacy_unit)
    parted = contribution_rule.contribution_period is not None
    return parts_in_words(metadata.guarantee, metadata.privacy_unit) if parted else None


def changes_note(metadata: ReleaseMetadata) -> str | None:
    """Return a note on the loss of events that change in later inputs; None if rows count once."""
    if (covered := metadata.max_corrections) is None:
        return None
    if metadata.contribution_rule.bounds_users:
        rule = "a counted row that later inputs lack stays counted"
        if covered:
            times = "once" if covered == 1 else f"{covered:,} times"
            rule = f"later inputs may replace each counted row {times}, then it stays counted"
        return f"{rule}: the guarantee covers all inputs of each {metadata.privacy_unit} together"
    row = metadata.contribution_rule.event_name or metadata.privacy_unit
    if covered:
        return f"the guarantee covers {counted(covered, 'change')} of each {row} {_CHANGE}"
    times = _loss_of_changes(metadata)
    return f"for each {row} that changes K times {_CHANGE}, the loss is up to {times}"


def _loss_of_changes(metadata: ReleaseMetadata) -> str:
    """Return the loss of a row that changes K times, as a multiple of the loss of one that stays.

    In revised windows it moves the measurements of each window by +1 and -1 in turn. Else it counts
    again in each window to which it moves, as 1 + K rows do (`loss_of_many`).
    """
    if metadata.windows.n_revisions:
        return "(1 + 2K) times as large"
    losses = metadata.guarantee.losses
    if "rho" in losses:
        return "(1 + K)^2 times as large"
    return f"(1 + K) times as large{', with far more delta' if 'delta' in losses else ''}"


def counting_rule(metadata: ReleaseMetadata) -> str | None:
    """Return words for the window in which a late row counts, if it does."""
    if not (metadata.windows.timed and metadata.windows.is_recurring):
        return None
    if not metadata.windows.n_revisions:
        return "by arrival" if metadata.max_corrections is None else "by the time of each row"
    return (
        f"by the time of each row, for {metadata.windows.length_text(metadata.windows.n_revisions)}"
    )


def _as_sentence(note: str | None) -> list[str]:
    return [] if note is None else [f"{with_capital(note)}."]


def notes_as_sentences(notes: Sequence[str]) -> list[str]:
    """Translate notes as sentences."""
    return [f"{with_capital(note)}." for note in notes]
