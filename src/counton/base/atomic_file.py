"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to disk, so that file names survive a power cut."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, write: Callable[[str], object], mode: int | None = None) -> None:
    """Write a file under a temporary name, then rename it: readers see the old file or the whole
    new one.

    Args:
        write: function that writes the file under the name it gets; raises OSError if it fails.
        mode: permissions of the file; None: the default for new files.

    Raises:
        OSError: writing failed; the old file, if any, is unchanged.
    """
    folder = path.resolve().parent
    prefix = f".counton-{path.name[:40]}."
    handle = name = None
    try:
        if path.exists() and not path.is_file():  # the rename would replace it
            raise OSError(errno.EINVAL, "it is not a plain file", os.fspath(path))
        remove_left(folder, prefix)
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=folder)
        try_lock(handle)  # held while this process lives: an unlocked file is a leftover
        write(name)
        current = os.umask(0)  # the mask can only be read by setting it
        os.umask(current)
        os.chmod(name, 0o666 & ~current if mode is None else mode)
        os.replace(name, path.resolve())
        name = None
        sync_folder(folder)
    finally:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def replace_output(path: Path, write: Callable[[str], object], mode: int | None = None) -> None:
    """Write a file of a run as `replace_file` does; errors name the file and the remedy.

    Args:
        write: function that writes the file under the name it gets; raises OSError if it fails.
        mode: permissions of the file; None: the default for new files.

    Raises:
        OSError: writing failed; the old file, if any, is unchanged.
    """
    try:
        replace_file(path, write, mode)
    except OSError as error:
        raise OSError(
            f"{str(path)!r} could not be written ({error.strerror or error}): check its "
            "permissions and the space left. The release is kept, and the same command writes the "
            "file again"
        ) from error


def remove_left(folder: Path, prefix: str, suffixes: tuple[str, ...] = ()) -> None:
    """Remove temporary files that killed processes left: ``prefix``, eight random characters, and
    those with the suffixes ``suffixes``.
    """
    temporary_name = re.compile(f"{re.escape(prefix)}[a-z0-9_]{{8}}([.][^.]*)?")
    with suppress(OSError):  # a leftover costs only space
        for path in [*folder.iterdir()]:
            if temporary_name.fullmatch(path.name) is not None:
                _remove_unlocked(path, suffixes)


def _remove_unlocked(path: Path, suffixes: tuple[str, ...]) -> None:
    """Remove a file and those beside it with further suffixes, unless a process has locked it."""
    handle = os.open(path, os.O_RDWR)
    try:
        if try_lock(handle):
            for suffix in (*suffixes, ""):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Try to lock an open file until it is closed; return True on success."""
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
