"""The two tokens of a service, secret texts: one to write, one to read."""

from __future__ import annotations

import json
import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from counton.base.errors import InvalidInputError
from counton.base.outside_input import read_plain


class Tokens(NamedTuple):
    """The tokens of a service: to send rows and see exact numbers, and to read series."""

    write: str
    read: str


def tokens_of(file: str | Path) -> Tokens:
    """Read both tokens from a file, which is made with random ones if it is missing.

    Its mode follows the rule of a key file: nothing for group and others, or 0440, as
    orchestrators hand out secrets.

    Args:
        file: path of the file.

    Raises:
        InvalidInputError: the file cannot be read or written, does not have both tokens, or others
            may read or write it.
    """
    path = Path(file)
    new_tokens = Tokens(*(f"counton_{secrets.token_urlsafe(32)}" for _ in Tokens._fields))
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(json.dumps(new_tokens._asdict(), indent=2) + "\n")
            return new_tokens
    except FileExistsError:
        pass
    except OSError as error:
        raise InvalidInputError(
            f"tokens cannot be written into {str(path)!r} ({error.strerror}); give a file in a "
            "folder that exists"
        ) from error
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        kept = json.loads(read_plain(path))
        saved_tokens = Tokens(str(kept["write"]), str(kept["read"]))
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InvalidInputError(
            f"tokens in {str(path)!r} cannot be read ({type(error).__name__}): restore the file, "
            "or remove it, and the service makes new ones"
        ) from error
    if os.name == "posix" and mode & 0o077 and mode != 0o440:
        raise InvalidInputError(
            f"tokens in {str(path)!r} have mode {mode:04o}, which lets others read or write them. "
            "Make the file 0600 (chmod 600), or 0440 for its group alone. If somebody may have "
            "read them, remove it, and the service makes new ones"
        )
    if min(map(len, saved_tokens)) < 16 or saved_tokens.write == saved_tokens.read:
        raise InvalidInputError(
            f"the tokens to write and to read in {str(path)!r} must differ, and have 16 characters "
            "or more: remove the file, and the service makes new ones"
        )
    return saved_tokens
