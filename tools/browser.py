"""A real browser and a real service for tests and pictures of the page.

The page is drawn anew with each release. So a test reads all values that belong together in one
`evaluate`, or waits for the values that must come (`Page.until`, `Page.drawn`).

Two environment variables find tests that read too early. `COUNTON_THROTTLE` is the factor by which
a browser's processor is slowed down. `COUNTON_LATE` is the largest delay of the service's answers
in milliseconds; each answer is delayed by another fraction of it.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counton.serve.tokens import Tokens, tokens_of
from examples.live import Client, service

#: Without a sandbox of its own, as tests run as root; and without a word to anybody else.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Seconds after which what a page waits for is taken never to come.
PATIENT = 300.0
#: How many times slower pages run, and by how many milliseconds at most answers come late.
THROTTLE, LATE = (int(os.environ.get(f"COUNTON_{name}", "0")) for name in ("THROTTLE", "LATE"))
#: Answers of the service as a slow way to it brings them: later ones may overtake earlier ones.
_KEPT_BACK = """(() => {
  const [most, ask] = [%d, window.fetch.bind(window)];
  let asked = 0;
  window.fetch = async (...question) => {
    const share = [1, 0.1, 0.6, 0.05, 0.8, 0][asked++ %% 6];
    const answer = await ask(...question);
    await new Promise((done) => setTimeout(done, share * most));
    return answer;
  };
})()"""
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of the Chromium browser on this machine; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def browsing() -> Iterator[Any]:
    """Start Chromium without a window (Playwright); yield the browser, and close it after the
    ``with`` block.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Page:
    """A page of the service in a browser, with the errors and requests that it has made.

    Attributes:
        url: address of the service.
        page: the page as an object of Playwright.
        complaints: messages of errors in scripts and on the browser's console.
        asked: addresses of everything that the page has loaded.
    """

    url: str
    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, stream: str, more: str = "", windows: int = 1) -> Any:
        """Show a stream, and wait until the page has drawn it; return the page of Playwright.

        Args:
            stream: name of the stream.
            more: further text of the address, after the name.
            windows: least number of released windows to wait for; 0: none.
        """
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#stream={stream}{more}")
        self.drawn(stream, windows)
        return self.page

    def drawn(self, stream: str, windows: int = 1) -> None:
        """Wait until the page has drawn all that it asked for: a stream with at least this many
        released windows.
        """
        self.until(
            "(shown => document.querySelector('#state').dataset.state === 'live'"
            " && shown.getAttribute('aria-busy') === 'false'"
            f" && shown.dataset.stream === {json.dumps(stream)}"
            f" && Number(shown.dataset.step) >= {windows})(document.querySelector('#numbers'))"
        )

    def until(self, expression: str, seconds: float = PATIENT) -> None:
        """Wait until a JavaScript expression is true in the page.

        Playwright's `wait_for_function` would do the same, but the page's Content-Security-Policy
        forbids it.

        Raises:
            AssertionError: the expression is not true after so many seconds.
        """
        for _ in range(round(10 * seconds)):
            if self.page.evaluate(f"Boolean({expression})"):
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"not within {seconds} seconds: {expression}")

    def api(self, path: str) -> Any:
        """Return the service's answer to a reader's request, as a JSON value."""
        return told(self.url, path)


def told(url: str, path: str) -> Any:
    """Return a service's answer to a reader without a token, as a JSON value."""
    with urllib.request.urlopen(f"{url}/v1/{path}", timeout=PATIENT) as answer:
        return json.load(answer)


@contextmanager
def watching(browser: Any, url: str, late: int = LATE, **options: Any) -> Iterator[Page]:
    """Open a page in a browser window of its own, and yield it; close the window after the ``with``
    block.

    Args:
        browser: the browser from `browsing`.
        url: address of the service.
        late: largest delay of the service's answers in milliseconds; each answer is delayed by
            another fraction of it, so that answers may overtake each other.
        options: options of the window, such as its size, for Playwright.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    made = Page(url, context.new_page())
    if late:
        context.add_init_script(_KEPT_BACK % late)
    if THROTTLE:
        session = context.new_cdp_session(made.page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
    made.page.set_default_timeout(1000 * PATIENT)
    made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
    made.page.on(
        "console",
        lambda said: made.complaints.append(said.text) if said.type != "log" else None,
    )
    made.page.on("request", lambda request: made.asked.append(request.url))
    yield made
    context.close()


@contextmanager
def sending(
    url: str, token: str, rows: Mapping[str, Sequence[dict[str, object]]]
) -> Iterator[None]:
    """Send rows with the present time to each stream twice a second, during the ``with`` block.

    Args:
        url: address of the service.
        token: token that permits to send.
        rows: by name of the stream, the rows without their time.
    """
    ended = threading.Event()
    failures: list[BaseException] = []
    clients = {name: Client(url, name, token, "test") for name in rows}

    def send() -> None:
        try:
            while not ended.wait(0.5):
                now = datetime.now(UTC).isoformat()
                for name, client in clients.items():
                    client.send([{"time": now, **row} for row in rows[name]])
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failures, failures


@contextmanager
def serving(folder: Path, jobs: str, listen: str = "127.0.0.1:0") -> Iterator[tuple[str, Tokens]]:
    """Run a service during the ``with`` block; yield its URL and its tokens.

    Args:
        folder: folder of the service's files.
        jobs: text of the job file.
        listen: host and port; port 0 chooses a free one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jobs.toml").write_text(jobs)
    tokens = tokens_of(folder / "jobs.toml.tokens")
    with service(folder, "--listen", listen) as url:
        yield url, tokens
