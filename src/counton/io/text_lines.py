"""Lines of text files: a line is a row, and where a row ends depends on that row alone.

`counton.io.csv_lines` and `counton.io.json_lines` turn blocks of whole lines into rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from typing_extensions import override

from counton.base.exact import name_alone
from counton.base.lazy import require
from counton.windowing.lazy_polars import polars as pl

#: Number of bytes that are read at a time.
BYTES_PER_READ = 2**22
NO_UTF8 = "has bytes that are not UTF-8"
_LF = ord("\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Fault(NamedTuple):
    """A faulty line, numbered from 1, and what is wrong, in words that follow "it"."""

    line: int
    text: bytes
    problem: str


class BrokenFileError(Exception):
    """One fault by which a whole file is refused."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.problem)
        self.fault = fault


@name_alone
class Piece(NamedTuple):
    """Rows of some lines; a faulty line is a row of nulls, and its place has a `Fault`."""

    rows: pl.DataFrame
    faults: dict[int, Fault]


def blocks(stream: IO[bytes], size: int | None = None) -> Iterator[bytes]:
    r"""Yield a text in blocks of whole lines, each of which ends with LF.

    A mark of byte order and blank lines at the end are left out. ``size`` bytes are read at a time.

    >>> list(blocks(io.BytesIO(b"a\rb\r\n\nc\n\r\n\n"), 4))
    [b'a\n', b'b\n\nc\n']
    """
    size = size or BYTES_PER_READ
    rest = b""
    first = True
    while block := stream.read(max(size, len(rest))):
        text = rest + block
        if first:
            text = text.removeprefix(BYTE_ORDER_MARK)
            first = False
        carry = b""
        if b"\r" in text:
            # the CR at the end may be one of a CRLF
            text, carry = (text[:-1], b"\r") if text.endswith(b"\r") else (text, b"")
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = text.rfind(b"\n") + 1
        if end > 1 and text[end - 2] != _LF:  # no blank line at the end: no copy is needed
            yield text[:end]
            rest = text[end:] + carry
            continue
        whole = text[:end].rstrip(b"\n")
        if whole:  # blank lines wait for a line after them
            end = len(whole) + 1
            yield text[:end]
        rest = text[end if whole else 0 :] + carry
    if whole := rest.replace(b"\r", b"\n").rstrip(b"\n"):
        yield whole + b"\n"


def whole_lines(text: bytes) -> bytes:
    """Return the whole lines at the beginning of a text."""
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text[: text.rfind(b"\n") + 1]


class Unzstd(io.RawIOBase):
    """What a stream of zstd holds: all frames, but for skippable ones.

    Raises:
        OSError: the stream is no zstd, or ends early.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        require("zstandard")
        import zstandard

        self._packed = packed
        self._zstd = zstandard
        self._rest = b""
        self._frame: Any = None
        self._held = b""

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        while not self._held:
            self._rest = self._rest or self._packed.read(2**16) or b""
            if not self._rest:
                if self._frame is not None:
                    raise OSError("the zstd data end early")
                return 0
            if self._frame is None:
                self._frame = self._zstd.ZstdDecompressor().decompressobj()
            try:
                self._held = self._frame.decompress(self._rest)
            except self._zstd.ZstdError as error:
                raise OSError(str(error)) from error
            self._rest = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        chunk = self._held[: len(buffer)]
        self._held = self._held[len(buffer) :]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    @override
    def close(self) -> None:
        self._packed.close()
        super().close()
