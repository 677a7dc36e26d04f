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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counton.cli.outputs import check_output, replace_file
from counton.errors import ReplayMismatch, StateError
from counton.mechanisms.cells import FORMAT
from counton.noise import Key

_PICTURES = (".png", ".svg", ".pdf")


def key_for(out: Path, stated: Path | None) -> tuple[Key, Path]:
    """The key of an output: from its file, or a fresh one saved there; and where it is.

    Links are followed, so that one key has one file of receipts whatever name it goes by.
    """
    path = key_path_for(out, stated).resolve()
    if path.exists():
        return Key.load(path), path
    key = Key.generate()
    key.save(path)
    return key, path


def key_path_for(out: Path, stated: Path | None) -> Path:
    """Where the key of an output is kept."""
    return stated or out.with_name(f"{out.name}.key")


def check_files(
    out: Path, plot: Path | None, stated_key: Path | None, inputs: Sequence[Path]
) -> None:
    """Refuse outputs that could not be written, or would replace a file of the same run.

    Raises:
        InvalidInput: naming the file.
    """
    key_path = key_path_for(out, stated_key)
    kept = [*inputs, key_path, receipt_path(key_path.resolve())]
    check_output(out, inputs=kept)
    if plot is not None:
        check_output(plot, _PICTURES, inputs=[*kept, out])


def receipt_path(key_path: Path) -> Path:
    """Where what a key has released is written."""
    return key_path.with_name(f"{key_path.name}.released")


def enter(key: Key, key_path: Path, name: str, terms: dict[str, Any], data: bytes) -> bool:
    """Enter a release before it is shown; whether it was entered before.

    Raises:
        ReplayMismatch: the key has released other data, or on other terms, under this name.
        StateError: the file of receipts cannot be understood.
    """
    digest = hmac.new(key.derive(b"receipt"), data, hashlib.sha256).hexdigest()
    stated = {**terms, "format": FORMAT}
    entry = {"terms": stated, "input": digest, "key": key.fingerprint}
    with _alone(key_path):
        return _enter(key_path, name, entry)


@contextmanager
def _alone(key_path: Path) -> Iterator[None]:
    """One process at a time; two could each find no receipt, and release different data."""
    with key_path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _enter(key_path: Path, name: str, entry: dict[str, Any]) -> bool:
    path = receipt_path(key_path)
    entries = _read(path)
    known = entries.get(name)
    if known == entry:
        return True
    if known is not None:
        what = "on other terms" if known.get("terms") != entry["terms"] else "from other data"
        raise ReplayMismatch(
            f"the key {str(key_path)!r} has released {name!r} before, {what}; a second release "
            f"under the same noise would give the difference away: choose another --out (with a "
            f"new key) or another --name, which spends the guarantee again"
        )
    entries[name] = entry
    text = json.dumps(entries, indent=2, sort_keys=True) + "\n"
    replace_file(path, lambda written: _write(Path(written), text))
    return False


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
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
