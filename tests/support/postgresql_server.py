"""A PostgreSQL server of our own, where one is installed, as fixtures."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import looked_into
from patience import HANGS


def server_programs() -> Path | None:
    """Where the programs of a PostgreSQL server are; None where there is none."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which("postgres")
    if found:
        places.insert(0, Path(found).resolve().parent)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


class Server:
    """A throw-away server which listens on a unix socket only.

    Args:
        folder: with a short path; its data lies there, and goes with it.
        user: as whom it runs; None: as we do.
    """

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder = folder
        self._user = user
        programs = server_programs()
        assert programs is not None
        self._programs = programs
        self.url = f"postgresql://counton@/postgres?host={folder}"

    def make(self) -> None:
        """Make its data."""
        if self._user:
            shutil.chown(self.folder, self._user)
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", self.folder / "data"),
                *("-U", "counton", "-A", "trust", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            user=self._user,
            cwd=self.folder,
        )

    def start(self) -> None:
        """Begin, and wait until it answers."""
        self._server = subprocess.Popen(
            [
                *(self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder),
                *("-c", "listen_addresses=", "-F"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd=self.folder,
            start_new_session=True,
        )
        _wait(self.url)

    def stop(self) -> None:
        """End it; its data is thrown away."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(HANGS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End it, and all that serve its connections, at once."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def schema(self) -> str:
        """URL of an empty schema: much quicker to make than a database."""
        name = f"t{uuid.uuid4().hex}"
        with looked_into(self.url) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"


def new_server() -> Server:
    """A server that runs, where one is installed; else the test is skipped."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver psycopg is not installed")
    if server_programs() is None:
        pytest.skip("no PostgreSQL server is installed (initdb and postgres)")
    user: str | None = None
    if os.geteuid() == 0:  # the server refuses to run as root
        user = next((u for u in ("postgres", "nobody") if _exists(u)), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root and there is no other user")
    memory = os.access("/dev/shm", os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/dev/shm" if memory else "/tmp"))  # short path
    server = Server(folder, user)
    try:
        server.make()
        server.start()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A throw-away server."""
    server = new_server()
    try:
        yield server
    finally:
        server.stop()


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _wait(url: str) -> None:
    import psycopg

    for _ in range(round(20 * HANGS)):
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the PostgreSQL server did not start")


@pytest.fixture
def postgres(postgres_server: Server) -> str:
    """URL of an empty schema."""
    return postgres_server.schema()
