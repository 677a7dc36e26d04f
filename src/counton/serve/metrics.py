"""Numbers for the operator, as Prometheus reads them.

Numbers of rows are exact functions of the data, which no noise hides: they are for tokens of the
scope ``operate`` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import monotonic
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as MEDIA
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

from counton.serve.service import Service

__all__ = ["MEDIA", "text"]


class Number(NamedTuple):
    """A number, with its labels."""

    labels: dict[str, str]
    value: float


def text(
    service: Service, batches: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
) -> str:
    """All numbers of a service."""
    registry = CollectorRegistry()
    registry.register(_Numbers(service, batches, rows))
    return generate_latest(registry).decode()


class _Numbers(Collector):
    """What `text` writes, read when it is asked for."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def describe(self) -> list[Metric]:
        """Nothing: else the numbers would be read to learn their names."""
        return []

    @override
    def collect(self) -> Iterator[Metric]:
        for name, kind, says, numbers in _all(*self._given):
            family = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}[kind]
            metric = family(name, says, labels=[*numbers[0].labels] if numbers else [])
            for number in numbers:
                metric.add_metric([*number.labels.values()], number.value)
            yield metric


def _all(
    service: Service, batches: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
) -> Iterator[tuple[str, str, str, list[Number]]]:
    for name, says, counted in (
        ("batches", "batches by what became of them", batches),
        ("rows", "rows of batches by what became of them", rows),
    ):
        numbers = [
            Number({"stream": stream, "outcome": what}, many)
            for (stream, what), many in sorted(counted.items())
        ]
        yield f"counton_{name}_total", "counter", says, numbers
    for field, kind, says in (
        ("rows", "counter", "rows that runs have counted"),
        ("late", "counter", "rows that were counted late"),
        ("over", "counter", "rows beyond their user's limit"),
        ("known", "counter", "rows that were counted before"),
        ("closed", "counter", "rows too late to be counted"),
        ("runs", "counter", "runs"),
        ("failures", "counter", "runs that failed"),
        ("releases", "counter", "steps released"),
        ("unwritten", "counter", "failures to set rows aside in their file"),
        ("seconds", "gauge", "seconds that the last run took"),
    ):
        numbers = [
            Number({"stream": name}, getattr(releaser.counts, field))
            for name, releaser in service.releasers.items()
        ]
        ending = "_total" if kind == "counter" else ""
        yield f"counton_run_{field}{ending}", kind, says, numbers
    loads = {name: service.state_of(name).inbox.load(name) for name in service.served}
    lost = {
        name: {
            "left_out_rows": service.state_of(name).inbox.rows_left_out(name),
            "unwritten_rows": service.state_of(name).inbox.rows_unwritten(name),
        }
        for name in loads
    }
    for field in ("batches", "rows", "bytes"):
        numbers = [Number({"stream": name}, getattr(load, field)) for name, load in loads.items()]
        yield f"counton_waiting_{field}", "gauge", f"{field} that wait to be counted", numbers
    parts = {name: service.state_of(name).inbox.part_held(name) for name in loads}
    held = [Number({"stream": name}, part) for name, part in parts.items()]
    says = "part of what sums can hold that was taken; from 0.25 on nothing more is"
    yield "counton_sums_held_ratio", "gauge", says, held
    for field, says in (
        ("left_out_rows", "acknowledged rows that no run could count, kept in the state"),
        ("unwritten_rows", "rows that are to be set aside and that no file holds yet"),
    ):
        numbers = [Number({"stream": name}, lost[name][field]) for name in loads]
        yield f"counton_{field}", "gauge", says, numbers
    now = service.clock()
    steps, lags = [], []
    for name, journal in service.journals.items():
        due = journal.due(journal.step + 1)
        lag = 0.0 if due is None else max(0.0, (now - due).total_seconds())
        steps.append(Number({"stream": name}, journal.step))
        lags.append(Number({"stream": name}, lag))
    refused = [
        Number({"stream": name}, float(journal.refused))
        for name, journal in service.journals.items()
    ]
    failed = [Number({"stream": name}, 1.0) for name in service.failed]
    yield "counton_failed_jobs", "gauge", "jobs that cannot run", failed
    yield "counton_refused_copy", "gauge", "whether the state has forgotten releases", refused
    yield "counton_steps", "gauge", "steps released", steps
    yield "counton_lag_seconds", "gauge", "how long a release is overdue", lags
    often = [Number({}, service.reading.refused)]
    yield "counton_reads_refused_total", "counter", "requests of readers who ask too often", often
    listeners = [Number({"stream": name}, feed.listeners) for name, feed in service.feeds.items()]
    yield "counton_listeners", "gauge", "readers who listen", listeners
    yield (
        "counton_budget_left_ratio",
        "gauge",
        "part of the budget that is left",
        _budgets_left(service),
    )
    leads = [
        Number({"stream": name}, float(name in service.state_of(name).leads))
        for name in service.served
    ]
    yield "counton_leader", "gauge", "whether this server releases", leads
    up = [Number({}, monotonic() - service.began)]
    yield "counton_up_seconds", "gauge", "how long the service runs", up


def _budgets_left(service: Service) -> list[Number]:
    """Of streams whose state has a limit, the part of it that is left."""
    found = []
    for name, journal in service.journals.items():
        left = journal.budget_left()
        if left is not None:
            found.append(Number({"stream": name, "unit": journal.definition.unit}, left))
    return found
