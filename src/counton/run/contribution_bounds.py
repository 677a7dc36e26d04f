"""The choice of the rows that count: at most a bounded number for each user, and no row twice.

A unit is a user or, with ``per``, one user's period. At most ``most`` of its rows are taken and,
with ``most_a_window``, at most that number in one released window. A row that was taken once stays
taken. Of the new rows of a run, the first in the order (time, group, value, digest of the id) are
taken while there is room: first within each window, and then in all. With ``each``, at most that
number of rows is taken from each of a unit's first ``most`` groups. So the choice depends only on
the unit's own rows and on the run that brought them: with or without the unit, the same rows of all
others are taken. Taken rows that vanish stay taken, and give no room back, unless the stream lets
them be replaced (`counton.run.slots`).

**Memory.** For each taken row the state keeps a *mark*: the user's digest, the window, the group
and the value; with ``most_a_window`` also the window that releases it, with ``recounts`` how often
its slot was replaced. A file of all events holds earlier taken rows again. A row is known if a
remembered one has its user, window, group and value: rows that agree in these have the same effect.
With a column of ids, ids tell rows apart, unit by unit: otherwise one unit's ids would decide which
rows of another count.

**Forgetting.** Rows that are older than `Windows.remembered_days` at the end of the last released
window count nowhere. With periods these are the rows of periods that ended before then; with ids,
the rows of days before then. If windows are revised, rows of final windows count nowhere either,
and all other rows are younger. The marks of such rows are deleted. This gives users no room for new
rows, because rows of these periods are never looked at again. The operator may close periods sooner
(`counton.run.erasure`): then their rows count nowhere. Users without periods are never forgotten.
An id is kept with the day on which the window that counts it ends. So it is remembered for the same
time after it was counted, whatever time its row has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.arrays import Integers, narrowest
from counton.base.errors import StreamConflict
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.released.description import ADDED
from counton.released.periods import period_of
from counton.rows.row_reading import by_row
from counton.rows.tally import added_up
from counton.run.definition import Definition
from counton.run.first_rows import (
    HeldRows,
    Places,
    Pool,
    by_key,
    first_rows,
    in_order,
    ranks,
    runs,
    together,
)
from counton.run.missing_rows import KeptRows
from counton.run.slots import Slots, first_equal, row_hashes
from counton.state import Stream
from counton.state import seen as marks

_DAY_US = 86_400_000_000
_EARLIEST = -(2**62)  # no period or day is earlier
#: Number of names that are hashed together, so that the data stays in the cache.
_TOGETHER = 2**14
_CELL = ("step", "group", "total")
_NAMES = ("user", "id")
#: Purpose number of users' digests, and kind of the digests that refuse new users of a bucket.
USER, REFUSED = 1, "refused"
#: Kind of the digests that close periods: everybody in them is forgotten, and no row counts.
CLOSED = "closed"
#: Number of buckets into which users' digests fall; each forgotten person makes one refused.
BUCKETS = 1024


class DigestHolder:
    """The rows of a run, held in memory until all are read, because only then can the rows that
    count be chosen.

    Names of users and ids are replaced by digests. The function `tally`, which reads the rows,
    fills the holder.

    Args:
        definition: definition of the stream.
        secret: key of the digests by which users and ids are recognised.
        thinned: function that returns those of the held rows that may still count: see `Pool`.
    """

    def __init__(
        self,
        definition: Definition,
        secret: marks.Secret,
        thinned: Callable[[HeldRows], HeldRows] | None,
    ) -> None:
        self._definition, self._secret = definition, secret
        sizes = definition.cut.steps + 1, len(definition.groups)
        self._step, self._group = (narrowest(0, max(size, 2**8)) for size in sizes)  # from int16 on
        self._pool = Pool(thinned)

    def select(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """Select the columns of ``marked`` rows to hold; names of users and ids become digests."""
        columns, domain = self._definition.columns, self._definition.domain
        wanted = [pl.col("us"), pl.col("step")]
        types = marked.collect_schema()
        if domain is not None:
            group, declared = pl.col("group"), pl.Enum(list(domain))
            text = types["group"] == pl.String  # otherwise its position
            wanted.append(group.cast(declared, strict=False) if text else group.cat.to(declared))
        if self._definition.sums.rule is not None:
            wanted.append(pl.col("total"))
        for purpose, name in enumerate(("user", "id"), USER):
            if getattr(columns, name) is not None:
                digests = partial(_digests, self._secret, purpose)
                column = pl.col(name).fill_null("")
                wanted.append(
                    column.map_batches(digests, return_dtype=pl.UInt64, is_elementwise=True)
                )
        return marked.select(wanted)

    def take(self, rows: pl.DataFrame) -> None:
        """Hold the rows that can count, by their groups, times and values."""
        inside = pl.col("step").is_between(1, self._definition.cut.steps)
        if self._definition.domain is not None:
            inside &= pl.col("group").is_not_null()
        adds = self._definition.sums.rule
        if adds is not None and by_row(adds):
            inside &= pl.col("total") >= 0  # otherwise it is of no known cell
        those = rows.select(inside).to_series()
        if not those.all():
            rows = rows.filter(those)
        group: Any = np.zeros(rows.height, np.int8)
        total: Any = np.ones(rows.height, np.int8)
        if self._definition.domain is not None:
            group = rows["group"].to_physical().to_numpy().astype(self._group)
        if "total" in rows.columns:
            total = rows["total"].to_numpy()
        names: Any = (rows[name].to_numpy() if name in rows.columns else None for name in _NAMES)
        us, step = rows["us"].to_numpy(), np.asarray(rows["step"].to_numpy(), self._step)
        if rows.height:
            self._pool.add(HeldRows(us, step, group, total, *names))

    def by_keys(self) -> Iterator[HeldRows]:
        """Yield portions that hold all rows of a user or id; see `Pool.by_keys`."""
        return self._pool.by_keys()


def bucket_of(digests: Any) -> Any:
    """Return the bucket (0 to `BUCKETS` - 1) of each digest of a user.

    Once a person is forgotten, no new person in the bucket counts in the periods begun by then.
    """
    return np.asarray(digests, np.uint64) % np.uint64(BUCKETS)


def _digests(secret: marks.Secret, purpose: int, texts: pl.Series) -> pl.Series:
    found = np.empty(len(texts), np.uint64)
    for begin in range(0, len(texts), _TOGETHER):
        some = texts.slice(begin, _TOGETHER)
        lengths = some.str.len_bytes().to_numpy().astype(np.int64)
        text = some.str.join("").item().encode()
        found[begin : begin + len(some)] = secret.digests(text, lengths, purpose)
    return pl.Series(found, dtype=pl.UInt64)


@name_alone
@dataclass(frozen=True, repr=False)
class ChosenRows:
    """The rows of one run that are left after all bounds, and how many others were left out. Exact
    data: secret.

    Attributes:
        cells: sums of the new rows that count: columns ``step``, ``group``, ``rows``, ``total``.
        ids: digests of the ids of the counted rows, with their steps.
        users: for each period, a set with an entry for each counted row: digest of its user,
            window, group and value. By this set a later run recognises rows that were counted
            before.
        over: number of rows left out because their user has reached the bound (in the period).
        known: number of rows that were counted before.
        gone: number of counted rows that are missing from a file of all events (each such file
            repeats all events since the first window).
        closed: number of rows that came after their period or window was closed.
        taken_back: number of counted rows that are missing and count no more.
        all_missing: True if the input has new rows that count, and none of the rows that were
            counted before and that it should have.
        open_windows: for each open window of which rows are taken back, how many stay.
    """

    cells: pl.DataFrame
    ids: marks.MarkSet
    users: list[marks.MarkSet]
    over: int
    known: int
    closed: int
    gone: int = 0
    taken_back: int = 0
    all_missing: bool = False
    open_windows: Sequence[KeptRows] = ()


class ContributionBounder:
    """An object that chooses, in one run of a stream, the rows that count within each user's bound.

    Args:
        definition: definition of the stream.
        secret: key of the digests by which users and ids are recognised; None if the stream
            remembers no user or id yet.
        append: True if the rows are new events only, not all events since the first window.
        released: steps released so far.
        parted: True if only rows of some windows count, which `choose` is told.
    """

    def __init__(
        self,
        definition: Definition,
        secret: marks.Secret | None,
        append: bool,
        released: int,
        parted: bool = False,
    ) -> None:
        self._definition, self._append = definition, append
        self._counting, self._windows = definition.counting, definition.cut
        self._by_id, self._groups = definition.columns.id is not None, len(definition.groups)
        self._named = np.empty(self._groups, np.int64)  # position of groups by name
        self._named[np.argsort(np.array(definition.groups, dtype=object))] = range(self._groups)
        self._new = secret is None or not definition.cut.goes_on
        self.secret = self._secret = marks.Secret.fresh() if secret is None else secret
        self._released = released if definition.cut.goes_on else 0
        self._closed = self._left_out = 0  # before all rows were read
        self._memory: Stream | None = None
        self._inside = range(1, self._windows.steps + 1)
        self._recounts = definition.strategy.facts.corrections
        self._first_not_closed = _EARLIEST  # period; later if the operator closed periods
        self._kept: list[marks.MarkSet] = []
        # Rows that cannot count may be dropped before all rows are read, unless the run must
        # compare its rows with counted rows, or find repeated ids.
        thins = self._counting.users and not (self._by_id or parted) and (self._new or append)
        self.held = DigestHolder(definition, self._secret, self._thin if thins else None)

    def choose(
        self, memory: Stream | None, released: int, inside: range | None = None
    ) -> Private[ChosenRows]:
        """Choose the held rows that are new and count.

        Args:
            memory: the stream, which keeps digests of its counted rows; None if it has counted
                nothing yet.
            inside: the open windows of which the rows are all; None: rows of any window count.

        Raises:
            StreamConflict: another process has released steps meanwhile, so other rows would count.
        """
        self._memory, self._kept = memory, []
        self._inside = self._inside if inside is None else inside
        closed = (part.period for part in self._parts_of(CLOSED))
        self._first_not_closed = max(closed, default=_EARLIEST - 1) + 1
        refused, known_ids = self._parts_of(REFUSED), self._parts_of("id")
        first_open = self._first_open(released).period
        by_period: dict[int, list[marks.MarkSet]] = {}
        for part in self._parts_of("user") if self._counting.users else ():
            if part.period >= first_open:
                by_period.setdefault(part.period, []).append(part)
        self._released, outdated = released, released != self._released
        of_users = {period: marks.merge(parts) for period, parts in by_period.items()}
        slots = {} if inside is None else self._read_slots(of_users, inside)
        known = dict(of_users)
        of_users |= {period: one.kept for period, one in slots.items()}
        before = _Before(refused, known_ids, of_users, known)
        outdated |= bool(before.users and not self._append)
        if outdated and self._left_out + self._closed:
            raise StreamConflict(
                "another process has released steps of this stream in the meantime, so nothing was "
                "released here: run the same command again"
            )
        found = _Findings(self._left_out, self._closed)
        back = (_frame(one.taken_back.facts, -1) for one in slots.values())
        parts = chain(self._choose(before, found), back)
        cells = added_up(parts, self._groups, self._definition.sums.rule, pl.col("number"))
        gone = sum(one.lacking for one in slots.values())
        taken = sum(len(one.taken_back.digests) for one in slots.values())
        if self._counting.users and not self._by_id and not self._append and inside is None:
            gone = sum(len(part.digests) for part in before.users.values()) - found.known
        users = [marks.merge(parts) for parts in found.users.values()]
        # Slots are filled, and so changed, below.
        open_windows = _kept_rows([*slots.values()], users)
        all_missing = self._are_all_missing(before, found, slots)
        if self._recounts:  # all slots of a period are written anew
            users = [
                slots.pop(one.period).fill(one) if one.period in slots else one for one in users
            ]
            users += [one.fill(None) for one in slots.values() if len(one.taken_back.digests)]
        nothing = marks.MarkSet("id", 0, np.zeros(0, np.uint64), (np.zeros(0, np.int64),))
        ids = marks.merge([nothing, *found.ids])
        return Private(
            ChosenRows(
                cells=cells,
                ids=ids,
                users=users,
                over=found.over,
                known=found.known,
                closed=found.closed,
                gone=gone,
                taken_back=taken,
                all_missing=all_missing,
                open_windows=open_windows,
            )
        )

    def _are_all_missing(
        self, before: _Before, found: _Findings, slots: Mapping[int, Slots]
    ) -> bool:
        """Return True if new rows count, and all rows are missing that were counted before.

        Args:
            before: facts that earlier runs have kept.
            found: results of this run's choice.
            slots: by period, the slots of counted rows, if inputs hold all rows of windows.
        """
        if self._append:
            return False
        if self._by_id:
            counted = sum(len(part.digests) for part in before.ids)
            new = sum(len(part.digests) for part in found.ids)
            return found.known_ids == 0 and counted > 0 and new > 0
        new = sum(len(part.digests) for parts in found.users.values() for part in parts)
        if not slots:
            counted = sum(len(part.digests) for part in before.users.values())
            return found.known == 0 and counted > 0 and new > 0
        counted = 0
        for part in before.known.values():
            window = part.facts[0]
            counted += int(((window >= self._inside.start) & (window < self._inside.stop)).sum())
        missing = sum(one.lacking + len(one.taken_back.digests) for one in slots.values())
        return counted == missing and counted > 0 and new > 0

    def _read_slots(self, of_users: dict[int, marks.MarkSet], inside: range) -> dict[int, Slots]:
        """Return the slots of each period, without rows of ``inside`` that the input lacks."""
        given: dict[int, list[marks.Digests]] = {}
        for rows, period, _ in map(self._open, self.held.by_keys()):
            hashes = row_hashes([rows.key, rows.step, rows.group, rows.total])
            for number, places in _by_number(period):
                given.setdefault(number, []).append(hashes[places])
        found = {}
        for number, part in of_users.items():
            theirs = np.concatenate([np.zeros(0, np.uint64), *given.get(number, ())])
            found[number] = Slots.read(part, theirs, inside, self._recounts)
        return found

    def _choose(self, before: _Before, found: _Findings) -> Iterator[pl.DataFrame]:
        """Yield sums by window and group of the rows that count; add other results to ``found``."""
        for rows in self.held.by_keys():
            rows, period, closed = self._open(rows)
            found.closed += closed
            if self._by_id and len(rows):
                given = len(rows)
                rows, period = self._once_each(rows, period)
                names = rows.id
                assert names is not None
                kept = np.ones(len(rows), np.bool_)
                for part in before.ids:
                    place = np.searchsorted(part.digests, names)
                    place[place == len(part.digests)] = 0
                    kept &= part.digests[place] != names
                found.known += given - int(kept.sum())
                found.known_ids += int((~kept).sum())
                rows, period = rows.at(kept), period[kept]
            if self._counting.users and len(rows):
                rows, period = self._apply_bounds(rows, period, before, found)
                for number, places in _by_number(period):
                    some = rows.at(places)
                    facts = tuple(getattr(some, name) for name in _CELL)
                    if self._counting.most_a_window is not None:
                        facts = (*facts, self._due(some))
                    if self._recounts:
                        facts = (*facts, np.zeros(len(some), np.int64))
                    part = marks.MarkSet("user", number, some.key, facts)
                    found.users.setdefault(number, []).append(part)
                rows = self._with_ranks(rows, period, before)
            if rows.id is not None:
                found.ids.append(marks.MarkSet("id", 0, rows.id, (rows.step,)))
            yield _frame([getattr(rows, name) for name in _CELL], 1)

    def _thin(self, rows: HeldRows) -> HeldRows:
        """Drop rows of closed windows or periods, and of users whose earlier rows reach the bound.

        ``rows`` holds all rows read so far of each of its users.
        """
        rows, period, closed = self._open(rows)
        most: int | None = None
        if self._counting.each is not None and not self._new:
            most = len(rows)  # the groups entered before are not known yet
        kept = self._choose_first(rows, period, np.zeros(len(rows), np.bool_), most)
        self._closed += closed
        self._left_out += len(kept) - int(kept.sum())
        return rows.at(kept)

    def change(self, private: Private[ChosenRows], target: int) -> Private[marks.Change]:
        """Return the digests to add and to delete after a run that releases up to ``target``."""
        chosen, still_open = open_private(private), self._first_open(target)
        added, forgotten = list[marks.MarkSet](), list[tuple[str, int]]()
        if self._by_id:
            forgotten.append(("id", still_open.day))
            # A row counts with its window, or with the next released one.
            steps = chosen.ids.facts[-1]
            ends = self._windows.ends(np.maximum(steps, target))
            days = np.asarray(ends, np.int64) // _DAY_US
            for day, places in _by_number(days):
                digests = chosen.ids.digests[places]
                order = np.argsort(digests, kind="stable")
                added.append(marks.MarkSet("id", day, digests[order], ()))
        if self._counting.users:
            forgotten += [("user", still_open.period), (REFUSED, still_open.period)]
            added += [part for part in chosen.users if part.period >= still_open.period]
        former: dict[tuple[str, int], list[marks.MarkSet]] = {}
        for part in self._kept:
            former.setdefault((part.kind, part.period), []).append(part)
        full = {place for place, parts in former.items() if len(parts) >= marks.MOST_PARTS}
        held, replaced = [], []
        for part in added:
            place = (part.kind, part.period)
            if self._recounts and part.kind == "user":
                replaced.append(place)  # the part has all slots
            elif place in full:
                replaced.append(place)
                part = marks.merge([*former[place], part])
            held.append(part)
        return Private(marks.Change(self._secret, held, replaced, forgotten))

    def _open(self, rows: HeldRows) -> tuple[HeldRows, Integers, int]:
        """Return the rows that may still count by user and period, their periods, and the others'
        number.
        """
        period, still_open = self._periods(rows), self._first_open(self._released)
        first_open = max(self._inside.start, self._windows.first_open(self._released))
        still = period >= still_open.period
        still &= (rows.step >= first_open) & (rows.step < self._inside.stop)
        if self._by_id:
            still &= rows.us // _DAY_US >= still_open.day
        places = np.flatnonzero(still)
        places = places[by_key(rows.key[places], period[places])]
        return rows.at(places), period[places], len(rows) - len(places)

    def _periods(self, rows: HeldRows) -> Integers:
        """Return the number of each row's period; 0 without periods."""
        per, zone = self._counting.per, self._windows.timezone
        if per is None or not len(rows):
            return np.zeros(len(rows), np.int64)
        first, last = int(rows.step.min()), int(rows.step.max())
        if last - first < len(rows):
            steps = range(first, last + 1)
            edges = pl.DataFrame({"begin": self._windows.starts(steps)}).with_columns(
                end=pl.Series(self._windows.ends(steps)) - 1
            )
            periods = edges.select(period_of(pl.col(name), per, zone) for name in edges.columns)
            if periods["begin"].equals(periods["end"]):
                return np.asarray(periods["begin"].to_numpy()[rows.step - first], np.int64)
        us = pl.DataFrame({"us": rows.us})
        return np.asarray(us.select(period_of(pl.col("us"), per, zone))["us"].to_numpy(), np.int64)

    def _first_open(self, released: int) -> _FirstOpen:
        """Return the first period of users and day of ids whose rows may count after ``released``
        steps.

        This function alone decides which rows are considered (`_open`), and which marks are read
        (`choose`) and deleted (`change`). A row that is considered although its mark is deleted
        would count twice.
        """
        period, day = _EARLIEST, _EARLIEST
        if released:
            end = int(self._windows.ends(range(released, released + 1))[0])
            late = end - self._windows.remembered_days * _DAY_US
            per = self._counting.per
            us = pl.lit(late, pl.Int64)
            period = int(pl.select(period_of(us, per, self._windows.timezone)).item())
            day = late // _DAY_US
        return _FirstOpen(max(period, self._first_not_closed), day)

    def _parts_of(self, kind: str) -> list[marks.MarkSet]:
        """Return the stored sets of marks of one kind, which `change` may merge later."""
        if self._memory is None:
            return []
        parts = [*open_private(self._memory.marks(kind))]
        self._kept += parts
        return parts

    def _once_each(self, rows: HeldRows, period: Integers) -> tuple[HeldRows, Integers]:
        """Return the first row of each id and its period; ids differ by user and period."""
        # Each id with its unit, so that one unit's ids tell nothing of another's rows.
        owner = np.zeros(len(rows), np.uint64)
        if rows.user is not None:
            owner = self._secret.pair_digests(rows.user, period)
        assert rows.id is not None
        rows = replace(rows, id=self._secret.pair_digests(rows.id, owner))
        assert rows.id is not None
        order = by_key(rows.id)
        ordered = rows.at(order)
        once = first_rows(ordered, _numbers(ordered.id), self._named, ADDED)
        kept = np.sort(order[once])
        return rows.at(kept), period[kept]

    def _apply_bounds(
        self, rows: HeldRows, period: Integers, before: _Before, found: _Findings
    ) -> tuple[HeldRows, Integers]:
        """Return the rows that count within the bounds of their users, and their periods.

        ``rows`` holds all new rows of each of its users; ``before`` the rows counted earlier.
        """
        asked_for = len(rows)
        if before.refused:
            stay = self._not_refused(rows, period, before)
            rows, period = rows.at(stay), period[stay]
        known = np.zeros(len(rows), np.bool_)
        # A file of all rows repeats the rows that were taken before; they need no further look. In
        # a file of new rows each row is new. Ids have told rows apart already.
        again = not (self._by_id or self._append)
        for places, part in _remembered_rows(rows, period, before) if again else ():
            known[places] = known_rows_of(rows.at(places), part)
        if known.any():
            rows, period = rows.at(~known), period[~known]
        bound = self._counting
        in_cells = bound.distinct or bound.each is not None or bound.most_a_window is not None
        most = 0 if in_cells else bound.most
        rows, period, old = self._with_remembered(rows, period, before, most)
        chosen = self._choose_first(rows, period, old) & ~old
        found.known += int(known.sum())
        found.over += asked_for - int(known.sum()) - int(chosen.sum())
        rows, period = rows.at(chosen), period[chosen]
        if self._recounts:
            # Slots of a unit differ, so its rows take them in the order of the choice: the order of
            # rows within the input must decide nothing.
            order = in_order(rows, _numbers(rows.key, period), self._named)
            rows, period = rows.at(order), period[order]
        return rows, period

    def _with_remembered(
        self, rows: HeldRows, period: Integers, before: _Before, beyond: int = 0
    ) -> tuple[HeldRows, Integers, NDArray[np.bool_]]:
        """Join new rows with the rows of the same users that earlier runs counted (remembered
        rows).

        Remembered rows come first and count towards the bound, also in a file of all rows: a row
        that vanished from the file still uses up its user's bound.

        Args:
            rows: new rows.
            period: period of each new row.
            before: facts that earlier runs have kept about people.
            beyond: leave out the remembered rows of a user with at most this many rows in the
                period, old and new together, because the bound cannot exclude any of them.

        Returns:
            The joined rows, ordered by user and period; the period of each; and a mask that is True
            for remembered rows.
        """
        a_window = self._counting.most_a_window is not None
        parts = [replace(rows, due=self._due(rows) if a_window else None)]
        numbers = [period]
        for _, part in _remembered_rows(rows, period, before, beyond):
            first = np.full(len(part.digests), rows.us.min() - 1)
            ids = None if rows.id is None else np.zeros(len(first), np.uint64)
            step, group, total = part.facts[:3]
            due = part.facts[3] if a_window else None
            parts.append(HeldRows(first, step, group, total, part.digests, ids, due=due))
            numbers.append(np.full(len(first), part.period))
        if len(parts) == 1:
            return rows, period, np.zeros(len(rows), np.bool_)
        both, number = together(parts), np.concatenate(numbers)
        order = by_key(both.key, number)
        return both.at(order), number[order], order >= len(rows)

    def _due(self, rows: HeldRows) -> NDArray[np.int64]:
        """Return each row's releasing step: its window's, or the next for late rows not revised."""
        if self._definition.cut.lags:
            return rows.step.astype(np.int64)
        return np.maximum(rows.step.astype(np.int64), self._released + 1)

    def _choose_first(
        self,
        rows: HeldRows,
        period: Integers,
        old: NDArray[np.bool_],
        most: int | None = None,
    ) -> NDArray[np.bool_]:
        """Return a mask of each user's first rows up to ``most`` or the bound, and all ``old``
        ones.
        """
        due = rows.due
        if due is None and self._counting.most_a_window is not None:
            due = self._due(rows)
        unit = _numbers(rows.key, period)
        return first_rows(rows, unit, self._named, self._counting, old=old, due=due, most=most)

    def _with_ranks(self, rows: HeldRows, period: Integers, before: _Before) -> HeldRows:
        """Encode in each value the row's rank among its user's rows, if users are counted.

        A rank depends only on the user's own rows, new and remembered.
        """
        adds = self._definition.sums.rule
        if adds is None or not adds.rank_digits:
            return rows
        both, number, old = self._with_remembered(rows, period, before)
        total = both.total.astype(np.int64)
        more, rank = np.zeros(len(both), np.int64), np.zeros(len(both), np.int64)
        for one in adds.rank_digits:
            group = total // one.unit % one.size  # of the statistic itself; 0 if it has none
            cell = row_hashes([both.key, both.group, group, number])
            alike = by_key(cell)
            rank[alike] = ranks(both.at(alike), _numbers(cell[alike]), self._named)
            for place, counted in enumerate(one.ranks):
                more += np.where(rank == counted, one.unit << place, 0)
        return replace(rows, total=(total + more)[~old])

    def _not_refused(self, rows: HeldRows, period: Integers, before: _Before) -> Places:
        """Return the positions of the rows that may count although people were forgotten.

        Once a person is forgotten, new users in the same bucket (one of `BUCKETS` parts of all
        people) are refused, in all periods that had begun by then. So the returned rows are those
        of later periods, of users in other buckets, and of users whose rows were counted before in
        the period.

        Whether a row stays depends only on its own user's rows and on the requests to forget.
        """
        refused = np.zeros(len(rows), np.bool_)
        for part in before.refused:
            refused |= np.isin(bucket_of(rows.key), part.digests) & (period <= part.period)
        if refused.any():
            for number, part in before.known.items():
                refused &= ~((period == number) & np.isin(rows.key, part.digests))
        return np.flatnonzero(~refused)


