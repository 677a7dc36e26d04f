"""A stream ends, and another one goes on from there."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_statistic import made
from keys import chosen_key
from typer.testing import CliRunner

from counton import Counter, PureDP
from counton.base.errors import BudgetExceeded, InvalidInput, StateError
from counton.cli.app import app
from counton.noise import Key
from counton.released.description import CarriedTotals
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.run import Job, run
from counton.run.continuation import End, end_stream
from counton.run.new_stream import define
from counton.state import Store, Stream, state_summary
from counton.strategies import noise_variance

ROWS = ["00:10,a,2", "00:20,x,1", "01:10,b,3", "02:10,a,1", "04:30,b,1", "05:10,x,1"]


@pytest.fixture
def request_(tmp_path: Path) -> Job:
    events = tmp_path / "e.csv"
    lines = "".join(f"2013-01-01T{row}\n" for row in ROWS)
    events.write_text(f"time,group,value\n{lines}")
    return Job(
        what="count",
        events=events,
        state=tmp_path / "state.db",
        time="time",
        every="1h",
        by="group",
        domain="a,b",
        other="rest",
        spare=1,
        start="2013-01-01",
        steps=12,
        until="2013-01-01T03:00",
        epsilon=Fraction(1000),  # noise that is 0 almost surely
        unit="visit",
        release="both",
    )


def successor(request: Job, hour: int = 6, **more: Any) -> Job:
    until = f"2013-01-01T{hour:02}:00"
    first = {"name": "next", "continues": "events", "until": until}
    return Job("count", request.events, request.keeping.state, **{**first, **more})


def released(request: Job) -> Release:
    with run(request) as outcome:
        return outcome.read()


def test_a_successor_takes_over_what_it_does_not_say(request_: Job) -> None:
    before = released(request_)
    assert before.numbers.totals is not None
    assert before.numbers.totals.estimates[-1].tolist() == [2, 1, 1]
    found = released(successor(request_))
    assert found.numbers.definition.groups == ("a", "b", "rest")
    assert found.numbers.definition.windows.steps == 9
    assert f"{found.numbers.definition.windows.start:%Y-%m-%d %H:%M}" == "2013-01-01 03:00"
    assert found.numbers.definition.guarantee == PureDP(1000)
    assert found.numbers.definition.unit == "visit"
    assert found.numbers.totals is not None
    assert found.numbers.windows is not None
    assert found.numbers.totals.estimates.tolist() == [[2, 1, 1], [2, 2, 1], [2, 2, 2]]
    assert found.numbers.windows.estimates.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert found.table()["estimate"].to_list()[-3:] == [2, 2, 2]
    streams = {
        stream["name"]: stream for stream in state_summary(request_.keeping.state)["streams"]
    }
    assert streams["events"]["details"]["ended"] == 3
    assert streams["next"]["key_fingerprint"] != streams["events"]["key_fingerprint"]
    entries = state_summary(request_.keeping.state)["ledger"]
    assert [(entry["name"], entry["epsilon"]) for entry in entries] == [
        *(("events", "1000"), ("next", "1000"))
    ]


def test_what_has_ended_releases_nothing_more(request_: Job) -> None:
    run(request_).close()
    assert end_stream(request_.keeping.state, "events").step == 3
    assert end_stream(request_.keeping.state, "events").step == 3
    with pytest.raises(StateError, match="'events' has ended at step 3 and releases nothing more"):
        run(request_.having(until="2013-01-01T04:00"))
    with pytest.raises(StateError, match="has no stream 'visits'"):
        end_stream(request_.keeping.state, "visits")


def append(request: Job, *rows: str) -> Job:
    """New events only, of some of the rows."""
    lines = "".join(f"2013-01-01T{row}\n" for row in rows)
    Path(str(request.events)).write_text(f"time,group,value\n{lines}")
    return request.having(append=True)


def test_rows_that_wait_are_not_lost_by_an_end(request_: Job) -> None:
    """Files of new events: the successor's do not bring them again."""
    run(append(request_, *ROWS)).close()  # two rows of windows that have not ended
    with pytest.raises(
        InvalidInput, match="2 rows wait in stream 'events' and would never be counted"
    ):
        end_stream(request_.keeping.state, "events")
    new = append(request_, "05:20,a,1")
    go_on = successor(request_).having(append=True, yes=True)  # which answers another question
    with pytest.raises(
        InvalidInput, match=r"release their windows first .*or give drop_waiting=True"
    ):
        run(go_on)
    assert state_summary(request_.keeping.state)["streams"][0]["details"].get("ended") is None
    assert Store(request_.keeping.state).streams == ("events",)
    last = released(new.having(until="2013-01-01T06:00"))
    assert last.numbers.own.estimates[-1].tolist() == [3, 2, 2]
    append(request_, "06:20,b,1")
    found = released(go_on.having(until="2013-01-01T07:00"))
    assert found.numbers.totals is not None
    assert found.numbers.totals.estimates[-1].tolist() == [3, 3, 2]


