"""The JSON schema of job files, for editors: made from the models."""

from __future__ import annotations

from typing import Any

from counton.job.job_file import PublishTable
from counton.job.option_fields import Section
from counton.job.report import member_model
from counton.job.statistics import all_models


def schema() -> dict[str, Any]:
    """Build the JSON schema of a job file.

    >>> schema()["$defs"]["count"]["properties"]["every"]["description"]
    'Length of a window: 15m, 1h, 1d, 1w or 1mo.'
    """
    models = all_models()
    definitions = {name: _table(model) for name, model in models.items()}
    members = {
        f"{name} of a report": _table(member_model(name)) for name in models if name != "report"
    }
    shared = {
        key: value
        for table in reversed(definitions.values())
        for key, value in table["properties"].items()
    }
    shared["statistic"] = {
        "enum": list(models),
        "description": "; ".join(f"{name}: {model.summary}" for name, model in models.items()),
    }
    report = {
        "type": "object",
        "properties": definitions["report"]["properties"],
        "additionalProperties": _one_of(members),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "jobs of counton",
        "type": "object",
        "properties": {
            "defaults": {"type": "object", "properties": shared, "additionalProperties": False},
            "jobs": {"type": "object", "additionalProperties": _one_of(definitions)},
            "report": {"type": "object", "additionalProperties": report},
            "serve": {"type": "object", "description": "settings of counton serve"},
            "publish": _table(PublishTable),
        },
        "anyOf": [{"required": ["jobs"]}, {"required": ["report"]}],
        "additionalProperties": False,
        "$defs": definitions | members,
    }


def _table(model: type[Section]) -> dict[str, Any]:
    """Return the schema of one table; what it needs may stand under [defaults]."""
    table = model.model_json_schema(by_alias=True)
    table.pop("required", None)
    for value in table["properties"].values():
        value.pop("title", None)
        value.pop("x-counton", None)
        choices = [choice for choice in value.pop("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            value.update(choices[0])
        elif choices:
            value["anyOf"] = choices
        if value.get("default") in (None, False):
            value.pop("default", None)
    return table


def _one_of(tables: dict[str, Any]) -> dict[str, object]:
    """Return the schema of a table whose ``statistic`` says which of several it is."""
    chosen: dict[str, object] = {"$ref": f"#/$defs/{next(iter(tables))}"}
    for name in reversed(list(tables)[1:]):
        statistic = {
            "properties": {"statistic": {"const": tables[name]["properties"]["statistic"]["const"]}}
        }
        chosen = {
            "if": {**statistic, "required": ["statistic"]},
            "then": {"$ref": f"#/$defs/{name}"},
            "else": chosen,
        }
    return chosen
