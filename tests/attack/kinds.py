"""What is tried: each kind of attack draws cases, runs one, and says what may be left out of it.

A case is made of JSON values, so that one that finds something can be kept in a file, made smaller
and run again. A run ends in a word for the count, or in an error that says what is wrong.
"""

import base64
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from histories import History, drawn, two_files
from inside import EXACT, inside, metric
from made_up_batches import JOBS, check, drawn_batches
from worlds import drawn_acts, nights

from tests.attack import deliveries, lines, neighbours, noise, reference

Case = dict[str, Any]


class Kind(NamedTuple):
    """One kind of attack.

    Attributes:
        draw: a case, by chance.
        run: tries a case in an empty folder, and says what it was a case of.
        parts: names of the lists in a case whose items may be left out one by one.
        share: how often it is drawn, beside the others.
    """

    draw: Callable[[random.Random], Case]
    run: Callable[[Case, Path], str]
    parts: tuple[str, ...]
    share: int


def draw_history(chance: random.Random) -> Case:
    return {"moves": drawn(chance, 30)}


def run_history(case: Case, folder: Path) -> str:
    """Copies of a state in two places, keys with many names, kills: no noise on two data sets."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder / "home"))
        history = History(folder, two_files(folder))
        history.run([(str(name), int(place), int(seed)) for name, place, seed in case["moves"]])
    return f"{min(history.went.get('restore', 0), 3)} restored, {'killed' in history.went:d} killed"


def draw_world(chance: random.Random) -> Case:
    return {"acts": drawn_acts(chance, 60)}


def run_world(case: Case, folder: Path) -> str:
    """State, key and witness put back from other nights: one that knows is enough."""
    home = folder / "home"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(home))
        world = nights(folder / "w", home)
        for what, part, copy, rows in case["acts"]:
            world.act(what, part, copy, rows)
    return f"{min(world.unnoticed, 1)} unnoticed"


#: Requests that are no batches: what they ask for, and with whose token.
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
PATHS = (
    *("/", "/v1", "/v1/streams", "/metrics", "/ready", "/health", "/openapi.json", "/docs", "//"),
    *("/v1/../metrics", "/v1/streams/%2e%2e/series", "/v1/streams/%00/series", "/v1/streams/none"),
    *(f"/v1/streams/visits{path}" for path in (
        "", "/series", "/release", "/difference", "/methods", "/figure", "/batches/a",
        "/batches/" + "a" * 3000, "/batches/%00", "/batches/..%2f..%2fkey", "/series.csv",
    )),
)  # fmt: skip
QUERIES: tuple[dict[str, str], ...] = (
    {}, {"last": "1"}, {"last": "-1"}, {"last": "9" * 400}, {"last": "nan"}, {"step": "1e999"},
    {"confidence_level": "0.5"}, {"confidence_level": "1e-400"}, {"confidence_level": "2"},
    {"group": "home"}, {"group": "\0"},
    {"from": "9999-12-31T23:59:59-14:00"}, {"until": "x" * 9000}, {"format": "csv"}, {"a": "b"},
    {"since": "1d"}, {"sums": "1w"}, {"sums": "1000000000y"},
)  # fmt: skip
HEADERS: tuple[dict[str, str], ...] = (
    {}, {"Accept": "text/csv"}, {"Accept": "\x7f"}, {"Range": "bytes=-1"}, {"Host": ""},
    {"Content-Encoding": "gzip"}, {"Content-Type": "application/x-ndjson"},
    {"Content-Length": "-1"}, {"If-None-Match": '"' + "a" * 9000}, {"Authorization": "Basic"},
    {"Authorization": "Bearer \xff"},
)  # fmt: skip


def draw_requests(chance: random.Random) -> Case:
    batches = drawn_batches(chance, chance.randint(1, 30))
    asked = [
        [
            chance.choice(METHODS), chance.choice(PATHS), chance.choice(QUERIES),
            chance.choice(HEADERS), chance.choice([None, "write", "read"]),
        ]
        for _ in range(chance.randint(1, 40))
    ]  # fmt: skip
    return {
        "job": chance.choice(sorted(JOBS)),
        "policies": chance.random() < 0.7,
        "batches": [base64.b64encode(body).decode() for body in batches],
        "asked": asked,
    }


def run_requests(case: Case, folder: Path) -> str:
    """Each is answered with a status below 500; what is accepted is counted, and nothing else."""
    more = {"missing_values": "drop"} if case["policies"] else {}
    with inside(folder, **{**EXACT, **more, **JOBS[case["job"]]}) as service:
        scopes = {*service.tokens}
        for method, path, query, headers, scope in case["asked"]:
            known = scope if scope in scopes and "Authorization" not in headers else None
            answer = service(method, path, known, params=query, headers=_bytes(headers))
            assert answer.status_code < 500, (method, path, query, headers, answer.text[:300])
            assert "Traceback" not in answer.text, answer.text[:300]
        accepted = check(service, [*map(base64.b64decode, case["batches"])])
        if case["job"] in ("groups", "refused", "other"):
            counted = sum(row["estimate"] for row in service.rows(last=1))
            assert counted == accepted, f"{counted} rows count, and {accepted} were accepted"
        assert metric(service, "steps") == 60
    return str(case["job"])


def _bytes(headers: dict[str, str]) -> dict[Any, Any]:
    return {name.encode(): value.encode("latin-1") for name, value in headers.items()}


@contextmanager
def keys_of(seed: str) -> Iterator[None]:
    """Keys and identities are a function of a seed, from the first one on."""
    number = itertools.count()

    def token_bytes(size: int = 32) -> bytes:
        return hashlib.shake_256(f"{seed} {next(number)}".encode()).digest(size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("secrets.token_bytes", token_bytes)
        patched.setattr("secrets.token_hex", lambda size=32: token_bytes(size).hex())
        yield


KINDS: dict[str, Kind] = {
    "neighbours": Kind(neighbours.draw, neighbours.run_both, ("nights.0", "nights.1", "unit"), 8),
    "files": Kind(neighbours.draw_file, neighbours.run_both, ("nights.0", "nights.1", "unit"), 4),
    "deliveries": Kind(deliveries.draw, deliveries.run_both, ("others", "unit"), 4),
    "noise": Kind(noise.draw, noise.run_alone, (), 2),
    "reference": Kind(reference.draw, reference.run, (), 4),
    "histories": Kind(draw_history, run_history, ("moves",), 2),
    "copies": Kind(draw_world, run_world, ("acts",), 2),
    "lines": Kind(lines.draw, lines.run, ("files",), 8),
    "requests": Kind(draw_requests, run_requests, ("batches", "asked"), 2),
}
