"""What a sender is answered hangs on what he sent himself, and on what everybody may know."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from inside import EXACT, Inside, inside, metric, visit

from counton.base import exact_sums
from counton.base.errors import InvalidInput
from counton.base.exact_sums import MOST_SENDERS, refuse_overflow, share_of
from counton.base.private import Private
from counton.run.changes import SumBounds
from counton.serve.limits import Rooms
from counton.serve.tokens import Tokens
from counton.state.inbox import Batch, Sender

#: Counts of 2^32, of which a few dozen together can be read with this noise.
LARGE = {
    "statistic": "ranges",
    "label": "page",
    "value": "number",
    "by": None,
    "unit": "visit",
    "steps": None,
    "around": 100,
    "epsilon": 1,
}
#: What others have sent at most, as the attacker knows.
MOST = 40


@contextmanager
def attacked(folder: Path, **job: Any) -> Iterator[Inside]:
    """A service with a second sender."""
    with inside(folder, **job) as service:
        service.tokens["attacker"] = Tokens(service.service.settings.tokens).make(["ingest"])
        yield service


def learned(service: Inside, part: float) -> int | None:
    """How much others have sent, as an attacker finds it who fills a stream step by step.

    Args:
        part: of what all places may have together, from which on he expects to be refused.

    Returns:
        What he believes; None where he is refused too early or too late to believe anything.
    """
    (served,) = service.service.served.values()
    full = int(SumBounds.of(served.definition).read * part)
    rest, batch = full - MOST - 1, 0
    while rest:  # to just below
        rows = list[int]()
        while rest and len(rows) < 15:
            rows.append(min(2**32, rest))
            rest -= rows[-1]
        answer = service.post(f"x{batch}", [visit(0.1, number=n) for n in rows], by="attacker")
        if answer.status_code != 202:
            return None
        batch += 1
    for step in range(MOST + 2):  # and on, one by one
        answer = service.post(f"y{step}", [visit(0.1, number=1)], by="attacker")
        if answer.status_code != 202:
            return MOST + 1 - step
    return None


#: Where the sum of all is refused, had all senders one room; and where the attacker's own share
#: ends, had others a part in it.
@pytest.mark.parametrize("part", [1 / 4, 1 / 16, share_of(2)])
def test_who_fills_a_stream_step_by_step_learns_nothing(tmp_path: Path, part: float) -> None:
    found = []
    for secret in (0, 1, 17, MOST):
        folder = tmp_path / str(secret)
        folder.mkdir()
        with attacked(folder, **LARGE) as service:
            service.post("secret", [visit(0.1, number=1)] * secret)
            found.append(learned(service, part))
    assert len(set(found)) == 1


def test_an_attack_finds_the_sum_where_all_senders_share_one_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack has power: with a rule that hangs on the sum of all it is right each time."""
    monkeypatch.setattr("counton.serve.write_paths.Sender", lambda _id, _number: Sender("all", 1))
    for secret in (0, 1, 17, MOST):
        folder = tmp_path / str(secret)
        folder.mkdir()
        with attacked(folder, **LARGE) as service:
            service.post("secret", [visit(0.1, number=1)] * secret)
            found = learned(service, 1 / 16)
            assert found is not None
            assert abs(found - secret) <= 1


#: What an attacker asks, one after the other; what he is answered hangs on nothing else.
ASKED: Sequence[tuple[str, Sequence[dict[str, Any]]]] = (
    ("one", [visit(0.1, number=1)]),
    ("one", [visit(0.1, number=1)]),
    ("one", [visit(0.1, number=2)]),
    ("late", [visit(0.1, number=5), visit(0.2, number=6)]),
    ("bad", [visit(0.1, number=-1)]),
    ("share", [visit(0.1, number=2**32)]),
    ("more", [visit(0.1, number=2**32 - 13)]),
    ("most", [visit(0.1, number=2**32)] * 2),
    ("beyond", [visit(0.1, number=2**32)] * 3),
    ("never", [visit(0.1, number=2**32)] * 90),
    ("rest", [visit(0.1, number=1)]),
    *[(f"few {n}".replace(" ", "-"), [visit(0.2, number=3)]) for n in range(5)],
)


