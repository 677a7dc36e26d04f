"""A record for the public register of deployments of differential privacy, in YAML.

The register is at github.com/opendp/deployments-registry-data; fields, types and allowed words are
those of ``schemas/deployments-schema.yaml`` there. Facts that a release does not contain, such as
publisher and purpose, are marked so that a person fills them in.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from counton.numbers.design import Design
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP

#: Prefix that marks a text which a person must write.
TO_WRITE = "FILL IN:"
_WIDTH = 88
_VARIANTS: dict[type[Guarantee], str] = {
    PureDP: "Pure DP",
    ApproxDP: "Approximate DP",
    ZCDP: "Zero-concentrated DP",
}


def record(
    terms: Design,
    methods: str,
    *,
    unit: str,
    began: str,
    ledger: str,
    once: bool = False,
) -> dict[str, Any]:
    """Return a record of one stream for the public register of deployments of differential privacy,
    as a mapping from the register's fields to values.

    Args:
        terms: the design of the stream (strategy, guarantee and noise).
        methods: full text on the methods of the stream (`Release.methods`), from which sentences
            are taken.
        unit: the name of one protected unit.
        began: the day on which the stream was created, in ISO 8601.
        ledger: words on the budget spent by other releases of the same data.
        once: True if the data were released once, as a table.
    """
    released, protected, promised, *errors, noise, unprotected, table = methods.split("\n\n")
    guarantee = terms.guarantee
    rows = [re.split(r"\s{2,}", line, maxsplit=1) for line in table.split("\n")[1:]]
    sources = [said for name, said in rows if name == "source"]
    software = " ".join(said for name, said in rows if name == "software")
    steps = terms.strategy.horizon
    last = "as many steps as come" if steps is None else f"up to {steps:,} steps"
    over_time = (
        "One release; nothing more is released of it."
        if once
        else f"A release after every step, {last}. The parameters hold {guarantee.scope}."
    )
    parameters = {
        name: float(value)
        for name in ("epsilon", "delta", "rho")
        if type(guarantee) in _VARIANTS and (value := getattr(guarantee, name, None)) is not None
    }
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", terms.name.lower()).strip("-") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": terms.name,
                "data_curators": [f"{TO_WRITE} who publishes it"],
                "intended_use": f"{TO_WRITE} what it is for",
                "data_product_type": "Summary statistics",
                "data_product_region": f"{TO_WRITE} which region it describes",
                "description": released,
                "publication_date": began,
            },
            "dp_variant": {
                "variant_name": _VARIANTS.get(type(guarantee), "Custom"),
                "data_domain": f"All collections of rows that could have come. {released}",
                "unprotected_quantities": unprotected,
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": protected,
                "privacy_parameters": parameters,
                "privacy_parameters_details": promised,
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "Whoever holds the rows, the state or the key is trusted. Readers of "
                "what is released are not, whatever else they know; they may be the public.",
                "release_type": "One release" if once else "Many releases",
                "release_type_details": over_time,
                "data_source_type": "Static" if once else "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Whatever is computed from released numbers alone: totals, "
                "intervals, readings of a statistic, tables, charts. " + " ".join(errors),
                "composition": f"{over_time} {ledger}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{TO_WRITE} how the parameters named "
                "above were chosen, and whether these data were looked at for it",
                "mechanisms": f"{noise} Noise is made of exact integers, with no floating-point "
                f"number in the choice of a draw. Software: {software}.",
                "justification": f"{TO_WRITE} why these parameters",
            },
            "administrative": {
                "sources": "\n".join(sources) or f"{TO_WRITE} where it is described",
                "registry_authors": [f"{TO_WRITE} who writes this record"],
            },
        },
    }


def as_yaml(value: Mapping[str, Any]) -> str:
    """Return a record as YAML for editing, with long texts in blocks and short texts in quotes.

    >>> print(as_yaml({"tier": 3, "deployment": {"authors": ["ann"], "parameters": {}}}))
    tier: 3
    deployment:
      authors:
        - "ann"
      parameters: {}
    """
    return "\n".join(_lines(value, ""))


def _lines(value: Mapping[str, Any], indent: str) -> list[str]:
    found: list[str] = []
    for name, one in value.items():
        if isinstance(one, Mapping) and one:
            found += [f"{indent}{name}:", *_lines(one, f"{indent}  ")]
        elif isinstance(one, Sequence) and not isinstance(one, str):
            found += [f"{indent}{name}:", *(f"{indent}  - {_plain(each)}" for each in one)]
        elif isinstance(one, str) and len(one) > _WIDTH - 20:
            inner, style, lines = f"{indent}  ", "|-", one.split("\n")
            if len(lines) == 1:
                style, width = ">-", _WIDTH - len(inner)
                lines = textwrap.wrap(one, width, break_long_words=False, break_on_hyphens=False)
            found += [f"{indent}{name}: {style}", *(f"{inner}{line}" for line in lines)]
        else:
            found.append(f"{indent}{name}: {_plain(one)}")
    return found


def _plain(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # otherwise YAML 1.1 reads it as a text
    return text
