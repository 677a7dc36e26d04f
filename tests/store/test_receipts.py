"""A key releases a name once: the same again is the same, anything else is refused."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from counton import Key
from counton.errors import InvalidInput, ReplayMismatch, StateError, StreamConflict, WrongKey
from counton.store import Receipts, receipts
from counton.store.whole_file import replace_file

TERMS = {"guarantee": {"epsilon": "1"}, "levels": ("state", "county")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "visits.key"


def test_the_same_release_may_be_entered_again(path: Path) -> None:
    assert not Receipts(path).enter("visits", b"data", terms=TERMS)
    assert Receipts(path).enter("visits", b"data", terms=TERMS)
    assert not Receipts(path).enter("visitors", b"other data")
    assert Receipts(path).names == ("visitors", "visits")


def test_other_data_and_other_terms_are_refused_and_change_nothing(path: Path) -> None:
    kept = Receipts(path)
    kept.enter("visits", b"data", terms=TERMS)
    before = kept.path.read_bytes()
    with pytest.raises(ReplayMismatch, match=r"'visits' before, from other data; .* a new key or"):
        kept.enter("visits", b"date", terms=TERMS)
    with pytest.raises(ReplayMismatch, match="on other terms"):
        kept.enter("visits", b"data", terms={**TERMS, "guarantee": {"epsilon": "2"}})
    with pytest.raises(InvalidInput, match="JSON values"):
        kept.enter("new", b"data", terms={"rho": object()})
    assert kept.path.read_bytes() == before


def test_the_key_is_made_once_and_for_its_owner_alone(path: Path, tmp_path: Path) -> None:
    first = Receipts(path)
    assert not path.exists()  # a run that is refused before its release leaves nothing behind
    first.enter("visits", b"data")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Receipts(path).key.fingerprint == first.key.fingerprint
    alias = tmp_path / "alias.key"
    alias.symlink_to(path)
    assert Receipts(alias).path == first.path == tmp_path / "visits.key.released"
    path.chmod(0o644)
    with pytest.raises(WrongKey):
        Receipts(path)


def test_of_two_new_keys_only_the_first_releases(path: Path) -> None:
    first, second = Receipts(path), Receipts(path)
    assert first.key != second.key
    first.enter("visits", b"data")
    with pytest.raises(StreamConflict, match="release again"):
        second.enter("other visits", b"data")
    assert Receipts(path).names == ("visits",)


def test_receipts_of_another_key_do_not_serve(path: Path) -> None:
    Receipts(path).enter("visits", b"data")
    path.unlink()
    Key.generate().save(path)
    with pytest.raises(ReplayMismatch):
        Receipts(path).enter("visits", b"data")


def test_the_file_is_what_it_was_in_earlier_versions(path: Path) -> None:
    kept = Receipts(path)
    kept.enter("visits", b"data", terms={"rho": "1"})
    entry = json.loads(kept.path.read_text())["visits"]
    assert entry["terms"] == {"format": 1, "rho": "1"}
    assert entry["key"] == kept.key.fingerprint
    assert len(entry["input"]) == 64


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"visits": 1}'])
def test_receipts_that_cannot_be_read_are_refused(spoilt: str, path: Path) -> None:
    kept = Receipts(path)
    kept.path.write_text(spoilt)
    with pytest.raises(StateError, match="restore it from a copy"):
        kept.enter("visits", b"data")


def test_of_processes_at_once_only_one_releases(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, read = Receipts(path), receipts._read

    def slow(file: Path) -> Any:
        entries = read(file)
        time.sleep(0.05)
        return entries

    def release(number: int) -> bool:
        try:
            return not kept.enter("visits", str(number).encode())
        except ReplayMismatch:
            return False

    monkeypatch.setattr(receipts, "_read", slow)
    with ThreadPoolExecutor(4) as several:
        assert sum(several.map(release, range(4))) == 1


def test_a_release_of_another_noise_format_is_not_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Receipts(path).enter("visits", b"data")
    monkeypatch.setattr(receipts, "FORMAT", 10**6)
    with pytest.raises(ReplayMismatch, match="on other terms"):
        Receipts(path).enter("visits", b"data")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "totals.txt"
    path.write_text("old")

    def fails(name: str) -> None:
        Path(name).write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"could not be written \(No space left on device\)"):
        replace_file(path, fails)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("totals.txt", "old")]


def test_receipts_need_no_database() -> None:
    program = "import sys; sys.modules['sqlalchemy'] = None; from counton.store import Receipts"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_link_that_leads_nowhere_is_no_empty_file_of_receipts(path: Path) -> None:
    kept = Receipts(path)
    kept.enter("visits", b"data")
    moved = kept.path.rename(kept.path.with_name("elsewhere"))
    kept.path.symlink_to(moved)
    assert kept.enter("visits", b"data")
    moved.unlink()
    with pytest.raises(StateError, match="cannot be read"):
        kept.enter("visits", b"other data")
