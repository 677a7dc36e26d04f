"""Keys: the one secret from which all noise is computed."""

from __future__ import annotations

import os
import re
import secrets
import stat
import warnings
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Self

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from counton.base.atomic_file import sync_folder
from counton.base.errors import InvalidInputError, NoiseKeyError, param
from counton.base.outside_input import read_plain

_MAGIC = "counton-key-1:"
#: Largest size of a key file: smaller than any file of SQLite.
_MOST_BYTES = 511
_LABEL = b"counton/noise/1"


class InsecureKeyWarning(UserWarning):
    """A warning that noise comes from a seed somebody chose: there is no privacy."""


def give_name(waiting: Path, path: Path) -> bool:
    """Rename ``waiting`` to ``path``; False, and no change, if another process made ``path``."""
    is_free = True
    try:
        os.link(waiting, path)
    except FileExistsError:
        is_free = False
    except OSError:  # a file system without hard links
        is_free = not os.path.lexists(path)
        if is_free:
            os.rename(waiting, path)
    else:
        waiting.unlink(missing_ok=True)
    sync_folder(path.parent)
    return is_free


def is_same_file(path: Path, other: Path) -> bool:
    """Return True if two paths lead to one file; False if one leads to no file."""
    with suppress(FileNotFoundError):
        return path.samefile(other)
    return False


