"""Authenticated encryption of noise that is stored before it is released.

Noise that is drawn ahead decides later releases. A state holds it encrypted, so that a copy of the
state without the key tells nothing about it.
"""

from __future__ import annotations

import hmac
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Use of the derived keys, and version of the encrypted form.
_PURPOSE = b"counton/noise drawn ahead/1"
#: Bytes of a nonce and of an authentication tag of AES-GCM.
NONCE_BYTES = 12
TAG_BYTES = 16


class NoiseCipher:
    """AES-256-GCM under keys that HKDF-SHA256 derives from the subkey of a noise field.

    A nonce must not serve two messages under one key. The address of stored noise is no such nonce:
    another form of the bytes, in a later version, gives other bytes for the same address. So the
    nonce is an HMAC of address and message, as in SIV modes. Equal messages for an address have
    equal ciphertexts, which reveals nothing, because noise at an address is fixed. The nonce needs
    no random generator, which a restored virtual machine could repeat.

    Args:
        subkey: 32 secret bytes from `counton.noise.Key.derive`.

    >>> cipher = NoiseCipher(bytes(32))
    >>> encrypted = cipher.encrypt(b"noise", b"step 3")
    >>> cipher.decrypt(encrypted, b"step 3"), cipher.decrypt(encrypted, b"step 4")
    (b'noise', None)
    """

    def __init__(self, subkey: bytes) -> None:
        self._subkey = subkey

    def encrypt(self, message: bytes, address: bytes) -> bytes:
        """Return the nonce, the ciphertext and the tag of a message.

        Args:
            message: noise as bytes. Its length is not hidden.
            address: the public place of the noise, which is authenticated, but not encrypted.
        """
        aead, nonce_key = self._keys
        authenticated = _PURPOSE + address
        prefix = len(authenticated).to_bytes(8, "little")
        nonce = hmac.digest(nonce_key, prefix + authenticated + message, "sha256")[:NONCE_BYTES]
        return nonce + aead.encrypt(nonce, message, authenticated)

    def decrypt(self, encrypted: bytes, address: bytes) -> bytes | None:
        """Return the message; None if it was altered, or encrypted for another address or key.

        Args:
            encrypted: bytes from `encrypt`.
            address: the place for which they were encrypted.
        """
        from cryptography.exceptions import InvalidTag

        aead, _ = self._keys
        nonce = encrypted[:NONCE_BYTES]
        if len(encrypted) < NONCE_BYTES + TAG_BYTES:
            return None
        try:
            return aead.decrypt(nonce, encrypted[NONCE_BYTES:], _PURPOSE + address)
        except InvalidTag:
            return None

    @cached_property
    def _keys(self) -> tuple[AESGCM, bytes]:
        """The cipher, and the key of the nonces."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(algorithm=SHA256(), length=64, salt=None, info=_PURPOSE).derive(self._subkey)
        return AESGCM(derived[:32]), derived[32:]
