"""The same options, keys and rows have the same released numbers, bit by bit, for ever.

``released.json`` has numbers that an earlier version released, each with what defines it: of every
statistic, strategy and guarantee, with and without people, once and over time, with late rows, and
of training. Whoever changes the package changes none of them; ``python -m tests.net`` adds cases
that are new, and refuses to write another number over one that stands there. A service and Spark
have the numbers of one machine, which `tests/serve` and `tests/spark` hold.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from some_cases import long
from witnesses import without_witness

from counton.privacy import Guarantee
from tests.net import nights, streams

FILE = Path(__file__).with_name("released.json")
KNOWN: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
NIGHTS = dict(nights.cases())
PURE, APPROXIMATE, CONCENTRATED = streams.GUARANTEES
#: One of each family of statistics and each kind of input, which `make test` runs; each guarantee.
OF_EACH_KIND = {
    *("other, over time", "found, over time", "both, over time", "sum by group, over time"),
    *("average by group, over time", "quantiles, over time", "quantiles haar, once"),
    *("top-k, over time", "moments, over time", "hierarchy, over time", "ranges, once"),
    *("contingency, once", "distinct, over time", "report of users, over time"),
    *("users by rows, over time", "count, pure", "groups, people, zero-concentrated"),
    *("groups, people of two days, pure", "groups, people once, approximate"),
    *("groups, first of people, pure", "groups, ids, zero-concentrated", "expiring late"),
}


@pytest.fixture(autouse=True)
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, salts and identities are the same for each case."""
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", nights.known_bytes)
    monkeypatch.setattr("counton.noise.key.secrets.token_hex", nights.known_hex)
    without_witness(monkeypatch)


@pytest.mark.every_case
@pytest.mark.parametrize("name", [name if name in OF_EACH_KIND else long(name) for name in NIGHTS])
def test_jobs_release_stored_values(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert {"spec": NIGHTS[name].spec, "released": nights.released(NIGHTS[name], tmp_path)} == (
        KNOWN[name]
    )


@pytest.mark.parametrize("guarantee", [PURE, CONCENTRATED, long(APPROXIMATE)], ids=str)
def test_counters_release_stored_values(guarantee: Guarantee) -> None:
    known = {name: case for name, case in KNOWN.items() if name.startswith("counter, ")}
    of_it = {name: case for name, case in known.items() if name.endswith(f", {guarantee}")}
    assert as_kept(streams.counters([guarantee])) == of_it
    assert len(of_it) > len(known) / 4


def test_training_noise_equals_stored_values() -> None:
    known = {name: case for name, case in KNOWN.items() if name.startswith("training, ")}
    assert as_kept(streams.training()) == known


def as_kept(cases: Iterable[tuple[str, str, list[str]]]) -> dict[str, dict[str, Any]]:
    return {name: {"spec": spec, "released": values} for name, spec, values in cases}


def test_numbers_are_thousands_and_none_is_that_of_another_case() -> None:
    """One wrong case would be seen: noise hides no difference, since most numbers carry some."""
    released = [tuple(case["released"]) for case in KNOWN.values()]
    assert sum(map(len, released)) > 3000
    assert Counter(released).most_common(1)[0][1] <= 8  # a period as long as all, ids that differ
    assert NIGHTS.keys() >= OF_EACH_KIND


def test_comparison_detects_values_under_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = bytes(reversed(range(64)))
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", lambda size: secret[:size])
    name = "groups, pure"
    assert nights.released(NIGHTS[name], tmp_path) != KNOWN[name]["released"]
