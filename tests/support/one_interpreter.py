"""Several commands in one new interpreter: what is imported is tried, and begins once."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = """
import json, sys
from counton.cli.__main__ import main
for words in json.loads(sys.argv[1]):
    print("$", flush=True)
    sys.argv = ["counton", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            print(words, file=sys.stderr)
            raise
"""


def printed_by_each(
    commands: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """What each command of counton prints, none of which fails."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([*commands])],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("$\n")[1:]
