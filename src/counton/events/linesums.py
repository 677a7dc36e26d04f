"""What the lines of a file come to, whatever their order: sums of digests of them.

Files of the same rows are known again by it, in another order, under another name, in another
compression. The digests are for that alone: two lines that differ have the same one with a chance
of 2^-64, and who may write lines at will could find such lines. They stay as they are from version
to version, since states keep what they come to.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_NEWLINE: Final = 10
_RETURN: Final = 13
#: Lines of more bytes have a digest of another kind.
_LONG: Final = 512
#: So many bytes at a time: what is computed of them stays in the processor's cache.
BLOCK: Final = 2**20
#: The first 0 to 8 bytes of a word.
_MASKS: Final = np.array([2 ** (8 * size) - 1 for size in range(9)], np.uint64)
#: Odd numbers without a pattern: digits of e, pi and the golden ratio.
_E, _PI, _PHI = (np.uint64(x) for x in (0xADF85458A2BB4A9B, 0x243F6A8885A308D3, 0x9E3779B97F4A7C15))


class LineSums:
    """A file that keeps of what is written to it what its lines come to.

    Lines end with a newline, before which a return counts for nothing; so do empty lines.

    >>> one, other = LineSums(), LineSums()
    >>> _ = one.write(b"a,1\\nb,2\\n"), other.write(b"b,2\\r\\na"), other.write(b",1")
    >>> one.lines, one.digest() == other.digest()
    (2, True)
    """

    def __init__(self) -> None:
        self._rest = b""
        self._lines = 0
        self._sums = [0, 0]

    def write(self, data: bytes) -> int:
        """Take bytes in, which need not end with a line."""
        data = bytes(data)
        begin = 0
        while begin < len(data):
            stop = data.rfind(b"\n", begin, begin + BLOCK) + 1
            if not stop:  # a long line: as far as its end
                stop = data.find(b"\n", begin) + 1
            if not stop:
                break
            self._add(self._rest + data[begin:stop])
            self._rest, begin = b"", stop
        self._rest += data[begin:]
        return len(data)

    def flush(self) -> None:
        """Nothing: the last line may go on."""

    @property
    def lines(self) -> int:
        """How many there were, but for empty ones."""
        self._end()
        return self._lines

    def digest(self) -> str:
        """The digest, in hexadecimal."""
        self._end()
        hashed = hashlib.sha256(b"counton/lines 1")
        for number in (self._lines, *self._sums):
            hashed.update(number.to_bytes(8, "little"))
        return hashed.hexdigest()

    def _end(self) -> None:
        rest, self._rest = self._rest, b""
        if rest:
            self._add(rest + b"\n")

    def _add(self, block: bytes) -> None:
        """Lines that are whole."""
        padded = np.frombuffer(block + bytes(8), np.uint8)
        ends = np.flatnonzero(padded == _NEWLINE)
        begins = np.append(0, ends[:-1] + 1)
        lengths = ends - begins
        lengths -= (lengths > 0) & (padded[ends - 1] == _RETURN)
        there = lengths > 0
        if not there.all():
            begins, lengths = begins[there], lengths[there]
        digests = _digests(block, padded, begins, lengths)
        self._lines += len(digests)
        for place, words in enumerate((digests * _E, (digests ^ _PI) * _PHI)):
            added = int(_mix(words).sum(dtype=np.uint64))
            self._sums[place] = (self._sums[place] + added) % 2**64


def digests_of_lines(block: bytes, lengths: NDArray[np.int64]) -> Words:
    """Digests of texts that stand one after the other, of these lengths in bytes."""
    padded = np.frombuffer(block + bytes(8), np.uint8)
    return _digests(block, padded, np.cumsum(lengths) - lengths, lengths)


def _mix(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(32))) * _PHI
    return words ^ (words >> np.uint64(29))


def _digests(
    block: bytes, padded: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Words:
    words = np.ndarray(len(padded) - 7, "<u8", padded, 0, (1,))  # eight bytes from each on
    state = _mix(lengths.astype(np.uint64) * _PI)
    short = np.where(lengths > _LONG, 0, lengths)
    for at in range(0, int(short.max(initial=0)), 8):
        longer = np.flatnonzero(short > at)
        some = slice(None) if len(longer) == len(short) else longer
        rest = np.minimum(short[some] - at, 8)
        state[some] = _mix((state[some] ^ (words[begins[some] + at] & _MASKS[rest])) * _E)
    for line in np.flatnonzero(lengths > _LONG).tolist():
        text = block[begins[line] : begins[line] + lengths[line]]
        state[line] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    return state
