"""Encryption of stored noise: by the book, and with a nonce for each message."""

import hashlib
import hmac
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from counton.noise.encryption import NoiseCipher

SUBKEY = bytes(range(32))


def derive_keys_by_the_book(subkey: bytes) -> tuple[bytes, bytes]:
    """HKDF-SHA256 (RFC 5869) without salt, 64 bytes."""
    purpose = b"counton/noise drawn ahead/1"
    extracted = hmac.digest(bytes(32), subkey, "sha256")
    first = hmac.digest(extracted, purpose + b"\x01", "sha256")
    second = hmac.digest(extracted, first + purpose + b"\x02", "sha256")
    return first, second


@given(st.binary(max_size=80), st.binary(max_size=20))
def test_encrypt_any_message_is_aes_gcm_by_the_book(message: bytes, address: bytes) -> None:
    key, nonce_key = derive_keys_by_the_book(SUBKEY)
    authenticated = b"counton/noise drawn ahead/1" + address
    prefix = len(authenticated).to_bytes(8, "little")
    nonce = hmac.new(nonce_key, prefix + authenticated + message, hashlib.sha256).digest()[:12]
    encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(authenticated)
    ciphertext = encryptor.update(message) + encryptor.finalize()
    expected = nonce + ciphertext + encryptor.tag
    assert NoiseCipher(SUBKEY).encrypt(message, address) == expected
    assert NoiseCipher(SUBKEY).decrypt(expected, address) == message


@pytest.mark.parametrize(
    "change",
    [
        lambda encrypted: encrypted[:-1],
        lambda encrypted: encrypted + b"x",
        lambda encrypted: encrypted[:27],
        lambda encrypted: b"",
        *(
            lambda encrypted, place=place: (
                encrypted[:place] + bytes([encrypted[place] ^ 1]) + encrypted[place + 1 :]
            )
            for place in (0, 11, 12, 16, 17, 32)
        ),
    ],
)
def test_decrypt_altered_bytes_returns_none(change: Callable[[bytes], bytes]) -> None:
    cipher = NoiseCipher(SUBKEY)
    encrypted = cipher.encrypt(b"noise", b"step 3")
    assert len(encrypted) == 12 + 5 + 16
    assert cipher.decrypt(change(encrypted), b"step 3") is None


def test_decrypt_other_key_or_address_returns_none() -> None:
    encrypted = NoiseCipher(SUBKEY).encrypt(b"noise", b"step 3")
    assert NoiseCipher(SUBKEY).decrypt(encrypted, b"step 33") is None
    assert NoiseCipher(bytes(32)).decrypt(encrypted, b"step 3") is None


def test_encrypt_two_messages_of_one_address_uses_two_nonces() -> None:
    """With one nonce the difference of the ciphertexts would be that of the messages."""
    cipher = NoiseCipher(SUBKEY)
    one, other = (cipher.encrypt(message, b"step 3") for message in (b"\x01noise", b"\x02noise"))
    assert one[:12] != other[:12]
    mixed = bytes(a ^ b for a, b in zip(one[12:-16], other[12:-16], strict=True))
    assert mixed != b"\x03" + bytes(5)


def test_encrypt_address_and_message_are_kept_apart() -> None:
    """Bytes that move between address and message give another nonce."""
    cipher = NoiseCipher(SUBKEY)
    assert cipher.encrypt(b"ab", b"c")[:12] != cipher.encrypt(b"b", b"ca")[:12]
