"""Compressed bodies: what is asked of their decompression does not grow faster than they do."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from inside import EXACT, inside

from counton.base.errors import InvalidInput
from counton.base.private import open_private
from counton.rows.ordered_events import letters_of
from counton.serve import bodies
from counton.serve.bodies import decompress

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


def test_gzip_of_empty_members_takes_bounded_work(handled: list[int]) -> None:
    with pytest.raises(InvalidInput, match="compress it as a single one"):
        decompress(gzip.compress(b"") * 200_000, "gzip", MOST)
    assert sum(handled) < 8 * MOST  # a square of the members would be 50,000 times it


@pytest.mark.parametrize("size", [1, 3000, 2**16])
def test_gzip_of_several_members_takes_work_in_proportion(handled: list[int], size: int) -> None:
    plain = [bytes([65 + n % 26]) * size for n in range(min(1500, MOST // size))]
    body = b"".join(map(gzip.compress, plain))
    assert decompress(body, "gzip", MOST) == b"".join(plain)
    assert sum(handled) < 2 * (len(body) + MOST) + 2 * 2**14 * len(plain)


def test_members_of_gzip_are_as_many_as_a_larger_body_needs() -> None:
    blocks = [gzip.compress(bytes(2**16 - 256))] * (2**27 // 2**16)  # as bgzip writes them
    assert len(decompress(b"".join(blocks), "gzip", 2**27)) > 2**26


def test_empty_frames_of_zstd_are_passed_over() -> None:
    skipped = b"\x50\x2a\x4d\x18\x00\x00\x00\x00"
    many = (zstandard.compress(b"") + skipped) * 200_000
    assert decompress(many + zstandard.compress(b"rows"), "zstd", MOST) == b"rows"
    with pytest.raises(InvalidInput, match="is not valid zstd"):
        decompress(skipped * 200_000, "zstd", MOST)


def test_what_follows_the_last_member_is_refused() -> None:
    whole = gzip.compress(b"rows")
    for wrong in (whole[:-1], whole + b"a", whole + whole[:5], whole + b"\0", b"rows"):
        with pytest.raises(InvalidInput, match="is not valid gzip, or ends early"):
            decompress(wrong, "gzip", MOST)


def test_a_body_of_empty_members_holds_up_no_release(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        body = gzip.compress(b"") * 200_000
        path = "/v1/streams/visits/batches/a"
        answer = service("POST", path, "ingest", content=body, headers=headers)
        assert (answer.status_code, "compress it as a single one" in answer.text) == (422, True)
        service.at(1)
        assert len(service.rows()) == 2


def test_letters_in_several_members_are_one_text(tmp_path: Path) -> None:
    file = tmp_path / "letters.gz"
    file.write_bytes(gzip.compress(b"AC") + gzip.compress(b"") * 20_000 + gzip.compress(b"GT"))
    assert open_private(letters_of(file)).events == [*"ACGT"]
