"""Files that look counted: those of new events that hold rows which were counted before.

A counted file of which a person's rows were deleted, a corrected one, or an export of all events
has bytes of its own. So of each file that is counted a sample of what its rows say is kept, as
keyed digests; and each new file is judged by itself. It looks counted if half of what is known of
a counted file, in the windows that both have, is in it too; if nearly all rows of that file are,
and none more that say the same, as where times are dates; or if nearly all of its rows are late.

That is a judgement by all rows of a file, and not for certain. What is done then is the operator's
choice: the file is refused, it adds nothing (``counted="keep"``), or it is new indeed
(``counted="new"``). Messages about it hang on the rows, and are for the operator alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import ReplayMismatch, field
from counton.base.private import Private, open_private
from counton.rows.samples import Rarity, Sample
from counton.rows.sources import Rows, Source
from counton.rows.tally import FileLook, Tally
from counton.run.additions import KNOWN_ROWS, KNOWN_SHARE, known_windows, seen_before
from counton.run.definition import Definition
from counton.run.redelivery import (
    Counted,
    FilesLeftOut,
    KnownBy,
    counted_copies,
    refuse_copy,
    refuse_nothing_new,
)
from counton.state import Stream
from counton.state import seen as marks

#: The kind of marks that are of samples of files.
FILE = "file"
#: Of this many files counted last samples are kept.
MOST_FILES = 512
#: Fewer facts, or rows, may agree by chance, and this share of a file's facts.
_FEW, _SHARE = 3, 0.5


class Suspicion(NamedTuple):
    """A file that looks counted. Exact data: secret.

    Attributes:
        why: in words.
        whole: whether all of it, or nearly all, seems to be counted.
    """

    why: str
    whole: bool

    def __repr__(self) -> str:
        return "Suspicion(secret)"


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

    def __repr__(self) -> str:
        return "FileMemory(secret)"

    def look_over(
        self, counted: Counted, *, ended: int, keep: bool
    ) -> tuple[Source, Private[FilesLeftOut]] | None:
        """The new files without those that look counted; None where none does.

        Args:
            counted: what the stream has counted.
            ended: windows that have.
            keep: files that look counted are left out, and not refused.

        Raises:
            ReplayMismatch: a file looks counted, and is not to be left out; or all are, and windows
                would be released as if nothing more had happened in them.
        """
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
        """Whether a file looks counted, and why."""
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
    """Refuse a file that looks counted.

    Args:
        judged: what is known of it.
        keep: what was counted stays counted, and nothing of such a file counts: then it is refused
            only where it may hold new rows besides.

    Raises:
        ReplayMismatch: naming the file.
    """
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
