"""Before a new stream begins, whoever sits at a terminal is asked; nobody else is."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from forked_commands import forked_counton
from patience import HANGS
from programs import run_program
from some_cases import long

ROWS = "time,page\n2024-03-01T09:12,home\n2024-03-02T10:15,shop\n2024-03-03T08:05,home\n"
NEW = [
    "release", "count", "visits.csv", "--state", "v.db", "--time", "time", "--group-by", "page",
    "--groups", "home,shop", "--every", "1d", "--start", "2024-03-01", "--windows", "365",
    "--epsilon", "0.5", "--privacy-unit", "visit", "--until", "2024-03-03",
]  # fmt: skip


class Shown(NamedTuple):
    code: int
    screen: str


def on_a_terminal(folder: Path, words: list[str], typed: str) -> Shown:
    """What a command shows on a terminal where this is typed when it asks.

    Ctrl-C reaches an interpreter of its own; what is read as a line reaches a fork too.
    """
    outer, inner = pty.openpty()
    alone = [sys.executable, "-m", "counton.cli"] if typed == "\x03" else [forked_counton()]
    command = [*alone, *words]
    process = subprocess.Popen(
        command, cwd=folder, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
        preexec_fn=_take_terminal, env=os.environ | {"TERM": "dumb", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(inner)
    screen = b""
    while True:
        try:
            read = os.read(outer, 4096)
        except OSError:  # the end of a terminal that nobody holds any more
            read = b""
        if not read:
            break
        screen += read
        if typed and screen.endswith(b"[y/N] "):
            os.write(outer, typed.encode())
            typed = ""
    os.close(outer)
    return Shown(process.wait(HANGS), screen.decode())


def _take_terminal() -> None:
    """Make standard input the terminal of the new session, so that Ctrl-C comes from it.

    Whoever began the tests in the background may have told them to overhear it.
    """
    import fcntl
    import signal
    import termios

    signal.signal(signal.SIGINT, signal.SIG_DFL)

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text(ROWS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["n\n", "\n", "maybe\n", long("\x03"), "\x04"])
def test_declined_confirmation_releases_nothing(folder: Path, typed: str) -> None:
    code, screen = on_a_terminal(folder, NEW, typed)
    assert code == 1
    said = "publishes the number of visits by page (2 groups): totals of 365 windows, 2 windows now"
    assert f"New stream 'count' {said}, and spends epsilon = 0.5 of the privacy of each" in screen
    assert "nothing is released or spent" in screen
    assert [one.name for one in folder.iterdir()] == ["visits.csv"]


@pytest.mark.slow
def test_confirmation_is_asked_once_per_stream(folder: Path) -> None:
    code, screen = on_a_terminal(folder, NEW, "y\n")
    assert (code, "Released 2 new windows" in screen) == (0, True)
    code, screen = on_a_terminal(folder, [*NEW[:5], "--until", "2024-03-04"], "")
    assert (code, "[y/N]" in screen, "Released 1 new window" in screen) == (0, False, True)


@pytest.mark.slow
def test_release_needs_no_confirmation_in_jobs_or_without_terminal(
    folder: Path,
) -> None:
    code, screen = on_a_terminal(
        folder, [*NEW, "--allow-empty-windows", "--save-job", "nightly.toml"], ""
    )
    assert (code, "[y/N]" in screen) == (0, False)
    jobs = folder / "nightly.toml"
    jobs.write_text(
        jobs.read_text().replace("allow-empty-windows = true", "").replace("v.db", "other.db")
    )
    code, screen = on_a_terminal(folder, ["run", "nightly.toml", "--until", "2024-03-03"], "")
    assert (code, "[y/N]" in screen) == (0, False)
    command = [forked_counton(), *NEW, "--stream", "more"]
    done = run_program(command, cwd=folder, stdin=subprocess.DEVNULL)
    assert (done.returncode, "[y/N]" in done.stdout + done.stderr) == (0, False)
