"""Tokens: permission to send rows, to read released series, or to see the operator's numbers.

A token for sending rows has a number: 1, 2, 3 ... in the order of creation. No other token of the
file ever gets this number. It decides how much of a stream its sender may fill
(`counton.base.exact_sums.share_of`). A file keeps only digests. It is read again after each change,
so tokens are made and revoked while a service runs; an unreadable file lets nobody in.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from counton.base.errors import InvalidInput, field
from counton.base.exact_sums import MOST_SENDERS
from counton.base.outside_input import read_plain
from counton.state.whole_file import replace_file

#: Scopes of tokens. No scope includes another.
SCOPES = ("ingest", "read", "operate")
_SENDING = SCOPES[0]
_PREFIX = "counton"
_BYTES = 32


@dataclass(frozen=True)
class Token:
    """The record of a service about a token, a secret text that permits the use of the service. The
    text itself is not stored.

    Attributes:
        id: identifier for listing and revoking; not secret.
        scopes: permitted uses of the token.
        digest: SHA-256 of the token, in hexadecimal. A token has 256 random bits, so nobody finds
            it from its digest.
        made: time of creation, UTC.
        number: number of the sender who has the token, from 1; 0 for a token that may not send.
    """

    id: str
    scopes: tuple[str, ...]
    digest: str
    made: str
    number: int = 0


class Tokens:
    """The tokens of a service, secret texts that permit its use. A file stores only their digests.

    Args:
        file: path of the file; made with the first token.
    """

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._stamp: tuple[int, ...] | None = None
        self._known: tuple[Token, ...] = ()
        self._numbered = 0

    def all(self) -> tuple[Token, ...]:
        """Return what the file stores about all tokens of the service, oldest first.

        Raises:
            InvalidInput: the file cannot be read, holds no tokens, or others may write it.
        """
        try:
            found = self.file.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._known, self._numbered = ((), 0) if stamp is None else self._read()
            self._stamp = stamp
        return self._known

    def find(self, token: str) -> Token | None:
        """Return what the file stores about a token (id, uses, sender); None if it is unknown."""
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found: Token | None = None
        for known in self.all():  # compare with each, so that the time reveals nothing
            if hmac.compare_digest(known.digest, given):
                found = known
        return found

    def make(self, scopes: Sequence[str]) -> str:
        """Create a random token, a secret text that permits these uses of the service, and return
        it. The file keeps only its digest.

        Raises:
            InvalidInput: there is no scope, or an unknown one; or no number is left for a sender.
        """
        for scope in scopes or ("",):
            if scope not in SCOPES:
                raise InvalidInput(
                    f"{field('make')} is {','.join(scopes)!r}; give one or more of "
                    f"{', '.join(SCOPES)}, with commas between them"
                )
        known, number = self.all(), 0
        if _SENDING in scopes:
            number = self._numbered + 1
        if number > MOST_SENDERS:
            raise InvalidInput(
                f"{str(self.file)!r} has given {MOST_SENDERS:,} tokens for {_SENDING}, which is "
                "the most for the senders of a stream: begin other streams with another file of "
                "tokens"
            )
        token = f"{_PREFIX}_{secrets.token_urlsafe(_BYTES)}"
        kept = Token(
            secrets.token_hex(4),
            tuple(dict.fromkeys(scopes)),
            hashlib.sha256(token.encode()).hexdigest(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            number,
        )
        self._write((*known, kept))
        return token

    def revoke(self, id: str) -> None:
        """Revoke a token (the permission to use the service), given its id.

        Raises:
            InvalidInput: no token has this id.
        """
        rest = tuple(token for token in self.all() if token.id != id)
        if rest == self.all():
            known = ", ".join(token.id for token in self.all()) or "none"
            raise InvalidInput(
                f"{field('revoke')} is {id!r}, but {str(self.file)!r} has no such token; it has "
                f"{known}"
            )
        self._write(rest)

    def _read(self) -> tuple[tuple[Token, ...], int]:
        """Read from the file what it stores about all tokens (permissions to use the service), and
        the largest number that any sender ever got.

        In older files senders have no numbers; they get them in the order of the file.
        """
        if os.name == "posix" and stat.S_IMODE(self.file.stat().st_mode) & 0o022:
            raise InvalidInput(
                f"tokens in {str(self.file)!r} may be written by others; make it 0600 (chmod 600)"
            )
        try:
            kept = json.loads(read_plain(self.file))
            senders = [one["id"] for one in kept["tokens"] if _SENDING in one["scopes"]]
            places = {id: place for place, id in enumerate(senders, 1)}
            tokens = tuple(
                Token(
                    *(str(one["id"]), tuple(one["scopes"]), str(one["digest"]), str(one["made"])),
                    number=int(one.get("number") or places.get(one["id"], 0)),
                )
                for one in kept["tokens"]
            )
            return tokens, max([int(kept.get("numbered", 0)), *(one.number for one in tokens)])
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise InvalidInput(
                f"tokens in {str(self.file)!r} cannot be read ({type(error).__name__}), so every "
                "request is refused: restore the file, or remove it and make new tokens"
            ) from error

    def _write(self, tokens: Sequence[Token]) -> None:
        numbered = max([self._numbered, *(token.number for token in tokens)])
        kept = {"tokens": [asdict(token) for token in tokens], "numbered": numbered}
        text = json.dumps(kept, indent=2)

        try:
            replace_file(self.file, lambda new: Path(new).write_text(text + "\n", "utf-8"))
            self.file.chmod(0o600)
        except OSError as error:
            raise InvalidInput(
                f"tokens cannot be written into {str(self.file)!r} ({error.strerror}); give a file "
                "in a folder that exists"
            ) from error
