"""Every clause of methods, descriptions, `show` and pages is true of its release.

`tests/support/claims.py` has each sentence that may be said, and computes what it claims once more.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claims import (
    Truth,
    check_description,
    check_mechanism_line,
    check_promise_line,
    check_served,
    check_text,
    text_of_page,
)
from click.testing import CliRunner
from every_statistic import ONCE, OWN, TABLES, made

from counton.cli.app import app
from counton.job.saved_job import stream_name
from counton.run import Job, run
from counton.serve.public_series import Journal
from counton.state import Store

STATISTICS = {**OWN, **TABLES}
FORMS: dict[str, dict[str, Any]] = {
    "once": {}, "totals": {"series": "cumulative"}, "windows": {"series": "per-window"},
    "both": {"series": "both"}, "periods": {"series": "period-to-date"},
    "revised": {"allowed_lateness": "1h"},
    "endless": {"windows": None, "expected_windows": 6}, "expiring": {"windows": None,
    "expiring": True},
}  # fmt: skip
GUARANTEES: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 1}, "delta": {"epsilon": 1, "delta": "1e-6"}, "rho": {"rho": "0.5"},
}  # fmt: skip
#: Statistics that count users, and so have one unit.
OF_USERS = {"distinct": "user", "reach": "day"}


def is_possible(what: str, form: str, guarantee: str, unit: str) -> bool:
    if form == "once":
        return what in ONCE
    if form == "periods":
        return what == "reach"
    if (what, form) in (("distinct", "revised"), ("reach", "endless")):
        return False
    if form == "expiring":
        return guarantee != "delta" and what not in ("report", "reach")
    return True


def cases() -> Iterator[Any]:
    for what in STATISTICS:
        for form in FORMS:
            units = [OF_USERS[what]] if what in OF_USERS else ["event", "user"]
            for unit in units:
                if any(is_possible(what, form, guarantee, unit) for guarantee in GUARANTEES):
                    usual = what in ("count", "average", "contingency") and form != "both"
                    marks = () if usual else pytest.mark.long
                    yield pytest.param(what, form, unit, id=f"{what}, {form}, {unit}", marks=marks)


def job_of(what: str, form: str, guarantee: str, unit: str, folder: Path) -> Job:
    """A job of three windows, of which the strategy is chosen by a plan."""
    job = made(f"{what} once" if form == "once" else what, folder).derive(epsilon=None)
    options: dict[str, Any] = {**FORMS[form], **GUARANTEES[guarantee], "strategy": None}
    if unit == "user" and what != "distinct":
        options |= {"user": "user", "max_contributions": 2}
    if unit == "hour":
        options |= {"contribution_period": "1h", "at_least": "1"}
    return job.derive(**options, state=folder / f"{guarantee}.db")


@pytest.mark.parametrize(("what", "form", "unit"), [*cases()])
def test_every_clause_of_a_release_is_true(tmp_path: Path, what: str, form: str, unit: str) -> None:
    if (what, form) == ("reach", "revised"):  # whose users count anew in each window
        unit = "hour"
    for guarantee in GUARANTEES:
        if not is_possible(what, form, guarantee, unit):
            continue
        job = job_of(what, form, guarantee, unit, tmp_path)
        with run(job) as outcome:
            released = outcome.read()
            truth = Truth(job, released, form, guarantee, unit, lags=1 if form == "revised" else 0)
            assert check_text(released.methods(full=True), truth) >= (11 if form == "once" else 14)
            assert check_text(released.methods(), truth) >= 4
            description = released.describe()
            assert check_description(description, truth) >= 5
            page = text_of_page(released._repr_html_())
            assert page.startswith(description)
        shown = CliRunner().invoke(app, ["inspect", str(job.state)])
        assert shown.exit_code == 0, shown.output
        lines = shown.output.splitlines()
        (promise,) = (line for line in lines if line.startswith("Privacy: "))
        check_promise_line(promise, truth)
        mechanisms = [line for line in lines if line.startswith("Mechanism: ")]
        assert len(mechanisms) == (form != "once")
        for line in mechanisms:
            check_mechanism_line(line, truth)
        if form != "once":
            with Store(str(job.state)) as store:
                check_served(Journal(store, stream_name(job)).describe(), truth)


def test_count_by_group_has_groups_in_its_clauses(tmp_path: Path) -> None:
    job = job_of("count", "totals", "rho", "user", tmp_path).derive(
        group_by="page", groups="home,shop"
    )
    with run(job) as outcome:
        text = outcome.read().methods(full=True)
    assert "by page (2 declared groups)" in text
    assert "counted, each by at most 1. Neighbouring" in text


#: False clauses: what a true text says, and what is said in its place.
FALSE = {
    "Noise is independent over time: each window has noise of its own": "Noise is blue",
    "Laplace noise of scale": "Gaussian noise of scale",
    "changes the measurements by at most 1 (": "changes the measurements by at most 0.5 (",
    "noise of scale 1 and": "noise of scale 2 and",
    "standard deviation 1.357": "standard deviation 1.857",
    "for all releases of the stream together": "for each release of the stream by itself",
    "with epsilon = 1,": "with epsilon = 0.5,",
    "privacy loss is at most epsilon = 1": "privacy loss is at most epsilon = 0.9",
    "loses 100 times the epsilon": "loses 10 times the epsilon",
    "one event, counted in one window": "one person, counted in one window",
    "counted in one window by at most 1": "counted in one window by at most 2",
    "up to 6 windows": "up to 7 windows",
    "3 windows have been released": "4 windows have been released",
    " has the standard deviation 2.4 at": " has the standard deviation 3.4 at",
    "margin of error (95%) there is 5.0": "margin of error (95%) there is 4.0",
    "1.32 times the least of any mechanism": "1.02 times the least of any mechanism",
    "rows that arrive after their hour was released are not counted": "all rows count",
    "Not protected are: the parameters named here": "Protected are: the parameters named here",
    "and who chooses rows": "and who chooses no rows",
    "strategy                                       noise": "strategy: pink noise",
}


@pytest.mark.parametrize("true", FALSE)
def test_a_false_clause_is_not_taken_for_true(tmp_path: Path, true: str) -> None:
    with run(job_of("count", "totals", "epsilon", "event", tmp_path)) as outcome:
        released = outcome.read()
        text = released.methods(full=True)
        truth = Truth(outcome.job, released, "totals", "epsilon", "event")
        check_text(text, truth)
        assert true in text
        with pytest.raises(AssertionError, match=r"^(false|nobody knows)"):
            check_text(text.replace(true, FALSE[true]), truth)