def transcript(service: Inside) -> list[tuple[int, dict[str, str], bytes]]:
    """All that an attacker sees of answers but their time."""
    found = list[httpx.Response]()
    for number, (batch, rows) in enumerate(ASKED):
        found.append(service.post(batch, rows, by="attacker"))
        if number % 5 == 4:
            service.at(number / 10)
            service.service.states[
                str(service.file.parent / "visits.db")
            ].waiting_bytes = service.service.state_of("visits").inbox.waiting_bytes()
    return [(one.status_code, dict(one.headers), one.content) for one in found]


def nothing(_service: Inside) -> None: ...


def all_they_may(service: Inside) -> None:
    """Fill the first sender's share of the stream, and of what may wait."""
    for number in range(40):
        service.post(f"o{number}", [visit(0.1, number=2**31)])
    for number in range(3):
        service.post(f"w{number}", [visit(0.1, number=1, more="x" * 1000)] * 1000)
    assert service.post("over", [visit(0.1, number=2**32)]).status_code == 410


def one_by_one(service: Inside) -> None:
    for number in range(7):
        service.post(f"o{number}", [visit(0.1, number=1)])


@contextmanager
def decided() -> Iterator[list[tuple[float, float]]]:
    """Sizes and bounds by which sums are refused, or not, in all rooms meanwhile."""
    found, real = list[tuple[float, float]](), refuse_overflow

    def watched(size: float, most: float, says: Callable[[], str]) -> None:
        found.append((size, most))
        real(size, most, says)

    with pytest.MonkeyPatch.context() as patch:
        rooms = [module for name, module in sys.modules.items() if name.startswith("counton.")]
        for module in rooms:  # other modules may warn of what they are asked for
            if getattr(module, "refuse_overflow", None) is real:
                patch.setattr(module, "refuse_overflow", watched)
        yield found


