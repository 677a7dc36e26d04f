"""A warm process which forks writers of a durable stream, kills them, and reports what it saw.

Run as ``python killing.py MODE STATE KEYFILE COUNT SEED``; prints one JSON object. It is a process
of its own because forking is safe only where no threads run.
"""

import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from databases import hear
from numpy.typing import NDArray
from patience import HANGS

from counton import Counter, Key, PureDP, Stream
from counton.base.arrays import IntegersOrFloats
from counton.base.errors import ConcurrentWriterError
from counton.base.private import Private
from counton.planning.ranges_plan import plan_cells  # noqa: F401 - loaded before the children are forked
from counton.run import Job, run
from counton.state import Store, state_summary
from counton.state.commit_input import CommitInput
from counton.state.public_rows import OPEN_COLUMNS
from counton.strategies import KAry

STRATEGY = KAry(horizon=100_000, arity=9, subtraction=True)
SHAPE = (3,)
NAME = "visits"

#: How often each of several writers has released when they end.
TURNS = 3

#: Where in its work a writer can be when it dies, in order.
PHASES = (
    "opening", "computing", "begun", "journaled", "observed", "row moved", "committing",
    "committed", "shown",
)  # fmt: skip


def inputs(first: int, count: int, salt: int = 0) -> NDArray[np.int64]:
    """Inputs of consecutive steps, a function of the step alone."""
    steps = np.arange(first, first + count)[:, np.newaxis]
    made: NDArray[np.int64] = (steps * 2654435761 + salt + np.arange(SHAPE[0]) * 40503) % 97
    return made


class Progress:
    """Phase and step of a child, in memory which its killer can read."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)
        self.at: Callable[[str], None] = unharmed
        self.reset()

    def reset(self) -> None:
        self._memory[:16] = bytes(16)

    def enter(self, phase: str) -> None:
        self._memory[0] = PHASES.index(phase)
        if phase == "shown":
            self._memory[1] = 1
        self.at(phase)

    def set_step(self, step: int) -> None:
        self._memory[8:16] = step.to_bytes(8, "little")

    @property
    def phase(self) -> str:
        return PHASES[self._memory[0]]

    @property
    def has_shown(self) -> bool:
        return self._memory[1] == 1

    @property
    def step(self) -> int:
        return int.from_bytes(self._memory[8:16], "little")


def watch(progress: Progress) -> None:
    """Note the phases of every release, around its statements and the commit."""

    locked = "SELECT " + OPEN_COLUMNS
    phases = {
        "INSERT INTO counton_journal": "journaled",
        "INSERT INTO counton_sources": "observed",
        "UPDATE counton_streams SET step": "row moved",
    }

    def before(said: str) -> None:
        if progress.phase == "computing" and said.startswith(locked):
            progress.enter("begun")
        if progress.phase != "opening" and said == "COMMIT":
            progress.enter("committing")

    def after(said: str) -> None:
        for beginning, phase in phases.items():
            if progress.phase != "opening" and said.startswith(beginning):
                progress.enter(phase)

    hear(before, after)
    commit = Stream._write_transaction

    def committed(*arguments: Any) -> None:
        commit(*arguments)
        progress.enter("committed")

    setattr(Stream, "_write_transaction", committed)  # noqa: B010 - a type checker cannot follow


def show(pipe: int, first: int, values: IntegersOrFloats) -> None:
    """What a user would see, a line a step, each written at once."""
    for step, value in enumerate(values, first):
        os.write(pipe, f"{step} {value.astype('<i8').tobytes().hex()}\n".encode())


def fork(child: Callable[[int], NoReturn]) -> tuple[int, int]:
    """Process id of the child and the reading end of its pipe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(int(HANGS))  # should nobody kill it
            os.close(reading)
            child(writing)
        except BaseException as error:
            os.write(writing, f"error {error!r}\n".encode())
        finally:
            os._exit(1)
    os.close(writing)
    return pid, reading