def at_and_dropped(end: End) -> tuple[int, int]:
    """The step, and the number of rows."""
    return end.step, end.for_operator()


def test_rows_that_came_late_wait_too(request_: Job) -> None:
    run(append(request_, *ROWS[:4])).close()
    run(append(request_, "00:30,a,1")).close()  # nothing is released
    with pytest.raises(InvalidInput, match="1 row waits in stream 'events'"):
        end_stream(request_.keeping.state, "events")
    assert at_and_dropped(end_stream(request_.keeping.state, "events", drop_waiting=True)) == (3, 1)
    assert at_and_dropped(end_stream(request_.keeping.state, "events")) == (3, 0)


def test_rows_that_wait_are_dropped_where_that_is_said(request_: Job) -> None:
    run(append(request_, *ROWS)).close()
    append(request_, "05:20,a,1")
    with run(successor(request_).having(append=True, drop_waiting=True)) as outcome:
        assert outcome.for_operator().dropped == 2
        assert outcome.read().numbers.own.estimates[-1].tolist() == [1, 0, 0]


def test_rows_of_a_file_of_all_events_wait_for_the_next_one(request_: Job) -> None:
    """The successor reads them again, unless its events are new ones alone."""
    run(request_).close()
    assert at_and_dropped(end_stream(request_.keeping.state, "events")) == (3, 0)
    text = Path(str(request_.events)).read_text()
    append(request_, "05:20,a,1")
    with pytest.raises(InvalidInput, match="2 rows wait in stream 'events'"):
        run(successor(request_).having(append=True))
    Path(str(request_.events)).write_text(text)
    assert released(successor(request_)).numbers.own.estimates[-1].tolist() == [0, 1, 1]


def test_a_writer_of_a_stream_that_ends_is_stopped(request_: Job) -> None:
    with run(request_) as outcome:
        end_stream(request_.keeping.state, "events")
        with pytest.raises(Exception, match="was opened by another process"):
            outcome.stream.release([0, 0, 0, 0])


def test_a_new_key_from_a_step_on(request_: Job, tmp_path: Path) -> None:
    run(request_).close()
    new = tmp_path / "new.key"
    Key.generate().save(new)
    found = released(successor(request_, key=new))
    assert found.numbers.totals is not None
    assert found.numbers.totals.estimates[-1].tolist() == [2, 2, 2]
    prints = {
        s["name"]: s["key_fingerprint"] for s in state_summary(request_.keeping.state)["streams"]
    }
    assert prints["events"] != prints["next"]
    assert released(successor(request_, 7, key=new, continues=None)).steps == range(1, 5)


def test_totals_go_on_along_a_chain_and_add_up_their_noise(request_: Job) -> None:
    noisy = request_.having(epsilon=1)
    first = released(noisy)
    second = released(successor(noisy, 5))
    third = released(successor(noisy, 6, name="last", continues="next", also=None))
    assert first.numbers.totals is not None
    assert second.numbers.totals is not None
    assert third.numbers.totals is not None
    assert (
        second.numbers.totals.estimates[0].tolist()
        == (first.numbers.totals.estimates[-1] + second.numbers.own.estimates[0]).tolist()
    )
    assert (
        third.numbers.totals.estimates[-1].tolist()
        == (second.numbers.totals.estimates[-1] + third.numbers.own.estimates[-1]).tolist()
    )
    variance = (
        first.numbers.own.std[-1] ** 2
        + second.numbers.own.std[-1] ** 2
        + third.numbers.own.std[-1] ** 2
    )
    assert third.numbers.totals.std[-1] == pytest.approx(np.sqrt(variance))
    assert (third.numbers.totals.half > third.numbers.own.half).all()


