"""Settings of a service besides its jobs: the table ``[serve]`` of a job file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counton.base.errors import InvalidInput, field
from counton.job.job import JobPart, option, options_of
from counton.job.jobfile import SERVICE, read_file, read_table
from counton.run.clock import length_of

#: Largest size of one batch after decompression, in bytes and rows, and of an inbox in bytes.
BATCH_BYTES, BATCH_ROWS, WAITING_BYTES = 8 * 2**20, 500_000, 256 * 2**20
#: Largest number of characters of the name of a stream that is served.
MOST_NAME = 200


@dataclass(frozen=True)
class Settings(JobPart):
    """Settings of a service, the keys of the table ``[serve]``; each has a default.

    >>> Settings().fold_seconds
    10.0
    """

    tokens: str = option(
        "file of the two tokens, relative to the job file; default: JOBFILE.tokens", default=""
    )
    public: bool = option("whether released series are read without a token", default=False)
    fold: str = option(
        "how often rows are taken from the inbox into the state, as in 10s",
        default="10s",
        bounds=("1s", "1h"),
    )
    timeout: str = option(
        "how long a request may take to arrive, or an answer be left unread, as in 30s",
        default="30s",
        bounds=("1s", "1h"),
    )

    @property
    def fold_seconds(self) -> float:
        """Length of the intervals whose batches are counted together."""
        return length_of(self.fold) / 1e6

    @property
    def timeout_seconds(self) -> float:
        """Seconds in which a request must arrive whole, and in which an answer makes progress."""
        return length_of(self.timeout) / 1e6


def settings_of(path: str | Path) -> Settings:
    """Read the settings in a job file.

    Raises:
        InvalidInput: the file is missing, or has an unknown key, or a value out of range.
    """
    file = Path(path)
    known = {item.key: item for item in options_of(Settings).values()}
    types: dict[str, tuple[type, ...]] = {key: (type(one.default),) for key, one in known.items()}
    stated: dict[str, Any] = {}
    for name, value in read_table(file, read_file(file), SERVICE, types).items():
        item = known[name]
        if item.bounds is not None and not _is_within(value, *item.bounds):
            least, most = item.bounds
            raise InvalidInput(
                f"[{SERVICE}] of {str(file)!r}: {name} is {value!r}; it must be a length from "
                f"{least} to {most}, such as 90s or 6h"
            )
        stated[item.name] = value
    tokens = stated.get("tokens") or f"{file.name}.tokens"
    return Settings(**{**stated, "tokens": str(file.parent / tokens)})


def _is_within(value: str, least: str, most: str) -> bool:
    """Return whether a length of time lies within bounds."""
    try:
        return length_of(least) <= length_of(value) <= length_of(most)
    except InvalidInput:
        return False


def address(listen: str) -> tuple[str, int]:
    """Parse host and port.

    Raises:
        InvalidInput: the text is no ``HOST:PORT``.

    >>> address("127.0.0.1:8080"), address("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))
    """
    found = re.fullmatch(r"\[?([0-9A-Za-z.:_-]+?)\]?:(\d{1,5})", listen)
    if found is None or int(found[2]) > 65535:
        raise InvalidInput(
            f"{field('listen')} is {listen!r}; write HOST:PORT, with a port up to 65535, as in "
            "127.0.0.1:8080"
        )
    return found[1], int(found[2])
