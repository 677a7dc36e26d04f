"""A pseudo-terminal for tests: a command asks there, and is answered prompt by prompt."""

import os
import pty
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from counton.cli.app import app

#: Who asks more often asks for ever: then the input ends.
_MOST_ASKED = 30


class Talk(NamedTuple):
    """What a command at a terminal came to.

    Attributes:
        code: its exit code.
        out: all that the terminal showed.
        left: answers that no prompt took.
    """

    code: int
    out: str
    left: dict[str, list[str]]


class Answers:
    """Answers by a part of the prompt; a prompt without one is answered by Enter."""

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self.left = {prompt: list(several) for prompt, several in answers.items()}
        self.shown = b""
        self._begin = self._asked = 0

    def reply(self) -> bytes | None:
        """What is typed next; None while nothing is asked."""
        new = self.shown[self._begin :].decode(errors="replace")
        prompt = new.rstrip(" ").rpartition("\n")[2]
        if not prompt.endswith(":"):
            return None
        self._begin = len(self.shown)
        self._asked += 1
        if self._asked > _MOST_ASKED:
            return b"\x04"
        for part, several in self.left.items():
            if part in prompt and several:
                return f"{several.pop(0)}\n".encode()
        return b"\n"


def attend(master: int, answers: Answers, done: threading.Event) -> None:
    """Read what is shown, and answer, until all is over."""
    while True:
        over = done.is_set()  # asked first: what is written before it is read
        ready = select.select([master], [], [], 0.02)[0]
        if ready:
            try:
                new = os.read(master, 65536)
            except OSError:  # the other side is closed
                return
            answers.shown += new
        elif (said := answers.reply()) is not None:
            os.write(master, said)
        elif over:
            return


def talk(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, **answers: Sequence[str]
) -> Talk:
    """Call the command line in a folder, at a pseudo-terminal.

    Args:
        answers: by a part of the prompt, `_` for spaces; Enter answers all other prompts.
    """
    named = Answers({part.replace("_", " "): several for part, several in answers.items()})
    master, slave = pty.openpty()
    done = threading.Event()
    thread = threading.Thread(target=attend, args=(master, named, done))
    thread.start()
    try:
        with (
            open(slave, closefd=False) as stdin,
            open(slave, "w", buffering=1, closefd=False) as stdout,
            monkeypatch.context() as patched,
        ):
            patched.chdir(folder)
            patched.setenv("COLUMNS", "200")
            for name, stream in (("stdin", stdin), ("stdout", stdout), ("stderr", stdout)):
                patched.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as ended:
                app([*words], prog_name="counton")
    finally:
        done.set()
        thread.join()
        os.close(slave)
        os.close(master)
    left = {part: several for part, several in named.left.items() if several}
    return Talk(int(ended.value.code or 0), named.shown.decode().replace("\r", ""), left)