def _kept_rows(slots: Sequence[Slots], new: Sequence[marks.MarkSet]) -> list[KeptRows]:
    """Return how many rows each window keeps of which rows are taken back.

    Args:
        slots: the slots of each period.
        new: the new rows of each period that count.
    """
    if not any(len(one.taken_back.digests) for one in slots):
        return []
    taken = np.concatenate([one.taken_back.facts[0] for one in slots])
    kept = np.concatenate([one.kept.facts[0] for one in slots])
    added = np.concatenate([kept[:0], *(part.facts[0] for part in new)])
    windows = []
    for window in np.unique(taken).tolist():
        still = int((kept == window).sum())
        windows.append(
            KeptRows(
                window,
                before=still + int((taken == window).sum()),
                now=still + int((added == window).sum()),
            )
        )
    return windows


def _frame(facts: Sequence[NDArray[Any]], number: int) -> pl.DataFrame:
    """Return a table of rows by window, group and value, each of which counts ``number`` times."""
    cells = {name: fact.astype(np.int64) for name, fact in zip(_CELL, facts, strict=False)}
    return pl.DataFrame(cells).with_columns(number=pl.lit(number, pl.Int64))


class _FirstOpen(NamedTuple):
    """The earliest period (of bounded users) and day (of ids) whose rows may still count."""

    period: int
    day: int


