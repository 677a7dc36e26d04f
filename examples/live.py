"""Departures arrive at a service a thousand times faster than they left, and a page watches them.

`python -m examples.live` starts `counton serve` with two streams, opens its page, and sends the
departures of some days in small batches, each with the moment at which it is sent as its time: what
took an hour takes 3.6 seconds. Nothing but this machine is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from counton.cli.exits import explain_errors
from counton.run.outputs.output_files import write_table
from counton.serve.tokens import tokens_of
from examples.departures import data_folder

#: Before this hour hardly anybody departs.
_FIRST = datetime(2013, 1, 2, 5)
_EVERY = 2
_PAUSE = 0.5
_JOBS = """\
[serve]
public = true  # whoever sees the page sees what is released, and that alone
fold = "1s"

[defaults]
state = "live.db"
time = "time"
every = "{every}s"
start = "{start}"
windows = {steps}
timezone = "{zone}"
epsilon = 1
privacy-unit = "departure"

[jobs.departures]
statistic = "count"
group-by = "carrier"
groups = "carriers.csv"
series = "both"

[jobs.delays]
statistic = "quantiles"
value = "delay"
lower = -20
upper = 180
cells = 100
missing-values = "drop"  # flights that were cancelled
"""


@dataclass(frozen=True)
class Speed:
    """The moments of the demonstration for those of the data.

    Attributes:
        start: when the demonstration begins, and the data with `_FIRST`.
        times: how many times faster.

    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> Speed(start, 3600).moment(_FIRST + timedelta(hours=2)).second
    2
    """

    start: datetime
    times: float

    def moment(self, then: datetime) -> datetime:
        """When something happens that happened then."""
        return self.start + (then - _FIRST) / self.times

    def then(self, now: datetime) -> datetime:
        """What time it was then, now."""
        return _FIRST + (now - self.start) * self.times


class Client:
    """Sends rows to a stream. A batch that was not acknowledged is sent again under its id.

    Args:
        service: URL of the service.
        stream: name.
        token: for sending.
        run: tells this client's batches from those of others.
    """

    def __init__(self, service: str, stream: str, token: str, run: str) -> None:
        self._path = f"{service}/v1/streams/{stream}/batches/{run}"
        self._token = token
        self._number = 0

    def send(self, rows: Sequence[dict[str, object]]) -> None:
        """Send rows, and wait until they are safe.

        Raises:
            HTTPError: the service refuses them.
        """
        self._number += 1
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/x-ndjson",
        }
        body = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        for wait in (0.2, 0.5, 1, 2, None):
            request = urllib.request.Request(f"{self._path}-{self._number}", body, headers)
            try:
                urllib.request.urlopen(request, timeout=10).close()
            except (urllib.error.URLError, TimeoutError) as error:
                told = getattr(error, "code", 503)  # no answer at all: perhaps it was taken
                if wait is None or told not in (429, 503):
                    raise
                time.sleep(wait)
            else:
                return


def departures(days: int) -> pl.DataFrame:
    """Scheduled departures from `_FIRST` on, in their order: ``then``, ``carrier``, ``delay``.

    Raises:
        InvalidInputError: the package with the data is not installed.
    """
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read("flights.csv"), infer_schema=False, null_values="NA")
    parts = (pl.col(name).cast(pl.Int32) for name in ("year", "month", "day", "hour", "minute"))
    then = pl.datetime(*parts).alias("then")
    found = flights.select(then, "carrier", pl.col("dep_delay").cast(pl.Float64).alias("delay"))
    last = datetime(_FIRST.year, _FIRST.month, _FIRST.day) + timedelta(days=days)
    return found.filter(pl.col("then").is_between(_FIRST, last, closed="left")).sort("then")


@contextmanager
def service(folder: Path, *options: str) -> Iterator[str]:
    """A service of the jobs in a folder while it is needed: its URL.

    Raises:
        SystemExit: it does not begin; it has said why.
    """
    words = [sys.executable, "-m", "counton", "serve", str(folder / "jobs.toml"), *options]
    log = folder / "service.log"
    with log.open("w") as told:
        # A group of its own: at ctrl-C this program ends first, and then ends the service.
        process = subprocess.Popen(words, stdout=told, stderr=told, start_new_session=True)
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while True:
        ended = process.poll() is not None
        for line in log.read_text().splitlines():
            if (found := re.search(r" at (http://\S+)$", line)) is not None:
                return found[1]
        if ended:
            raise SystemExit(log.read_text().strip() or "the service did not begin")
        time.sleep(0.1)


def prepare(folder: Path, start: datetime, steps: int) -> str:
    """Write the jobs and take away what an earlier run left; a token for sending rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("live.db*"):
        old.unlink()
    airlines = pl.read_csv(data_folder() / "airlines.csv", infer_schema=False)
    write_table(airlines, folder / "carriers.csv")
    text = _JOBS.format(
        every=_EVERY, start=start.strftime("%Y-%m-%dT%H:%M:%SZ"), steps=steps, zone="UTC"
    )
    (folder / "jobs.toml").write_text(text)
    (folder / "jobs.toml.tokens").unlink(missing_ok=True)
    return tokens_of(folder / "jobs.toml.tokens").write


