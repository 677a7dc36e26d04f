"""Settings of a service besides its jobs: the table ``[serve]`` of a job file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator

from counton.base.errors import InvalidInputError, param
from counton.job import values as v
from counton.job.job_file_tables import read_table, read_tables
from counton.job.option_fields import Section, option
from counton.run.spec.parsing import microseconds_of

#: Largest size of one batch after decompression, in bytes and rows, and of an inbox in bytes.
BATCH_BYTES = 8 * 2**20
BATCH_ROWS = 500_000
WAITING_BYTES = 256 * 2**20
#: Largest number of characters of the name of a stream that is served.
MOST_NAME = 200
#: Table of a job file with the settings of a service.
_SETTINGS_TABLE: Final = "serve"
#: Shortest and longest length of time in a setting.
_SHORTEST_LENGTH: Final = "1s"
_LONGEST_LENGTH: Final = "1h"


def _within_bounds(length: str) -> str:
    if (
        not microseconds_of(_SHORTEST_LENGTH)
        <= microseconds_of(length)
        <= microseconds_of(_LONGEST_LENGTH)
    ):
        raise ValueError(
            f"is not from {_SHORTEST_LENGTH} to {_LONGEST_LENGTH}; write a length such as 90s"
        )
    return length


_Interval = Annotated[v.Delay, AfterValidator(_within_bounds)]


class ServiceTable(Section):
    """The table ``[serve]``; each setting has a default."""

    heading = f"[{_SETTINGS_TABLE}]"
    tokens: v.File | None = option(
        "File of the two tokens, relative to the job file. [default: JOBFILE.tokens]"
    )
    public: bool = option("Whether released series are read without a token.", default=False)
    fold: _Interval = option(
        "How often rows are taken from the inbox into the state, as in 10s.", default="10s"
    )
    timeout: _Interval = option(
        "How long a request may take to arrive, or an answer be left unread, as in 30s.",
        default="30s",
    )


@dataclass(frozen=True)
class Settings:
    """Settings of a service.

    Attributes:
        tokens: file of the two tokens.
        public: whether released series are read without a token.
        fold: how often rows are taken from the inbox into the state.
        timeout: how long a request may take to arrive, or an answer be left unread.
    """

    tokens: str
    public: bool
    fold: str
    timeout: str

    @property
    def fold_seconds(self) -> float:
        """Length of the intervals whose batches are counted together."""
        return microseconds_of(self.fold) / 1e6

    @property
    def timeout_seconds(self) -> float:
        """Seconds in which a request must arrive whole, and in which an answer makes progress."""
        return microseconds_of(self.timeout) / 1e6


def settings_of(path: str | Path) -> Settings:
    """Read the settings in a job file.

    Raises:
        InvalidInputError: the file is missing, or has an unknown key, or a value out of range.
    """
    file = Path(path)
    table = read_table(file, read_tables(file), _SETTINGS_TABLE, ServiceTable)
    return Settings(
        tokens=str(file.parent / f"{file.name}.tokens" if table.tokens is None else table.tokens),
        public=table.public,
        fold=str(table.fold),
        timeout=str(table.timeout),
    )


def address(listen: str) -> tuple[str, int]:
    """Parse host and port.

    Raises:
        InvalidInputError: the text is no ``HOST:PORT``.

    >>> address("127.0.0.1:8080"), address("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))
    """
    match = re.fullmatch(r"\[?([0-9A-Za-z.:_-]+?)\]?:(\d{1,5})", listen)
    if match is None or int(match[2]) > 65535:
        raise InvalidInputError(
            f"{param('listen')} is {listen!r}; write HOST:PORT, with a port up to 65535, as in "
            "127.0.0.1:8080"
        )
    return match[1], int(match[2])
