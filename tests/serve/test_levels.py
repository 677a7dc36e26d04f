"""The probability of intervals, where a reader asks for none: that of the stream's files."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from inside import Inside, inside, visit

from counton.base.distributions import distribution_from_dict
from counton.base.table_schema import ESTIMATE
from counton.run.outputs.exports import export
from counton.serve.public_series import SeriesSelection

AVERAGE = {"statistic": "average", "value": "spent", "lower": 0, "upper": 10, "resolution": 0.5}
QUANTILES = {"statistic": "quantiles", "value": "spent", "lower": 0, "upper": 10, "cells": 8}


def asked(service: Inside, path: str, **query: Any) -> dict[str, Any]:
    answer = service("GET", f"/v1/streams/visits{path}", params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize("job", [{}, AVERAGE], ids=["count", "average"])
@pytest.mark.parametrize("level", [None, 0.8])
def test_every_path_has_the_level_of_the_files(
    tmp_path: Path, job: dict[str, Any], level: float | None
) -> None:
    stated = {} if level is None else {"confidence_level": level}
    with inside(tmp_path, **job, **stated) as service:
        service.post("a", [visit(0.5, spent=2.5), visit(1.5, "shop", spent=3.5)])
        service.at(2)
        level = 0.95 if level is None else level
        export(str(tmp_path / "visits.db"), tmp_path / "visits.json")
        written = json.loads((tmp_path / "visits.json").read_text())
        whole = asked(service, "/release")
        series = asked(service, "/series")
        for told in (asked(service, ""), whole, series):
            assert told["confidence_level"] == level
        ends = [(row["lower"], row["upper"]) for row in written]
        assert [(row["lower"], row["upper"]) for row in whole["rows"]] == ends
        assert [(row["lower"], row["upper"]) for row in series["rows"]] == ends
        wide = asked(service, "/series", confidence_level=0.99)
        assert wide["confidence_level"] == 0.99
        assert wide["rows"] != series["rows"]


@pytest.mark.parametrize("job", [{}, AVERAGE, QUANTILES, {"series": "both"}])
def test_answers_before_the_first_release_are_as_afterwards(
    tmp_path: Path, job: dict[str, Any]
) -> None:
    unknown = "/v1/streams/visits/series?group=elsewhere"
    with inside(tmp_path, **job, confidence_level=0.8) as service:
        before = asked(service, "/series")
        refused = service("GET", unknown)
        columns = service("GET", "/v1/streams/visits/series?format=csv").text.strip().split(",")
        assert {"window_index", "window_start", "series", *ESTIMATE} <= {*columns}
        assert before["rows"] == asked(service, "/series", group="home")["rows"] == []
        assert before["confidence_level"] == asked(service, "")["confidence_level"] == 0.8
        service.at(2)
        journal = service.service.journals["visits"]
        empty = journal.page(SeriesSelection(until="2000-01-01")).table
        full = journal.page().table
        assert empty.columns == full.columns
        assert (refused.status_code, refused.text) == (422, service("GET", unknown).text)
        about = asked(service, "")
        whole = asked(service, "/release")
        for told in (before, asked(service, "/series")):
            for name in ("unit", "protected", "guarantee"):
                assert told[name] == about[name] == whole[name]
            at = urljoin("/v1/streams/visits/series", told["description"])
            assert at == "/v1/streams/visits/release"


@pytest.mark.parametrize("job", [{}, AVERAGE, {"strategy": "binary"}])
def test_every_path_states_noise_in_data_units(tmp_path: Path, job: dict[str, Any]) -> None:
    with inside(tmp_path, **job) as service:
        service.at(2)
        distribution = asked(service, "/release")["description"]["terms"]["law"]
        journal = service.service.journals["visits"]
        terms = journal.read().design
        assert distribution_from_dict(distribution) == terms.distribution
        assert Fraction(distribution["grid"]) * 2**terms.strategy.facts.lattice_bits == 1
        assert Fraction(distribution["scale"]) < 100
        last = asked(service, "/series", last=1)["rows"][-1]  # of an average: the count
        assert asked(service, "/release")["noise"]["std"] == pytest.approx(last["noise_std"])
