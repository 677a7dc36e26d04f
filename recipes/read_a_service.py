"""Fetch a stream of a counton service into a released file, which `counton.read` reads.

    COUNTON_TOKEN=... python recipes/read_a_service.py https://counts.example/v1/streams/a a.json

Leave COUNTON_TOKEN out where everybody may read. It needs httpx.
"""

import json
import os
import sys
from pathlib import Path

import httpx

from counton import read


def fetch(stream: str, file: Path, token: str | None, client: httpx.Client | None = None) -> None:
    """Write all that a stream has released into ``file``, and its description beside it."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    found = (client or httpx).get(f"{stream}/release", headers=headers).raise_for_status().json()
    file.write_text(json.dumps(found.pop("rows")))
    file.with_name(f"{file.name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    fetch(sys.argv[1], Path(sys.argv[2]), os.environ.get("COUNTON_TOKEN"))
    print(read(sys.argv[2]))
