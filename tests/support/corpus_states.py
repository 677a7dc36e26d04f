"""States that earlier versions wrote, ready to be used: copies with their key and witness."""

import json
import lzma
import shutil
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "corpus"
#: The folders of all versions, by version.
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def about(version: str) -> dict[str, Any]:
    """What the state of a version holds, and what it shows."""
    read: dict[str, Any] = json.loads((FOLDER / version / "about.json").read_text("utf-8"))
    return read


def copied(version: str, folder: Path) -> Path:
    """A copy of a version's folder, with the modes that a state and a key must have."""
    shutil.copytree(FOLDER / version, folder)
    packed = folder / "state.db.xz"
    (folder / "state.db").write_bytes(lzma.decompress(packed.read_bytes()))
    packed.unlink()
    for path in (folder / "state.db", folder / "state.db.key", *(folder / "witness").iterdir()):
        path.chmod(0o600)
    return folder
