"""The code of other libraries on the page that compares runs where they are installed."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from programs import run_program

PAGE = (Path(__file__).parents[2] / "docs" / "research" / "comparison.md").read_text("utf-8")
FENCE = re.compile(r"^( *)```py\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PEERS = ("opendp", "jax_privacy")


def programs() -> list[str]:
    """Each block of code, as it would stand in a file."""
    found = FENCE.findall(PAGE)
    return ["\n".join(line[len(indent) :] for line in body.splitlines()) for indent, body in found]


def test_comparison_page_has_code_of_each_library() -> None:
    assert len(programs()) == 4
    assert all(any(f"{peer}" in program for program in programs()) for peer in PEERS)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_code_of_other_libraries_runs_as_page_states(number: int) -> None:
    program = programs()[number]
    for peer in PEERS:
        if f"{peer}." in program and find_spec(peer) is None:
            pytest.skip(f"{peer} is not installed")
    assert "assert " in program
    done = run_program([sys.executable, "-W", "ignore", "-c", program])
    assert done.returncode == 0, done.stderr
