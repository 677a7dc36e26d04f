"""Rows in the place of another argument: no error, chain of errors or representation shows them."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import Parameter, isclass, signature
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counton
import counton.statistics
from counton import (
    ApproxDP,
    Average,
    ContributionBound,
    Count,
    Counter,
    CountonError,
    Distinct,
    Job,
    Key,
    PureDP,
    Quantiles,
    RunningStatistic,
    Stream,
    Sum,
    TopK,
    release,
)
from counton.job.statistics.count import CountJob
from counton.run import export, methods, run
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import Binary
from counton.training import TrainingDesign
from counton.training import plan as plan_training

#: A user, and what they paid: not to be found in any text.
USER = "Ada-Marker-7731"
PAID = 7731773177
ROWS: dict[str, list[Any]] = {"time": ["2024-03-01T09:00"], "user": [USER], "paid": [PAID]}
FRAME = pl.DataFrame(ROWS)
KEY = Key.generate()


@dataclass
class Visit:
    """A row as a program has it, which shows itself."""

    user: str


#: What rows come in. Flat ones are told from a list of groups or columns by nobody.
HOLDERS: dict[str, Callable[[], Any]] = {
    "frame": lambda: FRAME,
    "columns": lambda: ROWS,
    "rows": lambda: [{"user": USER, "paid": PAID}],
    "tuples": lambda: [(USER, PAID)],
    "objects": lambda: [Visit(USER)],
    "object": lambda: Visit(USER),
}
FLAT: dict[str, Callable[[], Any]] = {
    "series": lambda: pl.Series("user", [USER]),
    "texts": lambda: np.array([USER]),
}
#: Public names and steps, whose wrong ones are told by what they are.
PUBLIC = ("domain", "by", "levels", "columns", "labels", "groups", "nodes", "ask", "shares")
WINDOWS: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "latest-event",
}  # fmt: skip
KEPT: dict[str, Any] = {"key": KEY, "name": "a"}


@dataclass(frozen=True)
class Called:
    """A call that is right, of which each argument in turn is replaced."""

    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    skip: tuple[object, ...] = ()

    def wrong(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        named = self.named
        for place in [*range(len(self.args)), *named]:
            if place in self.skip:
                continue
            holders = HOLDERS if place in PUBLIC else HOLDERS | FLAT
            for holder, rows in holders.items():
                args = list(self.args)
                more = dict(named)
                if isinstance(place, int):
                    args[place] = rows()
                else:
                    more[place] = rows()
                yield f"{place} {holder}", partial(self.call, *args, **more)


def counter() -> Counter:
    return Counter(Binary(7), PureDP(1), **KEPT)


def on_stream(state: str, method: str, *args: Any, **more: Any) -> Any:
    Path(state).unlink(missing_ok=True)
    with Stream.create(state, "a", Binary(7), PureDP(1), key=KEY) as stream:
        return getattr(stream, method)(*args, **more)


def carried_out(*args: Any, **more: Any) -> str:
    request = Job(*args, **more)
    shown = repr(request)
    with run(request) as outcome:
        return shown + repr(outcome)


@cache
def best() -> TrainingDesign:
    return plan_training(steps=8, dimension=3).best


def noise(method: str, *args: Any, **more: Any) -> Any:
    return getattr(best().noise(**KEPT), method)(*args, **more)


def job_fields(*without: str) -> dict[str, Any]:
    fields = CountJob.model_fields
    return {
        name: item.default
        for name, item in fields.items()
        if name != "statistic" and name not in without
    }


CALLS: dict[str, Callable[[str], Called]] = {
    "release": lambda state: Called(
        release, ("count", FRAME),
        {**job_fields("what", "events"), **WINDOWS, "state": state, "guarantee": PureDP(1)},
        skip=(1,),
    ),
    "Job": lambda state: Called(
        carried_out, ("count", FRAME),
        {**job_fields("what", "events"), **WINDOWS, "state": state, "epsilon": 1}, skip=(1,),
    ),
    "run": lambda state: Called(run, (Job("count", FRAME, state, epsilon=1, **WINDOWS),)),
    "Counter": lambda state: Called(
        Counter, (Binary(7), PureDP(1)), {**KEPT, "contribution": None, "shape": ()}
    ),
    "Counter.release": lambda state: Called(lambda x: counter().release(x), (3,)),
    "Counter.release_many": lambda state: Called(lambda x: counter().release_many(x), ([3],)),
    "Counter.std": lambda state: Called(lambda x: counter().std(x), (3,)),
    "Counter.window_std": lambda state: Called(lambda *x: counter().window_std(*x), (1, 3)),
    "Counter.resume": lambda state: Called(Counter.resume, (b"x",), {"key": KEY}),
    "Stream.create": lambda state: Called(
        Stream.create, (state, "a", Binary(7), PureDP(1)),
        {"key": KEY, "contribution": None, "shape": (), "public_facts": {}, "statistic": None},
    ),
    "Stream.open": lambda state: Called(Stream.open, (state, "a"), {"key": KEY, "strategy": None}),
    "Stream.release": lambda state: Called(
        partial(on_stream, state, "release"), (3,), {"step": 1}
    ),
    "Stream.release_many": lambda state: Called(
        partial(on_stream, state, "release_many"), ([3],),
        {"first_step": 1},
    ),
    "Stream.replay": lambda state: Called(partial(on_stream, state, "replay"), (1, 3)),
    "export": lambda state: Called(export, (state,), {"stream": "a", "windows": None,
    "confidence_level": 0.9}),
    "methods": lambda state: Called(methods, (state, "a"), {"level": 0.9}),
    "read": lambda state: Called(counton.read, (state,)),
    "plan": lambda state: Called(counton.plan, (7, PureDP(1))),
    "plan of cells": lambda state: Called(counton.plan, (), {"cells": 7, "guarantee": PureDP(1)}),
    "plan of fading": lambda state: Called(
        counton.plan, (), {"expire": {24: 1}, "per_step": 1, "delays": [0]}
    ),
    "plan of a statistic": lambda state: Called(
        counton.plan, (7, PureDP(1)), {"of": Distinct(), "batched": True}
    ),
    "PureDP": lambda state: Called(PureDP, (1,)),
    "ApproxDP": lambda state: Called(ApproxDP, (1, "1e-9")),
    "ContributionBound.values": lambda state: Called(ContributionBound.values, (0, 9, 1)),
    "training.plan": lambda state: Called(plan_training, (), {"steps": 8, "dimension": 3}),
    "noise": lambda state: Called(best().noise, (), KEPT),
    "noise.add": lambda state: Called(
        partial(noise, "add"), (1, {"w": np.zeros(2)}), {"shards": None, "batch": None}
    ),
    "noise.read": lambda state: Called(partial(noise, "read"), (1, "w", 3)),
    "noise.resume": lambda state: Called(partial(noise, "resume"), (1,), {"run": None}),
    "noise.load_state_dict": lambda state: Called(partial(noise, "load_state_dict"), ({},)),
}  # fmt: skip
STATISTICS = (
    Count(), Sum(0, 9, resolution=1), Average(0, 10, resolution=1), Quantiles([0, 1, 2]),
    Distinct(), TopK(["a", "b"], k=1),
)  # fmt: skip


def told(call: Callable[[], Any]) -> str:
    """All that is shown: what comes back, or the error with all that led to it."""
    try:
        return repr(call())
    except Exception as error:
        # lines of code are the same whatever is given, and take most of the time to print
        return "".join(traceback.format_exception(error, limit=0))


def fails_after_the_row() -> None:
    try:
        raise ValueError(f"no such step: {USER}")
    except ValueError:
        raise CountonError("no such step")  # noqa: B904 - what is shown all the same


def test_told_contains_row_from_cause_of_error() -> None:
    assert USER in told(fails_after_the_row)


def check(called: Called) -> None:
    for place, call in called.wrong():
        text = told(call)
        shown = USER in text or str(PAID) in text or f"{PAID:,}" in text
        assert not shown, f"{place}: {text[-600:]}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_rows_in_the_place_of_another_argument_are_not_shown(name: str, tmp_path: Path) -> None:
    check(CALLS[name](str(tmp_path / "a.db")))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda each: type(each).__name__)
def test_counters_of_statistics_show_no_rows(statistic: Any) -> None:
    start = partial(RunningStatistic.start, statistic)
    check(Called(start, (7, PureDP(1)), KEPT))
    check(Called(partial(plan_statistic, statistic), (7, PureDP(1))))
    for method, batched in (("release", False), ("release_batch", True)):
        made = partial(start, 7, PureDP(1), **KEPT, batched=batched)
        # one group too many is an event in its own place: it is told, as any that is refused
        rows = [1] if isinstance(statistic, TopK) and batched else ()
        if not rows:
            check(Called(lambda x, made=made, m=method: getattr(made(), m)(x), ([1],)))


#: What a caller does not make: results and parts.
_MADE_HERE = (
    "Part", "Ranking", "StatisticResult", "StatisticResults", "RunningStatistic",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({*counton.statistics.__all__} - {*_MADE_HERE}))
def test_statistics_show_no_rows_given_as_parameters(name: str) -> None:
    kind = getattr(counton.statistics, name)
    if not isclass(kind):
        return
    named = {
        item.name: None if item.default is Parameter.empty else item.default
        for item in signature(kind).parameters.values()
        if item.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    # of moments a tuple is a list of columns and bounds, which are public
    check(Called(kind, (), named, skip=("columns",) if name == "Moments" else ()))


def test_swapped_rows_are_named_by_type(tmp_path: Path) -> None:
    swapped: Any = FRAME
    with pytest.raises(CountonError, match="what is a value of type DataFrame; give a statistic"):
        release(swapped, "count", state=tmp_path / "a.db")
    with pytest.raises(CountonError, match="guarantee is a value of type DataFrame"):
        Counter(Binary(7), swapped, **KEPT)
    with pytest.raises(CountonError, match="the job is a value of type DataFrame"):
        run(swapped)
    assert not (tmp_path / "a.db").exists()
