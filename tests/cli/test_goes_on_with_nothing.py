"""Every statistic with every option goes on with nothing but its events, state and until."""

import json
import re
from typing import Any

import pytest
from every_option import COMMON, ITS_OWN, TIMES, every, own_of, rows_of, stated_by, words_of

from counton.cli.command_text import command_of
from counton.job.common_options import Job
from counton.job.option_fields import EACH_RUN, names_in_scope
from counton.job.statistics import model_of
from counton.job.statistics.count import CountJob
from counton.statistics.catalogue import keywords

from .conftest import Workplace

#: Options of inputs that hold all rows of windows: `tests/run/test_whole_windows.py`.
OF_WHOLE = {"lookback", "append"}
ALONE = {*names_in_scope(CountJob, EACH_RUN)}


def test_cases_cover_every_option() -> None:
    assert {option for name in keywords() for option in own_of(name)} <= {*ITS_OWN}
    common = {option for said in (*COMMON, *ITS_OWN["count count_column"]) for option in said} - {
        "count_column"
    }
    stated = {*common, *TIMES, "epsilon", *OF_WHOLE, *ALONE}
    stated |= {"statistic", "stream", "state"}
    fields = {option for name in keywords() for option in model_of(name).model_fields}
    missing = {*Job.model_fields} - stated | fields - {*stated, *ITS_OWN}
    assert not missing, f"give {sorted(missing)} a value in tests/support/every_option.py"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own", "said"), every(0), ids=str)
def test_later_run_needs_only_state_and_stream(
    name: str, own: bool, said: dict[str, Any], place: Workplace
) -> None:
    stated = stated_by(name, said)
    events = place.folder / "e.csv"
    words = words_of(name, stated, place.folder)
    command = command_of(name).split()[1:]

    def night(until: str, *more: str) -> Any:
        words = (*command, str(events), *place.again, "--until", until, "--json", *more)
        done = place.by_file(*words)
        return done, json.loads(done.out) if done.code == 0 else None

    events.write_text(rows_of(stated, 3))
    begun, first = night("2024-03-01T03:00", *words)
    if begun.code and not own:  # what cannot be used with the statistic is refused
        assert not place.state.exists()
        return
    assert begun.code == 0, begun.err
    events.write_text(rows_of(stated, 5))
    done, alone = night("2024-03-01T05:00")
    assert done.code == 0, done.err
    assert alone["released"] > first["released"]
    done, repeated = night("2024-03-01T05:00", *words)
    assert done.code == 0, done.err
    # A night that counts nothing tells no names from the rows.
    alone = json.loads(re.sub(r" \(most often .*?\)", "", json.dumps(alone)))
    expected = {**alone, "new": 0, "not_private": without_new_windows(alone["not_private"])}
    for key in repeated:
        assert key == "warnings" or expected[key] == repeated[key], key


def without_new_windows(confidential: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a run over the same rows that has no new window."""
    beyond_limit = re.compile(r"rows of new windows beyond their user's limit, not counted: (\d+)")
    dropped = confidential["dropped"]
    notes = []
    for note in confidential["notes"]:
        if note.startswith("windows of a group without any readable row"):
            continue
        found = beyond_limit.fullmatch(note)
        if found is None:
            notes.append(note)
        else:
            dropped = dropped - int(found[1])
    return {**confidential, "dropped": dropped, "notes": notes}