@contextmanager
def begun(
    folder: Path, days: int, times: float, listen: str = "127.0.0.1:0"
) -> Iterator[tuple[str, Callable[[], int]]]:
    """A service of the demonstration: its URL, and what sends the departures, and says how many.

    Args:
        folder: for jobs, state and the service's log.
        days: of departures.
        times: how many times faster than they were.
        listen: ``HOST:PORT``.
    """
    rows = departures(days)
    seconds = (rows["then"][-1] - _FIRST).total_seconds() / times
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    token = prepare(folder, start, int(seconds / _EVERY) + 60)
    with service(folder, "--listen", listen) as url:
        yield url, lambda: _send_all(url, token, rows, Speed(start, times))


def run(
    folder: Path, days: int, times: float, listen: str, *, browser: bool, linger: float = 0
) -> None:
    """Show the page while the departures of some days arrive.

    Args:
        folder, days, times, listen: as of `begun`.
        browser: whether to open the page.
        linger: seconds to go on serving afterwards.
    """
    with begun(folder, days, times, listen) as (url, send):
        said = "a day" if days == 1 else f"{days} days"
        _say(f"The departures of {said} arrive {times:,.0f} times faster than they were, at")
        _say(f"\n    {url}\n\nfor {86400 * days / times:.0f} seconds; ctrl-C ends it sooner.\n")
        if browser:
            webbrowser.open(url)
        sent = send()
        _wait_for_release(url, datetime.now(UTC))
        _say(f"\nAll {sent:,} departures were sent and their windows released.")
        time.sleep(linger)


def _send_all(url: str, token: str, rows: pl.DataFrame, speed: Speed) -> int:
    name = speed.start.strftime("%Y%m%dT%H%M%S")
    counting, timing = (Client(url, stream, token, name) for stream in ("departures", "delays"))
    waiting = rows.to_dicts()
    sent = 0
    told = speed.start
    while sent < len(waiting):
        time.sleep(_PAUSE)
        now = datetime.now(UTC)
        then = speed.then(now)
        batch = []
        while sent < len(waiting) and waiting[sent]["then"] <= then.replace(tzinfo=None):
            batch.append(waiting[sent])
            sent += 1
        if batch:
            # A row's time is that of its sending: at a real service it is the event's own.
            at = now.isoformat()
            counting.send([{"time": at, "carrier": row["carrier"]} for row in batch])
            timing.send([{"time": at, "expiration_delay": row["delay"]} for row in batch])
        if now - told >= timedelta(seconds=5):
            told = now
            _say(f"{then:%a %d %b %Y, %H:%M}   {sent:>6,} departures sent")
    return sent


def _wait_for_release(url: str, moment: datetime) -> None:
    """Wait until each stream has released the window of a moment."""
    for name in ("departures", "delays"):
        while True:
            with urllib.request.urlopen(f"{url}/v1/streams/{name}", timeout=60) as answer:
                ended = json.load(answer)["last_window_end"]
            if ended is not None and datetime.fromisoformat(ended) >= moment:
                break
            time.sleep(0.2)


def _say(words: str) -> None:
    print(words, flush=True)


def _display() -> bool:
    return sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def main(words: Sequence[str] | None = None) -> None:
    """Run the demonstration until all is sent, or somebody ends it."""
    parser = argparse.ArgumentParser(prog="python -m examples.live", description=__doc__)
    parser.add_argument("--folder", default="demo/live", help="where jobs and state go")
    parser.add_argument("--days", type=int, default=3, help="of departures")
    parser.add_argument("--times", type=float, default=1000, help="faster than they were")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT; 0: a free port")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument("--linger", type=float, default=0, help="seconds to go on afterwards")
    asked = parser.parse_args(words)
    browser = _display() and not asked.no_browser
    with explain_errors():
        try:
            run(
                Path(asked.folder),
                asked.days,
                asked.times,
                asked.listen,
                browser=browser,
                linger=asked.linger,
            )
        except KeyboardInterrupt:
            _say("\nEnded.")


if __name__ == "__main__":
    main()
