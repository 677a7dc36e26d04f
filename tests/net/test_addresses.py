"""The address of a job's noise is what it was, byte by byte, for ever.

``addresses.json`` has the addresses that an earlier version drew noise at. ``python -m tests.net``
adds cases that are new.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from witnesses import without_witness

from counton.continual import design
from tests.net import addresses, nights

KNOWN: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("addresses.json").read_text(encoding="utf-8")
)
JOBS = dict(addresses.cases())


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", nights.known_bytes)
    without_witness(monkeypatch)


@pytest.mark.parametrize("name", JOBS)
def test_noise_addresses_equal_stored_ones(name: str, tmp_path: Path) -> None:
    assert addresses.addresses(JOBS[name], tmp_path) == KNOWN[name]


def test_jobs_match_stored_addresses_and_each_has_one() -> None:
    """But endless ones: a row of a person who has one is as a row."""
    assert set(JOBS) == set(KNOWN)
    assert len(KNOWN) > 40
    assert all(len(each) == 1 for each in KNOWN.values())
    assert len({one for each in KNOWN.values() for one in each}) > 0.8 * len(KNOWN)
    assert all(json.loads(one)["stream"] == "it" for each in KNOWN.values() for one in each)


def test_comparison_detects_changed_noise_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where it says the same: a blank is another text, and so another noise."""
    name = "groups, epsilon"
    dumps = json.dumps
    wider = SimpleNamespace(
        dumps=lambda *given, **_: dumps(*given, sort_keys=True), loads=json.loads
    )
    monkeypatch.setattr(design, "json", wider)
    found = addresses.addresses(JOBS[name], tmp_path)
    assert [*map(json.loads, found)] == [*map(json.loads, KNOWN[name])]
    assert found != KNOWN[name]
