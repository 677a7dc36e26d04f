"""Keys keep their secret, and every use gets its own subkey."""

import copy
import os
import pickle
import stat
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keys import chosen_key

from counton.base.errors import NoiseKeyError
from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key


def secret_of(key: Key) -> bytes:
    return key._secret


def test_generated_keys_differ() -> None:
    assert len({secret_of(Key.generate()) for _ in range(100)}) == 100


def test_saved_key_is_private_and_comes_back(tmp_path: Path) -> None:
    key = Key.generate()
    path = tmp_path / "stream.key"
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Key.load(path) == key


def test_a_lax_umask_does_not_open_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Key.generate().save(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_save_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = Key.generate()
    key.save(path)
    with pytest.raises(NoiseKeyError, match="never overwritten"):
        Key.generate().save(path)
    assert Key.load(path) == key


@pytest.mark.parametrize("content", ["", "hello", "counton-key-1:", "counton-key-1:00ff", "\u00e9"])
def test_files_which_hold_no_key_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(NoiseKeyError, match=r"counton key|cannot be read"):
        Key.load(path)


def test_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoiseKeyError, match="none does not exist"):
        Key.load(tmp_path / "none")


def test_a_key_which_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    Key.generate().save(path)
    for mode in (0o640, 0o660, 0o444, 0o442, 0o450, 0o604, 0o460):
        path.chmod(mode)
        with pytest.raises(NoiseKeyError, match=rf"mode {mode:04o}.*chmod 600"):
            Key.load(path)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440])
def test_key_file_readable_by_owner_or_group_is_accepted(tmp_path: Path, mode: int) -> None:
    """As an orchestrator hands a secret over: nobody may write it, and its group may read it."""
    path = tmp_path / "key"
    Key.generate().save(path)
    path.chmod(mode)
    assert Key.load(path).file == path


@pytest.mark.parametrize("secret", [b"", b"short", bytes(33), "x" * 32, None])
def test_secrets_of_another_length_or_type_are_refused(secret: Any) -> None:
    with pytest.raises(NoiseKeyError, match="32 secret bytes"):
        InsecureSeededKey.from_bytes(secret)


@pytest.mark.parametrize("secret", [(bytes(32),), (b"short",), ("x" * 32,), (7,), ()])
def test_key_refuses_chosen_bytes(secret: tuple[object, ...]) -> None:
    with pytest.raises(NoiseKeyError, match=r"nobody may choose it: use Key.generate\(\)"):
        Key(*secret)


def test_a_key_of_chosen_bytes_is_loud() -> None:
    with pytest.warns(InsecureKeyWarning, match="chosen bytes protects nobody"):
        key = InsecureSeededKey.from_bytes(bytes(32))
    assert key == chosen_key(bytes(32)) != chosen_key()
    assert "Insecure" in repr(key)


def test_nothing_printed_or_pickled_holds_the_secret() -> None:
    key = Key.generate()
    for text in (repr(key), str(key), f"{key}", key.fingerprint):
        assert secret_of(key).hex() not in text
        assert secret_of(key)[:4].hex() not in text
    with pytest.raises(NoiseKeyError, match="cannot be pickled"):
        pickle.dumps(key)
    with pytest.raises(NoiseKeyError, match="cannot be pickled"):
        copy.deepcopy(key)


@given(st.lists(st.binary(max_size=4), max_size=3), st.lists(st.binary(max_size=4), max_size=3))
def test_different_contexts_give_different_subkeys(one: list[bytes], two: list[bytes]) -> None:
    key = chosen_key()
    assert (key.derive(*one) == key.derive(*two)) == (one == two)


def test_known_subkey() -> None:
    """HKDF-SHA256 (RFC 5869), no salt, length-prefixed info; computed from HMAC by hand."""
    import hashlib
    import hmac

    secret = bytes(range(32))
    parts = (b"counton/noise/1", b"counter", b"spec")
    info = b"".join(len(p).to_bytes(8, "little") + p for p in parts)
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    expected = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    assert chosen_key(secret).derive(b"counter", b"spec") == expected


def test_a_seeded_key_is_loud_and_reproducible() -> None:
    with pytest.warns(InsecureKeyWarning, match="protects nobody"):
        one = InsecureSeededKey(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert one == InsecureSeededKey(5)
        assert one != InsecureSeededKey(6)
    assert "Insecure" in repr(one)
