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
import sqlalchemy as sa


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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a throw-away server which listens on a unix socket only."""
    pytest.importorskip("psycopg", reason="the PostgreSQL driver psycopg is not installed")
    programs = server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (initdb and postgres)")
    user: str | None = None
    if os.geteuid() == 0:  # the server refuses to run as root
        user = next((u for u in ("postgres", "nobody") if _exists(u)), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root and there is no other user")
    memory = os.access("/dev/shm", os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/dev/shm" if memory else "/tmp"))  # short path
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    server = None
    try:
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "counton", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            user=user,
            cwd=folder,
        )
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-F"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            cwd=folder,
        )
        url = f"postgresql://counton@/postgres?host={folder}"
        _wait(url)
        yield url
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)  # its data is thrown away
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _wait(url: str) -> None:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    for _ in range(200):
        try:
            engine.connect().close()
        except sa.exc.OperationalError:
            time.sleep(0.05)
        else:
            engine.dispose()
            return
    raise RuntimeError("the PostgreSQL server did not start within 10 seconds")


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """URL of an empty schema: much quicker to make than a database."""
    name = f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(postgres_server.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    engine.dispose()
    return f"{postgres_server}&options=-csearch_path%3D{name}"
