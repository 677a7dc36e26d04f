"""The command `counton`, forked from one process that has imported everything.

Pages of the documentation call it a hundred times. An interpreter of its own for each call costs a
second, nearly all of it imports. So a program of the same name stands first on PATH: it hands its
words, folder, environment, limit and open files to a process which forks, and ends with its code.
"""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

_ANSWER = 8
_CLIENT = """#!{python} -IS
import json, os, resource, socket, sys
said = dict(
    words=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ),
    limit=resource.getrlimit(resource.RLIMIT_FSIZE),
)
text = json.dumps(said).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(text)
    answer = server.recv({size})
sys.exit(int(answer or b"70"))
"""


@pytest.fixture(scope="session")
def forked_commands() -> Iterator[Path]:
    """A folder for PATH with a `counton` that starts at once."""
    with tempfile.TemporaryDirectory(prefix="counton-") as name:
        folder = Path(name)
        address = str(folder / "socket")
        client = folder / "counton"
        client.write_text(_CLIENT.format(python=sys.executable, address=address, size=_ANSWER))
        client.chmod(0o755)
        server = subprocess.Popen(
            [sys.executable, __file__, address],
            stdin=subprocess.PIPE,  # its end is the end of this process, however that ends
            stdout=subprocess.PIPE,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
        server.stdin.close()
        server.wait(30)
        server.stdout.close()


#: What commands import on their way, beside all that is counton's.
_HEAVY = (
    *("matplotlib.backends.backend_agg", "matplotlib.figure", "psycopg", "rich.table"),
    *("scipy.optimize", "scipy.special", "scipy.stats", "dp_accounting", "threadpoolctl"),
    *("rich._emoji_codes", "typer._adapters", "typer._click.decorators", "encodings.ascii"),
)


def _modules() -> Iterator[str]:
    """All of counton, and what it imports late."""
    import counton

    yield from _HEAVY
    for module in walk_packages(counton.__path__, "counton."):
        if not module.name.endswith("__main__"):
            yield module.name


def _serve(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        started = 0
        while True:
            while started and os.waitpid(-1, os.WNOHANG)[0]:
                started -= 1
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if listening.fileno() not in ready:
                break
            client, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _run(client)
            started += 1
            client.close()
        for _ in range(started):
            os.wait()


def _run(client: socket.socket) -> None:
    """Be the command; does not return."""
    from counton.cli.__main__ import main

    size, files, _, _ = socket.recv_fds(client, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += client.recv(1 << 20)
    said = json.loads(text)
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    # Of these descriptors, as an interpreter makes them that starts with them.
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        "utf-8",
        "backslashreplace",
        line_buffering=True,
    )
    os.chdir(said["folder"])
    os.environ.clear()
    os.environ.update(said["environment"])
    resource.setrlimit(resource.RLIMIT_FSIZE, said["limit"])
    sys.argv = ["counton", *said["words"]]
    code: object = 0
    try:
        main()
    except SystemExit as left:
        code = left.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(str(int(code) if isinstance(code, int) else 1).encode())
    os._exit(0)


if __name__ == "__main__":
    for module in _modules():
        with suppress(ImportError):  # of an extra that is not installed
            import_module(module)
    import typer.main

    from counton.cli import app, statistic
    from counton.noise import samplers

    # Commands are built once, and not by each child; powers of a law once, and not for each cell.
    setattr(typer.main, "get_command", cache(typer.main.get_command))  # noqa: B010
    setattr(samplers, "exp_bracket", lru_cache(50_000)(samplers.exp_bracket))  # noqa: B010
    for group in (app.app, statistic.commands()):
        typer.main.get_command(group)
    gc.freeze()  # else each child's first collection copies all that the parent holds
    _serve(sys.argv[1])
