"""The recipe ``recipes/read_a_service.py``: a fetched stream reads like the file of an export."""

import runpy
from pathlib import Path
from typing import Any

import httpx
import pytest
from inside import inside, visit

from counton import read
from counton.run.outputs.exports import export

RECIPE = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "read_a_service.py"))
AVERAGE = {"statistic": "average", "value": "spent", "lower": 0, "upper": 10, "resolution": 0.5}
JOBS: list[dict[str, Any]] = [
    {"confidence_level": 0.9},
    {"series": "both"},
    {"series": "per-window"},
    {"allowed_lateness": "1m", "windows": None},
    {**AVERAGE, "over": 1, "confidence_level": 0.8},
]


class Client:
    """A client whose requests a service in this process answers."""

    def __init__(self, service: Any) -> None:
        self.service = service

    def get(self, address: str, headers: dict[str, str]) -> httpx.Response:
        found: httpx.Response = self.service(
            "GET", address.removeprefix("http://service"), headers=headers
        )
        found.request = httpx.Request("GET", address)
        return found


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_a_fetched_stream_is_the_release_of_the_file(tmp_path: Path, job: dict[str, Any]) -> None:
    with inside(tmp_path, **job) as service:
        spent: dict[str, Any] = {"spent": 2.5} if "value" in job else {}
        for minute in (1, 2):
            service.post(f"batch {minute}".replace(" ", ""), [visit(minute - 0.5, **spent)] * 300)
            service.at(minute)
        export(str(tmp_path / "visits.db"), tmp_path / "visits.parquet")
        file = tmp_path / "fetched.json"
        RECIPE["fetch"]("http://service/v1/streams/visits", file, None, Client(service))
        here = read(file)
        there = read(tmp_path / "visits.parquet")
        assert here.table().equals(there.table())
        assert here.table().schema == there.table().schema
        assert here.methods() == there.methods()


def test_a_service_that_is_not_public_wants_its_token(tmp_path: Path) -> None:
    with inside(tmp_path, serve={"public": False}) as service:
        service.at(1)
        asked = "http://service/v1/streams/visits", tmp_path / "fetched.json"
        with pytest.raises(httpx.HTTPStatusError):
            RECIPE["fetch"](*asked, None, Client(service))
        assert not asked[1].exists()
        RECIPE["fetch"](*asked, service.tokens["read"], Client(service))
        assert read(asked[1]).table().height
