"""What a stream keeps of the job that began it.

The state of a stream keeps the options that define it, as a job would state them: a kept stream is
read like a job. What a later job leaves out is taken from there. `changed_options` compares what
it states with the stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

from counton.base.errors import InvalidInputError, StreamMismatchError, param
from counton.base.exact import text
from counton.io.input_paths import names_tell_format
from counton.job.common_options import Job, is_stated
from counton.job.messages import parse_options
from counton.job.option_fields import (
    OUTPUT,
    REMEMBERED,
    STREAM,
    OptionScope,
    Section,
    names_in_scope,
    scope_of,
)
from counton.job.statistics import model_of
from counton.job.values import QUARANTINE
from counton.privacy import ContributionBound
from counton.privacy.contribution import without_clock
from counton.results.display import DisplaySelection
from counton.results.metadata import ReleaseMetadata, RowsLeftOut, statistic_kept
from counton.results.window_notes import WindowNote
from counton.run.spec.parsing import parse_terms
from counton.run.spec.statistic_parsing import parse_display
from counton.run.spec.terms import (
    DiscoveredGroups,
    Revised,
    SingleTable,
    SnapshotRecognition,
    StreamTerms,
)
from counton.state import Store
from counton.state.database import reading
from counton.state.stream_reader import JournalReader
from counton.statistics import AccumulatorStatistic, Statistic
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.discovery import DECLARED, MOST_CELLS, Cells, cells_from_dict
from counton.statistics.statistic import shape_of
from counton.strategies import StreamStrategy, strategy_from_dict
from counton.windowing.groups import GroupNames

#: Mark of the streams that jobs made.
STREAM_FORMAT = "rows in windows"
#: What the kept options say in place of a strategy of the user's own.
_OWN_STRATEGY = "own"
#: Options that state the cells of a line, in two ways.
FORMS_OF_CELLS = (("edges",), ("lower", "upper", "cells"))
#: Options whose text is the path of a file, which a stream keeps as an absolute path.
_FILES = ("output", "chart")


#: Public facts that may change at any time without the stream's key, and the attributes of
#: `StreamSpec` that have them. The MAC of a stream does not cover them. A table in
#: `counton.state.schema` has all stored names that differ from those of the code.
_PUBLIC_NOTES = {"marks": "notes", "ended": "closed_at_step", "withdrawn": "withdrawn"}
#: Those that a run in progress takes over. The end of the stream is not one of them: it stops the
#: run (`OpenedState.open_writer`).
_NOTES_DURING_RUNS = ("marks", "withdrawn")


def is_made_by_job(public_facts: Mapping[str, object]) -> bool:
    """Return whether a job made the stream with these public facts."""
    return public_facts.get("kind") == STREAM_FORMAT


def without_public_notes(public_facts: Mapping[str, object]) -> dict[str, object]:
    """Return the public facts of a stream without the notes that may change during a run.

    That the stream was closed is no such note.
    """
    return {name: value for name, value in public_facts.items() if name not in _NOTES_DURING_RUNS}


@dataclass(frozen=True)
class StreamSpec:
    """A stream: what defines it, how it is protected, and what its last jobs said of runs.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job(
    ...     "count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...     windows=30,
    ...     epsilon=1,
    ... )
    >>> plan_spec(job).terms.windowing.windows.steps
    30

    Attributes:
        job: the options that define the stream, in their normal form, and no others.
        accumulator_statistic: the core's statistic of all groups, with all its parameters.
        contribution: how much one protected unit changes at most.
        strategy: how noise is shared between steps.
        remembered: options of runs that later jobs may leave out, by name.
        left_out: which rows some run was told to leave out.
        cells: how groups are found, if they are not declared.
        notes: public notes about windows.
        closed_at_step: the step at which the stream was closed; None: it goes on.
        withdrawn: why the stream's numbers are withdrawn, and what replaces them; None: they are
            valid.
    """

    job: Job
    accumulator_statistic: AccumulatorStatistic
    contribution: ContributionBound
    strategy: StreamStrategy
    remembered: Mapping[str, Any] = field(default_factory=dict)
    left_out: RowsLeftOut = field(default_factory=RowsLeftOut)
    cells: Cells = DECLARED
    notes: tuple[WindowNote, ...] = ()
    closed_at_step: int | None = None
    withdrawn: str | None = None

    @cached_property
    def terms(self) -> StreamTerms:
        """The typed values of what defines the stream.

        They are parsed when they are first used. A copy of the specification with other notes or
        options parses them again, and so does `plan_spec` before there is a specification.

        Of the remembered options only ``top`` has a part in them: how many groups a ranking shows
        belongs to its statistic.
        """
        return parse_terms(self.job.with_options(**self.remembered))

    def load_terms(self) -> StreamTerms:
        """Parse the terms if that was not done, and return them.

        Raises:
            InvalidInputError: the facts of the stream are malformed.
        """
        return self.terms

    # ------------------------------------------------------------------------------------- JSON
    def public_facts(self) -> dict[str, Any]:
        """Return what the state of a stream keeps beside its design, which has the rest.

        Names of groups stay `GroupNames`, which a state keeps in blocks.
        """
        options = _defining_options(self.job)
        domain = options.pop("groups", None)
        return {
            "kind": STREAM_FORMAT,
            "what": self.job.statistic,
            "record": {name: option_to_json(value) for name, value in options.items()},
            "groups": domain,
            "remembered": dict(self.remembered),
            "left_out": self.left_out.to_dict(),
            "discovery": self.cells.to_dict(),
            **self.public_notes(),
        }

    def public_notes(self) -> dict[str, object]:
        """Return those facts that may change without the stream's key, because its MAC does not
        cover them: notes, the end of the stream, and the words of a withdrawal.
        """
        return {
            fact: option_to_json(getattr(self, attribute))
            for fact, attribute in _PUBLIC_NOTES.items()
        }

    def to_json(self) -> dict[str, object]:
        """Return the whole spec as JSON values."""
        public_facts = self.public_facts()
        domain = public_facts["groups"]
        return {
            **public_facts,
            "groups": list(domain) if isinstance(domain, GroupNames) else domain,
            "parameters": statistic_to_dict(self.accumulator_statistic),
            "contribution": self.contribution.to_dict(),
            "strategy": self.strategy.to_dict(),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Rebuild a spec from `to_json`.

        Args:
            saved: what `to_json` returned.
        """
        return cls._of_public_facts(
            saved,
            cast("AccumulatorStatistic", statistic_from_dict(saved["parameters"])),
            ContributionBound.from_dict(saved["contribution"]),
            strategy_from_dict(saved["strategy"]),
        )

    @classmethod
    def of_stream(cls, stream: JournalReader) -> Self:
        """Return the spec of an existing stream.

        Args:
            stream: a reader of the stream.

        Raises:
            StreamMismatchError: no job made the stream.
            StateError: the public facts are malformed. They are read before the MAC is checked.
        """
        public_facts = stream.public_facts
        if not is_made_by_job(public_facts):
            raise StreamMismatchError(
                f"stream {stream.name!r} was not made by a job; give another {param('stream')}"
            )
        design = stream.design
        with reading(f"the public facts of stream {stream.name!r}"):
            options = public_facts["record"]
            column = options.get("value") or options.get("count_column")
            statistic = statistic_kept(design, public_facts["what"], column)
            spec = cls._of_public_facts(
                public_facts, statistic, design.contribution, design.strategy
            )
            spec.load_terms()  # malformed facts are refused here
            return spec

    @classmethod
    def _of_public_facts(
        cls,
        public_facts: Mapping[str, Any],
        statistic: AccumulatorStatistic,
        contribution: ContributionBound,
        strategy: StreamStrategy,
    ) -> Self:
        options = dict(public_facts["record"])
        if options.get("strategy") == _OWN_STRATEGY:
            options["strategy"] = strategy
        job: Job = parse_options(model_of(public_facts["what"]), options)
        left_out = public_facts["left_out"]
        return cls(
            job=job.with_options(groups=_groups_in_blocks(public_facts["groups"])),
            accumulator_statistic=statistic,
            contribution=contribution,
            strategy=strategy,
            remembered=public_facts["remembered"],
            left_out=RowsLeftOut(
                drops=left_out.get("drops", False),
                skips=tuple(left_out.get("skips", ())),
                sets_aside=left_out.get("sets_aside", False),
            ),
            cells=cells_from_dict(public_facts["discovery"]),
            notes=tuple(map(WindowNote.from_saved, public_facts["marks"])),
            closed_at_step=public_facts["ended"],
            withdrawn=public_facts["withdrawn"],
        )

    def with_public_notes(self, stream: JournalReader) -> Self:
        """Return the spec with the notes that an existing stream has now, also if they were written
        while a run read its rows.

        Args:
            stream: a reader of the stream that has this specification.
        """
        current = type(self).of_stream(stream)
        attributes = [_PUBLIC_NOTES[fact] for fact in _NOTES_DURING_RUNS]
        return replace(self, **{name: getattr(current, name) for name in attributes})

    # ------------------------------------------------------------------------------- later jobs
    def complete_job(self, job: Job) -> Job:
        """Return a later job with the options that it leaves out, as the stream has them.

        Each job says itself whether its files hold new rows only.

        Args:
            job: a job for the same stream; options that it states are kept.
        """
        model = type(job)
        saved_options = {**self._remembered_options(model), **_defining_options(self.job)}
        saved_options.pop("append", None)
        if names_tell_format(job.events):
            saved_options.pop("file_format", None)
        if any(job.has_stated(name) for name in names_in_scope(model, OUTPUT)):
            saved_options = {
                name: value
                for name, value in saved_options.items()
                if scope_of(model, name) is not OUTPUT
            }
        missing = {name: value for name, value in saved_options.items() if not job.has_stated(name)}
        for form, other_form in (FORMS_OF_CELLS, FORMS_OF_CELLS[::-1]):
            if any(map(job.has_stated, form)):
                missing = {name: value for name, value in missing.items() if name not in other_form}
        return job.with_options(**missing)

    def complete_run_options(self, job: Job) -> Job:
        """Return a later job with those options of runs that it leaves out, as they are now.

        Args:
            job: a job for the same stream; options that it states are kept.
        """
        filled = self.complete_job(job)
        names = names_in_scope(type(job), REMEMBERED)
        return job.with_options(**{name: filled.value_of(name) for name in names})

    def _remembered_options(self, model: type[Job]) -> dict[str, object]:
        """Return the remembered options as values of a model."""
        parsed = parse_options(model, self.remembered)
        return {name: parsed.value_of(name) for name in self.remembered}

    def updated_by(self, job: Job) -> Self:
        """Return the spec that remembers what a job, filled or not, says of runs.

        Args:
            job: a job for the same stream; `complete_job` may have completed it.
        """
        new_options = {
            name: _without_folder(name, option_to_json(value))
            for name, value in _stated_in(job, REMEMBERED, OUTPUT).items()
            if not _discovers(name, value)
        }
        sets_aside = job.bad_rows is not None and job.bad_rows != "fail"
        skips = self.left_out.skips
        if job.missing_values == "drop":
            skips = self._columns_to_skip(job)
        left_out = RowsLeftOut(
            drops=self.left_out.drops or job.value_of("unlisted_groups") == "drop",
            skips=skips,
            sets_aside=self.left_out.sets_aside or sets_aside,
        )
        states_output = any(job.has_stated(name) for name in ("output", "chart"))
        options_before = dict(self.remembered)
        if states_output:
            outputs = names_in_scope(type(job), OUTPUT)
            options_before = {
                name: value for name, value in options_before.items() if name not in outputs
            }
        defining_job = self.job
        if defining_job.ambiguous == "raise" and job.ambiguous is not None:
            defining_job = defining_job.with_options(ambiguous=job.ambiguous)
        return replace(
            self, job=defining_job, remembered={**options_before, **new_options}, left_out=left_out
        )

    def _columns_to_skip(self, job: Job) -> tuple[str, ...]:
        """Return the columns whose missing values leave a row out.

        A row without a group may belong to that of all others, or be dropped like other groups.
        """
        terms = self.terms
        refuses_unlisted = job.value_of("unlisted_groups") in (None, "error", "discover")
        needs_group = terms.groups.other is None and refuses_unlisted
        group = terms.groups.column if needs_group else None
        columns = (
            terms.windowing.time,
            group,
            *terms.statistic.number_columns,
            terms.privacy_unit.user_column,
            terms.recognition.id_column,
        )
        return tuple(dict.fromkeys(column for column in columns if column))

    @property
    def discovers_groups(self) -> bool:
        """Whether groups are found in the rows."""
        return isinstance(self.terms.groups, DiscoveredGroups)

    @property
    def takes_whole_windows(self) -> bool:
        """Whether an input says of each window that it covers which rows it has, and no others.

        Else rows are new, or those of users are known one by one, in whatever window they are.
        """
        terms = self.terms
        is_snapshot = isinstance(terms.recognition, SnapshotRecognition)
        if not is_snapshot or isinstance(terms.windowing, SingleTable):
            return False
        states_windows = isinstance(terms.windowing, Revised) or "lookback" in self.remembered
        return terms.privacy_unit.user_column is None or states_windows

    @property
    def remembered_display(self) -> DisplaySelection:
        """Selection of the numbers to show, by the last job."""
        return parse_display(self._remembered_options(type(self.job)).get)

    @property
    def remembered_level(self) -> float | None:
        """Confidence level of intervals, by the last job; None: the usual one."""
        return self.remembered.get("confidence_level")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the cells of a step; cells of groups that are found have room for any number."""
        if self.discovers_groups:
            return (MOST_CELLS,)
        return shape_of(self.accumulator_statistic, self.terms.groups.number)

    @property
    def unit_in_ledger(self) -> str:
        """The ledger's name of the unit; a period's includes time zone and column of times."""
        from counton.state.ledger_rows import unit_name_in_ledger

        window = self.accumulator_statistic.parameters.get("window")
        return unit_name_in_ledger(self.contribution.unit, self.public_facts()["record"], window)

    # --------------------------------------------------------------------------------- for readers
    def metadata(self) -> ReleaseMetadata:
        """Return the public description, which a released table carries."""
        terms = self.terms
        return ReleaseMetadata(
            statistic_name=terms.statistic.name,
            statistic=self.accumulator_statistic,
            group_by=terms.groups.column,
            value=terms.statistic.value_column,
            windows=terms.windowing.windows,
            domain=GroupNames(()) if self.discovers_groups else terms.groups.names,
            other_group=terms.groups.other,
            cells=self.cells,
            privacy_unit=without_clock(self.contribution.unit),
            guarantee=terms.loss,
            contribution=self.contribution,
            strategy=self.strategy,
            series=terms.series,
            widths=terms.widths,
            half_life=terms.half_life,
            metric=terms.metric,
            contribution_rule=terms.privacy_unit.rule,
            left_out=self.left_out,
            has_row_ids=terms.recognition.id_column is not None,
            notes=self.notes,
            max_corrections=terms.max_corrections if self.takes_whole_windows else None,
        )


def stream_options(job: Job) -> Job:
    """Return the job with those options alone that define a stream."""
    return type(job).model_construct(statistic=job.statistic, **_defining_options(job))


def _defining_options(job: Job) -> dict[str, Any]:
    """Return the stated options that define a stream: that it discovers groups is one of them."""
    options = _stated_in(job, STREAM)
    policy = job.value_of("unlisted_groups")
    if _discovers("unlisted_groups", policy):
        options["unlisted_groups"] = policy
    return options


def _discovers(name: str, value: object) -> bool:
    return name == "unlisted_groups" and value == "discover"


def _stated_in(job: Job, *scopes: OptionScope) -> dict[str, object]:
    names = names_in_scope(type(job), *scopes)
    return {name: job.value_of(name) for name in names if job.has_stated(name)}


def amend_public_notes(
    store: Store, name: str, change: Callable[[StreamSpec, int], StreamSpec]
) -> int:
    """Change notes, end or withdrawal of a stream; its writer has to open it again.

    Args:
        store: the state.
        name: name of the stream.
        change: function that returns the changed spec, given the current one and the number of
            released steps.

    Returns:
        The number of released steps.

    Raises:
        StateError: there is no such stream, or no job made it.
        ConcurrentWriterError: another process holds the lock.
    """

    def change_facts(step: int) -> dict[str, object]:
        reader = store.reader(name)
        changed = change(StreamSpec.of_stream(reader), step)
        return {**reader.public_facts, **changed.public_notes()}

    return store.amend(name, change_facts)


def _groups_in_blocks(domain: Any) -> object:
    """Return names of groups as `GroupNames`; leaves and values of columns as they are."""
    is_names = domain is not None and not isinstance(domain, Mapping)
    return GroupNames(domain) if is_names else domain


def option_to_json(value: object) -> object:
    """Return the value of an option as JSON, from which its model makes the same value again."""
    if isinstance(value, Fraction):
        return text(value)
    if isinstance(value, tuple | list):
        return [option_to_json(item) for item in value]
    if isinstance(value, GroupNames):
        return list(value)
    if isinstance(value, Mapping):
        members = {key: option_to_json(item) for key, item in value.items()}
        # A state sorts keys, and the order of a report's statistics decides its cells.
        has_sections = any(isinstance(item, Section) for item in value.values())
        return json.dumps(members) if has_sections else members
    if isinstance(value, Section):
        return {
            name: option_to_json(getattr(value, name))
            for name in type(value).model_fields
            if is_stated(getattr(value, name))
        }
    if isinstance(value, StreamStrategy):
        return _OWN_STRATEGY
    if isinstance(value, Statistic):
        return json.dumps(statistic_to_dict(value))
    if value is None:
        return None
    if not isinstance(value, str | bool | int | float):
        raise InvalidInputError(
            f"an option is of type {type(value).__name__}; give a text or a number"
        )
    return value


def _without_folder(name: str, value: Any) -> object:
    """Return the value of an option such that it does not depend on the working folder."""
    if name in _FILES:
        return os.path.abspath(value)
    if name == "bad_rows" and value.startswith(QUARANTINE):
        return f"{QUARANTINE}{Path(value.removeprefix(QUARANTINE)).absolute()}"
    return value
