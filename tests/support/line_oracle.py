"""What each line of ``counton run`` must say, worked out from the files and the job alone.

The oracle reads rows with the csv module, and knows times by zoneinfo. It uses nothing of counton.
It remembers from night to night which rows counted where, as the documentation says. A line of a
form that it does not know is an error, so that no line stays unchecked.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from nightly_situations import LISTED, OTHER, Night, Situation

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NOUNS = {"1h": "hour", "1d": "day", "1w": "week", "1mo": "month"}
_ALL_WINDOWS = 10**9


class UntrueError(AssertionError):
    """A line that is not true, or that the oracle does not know."""


class ReadRow(NamedTuple):
    """A row as the oracle reads it.

    Attributes:
        at: its moment; None if it has none that can be read.
        window: its number; 0 before the first one.
        flaws: why it may not count, whatever the limits are.
    """

    at: datetime | None
    window: int
    user: str
    group: str
    number: int
    id: str
    flaws: frozenset[str]
    is_unlisted: bool
    is_without_group: bool
    cells: tuple[str, ...]

    @property
    def is_readable(self) -> bool:
        """Whether no needed value is missing or cannot be read."""
        return self.flaws.isdisjoint(("bad", "missing"))


class Counted(NamedTuple):
    """A row of a user, or with an id, that was counted."""

    user: str
    period: date | None
    window: int
    group: str
    id: str
    step: int
    number: int = 1


class Bounds(NamedTuple):
    """The least and the largest true number of some rows; a row with two flaws may be of each."""

    least: int
    most: int

    def holds(self, number: int) -> bool:
        return self.least <= number <= self.most


@dataclass
class Book:
    """What the stream has done up to a night."""

    released: int = 0
    counted: list[Counted] = field(default_factory=list)
    #: Those of them that were there at the last release.
    in_release: list[Counted] = field(default_factory=list)
    #: By window and group: the sum, and the number of rows, that count.
    sums: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    #: Rows of append that were counted in a step: by step and group.
    by_step: Counter[tuple[int, str]] = field(default_factory=Counter)
    files: list[Sequence[Mapping[str, str]]] = field(default_factory=list)
    #: Rows of earlier files, which files of new rows do not repeat.
    earlier_rows: list[ReadRow] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    #: Number of rows of the last complete file that were too old to count after its run.
    n_past: int | None = None
    #: Moments of the runs: of the clock, of ``until``, or of the newest row.
    moments: list[datetime] = field(default_factory=list)


@dataclass
class Facts:
    """The true numbers of one night."""

    rows: list[ReadRow] = field(default_factory=list)
    before: int = 0
    after: int = 0
    beyond: int = 0
    beyond_limit: int = 0
    late: int = 0
    late_waiting: int = 0
    late_final: int = 0
    late_of_users: int = 0
    too_old: int = 0
    missing: int = 0
    missing_by_rows: int = 0
    duplicates: int = 0
    outside: int = 0
    new_counted: list[int] = field(default_factory=list)
    changed: dict[int, tuple[int, int, int, int, bool]] = field(default_factory=dict)
    #: Numbers of rows now and before, of released windows that differ.
    rows_of_changed: dict[int, tuple[int, int]] = field(default_factory=dict)
    is_known_file: bool = False
    moments_before: list[datetime] = field(default_factory=list)


class Oracle:
    """Follows one situation from night to night."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.options = situation.options
        self.zone = ZoneInfo(situation.zone)
        self.edges = situation.edges
        self.steps: int = self.options.get("windows", _ALL_WINDOWS)
        self.noun = _NOUNS[situation.every]
        self.n_revisions = int(self.options.get("allowed-lateness", "0x")[0])
        self.delay = length_of(self.options.get("release-delay", "0s"))
        self.book = Book()
        self.until: str | None = None
        self.now = datetime.now(UTC)
        self.facts = Facts()
        #: Number of late rows of earlier nights that wait for a release.
        self.waiting = 0
        self._moment = datetime(1970, 1, 1, tzinfo=UTC)
        self._seen: dict[tuple[int, str], tuple[int, int]] = {}
        self._chosen: list[Counted] = []
        self._n_past: int | None = None

    # ------------------------------------------------------------------------------- reading
    @property
    def groups(self) -> list[str]:
        if "group-by" not in self.options:
            return [""]
        return [*LISTED, *([OTHER] if "other-group" in self.options else [])]

    def read(self, night: Night) -> list[ReadRow]:
        """Return the rows of a night's file, which has the same cells in any format."""
        return [self._read(cells) for cells in night.rows]

    def _read(self, cells: Mapping[str, str]) -> ReadRow:
        flaws = set()
        at = None
        window = -1
        text = cells["time"]
        lacks = "missing" if "missing-values" in self.options else "bad"
        if not text:
            flaws.add(lacks)
        elif text[0] not in "0123456789":
            flaws.add("bad")
        else:
            at = datetime.fromisoformat(text).replace(tzinfo=self.zone).astimezone(UTC)
            window = self.window_of(at)
            if window == 0:
                flaws.add("before")
            if window > self.steps:
                flaws.add("after")
        if "who" in cells and not cells["who"]:
            flaws.add(lacks)
        number = 1
        if "number" in cells:
            if cells["number"].isdigit():
                number = int(cells["number"])
            else:
                flaws.add("bad" if cells["number"] else lacks)
        group = cells.get("street", "")
        is_unlisted = False
        is_without_group = False
        if "street" in cells and group not in LISTED:
            is_unlisted = bool(group)
            is_without_group = not group
            if "other-group" in self.options:
                group = OTHER
            elif group or "unlisted-groups" in self.options:
                flaws.add("unlisted")
            else:
                flaws.add(lacks)
        return ReadRow(
            at=at, window=window, user=cells.get("who", ""), group=group, number=number,
            id=cells.get("id", ""), flaws=frozenset(flaws), is_unlisted=is_unlisted,
            is_without_group=is_without_group, cells=tuple(cells.values()),
        )  # fmt: skip

    def window_of(self, at: datetime) -> int:
        """Return the number of the window of a moment; 0 before the first one."""
        number = sum(edge <= at for edge in self.edges)
        return number if number < len(self.edges) else _ALL_WINDOWS + 1

    def local(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None)

    def period_of(self, at: datetime) -> date | None:
        """Return the first day of the user's period of a moment."""
        day = self.local(at).date()
        match self.options.get("contribution-period"):
            case "1w":
                return day - timedelta(days=day.weekday())
            case "1mo":
                return day.replace(day=1)
            case "1d":
                return day
        return None

    def period_end(self, begin: date) -> datetime:
        end = begin + timedelta(days=7 if self.options["contribution-period"] == "1w" else 1)
        if self.options["contribution-period"] == "1mo":
            end = (begin + timedelta(days=31)).replace(day=1)
        return datetime(end.year, end.month, end.day, tzinfo=self.zone).astimezone(UTC)

    # ------------------------------------------------------------------------------- the night
    def ended_by(self, until: datetime) -> int:
        """Return how many windows have ended by a moment, less the release delay."""
        ended = sum(edge <= until - self.delay for edge in self.edges[1:])
        return min(ended, self.steps)

    def due(self, rows: Sequence[ReadRow], until: str | None, now: datetime) -> int:
        """Return the last window that a run releases."""
        self._moment = now
        if self.book.released >= self.steps:
            return self.steps
        readable = [row.at for row in rows if row.at is not None and row.is_readable]
        if until == "latest-event":
            newest = [at for at in readable if at <= now]
            moment = max(newest, default=self.edges[0])
        elif until is None:
            moment = now
        else:
            moment = datetime.fromisoformat(until).replace(tzinfo=self.zone).astimezone(UTC)
        self._moment = moment
        return max(self.book.released, self.ended_by(moment))

    def released_with(self, longer: timedelta) -> int:
        """Return how many windows earlier runs would have released with a longer delay."""
        ended = [self.ended_by(moment - longer) for moment in self.facts.moments_before]
        return max(ended, default=0)

    def work_out(self, night: Night) -> Facts:
        """Return the true numbers of a night, and remember what it counts."""
        rows = self.read(night)
        book = self.book
        facts = Facts(rows=rows, before=book.released, moments_before=[*book.moments])
        facts.after = self.due(rows, night.until, night.now)
        fine = [row for row in rows if not row.flaws]
        facts.is_known_file = self.situation.mode == "append" and any(
            night.rows == file for file in book.files
        )
        recognises_rows = self.situation.kind == "users" or "row-id" in self.options
        if recognises_rows:
            chosen = self._choose(fine, facts)
        elif self.situation.mode == "append":
            chosen = self._new_rows(fine, facts)
        else:
            self._compare(fine, facts)
            chosen = []
        facts.new_counted = [counted.window for counted in chosen]
        facts.late += sum(1 for counted in chosen if counted.window <= facts.before)
        facts.late_waiting = self.waiting
        self.now = night.now
        self.until = night.until
        self.facts = facts
        self._chosen = chosen
        return facts

    def commit(self, night: Night) -> None:
        """Remember that the run of a night was done."""
        facts = self.facts
        book = self.book
        has_new_step = facts.after > facts.before
        if self.situation.mode != "lookback" or has_new_step:
            book.counted += self._chosen
            book.ids |= {counted.id for counted in self._chosen if counted.id}
        if has_new_step:
            book.in_release = [*book.counted]
        if has_new_step and self.situation.mode != "append" and self.situation.kind != "users":
            self._replace(facts)
        if self.situation.mode == "append":
            book.files.append(night.rows)
            book.earlier_rows += facts.rows
        if self.situation.mode == "append" or (
            self.situation.mode == "complete" and self.situation.kind == "users"
        ):
            self.waiting = 0 if has_new_step else self.waiting + facts.late
        book.released = facts.after
        book.n_past = self._n_past
        book.moments.append(self._moment)

    def _is_too_old(self, at: datetime, released: int) -> bool:
        """Return whether a row comes so late that it never counts."""
        if not released:
            return False
        oldest = self.edges[released] - timedelta(days=35)
        period = self.period_of(at)
        is_old = period is not None and self.period_end(period) <= oldest
        if "row-id" in self.options:
            day_end = at.replace(hour=0, minute=0) + timedelta(days=1)
            is_old |= day_end <= oldest
        return is_old

    def _choose(self, fine: list[ReadRow], facts: Facts) -> list[Counted]:
        """Choose rows of users, or with ids, in the order of time, within their limits."""
        book = self.book
        is_snapshot = self.situation.mode != "append"
        first, last = 1, _ALL_WINDOWS
        if "lookback" in self.options:
            covered = self.covered(facts)
            first, last = max(covered.start, facts.before + 1), facts.after
            facts.outside = sum(1 for row in fine if row.window < covered.start)
        if facts.is_known_file and "row-id" not in self.options:
            return []
        may_count = []
        has_all_rows = self.situation.mode == "complete"
        n_past = 0
        for row in fine:
            assert row.at is not None
            n_past += self._is_too_old(row.at, facts.after)
            if not first <= row.window <= last:
                continue
            if self._is_too_old(row.at, facts.before) or row.window < self._first_open():
                facts.too_old += 1
                continue
            may_count.append(row)
        if has_all_rows:  # most of these rows were counted before
            new_past = 0 if self.book.n_past is None else facts.too_old - self.book.n_past
            facts.too_old = max(0, new_past)
            self._n_past = n_past + max(0, -new_past)
        remembered = [
            counted
            for counted in book.counted
            if first <= counted.window <= last and not self._is_forgotten(counted)
        ]
        new = may_count
        if "row-id" in self.options:
            known = {(counted.user, counted.period, counted.id) for counted in book.counted}
            new = []
            for row in sorted(may_count, key=lambda row: (row.at, row.group)):
                key = (row.user, self._period(row), row.id)
                if key in known:
                    facts.duplicates += 1
                    continue
                known.add(key)
                new.append(row)
        elif is_snapshot:
            room = Counter((one.user, one.period, one.window, one.group) for one in remembered)
            there = Counter(
                (row.user, self._period(row), row.window, row.group) for row in may_count
            )
            facts.missing = (room - there).total()
            facts.missing_by_rows = facts.missing
            new = []
            for row in sorted(may_count, key=lambda row: (row.at, row.group)):
                key2 = (row.user, self._period(row), row.window, row.group)
                if room[key2]:
                    room[key2] -= 1
                else:
                    new.append(row)
        chosen = self._within_limit(new, facts)
        reported = range(facts.before + 1, facts.after + 1) if is_snapshot else range(_ALL_WINDOWS)
        taken = Counter(counted.window for counted in chosen)
        brought = Counter(row.window for row in new)
        facts.beyond = sum((brought - taken)[window] for window in brought if window in reported)
        if "lookback" in self.options:
            closed = range(self.covered(facts).start, facts.before + 1 - self.n_revisions)
            late = [row for row in fine if row.window in closed]
            facts.late_of_users = self._number_late(late, [*book.counted, *chosen], facts)
        return chosen

    def _number_late(self, late: list[ReadRow], counted: list[Counted], facts: Facts) -> int:
        """Return how many rows were not counted, although their users have room."""
        known = Counter((one.user, one.period, one.window, one.group) for one in counted)
        taken = Counter((one.user, one.period) for one in counted)
        in_windows = {(one.user, one.period, one.window, one.group) for one in counted}
        n_late = 0
        for row in sorted(late, key=lambda row: (row.at, row.group)):
            assert row.at is not None
            period = self._period(row)
            key = (row.user, period, row.window, row.group)
            if self._is_too_old(row.at, facts.before):
                continue
            if known[key]:
                known[key] -= 1
                continue
            if self.options.get("once-per-window") and key in in_windows:
                continue
            if taken[row.user, period] >= self.options["max-contributions"]:
                continue
            in_windows.add(key)
            taken[row.user, period] += 1
            n_late += 1
        return n_late

    def _first_open(self) -> int:
        return max(1, self.book.released + 1 - self.n_revisions) if self.n_revisions else 1

    def _period(self, row: ReadRow) -> date | None:
        assert row.at is not None
        return self.period_of(row.at)

    def _is_forgotten(self, counted: Counted) -> bool:
        if not self.book.released or counted.period is None:
            return False
        oldest = self.edges[self.book.released] - timedelta(days=35)
        return self.period_end(counted.period) <= oldest

    def _within_limit(self, new: Sequence[ReadRow], facts: Facts) -> list[Counted]:
        taken = Counter((one.user, one.period) for one in self.book.counted)
        pairs = {(one.user, one.period, one.window, one.group) for one in self.book.counted}
        chosen = []
        for row in sorted(new, key=lambda row: (row.at, row.group)):
            period = self._period(row)
            if "user" in self.options:
                pair = (row.user, period, row.window, row.group)
                if self.options.get("once-per-window") and pair in pairs:
                    continue
                if taken[row.user, period] >= self.options["max-contributions"]:
                    facts.beyond_limit += 1
                    continue
                pairs.add(pair)
                taken[row.user, period] += 1
            step = row.window
            if not self.n_revisions:
                step = max(row.window, self.book.released + 1)
            chosen.append(Counted(row.user, period, row.window, row.group, row.id, step))
        return chosen

    def _new_rows(self, fine: list[ReadRow], facts: Facts) -> list[Counted]:
        """Count new rows of files that were not counted."""
        if facts.is_known_file:
            return []
        chosen = []
        for row in fine:
            if row.window < self._first_open():
                facts.too_old += 1
                continue
            step = row.window if self.n_revisions else max(row.window, facts.before + 1)
            chosen.append(
                Counted(row.user, None, row.window, row.group, "", step, number=row.number)
            )
        return chosen

    def covered(self, facts: Facts) -> range:
        """Return the windows of which a file has all rows."""
        if "lookback" not in self.options:
            return range(1, facts.after + 1)
        n_back = int("".join(filter(str.isdigit, self.options["lookback"])))
        moment = self._moment
        last = max(min(sum(edge <= moment for edge in self.edges[1:]), self.steps), facts.before)
        return range(max(1, last - n_back + 1), max(facts.after, facts.before) + 1)

    def _compare(self, fine: list[ReadRow], facts: Facts) -> None:
        """Compare a file of all rows of some windows with what counts in them."""
        covered = self.covered(facts)
        facts.outside = sum(1 for row in fine if row.window < covered.start)
        now: dict[tuple[int, str], tuple[int, int]] = {}
        for row in fine:
            if row.window in covered:
                total, n_rows = now.get((row.window, row.group), (0, 0))
                now[row.window, row.group] = (total + row.number, n_rows + 1)
        self._seen = now
        has_new_step = facts.after > facts.before
        first_updated = self._first_open() if self.n_revisions else facts.before + 1
        for window in covered:
            if window > facts.before:
                continue
            added = missing = more = less = before_total = now_total = 0
            before_rows = now_rows = 0
            differs = False
            for group in self.groups:
                old = self.book.sums.get((window, group), (0, 0))
                new = now.get((window, group), (0, 0))
                differs |= old != new
                is_replaced = old[1] == new[1] and old[0] != new[0]
                before_rows += old[1]
                now_rows += new[1]
                before_total += old[0]
                now_total += new[0]
                added += max(0, new[1] - old[1]) + is_replaced
                missing += max(0, old[1] - new[1]) + is_replaced
                more += max(0, new[0] - old[0])
                less += max(0, old[0] - new[0])
            if not differs:
                continue
            is_updated = has_new_step and window >= first_updated
            facts.rows_of_changed[window] = (now_rows, before_rows)
            facts.changed[window] = (now_total, before_total, more, less, is_updated)
            is_final = window < (self._first_open() if self.n_revisions else facts.before + 1)
            if not is_final:
                facts.late += added
            if is_final:
                facts.late_final += added
                facts.missing += missing

    def _replace(self, facts: Facts) -> None:
        covered = self.covered(facts)
        first = self._first_open() if self.n_revisions else facts.before + 1
        for window in covered:
            if window < first:
                continue
            for group in self.groups:
                self.book.sums[window, group] = self._seen.get((window, group), (0, 0))

    # ------------------------------------------------------------------------------ true numbers
    def number_of(self, flaw: str) -> Bounds:
        """Return how many rows have a flaw: this one alone, or others too."""
        rows = self.facts.rows
        return Bounds(
            sum(row.flaws == {flaw} for row in rows), sum(flaw in row.flaws for row in rows)
        )

    def expected(self, window: int, group: str) -> int:
        """Return the true number of what counts in a window of a released table."""
        if self.situation.kind == "users" or self.situation.mode == "append":
            return sum(
                one.number
                for one in self.book.in_release
                if one.step == window and one.group == group
            )
        return self.book.sums.get((window, group), (0, 0))[0]


def length_of(text: str) -> timedelta:
    if text.endswith("mo"):
        return timedelta(days=31)
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[text[-1]]
    return timedelta(**{unit: int(text[:-1])})