@pytest.mark.parametrize("job", [{}, {"release": "windows", "watermark": "120s"}])
def test_answers_are_the_same_whatever_others_have_sent(
    tmp_path: Path, job: dict[str, Any]
) -> None:
    """Each answer to a sender; and each sum that was looked at before he was answered."""
    seen = []
    settings = {"waiting-bytes": 2**20, "batch-bytes": 2**17}
    for number, others in enumerate((nothing, all_they_may, one_by_one)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with attacked(folder, **LARGE | {"steps": 60, "around": None} | job, serve=settings) as one:
            others(one)
            with decided() as sums:
                answers = transcript(one)
                sums.clear()
                one.post("last", [visit(0.1, number=2)], by="attacker")
            seen.append((answers, sums))
            assert {status for status, *_ in answers} == {200, 202, 409, 410, 422}
            assert sums
    assert seen[0] == seen[1] == seen[2]


def test_who_fills_his_own_share_closes_the_stream_for_nobody_else(tmp_path: Path) -> None:
    with attacked(tmp_path, **LARGE) as service:
        for number in range(4):
            service.post(f"x{number}", [visit(0.1, number=2**32)] * 15, by="attacker")
        statuses = [
            service.post(f"y{number}", [visit(0.1, number=2**32)], by="attacker").status_code
            for number in range(4)
        ]
        assert statuses == [202, 410, 410, 410]
        assert service.post("mine", [visit(0.1, number=7)]).status_code == 202
        service.at(1)
        inbox = service.service.state_of("visits").inbox
        assert (inbox.rows_left_out("visits"), inbox.load().rows) == (0, 0)
        assert service("GET", "/ready").status_code == 200


def batch(name: str, sender: Sender, part: float, step: int = 0, over: int = 0) -> Batch:
    rows = Private(b"body"), None, Private({step: part})
    return Batch("visits", name, name.encode(), 0, {}, 1, *rows, sender=sender, over=over)


def test_a_share_ends_exactly_where_it_is_said_to(tmp_path: Path) -> None:
    """With what the batch itself comes to, of its own sender, in its own window, and no more."""
    with inside(tmp_path, **EXACT) as service:
        inbox = service.service.state_of("visits").inbox
        ann, bob = Sender("a", 1), Sender("b", 3)
        for name, sender, sixteenths, step, what in (
            ("1", ann, 1 / 2, 0, "accepted"),
            ("2", bob, 1 / 3, 0, "accepted"),
            ("3", bob, 2**-40, 0, "full"),
            ("4", ann, 1 / 2 + 2**-40, 0, "full"),
            ("5", ann, 1 / 2, 0, "accepted"),
            ("6", ann, 0.0, 0, "accepted"),
            ("7", ann, 2**-40, 0, "full"),
            ("8", ann, 1.0, 1, "accepted"),
            ("9", ann, 2**-40, 1, "full"),
            ("10", Sender("c", 1), 1.0, 1, "accepted"),
        ):
            (verdict,) = inbox.put([batch(name, sender, sixteenths / 16, step)])
            assert (name, verdict.what) == (name, what)
        # Several at once, and of windows that are over nothing is kept.
        told = inbox.put([batch(f"x{n}", ann, 1 / 32, 5, over=5) for n in range(3)])
        assert [verdict.what for verdict in told] == ["accepted", "accepted", "full"]
        assert inbox.shares_filled("visits") == {"a": 1.0, "b": 1.0}


def test_all_senders_together_never_leave_the_room() -> None:
    """Also those of the last numbers; what is left is a quarter and more."""
    assert sum(share_of(number) for number in range(1, MOST_SENDERS + 1)) < 0.75
    assert share_of(MOST_SENDERS) > 0


def test_a_window_that_waits_for_late_rows_is_filled_once(tmp_path: Path) -> None:
    """Rows that come within the watermark count in their own window, and not in the next one."""
    job = {"release": "windows", "watermark": "1h", "steps": 60, "around": None}
    with inside(tmp_path, **LARGE | job) as service:
        taken = 0
        for minute in range(8):
            service.at(minute)
            answer = service.post(f"{minute}", [visit(0.1, number=2**32)])
            taken += answer.status_code == 202
        (served,) = service.service.served.values()
        assert 0 < taken * 2**32 <= SumBounds.of(served.definition).read / 16


def test_many_small_batches_of_a_window_are_added_up(tmp_path: Path) -> None:
    job = {"release": "windows", "steps": 60, "around": None}
    with inside(tmp_path, **LARGE | job) as service:
        for number in range(3):
            service.post(f"{number}", [visit(0.1, number=100)])
        (served,) = service.service.served.values()
        bounds = SumBounds.of(served.definition)
        assert metric(service, "share_filled_ratio") >= 16 * 300 / bounds.read > 0


def test_what_waits_is_counted_sender_by_sender(tmp_path: Path) -> None:
    with inside(tmp_path, **EXACT) as service:
        inbox = service.service.state_of("visits").inbox
        inbox.put([batch("1", Sender("a", 1), 0.0), batch("2", Sender("a", 1), 0.0)])
        inbox.put([batch("3", Sender("b", 2), 0.0)])
        assert inbox.waiting_bytes() == {"a": 8, "b": 4}


def test_no_sender_takes_the_memory_of_others() -> None:
    rooms, ann, bob = Rooms(100), Sender("ann", 1), Sender("bob", 2)
    assert rooms.take(ann, 1600)
    assert not rooms.take(ann, 1)
    assert rooms.take(bob, 800)
    assert not rooms.take(bob, 1)
    rooms.give(ann, 1)
    assert rooms.take(ann, 1)
    assert all(rooms.take(Sender(f"{number}", number), 100) for number in range(17, 60))


def test_a_number_is_given_to_one_token_only(tmp_path: Path) -> None:
    """Also after others were revoked, and of a file that has none yet."""
    tokens = Tokens(tmp_path / "tokens")
    for scopes in (["ingest"], ["read"], ["ingest", "read"]):
        tokens.make(scopes)
    assert [token.number for token in tokens.all()] == [1, 0, 2]
    tokens.revoke(tokens.all()[2].id)
    tokens.make(["ingest"])
    assert [token.number for token in Tokens(tmp_path / "tokens").all()] == [1, 0, 3]
    kept = json.loads((tmp_path / "tokens").read_text())["tokens"]
    older = {"tokens": [{name: one[name] for name in one if name != "number"} for one in kept]}
    (tmp_path / "older").write_text(json.dumps(older))
    (tmp_path / "older").chmod(0o600)
    tokens = Tokens(tmp_path / "older")
    assert [token.number for token in tokens.all()] == [1, 0, 2]
    tokens.revoke(tokens.all()[0].id)
    tokens.make(["ingest"])
    assert [token.number for token in tokens.all()] == [0, 2, 3]


def test_there_are_no_more_tokens_than_a_stream_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counton.serve.tokens.MOST_SENDERS", 2)
    tokens = Tokens(tmp_path / "tokens")
    for _ in range(2):
        tokens.make(["ingest"])
        tokens.revoke(tokens.all()[0].id)
    tokens.make(["read"])
    with pytest.raises(InvalidInput, match="has given 2 tokens for ingest"):
        tokens.make(["ingest"])
    assert exact_sums.MOST_SENDERS == 65_536
