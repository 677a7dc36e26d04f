"""Send the rows of a growing file of JSON lines to a counton service, each until it is taken.

    COUNTON_TOKEN=... python recipes/send.py visits.jsonl https://counts.example/v1/streams/visits

``visits.jsonl.sent`` notes which bytes are being sent. So the program may be killed at any time and
run again, also after lines were added: a batch that was under way is sent again under its id, and
counts once. A last line without its newline waits. It needs httpx.

A batch is smaller than 1 MiB, the largest body that nginx passes on unless it is told otherwise. A
single line that is longer is a batch of its own.
"""

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import BinaryIO

import httpx

#: Largest size of a batch in bytes, and seconds after which the program gives up.
BYTES = 2**19
PATIENCE = 600.0


def send(file: Path, stream: str, token: str) -> int:
    """Send what is new in a file, and return the number of rows that count."""
    notes = file.with_name(f"{file.name}.sent")
    counted = 0
    begin, end = map(int, notes.read_text().split()) if notes.exists() else (0, 0)
    with file.open("rb") as rows, httpx.Client(timeout=60) as client:
        while True:
            rows.seek(begin)
            part = rows.read(end - begin) if end > begin else lines(rows)
            if not part:
                return counted
            new = notes.with_name(f"{notes.name}.new")
            new.write_text(f"{begin} {begin + len(part)}")
            new.replace(notes)
            batch = hashlib.sha256(f"{begin}\n".encode() + part).hexdigest()
            counted += post(client, f"{stream}/batches/{batch}", token, part)
            begin = end = begin + len(part)


def lines(rows: BinaryIO) -> bytes:
    """Return the next whole lines of a file, of at most ``BYTES`` bytes or a single one."""
    part = rows.read(BYTES)
    if b"\n" not in part:
        part += rows.readline()
    return part[: part.rfind(b"\n") + 1]


def post(client: httpx.Client, address: str, token: str, rows: bytes) -> int:
    """Post one batch until the service answers; return how many of its rows count from now on."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    wait = 0.25
    until = time.monotonic() + PATIENCE
    while True:
        try:
            answer = client.post(address, content=rows, headers=headers)
        except httpx.TransportError:
            answer = httpx.Response(503)
        if answer.is_success:
            return int(answer.json()["counted"]) if answer.status_code == 202 else 0
        again = answer.status_code in (400, 408, 429) or answer.is_server_error
        if not again or time.monotonic() > until:
            raise SystemExit(f"the service answered {answer.status_code}: {answer.text}")
        time.sleep(max(wait, float(answer.headers.get("Retry-After", 0))))
        wait = min(2 * wait, 30)


if __name__ == "__main__":
    print(send(Path(sys.argv[1]), sys.argv[2], os.environ["COUNTON_TOKEN"]), "rows count")
