"""Events that come again: files of the same rows, in one run or after another.

Rows without ids are counted as often as they come. So a file that was counted is known by its
bytes, whatever its name and compression. One that is written anew is known by what its rows come to
in any order and format: what they add to each window and group, and sums over all that is read of
them. Then files of one run are compared row by row, and a later one is refused. A file that holds
some of the rows is told by its looks. With ids rows are told one by one, and nothing is refused by
its looks. Rows that lie in the state itself are removed where they are counted, and cannot come
again.

**Files that look counted.** A counted file of which a person's rows were deleted, a corrected one,
or an export of all events has bytes of its own. So of each file that is counted a sample of what
its rows say is kept, as keyed digests; and each new file is judged by itself. It looks counted if
half of what is known of a counted file, in the windows that both have, is in it too; if nearly all
rows of that file are, and none more that say the same, as where times are dates; or if nearly all
of its rows are late.

That is a judgement by all rows of a file, and not for certain. What is done then is the operator's
choice: the file is refused, it adds nothing (``counted="keep"``), or it is new indeed
(``counted="new"``). Messages about it hang on the rows, and are for the operator alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, ReplayMismatch, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.rows.remote_rows import Spread
from counton.rows.same_rows import find_copy
from counton.rows.samples import Rarity, Sample
from counton.rows.sources import Rows, Source
from counton.rows.tally import FileLook, Tally
from counton.rows.timestamps import ClockChange, moments
from counton.run.changes import KNOWN_ROWS, KNOWN_SHARE, known_windows, seen_before
from counton.run.definition import Definition
from counton.spec.job import Job
from counton.state import Stream
from counton.state import seen as marks

#: By what a part is known again: its bytes, then what its rows come to where they have no ids.
Marks = tuple[str, ...]
#: Whether a stream has counted what a mark stands for.
Counted = Callable[[str], bool]


@name_alone
@dataclass(frozen=True)
class KnownBy:
    """By what the files of a run are known again: digests of what is exact, hence secret.

    Attributes:
        source: the events.
        marks: of each of its parts.
        looks: of each part, where they are looked at.
        whole: what the rows of all parts come to, where there are several: ``()``, or one mark.
    """

    source: Source
    marks: Sequence[Marks]
    looks: Sequence[FileLook]
    whole: Marks = ()


@name_alone
@dataclass(frozen=True)
class FilesLeftOut:
    """Files that look counted, and add nothing. Exact data: secret.

    Attributes:
        rows: how many they have.
        marks: make them known from now on.
    """

    rows: int = 0
    marks: Marks = ()


#: No such file.
NO_FILES = Private(FilesLeftOut())


def known_by(
    source: Source, job: Job, definition: Definition, found: Private[Tally]
) -> Private[KnownBy]:
    """How the files of a run are known again."""
    rows = open_private(found)
    if source.comes_once:
        return Private(KnownBy(source, [()] * len(source.parts), rows.looks))
    refuse_copies(source, job, definition, rows.sums)
    sums = rows.sums or ("",) * len(source.parts)
    marks = [
        (_bytes_of(part, definition), *_mark_of(what))
        for part, what in zip(source.parts, sums, strict=True)
    ]
    return Private(KnownBy(source, marks, rows.looks, _mark_of(rows.whole)))


def _bytes_of(part: Rows, definition: Definition) -> str:
    return f"sha256:{part.digest(definition.columns.names)}"


def _mark_of(sums: str) -> Marks:
    """Of what rows come to; nothing where there are none."""
    return (f"sums:{sums}",) if sums else ()


def refuse_copies(source: Source, job: Job, definition: Definition, sums: Sequence[str]) -> None:
    """Refuse files of which one holds the rows of another, to be counted twice.

    They are compared row by row where what their rows come to is the same.
    """
    alike: dict[str, list[Rows]] = {}
    for part, what in zip(source.parts, sums, strict=False):
        alike.setdefault(what, []).append(part)
    for what, parts in alike.items():
        if not what or len(parts) == 1:
            continue
        times = partial(
            moments,
            timezone="UTC" if definition.cut is None else definition.cut.timezone,
            clock_change=cast("ClockChange", job.clock_change),
            time_format=job.time_format,
        )
        if (pair := find_copy(parts, definition.columns.time or None, times)) is not None:
            raise InvalidInput(
                f"{pair[1].name} holds the same rows as {pair[0].name}, in whatever order, format "
                f"and compression, so that they would be counted twice; leave one of them out, or, "
                f"if these are different events indeed, put them into one file, or give each an id "
                f"({field('id')})"
            )


def without_counted(source: Source, definition: Definition, counted: Counted) -> Source:
    """Of several files those whose bytes were not counted before; if there is no other, each once.

    So a folder to which a file is added every night is read from the new one on. Rows with ids are
    told one by one.
    """
    known_whole = len(source.parts) == 1 or isinstance(source, Spread)
    if known_whole or source.comes_once or definition.columns.id is not None:
        return source
    marks = [_bytes_of(part, definition) for part in source.parts]
    known = [part for part, mark in zip(source.parts, marks, strict=True) if counted(mark)]
    if len(known) == len(source.parts):  # one of each, since copies are no news either
        one_of = dict(zip(marks, source.parts, strict=True))
        known = [part for part, mark in zip(known, marks, strict=True) if one_of[mark] is not part]
    return source.without(known) if known else source


def is_counted(files: Private[KnownBy], counted: Counted, released: int, ended: int) -> bool:
    """Whether new events are those of an earlier run, all of whose rows are in the state.

    That run came to its end, or it was killed after it had committed: then there is nothing to do
    but to write what it would have written, from the journal.
    """
    known = open_private(files)
    if not all(marks and counted(marks[0]) for marks in known.marks):
        return False
    refuse_nothing_new(known.source, released, ended)
    return True


def counted_copies(known: KnownBy, counted: Counted) -> Sequence[Rows]:
    """The files whose rows come to what counted ones came to; all of them if those of all do."""
    if any(map(counted, known.whole)):
        return known.source.parts
    parts = zip(known.source.parts, known.marks, strict=True)
    return [part for part, marks in parts if any(map(counted, marks[1:]))]


def refuse_copy(source: Source, copies: Sequence[Rows]) -> None:
    """Refuse files whose rows come to what counted ones came to, if there are any."""
    if not copies:
        return
    name = copies[0].name if len(copies) == 1 else source.name
    raise ReplayMismatch(
        f"{name} holds the same rows as events that have been counted already, as far as they are "
        f"read: as many in each window and group, with the same sums of times, values and users, "
        f"in whatever order, format and compression; {copies[0].again}, or let it add nothing "
        f"({field('counted', 'keep')}). If these are other events indeed, put them into one file "
        f"with others that are new; a stream whose rows have ids tells them apart ({field('id')})"
    )


def refuse_nothing_new(source: Source, released: int, ended: int) -> None:
    """Refuse to release windows where all events were counted before."""
    if ended > released:
        have = "has" if len(source.parts) == 1 else "have"
        raise ReplayMismatch(
            f"{source.name} {have} been counted already, and {ended - released:,} more windows "
            f"would be released without a new event; give the file of the new events, or drop "
            f"{field('append', True)} if the file holds everything since the first window"
        )


def new_marks(
    files: Private[KnownBy], counted: Counted, kept: Private[FilesLeftOut] = NO_FILES, *, once: bool
) -> Private[tuple[str, ...]]:
    """Marks of parts that are new to the stream.

    A file of new events must not be counted twice, and neither as such after it was the file of all
    events; so the marks of both are kept.
    """
    given, new = open_private(files), [*open_private(kept).marks]
    for part, of_part in zip(given.source.parts, given.marks, strict=True):
        if once and of_part and counted(of_part[0]):
            raise ReplayMismatch(
                f"{part.name} has been counted already ({of_part[0][:18]}...); {part.again}"
            )
        new += of_part
    if once:
        refuse_copy(given.source, counted_copies(given, counted))
    marks = dict.fromkeys((*new, *given.whole))
    # The same file of all events again adds nothing.
    return Private(tuple(mark for mark in marks if not counted(mark)))


#: The kind of marks that are of samples of files.
FILE = "file"
#: Of this many files counted last samples are kept.
MOST_FILES = 512
#: Fewer facts, or rows, may agree by chance, and this share of a file's facts.
_FEW, _SHARE = 3, 0.5


@name_alone
class Suspicion(NamedTuple):
    """A file that looks counted. Exact data: secret.

    Attributes:
        why: in words.
        whole: whether all of it, or nearly all, seems to be counted.
    """

    why: str
    whole: bool


class _Facts(NamedTuple):
    """Facts of files that were counted: digests, and of each its file, window, rows, rarity."""

    digests: marks.Digests
    file: NDArray[np.int64]
    step: NDArray[np.int64]
    rows: NDArray[np.int64]
    rarity: Rarity

    def where(self, which: NDArray[np.intp]) -> _Facts:
        """Some of them."""
        digests, file, step, rows, rarity = self
        return _Facts(digests[which], file[which], step[which], rows[which], rarity[:, which])


@name_alone
class FileMemory:
    """The files that a stream has counted, as far as it knows them, beside those of a run.

    Args:
        stream: None for one that has counted nothing.
        secret: makes the digests of facts.
        files: of the run.
        found: what they hold.
        definition: of the stream.
    """

    def __init__(
        self,
        stream: Stream | None,
        secret: marks.Secret,
        files: Private[KnownBy],
        found: Private[Tally],
        definition: Definition,
    ) -> None:
        self._secret, self._files = secret, open_private(files)
        self._parts = [] if stream is None else [*open_private(stream.marks(FILE))]
        nothing = marks.MarkSet(FILE, 0, np.zeros(0, np.uint64), (np.zeros(0, np.int64),) * 5)
        whole = marks.merge([nothing, *self._parts])
        number, steps, rows, first, second = (fact.astype(np.int64) for fact in whole.facts)
        self._known = _Facts(whole.digests, number, steps, rows, np.stack([first, second]))
        self._released, self._seen, self._again = 0, np.zeros(0, np.int64), 0
        if stream is not None:
            self._released, measures = stream.step, definition.measures
            steps = np.unique(np.concatenate([look.steps for look in self._files.looks]))
            kept = [*open_private(stream.observed_blocks(Private(steps)))]
            self._seen = seen_before(kept, measures)
            elsewhere = all(look.sample is None for look in self._files.looks)
            if elsewhere and definition.people is None:  # the rows lie elsewhere, in one part
                cells = open_private(found).cells
                self._again = known_windows(kept, cells, measures, self._released)

    def look_over(
        self, counted: Counted, *, ended: int, keep: bool
    ) -> tuple[Source, Private[FilesLeftOut]] | None:
        """The new files without those that look counted; None where none does."""
        known, left_out, those = self._files, list[Rows](), FilesLeftOut()
        copies = counted_copies(known, counted)
        if not keep:
            refuse_copy(known.source, copies)
        for part, look, of_part in zip(known.source.parts, known.looks, known.marks, strict=True):
            judged = None if part in copies else self._judge(look, part.name)
            if judged is not None:
                refuse(judged, keep=keep)
            if judged is not None or part in copies:
                left_out.append(part)
                those = FilesLeftOut(those.rows + look.rows, (*those.marks, *of_part))
        if len(left_out) == len(known.source.parts):
            refuse_nothing_new(known.source, self._released, ended)
        return (known.source.without(left_out), Private(those)) if left_out else None

    def _judge(self, look: FileLook, name: str) -> Suspicion | None:
        new = (look.steps > self._released) & ~np.isin(look.steps, self._seen)
        if look.sample is not None and (same := self._same(look, look.sample)) is not None:
            sample, (of_known, of_file) = look.sample, same
            known = self._known.where(of_known)
            there = (sample.rarity >= known.rarity.min(axis=1, keepdims=True)).all(axis=0)
            before = np.bincount(of_file, known.rows, len(sample.rows))
            share = np.minimum(sample.rows, before)[there].sum() / sample.rows[there].sum()
            new &= ~np.isin(look.steps, known.step)
            about = "" if there.all() and not sample.least.any() else "about "
            rows = max(1, round(share * look.rows))
            return Suspicion(
                f"{about}{rows:,} of the {look.rows:,} rows of {name} say what rows said that have "
                f"been counted, with the same times, groups and values",
                bool(share >= KNOWN_SHARE and not new.any()),
            )
        if self._again:
            return Suspicion(
                f"{self._again:,} of the {look.rows:,} rows of {name} are in windows that hold "
                f"them already",
                not new.any(),
            )
        late = look.late(self._released)
        if late < KNOWN_ROWS or late < KNOWN_SHARE * look.rows:
            return None
        return Suspicion(
            f"{late:,} of the {look.rows:,} rows of {name} are late: their windows are released "
            f"already, as those of rows that were counted are",
            False,
        )

    def _same(
        self, look: FileLook, sample: Sample
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """Facts of counted files, and which of a file each is, if it looks counted."""
        known, digests = self._known, self._digests(sample)
        here = np.isin(known.step, look.steps)
        here &= (known.rarity >= sample.least).all(axis=0)
        order = np.argsort(digests, kind="stable")
        places = np.searchsorted(digests, known.digests, sorter=order)
        places = order[np.minimum(places, len(order) - 1)]
        here_too = here & (digests[places] == known.digests)
        rows = np.where(here_too, sample.rows[places], 0)
        files = 1 + int(known.file.max(initial=0))

        def by_file(which: NDArray[np.bool_], what: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.bincount(known.file[which], what[which], files).astype(float)

        one = np.ones_like(rows)
        facts, equal = by_file(here, one), here_too & (rows == known.rows)
        copied = by_file(equal, one) >= np.maximum(_SHARE * facts, 1)
        matched = np.unique(places[equal & copied[known.file]])
        enough = len(matched) >= _FEW or sample.rows[matched].sum() >= KNOWN_ROWS
        copied &= enough or len(matched) == len(digests)
        # A few rows are gone, and none has come.
        before, still = by_file(here, known.rows), by_file(here, rows)
        less = (by_file(here & (rows > known.rows), one) == 0) & (before > _FEW)
        copied |= less & (before - still <= np.maximum(1, (1 - KNOWN_SHARE) * before))
        same = np.flatnonzero(here_too & copied[known.file])
        return (same, places[same]) if len(same) else None

    def change(self) -> marks.Change | None:
        """Marks of the files of the run, once they are counted; None where they have none."""
        looks, first = self._files.looks, 1 + int(self._known.file.max(initial=-1))
        added, replaced = list[marks.MarkSet](), list[tuple[str, int]]()
        for number, look in enumerate(looks, first):
            if (sample := look.sample) is not None:
                facts = np.full(len(sample.us), number), sample.steps, sample.rows, *sample.rarity
                added.append(marks.MarkSet(FILE, 0, self._digests(sample), facts))
        if not added:
            return None
        if len(self._parts) >= marks.MOST_PARTS:
            added, replaced = [*self._parts, *added], [(FILE, 0)]
        whole = marks.merge(added)
        last = whole.facts[0] >= first + len(looks) - MOST_FILES
        of_last = tuple(fact[last] for fact in whole.facts)
        return marks.Change(
            self._secret, [marks.MarkSet(FILE, 0, whole.digests[last], of_last)], replaced
        )

    def _digests(self, sample: Sample) -> marks.Digests:
        return self._secret.pair_digests(sample.us, sample.said)


def refuse(judged: Suspicion, *, keep: bool = False) -> None:
    """Refuse a file that looks counted."""
    if not keep:
        raise ReplayMismatch(
            f"{judged.why}; leave the file out if it was counted, also where rows of it were "
            f"erased or corrected since, or let what was counted stay so, and nothing of such a "
            f"file count ({field('counted', 'keep')}). If the file holds everything since the "
            f"first window, drop {field('append', True)}; if the rows are new indeed, give "
            f"{field('counted', 'new')}. Where events come late every night, release later "
            f"({field('watermark', '24h')})"
        )
    if not judged.whole:
        raise ReplayMismatch(
            f"{judged.why}, and others may be new, which {field('counted', 'keep')} would leave "
            f"out; give the new rows in a file of their own, drop {field('append', True)} if the "
            f"file holds everything since the first window, or give {field('counted', 'new')} if "
            f"all its rows are new indeed"
        )
