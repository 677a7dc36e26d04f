"""The forms of lines that ``counton run`` prints, each with a check against the oracle."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from line_oracle import MONTHS, Bounds, Facts, Oracle, ReadRow, UntrueError, length_of
from nightly_situations import LISTED, OTHER

_N = r"([\d,]+)"
#: With the epsilon of situations, no noise and no interval is as large as this.
_NOISE = 0.1
#: The value of ``max-empty-windows`` that a job without ``lookback`` need not state.
_DEFAULT_MAX_EMPTY_WINDOWS = 2
Check = Callable[["LineChecker", re.Match[str]], None]
FORMS: list[tuple[re.Pattern[str], Check]] = []


def form(pattern: str) -> Callable[[Check], Check]:
    """Register the check of lines of a form."""

    def register(check: Check) -> Check:
        FORMS.append((re.compile(pattern, re.DOTALL), check))
        return check

    return register


def number(text: str) -> int:
    return int(text.replace(",", "").replace("−", "-"))


def is_exact(told: int, true: int, what: str) -> None:
    if told != true:
        raise UntrueError(f"{what}: told {told}, true {true}")


def is_within(told: int, true: Bounds, what: str) -> None:
    if not true.holds(told):
        raise UntrueError(f"{what}: told {told}, true {true.least} to {true.most}")


def holds(is_true: bool, what: str) -> None:
    if not is_true:
        raise UntrueError(what)


@dataclass
class LineChecker:
    """Checks the lines of one night.

    Attributes:
        oracle: what is true.
        folder: the folder of the job.
        is_dry: whether the lines are of the dry run.
        todo: checks that run the job again, later: the name of the check, and its argument.
    """

    oracle: Oracle
    folder: Path
    is_dry: bool
    todo: list[tuple[str, str, str]]
    #: Names of the columns of the table whose rows follow.
    heading: list[str] = field(default_factory=list)
    _line: str = ""

    def check(self, line: str) -> None:
        """Check a line.

        Raises:
            UntrueError: it is not true, or of no known form.
        """
        for pattern, check in FORMS:
            match = pattern.fullmatch(line)
            if match is not None:
                self._line = line
                check(self, match)
                return
        raise UntrueError("unknown form")

    def prove(self, name: str, argument: str) -> None:
        """Have a line proved later, by a run."""
        self.todo.append((name, argument, self._line))

    # ------------------------------------------------------------------------------ words
    def window_words(self, first: int, last: int) -> str:
        """Return the days or times of some windows, as screens write them."""
        edges = self.oracle.edges
        begin = self.oracle.local(edges[first - 1])
        end = self.oracle.local(edges[last])
        if begin.hour == end.hour == begin.minute == end.minute == 0:
            end -= timedelta(days=1)
            words = _day(end)
            if begin.date() != end.date():
                first_words = _day(begin) if begin.year != end.year else _day(begin)[:-5]
                words = f"{first_words} to {words}"
            return words
        if begin.date() == end.date():
            return f"{_day(begin)}, {begin:%H:%M} to {end:%H:%M}"
        return f"{_day(begin)}, {begin:%H:%M} to {_day(end)}, {end:%H:%M}"

    def windows_of(self, words: str) -> range:
        """Return the windows that some words name."""
        n_edges = len(self.oracle.edges)
        for length in range(n_edges):
            for first in range(1, n_edges - length):
                last = first + length
                if self.window_words(first, last) == words:
                    return range(first, last + 1)
        raise UntrueError(f"no windows are {words!r}")

    def joined_windows(self, words: str, separator: str) -> list[int]:
        """Return the windows that joined words name, which may have the separator themselves."""
        named: list[int] = []
        text = ""
        for part in words.split(separator):
            text = f"{text}{separator}{part}" if text else part
            try:
                named += self.windows_of(text)
            except UntrueError:
                continue
            text = ""
        holds(not text, f"no windows are {text!r}")
        return named

    @property
    def facts(self) -> Facts:
        return self.oracle.facts

    @property
    def options(self) -> dict[str, Any]:
        return self.oracle.options

    @property
    def noun(self) -> str:
        return self.oracle.noun

    def rows_with_time(self) -> list[ReadRow]:
        return [row for row in self.facts.rows if row.at is not None]


def _day(moment: datetime) -> str:
    return f"{moment.day} {MONTHS[moment.month - 1]} {moment.year}"


# ------------------------------------------------------------------------------------ the dry run
@form(r"Dry run: (rows were read; )?nothing was written or released\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    """The test compares the folder."""


@form(
    r"told: would create the stream and release (\d+) windows?\. It would spend epsilon = "
    r"(\S+) for each ([\w' ]+), once for the whole stream\."
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(self.facts.before, 0, "released before")
    is_exact(number(match[1]), self.facts.after, "windows to release")
    is_exact(int(match[2]), self.options["epsilon"], "epsilon")
    holds(match[3] == unit_of(self), "unit")


@form(r"told: would release nothing: no new window is due after (\d+)\. (The privacy.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), self.facts.before, "released before")
    is_exact(self.facts.after, self.facts.before, "released")
    loss(self, match[2])


@form(r"told: would release (\d+) windows? \(windows? (\d+)(?: to (\d+))?\)\. (The privacy.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    last = number(match[3] or match[2])
    is_exact(number(match[1]), self.facts.after - self.facts.before, "number of windows")
    is_exact(number(match[2]), self.facts.before + 1, "first window")
    is_exact(last, self.facts.after, "last window")
    loss(self, match[4])


def loss(self: LineChecker, words: str) -> None:
    unit = unit_of(self)
    epsilon = self.options["epsilon"]
    true = f"The privacy loss is epsilon = {epsilon} for each {unit}, which is spent already."
    holds(words == true, "loss")


def unit_of(self: LineChecker) -> str:
    if "user" not in self.options:
        return "visit"
    period = {"1d": "day", "1w": "week", "1mo": "month"}[self.options["contribution-period"]]
    return f"guest's {period}"


# ------------------------------------------------------------------------------------ the screen
@form(r"|job told")
def _(self: LineChecker, match: re.Match[str]) -> None:
    """They say nothing."""


def of_all(self: LineChecker, text: str | None) -> None:
    if text is not None:
        is_exact(number(text), self.oracle.steps, "all windows")


@form(rf"Released 1 new window \({_N}(?: of {_N})?\)\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(self.facts.after - self.facts.before, 1, "new windows")
    is_exact(number(match[1]), self.facts.after, "new window")
    of_all(self, match[2])


@form(rf"Released {_N} new windows \({_N} to {_N}(?: of {_N})?\)\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), self.facts.after - self.facts.before, "new windows")
    is_exact(number(match[2]), self.facts.before + 1, "first new window")
    is_exact(number(match[3]), self.facts.after, "last new window")
    of_all(self, match[4])


@form(rf"No new window is due\. Released: {_N}(?: of {_N})? windows?\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(self.facts.after, self.facts.before, "new windows")
    is_exact(number(match[1]), self.facts.after, "released windows")
    of_all(self, match[2])


@form(r"No window is released yet\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(self.facts.after, 0, "released windows")


@form(
    r"Number of (visits|distinct guests|guests, each once in (?:a window|each day))(, by street)?"
    r"(?:, at most (\d+) per ([\w' ]+?))?,? (in each|in the|cumulative)(.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(bool(match[2]) == ("group-by" in self.options), "groups")
    if match[1] == "visits":
        holds(not self.options.get("once-per-window"), "users once in each window")
        holds((match[3] is None) == ("user" not in self.options), "limit")
    else:
        periods = (self.options.get("contribution-period"), self.options["every"])
        is_anew = periods in (("1d", "1w"), ("1d", "1mo"))
        holds(("each day" in match[1]) == is_anew, "users of several days in one window")
    if match[3] is not None:
        is_exact(int(match[3]), self.options["max-contributions"], "limit")
        holds(match[4] == unit_of(self), "unit")
    rest = match[5] + match[6]
    numbers = re.search(rf"\(windows? {_N}(?: to {_N})?(?: of {_N})?, ([\w/]+)\)$", rest)
    holds(numbers is not None, "numbers of windows")
    assert numbers is not None
    last = number(numbers[2] or numbers[1])
    is_exact(last, self.facts.after, "last window")
    if numbers[2] is not None:
        is_exact(number(numbers[1]), self.facts.before + 1, "first window")
    of_all(self, numbers[3])
    holds(numbers[4] == self.options["timezone"], "zone")
    end = self.oracle.local(self.oracle.edges[self.facts.after])
    to_the_end = f"to the end of {_day(end - timedelta(days=1))}"
    if end.hour or end.minute:
        to_the_end = f"up to {_day(end)}, {end:%H:%M}"
    if "to the end" in rest or "up to" in rest:
        holds(to_the_end in rest, f"not {to_the_end}")
    named = re.match(rf"in the {self.noun} (.*) \(window", rest)
    if named is not None:
        holds(self.window_words(last, last) == named[1], "name of the window")


@form(r"(hour|day|week|month|window|street) .*(estimate|in this|cumulative).*")
def _(self: LineChecker, match: re.Match[str]) -> None:
    """The names of columns; rows are checked by them."""
    holds(set(re.findall(r"\d+", match[0])) == {"95"}, "confidence level")
    self.heading = [
        name for name in ("estimate", "cumulative", f"in this {self.noun}") if name in match[0]
    ]


@form(
    r"(?:(\d+ \w+.*? \d{4}(?:, \d\d:\d\d(?: to .*?\d\d:\d\d)?)?)(?:  "
    r"+|$))?(?:(north|south|rest)  +)?"
    r"(−?[\d.,]+  .* to .*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    group = match[2] or ""
    window = self.facts.after
    if match[1]:
        (window,) = self.windows_of(match[1])
    parts = re.findall(r"(−?[\d,.]+) +(−?[\d,.]+) to (−?[\d,.]+)", match[3])
    holds(len(parts) == len(self.heading), f"numbers {match[3]!r} of {self.heading}")
    for name, texts in zip(self.heading, parts, strict=True):
        is_sum = name == "cumulative" or (
            name == "estimate" and self.options["series"] == "cumulative"
        )
        windows = range(1 if is_sum else window, window + 1)
        true = sum(self.oracle.expected(one, group) for one in windows)
        low, high = (float(text.replace("−", "-").replace(",", "")) for text in texts[1:])
        estimate = float(texts[0].replace("−", "-").replace(",", ""))
        if max(abs(told - true) for told in (estimate, low, high)) > _NOISE:
            raise UntrueError(f"{name} of window {window} {group}: told {estimate}, true {true}")
    if self.oracle.n_revisions:
        is_final = window <= self.facts.after - self.oracle.n_revisions
        holds(match[0].endswith("final") or match[0].endswith("provisional"), "version")
        holds(match[0].endswith(" final") == is_final, "final or provisional")


@form(r"Accuracy: each interval covers the noise of its number\.(?: Not covered: (.*)\.)?")
def _(self: LineChecker, match: re.Match[str]) -> None:
    told = match[1] or ""
    facts = self.facts
    noun = self.noun
    options = self.options
    flaws = Counter(flaw for row in facts.rows for flaw in row.flaws)
    lacking = re.search(r"rows (?:that cannot be read or have no|without) ([\w, ]+)", told)
    if flaws["bad"]:
        holds("rows that cannot be read" in told, "unreadable rows are not named")
    holds(("cannot be read" in told) == ("bad-rows" in options), "rows that cannot be read")
    if flaws["missing"]:
        holds(lacking is not None, "rows that lack a value are not named")
    holds((lacking is not None) == ("missing-values" in options), "rows without a value")
    if lacking is not None:
        columns = [*self.oracle.situation.columns]
        if {"other-group", "unlisted-groups"} & {*options} and "street" in columns:
            columns.remove("street")
        told_columns = set(re.split(r", | or ", lacking[1].partition(";")[0]))
        holds(told_columns == {*columns}, f"columns {told_columns}")
    holds(("rows of undeclared groups" in told) == ("unlisted-groups" in options), "undeclared")
    beyond = re.search(r"rows beyond (\d+) of", told)
    if beyond is not None:
        is_exact(int(beyond[1]), options["max-contributions"], "limit")
    if facts.beyond_limit:
        holds("beyond" in told, "rows beyond a limit are not named")
    late = [
        row
        for row in self.oracle.book.counted
        if not self.oracle.n_revisions and row.step > row.window
    ]
    if late:
        holds(f"which count in a later {noun}" in told, "late rows count later")
    if facts.late_final or facts.changed:
        holds("rows that arrive" in told, "late rows are not named")
    if self.oracle.situation.mode != "append" and self.oracle.situation.kind != "users":
        holds("which count in a later" not in told, "late rows do not count later")
    if not self.oracle.n_revisions:
        holds(f"rows that arrive after their {noun} was released" in told, "late rows")
    if (
        "may count more than once" not in told
        and "in one" not in told
        and "user" in options
        and options["series"] != "cumulative"
    ):
        in_one_number = Counter((one.user, one.step, one.group) for one in self.oracle.book.counted)
        is_users = options.get("once-per-window") or (
            options["max-contributions"] == 1
            and options["contribution-period"] == options["every"]
            and "event-name" not in options
        )
        if is_users and any(most > 1 for most in in_one_number.values()):
            raise UntrueError("a user counts twice in one number, and the line does not say so")


@form(r"Note: (.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    raise UntrueError("unknown note")


@form(r"Group 'rest' has the rows of groups that are not listed, and rows without a group\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds("other-group" in self.options, "group")


@form(r"Privacy: epsilon = (\d+) for each ([\w' ]+), for all windows together\.(.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(int(match[1]), self.options["epsilon"], "epsilon")
    holds(match[2] == unit_of(self), "unit")
    rest = match[3]
    if "user" in self.options:
        unit = unit_of(self)
        own = f" Each {unit} is protected separately: a guest with 10 of them loses up to 10 times"
        holds(rest.startswith(f"{own} the epsilon."), "users")
    else:
        own = " Users are not protected: a user with 100 visits loses 100 times the epsilon."
        holds(rest.startswith(own), "users")
        changes = "For each visit that changes K times in later inputs"
        may_change = bool(self.oracle.n_revisions) and self.oracle.situation.mode != "append"
        holds((changes in rest) == may_change, "changes")


@form(
    r"Late rows: to wait for them before their (\w+) is released, set release-delay\."
    r"( To add them to their (\w+) afterwards, start a new stream with allowed-lateness, "
    r"which "
    r"spends the privacy loss again\.)?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(self.facts.before, 0, "released before")
    holds(match[1] == self.noun and match[3] in (None, self.noun), "noun")
    holds("release-delay" not in self.options, "release-delay is set")
    holds(not self.oracle.n_revisions, "allowed-lateness is set")


@form(
    r"Not protected: the time of the newest event, (.+?)(, which determines the released "
    r"windows"
    r"|\. Less the release delay of (\w+), it is (.+?)\. Windows that ended by then are "
    r"released)"
    r"\. Without until latest-event the clock determines the windows\."
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(self.oracle.until == "latest-event", "until")
    newest = max(row.at for row in self.rows_with_time() if row.at and row.is_readable)
    holds(_minute(self, newest) in match[1], f"newest row {_minute(self, newest)}")
    if match[3] is not None:
        holds(match[3] == self.options["release-delay"], "delay")
        holds(_minute(self, newest - self.oracle.delay) in match[4], "less the delay")


def _minute(self: LineChecker, moment: datetime) -> str:
    return f"{self.oracle.local(moment):%Y-%m-%d %H:%M}"


@form(
    r"Shown: the last (\d+) of (\d+) new windows\. All: counton export s\.db --stream told "
    r"--output FILE"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), self.facts.after - self.facts.before, "new windows")


@form(r"Keep secret: .*")
def _(self: LineChecker, match: re.Match[str]) -> None:
    raise UntrueError("a stated state is no default")


@form(r"table written to out\.csv")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds((self.folder / "out.csv").exists(), "no table")


@form(r"Next: full privacy statement: counton methods s\.db --full")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(self.facts.before == 0, "first run")
    is_exact(self.facts.after, self.oracle.steps, "last window")


@form(
    rf"Next: window {_N} can be released (.*?)"
    r"(; full privacy statement: counton methods s\.db --full)?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    window = number(match[1])
    is_exact(window, self.facts.after + 1, "next window")
    holds(bool(match[3]) == (self.facts.before == 0), "first run")
    due = self.oracle.edges[window] + self.oracle.delay
    when = re.match(
        r"(?:from|with until =|once there is an event of) (\d{4}-\d\d-\d\d \d\d:\d\d) "
        r"\(([\w/]+)\)"
        r"( or later)?(.*)",
        match[2],
    )
    holds(when is not None, "when")
    assert when is not None
    holds(when[1] == _minute(self, due), f"due {_minute(self, due)}")
    holds(when[2] == self.options["timezone"], "zone")
    kinds = {None: "from", "latest-event": "once there is"}
    kind = kinds.get(self.oracle.until, "with until")
    is_beyond = due >= self.oracle.edges[min(self.oracle.steps, len(self.oracle.edges) - 1)]
    if is_beyond and self.oracle.until is not None:
        kind = "with until"  # no row of a window releases it
    holds(match[2].startswith(kind), "kind")
    after_end = re.search(r", (\w+) after its end", match[2])
    told_delay = None if after_end is None else after_end[1]
    true_delay = self.options.get("release-delay") if self.oracle.delay else None
    holds(told_delay == true_delay, f"delay {true_delay}")
    check_first_needed(self, match[2], window)
    self.prove("next", match[2])


def check_first_needed(self: LineChecker, words: str, window: int) -> None:
    """Check the time from which on a row lets a window be released.

    A run may release ``max-empty-windows`` windows after the newest row.
    """
    told = re.search(r"once there is a row of (\S+) or later", words)
    if told is None:
        return
    first = window - self.options.get("max-empty-windows", _DEFAULT_MAX_EMPTY_WINDOWS)
    begin = self.oracle.edges[first - 1]
    told_begin = datetime.fromisoformat(told[1])
    if told_begin.tzinfo is None:
        begin = self.oracle.local(begin)
    is_needed = first > 1 or "append" in self.options
    holds(is_needed and told_begin == begin, f"a row of {begin} or later")


@form(
    r"the job file says until = (\S+), so runs without --until release no later window: take "
    r"that line out once newer rows come(.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(match[1] == self.oracle.until, "until")
    self.prove("until", match[2])


# ------------------------------------------------------------------------------- notes of new jobs
@form(
    r"job told: warning: the privacy loss (\d+) for one ([\w' ]+) is above 20\. At ε = 20, "
    r"released numbers may already be e\^20 times likelier with this [\w' ]+ than without it, so "
    r"next to nothing is hidden; a loss of 1 is a common choice"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(int(match[1]), self.options["epsilon"], "epsilon")
    holds(match[2] == unit_of(self), "unit")
    holds(self.facts.before == 0, "first run")


@form(r"job told: note: at most (\d+) (row|group)s? of each ([\w' ]+) counts?\. (.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(int(match[1]), self.options["max-contributions"], "limit")
    holds(match[3] == unit_of(self), "unit")
    holds("group-by" in self.options, "groups")
    holds((match[2] == "group") == bool(self.options.get("once-per-window")), "rows or groups")


@form(
    r"job told: note: the stream has begun, so its options are fixed\. To change them, begin a new "
    r"stream, which spends the privacy loss again"
)
def _(self: LineChecker, _match: re.Match[str]) -> None:
    holds(self.facts.before == 0, "first run")


@form(
    r"job told: note: late windows of a period are counted too low: the bound of (\d+) for "
    r"each "
    r"([\w' ]+) is spent in the order of rows, (.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(int(match[1]), self.options["max-contributions"], "limit")
    holds(match[2] == unit_of(self), "unit")
    order = ["1h", "1d", "1w", "1mo"]
    period = order.index(self.options["contribution-period"])
    holds(period > order.index(self.options["every"]), "period")


# -------------------------------------------------------------------------------- confidential rows
_C = "confidential: job told: "


@form(_C + rf"rows read: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), len(self.facts.rows), "rows")


@form(_C + rf"rows before the first window \((.*)\), not counted: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(datetime.fromisoformat(match[1]) == self.oracle.edges[0], "start")
    is_within(number(match[2]), self.oracle.number_of("before"), "rows")


@form(_C + rf"rows after the last window \((.*)\), not counted: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(datetime.fromisoformat(match[1]) == self.oracle.edges[self.oracle.steps], "end")
    is_within(number(match[2]), self.oracle.number_of("after"), "rows")


@form(_C + rf"rows with a missing value, not counted: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_within(number(match[1]), self.oracle.number_of("missing"), "rows")


@form(
    _C + rf"rows that cannot be read, set aside(?: \({_N} more were set aside by earlier "
    rf"runs\))?"
    rf": {_N} of {_N} \(([\d.]+)%\)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    earlier = number(match[1] or "0")
    new, read = number(match[2]), number(match[3])
    bad = self.oracle.number_of("bad")
    is_within(new + earlier, bad, "bad rows")
    is_exact(read, len(self.facts.rows), "rows")
    holds(abs(float(match[4]) - 100 * new / read) < 0.051, "share")
    holds(not earlier or self.facts.before > 0, "no earlier run")


@form(_C + rf"rows that cannot be read, set aside: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    bad = self.oracle.number_of("bad")  # of a refused run; it names new ones alone
    holds(0 < number(match[1]) <= bad.most, "rows")


@form(
    _C
    + r"rows( of new windows| of this input)? beyond their user's (?:limit|limits, such as one in "
    rf"each window(?: and group)?), not counted: {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), self.facts.beyond, "rows")


@form(
    _C + rf"rows of undeclared groups, not counted: {_N}"
    rf"(?: \(most often( in all rows read:)? '(\w+)', {_N}\))?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_within(number(match[1]), self.oracle.number_of("unlisted"), "rows")
    if match[3]:
        rows = [row for row in self.facts.rows if row.is_unlisted]
        if not match[2]:
            rows = [row for row in rows if not {"bad", "missing"} & row.flaws]
        holds(match[3] == "east", "name")
        is_exact(number(match[4]), len(rows), "rows of this name")


@form(
    _C + r"rows read of undeclared groups, for group 'rest', whether counted or not: "
    rf"{_N}(?: \(most often '(\w+)', {_N}\))?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    rows = [row for row in self.facts.rows if row.is_unlisted]
    is_within(number(match[1]), Bounds(sum(not row.flaws for row in rows), len(rows)), "rows")
    if match[2]:
        holds(match[2] == "east", "name")
        is_exact(number(match[3]), len(rows), "rows of this name")


@form(_C + rf"rows read without a group, for group 'rest', whether counted or not: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    rows = [row for row in self.facts.rows if row.is_without_group]
    is_within(number(match[1]), Bounds(sum(not row.flaws for row in rows), len(rows)), "rows")


@form(
    _C + r"no row counts in group 'rest', so its numbers are only noise(\. To leave it out, "
    r"delete the line other-group before the first run\. A row of an unlisted group then "
    r"stops "
    r"the run)?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    true = sum(self.oracle.expected(one, OTHER) for one in range(1, self.facts.after + 1))
    if not self.is_dry:
        is_exact(true, 0, "rows of the other group")
    is_first = len(self.oracle.book.moments) == (0 if self.is_dry else 1)
    holds(is_first, "there was an earlier run")
    if match[1]:
        self.prove("without_other", "")


@form(
    _C + r"no row of this input counts in group 'rest'\. If no earlier run counted one, its "
    r"numbers are only noise"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    fine = [row for row in self.facts.rows if not row.flaws]
    is_exact(sum(row.group == OTHER for row in fine), 0, "rows of the other group")
    is_first = len(self.oracle.book.moments) == (0 if self.is_dry else 1)
    holds(not is_first, "there was no earlier run")


#: Rows that windows without a row may have.
_OTHER_ROWS = (
    r"(?:, apart from (?P<beyond>rows of earlier files beyond their user's limit)?(?: and )?"
    r"(?P<late>late rows of earlier windows)?)?"
)


def counts_late_rows(self: LineChecker) -> bool:
    """Return whether late rows count in a window that the run releases."""
    facts = self.facts
    has_late_rows = facts.late + facts.late_waiting > 0
    return has_late_rows and facts.after > facts.before and not self.oracle.n_revisions


def forgets_rows_of_users(self: LineChecker, *, is_refused: bool = False) -> bool:
    """Return whether earlier files may have had rows that no state keeps.

    A run that is not refused is itself among the runs of the book, unless it is dry.
    """
    is_first = len(self.oracle.book.moments) == (0 if self.is_dry or is_refused else 1)
    return self.oracle.situation.kind == "users" and "append" in self.options and not is_first


@form(
    _C
    + r"newest windows released without a row"
    + _OTHER_ROWS
    + rf" \(check whether a file is missing\): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    rows = [*self.facts.rows, *self.oracle.book.earlier_rows]
    windows = [row.window for row in rows if not is_future(self, row)]
    has_exception = forgets_rows_of_users(self)
    holds(bool(match["beyond"]) == has_exception, "rows beyond a limit")
    holds(bool(match["late"]) == counts_late_rows(self), "late rows")
    sure = self.facts.rows if has_exception else rows
    fine = [row.window for row in sure if not row.flaws and not is_future(self, row)]
    if has_exception:
        fine += [counted.window for counted in self.oracle.book.counted]
    n_after = self.facts.after
    least = n_after - max([*[one for one in windows if one <= n_after], self.facts.before])
    most = n_after - max([*[one for one in fine if one <= n_after], self.facts.before])
    is_within(number(match[3]), Bounds(least, most), "windows")


@form(
    _C
    + r"windows without any readable row"
    + _OTHER_ROWS
    + rf": {_N} \((.*)\)\. If rows are missing, readers must be told"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    named = [window for words in match[4].split("; ") for window in self.windows_of(words)]
    is_exact(number(match[3]), len(named), "windows")
    has_exception = forgets_rows_of_users(self)
    holds(bool(match["beyond"]) == has_exception, "rows beyond a limit")
    holds(bool(match["late"]) == counts_late_rows(self), "late rows")
    with_rows = {row.window for row in self.facts.rows if not row.flaws}
    if has_exception:
        with_rows |= {counted.window for counted in self.oracle.book.counted}
    else:
        with_rows |= {row.window for row in self.oracle.book.earlier_rows if not row.flaws}
    for window in named:
        holds(window not in with_rows, f"window {window} has a row")
        holds(self.facts.before < window <= self.facts.after, f"window {window} is not new")


@form(
    _C + rf"{_N} windows?( of a group)? without a count, released as 0 with noise"
    r"(, apart from late rows of earlier windows)? "
    rf"\((.*)\)\. If "
    r"counts are missing, readers must be told"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    rows = [*facts.rows, *(self.oracle.book.earlier_rows if "append" in self.options else ())]
    there = {(row.window, row.group) for row in rows if not row.flaws}
    lacking = [
        (window, group)
        for window in range(facts.before + 1, facts.after + 1)
        for group in self.oracle.groups
        if (window, group) not in there
    ]
    n_told = number(match[1])
    holds(bool(match[3]) == counts_late_rows(self), "late rows")
    shown = match[4].split("; ")
    rest = re.fullmatch(rf"{_N} more", shown[-1])
    if rest is not None:
        shown = shown[:-1]
    n_named = 0
    for words in shown:
        named = re.fullmatch(r"(?:'(\w+)', )?(.*)", words)
        assert named is not None
        for window in self.windows_of(named[2]):
            holds((window, named[1] or "") in lacking, f"window {window} of {words} has a count")
            n_named += 1
    n_rest = 0 if rest is None else number(rest[1])  # stretches
    is_within(n_told, Bounds(n_named + n_rest, len(lacking) if n_rest else n_named), "windows")
    holds(n_told <= len(lacking), f"{n_told} of {len(lacking)} windows")


@form(
    _C + rf"listed groups without any readable row: {_N} \((.*)\)\. Their numbers are only "
    rf"noise"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    named = [text.strip("' ") for text in match[2].split(",")]
    is_exact(number(match[1]), len(named), "groups")
    there = {row.group for row in self.facts.rows if not row.flaws}
    for group in named:
        holds(group in LISTED and group not in there, f"{group} has a row")


@form(
    _C + rf"windows of a group without any readable row, unlike other groups: {_N} \((.*)\)\. If "
    r"rows are missing, readers must be told"
    r"(\. If a group has closed for good, tell them as well\. The stream keeps it, and it is named "
    r"here until half of the windows lack its rows)?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    there = {(row.window, row.group) for row in facts.rows if not row.flaws}
    with_rows = {window for window, _ in there}
    n_windows = 0
    newest = max((window for window in with_rows if window <= facts.after), default=0)
    newest_before = max((window for window in with_rows if window <= facts.before), default=0)
    lasts = False
    for words in match[2].split("; "):
        named = re.fullmatch(r"'(\w+)', (.*)", words)
        assert named is not None, words
        windows = self.windows_of(named[2])
        windows_before = range(newest_before, windows.start) if newest_before else ()
        is_old = newest_before > 0 and not any((one, named[1]) in there for one in windows_before)
        lasts = lasts or (is_old and newest in windows)
        for window in windows:
            holds((window, named[1]) not in there, f"window {window} has a row of {named[1]}")
            n_windows += window in with_rows and facts.before < window <= facts.after
    is_exact(number(match[1]), n_windows, "windows")
    if " more" not in match[2]:
        holds((match[3] is not None) == lasts, "a gap of earlier runs has ended")


@form(
    _C + r"rows of windows that begin in the future, not counted before these windows end \(the "
    rf"newest is of (\S+ [\d:]+)\S*\): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    oracle = self.oracle
    rows = [
        row
        for row in self.facts.rows
        if row.at is not None
        and 0 < row.window <= oracle.steps
        and (row.window > len(oracle.edges) or oracle.edges[row.window - 1] > oracle.now)
    ]
    fine = [row for row in rows if not row.flaws]
    is_within(number(match[2]), Bounds(len(fine), len(rows)), "rows")
    times = {_minute(self, row.at) for row in rows if row.at is not None}
    holds(match[1] in times, "no row is of this time")
    newest = max(_minute(self, row.at) for row in fine if row.at) if fine else min(times)
    holds(match[1] >= newest, "a newer row can be read")


@form(_C + r"an earlier run has counted this input; nothing was added")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(self.facts.is_known_file, "the file is new")


@form(_C + rf"rows that an earlier run had counted, not counted again: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), self.facts.duplicates, "rows")


@form(_C + rf"rows of windows that this input does not cover, not used in this run: {_N}")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), self.facts.outside, "rows")


@form(
    _C + r"rows that were counted before and are missing now, still counted( \(rows that "
    r"the state "
    rf"no longer remembers are not compared\))?: {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), self.facts.missing, "rows")
    forgets = "contribution-period" in self.options
    holds(bool(match[1]) == forgets, "rows that are forgotten")


@form(_C + r"rows that arrived late for windows released before, (.*?): " + _N)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), self.facts.late + self.facts.late_waiting, "rows")
    facts = self.facts
    n_revisions = self.oracle.n_revisions
    true = "to be counted at the next release"
    if n_revisions:
        true = "to be counted in their own windows at the next release"
    if facts.after > facts.before:
        true = f"counted in window {facts.before + 1:,}"
        if n_revisions:
            true = (
                f"counted in their own windows, which were revised with window {facts.before + 1}"
            )
    elif facts.after >= self.oracle.steps:
        true = "not counted: the stream has had its last release"
    holds(match[1] == true, true)


@form(
    _C + rf"of {_N} new rows?( within their user's limit)? that may count, {_N} "
    rf"\(([\d.]+)%\) "
    r"(?:was|were) in time for their (\w+)\.(?: With release-delay (\w+), (all "
    r"of these|"
    rf"([\d.]+)%) would have been in time(?:; {_N} rows? came later)?\.)?"
    rf"(?: {_N} rows? too old to count (?:is|are) not among these\.)?"
    r"( To add late rows to their own windows: a new stream with allowed-lateness (\w+)"
    r"(?:, which spends the privacy loss again)?)?"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    windows = facts.new_counted
    is_exact(number(match[1]), len(windows), "new rows")
    in_time = sum(window > facts.before for window in windows)
    is_exact(number(match[3]), in_time, "rows in time")
    holds(abs(float(match[4]) - 100 * in_time / len(windows)) < 0.006, "share")
    holds(match[5] == self.noun, "noun")
    is_exact(number(match[10] or "0"), facts.too_old, "too old rows")
    if match[11] is not None:
        lateness = f"{enough_windows(self)}{self.options['every'][1:]}"
        holds(match[12] == lateness, f"allowed-lateness {lateness}")
    if match[6] is None:
        holds(facts.before >= self.oracle.steps, "a longer delay is not named")
        return
    holds(re.fullmatch(r"\d+[smhd]", match[6]) is not None, "no release-delay")
    released = self.oracle.released_with(length_of(match[6]) - self.oracle.delay)
    after_wait = sum(window > released for window in windows)
    if match[7] == "all of these":
        is_exact(after_wait, len(windows), "rows in time after the wait")
    else:
        holds(float(match[8]) - 100 * after_wait / len(windows) < 0.006, "share after wait")
    self.prove("delay", match[6])


@form(
    _C + r"rows of this input that arrived after their window was released, not counted "
    rf"\((.*)\): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), self.facts.late_final, "rows")


@form(
    _C + r"rows of this input, new or changed and within their user's limit, that arrived after "
    rf"their window was (released|final), not counted \((.*)\): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(match[1] == ("final" if self.oracle.n_revisions else "released"), "event")
    is_exact(number(match[3]), self.facts.late_of_users, "rows")


@form(
    _C + rf"rows of windows that were final after {_N} more windows?, not counted now "
    rf"\(earlier "
    rf"runs may have counted them\): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), self.oracle.n_revisions, "revisions")
    is_exact(number(match[2]), self.facts.too_old + self.facts.late_final, "rows")


@form(
    _C + r"(?:new )?rows whose ([\w' ]+) ended at least 35 days \(840 hours\) "
    r"before the end of the last (\w+) "
    rf"that earlier runs released(, or of an erased period)?, not counted(.*?): {_N}"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[5]), self.facts.too_old, "rows")


def enough_windows(self: LineChecker) -> int:
    """Return how many windows wait for half of the late rows, and for 99% of all new rows."""
    windows = self.facts.new_counted
    delays = sorted(self.facts.before + 1 - one for one in windows if one <= self.facts.before)
    most_missed = min(len(delays) / 2, len(windows) / 100)
    return next(one for one in delays if sum(other > one for other in delays) <= most_missed)


_FINAL = "not updated, because it is final"


def is_over(self: LineChecker) -> bool:
    return bool(self.facts.after >= self.oracle.steps)


@form(_C + rf"rows of {_N} earlier windows? differ as well")
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[1]), len(self.facts.changed) - 7, "windows")


@form(
    _C + rf"(.*): {_N} visits?, previously {_N} \({_N} added, {_N} missing"
    r"(, net|, net in each group)?\); window "
    r"(updated|not updated yet, because no new window was due|not updated, because it is "
    r"final)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    (window,) = self.windows_of(match[1])
    told = tuple(number(match[place]) for place in range(2, 6))
    holds(window in self.facts.changed, "the window does not differ")
    *true, is_updated = self.facts.changed[window]
    holds(told == tuple(true), f"numbers are {true}")
    holds((match[7] == "updated") == is_updated, f"updated: {is_updated}")
    is_final = window <= self.facts.after - self.oracle.n_revisions
    if match[7] != "updated":
        holds((match[7] == _FINAL) == (is_final or is_over(self)), "final or not yet")


@form(
    _C + rf"(.*): {_N} rows?, previously {_N} \({_N} added, {_N} missing\); window "
    r"(updated|not updated yet, because no new window was due|not updated, because it is "
    r"final)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    (window,) = self.windows_of(match[1])
    holds(window in self.facts.changed, "the window does not differ")
    told = tuple(number(match[place]) for place in range(2, 6))
    *true, is_updated = self.facts.changed[window]
    holds(told == tuple(true), f"numbers are {true}")
    holds((match[6] == "updated") == is_updated, f"updated: {is_updated}")
    is_final = window <= self.facts.after - self.oracle.n_revisions
    if match[6] != "updated":
        holds((match[6] == _FINAL) == (is_final or is_over(self)), "final or not yet")


@form(
    _C + r"the input differs from the rows that stream 'told' has counted, and no new "
    r"window was "
    r"due\. The numbers shown are those of the last release(.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    is_exact(facts.after, facts.before, "new windows")
    differs = facts.changed or facts.missing or facts.late or facts.late_waiting or facts.too_old
    holds(bool(differs), "the input does not differ")
    self.prove("differs", match[1])


@form(
    _C + r"not released: (.*), because (.*)\. If the file has all rows of this time, set "
    r'(until|release-delay) = "(.*)" in the job file'
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    windows = self.windows_of(match[1])
    is_exact(windows.start, self.facts.after + 1, "first window")
    rows = [row for row in self.rows_with_time() if row.window <= self.oracle.steps]
    rows = [row for row in rows if not is_future(self, row)]
    newest = max(row.window for row in rows)
    newest_fine = max((row.window for row in rows if not row.flaws), default=0)
    is_within(windows.stop - 1, Bounds(newest_fine, newest), "last window")
    self.prove("held", f"{match[3]}={match[4]}={windows.stop - 1}")


# ---------------------------------------------------------------------------------- refused runs
_R = "counton: job told: "
_WITHOUT_ROWS = (
    r"Add the missing rows\. If nothing happened, give --allow-empty-windows for this run, or "
    r"max-empty-windows of the job file for every run"
)


def have_no_row(self: LineChecker, words: str) -> int:
    """Check that windows have no readable row; return their number."""
    windows = self.joined_windows(words, ", ")
    with_rows = {
        row.window for row in self.facts.rows if not row.flaws and not is_future(self, row)
    }
    for window in windows:
        holds(window not in with_rows, f"window {window} has a row")
        is_new = self.facts.before < window <= self.facts.after
        holds(is_new, f"window {window} would not be released")
    return len(windows)


def is_future(self: LineChecker, row: ReadRow) -> bool:
    return row.at is None or row.at > self.oracle.now


@form(
    _R + r"e\.\w+ has no row of (.*), and this run would release (\d+) windows? without "
    r"rows\. " + _WITHOUT_ROWS
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[2]), have_no_row(self, match[1]), "windows")


@form(
    _R
    + r"No input has a row of (.*?)(, apart from rows beyond their user's limit)?\. This run would "
    r"release (\d+) windows? without rows\. "
    + _WITHOUT_ROWS.replace("missing rows", "missing rows first")
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    is_exact(number(match[3]), have_no_row(self, match[1]), "windows")
    earlier = {row.window for row in self.oracle.book.earlier_rows if not row.flaws}
    named = self.joined_windows(match[1], ", ")
    holds("append" in self.options, "rows are repeated")
    holds(bool(match[2]) == forgets_rows_of_users(self, is_refused=True), "rows beyond a limit")
    holds(match[2] is not None or not earlier.intersection(named), "an earlier file has a row")


@form(
    _R + r"(?:without --until, this run|--until \S+) would release (\d+) windows?, but "
    r"(there is no (?:new )?row|the newest readable row is of (\S+ [\d:]+)\S*|"
    r"the newest rows are of (?P<waiting>.*?))\. (.*?) would have no row\. "
    r"Add missing "
    r"files(?:, or give (.*?) for data of the past|, or give --until (\S+) \(complete "
    r"file\) or (.*?) "
    r"\(older data\))?\. If nothing happened, give --allow-empty-windows for this run, or a "
    r"larger "
    r"max-empty-windows of the job file"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    is_exact(number(match[1]), facts.after - facts.before, "windows")
    times = [row.at for row in facts.rows if row.at is not None and not is_future(self, row)]
    times = [at for at in times if self.oracle.window_of(at) <= self.oracle.steps]
    fine = [row.at for row in facts.rows if row.at and not row.flaws and not is_future(self, row)]
    if match["waiting"] is not None:
        (waiting,) = self.windows_of(match["waiting"])
        earlier = {row.window for row in self.oracle.book.earlier_rows if not row.flaws}
        holds(waiting in earlier and waiting > facts.before, "no earlier row waits there")
    elif match[3] is None:
        holds(not fine, "there is a row")
        holds("new row" not in match[2] or "append" in self.options, "rows are repeated")
    else:
        told = match[3]
        holds(told in {_minute(self, at) for at in times}, "no row is of this time")
        holds(told >= _minute(self, max(fine, default=min(times))), "a newer row can be read")
    have_no_row(self, match[5])
    if match[7] is not None:
        self.prove("complete", match[7])


@form(
    _R + r"lookback(?: = .\w+.)? \(in a job file\) reaches back to (\S+), but the first window "
    r"that is not released yet begins at "
    r"(\S+)\. That window would be released without its rows\. (.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    facts = self.facts
    oracle = self.oracle
    covered = oracle.covered(facts)
    zone = oracle.zone
    told = [datetime.fromisoformat(match[place]).astimezone(UTC) for place in (1, 2)]
    holds(
        told[0] == oracle.edges[covered.start - 1], f"reaches to {oracle.edges[covered.start - 1]}"
    )
    holds(told[1] == oracle.edges[facts.before], f"first window {oracle.edges[facts.before]}")
    holds(covered.start > facts.before + 1, "the window is covered")
    longer = re.search(r'lookback = "(\w+)"', match[3])
    holds(longer is not None, f"no lookback, {zone}")
    assert longer is not None
    self.prove("lookback", longer[1])


@form(
    _R + r"The newest row \((\S+ [\d:]+)\S*\) is after the last window of the stream, "
    r"(\d+), which "
    r"ends at (\S+?)\. Give --until (\S+) for the rest of this stream\. Begin another "
    r"stream for later "
    r"rows(.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    newest = max(row.at for row in self.facts.rows if row.at is not None)
    holds(match[1] == _minute(self, newest), "newest row")
    is_exact(number(match[2]), self.oracle.steps, "last window")
    holds(datetime.fromisoformat(match[3]) == self.oracle.edges[self.oracle.steps], "end")
    end = self.oracle.edges[self.oracle.steps] + self.oracle.delay
    holds(datetime.fromisoformat(match[4]) == end, "last release")
    holds(self.oracle.until == "latest-event", "until")


@form(
    _R + r"The newest row \((\S+ [\d:]+)\S*\) is before (\S+?), when the first window "
    r"begins\. Correct "
    r"start or the rows"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    times = [row.at for row in self.facts.rows if row.at is not None]
    newest = max(times)
    holds(match[1] == _minute(self, newest), "newest row")
    holds(newest < self.oracle.edges[0], "it is not before the first window")


@form(_R + r"The newest row \((\S+ [\d:]+)\S*\) lies in the future\. Correct it, or give --until")
def _(self: LineChecker, match: re.Match[str]) -> None:
    newest = max(row.at for row in self.facts.rows if row.at is not None)
    holds(match[1] == _minute(self, newest), "newest row")
    holds(newest > self.oracle.now, "it is not in the future")


@form(
    _R + r"There are no rows, so none tells which windows have ended\. Give --until, or add "
    r"rows"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(not self.facts.rows, "there are rows")
    holds(self.oracle.until == "latest-event", "until")


@form(_R + r"No row can be counted, so none tells which windows have ended\. (.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(all(row.flaws for row in self.facts.rows), "a row can be counted")


@form(_R + r"No row can be counted, and nothing was released\. (.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(all(row.flaws for row in self.facts.rows), "a row can be counted")


@form(
    _R + r"The last window ended at (\S+?), so the clock does not tell up to which time the "
    r"data are "
    r"complete\. State that time, at most --until (\S+?)( with --allow-empty-windows)?\. Or "
    r"give until = "
    r'"latest-event" in the job file, which makes the time of the newest row public'
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    end = self.oracle.edges[self.oracle.steps]
    holds(datetime.fromisoformat(match[1]) == end, "end")
    holds(datetime.fromisoformat(match[2]) == end + self.oracle.delay, "last release")
    holds(self.oracle.now - end > timedelta(days=31), "the stream ended lately")


@form(
    _R + r"No row lies in a window of the stream, from (\S+?) to (\S+?)(?:: the newest row "
    r"that can be "
    r"read is of (\S+ [\d:]+)\S*|: none can be counted)?\. Nothing was released\. (.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    oracle = self.oracle
    holds(datetime.fromisoformat(match[1]) == oracle.edges[0], "start")
    holds(datetime.fromisoformat(match[2]) == oracle.edges[oracle.steps], "end")
    holds(all(row.flaws for row in self.facts.rows), "a row lies in a window")
    if match[3] is not None:
        times = {_minute(self, row.at) for row in self.facts.rows if row.at is not None}
        holds(match[3] in times, "no row is of this time")


@form(
    _R + r"e\.\w+ has been counted already, and (\d+) more windows? would be released "
    r"without any new "
    r"row\. Give the file of the new rows, or --allow-empty-windows if there are none"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(self.facts.is_known_file, "the file is new")
    is_exact(number(match[1]), self.facts.after - self.facts.before, "windows")


@form(
    _R + r"e\.\w+ has less than half of the rows that the last input had of (.*), and this "
    r"run would "
    r"replace them\. (.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    for words, now, before in re.findall(r"(?:^|, )(.*?) \((\d+), before (\d+)\)", match[1]):
        (window,) = self.windows_of(words)
        true = self.facts.rows_of_changed.get(window)
        holds(true == (int(now), int(before)), f"rows of {words}: {true}")
        holds(2 * int(now) < int(before), "not less than half")


@form(_R + r"e\.\w+ has none of the rows that were counted before(.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    there = Counter((row.window, row.group, row.user) for row in self.facts.rows if not row.flaws)
    if self.oracle.book.counted:
        counted = Counter((one.window, one.group, one.user) for one in self.oracle.book.counted)
        is_exact((there & counted).total(), 0, "counted rows that are there")
        return
    released = [row for row in self.facts.rows if not row.flaws and row.window <= self.facts.before]
    is_exact(len(released), 0, "rows of released windows")


@form(_R + r"e\.\w+ has none of the ids that were counted before(.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    holds(not self.oracle.book.ids & {row.id for row in self.facts.rows}, "an id was counted")


@form(_R + r"row (\d+) of e\.\w+ (.*)")
def _(self: LineChecker, match: re.Match[str]) -> None:
    row = self.facts.rows[number(match[1]) - 1]
    holds(bool({"bad", "missing", "unlisted"} & row.flaws), "the row can be read")


@form(
    _R
    + r"the local time (\S+) (comes twice|does not exist) in (\S+), because the clocks change; (.*)"
)
def _(self: LineChecker, match: re.Match[str]) -> None:
    local = datetime.fromisoformat(match[1])
    offsets = {local.replace(tzinfo=self.oracle.zone, fold=fold).utcoffset() for fold in (0, 1)}
    holds(len(offsets) == 2, "the clocks do not change")
    there = local.replace(tzinfo=self.oracle.zone).astimezone(UTC)
    comes_twice = self.oracle.local(there) == local
    holds((match[2] == "comes twice") == comes_twice, "twice or never")


@form(r"Dry run: nothing was written or released\.")
def _(self: LineChecker, match: re.Match[str]) -> None:
    """The test compares the folder."""