def ended(pid: int) -> bool:
    """Whether a child is dead, before anybody has waited for it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def died(pid: int) -> bool:
    """Wait for a child; whether it was killed, and did not end by itself."""
    status = os.waitpid(pid, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def collect(reading: int) -> list[str]:
    with os.fdopen(reading) as file:
        return file.read().splitlines()


def kill(arguments: list[str]) -> dict[str, Any]:
    """Kill writers: half where chance finds them, half in every phase on purpose."""
    state, key_file, count, seed = arguments
    key = Key.load(key_file)
    chance = np.random.default_rng(int(seed))
    progress = Progress()
    Stream.create(state, NAME, STRATEGY, PureDP(1), key=key, shape=SHAPE).close()
    warm_up()
    watch(progress)
    shown: list[str] = []
    landed: list[tuple[str, int]] = []
    for number in range(int(count)):
        progress.reset()
        on_purpose = number % 2 == 0
        target = PHASES[number // 2 % len(PHASES)]
        progress.at = dying(target, int(chance.integers(1, 4))) if on_purpose else unharmed
        batches = chance.spawn(1)[0]
        pid, reading = fork(partial(write, state, key, progress, batches))
        if not on_purpose:
            while number % 8 != 1 and not progress.has_shown and not ended(pid):
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, 0.012 if progress.has_shown else 0.004))
            os.kill(pid, signal.SIGKILL)
        progress.at = unharmed  # the hooks are in this process too
        lines = collect(reading)
        shown += lines
        if not died(pid):
            raise RuntimeError(f"a writer ended by itself in {progress.phase}: {shown[-1:]}")
        landed.append((progress.phase, progress.step))
        # what the dead has shown must be in the journal now, before anybody can release it again
        journaled = state_summary(state)["streams"][0]["step"]
        last_shown = max((int(line.split()[0]) for line in lines), default=0)
        if last_shown > journaled:
            raise RuntimeError(f"step {last_shown} was shown, the journal ends at {journaled}")
    return {"shown": shown, "landed": landed}


def warm_up() -> None:
    """Build the tables of the samplers once, not in each child."""
    counter = Counter(STRATEGY, PureDP(1), key=Key.generate(), name=NAME, shape=SHAPE)
    counter.release_many(inputs(1, 4))


def unharmed(_phase: str) -> None:
    """Go on."""


def dying(target: str, times: int) -> Callable[[str], None]:
    """Kill the process when it enters a phase for the given time."""
    entered = 0

    def at(phase: str) -> None:
        nonlocal entered
        entered += phase == target
        if entered == times:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def write(
    state: str, key: Key, progress: Progress, batches: np.random.Generator, pipe: int
) -> NoReturn:
    """Release for ever. First repeat the last step, as a user does who did not see its answer."""
    progress.enter("opening")
    stream = Stream.open(state, NAME, key=key)
    progress.set_step(stream.step)
    progress.enter("opening")
    if stream.step:
        again = stream.release_many(inputs(stream.step, 1), first_step=stream.step)
        show(pipe, stream.step, again.values)
    progress.enter("opening")
    while True:
        progress.enter("computing")
        first = stream.step + 1
        count = int(batches.choice((1, 1, 2, 5)))
        progress.set_step(first)
        xs = inputs(first, count)
        seen = {first + i: x for i, x in enumerate(xs)}
        files = [f"file {first + i}" for i in range(count)]
        releases = stream.commit(Private(CommitInput(xs, seen, files)))
        assert releases is not None
        show(pipe, first, releases.values)
        progress.enter("shown")


def race(arguments: list[str]) -> dict[str, Any]:
    """Several writers at once, each with inputs of its own, taking the stream from each other."""
    state, key_file, count, _ = arguments
    key = Key.load(key_file)
    Stream.create(state, NAME, STRATEGY, PureDP(1), key=key, shape=SHAPE).close()
    shown = mmap.mmap(-1, int(count))
    children = [fork(partial(contend, state, key, salt, shown)) for salt in range(int(count))]
    lines = [collect(reading) for _, reading in children]
    for pid, _ in children:
        os.waitpid(pid, 0)
    return {"shown": lines}


def contend(state: str, key: Key, salt: int, shown: mmap.mmap, pipe: int) -> NoReturn:
    """Release until every writer has done so some times, each with others who want to.

    So each has taken the stream from another one, however fast they are.
    """
    rest = np.random.default_rng(salt)
    while min(shown[:]) < TURNS:
        try:
            with Stream.open(state, NAME, key=key) as stream:
                while min(shown[:]) < TURNS:
                    first = stream.step + 1
                    show(pipe, first, stream.release_many(inputs(first, 2, salt)).values)
                    shown[salt] = min(shown[salt] + 1, TURNS)
        except ConcurrentWriterError:
            time.sleep(rest.uniform(0, 0.02))
    os._exit(0)


def create(arguments: list[str]) -> dict[str, Any]:
    """Kill a writer at an event of creating its state and releasing once, so many apart.

    Events are SQL statements, commits, and what touches files. After each, do what a user does:
    run again.
    """
    folder, _, apart, _ = arguments
    warm_up()
    found: list[str] = []
    for number in range(1, 1000, int(apart)):
        state = f"{folder}/{number}.db"
        pid, reading = fork(partial(begin, state, number))
        shown = collect(reading)
        if not os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            return {"found": found, "shown": len(shown)}
        streams = state_summary(state)["streams"] if os.path.exists(state) else None
        if streams:
            stream = Stream.open(state, NAME)
        else:
            stream = Stream.create(state, NAME, STRATEGY, PureDP(1), shape=SHAPE)
        found.append("no state" if streams is None else f"stream at {stream.step}")
        value = stream.release_many(inputs(1, 1), first_step=1).values[0]
        stream.close()
        if shown and shown != [f"1 {value.astype('<i8').tobytes().hex()}"]:
            raise RuntimeError(f"killed at event {number}: shown {shown}, now {value}")
    raise RuntimeError("creation does not end")


def tables(arguments: list[str]) -> dict[str, Any]:
    """Kill processes that release a table, at events one after the other, up to the last.

    After each, somebody releases other data under the same name, and then the same data: of two
    data sets, at most one is ever shown. First each table begins a state of its own, with its key;
    then all are in one.
    """
    folder, _, count, _ = arguments
    for salt in range(2):
        cells = "".join(
            f"{n},{cell}\n" for n, cell in zip((3, 1, 4, 1, 5 + salt), "abcde", strict=True)
        )
        Path(folder, f"cells{salt}.csv").write_text("n,cell\n" + cells)
    for name in ("one", "two"):
        released_line(f"{folder}/warm.db", name, 0)
    found: dict[str, list[str]] = {}
    for beginning, state in (("new", None), ("old", f"{folder}/warm.db")):
        events = measured(state or f"{folder}/measured.db", "measured")
        found[beginning] = [
            killed_at(state or f"{folder}/{place}.db", f"table {place}", place)
            for place in places(events, int(count) // 2)
        ]
    return {"found": found}


def places(events: int, count: int) -> list[int]:
    """Some of these events, with the two last: before and after what was released is shown."""
    return sorted({*np.linspace(1, events - 1, min(count, events) - 1, dtype=int).tolist(), events})


def killed_at(state: str, name: str, deadly: int) -> str:
    """What a process that was killed at an event left: nothing, a kept table, or a shown one."""
    before = len(kept_in(state)[0]) if os.path.exists(state) else 0
    pid, reading = fork(partial(release_until_killed, state, name, deadly))
    shown = collect(reading)
    if not died(pid):
        raise RuntimeError(f"{name} ended by itself before event {deadly}: {shown}")
    value = released_line(state, name, 1)
    kept = 0 if value.startswith(OTHER) else 1
    if kept == 0:
        of_other = value
        value = released_line(state, name, 0)
        if of_other != OTHER + value:
            raise RuntimeError(f"{name}: other data show {of_other}, and its own {value}")
    if (kept == 1 and shown) or shown not in ([], [value]):
        raise RuntimeError(f"{name}: shown {shown}, now {value} of data {kept}")
    names, spender = kept_in(state)
    if spender != name or len(names) != before + 1:
        raise RuntimeError(f"{name}: the ledger does not agree with the tables")
    return "shown" if shown else ("kept" if kept == 0 else "nothing")


def kept_in(state: str) -> tuple[list[str], str]:
    """Streams of a state and who spent last; closed, since SQLite does not survive a fork."""
    with Store(state) as store:
        return [*store.streams], store.entries[-1].name


def release_line(state: str, name: str, salt: int) -> str:
    """One release of a short line, as text; only in a child, since it starts threads.

    Where the operator is told that other data were released, that is said before.
    """
    cells = Path(state).with_name(f"cells{salt}.csv")
    line: dict[str, Any] = {"count_column": "n", "label": "cell", "groups": "a,b,c,d,e"}
    with run(Job("ranges", cells, state, stream=name, **line, epsilon=1)) as result:
        counts = result.confidential_counts().input
        value = result.read().table()["estimate"].to_list()
        return f"{OTHER if counts.missing or counts.after_final else ''}{value}"


#: Before numbers that are shown to somebody who gives other data.
OTHER = "other data "


def released_line(state: str, name: str, salt: int) -> str:
    """The same in a child that nobody kills."""
    pid, reading = fork(partial(release_and_tell, state, name, salt))
    lines = collect(reading)
    os.waitpid(pid, 0)
    if len(lines) != 1 or lines[0].startswith("error"):
        raise RuntimeError(f"{name} of data {salt}: {lines}")
    return lines[0]


def release_and_tell(state: str, name: str, salt: int, pipe: int) -> NoReturn:
    value = release_line(state, name, salt)
    os.write(pipe, f"{value}\n".encode())
    os._exit(0)


def measured(state: str, name: str) -> int:
    """Events of a release that nobody kills."""
    pid, reading = fork(partial(release_until_killed, state, name, 0))
    lines = collect(reading)
    os.waitpid(pid, 0)
    return int(lines[-1].split()[1])


def release_until_killed(state: str, name: str, deadly: int, pipe: int) -> NoReturn:
    count = counted(deadly, str(Path(state).parent))
    value = release_line(state, name, 0)
    count()
    os.write(pipe, f"{value}\n".encode())
    events = count()
    os.write(pipe, f"events {events}\n".encode())
    os._exit(0)


def counted(deadly: int, folder: str = "") -> Callable[[], int]:
    """Kill this process at an event: SQL statements, commits, and what touches files (of a folder).

    Where a process loads modules, the files it opens differ from one run to the next.
    """
    events = 0

    def count(*_: object) -> int:
        nonlocal events
        events += 1
        if events == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return events

    def audit(name: str, given: tuple[Any, ...]) -> None:
        elsewhere = given and isinstance(given[0], str | bytes)
        if elsewhere and not os.fsdecode(given[0]).startswith(folder):
            return
        if name in ("open", "sqlite3.connect") or name.startswith(("os.", "tempfile.")):
            count()

    sys.addaudithook(audit)
    hear(count)
    return count


def begin(state: str, deadly: int, pipe: int) -> NoReturn:
    count = counted(deadly)
    with Stream.create(state, NAME, STRATEGY, PureDP(1), shape=SHAPE) as stream:
        releases = stream.release_many(inputs(1, 1))
        count()
        show(pipe, 1, releases.values)
        count()
    os._exit(0)


if __name__ == "__main__":
    modes = {"kill": kill, "race": race, "create": create, "tables": tables}
    print(json.dumps(modes[sys.argv[1]](sys.argv[2:])))
