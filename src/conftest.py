"""Examples are tests too; this is for pytest alone, and no part of the package."""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

# Given a module whose package has not been imported, pytest imports the package, and with it the
# module, and then runs the module a second time: two classes of each name, and the second ones in
# the registries of guarantees and strategies. Imported before, a module is taken as it is.


@pytest.fixture(autouse=True)
def same_keys_every_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh keys of an example are its own, and the same in every run."""
    number = itertools.count()

    def token_bytes(size: int) -> bytes:
        seed = f"{request.node.nodeid} {next(number)}".encode()
        return hashlib.shake_256(seed).digest(size)

    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", token_bytes)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example writes is in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No witness of a state is in the home of whoever runs the examples."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("homes")))
        yield
