"""What a release is made of: ``python -m tools.release DIST``, which `make release` calls.

The wheel is built twice, from two copies of the sources, and both have to have the same bytes.
Beside it stands its bill of materials, in the CycloneDX format: the packages that counton needs in
the versions of requirements.lock, and what it ships of others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email import message_from_bytes
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
#: Extras whose packages the bill lists: what runs where numbers are made, read and served.
EXTRAS = ("cli", "serve", "postgresql")
#: Files of others in the wheel.
SHIPPED = (
    {"name": "uplot", "version": "1.6.16", "licence": "MIT", "purl": "pkg:npm/uplot@1.6.16"},
)


def build_wheel(folder: Path, epoch: str) -> Path:
    """Build a wheel from a copy of the files that git tracks; return its path.

    Args:
        folder: folder in which to build; the wheel is written to ``folder/dist``.
        epoch: date of every file in the wheel, in seconds since 1970.
    """
    sources = folder / "sources"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, tracked.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, sources / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder / "dist"), str(sources)],
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True,
    )  # fmt: skip
    (found,) = (folder / "dist").glob("*.whl")
    return found


def locked() -> dict[str, str]:
    """Return the version of each package in ``requirements.lock``, by name."""
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    pairs = (re.split(r"==|;", line) for line in lines if "==" in line)
    return {canonicalize_name(name): version.strip() for name, version, *_ in pairs}


def needed(extras: tuple[str, ...] = EXTRAS) -> dict[str, set[str]]:
    """Return the packages that counton with these extras depends on, directly or indirectly.

    Maps each package, counton among them, to the packages that it needs itself.
    """
    found: dict[str, set[str]] = {}
    left = [("counton", frozenset(extras))]
    done = set[tuple[str, frozenset[str]]]()
    while left:
        asked = left.pop()
        if asked in done:
            continue
        done.add(asked)
        name, wanted = asked
        below = found.setdefault(name, set())
        for text in requires(name) or ():
            one = Requirement(text)
            fits = one.marker is None or any(
                one.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            if fits:
                other = canonicalize_name(one.name)
                below.add(other)
                left.append((other, frozenset(one.extras)))
        below.discard(name)
    return found


def bill_of_materials(wheel: Path, epoch: str) -> dict[str, Any]:
    """Return the bill of materials of a wheel in the format CycloneDX 1.5; equal wheels get equal
    bills.

    Args:
        wheel: path of the wheel.
        epoch: date of the bill, in seconds since 1970.
    """
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with ZipFile(wheel) as files:
        (metadata,) = [one for one in files.namelist() if one.endswith(".dist-info/METADATA")]
        about = message_from_bytes(files.read(metadata))
    versions = {**locked(), "counton": about["Version"]}
    below = needed()
    own = _component("counton", versions["counton"])
    own |= {
        "licenses": [{"expression": about["License-Expression"]}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat(),
            "component": own,
        },
        "components": [
            *(_component(name, versions[name]) for name in sorted(below) if name != "counton"),
            *map(_part, SHIPPED),
        ],
        "dependencies": [*_dependencies(below, versions)],
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _component(name: str, version: str) -> dict[str, Any]:
    purl = _purl(name, version)
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _part(said: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": said["purl"],
        "name": said["name"],
        "version": said["version"],
        "purl": said["purl"],
        "licenses": [{"license": {"id": said["licence"]}}],
    }


def _dependencies(
    below: Mapping[str, set[str]], versions: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for name in sorted(below):
        names = [_purl(one, versions[one]) for one in sorted(below[name])]
        if name == "counton":
            names += [said["purl"] for said in SHIPPED]
        yield {"ref": _purl(name, versions[name]), "dependsOn": names}


def main(dist: str) -> None:
    """Build the wheel twice, check that both have the same bytes, and write it with its bill of
    materials.

    Args:
        dist: folder for both files.
    """
    epoch = os.environ["SOURCE_DATE_EPOCH"]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        wheels = [build_wheel(Path(folder), epoch) for folder in (one, other)]
        first, second = (wheel.read_bytes() for wheel in wheels)
        if first != second:
            raise SystemExit(f"{wheels[0].name} has other bytes when it is built again")
        place = Path(dist) / wheels[0].name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(first)
    bill = json.dumps(bill_of_materials(place, epoch), indent=2) + "\n"
    place.with_name(f"{place.name.removesuffix('.whl')}.cdx.json").write_text(bill, "utf-8")
    print(f"{hashlib.sha256(first).hexdigest()}  {place.name}")  # noqa: T201 - its purpose


if __name__ == "__main__":
    main(sys.argv[1])
