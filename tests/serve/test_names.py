"""Names of streams in the addresses of a service."""

import json
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from inside import inside, visit
from services import START, job_file

from counton.serve.service import Service


@pytest.mark.parametrize("name", ["a/b", "/", ".", "..", "../visits"])
def test_stream_name_unfit_for_web_address_is_refused(tmp_path: Path, name: str) -> None:
    file = job_file(tmp_path, jobs={"visits": {}, "other": {"stream": name, "state": "other.db"}})
    service = Service(file, clock=lambda: START)
    with closing(service):
        assert list(service.served) == ["visits"]
        (reason,) = map(str, service.failed.values())
        assert "job 'other'" in reason
        assert f"stream is {name!r}, which cannot be part of a web address" in reason
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    "name",
    ["a b", "a?b=c", "a#b", "a%2Fb", "a%b", "a+b", "Z\u00fcrich", "a\\b", "a.b", "...", "a\nb"],
)
def test_stream_of_any_other_name_is_served(tmp_path: Path, name: str) -> None:
    with inside(tmp_path, stream=name) as service:
        service.at(1)
        path = f"/v1/streams/{quote(name, safe='')}"
        assert service("GET", path).json()["name"] == name
        assert len(service("GET", f"{path}/series").json()["rows"]) == 2
        body = json.dumps(visit(1.5)).encode()
        headers = {"Content-Type": "application/x-ndjson"}
        sent = service("POST", f"{path}/batches/a", "write", content=body, headers=headers)
        assert sent.status_code == 202
