"""Records for the public register of deployments: they fit its schema, and say what is so."""

from __future__ import annotations

import copy
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from once import kept_line

from counton import ZCDP, ApproxDP, PureDP, Stream
from counton.privacy import ExpiringDP
from counton.released.registry import TO_WRITE, as_yaml
from counton.run.exports import registry
from counton.strategies import Binary, Expiring

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "support" / "registry_schema.json").read_text(encoding="utf-8")
)["schema"]
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
}  # fmt: skip


def misfits(value: Any, schema: dict[str, Any], place: str = "") -> list[str]:
    """Where a value does not fit a schema: types, words, missing and unknown fields, dates."""
    kinds = schema.get("type", [*TYPES])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool) or not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{place}: {value!r} is none of {kinds}"]
    found = []
    if value not in schema.get("enum", [value]):
        found.append(f"{place}: {value!r} is no word of it")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [
            f"{place}: lacks {name}" for name in schema.get("required", ()) if name not in value
        ]
        for name, one in value.items():
            if name in known:
                found += misfits(one, known[name], f"{place}/{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{place}: {name} is not known")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(f"{place}: too few")
        found += [bad for one in value for bad in misfits(one, schema.get("items", {}), place)]
    if schema.get("format") == "date" and not re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        found.append(f"{place}: {value!r} is no date")
    return found


def test_a_count_has_a_record_that_fits(place: Any) -> None:
    place.count(place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"]), "--unit", "visit")
    done = place("methods", str(place.state), "--registry")
    assert done.code == 0
    found = yaml.safe_load(done.out)
    assert misfits(found, SCHEMA) == []
    basic, loss = found["deployment"]["basic"], found["deployment"]["privacy_loss"]
    assert date.fromisoformat(basic["publication_date"]).year > 2000
    assert loss["privacy_unit"] == "visit"
    assert found["deployment"]["deployment_model"]["release_type"] == "Many releases"
    paragraphs = place("methods", str(place.state), "--full").out.strip().split("\n\n")
    assert basic["description"] == paragraphs[0]
    assert loss["privacy_unit_details"] == paragraphs[1]
    assert loss["privacy_parameters_details"] == paragraphs[2]
    assert paragraphs[-2] == found["deployment"]["dp_variant"]["unprotected_quantities"]
    assert "counton 0" in found["deployment"]["implementation"]["mechanisms"]
    told = json.loads(place("methods", str(place.state), "--registry", "--json").out)
    assert told["registry"]["events"] == found


def test_a_released_file_has_the_record_but_for_what_it_does_not_say(place: Any) -> None:
    file = place.write("a.csv", ["00:30,a", "01:30,b", "02:10,a"])
    place.count(file, "--unit", "visit", "--out", str(place.folder / "t.parquet"))
    own = yaml.safe_load(place("methods", str(place.state), "--registry").out)
    done = place("methods", str(place.folder / "t.parquet"), "--registry")
    assert done.code == 0, done.err
    found = yaml.safe_load(done.out)
    (bad,) = misfits(found, SCHEMA)
    assert bad.startswith("/deployment/basic/publication_date: 'FILL IN:")
    date_of = found["deployment"]["basic"]
    date_of["publication_date"] = own["deployment"]["basic"]["publication_date"]
    spent = found["deployment"]["accounting"]["composition"]
    assert "FILL IN: what other releases" in spent
    found["deployment"]["accounting"]["composition"] = own["deployment"]["accounting"][
        "composition"
    ]
    assert found == own


@pytest.mark.parametrize(
    ("guarantee", "variant", "parameters"),
    [
        (PureDP("0.5"), "Pure DP", {"epsilon": 0.5}),
        (ApproxDP(1, "1e-6"), "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
        (ZCDP("0.1"), "Zero-concentrated DP", {"rho": 0.1}),
    ],
)
def test_each_guarantee_is_called_as_the_register_does(
    tmp_path: Path, guarantee: Any, variant: str, parameters: dict[str, float]
) -> None:
    with Stream.create(tmp_path / "s.db", "Page views, 2024", Binary(9), guarantee) as stream:
        stream.release(3)
    (found,) = registry(tmp_path / "s.db").values()
    assert misfits(found, SCHEMA) == []
    assert yaml.safe_load(as_yaml(found)) == found
    assert found["url_slug"] == "page-views-2024"
    assert found["deployment"]["dp_variant"]["variant_name"] == variant
    assert found["deployment"]["privacy_loss"]["privacy_parameters"] == parameters


def test_what_fades_and_what_is_released_once(tmp_path: Path) -> None:
    strategy = Expiring(1, 0)
    fades = ExpiringDP(1).bound_to(strategy)
    with Stream.create(tmp_path / "s.db", "fades", strategy, fades) as stream:
        stream.release(3)
    kept_line([5, 0, 7], tmp_path / "s.db", "line")
    found = registry(tmp_path / "s.db")
    for one in found.values():
        assert misfits(one, SCHEMA) == []
        assert yaml.safe_load(as_yaml(one)) == one
    assert found["fades"]["deployment"]["dp_variant"]["variant_name"] == "Custom"
    assert found["fades"]["deployment"]["privacy_loss"]["privacy_parameters"] == {}
    assert found["line"]["deployment"]["deployment_model"]["release_type"] == "One release"
    composed = found["line"]["deployment"]["accounting"]["composition"]
    assert "'fades'" in composed
    assert "'line'" in composed


def test_what_nobody_can_know_is_marked_as_to_be_written(tmp_path: Path) -> None:
    with Stream.create(tmp_path / "s.db", "visits", Binary(9), PureDP(1)) as stream:
        stream.release(3)
    text = as_yaml(registry(tmp_path / "s.db")["visits"])
    for field in ("data_curators", "intended_use", "data_product_region", "justification"):
        assert re.search(rf'{field}:\s+(- |>-\s+)?"?{TO_WRITE}', text)


WRONG: dict[str, Any] = {
    "a field less": lambda record: record["deployment"]["basic"].pop("description"),
    "a field more": lambda record: record.update(surprise=1),
    "another word": lambda record: record.update(status="Done"),
    "a text for a number": lambda record: record["deployment"]["privacy_loss"][
        "privacy_parameters"
    ].update(epsilon="1"),
    "no authors": lambda record: record["deployment"]["administrative"].update(registry_authors=[]),
    "no date": lambda record: record["deployment"]["basic"].update(publication_date="May"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_record_that_does_not_fit_is_found(tmp_path: Path, what: str) -> None:
    with Stream.create(tmp_path / "s.db", "visits", Binary(9), PureDP(1)) as stream:
        stream.release(3)
    wrong = copy.deepcopy(registry(tmp_path / "s.db")["visits"])
    WRONG[what](wrong)
    assert len(misfits(wrong, SCHEMA)) == 1
