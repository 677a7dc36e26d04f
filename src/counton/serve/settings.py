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

_MEGABYTE = 2**20


@dataclass(frozen=True)
class Settings(JobPart):
    """Settings of a service, the keys of the table ``[serve]``; each has a default.

    >>> Settings().fold_seconds
    10.0
    """

    tokens: str = option(
        "", "file of the two tokens, relative to the job file; default: JOBFILE.tokens"
    )
    public: bool = option(False, "whether released series are read without a token")
    batch_bytes: int = option(
        8 * _MEGABYTE,
        "bytes of one batch at most, after decompression",
        bounds=(1024, 1024 * _MEGABYTE),
    )
    batch_rows: int = option(500_000, "rows of one batch at most", bounds=(1, 100_000_000))
    waiting_bytes: int = option(
        256 * _MEGABYTE,
        "how many bytes wait in the inbox at most; beyond it a client is told to wait",
        bounds=(_MEGABYTE, 2**40),
    )
    fold: str = option(
        "10s",
        "how often rows are taken from the inbox into the state, as in 10s",
        bounds=("1s", "1h"),
    )
    remember: str = option(
        "35d", "how long ids of batches are known, as in 35d", bounds=("1h", "3650d")
    )
    timeout: str = option(
        "30s", "how long a client may take to send a request, as in 30s", bounds=("1s", "1h")
    )
    readers: int = option(4096, "connections at once at most", bounds=(16, 65536))

    @property
    def fold_seconds(self) -> float:
        """Length of the intervals whose batches are counted together."""
        return length_of(self.fold) / 1e6

    @property
    def remember_microseconds(self) -> int:
        """For how long ids of batches are remembered, so that one sent twice counts once."""
        return length_of(self.remember)

    @property
    def timeout_seconds(self) -> float:
        """In which a request must arrive whole."""
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
            if isinstance(value, str):
                shown = f"{value!r}; it must be a length from {least} to {most}, such as 90s or 6h"
            else:
                shown = f"{value:,}; it must be from {least:,} to {most:,}: {item.help}"
            raise InvalidInput(f"[{SERVICE}] of {str(file)!r}: {name} is {shown}")
        stated[item.name] = value
    tokens = stated.get("tokens") or f"{file.name}.tokens"
    return Settings(**{**stated, "tokens": str(file.parent / tokens)})


def _is_within(value: Any, least: Any, most: Any) -> bool:
    """Return whether a value lies within bounds: integers, or lengths of time."""
    if not isinstance(value, str):
        return bool(least <= value <= most)
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