class _Before(NamedTuple):
    """Facts that earlier runs have kept about people and ids.

    Attributes:
        refused: numbers of the buckets (parts of all people) in which a person was forgotten, each
            with the last period that this concerns.
        ids: digests of the ids of counted rows.
        users: by period, digests of users with their counted rows.
        known: by period, digests of users of whom a row ever counted.
    """

    refused: list[marks.MarkSet]
    ids: list[marks.MarkSet]
    users: dict[int, marks.MarkSet]
    known: dict[int, marks.MarkSet]


def _remembered_rows(
    rows: HeldRows, period: Integers, before: _Before, beyond: int = 0
) -> Iterator[tuple[Any, marks.MarkSet]]:
    """Yield, for each period with new rows, two things: the positions of its new rows in ``rows``,
    and the rows of their users that earlier runs counted in that period.

    Periods in which no row was counted before are left out.

    Args:
        rows: the new rows; the rows of one user in one period stand together.
        period: period of each new row.
        before: facts that earlier runs have kept about people.
        beyond: leave out the earlier rows of users with at most this many rows in the period, old
            and new together.
    """
    for number, places in _by_number(period) if before.users else ():
        part = before.users.get(number)
        if part is not None:
            users = rows.key[places]
            begins, new = runs(users)
            first = np.searchsorted(part.digests, users[begins])
            last = np.searchsorted(part.digests, users[begins], "right")
            old = np.where(new + last - first > beyond, last - first, 0)
            theirs = np.repeat(first - np.cumsum(old) + old, old) + np.arange(old.sum())
            facts = tuple(fact[theirs] for fact in part.facts)
            yield places, marks.MarkSet(part.kind, number, part.digests[theirs], facts)


