"""Metrics for the operator, in the format of Prometheus.

Numbers of rows are exact, without noise: only who has the token to write may read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from time import monotonic
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as MEDIA
from prometheus_client.exposition import generate_latest

from counton.serve.service import Service

__all__ = ["MEDIA", "text"]


#: Labels of metrics that have others than the stream.
_OUTCOME = ("stream", "outcome")
_LABELS: dict[str, tuple[str, ...]] = {
    "counton_batches_total": _OUTCOME,
    "counton_rows_total": _OUTCOME,
    "counton_budget_left_ratio": ("stream", "unit"),
    "counton_up_seconds": (),
}


def text(
    service: Service, batches: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
) -> str:
    """Format all metrics; ``batches`` and ``rows`` are numbers by stream and outcome."""
    metrics: list[Metric] = []
    for name, help_text, numbers in _metric_families(service, batches, rows):
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        metric = family(name, help_text, labels=_LABELS.get(name, ("stream",)))
        for labels, number in numbers.items():
            metric.add_metric([labels] if isinstance(labels, str) else labels, number)
        metrics.append(metric)
    collected: Any = SimpleNamespace(collect=lambda: metrics)
    return generate_latest(collected).decode()


def _metric_families(
    service: Service, batches: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
) -> Iterator[tuple[str, str, Mapping[Any, float]]]:
    yield "counton_batches_total", "batches by outcome", dict(sorted(batches.items()))
    yield "counton_rows_total", "rows of batches by outcome", dict(sorted(rows.items()))
    releasers = dict(service.releasers)
    for field, help_text in (
        ("rows", "rows that runs have counted"),
        ("late", "rows that were counted late"),
        ("over", "rows beyond their user's limit"),
        ("known", "rows that were counted before"),
        ("closed", "rows too late to be counted"),
        ("runs", "runs"),
        ("failures", "runs that failed"),
        ("releases", "steps released"),
    ):
        numbers = {name: releaser.counts[field] for name, releaser in releasers.items()}
        yield f"counton_run_{field}_total", help_text, numbers
    seconds = {name: releaser.seconds for name, releaser in releasers.items()}
    yield "counton_run_seconds", "seconds that the last run took", seconds
    inboxes = {name: service.state_of(name).inbox for name in list(service.served)}
    loads = {name: inbox.load(name) for name, inbox in inboxes.items()}
    for field in ("batches", "rows", "bytes"):
        numbers = {name: getattr(load, field) for name, load in loads.items()}
        yield f"counton_waiting_{field}", f"{field} that wait to be counted", numbers
    help_text = "filled part of what the stream takes; at 1 batches are refused"
    filled = {name: inbox.part_filled(name) for name, inbox in inboxes.items()}
    yield "counton_filled_ratio", help_text, filled
    now = service.clock()
    steps = {}
    lags = {}
    refused = {}
    for name, journal in list(service.journals.items()):
        due = journal.due(journal.step + 1)
        lags[name] = 0.0 if due is None else max(0.0, (now - due).total_seconds())
        steps[name] = journal.step
        refused[name] = float(journal.refused)
    failed = dict.fromkeys(list(service.failed), 1.0)
    yield "counton_failed_jobs", "jobs that cannot run", failed
    help_text = "whether the state has forgotten releases"
    yield "counton_refused_copy", help_text, refused
    yield "counton_steps", "steps released", steps
    yield "counton_lag_seconds", "how long a release is overdue", lags
    budgets = {
        (name, journal.metadata.privacy_unit): remaining
        for name, journal in list(service.journals.items())
        if (remaining := journal.budget_left()) is not None
    }
    yield "counton_budget_left_ratio", "part of the budget that is left", budgets
    leads = {name: float(name in service.state_of(name).leads) for name in list(service.served)}
    yield "counton_leader", "whether this server releases", leads
    yield "counton_up_seconds", "how long the service runs", {(): monotonic() - service.began}
