"""Compressed bodies: what is asked of their decompression does not grow faster than they do."""

import gzip
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from counton.base.errors import InvalidInputError
from counton.serve import bodies
from counton.serve.bodies import TooLargeError, decompress

#: Bytes of a body after decompression at most.
MOST = 8 * 2**20


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that zlib is given and gives back, call by call."""
    found: list[int] = []

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._inner = zlib.decompressobj(wbits=wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            given = self._inner.decompress(data, most)
            found.append(len(data) + len(given) + len(self._inner.unused_data))
            return given

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    monkeypatch.setattr(bodies, "zlib", SimpleNamespace(decompressobj=Counted, error=zlib.error))
    return found


def test_gzip_of_several_members_is_refused_and_takes_bounded_work(handled: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="compressed as a single member"):
        decompress(gzip.compress(b"") * 200_000, "gzip", MOST)
    assert len(handled) == 1


def test_decompression_bomb_is_refused_early(handled: list[int]) -> None:
    with pytest.raises(TooLargeError):
        decompress(gzip.compress(bytes(8 * MOST)), "gzip", MOST)
    assert sum(handled) < 2 * MOST
    assert decompress(gzip.compress(bytes(MOST)), "gzip", MOST) == bytes(MOST)
    with pytest.raises(TooLargeError):
        decompress(bytes(MOST + 1), "identity", MOST)


def test_invalid_gzip_body_is_refused() -> None:
    whole = gzip.compress(b"rows")
    for wrong in (b"", whole[:-1], whole + b"a", whole + whole[:5], whole + b"\0", b"rows"):
        with pytest.raises(InvalidInputError, match="is not valid gzip, ends early"):
            decompress(wrong, "gzip", MOST)