@pytest.mark.parametrize(
    ("loss", "strategy"),
    [({"epsilon": Fraction(1)}, "Epochs"), ({"rho": Fraction(1, 2)}, "GrowingSquareRoot")],
)
def test_a_stream_that_was_to_end_goes_on_without_an_end(
    request_: Job, loss: dict[str, Fraction], strategy: str
) -> None:
    before = {"epsilon": None, "rho": None, **loss}
    run(request_.having(**before, strategy="kary")).close()
    with pytest.raises(InvalidInput, match="release=windows does not go with around=1000"):
        run(successor(request_, around=1000, release="windows"))
    with run(successor(request_, around=1000)) as outcome:
        assert outcome.definition.release == "both"
        found = outcome.read()
    carried, terms = found.numbers.carried, found.numbers.design
    assert type(terms.strategy).__name__ == strategy
    assert found.numbers.definition.windows.steps > 10**6
    assert found.numbers.totals is not None
    assert carried is not None
    own = noise_variance(terms.strategy, terms.law, range(1, 4))
    assert found.numbers.totals.std == pytest.approx(np.sqrt(own + carried.variance))
    alone = noise_variance(terms.strategy, terms.law, range(1, 4), since=range(3))
    assert found.numbers.windows is not None
    assert found.numbers.windows.std == pytest.approx(np.sqrt(alone))
    sums = np.cumsum(found.numbers.windows.estimates, axis=0) + carried.estimates
    assert found.numbers.totals.estimates == pytest.approx(sums)
    again = successor(request_, hour=7).having(name="next", continues=None)
    begun = released(again).numbers.totals
    assert begun is not None
    assert len(begun.estimates) == 4
    with pytest.raises(
        InvalidInput, match="stream without an end, so it needs no stream that continues it"
    ):
        run(successor(request_).having(name="third", continues="next"))


def test_other_groups_or_windows_alone_begin_anew(request_: Job) -> None:
    run(request_).close()
    found = released(successor(request_, domain="a,b,x"))
    assert found.numbers.totals is not None
    assert found.numbers.totals.estimates[-1].tolist() == [0, 1, 1]
    assert found.numbers.carried is None
    alone = released(successor(request_, 7, name="alone", continues="next", release="windows"))
    assert alone.numbers.totals is None


def test_users_so_far_begin_anew(request_: Job) -> None:
    """Another stream sees for the first time whom this one has counted."""
    lines = "".join(f"2013-01-01T{hour:02}:10,a,u\n" for hour in range(6))
    Path(str(request_.events)).write_text(f"time,group,user\n{lines}")
    run(request_.having(user="user", first=True, most=1, unit=None)).close()
    found = released(successor(request_))
    assert found.numbers.totals is not None
    assert found.numbers.totals.estimates[:, 0].tolist() == [1, 1, 1]


def test_named_groups_go_on_by_themselves(request_: Job) -> None:
    run(request_.having(until="2013-01-01T02:00")).close()
    run(
        Job("count", request_.events, request_.keeping.state, until=request_.times.until, also="x")
    ).close()
    found = released(successor(request_))
    assert found.numbers.definition.groups == ("a", "b", "rest", "x")
    assert found.numbers.totals is not None
    assert found.numbers.totals.estimates[-1].tolist() == [2, 2, 1, 1]


def test_a_run_killed_before_its_predecessor_ended_ends_it(
    request_: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(request_).close()

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("counton.run.continuation.end_stream", killed)
    with pytest.raises(KeyboardInterrupt):
        run(successor(request_))
    monkeypatch.undo()
    assert released(successor(request_)).numbers.own.estimates[-1].tolist() == [0, 1, 1]
    with pytest.raises(StateError, match="has ended at step 3"):
        run(request_.having(until="2013-01-01T04:00"))


def test_the_limit_counts_both(request_: Job) -> None:
    with Store(request_.keeping.state, create=True) as store:
        store.set_limit(PureDP(1500))
    run(request_).close()
    with pytest.raises(BudgetExceeded):
        run(successor(request_))
    assert released(request_.having(until="2013-01-01T04:00")).steps == range(1, 5)  # goes on
    assert released(successor(request_, epsilon=500)).numbers.totals is not None


ENDLESS = {"domain": "a,b,x", "steps": None, "around": 9, "epsilon": None, "rho": 1}
REVISED = {"domain": "a,b,x", "steps": None, "revise": "1h"}
FOUND = {"domain": None, "unknown": "discover", "delta": "1e-6", "epsilon": 1}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (FOUND, "it finds its groups in the data"),
        (ENDLESS, "it is a stream without an end"),
        (REVISED, "it publishes windows anew, version by version, and has no totals to go on from"),
    ],
    ids=["found groups", "endless", "revised"],
)
def test_an_end_needs_no_stream_that_continues(
    request_: Job, more: dict[str, Any], why: str
) -> None:
    new = append(request_.having(other=None, spare=None, release=None, **more), *ROWS)
    run(new).close()
    state = str(request_.keeping.state)
    with pytest.raises(InvalidInput, match="2 rows wait in stream 'events'"):
        end_stream(state, "events")
    done = CliRunner().invoke(app, ["end", state, "--drop-waiting"])
    assert done.exit_code == 0, done.stderr
    assert "rows that waited and are not counted: 2\n" in done.stderr
    assert f"'events' has ended at step 3; {why}, so no other one can go on" in done.stdout
    assert at_and_dropped(end_stream(state, "events")) == (3, 0)
    with pytest.raises(InvalidInput, match="and cannot be continued; leave it out, and begin"):
        run(successor(request_))
    with pytest.raises(StateError, match="begin another name, or write again"):
        run(new.having(until="2013-01-01T05:00"))