def _length_prefixed(parts: tuple[bytes, ...]) -> bytes:
    """Concatenate byte strings, each after its length: different sequences give different bytes."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in (_LABEL, *parts))


class Key:
    """A 256-bit secret key. Whoever holds it can subtract the noise from the releases.

    Make a key with `generate`, keep it with `save` apart from the published data, and use it for
    one dataset only: noise of one key on two versions of the data cancels, and reveals the exact
    difference.

    >>> key = Key.generate()
    >>> key  # shows a fingerprint, never the secret
    Key(fingerprint='...')
    """

    __slots__ = ("_file", "_salt", "_secret")
    _secret: bytes
    _salt: str | None
    _file: Path | None

    def __init__(self, *_: object) -> None:
        """Raise `NoiseKeyError`: keys are made by `generate` or read by `load`."""
        raise NoiseKeyError(
            "a key must be random, and nobody may choose it: use Key.generate() or Key.load(path); "
            "for tests and figures use InsecureSeededKey(seed) or "
            "InsecureSeededKey.from_bytes(secret)"
        )

    @classmethod
    def _holding(cls, secret: object) -> Self:
        if not isinstance(secret, bytes) or len(secret) != 32:
            raise NoiseKeyError("a key must be 32 secret bytes: make one with Key.generate()")
        key = object.__new__(cls)
        key._secret = secret
        key._salt = None
        key._file = None
        return key

    @classmethod
    def generate(cls) -> Key:
        """Draw a key from the operating system's generator."""
        return Key._holding(secrets.token_bytes(32))

    def derive(self, *context: bytes) -> bytes:
        """Derive a 32-byte subkey for one use (HKDF-SHA256), bound to every part of ``context``.

        Args:
            context: byte strings that name the use, in order.

        >>> key = Key.generate()
        >>> key.derive(b"a", b"bc") != key.derive(b"ab", b"c")
        True
        """
        info = _length_prefixed(context)
        return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)

    @property
    def salt(self) -> str | None:
        """Public text with which `with_salt` derived this key; None if it was not derived."""
        return self._salt

    @property
    def file(self) -> Path | None:
        """File that the key was loaded from or saved to; None if unknown."""
        return self._file

    def with_salt(self, salt: str | None = None) -> Key:
        """Derive the key of one state from a key that several states share.

        Args:
            salt: public text; random unless given. Keep it: the same salt gives the same key.

        >>> shared = Key.generate()
        >>> salted = shared.with_salt()
        >>> salted == shared, salted == shared.with_salt(salted.salt), salted == shared.with_salt()
        (False, True, False)
        """
        text = secrets.token_hex(16) if salt is None else salt
        key = Key._holding(self.derive(b"salted", text.encode()))
        key._salt = text
        key._file = self._file
        return key

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that distinguish keys and reveal nothing of the secret."""
        return self.derive(b"fingerprint")[:8].hex()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file that only its owner may read (mode 0600).

        Args:
            path: path of the new key file, in an existing folder.

        Raises:
            NoiseKeyError: the file exists; an overwritten key could never be recovered.
        """
        refuse_key_as_place(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileExistsError:
            raise NoiseKeyError(
                f"key file {os.fspath(path)} exists already and is never overwritten: "
                f"load it, or choose another path"
            ) from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(_MAGIC + self._secret.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(Path(path).parent)
        self._file = Path(path).resolve()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Key:
        """Read a key written by `save`.

        The mode must permit nothing to group and others, as 0600 and 0400 do, or be 0440, as
        orchestrators hand out secrets. 0640 is refused, because a umask makes it of any file by
        accident.

        Args:
            path: path of the key file.

        Raises:
            NoiseKeyError: the file is missing, is no key, has hard links, or others can read it.
        """
        refuse_key_as_place(path)
        file = Path(path)
        try:
            status = file.stat()
            if stat.S_ISREG(status.st_mode) and status.st_size > _MOST_BYTES:
                # It is not opened: if it is the file of a state, closing it would drop its locks.
                return Key.from_text("", f"key file {file}")
            text = read_plain(file).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = f"cannot be read ({type(error).__name__})"
            if isinstance(error, FileNotFoundError):
                reason = "does not exist"
            raise NoiseKeyError(
                f"key file {file} {reason}. Restore the key file that was made with the state, or "
                f"give its path"
            ) from None
        mode = stat.S_IMODE(status.st_mode)
        if status.st_nlink > 1:
            raise NoiseKeyError(
                f"key file {file} has {status.st_nlink} names (hard links), so copies of a state "
                "could use it side by side: remove the other names"
            )
        if os.name == "posix" and mode & 0o077 and mode != 0o440:
            raise NoiseKeyError(
                f"key file {file} has mode {mode:04o}, which lets others read it: make it 0600 "
                f"(chmod 600), or 0440 for its group alone; if somebody may have read it, draw a "
                f"new key"
            )
        key = Key.from_text(text, f"key file {file}")
        key._file = file.resolve()
        return key

    @classmethod
    def from_text(cls, text: str, origin: str = "the text") -> Key:
        """Read the key from the text that `save` writes, such as a text kept in a vault.

        Args:
            text: the whole text of a key file; spaces and newlines around it are ignored.
            origin: where the text comes from, for the error message.

        Raises:
            NoiseKeyError: the text is not a key; the message does not show it.

        >>> Key.from_text("secret")
        Traceback (most recent call last):
        counton.base.errors.NoiseKeyError: the text does not hold a counton key ...
        """
        body = text.strip().removeprefix(_MAGIC)
        try:
            if body == text.strip():
                raise ValueError
            return Key._holding(bytes.fromhex(body))
        except (ValueError, NoiseKeyError):
            raise NoiseKeyError(
                f"{origin} does not hold a counton key (64 hexadecimal digits after "
                f"'{_MAGIC}'): restore it from a copy"
            ) from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fingerprint={self.fingerprint!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return secrets.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise NoiseKeyError(
            "keys cannot be pickled: save the key to a file of its own with Key.save(path)"
        )


#: Beginning of a key's text in any format, and its digits.
_KEY_BEGINNING = re.compile(r"counton-key-\d+:")
_KEY_DIGITS = re.compile(r"[0-9a-fA-F]{64}")


def refuse_key_as_place(place: object) -> None:
    """Raise `NoiseKeyError`, without showing it, if ``place`` is the text of a key."""
    untyped_place: Any = place
    text = str(os.fspath(untyped_place)) if isinstance(untyped_place, str | os.PathLike) else ""
    if text.startswith(("env:", "command:")):
        return
    if _KEY_BEGINNING.search(text) or _KEY_DIGITS.fullmatch(PurePath(text).name):
        raise NoiseKeyError(
            f"{param('key')} is the text of a key, but it must be the place of a key: put the text "
            "into an environment variable and name it, as in env:NAME, or into a file. Whoever saw "
            "the command, its log or a list of processes has the key: for a stream that has "
            "released nothing yet, draw a new key"
        )


def check_key(key: object) -> Key:
    """Return ``key`` if it is a `Key`; raise `InvalidInputError` for anything else."""
    if not isinstance(key, Key):
        raise InvalidInputError(
            f"key is of type {type(key).__name__}; it must be a counton.Key: use Key.load(path), "
            f"or Key.generate() for new data"
        )
    return key


class InsecureSeededKey(Key):
    """A key made from a small integer, for tests and figures only: its noise protects nobody.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     key = InsecureSeededKey(7)
    >>> print(caught[0].message)
    noise from the chosen seed 7 protects nobody: use Key.generate() for real data
    """

    __slots__ = ()

    def __init__(self, seed: int) -> None:
        _warn(f"the chosen seed {seed}")
        material = _length_prefixed((b"insecure seed", str(int(seed)).encode()))
        self._secret = HKDF(algorithm=SHA256(), length=32, salt=None, info=material).derive(
            b"insecure"
        )
        self._salt = None
        self._file = None

    @classmethod
    def from_bytes(cls, secret: bytes) -> InsecureSeededKey:
        """Return the key with these 32 secret bytes, for tests with known answers.

        Args:
            secret: exactly 32 bytes; whoever has them can compute the noise.

        Raises:
            NoiseKeyError: not 32 bytes.
        """
        key = cls._holding(secret)
        _warn("chosen bytes")
        return key


def _warn(source: str) -> None:
    warnings.warn(
        f"noise from {source} protects nobody: use Key.generate() for real data",
        InsecureKeyWarning,
        stacklevel=3,
    )
