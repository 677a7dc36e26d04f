"""How many functions and files a reader has to follow through five calls, at most."""

from __future__ import annotations

import pytest

from tools.walk import CALLS, Walk, entered, walks

#: Functions and files that each call may enter. A change that enters more makes the path longer.
MOST = {
    "first_count": Walk(673, 93),
    "count_again": Walk(435, 82),
    "quantiles": Walk(738, 100),
    "table_once": Walk(688, 99),
    "command": Walk(847, 105),
}


@pytest.mark.slow
def test_calls_enter_no_more_functions_and_files() -> None:
    found = walks()
    assert list(found) == [call.__name__ for call in CALLS] == list(MOST)
    for name, walk in found.items():
        assert walk.functions <= MOST[name].functions, (name, walk)
        assert walk.files <= MOST[name].files, (name, walk)


def test_a_walk_counts_each_function_of_counton_once() -> None:
    from counton.base.lengths import days_in

    assert entered(lambda: [days_in("1d"), days_in("2w")]) == {("base/lengths.py", "days_in")}
    assert entered(lambda: sorted("ba")) == set()
