"""Metrics for the operator, in the format of Prometheus.

Numbers of rows are exact, without noise: only who has the token to write may read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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
    """One value of a metric, with the values of its labels."""

    labels: dict[str, str]
    value: float


def text(
    service: Service, batches: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
) -> str:
    """Format all metrics; ``batches`` and ``rows`` are numbers by stream and outcome."""
    registry = CollectorRegistry()
    registry.register(_Numbers(service, batches, rows))
    return generate_latest(registry).decode()


class _Numbers(Collector):
    """Collector of the metrics of `text`."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def describe(self) -> list[Metric]:
        """Return nothing: the library would collect all metrics only to learn their names."""
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
        ("batches", "batches by outcome", batches),
        ("rows", "rows of batches by outcome", rows),
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
        counts = {name: one.counts for name, one in list(service.releasers.items())}
        numbers = _by_stream({name: getattr(one, field) for name, one in counts.items()})
        ending = "_total" if kind == "counter" else ""
        yield f"counton_run_{field}{ending}", kind, says, numbers
    inboxes = {name: service.state_of(name).inbox for name in list(service.served)}
    loads = {name: inbox.load(name) for name, inbox in inboxes.items()}
    unwritten = {name: inbox.rows_unwritten(name) for name, inbox in inboxes.items()}
    for field in ("batches", "rows", "bytes"):
        numbers = _by_stream({name: getattr(load, field) for name, load in loads.items()})
        yield f"counton_waiting_{field}", "gauge", f"{field} that wait to be counted", numbers
    says = "filled part of what the stream takes; at 1 batches are refused"
    filled = {name: inbox.part_filled(name) for name, inbox in inboxes.items()}
    yield "counton_filled_ratio", "gauge", says, _by_stream(filled)
    says = "rows to be set aside that are not in their file yet"
    yield "counton_unwritten_rows", "gauge", says, _by_stream(unwritten)
    now = service.clock()
    steps, lags, refused = {}, {}, {}
    for name, journal in list(service.journals.items()):
        due = journal.due(journal.step + 1)
        lags[name] = 0.0 if due is None else max(0.0, (now - due).total_seconds())
        steps[name], refused[name] = journal.step, float(journal.refused)
    failed = _by_stream(dict.fromkeys(list(service.failed), 1.0))
    yield "counton_failed_jobs", "gauge", "jobs that cannot run", failed
    says = "whether the state has forgotten releases"
    yield "counton_refused_copy", "gauge", says, _by_stream(refused)
    yield "counton_steps", "gauge", "steps released", _by_stream(steps)
    yield "counton_lag_seconds", "gauge", "how long a release is overdue", _by_stream(lags)
    budgets = [
        Number({"stream": name, "unit": journal.definition.unit}, left)
        for name, journal in list(service.journals.items())
        if (left := journal.budget_left()) is not None
    ]
    yield "counton_budget_left_ratio", "gauge", "part of the budget that is left", budgets
    leads = {name: float(name in service.state_of(name).leads) for name in list(service.served)}
    yield "counton_leader", "gauge", "whether this server releases", _by_stream(leads)
    up = [Number({}, monotonic() - service.began)]
    yield "counton_up_seconds", "gauge", "how long the service runs", up


def _by_stream(values: Mapping[str, float]) -> list[Number]:
    return [Number({"stream": name}, value) for name, value in values.items()]
