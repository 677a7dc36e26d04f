"""Grafana's dashboard over HTTP: every question of its file, to a real service."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from services import START, RunningService, job_file, rows, running

BOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy/grafana/counton-service.json").read_text("utf-8")
)
PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in BOARD["panels"]}
VARIABLES: dict[str, dict[str, Any]] = {each["name"]: each for each in BOARD["templating"]["list"]}
CHOSEN = {
    "stream": "visits",
    "group": "home",
    "__from:date:iso": START.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    "__to:date:iso": (START + timedelta(hours=9)).isoformat(timespec="milliseconds"),
}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("service")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("board")
    with running(job_file(folder, series="both")) as found:
        found.post("first", rows(0, ["home", "shop", "home"]))
        found.at(3)
        found.wait_for(3)
        yield found


def written_out(text: str) -> str:
    """A text as Grafana sends it."""
    found = re.sub(r"\$\{([^}]+)\}", lambda named: CHOSEN[named[1]], text)
    assert "$" not in found
    return found


def at(value: Any, selector: str) -> Any:
    """The part of an answer that a selector names: of keys, and of the one that has a name."""
    for key, wanted in re.findall(r'(\w+)(?:\[name="([^"]*)"\])?', written_out(selector)):
        value = value[key]
        if wanted:
            (value,) = (one for one in value if one["name"] == wanted)
    return value


def answered(service: RunningService, query: dict[str, Any]) -> list[Any]:
    """Rows as the data source reads them: what columns say, under their names."""
    assert (query["type"], query["source"], query["parser"]) == ("json", "url", "backend")
    asked = {one["key"]: written_out(one["value"]) for one in query["url_options"]["params"]}
    answer = service.get(written_out(query["url"]), **asked)
    assert answer.status_code == 200, answer.text
    found = at(answer.json(), query["root_selector"])
    return [
        {
            column["text"]: _typed(row[column["selector"]], column["type"])
            for column in query["columns"]
        }
        if query["columns"]
        else row
        for row in (found if isinstance(found, list) else [found])
    ]


def _typed(value: Any, kind: str) -> Any:
    assert isinstance(value, int | float if kind == "number" else str)
    return datetime.fromisoformat(str(value)) if kind == "timestamp" else value


def test_every_question_of_the_board_is_answered(service: RunningService) -> None:
    for panel in PANELS.values():
        (target,) = panel["targets"]
        assert answered(service, target), panel["title"]
    streams = answered(service, VARIABLES["stream"]["query"]["infinityQuery"])
    assert streams == [{"name": "visits"}]
    assert answered(service, VARIABLES["group"]["query"]["infinityQuery"]) == ["home", "shop"]


def test_dashboard_bands_equal_intervals_of_service(service: RunningService) -> None:
    for title, series in (
        ("$group: running number", "cumulative"),
        ("$group: each window", "per-window"),
    ):
        panel = PANELS[title]
        found = answered(service, panel["targets"][0])
        published = service.series(group="home", series=series)
        assert [row["estimate"] for row in found] == [one["estimate"] for one in published]
        assert [row["time"] for row in found] == [
            START + timedelta(minutes=minute) for minute in (1, 2, 3)
        ]
        low, up = (each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"])
        assert {low, up, "time", "estimate"} == found[0].keys()


def test_panels_query_chosen_service() -> None:
    kind = VARIABLES["source"]["query"]
    for panel in PANELS.values():
        assert panel["datasource"] == panel["targets"][0]["datasource"]
        assert panel["datasource"] == {"type": kind, "uid": "${source}"}
