"""The command `counton` and programs of tests, forked from a process that has imported everything.

Pages of the documentation call the command a hundred times, and tests run dozens of programs that
are killed, or take little memory. An interpreter of its own for each costs a second, nearly all of
it imports. So a program of the same name stands first on PATH: it hands its words, folder,
environment, limit and open files to a process which forks, and ends with its code.
`forked_python` takes a file or ``-c TEXT``, as an interpreter does.
"""

import atexit
import gc
import io
import os
import resource
import runpy
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numbered_keys import number_keys
from patience import HANGS

_ANSWER = 8
#: The exit code of a program that was gone before it ended.
GONE = 70
#: It imports what starts fast: beside the interpreter, modules are most of what it takes.
_CLIENT = """#!{python} -IS
import _socket, array, os, resource, sys
said = dict(
    name=os.path.basename(sys.argv[0]), words=sys.argv[1:],
    folder=os.getcwd(), environment=dict(os.environ),
    limit=resource.getrlimit(resource.RLIMIT_FSIZE),
)
text = repr(said).encode()
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
files = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2])
server.sendmsg([len(text).to_bytes(8, "big")], [files])
server.sendall(text)
answer = server.recv({size})
sys.exit(int(answer or {gone}))
"""


#: Where the programs of a process lie that was begun before, by whoever began this one.
_FOLDER = "COUNTON_FORKED_COMMANDS"
#: A file in that folder, once the process answers.
_READY = "ready"


@pytest.fixture(scope="session")
def forked_commands() -> Path:
    """A folder for PATH with a `counton` that starts at once."""
    return _folder()


def forked_counton() -> str:
    """The command `counton`, in a process that has imported everything."""
    return str(_folder() / "counton")


def forked_python() -> str:
    """A program that runs a file, or ``-c TEXT``, in a process that has imported everything."""
    return str(_folder() / "forked-python")


@cache
def _folder() -> Path:
    known = os.environ.get(_FOLDER)
    folder = Path(known) if known else begin()
    end = time.monotonic() + HANGS
    while not (folder / _READY).exists():
        assert time.monotonic() < end, "the process that forks commands does not start"
        time.sleep(0.02)
    return folder


def begin() -> Path:
    """Begin the process that forks, for this process and those it begins; waits for nothing."""
    folder = Path(tempfile.mkdtemp(prefix="counton-"))
    address = str(folder / "socket")
    for name in ("counton", "forked-python"):
        client = folder / name
        said = {"python": sys.executable, "address": address, "size": _ANSWER, "gone": GONE}
        client.write_text(_CLIENT.format(**said))
        client.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, address],
        stdin=subprocess.PIPE,  # its end is the end of this process, however that ends
        stdout=subprocess.DEVNULL,
    )
    os.environ[_FOLDER] = str(folder)
    atexit.register(_end, server, folder, os.getpid())
    return folder


def _end(server: subprocess.Popen[bytes], folder: Path, begun_by: int) -> None:
    if os.getpid() == begun_by:  # and not a fork of it
        server.communicate(timeout=HANGS)  # closes what it reads from
        shutil.rmtree(folder, ignore_errors=True)


#: What commands import on their way, beside all that is counton's.
_HEAVY = (
    *("matplotlib.backends.backend_agg", "matplotlib.figure", "psycopg", "rich.table"),
    *("scipy.optimize", "scipy.special", "scipy.stats", "dp_accounting", "threadpoolctl"),
    *("rich._emoji_codes", "encodings.ascii"),
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
        Path(address).with_name(_READY).touch()
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
    size, files, _, _ = socket.recv_fds(client, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += client.recv(1 << 20)
    said = literal_eval(text.decode())
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
    number_keys()
    code: object = 0
    try:
        (_be_python if said["name"] == "forked-python" else _be_counton)(said["words"])
    except SystemExit as left:
        code = left.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(str(int(code) if isinstance(code, int) else 1).encode())
    os._exit(0)


def _be_counton(words: Sequence[str]) -> None:
    from counton.cli.__main__ import main

    sys.argv = ["counton", *words]
    main()


def _be_python(words: Sequence[str]) -> None:
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [*words]
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    for module in _modules():
        with suppress(ImportError):  # of an extra that is not installed
            import_module(module)
    import click

    from counton.cli.app import app

    # Modules of commands are imported once, and not by each child.
    with click.Context(app) as context:
        for command in app.list_commands(context):
            app.get_command(context, command)
    gc.freeze()  # else each child's first collection copies all that the parent holds
    _serve(sys.argv[1])
