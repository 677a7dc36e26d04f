"""What a service is told besides its jobs: the table ``[serve]`` of a job file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from dataclasses import field as attribute
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from counton.errors import InvalidInput, field
from counton.jobs.clock import length_of
from counton.jobs.jobfile import SERVICE, read_file

_MEGABYTE = 2**20


def _setting(default: Any, says: str, least: int | None = None, most: int | None = None) -> Any:
    return attribute(default=default, metadata={"says": says, "least": least, "most": most})


@dataclass(frozen=True)
class Settings:
    """Settings of a service; each has a default.

    >>> Settings().fold_seconds
    10.0
    """

    tokens: str = _setting(
        "", "file of the tokens' digests, seen from the job file; default: JOBFILE.tokens"
    )
    public: bool = _setting(False, "whether released series are read without a token")
    batch_bytes: int = _setting(
        8 * _MEGABYTE, "bytes of one batch at most, after decompression", 1024, 1024 * _MEGABYTE
    )
    batch_rows: int = _setting(500_000, "rows of one batch at most", 1, 100_000_000)
    waiting_bytes: int = _setting(
        256 * _MEGABYTE,
        "bytes that wait in the inbox at most; beyond them clients are told to wait",
        _MEGABYTE,
        2**40,
    )
    rows_per_second: int = _setting(
        1_000_000, "rows that one token may send each second, over ten seconds", 1, 10**9
    )
    reads_per_second: int = _setting(
        100,
        "requests that one reader (a token, else an address) may send each second to read, over "
        "ten seconds; 0: no limit",
        *(0, 10**9),
    )
    all_reads_per_second: int = _setting(
        1_000,
        "requests that all readers together may send each second to read, over ten seconds; "
        "0: no limit",
        *(0, 10**9),
    )
    proxies: int = _setting(
        0,
        "how many proxies in front add to X-Forwarded-For, in which readers' addresses are found",
        *(0, 16),
    )
    fold: str = _setting("10s", "how often rows are taken from the inbox into the state, as in 10s")
    remember: str = _setting("35d", "how long ids of batches are known, as in 35d")
    timeout: str = _setting("30s", "how long a client may take to send a request, as in 30s")
    readers: int = _setting(4096, "connections at once at most", 16, 65536)

    @property
    def fold_seconds(self) -> float:
        """How often rows are folded into the state."""
        return length_of(self.fold) / 1e6

    @property
    def remember_microseconds(self) -> int:
        """How long ids of batches are known."""
        return length_of(self.remember)

    @property
    def timeout_seconds(self) -> float:
        """How long a request may take to arrive."""
        return length_of(self.timeout) / 1e6


def settings_of(path: str | Path) -> Settings:
    """The settings in a job file; defaults where it states none.

    Raises:
        InvalidInput: no such file, a key that there is not, or a value outside what is allowed.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "jobs.toml")
    >>> _ = file.write_text("[serve]\\nfold = '5s'\\n")
    >>> settings_of(file).fold_seconds
    5.0
    """
    file = Path(path)
    given = read_file(file).get(SERVICE, {})
    where = f"[{SERVICE}] of {str(file)!r}"
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} is no table: write [{SERVICE}] and its keys below")
    known = {item.name.replace("_", "-"): item for item in fields(Settings)}
    for name, value in given.items():
        item = known.get(name)
        if item is None:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise InvalidInput(f"{where}: {name!r} is no setting; {meant}")
        kind = type(item.default)
        if type(value) is not kind:
            raise InvalidInput(
                f"{where}: {name} is {value!r}, of type {type(value).__name__}; it must be "
                f"{_SAID[kind]}: {item.metadata['says']}"
            )
        least, most = item.metadata["least"], item.metadata["most"]
        if least is not None and not least <= value <= most:
            raise InvalidInput(
                f"{where}: {name} is {value:,}; it must be from {least:,} to {most:,}: "
                f"{item.metadata['says']}"
            )
    given = {known[name].name: value for name, value in given.items()}
    found = Settings(**given)
    for name, value, shortest, longest in (
        ("fold", found.fold, "1s", "1h"),
        ("remember", found.remember, "1h", "3650d"),
        ("timeout", found.timeout, "1s", "1h"),
    ):
        try:
            inside = length_of(shortest) <= length_of(value) <= length_of(longest)
        except InvalidInput:
            inside = False
        if not inside:
            raise InvalidInput(
                f"{where}: {name} is {value!r}; it must be a length from {shortest} to {longest}, "
                f"such as 90s, 15m, 6h or 2d"
            )
    tokens = found.tokens or f"{file.name}.tokens"
    return Settings(**{**given, "tokens": str(file.parent / tokens)})


_SAID: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
}


def address(listen: str) -> tuple[str, int]:
    """Host and port to listen at.

    Raises:
        InvalidInput: no ``HOST:PORT``.

    >>> address("127.0.0.1:8080"), address("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))
    """
    found = re.fullmatch(r"\[?([0-9A-Za-z.:_-]+?)\]?:(\d{1,5})", listen)
    if found is None or int(found[2]) > 65535:
        raise InvalidInput(
            f"{field('listen')} is {listen!r}; write HOST:PORT with a port up to 65535, as in "
            f"127.0.0.1:8080"
        )
    return found[1], int(found[2])
