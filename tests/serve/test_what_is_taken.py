"""How much a stream takes of sent rows, so that whatever is acknowledged can be counted."""

from pathlib import Path

from inside import EXACT, inside, metric, visit

from counton.base.exact import LARGEST_SENT_SHARE
from counton.base.private import Private
from counton.run.counting.exactness import SumBounds
from counton.state.inbox import Batch

#: Counts of 2^32, of which a few dozen together can be read with this noise.
LARGE = {
    "statistic": "ranges", "label": "page", "count_column": "number", "group_by": None,
    "privacy_unit": "visit",
    "series": "per-window", "windows": 60, "epsilon": 1,
}  # fmt: skip


def batch(name: str, part: float, step: int = 0, over: int = 0) -> Batch:
    rows = Private(b"body"), Private({step: part})
    return Batch("visits", name, name.encode(), 0, {}, 1, *rows, first_open_window=over)


def test_inbox_accepts_batches_exactly_up_to_its_limit(tmp_path: Path) -> None:
    """With what the batch itself comes to, in its own window, and no more."""
    with inside(tmp_path, **EXACT) as service:
        inbox = service.service.state_of("visits").inbox
        for name, halves, step, what in (
            ("1", 1 / 2, 0, "accepted"),
            ("2", 1 / 2 + 2**-40, 0, "full"),
            ("3", 1 / 2, 0, "accepted"),
            ("4", 0.0, 0, "accepted"),
            ("5", 2**-40, 0, "full"),
            ("6", 1.0, 1, "accepted"),
            ("7", 2**-40, 1, "full"),
        ):
            (verdict,) = inbox.put([batch(name, halves * LARGEST_SENT_SHARE, step)])
            assert (name, verdict.outcome) == (name, what)
        # Several at once, and of windows that are over nothing is kept.
        told = inbox.put([batch(f"x{n}", LARGEST_SENT_SHARE / 2, 5, over=5) for n in range(3)])
        assert [verdict.outcome for verdict in told] == ["accepted", "accepted", "full"]
        assert metric(service, "filled_ratio") == 1


def test_a_window_that_waits_for_late_rows_is_filled_once(tmp_path: Path) -> None:
    """Rows that come within the watermark count in their own window, and not in the next one."""
    with inside(tmp_path, **LARGE, release_delay="1h") as service:
        (served,) = service.service.served.values()
        most = int(SumBounds.of(served.spec).readable * LARGEST_SENT_SHARE)
        size = max(1, most // 2**32 // 3)
        taken = 0
        for minute in range(8):
            service.at(minute)
            answer = service.post(f"{minute}", [visit(0.1, number=2**32)] * size)
            taken += size if answer.status_code == 202 else 0
        assert 0 < taken * 2**32 <= most


def test_many_small_batches_of_a_window_are_added_up(tmp_path: Path) -> None:
    with inside(tmp_path, **LARGE) as service:
        for number in range(3):
            service.post(f"{number}", [visit(0.1, number=100)])
        (served,) = service.service.served.values()
        bounds = SumBounds.of(served.spec)
        assert metric(service, "filled_ratio") >= 300 / LARGEST_SENT_SHARE / bounds.readable > 0
