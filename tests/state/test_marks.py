"""Digests by which users and ids are known again: a known function, packed without loss."""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from counton import Key, PureDP, Stream
from counton.base.errors import ConcurrentWriterError, StateError
from counton.base.private import Private, reveal
from counton.state.commit_input import CommitInput
from counton.state.dedup import DigestChange, DigestSet, Secret, merge, pack, unpack
from counton.strategies import Binary

SECRET = bytes(range(32))


def by_the_book(raw: bytes, purpose: int) -> int:
    """CBC-MAC of length, purpose and text; keyed BLAKE2b of long ones."""
    if len(raw) > 64:
        key = hmac.digest(SECRET, bytes([purpose]), "sha256")
        return int.from_bytes(hashlib.blake2b(raw, digest_size=8, key=key).digest(), "little")
    head = len(raw).to_bytes(8, "little") + purpose.to_bytes(8, "little")
    message = head + raw + bytes(-len(raw) % 16 if raw else 16)
    encryptor = Cipher(algorithms.AES(SECRET), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes(encryptor.update(message)[-16:-8], "little")


@given(st.lists(st.binary(max_size=70), max_size=30), st.integers(1, 2))
def test_digests_are_those_by_the_book(raw: list[bytes], purpose: int) -> None:
    lengths = np.array([len(text) for text in raw], np.int64)
    found = Secret(SECRET).digests(b"".join(raw), lengths, purpose)
    assert found.tolist() == [by_the_book(text, purpose) for text in raw]


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=50).map(sorted),
    st.lists(st.integers(-(2**62), 2**62 - 1), min_size=50, max_size=50),
)
def test_packed_digests_are_restored(digests: list[int], fact: list[int]) -> None:
    size = len(digests)
    ascending = np.array(digests, np.uint64)
    facts = [np.array(fact[:size], np.int64), np.full(size, -7), np.arange(size)]
    found, back = unpack(pack(ascending, facts))
    assert found.tolist() == digests
    assert [column.tolist() for column in back] == [column.tolist() for column in facts]


def test_many_digests_take_few_bytes() -> None:
    chance = np.random.default_rng(9)
    digests = np.sort(chance.integers(0, 2**64, 200_000, np.uint64, endpoint=False))
    cells = [chance.integers(0, 24, 200_000), chance.integers(0, 5, 200_000), np.ones(200_000, int)]
    assert len(pack(digests)) < 6.2 * 200_000
    assert len(pack(digests, cells)) < 7.5 * 200_000


def test_damaged_digests_are_refused() -> None:
    blob = pack(np.array([1, 5, 9], np.uint64), [np.array([3, 3, 4])])
    for damaged in (blob[:-1], blob + b"\0", b"", b"\7" + blob[1:]):
        with pytest.raises(StateError, match="what is known of counted rows cannot be read"):
            unpack(damaged)


def test_parts_are_merged_in_the_order_of_digests() -> None:
    one = DigestSet("user", 3, np.array([2, 8], np.uint64), (np.array([20, 80]),))
    other = DigestSet("user", 3, np.array([5], np.uint64), (np.array([50]),))
    both = merge([one, other])
    assert (both.digests.tolist(), both.columns[0].tolist()) == ([2, 5, 8], [20, 50, 80])


def test_a_secret_is_unwrapped_by_its_own_key_alone() -> None:
    secret = Secret.fresh()
    subkey = bytes(range(1, 33))
    assert Secret.unwrap(secret.wrap(subkey), subkey) == secret
    for wrapped, key in (
        (secret.wrap(subkey), bytes(32)),
        (secret.wrap(subkey)[:-1], subkey),
        (bytes(48), subkey),
    ):
        with pytest.raises(StateError, match="cannot decrypt the secret"):
            Secret.unwrap(wrapped, key)


def test_a_large_part_is_kept_in_several(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.state.dedup._MOST_ROWS_OF_PART", 4)
    digests = np.arange(10, dtype=np.uint64)
    part = DigestSet("user", 7, digests, (np.arange(10) * 3,))
    secret = Secret.fresh()
    with Stream.create(state, "visits", Binary(9), PureDP(1), key=Key.generate()) as stream:
        stream.commit(Private(CommitInput(remembered=DigestChange(secret, [part]))))
        stream.commit(
            Private(CommitInput(remembered=DigestChange(secret, [part._replace(period=8)])))
        )
        found = list(reveal(stream.digest_sets("user")))
        assert [p.period for p in found] == [7, 7, 7, 8, 8, 8]
        assert [len(p.digests) for p in found] == [4, 4, 2, 4, 4, 2]
        assert np.concatenate([p.columns[0] for p in found[:3]]).tolist() == (digests * 3).tolist()
        whole = merge(found[:3])
        replaced = DigestChange(secret, [whole], replaced=[("user", 7)])
        stream.commit(Private(CommitInput(remembered=replaced)))
        assert [p.period for p in reveal(stream.digest_sets("user"))] == [7, 7, 7, 8, 8, 8]
        stream.commit(
            Private(CommitInput(remembered=DigestChange(secret, [], forgotten=[("user", 8)])))
        )
        assert [p.period for p in reveal(stream.digest_sets("user"))] == [8] * 3
        with pytest.raises(ConcurrentWriterError, match="has begun to count"):
            stream.commit(Private(CommitInput(remembered=DigestChange(Secret.fresh(), [part]))))
