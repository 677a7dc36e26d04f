"""A release: a wheel of the same bytes, whoever builds it, and a bill of all that it needs."""

import re
from importlib.metadata import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.release import SHIPPED, bill_of_materials, build_wheel, locked, needed

EPOCH = "1767225600"  # the first second of 2026


@pytest.mark.long
@pytest.mark.slow
def test_wheel_has_same_bytes_in_any_folder(tmp_path: Path) -> None:
    (tmp_path / "a/longer/path").mkdir(parents=True)
    first = build_wheel(tmp_path / "a/longer/path", EPOCH)
    second = build_wheel(tmp_path / "b", EPOCH)
    assert first.read_bytes() == second.read_bytes()
    with ZipFile(first) as files:
        assert {one.date_time[:3] for one in files.infolist()} == {(2026, 1, 1)}
        names = files.namelist()
    assert any(name.endswith("licenses/src/counton/serve/uplot/LICENSE") for name in names)
    assert bill_of_materials(first, EPOCH) == bill_of_materials(second, EPOCH)


def test_bill_of_materials_lists_wheel_and_required_packages(tmp_path: Path) -> None:
    """In the versions of the lock."""
    wheel = tmp_path / "counton.whl"
    with ZipFile(wheel, "w") as files:
        files.writestr("counton.dist-info/METADATA", str(metadata("counton")))
    bill = bill_of_materials(wheel, EPOCH)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    references = [one["bom-ref"] for one in bill["components"]]
    references.append(bill["metadata"]["component"]["bom-ref"])
    assert len(references) == len(set(references))
    for one in bill["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= set(references)
    assert {one["purl"] for one in SHIPPED} <= set(references)


def test_required_packages_are_locked() -> None:
    found = needed()
    assert {"numpy", "cryptography", "fastapi", "psycopg", "polars"} <= found.keys()
    assert not {"ipython", "pytest"} & found.keys()
    assert found.keys() - {"counton"} <= locked().keys()
