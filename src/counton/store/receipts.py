"""One release for a key and a name: what a key has released is written beside it.

The same noise on changed data would give the change away. So before a table is shown, its terms and
a keyed digest of its input go into ``KEY.released``; the same again gives the same table, anything
else under the same name is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counton.errors import InvalidInput, ReplayMismatch, StateError, StreamConflict, WrongKey
from counton.mechanisms.terms import FORMAT
from counton.noise import Key
from counton.store.whole_file import replace_file


class Receipts:
    """A key in a file, and beside it the receipts of what it has released at one go.

    For `release_hierarchy`, `release_ranges` and `release_contingency`, which keep no journal. Take
    the key from here, release, and `enter` the release **before** anybody sees it. A receipt holds
    no counts: whoever lacks the key learns nothing of the data from it.

    Args:
        key_path: of the key; where there is none, one is made and saved with the first receipt.
            Symbolic links are followed, so that they all lead to one file of receipts.
        remedy: what an error advises where a release is refused.

    Raises:
        WrongKey: the key is unreadable or badly protected.

    >>> import tempfile
    >>> from counton import PureDP, release_ranges
    >>> folder = tempfile.TemporaryDirectory()
    >>> receipts = Receipts(Path(folder.name, "visits.key"))
    >>> def released(counts):
    ...     release = release_ranges(
    ...         counts, guarantee=PureDP(1), key=receipts.key, name="visits 2024"
    ...     )
    ...     terms = {"guarantee": release.guarantee.to_dict()}
    ...     receipts.enter("visits 2024", json.dumps(counts).encode(), terms=terms)
    ...     return release
    >>> first, again = released([3, 1, 4]), released([3, 1, 4])
    >>> bool(first.sum(0, 3) == again.sum(0, 3))
    True
    >>> released([3, 1, 5])
    Traceback (most recent call last):
    ...
    counton.errors.ReplayMismatch: the key ... has released 'visits 2024' before, from other data...
    >>> folder.cleanup()
    """

    def __init__(
        self,
        key_path: str | os.PathLike[str],
        *,
        remedy: str = "take a new key or another name, which spends the guarantee again",
    ) -> None:
        self._key_path = Path(key_path).resolve()
        self._remedy = remedy
        self._lock = threading.Lock()
        self._kept = self._key_path.exists()
        self._key = Key.load(self._key_path) if self._kept else Key.generate()

    @property
    def key(self) -> Key:
        """The secret from which the noise comes."""
        return self._key

    @property
    def key_path(self) -> Path:
        """Where the key is, links followed."""
        return self._key_path

    @property
    def path(self) -> Path:
        """Where what the key has released is written: ``KEY.released``."""
        return receipts_path(self._key_path)

    @property
    def names(self) -> tuple[str, ...]:
        """What has been released, sorted.

        Raises:
            StateError: the file of receipts cannot be understood.
        """
        return tuple(sorted(_read(self.path)))

    def enter(self, name: str, data: bytes, *, terms: Mapping[str, Any] | None = None) -> bool:
        """Enter a release before it is shown; whether it was entered before.

        Args:
            name: of the release.
            data: its input; equal data must give equal bytes.
            terms: JSON values which identify the release besides its data: guarantee, contribution
                and whatever else the noise depends on. Other terms under the name are refused, as
                they spend the guarantee again.

        Raises:
            ReplayMismatch: the key has released other data, or on other terms, under this name.
            StateError: the file of receipts cannot be understood.
            StreamConflict: another process has made a key in the meantime.
            InvalidInput: the terms are no JSON values.
        """
        digest = hmac.new(self._key.derive(b"receipt"), data, hashlib.sha256).hexdigest()
        stated = _as_read({**(terms or {}), "format": FORMAT})
        entry = {"terms": stated, "input": digest, "key": self._key.fingerprint}
        with self._lock:
            if not self._kept:
                self._keep()
        with self._alone():
            return self._enter(name, entry)

    def _keep(self) -> None:
        """Save a new key: not before there is something to enter, and never over another."""
        try:
            self._key.save(self._key_path)
        except WrongKey:
            raise StreamConflict(
                f"another process has made the key {str(self._key_path)!r} in the meantime; "
                f"nothing was released under this one: release again, with the key there is now"
            ) from None
        self._kept = True

    def __repr__(self) -> str:
        return f"Receipts({str(self._key_path)!r})"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time; two could each find no receipt, and release different data."""
        with self._key_path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _enter(self, name: str, entry: dict[str, Any]) -> bool:
        entries = _read(self.path)
        known = entries.get(name)
        if known == entry:
            return True
        if known is not None:
            what = "on other terms" if known.get("terms") != entry["terms"] else "from other data"
            raise ReplayMismatch(
                f"the key {str(self._key_path)!r} has released {name!r} before, {what}; a second "
                f"release under the same noise would give the difference away: {self._remedy}"
            )
        entries[name] = entry
        text = json.dumps(entries, indent=2, sort_keys=True) + "\n"
        replace_file(self.path, lambda written: _write(Path(written), text))
        return False


def receipts_path(key_path: Path) -> Path:
    """Where what a key has released is written.

    >>> receipts_path(Path("visits.key")).name
    'visits.key.released'
    """
    return key_path.with_name(f"{key_path.name}.released")


def _as_read(terms: dict[str, Any]) -> Any:
    """Terms as they come back from the file, where a tuple is a list."""
    try:
        return json.loads(json.dumps(terms, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"terms must consist of JSON values ({error}): convert them") from None


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):  # a link that leads nowhere is no sign of nothing released
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise StateError(
            f"{str(path)!r}, which says what its key has released, cannot be read ({error}): "
            f"restore it from a copy, or use a new key"
        ) from error
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        raise StateError(f"{str(path)!r} does not hold receipts: restore it from a copy")
    return entries