def test_a_statistic_that_reads_rows_in_order_ends(tmp_path: Path) -> None:
    episodes = made("episodes", tmp_path)
    run(episodes).close()
    assert at_and_dropped(end_stream(tmp_path / "s.db", "it")) == (3, 0)
    with pytest.raises(StateError, match="begin another name, or write again"):
        run(episodes.having(until="2024-03-01T04:00"))
    following = Job("episodes", episodes.events, tmp_path / "s.db", name="two", continues="it")
    with pytest.raises(InvalidInput, match="counts rows by their order, which needs all events"):
        run(following)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"continues": "visits"}, "has no stream 'visits'; it has 'events'"),
        (
            {"start": "2013-01-01"},
            "start=2013-01-01 does not go with continues=events: the new stream",
        ),
        ({"what": "sum"}, "is a 'count', and cannot be continued as a 'sum'"),
    ],
)
def test_what_cannot_be_continued(request_: Job, more: dict[str, Any], words: str) -> None:
    run(request_).close()
    with pytest.raises((InvalidInput, StateError), match=words):
        run(successor(request_).having(**more))
    assert Stream.open(request_.keeping.state, "events").step == 3


def test_a_stream_of_a_state_that_is_not_there(request_: Job) -> None:
    with pytest.raises(StateError, match="names a stream of the state state="):
        run(successor(request_))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [{"epsilon": Fraction(1, 20)}, {"rho": Fraction(1, 2000)}])
def test_intervals_of_totals_that_go_on_hold_the_truth(loss: dict[str, Fraction]) -> None:
    steps, cells, inside = 50, 2500, []
    request = Job(
        what="count",
        events="e.csv",
        state="state.db",
        time="time",
        every="1d",
        by="page",
        domain=[f"g{cell}" for cell in range(cells)],
        start="2023-01-01",
        steps=steps,
        simple=True,
        **loss,  # type: ignore[arg-type]
    )
    definition = define(request)
    for number in range(40):
        parts = []
        for name in ("first", "second"):
            counter = Counter(
                definition.strategy,
                definition.guarantee,
                key=chosen_key(number.to_bytes(32, "big")),
                name=name,
                shape=(cells,),
            )
            parts.append((counter.design, counter.release_many(np.zeros((steps, cells), np.int64))))
        (terms, last), (_, own) = parts
        carried = CarriedTotals(
            last.values[-1],
            float(last.std()[-1]) ** 2,
            ((terms.strategy, terms.law, steps),),
        )
        values = own.values + carried.estimates
        totals = ReleasedNumbers.of(definition, parts[1][0], values, 0.95, carried=carried).totals
        assert totals is not None
        inside.append(np.mean((totals.lower <= 0) & (totals.upper >= 0)))
    assert 0.947 < np.mean(inside) < 0.957


PAID = {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}


@pytest.mark.parametrize(
    ("what", "own", "rename"),
    [
        ("sum", PAID, "paid=amount"),
        ("hierarchy", {"levels": "region,city"}, "region=area"),
        (
            "report",
            {
                "statistics": {
                    "visits": {"by": "region", "domain": ["n", "s"]},
                    "total": {"statistic": "sum", **PAID},
                }
            },
            "paid=amount",
        ),
    ],
)
def test_a_successor_reads_columns_as_they_are_called_now(
    what: str, own: dict[str, Any], rename: str, tmp_path: Path
) -> None:
    old, _, new = rename.partition("=")
    tables = {
        "events": "at,region,city,paid\n2024-03-01T09:00,n,x,1\n2024-03-03T09:00,s,y,2\n",
        "nodes": "region,city\nn,x\ns,y\n",
    }
    for name, text in tables.items():
        for head, called in (("old", old), ("new", new)):
            (tmp_path / f"{head}-{name}.csv").write_text(text.replace(old, called))

    def asked(head: str, **more: Any) -> Job:
        if what == "hierarchy" and head == "old":
            more["domain"] = tmp_path / f"{head}-nodes.csv"
        return Job(what, tmp_path / f"{head}-events.csv", tmp_path / "s.db", **more)

    stream = {"time": "at", "every": "1d", "start": "2024-03-01", "steps": 2, "epsilon": 1}
    run(asked("old", until="2024-03-02", **stream, **own)).close()
    first = asked("new", until="2024-03-03", rename=rename)
    run(first).close()
    with run(
        asked("new", name="next", continues=first.keeping.name, until="2024-03-04")
    ) as outcome:
        assert outcome.after == 1
        assert new in outcome.definition.columns.read