@dataclass
class _Findings:
    """Side results of the choice, added up while some users at a time are processed."""

    over: int
    closed: int
    known: int = 0
    known_ids: int = 0
    users: dict[int, list[marks.MarkSet]] = attribute(default_factory=dict)
    ids: list[marks.MarkSet] = attribute(default_factory=list)


def known_rows_of(rows: HeldRows, part: marks.MarkSet) -> NDArray[np.bool_]:
    """Return a mask of earlier counted rows: of equal ones, the first as often as ``part`` has
    them.
    """
    mine = row_hashes([rows.key, rows.step, rows.group, rows.total])
    return first_equal(mine, row_hashes([part.digests, *part.facts[:3]]), rows.us)


def _numbers(*ordered: NDArray[Any] | None) -> Places:
    """Number the distinct rows of sorted columns from 0 on, and return the number for each row.

    >>> _numbers(np.array([3, 3, 5])).tolist()
    [0, 0, 1]
    """
    begins, sizes = runs(*ordered)
    return np.repeat(np.arange(len(begins)), sizes)


def _by_number(numbers: NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
    """Yield each distinct number in the array, with the positions at which it stands."""
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), slice(None)
        return
    distinct: NDArray[Any] = numbers - numbers.min()
    if distinct.max() < 2**16:
        distinct = distinct.astype(np.uint16)  # two bytes sort without comparisons
    order = np.argsort(distinct, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for begin, end in zip(begins, np.append(begins[1:], len(ordered)), strict=True):
        yield int(ordered[begin]), order[begin:end]
